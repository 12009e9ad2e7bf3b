//! Which bytes of a disk are in use: what a volume has, and everything that is no volume of ours.
use super::Arguments;
use crate::shipping::copied::data;
use extant_block::{BlockDevice, Window};
use extant_disk::block_map::{self, BLOCK_BYTES};
use extant_disk::partitions;
use extant_engine::ErrorKind;
use extant_host::closed;
use extant_host::console::Console;
use extant_host::disk::{self, Place};
use extant_host::error::{Error, Exit};
use extant_host::image;
use extant_host::target::Target;
use extant_repair::{Scope, Scrub, TrimOptions};
use serde::Serialize;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

/// How a map is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Form {
    /// As bmaptool reads it: version 2.0, blocks of 4096 bytes, with a digest of each range
    Bmap,
    /// As one JSON document
    Json,
}

/// Bytes of the disk.
#[derive(Serialize)]
struct Stretch {
    start: u64,
    bytes: u64,
}

/// A volume whose free blocks are left out.
#[derive(Serialize)]
struct Mapped {
    /// The number of its partition; `null` for a whole disk, or a volume that is named by its byte.
    partition: Option<u32>,
    start: u64,
    block_size: u32,
    blocks: u64,
    free_blocks: u64,
}

#[derive(Serialize)]
struct Document {
    image: String,
    disk_bytes: u64,
    used_bytes: u64,
    volumes: Vec<Mapped>,
    /// What is in use, rising and apart.
    ranges: Vec<Stretch>,
}

/// Says which blocks of a disk are in use.
pub(super) fn run(arguments: &Arguments, form: Form, console: &Console) -> Result<Exit, Error> {
    if form == Form::Bmap && console.is_json() {
        return Err(Error::usage("--json: a map for bmaptool is no JSON").hint("--map json is"));
    }
    let image = &arguments.image;
    image::warn_if_mounted(image, console);
    let (word, disk) = disk::whole(image, arguments.place.offset_bytes(), Some(console))?;
    let (volumes, used) = surveyed(arguments, &word, &disk)?;
    let disk_bytes = disk.info().bytes;
    let failed = |error: std::io::Error| Error::io(image.display(), &error);
    let text = match form {
        Form::Bmap => {
            let blocks = used.iter();
            let blocks =
                blocks.map(|it| it.start / BLOCK_BYTES..it.end.div_ceil(BLOCK_BYTES)).collect();
            let mut read = |buffer: &mut [u8], at| disk.read(at, buffer);
            block_map::document_of(disk_bytes, &joined(blocks), &mut read).map_err(failed)?
        }
        Form::Json => {
            let ranges: Vec<Stretch> = used
                .iter()
                .map(|range| Stretch { start: range.start, bytes: range.end - range.start })
                .collect();
            let document = Document {
                image: image.display().to_string(),
                disk_bytes,
                used_bytes: ranges.iter().map(|range| range.bytes).sum(),
                volumes,
                ranges,
            };
            if arguments.out.is_none() {
                console.print_json("extant-map/1", &document)?;
                return Ok(Exit::Complete);
            }
            console.json_text("extant-map/1", &document)?
        }
    };
    let Some(out) = &arguments.out else {
        console.print(&text)?;
        return Ok(Exit::Complete);
    };
    let mut target = Target::create(out, arguments.copy.existing())?;
    let written = target.file.write_all(text.as_bytes()).and_then(|()| target.file.sync_all());
    written.map_err(|error| target.write_error(&error))?;
    target.finish()?;
    Ok(Exit::Complete)
}

