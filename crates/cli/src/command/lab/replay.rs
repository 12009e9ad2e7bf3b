//! `extant lab replay`: a trace on a drive, a response time for each of its requests.
use super::data::DataOption;
use super::failure;
use super::page::PageOption;
use crate::console::Console;
use crate::error::{Error, Exit};
use clap::ValueEnum;
use extant_lab::{observations, page};
use extant_sim::drive::file::DriveSpec;
use extant_sim::replay::{
    in_milliseconds, parse_validation_trace, replay, replay_at_recorded_times,
};
use extant_sim::trace::{self, TraceFormat};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// No trace is longer: it is read whole.
const TRACE_BYTES_MAX: u64 = 1 << 30;

/// Replay a trace on a drive: one response time in milliseconds a line, in the order of the trace.
///
/// A measured trace is a closed loop: each request is issued as long after the simulated end of the
/// one before as it came after the measured one. Traces of runs are replayed at the times that they
/// hold, in the order of arrival. Requests past the drive's last sector are moved to end there.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant lab replay --drive atlas10k.toml --trace atlas10k.trace > times && score.py \
  atlas10k.trace times
  extant lab replay --drive hdd-2022-20t --trace mine.trace --format disksim
  extant lab replay --drive ssd-sata --trace sda.blktrace.0 --format blktrace --json | jq \
  .mean_ms")]
pub struct Arguments {
    /// A built-in drive, or a file
    #[arg(long, value_name = "DRIVE")]
    pub drive: String,
    /// What is known of the drive's controller: tables `controller` and `bus` in DiskSim's words.
    /// Without it, of a drive's file DIR/NAME.toml, the file DIR/facts/NAME.toml where there is one
    #[arg(long, value_name = "FILE")]
    pub facts: Option<PathBuf>,
    /// The trace
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// How the trace is written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Measured)]
    pub format: Format,
    /// What is random in the drive comes from this; disks have nothing that is
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub seed: u64,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub page: PageOption,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub data: DataOption,
}

/// How a trace is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// `R Hit SECTOR SECTORS MICROSECONDS PAUSE` a line, as measured on a real drive: a closed loop
    Measured,
    /// DiskSim's ASCII, at its times
    Disksim,
    /// The kernel's block traces, at their times
    Blktrace,
}

#[derive(Serialize)]
struct Times<'a> {
    drive: &'a str,
    requests: usize,
    /// Means in milliseconds.
    mean_ms: Option<f64>,
    measured_mean_ms: Option<f64>,
    times_ns: &'a [u64],
}

/// Replays it. With `--json`: `{"drive": .., "requests": .., "mean_ms": .., "measured_mean_ms": ..,
/// "times_ns": [..]}`; the measured mean is `null` where the trace has no measured times.
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
    let (times, measured) = match arguments.format {
        Format::Measured => closed(&spec, arguments)?,
        Format::Disksim => (at_times(&spec, arguments, TraceFormat::DiskSim)?, None),
        Format::Blktrace => (at_times(&spec, arguments, TraceFormat::Blktrace)?, None),
    };
    let trace = arguments.trace.display().to_string();
    let measured_ns = measured.as_deref();
    arguments.page.write(|| page::of_replay(&spec.name, &trace, &times, measured_ns))?;
    arguments.data.write(|| observations::of_replay(&spec.name, &times, measured_ns))?;
    if !console.is_json() {
        console.print(&in_milliseconds(&times))?;
        return Ok(Exit::Complete);
    }
    console.print_json(&Times {
        drive: &spec.name,
        requests: times.len(),
        mean_ms: mean_ms(&times),
        measured_mean_ms: measured.as_deref().and_then(mean_ms),
        times_ns: &times,
    })?;
    Ok(Exit::Complete)
}

fn mean_ms(times: &[u64]) -> Option<f64> {
    let sum: u128 = times.iter().map(|time| u128::from(*time)).sum();
    (!times.is_empty()).then(|| sum as f64 / times.len() as f64 / 1e6)
}

fn closed(spec: &DriveSpec, arguments: &Arguments) -> Result<(Vec<u64>, Option<Vec<u64>>), Error> {
    let path = &arguments.trace;
    let bytes = failure::contents(path, TRACE_BYTES_MAX)?;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let line =
            1 + bytes.iter().take(error.valid_up_to()).filter(|byte| **byte == b'\n').count();
        Error::new(format!("{}:{line}: is not text", path.display())).hint(OTHER_FORMATS)
    })?;
    let lines = parse_validation_trace(text)
        .map_err(|error| wrong(path, error.line, &error.reason).hint(OTHER_FORMATS))?;
    let times = replay(spec.build(arguments.seed).as_mut(), &lines);
    Ok((times, Some(lines.iter().map(|line| line.measured_ns).collect())))
}

const OTHER_FORMATS: &str = "traces of runs need --format disksim or --format blktrace";

fn wrong(path: &Path, line: usize, reason: &str) -> Error {
    Error::new(format!("{}:{line}: {reason}", path.display()))
}

fn at_times(
    spec: &DriveSpec,
    arguments: &Arguments,
    format: TraceFormat,
) -> Result<Vec<u64>, Error> {
    let path = &arguments.trace;
    let bytes = failure::contents(path, TRACE_BYTES_MAX)?;
    let records = trace::read(format, &bytes).map_err(|error| match error {
        trace::TraceError::Line { line, reason } => wrong(path, line, &reason),
        error => Error::new(format!("{}: {error}", path.display())),
    })?;
    Ok(replay_at_recorded_times(spec.build(arguments.seed).as_mut(), &records))
}
