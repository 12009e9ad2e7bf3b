//! What changes what an object is like: chmod, chown, touch, chattr, setfattr; each for one object
//! or for a tree.
use crate::change::Change;
use crate::create::{self, Missing};
use crate::error::{Error, Result};
use crate::mode::{Mode, UMASK};
use crate::owner::Owner;
use crate::tree::{self, Links, Reach};
use crate::walk::{self, Below, Event, ImageTree, Loops, Manner, Visited};
use extant_engine::{FlagChange, MetadataChange, NewKind, SetAttribute, SetTime};
use extant_format::inode::{FileType, flags};
use std::path::Path;

/// Visits a path, or all below it too.
fn each(
    change: &Change,
    path: &Path,
    (reach, links): (Reach, Links),
    loops: &mut Loops,
    visit: &mut dyn FnMut(&Visited<'_>) -> Result<()>,
) -> Result<u64> {
    let mut visited_count = 0;
    walk::walk(&ImageTree::new(change), path, Manner::plain(links), &mut |event| {
        match event {
            Event::Found(visited) => {
                visited_count += 1;
                visit(&visited)?;
            }
            Event::Left(_) => {}
            // What is in it was or will be visited.
            Event::Trouble(error) if error.is_loop() => loops.push(error),
            // All or nothing: what cannot be reached is not changed.
            Event::Trouble(error) => return Err(error),
        }
        Ok(if reach == Reach::Tree { Below::Enter } else { Below::Skip })
    })?;
    Ok(visited_count)
}

fn set(change: &Change, visited: &Visited<'_>, wanted: &MetadataChange) -> Result<()> {
    let inodes = change.inodes();
    let inode = inodes.by_number(visited.number())?;
    Ok(inodes.set_metadata(&inode, wanted).map_err(|error| error.at(visited.spot.path))?)
}

/// Changes permissions. Symbolic links have none: below a tree they are left out, and the path
/// itself is what it leads to. Returns how many objects were changed.
///
/// # Errors
/// Those of the engine.
pub fn permissions(
    change: &Change,
    path: &Path,
    mode: &Mode,
    reach: Reach,
    loops: &mut Loops,
) -> Result<u64> {
    each(change, path, (reach, Links::Follow), loops, &mut |visited| {
        let file_type = visited.facts.file_type;
        if file_type == FileType::Symlink {
            return Ok(());
        }
        let permissions = Some(mode.applied(visited.facts.permissions, file_type));
        set(change, visited, &MetadataChange { permissions, ..MetadataChange::default() })
    })
}

/// Changes owner and group. Returns how many objects were changed.
///
/// # Errors
/// Those of the engine.
pub fn owner(
    change: &Change,
    path: &Path,
    owner: Owner,
    (reach, links): (Reach, Links),
    loops: &mut Loops,
) -> Result<u64> {
    // A tree is changed as it is: links too.
    let links = if reach == Reach::Tree { Links::Stay } else { links };
    let Owner { uid, gid } = owner;
    each(change, path, (reach, links), loops, &mut |visited| {
        set(change, visited, &MetadataChange { uid, gid, ..MetadataChange::default() })
    })
}

/// Which times touch(1) sets, and to what; `None` stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// When it was last read.
    pub access: Option<SetTime>,
    /// When its content last changed.
    pub modify: Option<SetTime>,
}

/// Sets times; a file that is not there is made with the permissions 0644.
///
/// # Errors
/// Those of the engine.
pub fn times(
    change: &Change,
    path: &Path,
    times: Times,
    (missing, links): (Missing, Links),
) -> Result<()> {
    if tree::found(change, path, links)?.is_none() {
        match missing {
            Missing::Leave => return Ok(()),
            Missing::Make => create::object(change, path, NewKind::File, 0o666 & !UMASK)?,
        };
    }
    let inode = tree::inode(change, path, links)?;
    let wanted = MetadataChange {
        access_time: times.access,
        modify_time: times.modify,
        ..MetadataChange::default()
    };
    Ok(change.inodes().set_metadata(&inode, &wanted).map_err(|error| error.at(path))?)
}