/// The volumes of a disk, and what is in use of all of it, rising and apart.
fn surveyed(
    arguments: &Arguments,
    word: &Place,
    disk: &Arc<dyn BlockDevice>,
) -> Result<(Vec<Mapped>, Vec<Range<u64>>), Error> {
    let image = &arguments.image;
    let mut map = Map { arguments, disk, volumes: Vec::new(), used: Vec::new() };
    let disk_bytes = disk.info().bytes;
    let failed = |error: std::io::Error| Error::io(image.display(), &error);
    let table = partitions(&**disk).map(|table| table.partitions).unwrap_or_default();
    // What is named is looked into; without a name, all.
    let mut parts: Vec<(Option<u32>, Range<u64>)> = Vec::new();
    for one in table {
        let range = one.range.start..one.range.end.min(disk_bytes);
        parts.push((Some(one.number), range));
    }
    let named = word.range.clone();
    match &named {
        Some(range) if !parts.iter().any(|(_, part)| part.start == range.start) => {
            parts.push((None, range.clone()));
        }
        None if parts.is_empty() => parts.push((None, 0..disk_bytes)),
        _ => {}
    }
    for (number, range) in &parts {
        let is_meant = named.as_ref().is_none_or(|named| named.start == range.start);
        match is_meant {
            true => map.part(*number, range.clone(), word)?,
            false => map.used.push(range.clone()),
        }
    }
    // What is in no partition is in use where it is not zeros.
    let covered = joined(parts.into_iter().map(|(_, range)| range).collect());
    let mut from = 0;
    for range in covered.iter().cloned().chain(std::iter::once(disk_bytes..disk_bytes)) {
        map.used.extend(data(&**disk, from..range.start).map_err(failed)?);
        from = range.end;
    }
    Ok((map.volumes, joined(map.used)))
}

/// Ranges that rise and are apart.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges.into_iter().filter(|range| range.start < range.end) {
        match joined.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// A map under way.
struct Map<'a> {
    arguments: &'a Arguments,
    disk: &'a Arc<dyn BlockDevice>,
    volumes: Vec<Mapped>,
    used: Vec<Range<u64>>,
}

impl Map<'_> {
    /// Adds a part of the disk: what its volume uses, and what follows that; all of it where it is
    /// no volume of ours.
    fn part(&mut self, number: Option<u32>, range: Range<u64>, word: &Place) -> Result<(), Error> {
        let image = &self.arguments.image;
        let name = match number {
            Some(number) => format!("{}@{number}", word.file.display()),
            None => image.display().to_string(),
        };
        let window = Window::new(Arc::clone(self.disk), range.clone(), name.clone());
        let place = Place { file: word.file.clone(), range: Some(range.clone()) };
        let window = Arc::new(window) as Arc<dyn BlockDevice>;
        let device = image::after_redo((&place, self.disk.info().bytes), Arc::clone(&window))?;
        let heal = format!("extant heal {name} brings what waits to an end");
        if !Arc::ptr_eq(&device, &window) {
            return Err(Error::new(format!("{name}: a change of it was interrupted")).hint(heal));
        }
        match extant_engine::read_superblock(&*device) {
            Ok(_) => {}
            Err(error) if matches!(error.kind, ErrorKind::NotExt) && number.is_some() => {
                self.used.push(range);
                return Ok(());
            }
            Err(error) => return Err(image::failure(name.as_ref(), error)),
        }
        let threads = self.arguments.copy.threads();
        let failed = |error| {
            closed::failure(name.as_ref(), &*device, &self.arguments.place, error)
                .hint(format!("extant repair {name} mends what is damaged"))
        };
        let options = closed::options(Scope::Safe, threads, None)?;
        if extant_repair::settled(Arc::clone(&device), options).map_err(failed)?.is_some() {
            return Err(Error::new(format!(
                "{name}: was not unmounted: what is free is not known"
            ))
            .hint(heal));
        }
        let options = TrimOptions { scrub: Scrub::Nothing, threads, spool: None, progress: None };
        let trimmed = extant_repair::trim(Arc::clone(&device), options).map_err(failed)?;
        let block_size = trimmed.superblock.block_size();
        let byte_of =
            |block: u64| range.start.saturating_add(block.saturating_mul(block_size.into()));
        let blocks = trimmed.superblock.blocks_count;
        let mut from = 0;
        for free in trimmed.free.iter().cloned().chain(std::iter::once(blocks..blocks)) {
            self.used.push(byte_of(from)..byte_of(free.start));
            from = free.end;
        }
        let end = byte_of(blocks).min(range.end);
        let follows = data(&**self.disk, end..range.end);
        self.used.extend(follows.map_err(|error| Error::io(image.display(), &error))?);
        self.volumes.push(Mapped {
            partition: number,
            start: range.start,
            block_size,
            blocks,
            free_blocks: trimmed.free_blocks(),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        assert_eq!(joined(vec![5..7, 0..2, 2..3, 6..9, 20..20]), [0..3, 5..9]);
    }
}
