//! The size of an image: no block of it is spare, and no block of an inode table. That it would not
//! do with less is tried out: a volume of fewer blocks, or of fewer inodes, does not hold the tree.
use super::*;
use crate::assemble::{BuildOptions, Destination, SmallJournal};
use crate::source::{Collected, ReadOptions, Source, collect};
use extant_block::FileDevice;
use extant_engine::mkfs::{Identity, JournalWish, Profile, default_wishes};
use extant_testkit::oracle;
use std::fs::{self, File};
use std::path::Path;

/// What kind of image is built.
#[derive(Clone, Copy, Debug)]
struct Kind {
    profile: Profile,
    block_size: u32,
    journal: JournalWish,
    small_journal: SmallJournal,
    /// Blocks of a group, where they are not as many as a bitmap has bits.
    group: Option<u32>,
    /// What is not wanted of the profile's features.
    without: &'static [Feature],
    /// What is wanted besides.
    with: &'static [Feature],
    /// Bytes of a cluster.
    cluster: Option<u32>,
}

impl Kind {
    const fn new(profile: Profile, block_size: u32) -> Kind {
        let (journal, small_journal) = (JournalWish::Default, SmallJournal::Omitted);
        Kind {
            profile,
            block_size,
            journal,
            small_journal,
            group: None,
            without: &[],
            with: &[],
            cluster: None,
        }
    }

    fn options(&self) -> BuildOptions {
        let mut options = BuildOptions::new(self.profile);
        let mut wishes = default_wishes(self.profile, 0, Some(self.block_size), Identity::NONE);
        wishes.features = self.profile.features();
        wishes.reserved_ratio = 0.0;
        wishes.blocks_per_group = self.group;
        self.without.iter().for_each(|feature| wishes.features.clear(*feature));
        self.with.iter().for_each(|feature| wishes.features.set(*feature));
        wishes.cluster_size = self.cluster;
        (options.wishes, options.journal) = (wishes, self.journal);
        options.small_journal = self.small_journal;
        options
    }
}

/// What an image is built of: a file of this many blocks, and this many empty ones.
fn content(folder: &Path, kind: &Kind, blocks: u64, files: u64) -> Collected {
    let source = folder.join("source");
    let _ = fs::remove_dir_all(&source);
    fs::create_dir(&source).unwrap();
    // No two blocks are alike, and none is a hole.
    let length = blocks * u64::from(kind.block_size);
    let bytes: Vec<u8> = (0..length / 8).flat_map(|word| (word + 1).to_le_bytes()).collect();
    fs::write(source.join("file"), bytes).unwrap();
    for number in 0..files {
        File::create(source.join(format!("empty {number}"))).unwrap();
    }
    collect([Source::from(&source)], &ReadOptions::default(), &()).unwrap()
}

/// Whether a volume of exactly this many blocks, with inodes for `needed` files, holds the tree.
fn holds(job: &Job<'_>, template: &VolumePlan, blocks: u64, needed: u64) -> bool {
    let inodes = InodeWish { needed, ..job.inodes };
    let Ok(plan) = plan::fixed(&template.options, &job.need, inodes, blocks) else { return false };
    let outcome = job.attempt(&plan, Purpose::Trial, Ending::Planned).unwrap();
    matches!(outcome, Attempt::Built(built) if built.blocks <= blocks)
}

/// Builds an image, and fails unless it is right and as small as it can be. Returns what was built.
fn assert_smallest(folder: &Path, kind: &Kind, blocks: u64, files: u64) -> Built {
    let words = format!("{kind:?}, {blocks} blocks, {files} files");
    let collected = content(folder, kind, blocks, files);
    let image = folder.join("x.img");
    let file =
        File::options().read(true).write(true).create(true).truncate(true).open(&image).unwrap();
    let destination = Destination { medium: &file, name: "x.img".into(), place: Place::Whole };
    let job = Job::new(&collected, &kind.options(), &destination).unwrap();
    let plan = job.plan_exact(Room::NONE).unwrap();
    let fitted = job.fit(Purpose::Trial, plan, Room::NONE).unwrap();
    let built = job.build_sized().unwrap();
    assert_eq!(built, fitted.built, "{words}: what is written is what was tried");
    assert_eq!(file.metadata().unwrap().len(), built.bytes(), "{words}");
    assert_eq!(built.block_size, kind.block_size, "{words}");
    let device = FileDevice::from_file(
        Arc::clone(&job.clock),
        file.try_clone().unwrap(),
        words.clone(),
        built.bytes(),
        0,
    );
    let superblock = extant_engine::read_superblock(&device.unwrap()).unwrap();
    let groups = superblock.group_count();
    // No block is free; but where the last group's own metadata is at its end, those before it.
    let group_blocks = built.blocks - superblock.group_start(GroupNo(groups - 1)).0;
    let may_be_free = if groups > 1 { group_blocks } else { 0 };
    assert!(built.free_blocks <= may_be_free, "{words}: {built:?}");
    // Inodes come by whole blocks of their tables, and by bytes of their bitmaps, in each group.
    let in_block = kind.block_size / u32::from(superblock.inode_size);
    assert!(built.free_inodes < in_block.max(8) * groups, "{words}: {built:?}");
    for fewer in (built.blocks.saturating_sub(12)..built.blocks).rev() {
        let holds = holds(&job, &fitted.plan, fewer, job.inodes.needed);
        assert!(!holds, "{words}: {built:?}, and {fewer} blocks would do");
    }
    let rest = u64::from(built.inodes) - u64::from(built.free_inodes);
    assert_eq!(rest, job.inodes.needed, "{words}: inodes in use are those that were counted");
    // It is slower than all of the rest.
    if blocks % 4 == files % 4 && oracle::require("e2fsck") {
        oracle::e2fsck(&image).unwrap_or_else(|error| panic!("{words}: {error}"));
    }
    built
}

