//! The packages in what a release of Debian begins with, by dpkg: they install where their
//! `Depends` say that they do, and are refused elsewhere; the static command runs in all of them.

use std::path::Path;

use super::root::Root;
use crate::command::{self, program};
use crate::dist::{Release, text};

/// The releases, from the oldest on.
const RELEASES: &[&str] = &["bullseye", "bookworm", "trixie"];

/// What is installed.
pub struct Files<'f> {
    /// The package of the command.
    pub command: &'f Path,
    /// Those of libextant.
    pub libraries: [&'f Path; 2],
    /// The archive with the static command.
    pub fixed: &'f Path,
    /// A program that loads libextant.
    pub program: &'f Path,
}

/// Installs all of it in each release, and removes it again. A release that is not to be had here
/// is named.
///
/// # Errors
/// Something does not install, or run, or go; or no release is to be had.
pub fn judge(release: &Release, files: &Files<'_>) -> Result<(), String> {
    let mut judged = 0;
    for suite in RELEASES {
        match Root::of(suite) {
            Ok(root) => {
                in_root(release, files, &root).map_err(|words| format!("{suite}: {words}"))?;
                let what = match serves(files.command, &root)? {
                    Ok(()) => "the packages install, run and go".to_owned(),
                    Err(needed) => format!("the packages are refused for want of {needed}"),
                };
                println!("dist: {suite}: {what}; the static command runs");
                judged += 1;
            }
            Err(why) => {
                let why = why.lines().last().unwrap_or_default();
                println!("dist: {suite}: {why}: NOT TESTED THERE");
            }
        }
    }
    if judged == 0 { Err("no release of Debian is to be had here".to_owned()) } else { Ok(()) }
}

/// One release.
fn in_root(release: &Release, files: &Files<'_>, root: &Root) -> Result<(), String> {
    let folder = format!("extant-{}-static-{}-linux", release.version, release.machine);
    root.archive(files.fixed)?;
    judged_by_its_own(root, &format!("/{folder}/extant"))?;
    let installed = installed(root, &[files.command]);
    match (serves(files.command, root)?, installed) {
        (Ok(()), Ok(())) => {
            judged_by_its_own(root, "/usr/bin/extant")?;
            gone(root, &["extant"], "usr/bin/extant")?;
            library(release, files, root)
        }
        (Err(needed), Err(words)) if words.contains(&needed) => Ok(()),
        (_, Err(words)) => Err(words),
        (Err(needed), Ok(())) => Err(format!("installs without {needed}")),
    }
}

/// As [`Root::judge`], with the release's own e2fsck too.
fn judged_by_its_own(root: &Root, command: &str) -> Result<(), String> {
    root.judge(command)?;
    root.run(&["e2fsck", "-fn", "/tmp/disk.img"])?;
    Ok(())
}

/// Whether a root has the C library that a package needs, else the words of the package for it.
fn serves(deb: &Path, root: &Root) -> Result<Result<(), String>, String> {
    let depends = text(program("dpkg-deb").arg("-f").arg(deb).arg("Depends"))?;
    let wanted = depends.split(", ").find(|word| word.starts_with("libc6 (>= "));
    let wanted = wanted.ok_or_else(|| format!("{}: Depends: {depends}", deb.display()))?;
    let least = wanted.trim_start_matches("libc6 (>= ").trim_end_matches(')');
    let version = root.run(&["dpkg-query", "-W", "-f", "${Version}", "libc6"])?;
    let mut compare = program("dpkg");
    compare.args(["--compare-versions", &version, "ge", least]);
    Ok(command::output(&mut compare).map(|_| ()).map_err(|_| wanted.to_owned()))
}

/// dpkg installs packages, and finds every file of theirs as it was packed.
fn installed(root: &Root, packages: &[&Path]) -> Result<(), String> {
    let paths = packages.iter().map(|path| root.take(path)).collect::<Result<Vec<_>, _>>()?;
    let mut words = vec!["dpkg", "-i"];
    words.extend(paths.iter().map(String::as_str));
    root.run(&words)?;
    for deb in packages {
        let name = text(program("dpkg-deb").arg("-f").arg(deb).arg("Package"))?;
        let differences = root.run(&["dpkg", "-V", &name])?;
        if !differences.is_empty() {
            return Err(format!("dpkg -V {name}: {differences}"));
        }
    }
    Ok(())
}

/// dpkg removes packages, and the file with them.
fn gone(root: &Root, names: &[&str], file: &str) -> Result<(), String> {
    if !root.path(file).exists() {
        return Err(format!("no {file}"));
    }
    root.run(&[&["dpkg", "-P"], names].concat())?;
    if root.path(file).exists() {
        return Err(format!("{file} is left"));
    }
    Ok(())
}

/// A program finds the library where its package put it.
fn library(release: &Release, files: &Files<'_>, root: &Root) -> Result<(), String> {
    installed(root, &files.libraries)?;
    let program = root.take(files.program)?;
    let said = root.run(&[&program, "/tmp/tour.img"])?;
    if !said.ends_with("problems: 0") {
        return Err(format!("{program}: {said}"));
    }
    let header = "usr/include/extant.h";
    let library = format!("{}/libextant.so.0", release.library_folder());
    if !root.path(&library).exists() {
        return Err(format!("no {library}"));
    }
    gone(root, &["libextant-dev", "libextant0"], header)
}
