//! How long a program takes and how much memory, and tables of that: interleaved rounds, medians,
//! ratios.
//!
//! The speed of a machine drifts while it is measured, so contenders take turns, and a ratio is
//! formed within a round before the median of the rounds is taken.

use std::io::IsTerminal;
use std::process::{Command, Stdio};

use rustix::time::{ClockId, clock_gettime};

use crate::command::{self, find, program};
use crate::scratch::Scratch;
use crate::sheet::Sheet;

/// One run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// From start to end, what was to be flushed included.
    pub seconds: f64,
    /// What the processors spent on it, in seconds; where `time` is installed.
    pub processor_seconds: Option<f64>,
    /// The largest memory of one of its processes, in KiB; where `time` is installed.
    pub peak_kib: Option<u64>,
}

/// Seconds since some point in the past.
pub fn seconds_now() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Runs `words` (a shell's words if the first is `sh`), then `flush`, and measures both together.
///
/// # Errors
/// The program fails: what it said.
pub fn measure(
    words: &[String],
    flush: impl FnOnce() -> Result<(), String>,
) -> Result<Measured, String> {
    let notes = Scratch::new("extant-time");
    let note = notes.join("peak");
    let (tool, rest) = words.split_first().ok_or("no words")?;
    let mut command = match find("time") {
        Some(_) => {
            let mut command = program("time");
            command
                .args(["-f", "%M %U %S", "-o"])
                .arg(&note)
                .arg(find(tool).unwrap_or_else(|| tool.into()));
            command
        }
        None => program(tool),
    };
    command.args(rest);
    let start = seconds_now();
    run_quietly(&mut command)?;
    flush()?;
    let seconds = seconds_now() - start;
    let note = std::fs::read_to_string(&note).unwrap_or_default();
    let fields: Vec<f64> = note
        .lines()
        .last()
        .map(|line| line.split_whitespace().filter_map(|field| field.parse().ok()).collect())
        .unwrap_or_default();
    let (peak_kib, processor_seconds) = match fields[..] {
        [peak, user, system] => (Some(peak as u64), Some(user + system)),
        _ => (None, None),
    };
    Ok(Measured { seconds, processor_seconds, peak_kib })
}

fn run_quietly(command: &mut Command) -> Result<(), String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command::output(command).map(|_| ())
}

/// What takes its turn in every round.
pub struct Contender<'a> {
    /// What the table calls it.
    pub name: String,
    /// Undoes the last run and prepares the next; not measured.
    pub prepare: Box<dyn Fn() -> Result<(), String> + 'a>,
    /// One run.
    pub run: Box<dyn Fn() -> Result<Measured, String> + 'a>,
}

/// The runs of one contender, a round each; or why there are none.
#[derive(Clone, Debug)]
struct Row {
    name: String,
    runs: Vec<Measured>,
    failure: Option<String>,
}

