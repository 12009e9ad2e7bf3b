//! All inodes in use, once: their checksums, maps, attributes and directories; and which blocks two
//! of them claim.
use super::descriptors::Groups;
use super::losses::Lines;
use super::maps::Mapped;
use super::{MAP, Mend, block, directories, metadata};
use crate::error::Result;
use extant_block::{BlockDevice, Overlay};
use extant_format::group::GroupDescriptor;
use extant_format::inode::{FileType, Inode, flags};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, GroupNo, Ino, Run, attribute};
use rustc_hash::FxHashSet;

/// Stretches of blocks that files claim, of which at most this many are compared.
const CLAIMS_MAX: usize = 1 << 24;
/// Where an inode has its size, and the number of its attribute block.
const SIZE: usize = 4;
const SIZE_HIGH: usize = 108;
const ATTRIBUTE_BLOCK: usize = 104;
const ATTRIBUTE_BLOCK_HIGH: usize = 118;

/// Mends what all inodes lead to.
///
/// # Errors
/// More than the overlay holds.
pub(super) fn mend(
    over: &Overlay,
    superblock: &Superblock,
    groups: &Groups,
    lines: &mut Lines,
) -> Result<()> {
    let Groups { descriptors, lost } = groups;
    let metadata = metadata(superblock, descriptors);
    let (followed, claims) = (FxHashSet::default(), Vec::new());
    let mut mend = Mend { over, superblock, lines, metadata, lost, followed, claims };
    for (descriptor, group) in descriptors.iter().zip((0..).map(GroupNo)) {
        if !lost.contains(&group) {
            mend.table(group, descriptor)?;
        }
    }
    mend.compare(descriptors);
    Ok(())
}

