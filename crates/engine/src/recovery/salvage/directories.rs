//! Blocks of directories: records that lead on stay, what is between them is passed over.
use super::{Mend, block};
use crate::error::Result;
use extant_block::BlockDevice;
use extant_format::directory::{Form, Style};
use extant_format::extent::{self, Extent, ExtentState};
use extant_format::inode::Inode;
use extant_format::superblock::Feature;
use extant_format::{BlockNo, FileBlock, Ino, Run, checksum};

/// Bytes of a record before its name.
const HEADER: usize = 8;
/// The shortest record that is there.
const RECORD_MIN: usize = 12;

/// A record, as far as it leads on.
struct Record {
    ino: u32,
    length: usize,
}

/// Mends one block of a directory, on the overlay. One that cannot be read is empty.
///
/// # Errors
/// More than the overlay holds.
pub(super) fn mend(
    mend: &mut Mend<'_>,
    (ino, inode): (Ino, &Inode),
    file_block: u64,
    number: BlockNo,
) -> Result<()> {
    let name = format!("block {} of its names", number.0);
    let superblock = mend.superblock;
    let (mut bytes, is_read) = match block(mend.over, number) {
        Ok(bytes) => (bytes, true),
        Err(reason) => {
            mend.lines.lost_of(vec![ino], format!("{name} is lost: {reason}"));
            (vec![0; mend.over.block_bytes()], false)
        }
    };
    let style = Style {
        block_size: superblock.block_size(),
        typed: superblock.has(Feature::FILETYPE),
        checksummed: superblock.has(Feature::METADATA_CSUM),
    };
    let seed = checksum::inode_seed(superblock.checksum_seed, ino, inode.generation);
    let at = FileBlock(u32::try_from(file_block).unwrap_or(u32::MAX));
    if is_read && let Err(fault) = style.verify(&bytes, at, Form::of(inode.flags), seed) {
        mend.lines.lost_of(vec![ino], format!("{name}: they may be wrong: {fault}"));
    }
    let before = bytes.clone();
    let mut offset = 0;
    // The record before this one, which is made longer to pass over what is damaged.
    let mut last: Option<usize> = None;
    while offset < bytes.len() {
        if let Some(record) = record(&bytes, offset) {
            let group = superblock.group_of_inode(Ino(record.ino)).map(|(group, _)| group);
            let wrong = match group {
                None if record.ino > 0 => Some("leads to an inode that there is not"),
                Some(group) if mend.lost.contains(&group) => Some("leads to an inode that is lost"),
                _ => None,
            };
            if let Some(words) = wrong {
                let end = HEADER + usize::from(bytes[offset + 6]);
                let shown = bytes[offset + HEADER..offset + end].escape_ascii().to_string();
                let lost = format!("{name}: \"{shown}\" {words}: {}", record.ino);
                mend.lines.lost_of(vec![ino], lost);
                bytes[offset..offset + 4].fill(0);
            }
            last = Some(offset);
            offset += record.length;
            continue;
        }
        let step = (offset + 4..bytes.len()).step_by(4);
        let next = step.into_iter().find(|at| leads_to_end(&bytes, *at)).unwrap_or(bytes.len());
        if is_read {
            let range = format!("bytes {offset} to {}", next - 1);
            mend.lines.lost_of(vec![ino], format!("{name}: those in {range} are lost"));
        }
        let from = last.unwrap_or(offset);
        if last.is_none() {
            bytes[offset..(offset + HEADER).min(next)].fill(0);
        }
        set_length(&mut bytes, from, next - from);
        offset = next;
    }
    if bytes != before || !is_read {
        mend.over.write(number.0 * bytes.len() as u64, &bytes)?;
    }
    Ok(())
}

/// The record at a byte, if there can be one.
fn record(bytes: &[u8], offset: usize) -> Option<Record> {
    let rest = bytes.get(offset..)?;
    let [i0, i1, i2, i3, l0, l1, name, _] = *rest.first_chunk::<HEADER>()?;
    let ino = u32::from_le_bytes([i0, i1, i2, i3]);
    let length = match (u16::from_le_bytes([l0, l1]), bytes.len()) {
        (0 | u16::MAX, 65536) => 65536,
        (length, 65536) => usize::from(length & !3) | usize::from(length & 3) << 16,
        (length, _) => length.into(),
    };
    let is_sane = length >= RECORD_MIN
        && length.is_multiple_of(4)
        && length <= rest.len()
        && HEADER + usize::from(name) <= length
        && (ino == 0 || name > 0);
    is_sane.then_some(Record { ino, length })
}

/// Whether the records from a byte on lead to the end of the block, and one of them is in use.
fn leads_to_end(bytes: &[u8], mut offset: usize) -> bool {
    let mut is_used = false;
    while offset < bytes.len() {
        let Some(record) = record(bytes, offset) else { return false };
        is_used |= record.ino != 0;
        offset += record.length;
    }
    is_used
}

fn set_length(bytes: &mut [u8], offset: usize, length: usize) {
    let stored = match length {
        65536.. => u16::MAX,
        _ => length as u16,
    };
    bytes[offset + 4..offset + 6].copy_from_slice(&stored.to_le_bytes());
}

/// Makes a map of these runs without gaps, as far as the root of a tree holds them. How many blocks
/// it has.
pub(super) fn close_gaps(runs: &[(u64, Run)], root: &mut [u8]) -> u64 {
    extent::initialize(root, 0);
    let mut whole: Vec<Run> = Vec::new();
    for (_, run) in runs {
        match whole.last_mut() {
            Some(last) if last.start.0 + u64::from(last.length) == run.start.0 => {
                last.length = last.length.saturating_add(run.length);
            }
            _ => whole.push(*run),
        }
    }
    let mut next = 0;
    for (at, run) in whole.into_iter().take(extent::capacity(root.len())).enumerate() {
        let (file_block, length) = (FileBlock(next), run.length.min(1 << 15));
        let state = ExtentState::Written;
        extent::insert_extent(root, at, Extent { file_block, length, start: run.start, state });
        next = next.saturating_add(length);
        if length < run.length {
            break;
        }
    }
    next.into()
}
