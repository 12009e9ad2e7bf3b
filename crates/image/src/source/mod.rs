//! What an image is built from: directories and tar archives, laid over each other in the order
//! given.
//!
//! ```text
//! options      how sources are read; exclude: what is left out
//! intake       what every source hands its files to
//! directory    a folder of the host, walked; mounts: file systems below it that hold no files;
//!              opening: without a change of access times;
//!              wrapper: programs that pretend to be root, and whether they reach us
//! archive      a tar archive: headers are read once, bodies stay where they are
//! arrival      bodies that go into the image as they come
//! container    tells container images, whose layers are archives of their own
//! body         reads the bytes of files when the image is written
//! ```
mod archive;
mod arrival;
mod body;
mod container;
mod directory;
mod exclude;
mod intake;
mod mounts;
mod opening;
mod options;
mod wrapper;

pub use arrival::{Arrival, GroupInodes};
pub use body::BodyReader;
pub use exclude::Exclude;
pub use options::{ArchiveEnd, IdMap, Mounts, OnTrouble, Owner, ReadOptions, Times};
pub use wrapper::{Host, host};

use crate::error::Error;
use crate::notice::Notices;
use crate::progress::Progress;
use crate::tree::{Growing, NodeBody, NodeId, SourceId, Tree};
use intake::Intake;
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A source, before it is read.
#[derive(Debug)]
pub enum Source {
    /// A directory, or a file with an archive.
    Path(PathBuf),
    /// An archive: a file that is read from where it is positioned, or a pipe.
    Archive {
        /// Open for reading.
        file: File,
        /// What messages call it.
        name: String,
    },
}

impl<P: AsRef<Path>> From<P> for Source {
    fn from(path: P) -> Source {
        Source::Path(path.as_ref().to_owned())
    }
}

/// Where the bodies of a tree are. Files stay open, so that they are found again whatever happens
/// to their names.
///
/// *Locking*: one mutex around the lengths of files that grew, held for an insertion.
#[derive(Default)]
pub struct Sources {
    list: Vec<Origin>,
    /// What took the bodies of archives as they came.
    arrival: Option<Arrival>,
    /// Files that had become longer when they were read, and their length then.
    grown: Mutex<BTreeMap<NodeId, u64>>,
}

/// Where the bodies of one source are.
enum Origin {
    /// In an archive, or in the file that keeps its bodies.
    Bytes { file: File, name: String },
    /// In the files of a directory.
    Folder { folder: OwnedFd, name: PathBuf },
    /// On the volume already, where the arrival put them.
    Arrived { name: String },
}

impl Sources {
    fn add(&mut self, origin: Origin) -> Result<SourceId, Error> {
        let number =
            u16::try_from(self.list.len()).map_err(|_| Error::new("more than 65,535 sources"))?;
        self.list.push(origin);
        Ok(SourceId(number))
    }
    fn origin(&self, source: SourceId) -> &Origin {
        &self.list[usize::from(source.0)]
    }
    /// The archive or spool that holds ranges of this source, to be read with `pread`; `None` for a
    /// directory.
    ///
    /// # Panics
    /// A source of another collection.
    pub fn file(&self, source: SourceId) -> Option<&File> {
        match self.origin(source) {
            Origin::Bytes { file, .. } => Some(file),
            Origin::Folder { .. } | Origin::Arrived { .. } => None,
        }
    }
    /// What took the bodies of archives as they came, if anything did.
    pub(crate) fn arrival(&self) -> Option<&Arrival> {
        self.arrival.as_ref()
    }
    /// Where a body is on the volume already, in bytes; `None` if it is not.
    pub(crate) fn arrived_at(&self, body: NodeBody) -> Option<u64> {
        match body {
            NodeBody::Range { source, offset, .. } => match self.origin(source) {
                Origin::Arrived { .. } => Some(offset),
                Origin::Bytes { .. } | Origin::Folder { .. } => None,
            },
            NodeBody::Empty | NodeBody::Sparse { .. } | NodeBody::File { .. } => None,
        }
    }
    /// A file of a directory is longer than when the tree was read.
    fn note_grown(&self, node: NodeId, length: u64) {
        let mut grown = self.grown.lock().unwrap_or_else(PoisonError::into_inner);
        grown.insert(node, length);
    }
    /// Files that became longer while the image was made, with their length in bytes then: the
    /// image has them as long as they were when the tree was read.
    pub fn grown(&self) -> Vec<(NodeId, u64)> {
        let grown = self.grown.lock().unwrap_or_else(PoisonError::into_inner);
        grown.iter().map(|(node, length)| (*node, *length)).collect()
    }
    /// The name of a source in messages.
    ///
    /// # Panics
    /// A source of another collection.
    pub fn name(&self, source: SourceId) -> String {
        match self.origin(source) {
            Origin::Bytes { name, .. } | Origin::Arrived { name } => name.clone(),
            Origin::Folder { name, .. } => name.display().to_string(),
        }
    }
}

/// All sources, read and laid over each other.
pub struct Collected {
    /// What the image will hold.
    pub tree: Tree,
    /// Where the bodies are.
    pub sources: Sources,
    /// Files that were left out because they could not be read, a sentence each
    /// ([`OnTrouble::Skip`]).
    pub skipped: Vec<String>,
    /// What could not be kept or may surprise.
    pub notices: Notices,
}

/// Reads every source. `progress` is advanced by bytes of an archive, or by files of a directory.
///
/// # Errors
/// The first source that cannot be read, with its name; with [`OnTrouble::Skip`], single files do
/// not count.
pub fn collect(
    inputs: impl IntoIterator<Item = Source>,
    options: &ReadOptions,
    progress: &dyn Progress,
) -> Result<Collected, Error> {
    let mut sources = Sources { arrival: options.arrival.clone(), ..Sources::default() };
    let mut intake = Intake::new(Growing::new(), options, progress);
    for input in inputs {
        read(input, &mut intake, &mut sources)?;
        intake.tree.end_layer()?;
    }
    let Intake { tree, skipped, mut notices, .. } = intake;
    let tree = tree.finish();
    container::note(&tree, &mut notices);
    Ok(Collected { tree, sources, skipped, notices })
}

fn read(input: Source, intake: &mut Intake<'_>, sources: &mut Sources) -> Result<(), Error> {
    let path = match input {
        Source::Archive { file, name } => return archive::read(file, &name, intake, sources),
        Source::Path(path) => path,
    };
    let failed = |error: std::io::Error| Error::io(path.display(), &error);
    if std::fs::metadata(&path).map_err(failed)?.is_dir() {
        return directory::read(&path, intake, sources);
    }
    let file = File::open(&path).map_err(failed)?;
    archive::read(file, &path.display().to_string(), intake, sources)
}
