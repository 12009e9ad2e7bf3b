//! `xtask dist`: what others install: Debian packages, a static command, libextant, a wheel for
//! Python; the same bytes from the same commit and compiler.
//!
//! ```text
//! binaries   what is compiled: the command twice, the library for C twice
//! wheel      the package for Python: built by maturin, named for what it needs
//! parts      the crates that are in a binary; their licences, and the list of them in SPDX
//! tree       files before they are in a package
//! debian     packages by dpkg-deb; archive: a tar archive; both without a trace of the machine
//! sizes      the table in docs/INSTALL.md
//! judge      each of them installed in a bare root and run
//! twice      compiled once more elsewhere, and compared
//! foreign    whether the sources compile for another processor
//! ```
//!
//! No time but that of the commit (`SOURCE_DATE_EPOCH` in its place) is in a file, no path of the
//! machine, and no order of the host's.

mod archive;
mod binaries;
mod debian;
mod foreign;
mod judge;
mod parts;
mod sizes;
mod tree;
mod twice;
mod wheel;

use std::path::{Path, PathBuf};

use crate::command::{self, program};
use crate::repository;
use crate::shipped::Checkout;

use binaries::Binaries;
use tree::Tree;

/// What every file of a release has to know.
#[derive(Clone, Debug)]
pub struct Release {
    /// `0.1.0`.
    version: String,
    /// Seconds since 1970.
    epoch: String,
    /// As Rust calls it: `x86_64`.
    machine: String,
}

impl Release {
    /// Of this commit, for this machine.
    fn now() -> Result<Release, String> {
        let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(epoch) => epoch,
            Err(_) => {
                let mut git = program("git");
                git.current_dir(repository()).args(["log", "-1", "--format=%ct"]);
                text(&mut git)?
            }
        };
        epoch.parse::<u64>().map_err(|_| format!("SOURCE_DATE_EPOCH={epoch} is no number"))?;
        let machine = std::env::consts::ARCH.to_owned();
        Ok(Release { version: env!("CARGO_PKG_VERSION").to_owned(), epoch, machine })
    }

    /// As Debian calls the machine.
    fn debian_machine(&self) -> &str {
        match self.machine.as_str() {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        }
    }

    /// Where libraries of this machine are.
    fn library_folder(&self) -> String {
        format!("usr/lib/{}-linux-gnu", self.machine)
    }
}

/// The first words that a program prints.
fn text(command: &mut std::process::Command) -> Result<String, String> {
    let output = command::output(command)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// No file to install is larger than this, in bytes.
const FILE_BYTES_MAX: u64 = 35_000_000;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Task {
    /// Builds and packs.
    Make(Table),
    /// Installs what is there and runs it.
    Judge(judge::Reach),
    /// Compiles what is there elsewhere, and compares.
    Twice,
    /// Only checks that it compiles for a target.
    Check(String),
}

/// Whether the table of sizes is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Kept,
    Written,
}

/// Whether there is a wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wheel {
    Wanted,
    Without,
}

/// The words of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Order {
    task: Task,
    wheel: Wheel,
    out: PathBuf,
    /// The folder of binaries that were built elsewhere.
    given: Option<PathBuf>,
}

impl Order {
    fn of(words: &[String]) -> Result<Order, String> {
        let mut order = Order {
            task: Task::Make(Table::Kept),
            wheel: Wheel::Wanted,
            out: repository().join("target/dist"),
            given: None,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut next = || words.next().ok_or_else(|| format!("{word}: of what?"));
            match word.as_str() {
                "--out" => order.out = PathBuf::from(next()?),
                "--binaries" => order.given = Some(PathBuf::from(next()?)),
                "--without-wheel" => order.wheel = Wheel::Without,
                "--write" => order.task = Task::Make(Table::Written),
                "--judge" => order.task = Task::Judge(judge::Reach::Here),
                "--everywhere" => order.task = Task::Judge(judge::Reach::Everywhere),
                "--twice" => order.task = Task::Twice,
                "--check-target" => order.task = Task::Check(next()?.clone()),
                _ => return Err(format!("no option {word}")),
            }
        }
        Ok(order)
    }
}

/// `dist [--without-wheel] [--out FOLDER] [--binaries FOLDER] [--write]` makes all of it in
/// `target/dist`, of binaries that are built or are in a folder; `--write` also writes their sizes
/// into the document. `--judge` installs what is there in bare roots, and runs it; `--everywhere`
/// also in releases of Debian and in all Pythons; `--twice` compiles it again elsewhere and
/// compares; `--check-target TARGET` only checks that the sources compile.
///
/// # Errors
/// Something cannot be built, is too large, or does not run where it is installed. Where only the
/// wheel cannot be had, all others are made first.
pub fn run(words: &[String]) -> Result<(), String> {
    let order = Order::of(words)?;
    let checkout = Checkout::here()?;
    let release = Release::now()?;
    let found = || match &order.given {
        Some(folder) => Binaries::of(folder),
        None => Binaries::found(&checkout),
    };
    match &order.task {
        Task::Check(target) => foreign::check(target),
        Task::Twice => twice::run(&release, &checkout, &order.out),
        Task::Judge(reach) => judge::run(&release, &found(), &order.out, *reach),
        Task::Make(table) => {
            let mut lacking = None;
            if order.given.is_none() {
                Binaries::build(&checkout)?;
                lacking = built_wheel(&checkout, order.wheel)?;
            }
            found().judge(&checkout.paths())?;
            let made = pack(&release, &found(), &order.out)?;
            for path in &made {
                let bytes = read(path)?.len() as u64;
                println!("{bytes:>12} {}", path.display());
                if bytes > FILE_BYTES_MAX {
                    return Err(format!("{}: more than {FILE_BYTES_MAX} bytes", path.display()));
                }
            }
            if *table == Table::Written {
                sizes::write(&made, &found())?;
            }
            lacking.map_or(Ok(()), Err)
        }
    }
}

