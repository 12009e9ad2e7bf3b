//! Files that a program makes itself, one after the other, in place of a folder or an archive.
//!
//! *Invariants*: bodies are end to end in one file of the host without a name, so what they take of
//! memory does not depend on how large they are.
use super::entries::check_device;
use super::intake::{Intake, Whiteouts};
use super::zeros::Bytes;
use super::{Origin, Sources};
use crate::error::{Error, ErrorKind};
use crate::tree::{NodeBody, NodeContent, NodeId};
use extant_archive::{clean_path, printable};
use extant_format::inode::{Device, FileType};
use extant_tree::Described;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

/// What messages call it.
const NAME: &str = "files of the program";

/// A tree that a program makes. Names are laid over each other as those of an archive are: of two
/// files of one path the last counts, and directories that are missing are made.
#[derive(Debug)]
pub struct Made {
    files: Vec<MadeFile>,
    bodies: File,
    written: u64,
}

#[derive(Debug)]
struct MadeFile {
    path: Vec<u8>,
    what: What,
}

#[derive(Debug)]
enum What {
    File { facts: Described, offset: u64, length: u64 },
    Symlink { facts: Described, target: Vec<u8> },
    Other { facts: Described },
    HardLink { original: Vec<u8> },
}

/// What a file that a program makes holds.
pub enum MadeContent<'a> {
    /// All that this has to give.
    Body(&'a mut dyn Read),
    /// The target of a symlink.
    Target(&'a [u8]),
    /// The numbers of a device.
    Device(Device),
    /// Nothing: directories, FIFOs, sockets.
    Nothing,
}

impl Made {
    /// An empty tree, whose bodies are kept in this folder; in the host's for temporary files if
    /// `None`.
    ///
    /// # Errors
    /// The host's.
    pub fn new(spool_folder: Option<&Path>) -> Result<Made, Error> {
        let bodies = match spool_folder {
            Some(folder) => tempfile::tempfile_in(folder),
            None => tempfile::tempfile(),
        };
        let bodies =
            bodies.map_err(|error| Error::io("a temporary file", &error).of(ErrorKind::Spool))?;
        Ok(Made { files: Vec::new(), bodies, written: 0 })
    }

    /// Adds a file under a path from the root; an empty one, or `/`, is the root directory.
    ///
    /// # Errors
    /// A path with `..` or a NUL; content that is not of the file's type, or cannot be read or
    /// kept.
    pub fn add(
        &mut self,
        path: &[u8],
        mut facts: Described,
        content: MadeContent<'_>,
    ) -> Result<(), Error> {
        let path = cleaned(path)?;
        let what = match (facts.file_type, content) {
            (FileType::Regular, MadeContent::Body(body)) => {
                let (offset, length) = (self.written, self.keep(body, &path)?);
                What::File { facts, offset, length }
            }
            (FileType::Symlink, MadeContent::Target(target)) => {
                What::Symlink { facts, target: target.to_vec() }
            }
            (_, MadeContent::Device(device)) if facts.file_type.is_device() => {
                check_device(&path, device)?;
                facts.device = device;
                What::Other { facts }
            }
            (FileType::Directory | FileType::Fifo | FileType::Socket, MadeContent::Nothing) => {
                What::Other { facts }
            }
            _ => {
                let why = "has content that is not of its type";
                return Err(Error::new(why).about(printable(&path)));
            }
        };
        self.files.push(MadeFile { path, what });
        Ok(())
    }

    /// Adds another name for a file that was added before, or that an earlier source has.
    ///
    /// # Errors
    /// As for [`Made::add`].
    pub fn link(&mut self, path: &[u8], original: &[u8]) -> Result<(), Error> {
        let (path, original) = (cleaned(path)?, cleaned(original)?);
        self.files.push(MadeFile { path, what: What::HardLink { original } });
        Ok(())
    }

    /// Keeps a body, and returns its length.
    fn keep(&mut self, body: &mut dyn Read, path: &[u8]) -> Result<u64, Error> {
        let mut piece = vec![0; 64 << 10];
        let mut length = 0;
        loop {
            let read = match body.read(&mut piece) {
                Ok(0) => return Ok(length),
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::io(printable(path), &error)),
            };
            let piece = piece.get(..read).unwrap_or_default();
            // tidy: writers because it is a file of the host that keeps bodies
            let written = self.bodies.write_all(piece);
            written.map_err(|error| Error::io(NAME, &error).of(ErrorKind::Spool))?;
            length += read as u64;
            self.written += read as u64;
        }
    }
}

fn cleaned(path: &[u8]) -> Result<Vec<u8>, Error> {
    clean_path(path).map_err(|error| Error::new(error.to_string()))
}

/// Lays it over the tree.
///
/// # Errors
/// A hard link to nothing; a path below something that is no directory.
pub(super) fn read(
    made: Made,
    intake: &mut Intake<'_>,
    sources: &mut Sources,
) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::io(NAME, &error);
    let bodies = Bytes::File(Arc::new(made.bodies.try_clone().map_err(failed)?));
    let source = sources.add(Origin::Bytes { file: made.bodies, name: NAME.to_owned() })?;
    let before = intake.whiteouts;
    // What a program names is meant.
    intake.whiteouts = Whiteouts::Kept;
    for MadeFile { path, what } in made.files {
        if intake.excludes(&path) {
            continue;
        }
        match what {
            What::HardLink { original } => link(&path, &original, intake)?,
            What::File { facts, offset, length } => {
                let body = match length {
                    0 => NodeBody::Empty,
                    _ => NodeBody::Range { source, offset, length },
                };
                let node = put(&path, facts, NodeContent::Body(body), intake)?;
                intake.search(node, &bodies);
            }
            What::Symlink { facts, target } => {
                put(&path, facts, NodeContent::Target(&target), intake)?;
            }
            What::Other { facts } => {
                put(&path, facts, NodeContent::None, intake)?;
            }
        }
        intake.progress.step(1)?;
    }
    intake.whiteouts = before;
    Ok(())
}

fn put(
    path: &[u8],
    mut facts: Described,
    content: NodeContent<'_>,
    intake: &mut Intake<'_>,
) -> Result<NodeId, Error> {
    intake.adjust(&mut facts, path);
    if path.is_empty() {
        return match facts.file_type {
            FileType::Directory => intake.tree.describe_root(&facts).map(|()| NodeId::ROOT),
            _ => Err(Error::new("/: is a file, but must be a directory")),
        };
    }
    let (directory, name) = intake.tree.walk(path)?;
    intake.insert(directory, name, &facts, content)
}

fn link(path: &[u8], original: &[u8], intake: &mut Intake<'_>) -> Result<(), Error> {
    let Some(node) = intake.tree.look_up(original) else {
        let (path, original) = (printable(path), printable(original));
        return Err(Error::new(format!(
            "{path}: is a hard link to {original}, which is not there"
        )));
    };
    if path.is_empty() {
        return Err(Error::new("/: is a hard link, but must be a directory"));
    }
    let (directory, name) = intake.tree.walk(path)?;
    intake.link(directory, name, node)
}
