//! The files of a new volume: root, lost+found, the resize inode, the journal, the orphan file. All
//! but the resize inode, whose map is what it is for, are allocated as any file is.
use super::quota::{self, QuotaKind};
use super::{Contents, FormatOptions, FormatPlan, LostAndFound, Made};
use crate::error::{ErrorKind, Result};
use crate::inode::NodeState;
use crate::inode::mapping;
use crate::inode::operation::Operation;
use crate::inode::table;
use crate::inode::volume::Volume;
use crate::name::directory;
use crate::policy::allocation::{self, Purpose, Search};
use crate::space::{InodeKind, Reservation};
use crate::store::cache::BlockKind;
use extant_format::directory::Form;
use extant_format::extent::State;
use extant_format::inode::{FileType, Inode, flags};
use extant_format::journal::NewJournal;
use extant_format::mount_block::{self, NewMountBlock};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{
    BlockNo, FileBlock, GroupNo, Ino, Run, indirect, journal, orphan_file, quota_file,
};

const LOST_AND_FOUND: &[u8] = b"lost+found";
const LOST_AND_FOUND_BYTES: u32 = 16 * 1024;
/// Blocks of metadata that one step changes here at most: a few of maps and bitmaps, and the inode.
const CREDITS: u32 = 64;
/// Slot of the inode from which the resize inode's only tree starts.
const DOUBLE_INDIRECT: u32 = 13;
const ZEROS_BYTES: usize = 1 << 20;

/// Makes all of them. The caller syncs.
pub(super) fn make(volume: &Volume, options: &FormatOptions, plan: &FormatPlan) -> Result<Made> {
    make_root(volume, options)?;
    if volume.store.superblock.has(Feature::RESIZE_INODE) {
        make_resize_inode(volume, plan, options.tables_from)?;
    }
    let journal_backup = match plan.journal_blocks {
        0 => None,
        blocks => Some(make_journal(volume, blocks, options.contents)?),
    };
    let mut made = Made { journal_backup, ..Made::default() };
    if volume.store.superblock.has(Feature::MMP) {
        made.mount_block = Some(make_mount_block(volume, options)?);
        made.mount_interval_seconds = mount_interval(options);
    }
    if volume.store.superblock.has(Feature::QUOTA) {
        for kind in quota::kinds(options, &volume.store.superblock.features) {
            made.quota_inodes[kind as usize] = make_quota_file(volume, options, kind)?;
        }
    }
    if volume.store.superblock.has(Feature::ORPHAN_FILE) {
        made.orphan_file = Some(make_orphan_file(volume)?);
    }
    Ok(made)
}

/// Makes the block that records mounts, and says that nobody has the volume.
fn make_mount_block(volume: &Volume, options: &FormatOptions) -> Result<BlockNo> {
    let operation = Operation::begin(volume, CREDITS)?;
    let mut reservation = volume.space.reserve(1)?;
    let goal = options.tables_from.unwrap_or(BlockNo(0));
    let search = allocation::AllocationPlan { goal, length: 1, search: Search::Sequential };
    let route = volume.store.policies.map_blocks.map_route(goal);
    let place = volume.space.allocate(&operation, &mut reservation, &search, route)?.start;
    let mut bytes = vec![0; volume.store.block_size() as usize];
    fill_mount_block(&mut bytes, options, &volume.store.superblock);
    volume.store.write_unreferenced(place, &bytes)?;
    Ok(place)
}

/// What the block that records mounts says of a new volume.
pub(super) fn fill_mount_block(bytes: &mut [u8], options: &FormatOptions, superblock: &Superblock) {
    let new = NewMountBlock {
        seconds: options.mount_record.seconds,
        node_name: &options.mount_record.node_name,
        device_name: &options.mount_record.device_name,
        interval_seconds: mount_interval(options),
    };
    mount_block::initialize(bytes, &new, superblock);
}

/// How often a mount looks at that block, in seconds.
pub(super) fn mount_interval(options: &FormatOptions) -> u16 {
    const USUAL_SECONDS: u16 = 5;
    match options.mount_record.interval_seconds {
        0 => USUAL_SECONDS,
        seconds => seconds,
    }
}

