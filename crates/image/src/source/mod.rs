//! What an image is built from: directories, tar archives and files that a program makes, laid over
//! each other in the order given.
//!
//! ```text
//! options      how sources are read; exclude: what is left out
//! intake       what every source hands its files to
//! directory    a folder of the host, walked; mounts: file systems below it that hold no files;
//!              opening: without a change of access times;
//!              pretended: what fakeroot saved about it;
//!              wrapper: programs that pretend to be root, and whether they reach us
//! archive      a tar archive: headers are read once, bodies stay where they are;
//!              entries: what they become; arrival: bodies that go into the image as they come
//! container    container images, whose layers are archives of their own;
//!              members: of an archive that holds one; platform: what it runs on
//! inject       one file or directory that goes to one place
//! made         files that a program makes
//! volume       an ext volume, whose files are read where they are on it
//! zeros        which blocks of files are zeros, looked for while the tree is read
//! body         reads the bytes of files when the image is written
//! ```
mod archive;
mod arrival;
mod body;
mod container;
mod directory;
mod entries;
mod exclude;
mod inject;
mod intake;
mod made;
mod members;
mod mounts;
mod options;
mod platform;
mod pretended;
mod volume;
mod wrapper;
mod zeros;

pub use arrival::{Arrival, GroupInodes};
pub use body::BodyReader;
pub use container::ContainerImage;
pub use exclude::Exclude;
pub use inject::Injection;
pub use made::{Made, MadeContent};
pub use options::{
    ArchiveEnd, Containers, Holes, IdMap, Mounts, OnTrouble, Owner, ReadOptions, Times,
};
pub use platform::Platform;
pub use pretended::Pretended;
pub use volume::VolumeSource;
pub use wrapper::{Host, host};

use crate::error::Error;
use crate::notice::Notices;
use crate::progress::Progress;
use crate::tree::{Growing, NodeBody, NodeId, SourceId, Tree};
use archive::Outcome;
use container::Choice;
use extant_block::BlockDevice;
use intake::Intake;
use members::Form;
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

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
    /// A container image.
    Container {
        /// How it is kept.
        form: ContainerForm,
        /// Where it is.
        place: ContainerPlace,
        /// Its name, or its digest; `None` for the only one.
        tag: Option<String>,
    },
    /// A file or a directory that goes to one place of the image.
    Injection(Injection),
    /// Files that a program made.
    Made(Made),
    /// All of an ext volume.
    Volume(VolumeSource),
}

/// How a container image is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContainerForm {
    /// A folder with an OCI layout.
    Oci,
    /// An archive of such a folder.
    OciArchive,
    /// What `docker save` writes.
    DockerArchive,
}

