//! `xtask damage`: fields of volumes of all features changed by the thousand, judged by the check
//! and by e2fsck. It runs the tests `mutations` of the crate `inspect` with what it is given.

use crate::command::program;

/// `damage [--bases NAME,..|ALL] [--mutations N] [--seed S] [--only N] [--hits yes] [--keep FILE]
/// [--repair PROGRAM]`: N changes of the volumes that are named, drawn from seed S; or the one of
/// that number, of one volume. Prints what the two judge differently, each with the words that show
/// it again; with `--hits` also how often each field was changed. With `--repair` what is damaged
/// is mended by that program `extant` and by e2fsck, and what ours keeps less of is a line.
/// `--keep` writes the volume with the last change.
///
/// # Errors
/// A word is wrong, or more is judged differently than may be; the test has said what.
pub fn run(words: &[String]) -> Result<(), String> {
    let mut cargo = program("cargo");
    cargo.args(["test", "--package", "extant-inspect", "--test", "suite"]);
    cargo.args(["--", "mutations::", "--nocapture"]).env("EXTANT_DAMAGE_BASES", "ALL");
    for pair in words.chunks(2) {
        let [word, value] = pair else {
            return Err(format!("{} needs a value", pair.join(" ")));
        };
        let name = match word.as_str() {
            "--bases" => "EXTANT_DAMAGE_BASES",
            "--mutations" => "EXTANT_DAMAGE",
            "--seed" => "EXTANT_DAMAGE_SEED",
            "--only" => "EXTANT_DAMAGE_ONLY",
            "--repair" => "EXTANT_DAMAGE_REPAIR",
            "--keep" => "EXTANT_DAMAGE_KEEP",
            "--hits" => "EXTANT_DAMAGE_HITS",
            _ => return Err(format!("no option {word}")),
        };
        // The tests run in the folder of their crate.
        let path = std::path::absolute(value).map_err(|error| format!("{value}: {error}"))?;
        match name {
            "EXTANT_DAMAGE_REPAIR" | "EXTANT_DAMAGE_KEEP" => cargo.env(name, path),
            _ => cargo.env(name, value),
        };
    }
    let status = cargo.status().map_err(|error| format!("cargo test: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo test: {status}")) }
}
