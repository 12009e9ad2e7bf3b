//! resize2fs: another size for a volume. One that is mounted gets longer where it is.
//!
//! It is changed in memory, checked, and written by a log, so that `-f` and a run of e2fsck before
//! are not needed: a journal that waits is replayed. A device has no place for a log beside it, and
//! gets one in a temporary folder.
use super::{TOOLS_VERSION, complain, console, getopt, log_of_device, one_line, say};
use extant_block::BlockDevice;
use extant_engine::read_superblock;
use extant_format::layout::Width;
use extant_format::superblock::{Feature, Superblock};
use extant_host::closed::{self, Room, Volume};
use extant_host::error::Error;
use extant_host::image::{self, ImageArguments};
use extant_host::mounted::{self, Keeper, Mounted, Refusal};
use extant_repair::{ResizeOptions, Resized, Scope};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a page of memory, of which a size that nobody named is a multiple.
const PAGE_BYTES: u64 = 4096;

/// What is wanted of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Wanted {
    /// As large as its place is, or as it is said.
    Size(Option<String>),
    /// As small as it can be.
    Least,
    /// How small that is.
    SayLeast,
    /// Descriptors with or without the feature 64bit.
    Descriptors(Width),
}

/// A command line, read.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Request {
    device: PathBuf,
    wanted: Wanted,
    undo: Option<PathBuf>,
}

/// Why it is not done.
enum Refused {
    /// In words of resize2fs, a line or more.
    Said(String),
    /// The same, after the program's name.
    Named(String),
    Failed(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Failed(error)
    }
}

type Result<T> = std::result::Result<T, Refused>;

/// Exit code 0, or 1 as resize2fs has it.
pub fn run(name: &'static str, words: &[OsString]) -> u8 {
    let _ = writeln!(
        std::io::stderr().lock(),
        "resize2fs {TOOLS_VERSION} (extant {})",
        env!("CARGO_PKG_VERSION")
    );
    let request = match read(words) {
        Ok(request) => request,
        Err(Wrong::Said(what)) => {
            complain(what);
            return 1;
        }
        Err(Wrong::Usage(what)) => {
            what.iter().for_each(|what| complain(&format!("{name}: {what}")));
            complain(&format!(
                "Usage: {name} [-d debug_flags] [-f] [-F] [-M] [-P] [-p] device \
                 [-b|-s|new_size] [-S RAID-stride] [-z undo_file]\n"
            ));
            return 1;
        }
    };
    match resize(name, &request) {
        Ok(()) => 0,
        Err(Refused::Said(what)) => {
            complain(&what);
            1
        }
        Err(Refused::Named(what)) => {
            complain(&format!("{name}: {what}"));
            1
        }
        Err(Refused::Failed(error)) => {
            complain(&one_line(name, &error));
            1
        }
    }
}

/// Why a command line is none.
enum Wrong {
    /// With a line about what, if it has a name.
    Usage(Option<String>),
    Said(&'static str),
}

fn read(words: &[OsString]) -> std::result::Result<Request, Wrong> {
    let read =
        getopt::read(words, "d:fFhMPpS:bsz:").map_err(|error| Wrong::Usage(Some(error.0)))?;
    let (mut least, mut says, mut width, mut undo) = (false, false, None, None);
    for (letter, value) in &read.options {
        match letter {
            'M' => least = true,
            'P' => says = true,
            'b' | 's' => {
                let this = if *letter == 'b' { Width::SixtyFour } else { Width::ThirtyTwo };
                if width.is_some_and(|width| width != this) {
                    return Err(Wrong::Said("Cannot set and unset 64bit feature."));
                }
                width = Some(this);
            }
            'z' => undo = Some(PathBuf::from(value)),
            'h' => return Err(Wrong::Usage(None)),
            // What is tried is known to be well before it is done, with or without force; where
            // bitmaps and tables are a stride has no say.
            _ => {}
        }
    }
    let (device, size) = match read.operands.as_slice() {
        [device] => (device, None),
        [device, size] => (device, Some(getopt::text(size))),
        _ => return Err(Wrong::Usage(None)),
    };
    let wanted = match (width, says, least) {
        (Some(_), _, _) if size.is_some() => {
            return Err(Wrong::Said("A new size, and -b or -s: one after the other."));
        }
        (Some(width), _, _) => Wanted::Descriptors(width),
        (None, true, _) => Wanted::SayLeast,
        (None, false, true) => Wanted::Least,
        (None, false, false) => Wanted::Size(size),
    };
    Ok(Request { device: PathBuf::from(device), wanted, undo })
}

/// How many blocks a size is: a number of them, or of sectors (s), K, M, G, T. As strtoull(3) has
/// it, a number that begins with 0 is octal, with 0x hexadecimal.
fn blocks_of(text: &str, block_size: u64) -> Option<u64> {
    let (base, rest) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(rest) => (16, rest),
        None if text.starts_with('0') => (8, text),
        None => (10, text),
    };
    let end = rest.find(|letter: char| !letter.is_digit(base)).unwrap_or(rest.len());
    let (digits, unit) = rest.split_at(end);
    let number = u64::from_str_radix(digits, base).ok().filter(|number| *number > 0)?;
    let unit_log2 = match unit {
        "" => return Some(number),
        "s" => 9,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return None,
    };
    Some(number.checked_mul(1 << unit_log2)? / block_size).filter(|blocks| *blocks > 0)
}

