//! Directories that are in their inodes: the parent's number and entries in place of the map, more
//! entries in the attribute `system.data`.
use super::entries::{Seen, Shape};
use super::piece::Piece;
use super::tree::Tree;
use crate::check::codes::Code;
use crate::check::facts::Facts;
use crate::check::problem::Problem;
use crate::error::Error;
use extant_format::Ino;
use extant_format::attribute::{self, INLINE_DATA, StoredValue};
use extant_format::directory::stored::{ChainEnd, StoredEntry};
use extant_format::inode::{FileType, Inode, MAP_SIZE};

/// Bytes before the entries: the parent's number.
const PARENT: usize = 4;

/// Judges all of them.
///
/// # Errors
/// When the device fails.
pub(crate) fn judge(facts: &Facts, tree: &Tree) -> Result<(), Error> {
    let mut seen = Seen::default();
    for (place, &ino) in (0_u32..).zip(&tree.inline) {
        let Some(content) = content(facts, ino)? else { continue };
        let piece = Piece::new(facts, tree, ino, 0, place);
        parent(&piece, content.parent());
        for (part, start) in content.parts() {
            seen.begin(part.len());
            let end = piece.shape.entries.walk(part, start, &mut |entry| {
                if entry.ino != 0 {
                    let met = seen.note(part, entry);
                    piece.named(entry, met);
                }
            });
            if let ChainEnd::Broken(offset) = end {
                let problem = Problem::new(Code::DirectoryChain).ino(ino).file_block(0);
                facts.report(problem.found(offset as u64));
            }
        }
    }
    Ok(())
}

/// Judges the two entries that are not stored as entries.
fn parent(piece: &Piece<'_>, parent: Ino) {
    piece.facts.inodes.count_link(piece.ino);
    piece.tree.set_dotdot(piece.ino, parent);
    let known = piece.facts.inodes.get(parent);
    let is_usable = piece.facts.volume.superblock().is_usable(parent);
    if is_usable && known.is_used() {
        piece.facts.inodes.count_link(parent);
        return;
    }
    let code = if is_usable { Code::EntryUnused } else { Code::EntryInode };
    let problem = Problem::new(code).ino(piece.ino).file_block(0);
    piece.facts.report(problem.name(b"..").other(parent));
}

/// Visits all used entries of all of them.
///
/// # Errors
/// When the device fails.
pub(crate) fn each_entry(
    facts: &Facts,
    tree: &Tree,
    visit: &mut dyn FnMut(Ino, &StoredEntry<'_>),
) -> Result<(), Error> {
    for &ino in &tree.inline {
        let Some(content) = content(facts, ino)? else { continue };
        let shape = Shape::of(facts, facts.inodes.get(ino));
        for (part, start) in content.parts() {
            shape.entries.walk(part, start, &mut |entry| {
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
    first: [u8; MAP_SIZE],
    more: Vec<u8>,
}

impl Content {
    /// The directory that it is in.
    fn parent(&self) -> Ino {
        let [b0, b1, b2, b3, ..] = self.first;
        Ino(u32::from_le_bytes([b0, b1, b2, b3]))
    }

    /// Each part, and where its entries begin.
    fn parts(&self) -> [(&[u8], usize); 2] {
        [(&self.first, PARENT), (&self.more, 0)]
    }
}

fn content(facts: &Facts, ino: Ino) -> Result<Option<Content>, Error> {
    let inode = match facts.volume.inode(ino) {
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
    let list = attribute::list_in_tail(&inode.tail).unwrap_or_default();
    // Damage in the list is reported with the inode.
    let _ = attribute::walk(list, 0, &mut |entry| {
        if let StoredValue::Here(value) = entry.value
            && (entry.prefix, entry.name) == INLINE_DATA
        {
            data = value.to_vec();
        }
    });
    data
}
