//! From the raw disk with a new volume to the image.
use super::report::{ShippedReport, VerityReport};
use super::words::{DiskFormat, ShippingArguments};
use extant_archive::{Compression, compress};
use extant_disk::table::{ALIGNMENT, Places, Table};
use extant_disk::verity::{self, Tree, hexadecimal};
use extant_disk::{Content, Seed, block_map, qcow2, sparse};
use extant_host::console::Console;
use extant_host::error::Error;
use extant_host::image;
use extant_host::progress::Unit;
use extant_host::target::{Existing, Target, nameless};
use extant_image::Progress;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;

/// The sectors of a GPT at the beginning of a disk, and at its end, in bytes.
const TABLE_BYTES: u64 = 34 * 512;

/// What is shipped, and in what.
pub struct Shipment<'a> {
    /// What is asked for.
    pub arguments: &'a ShippingArguments,
    format: DiskFormat,
    /// How the image is compressed.
    compression: Option<Compression>,
    /// Where the volume begins in the raw disk.
    pub origin_bytes: u64,
    /// The file of the raw disk, where it is not the image's.
    raw: Option<File>,
    /// What the other files may replace.
    existing: Existing,
}

impl<'a> Shipment<'a> {
    /// Checks the words, and makes the file of the raw disk. `image` is the name that was given: a
    /// link's name counts, not that of what it leads to.
    ///
    /// # Errors
    /// Wrong usage; the host's.
    pub fn new(
        arguments: &'a ShippingArguments,
        image: &Path,
        target: &Target,
        offset_bytes: u64,
        existing: Existing,
    ) -> Result<Shipment<'a>, Error> {
        arguments.check(image, offset_bytes)?;
        let (compression, format) = (arguments.compression(image), arguments.format(image));
        let changes_bytes = format != DiskFormat::Raw || compression.is_some();
        let adds_bytes = arguments.partition.is_some() || matches!(arguments.verity, Some(None));
        if target.device_bytes.is_some() && (changes_bytes || adds_bytes) {
            return Err(Error::usage(format!(
                "{}: is a block device, which gets a volume alone",
                target.path.display()
            ))
            .hint("make a file first, and copy that; --verity=FILE writes the tree elsewhere"));
        }
        let raw = match changes_bytes {
            true => Some(nameless(&target.path)?),
            false => None,
        };
        let origin_bytes = match arguments.partition {
            Some(_) => ALIGNMENT,
            None => offset_bytes,
        };
        Ok(Shipment { arguments, format, compression, origin_bytes, raw, existing })
    }

    /// Where the volume is built.
    pub fn raw<'b>(&'b self, target: &'b Target) -> &'b File {
        self.raw.as_ref().unwrap_or(&target.file)
    }
}

/// Does what is asked for with a volume of `volume_bytes` whose UUID is `seed`. Returns what is
/// said of it.
///
/// # Errors
/// What the tables cannot hold; files that are there already; the host's.
pub fn ship(
    shipment: &Shipment<'_>,
    target: &Target,
    volume_bytes: u64,
    seed: [u8; 16],
    console: &Console,
) -> Result<ShippedReport, Error> {
    let arguments = shipment.arguments;
    let raw = shipment.raw(target);
    let failed = |error: io::Error| target.write_error(&error);
    let disk = Disk::of(shipment, volume_bytes)
        .map_err(|_| Error::new("--partition: the volume is larger than this table can tell"))?;
    if target.device_bytes.is_none() && disk.end > raw.metadata().map_err(failed)?.len() {
        raw.set_len(disk.end).map_err(failed)?;
    }
    let seed = Seed(seed);
    let hashed = shipment.hash(target, &disk, seed)?;
    if let (Some(table), Some(places)) = (&arguments.partition, &disk.places) {
        let root = hashed.as_ref().map(|hashed| hashed.tree.root);
        table.write(raw, places, seed, root).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => Error::usage(format!("--partition: {error}")),
            _ => failed(error),
        })?;
    }
    let needs_content = arguments.bmap.is_some() || shipment.format != DiskFormat::Raw;
    let occupied = match needs_content {
        true => occupied(raw, &disk)?,
        false => Vec::new(),
    };
    let content = Content { file: raw, bytes: disk.end, occupied: &occupied };
    let block_map = arguments.bmap.as_deref();
    let block_map = block_map.map(|path| shipment.block_map(path, &content)).transpose()?;
    if shipment.raw.is_some() {
        pack((shipment.format, shipment.compression), target, &content, console)?;
    } else if arguments.adds_to_image() {
        target.file.sync_all().map_err(failed)?;
    }
    let report = ShippedReport {
        disk_bytes: disk.end,
        image_bytes: target.file.metadata().map_err(failed)?.len(),
        format: shipment.format.word(),
        compression: shipment.compression.map(|one| match one {
            Compression::Zstandard => "zstd",
            Compression::Gzip => "gzip",
        }),
        volume_offset: shipment.origin_bytes,
        verity: hashed.as_ref().map(Hashed::report),
    };
    // Last, so that no other file is there without the image: that one gets its name next.
    let beside = [hashed.and_then(|hashed| hashed.beside), block_map];
    for file in beside.into_iter().flatten() {
        file.finish()?;
    }
    Ok(report)
}

/// Where things are on the raw disk, in bytes.
struct Disk {
    volume: Range<u64>,
    /// The hash tree, if it is on the disk.
    tree: Option<Range<u64>>,
    places: Option<Places>,
    has_gpt: bool,
    end: u64,
}

