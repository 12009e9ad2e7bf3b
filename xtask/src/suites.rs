//! `xtask suites`: runs the tests, and says what each crate's took beside its budget.
//!
//! The budgets are no assertion: a busy machine makes no test fail. They are a promise about `make
//! test` on two quiet cores, so that a suite that grows is seen when it does and not when the sum
//! is too much. What is slow and seldom breaks takes more rounds in `make test-all` and `make
//! test-night`.
//!
//! A test that was skipped is a row of the table, with what it lacked; at the gate it is an error,
//! but for what `testkit::skips` knows to be missing.
//!
//! A test that failed is told again at the end, with the first lines of what it said: of a long run
//! often only the end is kept.
//!
//! A test that hangs is told by name, and ends the run: some hang in the kernel, where nothing can
//! end them, and a gate that only runs out of its time says nothing of where.

use std::io::{BufRead, BufReader};
use std::num::NonZero;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use extant_testkit::skips::{Skipped, skipped_by};
use extant_testkit::variables::{BUDGETS, Level, VARIABLES};

use crate::command::{is_gate, program};
use crate::measure::seconds_now;

/// What a crate without a row may take.
const BUDGET_OF_OTHERS: u32 = 15;

/// A run that says nothing for so long hangs. The longest compilation and the longest test say
/// something after a third of it, on a machine that has more to do.
const SILENCE: Duration = Duration::from_secs(15 * 60);

/// Runs its words with the signals that a shell ignores in what it starts in the background: tests
/// send them, and would wait forever.
const SCRIPT: &str = "if env --default-signal true 2>/dev/null; then set -- env --default-signal \
    \"$@\"; fi; exec \"$@\" 2>&1";

/// `suites [--level test|all|night] [WORD..]`: `cargo test --no-fail-fast WORD..` with the values
/// of [`VARIABLES`] on that level, and then a line for each crate and each skipped test. Without
/// words all crates are tested; `--release` among them means the profile that ships.
///
/// # Errors
/// A test fails or hangs, or cargo cannot be run; at the gate, also if a test was skipped that
/// should not be.
pub fn run(words: &[String]) -> Result<(), String> {
    let (level, words) = level(words)?;
    let mut cargo = program("sh");
    cargo.args(["-c", SCRIPT, "sh", "cargo", "test", "--no-fail-fast"]);
    if !words.iter().any(|word| word == "-p" || word == "--package") {
        cargo.arg("--workspace");
    }
    cargo.args(words);
    run_side_by_side(&mut cargo);
    for row in VARIABLES.iter().filter(|row| std::env::var_os(row.name).is_none()) {
        cargo.env(row.name, row.value(level));
    }
    let mut child =
        cargo.stdout(Stdio::piped()).spawn().map_err(|error| format!("cargo test: {error}"))?;
    let output = child.stdout.take().ok_or("cargo test: no output")?;
    let mut report = Report::starting(seconds_now());
    if let Err(error) = follow(output, SILENCE, |text| {
        print!("{text}");
        report.note(text, seconds_now());
    }) {
        return Err(format!("{error}{}", report.left(&mut child)));
    }
    let status = child.wait().map_err(|error| format!("cargo test: {error}"))?;
    report.end(seconds_now());
    println!("{}", report.table());
    if !status.success() {
        println!("{}", report.failures());
        return Err(format!("cargo test: {status}"));
    }
    match report.skipped.iter().filter(|row| !row.is_known).count() {
        missed if missed > 0 && is_gate() => Err(format!("{missed} tests were skipped")),
        _ => Ok(()),
    }
}

/// Three times as many tests side by side as there are processors, unless the environment says how
/// many: many wait for mounts and for other programs.
pub fn run_side_by_side(cargo: &mut Command) {
    const THREADS: &str = "RUST_TEST_THREADS";
    if std::env::var_os(THREADS).is_none() {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        cargo.env(THREADS, (3 * processors).to_string());
    }
}

