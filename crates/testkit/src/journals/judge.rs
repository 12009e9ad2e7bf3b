//! What e2fsck and the kernel make of a log, and how two volumes differ.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::command::{self, program};
use crate::oracle::{self, Access, mount_loop};
use crate::walk::{Depth, Entry, walk};

/// Where the primary superblock is, and its length.
const SUPERBLOCK: std::ops::Range<u64> = 1024..2048;
/// Fields of the superblock, from and to in bytes, that a replay may set: times of mounting
/// and writing, counts of mounts, the state, the flag of a log that has to be replayed with its
/// word, what was written in all, what is said of errors, and the checksum over these.
const FREE_FIELDS: [(u64, u64); 7] = [
    (0x2c, 0x3c),
    (0x60, 0x64),
    (0x40, 0x44),
    (0x178, 0x180),
    (0x194, 0x1e8),
    (0x274, 0x27c),
    (0x3fc, 0x400),
];

/// Replays the log of `image` by e2fsck, and does nothing else.
///
/// # Errors
/// It does not end with 0 or 1.
pub fn after_e2fsck(image: &Path) -> Result<(), String> {
    let mut e2fsck = program("e2fsck");
    e2fsck.args(["-y", "-E", "journal_only"]).arg(image);
    let output = e2fsck.output().map_err(|error| format!("e2fsck: {error}"))?;
    match output.status.code() {
        Some(0 | 1) => Ok(()),
        _ => Err(format!(
            "{}: {}\n{}{}",
            command::shown(&e2fsck),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// Replays the log of `image` by tune2fs, which leaves what has no name as it is: e2fsck frees it
/// even when it is to replay the log only, and debugfs reads bitmaps before it replays.
///
/// # Errors
/// Its exit code is not 0.
pub fn after_tune2fs(image: &Path) -> Result<(), String> {
    // Without a change it does not open the volume for writing. This one is the default.
    let output = command::output(program("tune2fs").args(["-c", "-1"]).arg(image))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match needs_recovery(image)? {
        true => Err(format!("tune2fs did not replay the log: {said}")),
        false => Ok(()),
    }
}

/// Lets e2fsck free what has no name and finish truncates that were under way (`-p`), in a volume
/// whose log is replayed, and returns its tree.
///
/// # Errors
/// It does not end with 0 or 1, or finds more to do afterwards.
pub fn after_preen(image: &Path) -> Result<Vec<Entry>, String> {
    let mut e2fsck = program("e2fsck");
    e2fsck.arg("-p").arg(image);
    let output = e2fsck.output().map_err(|error| format!("e2fsck: {error}"))?;
    if !matches!(output.status.code(), Some(0 | 1)) {
        let said: String = String::from_utf8_lossy(&output.stdout).chars().take(1000).collect();
        return Err(format!("{}: {}\n{said}", command::shown(&e2fsck), output.status));
    }
    clean(image)?;
    tree(image)
}

/// Mounts `image` for writing, so that the kernel replays its log and frees what has no name, and
/// walks it from a fresh mount: its tree, with SHA-256 sums.
///
/// # Errors
/// The kernel refuses, or something in it cannot be read.
pub fn after_kernel(image: &Path) -> Result<Vec<Entry>, String> {
    mount_loop(image, Access::ReadWrite, "noatime")?.unmount()?;
    tree(image)
}

/// The tree of a volume without anything to replay, as the kernel sees it, with SHA-256 sums.
///
/// # Errors
/// The kernel refuses, or something in it cannot be read.
pub fn tree(image: &Path) -> Result<Vec<Entry>, String> {
    let mounted = mount_loop(image, Access::ReadOnly, "noload")?;
    let depth = Depth { sha256: true, ..Depth::default() };
    let entries = walk(mounted.path(), depth, &BTreeSet::new())?;
    mounted.unmount()?;
    Ok(entries)
}

/// `e2fsck -fn` finds nothing wrong. Unlike [`oracle::e2fsck`] it may find that the map of a file
/// could take less room: the kernel leaves such.
///
/// # Errors
/// The first lines of what it said.
pub fn clean(image: &Path) -> Result<(), String> {
    const LINES: usize = 20;
    let Err(said) = oracle::e2fsck(image) else {
        return Ok(());
    };
    let is_harmless = |line: &str| {
        line.contains("Optimize? no")
            || line.starts_with("e2fsck")
            || line.starts_with("Pass ")
            || line.contains("% non-contiguous), ")
            || line.is_empty()
    };
    if said.contains("exit status: 0") && said.lines().all(is_harmless) {
        return Ok(());
    }
    Err(said.lines().take(LINES).collect::<Vec<_>>().join("\n"))
}

/// Whether the superblock says that the log has to be replayed.
///
/// # Errors
/// It cannot be read.
pub fn needs_recovery(image: &Path) -> Result<bool, String> {
    const INCOMPATIBLE: u64 = 0x60;
    const RECOVER: u32 = 4;
    let mut field = [0; 4];
    File::open(image)
        .and_then(|file| file.read_exact_at(&mut field, SUPERBLOCK.start + INCOMPATIBLE))
        .map_err(|error| format!("{}: {error}", image.display()))?;
    Ok(u32::from_le_bytes(field) & RECOVER != 0)
}

/// The block in which the log's own superblock is, of a volume whose log is replayed.
///
/// # Errors
/// debugfs finds no log.
pub fn log_start(image: &Path) -> Result<u64, String> {
    let said = oracle::debugfs(image, "blocks <8>")?;
    let first = said.split_whitespace().next().and_then(|word| word.parse().ok());
    first.ok_or_else(|| format!("{}: debugfs finds no log", image.display()))
}

/// How two volumes differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differing {
    /// The blocks that differ, in order.
    pub blocks: Vec<u64>,
    /// The bytes of the primary superblock that differ, of those that a replay does not set.
    pub superblock_bytes: Vec<u64>,
}

/// Compares two volumes of the same size byte by byte; the block `log_start`, the fields of the
/// superblock that every replay sets, and copies of the superblock, which tune2fs writes, are left
/// out.
///
/// # Errors
/// One of them cannot be read, or they are not of the same size.
pub fn differing_blocks(
    left: &Path,
    right: &Path,
    block_size: u32,
    log_start: u64,
) -> Result<Differing, String> {
    const PIECE: u64 = 1 << 20;
    let failed = |error: io::Error| format!("{} and {}: {error}", left.display(), right.display());
    let open = |path: &Path| File::open(path).map_err(failed);
    let files = [open(left)?, open(right)?];
    let lengths = [&files[0], &files[1]].map(|file| file.metadata().map(|facts| facts.len()));
    let [one, other] = lengths.map(|length| length.map_err(failed));
    let length = one?;
    if length != other? {
        return Err(format!("{} and {} differ in size", left.display(), right.display()));
    }
    let is_free = |byte: u64| {
        let within = byte - SUPERBLOCK.start;
        FREE_FIELDS.iter().any(|(from, to)| (*from..*to).contains(&within))
    };
    // Groups have as many blocks as a bitmap has bits; the first begins with block 1 where the
    // superblock has a block of its own.
    let (group_blocks, first) = (u64::from(block_size) * 8, u64::from(block_size == 1024));
    let is_copy = |left: &[u8], right: &[u8], block: u64, start: u64| {
        const MAGIC: [u8; 2] = [0x53, 0xef];
        let at = (block * u64::from(block_size)).saturating_sub(start) as usize + 0x38;
        let has_magic = |piece: &[u8]| piece.get(at..at + 2) == Some(&MAGIC[..]);
        block % group_blocks == first && has_magic(left) && has_magic(right)
    };
    let mut found = Differing::default();
    for start in (0..length).step_by(PIECE as usize) {
        let size = PIECE.min(length - start) as usize;
        let mut pieces = [vec![0; size], vec![0; size]];
        for (file, piece) in files.iter().zip(&mut pieces) {
            file.read_exact_at(piece, start).map_err(failed)?;
        }
        if pieces[0] == pieces[1] {
            continue;
        }
        let [left, right] = &pieces;
        for (at, _) in left.iter().zip(right).enumerate().filter(|(_, (one, other))| one != other) {
            let byte = start + at as u64;
            let block = byte / u64::from(block_size);
            if SUPERBLOCK.contains(&byte) {
                if !is_free(byte) {
                    found.superblock_bytes.push(byte - SUPERBLOCK.start);
                }
            } else if block != log_start
                && found.blocks.last() != Some(&block)
                && !is_copy(left, right, block, start)
            {
                found.blocks.push(block);
            }
        }
    }
    Ok(found)
}

/// A copy of `image` beside it, sparse, whose name ends in `suffix`.
///
/// # Errors
/// There is no room.
pub fn copy(image: &Path, suffix: &str) -> Result<PathBuf, String> {
    let copied = image.with_extension(suffix);
    let mut cp = program("cp");
    command::output(cp.arg("--sparse=always").arg(image).arg(&copied))?;
    Ok(copied)
}
