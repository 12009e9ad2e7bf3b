//! What a run gives: everything that was measured, with everything that decided it.
//!
//! # Schema
//! [`Report::to_json`] writes the fields of [`Report`] under their names, in their order; absent
//! values are `null`. Times are nanoseconds (`_ns`) of the clock, which starts at 0; sizes are
//! bytes; shares are thousandths (`_permille`). Numbers are integers, but for the facts of a drive
//! in `drives[].spec`, which are as in its file. `schema` is [`SCHEMA`]; fields are only ever
//! added under it. The same command gives the same bytes, except in real time (`time` is `real`).
//!
//! | field | what |
//! | --- | --- |
//! | `schema`, `model_version`, `scenario`, `line`, `seed`, `scale`, `time` | what ran; `scale` divides all counts |
//! | `elapsed_ns` | from the start to the end of the last process, closing included |
//! | `drives[]` | model, facts, fitted values, queue, sums over the run, latencies, `trace_hash`, and the trace if kept |
//! | `filesystems[]` | size, features, preset with every column, memory, and where things lay (`layouts[]`) |
//! | `processes[]` | start, end, and how long its calls took, by kind of call |
//! | `measures[]` | rows: steps in a row with the same `measure`, taken together; `traffic` is that of the drive meanwhile; copies of a process first together (`copy` is `null`), then each |
//! | `steps[]` | each step: time, traffic of its drive meanwhile (of all processes), work done, calls of getdents |
//! | `results[]` | figures that the scenario computes from the others, in millionths of their unit; absent where it computes none |
//! | `trace_hash` | over all drives: equal for equal runs |
//!
//! ```text
//! text           the report as tables
//! figures        sums of what drives, processes and layouts did
//! distribution   how long requests and calls took
//! ```
mod distribution;
mod figures;
mod text;

pub use distribution::Distribution;
pub use figures::{JournalFigures, LayoutFigures, PowerCutFigures, Traffic, Work};
pub use text::decimal;

use extant_chart::{Figure, Table};
use extant_sim::device::Activity;
use extant_sim::drive::file::DriveSpec;
use extant_sim::trace::TraceRecord;
use serde::{Deserialize, Serialize};

/// Names the schema.
pub const SCHEMA: &str = "extant-lab-report/1";
/// Rises when a model changes so that the same scenario gives other times.
pub const MODEL_VERSION: u32 = 2;

/// What a run gave.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// [`MODEL_VERSION`].
    pub model_version: u32,
    /// The scenario's name.
    pub scenario: String,
    /// One line about it.
    pub line: String,
    /// Its seed.
    pub seed: u64,
    /// What counts were divided by.
    pub scale: u64,
    /// Which time this is.
    pub time: TimeKind,
    /// From the start to the end.
    pub elapsed_ns: u64,
    /// Drives in the order of the file.
    pub drives: Vec<DriveReport>,
    /// File systems in the order of the file.
    pub filesystems: Vec<FilesystemReport>,
    /// Processes in the order of the file, copies in a row.
    pub processes: Vec<ProcessReport>,
    /// Rows, by process, in order of time; of several copies first all together.
    pub measures: Vec<Measure>,
    /// Steps, by process, in order of the file.
    pub steps: Vec<StepReport>,
    /// What the scenario computes from the rest, in the order of the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ResultRow>,
    /// In hexadecimal; empty of the host's own, `null` in JSON.
    #[serde(serialize_with = "hash_or_null")]
    pub trace_hash: String,
    /// What a page shows besides the tables; not in the JSON, and empty unless it was asked for.
    #[serde(skip)]
    pub figures: Vec<Figure>,
}

/// Which time a report speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeKind {
    /// That of the model.
    Virtual,
    /// That of the host.
    Real,
}

