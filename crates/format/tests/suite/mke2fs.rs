//! The layout of a new file system, compared with what mke2fs makes and dumpe2fs prints, over a
//! matrix of sizes, block sizes and features; and the superblock and descriptors that mke2fs wrote,
//! read and written again.
//!
//! Without mke2fs the tests say so and pass, but fail where CI=true.
use std::fmt::Write as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use extant_format::group::GroupDescriptor;
use extant_format::journal::{self, NewJournal};
use extant_format::layout::{Inodes, Layout, Marks, Packing, Wishes};
use extant_format::superblock::{
    Feature, Features, HashVersion, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock,
};
use extant_format::{GroupNo, bitmap};

/// One volume of the matrix.
#[derive(Clone, Debug)]
struct Case {
    block_size: u32,
    blocks: u64,
    /// As after `mke2fs -O`, upon nothing: only what is named is set.
    features: &'static str,
    inode_size: u16,
    inodes: Inodes,
    flex_groups: u32,
    blocks_per_group: Option<u32>,
    resize_to_blocks: Option<u64>,
}

const EXT2: &str = "ext_attr,resize_inode,dir_index,filetype,sparse_super,large_file";
const EXT4: &str = "ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,sparse_super,\
                    large_file,huge_file,dir_nlink,extra_isize,metadata_csum";
const UNINIT: &str =
    "ext_attr,resize_inode,dir_index,filetype,extent,sparse_super,large_file,uninit_bg";
const PLAIN: &str = "ext_attr,filetype";
const FLEX_32: &str =
    "ext_attr,filetype,extent,flex_bg,sparse_super,metadata_csum,metadata_csum_seed";
const WIDE_UNFLEXED: &str =
    "ext_attr,resize_inode,filetype,extent,64bit,sparse_super,metadata_csum";

impl Case {
    fn new(block_size: u32, blocks: u64, features: &'static str) -> Case {
        let inodes = Inodes::BytesPerInode(16384);
        let (blocks_per_group, resize_to_blocks) = (None, None);
        Case {
            block_size,
            blocks,
            features,
            inode_size: 256,
            inodes,
            flex_groups: 16,
            blocks_per_group,
            resize_to_blocks,
        }
    }

    fn features(&self) -> Features {
        let mut features = Features::default();
        for name in self.features.split(',') {
            features.set(Feature::from_name(name).expect("a feature of the matrix"));
        }
        features
    }

    fn wishes(&self, uuid: [u8; 16]) -> Wishes {
        Wishes {
            block_size: self.block_size,
            blocks: self.blocks,
            features: self.features(),
            inode_size: self.inode_size,
            inodes: self.inodes,
            reserved_ratio: 0.05,
            flex_groups: self.flex_groups,
            blocks_per_group: self.blocks_per_group,
            resize_to_blocks: self.resize_to_blocks,
            uuid,
            hash_seed: [1, 2, 3, 4],
            hash_version: HashVersion::HalfMd4,
            label: [0; 16],
            created_seconds: 1_700_000_000,
            stride: 0,
            stripe_width: 0,
            marks: Marks::default(),
            descriptor_size: None,
            copies: 2,
            packing: Packing::FlexGroups,
            cluster_size: None,
            bad_blocks: Vec::new(),
        }
    }

