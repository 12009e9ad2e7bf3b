//! Bodies that go into the image as they come, before its size is known.
//!
//! ```text
//! with flex_bg:    | copy | bodies ... | copy | bodies ... | tables, directories, the rest
//! without flex_bg: | copy, tables | bodies ... | tables | bodies ... | directories, the rest
//!                  ^ group 0                   ^ group 1
//! ```
//! A volume's data may begin before anything else of it is known, if three things are fixed: the
//! length of groups, which groups begin with a copy of the superblock, and how long such a copy is.
//! The last is, when the volume reserves descriptors for a size that does not depend on its
//! content. With flex_bg everything else follows the data. Without, each group has its own tables:
//! then the number of inodes of a group is fixed too, and a volume with more files than that for
//! each group of data has more groups.
//!
//! *Invariants*: bodies rise in the order in which they begin, each in whole blocks, zeros after
//! its end; none touches the front of a group. What was written and is no file of the image in the
//! end is emptied before the image is made.
//! *Locking*: one mutex, held while a piece is copied or written.
use crate::error::Error;
use extant_archive::BodySink;
use extant_format::layout::{Layout, Wishes};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, GroupNo};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are written at once.
const WRITE_BYTES: usize = 512 << 10;
/// Blocks of descriptors that a copy has room for: with blocks of 4 KiB a volume of 2 TiB.
const DESCRIPTOR_BLOCKS: u32 = 256;
/// Without flex_bg there is an inode for each N bytes: half of what mke2fs has, because bodies
/// of archives are short. Tables that are not used stay holes of the image file.
const BYTES_PER_INODE: u32 = 8192;
/// Blocks of the two bitmaps of a group.
const BITMAP_BLOCKS: u64 = 2;

/// The data of an image that is written while its archive is read. Copies are the same one.
#[derive(Clone, Debug)]
pub struct Arrival {
    places: DataPlaces,
    shared: Arc<Mutex<Writing>>,
}

/// Where data can be on the volume, whatever its size.
#[derive(Clone, Debug)]
struct DataPlaces {
    /// What is fixed: block size, length of groups, copies.
    superblock: Superblock,
    copy_blocks: u64,
    /// Blocks of bitmaps and table at the start of each group; none with flex_bg.
    own_blocks: u64,
    /// Inodes of each group, where they are fixed.
    inodes_per_group: Option<u64>,
    /// Blocks of the largest volume.
    blocks_max: u64,
}

#[derive(Debug)]
struct Writing {
    file: File,
    /// Where the volume begins in the file, in bytes.
    origin: u64,
    /// Where the next byte goes, in bytes of the volume.
    at: u64,
    /// What is not written yet, and where it begins on the volume.
    buffer: Vec<u8>,
    buffer_start: u64,
}

/// Inodes of each group, decided beforehand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupInodes {
    /// Inodes of a group.
    pub each: u64,
    /// Bytes of a group.
    pub group_bytes: u64,
    /// Bytes before the first group.
    pub before_bytes: u64,
}

impl GroupInodes {
    /// Those of a volume of this many bytes.
    pub(crate) fn count(&self, bytes: u64) -> u64 {
        let groups = bytes.saturating_sub(self.before_bytes).div_ceil(self.group_bytes.max(1));
        groups.saturating_mul(self.each)
    }
}

