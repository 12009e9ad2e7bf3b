//! The blocks of one file that are in memory: runs of blocks, each in one buffer.
//!
//! ```text
//! blocks of the file   | 0 ... 15 | 16 .. 31 | 32 .. 47 |        windows of 64 KiB
//! runs                 [##########][#####]  [#][##]
//! ```
//!
//! *Invariants*: runs do not overlap and are not empty. A run of bytes is within a window of
//! [`PIECE_BYTES`], or is one block where blocks are larger, so that what has to be copied for a
//! change is bounded. Runs without bytes are as long as they can be: a terabyte of them is one
//! entry.
//! *Locking*: that of [`PageMap`](super::PageMap), around all of it.
use crate::inode::pages::held::Share;
use crate::runs::RunSet;
use extant_block::{Buffer, PIECE_BYTES, Segment};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

static ZEROS: [u8; PIECE_BYTES] = [0; PIECE_BYTES];

/// The content of adjacent blocks of a file.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    /// Their bytes, end to end, shared with writes under way and with readers.
    Bytes(Arc<Buffer>),
    /// No bytes: in the laboratory, data has a place and a state but no content. Reads as zeros.
    Phantom,
}

/// Adjacent blocks in memory.
#[derive(Clone, Debug)]
pub(crate) struct Resident {
    /// The block after the last one.
    pub(crate) end: u32,
    pub(crate) payload: Payload,
}

/// A run that holds a wanted block.
pub(crate) struct Found {
    /// Its blocks.
    pub(crate) blocks: Range<u32>,
    pub(crate) payload: Payload,
}

/// What a run takes beside its bytes: its place in the map, and the head of its buffer.
const RUN_BYTES: usize = 144;

/// All runs of one file, by their first block.
#[derive(Default)]
pub(crate) struct Residents {
    runs: BTreeMap<u32, Resident>,
    /// What all of them take: see [`Resident::cost`].
    share: Share,
}

/// The block at which the window of a block ends.
pub(crate) fn window_end(block: u32, block_size: usize) -> u32 {
    let blocks = (PIECE_BYTES / block_size).max(1) as u32;
    (block - block % blocks).saturating_add(blocks)
}

impl Residents {
    /// None, whose memory is counted by this share.
    pub(super) fn counted(share: Share) -> Residents {
        Residents { runs: BTreeMap::new(), share }
    }

    fn put(&mut self, first: u32, run: Resident) {
        self.share.grow(run.cost());
        if let Some(before) = self.runs.insert(first, run) {
            self.share.shrink(before.cost());
        }
    }

    fn take(&mut self, first: u32) -> Option<Resident> {
        let run = self.runs.remove(&first)?;
        self.share.shrink(run.cost());
        Some(run)
    }

    /// Whether no block is in memory.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The memory that they take.
    pub(super) fn room(&self) -> usize {
        self.share.bytes()
    }

    /// The run that holds a block.
    pub(super) fn at(&self, block: u32) -> Option<Found> {
        let (first, run) = self.runs.range(..=block).next_back()?;
        (run.end > block).then(|| Found { blocks: *first..run.end, payload: run.payload.clone() })
    }

    /// The block after the run that holds a block.
    pub(super) fn end_of(&self, block: u32) -> Option<u32> {
        let (_, run) = self.runs.range(..=block).next_back()?;
        (run.end > block).then_some(run.end)
    }

    /// The first block of a range that is in memory.
    pub(super) fn next(&self, range: Range<u32>) -> Option<u32> {
        match self.runs.range(..=range.start).next_back() {
            Some((_, run)) if run.end > range.start && !range.is_empty() => Some(range.start),
            _ => self.runs.range(range).next().map(|(first, _)| *first),
        }
    }

    /// Adds those blocks of a range that are not in memory. The payload begins with block `from`,
    /// and holds all of them.
    pub(super) fn add(
        &mut self,
        range: Range<u32>,
        (from, payload): (u32, &Payload),
        block_size: usize,
    ) {
        let mut at = range.start;
        while at < range.end {
            let end = self.next(at..range.end).unwrap_or(range.end);
            if at < end {
                self.add_absent(at..end, from, payload, block_size);
            }
            at = self.end_of(end).unwrap_or(end);
        }
    }

    /// Adds blocks of which none is in memory.
    fn add_absent(&mut self, blocks: Range<u32>, from: u32, payload: &Payload, block_size: usize) {
        let payload = match payload {
            Payload::Phantom => return self.add_phantoms(blocks),
            Payload::Bytes(bytes) => {
                let part = bytes_of(&blocks, from, block_size);
                match part.len() == bytes.len() {
                    true => Payload::Bytes(Arc::clone(bytes)),
                    false => copy_of(bytes, part),
                }
            }
        };
        self.put(blocks.start, Resident { end: blocks.end, payload });
    }

