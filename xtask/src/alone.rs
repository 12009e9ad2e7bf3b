//! `xtask alone`: what each test of a crate costs the processors, each run by itself.
//!
//! The sum over a crate, shared by the processors, is what its tests take in `xtask loop`; and it
//! hardly depends on what else the machine does, as seconds of a clock do.

use crate::command::{output, program};
use crate::measure::{Measured, measure};
use crate::repository;
use crate::turnaround::{crates, package};

/// How many tests are printed.
const SHOWN: usize = 40;

/// `alone CRATE [WORD..]`: builds the tests of a crate and runs each that has one of the words in
/// its name (all, without words) in a process of its own, one after another; prints those that cost
/// most, with the sum of all. What a test leaves behind (a server that became nobody's child) and
/// the kernel's own threads are not counted.
///
/// # Errors
/// There is no such crate, no such test, it does not build, or a test fails.
pub fn run(words: &[String]) -> Result<(), String> {
    let known = crates()?;
    let Some((name, words)) = words.split_first().filter(|(name, _)| known.contains(name)) else {
        return Err(format!("which crate: {}?", known.join(", ")));
    };
    let mut costs = Vec::new();
    for program in programs(&package(name)?)? {
        for test in tests(&program, words)? {
            let measured = cost(name, &program, &test)?;
            eprintln!("{}", line(&measured, &test));
            costs.push((test, measured));
        }
    }
    if costs.is_empty() {
        return Err(format!("{name} has no test of this name: {}", words.join(", ")));
    }
    print!("{}", table(costs));
    Ok(())
}

/// The programs of tests of a package, built.
fn programs(package: &str) -> Result<Vec<String>, String> {
    let mut cargo = program("cargo");
    cargo.args(["test", "-p", package, "--no-run", "--message-format=json"]);
    let said = output(&mut cargo)?;
    Ok(String::from_utf8_lossy(&said.stdout).lines().filter_map(test_program).collect())
}

/// The program that a line of cargo's says was built, if it is one of tests.
fn test_program(line: &str) -> Option<String> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let is_test = message["profile"]["test"] == serde_json::Value::Bool(true);
    let path = message["executable"].as_str().filter(|_| is_test)?;
    Some(path.to_owned())
}

/// The tests of a program that are not ignored and have one of the words in their names.
fn tests(path: &str, words: &[String]) -> Result<Vec<String>, String> {
    let listed = |more: &[&str]| -> Result<Vec<String>, String> {
        let said = output(program(path).arg("--list").args(more).args(words))?;
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    };
    let ignored = listed(&["--ignored"])?;
    Ok(listed(&[])?.into_iter().filter(|test| !ignored.contains(test)).collect())
}

/// Runs one test in the folder of its crate, as cargo does.
fn cost(name: &str, path: &str, test: &str) -> Result<Measured, String> {
    let folder = repository().join("crates").join(name).display().to_string();
    let words = [
        "env",
        &format!("--chdir={folder}"),
        &format!("CARGO_MANIFEST_DIR={folder}"),
        path,
        "--exact",
        test,
    ];
    measure(&words.map(str::to_owned), || Ok(()))
}

/// The costs, the largest first, and their sum.
fn table(mut costs: Vec<(String, Measured)>) -> String {
    let processor = |cost: &Measured| cost.processor_seconds.unwrap_or(cost.seconds);
    costs.sort_by(|(_, one), (_, other)| processor(other).total_cmp(&processor(one)));
    let all = Measured {
        seconds: costs.iter().map(|(_, cost)| cost.seconds).sum(),
        processor_seconds: Some(costs.iter().map(|(_, cost)| processor(cost)).sum()),
        peak_kib: None,
    };
    let mut text = format!("{:>9} {:>9}\n", "processor", "seconds");
    for (test, cost) in costs.iter().take(SHOWN) {
        text += &(line(cost, test) + "\n");
    }
    text + &line(&all, &format!("all {}", costs.len())) + "\n"
}

fn line(cost: &Measured, what: &str) -> String {
    let processor = cost.processor_seconds.map_or("-".to_owned(), |spent| format!("{spent:.2}"));
    format!("{processor:>9} {:>9.2}  {what}", cost.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_tests_is_told_from_what_it_is_built_of() {
        let built = |test: bool, path: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"profile\":{{\"test\":{test}}},\
                 \"executable\":{path}}}"
            )
        };
        assert_eq!(test_program(&built(true, "\"/a/suite-1\"")), Some("/a/suite-1".to_owned()));
        assert_eq!(test_program(&built(false, "\"/a/extant\"")), None, "a command");
        assert_eq!(test_program(&built(false, "null")), None, "a library");
        assert_eq!(test_program("   Compiling extant-block"), None);
    }

    #[test]
    fn the_dearest_comes_first_and_the_sum_is_of_all() {
        let cost = |processor: f64| Measured {
            seconds: 5.0,
            processor_seconds: Some(processor),
            peak_kib: None,
        };
        let many = (0..50).map(|number| (format!("test {number}"), cost(f64::from(number))));
        let table = table(many.collect());
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 1 + SHOWN + 1, "{table}");
        assert_eq!(lines[1], "    49.00      5.00  test 49");
        assert_eq!(lines[41], "  1225.00    250.00  all 50");
    }

    #[test]
    fn a_test_is_listed_and_costs_something() {
        let this = std::env::current_exe().expect("this program").display().to_string();
        let words = ["alone::tests::the_dearest".to_owned()];
        let found = tests(&this, &words).expect("a list");
        assert_eq!(found, ["alone::tests::the_dearest_comes_first_and_the_sum_is_of_all"]);
        let measured = cost("block", &this, &found[0]).expect("it passes");
        assert!(measured.seconds > 0.0, "{measured:?}");
        assert!(cost("block", &this, "--nothing").is_err(), "what it says is not swallowed");
    }
}
