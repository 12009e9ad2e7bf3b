//! What was written is read, and what no writer wrote is refused.
use crate::*;
use extant_format::attribute::Attribute;
use extant_format::inode::{Device, Time};
use std::io::{self, Cursor, Seek, Write};

const KEEP: Bodies = Bodies::Keep { spool_folder: None };

fn facts() -> Facts {
    Facts {
        permissions: 0o4755,
        uid: 70_000,
        gid: 1 << 30,
        modify_time: Time { seconds: -5, nanoseconds: 25 },
        access_time: Some(Time { seconds: 1 << 34, nanoseconds: 0 }),
        change_time: None,
        attributes: vec![Attribute { name: b"user.a=%b".to_vec(), value: vec![0, 10, 255] }],
    }
}

fn archive() -> Vec<u8> {
    let (facts, long) = (facts(), [b'n'; 300]);
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
        let entry = NewEntry { path, facts: &facts, content };
        writer.append(&entry, &mut Cursor::new([b'x'; 700])).unwrap();
    }
    let pieces = [4096..4100, 9000..9001];
    writer.append_sparse(b"holes", &facts, 10_000, &pieces, &mut Cursor::new(b"abcde")).unwrap();
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
        assert_eq!(entry.facts.as_ref(), Some(&facts()));
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
    let facts = Facts::default();
    let mut writer = Writer::new(Vec::new());
    let content = NewContent::File { size: 0 };
    let entry = NewEntry { path: b"../etc/passwd", facts: &facts, content };
    writer.append(&entry, &mut io::empty()).unwrap();
    let (_, entries) = read(writer.finish().unwrap(), &KEEP).unwrap();
    assert_eq!(entries[0].path.as_ref().unwrap_err().reason, PathFault::LeadsOut);
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
