//! A table of option strings: mke2fs of Debian and ours make a volume each, and every byte is
//! compared. The verdict of each row is in the table, and has to be exactly what is found.
use crate::names::around::noise;
use crate::names::{HASH_SEED, UUID, extant, run, theirs};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const TABLE: &str = include_str!("option_strings.txt");
const PIECE: u64 = 65536;
/// Bytes that a file of noise has before a volume at an offset, and after it.
const AROUND: u64 = 1 << 20;

/// A row.
#[derive(Debug)]
pub struct Row {
    pub verdict: String,
    pub program: String,
    pub size: String,
    pub options: Vec<String>,
    /// What is indented below it.
    pub more: String,
}

/// All rows.
pub fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        if line.starts_with(' ') {
            let row = rows.last_mut().expect("a row above what is indented");
            row.more = line.trim().to_owned();
            continue;
        }
        let mut words = line.split_whitespace().map(str::to_owned);
        let mut word = || words.next().unwrap_or_else(|| panic!("{line}: too short"));
        let (verdict, program, size) = (word(), word(), word());
        rows.push(Row { verdict, program, size, options: words.collect(), more: String::new() });
    }
    rows
}

/// The words of a row: mke2fs takes the last -E only, so the hash seed goes into it.
pub fn words(row: &Row) -> Vec<String> {
    let mut words = vec!["-q".to_owned(), "-F".to_owned(), "-U".to_owned(), UUID.to_owned()];
    let mut extended = HASH_SEED.to_owned();
    let mut options = row.options.iter();
    while let Some(option) = options.next() {
        match option.as_str() {
            "-E" => extended = format!("{extended},{}", options.next().expect("a value of -E")),
            _ => words.push(option.clone()),
        }
    }
    words.extend(["-E".to_owned(), extended]);
    words
}

/// -E offset of a row, in bytes; 0 without.
pub fn offset_bytes(row: &Row) -> u64 {
    let words = row.options.iter().flat_map(|option| option.split(','));
    let offset = words.filter_map(|word| word.strip_prefix("offset=")).next();
    offset.map_or(0, |bytes| bytes.parse().expect("bytes"))
}

/// Files that are there before a volume is put into them at an offset hold noise all over.
fn fill_around(row: &Row, images: [&Path; 2]) {
    let offset = offset_bytes(row);
    let size = row.size.strip_suffix('M').and_then(|size| size.parse::<u64>().ok());
    if offset > 0 {
        let size = size.expect("a size in MiB, with an offset") << 20;
        for image in images {
            std::fs::write(image, noise(offset + size + AROUND)).unwrap();
        }
    }
}

