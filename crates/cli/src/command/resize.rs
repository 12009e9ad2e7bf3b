//! `extant resize`: another size for a volume, in place.
mod mounted;

use super::check;
use extant_block::BlockDevice;
use extant_edit::undo::Applied;
use extant_engine::read_superblock;
use extant_host::closed::{self, DiskLength, Medium, Partition, Room, Volume};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::image::{self, ImageArguments};
use extant_host::recovery::counted;
use extant_host::size::Size;
use extant_repair::{ResizeOptions, Resized, Scope};
use serde::Serialize;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// Give a volume another size, in place and without root.
///
/// Growing adds groups, and takes a moment however large they are. A file becomes longer where it
/// has to; what it gets is a hole. Growth beyond the blocks that were kept for descriptors puts
/// later ones into the groups which they describe (meta_bg), and so needs nothing to move.
/// Shrinking moves what is past the new end, gives inodes there other numbers, and cuts a file that
/// ended with the volume. A partition stays as it is, and the volume can fill it; with --partition
/// its end moves too, up to the next one, and a file becomes longer where it is the last one.
///
/// The volume is healed first (extant heal), checked, changed in memory, and checked again; only if
/// that is clean anything is written, through a log beside the image (.NAME.extant-redo): a power
/// cut leaves the volume as it was or as it is to be, and the next command that opens the image
/// ends what was begun. A block device needs --log FILE. The volume must not be open for writing in
/// another program (--wait waits for it).
///
/// A volume that is mounted grows where it is, while programs use it: one of extant mount, by the
/// folder on which it is or by its image, and one of the kernel by its folder or device. It does
/// not shrink there.
///
/// Exit codes: 0 it has that size; 1 failed, and the volume is as it was; 2 wrong usage.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant resize disk.img 100G             300 MB to 100 GB of a sparse file: milliseconds
  extant resize disk.img +2G              2 GiB more than it has
  extant resize disk.img 150%             half as much again
  extant resize disk.img 20480            so many blocks, as resize2fs counts
  extant resize disk.img min              as small as it can be; extant shrink does more
  truncate -s 20G disk.img && extant resize disk.img     as large as the file is
  extant resize disk.img@2 max            as large as its partition
  extant resize --partition disk.img@2 +5G  the partition gets longer, and the file if it has to
  extant resize --dry-run disk.img 1G     what would move, and nothing written
  extant resize --log /var/tmp/log /dev/sdb1
  extant resize /mnt +2G                  what is mounted there, while it is in use
  extant resize --json disk.img 2G | jq .blocks_after")]
pub struct Arguments {
    /// The image: a file, a partition in one (IMAGE@2) or a block device; or where it is mounted
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// The size: 100G, +2G, 150%, a number of blocks, max (as large as there is room) or min
    #[arg(value_name = "SIZE", default_value = "max")]
    pub size: Wanted,
    /// Only say what would be done
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// Move the end of its partition too
    #[arg(long)]
    pub partition: bool,
    /// Refuse a volume whose journal or orphans wait, in place of healing it first
    #[arg(long)]
    pub no_heal: bool,
    /// Where the log may be, for a device: a file on another file system
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// How many threads share a check; as many as the machine has, unless given
    #[arg(long, short = 'j', value_name = "N")]
    pub threads: Option<NonZeroU32>,
    #[command(flatten)]
    pub place: ImageArguments,
}

/// The size that is asked for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Wanted {
    /// So much; a bare number counts blocks.
    Exactly(Size),
    /// So much more.
    More(Size),
    /// So many hundredths of what it has.
    Percent(u32),
    /// As much as there is room.
    Max,
    /// As small as it can be.
    Min,
}

impl FromStr for Wanted {
    type Err = String;
    fn from_str(text: &str) -> Result<Wanted, String> {
        let wrong = |_| {
            "write a size (100G), how much more (+2G), a share (150%), a number of blocks, max \
             or min"
                .to_owned()
        };
        match text {
            "max" => return Ok(Wanted::Max),
            "min" => return Ok(Wanted::Min),
            _ => {}
        }
        if let Some(share) = text.strip_suffix('%') {
            let is_number = share.bytes().all(|byte| byte.is_ascii_digit());
            let share = share.parse::<u32>().ok().filter(|share| is_number && *share > 0);
            return share.map(Wanted::Percent).ok_or_else(|| wrong(()));
        }
        match text.strip_prefix('+') {
            Some(more) => more.parse().map(Wanted::More).map_err(|_| wrong(())),
            None => text.parse().map(Wanted::Exactly).map_err(|_| wrong(())),
        }
    }
}

