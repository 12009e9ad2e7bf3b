//! All names of a directory at once, those among them that no file may have.
//!
//! A damaged or hostile volume may have names such as `../pwn`. They hide nothing: they are listed
//! as what [`extant_format::directory::legal`] writes them as, so that no reader is led astray, and
//! with the bytes that are on disk beside it, so that nobody takes the one for the other.
use super::{Legality, Position, is_dot, list_from};
use crate::error::Result;
use crate::inode::NodeState;
use crate::inode::volume::Volume;
use extant_format::Ino;
use extant_format::directory::legal::saved_as;
use extant_format::inode::FileType;
use rustc_hash::FxHashSet;
use std::ops::ControlFlow;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name's bytes: never empty, without slash and NUL.
    pub name: Vec<u8>,
    /// Inode number that it points to.
    pub ino: Ino,
    /// Type of that inode, if the volume keeps types in directories.
    pub file_type: Option<FileType>,
    /// The bytes on disk, where no file may have them as its name. `name` is then what they are
    /// written as (`..%2Fpwn`): no path leads there, but the inode can be read.
    pub stored: Option<Vec<u8>>,
}

/// All names but "." and "..", in the order of readdir.
///
/// # Errors
/// `Corrupt`; what the device returns.
pub(crate) fn entries(volume: &Volume, node: &NodeState) -> Result<Vec<DirectoryEntry>> {
    let mut entries = Vec::new();
    let mut illegal = Vec::new();
    list_from(volume, node, Position::Start, &mut |listed| {
        if listed.legality == Legality::Illegal {
            illegal.push(entries.len());
        } else if is_dot(listed.name) {
            return ControlFlow::Continue(());
        }
        let (name, ino, file_type) = (listed.name.to_vec(), listed.ino, listed.file_type);
        entries.push(DirectoryEntry { name, ino, file_type, stored: None });
        ControlFlow::Continue(())
    })?;
    if !illegal.is_empty() {
        save(&mut entries, illegal);
    }
    Ok(entries)
}

/// Gives the entries at these places names that files may have.
#[cold]
fn save(entries: &mut [DirectoryEntry], mut places: Vec<usize>) {
    // By number, so that all readers come to the same names.
    places.sort_by_key(|at| entries.get(*at).map(|entry| (entry.ino, entry.name.clone())));
    let illegal: FxHashSet<usize> = places.iter().copied().collect();
    let legal = entries.iter().enumerate().filter(|(at, _)| !illegal.contains(at));
    let mut taken: FxHashSet<Vec<u8>> = legal.map(|(_, entry)| entry.name.clone()).collect();
    for at in places {
        let Some(entry) = entries.get_mut(at) else { continue };
        let name = saved_as(&entry.name, entry.ino, &mut |name| taken.contains(name));
        taken.insert(name.clone());
        entry.stored = Some(std::mem::replace(&mut entry.name, name));
    }
}
