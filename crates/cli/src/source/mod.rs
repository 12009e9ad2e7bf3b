//! What an image is built from: directories and tar archives, laid over each other in the order
//! given.
//!
//! ```text
//! options      the words of the command line about sources, checked
//! directory    a folder of the host, walked
//! tar          an archive: headers are read once, bodies stay where they are
//! stream       compressed archives and pipes: decompressed, bodies kept in a spool, because they come only once
//! gzip         its members one after the other, and the zeros after the last
//! mounts       file systems below a directory that hold no files
//! access       access lists as text and as bytes
//! container    tells container images, whose layers are archives of their own
//! body         reads the bytes of files when the image is written
//! ```
mod access;
mod body;
mod container;
mod directory;
mod gzip;
mod intake;
mod mounts;
mod options;
mod stream;
mod tar;

pub use body::BodyReader;
pub use options::{
    ArchiveEnd, IdMap, Mounts, Owner, ReadOptions, SourceArguments, Times, Trouble, WhiteoutForm,
};

use crate::error::Error;
use crate::notice::Notices;
use crate::progress::Progress;
use crate::tree::{Growing, NodeId, SourceId, Tree};
use intake::Intake;
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Where the bodies of a tree are. Files stay open, so that they are found again whatever happens
/// to their names.
#[derive(Default)]
pub struct Sources {
    list: Vec<Place>,
    /// Files that had become longer when they were read, and their length then.
    grown: Mutex<BTreeMap<NodeId, u64>>,
}

enum Place {
    /// An archive or a spool.
    Bytes { file: File, name: String },
    /// A source directory.
    Folder { folder: OwnedFd, name: PathBuf },
}

impl Sources {
    fn add(&mut self, place: Place) -> Result<SourceId, Error> {
        let number =
            u16::try_from(self.list.len()).map_err(|_| Error::new("more than 65,535 sources"))?;
        self.list.push(place);
        Ok(SourceId(number))
    }
    fn place(&self, source: SourceId) -> &Place {
        &self.list[usize::from(source.0)]
    }
    /// The archive or spool that holds ranges of this source, to be read with `pread`; `None` for a
    /// directory.
    pub fn file(&self, source: SourceId) -> Option<&File> {
        match self.place(source) {
            Place::Bytes { file, .. } => Some(file),
            Place::Folder { .. } => None,
        }
    }
    /// A file of a directory is longer than when the tree was read.
    fn note_grown(&self, node: NodeId, length: u64) {
        let mut grown = self.grown.lock().unwrap_or_else(PoisonError::into_inner);
        grown.insert(node, length);
    }
    /// Files that became longer while the image was made, with their length then: the image has
    /// them as long as they were when the tree was read.
    pub fn grown(&self) -> Vec<(NodeId, u64)> {
        let grown = self.grown.lock().unwrap_or_else(PoisonError::into_inner);
        grown.iter().map(|(node, length)| (*node, *length)).collect()
    }
    /// The name for messages.
    pub fn name(&self, source: SourceId) -> String {
        match self.place(source) {
            Place::Bytes { name, .. } => name.clone(),
            Place::Folder { name, .. } => name.display().to_string(),
        }
    }
}

/// All sources, read and laid over each other.
pub struct Collected {
    /// What the image will hold.
    pub tree: Tree,
    /// Where the bodies are.
    pub sources: Sources,
    /// Files that were left out because they could not be read, a sentence each (`--keep-going`):
    /// exit code 1.
    pub skipped: Vec<String>,
    /// What could not be kept or may surprise: worth warnings.
    pub notices: Notices,
}

/// Reads every source. `progress` is advanced by bytes of archive, or by files of a directory...
/// see [`Progress`].
///
/// # Errors
/// The first source that cannot be read, with its name; with [`Trouble::Skip`], single files do not
/// count.
pub fn collect(
    words: &[OsString],
    options: &ReadOptions,
    progress: &Progress,
) -> Result<Collected, Error> {
    if words.iter().filter(|word| *word == "-").count() > 1 {
        return Err(Error::usage("-: standard input can be read only once"));
    }
    let mut sources = Sources::default();
    let mut intake = Intake::new(Growing::new(), options, progress);
    for word in words {
        read(word, &mut intake, &mut sources)?;
        intake.tree.end_layer()?;
    }
    let Intake { tree, skipped, mut notices, .. } = intake;
    let tree = tree.finish();
    container::note(&tree, &mut notices);
    Ok(Collected { tree, sources, skipped, notices })
}

fn read(word: &OsString, intake: &mut Intake<'_>, sources: &mut Sources) -> Result<(), Error> {
    if word == "-" {
        let stdin = std::io::stdin();
        let copy =
            rustix::io::dup(&stdin).map_err(|error| Error::io("standard input", &error.into()))?;
        return tar::read_file(File::from(copy), "standard input", intake, sources);
    }
    let path = Path::new(word);
    let metadata = std::fs::metadata(path).map_err(|error| Error::io(path.display(), &error))?;
    if metadata.is_dir() {
        return directory::read(path, intake, sources);
    }
    let file = File::open(path).map_err(|error| Error::io(path.display(), &error))?;
    tar::read_file(file, &path.display().to_string(), intake, sources)
}
