//! What is compiled for a release, with paths of no machine in it.

use std::path::{Path, PathBuf};

use crate::command::{self, program};
use crate::repository;

/// No command is larger than this, in bytes.
const COMMAND_BYTES_MAX: u64 = 20_000_000;

/// Where they are.
pub struct Binaries {
    /// The command, with the C library of the machine.
    pub command: PathBuf,
    /// The command with all in it.
    pub fixed: PathBuf,
    /// libextant to load.
    pub shared: PathBuf,
    /// libextant to link.
    pub archive: PathBuf,
}

impl Binaries {
    /// Where [`Binaries::build`] puts them.
    pub fn found() -> Binaries {
        Binaries::of(&folder().join("made"))
    }

    /// Those in a folder.
    pub fn of(folder: &Path) -> Binaries {
        Binaries {
            command: folder.join("extant"),
            fixed: folder.join("extant-static"),
            shared: folder.join("libextant.so"),
            archive: folder.join("libextant.a"),
        }
    }

    /// Builds them. The static command is the same crates, linked otherwise: only the last step
    /// differs, so they are compiled once.
    ///
    /// # Errors
    /// What cargo says.
    pub fn build() -> Result<Binaries, String> {
        let found = Binaries::found();
        let made = folder().join("made");
        std::fs::create_dir_all(&made).map_err(|error| format!("{}: {error}", made.display()))?;
        let released = folder().join("release");
        cargo(&["build", "--bin", "extant", "-p", "extant-cli"], &[])?;
        copied(&released.join("extant"), &found.command)?;
        let linked = ["-C", "target-feature=+crt-static"];
        cargo(&["rustc", "--bin", "extant", "-p", "extant-cli"], &linked)?;
        copied(&released.join("extant"), &found.fixed)?;
        for command in [&found.command, &found.fixed] {
            let bytes = std::fs::metadata(command).map_or(0, |metadata| metadata.len());
            if bytes > COMMAND_BYTES_MAX {
                return Err(format!("{}: {bytes} bytes are too many", command.display()));
            }
        }
        let library = ["rustc", "--lib", "-p", "extant-capi", "--crate-type"];
        cargo(&[&library[..], &["cdylib"]].concat(), &[])?;
        copied(&released.join("libextant_capi.so"), &found.shared)?;
        cargo(&[&library[..], &["staticlib"]].concat(), &[])?;
        copied(&released.join("libextant_capi.a"), &found.archive)?;
        // What only a debugger reads, of the standard library.
        command::output(program("strip").args(["--strip-debug", "-D"]).arg(&found.archive))?;
        Ok(found)
    }
}

/// Apart from what tests build: other flags build everything anew.
fn folder() -> PathBuf {
    repository().join("target/dist-build")
}

fn copied(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map_err(|error| format!("{}: {error}", from.display()))?;
    Ok(())
}

/// Cargo with these words, the crate's compiler with those.
fn cargo(words: &[&str], compiler: &[&str]) -> Result<(), String> {
    println!("dist: cargo {} {}", words.join(" "), compiler.join(" "));
    let mut cargo = program("cargo");
    cargo.current_dir(repository()).args(words);
    cargo.args(["--release", "--locked", "--quiet", "--target-dir"]).arg(folder());
    if !compiler.is_empty() {
        cargo.arg("--").args(compiler);
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", remapped()?.join("\u{1f}"));
    cargo.env("CARGO_INCREMENTAL", "0");
    command::output(&mut cargo)?;
    Ok(())
}

/// Messages of panics name files: those of the repository from its root on, those of other crates
/// by crate and version.
fn remapped() -> Result<Vec<String>, String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let home = home.ok_or("neither CARGO_HOME nor HOME is set")?;
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    let mut flags = vec![remap(&repository(), "extant")];
    // The folder of a registry has the digest of its address in its name, which a mirror changes.
    for entry in std::fs::read_dir(home.join("registry/src")).into_iter().flatten().flatten() {
        flags.push(remap(&entry.path(), "crates"));
    }
    flags.sort();
    Ok(flags)
}
