//! Tables of inodes, and what each inode in use has: its map, its names, the end of its last block,
//! its attributes.
use super::Unread;
use super::stale;
use crate::directories::style;
use crate::draft::{Draft, Result};
use crate::growth_map;
use crate::map::{self, FileMap, OnMetadata};
use extant_format::directory::stored::IndexTail;
use extant_format::directory::{Form, IndexPlace};
use extant_format::extent::{self, ExtentState};
use extant_format::inode::{FileType, Inode, flags};
use extant_format::superblock::SUPERBLOCK_SIZE;
use extant_format::{BlockNo, FileBlock, GroupNo, Ino, attribute};
use std::collections::BTreeSet;
use std::ops::Range;

/// Scrubs all inodes.
///
/// # Errors
/// The device's; memory for the changes does not suffice.
pub(super) fn scrub(draft: &Draft, unread: &mut Unread) -> Result<()> {
    let mut scrubbing = Scrubbing { draft, unread, attributes: BTreeSet::new() };
    (0..draft.usage.groups()).map(GroupNo).try_for_each(|group| scrubbing.table(group))
}

struct Scrubbing<'a> {
    draft: &'a Draft,
    unread: &'a mut Unread,
    /// Blocks of attributes that were scrubbed: several inodes share one.
    attributes: BTreeSet<BlockNo>,
}

