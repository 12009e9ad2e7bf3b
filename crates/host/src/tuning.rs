//! A volume of which label, UUID, features, journal or the like are changed: what it gets from the
//! host, and how it is written.
use crate::closed::{self, Volume};
use crate::console::Console;
use crate::error::Error;
use extant_block::BlockDevice;
use extant_edit::undo::Applied;
use extant_engine::read_superblock;
use extant_format::superblock::Feature;
use extant_inspect::Listener;
use extant_repair::tune::words::Names;
use extant_repair::tune::{self, TuneOptions, Tuned, Tuning};
use extant_repair::{Error as Why, Scope};
use std::io::Read;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

/// The users and groups of this machine.
pub fn names() -> Names<'static> {
    Names {
        user: &|name| number_in("/etc/passwd", name),
        group: &|name| number_in("/etc/group", name),
    }
}

/// The number of a name in a list as /etc/passwd is one.
fn number_in(list: &str, name: &str) -> Option<u32> {
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        let number = (fields.next()? == name).then(|| fields.nth(1))?;
        number?.parse().ok()
    };
    let lines = std::fs::read(list).ok()?;
    String::from_utf8_lossy(&lines).lines().find_map(of_line)
}

/// How a volume is changed: time, randomness and names of this machine.
///
/// # Errors
/// The host's; SOURCE_DATE_EPOCH is no time.
pub fn options(
    device: &Path,
    threads: Option<NonZeroU32>,
    progress: Option<Listener>,
) -> Result<TuneOptions, Error> {
    let mut random = [0; 16];
    let source = "/dev/urandom";
    let read = std::fs::File::open(source).and_then(|mut file| file.read_exact(&mut random));
    read.map_err(|error| Error::io(source, &error))?;
    let node = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    let node = node.trim_ascii_end().to_vec();
    let device = device.file_name().map(|name| name.as_encoded_bytes().to_vec());
    Ok(TuneOptions {
        threads: threads.unwrap_or_else(closed::machine_threads),
        // Without a place for it the changes have to fit into memory.
        spool: tempfile::tempfile().ok(),
        now_seconds: closed::now_seconds()?,
        random,
        mount_record: (node, device.unwrap_or_default()),
        progress,
    })
}

/// What becomes of a journal that waits, and of orphans, before a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// They are brought to an end.
    Healed,
    /// The volume is refused.
    Refused,
}

/// Whether something has to be brought to an end before this change: for one of the superblock
/// alone only what could bring the old one back.
///
/// # Errors
/// The device's; the change is refused whatever else the volume has.
pub fn must_settle(device: &dyn BlockDevice, asked: &[Tuning]) -> Result<bool, Why> {
    let superblock = read_superblock(device)?;
    let is_simple = tune::is_of_superblock(&superblock, asked)?;
    Ok(!is_simple || superblock.has(Feature::NEEDS_RECOVERY))
}

/// The volume as it is to be, once what waits has ended. `plan` gives it for the bytes of a volume,
/// and `failed` puts into words why there is none.
///
/// # Errors
/// Those of `plan` and of [`Volume::settle`].
pub fn planned<E: From<Error>>(
    volume: &Volume,
    (asked, waiting): (&[Tuning], Waiting),
    failed: &dyn Fn(Why) -> E,
    plan: &dyn Fn(Arc<dyn BlockDevice>) -> Result<Tuned, E>,
    console: &Console,
) -> Result<Tuned, E> {
    let must = must_settle(&*volume.device, asked).map_err(failed)?;
    match waiting {
        Waiting::Healed if must => {
            volume.settle(failed, |device| plan(device).map(drop), console)?;
        }
        Waiting::Healed => {}
        Waiting::Refused => refuse_waiting(&*volume.device).map_err(failed)?,
    }
    plan(Arc::clone(&volume.device))
}

/// Refuses a volume whose journal has to be replayed.
///
/// # Errors
/// [`Why::Unclean`].
pub fn refuse_waiting(device: &dyn BlockDevice) -> Result<(), Why> {
    match read_superblock(device)?.has(Feature::NEEDS_RECOVERY) {
        true => Err(Why::Unclean("its journal has to be replayed".into())),
        false => Ok(()),
    }
}

/// The volume as it is to be, with nothing written: what waits is ended in memory.
///
/// # Errors
/// As [`planned`].
pub fn rehearsed<E: From<Error>>(
    device: Arc<dyn BlockDevice>,
    (asked, waiting): (&[Tuning], Waiting),
    failed: &dyn Fn(Why) -> E,
    plan: &dyn Fn(Arc<dyn BlockDevice>) -> Result<Tuned, E>,
) -> Result<Tuned, E> {
    let must = must_settle(&*device, asked).map_err(failed)?;
    if waiting == Waiting::Refused {
        refuse_waiting(&*device).map_err(failed)?;
    }
    let settled = match must && waiting == Waiting::Healed {
        true => {
            let options = closed::options(Scope::Safe, closed::machine_threads(), None)?;
            extant_repair::settled(Arc::clone(&device), options).map_err(failed)?
        }
        false => None,
    };
    plan(settled.map_or(device, |(overlay, _)| overlay as Arc<dyn BlockDevice>))
}

/// Writes it: all, or nothing.
///
/// # Errors
/// As [`Volume::apply_resized`].
pub fn apply(
    volume: &Volume,
    tuned: &Tuned,
    theirs: Option<&Path>,
    console: &Console,
) -> Result<Applied, Error> {
    match tuned.is_nothing() {
        true => Ok(Applied { blocks: 0, undo: None }),
        false => volume.apply_resized(&tuned.resized, theirs, console),
    }
}
