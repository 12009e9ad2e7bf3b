//! Lists of which some values are in inodes of their own (`ea_inode`).
use super::stored::{StoredEntry, StoredValue, list_in_tail, walk};
use super::{HEADER, RawHeader, fault, write_at, write_entries, write_tail};
use crate::{Fault, Ino};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

/// An inode that an entry has as its value, and the bytes of that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValueRef {
    /// The inode.
    pub ino: Ino,
    /// As the entry says.
    pub bytes: u32,
}

fn reference(entry: &StoredEntry<'_>) -> Option<ValueRef> {
    match entry.value {
        StoredValue::Elsewhere { ino, bytes } => Some(ValueRef { ino, bytes }),
        StoredValue::Here(_) => None,
    }
}

/// The entries of a list.
fn entries(region: &[u8], start: usize) -> Result<Vec<StoredEntry<'_>>, Fault> {
    let mut entries = Vec::new();
    let walked = walk(region, start, &mut |entry| entries.push(entry));
    let whole = region.len() as u64;
    walked.map_err(|_| fault("list", whole, "bytes long and has parts that overlap"))?;
    Ok(entries)
}

/// Takes the first `most` entries that have inodes away.
fn split(entries: Vec<StoredEntry<'_>>, most: usize) -> (Vec<ValueRef>, Vec<StoredEntry<'_>>) {
    let mut taken = Vec::new();
    let kept = entries.into_iter().filter(|entry| match reference(entry) {
        Some(value) if taken.len() < most => {
            taken.push(value);
            false
        }
        _ => true,
    });
    let kept = kept.collect();
    (taken, kept)
}

/// The values in inodes that a tail has, in its order.
///
/// # Errors
/// [`Fault::Field`] for a list with parts that overlap or pass its end.
pub fn values_in_tail(tail: &[u8]) -> Result<Vec<ValueRef>, Fault> {
    let Some(list) = list_in_tail(tail) else { return Ok(Vec::new()) };
    Ok(entries(list, 0)?.iter().filter_map(reference).collect())
}

/// The values in inodes that a block has, in its order.
///
/// # Errors
/// As [`values_in_tail`].
pub fn values_in_block(bytes: &[u8]) -> Result<Vec<ValueRef>, Fault> {
    Ok(entries(bytes, HEADER)?.iter().filter_map(reference).collect())
}

/// The first values in inodes of a tail, `most` of them, and the tail without them.
///
/// # Errors
/// As [`values_in_tail`].
pub fn take_from_tail(tail: &[u8], most: usize) -> Result<(Vec<ValueRef>, Vec<u8>), Fault> {
    let Some(list) = list_in_tail(tail) else { return Ok((Vec::new(), tail.to_vec())) };
    let (taken, kept) = split(entries(list, 0)?, most);
    Ok((taken, write_tail(tail.len(), &kept)))
}

/// The same for a block, whose checksum is to be set.
///
/// # Errors
/// As [`values_in_tail`].
pub fn take_from_block(bytes: &[u8], most: usize) -> Result<(Vec<ValueRef>, Vec<u8>), Fault> {
    let (taken, kept) = split(entries(bytes, HEADER)?, most);
    let mut after = vec![0; bytes.len()];
    if let Ok((header, _)) = RawHeader::read_from_prefix(bytes) {
        // It is not shared, and need not be found by its hash.
        let header = RawHeader { hash: U32::ZERO, ..header };
        write_at(&mut after, 0, header.as_bytes());
        write_entries(&mut after, HEADER, kept.into_iter());
    }
    Ok((taken, after))
}