    /// Adds blocks without bytes, in one run with those before and after them.
    fn add_phantoms(&mut self, mut blocks: Range<u32>) {
        let is_phantom = |run: &Resident| matches!(run.payload, Payload::Phantom);
        if let Some(after) = self.runs.get(&blocks.end).filter(|run| is_phantom(run)) {
            let end = after.end;
            self.take(blocks.end);
            blocks.end = end;
        }
        match self.runs.range_mut(..blocks.start).next_back() {
            Some((_, before)) if before.end == blocks.start && is_phantom(before) => {
                before.end = blocks.end;
            }
            _ => {
                let run = Resident { end: blocks.end, payload: Payload::Phantom };
                self.put(blocks.start, run);
            }
        }
    }

    /// Writes bytes at an offset in the file. What a block has outside of them and was not in
    /// memory becomes zeros. Runs that others use are copied first.
    pub(super) fn write(&mut self, block_size: usize, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (block, within) =
                ((at / block_size as u64) as u32, (at % block_size as u64) as usize);
            let rest = &bytes[done..];
            done += match self.runs.range_mut(..=block).next_back() {
                Some((first, run)) if run.end > block => {
                    let start = (block - first) as usize * block_size + within;
                    let before = run.cost();
                    let length = overwrite(run, start, rest);
                    self.share.grow(run.cost());
                    self.share.shrink(before);
                    length
                }
                _ => self.append(block_size, block, within, rest),
            };
        }
    }

    /// Adds blocks with these bytes, `within` bytes after the start of the first one; as many as
    /// there is room for before the next run and the end of the window. Returns how many bytes.
    fn append(&mut self, block_size: usize, block: u32, within: usize, bytes: &[u8]) -> usize {
        let most = window_end(block, block_size);
        let next = block.saturating_add(1);
        let end = if next < most { self.next(next..most).unwrap_or(most) } else { most };
        let length = bytes.len().min((end - block) as usize * block_size - within);
        let bytes = &bytes[..length];
        let blocks = (within + length).div_ceil(block_size);
        let padding = blocks * block_size - within - length;
        let fill = |buffer: &mut Buffer| {
            buffer.extend_from_slice(&ZEROS[..within]);
            buffer.extend_from_slice(bytes);
            buffer.extend_from_slice(&ZEROS[..padding]);
        };
        let end = block + blocks as u32;
        let starts_window = block == 0 || window_end(block - 1, block_size) == block;
        let before = self.runs.range_mut(..block).next_back().filter(|(_, run)| run.end == block);
        let goes_on = before.is_some();
        if let Some((_, run)) = before
            && !starts_window
            && let Payload::Bytes(before) = &mut run.payload
            && let Some(buffer) = Arc::get_mut(before)
            && (buffer.spare() >= blocks * block_size || most == window_end(0, block_size))
        {
            let before = buffer.room();
            fill(buffer);
            self.share.grow(buffer.room());
            self.share.shrink(before);
            run.end = end;
            return length;
        }
        // A file that fills one window after the other will fill this one. Otherwise, after its
        // first window, each write gets a run of its own: to make a buffer longer costs more than
        // another entry in the map.
        let room = if goes_on && starts_window { PIECE_BYTES } else { blocks * block_size };
        let mut buffer = Buffer::with_room(room);
        fill(&mut buffer);
        self.put(block, Resident { end, payload: Payload::Bytes(Arc::new(buffer)) });
        length
    }

    /// Drops a range. What is left of runs is copied, if others use them.
    pub(super) fn remove(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        let earlier = self.runs.range(..range.start).next_back();
        let earlier = earlier.filter(|(_, run)| run.end > range.start).map(|(first, _)| *first);
        let inside = self.runs.range(range.clone()).map(|(first, _)| *first);
        let touched: Vec<u32> = earlier.into_iter().chain(inside).collect();
        for first in touched {
            let Some(run) = self.take(first) else { continue };
            if run.end > range.end {
                self.put(range.end, run.part(first, range.end..run.end));
            }
            if first < range.start {
                self.put(first, run.into_start(first, range.start));
            }
        }
    }

    /// Drops all blocks that are in none of the sets.
    pub(super) fn keep(&mut self, sets: &[&RunSet]) {
        for (first, run) in std::mem::take(&mut self.runs) {
            self.share.shrink(run.cost());
            let mut at = u64::from(first);
            let end = u64::from(run.end);
            while let Some(kept) = next_of(sets, at).filter(|kept| kept.start < end) {
                let part = kept.start as u32..kept.end.min(end) as u32;
                at = part.end.into();
                if part == (first..run.end) {
                    self.put(first, run);
                    break;
                }
                match run.payload {
                    Payload::Phantom => self.add_phantoms(part),
                    Payload::Bytes(_) => {
                        self.put(part.start, run.part(first, part));
                    }
                }
            }
        }
    }

    /// The memory of a range, for a write. Blocks that are not in memory are zeros.
    pub(super) fn segments(&self, range: Range<u32>, block_size: usize) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let found = self.at(at);
            let end = match &found {
                Some(found) => found.blocks.end.min(range.end),
                None => self.next(at..range.end).unwrap_or(range.end),
            };
            let bytes = (end - at) as usize * block_size;
            segments.push(match found {
                None => Segment::Pooled(Buffer::zeros(bytes)),
                Some(Found { payload: Payload::Phantom, .. }) => Segment::Phantom(bytes),
                Some(Found { blocks, payload: Payload::Bytes(buffer) }) => {
                    let part = bytes_of(&(at..end), blocks.start, block_size);
                    // A write of few blocks takes a copy of them, because a change of any other
                    // block of the run would have to copy all of it.
                    match part.len() * 2 >= buffer.len() {
                        true => Segment::Part(buffer, part),
                        false => Segment::Pooled(Buffer::from(&buffer[part])),
                    }
                }
            });
            at = end;
        }
        segments
    }
}

