//! Damaged images, read with --force-read: every byte that comes out is that of its own file, or a
//! line says what may be wrong.
use crate::take::command::{extant, refused};
use extant_testkit::command::{output, program};
use extant_testkit::numbers::Numbers;
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

const BLOCK: usize = 1024;
/// What every block of data begins with, so that others can be told from it.
const MARK: &[u8] = b"data of ";

/// A block of a file, which says whose it is.
fn data(name: &str, index: usize) -> Vec<u8> {
    let words = format!("{}{name}, block {index}; ", MARK.escape_ascii());
    words.into_bytes().into_iter().cycle().take(BLOCK).collect()
}

/// A volume of blocks of 1 KiB, `x.img`, of small files, a directory with an index, and a file in
/// many pieces; all files by their path. `kind` is the type, and more words for mke2fs.
fn volume(folder: &Path, kind: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let tree = folder.join("tree");
    fs::create_dir_all(tree.join("many")).unwrap();
    for number in 0..150 {
        let name = format!("many/file-with-quite-a-long-name-{number}");
        files.insert(name.clone(), data(&name, 0));
    }
    for number in 0..8 {
        let name = format!("file-{number}");
        files.insert(name.clone(), (0..=number).flat_map(|index| data(&name, index)).collect());
    }
    for (name, bytes) in &files {
        fs::write(tree.join(name), bytes).unwrap();
    }
    let holes = fs::File::create(tree.join("pieces")).unwrap();
    for index in (0..80).step_by(2) {
        holes.write_all_at(&data("pieces", index), (index * BLOCK) as u64).unwrap();
    }
    files.insert("pieces".to_owned(), fs::read(tree.join("pieces")).unwrap());
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-b", "1024", "-t"]).args(kind.split(' '));
    mke2fs.args(["-d", "tree", "x.img", "20M"]);
    output(mke2fs.current_dir(folder)).unwrap();
    // It ends with 0 or 1: directories got their index.
    let ended = program("e2fsck").args(["-fyD", "x.img"]).current_dir(folder).output().unwrap();
    assert!(ended.status.code().is_some_and(|code| code < 2));
    files
}

fn debugfs(folder: &Path, request: &str) -> String {
    let mut debugfs = program("debugfs");
    let found = debugfs.args(["-R", request, "x.img"]).current_dir(folder).output().unwrap();
    String::from_utf8_lossy(&found.stdout).into_owned()
}