    /// Makes the volume with mke2fs; its last line of complaint where it refuses.
    fn make(&self, image: &Path) -> Result<(), String> {
        let _ = std::fs::remove_file(image);
        let mut command = Command::new("mke2fs");
        // An empty configuration: nothing but what is asked.
        command
            .env("MKE2FS_CONFIG", "/dev/null")
            .args(["-q", "-F", "-O"])
            .arg(format!("none,{}", self.features));
        command.args([
            "-b",
            &self.block_size.to_string(),
            "-I",
            &self.inode_size.to_string(),
            "-m",
            "5",
        ]);
        let mut extended = "lazy_itable_init=0,lazy_journal_init=0,nodiscard".to_owned();
        if let Some(blocks) = self.resize_to_blocks {
            write!(extended, ",resize={blocks}").expect("a string");
        }
        command.args(["-E", &extended]);
        match self.inodes {
            Inodes::AtLeast(count) | Inodes::About(count) => {
                command.args(["-N", &count.to_string()])
            }
            Inodes::BytesPerInode(bytes) => command.args(["-i", &bytes.to_string()]),
        };
        if self.features().has(Feature::FLEX_BG) {
            command.args(["-G", &self.flex_groups.to_string()]);
        }
        if let Some(blocks) = self.blocks_per_group {
            command.args(["-g", &blocks.to_string()]);
        }
        let output = command.arg(image).arg(self.blocks.to_string()).output().expect("mke2fs runs");
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for features in [EXT2, EXT4, UNINIT, PLAIN, FLEX_32, WIDE_UNFLEXED] {
        for block_size in [1024, 2048, 4096, 8192, 65536] {
            for mebibytes in [8, 33, 100, 257, 1100] {
                let blocks = mebibytes * 1024 * 1024 / u64::from(block_size);
                cases.push(Case::new(block_size, blocks + mebibytes % 7, features));
            }
        }
        cases.push(Case::new(4096, 20 << 18, features));
    }
    // A last group that is dropped, one that just stays, one whose inodes do not fit in its bitmap.
    for blocks in [8250, 8700, 9000, 16384, 16385, 16400, 24577 + 70, 24577 + 40] {
        cases.push(Case::new(1024, blocks, EXT2));
        cases.push(Case::new(1024, blocks, EXT4));
    }
    for blocks in [33_000, 36_000, 65_536, 65_700] {
        cases.push(Case { inodes: Inodes::BytesPerInode(4096), ..Case::new(4096, blocks, EXT4) });
    }
    for inode_size in [128, 256, 512, 1024] {
        cases.push(Case {
            inode_size,
            inodes: Inodes::BytesPerInode(5000),
            ..Case::new(4096, 70_000, EXT4)
        });
        cases.push(Case {
            inode_size,
            inodes: Inodes::BytesPerInode(9000),
            ..Case::new(1024, 70_000, EXT2)
        });
        cases.push(Case {
            inode_size,
            inodes: Inodes::AtLeast(10_000),
            ..Case::new(8192, 70_000, EXT4)
        });
    }
    // Small groups, so that flex groups meet copies of the superblock and do not fit into their
    // first group.
    for (flex_groups, groups) in
        [(1, 5), (4, 6), (16, 1), (16, 2), (16, 6), (16, 17), (16, 18), (64, 40), (128, 120)]
    {
        for inodes in [16, 80, 256] {
            let small = Case::new(1024, groups * 512 + 1, EXT4);
            let inodes = Inodes::AtLeast(groups * inodes);
            cases.push(Case { flex_groups, blocks_per_group: Some(512), inodes, ..small.clone() });
            let features = FLEX_32;
            cases.push(Case {
                flex_groups,
                blocks_per_group: Some(512),
                inodes,
                features,
                ..small
            });
        }
    }
    cases.push(Case {
        inodes: Inodes::AtLeast(12),
        inode_size: 128,
        ..Case::new(1024, 40_960, EXT2)
    });
    cases.push(Case {
        inodes: Inodes::AtLeast(12),
        inode_size: 128,
        ..Case::new(1024, 40_960, EXT4)
    });
    for target in [80_000, 5_000_000, 400_000_000] {
        cases.push(Case { resize_to_blocks: Some(target), ..Case::new(4096, 70_000, EXT4) });
        cases.push(Case { resize_to_blocks: Some(target), ..Case::new(1024, 70_000, EXT2) });
    }
    cases
}

/// A folder that goes when the test ends.
struct Folder(PathBuf);
impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("extant-format-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }
}
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn oracle_is_here() -> bool {
    let found = Command::new("mke2fs").arg("-V").output().is_ok()
        && Command::new("dumpe2fs").arg("-V").output().is_ok();
    if !found {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "mke2fs and dumpe2fs must be installed for CI"
        );
        println!("SKIPPED: mke2fs or dumpe2fs is not installed");
    }
    found
}

