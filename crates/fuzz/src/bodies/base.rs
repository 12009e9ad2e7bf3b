//! The volumes that inputs change: small, of every kind, made once. All but one are without
//! checksums, which would end most walks at their first step, but those of who goes on over damage.
// tidy: writers because bytes of volumes that nobody has open are changed on purpose
use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_engine::mkfs::{FormatOptions, Identity, Placing, Profile, default_wishes, format};
use extant_engine::{
    Access, DataKeeping, Filesystem, Options, SetAttribute, least_cache_bytes, read_superblock,
};
use extant_format::Ino;
use extant_format::attribute::{Wanted, place_all};
use extant_format::directory::{HEADER, RECORD_MIN};
use extant_format::group::GroupDescriptor;
use extant_format::inode::{Inode, flags};
use extant_format::journal::incompat;
use extant_format::layout::Inodes;
use extant_format::superblock::{Feature, Superblock};
use extant_journal::{Journal, MapSource};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Bytes of a sector: a unit of changes.
pub const SECTOR: u64 = 512;

/// Bytes of a block.
pub const KIB: u64 = 1 << 10;

/// What a volume is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ext4, closed in order.
    Plain,
    /// ext4, whose journal has to be replayed.
    Left,
    /// ext2.
    Ext2,
    /// A journal and classic maps.
    Indirect,
    /// With quotas of users, groups and projects.
    Quota,
    /// With a file and a directory in their inodes.
    Inline,
    /// With an area for fast commits, and a journal that has to be replayed.
    Fast,
    /// With checksums of all metadata, and a journal that has to be replayed.
    Sums,
}

/// All of them.
pub const KINDS: &[Kind] = &[
    Kind::Plain,
    Kind::Left,
    Kind::Ext2,
    Kind::Indirect,
    Kind::Quota,
    Kind::Inline,
    Kind::Fast,
    Kind::Sums,
];

/// A volume, and what of it is worth changing.
pub struct Base {
    /// The volume; changes are made in snapshots of it.
    pub device: MemoryDevice,
    /// Its superblock.
    pub superblock: Superblock,
    /// The sectors that hold anything, but for those of files that are all data.
    pub sectors: Vec<u64>,
    /// The sectors of the journal, if it has one, that hold anything.
    pub log: Vec<u64>,
    /// Where the area for fast commits is, in bytes of the volume; empty without one.
    pub fast: Range<u64>,
}

/// The volume of this kind, the same at each call.
///
/// # Panics
/// It cannot be made.
pub fn of(kind: &Kind) -> &'static Base {
    static MADE: [OnceLock<Base>; KINDS.len()] = [const { OnceLock::new() }; KINDS.len()];
    MADE[*kind as usize]
        .get_or_init(|| make(*kind).unwrap_or_else(|said| panic!("{kind:?}: {said}")))
}

/// How volumes are opened: with as little memory as may be.
pub fn options(access: Access) -> Options {
    Options {
        access,
        policies: "modern".parse().expect("it is a preset"),
        cache_bytes: least_cache_bytes(1024).max(2 << 20),
        data: DataKeeping::Bytes,
    }
}

fn words(kind: Kind) -> (Profile, &'static [Feature], &'static [Feature]) {
    const SUMS: &[Feature] = &[Feature::METADATA_CSUM];
    match kind {
        Kind::Plain | Kind::Left => (Profile::Ext4, &[], SUMS),
        Kind::Ext2 => (Profile::Ext2, &[], &[]),
        Kind::Indirect => (
            Profile::Ext4,
            &[],
            &[Feature::METADATA_CSUM, Feature::EXTENTS, Feature::SIXTY_FOUR_BIT],
        ),
        Kind::Quota => (Profile::Ext4, &[Feature::QUOTA, Feature::PROJECT], SUMS),
        Kind::Inline => (Profile::Ext4, &[Feature::INLINE_DATA], SUMS),
        Kind::Fast => (Profile::Ext4, &[Feature::FAST_COMMIT], SUMS),
        Kind::Sums => (Profile::Ext4, &[], &[]),
    }
}

