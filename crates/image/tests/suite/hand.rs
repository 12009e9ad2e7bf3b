//! Archives made by hand, entry by entry.
use std::path::{Path, PathBuf};

/// A header made by hand.
pub fn header(name: &str, kind: u8, size: u64, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    for (at, text) in [(100, "0000644"), (108, "0000000"), (116, "0000000"), (136, "00000000000")] {
        bytes[at..at + text.len()].copy_from_slice(text.as_bytes());
    }
    bytes[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    bytes[156] = kind;
    bytes[257..265].copy_from_slice(b"ustar\x0000");
    change(&mut bytes);
    seal(&mut bytes);
    bytes
}

/// Puts the checksum into a header.
pub fn seal(header: &mut [u8]) {
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// Bytes and the zeros that fill their last block.
pub fn padded(body: &[u8]) -> Vec<u8> {
    let mut bytes = body.to_vec();
    bytes.resize(body.len().next_multiple_of(512), 0);
    bytes
}

/// A regular file.
pub fn file(name: &str, body: &[u8]) -> Vec<u8> {
    [header(name, b'0', body.len() as u64, |_| {}), padded(body)].concat()
}

/// An extended header for the entry after it.
pub fn pax(lines: &[(&str, &str)]) -> Vec<u8> {
    let mut text = Vec::new();
    for (key, value) in lines {
        let bare = key.len() + value.len() + 3;
        let length =
            (bare + 1..).find(|length| bare + length.to_string().len() == *length).unwrap();
        text.extend_from_slice(format!("{length} {key}={value}\n").as_bytes());
    }
    [header("pax", b'x', text.len() as u64, |_| {}), padded(&text)].concat()
}

/// A hard link (`1`) or a symlink (`2`).
pub fn link(name: &str, kind: u8, target: &str) -> Vec<u8> {
    header(name, kind, 0, |bytes| bytes[157..157 + target.len()].copy_from_slice(target.as_bytes()))
}

/// What ends an archive.
pub const END: [u8; 1024] = [0; 1024];

/// Writes an archive of these parts, with its end.
pub fn archive(folder: &Path, name: &str, parts: &[&[u8]]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, [&parts.concat()[..], &END].concat()).unwrap();
    path
}
