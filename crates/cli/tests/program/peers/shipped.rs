//! Archives that packages of other readers ship for their own tests: those of Python and of Go from
//! Debian's packages, those of a crate from where cargo keeps it. Nothing is fetched here, and what
//! is not there is said in a line.
use crate::peers::judge::{Expected, Verdicts, can_judge};
use extant_testkit::command::{output, program};
use extant_testkit::scratch::Scratch;
use extant_testkit::skips::{Known, skip_known};
use extant_testkit::tools::{GO_ARCHIVES, PYTHON_ARCHIVE, require_data};
use std::path::{Path, PathBuf};

/// GNU tar lists these, and we refuse them with these words.
const REFUSED: &[(&str, &str)] = &[
    // A name of more than 255 bytes, which GNU tar lists and cannot unpack.
    ("pax-bad-hdr-large.tar.bz2", "bytes, 1 to 255 are possible"),
    // GNU tar says that the time is malformed and takes another.
    ("pax-bad-mtime-file.tar", "an extended header with a wrong mtime"),
    // GNU tar cuts the name at the NUL.
    ("pax-nul-path.tar", "has a NUL in its name"),
    // Extended headers, and no entry that they are for.
    ("pax-path-hdr.tar", "truncated archive"),
    ("diff-024-pending-pax-boundary.tar", "truncated archive"),
];

/// GNU tar lists these and cannot unpack them.
const BUILT: &[&str] = &[
    // It takes minutes.
    "gnu-sparse-many-zeros.tar.bz2",
    // Its names are empty, where the standard has an empty value take a name back; Go reads it as
    // we do.
    "pax-global-records.tar",
    // "Unexpected EOF" in the form 0.0, which Go and bsdtar read.
    "sparse-formats.tar",
];

/// GNU tar fails to list these, most of them broken on purpose.
const UNLISTED: &[&str] = &[
    "diff-014-unterminated-pax.tar",
    "diff-039-truncated-entry-body.tar",
    "hdr-only.tar",
    "issue10968.tar",
    "issue11169.tar",
    "issue12435.tar",
    "neg-size.tar.base64",
    "pax-bad-hdr-file.tar",
    "pax-nul-xattrs.tar",
    "writer-big-long.tar.base64",
    "writer-big.tar",
];

fn expected(name: &str) -> Expected {
    if BUILT.contains(&name) {
        return Expected::Built;
    }
    if UNLISTED.contains(&name) {
        return Expected::Unlisted;
    }
    let refused = REFUSED.iter().find(|(refused, _)| *refused == name);
    refused.map_or(Expected::Same, |(_, words)| Expected::Refused(words))
}

/// The archives in a folder, sorted.
fn archives(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_archive = |path: &PathBuf| path.to_string_lossy().contains(".tar");
    let mut archives: Vec<PathBuf> = entries.filter(is_archive).collect();
    archives.sort();
    archives
}

/// Judges each, decoded where it is packed in a way that we do not read.
fn judge_all(archives: &[PathBuf]) {
    let mut verdicts = Verdicts::default();
    for archive in archives {
        let folder = Scratch::new("peers-shipped");
        let name = archive.file_name().unwrap().to_string_lossy().into_owned();
        let decoder = match name.rsplit('.').next() {
            Some("base64") => "base64 -d",
            _ => "cat",
        };
        let copy = folder.join(&name);
        let script = format!("{decoder} <\"$0\" >\"$1\"");
        output(program("sh").arg("-ec").arg(script).arg(archive).arg(&copy)).unwrap();
        verdicts.judge(&name, &copy, expected(&name));
    }
    verdicts.finish();
}

#[test]
fn archives_of_python() {
    if let Some(archive) = require_data(&PYTHON_ARCHIVE).filter(|_| can_judge()) {
        judge_all(&[archive]);
    }
}

#[test]
fn archives_of_go() {
    if let Some(folder) = require_data(&GO_ARCHIVES).filter(|_| can_judge()) {
        judge_all(&archives(&folder));
    }
}

/// tar-rs packages its tests without their archives; a fork of it packages them.
#[test]
fn archives_of_a_crate() {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home =
        home.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let registries = home.and_then(|home| std::fs::read_dir(home.join("registry/src")).ok());
    let crates = registries
        .into_iter()
        .flatten()
        .filter_map(|registry| std::fs::read_dir(registry.ok()?.path()).ok());
    let is_it = |path: &PathBuf| path.to_string_lossy().contains("/astral-tokio-tar-");
    let found = crates.flatten().filter_map(|entry| Some(entry.ok()?.path())).filter(is_it).max();
    match found.map(|folder| folder.join("tests/archives")).filter(|folder| folder.is_dir()) {
        None => skip_known(Known::ForeignArchives, "no astral-tokio-tar (cargo fetch it)"),
        Some(folder) if can_judge() => judge_all(&archives(&folder)),
        Some(_) => {}
    }
}
