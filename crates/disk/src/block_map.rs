//! What bmaptool reads: which blocks of a disk image have to be written, with a digest for each
//! run. Free blocks are left out, so that a card is written in the time that its content needs.
use crate::content::{Content, Piece};
use crate::verity::hexadecimal;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::io;
use std::ops::Range;

/// Bytes of a block.
pub const BLOCK_BYTES: u64 = 4096;

/// The map of a disk, as an XML document of bmaptool's format 2.0.
///
/// # Errors
/// The host's.
pub fn document(content: &Content<'_>) -> io::Result<String> {
    let mapped = mapped(content)?;
    document_of(content.bytes, &mapped, &mut |buffer, at| content.read(buffer, at))
}

/// The same of a disk of so many bytes, by runs of its blocks that rise and are apart. `read` gives
/// its bytes from one on.
///
/// # Errors
/// Those of `read`.
pub fn document_of(
    bytes: u64,
    mapped: &[Range<u64>],
    read: &mut dyn FnMut(&mut [u8], u64) -> io::Result<()>,
) -> io::Result<String> {
    let count: u64 = mapped.iter().map(|run| run.end - run.start).sum();
    let mut text = String::from("<?xml version=\"1.0\" ?>\n<bmap version=\"2.0\">\n");
    let facts = [
        ("ImageSize", bytes.to_string()),
        ("BlockSize", BLOCK_BYTES.to_string()),
        ("BlocksCount", bytes.div_ceil(BLOCK_BYTES).to_string()),
        ("MappedBlocksCount", count.to_string()),
        ("ChecksumType", "sha256".to_owned()),
        ("BmapFileChecksum", NOT_KNOWN.to_owned()),
    ];
    // Writing to a String cannot fail.
    for (name, value) in facts {
        let _ = writeln!(text, "    <{name}> {value} </{name}>");
    }
    text.push_str("    <BlockMap>\n");
    for run in mapped {
        let digest = digest(bytes, run, read)?;
        let (first, last) = (run.start, run.end - 1);
        let blocks = if first == last { first.to_string() } else { format!("{first}-{last}") };
        let _ = writeln!(text, "        <Range chksum=\"{digest}\"> {blocks} </Range>");
    }
    text.push_str("    </BlockMap>\n</bmap>\n");
    // The document's own digest is taken with zeros in its place.
    let own = hexadecimal(&Sha256::digest(&text));
    Ok(text.replacen(NOT_KNOWN, &own, 1))
}

/// A digest that is not known yet.
const NOT_KNOWN: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Runs of blocks that have to be written.
fn mapped(content: &Content<'_>) -> io::Result<Vec<Range<u64>>> {
    let mut mapped: Vec<Range<u64>> = Vec::new();
    for run in content.runs(BLOCK_BYTES)? {
        match mapped.last_mut() {
            _ if run.piece == Piece::Free => {}
            Some(last) if last.end == run.blocks.start => last.end = run.blocks.end,
            _ => mapped.push(run.blocks),
        }
    }
    Ok(mapped)
}

/// The digest of blocks; the disk's last one may be shorter.
fn digest(
    bytes: u64,
    run: &Range<u64>,
    read: &mut dyn FnMut(&mut [u8], u64) -> io::Result<()>,
) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let (mut at, end) = (run.start * BLOCK_BYTES, (run.end * BLOCK_BYTES).min(bytes));
    while at < end {
        let part = &mut buffer[..(end - at).min(1 << 20) as usize];
        read(part, at)?;
        hasher.update(&*part);
        at += part.len() as u64;
    }
    Ok(hexadecimal(&hasher.finalize()))
}
