//! Volumes made by the engine, judged by e2fsck, compared with what mke2fs makes of the same words,
//! mounted by the kernel.

use extant_block::clock::WallTime;
use extant_block::{BlockDevice, Clock, FileDevice, MemoryDevice, RealClock};
use extant_engine::ErrorKind;
use extant_engine::mkfs::{
    Contents, FormatOptions, Identity, JournalWish, LostAndFound, Profile, default_wishes, format,
    plan,
};
use extant_engine::preset::Policies;
use extant_format::layout::Inodes;
use extant_format::superblock::{Feature, Features};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{
    Access, can_mount, dumpe2fs, e2fsck, kernel_mounts_block_size, mount_loop, require,
};
use extant_testkit::scratch::Scratch;
use extant_testkit::skips::{Known, skip_known};
use extant_testkit::variables::number;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const UUID: [u8; 16] = [0x5e, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
const UUID_TEXT: &str = "5e020304-0506-0708-090a-0b0c0d0e0f10";
const PROFILES: [Profile; 3] = [Profile::Ext2, Profile::Ext3, Profile::Ext4];

/// What `mke2fs.conf` of Debian says, so that the host's own file does not matter.
const CONFIGURATION: &str = "[defaults]
base_features = sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr
default_mntopts = acl,user_xattr
enable_periodic_fsck = 0
blocksize = 4096
inode_size = 256
inode_ratio = 16384
[fs_types]
ext3 = {
features = has_journal
}
ext4 = {
features = has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize
}
small = {
blocksize = 1024
inode_ratio = 4096
}
floppy = {
blocksize = 1024
inode_ratio = 8192
}
big = {
inode_ratio = 32768
}
huge = {
inode_ratio = 65536
}
";

fn clock() -> Arc<dyn Clock> {
    RealClock::pinned(WallTime { seconds: 1_700_000_000, nanoseconds: 5 })
}

fn policies() -> Policies {
    "modern".parse().unwrap()
}

const IDENTITY: Identity = Identity {
    uuid: UUID,
    hash_seed: [0x0403_025e, 0x0807_0605, 0x0c0b_0a09, 0x100f_0e0d],
    created_seconds: 1_700_000_000,
};

fn options(profile: Profile, bytes: u64, block_size: u32) -> FormatOptions {
    FormatOptions::new(default_wishes(profile, bytes, Some(block_size), IDENTITY))
}

/// Makes the volume in a file of the folder.
fn make(folder: &Scratch, options: &FormatOptions) -> extant_engine::Result<std::path::PathBuf> {
    let image = folder.join("made.img");
    let bytes = options.wishes.blocks * u64::from(options.wishes.block_size);
    let device = Arc::new(MemoryDevice::new(clock(), bytes));
    format(Arc::clone(&device) as Arc<dyn BlockDevice>, options, &policies())?;
    let _ = std::fs::remove_file(&image);
    device.save(&image)?;
    Ok(image)
}

/// Makes the volume and has it judged; gives what is wrong.
fn judge(folder: &Scratch, options: &FormatOptions, complaints: &mut Vec<String>) {
    let wishes = &options.wishes;
    let names: Vec<String> = wishes.features.iter().map(Feature::name).collect();
    let case = format!(
        "{} x {}, inodes of {}, {}",
        wishes.blocks,
        wishes.block_size,
        wishes.inode_size,
        names.join(",")
    );
    let verdict = match make(folder, options) {
        Ok(image) => e2fsck(&image),
        Err(error) => Err(error.to_string()),
    };
    if let Err(said) = verdict {
        complaints.push(format!("{case}: {said}"));
    }
}

fn features(words: &str, mut features: Features) -> Features {
    for word in words.split(',').filter(|word| !word.is_empty()) {
        match word.strip_prefix('^') {
            Some(name) => features.clear(Feature::from_name(name).unwrap()),
            None => features.set(Feature::from_name(word).unwrap()),
        }
    }
    features
}

#[test]
fn a_volume_with_an_identity_is_not_mended() {
    for profile in [Profile::Ext2, Profile::Ext3, Profile::Ext4] {
        let make = |identity: Identity| {
            let folder = Scratch::new("identity");
            let wishes = default_wishes(profile, 16 << 20, Some(1024), identity);
            let image = make(&folder, &FormatOptions::new(wishes)).expect("a volume");
            extant_testkit::oracle::example(&|path| std::fs::copy(&image, path).map(drop))
        };
        make(IDENTITY).unwrap_or_else(|said| panic!("{}: {said}", profile.name()));
        if extant_testkit::oracle::require("e2fsck") {
            assert!(make(Identity::NONE).is_err(), "{}: an identity is missed", profile.name());
        }
    }
}

#[test]
fn e2fsck_is_silent_over_block_and_inode_sizes() {
    if !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("mkfs");
    let mut complaints = Vec::new();
    for profile in PROFILES {
        for block_size_log2 in 10..=16 {
            for inode_size in [128, 256, 512, 1024] {
                // More than a group of 1 KiB blocks, and a journal for 64 KiB ones.
                let mut options = options(profile, 160 * MIB, 1 << block_size_log2);
                options.wishes.inode_size = inode_size;
                judge(&folder, &options, &mut complaints);
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn e2fsck_is_silent_over_features() {
    if !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("mkfs");
    let mut complaints = Vec::new();
    let words = [
        "^has_journal",
        "^ext_attr",
        "^resize_inode",
        "^dir_index",
        "^filetype",
        "^large_file",
        "^extent,^64bit",
        "^64bit",
        "^flex_bg",
        "^huge_file",
        "^dir_nlink",
        "^extra_isize",
        "^metadata_csum",
        "^metadata_csum,uninit_bg",
        "^metadata_csum,uninit_bg,^64bit,^flex_bg",
        "metadata_csum_seed",
        "orphan_file,has_journal",
        "orphan_file,has_journal,^metadata_csum",
        "^resize_inode,^sparse_super",
        "^flex_bg,^64bit,^resize_inode",
    ];
    for profile in PROFILES {
        for words in words {
            for block_size in [1024, 4096] {
                let mut options = options(profile, 130 * MIB, block_size);
                let features = features(words, options.wishes.features);
                let checksummed = features.has(Feature::METADATA_CSUM);
                if words.contains("csum_seed") && !checksummed {
                    continue;
                }
                options.wishes.features = features;
                judge(&folder, &options, &mut complaints);
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn e2fsck_is_silent_over_sizes_and_other_wishes() {
    if !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("mkfs");
    let mut complaints = Vec::new();
    for profile in PROFILES {
        for bytes in [300 << 10, MIB, 8 * MIB + 1024, 9 * MIB, 70 * MIB + 3072, 3000 * MIB] {
            let wishes = default_wishes(profile, bytes, None, IDENTITY);
            judge(&folder, &FormatOptions::new(wishes.clone()), &mut complaints);
            let mut other = FormatOptions::new(wishes);
            other.lost_and_found = LostAndFound::None;
            other.journal = JournalWish::None;
            other.root_owner = (70_000, 80_000);
            other.root_mode = 0o1777;
            judge(&folder, &other, &mut complaints);
        }
        let mut many = options(profile, 64 * MIB, 1024);
        many.journal = JournalWish::Blocks(40_000);
        many.lost_and_found = LostAndFound::Blocks(300);
        judge(&folder, &many, &mut complaints);
        let mut tiny_groups = options(profile, 16 * MIB, 1024);
        tiny_groups.wishes.blocks_per_group = Some(512);
        tiny_groups.wishes.features.clear(Feature::RESIZE_INODE);
        tiny_groups.wishes.inodes = Inodes::AtLeast(16);
        judge(&folder, &tiny_groups, &mut complaints);
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// All that dumpe2fs prints of a superblock but what depends on the moment.
fn told(image: &Path) -> BTreeMap<String, String> {
    let mut fields = dumpe2fs(image).expect("dumpe2fs reads it").fields;
    for moment in
        ["Filesystem created", "Last write time", "Last checked", "Lifetime writes", "Checksum"]
    {
        fields.remove(moment);
    }
    fields
}

#[test]
fn the_numbers_are_those_of_mke2fs() {
    if !require("mke2fs") || !require("dumpe2fs") {
        return;
    }
    let folder = Scratch::new("mkfs");
    let configuration = folder.join("mke2fs.conf");
    std::fs::write(&configuration, CONFIGURATION).unwrap();
    let theirs = folder.join("theirs.img");
    let mut complaints = Vec::new();
    let sizes = [MIB, 2 * MIB, 20 * MIB, 100 * MIB, 511 * MIB, 700 * MIB, 5000 * MIB, 40_000 * MIB];
    let cases = sizes.iter().map(|bytes| (*bytes, None, ""));
    let others = [
        (200 * MIB, Some(4096), ""),
        (200 * MIB, Some(65536), ""),
        (5000 * MIB, Some(2048), ""),
        (300 * MIB, Some(1024), "orphan_file,has_journal"),
        (3000 * MIB, Some(4096), "orphan_file,has_journal,^resize_inode"),
        (9000 * MIB, Some(1024), "^large_file,^sparse_super,^resize_inode"),
        (300 * MIB, Some(4096), "^large_file"),
    ];
    let one_in = number("EXTANT_CASES") as usize;
    for (at, profile) in PROFILES.into_iter().enumerate() {
        for (bytes, block_size, words) in
            cases.clone().chain(others).skip(at % one_in).step_by(one_in)
        {
            let mut wishes = default_wishes(profile, bytes, block_size, IDENTITY);
            wishes.features = features(words, wishes.features);
            let case = format!("{} of {bytes} bytes, {block_size:?}, {words:?}", profile.name());
            let ours = match make(&folder, &FormatOptions::new(wishes)) {
                Ok(image) => told(&image),
                Err(error) => {
                    complaints.push(format!("{case}: {error}"));
                    continue;
                }
            };
            let _ = std::fs::remove_file(&theirs);
            let mut command = program("mke2fs");
            command.env("MKE2FS_CONFIG", &configuration).args([
                "-q",
                "-F",
                "-t",
                profile.name(),
                "-U",
                UUID_TEXT,
            ]);
            let hash_seed =
                format!("hash_seed={UUID_TEXT},lazy_itable_init=0,lazy_journal_init=0,nodiscard");
            command.args(["-E", &hash_seed]);
            if let Some(block_size) = block_size {
                command.args(["-b", &block_size.to_string()]);
            }
            if !words.is_empty() {
                command.args(["-O", words]);
            }
            output(command.arg(&theirs).arg(format!("{}k", bytes / 1024)))
                .expect("mke2fs makes it");
            let theirs = told(&theirs);
            assert!(theirs.len() > 30, "dumpe2fs tells more than {theirs:?}");
            for name in theirs.keys().chain(ours.keys()) {
                if ours.get(name) != theirs.get(name) {
                    complaints.push(format!(
                        "{case}: {name}: {:?}, mke2fs {:?}",
                        ours.get(name),
                        theirs.get(name)
                    ));
                }
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn usage_types_of_large_volumes_are_those_of_mke2fs() {
    if !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("mkfs");
    let configuration = folder.join("mke2fs.conf");
    std::fs::write(&configuration, CONFIGURATION).unwrap();
    let image = folder.join("large.img");
    for profile in PROFILES {
        for bytes in [3 << 40, 5 << 40, 15 << 40_u64] {
            // Not every host keeps so large a file, even a sparse one.
            if std::fs::File::create(&image).unwrap().set_len(bytes).is_err() {
                skip_known(Known::HugeFiles, format_args!("no sparse file of {bytes} bytes"));
                continue;
            }
            let mut command = program("mke2fs");
            command.env("MKE2FS_CONFIG", &configuration).args(["-n", "-F", "-t", profile.name()]);
            let said = String::from_utf8(output(command.arg(&image)).unwrap().stdout).unwrap();
            let wishes = default_wishes(profile, bytes, None, IDENTITY);
            let superblock = plan(&FormatOptions::new(wishes)).unwrap().0.superblock;
            let (blocks, inodes) = (superblock.blocks_count, superblock.inodes_count);
            let expected =
                format!("Creating filesystem with {blocks} 4k blocks and {inodes} inodes");
            assert!(said.contains(&expected), "{}: {expected}, mke2fs: {said}", profile.name());
        }
    }
}

#[test]
fn old_bytes_do_not_shine_through() {
    if !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("mkfs");
    let mut complaints = Vec::new();
    for profile in PROFILES {
        let image = folder.join("old.img");
        std::fs::write(&image, vec![0xa5; 40 << 20]).unwrap();
        let device =
            FileDevice::open(clock(), &image, extant_block::file::Access::ReadWrite, 0).unwrap();
        let mut options = options(profile, 40 * MIB, 1024);
        options.contents = Contents::Unknown;
        let device: Arc<dyn BlockDevice> = Arc::new(device);
        format(Arc::clone(&device), &options, &policies()).unwrap();
        drop(device);
        complaints.extend(e2fsck(&image).err());
        let mut boot = [0; 1024];
        std::os::unix::fs::FileExt::read_exact_at(
            &std::fs::File::open(&image).unwrap(),
            &mut boot,
            0,
        )
        .unwrap();
        assert_eq!(boot, [0; 1024]);
        // And the file system in a volume's place, made where the device reads as zeros, is the
        // same but for old free blocks.
        let fresh = make(&folder, &FormatOptions { contents: Contents::Zeros, ..options }).unwrap();
        assert_eq!(dumpe2fs(&image).unwrap(), dumpe2fs(&fresh).unwrap());
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn a_volume_is_the_same_every_time() {
    let folder = Scratch::new("mkfs");
    for profile in PROFILES {
        let options = options(profile, 64 * MIB, 4096);
        let first = std::fs::read(make(&folder, &options).unwrap()).unwrap();
        assert!(first == std::fs::read(make(&folder, &options).unwrap()).unwrap());
    }
}

#[test]
fn a_volume_survives_by_its_copies() {
    if !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("mkfs");
    for profile in PROFILES {
        let image = make(&folder, &options(profile, 64 * MIB, 1024)).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&image).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[0; 8192], 0).unwrap();
        let mut repair = program("e2fsck");
        let status =
            repair.args(["-fy", "-b", "8193", "-B", "1024"]).arg(&image).output().unwrap().status;
        assert!(status.code().is_some_and(|code| code <= 1), "{}: {status}", profile.name());
        assert_eq!(e2fsck(&image), Ok(()));
    }
}

#[test]
fn the_kernel_mounts_and_fills_it() {
    if !require("e2fsck") || !can_mount() {
        return;
    }
    let folder = Scratch::new("mkfs");
    for profile in PROFILES {
        for (block_size, words) in
            [(1024, ""), (4096, ""), (4096, "has_journal,orphan_file"), (65536, "")]
        {
            if !kernel_mounts_block_size(block_size) {
                continue;
            }
            let mut options = options(profile, 160 * MIB, block_size);
            options.wishes.features = features(words, options.wishes.features);
            options.root_mode = 0o1750;
            let image = make(&folder, &options).unwrap();
            let mounted = mount_loop(&image, Access::ReadWrite, "").expect("the kernel mounts it");
            let lost = mounted.path().join("lost+found");
            assert!(lost.is_dir());
            std::fs::write(lost.join("file"), vec![7; 3 << 20]).unwrap();
            for number in 0..300 {
                std::fs::create_dir(mounted.path().join(format!("directory-{number}"))).unwrap();
            }
            mounted.unmount().unwrap();
            assert_eq!(e2fsck(&image), Ok(()), "{} {block_size} {words}", profile.name());
        }
    }
}

#[test]
fn the_journal_of_a_large_volume_is_made_in_moments() {
    let wishes = default_wishes(Profile::Ext4, 1 << 40, None, IDENTITY);
    let (layout, journal_blocks) = plan(&FormatOptions::new(wishes.clone())).unwrap();
    assert_eq!((layout.superblock.group_count(), journal_blocks), (8192, 262_144));
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(clock(), 1 << 40));
    let superblock = format(device, &FormatOptions::new(wishes), &policies()).unwrap();
    assert_eq!(superblock.journal_backup[16], 262_144 << 12);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_written() {
    let told = |options: &FormatOptions, bytes: u64| {
        let device = Arc::new(MemoryDevice::new(clock(), bytes));
        let error =
            format(Arc::clone(&device) as Arc<dyn BlockDevice>, options, &policies()).unwrap_err();
        let mut start = vec![0; 8192.min(bytes as usize)];
        device.read(0, &mut start).unwrap();
        assert!(start.iter().all(|byte| *byte == 0), "{error}");
        error
    };
    let good = options(Profile::Ext4, 64 * MIB, 4096);
    let too_small = told(&good, 63 * MIB);
    assert!(matches!(too_small.kind, ErrorKind::InvalidArgument(_)), "{too_small}");
    let mut meta_bg = good.clone();
    meta_bg.wishes.features.set(Feature::from_name("meta_bg").unwrap());
    assert!(matches!(told(&meta_bg, 64 * MIB).kind, ErrorKind::Layout(_)));
    let mut journal = good.clone();
    journal.journal = JournalWish::Blocks(1023);
    assert!(matches!(told(&journal, 64 * MIB).kind, ErrorKind::InvalidArgument(_)));
    journal.journal = JournalWish::Blocks(16_000);
    assert!(matches!(told(&journal, 64 * MIB).kind, ErrorKind::NoSpace { .. }));
    let mut orphans = good.clone();
    orphans.journal = JournalWish::None;
    orphans.wishes.features.set(Feature::ORPHAN_FILE);
    assert!(matches!(told(&orphans, 64 * MIB).kind, ErrorKind::InvalidArgument(_)));
    let mut mode = good;
    mode.root_mode = 0o40755;
    assert!(matches!(told(&mode, 64 * MIB).kind, ErrorKind::InvalidArgument(_)));
}
