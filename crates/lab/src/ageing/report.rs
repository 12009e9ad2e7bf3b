//! What ageing gave: for each list of policies a series of samples, one a month.
//!
//! # Schema
//! [`AgeingReport::to_json`] writes the fields under their names, in their order; absent values are
//! `null`. Times are virtual nanoseconds (`_ns`), sizes bytes, shares millionths (`_ppm`); all
//! numbers are integers. `metrics[]` says what can be drawn: the key of a sample's field (`key`,
//! with a point for fields of fields), its name, unit, and which way is better. `schema` is
//! [`SCHEMA`]; fields are only ever added under it. The same command gives the same bytes.
use crate::report::MODEL_VERSION;
use extant_sim::drive::presets;
use serde::{Deserialize, Serialize};

/// Names the schema.
pub const SCHEMA: &str = "extant-lab-ageing/1";

/// How large an experiment runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Seconds: a volume, and all counts with it, divided.
    Quick,
    /// The volume of the profile or experiment.
    Full,
}

/// What ageing gave.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AgeingReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`MODEL_VERSION`].
    pub model_version: u32,
    /// The experiment's name, or the profile's where none was named.
    pub name: String,
    /// One line about it.
    pub line: String,
    /// The profile.
    pub profile: ProfileFacts,
    /// Everything random comes from this.
    pub seed: u64,
    /// How large it ran.
    pub form: Form,
    /// The simulated drive on which samples are read, written and checked.
    pub drive: String,
    /// Size of the volume.
    pub volume_bytes: u64,
    /// Simulated days from one sample to the next.
    pub sample_days: u32,
    /// What the samples hold that can be drawn, in a sensible order; only what at least one sample
    /// holds.
    pub metrics: Vec<MetricFacts>,
    /// One for each list of policies, in the order in which they were named.
    pub series: Vec<Series>,
}

/// What a report says of its profile.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ProfileFacts {
    /// Its name.
    pub name: String,
    /// One line about it.
    pub line: String,
}

/// One list of policies over the months.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    /// What it is called: a word of the experiment, or the policies themselves.
    pub name: String,
    /// The policies: a preset, perhaps with columns changed.
    pub policies: String,
    /// Rising by day. The first is of the volume right after it was filled.
    pub samples: Vec<Sample>,
    /// Operations that found the volume full, over the whole run.
    pub refused: u64,
}

/// The volume at one time.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Simulated days since the volume was filled.
    pub day: u32,
    /// The same in months of 30 days, rounded down.
    pub month: u32,
    /// Operations on files since the beginning.
    pub operations: u64,
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Used blocks of those that files can have.
    pub utilisation_ppm: u64,
    /// Smith and Seltzer's layout score over all files; `None` when none has two blocks.
    pub layout_score_ppm: Option<u64>,
    /// Fragments per file with blocks, in thousandths.
    pub fragments_per_file_permille: u64,
    /// Files in more than one fragment.
    pub fragmented_files: u64,
    /// Names whose inode lies in their directory's group.
    pub same_group_ppm: Option<u64>,
    /// From a directory's first block to its files', on average.
    pub distance_blocks: Option<u64>,
    /// Free space.
    pub free: FreeFigures,
    /// Indirect blocks or nodes of extent trees.
    pub map_blocks: u64,
    /// Of the map blocks of groups with two or more, the share that lies in the 64th of the group
    /// that has most of them; `None` where there is no such group.
    pub map_clustering_ppm: Option<u64>,
    /// Conway's dynamic layout score: of the blocks that the cold scan asked of the drive, the
    /// share that lay right behind the one before.
    pub dynamic_layout_score_ppm: Option<u64>,
    /// Cold: whole directories, chosen by the seed, as `grep -r` reads them.
    pub scan: Option<Timing>,
    /// Cold: the newest files, in the order in which they were written.
    pub read_newest: Option<Timing>,
    /// Cold: the oldest files, the same way.
    pub read_oldest: Option<Timing>,
    /// New files of the profile's sizes written, and synced.
    pub write: Option<Timing>,
    /// A full check of the volume, cold.
    pub check: Option<Timing>,
}

/// How free space lies.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FreeFigures {
    /// Free blocks.
    pub blocks: u64,
    /// Runs of them.
    pub runs: u64,
    /// Blocks of a run on average, in thousandths.
    pub mean_run_permille: u64,
    /// Share of the free space in runs of at least 1 MiB.
    pub in_large_runs_ppm: u64,
    /// Runs by length, rising; lengths that none has are left out.
    pub histogram: Vec<FreeClass>,
}

/// Free runs of one class of lengths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FreeClass {
    /// At most this many blocks, and more than the class below: a power of two.
    pub blocks_max: u64,
    /// How many runs.
    pub runs: u64,
    /// Their blocks.
    pub blocks: u64,
}

/// Work on the simulated drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Timing {
    /// From its start to its end.
    pub elapsed_ns: u64,
    /// Files read or written; of a check, inodes in use.
    pub files: u64,
    /// Bytes of files read or written; of a check, bytes read from the drive.
    pub bytes: u64,
    /// Commands that the drive got.
    pub commands: u64,
    /// Commands that did not begin where the one before had ended.
    pub seeks: u64,
}

impl Timing {
    /// Bytes a second; 0 when no time passed.
    pub fn bytes_per_second(&self) -> u64 {
        let rate = u128::from(self.bytes) * 1_000_000_000 / u128::from(self.elapsed_ns.max(1));
        if self.elapsed_ns == 0 { 0 } else { u64::try_from(rate).unwrap_or(u64::MAX) }
    }
}

