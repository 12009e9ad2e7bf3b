//! `extant tune`: what a volume says of itself, and has of its own, changed in place.
use super::check;
use extant_block::BlockDevice;
use extant_host::closed::{self, Volume};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::image::{self, ImageArguments};
use extant_host::tuning::{self, Waiting};
use extant_repair::tune::{Change, Tuned, Tuning, tune, words};
use serde::Serialize;
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Change label, UUID, features, journal, quota and settings of a volume, as tune2fs spells them.
///
/// What is in the superblock alone, label and UUID and settings, is changed in milliseconds however
/// large the volume is. Where more follows, checksums of everything, a journal, quota files, the
/// volume is healed first (extant heal), checked, changed in memory, and checked again; only if
/// that is clean anything is written. So nothing asks for e2fsck afterwards, and what would not be
/// clean is refused with why.
///
/// All of it is one change, through a log beside the image (.NAME.extant-redo): a power cut leaves
/// the volume as it was or as it is to be, and the next command that opens the image ends what was
/// begun. A block device needs --log FILE. The volume must not be mounted, nor open for writing in
/// another program (--wait waits for it).
///
/// Exit codes: 0 it is as it is to be; 1 failed, and the volume is as it was; 2 wrong usage.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant tune -L root disk.img                        a label
  extant tune -U random disk.img@2                    another UUID; checksums follow
  extant tune -O metadata_csum,^huge_file disk.img    features, several in one change
  extant tune -O ^has_journal disk.img                no journal; -j makes one
  extant tune -J size=64 disk.img                     another journal, of 64 MiB
  extant tune -m 1 -o acl,^user_xattr -e remount-ro disk.img
  extant tune -Q usrquota,grpquota disk.img           quota, counted
  extant tune -n -O metadata_csum disk.img            what would change, and nothing written
  extant tune --json -L data disk.img | jq .changes
  extant tune -l disk.img                             what it is like")]
pub struct Arguments {
    /// The image: a file, a partition in one (IMAGE@2) or a block device
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// The label, of at most 16 bytes
    #[arg(short = 'L', long, value_name = "LABEL")]
    label: Option<OsString>,
    /// The UUID: one, or clear, random, time
    #[arg(short = 'U', long, value_name = "UUID")]
    uuid: Option<String>,
    /// Features that it gets, or with ^ loses
    #[arg(short = 'O', long, value_name = "[^]FEATURE,..", allow_hyphen_values = true)]
    features: Vec<String>,
    /// Make a journal
    #[arg(short = 'j')]
    with_journal: bool,
    /// A journal with these: size=MEGABYTES, location=BLOCK, fast_commit_size=KILOBYTES. One that
    /// is there is replaced
    #[arg(short = 'J', long = "journal-options", value_name = "NAME=VALUE,..")]
    journal_options: Vec<String>,
    /// Quota files that it gets, or with ^ loses: usrquota, grpquota, prjquota
    #[arg(short = 'Q', long, value_name = "[^]KIND,..", allow_hyphen_values = true)]
    quota: Vec<String>,
    /// Share of the blocks that only root may take, in percent: 0 to 50
    #[arg(short = 'm', long, value_name = "PERCENT")]
    reserved_percent: Option<String>,
    /// The same, as a number of blocks
    #[arg(short = 'r', long, value_name = "BLOCKS")]
    reserved_blocks: Option<String>,
    /// Who may take them besides: a name or a number
    #[arg(short = 'u', long, value_name = "USER")]
    reserved_user: Option<String>,
    /// Which group may
    #[arg(short = 'g', long, value_name = "GROUP")]
    reserved_group: Option<String>,
    /// Mounts after which it is checked: a number, random, or -1 for never
    #[arg(short = 'c', long, value_name = "MOUNTS", allow_hyphen_values = true)]
    max_mount_count: Option<String>,
    /// How often it was mounted since the last check
    #[arg(short = 'C', long, value_name = "MOUNTS")]
    mount_count: Option<String>,
    /// The time between two checks: days, or with w weeks, m months, s seconds; 0 for never
    #[arg(short = 'i', long, value_name = "INTERVAL")]
    check_interval: Option<String>,
    /// When it was checked last: now, or YYYYMMDD[HH[MM[SS]]], in UTC
    #[arg(short = 'T', long, value_name = "TIME")]
    last_checked: Option<String>,
    /// What the kernel does on an error: continue, remount-ro or panic
    #[arg(short = 'e', long, value_name = "WHAT")]
    errors: Option<String>,
    /// Default mount options that it gets, or with ^ loses: acl, user_xattr, discard and others
    #[arg(short = 'o', long, value_name = "[^]OPTION,..", allow_hyphen_values = true)]
    mount_options: Vec<String>,
    /// Where it was mounted last
    #[arg(short = 'M', long, value_name = "FOLDER")]
    last_mounted: Option<OsString>,
    /// Extended options: mount_opts=TEXT, hash_alg=NAME, stride=BLOCKS, stripe_width=BLOCKS,
    /// test_fs, ^test_fs, force_fsck, mmp_update_interval=SECONDS, clear_mmp,
    /// orphan_file_size=BYTES, encoding=utf8, encoding_flags=strict
    #[arg(short = 'E', long, value_name = "NAME=VALUE,..", allow_hyphen_values = true)]
    extended: Vec<String>,
    /// Bytes of an inode
    #[arg(short = 'I', long, value_name = "BYTES")]
    inode_size: Option<String>,
    /// Accepted: what is done is known to be well before it is
    #[arg(short = 'f', long)]
    force: bool,
    /// Show what it is like
    #[arg(short = 'l', long)]
    list: bool,
    /// Keep what was there for e2undo, in this file
    #[arg(short = 'z', value_name = "FILE")]
    undo: Option<PathBuf>,
    /// Only say what would be done
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Refuse a volume whose journal or orphans wait, in place of healing it first
    #[arg(long)]
    no_heal: bool,
    /// Where the log may be, for a device: a file on another file system
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// How many threads share a check; as many as the machine has, unless given
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroU32>,
    #[command(flatten)]
    pub place: ImageArguments,
}