/// Makes a quota file with what root and lost+found have, and entries for all that are to come.
/// Until the superblock names it nothing is counted in it.
fn make_quota_file(volume: &Volume, options: &FormatOptions, kind: QuotaKind) -> Result<Ino> {
    let operation = Operation::begin(volume, CREDITS)?;
    let ino = match kind {
        QuotaKind::Users => Ino::USER_QUOTA,
        QuotaKind::Groups => Ino::GROUP_QUOTA,
        QuotaKind::Projects => first_free_inode(&operation, InodeKind::Other)?,
    };
    let mut used = vec![(Ino::ROOT, table::load(volume, Ino::ROOT)?)];
    if options.lost_and_found != LostAndFound::None {
        let first = Ino(volume.store.superblock.first_inode);
        used.push((first, table::load(volume, first)?));
    }
    let first = volume.store.superblock.first_inode;
    let used = used.iter().map(|(ino, inode)| (ino.0, inode));
    let to_come = options.quota_ids.get(kind as usize).into_iter().flatten();
    let entries = quota::usage(used, first, kind, to_come);
    let file = quota_file::new_file(kind as usize, &entries);
    let block_size = volume.store.block_size() as usize;
    let mut inode = new_inode(volume, FileType::Regular, 0o600, 1);
    inode.size = file.bytes.len() as u64;
    inode.flags |= flags::IMMUTABLE;
    let mut node = new_node(volume, ino, inode);
    let blocks = file.bytes.len().div_ceil(block_size) as u32;
    let need = mapping::worst_case(volume, &node, FileBlock(0), blocks.into());
    let mut reservation = volume.space.reserve(need)?;
    let runs = allocate(&operation, &mut reservation, &mut node, 0..blocks, Purpose::Data)?;
    let places = runs.iter().flat_map(|run| run.start.0..run.start.0 + u64::from(run.length));
    for (place, content) in places.zip(file.bytes.chunks(block_size)) {
        let mut block = vec![0; block_size];
        block[..content.len()].copy_from_slice(content);
        volume.store.write_unreferenced(BlockNo(place), &block)?;
    }
    mapping::window::discard(&operation, &mut node)?;
    node.store_now(&operation)?;
    Ok(ino)
}

/// A new inode with an empty map, all its times now.
fn new_inode(volume: &Volume, file_type: FileType, permissions: u16, links: u16) -> Inode {
    let mut inode = Inode::new(file_type.mode_bits() | permissions, &volume.store.superblock);
    let now = volume.store.now();
    (inode.access_time, inode.change_time, inode.modify_time) = (now, now, now);
    inode.create_time = inode.create_time.map(|_| now);
    inode.links = links;
    if volume.store.superblock.has(Feature::EXTENTS) {
        inode.flags |= flags::EXTENTS;
    }
    inode
}

/// The node of a new file, without blocks.
fn new_node(volume: &Volume, ino: Ino, inode: Inode) -> NodeState {
    let mut node = NodeState::new(volume, ino, inode);
    mapping::initialize(&mut node);
    node
}

fn make_root(volume: &Volume, options: &FormatOptions) -> Result<()> {
    let operation = Operation::begin(volume, CREDITS)?;
    let mut inode = new_inode(volume, FileType::Directory, options.root_mode, 2);
    (inode.uid, inode.gid) = options.root_owner;
    let mut root = new_node(volume, Ino::ROOT, inode);
    let need = mapping::worst_case(volume, &root, FileBlock(0), 1);
    let mut reservation = volume.space.reserve(need)?;
    directory::create(&operation, &mut reservation, &mut root, Ino::ROOT)?;
    drop(reservation);
    if let Some(blocks) = lost_and_found_blocks(options.lost_and_found, volume.store.block_size()) {
        let ino = make_lost_and_found(&operation, blocks, options.root_owner)?;
        let need = directory::insert_need(volume, &root, LOST_AND_FOUND)?;
        let mut reservation = volume.space.reserve(need)?;
        directory::insert(
            &operation,
            &mut reservation,
            &mut root,
            LOST_AND_FOUND,
            ino,
            FileType::Directory,
        )?;
        root.inode.links += 1;
    }
    root.store_now(&operation)
}

pub(super) fn lost_and_found_blocks(wish: LostAndFound, block_size: u32) -> Option<u32> {
    match wish {
        LostAndFound::None => None,
        LostAndFound::Default => {
            Some((LOST_AND_FOUND_BYTES / block_size).clamp(2, indirect::DIRECT))
        }
        LostAndFound::Blocks(blocks) => Some(blocks.max(1)),
    }
}