impl Disk {
    fn of(shipment: &Shipment<'_>, volume_bytes: u64) -> io::Result<Disk> {
        let arguments = shipment.arguments;
        let start = shipment.origin_bytes;
        let hashed = volume_bytes.next_multiple_of(verity::BLOCK_BYTES);
        // The tree covers whole blocks, so the volume's last one is there whole.
        let padded = if arguments.verity.is_some() { hashed } else { volume_bytes };
        let tree_bytes =
            matches!(arguments.verity, Some(None)).then(|| Tree::bytes_for(volume_bytes));
        let volume = start..start + volume_bytes;
        let Some(table) = &arguments.partition else {
            let tree = tree_bytes.map(|bytes| start + padded..start + padded + bytes);
            let end = tree.as_ref().map_or(start + padded, |tree| tree.end);
            return Ok(Disk { volume, tree, places: None, has_gpt: false, end });
        };
        let places = table.places(padded, tree_bytes)?;
        let (tree, end) = (places.tree.clone(), places.end);
        let has_gpt = matches!(table, Table::Gpt { .. });
        Ok(Disk { volume, tree, places: Some(places), has_gpt, end })
    }
}

/// A hash tree that was written.
struct Hashed {
    tree: Tree,
    salt: String,
    at: u64,
    /// The file of its own that it is in.
    beside: Option<Target>,
}

impl Hashed {
    fn report(&self) -> VerityReport {
        VerityReport {
            root_hash: self.tree.root_hash(),
            salt: self.salt.clone(),
            file: self.beside.as_ref().map(|file| file.path.display().to_string()),
            hash_offset: self.at,
            data_blocks: self.tree.data_blocks,
        }
    }
}

impl Shipment<'_> {
    fn hash(&self, target: &Target, disk: &Disk, seed: Seed) -> Result<Option<Hashed>, Error> {
        let Some(place) = &self.arguments.verity else {
            return Ok(None);
        };
        let raw = self.raw(target);
        let mut options = verity::Options::new(seed);
        if let Some(salt) = &self.arguments.verity_salt {
            options.salt.clone_from(&salt.0);
        }
        let salt = hexadecimal(&options.salt);
        let volume = disk.volume.clone();
        let Some(path) = place else {
            let at = disk.tree.as_ref().map_or(disk.end, |tree| tree.start);
            let tree = verity::write(raw, volume, raw, at, &options);
            let tree = tree.map_err(|error| target.write_error(&error))?;
            return Ok(Some(Hashed { tree, salt, at, beside: None }));
        };
        let file = Target::create(path, self.existing)?;
        let tree = verity::write(raw, volume, &file.file, 0, &options);
        let tree = tree.and_then(|tree| file.file.sync_all().map(|()| tree));
        let tree = tree.map_err(|error| file.write_error(&error))?;
        Ok(Some(Hashed { tree, salt, at: 0, beside: Some(file) }))
    }

    fn block_map(&self, path: &Path, content: &Content<'_>) -> Result<Target, Error> {
        let mut file = Target::create(path, self.existing)?;
        let document = block_map::document(content);
        let written = document.and_then(|text| {
            file.file.write_all(text.as_bytes())?;
            file.file.sync_all()
        });
        written.map_err(|error| file.write_error(&error))?;
        Ok(file)
    }
}

/// Makes the image of a raw disk, in another file than that.
///
/// # Errors
/// The host's.
pub fn pack(
    (format, compression): (DiskFormat, Option<Compression>),
    target: &Target,
    content: &Content<'_>,
    console: &Console,
) -> Result<(), Error> {
    let failed = |error: io::Error| target.write_error(&error);
    let progress = console.progress("pack", Unit::Bytes, content.bytes);
    let mut advance = |bytes| progress.advance(bytes);
    let image = &target.file;
    let converted = match (format, compression) {
        (DiskFormat::Qcow2, _) => image.try_clone().and_then(|image| qcow2::write(content, image)),
        (DiskFormat::AndroidSparse, None) => {
            sparse::write(content, &mut BufWriter::with_capacity(1 << 20, image))
        }
        (DiskFormat::AndroidSparse, Some(compression)) => {
            // The sparse image comes first: it is what is compressed.
            let mut sparse_image = nameless(&target.path)?;
            let mut to = BufWriter::with_capacity(1 << 20, &sparse_image);
            let made = sparse::write(content, &mut to);
            drop(to);
            let made = made.and_then(|()| sparse_image.seek(SeekFrom::Start(0)));
            made.and_then(|_| compress(&mut sparse_image, &mut &*image, compression, &mut advance))
        }
        (DiskFormat::Raw, Some(compression)) => {
            let mut from = content.file;
            let start = from.seek(SeekFrom::Start(0));
            start.and_then(|_| {
                let from = &mut from.take(content.bytes);
                compress(from, &mut &*image, compression, &mut advance)
            })
        }
        (DiskFormat::Raw, None) => Ok(()),
    };
    converted.and_then(|()| image.sync_all()).map_err(failed)
}

/// The bytes of a disk that matter: tables, the blocks of the volume that are in use, the hash
/// tree.
fn occupied(raw: &File, disk: &Disk) -> Result<Vec<Range<u64>>, Error> {
    let mut occupied = Vec::new();
    if disk.places.is_some() {
        occupied.push(0..if disk.has_gpt { TABLE_BYTES } else { 512 });
    }
    occupied.extend(image::occupied(raw, &disk.volume)?);
    occupied.extend(disk.tree.clone());
    if disk.has_gpt {
        occupied.push(disk.end - TABLE_BYTES..disk.end);
    }
    Ok(occupied)
}