/// A drive and what it did.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DriveReport {
    /// Its name in the scenario.
    pub name: String,
    /// Its model with all facts; of the host's own, `None`.
    pub spec: Option<DriveSpec>,
    /// What is known of the model: "not validated" of a preset that nothing was measured on; `None`
    /// of a drive from a file, of which we know nothing.
    pub validation: Option<&'static str>,
    /// Which values were fitted rather than known.
    pub fitted: Vec<String>,
    /// Its size.
    pub bytes: u64,
    /// What a physical limit is computed from: the highest sustained rate.
    pub media_bytes_per_second: u64,
    /// And the shortest repositioning.
    pub least_seek_ns: u64,
    /// The order of the host's queue.
    pub elevator: String,
    /// Requests of each direction in it.
    pub requests: u32,
    /// The largest command.
    pub merge_bytes: u64,
    /// How long an idle device waits for more.
    pub plug_ns: u64,
    /// Sums over the run.
    #[serde(with = "figures::known")]
    pub traffic: Traffic,
    /// Requests before each that arrived, on average, in thousandths.
    pub queue_depth_mean_permille: u64,
    /// The most of them.
    pub queue_depth_max: u64,
    /// From submission to completion of reads.
    pub read_latency: Distribution,
    /// Of writes and flushes.
    pub write_latency: Distribution,
    /// In hexadecimal; empty of the host's own, `null` in JSON.
    #[serde(serialize_with = "hash_or_null")]
    pub trace_hash: String,
    /// What it did over time; not in the JSON, and empty of the host's own.
    #[serde(skip)]
    pub activity: Activity,
    /// Every command, when it was asked for: time, place, parts, and the queue's depth.
    pub trace: Option<Vec<TraceRecord>>,
}

impl DriveReport {
    /// Its model, and that nothing was measured on it where that is so.
    pub fn model_words(&self) -> String {
        match (&self.spec, self.validation) {
            (None, _) => "the host's".to_owned(),
            (Some(spec), Some(words)) => format!("{} ({words})", spec.name),
            (Some(spec), None) => spec.name.clone(),
        }
    }
}

/// A file system and what became of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FilesystemReport {
    /// Its name in the scenario.
    pub name: String,
    /// Its drive's name.
    pub drive: String,
    /// First byte on the drive.
    pub offset: u64,
    /// The image that it is a copy of.
    pub image: Option<String>,
    /// Its size.
    pub bytes: u64,
    /// Bytes of a block.
    pub block_size: u32,
    /// Groups.
    pub groups: u32,
    /// Inodes.
    pub inodes: u32,
    /// As dumpe2fs names them.
    pub features: Vec<String>,
    /// The words that name its policies.
    pub policies: String,
    /// The preset among them.
    pub preset: String,
    /// Every column with its choice.
    pub columns: Vec<Column>,
    /// Memory of its cache.
    pub memory_bytes: u64,
    /// Whether file data was kept.
    pub data: String,
    /// What went through its journal; `None` where nothing did.
    pub journal: Option<JournalFigures>,
    /// Free blocks in the end.
    pub free_blocks: u64,
    /// Free inodes in the end.
    pub free_inodes: u32,
    /// Where everything lay: before the first process, at each `survey`, and in the end.
    pub layouts: Vec<LayoutRecord>,
}

/// A column of the policies.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub column: String,
    /// What was chosen.
    pub choice: String,
}

/// Where everything lay at a time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LayoutRecord {
    /// `before`, `after`, or the label of a `survey`.
    pub when: String,
    /// When.
    pub at_ns: u64,
    /// What was found.
    pub layout: LayoutFigures,
}

/// A process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProcessReport {
    /// Its name in the scenario.
    pub name: String,
    /// Which of its copies.
    pub copy: u32,
    /// When it started.
    pub started_ns: u64,
    /// When it ended.
    pub ended_ns: u64,
    /// Its calls by kind, those that were made.
    pub calls: Vec<CallLatency>,
}

/// The kinds of calls, as reports name them.
pub const CALLS: [&str; 10] =
    ["open", "create", "make", "list", "stat", "read", "write", "change", "remove", "sync"];