/// Lets all contenders take turns for `rounds` rounds and prints the table; ratios are to the first
/// of them.
///
/// # Errors
/// The first contender, to which all are compared, fails.
pub fn race(
    sheet: &mut Sheet,
    title: &str,
    contenders: &[Contender<'_>],
    rounds: usize,
) -> Result<(), String> {
    let row = |contender: &Contender<'_>| Row {
        name: contender.name.clone(),
        runs: Vec::new(),
        failure: None,
    };
    let is_watched = std::io::stderr().is_terminal();
    let mut rows: Vec<Row> = contenders.iter().map(row).collect();
    for round in 1..=rounds {
        for (contender, row) in
            contenders.iter().zip(&mut rows).filter(|(_, row)| row.failure.is_none())
        {
            if is_watched {
                eprint!("\r\x1b[K{title}: round {round}, {}", contender.name);
            }
            match (contender.prepare)().and_then(|()| (contender.run)()) {
                Ok(measured) => row.runs.push(measured),
                Err(failure) => row.failure = Some(failure),
            }
        }
    }
    if is_watched {
        eprint!("\r\x1b[K");
    }
    print_table(sheet, title, &rows);
    match rows.first().and_then(|row| row.failure.clone()) {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

fn print_table(sheet: &mut Sheet, title: &str, rows: &[Row]) {
    sheet.say(&format!("\n{title}\n"));
    sheet.say(&format!(
        "| {:<34} | {:>7} | {:>9} | {:>17} | {:>9} | {:>9} |",
        "", "ratio", "median", "from .. to", "processor", "memory"
    ));
    sheet.say(&format!(
        "| {:-<34} | {:->7} | {:->9} | {:->17} | {:->9} | {:->9} |",
        "", ":", ":", ":", ":", ":"
    ));
    for row in rows {
        sheet.say(&match &row.failure {
            Some(failure) => {
                format!("| {:<34} | failed: {} |", row.name, failure.lines().next().unwrap_or(""))
            }
            None => table_line(row, &rows[0]),
        });
    }
}

fn table_line(row: &Row, first: &Row) -> String {
    let seconds: Vec<f64> = row.runs.iter().map(|run| run.seconds).collect();
    let ratios = row.runs.iter().zip(&first.runs).map(|(run, base)| run.seconds / base.seconds);
    let (low, high) =
        seconds.iter().fold((f64::MAX, 0.0f64), |(low, high), run| (low.min(*run), high.max(*run)));
    let peak = row.runs.iter().filter_map(|run| run.peak_kib).max();
    let memory = peak.map_or_else(|| "-".into(), |kib| format!("{:.0} MiB", kib as f64 / 1024.0));
    let spent: Vec<f64> = row.runs.iter().filter_map(|run| run.processor_seconds).collect();
    let processor = if spent.is_empty() { "-".into() } else { format!("{:.2} s", median(spent)) };
    let ratio = format!("{:.2}", median(ratios.collect()));
    let span = format!("{low:.2} .. {high:.2} s");
    format!(
        "| {:<34} | {ratio:>7} | {:>7.2} s | {span:>17} | {processor:>9} | {memory:>9} |",
        row.name,
        median(seconds)
    )
}

/// The middle of `values`, or the mean of the two in the middle; 0 of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match (values.len(), values.len() / 2) {
        (0, _) => 0.0,
        (length, middle) if length % 2 == 0 => (values[middle - 1] + values[middle]) / 2.0,
        (_, middle) => values[middle],
    }
}

/// The machine in one line: numbers from different machines are not compared.
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':'))
            .map_or("?".into(), |(_, value)| value.trim().to_owned())
    };
    let processor = read("/proc/cpuinfo");
    let cores = processor.lines().filter(|line| line.starts_with("processor")).count();
    let memory_kib: u64 =
        field(&read("/proc/meminfo"), "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0);
    let kernel = read("/proc/sys/kernel/osrelease");
    let model = field(&processor, "model name");
    format!("{model}, {cores} cores, {} GiB, Linux {}", memory_kib >> 20, kernel.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![]), 0.0);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn ratios_are_formed_within_a_round() {
        let row = |seconds: [f64; 3]| Row {
            name: "x".into(),
            runs: seconds
                .iter()
                .map(|seconds| Measured {
                    seconds: *seconds,
                    processor_seconds: Some(0.5),
                    peak_kib: Some(2048),
                })
                .collect(),
            failure: None,
        };
        // The machine got slower by a factor; the ratio did not.
        let line = table_line(&row([2.0, 4.0, 8.0]), &row([1.0, 2.0, 4.0]));
        assert!(
            line.contains("|    2.00 |")
                && line.contains("4.00 s")
                && line.contains("2.00 .. 8.00 s"),
            "{line}"
        );
        assert!(line.contains("2 MiB"), "{line}");
    }

    #[test]
    fn a_program_that_fails_is_no_measurement() {
        let words = |text: &str| ["sh", "-c", text].map(String::from);
        assert!(measure(&words("exit 3"), || Ok(())).is_err());
        assert!(measure(&words("exit 0"), || Err("not flushed".into())).is_err());
        let measured = measure(&words("exit 0"), || Ok(())).expect("nothing to fail");
        assert!(measured.seconds > 0.0 && measured.seconds < 60.0);
    }
}