fn make(kind: Kind) -> Result<Base, Box<dyn std::error::Error>> {
    let bytes = 4 << 20;
    let identity = Identity {
        uuid: *b"a volume to hurt",
        hash_seed: [0x0403_025e, 0x0807_0605, 0x0c0b_0a09, 0x100f_0e0d],
        created_seconds: 1_700_000_000,
    };
    let (profile, with, without) = words(kind);
    let mut wishes = default_wishes(profile, bytes, Some(KIB as u32), identity);
    with.iter().for_each(|feature| wishes.features.set(*feature));
    without.iter().for_each(|feature| wishes.features.clear(*feature));
    wishes.inode_size = 256;
    wishes.inodes = Inodes::AtLeast(128);
    let mut format_options = FormatOptions::new(wishes);
    if kind == Kind::Quota {
        format_options.placing = Placing::Mke2fs;
    }
    let device = Arc::new(MemoryDevice::with_chunks(RealClock::new(), bytes, 4096));
    let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
    let options = options(Access::ReadWrite);
    format(Arc::clone(&shared), &format_options, &options.policies)?;
    let volume = Filesystem::open(Arc::clone(&shared), &options)?;
    fill(&volume)?;
    volume.close()?;
    if kind == Kind::Inline {
        move_in(&device)?;
    }
    let mut cut = device.snapshot();
    if matches!(kind, Kind::Left | Kind::Fast | Kind::Sums) {
        let volume = Filesystem::open(shared, &options)?;
        volume.write("/d/late", &[9; 3000])?;
        volume.remove_file("/slow")?;
        volume.sync()?;
        cut = device.snapshot();
        volume.close()?;
    }
    if kind == Kind::Fast {
        allow_fast_commits(&cut)?;
    }
    finish(cut)
}

/// Has the journal say that it ends with an area for fast commits, as Linux does at its first one.
fn allow_fast_commits(device: &MemoryDevice) -> Result<(), Box<dyn std::error::Error>> {
    // Where the superblock of a journal has these, big-endian.
    const INCOMPAT: u64 = 0x28;
    const FAST_COMMIT_BLOCKS: u64 = 0x54;
    let shared: Arc<dyn BlockDevice> = Arc::new(device.snapshot());
    let journal = Journal::find(shared, MapSource::Inode)?.ok_or("no journal")?;
    let place = journal.place(0..1).start.0 * KIB;
    let incompat = journal.superblock().incompat | incompat::FAST_COMMIT;
    device.write(place + INCOMPAT, &incompat.to_be_bytes())?;
    device.write(place + FAST_COMMIT_BLOCKS, &64_u32.to_be_bytes())?;
    Ok(())
}

/// Something of everything.
fn fill(volume: &Filesystem) -> extant_engine::Result<()> {
    volume.create_dir("/d", 0o755)?;
    for number in 0..40 {
        volume.write(format!("/d/a name that takes some room {number:0>40}"), b"x")?;
    }
    volume.create_dir("/d/below", 0o700)?;
    volume.create_dir("/in", 0o755)?;
    volume.write("/in file", b"few bytes")?;
    let comb = volume.create_file("/comb", 0o644)?;
    for tooth in 0..60 {
        comb.write_all_at(2 * tooth * KIB, b"tooth")?;
    }
    volume.write("/long", &[1; 60_000])?;
    volume.symlink("t".repeat(500), "/slow")?;
    volume.symlink("long", "/fast")?;
    volume.set_attribute("/long", b"user.large", &[3; 700], SetAttribute::Any)?;
    volume.set_attribute("/d", b"user.small", b"value", SetAttribute::Any)?;
    let far = volume.create_file("/far", 0o644)?;
    far.write_all_at(1 << 33, b"far").or_else(|_| far.write_all_at(1 << 25, b"far"))
}