/// What dumpe2fs says of a group.
#[derive(Debug, Default, PartialEq)]
struct Printed {
    block_bitmap: u64,
    inode_bitmap: u64,
    inode_table: u64,
    free_blocks: u32,
    free_inodes: u32,
    directories: u32,
    unused_inodes: u32,
    flags: u16,
}

/// The number that follows `word` in `line`.
fn number_after(line: &str, word: &str) -> Option<u64> {
    let rest = line.split_once(word)?.1.trim_start();
    rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
}

fn number_before(line: &str, word: &str) -> Option<u32> {
    line.split_once(word)?.0.rsplit([' ', ',']).find(|part| !part.is_empty())?.parse().ok()
}

fn dump(image: &Path) -> (String, Vec<Printed>) {
    let output = Command::new("dumpe2fs").arg(image).output().expect("dumpe2fs runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut groups: Vec<Printed> = Vec::new();
    for line in text.lines() {
        if line.starts_with("Group ") && line.contains("(Blocks ") {
            let flag = |name: &str, bit: u16| if line.contains(name) { bit } else { 0 };
            let flags =
                flag("INODE_UNINIT", 1) | flag("BLOCK_UNINIT", 2) | flag("ITABLE_ZEROED", 4);
            groups.push(Printed { flags, ..Printed::default() });
        }
        let Some(group) = groups.last_mut() else { continue };
        let mut take = |word: &str, field: fn(&mut Printed) -> &mut u64| {
            if let Some(number) = number_after(line, word) {
                *field(group) = number;
            }
        };
        take("Block bitmap at ", |group| &mut group.block_bitmap);
        take("Inode bitmap at ", |group| &mut group.inode_bitmap);
        take("Inode table at ", |group| &mut group.inode_table);
        if let Some(free) = number_before(line, " free blocks,") {
            group.free_blocks = free;
            group.free_inodes = number_before(line, " free inodes,").unwrap_or(0);
            group.directories = number_before(line, " directories").unwrap_or(0);
            group.unused_inodes = number_before(line, " unused inodes").unwrap_or(0);
        }
    }
    (text, groups)
}

/// The number after a heading of dumpe2fs.
fn heading(text: &str, name: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| number_after(line, ":")).unwrap_or(0)
}

fn read_superblock(image: &Path) -> ([u8; SUPERBLOCK_SIZE], std::fs::File) {
    let file = std::fs::File::open(image).expect("the image");
    let mut bytes = [0; SUPERBLOCK_SIZE];
    file.read_exact_at(&mut bytes, SUPERBLOCK_OFFSET).expect("a superblock");
    (bytes, file)
}

fn compare_headings(case: &Case, text: &str, ours: &Superblock) {
    let expected = [
        ("Inode count", ours.inodes_count.into()),
        ("Block count", ours.blocks_count),
        ("First block", ours.first_data_block.into()),
        ("Reserved GDT blocks", ours.reserved_gdt_blocks.into()),
        ("Blocks per group", ours.blocks_per_group.into()),
        ("Inodes per group", ours.inodes_per_group.into()),
        ("Inode blocks per group", ours.inode_table_blocks().into()),
        ("First inode", ours.first_inode.into()),
        ("Required extra isize", ours.min_extra_isize.into()),
        ("Desired extra isize", ours.want_extra_isize.into()),
        ("Check interval", ours.check_interval_seconds.into()),
    ];
    for (name, value) in expected {
        assert_eq!(heading(text, name), value, "{name} of {case:?}");
    }
    // When groups had to be made smaller mke2fs goes on with the share of a volume that it had
    // shortened before.
    if ours.blocks_per_group == case.blocks_per_group.unwrap_or((case.block_size * 8).min(65528)) {
        assert_eq!(
            heading(text, "Reserved block count"),
            ours.reserved_blocks,
            "reserved blocks of {case:?}"
        );
    }
}

/// dumpe2fs shows flags only where they have a checksum.
fn shown(flags: u16, superblock: &Superblock) -> u16 {
    if superblock.has_descriptor_checksums() { flags } else { 0 }
}

