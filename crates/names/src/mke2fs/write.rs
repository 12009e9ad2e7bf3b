//! The file or device that a volume is written to: what it holds, how it is opened and filled.
use super::Failure;
use super::decide::Decision;
use super::discard::{discards, prepare};
use super::fill;
use super::words::{Refusal, Request, scaled};
use crate::format_options::{random_uuid, seed_words, uuid_bytes};
use crate::{complain, say};
use extant_block::{BlockDevice, FileDevice, RealClock, WallTime};
use extant_disk::{Content, sparse};
use extant_engine::ErrorKind;
use extant_engine::mkfs::{self, Contents, Identities};
use extant_format::BlockNo;
use extant_format::layout::{Tables, Wishes};
use extant_format::superblock::{Feature, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock};
use extant_host::advice::no_volume;
use extant_host::cleanup::PartialFile;
use extant_host::error::Error;
use extant_host::held::{self, Medium};
use extant_host::image::{default_policies, occupied};
use extant_host::target::{self, Target, nameless};
use extant_image::assemble::digest;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufWriter, IsTerminal, Write};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;
use std::sync::Arc;

/// What is there already.
pub enum Place {
    /// Nothing yet.
    Nothing,
    /// A file of this many bytes.
    File(u64),
    /// A block device of this many bytes.
    Device(u64),
}

impl Place {
    /// Looks at a path.
    pub fn look(path: &Path) -> Result<Place, Error> {
        let failed = |error: io::Error| Error::io(path.display(), &error);
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Place::Nothing),
            Err(error) => return Err(failed(error)),
        };
        if !metadata.file_type().is_block_device() {
            target::check(path, &metadata)?;
            return Ok(Place::File(metadata.len()));
        }
        let mut file = File::open(path).map_err(failed)?;
        let bytes = io::Seek::seek(&mut file, io::SeekFrom::End(0)).map_err(failed)?;
        Ok(Place::Device(bytes))
    }

    /// Whether the file is made.
    pub fn is_new(&self) -> bool {
        matches!(self, Place::Nothing)
    }
}

/// Bytes that the volume may have: its size operand, or what is there.
pub(super) fn volume_bytes(
    request: &Request,
    place: &Place,
    path: &Path,
    offset: u64,
) -> Result<u64, Failure> {
    let unit = match request.block_size {
        Some(size @ 1..) => size.unsigned_abs(),
        _ => 1024,
    };
    let present = match *place {
        Place::Nothing => None,
        Place::File(bytes) | Place::Device(bytes) => Some(bytes.saturating_sub(offset)),
    };
    let Some(text) = &request.size else {
        let shown = path.display();
        return match present {
            Some(bytes @ 1..) => Ok(bytes),
            Some(0) => {
                Err(Refusal::Line(format!("Device size reported to be zero: {shown}")).into())
            }
            None => {
                let line = format!("The file {shown} does not exist and no size was specified.");
                Err(Refusal::Line(line).into())
            }
        };
    };
    let Some(bytes) = scaled(text, unit) else {
        let shown = path.display();
        return Err(Refusal::Line(format!("invalid blocks '{text}' on device '{shown}'")).into());
    };
    if matches!(place, Place::Device(_)) && present.is_some_and(|present| bytes > present) {
        let shown = path.display();
        return Err(Error::new(format!(
            "{shown}: {bytes} bytes are asked for, and the device has {}",
            present.unwrap_or(0)
        ))
        .into());
    }
    Ok(bytes)
}

/// As mke2fs has it, the inode tables in a file that was there and was emptied count as zeroed, so
/// that the kernel does not do it again; those in a file that is made do not, nor those in
/// Android's form, which takes a file's place.
pub(super) fn mark_zeroed(request: &Request, place: &Place, decision: &mut Decision) {
    let is_kept = matches!(place, Place::File(1..)) && !decision.extended.android_sparse;
    if is_kept && discards(request, decision) {
        decision.options.wishes.marks.tables = Tables::Zeroed;
    }
}

