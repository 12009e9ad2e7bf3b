//! Words for the shell, run on a mount, with a limit.

use std::path::Path;

use extant_testkit::system::{System, make_image};

use super::Proofs;
use crate::command::{self, program};
use crate::measure::seconds_now;
use crate::oracle::e2fsck_but_advice;
use crate::scratch::Scratch;

/// Seconds that a script may take.
const LIMIT_S: &str = "900";

/// A script for a mounted volume: `$M` is where it is mounted, `$W` a folder of the host. It ends
/// with 0 if all is well.
pub struct Script {
    /// What the lines of results call it.
    pub name: &'static str,
    /// Programs that must be here.
    pub needs: &'static [&'static str],
    /// Megabytes of the volume.
    pub size: &'static str,
    /// Words of the shell; any that fails ends it.
    pub text: &'static str,
}

/// What came of a script.
pub enum Outcome {
    /// The seconds that it took, until the volume was unmounted and whole.
    Done(f64),
    /// It needs a program that is not here.
    Skipped(&'static str),
}

/// Runs a script on a fresh ext4 volume, and has e2fsck look at the volume afterwards.
///
/// # Errors
/// What the script said last, or e2fsck.
pub fn run(proofs: &Proofs, system: &System, script: &Script) -> Result<Outcome, String> {
    if let Some(missing) = script.needs.iter().find(|tool| crate::command::find(tool).is_none()) {
        return Ok(Outcome::Skipped(missing));
    }
    let folder = Scratch::inside(&proofs.folder, "script");
    let image = folder.join("volume.img");
    make_image(&image, "-t ext4", script.size)?;
    let volume = system.mount(&image)?;
    let outside = folder.join("outside");
    std::fs::create_dir(&outside).map_err(|error| error.to_string())?;
    let begun = seconds_now();
    let outcome = shell(script.text, volume.path(), &outside);
    let unmounted = volume.unmount();
    let seconds = seconds_now() - begun;
    outcome?;
    unmounted?;
    e2fsck_but_advice(&image)?;
    Ok(Outcome::Done(seconds))
}

fn shell(text: &str, mount: &Path, outside: &Path) -> Result<(), String> {
    let mut shell = program("timeout");
    shell.args([LIMIT_S, "bash", "-euo", "pipefail", "-c", text]);
    shell.env("M", mount).env("W", outside).env("HOME", outside);
    shell.env("GIT_CONFIG_GLOBAL", "/dev/null").current_dir(outside);
    match command::output(&mut shell) {
        Ok(_) => Ok(()),
        Err(error) => {
            let mut lines: Vec<&str> = error.lines().rev().take(12).collect();
            lines.reverse();
            Err(lines.join("\n"))
        }
    }
}
