//! How a file is compressed, by its first bytes, and what decompresses it.
//!
//! Which libraries: flate2 on zlib-rs (510-660 MB/s of the linux-6.1 tree, no C), lzma-rust2 (140
//! MB/s, no C; the C library 165), zstd on the C library (1.3 GB/s; the one in Rust 400), bzip2 on
//! libbz2-rs-sys and lz4_flex (no C).
use super::after_skippable::AfterSkippable;
use super::members::{Bzip2, Gzip, Members};
use super::parallel::{Frames, Parallel};
use super::{lz4, lzma};
use extant_tree::magic;
use std::io::{BufRead, Read};
use std::num::NonZero;

/// How an archive is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstandard,
    Xz,
    Bzip2,
    Lz4,
    Lzma,
    /// Zstandard or lz4: a frame that both pass over comes first.
    Skippable,
    /// Known, but not read: the tool that does.
    Foreign(&'static str),
}

/// Bytes that are enough to know the compression, and what else a file begins with that is read.
pub(super) const MAGIC_BYTES: usize = 8;

/// The compression, by the first bytes of a file.
pub(super) fn compression(start: &[u8]) -> Compression {
    let is_digit = |byte: &u8| matches!(byte, b'1'..=b'9');
    let bzip2 = start.strip_prefix(&magic::BZIP2).and_then(<[u8]>::first);
    match start {
        _ if start.starts_with(&magic::GZIP) => Compression::Gzip,
        _ if start.starts_with(&magic::ZSTANDARD) => Compression::Zstandard,
        _ if start.starts_with(&magic::XZ) => Compression::Xz,
        _ if bzip2.is_some_and(is_digit) => Compression::Bzip2,
        _ if magic::is_skippable(start) => Compression::Skippable,
        _ if lz4::begins(start) => Compression::Lz4,
        _ if lzma::begins(start) => Compression::Lzma,
        _ if start.starts_with(&magic::LZIP) => Compression::Foreign("lzip"),
        _ if start.starts_with(&magic::COMPRESS) => Compression::Foreign("compress"),
        _ => Compression::None,
    }
}

/// What reads a stream as it was before it was compressed in a way that is read; `threads` where
/// the stream has parts, as many as the host has processors for if `None`. The input itself for any
/// other.
pub(super) fn decompressed(
    compression: Compression,
    input: impl BufRead + Send + 'static,
    threads: Option<NonZero<usize>>,
) -> Box<dyn Read + Send> {
    match compression {
        Compression::Gzip => Box::new(Gzip::new(input)),
        Compression::Xz => Box::new(lzma_rust2::XzReader::new(input, true)),
        Compression::Zstandard => Box::new(Parallel::new(Frames::new(input), threads)),
        Compression::Bzip2 => Box::new(Bzip2::new(input)),
        Compression::Lz4 => Box::new(Members::<lz4::Frame<_>>::new(input)),
        Compression::Lzma => Box::new(lzma::Lzma::new(input)),
        Compression::Skippable => Box::new(AfterSkippable::new(input, threads)),
        Compression::None | Compression::Foreign(_) => Box::new(input),
    }
}
