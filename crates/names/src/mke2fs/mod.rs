//! mke2fs and its names by type: the options of release 1.47, and its bytes.
//!
//! ```text
//! words           each option by itself
//! configuration   mke2fs.conf
//! decide          words, configuration and size together: what the engine is asked for
//! discard         what a file held goes
//! external        -J device: the device of the journal
//! fill            a volume that is filled as it is made
//! journal_room    whether a volume has room for its journal
//! text            what is printed
//! write           the file or device: what it holds, how it is opened, how it is filled
//! ```
pub mod configuration;
pub mod decide;
mod discard;
mod external;
mod fill;
mod journal_room;
mod text;
pub mod words;
mod write;

use super::features::reason;
use super::{complain, one_line, say, say_version, version};
use configuration::Configuration;
use decide::{Decision, Environment};
use extant_block::{Clock, RealClock};
use extant_engine::mkfs::{self, JournalWish, MountRecord};
use extant_format::superblock::{Feature, Superblock};
use extant_host::error::Error;
use external::JournalDevice;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use words::{JournalWords, Refusal, Request};

/// Why nothing was made.
pub(super) enum Failure {
    /// The words.
    Refused(Refusal),
    /// Anything else.
    Failed(Error),
    /// Said already.
    Silent,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        Failure::Refused(refusal)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Failed(error)
    }
}

/// Exit code 0, or 1 as mke2fs has it.
pub fn run(name: &'static str, file_system: Option<&'static str>, words: &[OsString]) -> u8 {
    let request = match Request::read(words) {
        Ok(request) => request,
        Err(refusal) => return refused(name, &refusal),
    };
    if request.version {
        say_version("mke2fs");
        return 0;
    }
    if !request.quiet {
        complain(&version("mke2fs"));
    }
    match make(name, file_system, &request) {
        Ok(()) => 0,
        Err(Failure::Refused(refusal)) => refused(name, &refusal),
        Err(Failure::Failed(error)) => {
            complain(&one_line(name, &error));
            1
        }
        Err(Failure::Silent) => 1,
    }
}

fn refused(name: &str, refusal: &Refusal) -> u8 {
    match refusal {
        Refusal::Line(line) => complain(&format!("{name}: {line}")),
        Refusal::Usage(what) => {
            if !what.is_empty() {
                complain(&format!("{name}: {what}"));
            }
            complain(&text::usage(name));
        }
    }
    1
}

/// Seconds since 1970: as the environment says, or the host.
fn seconds() -> Result<u64, Error> {
    for name in ["E2FSPROGS_FAKE_TIME", "SOURCE_DATE_EPOCH"] {
        if let Some(text) = std::env::var_os(name) {
            let seconds = text.to_str().and_then(|text| text.parse().ok());
            return seconds.ok_or_else(|| {
                Error::usage(format!("{name}={text:?}: is not a number of seconds"))
            });
        }
    }
    Ok(RealClock::new().wall().seconds.max(0).cast_unsigned())
}

/// The machine, and what the device is called on it.
fn record(device: &Path, seconds: u64) -> MountRecord {
    let node = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    MountRecord {
        seconds,
        node_name: node.trim_ascii().to_vec(),
        device_name: device.as_os_str().as_bytes().to_vec(),
        interval_seconds: 5,
    }
}

fn make(
    name: &'static str,
    file_system: Option<&'static str>,
    request: &Request,
) -> Result<(), Failure> {
    let Some(device) = request.device.as_deref() else {
        return Err(Refusal::Usage(String::new()).into());
    };
    refuse_what_is_not_done(request)?;
    let configuration = Configuration::of_host().map_err(Error::new)?;
    let place = write::Place::look(device)?;
    let journal = external_journal(name, request)?;
    let own_blocks = journal.as_ref().map(|journal| journal.block_size().into());
    let request = &Request { block_size: request.block_size.or(own_blocks), ..request.clone() };
    let offset = words::Extended::read(request.extended.as_deref().unwrap_or_default())?.offset;
    let bytes = write::volume_bytes(request, &place, device, offset)?;
    let caller = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let seconds = seconds()?;
    let environment =
        Environment { file_system, bytes, seconds, caller, record: record(device, seconds) };
    let mut decision = decide::decide(request, &configuration, &environment)?;
    if let Some(journal) = &journal {
        let named = journal.named(decision.options.wishes.block_size)?;
        decision.options.journal = JournalWish::External(named);
    }
    write::mark_zeroed(request, &place, &mut decision);
    journal_room::fit(&mut decision)?;
    refuse_what_is_not_made(&decision)?;
    fill::refuse_what_is_not_filled(request, &decision)?;
    refuse_what_is_not_packed(&decision, &place)?;
    write::identify(request, &mut decision)?;
    for warning in &decision.warnings {
        complain(&format!("{name}: {warning}"));
    }
    if place.is_new() && !request.dry_run {
        say(&format!("Creating regular file {}\n", device.display()));
    }
    let shown = device.display().to_string();
    let planned = match is_journal_device(&decision) {
        true => mkfs::plan_journal_device(&decision.options).map(|superblock| (superblock, 0)),
        false => mkfs::plan(&decision.options).map(|(layout, blocks)| (layout.superblock, blocks)),
    };
    let (superblock, journal_blocks) =
        planned.map_err(|error| extant_host::advice::no_volume(error, &shown))?;
    if offset > 0 && request.size.is_none() {
        complain(&text::unsized_offset(superblock.blocks_count));
    }
    if !request.quiet {
        announce(request, &decision, &superblock);
    }
    if request.dry_run {
        return Ok(());
    }
    if request.super_only {
        write::warn_of_rewrite(request, &decision, &place, device);
    }
    warn(name, &decision, journal_blocks);
    write::write(name, request, &decision, &place, &superblock)?;
    if let Some(journal) = journal.filter(|_| !request.super_only) {
        journal.add_user(&superblock.uuid)?;
    }
    if !request.quiet {
        say(&match is_journal_device(&decision) {
            true => "Zeroing journal device: done\n".to_owned(),
            false => text::done(if request.super_only { 0 } else { journal_blocks }),
        });
    }
    Ok(())
}

