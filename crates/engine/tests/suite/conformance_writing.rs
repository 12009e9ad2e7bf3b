//! Images that the engine filled are read by the kernel as the engine has them, dumpe2fs counts
//! what the engine counts, and the kernel can go on working on them.
use crate::volume;

use extant_block::{BlockDevice, FileDevice};
use extant_engine::mkfs::Profile;
use extant_engine::{Change, Filesystem, Rename, Result, SetAttribute, Size, Statfs};
use extant_format::inode::{Device, FileType, Time};
use extant_format::superblock::Feature;
use extant_testkit::compare::{self, Field, Options};
use extant_testkit::oracle::{self, Access, mount_loop};
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use extant_testkit::walk::{Depth, walk};
use std::path::Path;
use std::sync::Arc;
use volume::{MIB, Random, SetClock, Specification, reading};

fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// Files at the edges of blocks, of direct and indirect ranges, and of extents.
fn sizes(volume: &Filesystem, block: u64) -> Result<()> {
    volume.create_dir("/sizes", 0o755)?;
    let blocks = [0, 1, 11, 12, 13, 12 + block / 4, 13 + block / 4, 300];
    for blocks in blocks {
        for more in [0, 1, block - 1] {
            let length = blocks * block + more;
            volume.write(format!("/sizes/{length}"), &content(length, length as usize))?;
        }
    }
    Ok(())
}

/// Holes, far ends, combs, and blocks that were allocated but not written.
fn sparse(volume: &Filesystem, block: u64) -> Result<()> {
    volume.create_dir("/sparse", 0o2755)?;
    volume.create_file("/sparse/hole", 0o600)?.set_len(1000 * block + 1)?;
    let far = volume.create_file("/sparse/far", 0o600)?;
    for shift in (9..26).step_by(3) {
        far.write_all_at(1 << shift, &content(shift, 3000))?;
    }
    let comb = volume.create_file("/sparse/comb", 0o600)?;
    for tooth in 0..700 {
        comb.write_all_at(2 * tooth * block, &content(tooth, block as usize / 2))?;
    }
    comb.sync()?;
    comb.punch_hole(100 * block, 77 * block + 5)?;
    comb.set_len(1200 * block + 7)?;
    if volume.superblock().has(Feature::EXTENTS) {
        let allocated = volume.create_file("/sparse/allocated", 0o600)?;
        allocated.allocate(0, 100 * block, Size::Grow)?;
        for at in [3, 50, 51, 99] {
            allocated.write_all_at(at * block + 1, b"island")?;
        }
        allocated.allocate(200 * block, 10 * block, Size::Keep)?;
    }
    Ok(())
}

fn special(volume: &Filesystem, block: u64) -> Result<()> {
    volume.create_dir("/special", 0o1777)?;
    let nodes = [
        ("fifo", FileType::Fifo, 0, 0),
        ("socket", FileType::Socket, 0, 0),
        ("small", FileType::CharacterDevice, 5, 1),
        ("large", FileType::BlockDevice, 4095, 1_048_575),
        ("middle", FileType::BlockDevice, 259, 255),
    ];
    for (name, kind, major, minor) in nodes {
        volume.make_node(format!("/special/{name}"), kind, 0o640, Device { major, minor })?;
    }
    for length in [1, 59, 60, 61, 300, block as usize - 1] {
        // The kernel takes no path of 4096 bytes.
        volume.symlink("t".repeat(length.min(4095)), format!("/special/link{length}"))?;
    }
    volume.write("/special/one", b"several names")?;
    for number in 0..20 {
        volume.hard_link("/special/one", format!("/special/name{number}"))?;
    }
    Ok(())
}

