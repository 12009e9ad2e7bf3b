//! The bytes by which formats of files are known. All are at the beginning of a file, unless the
//! name says where.

/// gzip (RFC 1952): two bytes, as many a boot sector may have.
pub const GZIP: [u8; 2] = [0x1f, 0x8b];
/// A frame of zstd (RFC 8878).
pub const ZSTANDARD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// xz, and what a file of it ends with.
pub const XZ: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
/// What a file of xz ends with.
pub const XZ_END: [u8; 2] = *b"YZ";
/// bzip2, before a digit.
pub const BZIP2: [u8; 3] = *b"BZh";
/// A frame of lz4.
pub const LZ4: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// A frame of lz4 in its old form (`lz4 -l`).
pub const LZ4_OLD: [u8; 4] = [0x02, 0x21, 0x4c, 0x18];
/// lzip.
pub const LZIP: [u8; 4] = *b"LZIP";
/// compress(1).
pub const COMPRESS: [u8; 2] = [0x1f, 0x9d];
/// A header of cpio, in the form "newc".
pub const CPIO: [u8; 6] = *b"070701";
/// An archive of ar.
pub const AR: [u8; 8] = *b"!<arch>\n";
/// The name of the first member of a Debian package, after [`AR`].
pub const DEBIAN: [u8; 13] = *b"debian-binary";
/// A header of tar since POSIX, at [`TAR_AT`].
pub const TAR: [u8; 5] = *b"ustar";
/// Where in a header [`TAR`] is.
pub const TAR_AT: usize = 257;
/// QEMU's image, version 2 or 3.
pub const QCOW2: [u8; 4] = *b"QFI\xfb";
/// Android's sparse image.
pub const ANDROID_SPARSE: [u8; 4] = [0x3a, 0xff, 0x26, 0xed];

/// Whether these are the first bytes of a frame that readers of zstd and of lz4 pass over.
pub fn is_skippable(first: &[u8]) -> bool {
    matches!(first, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}
