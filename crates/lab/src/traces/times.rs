//! Traces whose every response time is told: measured ones, a closed loop, and those of runs, at
//! the times that they hold.
use super::{Recognised, TraceOptions, beyond_was, changes, json_line, none_in, wrong};
use crate::asked;
use crate::refused::Refused;
use extant_sim::drive::file::DriveSpec;
use extant_sim::replay::{
    Beyond, Changed, Timed, parse_validation_trace, replay, replay_at_recorded_times,
};
use extant_sim::trace::{self, TraceFormat};
use serde::Serialize;
use std::path::Path;

/// No trace is longer: it is read whole.
const TRACE_BYTES_MAX: u64 = 1 << 30;
const SCHEMA: &str = "extant-lab-replay-times/1";
const OTHER_FORMATS: &str = "--format names the format where the first bytes do not show it";

/// What a replay gave.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TimesReport {
    /// The drive's name.
    pub drive: String,
    /// How many there are.
    pub requests: usize,
    /// The mean of their times, in milliseconds.
    pub mean_ms: Option<f64>,
    /// The mean of the measured times, in milliseconds, where the trace has them.
    pub measured_mean_ms: Option<f64>,
    /// Requests beyond the drive's end.
    pub beyond: u64,
    /// What became of them: `moved` or `wrapped`.
    pub beyond_was: &'static str,
    /// Requests that were longer than the drive.
    pub cut: u64,
    /// Requests that were not of whole sectors.
    pub widened: u64,
    /// The time of each in nanoseconds, in the order of the trace.
    pub times_ns: Vec<u64>,
    /// The measured ones, where the trace has them. Not in the JSON.
    #[serde(skip)]
    pub measured_ns: Option<Vec<u64>>,
}

impl TimesReport {
    /// As one line of JSON, with a line end.
    pub fn to_json(&self) -> String {
        json_line(SCHEMA, self)
    }

    /// What was changed of the requests, a line each.
    pub fn changes(&self) -> Vec<String> {
        let TimesReport { beyond, cut, widened, .. } = *self;
        changes(Changed { beyond, cut, widened }, self.beyond_was)
    }
}

/// Replays a trace of `format`, which is no [`Recognised::Requests`].
///
/// # Errors
/// One line: what is wrong with the trace, or with options that are not for such traces.
pub fn replay_times(
    spec: &DriveSpec,
    path: &Path,
    format: Recognised,
    options: &TraceOptions,
) -> Result<TimesReport, Refused> {
    refuse_others(options)?;
    let beyond = options.beyond.unwrap_or(Beyond::Moved);
    let run = |format| at_times(spec, path, format, (options.seed, beyond));
    let (timed, measured_ns) = match format {
        Recognised::DiskSim => (run(TraceFormat::DiskSim)?, None),
        Recognised::Blktrace => (run(TraceFormat::Blktrace)?, None),
        _ => closed(spec, path, (options.seed, beyond))?,
    };
    let Timed { times_ns, changed } = timed;
    if times_ns.is_empty() {
        return Err(none_in(path));
    }
    Ok(TimesReport {
        drive: spec.name.clone(),
        requests: times_ns.len(),
        mean_ms: mean_ms(&times_ns),
        measured_mean_ms: measured_ns.as_deref().and_then(mean_ms),
        beyond: changed.beyond,
        beyond_was: beyond_was(beyond),
        cut: changed.cut,
        widened: changed.widened,
        times_ns,
        measured_ns,
    })
}

/// Options that speak of traces of other systems.
fn refuse_others(options: &TraceOptions) -> Result<(), Refused> {
    let given = [("--volume", options.volume.is_some()), ("--pace", options.pace.is_some())];
    let given = given.into_iter().find(|(_, is_given)| *is_given);
    given.map_or(Ok(()), |(option, _)| Err(not_for_times(option)))
}

/// An option, by its name, that means nothing for traces whose times are told one by one.
pub fn not_for_times(option: &str) -> Refused {
    Refused::words(format!(
        "{option}: is for traces of other systems, not for measured, disksim and blktrace"
    ))
    .hint("measured is replayed as closed, the others as recorded; times are printed")
}

fn mean_ms(times: &[u64]) -> Option<f64> {
    let sum: u128 = times.iter().map(|time| u128::from(*time)).sum();
    (!times.is_empty()).then(|| sum as f64 / times.len() as f64 / 1e6)
}

fn closed(
    spec: &DriveSpec,
    path: &Path,
    (seed, beyond): (u64, Beyond),
) -> Result<(Timed, Option<Vec<u64>>), Refused> {
    let bytes = asked::contents(path, TRACE_BYTES_MAX)?;
    let at_line = |line: usize, reason: &str| {
        Refused::content(format!("{}:{line}: {reason}", path.display())).hint(OTHER_FORMATS)
    };
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let before = bytes.iter().take(error.valid_up_to());
        at_line(1 + before.filter(|byte| **byte == b'\n').count(), "is not text")
    })?;
    let lines = parse_validation_trace(text).map_err(|error| at_line(error.line, &error.reason))?;
    let timed = replay(spec.build(seed).as_mut(), &lines, beyond);
    Ok((timed, Some(lines.iter().map(|line| line.measured_ns).collect())))
}

fn at_times(
    spec: &DriveSpec,
    path: &Path,
    format: TraceFormat,
    (seed, beyond): (u64, Beyond),
) -> Result<Timed, Refused> {
    let bytes = asked::contents(path, TRACE_BYTES_MAX)?;
    let records = trace::read(format, &bytes).map_err(|error| wrong(path, error))?;
    Ok(replay_at_recorded_times(spec.build(seed).as_mut(), &records, beyond))
}
