//! Gives names in lost+found to what has none, and makes the root where it is missing.
use crate::directories;
use crate::draft::{Draft, Result};
use crate::inline;
use crate::options::Scope;
use extant_format::Ino;
use extant_format::inode::{FileType, Inode};
use extant_inspect::{Code, Problem};

const LOST_FOUND: &[u8] = b"lost+found";

/// Mends one problem of the tree of directories. Gives whether it did.
///
/// # Errors
/// The device's.
pub(crate) fn mend(draft: &mut Draft, problem: &Problem) -> Result<bool> {
    let Some(ino) = problem.ino else { return Ok(false) };
    match problem.code {
        Code::RootMissing | Code::RootNotDirectory => {
            directories::create(draft, Ino::ROOT, Ino::ROOT, 0o755)
        }
        Code::DotDotWrong => {
            let parent = problem.expected.and_then(|parent| u32::try_from(parent).ok());
            directories::set_parent(draft, ino, Ino(parent.unwrap_or(Ino::ROOT.0)))
        }
        Code::DirectoryUnreachable => {
            let Some(home) = lost_found(draft)? else { return Ok(false) };
            let is_named = named(draft, home, ino, FileType::Directory)?;
            Ok(is_named && directories::set_parent(draft, ino, home)?)
        }
        Code::InodeUnattached => unattached(draft, ino),
        _ => Ok(false),
    }
}

/// Whether an inode without a name is a file that holds nothing: e2fsck frees it without asking.
///
/// # Errors
/// The device's.
pub(crate) fn is_nothing(draft: &Draft, problem: &Problem) -> Result<bool> {
    let ino = problem.ino.filter(|_| problem.code == Code::InodeUnattached);
    let Some(ino) = ino else { return Ok(false) };
    Ok(draft.inode(ino)?.is_some_and(|inode| is_empty(draft, &inode)))
}

/// Whether a file without a name is freed: e2fsck frees one that is nothing but a hole, too.
fn is_empty(draft: &Draft, inode: &Inode) -> bool {
    inode.sectors == 0
        && (inode.size == 0 || draft.scope == Scope::Preen)
        && inode.attribute_block.0 == 0
        && inode.tail.iter().all(|byte| *byte == 0)
        && inode.file_type() == Some(FileType::Regular)
}

/// An inode without a name: freed if it holds nothing and that may be lost, else named.
fn unattached(draft: &mut Draft, ino: Ino) -> Result<bool> {
    let Some(inode) = draft.inode(ino)? else { return Ok(false) };
    let is_value = inode.flags & extant_format::inode::flags::EA_INODE != 0;
    if is_value && draft.scope != Scope::All {
        // Whose value it is may be among what is not mended.
        return Ok(false);
    }
    // Who has it, and who may do what with it, is something too.
    if is_value || is_empty(draft, &inode) && draft.scope != Scope::Safe {
        draft.clear_inode(ino)?;
        return Ok(true);
    }
    let Some(kind) = inode.file_type() else { return Ok(false) };
    if kind == FileType::Directory {
        // Its own loop or top is a problem of its own.
        return Ok(false);
    }
    let Some(home) = lost_found(draft)? else { return Ok(false) };
    named(draft, home, ino, kind)
}

fn named(draft: &mut Draft, home: Ino, ino: Ino, kind: FileType) -> Result<bool> {
    directories::add(draft, home, (&name_of(ino), ino, kind))
}

/// Takes a directory out of all directories but its `home`. Gives whether it was in one.
///
/// # Errors
/// The device's.
pub(crate) fn forget(draft: &mut Draft, ino: Ino, home: Ino) -> Result<bool> {
    let mut is_changed = false;
    for parent in (1..=draft.usage.superblock().inodes_count).map(Ino) {
        let is_directory = draft.usage.file_type(parent) == Some(FileType::Directory);
        if is_directory && parent != home {
            is_changed |= directories::forget(draft, parent, ino)?;
            is_changed |= inline::forget(draft, parent, ino)?;
        }
    }
    Ok(is_changed)
}

/// What an inode without a name is called in `lost+found`.
pub(crate) fn name_of(ino: Ino) -> Vec<u8> {
    format!("#{}", ino.0).into_bytes()
}

/// The directory for what was lost, which is made where there is none; `None` where there is no
/// room for it.
fn lost_found(draft: &mut Draft) -> Result<Option<Ino>> {
    if let Some(found) = directories::find(draft, Ino::ROOT, LOST_FOUND)? {
        let inode = draft.inode(found)?;
        let is_directory = inode.is_some_and(|it| it.file_type() == Some(FileType::Directory));
        if is_directory && draft.usage.is_used(found) || draft.is_given(found) {
            return Ok(Some(found));
        }
        // What has the name is kept under another one.
        if !directories::rename(draft, Ino::ROOT, LOST_FOUND, b"lost+found~")? {
            return Ok(None);
        }
    }
    made(draft)
}

/// Makes the directory for what was lost, if nothing has its name. Gives whether it did.
///
/// # Errors
/// The device's.
pub(crate) fn make_lost_found(draft: &mut Draft) -> Result<bool> {
    match directories::find(draft, Ino::ROOT, LOST_FOUND)? {
        Some(_) => Ok(false),
        None => Ok(made(draft)?.is_some()),
    }
}

fn made(draft: &mut Draft) -> Result<Option<Ino>> {
    let Some(ino) = draft.allocate_inode() else { return Ok(None) };
    let is_made = directories::create(draft, ino, Ino::ROOT, 0o700)?;
    let is_named =
        is_made && directories::add(draft, Ino::ROOT, (LOST_FOUND, ino, FileType::Directory))?;
    if is_made && !is_named {
        draft.clear_inode(ino)?;
    }
    Ok(is_named.then_some(ino))
}