impl Wanted {
    /// How many blocks that are; `None` where no number can say it.
    fn blocks(self, now: u64, block_size: u64, room: Room) -> Option<u64> {
        let of = |size: Size| Some(size.bytes(block_size)? / block_size);
        match self {
            Wanted::Exactly(size) => of(size),
            Wanted::More(size) => now.checked_add(of(size)?),
            Wanted::Percent(share) => u64::try_from(u128::from(now) * u128::from(share) / 100).ok(),
            Wanted::Max => Some(room.bytes / block_size),
            Wanted::Min => Some(now),
        }
    }
}

#[derive(Serialize, Default)]
struct Document {
    image: String,
    dry_run: bool,
    block_size: u32,
    blocks_before: u64,
    blocks_after: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    groups_before: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    groups_after: Option<u32>,
    /// Blocks of files that are at another place.
    blocks_moved: u64,
    /// Blocks that were written through the log.
    blocks_written: u64,
    uses_meta_bg: bool,
    /// It was mounted while it grew: groups and what was written are not known.
    mounted: bool,
}

/// Resizes it and says what came of it.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let Arguments { image, place, .. } = &arguments;
    if place.journal.is_some() {
        return Err(Error::usage("--journal: a volume with that on another device is not resized")
            .hint("resize2fs does, once extant replay --journal DEVICE IMAGE has emptied it"));
    }
    if let Some(mounted) = extant_host::mounted::find(image)? {
        return mounted::resize(&arguments, &mounted, console);
    }
    let threads = arguments.threads.unwrap_or_else(closed::machine_threads);
    if arguments.dry_run {
        let device = image::device_shown(image, place, console)?;
        image::warn_if_mounted(image, console);
        let found = extant_host::disk::changeable(image, place.offset_bytes())?;
        let (_, disk) = extant_host::disk::whole(image, place.offset_bytes(), None)?;
        let medium = match std::fs::metadata(&found.file) {
            Ok(metadata) if metadata.is_file() => Medium::File,
            _ => Medium::Device,
        };
        let room = match arguments.partition {
            false => Room::of(&found, &*disk, medium),
            true => Partition::of(image, (&found, &*disk), medium)?.room(),
        };
        let options = closed::options(Scope::Safe, threads, None)?;
        let settled = match arguments.no_heal {
            true => None,
            false => extant_repair::settled(Arc::clone(&device), options)
                .map_err(|error| refused(&arguments, &*device, error))?,
        };
        let device = settled.map_or(device, |(overlay, _)| overlay as Arc<dyn BlockDevice>);
        let resized = planned(&arguments, (device, room), threads, console)?;
        return told(&arguments, &resized, None, console);
    }
    let mut volume = Volume::open(image, place, arguments.log.as_deref())?;
    let mut partition = arguments.partition.then(|| volume.partition()).transpose()?;
    let room = partition.as_ref().map_or_else(|| volume.room(), Partition::room);
    if !arguments.no_heal {
        let failed = |error| refused(&arguments, &*volume.device, error);
        let plan = |device| planned(&arguments, (device, room), threads, console).map(drop);
        volume.settle(failed, plan, console)?;
    }
    let resized = planned(&arguments, (Arc::clone(&volume.device), room), threads, console)?;
    let ends = match arguments.size {
        Wanted::Max => Ends::Longer,
        _ => Ends::WithVolume,
    };
    let partition = partition.as_mut().map(|partition| (partition, ends));
    let applied = applied(&mut volume, &resized, partition, console)?;
    told(&arguments, &resized, Some(applied), console)
}

/// Where a partition is to end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// With its volume, whether that is longer or shorter.
    WithVolume,
    /// Not before where it ends now.
    Longer,
}

/// Writes the volume, and gives its partition its end: a longer one before, a shorter one after.
/// The table is written in any case, so that what was cut before is ended.
pub(super) fn applied(
    volume: &mut Volume,
    resized: &Resized,
    partition: Option<(&mut Partition, Ends)>,
    console: &Console,
) -> Result<Applied, Error> {
    let (before, after) = (resized.before.blocks_count, resized.after.blocks_count);
    let write = |volume: &Volume| match before == after {
        true => Ok(Applied { blocks: 0, undo: None }),
        false => volume.apply_resized(resized, None, console),
    };
    let Some((partition, ends)) = partition else { return write(volume) };
    let end = partition.end_for(after.saturating_mul(resized.after.block_size().into()));
    if end > partition.range().end {
        volume.set_partition(partition, end, DiskLength::Kept)?;
    }
    let applied = write(volume)?;
    let end = match ends {
        Ends::WithVolume => end,
        Ends::Longer => end.max(partition.range().end),
    };
    volume.set_partition(partition, end, DiskLength::Kept)?;
    if volume.is_device() {
        console.warn(
            "the kernel learns of the partition's end by partx -u, or when it is attached again",
        );
    }
    Ok(applied)
}