/// Where a container image is.
#[derive(Debug)]
pub enum ContainerPlace {
    /// A folder or a file.
    Path(PathBuf),
    /// Open for reading.
    File {
        /// A file that is read from where it is positioned, or a pipe.
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
    /// In an archive, in the file that keeps its bodies, or in the one file that this source is.
    Bytes { file: File, name: String },
    /// In the files of a directory, which is `base` in the tree.
    Folder { folder: OwnedFd, name: PathBuf, base: NodeId },
    /// On the volume already, where the arrival put them.
    Arrived { name: String },
    /// On a volume, read through its device.
    Volume { device: Arc<dyn BlockDevice>, name: String },
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
    /// directory or a volume.
    ///
    /// # Panics
    /// A source of another collection.
    pub fn file(&self, source: SourceId) -> Option<&File> {
        match self.origin(source) {
            Origin::Bytes { file, .. } => Some(file),
            Origin::Folder { .. } | Origin::Arrived { .. } | Origin::Volume { .. } => None,
        }
    }
    /// What took the bodies of archives as they came, if anything did.
    pub(crate) fn arrival(&self) -> Option<&Arrival> {
        self.arrival.as_ref()
    }
    /// Where a body is on the volume already, in bytes; `None` if it is not.
    pub(crate) fn arrived_at(&self, body: NodeBody) -> Option<u64> {
        match body {
            NodeBody::Range { source, offset, .. } | NodeBody::Sparse { source, offset, .. } => {
                match self.origin(source) {
                    Origin::Arrived { .. } => Some(offset),
                    Origin::Bytes { .. } | Origin::Folder { .. } | Origin::Volume { .. } => None,
                }
            }
            NodeBody::Empty | NodeBody::File { .. } => None,
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
            Origin::Bytes { name, .. } | Origin::Arrived { name } | Origin::Volume { name, .. } => {
                name.clone()
            }
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
    /// The container images among the sources, in their order.
    pub containers: Vec<ContainerImage>,
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
    let mut containers = Vec::new();
    for input in inputs {
        containers.extend(read(input, &mut intake, &mut sources)?);
        intake.tree.end_layer()?;
    }
    let Intake { mut tree, skipped, mut notices, search, .. } = intake;
    if let Some(search) = search {
        search.finish(&mut tree)?;
    }
    for rules in &options.rules {
        rules.make_files(&mut tree)?;
    }
    let mut tree = tree.finish();
    for rules in &options.rules {
        rules.apply(&mut tree, &mut notices)?;
    }
    if options.containers == Containers::Image {
        container::check_is_none(&tree)?;
    }
    Ok(Collected { tree, sources, skipped, notices, containers })
}

/// Reads one source; what it is, if it is a container image.
fn read(
    input: Source,
    intake: &mut Intake<'_>,
    sources: &mut Sources,
) -> Result<Option<ContainerImage>, Error> {
    let options = intake.options;
    let any = Choice { tag: None, platform: options.platform.as_ref() };
    let (file, name) = match input {
        Source::Injection(injection) => {
            return inject::read(&injection, intake, sources).map(|()| None);
        }
        Source::Made(made) => return made::read(made, intake, sources).map(|()| None),
        Source::Volume(volume) => return volume::read(&volume, intake, sources).map(|()| None),
        Source::Archive { file, name } => (file, name),
        Source::Container { form, place, tag } => {
            let choice = Choice { tag: tag.as_deref(), platform: options.platform.as_ref() };
            return container(form, place, &choice, intake, sources).map(Some);
        }
        Source::Path(path) => {
            let failed = |error: std::io::Error| Error::io(path.display(), &error);
            if std::fs::metadata(&path).map_err(failed)?.is_dir() {
                let form = match options.containers {
                    Containers::Image => container::form_of_folder(&path),
                    Containers::Files => None,
                };
                if let Some(form) = form {
                    return container::read_folder(&path, form, &any, intake, sources).map(Some);
                }
                return directory::read(&path, intake, sources).map(|()| None);
            }
            (File::open(&path).map_err(failed)?, path.display().to_string())
        }
    };
    match archive::read(file, &name, intake, sources)? {
        Outcome::Laid => Ok(None),
        Outcome::Container(members) => {
            container::read_members(members, None, &any, intake, sources).map(Some)
        }
    }
}

/// Reads a source that is named as a container image.
fn container(
    form: ContainerForm,
    place: ContainerPlace,
    choice: &Choice<'_>,
    intake: &mut Intake<'_>,
    sources: &mut Sources,
) -> Result<ContainerImage, Error> {
    let (file, name) = match place {
        ContainerPlace::Path(path) if form == ContainerForm::Oci || path.is_dir() => {
            return container::read_folder(&path, kept_as(form), choice, intake, sources);
        }
        ContainerPlace::Path(path) => {
            let failed = |error: std::io::Error| Error::io(path.display(), &error);
            (File::open(&path).map_err(failed)?, path.display().to_string())
        }
        ContainerPlace::File { file, name } => (file, name),
    };
    let members = archive::members(file, &name, intake.options)?;
    container::read_members(members, Some(kept_as(form)), choice, intake, sources)
}

fn kept_as(form: ContainerForm) -> Form {
    match form {
        ContainerForm::Oci | ContainerForm::OciArchive => Form::Oci,
        ContainerForm::DockerArchive => Form::Docker,
    }
}
