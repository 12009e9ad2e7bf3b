//! The first files of a new volume, as mke2fs makes them: root, lost+found, the resize inode, the
//! journal, the block that records mounts, quota files, the orphan file.
use super::draft::Draft;
use super::files::{
    fill_mount_block, lost_and_found_blocks, mount_interval, orphan_file_blocks, resize_inode_size,
};
use super::quota::{self, QuotaKind};
use super::{FormatOptions, Made};
use crate::error::Result;
use extant_format::attribute;
use extant_format::directory::{Form, Style};
use extant_format::inode::{FileType, Inode, Time};
use extant_format::journal::NewJournal;
use extant_format::layout::Layout;
use extant_format::superblock::{Feature, SUPERBLOCK_SIZE, Superblock};
use extant_format::{BlockNo, FileBlock, GroupNo, Ino, indirect, journal, orphan_file};

const LOST_AND_FOUND: &[u8] = b"lost+found";
/// Slot of the inode from which the resize inode's only tree starts.
const DOUBLE_INDIRECT: u32 = 13;
/// Bytes at the start of a device that are filled with zeros first of all.
const FIRST_BYTES: u64 = 4096;

/// Decides the whole volume.
///
/// # Errors
/// `NoSpace` or `NoInodes` if the files do not fit.
pub(super) fn draft(
    options: &FormatOptions,
    layout: Layout,
    journal_blocks: u32,
) -> Result<(Draft, Made)> {
    let seconds = i64::try_from(layout.superblock.created_seconds).unwrap_or(i64::MAX);
    let now = Time { seconds, nanoseconds: 0 };
    let reserved = layout.reserved_descriptor_blocks();
    let mut draft = Draft::new(layout, now);
    draft.traffic.direct(bytes_of_heads(&draft.layout));
    make_reserved(&mut draft);
    make_root(&mut draft, options)?;
    make_bad_blocks(&mut draft, &options.wishes.bad_blocks, now)?;
    if draft.superblock().has(Feature::RESIZE_INODE) {
        make_resize_inode(&mut draft, &reserved)?;
    }
    let mut made = Made::default();
    if journal_blocks > 0 {
        made.journal_backup = Some(make_journal(&mut draft, options, journal_blocks)?);
    }
    if draft.superblock().has(Feature::MMP) {
        made.mount_block = Some(make_mount_block(&mut draft, options)?);
        made.mount_interval_seconds = mount_interval(options);
    }
    if draft.superblock().has(Feature::QUOTA) {
        make_quota_files(&mut draft, options, &mut made)?;
    }
    if draft.superblock().has(Feature::ORPHAN_FILE) {
        made.orphan_file = Some(make_orphan_file(&mut draft, options)?);
    }
    let used = draft.superblock().inodes_count - draft.superblock().free_inodes;
    draft.layout.take_inodes(used);
    count_bitmaps(&mut draft);
    made.kib_written = kib_written(&draft);
    Ok((draft, made))
}

/// What counts as written before anything else.
fn bytes_of_heads(layout: &Layout) -> u64 {
    // Found by comparing: superblock and descriptors count so much, whatever a block holds.
    let heads = 1 + u64::from(layout.superblock.descriptor_blocks());
    FIRST_BYTES + heads * (1 << 20) / u64::from(layout.superblock.block_size())
}

/// The KiB that count as written where superblock and descriptors are written alone.
pub(super) fn kib_of_heads(layout: &Layout) -> u64 {
    match counts_traffic(&layout.superblock) {
        true => bytes_of_heads(layout) >> 10,
        false => 0,
    }
}

/// With checksums, inodes that are reserved have one although they are not in use.
fn make_reserved(draft: &mut Draft) {
    if !draft.superblock().has(Feature::METADATA_CSUM) {
        return;
    }
    for ino in (1..draft.superblock().first_inode).map(Ino) {
        let inode = unused(draft.superblock());
        draft.store(ino, inode);
    }
}

/// An inode of zeros.
fn unused(superblock: &Superblock) -> Inode {
    let mut inode = Inode::new(0, superblock);
    inode.tail.extend(std::iter::repeat_n(0, inode.extra_isize.into()));
    inode.extra_isize = 0;
    inode.create_time = None;
    inode
}