/// Why a volume does not get another size.
fn refused(arguments: &Arguments, device: &dyn BlockDevice, error: extant_repair::Error) -> Error {
    use extant_repair::Error as Why;
    let shown = arguments.image.display();
    let hint = match &error {
        Why::Unclean(_) => format!(
            "nothing was changed; extant repair {shown} mends it, with --all what loses something, \
             too"
        ),
        Why::NoRoom => {
            format!(
                "extant resize -n {shown} min says how small it can be, and without -n makes it"
            )
        }
        _ => return closed::failure(&arguments.image, device, &arguments.place, error),
    };
    closed::failure(&arguments.image, device, &arguments.place, error).hint(hint)
}

/// The volume as it is to be.
fn planned(
    arguments: &Arguments,
    (device, room): (Arc<dyn BlockDevice>, Room),
    threads: NonZeroU32,
    console: &Console,
) -> Result<Resized, Error> {
    let shown = arguments.image.display();
    let failed = |error| refused(arguments, &*device, error);
    let superblock =
        read_superblock(&*device).map_err(|error| failed(extant_repair::Error::Engine(error)))?;
    let block_size = u64::from(superblock.block_size());
    let blocks = arguments.size.blocks(superblock.blocks_count, block_size, room);
    let blocks = blocks.filter(|blocks| blocks.checked_mul(block_size).is_some());
    let blocks = blocks
        .ok_or_else(|| Error::usage(format!("{shown}: that is larger than any volume can be")))?;
    if blocks > room.bytes / block_size && !room.can_grow {
        let most = room.bytes / block_size;
        let error = Error::new(format!(
            "{shown}: {blocks} blocks are more than its partition or device holds, {most}"
        ));
        return Err(match superblock.blocks_count < most {
            true => error.hint("max makes the volume as large as that"),
            false if arguments.partition => error,
            false => error.hint("--partition makes the partition longer, where it can be"),
        });
    }
    let now_seconds = closed::now_seconds()?;
    let mut options = || ResizeOptions {
        threads,
        // Without a place for it the changes have to fit into memory.
        spool: tempfile::tempfile().ok(),
        now_seconds,
        progress: Some(check::listener(console)),
    };
    let resized = match arguments.size {
        Wanted::Min => extant_repair::minimize(Arc::clone(&device), &mut options),
        _ => extant_repair::resize(Arc::clone(&device), blocks, options()),
    };
    resized.map_err(failed)
}

/// Says what was done, or would be.
fn told(
    arguments: &Arguments,
    resized: &Resized,
    applied: Option<Applied>,
    console: &Console,
) -> Result<Exit, Error> {
    let Resized { before, after, .. } = resized;
    let moved = resized.moved_blocks;
    let uses_meta_bg = after.has(extant_format::superblock::Feature::META_BG);
    let document = Document {
        image: arguments.image.display().to_string(),
        dry_run: applied.is_none(),
        block_size: after.block_size(),
        blocks_before: before.blocks_count,
        blocks_after: after.blocks_count,
        groups_before: Some(before.group_count()),
        groups_after: Some(after.group_count()),
        blocks_moved: moved,
        blocks_written: applied.as_ref().map_or(0, |applied| applied.blocks),
        uses_meta_bg,
        mounted: false,
    };
    if console.is_json() {
        console.print_json("extant-resize/1", &document)?;
        return Ok(Exit::Complete);
    }
    let shown = arguments.image.display();
    let blocks = after.blocks_count;
    if blocks == before.blocks_count {
        console.report(&format!("{shown}: has {} already\n", counted(blocks, "block")))?;
        return Ok(Exit::Complete);
    }
    let verb = if document.dry_run { "would have" } else { "has" };
    let mut line = format!(
        "{shown}: {verb} {} of {} bytes, before {}",
        counted(blocks, "block"),
        after.block_size(),
        before.blocks_count
    );
    if moved > 0 {
        line += &format!("; {} moved", counted(moved, "block"));
    }
    if uses_meta_bg && !before.has(extant_format::superblock::Feature::META_BG) {
        line += "; later descriptors are in their own groups (meta_bg)";
    }
    console.report(&format!("{line}\n"))?;
    Ok(Exit::Complete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        let room = Room { bytes: 1_000_000, can_grow: true };
        let blocks = |text: &str| text.parse::<Wanted>().map(|it| it.blocks(1000, 1024, room));
        for (text, expected) in [
            ("100M", Some(102_400)),
            ("1500", Some(1500)),
            ("+24K", Some(1024)),
            ("+24", Some(1024)),
            ("150%", Some(1500)),
            ("max", Some(976)),
            ("min", Some(1000)),
            ("18446744073709551615", None),
        ] {
            assert_eq!(blocks(text), Ok(expected), "{text}");
        }
        for text in ["", "+", "%", "0%", "+5%", "-1", "-5%", "all", "10Q", "1e9"] {
            assert!(blocks(text).is_err(), "{text}");
        }
    }
}
