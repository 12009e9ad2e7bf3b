//! The inputs: the Linux tree as a plain tar, and a hundred thousand small files; kept between
//! runs.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Error};
use std::path::{Path, PathBuf};

use super::Bench;
use crate::archive::{Member, append, finish};
use crate::command::{self, find, program};
use crate::walk::{Depth, walk};

/// Where Debian's package linux-source-6.1 puts the tree.
const LINUX: &str = "/usr/src/linux-source-6.1.tar.xz";

/// A tar archive, plain, and the tree that it holds.
#[derive(Clone, Debug)]
pub struct Input {
    /// What the tables call it.
    pub name: String,
    /// The archive.
    pub archive: PathBuf,
    /// Where the tree is, once [`Input::tree`] unpacked it.
    tree: PathBuf,
}

impl Bench {
    /// The inputs that were asked for and can be had.
    ///
    /// # Errors
    /// One of them cannot be made.
    pub fn inputs(&self) -> Result<Vec<Input>, String> {
        let mut inputs = Vec::new();
        let wanted = self.input.as_deref();
        if wanted.is_none_or(|name| name == "linux") {
            inputs.extend(self.linux()?);
        }
        if wanted.is_none_or(|name| name == "small") {
            let archive = self.folder.join("small.tar");
            make(&archive, small).map_err(|error| format!("{}: {error}", archive.display()))?;
            inputs.push(Input::new("100,000 files of 4 KiB", archive, &self.folder));
        }
        if let Some(path) = wanted.filter(|name| !["linux", "small"].contains(name)) {
            // The rows are run in other folders.
            let archive = std::path::absolute(path).map_err(|error| format!("{path}: {error}"))?;
            inputs.push(Input::new(path, archive, &self.folder));
        }
        Ok(inputs)
    }

    /// The Linux tree; without its package, which is named then, none.
    ///
    /// # Errors
    /// It cannot be unpacked.
    pub fn linux(&self) -> Result<Option<Input>, String> {
        let archive = linux(&self.folder)?;
        if archive.is_none() {
            eprintln!("skipped: no {LINUX} (package linux-source-6.1)");
        }
        Ok(archive.map(|archive| Input::new("Linux 6.1", archive, &self.folder)))
    }
}

impl Input {
    pub(super) fn new(name: &str, archive: PathBuf, folder: &Path) -> Input {
        let tree = folder.join(archive.with_extension("tree").file_name().unwrap_or_default());
        Input { name: name.into(), archive, tree }
    }

    /// Bytes of the archive.
    pub fn size(&self) -> u64 {
        std::fs::metadata(&self.archive).map_or(0, |metadata| metadata.len())
    }

    /// How many inodes its tree takes, the root included.
    ///
    /// # Errors
    /// It cannot be unpacked.
    pub fn entries(&self) -> Result<u64, String> {
        Ok(walk(&self.tree()?, Depth::default(), &BTreeSet::new())?.len() as u64)
    }

    /// The unpacked tree, for what cannot read an archive.
    ///
    /// # Errors
    /// It cannot be unpacked.
    pub fn tree(&self) -> Result<PathBuf, String> {
        if !self.tree.is_dir() {
            let partial = self.tree.with_extension("partial");
            super::remove_tree(&partial)?;
            std::fs::create_dir_all(&partial)
                .map_err(|error| format!("{}: {error}", partial.display()))?;
            command::output(program("tar").arg("-xf").arg(&self.archive).arg("-C").arg(&partial))?;
            std::fs::rename(&partial, &self.tree)
                .map_err(|error| format!("{}: {error}", self.tree.display()))?;
        }
        Ok(self.tree.clone())
    }
}

/// The Linux tree as a plain archive.
fn linux(folder: &Path) -> Result<Option<PathBuf>, String> {
    let archive = folder.join("linux.tar");
    if !archive.is_file() {
        if !Path::new(LINUX).is_file() || find("xz").is_none() {
            return Ok(None);
        }
        let partial = archive.with_extension("partial");
        let output =
            File::create(&partial).map_err(|error| format!("{}: {error}", partial.display()))?;
        let status = program("xz")
            .args(["-dkc", LINUX])
            .stdout(output)
            .status()
            .map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("xz -dkc {LINUX}: {status}"));
        }
        std::fs::rename(&partial, &archive)
            .map_err(|error| format!("{}: {error}", archive.display()))?;
    }
    Ok(Some(archive))
}

/// Writes an archive under another name first, so that a broken one is never taken for whole.
pub(super) fn make(
    archive: &Path,
    fill: fn(&mut BufWriter<File>) -> Result<(), Error>,
) -> Result<(), Error> {
    if archive.is_file() {
        return Ok(());
    }
    let partial = archive.with_extension("partial");
    let mut output = BufWriter::with_capacity(1 << 20, File::create(&partial)?);
    fill(&mut output)?;
    finish(&mut output)?;
    std::fs::rename(&partial, archive)
}

fn small(output: &mut BufWriter<File>) -> Result<(), Error> {
    let mut content = [0u8; 4096];
    let mut number = 1u64;
    for folder in 0..10_000 {
        append(output, &format!("{folder:05}/"), Member::Directory)?;
        for file in 0..10 {
            for chunk in content.chunks_mut(8) {
                // Xorshift: bytes that nothing can leave out.
                number ^= number << 13;
                number ^= number >> 7;
                number ^= number << 17;
                chunk.copy_from_slice(&number.to_le_bytes());
            }
            append(output, &format!("{folder:05}/{file}"), Member::File(&content))?;
        }
    }
    Ok(())
}
