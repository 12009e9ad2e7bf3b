//! The block of 512 bytes that an archive is made of, and the fields of a header in it.
//!
//! ```text
//! v7      name 100 | mode 8 | uid 8 | gid 8 | size 12 | mtime 12 | checksum 8 | type 1 | link 100
//! ustar   ... | "ustar" NUL "00" | user 32 | group 32 | major 8 | minor 8 | prefix 155
//! star    ... | prefix 131 | atime 12 | ctime 12 | ... "tar" NUL
//! gnu     ... | "ustar  " NUL | ... | atime 12 | ctime 12 | ... | 4 pieces of a map at 386, each
//!         offset 12, length 12 | more? 1 | real size 12
//! ```
use std::ops::Range;

/// Bytes of a block: headers, maps and bodies all fill whole blocks.
pub const BLOCK_BYTES: usize = 512;

/// A block of an archive.
pub(crate) type Block = [u8; BLOCK_BYTES];

pub(crate) const NAME: Range<usize> = 0..100;
pub(crate) const MODE: Range<usize> = 100..108;
pub(crate) const UID: Range<usize> = 108..116;
pub(crate) const GID: Range<usize> = 116..124;
pub(crate) const SIZE: Range<usize> = 124..136;
pub(crate) const MODIFY_TIME: Range<usize> = 136..148;
pub(crate) const CHECKSUM: Range<usize> = 148..156;
pub(crate) const TYPE: usize = 156;
pub(crate) const LINK: Range<usize> = 157..257;
pub(crate) const MAGIC: Range<usize> = 257..265;
pub(crate) const MAJOR: Range<usize> = 329..337;
pub(crate) const MINOR: Range<usize> = 337..345;
pub(crate) const PREFIX: Range<usize> = 345..500;

/// Bytes of zeros that fill the last block of a body of this many bytes.
pub fn padding(bytes: u64) -> u64 {
    let block = BLOCK_BYTES as u64;
    (block - bytes % block) % block
}

#[cfg(test)]
mod tests {
    use super::padding;

    #[test]
    fn a_body_is_filled_up_to_whole_blocks() {
        assert_eq!([0, 1, 511, 512, 513].map(padding), [0, 511, 1, 0, 511]);
        assert_eq!(padding(u64::MAX), 1);
    }
}