/// Has a file and a directory keep their content in their inodes, as Linux would have made them.
/// Their blocks stay in use, which nobody here minds.
fn move_in(device: &Arc<MemoryDevice>) -> Result<(), Box<dyn std::error::Error>> {
    let shared = Arc::clone(device) as Arc<dyn BlockDevice>;
    let volume = Filesystem::open(shared, &options(Access::ReadOnly))?;
    let superblock = volume.superblock().clone();
    let file = volume.metadata("/in file")?.ino;
    let directory = volume.metadata("/in")?.ino;
    let mut names = 2_u32.to_le_bytes().to_vec();
    for (ino, length, name) in [(file, 20_u16, &b"again"[..]), (Ino(0), 36, b"")] {
        names.extend([&ino.0.to_le_bytes()[..], &length.to_le_bytes()].concat());
        names.extend([name.len() as u8, u8::from(ino.0 != 0)]);
        names.extend(name);
        names.resize(names.len() + usize::from(length) - HEADER - name.len(), 0);
    }
    debug_assert!(names.len() == 60 && RECORD_MIN <= 20);
    let size = usize::from(superblock.descriptor_size);
    for (ino, content, bytes) in [(file, &b"few bytes"[..], 9), (directory, &names, 60)] {
        let (group, _) = superblock.group_of_inode(ino).ok_or("no such group")?;
        let (block, at) = superblock.descriptor_place(group);
        let mut stored = vec![0; size];
        device.read(block.0 * KIB + at as u64, &mut stored)?;
        let descriptor = GroupDescriptor::decode(&stored, &superblock);
        let (block, at) = superblock.inode_place(ino, &descriptor).ok_or("no such inode")?;
        let place = block.0 * KIB + at as u64;
        let mut stored = vec![0; 256];
        device.read(place, &mut stored)?;
        let mut inode = Inode::decode(&stored, &superblock);
        inode.flags = inode.flags & !(flags::EXTENTS | flags::INDEX) | flags::INLINE_DATA;
        inode.size = bytes;
        inode.block.fill(0);
        inode.block[..content.len()].copy_from_slice(content);
        let wanted = Wanted { inline_rest: Some(b""), ..Wanted::default() };
        let placed = place_all(&wanted, inode.tail.len(), &superblock);
        inode.tail = placed.map_err(|error| format!("{error:?}"))?.tail;
        inode.encode(&mut stored, ino, &superblock);
        device.write(place, &stored)?;
    }
    Ok(())
}

fn finish(device: MemoryDevice) -> Result<Base, Box<dyn std::error::Error>> {
    let superblock = read_superblock(&device)?;
    let shared: Arc<dyn BlockDevice> = Arc::new(device.snapshot());
    let journal = Journal::find(shared, MapSource::Inode)?;
    let (mut in_log, mut fast) = (Vec::new(), 0..0);
    if let Some(journal) = journal {
        let of = |block: u32| {
            let start = journal.place(block..block + 1).start.0 * KIB;
            start..start + KIB
        };
        in_log = (0..journal.superblock().blocks).map(of).collect();
        let area = journal.superblock().fast_commit_area();
        if !area.is_empty() {
            fast = of(area.start).start..of(area.end - 1).end;
        }
    }
    let is_in_log = |at: u64| in_log.iter().any(|range: &Range<u64>| range.contains(&at));
    let (mut sectors, mut log) = (Vec::new(), Vec::new());
    let mut bytes = [0; SECTOR as usize];
    for at in (0..device.info().bytes).step_by(SECTOR as usize) {
        device.read(at, &mut bytes)?;
        let first = bytes[0];
        let is_of_one = bytes.iter().all(|byte| *byte == first);
        match is_in_log(at) {
            _ if is_of_one => {}
            true => log.push(at),
            false => sectors.push(at),
        }
    }
    Ok(Base { device, superblock, sectors, log, fast })
}
