//! How what ships is compiled: the release profile, apart from what a developer builds, with no
//! path of the machine in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::repository;

/// A checkout, where it is built, and cargo's own folder for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    /// The root of the repository.
    pub root: PathBuf,
    /// Where cargo builds.
    pub target: PathBuf,
    /// `CARGO_HOME`: the crates of others are below it.
    pub home: PathBuf,
}

impl Checkout {
    /// This repository.
    ///
    /// # Errors
    /// It is not known where cargo keeps the crates of others.
    pub fn here() -> Result<Checkout, String> {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
        let home = home.ok_or("neither CARGO_HOME nor HOME is set")?;
        Ok(Checkout { root: repository(), target: repository().join("target/dist-build"), home })
    }

    /// Has `command`, which is cargo or calls it, build as what ships is built.
    pub fn prepare(&self, command: &mut Command) {
        command.current_dir(&self.root);
        command.env("CARGO_HOME", &self.home);
        command.env("CARGO_TARGET_DIR", &self.target);
        command.env("CARGO_ENCODED_RUSTFLAGS", self.flags().join("\u{1f}"));
        command.env("CARGO_INCREMENTAL", "0");
        command.env_remove("RUSTFLAGS");
    }

    /// Messages of panics name files: those of the repository from its root on, those of other
    /// crates by crate and version.
    fn flags(&self) -> Vec<String> {
        let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
        let mut flags = vec![remap(&self.root, "extant"), remap(&self.target, "target")];
        for folder in self.registries() {
            flags.push(remap(&folder, "crates"));
        }
        flags
    }

    /// Where cargo unpacks crates. The name of such a folder has the digest of the registry's
    /// address in it, which a mirror changes.
    fn registries(&self) -> Vec<PathBuf> {
        let folder = self.home.join("registry/src");
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        found.sort();
        found
    }

    /// The paths of this machine that no file of a release may have in it. A checkout in `/src` is
    /// none of them: sources of others are in folders of that name.
    pub fn paths(&self) -> Vec<String> {
        let paths = [&self.root, &self.target, &self.home].into_iter();
        let is_long = |path: &&PathBuf| path.components().count() > 2;
        paths.filter(is_long).map(|path| path.display().to_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_that_sources_are_in_has_another_name() {
        let scratch = crate::scratch::Scratch::new("xtask-shipped");
        for registry in ["two", "one"] {
            let folder = scratch.join("home/registry/src").join(registry);
            std::fs::create_dir_all(folder).expect("a registry");
        }
        let checkout = Checkout {
            root: scratch.join("root"),
            target: scratch.join("built"),
            home: scratch.join("home"),
        };
        let names = ["root=extant", "built=target", "src/one=crates", "src/two=crates"];
        let flags = checkout.flags();
        assert_eq!(flags.len(), names.len());
        for (flag, name) in flags.iter().zip(names) {
            assert!(flag.starts_with("--remap-path-prefix=/") && flag.ends_with(name), "{flag}");
        }
        assert_eq!(checkout.paths().len(), 3);
        let short = Checkout { root: "/src".into(), ..checkout };
        assert_eq!(short.paths().len(), 2);
    }
}