impl Scrubbing<'_> {
    /// The table of a group: what is free is zeros, and blocks without any inode in use are not
    /// read at all.
    fn table(&mut self, group: GroupNo) -> Result<()> {
        let draft = self.draft;
        let superblock = &draft.superblock;
        let Some(descriptor) = draft.usage.descriptor(group) else { return Ok(()) };
        let used = draft.usage.inode_bits(group);
        let is_used = |at: u32| {
            let word = used.words.get((at / u64::BITS) as usize).copied().unwrap_or(u64::MAX);
            word >> (at % u64::BITS) & 1 == 1
        };
        let size = usize::from(superblock.inode_size);
        let each = u32::try_from(draft.block_size() / size.max(1)).unwrap_or(1).max(1);
        let first = group.0.saturating_mul(superblock.inodes_per_group).saturating_add(1);
        for number in 0..superblock.inode_table_blocks() {
            let block = BlockNo(descriptor.inode_table.0.saturating_add(number.into()));
            let from = number.saturating_mul(each);
            let inodes = from..from.saturating_add(each).min(superblock.inodes_per_group);
            if !inodes.clone().any(is_used) {
                self.unread.add(block.0..block.0.saturating_add(1));
                continue;
            }
            let Some(before) = draft.read(block)? else { continue };
            let mut bytes = before.clone();
            for (at, inode) in inodes.clone().zip(bytes.chunks_exact_mut(size)) {
                match is_used(at) {
                    true => self.inode(Ino(first.saturating_add(at)), inode)?,
                    false => inode.fill(0),
                }
            }
            let room = size.saturating_mul(inodes.len());
            bytes.get_mut(room..).unwrap_or_default().fill(0);
            if bytes != before {
                draft.write(block, &bytes)?;
            }
        }
        Ok(())
    }

    /// An inode in use, as it is stored, and what it has.
    fn inode(&mut self, ino: Ino, bytes: &mut [u8]) -> Result<()> {
        let draft = self.draft;
        let superblock = &draft.superblock;
        let inode = Inode::decode(bytes, superblock);
        let is_reserved = ino != Ino::ROOT && ino.0 < superblock.first_inode;
        if !is_reserved && inode.file_type().is_some() {
            let before = bytes.to_vec();
            stale::inode(bytes, &inode, superblock);
            if *bytes != before[..] {
                Inode::seal(bytes, ino, superblock);
            }
        }
        match ino {
            Ino::BAD_BLOCKS => return Ok(()),
            Ino::RESIZE => {
                let root = growth_map::root(&inode);
                if root.0 != 0 {
                    self.rest_of_cluster(root);
                }
                return Ok(());
            }
            _ => {}
        }
        if inode.attribute_block.0 != 0 && self.attributes.insert(inode.attribute_block) {
            self.attribute_block(inode.attribute_block)?;
        }
        let is_mapped = match inode.file_type() {
            Some(FileType::Regular | FileType::Directory) => true,
            Some(FileType::Symlink) => !inode.is_fast_symlink(superblock),
            _ => false,
        };
        if !is_mapped || inode.flags & flags::INLINE_DATA != 0 {
            return Ok(());
        }
        let map = map::read_with(draft, &inode, OnMetadata::Kept)?;
        if inode.has_extents() {
            self.nodes(ino, &inode, &map)?;
        }
        self.rest_of_clusters(&inode, &map);
        match inode.file_type() {
            _ if ino.0 == superblock.journal_inode => self.journal(&map),
            _ if draft.usage.is_of_system(ino) => Ok(()),
            Some(FileType::Directory) => self.directory(ino, &inode, &map),
            _ => self.contents(&inode, &map),
        }
    }

    /// Nodes of an extent tree that are blocks.
    fn nodes(&mut self, ino: Ino, inode: &Inode, map: &FileMap) -> Result<()> {
        let draft = self.draft;
        let capacity = extent::capacity(draft.block_size());
        for block in &map.nodes {
            let Some(before) = draft.read(*block)? else { continue };
            let mut bytes = before.clone();
            stale::node(&mut bytes, capacity);
            if draft.has_checksums() {
                extent::seal(&mut bytes, draft.seed(ino, inode));
            }
            if bytes != before {
                draft.write(*block, &bytes)?;
            }
        }
        Ok(())
    }

    fn attribute_block(&mut self, block: BlockNo) -> Result<()> {
        let draft = self.draft;
        let Some(before) = draft.read(block)? else { return Ok(()) };
        let mut bytes = before.clone();
        stale::attribute_block(&mut bytes);
        if bytes != before {
            attribute::seal_block(&mut bytes, block, &draft.superblock);
            draft.write(block, &bytes)?;
        }
        self.rest_of_cluster(block);
        Ok(())
    }

    /// What of the cluster of one block is not that.
    fn rest_of_cluster(&mut self, block: BlockNo) {
        let cluster = u64::from(self.draft.usage.cluster_blocks()).max(1);
        let start = block.0 / cluster * cluster;
        let own = block.0..block.0.saturating_add(1);
        self.unread_but(start..start.saturating_add(cluster), std::slice::from_ref(&own));
    }

    /// What of the clusters of a file, or of its map, no block of it is.
    fn rest_of_clusters(&mut self, inode: &Inode, map: &FileMap) {
        let cluster = u64::from(self.draft.usage.cluster_blocks()).max(1);
        if cluster == 1 {
            return;
        }
        let runs = map.runs.iter().map(|run| run.start..run.start.saturating_add(run.length));
        let nodes = map.nodes.iter().chain([&inode.attribute_block]).filter(|block| block.0 != 0);
        let nodes = nodes.map(|block| block.0..block.0.saturating_add(1));
        let mut kept: Vec<Range<u64>> = runs.chain(nodes).collect();
        kept.sort_by_key(|range| range.start);
        let mut done = 0;
        for (at, range) in kept.iter().enumerate() {
            let start = (range.start / cluster * cluster).max(done);
            let end = range.end.div_ceil(cluster).saturating_mul(cluster);
            if start < end {
                self.unread_but(start..end, kept.get(at.saturating_sub(1)..).unwrap_or_default());
                done = end;
            }
        }
    }

    /// Blocks of a range but those kept, which rise, and metadata of the volume.
    fn unread_but(&mut self, blocks: Range<u64>, kept: &[Range<u64>]) {
        let usage = &self.draft.usage;
        let mut kept = kept.iter().peekable();
        for block in blocks {
            while kept.next_if(|range| range.end <= block).is_some() {}
            let is_kept = kept.peek().is_some_and(|range| range.start <= block);
            if !is_kept && usage.holds(BlockNo(block)) && !usage.is_metadata(BlockNo(block)) {
                self.unread.add(block..block + 1);
            }
        }
    }

    /// A journal in which nothing waits: all but what it says of itself.
    fn journal(&mut self, map: &FileMap) -> Result<()> {
        for run in &map.runs {
            let first = run.start.saturating_add(u64::from(run.file_block == 0));
            self.unread.add(first..run.start.saturating_add(run.length));
            if run.file_block == 0 {
                self.end_of_block(BlockNo(run.start), SUPERBLOCK_SIZE)?;
            }
        }
        Ok(())
    }

    /// Bytes of a block from one on become zeros.
    fn end_of_block(&mut self, block: BlockNo, from: usize) -> Result<()> {
        let Some(mut bytes) = self.draft.read(block)? else { return Ok(()) };
        let rest = bytes.get_mut(from..).unwrap_or_default();
        if rest.iter().any(|byte| *byte != 0) {
            rest.fill(0);
            self.draft.write(block, &bytes)?;
        }
        Ok(())
    }

    /// What a file has past its end, and blocks that were kept for it and never written.
    fn contents(&mut self, inode: &Inode, map: &FileMap) -> Result<()> {
        let size = self.draft.block_size() as u64;
        // Of these, bytes past the end mean something, or belong to those before it.
        let is_whole = inode.flags & (flags::VERITY | flags::ENCRYPTED) != 0;
        let end = if is_whole { u64::MAX } else { inode.size.div_ceil(size) };
        for run in &map.runs {
            let last = run.start.saturating_add(run.length);
            if run.state == ExtentState::Unwritten {
                self.unread.add(run.start..last);
                continue;
            }
            let within = end.saturating_sub(run.file_block).min(run.length);
            self.unread.add(run.start.saturating_add(within)..last);
            let is_last = within > 0 && run.file_block.saturating_add(within) == end;
            if is_last && !inode.size.is_multiple_of(size) {
                let block = BlockNo(run.start.saturating_add(within).saturating_sub(1));
                let from = usize::try_from(inode.size % size).unwrap_or(usize::MAX);
                self.end_of_block(block, from)?;
            }
        }
        Ok(())
    }

    fn directory(&mut self, ino: Ino, inode: &Inode, map: &FileMap) -> Result<()> {
        let draft = self.draft;
        let (style, form) = (style(draft), Form::of(inode.flags));
        let shape = stale::inline_shape(inode, &draft.superblock);
        let tail = match style.checksummed {
            true => IndexTail::Checksum,
            false => IndexTail::None,
        };
        for run in &map.runs {
            for at in 0..run.length {
                let (file_block, block) =
                    (run.file_block.saturating_add(at), BlockNo(run.start.saturating_add(at)));
                let Some(before) = draft.read(block)? else { continue };
                let mut bytes = before.clone();
                match form {
                    Form::Indexed if file_block == 0 => {
                        stale::index(&mut bytes, IndexPlace::Root, tail);
                    }
                    Form::Indexed if shape.is_node(&bytes, tail) => {
                        stale::index(&mut bytes, IndexPlace::Node, tail);
                    }
                    _ => stale::entries(&mut bytes, 0, shape),
                }
                if bytes != before {
                    let file_block = FileBlock(u32::try_from(file_block).unwrap_or(u32::MAX));
                    style.seal(&mut bytes, file_block, form, draft.seed(ino, inode));
                    draft.write(block, &bytes)?;
                }
            }
        }
        Ok(())
    }
}
