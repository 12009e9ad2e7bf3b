//! `xtask suites`: runs the tests, and says what each crate's took beside its budget.
//!
//! The budgets are no assertion: a busy machine makes no test fail. They are a promise about `make
//! test` on two quiet cores, so that a suite that grows is seen when it does and not when the sum
//! is too much. What is slow and seldom breaks takes more rounds in `make test-all`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::command::program;
use crate::measure::seconds_now;

/// Seconds that compiling and the tests of each crate may take, on two quiet cores.
pub const BUDGETS: &[(&str, u32)] = &[
    ("compiling", 295),
    ("format", 15),
    ("block", 10),
    ("journal", 15),
    ("engine", 150),
    ("inspect", 65),
    ("archive", 10),
    ("image", 10),
    ("edit", 20),
    ("sim", 15),
    ("chart", 10),
    ("lab", 170),
    ("crash", 50),
    ("cli", 140),
    ("testkit", 10),
    ("xtask", 10),
];

/// What a crate without a row may take.
const BUDGET_OF_OTHERS: u32 = 15;

/// Runs its words with the signals that a shell ignores in what it starts in the background: tests
/// send them, and would wait forever.
const SCRIPT: &str = "if env --default-signal true 2>/dev/null; then set -- env --default-signal \
    \"$@\"; fi; exec \"$@\" 2>&1";

/// `suites [WORD..]`: `cargo test --workspace --no-fail-fast WORD..`, and then a line for each
/// crate.
///
/// # Errors
/// A test fails, or cargo cannot be run.
pub fn run(words: &[String]) -> Result<(), String> {
    let mut cargo = program("sh");
    cargo.args(["-c", SCRIPT, "sh", "cargo", "test", "--workspace", "--no-fail-fast"]).args(words);
    let mut child =
        cargo.stdout(Stdio::piped()).spawn().map_err(|error| format!("cargo test: {error}"))?;
    let output = child.stdout.take().ok_or("cargo test: no output")?;
    let mut times = Times::starting(seconds_now());
    let mut lines = BufReader::new(output);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).map_err(|error| format!("cargo test: {error}"))? > 0 {
        let text = String::from_utf8_lossy(&line);
        print!("{text}");
        times.note(&text, seconds_now());
        line.clear();
    }
    let status = child.wait().map_err(|error| format!("cargo test: {error}"))?;
    times.end(seconds_now());
    println!("{}", times.table());
    if status.success() { Ok(()) } else { Err(format!("cargo test: {status}")) }
}

/// Seconds by crate, in the order in which cargo runs them.
struct Times {
    spent: Vec<(String, f64)>,
    since: f64,
}

impl Times {
    /// Cargo compiles first.
    fn starting(now: f64) -> Times {
        Times { spent: vec![("compiling".into(), 0.0)], since: now }
    }

    /// Takes a line of cargo's output, which may begin the tests of another crate.
    fn note(&mut self, line: &str, now: f64) {
        let Some(suite) = Suite::begun_by(line) else { return };
        self.end(now);
        let name = match suite {
            Suite::Of(name) => name,
            // Cargo goes through the crates one by one, each from its own tests to those beside it.
            Suite::Another => self.spent.last().map_or_else(String::new, |last| last.0.clone()),
        };
        if !self.spent.iter().any(|(known, _)| *known == name) {
            self.spent.push((name.clone(), 0.0));
        }
        let at = self.spent.iter().position(|(known, _)| *known == name).unwrap_or(0);
        let current = self.spent.remove(at);
        self.spent.push(current);
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
    use crate::repository;

    #[test]
    fn each_crate_gets_the_time_of_all_its_tests() {
        let mut times = Times::starting(0.0);
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
    fn the_budgets_are_those_of_the_guide() {
        let guide = std::fs::read_to_string(repository().join("CONTRIBUTING.md")).expect("a guide");
        for (name, seconds) in BUDGETS {
            let row = format!("| {name} | {seconds} s |");
            assert!(guide.contains(&row), "CONTRIBUTING.md has no row {row}");
        }
        let sum: u32 = BUDGETS.iter().map(|(_, seconds)| seconds).sum();
        assert!(sum <= 17 * 60, "{sum} s are more than a commit should wait for");
    }
}