/// Hands each line to `take` as it comes, until the last.
///
/// # Errors
/// A line cannot be read, or none comes for so long.
#[allow(clippy::disallowed_methods, reason = "no clock has to know of who reads a pipe")]
fn follow(
    output: impl std::io::Read + Send + 'static,
    silence: Duration,
    mut take: impl FnMut(&str),
) -> Result<(), String> {
    let (sender, lines) = channel();
    // tidy: thread because a pipe is read on the host's time, and no experiment reads this one
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        loop {
            let mut line = Vec::new();
            let read =
                output.read_until(b'\n', &mut line).map(|length| (length > 0).then_some(line));
            let is_last = !matches!(read, Ok(Some(_)));
            if sender.send(read).is_err() || is_last {
                return;
            }
        }
    });
    loop {
        match lines.recv_timeout(silence) {
            Ok(Ok(Some(line))) => take(&String::from_utf8_lossy(&line)),
            Ok(Ok(None)) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Ok(Err(error)) => return Err(format!("cargo test: {error}")),
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("cargo test: nothing for {} seconds", silence.as_secs()));
            }
        }
    }
}

/// The level that the first words ask for, and the other words.
fn level(words: &[String]) -> Result<(Level, &[String]), String> {
    let [option, word, rest @ ..] = words else { return Ok((Level::Test, words)) };
    if option != "--level" {
        return Ok((Level::Test, words));
    }
    let level = match word.as_str() {
        "test" => Level::Test,
        "all" => Level::All,
        "night" => Level::Night,
        _ => return Err(format!("--level {word}: test, all or night")),
    };
    Ok((level, rest))
}

/// A test that was skipped, or a part of one, on its way to the table.
struct SkippedRow {
    suite: String,
    what: String,
    is_known: bool,
    times: u32,
}

/// A test that failed, and the first [`LINES_OF_A_FAILURE`] lines that it said.
#[derive(Debug, PartialEq)]
struct Failure {
    suite: String,
    test: String,
    said: Vec<String>,
}

/// How much of a failure is told again.
const LINES_OF_A_FAILURE: usize = 8;

/// Seconds by crate, in the order in which cargo runs them, what was skipped and what failed.
struct Report {
    spent: Vec<(String, f64)>,
    since: f64,
    skipped: Vec<SkippedRow>,
    failed: Vec<Failure>,
    /// Which of `failed` the lines belong to that come now.
    speaks: Option<usize>,
    /// Tests of the program that runs, which take more than a minute.
    slow: Vec<String>,
}

impl Report {
    /// Cargo compiles first.
    fn starting(now: f64) -> Report {
        Report {
            spent: vec![("compiling".into(), 0.0)],
            since: now,
            skipped: Vec::new(),
            failed: Vec::new(),
            speaks: None,
            slow: Vec::new(),
        }
    }

    /// Takes a line of cargo's output, which may begin the tests of another crate or say that a
    /// test was skipped.
    fn note(&mut self, line: &str, now: f64) {
        if let Some(skipped) = skipped_by(line) {
            self.skip(skipped);
        }
        if let Some((test, _)) = line.split_once(" has been running for over ") {
            self.slow.push(test.trim_start_matches("test ").to_owned());
        }
        if let Some((test, _)) =
            line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "))
        {
            self.slow.retain(|slow| slow != test);
        }
        self.note_failure(line.trim_end());
        let Some(suite) = Suite::begun_by(line) else { return };
        self.slow.clear();
        self.end(now);
        let name = match suite {
            Suite::Of(name) => name,
            // Cargo goes through the crates one by one, each from its own tests to those beside it;
            // where suites were asked for by name, the crates are not said.
            Suite::Another => match self.spent.last() {
                Some((last, _)) if last != "compiling" => last.clone(),
                _ => "by name".to_owned(),
            },
        };
        if !self.spent.iter().any(|(known, _)| *known == name) {
            self.spent.push((name.clone(), 0.0));
        }
        let at = self.spent.iter().position(|(known, _)| *known == name).unwrap_or(0);
        let current = self.spent.remove(at);
        self.spent.push(current);
    }