/// UUID and hash seed: as asked, from the environment's time and the options, or drawn.
pub(super) fn identify(request: &Request, decision: &mut Decision) -> Result<(), Failure> {
    let digest: Option<[u8; 32]> = std::env::var_os("SOURCE_DATE_EPOCH")
        .map(|_| Sha256::digest(format!("{:?}", decision.options.wishes)).into());
    let drawn = |of: fn(&[u8; 32]) -> [u8; 16]| match &digest {
        Some(digest) => Ok(of(digest)),
        None => random_uuid(),
    };
    let wishes = &mut decision.options.wishes;
    wishes.uuid = match request.uuid.as_deref() {
        None => drawn(digest::uuid)?,
        Some("random") => random_uuid()?,
        Some("time") => crate::format_options::UuidWord::Time.draw()?,
        Some("clear" | "null") => [0; 16],
        Some(text) => match uuid_bytes(text) {
            Some(uuid) => uuid,
            None => return Err(Refusal::Line(format!("could not parse UUID: {text}")).into()),
        },
    };
    let seed = match decision.extended.hash_seed.as_deref() {
        None => match &digest {
            Some(digest) => {
                wishes.hash_seed = digest::seed(digest);
                return Ok(());
            }
            None => random_uuid()?,
        },
        Some(text) => match uuid_bytes(text) {
            Some(seed) => seed,
            None => return Err(Refusal::Line(format!("Invalid hash seed: {text}")).into()),
        },
    };
    wishes.hash_seed = seed_words(seed);
    Ok(())
}

/// Asks where a terminal is there, and goes on where none is, as mke2fs does.
fn confirm(path: &Path, place: &Place, request: &Request, end: u64) -> Result<(), Failure> {
    if request.force > 0 || matches!(place, Place::Nothing | Place::File(0)) {
        return Ok(());
    }
    let medium = match place {
        Place::Device(_) => Medium::Device,
        _ => Medium::File,
    };
    let Err(error) = held::check_empty(path, 0..end, medium) else { return Ok(()) };
    let is_asked = io::stdin().is_terminal() && io::stdout().is_terminal();
    if !is_asked {
        // Scripts that call mke2fs are used to it: a volume is written over.
        if !request.quiet {
            say(&format!("{}\n", error.message));
        }
        return Ok(());
    }
    say(&format!("{}\nProceed anyway? (y,N) ", error.message));
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    match answer.trim_start().starts_with(['y', 'Y']) {
        true => Ok(()),
        false => Err(Failure::Silent),
    }
}

/// Writes the volume.
pub(super) fn write(
    name: &'static str,
    request: &Request,
    decision: &Decision,
    place: &Place,
    planned: &Superblock,
) -> Result<(), Failure> {
    let Some(path) = request.device.as_deref() else { return Ok(()) };
    let offset = decision.extended.offset;
    let bytes = planned.blocks_count.saturating_mul(planned.block_size().into());
    let end = offset
        .checked_add(bytes)
        .ok_or_else(|| Refusal::Line(format!("Invalid offset: {offset}")))?;
    confirm(path, place, request, end)?;
    // A file that is made here goes again when it does not become a volume, by a signal too.
    let partial = match place.is_new() {
        true => Some(new_file(path)?),
        false => None,
    };
    let mut target = Target::in_place(path)?;
    let mut raw = match decision.extended.android_sparse {
        true => Some(nameless(&target.path)?),
        false => None,
    };
    // The volume is built where no one sees it, and then packed.
    if let Some(raw) = &mut raw {
        std::mem::swap(raw, &mut target.file);
    }
    match fill::is_filled(request, decision) {
        true => fill::fill(name, request, decision, &target, bytes)?,
        // Not a byte goes that is there, nor does a file get longer than what is written.
        false if request.super_only => {
            format(request, decision, Contents::Unknown, &target, bytes)?
        }
        false => {
            let contents = prepare(request, decision, &target, end)?;
            format(request, decision, contents, &target, bytes)?;
        }
    }
    if let Some(image) = raw {
        let raw = std::mem::replace(&mut target.file, image);
        pack(&raw, &target, bytes)?;
    }
    target.finish()?;
    if let Some(partial) = partial {
        partial.keep();
    }
    Ok(())
}

/// -E android_sparse: the image of a volume in Android's sparse form, in place of what the file
/// held.
fn pack(raw: &File, target: &Target, bytes: u64) -> Result<(), Failure> {
    let failed = |error: io::Error| target.write_error(&error);
    let occupied = occupied(raw, &(0..bytes))?;
    let content = Content { file: raw, bytes, occupied: &occupied };
    target.file.set_len(0).map_err(failed)?;
    let mut to = BufWriter::with_capacity(1 << 20, &target.file);
    let written = sparse::write(&content, &mut to);
    written.and_then(|()| to.flush()).map_err(failed)?;
    target.file.sync_all().map_err(failed)?;
    Ok(())
}

/// Makes an empty file, registered for removal.
fn new_file(path: &Path) -> Result<PartialFile, Error> {
    let partial = PartialFile::register(path);
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(_) => Ok(partial),
        Err(error) => {
            // What is there by now is another program's.
            partial.keep();
            Err(Error::io(path.display(), &error))
        }
    }
}