/// The block that a mark such as `ETB0` stands before in what debugfs says of a file.
fn place(folder: &Path, path: &str, mark: &str) -> usize {
    let said = debugfs(folder, &format!("stat {path}"));
    let after = said.split(&format!("({mark}):")).nth(1).unwrap_or_else(|| panic!("{said}"));
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// What came out of a volume.
struct Taken {
    said: String,
    code: i32,
    files: BTreeMap<String, Vec<u8>>,
}

fn take(folder: &Path) -> Taken {
    let out = folder.join("out");
    let _ = fs::remove_dir_all(&out);
    let ended = extant(&["extract", "--force-read", "x.img", "out"], folder);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    let code = ended.status.code().unwrap_or(-1);
    assert!(matches!(code, 0 | 1) && !said.contains("panicked"), "{code}: {said}");
    let mut files = BTreeMap::new();
    let mut folders = vec![out.clone()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(at).into_iter().flatten() {
            let path = entry.unwrap().path();
            let kind = path.symlink_metadata().unwrap().file_type();
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && path.metadata().unwrap().len() < 1 << 24 {
                let name = path.strip_prefix(&out).unwrap().to_string_lossy().into_owned();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    Taken { said, code, files }
}

/// Whether a line names a file, by its path or its inode, or all of a group.
fn names(said: &str, name: &str, ino: u32) -> bool {
    said.lines().any(|line| {
        let number = format!("{ino}");
        let mut words = line.split([' ', ':', ',']);
        line.contains(&format!(" {name}:"))
            || [":", " and "].iter().any(|end| line.contains(&format!("/{name}{end}")))
            || (line.contains("inode") && words.any(|word| word == number))
            || ["img: superblock", "img: group", "img: journal"].iter().any(|at| line.contains(at))
    })
}

/// What came of the damage.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Came {
    /// All of it was mended: commands end with 0.
    Whole,
    /// At most so many files are lost: commands end with 1.
    Lost(usize),
}

/// Changes a copy of a fresh volume of a kind, and says what has to be said, and what comes of it.
fn after(kind: &str, label: &str, damage: &dyn Fn(&Path, &mut [u8]), said: &[&str], came: Came) {
    if !["mke2fs", "e2fsck", "debugfs"].iter().all(|tool| require(tool)) {
        return;
    }
    let scratch = Scratch::new(&format!("take-force-{label}"));
    let folder = scratch.path();
    let files = volume(folder, kind);
    let mut bytes = fs::read(folder.join("x.img")).unwrap();
    damage(folder, &mut bytes);
    fs::write(folder.join("x.img"), &bytes).unwrap();
    let refused = extant(&["extract", "x.img", "without"], folder);
    assert_ne!(refused.status.code(), Some(0), "{label}: without the option nothing changes");
    let taken = take(folder);
    let (code, lost) = match came {
        Came::Whole => (0, 0),
        Came::Lost(files) => (1, files),
    };
    assert_eq!(taken.code, code, "{label}: {}", taken.said);
    for words in said {
        assert!(taken.said.contains(words), "{label}: {words} is not in: {}", taken.said);
    }
    let whole = files.iter().filter(|(name, bytes)| taken.files.get(*name) == Some(bytes)).count();
    assert!(files.len() - whole <= lost, "{label}: {whole} of {}: {}", files.len(), taken.said);
    // The other commands go on too, and the image stays as it is.
    let listed = extant(&["ls", "-R", "--force-read", "x.img"], folder);
    assert_eq!(listed.status.code(), Some(code), "{label}");
    assert!(String::from_utf8_lossy(&listed.stdout).contains("file-7"), "{label}");
    let read = extant(&["cat", "--force-read", "x.img:/file-3"], folder);
    assert_eq!((read.status.code(), &read.stdout), (Some(code), &files["file-3"]), "{label}");
    let copied = extant(&["cp", "--force-read", "x.img:/file-4", "copied"], folder);
    assert_eq!(copied.status.code(), Some(code), "{label}");
    assert_eq!(fs::read(folder.join("copied")).unwrap(), files["file-4"], "{label}");
    let shown = extant(&["cp", "--force-read", "x.img:/file-5", "-"], folder);
    assert_eq!((shown.status.code(), &shown.stdout), (Some(code), &files["file-5"]), "{label}");
    let differs = extant(&["diff", "--force-read", "--quiet", "x.img", "x.img"], folder);
    assert_eq!(differs.status.code(), Some(2 * code), "{label}");
    let packed = extant(&["tar", "--force-read", "-o", "x.tar", "x.img"], folder);
    assert_eq!(packed.status.code(), Some(code), "{label}");
    assert!(fs::read(folder.join("x.img")).unwrap() == bytes, "{label}: it was written");
}

#[test]
fn a_lost_superblock_and_lost_descriptors_are_taken_from_copies() {
    let superblock = |_: &Path, bytes: &mut [u8]| bytes[1024..2048].fill(0);
    let said = &["superblock: ", "group 1's copy is used"];
    after("ext4", "superblock", &superblock, said, Came::Whole);
    // Groups of another size, of which the copies have to be looked for.
    after("ext4 -g 2048", "superblock-groups", &superblock, said, Came::Whole);
    after("ext4 -O sparse_super2 -g 4096", "superblock-two", &superblock, said, Came::Whole);
    let descriptors = |_: &Path, bytes: &mut [u8]| bytes[2048..3072].fill(0);
    let said = &["group 0: ", "group 1's copy is used"];
    after("ext4", "descriptors", &descriptors, said, Came::Whole);
    after("ext2", "descriptors-ext2", &descriptors, &["group 2: "], Came::Whole);
}

/// The blocks of descriptors: the first one and its copies, in all groups but those past the end.
const DESCRIPTORS: [usize; 2] = [2, 8194];

#[test]
fn tables_are_found_where_mke2fs_puts_them_if_all_copies_are_lost() {
    let all = |_: &Path, bytes: &mut [u8]| {
        DESCRIPTORS.iter().for_each(|block| bytes[block * BLOCK..][..BLOCK].fill(0));
    };
    let said = &["group 0: ", "group 2: ", "nor any copy: its inode table is where mke2fs puts it"];
    for (kind, label) in [
        ("ext4", "tables"),
        ("ext4 -G 2", "tables-flex"),
        ("ext4 -O ^flex_bg", "tables-alone"),
        ("ext4 -O ^metadata_csum,uninit_bg", "tables-uninit"),
        ("ext2", "tables-ext2"),
        ("ext4 -O meta_bg,^resize_inode", "tables-meta"),
        ("ext4 -E packed_meta_blocks=1", "tables-packed"),
    ] {
        after(kind, label, &all, said, Came::Whole);
    }
    // One is known: the others are beside it.
    let but_one = |folder: &Path, bytes: &mut [u8]| {
        let kept: Vec<u8> = bytes[2 * BLOCK + 64..][..64].to_vec();
        all(folder, bytes);
        bytes[2 * BLOCK + 64..][..64].copy_from_slice(&kept);
    };
    after("ext4", "tables-but-one", &but_one, &["group 0: ", "nor any copy"], Came::Whole);
}

/// Without the option those copies are used too, without a word.
#[test]
fn descriptors_of_meta_groups_are_taken_from_their_copies() {
    if !["mke2fs", "e2fsck"].iter().all(|tool| require(tool)) {
        return;
    }
    let scratch = Scratch::new("take-force-meta");
    let folder = scratch.path();
    let files = volume(folder, "ext4 -O meta_bg,^resize_inode");
    let mut bytes = fs::read(folder.join("x.img")).unwrap();
    bytes[2 * BLOCK..][..BLOCK].fill(0xff);
    fs::write(folder.join("x.img"), &bytes).unwrap();
    let taken = take(folder);
    assert!(taken.said.contains("group 0: ") && taken.said.contains("group 1's copy is used"));
    assert_eq!((taken.code, &taken.files), (0, &files), "{}", taken.said);
}

#[test]
fn a_group_whose_table_is_nowhere_is_named_and_the_rest_is_read() {
    let damage = |_: &Path, bytes: &mut [u8]| {
        // Group 1 of a volume without flexible groups: bitmaps, then the table.
        let place = bytes[2 * BLOCK + 32 + 8..][..4].first_chunk().copied().unwrap();
        let table = u32::from_le_bytes(place) as usize;
        DESCRIPTORS.iter().for_each(|block| bytes[block * BLOCK + 32..][..32].fill(0xff));
        let mut numbers = Numbers::new(5);
        bytes[table * BLOCK..][..100 * BLOCK].copy_from_slice(&numbers.bytes(100 * BLOCK));
    };
    let said = &["group 1: ", "its inode table is not found: its inodes are lost"];
    after("ext2", "nowhere", &damage, said, Came::Lost(160));
}

#[test]
fn what_is_lost_is_told_to_programs_too() {
    if !["mke2fs", "e2fsck"].iter().all(|tool| require(tool)) {
        return;
    }
    let scratch = Scratch::new("take-force-json");
    let folder = scratch.path();
    volume(folder, "ext4");
    let mut bytes = fs::read(folder.join("x.img")).unwrap();
    bytes[1024..2048].fill(0);
    let at = place(folder, "/pieces", "ETB0") * BLOCK;
    bytes[at + 12 * 3 + 8..at + 12 * 4].fill(0x7f);
    fs::write(folder.join("x.img"), &bytes).unwrap();
    for words in [
        &["ls", "--json", "--force-read", "x.img:/file-3"][..],
        &["extract", "--json", "--force-read", "x.img", "out"],
        &["tar", "--json", "--force-read", "-o", "x.tar", "x.img"],
        &["diff", "--json", "--force-read", "x.img", "x.img"],
    ] {
        let ended = extant(words, folder);
        let (said, errors) =
            (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        let code = if words[0] == "diff" { 2 } else { 1 };
        assert_eq!(ended.status.code(), Some(code), "{words:?}: {errors}");
        assert!(errors.contains("group 1's copy is used"), "{words:?}: {errors}");
        for line in said.lines() {
            serde_json::from_str::<serde_json::Value>(line)
                .unwrap_or_else(|error| panic!("{words:?}: {error}: {line}"));
        }
        if ["extract", "tar"].contains(&words[0]) {
            let report: serde_json::Value = serde_json::from_str(&said).unwrap();
            let left = report["left_out"].as_array().unwrap();
            assert!(left[0].as_str().unwrap().starts_with("/pieces: "), "{said}");
        }
    }
}

#[test]
fn directories_are_read_without_their_index_and_around_what_is_damaged() {
    let index = |folder: &Path, bytes: &mut [u8]| {
        let at = place(folder, "/many", "0") * BLOCK;
        bytes[at + 0x18..at + 0x60].fill(0xff);
    };
    let said = &["img:/many: block", "of its names: they may be wrong"];
    after("ext4", "index", &index, said, Came::Lost(0));
    let names = |folder: &Path, bytes: &mut [u8]| {
        let at = place(folder, "/", "0") * BLOCK;
        // The length of the fourth record.
        let mut record = at;
        for _ in 0..3 {
            record += usize::from(u16::from_le_bytes([bytes[record + 4], bytes[record + 5]]));
        }
        bytes[record + 4] = 3;
    };
    after("ext4", "names", &names, &["img:/: block", "are lost"], Came::Lost(1));
}

#[test]
fn what_is_lost_of_a_map_is_named_and_the_rest_is_read() {
    let node = |folder: &Path, bytes: &mut [u8]| {
        let at = place(folder, "/pieces", "ETB0") * BLOCK;
        // The block of the third extent: outside the volume.
        bytes[at + 12 * 3 + 8..at + 12 * 4].fill(0x7f);
    };
    let said = &["img:/pieces: bytes", "are lost: some or all of it"];
    after("ext4", "node", &node, said, Came::Lost(1));
    let wild = |folder: &Path, bytes: &mut [u8]| {
        let at = place(folder, "/pieces", "IND") * BLOCK;
        bytes[at..at + 4].fill(0x7f);
        // The inode table of the first group.
        bytes.copy_within(2048 + 8..2048 + 12, at + 8);
    };
    let lost = ["bytes 12288 to 13311 are lost", "bytes 14336 to 15359 are lost"];
    after("ext2", "wild", &wild, &lost, Came::Lost(1));
}

#[test]
fn a_journal_that_cannot_be_replayed_is_left_and_that_is_said() {
    let journal = |folder: &Path, bytes: &mut [u8]| {
        let at = place(folder, "<8>", "0-1023") * BLOCK;
        bytes[at..at + 4].fill(0);
        // It asks for recovery; the checksum of the superblock is wrong after that, too.
        bytes[1024 + 0x60] |= 4;
    };
    after("ext4", "journal", &journal, &["journal: is not replayed"], Came::Lost(0));
}

#[test]
fn an_image_that_is_cut_short_is_read_as_far_as_it_goes() {
    if !["mke2fs", "e2fsck", "debugfs"].iter().all(|tool| require(tool)) {
        return;
    }
    for (kind, label) in [
        ("ext4", "flex"),
        ("ext4 -O ^flex_bg", "alone"),
        ("ext4 -g 1024 -O ^flex_bg", "groups"),
        ("ext2", "ext2"),
    ] {
        let scratch = Scratch::new(&format!("take-force-short-{label}"));
        let folder = scratch.path();
        let files = volume(folder, kind);
        let bytes = fs::read(folder.join("x.img")).unwrap();
        let last = bytes.chunks_exact(BLOCK).rposition(|block| block.starts_with(MARK)).unwrap();
        // The directories come first.
        for blocks in [last + 1, last, last - 60, last - 150] {
            fs::write(folder.join("x.img"), &bytes[..blocks * BLOCK]).unwrap();
            let (code, refused) = refused(&["ls", "x.img:/"], folder);
            assert!(code == 1 && refused.contains("extract --force-read x.img"), "{refused}");
            let taken = take(folder);
            let what = format!("{kind}, {blocks} blocks: {}", taken.said);
            assert!(taken.said.contains("superblock: the image ends at byte"), "{what}");
            let has_groups = taken.said.contains(" to 19: past the end of the image: ");
            assert_eq!(has_groups, kind.contains("-g 1024"), "{what}");
            let mut lost = 0;
            for (name, original) in &files {
                let all = original.chunks(BLOCK);
                match taken.files.get(name) {
                    Some(found) if found == original => {}
                    Some(found) => {
                        lost += 1;
                        assert!(taken.said.contains(name), "{name}: {what}");
                        // What is there is its own, and the rest is zeros.
                        let mut blocks = found.chunks(BLOCK).zip(all);
                        let is_its = |(found, own): (&[u8], &[u8])| {
                            found == own || found.iter().all(|byte| *byte == 0)
                        };
                        assert!(found.len() == original.len() && blocks.all(is_its), "{what}");
                    }
                    None => lost += 1,
                }
            }
            assert_eq!(taken.code, i32::from(lost > 0), "{lost} are lost: {what}");
            assert!(lost < files.len(), "{what}");
            // Free blocks alone were past the end, or some that are used.
            assert!(blocks > last || lost > 0, "{what}");
        }
    }
}

#[test]
fn nothing_is_copied_into_an_image_from_a_damaged_one() {
    let scratch = Scratch::new("take-force-into");
    let folder = scratch.path();
    let words = ["cp", "--force-read", "x.img:/file", "y.img:/"];
    let (code, said) = refused(&words, folder);
    assert!(code == 2 && said.contains("copy it out to a folder first"), "{said}");
}

/// Damage at random to all that is not data.
#[test]
fn no_file_has_bytes_that_are_not_its_own_without_a_line() {
    if !["mke2fs", "e2fsck", "debugfs"].iter().all(|tool| require(tool)) {
        return;
    }
    let scratch = Scratch::new("take-force-random");
    let folder = scratch.path();
    let files = volume(folder, "ext4");
    let fresh = fs::read(folder.join("x.img")).unwrap();
    let mut inodes = BTreeMap::new();
    for name in files.keys() {
        let said = debugfs(folder, &format!("stat /{name}"));
        let digits = said.split("Inode: ").nth(1).and_then(|rest| rest.split(' ').next());
        inodes.insert(name, digits.unwrap().parse::<u32>().unwrap());
    }
    let is_data = |block: &[u8]| block.starts_with(MARK);
    let used: Vec<usize> = (1..fresh.len() / BLOCK)
        .filter(|block| {
            let bytes = &fresh[block * BLOCK..][..BLOCK];
            !is_data(bytes) && bytes.iter().any(|byte| *byte != 0)
        })
        .collect();
    let (mut whole, rounds) = (0, number("EXTANT_FORCE_ROUNDS"));
    for seed in 0..rounds {
        let mut numbers = Numbers::new(seed);
        let mut bytes = fresh.clone();
        for _ in 0..1 + numbers.below(6) {
            let at = used[numbers.below(used.len() as u64) as usize] * BLOCK;
            let from = at + numbers.below(BLOCK as u64) as usize;
            match numbers.below(4) {
                0 => bytes[at..at + BLOCK].fill(0),
                1 => bytes[from..at + BLOCK].fill(numbers.below(256) as u8),
                2 => {
                    let other = used[numbers.below(used.len() as u64) as usize] * BLOCK;
                    bytes.copy_within(other..other + BLOCK, at);
                }
                _ => bytes[from] ^= 1 << numbers.below(8),
            }
        }
        fs::write(folder.join("x.img"), &bytes).unwrap();
        let taken = take(folder);
        for (name, original) in &files {
            match taken.files.get(name) {
                Some(bytes) if bytes == original => whole += 1,
                Some(_) => assert!(
                    names(&taken.said, name, inodes[name]),
                    "seed {seed}: {name} is wrong without a line: {}",
                    taken.said
                ),
                None => assert_eq!(taken.code, 1, "seed {seed}: {name} is missing"),
            }
        }
    }
    assert!(whole as u64 > rounds * files.len() as u64 / 2, "{whole} files came out");
}
