//! What a file is, by its first bytes.

use extant_tree::magic;

/// Bytes that [`form_of`] looks at.
pub const LOOK_BYTES: usize = 10;
/// The mark of bzip2's first block, and that of its end.
const BZIP2_BLOCKS: [[u8; 6]; 2] =
    [[0x31, 0x41, 0x59, 0x26, 0x53, 0x59], [0x17, 0x72, 0x45, 0x38, 0x50, 0x90]];

/// A container of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A plain image, or another form, compressed.
    Compressed(Compressor),
    /// QEMU's, version 2 or 3.
    Qcow2,
    /// Android's, as img2simg makes it.
    AndroidSparse,
}

/// How a file is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compressor {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstandard,
    /// The xz utilities'.
    Xz,
    /// That of bzip2.
    Bzip2,
    /// Frames of lz4.
    Lz4,
}

impl Form {
    /// In words, with its article: "a qcow2 image".
    pub fn name(self) -> &'static str {
        match self {
            Form::Compressed(Compressor::Gzip) => "a gzip file",
            Form::Compressed(Compressor::Zstandard) => "a zstd file",
            Form::Compressed(Compressor::Xz) => "an xz file",
            Form::Compressed(Compressor::Bzip2) => "a bzip2 file",
            Form::Compressed(Compressor::Lz4) => "an lz4 file",
            Form::Qcow2 => "a qcow2 image",
            Form::AndroidSparse => "an Android sparse image",
        }
    }
    /// The command that makes a plain image of `file`.
    pub fn conversion(self, file: &str) -> String {
        match self {
            Form::Compressed(Compressor::Gzip) => format!("gzip -dc {file} > disk.img"),
            Form::Compressed(Compressor::Zstandard) => format!("zstd -dc {file} > disk.img"),
            Form::Compressed(Compressor::Xz) => format!("xz -dc {file} > disk.img"),
            Form::Compressed(Compressor::Bzip2) => format!("bzip2 -dc {file} > disk.img"),
            Form::Compressed(Compressor::Lz4) => format!("lz4 -dc {file} > disk.img"),
            Form::Qcow2 => format!("qemu-img convert -O raw {file} disk.img"),
            Form::AndroidSparse => format!("simg2img {file} disk.img"),
        }
    }
}

/// The form of a file that begins with these bytes; `None` for a plain image, and for what is not
/// known.
pub fn form_of(head: &[u8]) -> Option<Form> {
    let blocks = head.strip_prefix(&magic::BZIP2).and_then(|rest| rest.get(1..));
    Some(match head {
        _ if head.starts_with(&magic::QCOW2) => Form::Qcow2,
        _ if head.starts_with(&magic::ANDROID_SPARSE) => Form::AndroidSparse,
        // Deflate is the only method; the upper flags are reserved. A boot sector may begin with
        // any two bytes.
        [_, _, 8, flags, ..] if head.starts_with(&magic::GZIP) && flags & 0xe0 == 0 => {
            Form::Compressed(Compressor::Gzip)
        }
        _ if head.starts_with(&magic::ZSTANDARD) || magic::is_skippable(head) => {
            Form::Compressed(Compressor::Zstandard)
        }
        _ if head.starts_with(&magic::XZ) => Form::Compressed(Compressor::Xz),
        [_, _, _, b'1'..=b'9', ..]
            if blocks.is_some_and(|blocks| {
                BZIP2_BLOCKS.into_iter().any(|mark| blocks.starts_with(&mark))
            }) =>
        {
            Form::Compressed(Compressor::Bzip2)
        }
        _ if head.starts_with(&magic::LZ4) => Form::Compressed(Compressor::Lz4),
        _ => return None,
    })
}
