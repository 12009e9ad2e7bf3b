//! Programs of the registry that judge a file system, or make a file of ours: installed once, in
//! `target/tools`, at the version that the lists of expectations and the file were made with.

use std::path::PathBuf;

use crate::command::{self, program};
use crate::repository;

/// A program, by the name of its crate.
pub struct Installed {
    /// The crate and its program.
    pub name: &'static str,
    /// The version, exactly.
    pub version: &'static str,
}

impl Installed {
    /// Where the program is, after it was built if it was not there.
    ///
    /// # Errors
    /// What cargo says: most often that it has no network.
    pub fn program(&self) -> Result<PathBuf, String> {
        let root = repository().join("target/tools").join(self.version).join(self.name);
        let path = root.join("bin").join(self.name);
        if !path.is_file() {
            let mut cargo = program("cargo");
            cargo.args(["install", "--quiet", "--locked", "--version", self.version, "--root"]);
            cargo.arg(&root).arg("--target-dir").arg(repository().join("target/tools-build"));
            command::output(cargo.arg(self.name))?;
        }
        Ok(path)
    }
}