/// Blocks of a size, as resize2fs names them.
fn named(blocks: u64, block_size: u64) -> String {
    format!("{blocks} ({}k) blocks", block_size / 1024)
}

fn resize(name: &'static str, request: &Request) -> Result<()> {
    let (path, place) = (&*request.device, ImageArguments::default());
    if request.wanted != Wanted::SayLeast
        && let Some(mounted) = mounted::find(path)?
    {
        return resize_mounted(request, &mounted);
    }
    if request.wanted == Wanted::SayLeast {
        return say_least(request);
    }
    let log = log_of_device(path, "resize")?;
    let volume = Volume::open(path, &place, log.as_deref())?;
    let superblock = superblock(path, &*volume.device)?;
    if let Some(nothing) = nothing_to_do(request, &superblock) {
        complain(&nothing);
        return Ok(());
    }
    if request.wanted == Wanted::Descriptors(Width::SixtyFour) && !superblock.has(Feature::EXTENTS)
    {
        return Err(Refused::Said(
            "Please enable the extents feature with tune2fs before enabling the 64bit feature."
                .to_owned(),
        ));
    }
    let room = volume.room();
    volume.settle(
        |error| refused(path, &*volume.device, error),
        |device| plan(request, (device, room), &superblock).map(drop),
        &console(name),
    )?;
    let resized = plan(request, (Arc::clone(&volume.device), room), &superblock)?;
    let (before, after) = (&resized.before, &resized.after);
    let block_size = u64::from(after.block_size());
    let shown = path.display();
    if (before.blocks_count, before.descriptor_size) == (after.blocks_count, after.descriptor_size)
    {
        complain(&format!(
            "The filesystem is already {} long.  Nothing to do!\n",
            named(before.blocks_count, block_size)
        ));
        return Ok(());
    }
    if let Some(undo) = &request.undo {
        say(&format!(
            "Overwriting existing filesystem; this can be undone using the command:\n    e2undo {} \
             {shown}\n\n",
            undo.display()
        ));
    }
    say(&match request.wanted {
        Wanted::Descriptors(Width::SixtyFour) => "Converting the filesystem to 64-bit.\n".into(),
        Wanted::Descriptors(Width::ThirtyTwo) => "Converting the filesystem to 32-bit.\n".into(),
        _ => format!(
            "Resizing the filesystem on {shown} to {}.\n",
            named(after.blocks_count, block_size)
        ),
    });
    volume.apply_resized(&resized, request.undo.as_deref(), &console(name))?;
    say(&format!(
        "The filesystem on {shown} is now {} long.\n\n",
        named(after.blocks_count, block_size)
    ));
    Ok(())
}

/// Says how small it can be.
fn say_least(request: &Request) -> Result<()> {
    let path = &*request.device;
    let device = image::device(path, &ImageArguments::default())?;
    let how = closed::options(Scope::Safe, closed::machine_threads(), None)?;
    let settled = extant_repair::settled(Arc::clone(&device), how);
    let settled = settled.map_err(|error| refused(path, &*device, error))?;
    let device = settled.map_or(device, |(overlay, _)| overlay as Arc<dyn BlockDevice>);
    let room = Room { bytes: device.info().bytes, can_grow: false };
    let least = plan(request, (Arc::clone(&device), room), &superblock(path, &*device)?)?;
    say(&format!("Estimated minimum size of the filesystem: {}\n", least.after.blocks_count));
    Ok(())
}

