//! `extant lab replay`: a trace on a drive, a response time for each of its requests.
use super::{failure, requests};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_lab::{observations, page, traces};
use extant_sim::replay::{Beyond, Pace, in_milliseconds};
use extant_sim::trace::Recognised;

pub use super::replay_options::Arguments;

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
    let options = traces::TraceOptions {
        format: arguments.format.recognised(),
        volume: arguments.volume.clone(),
        pace: arguments.pace.map(Pace::from),
        beyond: arguments.beyond.map(Beyond::from),
        seed: arguments.seed,
    };
    let input = traces::open(&arguments.trace).map_err(failure::refused)?;
    let format = options.format_of(&input);
    if let Recognised::Requests(format) = format {
        return requests::run(arguments, &spec, (format, input), &options, console);
    }
    if arguments.times.is_some() {
        return Err(failure::refused(traces::not_for_times("--times")));
    }
    let report = traces::replay_times(&spec, &arguments.trace, format, &options);
    let report = report.map_err(failure::refused)?;
    let trace = arguments.trace.display().to_string();
    let (times, measured_ns) = (&report.times_ns, report.measured_ns.as_deref());
    let changes = report.changes();
    arguments.page.write(|| page::of_replay(&spec.name, &trace, &changes, times, measured_ns))?;
    arguments.data.write(|| observations::of_replay(&spec.name, times, measured_ns))?;
    if console.is_json() {
        console.print(&report.to_json())?;
    } else {
        changes.iter().for_each(|line| console.warn(&format!("{trace}: {line}")));
        console.print(&in_milliseconds(times))?;
    }
    Ok(Exit::Complete)
}