/// How long calls of a kind took.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CallLatency {
    /// `open`, `create`, `read`, `write`, `stat`, `list`, `make`, `remove`, `change`, `sync`.
    pub call: String,
    /// How long.
    pub latency: Distribution,
    /// The time of each, in their order, where the scenario keeps them; else empty, and not in the
    /// JSON.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples_ns: Vec<u64>,
}

/// A row: steps in a row with the same `measure`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Measure {
    /// The process.
    pub process: String,
    /// Which of its copies; `None` of several: all of them together, from the first start to the
    /// last end.
    pub copy: Option<u32>,
    /// What the file calls it.
    pub measure: String,
    /// When the first of the steps began.
    pub started_ns: u64,
    /// How long they took together.
    pub elapsed_ns: u64,
    /// What the drive did meanwhile.
    #[serde(with = "figures::known")]
    pub traffic: Traffic,
    /// What they did together.
    pub work: Work,
}

/// A step. Of one within `repeat` or `until`, all its runs together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepReport {
    /// The process.
    pub process: String,
    /// Which of its copies.
    pub copy: u32,
    /// Its number in the process, from 1: `3`, and `3.1` for the first within it.
    pub number: String,
    /// Its kind.
    pub step: String,
    /// Its label.
    pub label: String,
    /// The row that it is part of.
    pub measure: Option<String>,
    /// How often it ran.
    pub runs: u64,
    /// When it began first.
    pub started_ns: u64,
    /// How long it took, all runs together.
    pub elapsed_ns: u64,
    /// What the drive did meanwhile, for whomever.
    #[serde(with = "figures::known")]
    pub traffic: Traffic,
    /// What it did.
    pub work: Work,
    /// Calls of getdents.
    pub calls: Vec<ListingCall>,
    /// What a power cut lost, where the step was one; else not in the JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<PowerCutFigures>,
}

/// A figure that a scenario computes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResultRow {
    /// Its name.
    pub name: String,
    /// The expression.
    pub value: String,
    /// What it is measured in: `""` of a plain number, `s`, `bytes`, `bytes/s` and the like.
    pub unit: String,
    /// The value in millionths; `None` when there is none.
    pub millionths: Option<i64>,
    /// Why there is none.
    pub reason: Option<String>,
}

/// A call of getdents.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ListingCall {
    /// Entries that it gave.
    pub entries: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// How long it took.
    pub elapsed_ns: u64,
}

/// A report as JSON, indented, with a line end.
pub(crate) fn json(report: &impl Serialize) -> String {
    let mut json = serde_json::to_string_pretty(report)
        .unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}"));
    json.push('\n');
    json
}

fn hash_or_null<S: serde::Serializer>(hash: &str, serializer: S) -> Result<S::Ok, S::Error> {
    Some(hash).filter(|hash| !hash.is_empty()).serialize(serializer)
}

impl Report {
    /// The models of its drives, each once, and that nothing was measured on one where that is so.
    pub fn drive_words(&self) -> String {
        let mut words: Vec<String> = self.drives.iter().map(DriveReport::model_words).collect();
        words.dedup();
        words.join(", ")
    }

    /// As JSON, indented, with a line end: see the schema above.
    pub fn to_json(&self) -> String {
        json(self)
    }

    /// As tables for people, in lines of at most `width` columns.
    pub fn to_text(&self, width: usize) -> String {
        text::render(self, width)
    }

    /// The tables of [`Report::to_text`], those that have a row.
    pub fn tables(&self) -> Vec<Table> {
        text::tables(self)
    }

    /// The result of that name.
    pub fn result(&self, name: &str) -> Option<&ResultRow> {
        self.results.iter().find(|result| result.name == name)
    }

    /// The row of that name; the first, of several.
    pub fn measure(&self, name: &str) -> Option<&Measure> {
        self.measures.iter().find(|measure| measure.measure == name)
    }

    /// The step with that label; the first, of several.
    pub fn step(&self, label: &str) -> Option<&StepReport> {
        self.steps.iter().find(|step| step.label == label)
    }
}
