//! The options of shipping, and what they ask for.
use extant_archive::Compression;
use extant_disk::table::{Boot, GptType, Table};
use extant_disk::verity;
use extant_host::closed;
use extant_host::error::Error;
use extant_host::target::Existing;
use std::num::NonZeroU32;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Options about what an image is shipped in; flatten it into the command's own.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ShippingArguments {
    /// Add the hash tree of dm-verity, with which the kernel checks every block that it reads:
    /// after the volume, in a partition of its own with --partition, or in a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub verity: Option<Option<PathBuf>>,
    /// The salt of the hash tree, in hexadecimal; "-" for none. Otherwise it follows from the UUID
    #[arg(long, value_name = "HEX", value_parser = salt, requires = "verity")]
    pub verity_salt: Option<Salt>,
    /// Make a whole disk, with the volume in its first partition: "gpt" or "mbr", and after commas
    /// type=TYPE (gpt: linux, root-x86-64, root-arm64 and others, or a GUID; mbr: a number, 0x83
    /// unless given), name=NAME (gpt), active (mbr)
    #[arg(long, value_name = "TABLE", value_parser = table)]
    pub partition: Option<Table>,
    /// The format of the image. Unless given, an image whose name ends with .qcow2 is one, and any
    /// other is raw
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<DiskFormat>,
    /// Compress the image. Unless given, an image whose name ends with .zst or .gz is compressed
    #[arg(long, value_enum, value_name = "METHOD")]
    pub compress: Option<CompressionWord>,
    /// Write the map of blocks that bmaptool reads: those that have to be written to a card or disk
    #[arg(long, value_name = "FILE")]
    pub bmap: Option<PathBuf>,
}

/// Options of a command that checks an image and may write another one, whose name is its argument
/// `out`; flatten it into the command's own.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct CopyArguments {
    /// Replace OUT if it is there
    #[arg(long, short = 'F', requires = "out")]
    pub force: bool,
    /// How many threads share a check; as many as the machine has, unless given
    #[arg(long, short = 'j', value_name = "N")]
    pub threads: Option<NonZeroU32>,
}

impl CopyArguments {
    /// What becomes of a file that has the name of the other image.
    pub fn existing(&self) -> Existing {
        if self.force { Existing::Overwrite } else { Existing::Refuse }
    }

    /// How many threads share a check.
    pub fn threads(&self) -> NonZeroU32 {
        self.threads.unwrap_or_else(closed::machine_threads)
    }
}

/// A salt, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Salt(pub Vec<u8>);

/// The format of a disk image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum DiskFormat {
    /// The bytes of the disk.
    #[default]
    Raw,
    /// QEMU's.
    Qcow2,
    /// Android's, for fastboot.
    AndroidSparse,
}

impl DiskFormat {
    /// Its word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            DiskFormat::Raw => "raw",
            DiskFormat::Qcow2 => "qcow2",
            DiskFormat::AndroidSparse => "android-sparse",
        }
    }
}

/// How an image is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum CompressionWord {
    /// Not at all.
    None,
    /// Frames of zstd, which decompress in parallel.
    Zstd,
    /// One member of gzip.
    Gzip,
}

impl ShippingArguments {
    /// How the image of this name is compressed.
    pub fn compression(&self, image: &Path) -> Option<Compression> {
        let name = image.as_os_str().as_bytes();
        let of_name = [Compression::Zstandard, Compression::Gzip];
        match self.compress {
            Some(CompressionWord::None) => None,
            Some(CompressionWord::Zstd) => Some(Compression::Zstandard),
            Some(CompressionWord::Gzip) => Some(Compression::Gzip),
            None => of_name.into_iter().find(|one| name.ends_with(one.suffix().as_bytes())),
        }
    }

    /// The format of the image of this name.
    pub fn format(&self, image: &Path) -> DiskFormat {
        let of_name = || match image.as_os_str().as_bytes().ends_with(b".qcow2") {
            true => DiskFormat::Qcow2,
            false => DiskFormat::Raw,
        };
        self.format.unwrap_or_else(of_name)
    }

    /// Whether a raw image gets more than its volume.
    pub fn adds_to_image(&self) -> bool {
        self.partition.is_some() || matches!(self.verity, Some(None))
    }

