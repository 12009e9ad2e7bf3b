//! A trace on a drive: a response time for each of its requests, or sums of traces of any length;
//! and which files a trace shows to be read.
//!
//! ```text
//! times      measured traces, and those of runs: each time
//! requests   traces of other systems, request by request: sums and distributions
//! touched    paths of what was read, in that order
//! ```
mod requests;
mod times;
mod touched;

pub use requests::{RequestsReport, replay_requests};
pub use times::{TimesReport, not_for_times, replay_times};
pub use touched::{Touched, touched};

use crate::refused::Refused;
use extant_archive::Decompressed;
use extant_sim::drive::presets;
use extant_sim::replay::{Beyond, Changed, Pace};
use extant_sim::trace::requests::RequestFormat;
use extant_sim::trace::{Recognised, START_BYTES, TraceError, recognise};
use serde::Serialize;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Bytes of a trace at hand.
const BUFFER_BYTES: usize = 1 << 20;

/// How a trace is replayed.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// How it is written; `None`: as its first bytes say.
    pub format: Option<Recognised>,
    /// Which volume, of a trace that mixes several.
    pub volume: Option<String>,
    /// When requests are issued; `None`: at their times.
    pub pace: Option<Pace>,
    /// What becomes of requests beyond the drive's end; `None`: what is usual for the format.
    pub beyond: Option<Beyond>,
    /// What is random in the drive comes from this.
    pub seed: u64,
}

impl Default for TraceOptions {
    fn default() -> TraceOptions {
        TraceOptions { format: None, volume: None, pace: None, beyond: None, seed: 1 }
    }
}

impl TraceOptions {
    /// The format that a trace is read in.
    pub fn format_of(&self, input: &Input) -> Recognised {
        // What fits none is wrong in the words of the first.
        self.format.or_else(|| recognise(&input.start)).unwrap_or(Recognised::Measured)
    }
}

/// The format of that name: `measured`, `disksim`, `blktrace`, or one of other systems; `None` of
/// `auto`.
///
/// # Errors
/// There is none; the names of all.
pub fn format(word: &str) -> Result<Option<Recognised>, Refused> {
    let requests = RequestFormat::NAMES.iter();
    let requests = requests.map(|(name, format)| (*name, Some(Recognised::Requests(*format))));
    let all = [
        ("auto", None),
        ("measured", Some(Recognised::Measured)),
        ("disksim", Some(Recognised::DiskSim)),
        ("blktrace", Some(Recognised::Blktrace)),
    ];
    let all: Vec<_> = all.into_iter().chain(requests).collect();
    let found = all.iter().find(|(name, _)| *name == word);
    found.map(|(_, format)| *format).ok_or_else(|| unknown("format", word, &names(&all)))
}

/// The pace of that name: `recorded`, `closed` or `full-speed`.
///
/// # Errors
/// There is none; the names of all.
pub fn pace(word: &str) -> Result<Pace, Refused> {
    let all = [("recorded", Pace::Recorded), ("closed", Pace::Closed)];
    let all = [all[0], all[1], ("full-speed", Pace::FullSpeed)];
    let found = all.iter().find(|(name, _)| *name == word);
    found.map(|(_, pace)| *pace).ok_or_else(|| unknown("pace", word, &names(&all)))
}

/// What becomes of requests beyond the drive's end, by its name: `move` or `wrap`.
///
/// # Errors
/// There is none; the names of all.
pub fn beyond(word: &str) -> Result<Beyond, Refused> {
    let all = [("move", Beyond::Moved), ("wrap", Beyond::Wrapped)];
    let found = all.iter().find(|(name, _)| *name == word);
    found.map(|(_, beyond)| *beyond).ok_or_else(|| unknown("beyond", word, &names(&all)))
}

fn names<T>(all: &[(&str, T)]) -> String {
    all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn unknown(what: &str, word: &str, known: &str) -> Refused {
    Refused::words(format!("{word}: no such {what}; there are {known}"))
}

/// The bytes of a trace, decompressed if it is compressed, with the first of them to look at.
pub struct Input {
    /// The first bytes, at most [`START_BYTES`].
    start: Vec<u8>,
    /// All of them.
    bytes: Box<dyn BufRead>,
}

/// Opens a trace.
///
/// # Errors
/// The host does not give it.
pub fn open(path: &Path) -> Result<Input, Refused> {
    let failed = |error: std::io::Error| Refused::host(path.display(), &error);
    let file = File::open(path).map_err(failed)?;
    let mut rest: Box<dyn BufRead> = match Decompressed::open(file).map_err(failed)? {
        Some(decompressed) => Box::new(decompressed),
        None => {
            let file = File::open(path).map_err(failed)?;
            Box::new(BufReader::with_capacity(BUFFER_BYTES, file))
        }
    };
    let mut start = Vec::new();
    rest.by_ref().take(START_BYTES as u64).read_to_end(&mut start).map_err(failed)?;
    let bytes = Box::new(std::io::Cursor::new(start.clone()).chain(rest));
    Ok(Input { start, bytes })
}

/// A drive's name, and that nothing was measured on it where that is so.
pub fn drive_words(drive: &str) -> String {
    match presets::standing(drive) {
        Some(words) => format!("{drive} ({words})"),
        None => drive.to_owned(),
    }
}

/// What a report calls it.
fn beyond_was(beyond: Beyond) -> &'static str {
    match beyond {
        Beyond::Moved => "moved",
        Beyond::Wrapped => "wrapped",
    }
}

/// What was changed of the requests, a line each; `beyond_was` is that of the report.
fn changes(changed: Changed, beyond_was: &str) -> Vec<String> {
    let became = match beyond_was {
        "wrapped" => "beyond the drive's end: folded into it",
        _ => "beyond the drive's end: moved to end there",
    };
    let counted = [
        (changed.beyond, became),
        (changed.cut, "longer than the drive: cut"),
        (changed.widened, "not of whole sectors of the drive: widened to all that they touch"),
    ];
    let counted = counted.into_iter().filter(|(count, _)| *count > 0);
    counted.map(|(count, words)| format!("requests {words}: {count}")).collect()
}

/// A trace without a request has nothing to say of a drive.
fn none_in(path: &Path) -> Refused {
    Refused::content(format!("{}: holds no request", path.display()))
}

/// What is wrong with a trace, with its file and line.
fn wrong(path: &Path, error: TraceError) -> Refused {
    let path = path.display();
    match error {
        TraceError::Line { line, reason } => Refused::content(format!("{path}:{line}: {reason}")),
        error @ (TraceError::Mixed { .. } | TraceError::NoSuchVolume { .. }) => {
            Refused::content(format!("{path}: {error}")).hint("--volume selects one of them")
        }
        TraceError::Input(error) => Refused::host(path, &error),
        error => Refused::content(format!("{path}: {error}")),
    }
}

/// A report as one line of JSON, the name of its schema first.
fn json_line(schema: &'static str, report: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Document<'a, T> {
        schema: &'static str,
        #[serde(flatten)]
        report: &'a T,
    }
    let text = serde_json::to_string(&Document { schema, report });
    text.unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}")) + "\n"
}