/// All its blocks are allocated from the start, so that e2fsck does not have to allocate any on a
/// volume that it does not trust.
fn make_lost_and_found(operation: &Operation<'_>, blocks: u32, owner: (u32, u32)) -> Result<Ino> {
    let volume = operation.volume();
    let ino = first_free_inode(operation, InodeKind::Directory)?;
    let mut inode = new_inode(volume, FileType::Directory, 0o700, 2);
    (inode.uid, inode.gid) = owner;
    let mut node = new_node(volume, ino, inode);
    let need = mapping::worst_case(volume, &node, FileBlock(0), blocks.into());
    let mut reservation = volume.space.reserve(need)?;
    directory::create(operation, &mut reservation, &mut node, Ino::ROOT)?;
    let runs = allocate(operation, &mut reservation, &mut node, 1..blocks, Purpose::Directory)?;
    for (place, block) in
        runs.iter().flat_map(|run| run.start.0..run.start.0 + u64::from(run.length)).zip(1..)
    {
        let kind = BlockKind::Directory {
            ino,
            seed: node.seed,
            block: FileBlock(block),
            form: Form::Linear,
        };
        operation.need(CREDITS);
        operation.create(BlockNo(place), kind, |bytes| volume.store.style.initialize(bytes));
    }
    // It will not grow here, so give back what the policy allocated in advance.
    mapping::window::discard(operation, &mut node)?;
    node.inode.size = u64::from(blocks) * u64::from(volume.store.block_size());
    node.store_now(operation)?;
    Ok(ino)
}

/// Allocates the first free inode that is not reserved.
fn first_free_inode(operation: &Operation<'_>, kind: InodeKind) -> Result<Ino> {
    let volume = operation.volume();
    let first = Ino(volume.store.superblock.first_inode);
    let (group, index) =
        volume.store.superblock.group_of_inode(first).ok_or(ErrorKind::NoInodes)?;
    volume.space.allocate_inode(operation, group, index, kind)
}

/// Allocates all blocks of a range of a file.
fn allocate(
    operation: &Operation<'_>,
    reservation: &mut Reservation<'_>,
    node: &mut NodeState,
    range: std::ops::Range<u32>,
    purpose: Purpose,
) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    let mut next = range.start;
    while next < range.end {
        let want = range.end - next;
        operation.need(CREDITS);
        let run = mapping::allocate(
            operation,
            reservation,
            node,
            FileBlock(next),
            want,
            purpose,
            State::Written,
        )?;
        next += run.length.min(want);
        runs.push(run);
    }
    Ok(runs)
}

/// `i_size` of the resize inode, in bytes: all that its tree could map.
pub(super) fn resize_inode_size(block_size: u32) -> u64 {
    let pointers = u64::from(block_size / 4);
    (pointers * pointers + pointers + u64::from(indirect::DIRECT)) * u64::from(block_size)
}

/// Makes the resize inode. Its map is one double-indirect block, under which the reserved
/// descriptor blocks of group 0 are the indirect blocks, each at the index of its place in the
/// descriptor table. They list the reserved blocks of the copies, which are the data blocks of the
/// inode. The map is at the start of the volume, or where its tables are.
fn make_resize_inode(
    volume: &Volume,
    plan: &FormatPlan,
    tables_from: Option<BlockNo>,
) -> Result<()> {
    let superblock = &volume.store.superblock;
    let reserved = plan.layout.reserved_descriptor_blocks();
    let operation = Operation::begin(volume, CREDITS)?;
    let mut inode = new_inode(volume, FileType::Regular, 0o600, 1);
    inode.flags &= !flags::EXTENTS;
    inode.block = [0; 60];
    inode.size = resize_inode_size(volume.store.block_size());
    let mut reservation = volume.space.reserve(1)?;
    let goal = tables_from.unwrap_or(superblock.group_start(GroupNo(0)));
    let search = allocation::AllocationPlan { goal, length: 1, search: Search::Sequential };
    let route = volume.store.policies.map_blocks.map_route(goal);
    let tree = volume.space.allocate(&operation, &mut reservation, &search, route)?.start;
    operation.create(tree, BlockKind::Plain, |bytes| {
        let pointers = (bytes.len() / 4) as u32;
        let first_index = superblock.descriptor_blocks();
        for (offset, (_, block)) in (0..).zip(reserved.iter().filter(|(group, _)| group.0 == 0)) {
            indirect::set_pointer(bytes, (first_index + offset) % pointers, low_word(*block));
        }
    });
    indirect::set_pointer(&mut inode.block, DOUBLE_INDIRECT, low_word(tree));
    inode.sectors = (reserved.len() as u64 + 1) * mapping::clusters::cluster_sectors(volume);
    NodeState::new(volume, Ino::RESIZE, inode).store_now(&operation)
}