impl Arrival {
    /// Prepares `wishes` for an image whose data comes first, in an empty regular file that is open
    /// for writing; the volume begins at byte `origin`.
    ///
    /// # Errors
    /// Features without which it cannot be done; the host's.
    pub fn new(wishes: &mut Wishes, file: &File, origin: u64) -> Result<Arrival, Error> {
        if !wishes.features.has(Feature::RESIZE_INODE) {
            return Err(Error::new("data in the order of arrival needs the feature resize_inode"));
        }
        let block_size = wishes.block_size;
        let per_group = wishes.blocks_per_group.unwrap_or((block_size * 8).min((1 << 16) - 8));
        let wide = wishes.features.has(Feature::SIXTY_FOUR_BIT);
        let descriptor_bytes = if wide { 64 } else { 32 };
        let descriptor_blocks = DESCRIPTOR_BLOCKS.min(block_size / 8);
        let mut superblock = Superblock::empty();
        superblock.features = wishes.features;
        superblock.block_size_log2 = block_size.trailing_zeros() as u8;
        superblock.first_data_block = u32::from(block_size == 1024);
        superblock.blocks_per_group = per_group;
        let groups = u64::from(descriptor_blocks) * u64::from(block_size / descriptor_bytes);
        // The resize inode maps blocks with 32 bits.
        let blocks_max = (groups * u64::from(per_group)).min(u64::from(u32::MAX) - 1);
        let groups = blocks_max.div_ceil(per_group.into());
        let descriptor_blocks = (groups * u64::from(descriptor_bytes)).div_ceil(block_size.into());
        let (mut own_blocks, mut inodes_per_group) = (0, None);
        if !wishes.features.has(Feature::FLEX_BG) {
            let per_block = u64::from(block_size) / u64::from(wishes.inode_size.max(1));
            let wished = u64::from(per_group) * u64::from(block_size) / u64::from(BYTES_PER_INODE);
            // Whole blocks, and eights: the bitmap has whole bytes.
            let each = wished.min(u64::from(block_size) * 8).next_multiple_of(per_block.max(8));
            own_blocks = BITMAP_BLOCKS + each / per_block.max(1);
            inodes_per_group = Some(each);
        }
        wishes.blocks_per_group = Some(per_group);
        wishes.resize_to_blocks = Some(blocks_max);
        let copy_blocks = descriptor_blocks + 1;
        let file = file.try_clone().map_err(|error| Error::io("the image", &error))?;
        let places =
            DataPlaces { superblock, copy_blocks, own_blocks, inodes_per_group, blocks_max };
        let at = places.data_from(0) * places.block_size();
        let writing = Writing { file, origin, at, buffer: Vec::new(), buffer_start: at };
        Ok(Arrival { places, shared: Arc::new(Mutex::new(writing)) })
    }

    fn writing(&self) -> MutexGuard<'_, Writing> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All bodies have come. Where none has a byte that is kept, a block is left for one: without
    /// it the tables would begin where the front of the first group ends.
    pub(crate) fn settle(&self) {
        let (first, block_size) = (self.places.data_from(0), self.places.block_size());
        let mut writing = self.writing();
        writing.at = writing.at.max((first + 1) * block_size);
    }

    /// The first block after all bodies.
    pub(crate) fn end(&self) -> BlockNo {
        BlockNo(self.writing().at.div_ceil(self.places.block_size()))
    }

    /// Blocks of bodies that are on the volume and in no file of `bodies`, which are byte ranges as
    /// [`Arrival::pieces`] takes them, in any order. They are emptied.
    ///
    /// # Errors
    /// The host's.
    pub(crate) fn empty_all_but(&self, mut bodies: Vec<(u64, u64)>) -> io::Result<u64> {
        bodies.sort_unstable();
        let block_size = self.places.block_size();
        let (mut at, mut unused) = (self.places.data_from(0), 0);
        let end = self.end().0;
        for (offset, length) in bodies.into_iter().chain([(end * block_size, 0)]) {
            let next = offset / block_size;
            if at < next {
                unused += self.places.data_blocks(at..next);
                self.writing().empty(at * block_size..next * block_size)?;
            }
            let last = self.pieces(offset, length).last();
            at = last.map_or(next.max(at), |piece| piece.end.div_ceil(block_size));
        }
        Ok(unused)
    }