    /// A test's end by itself says nothing of why: that comes after all tests of its program, below
    /// its name.
    fn note_failure(&mut self, line: &str) {
        let suite = self.spent.last().map_or("", |(name, _)| name.as_str());
        let ended = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"));
        let spoken = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        // A program that a signal ended names no test.
        let died = line.trim_start();
        let died = died.starts_with("process didn't exit successfully").then_some(died);
        if let Some(test) = ended.or(spoken).or(died) {
            let known = self.failed.iter().position(|row| row.suite == suite && row.test == test);
            let at = known.unwrap_or(self.failed.len());
            if known.is_none() {
                let (suite, test) = (suite.to_owned(), test.to_owned());
                self.failed.push(Failure { suite, test, said: Vec::new() });
            }
            self.speaks = spoken.map(|_| at);
        } else if line == "failures:" || line.starts_with("stack backtrace:") {
            self.speaks = None;
        } else if let Some(row) = self.speaks.and_then(|at| self.failed.get_mut(at)) {
            // What it printed before says less than why it ended.
            if line.starts_with("thread '") && line.contains(" panicked at ") {
                row.said.clear();
            }
            if row.said.len() < LINES_OF_A_FAILURE && !line.trim().is_empty() {
                row.said.push(line.chars().take(400).collect());
            }
        }
    }

    /// What failed, for the end of a run that did.
    fn failures(&self) -> String {
        let mut lines = Vec::new();
        for row in &self.failed {
            lines.push(format!("failed: {:<12} {}", row.suite, row.test));
            lines.extend(row.said.iter().map(|line| format!("    {line}")));
        }
        lines.join("\n")
    }

    /// The same words of a crate are one row.
    fn skip(&mut self, skipped: Skipped) {
        let suite = self.spent.last().map_or("", |(name, _)| name.as_str());
        let is_same = |row: &&mut SkippedRow| row.suite == suite && row.what == skipped.what;
        match self.skipped.iter_mut().find(is_same) {
            Some(row) => row.times += 1,
            None => self.skipped.push(SkippedRow {
                suite: suite.to_owned(),
                what: skipped.what.to_owned(),
                is_known: skipped.is_known,
                times: 1,
            }),
        }
    }

    /// Ends what hangs, as far as it can be ended, and names the tests that had not.
    fn left(&self, child: &mut Child) -> String {
        // Nothing waits: what sleeps in the kernel takes no signal.
        let _ = child.kill();
        let last = self.spent.last().map_or("", |(name, _)| name.as_str());
        let tests: String = self.slow.iter().map(|test| format!("\n    {test}")).collect();
        format!(", in {last}; running for over a minute:{tests}")
    }

    /// The time since the last line that began something belongs to the last crate.
    fn end(&mut self, now: f64) {
        if let Some((_, seconds)) = self.spent.last_mut() {
            *seconds += now - self.since;
        }
        self.since = now;
    }

    fn table(&self) -> String {
        let mut lines = vec![format!("\n{:<12} {:>9} {:>9}", "suite", "seconds", "budget")];
        let mut sum = (0.0, 0);
        for (name, seconds) in &self.spent {
            let known = BUDGETS.iter().find(|(known, _)| known == name);
            let budget = known.map_or(BUDGET_OF_OTHERS, |(_, budget)| *budget);
            let over = if *seconds > f64::from(budget) { "  over" } else { "" };
            lines.push(format!("{name:<12} {seconds:>9.1} {budget:>9}{over}"));
            sum = (sum.0 + seconds, sum.1 + budget);
        }
        lines.push(format!("{:<12} {:>9.1} {:>9}", "all", sum.0, sum.1));
        lines.push(format!("\nskipped: {}", self.skipped.len()));
        for row in &self.skipped {
            let times =
                if row.times > 1 { format!(" ({} times)", row.times) } else { String::new() };
            lines.push(format!("{:<12} {}{times}", row.suite, row.what));
        }
        lines.join("\n")
    }
}

/// What a line of cargo's output begins.
enum Suite {
    /// The tests inside of a crate, or those of its documentation.
    Of(String),
    /// Tests beside the crate that was last named.
    Another,
}