/// Which way a metric gets better.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// The more the better.
    Higher,
    /// The less the better.
    Lower,
    /// It is neither good nor bad.
    Neither,
}

/// Something of a sample that can be drawn over the months.
pub struct Metric {
    /// The field of the sample that it comes from.
    pub key: &'static str,
    /// A few words.
    pub name: &'static str,
    /// Of [`Metric::value`]; empty for shares and counts.
    pub unit: &'static str,
    /// Digits after the point that mean something.
    pub digits: u8,
    /// Which way is better.
    pub better: Better,
    /// Its value in `unit`: shares as parts of 1, times as seconds.
    pub value: fn(&Sample) -> Option<f64>,
}

/// A metric without its function, as JSON has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MetricFacts {
    /// [`Metric::key`].
    pub key: String,
    /// [`Metric::name`].
    pub name: String,
    /// [`Metric::unit`].
    pub unit: String,
    /// [`Metric::better`].
    pub better: Better,
}

fn share(ppm: Option<u64>) -> Option<f64> {
    ppm.map(|ppm| ppm as f64 / 1e6)
}

fn seconds(timing: Option<Timing>) -> Option<f64> {
    timing.map(|timing| timing.elapsed_ns as f64 / 1e9)
}

fn rate(timing: Option<Timing>) -> Option<f64> {
    timing.map(|timing| timing.bytes_per_second() as f64 / 1e6)
}

const fn metric(
    key: &'static str,
    name: &'static str,
    unit: &'static str,
    digits: u8,
    better: Better,
    value: fn(&Sample) -> Option<f64>,
) -> Metric {
    Metric { key, name, unit, digits, better, value }
}

/// All that can be drawn, in the order of tables and pages.
pub static METRICS: &[Metric] = &[
    metric("utilisation_ppm", "utilisation", "", 3, Better::Neither, |sample| {
        share(Some(sample.utilisation_ppm))
    }),
    metric("files", "files", "", 0, Better::Neither, |sample| Some(sample.files as f64)),
    metric("layout_score_ppm", "layout score", "", 4, Better::Higher, |sample| {
        share(sample.layout_score_ppm)
    }),
    metric("dynamic_layout_score_ppm", "dynamic layout score", "", 4, Better::Higher, |sample| {
        share(sample.dynamic_layout_score_ppm)
    }),
    metric("fragments_per_file_permille", "fragments a file", "", 2, Better::Lower, |sample| {
        Some(sample.fragments_per_file_permille as f64 / 1e3)
    }),
    metric("same_group_ppm", "in directory's group", "", 3, Better::Higher, |sample| {
        share(sample.same_group_ppm)
    }),
    metric("distance_blocks", "distance to directory", "blocks", 0, Better::Lower, |sample| {
        sample.distance_blocks.map(|blocks| blocks as f64)
    }),
    metric("free.mean_run_permille", "mean free run", "blocks", 1, Better::Higher, |sample| {
        Some(sample.free.mean_run_permille as f64 / 1e3)
    }),
    metric("free.in_large_runs_ppm", "free in runs of 1 MiB", "", 3, Better::Higher, |sample| {
        share(Some(sample.free.in_large_runs_ppm))
    }),
    metric("map_blocks", "map blocks", "", 0, Better::Neither, |sample| {
        Some(sample.map_blocks as f64)
    }),
    metric("map_clustering_ppm", "map blocks clustered", "", 3, Better::Higher, |sample| {
        share(sample.map_clustering_ppm)
    }),
    metric("scan", "scan", "MB/s", 2, Better::Higher, |sample| rate(sample.scan)),
    metric("read_newest", "read newest", "MB/s", 2, Better::Higher, |sample| {
        rate(sample.read_newest)
    }),
    metric("read_oldest", "read oldest", "MB/s", 2, Better::Higher, |sample| {
        rate(sample.read_oldest)
    }),
    metric("write", "write", "MB/s", 2, Better::Higher, |sample| rate(sample.write)),
    metric("check", "check", "s", 2, Better::Lower, |sample| seconds(sample.check)),
];

impl AgeingReport {
    /// A report without series.
    pub fn new(
        name: &str,
        line: &str,
        profile: ProfileFacts,
        seed: u64,
        form: Form,
    ) -> AgeingReport {
        AgeingReport {
            schema: SCHEMA.to_owned(),
            model_version: MODEL_VERSION,
            name: name.to_owned(),
            line: line.to_owned(),
            profile,
            seed,
            form,
            drive: String::new(),
            volume_bytes: 0,
            sample_days: 0,
            metrics: Vec::new(),
            series: Vec::new(),
        }
    }

    /// The drive's model, and that nothing was measured on it where that is so.
    pub fn drive_words(&self) -> String {
        match presets::standing(&self.drive) {
            Some(words) => format!("{} ({words})", self.drive),
            None => self.drive.clone(),
        }
    }

    /// Metrics of which at least one sample has a value.
    pub fn drawable(&self) -> impl Iterator<Item = &'static Metric> + '_ {
        let samples = || self.series.iter().flat_map(|series| &series.samples);
        METRICS
            .iter()
            .filter(move |metric| samples().any(|sample| (metric.value)(sample).is_some()))
    }

    /// Fills `metrics` from the samples.
    pub fn list_metrics(&mut self) {
        let facts = self.drawable().map(|metric| MetricFacts {
            key: metric.key.to_owned(),
            name: metric.name.to_owned(),
            unit: metric.unit.to_owned(),
            better: metric.better,
        });
        self.metrics = facts.collect();
    }

    /// One JSON document, with a line's end.
    pub fn to_json(&self) -> String {
        crate::report::json(self)
    }
}