impl Mend<'_> {
    /// The inodes of a group.
    fn table(&mut self, group: GroupNo, descriptor: &GroupDescriptor) -> Result<()> {
        let size = usize::from(self.superblock.inode_size);
        let used = self.superblock.inodes_per_group.saturating_sub(descriptor.unused_inodes);
        let per_block = (self.over.block_bytes() / size).max(1) as u32;
        let first = group.0.saturating_mul(self.superblock.inodes_per_group);
        for at in (0..used).step_by(per_block as usize) {
            let number = BlockNo(descriptor.inode_table.0 + u64::from(at / per_block));
            let mut bytes = match block(self.over, number) {
                Ok(bytes) => bytes,
                Err(reason) => {
                    let last = first + (at + per_block).min(used);
                    let range = format!("{} to {last}", first + at + 1);
                    self.lines.lost(format!("inodes {range}: cannot be read: {reason}"));
                    continue;
                }
            };
            let before = bytes.clone();
            for (index, raw) in bytes.chunks_exact_mut(size).enumerate() {
                let ino = Ino(first + at + index as u32 + 1);
                if ino.0 - first <= used {
                    self.inode(ino, raw)?;
                }
            }
            if bytes != before {
                self.over.write(number.0 * bytes.len() as u64, &bytes)?;
            }
        }
        Ok(())
    }

    /// One inode, mended in its bytes.
    fn inode(&mut self, ino: Ino, raw: &mut [u8]) -> Result<()> {
        let inode = Inode::decode(raw, self.superblock);
        // The blocks of the seventh inode are those of descriptors that may come.
        if inode.links == 0 || inode.deletion_time != 0 || ino == Ino(7) {
            return Ok(());
        }
        if let Err(fault) = Inode::verify_checksum(raw, ino, self.superblock) {
            self.lines.lost_of(vec![ino], format!("{fault}: it may be wrong"));
        }
        self.attributes(ino, &inode, raw);
        let is_mapped = match inode.file_type() {
            Some(FileType::Regular | FileType::Directory) => true,
            Some(FileType::Symlink) => !inode.is_fast_symlink(self.superblock),
            _ => false,
        };
        if !is_mapped || inode.flags & flags::INLINE_DATA != 0 {
            return Ok(());
        }
        let mapped = self.map(ino, &inode, raw)?;
        if inode.file_type() == Some(FileType::Directory) {
            self.directory(ino, &inode, raw, mapped)?;
        }
        Ok(())
    }

    /// A block of attributes that cannot be used is left out.
    fn attributes(&mut self, ino: Ino, inode: &Inode, raw: &mut [u8]) {
        let number = inode.attribute_block;
        if number.0 == 0 {
            return;
        }
        let mut lax = self.superblock.clone();
        lax.features.clear(Feature::METADATA_CSUM);
        let read = match self.may_hold(Run { start: number, length: 1 }) {
            true => block(self.over, number),
            false => Err("is none of a file".to_owned()),
        };
        let usable = read.and_then(|bytes| {
            if let Err(fault) = attribute::parse_block(&bytes, number, self.superblock) {
                attribute::parse_block(&bytes, number, &lax).map_err(|fault| fault.to_string())?;
                self.lines.lost_of(vec![ino], format!("its attributes may be wrong: {fault}"));
            }
            Ok(())
        });
        if let Err(reason) = usable {
            self.lines.lost_of(vec![ino], format!("its attribute block {}: {reason}", number.0));
            raw[ATTRIBUTE_BLOCK..ATTRIBUTE_BLOCK + 4].fill(0);
            raw[ATTRIBUTE_BLOCK_HIGH..ATTRIBUTE_BLOCK_HIGH + 2].fill(0);
        }
    }

    /// The blocks of a directory. It has no holes afterwards: where some of it is lost, the map is
    /// made new.
    fn directory(
        &mut self,
        ino: Ino,
        inode: &Inode,
        raw: &mut [u8],
        mut mapped: Mapped,
    ) -> Result<()> {
        let block_size = u64::from(self.superblock.block_size());
        mapped.runs.sort_unstable_by_key(|(file_block, _)| *file_block);
        let wanted = inode.size.div_ceil(block_size);
        mapped.runs.retain(|(file_block, _)| *file_block < wanted);
        let is_dense = mapped.runs.iter().try_fold(0, |next, (file_block, run)| {
            (*file_block == next).then(|| next + u64::from(run.length))
        });
        for (first, run) in &mapped.runs {
            for index in 0..run.length {
                let file_block = first + u64::from(index);
                let number = BlockNo(run.start.0 + u64::from(index));
                directories::mend(self, (ino, inode), file_block, number)?;
            }
        }
        if is_dense.is_some_and(|blocks| blocks >= wanted) {
            return Ok(());
        }
        let blocks = directories::close_gaps(&mapped.runs, &mut raw[MAP..MAP + 60]);
        let lost = wanted.saturating_sub(blocks);
        self.lines.lost_of(vec![ino], format!("{lost} of its blocks of names are lost"));
        let size = blocks * block_size;
        raw[SIZE..SIZE + 4].copy_from_slice(&(size as u32).to_le_bytes());
        raw[SIZE_HIGH..SIZE_HIGH + 4].copy_from_slice(&((size >> 32) as u32).to_le_bytes());
        let flags = inode.flags | flags::EXTENTS;
        raw[32..36].copy_from_slice(&flags.to_le_bytes());
        Ok(())
    }

    /// Whether a file may hold these blocks.
    pub(super) fn may_hold(&self, run: Run) -> bool {
        let (start, end) = (run.start.0, run.start.0.saturating_add(run.length.into()));
        // The last that begins before its end, and one before: those of damaged volumes overlap.
        let before = self.metadata.partition_point(|other| other.start.0 < end);
        let overlaps = self.metadata[before.saturating_sub(2)..before]
            .iter()
            .any(|other| other.start.0.saturating_add(other.length.into()) > start);
        start > u64::from(self.superblock.first_data_block)
            && end <= self.superblock.blocks_count
            && end.saturating_mul(self.over.block_bytes() as u64) <= self.over.device().own_bytes()
            && !overlaps
    }

    /// Whether a map block is followed: the first time that it is met, where it may be one.
    pub(super) fn follows(&mut self, number: BlockNo, ino: Ino) -> bool {
        let run = Run { start: number, length: 1 };
        let follows = self.may_hold(run) && self.followed.insert(number);
        if follows {
            self.claim(run, ino);
        }
        follows
    }

    /// Notes what a file holds.
    pub(super) fn claim(&mut self, run: Run, ino: Ino) {
        match self.claims.len() {
            CLAIMS_MAX => {
                self.lines.lost("what two files claim is not looked for: too many pieces")
            }
            _ => self.claims.push((run, ino)),
        }
    }

    /// Says which blocks two files claim, and which files have blocks that are free: of them one
    /// shows what is another's.
    fn compare(&mut self, groups: &[GroupDescriptor]) {
        let shares = [Feature::SHARED_BLOCKS, Feature::BIGALLOC];
        if shares.into_iter().any(|feature| self.superblock.has(feature)) {
            return;
        }
        self.claims.sort_unstable_by_key(|(run, _)| run.start);
        let claims = std::mem::take(&mut self.claims);
        let mut furthest: Option<(u64, Ino)> = None;
        let mut said = FxHashSet::default();
        for (run, ino) in &claims {
            let end = run.start.0.saturating_add(run.length.into());
            if let Some((before, other)) = furthest
                && run.start.0 < before
                && said.insert((other, *ino))
            {
                let words = "the bytes of one are the other's";
                let words = format!("both have block {}: {words}", run.start.0);
                self.lines.lost_of(vec![other, *ino], words);
            }
            if furthest.is_none_or(|(before, _)| before < end) {
                furthest = Some((end, *ino));
            }
        }
        let mut bitmap: Option<(GroupNo, Vec<u8>)> = None;
        let mut said = FxHashSet::default();
        for (run, ino) in &claims {
            for number in (0..run.length).map(|index| BlockNo(run.start.0 + u64::from(index))) {
                let Some(group) = self.superblock.group_of_block(number) else { continue };
                if bitmap.as_ref().is_none_or(|(at, _)| *at != group) {
                    let place = groups.get(group.0 as usize).map(|found| found.block_bitmap);
                    let bytes = place.and_then(|place| block(self.over, place).ok());
                    bitmap = Some((group, bytes.unwrap_or_default()));
                }
                let bit = (number.0 - self.superblock.group_start(group).0) as usize;
                let byte = bitmap.as_ref().and_then(|(_, bytes)| bytes.get(bit / 8));
                let is_free = byte.is_some_and(|byte| byte >> (bit % 8) & 1 == 0);
                if is_free && said.insert(*ino) {
                    let words = "is free by its bitmap: its bytes may be wrong";
                    self.lines.lost_of(vec![*ino], format!("its block {} {words}", number.0));
                }
            }
        }
    }
}
