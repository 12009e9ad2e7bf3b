//! Another file that is made of an image: raw, compressed or QEMU's, by its name.
use super::pack;
use super::words::{DiskFormat, ShippingArguments};
use extant_block::{BlockDevice, FileDevice, RealClock};
use extant_disk::Content;
use extant_host::console::Console;
use extant_host::error::Error;
use extant_host::target::{Existing, Target, nameless};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are copied at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// Makes `out` of `disk_bytes` bytes that `fill` writes to an empty file, which it may leave
/// shorter where only zeros follow. Gives the length of what was written.
///
/// # Errors
/// Those of `fill`; `out` is there, or a block device; the host's.
pub fn image(
    (out, existing): (&Path, Existing),
    disk_bytes: u64,
    fill: &mut dyn FnMut(&File, &Target) -> Result<(), Error>,
    console: &Console,
) -> Result<u64, Error> {
    let words = ShippingArguments::default();
    words.check(out, 0)?;
    let target = Target::create(out, existing)?;
    let failed = |error: io::Error| target.write_error(&error);
    let (format, compression) = (words.format(out), words.compression(out));
    if target.device_bytes.is_some() {
        return Err(Error::usage(format!("{}: is a block device", out.display()))
            .hint("make a file first, and copy that"));
    }
    let is_plain = format == DiskFormat::Raw && compression.is_none();
    let raw = match is_plain {
        true => target.file.try_clone().map_err(failed)?,
        false => nameless(&target.path)?,
    };
    fill(&raw, &target)?;
    if !is_plain {
        let disk = FileDevice::from_file(
            RealClock::new(),
            raw.try_clone().map_err(failed)?,
            out.display().to_string(),
            disk_bytes,
            0,
        );
        let occupied = data(&disk.map_err(failed)?, 0..disk_bytes).map_err(failed)?;
        let content = Content { file: &raw, bytes: disk_bytes, occupied: &occupied };
        pack((format, compression), &target, &content, console)?;
    }
    target.file.sync_all().map_err(failed)?;
    let image_bytes = target.file.metadata().map_err(failed)?.len();
    target.finish()?;
    Ok(image_bytes)
}

/// The pieces of a range that are not zeros.
///
/// # Errors
/// The device's.
pub fn data(disk: &dyn BlockDevice, range: Range<u64>) -> io::Result<Vec<Range<u64>>> {
    let mut found: Vec<Range<u64>> = Vec::new();
    pieces((disk, range), &mut |at, _| {
        let end = at.end;
        match found.last_mut() {
            Some(last) if last.end == at.start => last.end = end,
            _ => found.push(at),
        }
        Ok(())
    })?;
    Ok(found)
}

/// Copies the pieces of a range that are not zeros to a file, from a byte of it on.
///
/// # Errors
/// The device's, and the host's.
pub fn copy(
    (disk, range): (&dyn BlockDevice, Range<u64>),
    (file, to): (&File, u64),
) -> io::Result<()> {
    let start = range.start;
    pieces((disk, range), &mut |at, bytes| file.write_all_at(bytes, to + (at.start - start)))
}

/// What is done with a piece of a disk, and where that is.
type Work<'a> = dyn FnMut(Range<u64>, &[u8]) -> io::Result<()> + 'a;

/// Gives `work` each piece of a range that is not all zeros.
fn pieces((disk, range): (&dyn BlockDevice, Range<u64>), work: &mut Work<'_>) -> io::Result<()> {
    let mut at = range.start;
    let mut piece = Vec::new();
    while at < range.end {
        let Some(next) = disk.next_data(at)?.filter(|next| next.start < range.end) else {
            return Ok(());
        };
        at = at.max(next.start);
        let end = next.end.min(range.end).min(at.saturating_add(PIECE_BYTES));
        piece.resize((end - at) as usize, 0);
        disk.read(at, &mut piece)?;
        if piece.iter().any(|byte| *byte != 0) {
            work(at..end, &piece)?;
        }
        at = end;
    }
    Ok(())
}
