//! The far ends: a million names in one directory, a chain of ten thousand directories, a file of a
//! tebibyte.

use std::fs::File;
use std::io::{BufWriter, Error};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

use super::{Bench, extant, flush, fresh, input, is_here, once, remove_tree, words};
use crate::archive::{Member, append};
use crate::oracle;
use crate::sheet::Sheet;

/// Builds and reads each of them once for every kind of image.
///
/// # Errors
/// An input cannot be made.
pub fn tables(bench: &Bench, sheet: &mut Sheet) -> Result<(), String> {
    let million = bench.folder.join("million.tar");
    input::make(&million, names).map_err(|error| format!("{}: {error}", million.display()))?;
    let deep = bench.folder.join("deep");
    remove_tree(&deep)?;
    chain(&deep).map_err(|error| format!("{}: {error}", deep.display()))?;
    let vast = bench.folder.join("vast");
    sparse(&vast).map_err(|error| format!("{}: {error}", vast.display()))?;
    sheet.say("\nlimits\n");
    sheet.say(&format!(
        "| {:<40} | {:>9} | {:>9} | {:>9} | {:>9} | e2fsck |",
        "", "build", "memory", "tar", "memory"
    ));
    sheet.say(&format!(
        "| {:-<40} | {:->9} | {:->9} | {:->9} | {:->9} | ------ |",
        "", ":", ":", ":", ":"
    ));
    for kind in ["ext4", "ext2"] {
        sheet.say(&line(bench, kind, "a million files in one directory", &million));
        sheet.say(&line(bench, kind, "10,000 directories deep", &deep));
    }
    sheet.say(&line(bench, "ext4", "a sparse file of 1 TiB", &vast));
    remove_tree(&deep)?;
    remove_tree(&vast)
}

/// The line of one source, which says why if it failed.
fn line(bench: &Bench, kind: &str, name: &str, source: &Path) -> String {
    let name = format!("{name} ({kind})");
    let line = match numbers(bench, kind, source) {
        Ok(numbers) => format!("| {name:<40} | {numbers} |"),
        Err(failure) => format!("| {name:<40} | failed: {} |", failure.replace('\n', " ")),
    };
    let _ = fresh(&bench.folder.join("limit.img"));
    line
}

fn numbers(bench: &Bench, kind: &str, source: &Path) -> Result<String, String> {
    let (image, extant) = (bench.folder.join("limit.img"), extant()?);
    let (source, output) = (source.to_string_lossy(), image.to_string_lossy());
    fresh(&image)?;
    let built =
        once(&words(&[&extant, "build", "-q", "-t", kind, &source, &output]), Some(&image))?;
    flush(&image)?;
    let read = once(&words(&[&extant, "tar", "-q", &output, "-o", "/dev/null"]), None)?;
    let judged = match is_here("e2fsck").then(|| oracle::e2fsck(&image)) {
        None => "-",
        Some(Ok(())) => "clean",
        Some(Err(_)) => "FAULTY",
    };
    let memory = |peak: Option<u64>| peak.map_or("-".into(), |kib| format!("{} MiB", kib >> 10));
    let (left, right) = (memory(built.peak_kib), memory(read.peak_kib));
    Ok(format!(
        "{:>7.2} s | {left:>9} | {:>7.2} s | {right:>9} | {judged:<6}",
        built.seconds, read.seconds
    ))
}

fn names(output: &mut BufWriter<File>) -> Result<(), Error> {
    append(output, "million/", Member::Directory)?;
    (0..1_000_000).try_for_each(|number| {
        append(output, &format!("million/file-{number:06}"), Member::File(&[]))
    })
}

/// Made from folder to folder: no system call takes the path of the last one.
fn chain(folder: &Path) -> Result<(), Error> {
    std::fs::create_dir(folder)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = openat(CWD, folder, flags, Mode::empty())?;
    for _ in 0..10_000 {
        mkdirat(&at, "d", Mode::from_raw_mode(0o755))?;
        at = openat(&at, "d", flags, Mode::empty())?;
    }
    Ok(())
}

/// A tebibyte with an island every 64 GiB.
fn sparse(folder: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(folder)?;
    let file = File::create(folder.join("file"))?;
    file.set_len(1 << 40)?;
    (0..16).try_for_each(|island| file.write_all_at(b"an island", island << 36))
}
