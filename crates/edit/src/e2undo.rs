//! The undo file of e2fsprogs: what `e2undo` takes back.
//!
//! ```text
//! file      | header | superblock | keys | bytes .. | keys | bytes .. |      in blocks of one size
//! header    | "E2UNDO02" | keys in all: 8 | block of the superblock: 8 | block of the first keys:
//!           | 8 | bytes of a block here: 4 | of the volume: 4 | crc32c of the superblock after: 4
//!           | 1, it is whole: 4 | 1 if an offset follows: 4 | 0: 12 | the volume's first byte in
//!           | its image: 8 | zeros up to byte 508 | crc32c of all before: 4
//! keys      | 0xCADECADE: 4 | crc32c of this block, with zeros here: 4 | 0: 8 | key | key | ..
//! key       | block: 8 | crc32c of its bytes before: 4 | how many these are: 4
//! ```
//!
//! Numbers are little-endian, each crc32c begins with all ones and is not inverted at its end. The
//! superblock is that of the volume after the change, whose magic number is inverted, so that
//! nobody takes the file for a volume. What this says was seen in files that `debugfs -z`,
//! `tune2fs -z` and `e2fsck -z` wrote; `e2undo` judges it in the tests.
use crate::beside;
use crate::differing::{Differing, block_bytes, read_block, written};
use crate::error::{Error, Result};
use extant_block::{BlockDevice, Overlay};
use extant_format::checksum::crc32c;
use extant_format::superblock::{SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};
use extant_journal::transaction::Blocks;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const MAGIC: [u8; 8] = *b"E2UNDO02";
const KEYS_MAGIC: u32 = 0xCADE_CADE;
const HEADER_BYTES: usize = 512;
/// Bytes of a block of keys before the first key.
const KEYS_HEAD_BYTES: usize = 16;
const KEY_BYTES: usize = 16;
/// Where the magic number of a superblock is.
const MAGIC_PLACE: usize = 0x38;

/// Writes a file of what the blocks that an overlay changed hold on its device, for `e2undo`, and
/// makes it durable; gives the number of blocks. The volume begins at byte `offset` of its image.
/// Without a change there is no file.
///
/// # Errors
/// There is a file of that name that holds something; the host's, with no file left; the device's.
pub fn write(overlay: &Overlay, block_size: u32, path: &Path, offset: u64) -> Result<u64> {
    let device = overlay.device();
    // Those of a journal on another device are not the volume's.
    let end = device.own_bytes().div_ceil(block_size.into());
    let own = written(overlay, block_size).into_iter().filter(|number| *number < end).collect();
    let blocks = Differing::of(device, overlay, own, block_size)?;
    if blocks.is_empty() {
        return Ok(0);
    }
    let file = create(path)?;
    let put = |file| put(file, &blocks, (overlay, block_size, offset));
    put(file).and_then(|()| beside::sync_folder(path)).map_err(|error| {
        drop(std::fs::remove_file(path));
        Error::host(path, error)
    })?;
    Ok(blocks.len() as u64)
}

/// A new file, which nobody else reads; one that is empty is taken, as e2fsprogs does.
fn create(path: &Path) -> Result<File> {
    if beside::is_our_name(path) {
        return Err(Error::host_said(path, "is the name of another file of a repair")
            .hint("name a file that is not there"));
    }
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    match options.create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let is_empty = std::fs::symlink_metadata(path)
                .is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0);
            if !is_empty {
                return Err(Error::host_said(path, "is there already, and is not replaced")
                    .hint("name a file that is not there"));
            }
            options.create_new(false).open(path).map_err(|error| Error::host(path, error))
        }
        file => file.map_err(|error| Error::host(path, error)),
    }
}

fn put(
    file: File,
    blocks: &Differing<'_>,
    (overlay, block_size, offset): (&Overlay, u32, u64),
) -> io::Result<()> {
    let device = overlay.device();
    let size = block_size as usize;
    let mut file = BufWriter::with_capacity(1 << 20, file);
    let mut superblock = [0; SUPERBLOCK_SIZE];
    overlay.read(SUPERBLOCK_OFFSET, &mut superblock)?;
    let mut block = vec![0; size];
    let header = header(blocks.len() as u64, (block_size, offset), crc32c(!0, &superblock));
    block[..HEADER_BYTES].copy_from_slice(&header);
    file.write_all(&block)?;
    for byte in &mut superblock[MAGIC_PLACE..MAGIC_PLACE + 2] {
        *byte = !*byte;
    }
    block.fill(0);
    block[..SUPERBLOCK_SIZE].copy_from_slice(&superblock);
    file.write_all(&block)?;
    let of_block = (size - KEYS_HEAD_BYTES) / KEY_BYTES;
    let mut at = 0;
    while at < blocks.len() {
        let end = blocks.len().min(at + of_block);
        let mut keys = vec![0; size];
        for (key, index) in keys[KEYS_HEAD_BYTES..].chunks_exact_mut(KEY_BYTES).zip(at..end) {
            let number = blocks.number(index);
            read_block(&**device, number, &mut block)?;
            // The device may end within the last one.
            let bytes = &block[..block_bytes(&**device, number, block_size)];
            key[..8].copy_from_slice(&number.to_le_bytes());
            key[8..12].copy_from_slice(&crc32c(!0, bytes).to_le_bytes());
            key[12..].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        }
        keys[..4].copy_from_slice(&KEYS_MAGIC.to_le_bytes());
        let sum = crc32c(!0, &keys);
        keys[4..8].copy_from_slice(&sum.to_le_bytes());
        file.write_all(&keys)?;
        for index in at..end {
            read_block(&**device, blocks.number(index), &mut block)?;
            file.write_all(&block)?;
        }
        at = end;
    }
    file.flush()?;
    file.get_ref().sync_all()
}

fn header(keys: u64, (block_size, offset): (u32, u64), superblock_sum: u32) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let mut place = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    place(0, &MAGIC);
    for (at, number) in [(8, keys), (16, 1), (24, 2), (64, offset)] {
        place(at, &number.to_le_bytes());
    }
    let has_offset = u32::from(offset != 0);
    for (at, number) in
        [(32, block_size), (36, block_size), (40, superblock_sum), (44, 1), (48, has_offset)]
    {
        place(at, &number.to_le_bytes());
    }
    let sum = crc32c(!0, &header[..HEADER_BYTES - 4]);
    header[HEADER_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
    header
}