/// A volume that is mounted: the words are those of on-line resizing.
fn resize_mounted(request: &Request, mounted: &Mounted) -> Result<()> {
    let (Wanted::Size(_) | Wanted::Least) = &request.wanted else {
        return Err(Refused::Said(
            "Cannot change the 64bit feature while the filesystem is mounted.".to_owned(),
        ));
    };
    let shown = request.device.display();
    let failed = |refusal: Refusal| match refusal.errno {
        NOT_PERMITTED => Refused::Named("Permission denied to resize filesystem".to_owned()),
        _ => Refused::Failed(mounted.failure(&shown.to_string(), &refusal)),
    };
    let host = |error: std::io::Error| {
        failed(Refusal { errno: error.raw_os_error().unwrap_or(0), reason: String::new() })
    };
    let extent = mounted.extent().map_err(host)?;
    let block_size = u64::from(extent.block_size);
    let is_file = mounted.keeper == Keeper::Ours && !is_device(&mounted.mount.source);
    let room = Room { bytes: extent.room_bytes, can_grow: is_file };
    let blocks = match &request.wanted {
        Wanted::Size(size) => wanted_blocks(size.as_deref(), room, block_size)?,
        _ => 0,
    };
    if blocks == extent.blocks {
        complain(&format!(
            "The filesystem is already {} long.  Nothing to do!\n",
            named(blocks, block_size)
        ));
        return Ok(());
    }
    say(&format!(
        "Filesystem at {shown} is mounted on {}; on-line resizing required\n",
        mounted.mount.folder.display()
    ));
    if blocks < extent.blocks {
        return Err(Refused::Named("On-line shrinking not supported".to_owned()));
    }
    let after = mounted.grow(blocks).map_err(failed)?;
    say(&format!("The filesystem on {shown} is now {} long.\n\n", named(after, block_size)));
    Ok(())
}

/// The errno of who may not.
const NOT_PERMITTED: i32 = 1;

fn is_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Why nothing is to be done before anything is looked at.
fn nothing_to_do(request: &Request, superblock: &Superblock) -> Option<String> {
    match (&request.wanted, superblock.descriptor_size) {
        (Wanted::Descriptors(Width::SixtyFour), 64..) => {
            Some("The filesystem is already 64-bit.".to_owned())
        }
        (Wanted::Descriptors(Width::ThirtyTwo), 32) => {
            Some("The filesystem is already 32-bit.".to_owned())
        }
        _ => None,
    }
}

fn superblock(path: &Path, device: &dyn BlockDevice) -> Result<Superblock> {
    let superblock = read_superblock(device);
    superblock.map_err(|error| {
        let error = extant_repair::Error::Engine(error);
        refused(path, device, error)
    })
}

/// The volume as it is to be.
fn plan(
    request: &Request,
    (device, room): (Arc<dyn BlockDevice>, Room),
    superblock: &Superblock,
) -> Result<Resized> {
    let now_seconds = closed::now_seconds()?;
    let shared = Arc::clone(&device);
    let planned = match &request.wanted {
        Wanted::Descriptors(width) => extant_repair::widen(shared, *width, options(now_seconds)),
        Wanted::Least | Wanted::SayLeast => {
            extant_repair::minimize(shared, &mut || options(now_seconds))
        }
        Wanted::Size(size) => {
            let block_size = u64::from(superblock.block_size());
            let blocks = wanted_blocks(size.as_deref(), room, block_size)?;
            extant_repair::resize(shared, blocks, options(now_seconds))
        }
    };
    planned.map_err(|error| refused(&request.device, &*device, error))
}

fn wanted_blocks(size: Option<&str>, room: Room, block_size: u64) -> Result<u64> {
    let most = room.bytes / block_size;
    let Some(size) = size else {
        let page = (PAGE_BYTES / block_size).max(1);
        return Ok(most / page * page);
    };
    let blocks = blocks_of(size, block_size)
        .ok_or_else(|| Refused::Named(format!("Invalid new size: {size}\n")))?;
    if blocks > most && !room.can_grow {
        return Err(Refused::Said(format!(
            "The containing partition (or device) is only {}.\nYou requested a new size of \
             {blocks} blocks.\n",
            named(most, block_size)
        )));
    }
    Ok(blocks)
}

fn options(now_seconds: u64) -> ResizeOptions {
    ResizeOptions {
        threads: closed::machine_threads(),
        // Without a place for it the changes have to fit into memory.
        spool: tempfile::tempfile().ok(),
        now_seconds,
        progress: None,
    }
}

/// Why a volume does not get another size, in words that scripts know where there are any.
fn refused(path: &Path, device: &dyn BlockDevice, error: extant_repair::Error) -> Refused {
    let shown = path.display();
    match error {
        extant_repair::Error::Unclean(problem) => {
            Refused::Said(format!("{shown}: {problem}\nPlease run 'e2fsck -f {shown}' first.\n"))
        }
        extant_repair::Error::NoRoom => Refused::Named(format!(
            "New size smaller than minimum (resize2fs -P {shown} says it)\n"
        )),
        error => Refused::Failed(closed::failure(path, device, &ImageArguments::default(), error)),
    }
}