fn format(
    request: &Request,
    decision: &Decision,
    contents: Contents,
    target: &Target,
    bytes: u64,
) -> Result<(), Failure> {
    let failed = |error: io::Error| target.write_error(&error);
    let shown = target.path.display().to_string();
    let file = target.file.try_clone().map_err(failed)?;
    let seconds = i64::try_from(decision.options.wishes.created_seconds).unwrap_or(i64::MAX);
    let clock = RealClock::pinned(WallTime { seconds, nanoseconds: 0 });
    let offset = decision.extended.offset;
    let device =
        FileDevice::from_file(clock, file, shown.clone(), bytes, offset).map_err(failed)?;
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    let mut options = decision.options.clone();
    options.contents = contents;
    let failed = |error: extant_engine::Error| match error.kind {
        ErrorKind::Device(error) => failed(error),
        _ => no_volume(error, &shown),
    };
    if options.wishes.features.has(Feature::JOURNAL_DEV) {
        return Ok(mkfs::format_journal_device(&*device, &options).map_err(failed)?);
    }
    if request.super_only {
        let identities = match (&request.uuid, &decision.extended.hash_seed) {
            (Some(_), _) => Identities::Given,
            (None, Some(_)) => Identities::UuidKept,
            (None, None) => Identities::Kept,
        };
        options.wishes.bad_blocks = bad_blocks(request, &*device, &options.wishes)?;
        if !options.wishes.bad_blocks.is_empty() {
            complain(&unlisted(&shown, &options.wishes.bad_blocks));
        }
        mkfs::format_super_only(&*device, &options, identities).map_err(failed)?;
        return Ok(());
    }
    options.wishes.bad_blocks = bad_blocks(request, &*device, &options.wishes)?;
    mkfs::format(device, &options, &default_policies()?).map_err(failed)?;
    Ok(())
}

/// What is said of bad blocks that no list will have: with -S no inode is written.
fn unlisted(shown: &str, bad: &[BlockNo]) -> String {
    let named: Vec<String> = bad.iter().take(10).map(|block| block.0.to_string()).collect();
    let more = if bad.len() > named.len() { ", ..." } else { "" };
    let (count, named) = (bad.len(), named.join(", "));
    format!(
        "{shown}: {count} blocks cannot be read: {named}{more} (-S keeps no list of them: \
         e2fsck -c makes one)"
    )
}

/// Says before -S what it may do.
pub(super) fn warn_of_rewrite(request: &Request, decision: &Decision, place: &Place, path: &Path) {
    complain(&format!("{} may be further corrupted by superblock rewrite", path.display()));
    if let Some(warning) = unknown_uuid(request, decision, place, path) {
        complain(&warning);
    }
}

/// What is said before -S where the UUID of the volume is not known: no superblock can be read, and
/// nobody said -U. `None` where that does no harm.
fn unknown_uuid(
    request: &Request,
    decision: &Decision,
    place: &Place,
    path: &Path,
) -> Option<String> {
    let is_summed = decision.options.wishes.features.has(Feature::METADATA_CSUM);
    if request.uuid.is_some() || !is_summed || place.is_new() {
        return None;
    }
    let mut bytes = [0; SUPERBLOCK_SIZE];
    let at = decision.extended.offset.saturating_add(SUPERBLOCK_OFFSET);
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut bytes, at));
    match read.is_ok() && Superblock::parse(&bytes).is_ok() {
        true => None,
        false => Some(format!(
            "{}: its superblock cannot be read, so its UUID is not known, and all checksums of its \
             inodes and directories will be wrong: e2fsck gives it up (-U takes the UUID that it \
             had)",
            path.display()
        )),
    }
}

/// The blocks that -l lists, and those that -c finds, rising.
fn bad_blocks(
    request: &Request,
    device: &dyn BlockDevice,
    wishes: &Wishes,
) -> Result<Vec<BlockNo>, Failure> {
    let mut bad = BTreeSet::new();
    if let Some(list) = &request.bad_blocks {
        let shown = list.display();
        let text = std::fs::read_to_string(list).map_err(|error| Error::io(&shown, &error))?;
        for word in text.split_whitespace() {
            let block = word.parse().ok().filter(|block| *block < wishes.blocks);
            let block = block.ok_or_else(|| {
                Refusal::Line(format!("{shown}: {word} is not a block of the volume"))
            })?;
            bad.insert(BlockNo(block));
        }
    }
    bad.extend(match request.test {
        0 => Vec::new(),
        1 => mkfs::unreadable_blocks(device, wishes.block_size, wishes.blocks),
        _ => mkfs::failing_blocks(device, wishes.block_size, wishes.blocks)
            .map_err(|error| no_volume(error, &device.info().name))?,
    });
    // What is before the first data block is of no volume.
    let first = u64::from(wishes.block_size == 1024);
    Ok(bad.into_iter().filter(|block| block.0 >= first).collect())
}
