//! Which names of a block readers are shown, and how: those of encrypted directories as Linux gives
//! them to readers without the key.
//!
//! ```text
//! base64url, no padding, of | hash | minor hash | bytes on disk, at most 149 | SHA-256 of the rest
//! ```
//!
//! The SHA-256 is there for names of more than 149 bytes only. Different names have different
//! forms, and a form has 11 to 252 bytes, none of them a slash, a dot or a NUL. See "No-key names"
//! in the kernel's documentation of fscrypt.
use super::{Directory, hashed};
use crate::error::Result;
use extant_format::FileBlock;
use extant_format::directory::legal::is_legal;
use extant_format::directory::{Entry, HEADER, is_own};
use extant_format::hash::{Hasher, NameHash};
use extant_format::inode::flags;
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// How many bytes of a name are given as they are.
const BYTES_MAX: usize = 149;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Whether a file may have a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Legality {
    Legal,
    /// It has no bytes, a slash or a NUL, or is a second "." or "..": it is on disk, but no path
    /// leads there.
    Illegal,
}

/// Which of "." and ".." are still to come in a block: each directory has both once, in its first
/// block.
pub(crate) struct OwnNames {
    here: bool,
    above: bool,
}

impl OwnNames {
    pub(crate) fn of(block: FileBlock) -> OwnNames {
        OwnNames { here: block.0 == 0, above: block.0 == 0 }
    }

    /// Whether a file may have the name that comes next in the block.
    pub(crate) fn legality(&mut self, name: &[u8]) -> Legality {
        let is_legal = match name {
            b"." => std::mem::take(&mut self.here),
            b".." => std::mem::take(&mut self.above),
            name => is_legal(name),
        };
        if is_legal { Legality::Legal } else { Legality::Illegal }
    }
}

/// How the names of a directory are shown.
#[derive(Clone, Copy)]
pub(crate) enum Naming {
    /// As they are on disk.
    Plain,
    /// In their form without a key.
    Keyless(Hashes),
}

/// Where the hashes in the forms of names come from.
#[derive(Clone, Copy)]
pub(crate) enum Hashes {
    /// They are zeros: the directory is listed in the order of its blocks.
    Zero,
    /// They are those of the bytes on disk.
    OfBytes(Hasher),
    /// They are after the names: those of names that know no case need the key.
    Stored,
}

impl Naming {
    /// Of an encrypted directory with a damaged index.
    pub(crate) const WITHOUT_HASHES: Naming = Naming::Keyless(Hashes::Zero);

    pub(super) fn of(directory: Directory<'_>) -> Result<Naming> {
        let volume = directory.volume;
        let inode = &directory.node.inode;
        if !inode.is_encrypted(&volume.store.superblock) {
            return Ok(Naming::Plain);
        }
        let hashes = if inode.flags & flags::CASEFOLDED != 0 {
            Hashes::Stored
        } else if directory.is_indexed() {
            Hashes::OfBytes(hashed::Path::to_hash(directory, 0)?.hasher)
        } else if super::is_by_hash(volume, directory.node)? {
            Hashes::OfBytes(volume.store.hasher)
        } else {
            Hashes::Zero
        };
        Ok(Naming::Keyless(hashes))
    }

    /// The name of an entry of a block, and whether a file may have it.
    pub(crate) fn shown<'a>(
        self,
        block: &[u8],
        entry: &Entry<'a>,
        legality: Legality,
    ) -> (Cow<'a, [u8]>, Legality) {
        let is_directory_own = is_own(entry.name) && legality == Legality::Legal;
        let hashes = match self {
            Naming::Keyless(hashes) if !is_directory_own => hashes,
            _ => return (Cow::Borrowed(entry.name), legality),
        };
        let hash = match hashes {
            Hashes::Zero => NameHash::default(),
            Hashes::OfBytes(hasher) => hasher.hash(entry.name),
            Hashes::Stored => stored_hash(block, entry),
        };
        (Cow::Owned(form(hash, entry.name)), Legality::Legal)
    }
}

/// The hash after a name: at the next multiple of four bytes. Zeros where there is none.
fn stored_hash(block: &[u8], entry: &Entry<'_>) -> NameHash {
    let at = (entry.offset + HEADER + entry.name.len()).next_multiple_of(4);
    let word = |at| block.get(at..).and_then(<[u8]>::first_chunk).copied().map(u32::from_le_bytes);
    NameHash { major: word(at).unwrap_or(0), minor: word(at + 4).unwrap_or(0) }
}

/// The form of a name without a key.
fn form(hash: NameHash, stored: &[u8]) -> Vec<u8> {
    let (kept, rest) = stored.split_at(stored.len().min(BYTES_MAX));
    let mut bytes = [hash.major.to_le_bytes(), hash.minor.to_le_bytes()].concat();
    bytes.extend_from_slice(kept);
    if !rest.is_empty() {
        bytes.extend_from_slice(&Sha256::digest(rest));
    }
    let mut form = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        form.extend((0..=group.len()).map(|at| DIGITS[(bits >> (18 - 6 * at) & 63) as usize]));
    }
    form
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_format::directory::NAME_MAX;

    #[test]
    fn a_form_is_base64url_of_the_hashes_and_the_bytes() {
        let hash = NameHash { major: 0x0403_0201, minor: 0x0807_0605 };
        assert_eq!(form(hash, b""), b"AQIDBAUGBwg");
        assert_eq!(form(hash, b"\xfb\xff"), b"AQIDBAUGBwj7_w");
        assert_eq!(form(hash, b"\xfb\xff\0"), b"AQIDBAUGBwj7_wA");
    }

    #[test]
    fn long_names_differ_in_what_they_end_with_and_their_forms_are_names() {
        let hash = NameHash::default();
        let (mut long, whole) = (vec![7; NAME_MAX], vec![7; BYTES_MAX]);
        let before = form(hash, &long);
        long[NAME_MAX - 1] = 8;
        assert_ne!(form(hash, &long), before);
        assert_eq!((before.len(), form(hash, &whole).len()), (252, 210));
        assert_eq!(form(hash, &whole)[..198], before[..198]);
    }
}