    /// Refuses what does not go together.
    ///
    /// # Errors
    /// Wrong usage, by the word.
    pub fn check(&self, image: &Path, offset_bytes: u64) -> Result<(), Error> {
        let (compression, format) = (self.compression(image), self.format(image));
        if self.format.is_none() && self.compress.is_none() {
            check_name(image)?;
        }
        if offset_bytes > 0 && (self.partition.is_some() || format != DiskFormat::Raw) {
            return Err(Error::usage("-E offset: not with --partition or --format")
                .hint("--partition puts the volume at 1 MiB itself"));
        }
        if offset_bytes > 0 && (compression.is_some() || self.bmap.is_some()) {
            return Err(Error::usage("-E offset: not with compression or --bmap"));
        }
        if !offset_bytes.is_multiple_of(verity::BLOCK_BYTES) && self.verity.is_some() {
            return Err(Error::usage("-E offset: with --verity it is a multiple of 4096"));
        }
        if format == DiskFormat::Qcow2 && compression.is_some() {
            return Err(Error::usage("--format qcow2: not compressed as a whole")
                .hint("qemu-img convert -c -O qcow2 compresses its clusters"));
        }
        if format != DiskFormat::Raw && self.bmap.is_some() {
            return Err(Error::usage("--bmap: maps the blocks of a raw image"));
        }
        Ok(())
    }
}

/// Ends of names that promise what is not written here.
const FOREIGN: [&str; 9] =
    [".bz2", ".lz4", ".lzma", ".vdi", ".vhd", ".vhdx", ".vmdk", ".xz", ".qcow"];

/// # Errors
/// The name says that the image is in a form that nothing here writes: a reader would believe it.
fn check_name(image: &Path) -> Result<(), Error> {
    let name = image.as_os_str().as_bytes();
    match FOREIGN.into_iter().find(|end| name.ends_with(end.as_bytes())) {
        None => Ok(()),
        Some(end) => Err(Error::usage(format!(
            "{}: is to be what a name with {end} says, which is not written here",
            image.display()
        ))
        .hint("--format raw makes a raw image of this name")),
    }
}

fn salt(text: &str) -> Result<Salt, String> {
    if text == "-" {
        return Ok(Salt(Vec::new()));
    }
    let digits = text.as_bytes();
    let pairs = digits.chunks_exact(2);
    let whole = pairs.remainder().is_empty() && !text.is_empty();
    let bytes: Option<Vec<u8>> = pairs
        .map(|pair| {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)
        })
        .collect();
    bytes
        .filter(|bytes| whole && bytes.len() <= verity::SALT_BYTES_MAX)
        .map(Salt)
        .ok_or_else(|| format!("{text:?} is not a salt of 1 to 256 bytes in hexadecimal"))
}

/// What `--partition` says.
fn table(text: &str) -> Result<Table, String> {
    let mut words = text.split(',');
    let mut table = match words.next() {
        Some("gpt") => Table::Gpt { kind: "linux".parse()?, name: String::new() },
        Some("mbr") => Table::Mbr { kind: 0x83, boot: Boot::No },
        _ => return Err(format!("{text:?} does not begin with gpt or mbr")),
    };
    for word in words {
        match (&mut table, word.split_once('=')) {
            (Table::Gpt { kind, .. }, Some(("type", value))) => *kind = value.parse::<GptType>()?,
            (Table::Gpt { name, .. }, Some(("name", value))) => *name = value.to_owned(),
            (Table::Mbr { kind, .. }, Some(("type", value))) => *kind = mbr_type(value)?,
            (Table::Mbr { boot, .. }, None) if word == "active" => *boot = Boot::Active,
            _ => return Err(format!("{word:?} is not known in {text:?}")),
        }
    }
    Ok(table)
}

fn mbr_type(text: &str) -> Result<u8, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let kind = u8::from_str_radix(digits, 16).ok().filter(|kind| *kind > 0);
    kind.ok_or_else(|| format!("{text:?} is not a type from 1 to ff"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read() {
        assert_eq!(table("mbr,type=0c,active"), Ok(Table::Mbr { kind: 0xc, boot: Boot::Active }));
        let named = table("gpt,type=root-x86-64,name=root").unwrap();
        let kind = "root-x86-64".parse().unwrap();
        assert_eq!(named, Table::Gpt { kind, name: "root".into() });
        for wrong in ["", "apm", "gpt,active", "mbr,type=100", "mbr,type=0", "gpt,type=x", "gpt,x"]
        {
            assert!(table(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn salts_are_hexadecimal() {
        assert_eq!(salt("00fF"), Ok(Salt(vec![0, 255])));
        assert_eq!(salt("-"), Ok(Salt(Vec::new())));
        for wrong in ["", "0", "0g", "é", &"00".repeat(257)] {
            assert!(salt(wrong).is_err(), "{wrong}");
        }
    }
}
