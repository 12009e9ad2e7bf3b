//! One archive through GNU tar and through us.
use extant_testkit::command::program;
use extant_testkit::compare::{self, Field, Options};
use extant_testkit::oracle::{Access, can_mount, mount_loop, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::walk::{Entry, Kind, walk};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What is to become of an archive that GNU tar lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The same tree.
    Same,
    /// An image; GNU tar cannot unpack it, so the trees are not compared.
    Built,
    /// GNU tar cannot list it: an image, or an error with a line.
    Unlisted,
    /// An error with these words.
    Refused(&'static str),
}

/// Rows of what was judged, and what went wrong.
#[derive(Default)]
pub struct Verdicts {
    rows: Vec<[String; 3]>,
    failures: Vec<String>,
}

/// Whether archives can be judged here: as root, with loop devices and GNU tar.
pub fn can_judge() -> bool {
    can_mount() && require("tar")
}

impl Verdicts {
    /// Judges one archive; what it makes besides is removed.
    pub fn judge(&mut self, kind: &str, archive: &Path, expected: Expected) {
        let folder = Scratch::new("peers");
        let (image, unpacked) = (folder.join("x.img"), folder.join("unpacked"));
        std::fs::create_dir(&unpacked).unwrap();
        let listed = tar(&["-t", "--quoting-style=literal"], archive, folder.path());
        let built = build(archive, &image);
        let theirs = match listed.status.success() {
            true => format!("{} names", lines(&listed.stdout)),
            false => format!("fails: {}", last_line(&listed.stderr)),
        };
        let said = first_words(&built.stderr, archive);
        let ours = match (built.status.success(), said.is_empty()) {
            (true, true) => "built".to_owned(),
            (true, false) => format!("built; {said}"),
            (false, _) => format!("refused: {said}"),
        };
        let verdict = match (listed.status.success(), expected) {
            (_, Expected::Refused(words)) => refused(&built, archive, &image, words),
            (_, Expected::Built) => match built.status.success() {
                true => Ok(()),
                false => Err(format!("was to be built, but: {}", last_line(&built.stderr))),
            },
            (true, Expected::Same) => same(&built, &listed.stdout, archive, &image, &unpacked),
            (false, Expected::Same) => Err(format!("GNU tar {theirs}")),
            (true, Expected::Unlisted) => Err("GNU tar lists it now".to_owned()),
            (false, Expected::Unlisted) => match built.status.code() {
                Some(0) => Ok(()),
                _ => refused(&built, archive, &image, ""),
            },
        };
        self.rows.push([kind.to_owned(), theirs, ours]);
        if let Err(what) = verdict {
            self.failures.push(format!("{kind}: {what}"));
        }
    }

    /// Prints the table.
    ///
    /// # Panics
    /// Something is not as expected.
    pub fn finish(self) {
        println!("| archive | GNU tar | extant |\n| --- | --- | --- |");
        for [kind, theirs, ours] in &self.rows {
            println!("| {kind} | {theirs} | {ours} |");
        }
        assert!(self.failures.is_empty(), "{}", self.failures.join("\n"));
    }
}

fn tar(words: &[&str], archive: &Path, folder: &Path) -> Output {
    let mut command = program("tar");
    command.args(words).arg("--force-local").arg("-f").arg(archive);
    command.current_dir(folder).output().unwrap()
}

fn build(archive: &Path, image: &Path) -> Output {
    let mut command = Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
    command.env_remove("SOURCE_DATE_EPOCH").arg("build").arg(archive).arg(image);
    command.output().unwrap()
}

fn lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    shortened(text.lines().last().unwrap_or_default())
}

/// The first thing that we said, without the command and the folder of the archive.
fn first_words(bytes: &[u8], archive: &Path) -> String {
    let text = String::from_utf8_lossy(bytes);
    let first = text.lines().next().unwrap_or_default();
    let folder =
        archive.parent().map_or_else(String::new, |folder| format!("{}/", folder.display()));
    shortened(&first.trim_start_matches("extant: build: ").replace(&folder, ""))
}

