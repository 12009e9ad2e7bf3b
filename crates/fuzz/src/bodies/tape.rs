//! Archives: tar of every dialect, cpio, Debian packages, plain and compressed.
use extant_archive::{Bodies, Content, NewContent, NewEntry, Reader, Writer, clean_path};
use extant_format::inode::{FileType, Time};
use extant_tree::{Described, Facts};
use std::hint::black_box;
use std::io::Cursor;

/// Entries of one archive that are read.
const ENTRIES_MAX: usize = 2000;

fn entry(path: &[u8], content: NewContent<'_>, writer: &mut Writer<Vec<u8>>) -> Option<()> {
    let facts = Facts { permissions: 0o644, uid: 1 << 22, gid: 7, ..Facts::default() };
    let mut described = Described::from(facts);
    described.modify_time = Time { seconds: -5, nanoseconds: 9 };
    let body = [7; 3000];
    let entry = NewEntry { path, described: &described, content };
    writer.append(&entry, &mut &body[..]).ok()
}

/// An archive of some entries, with a long name and a large owner.
fn plain() -> Option<Vec<u8>> {
    let mut writer = Writer::new(Vec::new());
    entry(b"folder", NewContent::Directory, &mut writer);
    entry(b"folder/file", NewContent::File { size: 3000 }, &mut writer)?;
    entry(&[b'n'; 300], NewContent::File { size: 3000 }, &mut writer)?;
    writer.finish().ok()
}

/// Archives of several dialects.
pub fn archives() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = plain().into_iter().collect();
    all.push(cpio());
    all.push(sparse());
    all
}

fn cpio() -> Vec<u8> {
    let entry = |name: &str, mode: u32, body: &[u8]| {
        let numbers =
            [1, mode, 0, 0, 1, 0, body.len() as u32, 8, 1, 0, 0, name.len() as u32 + 1, 0];
        let mut bytes = b"070701".to_vec();
        numbers.iter().for_each(|number| bytes.extend(format!("{number:08x}").bytes()));
        bytes.extend(name.bytes());
        bytes.push(0);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    [
        entry("folder", 0o040_755, b""),
        entry("folder/file", 0o100_644, b"content"),
        entry("link", 0o120_777, b"folder"),
        entry("TRAILER!!!", 0, b""),
    ]
    .concat()
}

/// A header of GNU tar of a file with holes, and its checksum.
fn sparse() -> Vec<u8> {
    let mut header = [0_u8; 512];
    let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
    put(0, b"sparse");
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, b"00000001000\0");
    put(136, b"14000000000\0");
    put(148, b"        ");
    put(156, b"S");
    put(257, b"ustar  \0");
    put(386, b"00000000000\x0000000001000\0");
    put(410, b"00000010000\x0000000000000\0");
    put(483, b"00000010000\0");
    seal(&mut header);
    [&header[..], &[5; 512], &[0; 1024]].concat()
}

/// Stores the checksum of a header.
fn seal(header: &mut [u8]) {
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// An archive as it came, and one whose headers have the checksums that are asked for.
pub fn archive(input: &[u8]) {
    read(input.to_vec());
    let mut sealed = input.to_vec();
    for block in sealed.chunks_exact_mut(512) {
        if block[257..].starts_with(b"ustar") {
            seal(block);
        }
    }
    if sealed != input {
        read(sealed);
    }
}

fn read(bytes: Vec<u8>) {
    let keep = Bodies::Keep { spool_folder: None };
    let Ok(mut reader) = Reader::from_stream(Cursor::new(bytes), &keep) else { return };
    let mut bodies = Vec::new();
    for _ in 0..ENTRIES_MAX {
        match reader.next_entry() {
            Ok(Some(entry)) => {
                if let Ok(path) = &entry.path {
                    assert!(!path.starts_with(b"/") && !path.split(|b| *b == b'/').any(is_up));
                }
                match entry.content {
                    Content::File(body) => bodies.push(body),
                    Content::HardLink { target } => drop(black_box(clean_path(&target))),
                    _ => {}
                }
            }
            Ok(None) => break,
            Err(error) => {
                black_box(error.to_string());
                break;
            }
        }
    }
    let mut buffer = vec![0; 10_000];
    for body in bodies.iter().take(100) {
        assert!(body.stored_bytes() <= body.size, "{body:?}");
        for offset in [0, body.size / 2, body.size] {
            let _ = reader.read_body(body, offset, &mut buffer);
        }
    }
    black_box((reader.end(), FileType::Regular));
}

fn is_up(part: &[u8]) -> bool {
    part == b".."
}
