//! `xtask tools`: installs what the tests call and read from the host, or names it.

use extant_testkit::command::{find, is_gate, is_root, program};
use extant_testkit::tools::missing;

/// Installs what is missing by apt when we are root; else names it.
///
/// # Errors
/// Something is still missing and this is the gate.
pub fn run(_words: &[String]) -> Result<(), String> {
    if !missing().is_empty() && is_root() && find("apt-get").is_some() {
        install(&missing());
    }
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    let message =
        format!("not installed: {} (tests that need them are skipped)", missing.join(" "));
    if is_gate() {
        return Err(message);
    }
    eprintln!("xtask tools: {message}");
    Ok(())
}

/// Asks apt; what it could not do shows in a second look.
pub(crate) fn install(packages: &[&str]) {
    eprintln!("xtask tools: installing {}", packages.join(" "));
    let mut update = program("apt-get");
    let _ = update.args(["update", "-q"]).status();
    let mut install = program("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive");
    let _ = install.args(["install", "-qy", "--no-install-recommends"]).args(packages).status();
}
