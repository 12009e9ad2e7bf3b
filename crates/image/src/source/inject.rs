//! One file or directory of the host that goes to one place of the image.
//!
//! The place is looked for in the tree as it is by then: links on the way are followed inside it,
//! never in the host. Directories on the way that are missing are made, root's and 0755.
use super::directory::{self, FactsOf, Patterns, Place, Single};
use super::intake::{Intake, Whiteouts};
use super::options::Owner;
use super::zeros::Bytes;
use super::{Origin, Sources};
use crate::error::Error;
use crate::tree::{NodeContent, NodeId};
use extant_archive::{clean_path, printable};
use extant_format::inode::FileType;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file or a directory, and where it goes.
#[derive(Clone, Debug)]
pub struct Injection {
    /// On the host. A symlink is followed.
    pub source: PathBuf,
    /// In the image: a path from its root on. A file goes into it under its own name, if the path
    /// ends with a slash. A directory is laid over one that is there, which keeps its owner and
    /// mode where none is given here.
    pub target: Vec<u8>,
    /// The lower twelve bits of the mode, in place of the source's: of the file, or of the
    /// directory itself.
    pub permissions: Option<u16>,
    /// The owner of all of it, in place of the source's.
    pub owner: Option<Owner>,
}

/// Lays it over the tree.
///
/// # Errors
/// A source that is neither, or cannot be read; a target that cannot be, or is a directory where
/// the source is a file.
pub(super) fn read(
    injection: &Injection,
    intake: &mut Intake<'_>,
    sources: &mut Sources,
) -> Result<(), Error> {
    let shown = &injection.source.display();
    let failed = |error: std::io::Error| Error::io(shown, &error);
    let path = std::fs::canonicalize(&injection.source).map_err(failed)?;
    let metadata = std::fs::symlink_metadata(&path).map_err(failed)?;
    let mut target = clean_path(&injection.target)
        .map_err(|error| Error::new(format!("{shown}: its place in the image, {error}")))?;
    let before = (intake.whiteouts, intake.owner);
    (intake.whiteouts, intake.owner) = (Whiteouts::Kept, injection.owner);
    let read = if metadata.is_dir() {
        read_folder(&path, &target, injection, intake, sources)
    } else if metadata.is_file() {
        if injection.target.ends_with(b"/") {
            let name = injection.source.file_name().or(path.file_name()).unwrap_or_default();
            if !target.is_empty() {
                target.push(b'/');
            }
            target.extend_from_slice(name.as_bytes());
        }
        read_file(&path, &target, injection, intake, sources)
    } else {
        Err(Error::new(format!("{shown}: is neither a file nor a directory")))
    };
    (intake.whiteouts, intake.owner) = before;
    read
}

fn read_folder(
    path: &Path,
    target: &[u8],
    injection: &Injection,
    intake: &mut Intake<'_>,
    sources: &mut Sources,
) -> Result<(), Error> {
    let is_directory = |node: &NodeId| intake.tree.file_type(*node) == FileType::Directory;
    let there = intake.tree.reach(target).filter(is_directory);
    let (directory, name) = match there {
        Some(directory) => (directory, &b""[..]),
        None => intake.tree.walk(target)?,
    };
    let (permissions, patterns) = (injection.permissions, Patterns::Ignore);
    let facts = match injection.permissions.is_none() && injection.owner.is_none() {
        true => FactsOf::Tree,
        false => FactsOf::Folder,
    };
    let place = Place { directory, name, permissions, patterns, facts };
    directory::read_into(path, &place, intake, sources)
}

fn read_file(
    path: &Path,
    target: &[u8],
    injection: &Injection,
    intake: &mut Intake<'_>,
    sources: &mut Sources,
) -> Result<(), Error> {
    let shown = &injection.source.display();
    let is_directory = |node: NodeId| intake.tree.file_type(node) == FileType::Directory;
    if intake.tree.reach(target).is_some_and(is_directory) {
        let target = printable(target);
        return Err(Error::new(format!(
            "{shown}: /{target} is a directory of the image; /{target}/ puts the file into it"
        )));
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let failed = |error: rustix::io::Errno| Error::io(shown, &error.into());
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
    let stat = rustix::fs::fstat(&file).map_err(failed)?;
    if intake.options.never.contains(&(stat.st_dev, stat.st_ino)) {
        return Err(Error::new(format!("{shown}: is the image itself")));
    }
    let name = shown.to_string();
    let file = File::from(file);
    let copy = file.try_clone().map_err(|error| Error::io(shown, &error))?;
    let source = sources.add(Origin::Bytes { file, name })?;
    let Single { mut facts, body } = directory::read_single(path, &stat, intake, source)?;
    intake.adjust(&mut facts, target);
    facts.permissions = injection.permissions.unwrap_or(facts.permissions);
    let (directory, name) = intake.tree.walk(target)?;
    let node = intake.insert(directory, name, &facts, NodeContent::Body(body))?;
    intake.search(node, &Bytes::File(Arc::new(copy)));
    intake.progress.step(1)?;
    Ok(())
}
