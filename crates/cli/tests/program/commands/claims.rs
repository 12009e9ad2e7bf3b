//! Memory and time follow what an image holds, not what its superblock claims: sparse images of
//! terabytes that hold at most 2 MiB, hand-made and drawn by a seed, through every command that
//! reads.
//!
//! The commands run with a limit of 256 MiB on their memory (`ulimit -d`, which an allocation
//! beyond it meets). How long they take is not asserted; a watchdog ends what does not end.
mod image;

use extant_testkit::command::{output, program};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use image::*;
use std::cell::Cell;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const MEMORY_KIB: u32 = 256 << 10;
const SECONDS_MAX: u64 = 120;

/// Runs a command under the limit. Its output goes nowhere: of a volume that claims much there may
/// be a lot.
fn limited(words: &[&str]) -> Output {
    let script =
        format!("ulimit -d {MEMORY_KIB}; exec timeout -s KILL {SECONDS_MAX} \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command
        .args(["-c", &script, extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant"))])
        .args(words);
    command.stdout(Stdio::null()).output().expect("sh starts")
}

/// Every command that reads ends, in bounded memory, with one of its own exit codes. Gives that of
/// the check.
fn survives(name: &str, path: &Path) -> i32 {
    let path = path.to_str().expect("a name in UTF-8");
    let root = format!("{path}:/");
    let mut verdict = 0;
    for words in [
        &["check", "-q", path][..],
        &["info", path],
        &["layout", path],
        &["layout", "--map", path],
        &["ls", "-lR", path],
        &["stat", &root],
        &["tar", path, "-o", "/dev/null"],
    ] {
        let output = limited(words);
        let said = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code();
        let allowed: &[i32] = if words[0] == "check" { &[0, 4, 8, 12] } else { &[0, 1] };
        assert!(
            code.is_some_and(|code| allowed.contains(&code)),
            "{name}: {words:?}: {code:?}: {said}"
        );
        if words[0] == "check" {
            verdict = code.unwrap_or(-1);
        }
    }
    verdict
}

/// The end of the check's report: how many of each code.
fn told(path: &Path) -> String {
    let output = Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")))
        .args(["check", "--json"])
        .arg(path)
        .output()
        .expect("extant starts");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a report");
    report["counts"].to_string()
}

/// Descriptors of the first `count` groups.
fn descriptors(claims: &Claims, count: u64, places: impl Fn(u64) -> [u64; 3]) -> (u64, Vec<u8>) {
    let all = (0..count).flat_map(|group| claims.descriptor(places(group), 0));
    (claims.descriptors_at(), all.collect())
}

#[test]
fn more_groups_than_are_described_are_refused_by_name() {
    let folder = Scratch::new("claims-groups");
    let path = folder.join("groups.img");
    let word = path.to_str().unwrap();
    let rows = [
        // 16.8 million groups; two billion; and with their descriptors spread over the volume.
        (4 * TIB, 0, 256, 8, 128, 64, ORDINARY.features),
        (15 * TIB, 0, 8, 1, 1024, 64, ORDINARY.features),
        (15 * TIB, 0, 8, 1, 1024, 1024, [SPARSE_SUPER_2, ORDINARY.features[1] | META_BG, 0]),
    ];
    for (
        length,
        block_log,
        blocks_per_group,
        inodes_per_group,
        inode_size,
        descriptor_size,
        features,
    ) in rows
    {
        let claims = Claims {
            block_log,
            blocks: length >> 10,
            blocks_per_group,
            inodes_per_group,
            inode_size,
            descriptor_size,
            cluster_log: block_log,
            features,
            ..ORDINARY
        };
        write(&path, length, &claims, &[]);
        let name = format!("{} groups", claims.groups());
        assert_eq!(survives(&name, &path), 8, "{name}");
        for command in ["info", "layout"] {
            let output = limited(&[command, word]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let expected = format!("more groups ({}) than are described", claims.groups());
            assert_eq!(output.status.code(), Some(1), "{name}: {command}");
            assert!(said.contains(&expected), "{name}: {command}: {said}");
        }
        assert!(told(&path).contains("\"too-many-groups\""), "{name}");
    }
}

#[test]
fn what_groups_share_is_looked_at_once() {
    let folder = Scratch::new("claims-shared");
    let path = folder.join("shared.img");
    // Tables full of inodes, all over each other: 16,384 groups would have 67 million files.
    let claims = Claims {
        blocks: 16384 * 4096,
        blocks_per_group: 4096,
        inodes_per_group: 4096,
        descriptor_size: 32,
        features: [0, FILETYPE | EXTENTS | FLEX_BG, SPARSE_SUPER],
        ..ORDINARY
    };
    let runs = [(0, 32768, 20_000), (40_000, 32768, 60_000), (100_000, 32767, 200_000)];
    let file = claims.inode(FILE, 4 * TIB, 1, Map::Extents(&runs));
    let directory = claims.inode(DIRECTORY, 4096, 2, Map::Extents(&[(0, 1, 9000)]));
    let table = [file.repeat(1), directory, file.repeat(2)].concat().repeat(1024);
    let pieces = [descriptors(&claims, 16384, |_| [6000, 6001, 5000]), (5000 * 4096, table)];
    write(&path, claims.blocks * 4096, &claims, &pieces);
    assert_eq!(survives("tables over each other", &path), 12);
    // A bitmap of 4,096 free runs that 50,000 groups claim to be theirs.
    let claims = Claims {
        block_log: 0,
        cluster_log: 0,
        blocks: 50_000 * 8192,
        blocks_per_group: 8192,
        inodes_per_group: 8,
        inode_size: 128,
        descriptor_size: 32,
        ..claims
    };
    let shared = descriptors(&claims, 50_000, |group| [66_000, 66_001, 70_000 + group]);
    let pieces = [shared, (66_000 * 1024, vec![0x55; 2048])];
    write(&path, claims.blocks * 1024, &claims, &pieces);
    assert_eq!(survives("a bitmap for all", &path), 12);
}

#[test]
fn holes_are_known_to_be_zeros() {
    let folder = Scratch::new("claims-holes");
    let path = folder.join("holes.img");
    // Two billion inodes, all of which the descriptors call used; and a first inode for users far
    // after them.
    let claims = Claims {
        blocks: (8 * TIB) >> 12,
        inodes_per_group: 32760,
        descriptor_size: 32,
        features: [0, FILETYPE | EXTENTS | FLEX_BG, SPARSE_SUPER],
        ..ORDINARY
    };
    let first_inodes = [32760 * 60_000, 11];
    for first_inode in first_inodes.into_iter().step_by(number("EXTANT_CASES") as usize) {
        let claims = Claims { first_inode, ..claims };
        let places = |group| [9_000 + group, 209_000 + group, 400_000 + group * 2048];
        let pieces = [descriptors(&claims, 63_000, places)];
        write(&path, 8 * TIB, &claims, &pieces);
        survives("two billion inodes", &path);
    }
    // Directories of half a million blocks that were never written, many of them.
    let claims = Claims { blocks: 32 * 32768, inodes_per_group: 4096, ..claims };
    let runs: Vec<_> =
        (0..4).map(|run| (run * 32768, 32768, 20_000 + u64::from(run) * 32768)).collect();
    let directory = claims.inode(DIRECTORY, 524_288 * 4096, 2, Map::Extents(&runs));
    let many = directory.repeat(2000 / number("EXTANT_CASES") as usize);
    let table = [vec![0; 256], directory.clone(), vec![0; 256 * 10], many].concat();
    let pieces = [
        descriptors(&claims, 32, |group| [3000 + group, 4000 + group, 5000 + group * 300]),
        (5000 * 4096, table),
    ];
    write(&path, 32 * 32768 * 4096, &claims, &pieces);
    assert_eq!(survives("directories of holes", &path), 12);
    assert!(told(&path).contains("\"directories-too-big\":1"), "{}", told(&path));
}

#[test]
fn a_map_that_goes_in_circles_gives_no_more_than_the_disk_holds() {
    let folder = Scratch::new("claims-circles");
    let path = folder.join("circles.img");
    let claims = Claims {
        features: [0, FILETYPE, SPARSE_SUPER],
        descriptor_size: 32,
        inodes_per_group: 1024,
        ..ORDINARY
    };
    // Block 500 is an indirect block of every level, and leads to itself and to holes in turns; 501
    // is a directory's block.
    let pointers: Vec<u8> = (0..1024_u32)
        .flat_map(|index| [500, 0, 501, 700 + index][index as usize % 4].to_le_bytes())
        .collect();
    let entries = [
        &[2, 0, 0, 0, 12, 0, 1, 2, b'.', 0, 0, 0][..],
        &[2, 0, 0, 0, 12, 0, 2, 2, b'.', b'.', 0, 0],
        &[12, 0, 0, 0, 12, 0, 4, 1, b'f', b'i', b'l', b'e'],
        &[13, 0, 0, 0, 0xdc, 0xf, 3, 2, b'd', b'i', b'r', 0],
    ]
    .concat();
    let mut map = [501; 15];
    map[12..].fill(500);
    let directory = claims.inode(DIRECTORY, 400_000 * 4096, 3, Map::Pointers(&map));
    let file = claims.inode(FILE, TIB, 1, Map::Pointers(&map));
    let mut table = vec![0; 256 * 13];
    for (ino, bytes) in [(2, &directory), (12, &file), (13, &directory)] {
        table[256 * (ino - 1)..][..256].copy_from_slice(bytes);
    }
    let pieces = [
        descriptors(&claims, 32, |group| [100 + group, 200 + group, 1000 + group * 64]),
        (1000 * 4096, table),
        (500 * 4096, pointers),
        (501 * 4096, entries),
    ];
    write(&path, claims.blocks * 4096, &claims, &pieces);
    assert_eq!(survives("circles", &path), 12);
}

/// Numbers that a seed decides (splitmix64).
struct Random(Cell<u64>);

impl Random {
    fn below(&self, most: u64) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let value = self.0.get();
        let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (value ^ (value >> 31)) % most.max(1)
    }

    fn pick<T: Copy>(&self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Any superblock that is one at all, on an image of any length.
fn drawn(random: &Random) -> (u64, Claims) {
    let length = random.pick(&[HELD_MAX, 64 << 20, 1 << 30, TIB, 4 * TIB, 15 * TIB]);
    let block_log = random.pick(&[0, 0, 1, 2, 2, 2, 3, 4, 6]);
    let block_size = 1024_u64 << block_log;
    let bits = block_size * 8;
    let wide = random.pick(&[SIXTY_FOUR_BIT, SIXTY_FOUR_BIT, 0]);
    let incompatible =
        random.pick(&[0, FLEX_BG, META_BG, FLEX_BG | 0x400, 0x8000]) | wide | FILETYPE | EXTENTS;
    let read_only = random.pick(&[0, SPARSE_SUPER, SPARSE_SUPER, BIGALLOC, SPARSE_SUPER | 0x10]);
    let on_device = length / block_size;
    let blocks =
        random.pick(&[on_device, on_device, on_device * 1000, 100 + random.below(on_device)]);
    let most = if wide == 0 { u64::from(u32::MAX) } else { 1 << 48 };
    let blocks = blocks.clamp(100, most);
    let blocks_per_group = random.pick(&[8, 16, 64, 256, bits, bits, 8 + random.below(bits - 8)]);
    let inode_size =
        random.pick(&[128, 256, 256, 512, 1024, block_size.min(32768)]).min(block_size);
    let per_block = block_size / inode_size;
    let groups = blocks.div_ceil(blocks_per_group);
    let most = (u64::from(u32::MAX) / groups).clamp(per_block, bits);
    let claims = Claims {
        block_log,
        blocks,
        blocks_per_group: blocks_per_group as u32,
        inodes_per_group: random.pick(&[
            per_block,
            most,
            per_block + random.below(most - per_block),
        ]) as u32,
        inode_size: inode_size as u16,
        descriptor_size: if wide == 0 { 32 } else { random.pick(&[64, 64, 128, 1024]) },
        first_inode: random.pick(&[11, 11, 11, 11 + random.below(1 << 31) as u32]),
        first_meta_group: random.pick(&[0, 1, 100, 1 << 31]),
        cluster_log: block_log + if read_only == BIGALLOC { random.pick(&[0, 1, 4, 8]) } else { 0 },
        journal_inode: random.pick(&[0, 0, 8]),
        reserved_descriptors: random.pick(&[0, 0, random.below(block_size / 4) as u16]),
        features: [random.pick(&[0, SPARSE_SUPER_2, 0x10, 0x24]), incompatible, read_only],
    };
    (length, claims)
}

/// An inode of any kind that claims any size, with pieces of the volume that others may have too.
fn some_inode(random: &Random, claims: &Claims, shared: u64, blocks: u64) -> Vec<u8> {
    let mode = random.pick(&[DIRECTORY, DIRECTORY, FILE, FILE, 0xa1ff]);
    let size = random.pick(&[4096, 1 << 20, 1 << 31, 1 << 44, random.below(1 << 40)]);
    let links = random.pick(&[1, 2, 0]);
    if random.below(3) > 0 {
        let place = |random: &Random| random.pick(&[shared, 1 + random.below(blocks)]);
        let runs: Vec<_> = (0..random.below(5) as u32)
            .map(|run| (run * 32768, random.pick(&[1, 32768]), place(random)))
            .collect();
        return claims.inode(mode, size, links, Map::Extents(&runs));
    }
    let pointers =
        std::array::from_fn(|_| random.pick(&[0, shared as u32, random.below(blocks) as u32]));
    claims.inode(mode, size, links, Map::Pointers(&pointers))
}

/// What is on the image besides the superblock: descriptors, some tables, and a block that many
/// maps lead to.
fn contents(random: &Random, claims: &Claims, length: u64) -> Vec<(u64, Vec<u8>)> {
    let block_size = claims.block_size();
    let blocks = claims.blocks.min(length / block_size);
    let [first, second, table, shared] = std::array::from_fn(|_| 1 + random.below(blocks - 1));
    let step = random.pick(&[0, 1, u64::from(claims.blocks_per_group)]);
    let table_step =
        random.pick(&[0, 1, claims.table_blocks(), u64::from(claims.blocks_per_group)]);
    let at = |base: u64, step: u64, group: u64| (base + step * group) % blocks;
    let room = random.pick(&[0, 64, 100_000, 1_200_000]);
    let count = (room / u64::from(claims.descriptor_size)).min(claims.groups());
    let mut pieces = vec![descriptors(claims, count, |group| {
        [at(first, step, group), at(second, step, group), at(table, table_step, group)]
    })];
    let kinds: Vec<_> = (0..8).map(|_| some_inode(random, claims, shared, blocks)).collect();
    for _ in 0..random.pick(&[1, 1, 4, 20]) {
        let group = random.below(count);
        let bytes =
            random.pick(&[4096, 16 << 10, 300 << 10]).min((400 << 10) / (count.min(20) + 1));
        let inodes = (0..bytes / u64::from(claims.inode_size))
            .flat_map(|_| kinds[random.below(8) as usize].clone());
        pieces.push((at(table, table_step, group) * block_size, inodes.collect()));
    }
    let block: Vec<u8> = match random.below(3) {
        0 => (0..block_size / 4)
            .flat_map(|_| random.pick(&[shared as u32, random.below(blocks) as u32]).to_le_bytes())
            .collect(),
        1 => {
            let fit = ((block_size - 12) / 12) as u16;
            let runs: Vec<_> =
                (0..u32::from(fit)).map(|run| (run * 32768, 32768, random.below(blocks))).collect();
            node(&runs, fit)
        }
        _ => (0..block_size).map(|_| random.below(256) as u8).collect(),
    };
    pieces.push((shared * block_size, block));
    pieces
}

#[test]
fn any_superblock_is_survived() {
    let rounds = extant_testkit::variables::number("EXTANT_CLAIMS_ROUNDS");
    let first = extant_testkit::variables::seed("EXTANT_CLAIMS_SEED", 0);
    let folder = Scratch::new("claims-drawn");
    let path = folder.join("drawn.img");
    for seed in first..first + rounds {
        let random = Random(Cell::new(seed));
        let (length, claims) = drawn(&random);
        let pieces = contents(&random, &claims, length);
        write(&path, length, &claims, &pieces);
        survives(&format!("seed {seed}, {length} bytes, {claims:?}"), &path);
    }
}

#[test]
fn what_mke2fs_makes_of_16_tib_is_clean() {
    if !require("mke2fs") {
        return;
    }
    // They hold 200 MB, which mke2fs waits for on a disk.
    let memory = Path::new("/dev/shm");
    let folder = match memory.is_dir() {
        true => Scratch::inside(memory, "claims-real"),
        false => Scratch::new("claims-real"),
    };
    let path = folder.join("real.img");
    let word = path.to_str().unwrap();
    // 122,880 groups; and 4 MiB groups of 1 KiB blocks, with their descriptors spread over the
    // volume.
    let rows: [(&str, &[&str]); 2] = [
        ("15T", &["-t", "ext4", "-T", "huge"]),
        (
            "400G",
            &[
                "-t",
                "ext4",
                "-b",
                "1024",
                "-g",
                "4096",
                "-i",
                "65536",
                "-O",
                "^resize_inode,meta_bg",
            ],
        ),
    ];
    for (size, options) in rows.into_iter().step_by(number("EXTANT_CASES") as usize) {
        let _ = std::fs::remove_file(&path);
        let made = output(program("mke2fs").args(["-q", "-F"]).args(options).args([word, size]));
        made.expect("mke2fs makes it");
        for words in [&["check", "-q", word][..], &["info", word], &["layout", word]] {
            let output = limited(words);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{size}: {words:?}: {said}");
        }
    }
}