/// Letters of inode flags that chattr(1) changes, and the flags.
const LETTERS: [(char, u32); 10] = [
    ('a', flags::APPEND),
    ('A', flags::NOATIME),
    ('d', flags::NODUMP),
    ('D', flags::DIRECTORY_SYNC),
    ('i', flags::IMMUTABLE),
    ('P', flags::PROJECT_INHERIT),
    ('s', flags::SECURE_DELETION),
    ('S', flags::SYNC),
    ('T', flags::TOP_DIRECTORY),
    ('u', flags::UNDELETE),
];

/// Reads `+ia`, `-i` or `=d`.
///
/// # Errors
/// A letter that is none of those that can be changed.
pub fn parse_flags(text: &str) -> Result<FlagChange> {
    let wrong = |said: String| Error::usage(text, said);
    let mut letters = text.chars();
    let sign = letters.next();
    let mut named = 0;
    for letter in letters {
        let found = LETTERS.iter().find(|(known, _)| *known == letter);
        let (_, flag) = found.ok_or_else(|| {
            let known: String = LETTERS.iter().map(|(letter, _)| *letter).collect();
            wrong(format!("{letter:?} is no flag that can be changed: {known}"))
        })?;
        named |= flag;
    }
    match sign {
        Some('+') if named != 0 => Ok(FlagChange { set: named, clear: 0 }),
        Some('-') if named != 0 => Ok(FlagChange { set: 0, clear: named }),
        Some('=') => {
            let all = LETTERS.iter().fold(0, |all, (_, flag)| all | flag);
            Ok(FlagChange { set: named, clear: all & !named })
        }
        _ => Err(wrong("flags are written +i, -a or =d".to_owned())),
    }
}

/// Changes inode flags of files and directories. Returns how many objects were visited.
///
/// # Errors
/// Those of the engine.
pub fn inode_flags(
    change: &Change,
    path: &Path,
    wanted: FlagChange,
    reach: Reach,
    loops: &mut Loops,
) -> Result<u64> {
    each(change, path, (reach, Links::Stay), loops, &mut |visited| {
        let file_type = visited.facts.file_type;
        let has_flags = matches!(file_type, FileType::Regular | FileType::Directory);
        if !has_flags && reach == Reach::Tree {
            return Ok(());
        }
        let is_directory = file_type == FileType::Directory;
        // Those for directories alone are no mistake of a walk over a tree.
        let only = flags::DIRECTORY_SYNC | flags::TOP_DIRECTORY;
        let mask = if is_directory || reach == Reach::One { 0 } else { only };
        let wanted = FlagChange { set: wanted.set & !mask, clear: wanted.clear & !mask };
        let inodes = change.inodes();
        let inode = inodes.by_number(visited.number())?;
        let changed = inodes.change_flags(&inode, wanted);
        Ok(changed.map_err(|error| error.at(visited.spot.path))?)
    })
}

/// What becomes of an attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AttributeChange {
    /// It gets this value.
    Set(Vec<u8>),
    /// It goes.
    Remove,
}

/// Sets or removes an extended attribute. An access list changes the mode with it.
///
/// # Errors
/// Those of the engine.
pub fn attribute(
    change: &Change,
    path: &Path,
    (name, wanted): (&[u8], &AttributeChange),
    links: Links,
) -> Result<()> {
    let inode = tree::inode(change, path, links)?;
    let inodes = change.inodes();
    let done = match wanted {
        AttributeChange::Set(value) => inodes.set_attribute(&inode, name, value, SetAttribute::Any),
        AttributeChange::Remove => inodes.remove_attribute(&inode, name),
    };
    Ok(done.map_err(|error| error.at(path))?)
}