#[test]
fn each_option_string_has_its_verdict() {
    if !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("option-strings");
    let [theirs_folder, ours_folder] = ["theirs", "ours"].map(|name| folder.join(name));
    for path in [&theirs_folder, &ours_folder] {
        std::fs::create_dir(path).unwrap();
    }
    let (mut wrong, mut counts) = (Vec::new(), std::collections::BTreeMap::new());
    let one_in = number("EXTANT_CASES") as i32;
    for row in rows().into_iter().step_by(one_in as usize) {
        let shown = format!("{} {} {}", row.program, row.options.join(" "), row.size);
        let [their_image, our_image] = [&theirs_folder, &ours_folder].map(|at| at.join("x.img"));
        let _ = [&their_image, &our_image].map(std::fs::remove_file);
        fill_around(&row, [&their_image, &our_image]);
        let words = words(&row);
        // Beside each other: some volumes hold the name by which they were made.
        let mut command = theirs(&row.program);
        let (their_code, their_words) =
            run(command.current_dir(&theirs_folder).args(&words).args(["x.img", &row.size]));
        let mut command = extant(&row.program);
        let (our_code, our_words) =
            run(command.current_dir(&ours_folder).args(&words).args(["x.img", &row.size]));
        let found = match (their_code, our_code) {
            (Some(0), Some(0)) => {
                let places = compare(&their_image, &our_image);
                match places.is_empty() {
                    true => "identical".to_owned(),
                    false => format!("differing in: {}", places.join(", ")),
                }
            }
            (_, Some(1)) => format!("refused says: {}", our_words.trim()),
            (Some(1), Some(0)) => format!("made mke2fs says: {}", their_words.trim()),
            _ => panic!("{shown}: {their_code:?} {their_words}; {our_code:?} {our_words}"),
        };
        let asked = match row.verdict.as_str() {
            "identical" => found == "identical",
            // What follows the semicolon is the reason.
            "differing" => {
                let (places, why) = row.more.split_once("; ").expect("places; why");
                !why.is_empty() && found == format!("differing {places}")
            }
            "refused" => {
                let reason = row.more.strip_prefix("says: ").expect("what is said");
                found.starts_with("refused") && found.contains(reason)
            }
            "made" => {
                let (said, why) = row.more.split_once("; ").expect("what is said; why");
                let said = said.strip_prefix("mke2fs says: ").expect("what mke2fs says");
                !why.is_empty() && found.starts_with("made") && found.contains(said)
            }
            other => panic!("{shown}: {other} is no verdict"),
        };
        *counts.entry(row.verdict.clone()).or_insert(0) += 1;
        if !asked {
            wrong.push(format!("{shown}\n  is to be {} {}\n  is {found}", row.verdict, row.more));
        }
    }
    println!("{counts:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(counts.values().sum::<i32>() * one_in >= 100, "{counts:?}");
    assert!(counts.get("identical").is_some_and(|count| count * one_in >= 100), "{counts:?}");
}

/// The places in which two images differ: fields of the superblock (of its copies too), the block
/// of mmp, or bytes.
pub fn compare(theirs: &Path, ours: &Path) -> Vec<String> {
    let files = [theirs, ours].map(|path| File::open(path).unwrap());
    let lengths = [0, 1].map(|at: usize| files[at].metadata().unwrap().len());
    if lengths[0] != lengths[1] {
        return vec![format!("length {} and {}", lengths[0], lengths[1])];
    }
    let mut places = BTreeSet::new();
    let mut at = 0;
    while at < lengths[0] {
        let next = |file: &File| {
            rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)).unwrap_or(lengths[0])
        };
        at = files.iter().map(next).min().unwrap_or(lengths[0]).min(lengths[0]);
        at = at / PIECE * PIECE;
        let length = PIECE.min(lengths[0] - at.min(lengths[0]));
        let pieces = [0, 1].map(|which: usize| {
            let mut bytes = vec![0; length as usize];
            files[which].read_exact_at(&mut bytes, at).unwrap();
            bytes
        });
        if pieces[0] != pieces[1] {
            name(at, &pieces[0], &pieces[1], &mut places);
        }
        at += PIECE;
        if places.len() > 20 {
            places.insert("and more".to_owned());
            break;
        }
    }
    places.into_iter().collect()
}

/// Names the kilobytes of a piece that differ.
fn name(start: u64, theirs: &[u8], ours: &[u8], places: &mut BTreeSet<String>) {
    for (index, (their, our)) in theirs.chunks(1024).zip(ours.chunks(1024)).enumerate() {
        if their == our {
            continue;
        }
        let differs = |at: &usize| their.get(*at) != our.get(*at);
        let is_superblock = their.get(56..58) == Some(&[0x53, 0xef]);
        let is_mount_block = their.get(..4) == Some(&[0x50, 0x4d, 0x4d, 0x00]);
        for at in (0..their.len()).filter(differs) {
            places.insert(match (is_superblock, is_mount_block, at) {
                (true, _, 0x178..0x180) => "superblock kbytes_written".to_owned(),
                (true, _, 0x3fc..) => "superblock checksum".to_owned(),
                (true, ..) => format!("superblock byte {at:#x}"),
                (_, true, _) => "block of mmp".to_owned(),
                // The first byte stands for the others of its kilobyte.
                _ => {
                    places.insert(format!("byte {}", start + index as u64 * 1024 + at as u64));
                    break;
                }
            });
        }
    }
}