impl Resident {
    /// The memory that it takes. Without bytes, none that counts.
    fn cost(&self) -> usize {
        match &self.payload {
            Payload::Bytes(bytes) => bytes.room() + RUN_BYTES,
            Payload::Phantom => 0,
        }
    }

    fn block_size(&self, first: u32, bytes: &Buffer) -> usize {
        bytes.len() / (self.end - first) as usize
    }

    /// A copy of some blocks of the run that begins with block `first`.
    fn part(&self, first: u32, blocks: Range<u32>) -> Resident {
        let payload = match &self.payload {
            Payload::Phantom => Payload::Phantom,
            Payload::Bytes(bytes) => {
                copy_of(bytes, bytes_of(&blocks, first, self.block_size(first, bytes)))
            }
        };
        Resident { end: blocks.end, payload }
    }

    /// The start of the run, up to block `end`.
    fn into_start(mut self, first: u32, end: u32) -> Resident {
        if let Payload::Bytes(bytes) = &mut self.payload {
            let length = (end - first) as usize * (bytes.len() / (self.end - first) as usize);
            match Arc::get_mut(bytes) {
                Some(buffer) => buffer.truncate(length),
                None => *bytes = Arc::new(Buffer::from(&bytes[..length])),
            }
        }
        Resident { end, ..self }
    }
}

/// Overwrites bytes of a run from `start` on. Returns how many.
fn overwrite(run: &mut Resident, start: usize, bytes: &[u8]) -> usize {
    let Payload::Bytes(buffer) = &mut run.payload else { return bytes.len() };
    let end = buffer.len().min(start + bytes.len());
    let bytes = &bytes[..end - start];
    let is_shared = Arc::get_mut(buffer).is_none();
    match is_shared && bytes.len() == buffer.len() {
        true => *buffer = Arc::new(Buffer::from(bytes)),
        false => Arc::make_mut(buffer)[start..end].copy_from_slice(bytes),
    }
    bytes.len()
}

fn copy_of(bytes: &Buffer, part: Range<usize>) -> Payload {
    Payload::Bytes(Arc::new(Buffer::from(&bytes[part])))
}

/// Where the bytes of some blocks are in a run that begins with block `first`.
fn bytes_of(blocks: &Range<u32>, first: u32, block_size: usize) -> Range<usize> {
    (blocks.start - first) as usize * block_size..(blocks.end - first) as usize * block_size
}

/// The first run of some sets at or after a block, as long as any of them says.
fn next_of(sets: &[&RunSet], at: u64) -> Option<Range<u64>> {
    let mut runs: Vec<Range<u64>> = sets.iter().filter_map(|set| set.next(at)).collect();
    runs.sort_unstable_by_key(|run| run.start);
    let mut runs = runs.into_iter();
    let mut first = runs.next()?;
    for run in runs {
        if run.start <= first.end {
            first.end = first.end.max(run.end);
        }
    }
    Some(first)
}

#[cfg(test)]
mod tests;