/// The device that -J names.
fn external_journal(name: &str, request: &Request) -> Result<Option<JournalDevice>, Failure> {
    let words = JournalWords::read(request.journal_words.as_deref().unwrap_or_default())?;
    let Some(word) = words.device else { return Ok(None) };
    let journal = JournalDevice::open(&word)?;
    if request.block_size.is_none() {
        let size = journal.block_size();
        complain(&format!("{name}: Using journal device's blocksize: {size}"));
    }
    Ok(Some(journal))
}

/// Whether a device is made that is the journal of another volume, and no volume itself.
fn is_journal_device(decision: &Decision) -> bool {
    decision.options.wishes.features.has(Feature::JOURNAL_DEV)
}

fn announce(request: &Request, decision: &Decision, superblock: &Superblock) {
    match request.verbose {
        true => say(&text::verbose_plan(superblock, &decision.options, &decision.types)),
        false => say(&text::plan(superblock)),
    }
}

/// What the user should know of the volume that is made.
fn warn(name: &str, decision: &Decision, journal_blocks: u32) {
    let features = &decision.options.wishes.features;
    if is_journal_device(decision) {
        return;
    }
    let is_here = !matches!(decision.options.journal, JournalWish::External(_));
    if features.has(Feature::HAS_JOURNAL) && journal_blocks == 0 && is_here {
        say("\nFilesystem too small for a journal\n");
    }
    let foreign = features.unwritten();
    if !foreign.is_empty() {
        complain(&format!(
            "{name}: extant does not write volumes with {}: it reads and checks them",
            foreign.join(", ")
        ));
    }
}

/// Options that are refused, with the reason.
fn refuse_what_is_not_done(request: &Request) -> Result<(), Failure> {
    let refuse = |text: &str| Err(Refusal::Line(text.to_owned()).into());
    if request.super_only && request.test > 1 {
        return refuse("-S -c -c: patterns would be written over what -S leaves: say -c once");
    }
    let finds_bad = request.test > 0 || request.bad_blocks.is_some();
    if finds_bad && request.source.is_some() {
        return refuse("-c, -l: are not supported together with -d: copy into the volume then");
    }
    if request.super_only && (request.bad_blocks.is_some() || request.source.is_some()) {
        return refuse("-S: writes superblocks and descriptors alone, without -l and -d");
    }
    if request.undo.is_some() {
        return refuse("-z: an undo file is not supported: keep a copy of what is there");
    }
    Ok(())
}

/// What mke2fs makes and this program does not, by name.
fn refuse_what_is_not_made(decision: &Decision) -> Result<(), Failure> {
    let refuse = |text: String| Err(Refusal::Line(text).into());
    let features = decision.options.wishes.features;
    // Of what a device of a journal is called besides nothing is made.
    let foreign = features.iter().find(|feature| !feature.is_made());
    match foreign {
        None => Ok(()),
        Some(feature) => {
            let (name, why) = (feature.name(), reason(feature));
            refuse(format!("-O {name}: volumes with that are not made: {why}"))
        }
    }
}

/// Where -E android_sparse cannot be done.
fn refuse_what_is_not_packed(decision: &Decision, place: &write::Place) -> Result<(), Failure> {
    let refuse = |why: String| Err(Refusal::Line(format!("-E android_sparse: {why}")).into());
    if !decision.extended.android_sparse {
        return Ok(());
    }
    if matches!(place, write::Place::Device(_)) {
        return refuse("a block device holds a volume as it is: name a file".to_owned());
    }
    if decision.extended.offset > 0 {
        return refuse("a sparse image holds a volume alone, without -E offset".to_owned());
    }
    match mkfs::unfilled(&decision.options.wishes.features) {
        foreign if foreign.is_empty() => Ok(()),
        foreign => refuse(format!(
            "a volume with {} can be made, not packed: img2simg packs it",
            foreign.join(", ")
        )),
    }
}