    /// Where a body that begins at byte `offset` of the volume goes on, in bytes of the volume.
    pub(crate) fn pieces(&self, offset: u64, length: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let block_size = self.places.block_size();
        let (mut at, mut left) = (offset, length);
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            at = match at % block_size {
                0 => self.places.data_from(at / block_size) * block_size,
                _ => at,
            };
            let count = left.min(self.places.run_end(at / block_size) * block_size - at);
            let piece = at..at + count;
            (at, left) = (piece.end, left - count);
            Some(piece)
        })
    }

    /// Inodes of each group, where they are fixed.
    pub(crate) fn group_inodes(&self) -> Option<GroupInodes> {
        let (superblock, block_size) = (&self.places.superblock, self.places.block_size());
        self.places.inodes_per_group.map(|each| GroupInodes {
            each,
            group_bytes: u64::from(superblock.blocks_per_group) * block_size,
            before_bytes: u64::from(superblock.first_data_block) * block_size,
        })
    }

    /// Whether a volume of this layout has all its metadata where bodies left room for it, or after
    /// all of them.
    pub(crate) fn agrees_with(&self, layout: &Layout) -> bool {
        let (places, superblock) = (&self.places, &layout.superblock);
        let end = self.end().0;
        let fits = |group: GroupNo| {
            let data = places.data_from(superblock.group_start(group).0);
            let is_outside = |start: u64, length: u32| {
                start + u64::from(length) <= data || start >= end || length == 0
            };
            layout.metadata_runs(group).iter().all(|run| is_outside(run.start.0, run.length))
        };
        superblock.blocks_per_group == places.superblock.blocks_per_group
            && superblock.first_data_block == places.superblock.first_data_block
            && superblock.blocks_count <= places.blocks_max
            && (0..superblock.group_count()).map(GroupNo).all(fits)
    }

    /// Empties the fronts of groups, for another attempt at the rest of the image.
    ///
    /// # Errors
    /// The host's.
    pub(crate) fn empty_fronts(&self) -> io::Result<()> {
        let (places, block_size, end) = (&self.places, self.places.block_size(), self.end().0);
        let mut start = u64::from(places.superblock.first_data_block);
        while start < end {
            let data = places.data_from(start).min(end);
            if start < data {
                self.writing().empty(start * block_size..data * block_size)?;
            }
            start = places.run_end(start);
        }
        Ok(())
    }
}

impl DataPlaces {
    fn block_size(&self) -> u64 {
        1 << self.superblock.block_size_log2
    }

    fn group(&self, block: u64) -> GroupNo {
        let inside = block.saturating_sub(self.superblock.first_data_block.into());
        let number = inside / u64::from(self.superblock.blocks_per_group);
        GroupNo(u32::try_from(number).unwrap_or(u32::MAX))
    }

    /// The first block from this one on that is not at the front of a group.
    fn data_from(&self, block: u64) -> u64 {
        let group = self.group(block);
        let start = self.superblock.group_start(group).0;
        let copy = if self.superblock.has_super(group) { self.copy_blocks } else { 0 };
        block.max(start + copy + self.own_blocks)
    }

    /// The block after the last one of the group of `block`.
    fn run_end(&self, block: u64) -> u64 {
        let start = self.superblock.group_start(self.group(block)).0;
        start + u64::from(self.superblock.blocks_per_group)
    }

    /// Blocks of the range that are not at the front of a group.
    fn data_blocks(&self, range: Range<u64>) -> u64 {
        let (mut at, mut blocks) = (range.start, 0);
        while at < range.end {
            let (from, end) = (self.data_from(at), self.run_end(at).min(range.end));
            blocks += end.saturating_sub(from);
            at = end;
        }
        blocks
    }
}

impl Writing {
    /// Adds bytes at `self.at`, after zeros where the body before ended within a block.
    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        let buffered = self.buffer_start + self.buffer.len() as u64;
        let gap = self.at - buffered;
        if gap > WRITE_BYTES as u64 || self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
            self.buffer_start = self.at;
        } else {
            self.buffer.resize(self.buffer.len() + gap as usize, 0);
        }
        self.buffer.extend_from_slice(bytes);
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.origin + self.buffer_start)?;
        self.buffer_start += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes a range of the volume read as zeros.
    fn empty(&mut self, range: Range<u64>) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let length = range.end - range.start;
        if fallocate(&self.file, flags, self.origin + range.start, length).is_ok() {
            return Ok(());
        }
        let zeros = vec![0; WRITE_BYTES];
        let mut at = range.start;
        while at < range.end {
            let count = (range.end - at).min(WRITE_BYTES as u64) as usize;
            self.file.write_all_at(&zeros[..count], self.origin + at)?;
            at += count as u64;
        }
        Ok(())
    }
}

