//! A trace of another system on a drive, request by request: sums and distributions, for traces of
//! any length.
use super::{Input, TraceOptions, beyond_was, changes, json_line, none_in, wrong};
use crate::refused::Refused;
use crate::report::Distribution;
use crate::wanted::{UNWANTED, Wanted};
use extant_sim::drive::file::DriveSpec;
use extant_sim::drive::presets;
use extant_sim::replay::{self, Answered, Beyond, Changed, Pace};
use extant_sim::trace::TraceError;
use extant_sim::trace::requests::{RequestFormat, RequestReader};
use serde::Serialize;
use std::io;
use std::path::Path;

const SCHEMA: &str = "extant-lab-replay/1";

/// What a replay gave.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RequestsReport {
    /// The drive's name.
    pub drive: String,
    /// That nothing was measured on it, where that is so.
    pub validation: Option<&'static str>,
    /// The format's name.
    pub format: &'static str,
    /// The volume, empty where the trace has one.
    pub volume: String,
    /// When requests were issued.
    pub pace: &'static str,
    /// Requests that were replayed.
    pub requests: u64,
    /// Of these, reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Requests of other volumes, left out.
    pub others: u64,
    /// Lines that move no data, left out.
    pub left_out: u64,
    /// Requests that stand after later ones.
    pub late: u64,
    /// Requests beyond the drive's end.
    pub beyond: u64,
    /// What became of them: `moved` or `wrapped`.
    pub beyond_was: &'static str,
    /// Requests that were longer than the drive.
    pub cut: u64,
    /// Requests that were not of whole sectors.
    pub widened: u64,
    /// When the last one ended, in nanoseconds from the start.
    pub elapsed_ns: u64,
    /// How long they took on the drive.
    pub times: Distribution,
    /// How long they took where they were traced, where that is known.
    pub measured: Option<Distribution>,
    /// What a reader has to know of the format.
    pub notes: Vec<&'static str>,
}

impl RequestsReport {
    /// As one line of JSON, with a line end.
    pub fn to_json(&self) -> String {
        json_line(SCHEMA, self)
    }

    /// What was changed of the requests, a line each.
    pub fn changes(&self) -> Vec<String> {
        let RequestsReport { beyond, cut, widened, .. } = *self;
        changes(Changed { beyond, cut, widened }, self.beyond_was)
    }
}

/// Replays it while it is wanted; `each` is told of each request that ended.
///
/// # Errors
/// One line: what is wrong with the trace, or that it holds no request.
pub fn replay_requests(
    spec: &DriveSpec,
    path: &Path,
    (format, input): (RequestFormat, Input),
    options: &TraceOptions,
    wanted: &Wanted,
    each: &mut dyn FnMut(Answered),
) -> Result<RequestsReport, Refused> {
    let beyond = options.beyond.unwrap_or(match format {
        // Numbers of objects are no places: one place for all of them would mean nothing.
        RequestFormat::OracleGeneral => Beyond::Wrapped,
        _ => Beyond::Moved,
    });
    let pace = options.pace.unwrap_or(Pace::Recorded);
    let mut reader = RequestReader::new(input.bytes, format, options.volume.as_deref());
    let mut next = || match wanted.is_wanted() {
        true => reader.next_request(),
        false => Err(TraceError::Input(io::Error::new(io::ErrorKind::Interrupted, UNWANTED))),
    };
    let mut drive = spec.build(options.seed);
    let replayed = replay::replay_requests(drive.as_mut(), &mut next, (pace, beyond), each)
        .map_err(|error| wrong(path, error))?;
    if replayed.requests == 0 {
        return Err(none_in(path));
    }
    let counts = reader.counts();
    let measured = Distribution::from(&replayed.measured);
    Ok(RequestsReport {
        drive: spec.name.clone(),
        validation: presets::standing(&spec.name),
        format: format.name(),
        volume: reader.volume(),
        pace: match pace {
            Pace::Recorded => "recorded",
            Pace::Closed => "closed",
            Pace::FullSpeed => "full-speed",
        },
        requests: replayed.requests,
        reads: replayed.reads,
        writes: replayed.writes,
        flushes: replayed.flushes,
        bytes_read: replayed.bytes_read,
        bytes_written: replayed.bytes_written,
        others: counts.others,
        left_out: counts.left_out,
        late: counts.late,
        beyond: replayed.changed.beyond,
        beyond_was: beyond_was(beyond),
        cut: replayed.changed.cut,
        widened: replayed.changed.widened,
        elapsed_ns: replayed.ended_ns,
        times: Distribution::from(&replayed.times),
        measured: Some(measured).filter(|measured| measured.count > 0),
        notes: reader.notes(),
    })
}