/// The list of bad blocks; its inode has times where it is empty, too.
fn make_bad_blocks(draft: &mut Draft, bad: &[BlockNo], now: Time) -> Result<()> {
    let mut inode = unused(draft.superblock());
    (inode.access_time, inode.change_time, inode.modify_time) = (now, now, now);
    if !bad.is_empty() {
        let mapped = draft.map_pointers(bad.len() as u32, &mut bad.iter().copied())?;
        inode.block = mapped.map;
        inode.size = bad.len() as u64 * u64::from(draft.block_size());
        inode.sectors = mapped.blocks * u64::from(draft.block_size() / 512);
    }
    draft.store(Ino::BAD_BLOCKS, inode);
    Ok(())
}

fn style(superblock: &Superblock) -> Style {
    Style {
        block_size: superblock.block_size(),
        typed: superblock.has(Feature::FILETYPE),
        checksummed: superblock.has(Feature::METADATA_CSUM),
    }
}

/// The root, and lost+found in it, all of whose blocks are there from the start: e2fsck need not
/// allocate any on a volume that it does not trust.
fn make_root(draft: &mut Draft, options: &FormatOptions) -> Result<()> {
    let style = style(draft.superblock());
    let directory = FileType::Directory.mode_bits();
    let mapped = draft.map(Ino::ROOT, BlockNo(0), 1)?;
    let mut root = draft.inode(directory | options.root_mode, 2);
    (root.uid, root.gid) = options.root_owner;
    root.size = draft.block_size().into();
    draft.fill(&mut root, &mapped);
    let mut entries = draft.empty();
    style.initialize_first(&mut entries, Ino::ROOT, Ino::ROOT);
    let place = mapped.data.first().copied().unwrap_or_default();
    draft.put(place, Vec::new());
    draft.touch_inode(Ino::ROOT);
    let wanted = lost_and_found_blocks(options.lost_and_found, draft.block_size());
    // With inline data it has its first entries in the inode before it grows, and ends smaller.
    let is_inline = u32::from(draft.superblock().has(Feature::INLINE_DATA));
    if let Some(blocks) = wanted.map(|blocks| blocks - is_inline.min(blocks - 1)) {
        let ino = draft.next_inode()?;
        make_lost_and_found(draft, ino, blocks, (Ino::ROOT, place))?;
        let fits = style.insert(&mut entries, LOST_AND_FOUND, ino, FileType::Directory);
        debug_assert_eq!(fits, Ok(true), "an empty directory has room for one name");
        root.links += 1;
    }
    style.seal(&mut entries, FileBlock(0), Form::Linear, draft.seed(Ino::ROOT));
    draft.blocks.insert(place.0, entries);
    draft.inodes.insert(Ino::ROOT.0, root);
    Ok(())
}

fn make_lost_and_found(
    draft: &mut Draft,
    ino: Ino,
    blocks: u32,
    (parent, parent_block): (Ino, BlockNo),
) -> Result<()> {
    let style = style(draft.superblock());
    let is_inline = draft.superblock().has(Feature::INLINE_DATA);
    let seed = draft.seed(ino);
    let mapped = draft.map(ino, BlockNo(0), blocks)?;
    for (file_block, place) in (0..).zip(&mapped.data) {
        let mut bytes = draft.empty();
        match file_block {
            0 => {
                style.initialize_first(&mut bytes, ino, parent);
                if is_inline {
                    split_parent(&mut bytes);
                }
            }
            _ => style.initialize(&mut bytes),
        }
        style.seal(&mut bytes, FileBlock(file_block), Form::Linear, seed);
        draft.put(*place, bytes);
        draft.touch_inode(ino);
        if file_block == 0 {
            draft.traffic.write(parent_block);
            draft.touch_inode(parent);
        }
    }
    let mut inode = draft.inode(FileType::Directory.mode_bits() | 0o700, 2);
    inode.size = u64::from(blocks) * u64::from(draft.block_size());
    draft.fill(&mut inode, &mapped);
    if draft.superblock().has(Feature::INLINE_DATA) {
        // The room of attributes was made for the data that is not there any more.
        for (to, from) in inode.tail.iter_mut().zip(attribute::MAGIC.to_le_bytes()) {
            *to = from;
        }
    }
    draft.store(ino, inode);
    Ok(())
}