fn shortened(text: &str) -> String {
    text.chars().take(110).collect()
}

fn refused(built: &Output, archive: &Path, image: &Path, words: &str) -> Result<(), String> {
    let said = String::from_utf8_lossy(&built.stderr);
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    let mut errors = said.lines().filter(|line| !line.starts_with("  hint: "));
    let error = errors.next_back().unwrap_or_default();
    if built.status.code() != Some(1) || image.exists() {
        return Err(format!("was to be refused, but: {:?} {said}", built.status));
    }
    if !error.contains(words) || !error.contains(&*name) {
        return Err(format!("was to be refused with {words:?} and its name, but: {said}"));
    }
    Ok(())
}

fn same(
    built: &Output,
    listed: &[u8],
    archive: &Path,
    image: &Path,
    unpacked: &Path,
) -> Result<(), String> {
    if !built.status.success() {
        return Err(format!("GNU tar lists it, but: {}", String::from_utf8_lossy(&built.stderr)));
    }
    let words = ["-x", "-p", "--numeric-owner", "--acls", "--xattrs", "--xattrs-include=*"];
    let output = tar(&words, archive, unpacked);
    if !output.status.success() {
        return Err(format!(
            "GNU tar does not unpack it: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let mounted = mount_loop(image, Access::ReadOnly, "")?;
    let mut options = Options::copy().without("lost+found");
    // The root has one name more: lost+found.
    options.fields.remove(&Field::DirectoryLinks);
    let read = |root: &Path| walk(root, options.depth(), &options.excluded);
    let (mut theirs, mut ours) = (read(unpacked)?, read(mounted.path())?);
    let began = std::fs::metadata(archive).map_err(|error| error.to_string())?.mtime();
    adjust(&mut theirs, &mut ours, &described(listed), began);
    let differences = compare::entries(&theirs, &ours, &options);
    match differences.is_empty() {
        true => Ok(()),
        false => {
            let shown: Vec<String> = differences.iter().take(8).map(ToString::to_string).collect();
            Err(format!("{} differences: {}", differences.len(), shown.join("; ")))
        }
    }
}

/// The paths that a listing names, as a walk names them.
fn described(listed: &[u8]) -> BTreeSet<PathBuf> {
    let clean = |line: &[u8]| {
        let names = line.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
        PathBuf::from(std::ffi::OsString::from_vec(names.collect::<Vec<_>>().join(&b'/')))
    };
    listed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(clean).collect()
}

/// Takes out of the comparison what no archive says or no system call does: symlinks have no mode
/// to set, directories that the archive does not name are made by both sides as they see fit, GNU
/// tar restores labels of SELinux only where that runs, and no system call gives a file to user
/// 4294967295.
fn adjust(theirs: &mut [Entry], ours: &mut [Entry], described: &BTreeSet<PathBuf>, began: i64) {
    const OVERFLOW: (u32, u32) = (65_534, 65_534);
    for (theirs, ours) in theirs.iter_mut().zip(ours.iter()) {
        if theirs.path != ours.path {
            continue;
        }
        if (ours.uid, ours.gid) == OVERFLOW && (theirs.uid, theirs.gid) == (0, 0) {
            (theirs.uid, theirs.gid) = OVERFLOW;
        }
        // GNU tar 1.34 does not restore the time of a directory in which it makes a hard link
        // afterwards.
        if theirs.kind == Kind::Directory && theirs.mtime.0 >= began {
            theirs.mtime = ours.mtime;
        }
    }
    for entry in theirs.iter_mut().chain(ours) {
        entry.attributes.remove(&b"security.selinux"[..]);
        if entry.kind == Kind::Symlink {
            entry.mode = 0o777;
        }
        if entry.kind == Kind::Directory && !described.contains(&entry.path) {
            (entry.mode, entry.uid, entry.gid, entry.mtime) = (0, 0, 0, (0, 0));
        }
    }
}
