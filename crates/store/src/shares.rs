//! How the memory of a volume is divided, beyond what it takes in any case. Shares are fixed: a
//! limit for all together would let files without bytes (`DataKeeping::Phantom`), which take none,
//! keep more than those with bytes.
//! Blocks of both kinds are dropped when as many came as fit into their share; those with bytes
//! also before they would take more than it.
//!
//! ```text
//! blocks of metadata      48/128   beside each its lists: with blocks of 1 KiB a quarter more,
//! blocks of files         48/128   with 4 KiB a sixteenth
//! stretches read ahead    12/128   across files
//! inodes                   8/128   by a nominal size, which is the largest that one is expected
//! names                    3/128   to take with its places in tables
//! free buffers             3/128
//! lists                    6/128
//! ```
use crate::error::{ErrorKind, Result};

/// What a volume takes whatever it keeps: its locks and lists, 64 KiB, and requests of four threads
/// that are under way, of 64 KiB each.
const FIXED_BYTES: usize = (64 + 4 * 64) << 10;
/// The least `cache_bytes` whatever the blocks.
const LEAST_BYTES: usize = 2 << 20;
/// The least `cache_bytes`, in blocks: three eighths are 120 blocks of metadata, which an operation
/// that changes many of them needs.
const LEAST_BLOCKS: usize = 320;

/// The least `cache_bytes` of [`Options`](super::Options) with which a volume with blocks of
/// `block_size` bytes is opened: 2 MiB, and 320 blocks if these are more, as they are from blocks
/// of 8 KiB on.
#[must_use]
pub const fn least_cache_bytes(block_size: u32) -> usize {
    let blocks = (block_size as usize).saturating_mul(LEAST_BLOCKS);
    if blocks > LEAST_BYTES { blocks } else { LEAST_BYTES }
}

/// How much memory each kind may take, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shares {
    /// Blocks of metadata.
    pub(crate) frames: usize,
    /// Blocks of files.
    pub pages: usize,
    /// Inodes.
    pub nodes: usize,
    /// Names.
    pub names: usize,
    /// Buffers that no file uses.
    pub(crate) buffers: usize,
    /// Stretches that were read ahead, across files.
    pub(crate) neighbours: usize,
}

impl Shares {
    /// The shares of `cache_bytes`, if that is enough for a volume with these blocks.
    ///
    /// # Errors
    /// `CacheTooSmall`.
    pub(super) fn enough(cache_bytes: usize, block_size: u32) -> Result<Shares> {
        let least_bytes = least_cache_bytes(block_size);
        match cache_bytes < least_bytes {
            true => Err(ErrorKind::CacheTooSmall { cache_bytes, least_bytes, block_size }.into()),
            false => Ok(Shares::of(cache_bytes)),
        }
    }

    /// The shares of `cache_bytes`.
    pub fn of(cache_bytes: usize) -> Shares {
        let cache_bytes = cache_bytes.saturating_sub(FIXED_BYTES);
        let blocks = cache_bytes / 8 * 3 + cache_bytes % 8 * 3 / 8;
        Shares {
            frames: blocks,
            pages: blocks,
            nodes: blocks / 6,
            names: blocks / 16,
            buffers: blocks / 16,
            neighbours: blocks / 4,
        }
    }
}

/// The `cache_bytes` of [`Options`](super::Options) with which blocks of metadata may take
/// `block_bytes` bytes, and blocks of files as much again. For experiments, which describe a
/// machine by the memory that it has for blocks.
#[must_use]
pub const fn cache_for_blocks(block_bytes: usize) -> usize {
    // A share of it is exactly that, whatever the remainder.
    let twice = block_bytes.saturating_mul(2);
    twice.saturating_add(twice.div_ceil(3)).saturating_add(FIXED_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_fit_and_blocks_get_what_was_asked_for() {
        for bytes in (0..5000).map(|bytes| bytes + FIXED_BYTES).chain([
            1 << 20,
            (1 << 20) + 1,
            123_456_789,
            1 << 40,
        ]) {
            let Shares { frames, pages, nodes, names, buffers, neighbours } = Shares::of(bytes);
            let shares = frames + pages + nodes + names + buffers + neighbours;
            assert!(shares <= bytes / 32 * 31 + 32, "{bytes}");
            let shares = Shares::of(cache_for_blocks(bytes));
            assert_eq!((shares.frames, shares.pages), (bytes, bytes));
        }
    }
}