fn compare_groups(case: &Case, printed: &[Printed], layout: &Layout) {
    assert_eq!(printed.len(), layout.descriptors.len(), "groups of {case:?}");
    let first_free = (layout.superblock.first_inode - 1) / layout.superblock.inodes_per_group;
    for (number, (theirs, ours)) in printed.iter().zip(&layout.descriptors).enumerate() {
        let places = (theirs.block_bitmap, theirs.inode_bitmap, theirs.inode_table);
        let own = (ours.block_bitmap.0, ours.inode_bitmap.0, ours.inode_table.0);
        assert_eq!(places, own, "places of group {number} of {case:?}");
        // mke2fs has made the root, lost+found and the map of the resize inode; the inode of
        // lost+found is the first that is free, its blocks are where the root's group has room.
        if number == 0 || number == first_free as usize {
            assert!(
                theirs.free_blocks <= ours.free_blocks,
                "free blocks of group {number} of {case:?}"
            );
            let made = ours.free_blocks - theirs.free_blocks;
            assert!(made <= 40, "{made} blocks of new files in group {number} of {case:?}");
            let expected = ours.free_inodes - u32::from(number == first_free as usize);
            assert_eq!(theirs.free_inodes, expected, "free inodes of group {number} of {case:?}");
        } else if theirs.free_blocks != ours.free_blocks {
            // A first flex group that is full of metadata sends the new files elsewhere.
            let made = ours.free_blocks.checked_sub(theirs.free_blocks).expect("files only take");
            assert!(
                made <= 40 && layout.descriptors[0].free_blocks < 40,
                "group {number} of {case:?}: {made}"
            );
            continue;
        } else {
            assert_eq!(
                theirs.free_inodes, ours.free_inodes,
                "free inodes of group {number} of {case:?}"
            );
            assert_eq!(
                theirs.unused_inodes, ours.unused_inodes,
                "unused inodes of group {number} of {case:?}"
            );
            assert_eq!(
                theirs.flags,
                shown(ours.flags, &layout.superblock),
                "flags of group {number} of {case:?}"
            );
        }
    }
}

/// What mke2fs wrote is read, agrees with dumpe2fs, and is written again as it was.
fn reread(case: &Case, image: &Path, printed: &[Printed]) {
    let (bytes, file) = read_superblock(image);
    let superblock =
        Superblock::parse(&bytes).unwrap_or_else(|error| panic!("{error} in {case:?}"));
    assert!(superblock.encode() == bytes, "superblock of {case:?}");
    let size = usize::from(superblock.descriptor_size);
    for (number, theirs) in (0u32..).zip(printed) {
        let group = GroupNo(number);
        let (block, offset) = superblock.descriptor_place(group);
        let mut bytes = vec![0; size];
        let place = block.0 * u64::from(superblock.block_size()) + offset as u64;
        file.read_exact_at(&mut bytes, place).expect("a descriptor");
        let descriptor =
            GroupDescriptor::parse(&bytes, group, &superblock).expect("a sound descriptor");
        let read = Printed {
            block_bitmap: descriptor.block_bitmap.0,
            inode_bitmap: descriptor.inode_bitmap.0,
            inode_table: descriptor.inode_table.0,
            free_blocks: descriptor.free_blocks,
            free_inodes: descriptor.free_inodes,
            directories: descriptor.used_directories,
            unused_inodes: descriptor.unused_inodes,
            flags: shown(descriptor.flags, &superblock),
        };
        assert_eq!(&read, theirs, "descriptor {number} of {case:?}");
        let mut again = vec![0; size];
        descriptor.encode(&mut again, group, &superblock);
        assert_eq!(again, bytes, "descriptor {number} of {case:?}");
        reread_bitmap(case, &file, &superblock, &descriptor);
    }
}

