//! `xtask kernel-journals`: many volumes with logs that others wrote, and logs of ours that were
//! cut. It runs the tests `journals` of the crate `engine` with the numbers that it is given.

use crate::command::program;

/// `kernel-journals [--count N] [--seed S] [--lives N]`: N logs that the kernel or debugfs wrote,
/// from seed S on, replayed by us, by e2fsck and by the kernel; and N lives of ours (four cuts
/// each), replayed likewise.
///
/// # Errors
/// A word is wrong, or a log is not replayed alike; the test has said which.
pub fn run(words: &[String]) -> Result<(), String> {
    let mut cargo = program("cargo");
    cargo.args(["test", "--package", "extant-engine", "--test", "suite"]);
    cargo.args(["--", "journals::", "--nocapture"]);
    for pair in words.chunks(2) {
        let [word, value] = pair else {
            return Err(format!("{} needs a value", pair.join(" ")));
        };
        let number: u64 = value.parse().map_err(|_| format!("{word} {value}: no number"))?;
        let names: &[&str] = match word.as_str() {
            "--count" => &["EXTANT_KERNEL_JOURNALS"],
            "--lives" => &["EXTANT_JOURNAL_LIVES"],
            "--seed" => &["EXTANT_KERNEL_JOURNALS_SEED", "EXTANT_JOURNAL_SEED"],
            _ => return Err(format!("no option {word}")),
        };
        for name in names {
            cargo.env(name, number.to_string());
        }
    }
    let status = cargo.status().map_err(|error| format!("cargo test: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo test: {status}")) }
}