/// `cap_net_raw+ep`, in the second revision: the kernel looks into it.
const CAPABILITY: &[u8] = &[1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn attributes(volume: &Filesystem, block: u64) -> Result<()> {
    volume.create_dir("/attributes", 0o750)?;
    let list = |entries: &[(u16, u16, u32)]| {
        let mut bytes = 2u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(permissions.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    };
    const NOBODY: u32 = u32::MAX;
    let access = list(&[
        (1, 6, NOBODY),
        (2, 7, 70_000),
        (4, 4, NOBODY),
        (8, 5, 8),
        (16, 7, NOBODY),
        (32, 0, NOBODY),
    ]);
    for number in 0..30u64 {
        let path = format!("/attributes/file{number}");
        volume.write(&path, b"")?;
        let value = content(number, (number * 11) as usize % (block as usize / 4));
        volume.set_attribute(&path, b"user.first", &value, SetAttribute::Any)?;
        volume.set_attribute(&path, b"trusted.overlay.opaque", b"y", SetAttribute::Create)?;
        volume.set_attribute(&path, b"security.capability", CAPABILITY, SetAttribute::Any)?;
        if number % 3 == 0 {
            volume.set_attribute(&path, b"system.posix_acl_access", &access, SetAttribute::Any)?;
            let permissions = Some(0o670);
            volume.change(&path, &Change { permissions, ..Change::default() })?;
        }
        if number % 4 == 0 {
            volume.remove_attribute(&path, b"user.first")?;
        }
    }
    volume.set_attribute("/attributes", b"system.posix_acl_default", &access, SetAttribute::Any)?;
    volume.symlink("x", "/attributes/link")?;
    volume.set_attribute("/attributes/link", b"trusted.on.a.link", b"value", SetAttribute::Any)
}

/// Directories that grow, split, lose names and are moved.
fn directories(volume: &Filesystem) -> Result<()> {
    volume.create_dir("/directories", 0o755)?;
    volume.create_dir("/directories/large", 0o755)?;
    for number in 0..1500 {
        let path = format!("/directories/large/a name that takes some room {number:0>30}");
        volume.make_node(&path, FileType::Regular, 0o644, Device::default())?;
    }
    for number in (0..1500).step_by(3) {
        volume
            .remove_file(format!("/directories/large/a name that takes some room {number:0>30}"))?;
    }
    let mut path = String::from("/directories");
    for depth in 0..40 {
        path += &format!("/d{depth}");
        volume.create_dir(&path, 0o700)?;
    }
    for number in 0..50 {
        volume.create_dir(format!("/directories/many{number}"), 0o711)?;
    }
    volume.rename("/directories/d0/d1", "/directories/moved", Rename::KeepTarget)?;
    volume.rename("/directories/many1", "/directories/moved/inner", Rename::Replace)?;
    volume.rename("/directories/many2", "/directories/many3", Rename::Replace)?;
    volume.rename("/directories/large", "/directories/many4", Rename::Exchange)?;
    volume.rename("/directories/many5", "/directories/many6", Rename::Whiteout)?;
    volume.remove_dir("/directories/many7")
}

fn times_and_owners(volume: &Filesystem, inode_size: u16) -> Result<()> {
    volume.create_dir("/times", 0o755)?;
    let far: &[i64] =
        if inode_size > 128 { &[2_147_483_648, 4_294_967_296, 10_000_000_000] } else { &[] };
    for (number, seconds) in
        [-2_147_483_648i64, -1, 0, 1, 2_147_483_647].iter().chain(far).enumerate()
    {
        let path = format!("/times/{number}");
        volume.write(&path, b"then")?;
        let time = |nanoseconds| Some(Time { seconds: *seconds, nanoseconds });
        let change = Change {
            permissions: Some(0o7777 >> number),
            uid: Some(65_535 + number as u32),
            gid: Some(u32::MAX - 1 - number as u32),
            access_time: time(999_999_999),
            modify_time: time(1),
            change_time: time(500),
        };
        volume.change(&path, &change)?;
    }
    Ok(())
}

fn fill(volume: &Filesystem, specification: &Specification) -> Result<()> {
    let block = u64::from(specification.block_size);
    sizes(volume, block)?;
    sparse(volume, block)?;
    special(volume, block)?;
    attributes(volume, block)?;
    directories(volume)?;
    times_and_owners(volume, specification.inode_size)
}

fn same_tree(volume: &Filesystem, image: &Path) -> std::result::Result<(), String> {
    let found = reading::entries(volume).map_err(|error| error.to_string())?;
    let mounted = mount_loop(image, Access::ReadOnly, "")?;
    let depth = Depth { holes: true, digest: false, sha256: true };
    let kernel = walk(mounted.path(), depth, &Default::default())?;
    mounted.unmount()?;
    let mut options = Options::same_image();
    options.fields.insert(Field::Bytes);
    let differences = compare::entries(&found, &kernel, &options);
    let sentences: Vec<String> = differences.iter().take(10).map(ToString::to_string).collect();
    if sentences.is_empty() { Ok(()) } else { Err(sentences.join("\n")) }
}

fn same_counts(statfs: &Statfs, image: &Path) -> std::result::Result<(), String> {
    let dump = oracle::dumpe2fs(image)?;
    let sum = |count: fn(&oracle::DumpGroup) -> u64| dump.groups.iter().map(count).sum::<u64>();
    let rows = [
        ("blocks", Some(statfs.blocks), dump.number("Block count")),
        ("free blocks", Some(statfs.free_blocks), dump.number("Free blocks")),
        ("free blocks of groups", Some(statfs.free_blocks), Some(sum(|group| group.free_blocks))),
        ("inodes", Some(statfs.inodes.into()), dump.number("Inode count")),
        ("free inodes", Some(statfs.free_inodes.into()), dump.number("Free inodes")),
        (
            "free inodes of groups",
            Some(statfs.free_inodes.into()),
            Some(sum(|group| group.free_inodes)),
        ),
        ("reserved blocks", Some(statfs.reserved_blocks), dump.number("Reserved block count")),
    ];
    let wrong: Vec<String> = rows
        .iter()
        .filter(|(_, engine, oracle)| engine != oracle)
        .map(|(name, engine, oracle)| format!("{name}: {engine:?}, dumpe2fs says {oracle:?}"))
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// The kernel removes, adds, lengthens and moves.
fn let_the_kernel_work(image: &Path) -> std::result::Result<(), String> {
    let mounted = mount_loop(image, Access::ReadWrite, "")?;
    let work = || -> std::io::Result<()> {
        let root = mounted.path();
        let large = root.join("directories/many4");
        for number in (1..1500).step_by(3) {
            std::fs::remove_file(large.join(format!("a name that takes some room {number:0>30}")))?;
        }
        for number in 0..700 {
            std::fs::write(
                large.join(format!("by the kernel {number}")),
                content(number, 50 * number as usize % 9000),
            )?;
        }
        std::fs::rename(root.join("sparse/comb"), root.join("combed"))?;
        for entry in std::fs::read_dir(root.join("sizes"))? {
            let file = std::fs::OpenOptions::new().write(true).open(entry?.path())?;
            file.set_len(file.metadata()?.len() / 2)?;
        }
        std::fs::remove_file(root.join("sparse/far"))?;
        std::fs::remove_file(root.join("special/name3"))?;
        std::fs::remove_dir_all(root.join("directories/moved"))?;
        std::fs::create_dir(root.join("directories/new"))
    };
    let worked = work().map_err(|error| format!("the kernel: {error}"));
    mounted.unmount()?;
    worked
}

fn judge(specification: &Specification) -> std::result::Result<(), String> {
    let folder = Scratch::new("written");
    let image = folder.join("written.img");
    let clock = SetClock::new(1_700_000_000);
    let device = specification.make(clock.clone());
    let said = |error: extant_engine::Error| error.to_string();
    let volume = specification.open(&device).map_err(said)?;
    fill(&volume, specification).map_err(said)?;
    volume.sync().map_err(said)?;
    let (statfs, before) = (volume.statfs(), volume.clone());
    volume.close().map_err(said)?;
    device.save(&image).map_err(|error| error.to_string())?;
    oracle::e2fsck(&image)?;
    same_counts(&statfs, &image)?;
    // What the engine has in memory, not what it reads again.
    same_tree(&before, &image).map_err(|sentences| format!("as written: {sentences}"))?;
    let_the_kernel_work(&image)?;
    oracle::e2fsck(&image).map_err(|said| format!("after the kernel: {said}"))?;
    let device = FileDevice::open(clock, &image, extant_block::file::Access::ReadWrite, 0)
        .map_err(|error| error.to_string())?;
    let volume =
        Filesystem::open(Arc::new(device) as Arc<dyn BlockDevice>, &specification.options())
            .map_err(said)?;
    let reread = same_tree_before_writing(&volume, &image);
    reread.map_err(|sentences| format!("as the kernel left it: {sentences}"))?;
    for number in 0..700 {
        volume.remove_file(format!("/directories/many4/by the kernel {number}")).map_err(said)?;
    }
    volume.write("/combed", &content(9, 200_000)).map_err(said)?;
    volume.close().map_err(said)?;
    oracle::e2fsck(&image).map_err(|said| format!("at the end: {said}"))
}

/// The kernel is given a copy of an image that is open for writing, after e2fsck has replayed its
/// journal, and finds the same tree.
fn same_tree_before_writing(volume: &Filesystem, image: &Path) -> std::result::Result<(), String> {
    volume.sync().map_err(|error| error.to_string())?;
    let folder = Scratch::new("in-use");
    let copy = folder.join("copy.img");
    std::fs::copy(image, &copy).map_err(|error| error.to_string())?;
    oracle::e2fsck_replays(&copy)?;
    same_tree(volume, &copy)
}

const ROWS: &[(Profile, u32, u16, &str, &str)] = &[
    (Profile::Ext2, 1024, 128, "", "linux-2.4"),
    (Profile::Ext2, 4096, 256, "", "linux-2.6"),
    (Profile::Ext3, 2048, 128, "", "modern"),
    (Profile::Ext3, 1024, 1024, "", "packed"),
    (Profile::Ext4, 1024, 128, "", "linux-2.4"),
    (Profile::Ext4, 1024, 256, "", "modern"),
    (Profile::Ext4, 2048, 512, "", "modern"),
    (Profile::Ext4, 4096, 256, "", "modern"),
    (Profile::Ext4, 4096, 1024, "", "packed"),
    (Profile::Ext4, 1024, 256, "^metadata_csum", "modern"),
    (Profile::Ext4, 1024, 256, "^metadata_csum,uninit_bg", "linux-2.6"),
    (Profile::Ext4, 4096, 256, "metadata_csum_seed,^resize_inode", "modern"),
    (Profile::Ext4, 1024, 256, "^flex_bg", "modern"),
    (Profile::Ext4, 1024, 256, "^64bit,^huge_file", "modern"),
    (Profile::Ext4, 1024, 256, "^dir_index", "modern"),
    (Profile::Ext4, 1024, 256, "^extent,^64bit", "modern"),
    (Profile::Ext4, 4096, 256, "^has_journal,^dir_nlink", "modern,allocation=packed"),
    (Profile::Ext4, 4096, 256, "orphan_file", "modern"),
];

#[test]
fn the_kernel_reads_what_the_engine_wrote_and_goes_on() {
    if !oracle::require("e2fsck") || !oracle::require("dumpe2fs") || !oracle::can_mount() {
        return;
    }
    let mut wrong = Vec::new();
    let every = usize::try_from(number("EXTANT_FIXTURES")).expect("a small number").max(1);
    for (profile, block_size, inode_size, features, policies) in ROWS.iter().step_by(every) {
        let specification = Specification {
            inode_size: *inode_size,
            features,
            policies,
            inodes: 6000,
            ..Specification::new(*profile, *block_size, 96 * MIB)
        };
        if let Err(sentences) = judge(&specification) {
            wrong.push(format!("{specification}:\n{sentences}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
