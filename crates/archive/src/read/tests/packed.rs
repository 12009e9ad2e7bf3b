//! Compressed streams of several parts, with something in front of them, between or after them.
use super::{KEEP, archive};
use crate::*;
use std::io::{self, Cursor, Read, Write};

/// A frame that every decompressor passes over.
const SKIPPABLE: &[u8] = b"\x5a\x2a\x4d\x18\x05\0\0\0\x04\x22\x4d\x18\x00";

fn plain() -> Vec<u8> {
    (0..60_000_u32).flat_map(|n| (n / 7 % 251).to_le_bytes()).collect()
}

fn lz4(content: &[u8]) -> Vec<u8> {
    let mut writer = lz4_flex::frame::FrameEncoder::new(Vec::new());
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

/// As `lz4 -l` writes it.
fn old_lz4(content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x02, 0x21, 0x4c, 0x18];
    for block in content.chunks(8 << 20) {
        let packed = lz4_flex::block::compress(block);
        bytes.extend_from_slice(&(packed.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&packed);
    }
    bytes
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

fn bzip2(content: &[u8]) -> Vec<u8> {
    let mut writer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

/// What a file holds; the kind of the error that comes before its end.
fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, io::ErrorKind> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let mut out = Vec::new();
    let mut reader = Decompressed::open(file).unwrap().expect("compressed");
    reader.read_to_end(&mut out).map_err(|error| error.kind())?;
    Ok(out)
}

#[test]
fn frames_of_lz4_in_every_order_and_those_that_are_passed_over() {
    let content = plain();
    let (half, rest) = content.split_at(70_001);
    let zstd = |content: &[u8]| zstd::bulk::compress(content, 1).unwrap();
    for parts in [
        &[SKIPPABLE, &lz4(&content)][..],
        &[SKIPPABLE, SKIPPABLE, &old_lz4(&content)],
        &[SKIPPABLE, &zstd(half), SKIPPABLE, &zstd(rest)],
        &[&lz4(half), SKIPPABLE, &lz4(rest), SKIPPABLE],
        &[&old_lz4(half), &lz4(rest)],
        &[&old_lz4(half), &old_lz4(rest)],
        &[&old_lz4(half), SKIPPABLE, &lz4(rest), &[0; 600]],
        &[&lz4(half), &old_lz4(rest), &[0; 600]],
    ] {
        let whole = parts.concat();
        assert!(unpacked(&whole).unwrap() == content, "{:x?}", &whole[..20]);
        let kind = unpacked(&[&whole[..], b"garbage"].concat());
        let kind = kind.map(|out| out.len());
        // Seven bytes are less than a frame of zstd has, or a block of the old form.
        let expected = [Err(io::ErrorKind::InvalidData), Err(io::ErrorKind::UnexpectedEof)];
        let is_other = matches!(kind, Err(io::ErrorKind::Other));
        assert!(expected.contains(&kind) || is_other, "{kind:?}");
    }
    // Within a frame that is passed over, and before the first other one.
    for cut in 8..SKIPPABLE.len() {
        assert_eq!(unpacked(&SKIPPABLE[..cut]), Err(io::ErrorKind::UnexpectedEof), "{cut}");
    }
    // The old form, cut off within a block and within the size of one, and blocks of 8 MiB.
    let old = old_lz4(&content);
    for cut in [5, 7, 9, old.len() / 2, old.len() - 1] {
        assert_eq!(unpacked(&old[..cut]), Err(io::ErrorKind::UnexpectedEof), "{cut}");
    }
    let large = content.repeat(90);
    assert!(unpacked(&old_lz4(&large)).unwrap() == large);
}

/// All entries, and how the archive ended.
fn listed(bytes: Vec<u8>) -> Result<(usize, Option<End>), ReadError> {
    let mut reader = Reader::from_stream(Cursor::new(bytes), &KEEP)?;
    let mut count = 0;
    while reader.next_entry()?.is_some() {
        count += 1;
    }
    Ok((count, reader.end()))
}

#[test]
fn bytes_after_gzip_and_bzip2_are_told_where_the_archive_had_ended() {
    let whole = archive();
    let last = whole.iter().rposition(|byte| *byte != 0).unwrap();
    let unmarked = &whole[..last.next_multiple_of(512)];
    let one_block = &whole[..unmarked.len() + 512];
    let padded = [&whole[..], &vec![0; 3 << 20]].concat();
    for pack in [gzip, bzip2] {
        for garbage in [&b"garbage"[..], b"\0\0\0garbage", b"\x1f\x8c", b"BZx"] {
            for content in [&whole, &padded] {
                let (first, second) = content.split_at(2000);
                let stream = [pack(first), pack(second), garbage.to_vec()].concat();
                let end = listed(stream).unwrap();
                assert_eq!(end, (7, Some(End::PackedThenBytes)), "{garbage:?}");
            }
            // What may be missing is in none of them.
            for content in [unmarked, one_block, &whole[..3000]] {
                let stream = [pack(content), garbage.to_vec()].concat();
                let kind = listed(stream).map_err(|error| error.kind);
                assert!(matches!(kind, Err(ErrorKind::Read(_))), "{garbage:?}: {kind:?}");
            }
        }
    }
    // A member that was cut off is no garbage, however little there is of it.
    for length in 1..12 {
        for pack in [gzip, bzip2] {
            let cut = [&pack(&whole)[..], &pack(b"more")[..length]].concat();
            let kind = listed(cut).map_err(|error| error.kind);
            assert!(matches!(kind, Err(ErrorKind::Truncated)), "{length}: {kind:?}");
        }
    }
    let lz4 = [lz4(&whole), b"garbage".to_vec()].concat();
    assert!(listed(lz4).is_err(), "lz4 itself refuses it");
}

/// What `lzma -c` made of a line of text.
const HELLO: &[u8] =
    b"\x5d\x00\x00\x80\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00\x34\x19\x49\xee\x8d\xef\
    \x8c\x8a\x71\x3c\x0b\xcc\x2e\x0f\xff\xfe\xe9\x18\x00";

#[test]
fn the_form_of_lzma_before_xz_is_read() {
    assert_eq!(unpacked(HELLO).unwrap(), b"hello, hello, hello, hello\n");
    for cut in 14..HELLO.len() {
        assert_eq!(unpacked(&HELLO[..cut]), Err(io::ErrorKind::UnexpectedEof), "{cut}");
    }
    assert!(unpacked(&[HELLO, &[0; 700]].concat()).is_ok(), "zeros of a tape");
    for garbage in [&b"garbage"[..], b"\0garbage"] {
        let read = unpacked(&[HELLO, garbage].concat());
        assert_eq!(read, Err(io::ErrorKind::InvalidData), "{garbage:?}");
    }
    // A dictionary of 4 GiB is not made.
    let mut large = HELLO.to_vec();
    large[1..5].fill(0xff);
    assert_eq!(unpacked(&large), Err(io::ErrorKind::InvalidData));
    // A name that begins like one is none.
    let mut named = vec![0; 512];
    named[0] = b']';
    let file = tempfile::tempfile().unwrap();
    (&file).write_all(&named).unwrap();
    assert!(Decompressed::open(file).unwrap().is_none());
}
