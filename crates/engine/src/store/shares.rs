//! How the memory of a volume is divided. Shares are fixed: a limit for all together would let
//! files without bytes (`DataKeeping::Phantom`), which take none, keep more than those with bytes.
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

/// How much memory each kind may take, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shares {
    /// Blocks of metadata.
    pub(crate) frames: usize,
    /// Blocks of files.
    pub(crate) pages: usize,
    /// Inodes.
    pub(crate) nodes: usize,
    /// Names.
    pub(crate) names: usize,
    /// Buffers that no file uses.
    pub(crate) buffers: usize,
    /// Stretches that were read ahead, across files.
    pub(crate) neighbours: usize,
}

impl Shares {
    /// The shares of `cache_bytes`.
    pub(crate) fn of(cache_bytes: usize) -> Shares {
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
    block_bytes.saturating_mul(2).saturating_add(block_bytes.saturating_mul(2).div_ceil(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_fit_and_blocks_get_what_was_asked_for() {
        for bytes in (0..5000).chain([1 << 20, (1 << 20) + 1, 123_456_789, 1 << 40]) {
            let Shares { frames, pages, nodes, names, buffers, neighbours } = Shares::of(bytes);
            let shares = frames + pages + nodes + names + buffers + neighbours;
            assert!(shares <= bytes / 32 * 31 + 32, "{bytes}");
            let shares = Shares::of(cache_for_blocks(bytes));
            assert_eq!((shares.frames, shares.pages), (bytes, bytes));
        }
    }
}
