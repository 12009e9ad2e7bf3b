//! What was written is read, and what no writer wrote is refused.
mod packed;

use crate::*;
use extant_format::attribute::Attribute;
use extant_format::inode::{Device, FileType, Time};
use extant_tree::{Described, Facts};
use std::io::{self, Cursor, Seek, Write};

const KEEP: Bodies = Bodies::Keep { spool_folder: None };

fn described() -> Described {
    let facts = Facts {
        permissions: 0o4755,
        uid: 70_000,
        gid: 1 << 30,
        modify_time: Time { seconds: -5, nanoseconds: 25 },
        access_time: Some(Time { seconds: 1 << 34, nanoseconds: 0 }),
        ..Facts::default()
    };
    let attribute = Attribute { name: b"user.a=%b".to_vec(), value: vec![0, 10, 255] };
    Described { facts, attributes: vec![attribute] }
}

fn archive() -> Vec<u8> {
    let (described, long) = (described(), [b'n'; 300]);
    let mut writer = Writer::new(Vec::new());
    let device = Device { major: 8, minor: 70_000 };
    for (path, content) in [
        (&b""[..], NewContent::Directory),
        (b"a/file", NewContent::File { size: 700 }),
        (&long, NewContent::Fifo),
        (b"link", NewContent::Symlink { target: &long }),
        (b"hard", NewContent::HardLink { target: b"a/file" }),
        (b"block", NewContent::BlockDevice(device)),
    ] {
        let entry = NewEntry { path, described: &described, content };
        writer.append(&entry, &mut Cursor::new([b'x'; 700])).unwrap();
    }
    let pieces = [4096..4100, 9000..9001];
    writer
        .append_sparse(b"holes", &described, 10_000, &pieces, &mut Cursor::new(b"abcde"))
        .unwrap();
    writer.finish().unwrap()
}

fn read(bytes: Vec<u8>, bodies: &Bodies) -> Result<(Reader, Vec<Entry>), ReadError> {
    let mut reader = Reader::from_stream(Cursor::new(bytes), bodies)?;
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        entries.push(entry);
    }
    Ok((reader, entries))
}

fn check(mut reader: Reader, entries: &[Entry]) {
    assert_eq!(reader.end(), Some(End::Marked));
    let paths: Vec<&[u8]> = entries.iter().map(|entry| &entry.path.as_ref().unwrap()[..]).collect();
    let long = [b'n'; 300];
    assert_eq!(paths, [&b""[..], b"a/file", &long, b"link", b"hard", b"block", b"holes"]);
    assert!(entries.iter().all(|entry| entry.unkept == Unkept::default()));
    for entry in entries.iter().filter(|entry| entry.path.as_deref() != Ok(b"hard")) {
        let mut described = described();
        (described.file_type, described.size) = match &entry.content {
            Content::File(body) => (FileType::Regular, body.size),
            Content::Directory => (FileType::Directory, 0),
            Content::Fifo => (FileType::Fifo, 0),
            Content::Symlink { target } => (FileType::Symlink, target.len() as u64),
            _ => (FileType::BlockDevice, 0),
        };
        if described.file_type == FileType::BlockDevice {
            described.device = Device { major: 8, minor: 70_000 };
        }
        assert_eq!(entry.described.as_ref(), Some(&described));
    }
    assert_eq!(entries[4].content, Content::HardLink { target: b"a/file".to_vec() });
    assert_eq!(entries[5].content, Content::BlockDevice(Device { major: 8, minor: 70_000 }));
    let Content::File(body) = &entries[6].content else { panic!("{:?}", entries[6]) };
    assert_eq!((body.size, body.stored_bytes()), (10_000, 5));
    let mut bytes = vec![b'?'; 6000];
    reader.read_body(body, 4098, &mut bytes).unwrap();
    assert_eq!((&bytes[..3], bytes[9000 - 4098]), (&b"cd\0"[..], b'e'));
    assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 3);
}

#[test]
fn what_is_written_is_read_from_a_stream_and_from_a_file() {
    let (reader, entries) = read(archive(), &KEEP).unwrap();
    check(reader, &entries);
    let mut file = tempfile::tempfile().unwrap();
    // What is in front of an archive, in a file that is positioned at it, is not looked at.
    file.write_all(b"before").unwrap();
    file.write_all(&archive()).unwrap();
    file.seek(io::SeekFrom::Start(6)).unwrap();
    let mut reader = Reader::new(file, &KEEP).unwrap();
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry().unwrap() {
        entries.push(entry);
    }
    assert_eq!(reader.position(), archive().len() as u64);
    check(reader, &entries);
}