#[derive(Serialize)]
struct Document<'a> {
    image: String,
    dry_run: bool,
    changes: &'a [Change],
    /// Blocks that were written through the log.
    blocks_written: u64,
}

impl Arguments {
    /// Letters with their values, in an order in which a later one counts.
    fn words(&self) -> Vec<(char, String)> {
        let bytes = |text: &OsString| {
            let text = text.clone().into_vec();
            String::from_utf8(text)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
        };
        let mut words = Vec::new();
        let many = [
            ('O', &self.features),
            ('J', &self.journal_options),
            ('Q', &self.quota),
            ('o', &self.mount_options),
            ('E', &self.extended),
        ];
        for (letter, values) in many {
            words.extend(values.iter().map(|value| (letter, value.clone())));
        }
        words.extend(self.with_journal.then(|| ('j', String::new())));
        let one = [
            ('U', &self.uuid),
            ('m', &self.reserved_percent),
            ('r', &self.reserved_blocks),
            ('u', &self.reserved_user),
            ('g', &self.reserved_group),
            ('c', &self.max_mount_count),
            ('C', &self.mount_count),
            ('i', &self.check_interval),
            ('T', &self.last_checked),
            ('e', &self.errors),
            ('I', &self.inode_size),
        ];
        for (letter, value) in one {
            words.extend(value.iter().map(|value| (letter, value.clone())));
        }
        words.extend(self.label.iter().map(|label| ('L', bytes(label))));
        words.extend(self.last_mounted.iter().map(|path| ('M', bytes(path))));
        words
    }

    /// What they ask for.
    fn asked(&self) -> Result<Vec<Tuning>, Error> {
        let now = closed::now_seconds()?;
        let mut asked = Vec::new();
        for (letter, value) in self.words() {
            let read = words::read(letter, &value, tuning::names(), now);
            asked.extend(read.map_err(|error| {
                let said =
                    if error.message.is_empty() { "is none that is known" } else { &error.message };
                Error::usage(format!("-{letter} {value}: {said}")).hint(WORDS)
            })?);
        }
        // A label is bytes.
        if let Some(label) = &self.label {
            let label = label.clone().into_vec();
            if label.len() > 16 {
                return Err(Error::usage(format!(
                    "-L: a label has at most 16 bytes, and this has {}",
                    label.len()
                ))
                .hint(WORDS));
            }
            asked.push(Tuning::Label(label));
        }
        Ok(asked)
    }
}

