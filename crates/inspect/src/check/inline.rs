//! Directories that lie in their inodes: the parent's number and entries in place of the map, more
//! entries in the attribute `system.data`.
use super::attribute_list::{self, SYSTEM, Value};
use super::codes::Code;
use super::directories::{Piece, shape};
use super::entries::{End, Entry, Seen};
use super::problem::Problem;
use super::state::State;
use super::tree::Tree;
use super::words::u32_at;
use crate::error::Error;
use extant_format::Ino;
use extant_format::inode::{FileType, Inode};
use extant_format::superblock::Feature;
use std::sync::Arc;

/// Bytes before the entries: the parent's number.
const PARENT: usize = 4;

/// Judges all of them.
///
/// # Errors
/// When the device fails.
pub(crate) fn judge(state: &Arc<State>, tree: &Tree) -> Result<(), Error> {
    let mut seen = Seen::default();
    for (place, &ino) in (0_u32..).zip(&tree.inline) {
        let Some(content) = content(state, ino)? else { continue };
        let piece = Piece {
            state,
            tree,
            ino,
            file_block: 0,
            place,
            shape: shape(state, state.inodes.get(ino)),
            is_typed: state.volume.superblock().has(Feature::FILETYPE),
        };
        parent(&piece, Ino(u32_at(&content.first, 0)));
        for (part, start) in content.parts() {
            seen.begin(part.len());
            let end = piece.shape.walk(part, start, &mut |entry| {
                if entry.ino != 0 {
                    let is_twice = seen.is_there(part, entry);
                    piece.named(entry, is_twice);
                }
            });
            if let End::Broken(offset) = end {
                let problem = Problem::new(Code::DirectoryChain).ino(ino).file_block(0);
                state.tell(problem.found(offset as u64));
            }
        }
    }
    Ok(())
}

/// Judges the two entries that are not written out.
fn parent(piece: &Piece<'_>, parent: Ino) {
    piece.state.inodes.count_link(piece.ino);
    piece.tree.set_dotdot(piece.ino, parent);
    let facts = piece.state.inodes.get(parent);
    let is_usable = piece.state.volume.superblock().is_usable(parent);
    if is_usable && facts.is_used() {
        piece.state.inodes.count_link(parent);
        return;
    }
    let code = if is_usable { Code::EntryUnused } else { Code::EntryInode };
    let problem = Problem::new(code).ino(piece.ino).file_block(0);
    piece.state.tell(problem.name(b"..").other(parent));
}

/// Visits all used entries of all of them.
///
/// # Errors
/// When the device fails.
pub(crate) fn each_entry(
    state: &Arc<State>,
    tree: &Tree,
    visit: &mut dyn FnMut(Ino, &Entry<'_>),
) -> Result<(), Error> {
    for &ino in &tree.inline {
        let Some(content) = content(state, ino)? else { continue };
        let shape = shape(state, state.inodes.get(ino));
        for (part, start) in content.parts() {
            shape.walk(part, start, &mut |entry| {
                if entry.ino != 0 {
                    visit(ino, entry);
                }
            });
        }
    }
    Ok(())
}

/// The two parts of a directory.
struct Content {
    first: [u8; 60],
    more: Vec<u8>,
}

impl Content {
    /// Each part, and where its entries begin.
    fn parts(&self) -> [(&[u8], usize); 2] {
        [(&self.first, PARENT), (&self.more, 0)]
    }
}

fn content(state: &State, ino: Ino) -> Result<Option<Content>, Error> {
    let inode = match state.volume.inode(ino) {
        Ok(inode) => inode,
        Err(Error::Device(error)) => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    if inode.file_type() != Some(FileType::Directory) {
        return Ok(None);
    }
    let more = data(&inode);
    Ok(Some(Content { first: inode.block, more }))
}

/// The value of `system.data`.
fn data(inode: &Inode) -> Vec<u8> {
    let mut data = Vec::new();
    // Damage in the list was told with the inode.
    let _ = attribute_list::walk(inode.tail.get(4..).unwrap_or_default(), 0, &mut |entry| {
        if let (SYSTEM, b"data", Value::Here(value)) = (entry.prefix, entry.name, entry.value) {
            data = value.to_vec();
        }
    });
    data
}