#[test]
fn skipped_bodies_are_not_there() {
    let (mut reader, entries) = read(archive(), &Bodies::Skip).unwrap();
    let Content::File(body) = &entries[1].content else { panic!("{:?}", entries[1]) };
    assert_eq!(body.size, 700);
    let refusal = reader.read_body(body, 0, &mut [0]).unwrap_err();
    assert_eq!(refusal.kind(), io::ErrorKind::Unsupported);
}

#[test]
fn an_error_has_its_entry_and_its_byte() {
    let mut bytes = archive();
    let (_, entries) = read(bytes.clone(), &KEEP).unwrap();
    assert_eq!(entries.len(), 7);
    bytes.truncate(3072 + 100);
    let error = read(bytes, &KEEP).err().unwrap();
    assert!(matches!(error.kind, ErrorKind::Truncated), "{error}");
    assert_eq!((error.entry.as_deref(), error.last_whole), (Some(&b"a/file"[..]), None));
    assert_eq!(error.offset, 2560);
    let error = read(b"no archive at all".repeat(40), &KEEP).err().unwrap();
    assert_eq!(error.to_string(), "is not a tar archive");
    assert!(begins_with_header(&archive()) && !begins_with_header(&[b'x'; 600]));
    assert!(matches!(read(Vec::new(), &KEEP).err().unwrap().kind, ErrorKind::Empty));
}

#[test]
fn a_path_that_leads_out_is_an_error_in_place_of_the_path() {
    let described = Described::default();
    let mut writer = Writer::new(Vec::new());
    let content = NewContent::File { size: 0 };
    let entry = NewEntry { path: b"../etc/passwd", described: &described, content };
    writer.append(&entry, &mut io::empty()).unwrap();
    let (_, entries) = read(writer.finish().unwrap(), &KEEP).unwrap();
    assert_eq!(entries[0].path.as_ref().unwrap_err().reason, PathFault::LeadsOut);
}

