//! Whether the sources compile for a processor that is not here.

use super::text;
use crate::command::{self, find, is_root, program};
use crate::{repository, tools};

/// `cargo check` of what ships for `target` (`aarch64-unknown-linux-gnu`). What cannot be had here,
/// the standard library or a compiler for C (which apt installs when we are root), is named, and
/// nothing is checked; with `CI=true` that is an error.
///
/// # Errors
/// What the compiler says.
pub fn check(target: &str) -> Result<(), String> {
    if let Err(lack) = had(target) {
        let words = format!("{target}: {lack}: NOT CHECKED");
        if command::is_gate() {
            return Err(words);
        }
        println!("dist: {words}");
        return Ok(());
    }
    let mut cargo = program("cargo");
    cargo.current_dir(repository()).args(["check", "--quiet", "--locked", "--target", target]);
    cargo.args(["-p", "extant-cli", "-p", "extant", "-p", "extant-capi", "-p", "extant-python"]);
    cargo.arg("--target-dir").arg(repository().join("target/dist-foreign"));
    command::output(&mut cargo)?;
    println!("dist: {target}: the command, the libraries and the Python package compile");
    Ok(())
}

/// Whether there is what that takes, which rustup is asked for; else what is missing.
fn had(target: &str) -> Result<(), String> {
    let processor = target.split('-').next().unwrap_or_default();
    let compiler = format!("{processor}-linux-gnu-gcc");
    let packages = [format!("gcc-{}-linux-gnu", processor.replace('_', "-"))];
    if find(&compiler).is_none() && is_root() && find("apt-get").is_some() {
        tools::install(&packages.each_ref().map(String::as_str));
    }
    if find(&compiler).is_none() {
        return Err(format!("no {compiler} (package {}), which zstd takes", packages[0]));
    }
    let mut rustup = program("rustup");
    let listed = text(rustup.current_dir(repository()).args(["target", "list", "--installed"]))?;
    if listed.lines().any(|line| line == target) {
        return Ok(());
    }
    let mut rustup = program("rustup");
    rustup.current_dir(repository()).args(["target", "add", target]);
    command::output(&mut rustup).map(|_| ()).map_err(|words| {
        let last = words.lines().rfind(|line| !line.trim().is_empty());
        format!("no standard library: {}", last.unwrap_or_default())
    })
}