impl BodySink for Arrival {
    fn begin(&mut self, bytes: u64) -> io::Result<u64> {
        let block_size = self.places.block_size();
        let mut writing = self.writing();
        let block = self.places.data_from(writing.at.div_ceil(block_size));
        writing.at = block * block_size;
        if block.saturating_add(bytes / block_size) >= self.places.blocks_max {
            let most = self.places.blocks_max * block_size;
            let message = format!("in the order of arrival an image has at most {most} bytes");
            return Err(io::Error::other(message));
        }
        Ok(writing.at)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let start = self.writing().at;
        let mut rest = bytes;
        for piece in self.pieces(start, bytes.len() as u64) {
            let (now, later) = rest.split_at((piece.end - piece.start) as usize);
            let mut writing = self.writing();
            writing.at = piece.start;
            writing.push(now)?;
            rest = later;
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.writing().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_engine::mkfs::{Identity, Profile, default_wishes};
    use extant_format::layout::{Inodes, Layout};

    fn arrival(profile: Profile, block_size: u32, file: &File) -> (Wishes, Arrival) {
        let defaults = default_wishes(profile, 0, Some(block_size), Identity::NONE);
        // One flex group, as the builder has it.
        let mut wishes = Wishes { features: profile.features(), flex_groups: 256, ..defaults };
        wishes.blocks_per_group = Some(1024);
        let arrival = Arrival::new(&mut wishes, file, 0).unwrap();
        (wishes, arrival)
    }

    #[test]
    fn bodies_leave_room_for_the_copies_of_a_volume_of_any_size() {
        let sizes = [1024, 4096].map(|size| [(Profile::Ext4, size), (Profile::Ext2, size)]);
        for (profile, block_size) in sizes.into_iter().flatten() {
            let file = tempfile::tempfile().unwrap();
            let (mut wishes, mut arrival) = arrival(profile, block_size, &file);
            let mut bodies = Vec::new();
            for length in [1, 5_000_000, 4096, 100_000, 20_000_000, 3] {
                let offset = arrival.begin(length).unwrap();
                let bytes: Vec<u8> = (0..length).map(|n| (n % 253) as u8 + 1).collect();
                bytes.chunks(70_001).for_each(|chunk| arrival.write(chunk).unwrap());
                bodies.push((offset, length));
            }
            arrival.finish().unwrap();
            for more in [2000, 70_000] {
                // Whole groups: a short last one may be dropped.
                let first = u64::from(arrival.places.superblock.first_data_block);
                let blocks = (arrival.end().0 + more).next_multiple_of(1024) + first;
                if let Some(groups) = arrival.group_inodes() {
                    wishes.inodes = Inodes::AtLeast(groups.count(blocks * u64::from(block_size)));
                }
                let layout = Layout::with_tables_from(
                    &Wishes { blocks, ..wishes.clone() },
                    Some(arrival.end()),
                )
                .unwrap();
                assert!(arrival.agrees_with(&layout));
                let runs = (0..layout.superblock.group_count())
                    .flat_map(|group| layout.metadata_runs(GroupNo(group)));
                let taken: Vec<Range<u64>> = runs
                    .map(|run| run.start.0..run.start.0 + u64::from(run.length))
                    .map(|run| run.start * u64::from(block_size)..run.end * u64::from(block_size))
                    .collect();
                for (offset, length) in &bodies {
                    let mut count = 0u64;
                    for piece in arrival.pieces(*offset, *length) {
                        let touches =
                            |run: &Range<u64>| run.start < piece.end && piece.start < run.end;
                        assert!(!taken.iter().any(touches), "{piece:?}");
                        let mut bytes = vec![0; (piece.end - piece.start) as usize];
                        file.read_exact_at(&mut bytes, piece.start).unwrap();
                        for byte in bytes {
                            assert_eq!(byte, (count % 253) as u8 + 1);
                            count += 1;
                        }
                    }
                    assert_eq!(count, *length);
                }
            }
        }
    }

    #[test]
    fn what_is_no_file_in_the_end_reads_as_zeros() {
        let file = tempfile::tempfile().unwrap();
        let (_, mut arrival) = arrival(Profile::Ext4, 4096, &file);
        let mut offsets = Vec::new();
        for byte in 1..=3 {
            offsets.push(arrival.begin(10_000).unwrap());
            arrival.write(&[byte; 10_000]).unwrap();
        }
        arrival.finish().unwrap();
        assert_eq!(arrival.empty_all_but(vec![(offsets[1], 10_000)]).unwrap(), 6);
        let read = |offset| {
            let mut bytes = [9; 10_000];
            let _ = file.read_at(&mut bytes, offset).unwrap();
            bytes
        };
        assert!(read(offsets[0]) == [0; 10_000] && read(offsets[1]) == [2; 10_000]);
        assert_eq!(read(offsets[2])[..9000], [0; 9000]);
    }
}