impl Suite {
    fn begun_by(line: &str) -> Option<Suite> {
        let line = line.trim();
        let crate_name = |name: &str| name.trim_start_matches("extant_").to_owned();
        if let Some(name) = line.strip_prefix("Doc-tests ") {
            return Some(Suite::Of(crate_name(name)));
        }
        let (what, program) = line.strip_prefix("Running ")?.split_once(" (")?;
        if what != "unittests src/lib.rs" {
            return Some(Suite::Another);
        }
        let (_, file) = program.rsplit_once('/')?;
        Some(Suite::Of(crate_name(file.rsplit_once('-')?.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crate_gets_the_time_of_all_its_tests() {
        let mut times = Report::starting(0.0);
        let lines = [
            ("   Compiling extant-block v0.1.0", 1.0),
            ("     Running unittests src/lib.rs (target/debug/deps/extant_block-0d25c7)", 60.0),
            ("test result: ok. 3 passed; 0 failed", 61.0),
            ("     Running tests/locks.rs (target/debug/deps/locks-388d0d)", 62.0),
            ("     Running unittests src/lib.rs (target/debug/deps/extant_cli-f08db7)", 70.0),
            ("     Running unittests src/main.rs (target/debug/deps/extant-a8c758)", 71.0),
            ("   Doc-tests extant_block", 75.0),
            ("   Doc-tests extant_cli", 77.5),
        ];
        lines.iter().for_each(|(line, now)| times.note(line, *now));
        times.end(78.0);
        times.spent.sort_by(|one, other| one.0.cmp(&other.0));
        let expected = [("block", 12.5), ("cli", 5.5), ("compiling", 60.0)];
        assert_eq!(times.spent, expected.map(|(name, seconds)| (name.to_owned(), seconds)));
    }

    #[test]
    fn what_was_skipped_is_a_row_with_its_crate() {
        let mut report = Report::starting(0.0);
        let lines = [
            "     Running unittests src/lib.rs (target/debug/deps/extant_edit-0d25c7)",
            concat!("skip", "ped: a::b: no zstd"),
            concat!("test c ... skip", "ped: a::b: no zstd"),
            "test d ... ok",
        ];
        lines.iter().for_each(|line| report.note(line, 0.0));
        let table = report.table();
        assert!(table.ends_with("\nedit         a::b: no zstd (2 times)"), "{table}");
    }

    #[test]
    fn what_failed_is_told_again_with_its_first_words() {
        let mut report = Report::starting(0.0);
        let lines = [
            "     Running unittests src/lib.rs (target/debug/deps/extant_edit-0d25c7)",
            "test a::b ... FAILED",
            "test e ... FAILED",
            "test c ... ok",
            "",
            "failures:",
            "",
            "---- a::b stdout ----",
            "what it printed",
            "",
            "thread 'a::b' panicked at one.rs:1:",
            "left and right",
            "stack backtrace:",
            "   0: begin",
            "---- e stdout ----",
            "said",
            "",
            "failures:",
            "    a::b",
            "Caused by:",
            "  process didn't exit successfully: `x` (signal: 6, SIGABRT)",
        ];
        lines.iter().for_each(|line| report.note(line, 0.0));
        let expected = "failed: edit         a::b\n    thread 'a::b' panicked at one.rs:1:\n    \
                        left and right\nfailed: edit         e\n    said\nfailed: edit         \
                        process didn't exit successfully: `x` (signal: 6, SIGABRT)";
        assert_eq!(report.failures(), expected);
    }

    #[test]
    fn a_test_that_hangs_is_named() {
        let mut report = Report::starting(0.0);
        let lines = [
            "test a::b has been running for over 60 seconds",
            "test c::d has been running for over 60 seconds",
            "test a::b ... ok",
        ];
        lines.iter().for_each(|line| report.note(line, 0.0));
        assert_eq!(report.slow, ["c::d"]);
        let mut sleeps = program("sh");
        sleeps.args(["-c", "echo one; exec sleep 600"]).stdout(Stdio::piped());
        let mut child = sleeps.spawn().expect("a shell");
        let output = child.stdout.take().expect("its output");
        let mut said = Vec::new();
        let end = follow(output, Duration::from_secs(1), |line| said.push(line.to_owned()));
        assert_eq!(said, ["one\n"]);
        assert_eq!(end, Err("cargo test: nothing for 1 seconds".to_owned()));
        assert!(report.left(&mut child).ends_with("over a minute:\n    c::d"));
        assert!(!child.wait().expect("its end").success());
    }

    #[test]
    fn a_level_is_taken_from_the_front() {
        let words = ["--level", "night", "-p", "x"].map(str::to_owned);
        assert_eq!(level(&words), Ok((Level::Night, &words[2..])));
        assert_eq!(level(&words[2..]), Ok((Level::Test, &words[2..])));
        assert!(level(&["--level", "x"].map(str::to_owned)).is_err());
    }
}
