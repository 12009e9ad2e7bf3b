//! `extant lab replay`: a trace on a drive, a response time for each of its requests.
use super::{failure, requests};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_lab::{observations, page};
use extant_sim::drive::file::DriveSpec;
use extant_sim::replay::{
    Beyond, Timed, in_milliseconds, parse_validation_trace, replay, replay_at_recorded_times,
};
use extant_sim::trace::{self, Recognised, TraceFormat};
use serde::Serialize;
use std::path::Path;

pub use super::replay_options::Arguments;

/// No trace is longer: it is read whole.
const TRACE_BYTES_MAX: u64 = 1 << 30;

#[derive(Serialize)]
struct Times<'a> {
    drive: &'a str,
    requests: usize,
    /// Means in milliseconds.
    mean_ms: Option<f64>,
    measured_mean_ms: Option<f64>,
    /// Requests that were changed, and how those beyond the drive's end were.
    beyond: u64,
    beyond_was: &'static str,
    cut: u64,
    widened: u64,
    times_ns: &'a [u64],
}

/// Replays it. With `--json`: `{"drive": .., "requests": .., "mean_ms": .., "measured_mean_ms": ..,
/// "beyond": .., "beyond_was": "moved", "cut": .., "widened": .., "times_ns": [..]}`; the measured
/// mean is `null` where the trace has no measured times.
pub fn run(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    arguments.page.check()?;
    arguments.data.check()?;
    let spec = match &arguments.facts {
        Some(facts) => failure::drive_with_facts(&arguments.drive, facts)?,
        None => failure::drive(&arguments.drive)?,
    };
    if let Some(facts) = spec.facts.as_ref().filter(|_| arguments.facts.is_none()) {
        console.warn(&format!("{}: with the facts in {facts}", spec.name));
    }
    let input = requests::open(&arguments.trace)?;
    let format = arguments.format.of(&input.start);
    if let Recognised::Requests(format) = format {
        return requests::run(arguments, &spec, (format, input), console);
    }
    refuse_others(arguments)?;
    let (Timed { times_ns: times, changed }, measured) = match format {
        Recognised::DiskSim => (at_times(&spec, arguments, TraceFormat::DiskSim)?, None),
        Recognised::Blktrace => (at_times(&spec, arguments, TraceFormat::Blktrace)?, None),
        _ => closed(&spec, arguments)?,
    };
    if times.is_empty() {
        return Err(requests::none_in(&arguments.trace));
    }
    let trace = arguments.trace.display().to_string();
    let measured_ns = measured.as_deref();
    let beyond_was = requests::beyond_was(beyond(arguments));
    let changes = requests::changes(changed, beyond_was);
    arguments.page.write(|| page::of_replay(&spec.name, &trace, &changes, &times, measured_ns))?;
    arguments.data.write(|| observations::of_replay(&spec.name, &times, measured_ns))?;
    if !console.is_json() {
        changes.iter().for_each(|line| console.warn(&format!("{trace}: {line}")));
        console.print(&in_milliseconds(&times))?;
        return Ok(Exit::Complete);
    }
    console.print_json(
        "extant-lab-replay-times/1",
        &Times {
            drive: &spec.name,
            requests: times.len(),
            mean_ms: mean_ms(&times),
            measured_mean_ms: measured.as_deref().and_then(mean_ms),
            beyond: changed.beyond,
            beyond_was,
            cut: changed.cut,
            widened: changed.widened,
            times_ns: &times,
        },
    )?;
    Ok(Exit::Complete)
}

/// Options that speak of traces of other systems.
fn refuse_others(arguments: &Arguments) -> Result<(), Error> {
    let given = [
        ("--volume", arguments.volume.is_some()),
        ("--pace", arguments.pace.is_some()),
        ("--times", arguments.times.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => Err(Error::usage(format!(
            "{option}: is for traces of other systems, not for measured, disksim and blktrace"
        ))
        .hint("measured is replayed as closed, the others as recorded; times are printed")),
    }
}

fn mean_ms(times: &[u64]) -> Option<f64> {
    let sum: u128 = times.iter().map(|time| u128::from(*time)).sum();
    (!times.is_empty()).then(|| sum as f64 / times.len() as f64 / 1e6)
}

fn beyond(arguments: &Arguments) -> Beyond {
    arguments.beyond.map_or(Beyond::Moved, Beyond::from)
}

fn closed(spec: &DriveSpec, arguments: &Arguments) -> Result<(Timed, Option<Vec<u64>>), Error> {
    let path = &arguments.trace;
    let bytes = failure::contents(path, TRACE_BYTES_MAX)?;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let line =
            1 + bytes.iter().take(error.valid_up_to()).filter(|byte| **byte == b'\n').count();
        Error::new(format!("{}:{line}: is not text", path.display())).hint(OTHER_FORMATS)
    })?;
    let lines = parse_validation_trace(text)
        .map_err(|error| wrong(path, error.line, &error.reason).hint(OTHER_FORMATS))?;
    let timed = replay(spec.build(arguments.seed).as_mut(), &lines, beyond(arguments));
    Ok((timed, Some(lines.iter().map(|line| line.measured_ns).collect())))
}

const OTHER_FORMATS: &str = "--format names the format where the first bytes do not show it";

fn wrong(path: &Path, line: usize, reason: &str) -> Error {
    Error::new(format!("{}:{line}: {reason}", path.display()))
}

fn at_times(spec: &DriveSpec, arguments: &Arguments, format: TraceFormat) -> Result<Timed, Error> {
    let path = &arguments.trace;
    let bytes = failure::contents(path, TRACE_BYTES_MAX)?;
    let records = trace::read(format, &bytes).map_err(|error| match error {
        trace::TraceError::Line { line, reason } => wrong(path, line, &reason),
        error => Error::new(format!("{}: {error}", path.display())),
    })?;
    let mut drive = spec.build(arguments.seed);
    Ok(replay_at_recorded_times(drive.as_mut(), &records, beyond(arguments)))
}