/// What is said where a word is none.
const WORDS: &str = "extant tune --help says what each of them takes";

/// Changes it and says what came of it.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let Arguments { image, place, .. } = &arguments;
    if place.journal.is_some() {
        return Err(Error::usage("--journal: a volume with that on another device is not changed")
            .hint("tune2fs does, once extant replay --journal DEVICE IMAGE has emptied it"));
    }
    let asked = arguments.asked()?;
    if asked.is_empty() {
        return match arguments.list {
            true => list(&arguments, console),
            false => Err(Error::usage("nothing is asked for").hint(
                "extant tune -L LABEL, -U UUID, -O FEATURE and others; -l shows what there is",
            )),
        };
    }
    let waiting = if arguments.no_heal { Waiting::Refused } else { Waiting::Healed };
    if arguments.dry_run {
        let device = image::device_shown(image, place, console)?;
        image::warn_if_mounted(image, console);
        let failed = |error| refused(&arguments, &*device, error);
        let plan = |device| planned(&arguments, &asked, device, console);
        let tuned = tuning::rehearsed(Arc::clone(&device), (&asked, waiting), &failed, &plan)?;
        return told(&arguments, &tuned, None, console);
    }
    let volume = Volume::open(image, place, arguments.log.as_deref())?;
    let failed = |error| refused(&arguments, &*volume.device, error);
    let plan = |device| planned(&arguments, &asked, device, console);
    let tuned = tuning::planned(&volume, (&asked, waiting), &failed, &plan, console)?;
    let applied = tuning::apply(&volume, &tuned, arguments.undo.as_deref(), console)?;
    told(&arguments, &tuned, Some(applied.blocks), console)?;
    match arguments.list {
        true => list(&arguments, console),
        false => Ok(Exit::Complete),
    }
}

/// Shows what it is like, as `extant info -h`.
fn list(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    let info = super::info::Arguments {
        image: arguments.image.clone(),
        header: true,
        superblock: None,
        block_size: None,
        help: None,
        place: arguments.place.clone(),
    };
    super::info::run(info, console)
}

/// Why a volume is not changed.
fn refused(arguments: &Arguments, device: &dyn BlockDevice, error: extant_repair::Error) -> Error {
    use extant_repair::Error::{Refused, Unclean};
    let image = arguments.image.display();
    let hint = match error {
        Unclean(_) => Some(format!(
            "nothing was changed; extant heal {image} or extant repair {image} mends it, with \
             --all what loses something, too"
        )),
        Refused(_) => Some(format!("nothing was changed; extant tune -l {image} says what it has")),
        _ => None,
    };
    let failure = closed::failure(&arguments.image, device, &arguments.place, error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// The volume as it is to be.
fn planned(
    arguments: &Arguments,
    asked: &[Tuning],
    device: Arc<dyn BlockDevice>,
    console: &Console,
) -> Result<Tuned, Error> {
    let listener = Some(check::listener(console));
    let options = tuning::options(&arguments.image, arguments.threads, listener)?;
    let tuned = tune(Arc::clone(&device), asked, options);
    tuned.map_err(|error| refused(arguments, &*device, error))
}

/// Says what was done, or would be.
fn told(
    arguments: &Arguments,
    tuned: &Tuned,
    written: Option<u64>,
    console: &Console,
) -> Result<Exit, Error> {
    let shown = arguments.image.display();
    let document = Document {
        image: shown.to_string(),
        dry_run: written.is_none(),
        changes: &tuned.changes,
        blocks_written: written.unwrap_or(0),
    };
    if console.is_json() {
        console.print_json("extant-tune/1", &document)?;
        return Ok(Exit::Complete);
    }
    if tuned.changes.is_empty() {
        console.report(&format!("{shown}: is like that already\n"))?;
        return Ok(Exit::Complete);
    }
    let would = if document.dry_run { "would change: " } else { "" };
    for Change { what, before, after } in &tuned.changes {
        let line = match (before.is_empty(), after.is_empty()) {
            (true, _) => format!("{what} {after}"),
            (_, true) => format!("{what} {before} gone"),
            _ => format!("{what} {after}, before {before}"),
        };
        console.report(&format!("{shown}: {would}{line}\n"))?;
    }
    Ok(Exit::Complete)
}