/// Builds the wheel, if it is wanted; else there is none. The words are of what it lacks.
fn built_wheel(checkout: &Checkout, wheel: Wheel) -> Result<Option<String>, String> {
    if wheel == Wheel::Without {
        let _ = std::fs::remove_file(Binaries::found(checkout).wheel);
        return Ok(None);
    }
    match wheel::build(checkout) {
        Ok(()) => Ok(None),
        Err(wheel::Failure::Broken(words)) => Err(words),
        Err(lacking) => Ok(Some(lacking.words())),
    }
}

/// All files of a release, from what was compiled.
fn pack(release: &Release, binaries: &Binaries, out: &Path) -> Result<Vec<PathBuf>, String> {
    if out.is_dir() {
        std::fs::remove_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    }
    std::fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    let pages = tree::of_command(&binaries.command)?;
    let mut made = vec![
        debian::command(release, binaries, &pages, out)?,
        debian::library(release, binaries, out)?,
        debian::development(release, binaries, out)?,
    ];
    let mut files = Tree::default();
    files.file("extant", 0o755, read(&binaries.fixed)?);
    files.file("README", 0o644, STATIC.as_bytes().to_vec());
    parts::add(&mut files, "licences", release, "extant-cli", parts::Kind::Static)?;
    for (path, entry) in &pages.entries {
        // As a user of /usr/local has them.
        files.entries.insert(path.replacen("usr/share", "share", 1), entry.clone());
    }
    made.push(archive::write(release, &format!("extant-{}-static", release.version), &files, out)?);
    if binaries.wheel.exists() {
        made.push(wheel::package(release, binaries, out)?);
    }
    made.push(sums(&made, out)?);
    Ok(made)
}

/// The digest of each file, as sha256sum has it.
fn sums(made: &[PathBuf], out: &Path) -> Result<PathBuf, String> {
    let mut sha256sum = program("sha256sum");
    sha256sum.current_dir(out).args(made.iter().filter_map(|path| path.file_name()));
    let path = out.join("SHA256SUMS");
    let output = command::output(&mut sha256sum)?;
    std::fs::write(&path, output.stdout).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// What is beside the static command.
const STATIC: &str = "\
extant, linked statically: it needs no library of the machine and runs on any Linux of its
processor. Copy `extant` to a folder of your PATH, and what is in share to /usr/local/share.

What it lacks against the one of the Debian package: fakeroot and pseudo cannot reach it. They
replace functions of the C library that a program loads, and this one loads none: owners and
devices that they only pretend are not seen. Use --owner, --rules or --inject, or the other command.

It holds the GNU C library (LGPL-2.1-or-later) and libgcc (GPL-3.0 with the GCC runtime exception)
of the Debian release that it was built on. extant's own sources, with which it can be linked to
another version of them, are MIT or Apache-2.0; licences/ has those of all that is in it.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_mean_nothing_are_refused() {
        let of = |words: &str| Order::of(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let order = of("--everywhere --out x").expect("an order");
        assert_eq!(order.task, Task::Judge(judge::Reach::Everywhere));
        assert_eq!(order.out, Path::new("x"));
        assert_eq!(of("--without-wheel").expect("an order").wheel, Wheel::Without);
        assert!(of("--check-target").is_err() && of("--doubtful").is_err());
    }

    #[test]
    fn what_was_packed_twice_is_the_same() {
        let scratch = crate::scratch::Scratch::new("xtask-dist");
        let file = |name: &str, bytes: &[u8]| {
            let path = scratch.join(name);
            std::fs::write(&path, bytes).expect("a file");
            path
        };
        let release = Release {
            version: "1.2.3".to_owned(),
            epoch: "1700000000".to_owned(),
            machine: "x86_64".to_owned(),
        };
        let mut files = Tree::default();
        files.file("usr/bin/extant", 0o755, b"a program".to_vec());
        files.link("usr/sbin/mount.fuse.extant", "../bin/extant");
        if !extant_testkit::oracle::require("dpkg-deb") {
            return;
        }
        let mut made = Vec::new();
        for name in ["one", "two"] {
            let out = scratch.join(name);
            std::fs::create_dir(&out).expect("a folder");
            // What a folder of the machine is like reaches no package.
            file(&format!("{name}/other"), b"x");
            let control = debian::Control {
                name: "extant",
                section: "admin",
                depends: "libc6".to_owned(),
                about: "a program\n and more of it",
                extra: &[],
            };
            let package = debian::package(&release, &control, &files, &out).expect("a package");
            let archive = archive::write(&release, "extant", &files, &out).expect("an archive");
            made.push([read(&package), read(&archive)]);
            std::thread::yield_now();
        }
        assert!(made[0] == made[1] && made[0].iter().all(Result::is_ok));
        let listed =
            text(program("dpkg-deb").arg("-c").arg(scratch.join("one/extant_1.2.3_amd64.deb")));
        let listed = listed.expect("a listing");
        assert!(listed.contains("-rwxr-xr-x root/root"), "{listed}");
        assert!(listed.contains("2023-11-14 22:13"), "{listed}");
    }
}