/// Ends the entry of the parent after its name, with an unused entry for the rest of the block: so
/// looks a directory that was in its inode.
fn split_parent(bytes: &mut [u8]) {
    const LENGTH: u16 = 12;
    if let Some(lengths) = bytes.get_mut(16..30)
        && let Some(([first, second, ..], [.., third, fourth])) = lengths.split_at_mut_checked(2)
    {
        let rest = u16::from_le_bytes([*first, *second]).saturating_sub(LENGTH);
        [*first, *second] = LENGTH.to_le_bytes();
        [*third, *fourth] = rest.to_le_bytes();
    }
}

/// The map of the resize inode is one double-indirect block, under which the reserved descriptor
/// blocks of group 0 are the indirect blocks, each at the index of its place in the descriptor
/// table. They list the reserved blocks of the copies, which are the data blocks of the inode.
fn make_resize_inode(draft: &mut Draft, reserved: &[(GroupNo, BlockNo)]) -> Result<()> {
    // Found by comparing: the next free block after as many as an inode table has, counted from the
    // block bitmap; with flex_bg a table of few blocks begins only after that.
    let bitmap = draft.layout.descriptors.first().map_or(0, |group| group.block_bitmap.0);
    let after = bitmap + 1 + u64::from(draft.superblock().inode_table_blocks());
    let tree = draft.take_one(BlockNo(after))?;
    let low = |block: BlockNo| u32::try_from(block.0).unwrap_or(0);
    let mut bytes = draft.empty();
    let pointers = draft.block_size() / 4;
    let first_index = draft.superblock().descriptor_blocks();
    let own = || reserved.iter().filter(|(group, _)| group.0 == 0);
    draft.traffic.write(tree);
    for (offset, (_, block)) in (0..).zip(own()) {
        indirect::set_pointer(&mut bytes, (first_index + offset) % pointers, low(*block));
        draft.traffic.write(*block);
        draft.traffic.write(tree);
    }
    draft.put(tree, bytes);
    let mut inode = draft.inode(FileType::Regular.mode_bits() | 0o600, 1);
    inode.size = resize_inode_size(draft.block_size());
    indirect::set_pointer(&mut inode.block, DOUBLE_INDIRECT, low(tree));
    // With bigalloc each of the blocks counts as a cluster.
    let blocks = (reserved.len() as u64 + 1) * draft.in_clusters(1);
    inode.sectors = blocks * u64::from(draft.block_size() / 512);
    draft.store(Ino::RESIZE, inode);
    Ok(())
}

/// Blocks of the journal that are for fast commits: 1/64 of what a journal of this volume has.
pub(super) fn fast_commit_blocks(options: &FormatOptions, superblock: &Superblock) -> u32 {
    match superblock.has(Feature::FAST_COMMIT) {
        false => 0,
        true if options.fast_commit_blocks > 0 => options.fast_commit_blocks,
        true => journal::default_blocks(superblock.blocks_count) / 64,
    }
}

/// Returns the copy of the journal's map and size for the superblock.
fn make_journal(draft: &mut Draft, options: &FormatOptions, blocks: u32) -> Result<[u32; 17]> {
    let block_size = draft.block_size();
    let blocks = blocks + fast_commit_blocks(options, draft.superblock());
    let goal = match options.journal_at {
        Some(goal) => goal,
        None => draft.journal_goal(),
    };
    let mapped = draft.map(Ino::JOURNAL, goal, blocks)?;
    let inode = draft.file(&mapped, u64::from(blocks) * u64::from(block_size));
    let mut first = draft.empty();
    let fast_commit_blocks = fast_commit_blocks(options, draft.superblock());
    let uuid = draft.superblock().uuid;
    journal::initialize(&mut first, &NewJournal { block_size, blocks, uuid, fast_commit_blocks });
    let mut backup = [0; 17];
    for (index, word) in (0..15).zip(&mut backup) {
        *word = indirect::pointer(&inode.block, index);
    }
    backup[15] = (inode.size >> 32) as u32;
    backup[16] = inode.size as u32;
    draft.store(Ino::JOURNAL, inode);
    if let Some(place) = mapped.data.first() {
        draft.put(*place, first);
    }
    draft.zero(mapped.data.get(1..).unwrap_or_default());
    if !draft.superblock().has(Feature::EXTENTS) {
        // Without extents the blocks are filled one by one.
        draft.traffic.direct(u64::from(blocks.saturating_sub(1)) * u64::from(block_size));
    }
    Ok(backup)
}

