//! What is compiled for a release, with paths of no machine in it.

use std::path::{Path, PathBuf};

use crate::command::{self, program};
use crate::shipped::Checkout;

/// No command and no library to load is larger than this, in bytes.
const COMMAND_BYTES_MAX: u64 = 22_000_000;

/// Functions of equal code are one: generic code is made for each type, and much of it is equal.
/// Nothing of ours compares the places of functions. The linker is the compiler's own.
const FOLDED: [&str; 2] = ["-C", "link-arg=-Wl,--icf=all"];

/// The C library inside, and the list of places to be moved at the start packed: the C library of
/// the machine that runs it has no say in that.
const FIXED: [&str; 4] =
    ["-C", "target-feature=+crt-static", "-C", "link-arg=-Wl,--pack-dyn-relocs=relr"];

/// Where they are.
#[derive(Debug)]
pub struct Binaries {
    /// The command, with the C library of the machine.
    pub command: PathBuf,
    /// The command with all in it.
    pub fixed: PathBuf,
    /// libextant to load.
    pub shared: PathBuf,
    /// libextant to link.
    pub archive: PathBuf,
    /// The package for Python as maturin makes it; none where it could not be had.
    pub wheel: PathBuf,
}

impl Binaries {
    /// Where [`Binaries::build`] puts them.
    pub fn found(checkout: &Checkout) -> Binaries {
        Binaries::of(&checkout.target.join("made"))
    }

    /// Those in a folder.
    pub fn of(folder: &Path) -> Binaries {
        Binaries {
            command: folder.join("extant"),
            fixed: folder.join("extant-static"),
            shared: folder.join("libextant.so"),
            archive: folder.join("libextant.a"),
            wheel: folder.join("extantfs.whl"),
        }
    }

    /// Builds all but the wheel. The static command is the same crates, linked otherwise: only the
    /// last step differs, so they are compiled once.
    ///
    /// # Errors
    /// What cargo says.
    pub fn build(checkout: &Checkout) -> Result<Binaries, String> {
        let found = Binaries::found(checkout);
        let made = checkout.target.join("made");
        std::fs::create_dir_all(&made).map_err(|error| format!("{}: {error}", made.display()))?;
        let released = checkout.target.join("release");
        let command = ["rustc", "--bin", "extant", "-p", "extant-cli"];
        cargo(checkout, &command, &FOLDED)?;
        copied(&released.join("extant"), &found.command)?;
        cargo(checkout, &command, &[&FOLDED[..], &FIXED].concat())?;
        copied(&released.join("extant"), &found.fixed)?;
        let library = ["rustc", "--lib", "-p", "extant-capi", "--crate-type"];
        cargo(checkout, &[&library[..], &["cdylib"]].concat(), &FOLDED)?;
        copied(&released.join("libextant_capi.so"), &found.shared)?;
        cargo(checkout, &[&library[..], &["staticlib"]].concat(), &[])?;
        copied(&released.join("libextant_capi.a"), &found.archive)?;
        // What only a debugger reads, of the standard library.
        command::output(program("strip").args(["--strip-debug", "-D"]).arg(&found.archive))?;
        Ok(found)
    }

    /// Whether they are what may be handed out: neither larger than we promise nor with a path of
    /// the machine in them.
    ///
    /// # Errors
    /// They are not, or cannot be read.
    pub fn judge(&self, paths: &[String]) -> Result<(), String> {
        for path in [&self.command, &self.fixed, &self.shared] {
            let bytes = super::read(path)?.len() as u64;
            if bytes > COMMAND_BYTES_MAX {
                return Err(format!(
                    "{}: {bytes} bytes, which is more than {COMMAND_BYTES_MAX}",
                    path.display()
                ));
            }
        }
        for path in [&self.command, &self.fixed, &self.shared, &self.archive] {
            names_no_path(&super::read(path)?, paths)
                .map_err(|found| format!("{}: has the path {found} in it", path.display()))?;
        }
        Ok(())
    }
}

/// Whether none of `paths` is in the bytes, else the one that is.
///
/// # Errors
/// The first path that is.
pub fn names_no_path<'p>(bytes: &[u8], paths: &'p [String]) -> Result<(), &'p str> {
    let is_in = |path: &&String| {
        !path.is_empty() && bytes.windows(path.len()).any(|window| window == path.as_bytes())
    };
    paths.iter().find(is_in).map_or(Ok(()), |path| Err(path))
}

fn copied(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map_err(|error| format!("{}: {error}", from.display()))?;
    Ok(())
}

/// Cargo with these words, the crate's compiler with those.
fn cargo(checkout: &Checkout, words: &[&str], compiler: &[&str]) -> Result<(), String> {
    println!("dist: cargo {} {}", words.join(" "), compiler.join(" "));
    let mut cargo = program("cargo");
    cargo.args(words).args(["--release", "--locked", "--quiet"]);
    if !compiler.is_empty() {
        cargo.arg("--").args(compiler);
    }
    checkout.prepare(&mut cargo);
    command::output(&mut cargo)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Binaries of so many bytes, the command with these words at its end.
    fn binaries(folder: &Path, bytes: usize, words: &str) -> Binaries {
        let made = Binaries::of(folder);
        for path in [&made.command, &made.fixed, &made.shared, &made.archive] {
            std::fs::write(path, vec![b'x'; bytes]).expect("a file");
        }
        let command = [vec![b'x'; bytes - words.len()], words.into()].concat();
        std::fs::write(&made.command, command).expect("a file");
        made
    }

    #[test]
    fn what_is_too_large_or_names_the_machine_is_refused() {
        let scratch = crate::scratch::Scratch::new("xtask-binaries");
        let paths = ["/home/someone/checkout".to_owned()];
        let most = COMMAND_BYTES_MAX as usize;
        assert_eq!(binaries(scratch.path(), most, "/home/someone/else").judge(&paths), Ok(()));
        let large = binaries(scratch.path(), most + 1, "").judge(&paths);
        assert!(large.is_err_and(|words| words.contains(&format!("{} bytes", most + 1))));
        let named = binaries(scratch.path(), 100, "/home/someone/checkout/x").judge(&paths);
        assert!(named.is_err_and(|words| words.contains("extant: has the path /home/someone")));
    }
}