/// A header with its checksum, and the blocks of a body.
fn entry(name: &str, letter: u8, size: usize, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes[100..107].copy_from_slice(b"0000644");
    bytes[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    bytes[156] = letter;
    bytes[257..265].copy_from_slice(b"ustar\x0000");
    mend_checksum(&mut bytes, 0);
    bytes.extend_from_slice(body);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn records(words: &[&str]) -> Vec<u8> {
    let record = |word: &&str| {
        let length = (1..).find(|length| length + word.len() + 2 < 10_usize.pow(*length as u32));
        format!("{} {word}\n", length.unwrap() + word.len() + 2)
    };
    words.iter().map(record).collect::<String>().into_bytes()
}

/// bsdtar wrote the size with its holes into the extended header, and what is stored into the
/// header itself: of 1.0, where it matters, and of the older forms.
#[test]
fn a_size_with_holes_in_the_extended_header_is_not_what_is_stored() {
    let front = b"2\n0\n3\n9000\n2\n";
    let mut stored = front.to_vec();
    stored.resize(512, 0);
    stored.extend_from_slice(b"abcde");
    let named = ["GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=holes"];
    let old = ["GNU.sparse.map=0,3,9000,2", "GNU.sparse.size=10000"];
    for (size, own) in [(10_000, stored.len()), (stored.len(), 0), (stored.len(), stored.len())] {
        let size = format!("size={size}");
        let real = "GNU.sparse.realsize=10000";
        let words = [&named[..], &[real, &size]].concat();
        check_holes(&words, own, &stored);
    }
    check_holes(&[&old[..], &["size=10000"]].concat(), 5, b"abcde");
    check_holes(&[&old[..], &["size=5"]].concat(), 0, b"abcde");
    // Where neither fits, nothing is guessed.
    let words = [&named[..], &["GNU.sparse.realsize=10000", "size=10000"]].concat();
    let archive =
        [entry("p", b'x', records(&words).len(), &records(&words)), entry("f", b'0', 600, &stored)]
            .concat();
    let error = read(archive, &KEEP).err().unwrap();
    assert!(matches!(error.kind, ErrorKind::Corrupt(Corruption::Map(MapFault::Sum))), "{error}");
}

fn check_holes(words: &[&str], own: usize, stored: &[u8]) {
    let records = records(words);
    let archive = [
        entry("p", b'x', records.len(), &records),
        entry("f", b'0', own, stored),
        entry("after", b'0', 1, b"z"),
        vec![0; 1024],
    ]
    .concat();
    let (mut reader, entries) = read(archive, &KEEP).unwrap();
    assert_eq!(entries[1].path.as_deref(), Ok(&b"after"[..]), "{words:?}");
    let Content::File(body) = &entries[0].content else { panic!("{:?}", entries[0]) };
    assert_eq!((body.size, body.pieces.as_deref()), (10_000, Some(&[0..3, 9000..9002][..])));
    let mut bytes = vec![b'?'; 10_000];
    reader.read_body(body, 0, &mut bytes).unwrap();
    assert_eq!((&bytes[..4], &bytes[9000..9003]), (&b"abc\0"[..], &b"de\0"[..]), "{words:?}");
}

/// One header of cpio, its name and its content.
fn newc(name: &str, ino: u32, links: u32, mode: u32, content: &[u8]) -> Vec<u8> {
    let numbers =
        [ino, mode, 7, 8, links, 9, content.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
    let mut bytes = b"070701".to_vec();
    numbers.iter().for_each(|number| bytes.extend_from_slice(format!("{number:08X}").as_bytes()));
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[test]
fn names_of_one_file_in_cpio_wait_for_its_content() {
    let file = 0o100_644;
    let archive = [
        newc("../out", 5, 4, file, b""),
        newc("one", 5, 4, file, b""),
        newc("two", 5, 4, file, b"content"),
        newc("three", 5, 4, file, b""),
        newc("empty", 6, 2, file, b""),
        newc("/dev/../../x", 7, 2, file, b"kept"),
        newc("good", 7, 2, file, b""),
        newc("socket", 8, 1, 0o140_755, b""),
        newc("TRAILER!!!", 0, 1, 0, b""),
    ]
    .concat();
    let (mut reader, entries) = read(archive, &KEEP).unwrap();
    let find = |name: &[u8]| entries.iter().find(|it| it.path.as_deref() == Ok(name)).unwrap();
    let mut content = |name: &[u8]| {
        let Content::File(body) = &find(name).content else { panic!("{name:?}") };
        let mut bytes = vec![0; body.size as usize];
        reader.read_body(body, 0, &mut bytes).unwrap();
        bytes
    };
    assert_eq!(content(b"one"), b"content");
    assert_eq!(content(b"good"), b"kept");
    assert_eq!(content(b"empty"), b"");
    for name in [&b"two"[..], b"three"] {
        assert_eq!(find(name).content, Content::HardLink { target: b"one".to_vec() });
    }
    assert_eq!(find(b"socket").content, Content::Socket);
    assert_eq!(entries.iter().filter(|entry| entry.path.is_err()).count(), 2);
    assert_eq!(entries.len(), 8);
}

/// All that is no directory has several names; not where only the numbers are the same.
#[test]
fn names_of_one_pipe_device_or_link_in_cpio_are_one() {
    let (fifo, socket, link) = (0o010_600, 0o140_755, 0o120_777);
    let (character, block) = (0o020_600, 0o060_600);
    let mut archive = Vec::new();
    for (ino, mode, content) in
        [(3, fifo, ""), (4, socket, ""), (5, link, "x"), (6, character, ""), (7, block, "")]
    {
        archive.extend(newc("../out", ino, 3, mode, content.as_bytes()));
        archive.extend(newc(&format!("{ino}a"), ino, 3, mode, content.as_bytes()));
        archive.extend(newc(&format!("{ino}b"), ino, 3, mode, content.as_bytes()));
        archive.extend(newc(&format!("{ino}one"), ino, 1, mode, content.as_bytes()));
    }
    archive.extend(newc("other", 5, 3, link, b"y"));
    archive.extend(newc("pipe-of-5", 5, 3, fifo, b""));
    archive.extend(newc("TRAILER!!!", 0, 1, 0, b""));
    let (_, entries) = read(archive, &KEEP).unwrap();
    let links: Vec<(&[u8], &[u8])> = entries
        .iter()
        .filter_map(|entry| match &entry.content {
            Content::HardLink { target } => Some((entry.path.as_deref().unwrap(), &target[..])),
            _ => None,
        })
        .collect();
    let expected = ["3", "4", "5", "6", "7"].map(|ino| (format!("{ino}b"), format!("{ino}a")));
    let expected: Vec<(&[u8], &[u8])> =
        expected.iter().map(|(name, target)| (name.as_bytes(), target.as_bytes())).collect();
    assert_eq!(links, expected);
    assert_eq!(entries.len(), 22);
}

/// A package is shorter than the header of its member says: no byte of it may be missing, whatever
/// the archive in it looks like.
#[test]
fn a_package_that_is_cut_off_is_refused_at_every_byte() {
    let plain = archive();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    let gzip = gzip.finish().unwrap();
    // More zeros after the end than are looked at, and an archive without its end.
    let padded = [&plain[..], &vec![0; 3 << 20]].concat();
    let last = plain.iter().rposition(|byte| *byte != 0).unwrap();
    let unmarked = plain[..last.next_multiple_of(512)].to_vec();
    let odd = [&plain[..], &[0]].concat();
    for (member, step) in [(plain, 64), (gzip, 1), (padded, 1 << 19), (unmarked, 64), (odd, 64)] {
        let mut whole = b"!<arch>\n".to_vec();
        for (name, body) in [("debian-binary", &b"2.0\n"[..]), ("data.tar", &member)] {
            let rest = format!("{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, "100644", body.len());
            whole.extend_from_slice(format!("{name:<16}{rest}").as_bytes());
            whole.extend_from_slice(body);
        }
        let opened = |length: usize| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&whole[..length]).unwrap();
            file.rewind().unwrap();
            let mut reader = Reader::new(file, &KEEP)?;
            let mut count = 0;
            while reader.next_entry()?.is_some() {
                count += 1;
            }
            Ok::<usize, ReadError>(count)
        };
        // The byte that fills up an odd member is not asked for.
        assert_eq!(opened(whole.len()).unwrap(), 7);
        let start = whole.len() - member.len();
        for length in (start..whole.len()).step_by(step).chain([whole.len() - 1]) {
            let kind = opened(length).map_err(|error| error.kind);
            assert!(matches!(kind, Err(ErrorKind::Truncated)), "{length}: {kind:?}");
        }
    }
}

#[test]
fn what_cpio_says_that_cannot_be_is_refused() {
    let good = newc("a", 1, 1, 0o100_644, b"12345");
    let with = |at: usize, text: &[u8]| {
        let mut bytes = [&good[..], &newc("TRAILER!!!", 0, 1, 0, b"")].concat();
        bytes[at..at + text.len()].copy_from_slice(text);
        read(bytes, &KEEP).err().map(|error| error.kind)
    };
    assert!(with(0, b"070701").is_none());
    for (at, text) in [
        (14, &b"0000f1ff"[..]), // a type that is none
        (14, b"x0000000"),
        (94, b"00000000"), // no name
        (94, b"FFFFFFFF"), // four GiB of it
        (111, b"x"),       // a name without its end
        (120, b"070702"),
    ] {
        let kind = with(at, text);
        assert!(matches!(kind, Some(ErrorKind::Corrupt(_))), "{at}: {kind:?}");
    }
    // A size that does not come takes no memory.
    assert!(matches!(with(54, b"FFFFFFF0"), Some(ErrorKind::Truncated)));
}

/// Damage in what compresses is an error or other bytes, never a panic, and no end before the end.
#[test]
fn damaged_bzip2_and_lz4_neither_panic_nor_hang() {
    let plain: Vec<u8> = (0..60_000_u32).flat_map(|n| (n / 7 % 251).to_le_bytes()).collect();
    let lz4 = |mode| {
        let info = lz4_flex::frame::FrameInfo::new().block_mode(mode).content_checksum(true);
        let mut writer = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
        writer.write_all(&plain).unwrap();
        writer.finish().unwrap()
    };
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip2.write_all(&plain).unwrap();
    use lz4_flex::frame::BlockMode;
    let streams = [bzip2.finish().unwrap(), lz4(BlockMode::Independent), lz4(BlockMode::Linked)];
    let unpacked = |bytes: &[u8]| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let mut out = Vec::new();
        let read = Decompressed::open(file)
            .unwrap()
            .map(|mut it| io::Read::read_to_end(&mut it, &mut out));
        (read.map(|read| read.map_err(|error| error.kind())), out)
    };
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    for whole in &streams {
        let (read, out) = unpacked(whole);
        assert!(read == Some(Ok(plain.len())) && out == plain);
        for cut in (12..whole.len()).step_by(whole.len() / 300 + 1) {
            let (read, _) = unpacked(&whole[..cut]);
            assert_eq!(read, Some(Err(io::ErrorKind::UnexpectedEof)), "{cut} of {}", whole.len());
        }
        for _ in 0..300 {
            let mut bytes = whole.clone();
            for _ in 0..1 + random(4) {
                let at = 4 + random(bytes.len() - 4);
                bytes[at] = random(256) as u8;
            }
            let (read, out) = unpacked(&bytes);
            let failed = matches!(
                read,
                None | Some(Err(io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof))
            );
            assert!(failed || out == plain, "{read:?}");
        }
    }
}

/// Whatever is changed in an archive, reading it ends, in entries or in an error.
#[test]
fn damaged_archives_neither_panic_nor_hang() {
    let whole = archive();
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for round in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..1 + round % 4 {
            let at = random(bytes.len());
            bytes[at] = random(256) as u8;
            mend_checksum(&mut bytes, at / 512 * 512);
        }
        if round % 8 == 0 {
            bytes.truncate(random(bytes.len()));
        }
        let bodies = if round % 2 == 0 { Bodies::Skip } else { KEEP };
        if let Ok((mut reader, entries)) = read(bytes, &bodies) {
            for entry in entries {
                if let Content::File(body) = entry.content {
                    let _ = reader.read_body(&body, 0, &mut [0; 64]);
                }
            }
        }
    }
}

/// Makes the changed block a valid header, so that what it says is looked at.
fn mend_checksum(bytes: &mut [u8], start: usize) {
    let block = &mut bytes[start..start + 512];
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
}