fn make_mount_block(draft: &mut Draft, options: &FormatOptions) -> Result<BlockNo> {
    let place = draft.take_one(BlockNo(0))?;
    let mut bytes = draft.empty();
    fill_mount_block(&mut bytes, options, draft.superblock());
    draft.traffic.flush();
    draft.traffic.direct(u64::from(draft.block_size()) + SUPERBLOCK_SIZE as u64);
    draft.blocks.insert(place.0, bytes);
    Ok(place)
}

fn make_quota_files(draft: &mut Draft, options: &FormatOptions, made: &mut Made) -> Result<()> {
    for kind in quota::kinds(options, &draft.superblock().features) {
        let ino = match kind {
            QuotaKind::Users => Ino(3),
            QuotaKind::Groups => Ino(4),
            QuotaKind::Projects => draft.next_inode()?,
        };
        quota::make(draft, kind, ino)?;
        made.quota_inodes[kind as usize] = ino;
    }
    Ok(())
}

/// An orphan file without orphans: each block ends with a magic number and a checksum.
fn make_orphan_file(draft: &mut Draft, options: &FormatOptions) -> Result<Ino> {
    let ino = draft.next_inode()?;
    let usual = || orphan_file_blocks(draft.superblock().blocks_count);
    let blocks = options.orphan_file_blocks.unwrap_or_else(usual);
    let blocks = u32::try_from(draft.in_clusters(blocks.into())).unwrap_or(blocks);
    let mapped = draft.map(ino, BlockNo(0), blocks)?;
    let inode = draft.file(&mapped, u64::from(blocks) * u64::from(draft.block_size()));
    let seed = draft.seed(ino);
    draft.store(ino, inode);
    for place in &mapped.data {
        let mut block = draft.empty();
        orphan_file::initialize(&mut block, *place, seed, draft.superblock());
        draft.put(*place, block);
    }
    Ok(ino)
}

/// Bitmaps are written before the superblock says how much was.
fn count_bitmaps(draft: &mut Draft) {
    use extant_format::group::{BLOCK_UNINIT, INODE_UNINIT};
    for group in 0..draft.layout.descriptors.len() {
        let descriptor = draft.layout.descriptors[group];
        if descriptor.flags & BLOCK_UNINIT == 0 {
            draft.traffic.write(descriptor.block_bitmap);
        }
        if descriptor.flags & INODE_UNINIT == 0 {
            draft.traffic.write(descriptor.inode_bitmap);
        }
    }
}

/// What the superblock says was written.
fn kib_written(draft: &Draft) -> u64 {
    match counts_traffic(draft.superblock()) {
        true => draft.traffic.kib() + 1,
        false => 0,
    }
}

/// Whether a superblock says how much was written: volumes that an ext2 driver may have made do
/// not.
fn counts_traffic(superblock: &Superblock) -> bool {
    const NEWER: [Feature; 6] = [
        Feature::FLEX_BG,
        Feature::HUGE_FILE,
        Feature::UNINIT_BG,
        Feature::DIR_NLINK,
        Feature::EXTRA_ISIZE,
        Feature::METADATA_CSUM,
    ];
    NEWER.iter().any(|feature| superblock.has(*feature))
}

impl Draft {
    /// These blocks have to read as zeros.
    fn zero(&mut self, blocks: &[BlockNo]) {
        for block in blocks {
            match self.zeros.last_mut() {
                Some(run) if run.start.0 + u64::from(run.length) == block.0 => run.length += 1,
                _ => self.zeros.push(extant_format::Run { start: *block, length: 1 }),
            }
        }
    }
}