/// The bitmap that mke2fs wrote has the free blocks that the descriptor counts, and its checksum.
fn reread_bitmap(
    case: &Case,
    file: &std::fs::File,
    superblock: &Superblock,
    descriptor: &GroupDescriptor,
) {
    let group =
        superblock.group_of_block(descriptor.block_bitmap).expect("a place inside the volume");
    assert!(superblock.group_length(group) > 0);
    if descriptor.flags & extant_format::group::BLOCK_UNINIT != 0 {
        return;
    }
    let mut bytes = vec![0; superblock.block_size() as usize];
    let place = descriptor.block_bitmap.0 * u64::from(superblock.block_size());
    file.read_exact_at(&mut bytes, place).expect("a bitmap");
    assert_eq!(
        bitmap::count_clear(&bytes, superblock.blocks_per_group),
        descriptor.free_blocks,
        "bitmap of {case:?}"
    );
    assert!(
        descriptor.block_bitmap_matches(&bytes, superblock),
        "checksum of a block bitmap of {case:?}"
    );
}

/// The block bitmap after formatting is that of mke2fs in every group to which no file was given.
fn compare_bitmaps(case: &Case, image: &Path, layout: &Layout, printed: &[Printed]) {
    let (_, file) = read_superblock(image);
    let size = layout.superblock.block_size() as usize;
    for (number, (theirs, ours)) in (0u32..).zip(printed.iter().zip(&layout.descriptors)) {
        let mut expected = vec![0; size];
        layout.fill_block_bitmap(GroupNo(number), &mut expected);
        let free = bitmap::count_clear(&expected, layout.superblock.blocks_per_group);
        assert_eq!(free, ours.free_blocks, "bitmap of group {number} of {case:?}");
        if theirs.free_blocks == ours.free_blocks && theirs.flags & 2 == 0 {
            let mut bytes = vec![0; size];
            file.read_exact_at(&mut bytes, theirs.block_bitmap * size as u64).expect("a bitmap");
            assert!(bytes == expected, "bitmap of group {number} of {case:?}");
        }
    }
}

#[test]
fn layouts_are_those_of_mke2fs() {
    if !oracle_is_here() {
        return;
    }
    let folder = Folder::new("layout");
    let image = folder.0.join("image");
    let mut compared = 0;
    for case in cases() {
        let layout = Layout::new(&case.wishes([7; 16]));
        if let Err(refusal) = case.make(&image) {
            println!("mke2fs refuses {case:?}: {refusal}; ours: {:?}", layout.err());
            continue;
        }
        let layout = layout.unwrap_or_else(|error| panic!("{error}, but mke2fs makes {case:?}"));
        let (text, printed) = dump(&image);
        compare_headings(&case, &text, &layout.superblock);
        compare_groups(&case, &printed, &layout);
        compare_bitmaps(&case, &image, &layout, &printed);
        reread(&case, &image, &printed);
        compared += 1;
    }
    println!("{compared} layouts compared");
    assert!(compared > 150, "only {compared} layouts could be compared");
}

/// The size of mke2fs's journal, and its superblock byte for byte.
#[test]
fn journals_are_those_of_mke2fs() {
    if !oracle_is_here() {
        return;
    }
    let folder = Folder::new("journal");
    let image = folder.0.join("image");
    for blocks in
        [1024, 2047, 2048, 32_767, 32_768, 262_143, 262_144, 524_287, 524_288, 4_194_303, 4_194_304]
    {
        let case = Case {
            features: "has_journal,extent,sparse_super,filetype",
            ..Case::new(1024, blocks, EXT4)
        };
        let expected = journal::default_blocks(blocks);
        if case.make(&image).is_err() {
            assert_eq!(expected, 0, "mke2fs makes no journal in {blocks} blocks");
            continue;
        }
        let (text, _) = dump(&image);
        assert_eq!(
            heading(&text, "Total journal blocks"),
            u64::from(expected),
            "journal of {blocks} blocks"
        );
        if expected == 0 {
            continue;
        }
        let out = Command::new("debugfs")
            .args(["-R", "cat <8>"])
            .arg(&image)
            .output()
            .expect("debugfs runs");
        let uuid = Superblock::parse(&read_superblock(&image).0).expect("a superblock").uuid;
        let journal =
            NewJournal { block_size: 1024, blocks: expected, uuid, fast_commit_blocks: 0 };
        let mut ours = [0; 1024];
        journal::initialize(&mut ours, &journal);
        assert!(out.stdout[..1024] == ours, "superblock of the journal of {blocks} blocks");
    }
}
