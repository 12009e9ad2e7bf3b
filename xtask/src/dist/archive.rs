//! A tar archive, packed by gzip, that says nothing of the machine.

use std::path::{Path, PathBuf};

use super::Release;
use super::tree::{Tree, packed};
use crate::command::{self, program};
use crate::scratch::Scratch;

/// Writes `NAME-MACHINE-linux.tar.gz`, with all of it in one folder.
///
/// # Errors
/// The host's, or tar's.
pub fn write(release: &Release, name: &str, files: &Tree, out: &Path) -> Result<PathBuf, String> {
    let scratch = Scratch::new("extant-archive");
    let folder = format!("{name}-{}-linux", release.machine);
    files.write(&scratch.join(&folder))?;
    let mut tar = program("tar");
    tar.current_dir(scratch.path()).args(["--create", "--file=-", "--sort=name", "--format=gnu"]);
    tar.args(["--owner=root:0", "--group=root:0"]).arg(format!("--mtime=@{}", release.epoch));
    let archive = command::output(tar.arg(&folder))?.stdout;
    let path = out.join(format!("{folder}.tar.gz"));
    std::fs::write(&path, packed(&archive)?)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}