#[test]
fn an_image_has_no_block_and_no_inode_to_spare() {
    let folder = tempfile::tempdir().unwrap();
    for profile in [Profile::Ext2, Profile::Ext3, Profile::Ext4] {
        for block_size in [1024, 2048, 4096] {
            let kind = Kind::new(profile, block_size);
            // Maps of extents, and of blocks with no, one and two levels of others.
            for blocks in [0, 1, 11, 12, 13, 60, 268, 269, 300] {
                let built = assert_smallest(folder.path(), &kind, blocks, 3);
                assert!(!built.has_journal, "{kind:?}: {built:?}");
                assert_eq!(built.free_blocks, 0, "{kind:?}: {built:?}");
            }
            // Inodes, and blocks of the directory: over the steps of both.
            for files in (4..24).chain([60, 61, 200, 201]) {
                let built = assert_smallest(folder.path(), &kind, 2, files);
                assert_eq!(built.free_blocks, 0, "{kind:?}: {built:?}");
            }
        }
    }
    assert_smallest(folder.path(), &Kind::new(Profile::Ext4, 65536), 3, 5);
}

#[test]
fn a_journal_is_as_large_as_asked_for_and_nothing_is_spare_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    for profile in [Profile::Ext3, Profile::Ext4] {
        for block_size in [1024, 4096] {
            let small = Kind::new(profile, block_size);
            let made = Kind { small_journal: SmallJournal::Made, ..small };
            let asked = Kind { journal: JournalWish::Blocks(1500), ..small };
            for (kind, journal) in [(made, 1024), (asked, 1500)] {
                let mut without = 0;
                for blocks in [0, 1, 13, 300] {
                    let built = assert_smallest(folder.path(), &kind, blocks, 3);
                    assert!(built.has_journal, "{kind:?}: {built:?}");
                    let bare = assert_smallest(folder.path(), &small, blocks, 3);
                    let more = built.blocks - bare.blocks;
                    // Its map, and blocks kept for descriptors of a larger volume.
                    assert!((journal..journal + 16).contains(&more), "{kind:?}: {built:?}");
                    without += u32::from(!bare.has_journal);
                }
                assert_eq!(without, 4, "{small:?} has a journal without being asked");
            }
        }
    }
    // One that comes by itself, with a volume of 2,048 blocks.
    let built = assert_smallest(folder.path(), &Kind::new(Profile::Ext4, 1024), 7000, 3);
    assert!(built.has_journal, "{built:?}");
}

/// Groups of 256 blocks: the content ends before, at and after the end of one, and its last group
/// may end with its own metadata.
#[test]
fn groups_end_where_the_content_does() {
    let folder = tempfile::tempdir().unwrap();
    let mut with_free = 0;
    for (profile, without) in [
        (Profile::Ext2, &[Feature::RESIZE_INODE][..]),
        (Profile::Ext4, &[Feature::RESIZE_INODE, Feature::FLEX_BG]),
        (Profile::Ext4, &[Feature::RESIZE_INODE]),
    ] {
        let kind = Kind { group: Some(256), without, ..Kind::new(profile, 1024) };
        for blocks in (225..245).chain((470..500).step_by(3)) {
            let built = assert_smallest(folder.path(), &kind, blocks, 0);
            with_free += u32::from(built.free_blocks > 0);
        }
    }
    assert!(with_free > 0, "no image ended with the metadata of its last group");
}

/// Clusters are whole, descriptors are where their groups are, and quota files have an entry for
/// each owner: nothing of it is more than it has to be.
#[test]
fn clusters_spread_descriptors_and_quotas_leave_nothing_to_spare() {
    let folder = tempfile::tempdir().unwrap();
    let clusters = |block_size, cluster| Kind {
        with: &[Feature::BIGALLOC],
        cluster: Some(cluster),
        ..Kind::new(Profile::Ext4, block_size)
    };
    let spread = Kind {
        with: &[Feature::META_BG],
        without: &[Feature::RESIZE_INODE],
        ..Kind::new(Profile::Ext4, 1024)
    };
    let quota = &[Feature::QUOTA];
    let all = &[Feature::QUOTA, Feature::PROJECT, Feature::ORPHAN_FILE];
    let made = SmallJournal::Made;
    for kind in [
        clusters(1024, 4096),
        clusters(4096, 65536),
        Kind { with: &[Feature::BIGALLOC, Feature::QUOTA], ..clusters(2048, 4096) },
        spread,
        Kind { group: Some(256), ..spread },
        Kind { block_size: 4096, ..spread },
        Kind { with: quota, ..Kind::new(Profile::Ext2, 1024) },
        Kind { with: quota, ..Kind::new(Profile::Ext4, 4096) },
        Kind { with: all, small_journal: made, ..Kind::new(Profile::Ext4, 4096) },
    ] {
        for (blocks, files) in [(0, 4), (13, 1), (60, 20), (300, 4), (480, 60)] {
            let built = assert_smallest(folder.path(), &kind, blocks, files);
            let cluster = kind.cluster.unwrap_or(kind.block_size) / kind.block_size;
            assert!(built.blocks.is_multiple_of(cluster.into()), "{kind:?}: {built:?}");
        }
    }
}