/// A block number as 32 bits. The layout makes sure that a volume with a resize inode has at most
/// 2^32 blocks.
fn low_word(block: BlockNo) -> u32 {
    u32::try_from(block.0).unwrap_or(0)
}

/// Makes a journal of `blocks` blocks. Returns the copy of its map for the superblock.
fn make_journal(volume: &Volume, blocks: u32, contents: Contents) -> Result<[u32; 17]> {
    let operation = Operation::begin(volume, CREDITS)?;
    let mut inode = new_inode(volume, FileType::Regular, 0o600, 1);
    inode.size = u64::from(blocks) * u64::from(volume.store.block_size());
    let mut node = new_node(volume, Ino::JOURNAL, inode);
    let need = mapping::worst_case(volume, &node, FileBlock(0), blocks.into());
    let mut reservation = volume.space.reserve(need)?;
    let runs = allocate(&operation, &mut reservation, &mut node, 0..blocks, Purpose::Data)?;
    if contents == Contents::Unknown {
        zero(volume, &runs)?;
    }
    let mut first = vec![0; volume.store.block_size() as usize];
    journal::initialize(
        &mut first,
        &NewJournal {
            block_size: volume.store.block_size(),
            blocks,
            uuid: [0; 16],
            fast_commit_blocks: 0,
        },
    );
    if let Some(run) = runs.first() {
        volume.store.write_unreferenced(run.start, &first)?;
    }
    node.store_now(&operation)?;
    Ok(journal_backup(&node.inode))
}

fn journal_backup(inode: &Inode) -> [u32; 17] {
    let mut backup = [0; 17];
    for (index, word) in (0..15).zip(&mut backup) {
        *word = indirect::pointer(&inode.block, index);
    }
    backup[15] = (inode.size >> 32) as u32;
    backup[16] = inode.size as u32;
    backup
}

fn zero(volume: &Volume, runs: &[Run]) -> Result<()> {
    let block_size = volume.store.block_size() as usize;
    let zeros = vec![0; ZEROS_BYTES.max(block_size)];
    let per_write = (zeros.len() / block_size) as u32;
    for run in runs {
        let mut at = 0;
        while at < run.length {
            let blocks = per_write.min(run.length - at);
            let start = BlockNo(run.start.0 + u64::from(at));
            volume.store.write_unreferenced(start, &zeros[..blocks as usize * block_size])?;
            at += blocks;
        }
    }
    Ok(())
}

/// How many blocks the orphan file has that mke2fs and [`super::format`] make.
pub fn orphan_file_blocks(volume_blocks: u64) -> u32 {
    match volume_blocks {
        0..0x2_0000 => 32,
        0x2_0000..0x20_0000 => (volume_blocks / 4096) as u32,
        _ => 512,
    }
}

/// Makes an orphan file without orphans: each block ends with a magic number and a checksum.
fn make_orphan_file(volume: &Volume) -> Result<Ino> {
    let operation = Operation::begin(volume, CREDITS)?;
    let ino = first_free_inode(&operation, InodeKind::Other)?;
    let blocks = orphan_file_blocks(volume.store.superblock.blocks_count);
    let cluster = mapping::clusters::cluster_blocks(volume) as u32;
    let blocks = blocks.next_multiple_of(cluster);
    let mut inode = new_inode(volume, FileType::Regular, 0o600, 1);
    inode.size = u64::from(blocks) * u64::from(volume.store.block_size());
    let mut node = new_node(volume, ino, inode);
    let need = mapping::worst_case(volume, &node, FileBlock(0), blocks.into());
    let mut reservation = volume.space.reserve(need)?;
    let runs = allocate(&operation, &mut reservation, &mut node, 0..blocks, Purpose::Data)?;
    for place in runs.iter().flat_map(|run| run.start.0..run.start.0 + u64::from(run.length)) {
        let mut block = vec![0; volume.store.block_size() as usize];
        orphan_file::initialize(&mut block, BlockNo(place), node.seed, &volume.store.superblock);
        volume.store.write_unreferenced(BlockNo(place), &block)?;
    }
    node.store_now(&operation)?;
    Ok(ino)
}
