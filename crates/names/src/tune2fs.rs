//! tune2fs: label, UUID, features, journal and settings of a volume that is not mounted.
//!
//! It is changed in memory, checked, and written by a log, so that `-f` and a run of e2fsck are
//! needed neither before nor after: a journal that waits is replayed. A device has no place for a
//! log beside it, and gets one in a folder of its own.
use super::{TOOLS_VERSION, complain, console, dumpe2fs, getopt, log_of_device, one_line, say};
use extant_engine::read_superblock;
use extant_format::calendar::CalendarTime;
use extant_format::superblock::{Feature, HashVersion, Superblock};
use extant_host::closed::{self, Volume};
use extant_host::error::Error;
use extant_host::image::ImageArguments;
use extant_host::tuning::{self, Waiting};
use extant_repair::tune::words::{self, Help, WordError};
use extant_repair::tune::{Tuned, Tuning, Wanted, tune};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const USAGE: &str = "[-c max_mounts_count] [-e errors_behavior] [-f] [-g group]
\t[-i interval[d|m|w]] [-j] [-J journal_options] [-l]
\t[-m reserved_blocks_percent] [-o [^]mount_options[,...]]
\t[-r reserved_blocks_count] [-u user] [-C mount_count]
\t[-L volume_label] [-M last_mounted_dir]
\t[-O [^]feature[,...]] [-Q quota_options]
\t[-E extended-option[,...]] [-T last_check_time] [-U UUID]
\t[-I new_inode_size] [-z undo_file] device";

/// Letters that are said once.
const ONCE: [char; 2] = ['o', 'O'];

/// A command line, read.
struct Request {
    device: PathBuf,
    asked: Vec<Tuning>,
    /// The letters in which it was asked, with their values.
    said: Vec<(char, String)>,
    lists: bool,
    forces: bool,
    undo: Option<PathBuf>,
}

/// Why it is not done.
enum Refused {
    /// In words of tune2fs.
    Said(String),
    /// The words cannot be read.
    Words(WordError),
    Failed(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Failed(error)
    }
}

type Result<T> = std::result::Result<T, Refused>;

/// Exit code 0, or 1 as tune2fs has it.
pub fn run(name: &'static str, words: &[OsString]) -> u8 {
    say(&format!("tune2fs {TOOLS_VERSION} (extant {})\n", env!("CARGO_PKG_VERSION")));
    let done = read(words).and_then(|request| match request {
        Some(request) => change(name, &request),
        None => Err(Refused::Words(WordError { message: String::new(), help: Help::Usage })),
    });
    match done {
        Ok(()) => return 0,
        Err(Refused::Said(what)) => complain(&what),
        Err(Refused::Words(error)) => explain(name, &error),
        Err(Refused::Failed(error)) => complain(&one_line(name, &error)),
    }
    1
}

/// Says why words cannot be read, and which could.
fn explain(name: &str, WordError { message, help }: &WordError) {
    match help {
        Help::Usage => {
            if !message.is_empty() {
                complain(&format!("{name}: {message}"));
            }
            complain(&format!("Usage: {name} {USAGE}"));
        }
        Help::Nothing if message.starts_with("Invalid UUID") => {
            complain(&format!("{name}: {message}"));
        }
        Help::Nothing => complain(message),
        Help::Extended => {
            if !message.is_empty() {
                complain(message);
            }
            complain(
                "\nBad options specified.\n\nValid extended options are:\n\tclear_mmp\n\t\
                 hash_alg=<hash algorithm>\n\tmount_opts=<extended default mount options>\n\t\
                 mmp_update_interval=<mmp update interval in seconds>\n\tstride=<RAID per-disk \
                 chunk size in blocks>\n\tstripe_width=<RAID stride*data disks in blocks>\n\t\
                 force_fsck\n\ttest_fs\n\t^test_fs\n\torphan_file_size=<bytes>\n\t\
                 encoding=<encoding>\n\tencoding_flags=<flags>\n",
            );
        }
        Help::Journal => complain(&format!(
            "\n{message}\n\nValid journal options are:\n\tsize=<journal size in megabytes>\n\t\
             fast_commit_size=<size in kilobytes>\n\tlocation=<journal location>\n"
        )),
        Help::Quota => complain(&format!(
            "\n{message}\n\nValid quota options are:\n\t[^]usr[quota]\n\t[^]grp[quota]\n\t\
             [^]prj[quota]\n"
        )),
    }
}

/// What the words ask for; `None` where they ask for nothing.
fn read(words: &[OsString]) -> Result<Option<Request>> {
    let usage = |message: String| Refused::Words(WordError { message, help: Help::Usage });
    let read = getopt::read(words, words::LETTERS).map_err(|error| usage(error.0))?;
    let [device] = read.operands.as_slice() else { return Ok(None) };
    let mut request = Request {
        device: PathBuf::from(device),
        asked: Vec::new(),
        said: Vec::new(),
        lists: false,
        forces: false,
        undo: None,
    };
    let now = closed::now_seconds()?;
    // A journal that goes and one that comes: in this order, however they are written.
    let (features, others): (Vec<_>, Vec<_>) =
        read.options.iter().partition(|(letter, _)| *letter == 'O');
    for (letter, value) in features.into_iter().chain(others) {
        let text = getopt::text(value);
        if ONCE.contains(letter) && request.said.iter().any(|(said, _)| said == letter) {
            return Err(usage(format!("-{letter} may only be specified once")));
        }
        match letter {
            'f' => request.forces = true,
            'l' => request.lists = true,
            'z' => request.undo = Some(PathBuf::from(value)),
            'L' => {
                let label = value.clone().into_vec();
                if label.len() > 16 {
                    complain("Warning: label too long, truncating.");
                }
                request.asked.push(Tuning::Label(label));
            }
            'M' => request.asked.push(Tuning::LastMounted(value.clone().into_vec())),
            letter => {
                let asked = words::read(*letter, &text, tuning::names(), now);
                request.asked.extend(asked.map_err(Refused::Words)?);
            }
        }
        request.said.push((*letter, text));
    }
    Ok((request.lists || !request.asked.is_empty()).then_some(request))
}

fn change(name: &'static str, request: &Request) -> Result<()> {
    let place = ImageArguments::default();
    let path = &*request.device;
    if request.asked.is_empty() {
        return list(name, path);
    }
    if request.asked.contains(&Tuning::ClearMountBlock) && !request.forces {
        return Err(Refused::Said("Error in using clear_mmp. It must be used with -f".into()));
    }
    let log = log_of_device(path, "tune")?;
    let volume = Volume::open(path, &place, log.as_deref())?;
    let failed = |error| refused(path, &volume, error);
    let superblock = read_superblock(&*volume.device);
    let superblock = superblock.map_err(|error| failed(extant_repair::Error::Engine(error)))?;
    let asked = narrowed(path, &superblock, &request.asked)?;
    if asked.is_empty() {
        return Ok(());
    }
    let plan = |device: Arc<dyn extant_block::BlockDevice>| -> Result<Tuned> {
        let options = tuning::options(path, None, None)?;
        tune(device, &asked, options).map_err(|error| refused(path, &volume, error))
    };
    let console = console(name);
    let tuned = tuning::planned(&volume, (&asked, Waiting::Healed), &failed, &plan, &console)?;
    if let Some(undo) = &request.undo {
        say(&format!(
            "Overwriting existing filesystem; this can be undone using the command:\n    e2undo {} \
             {}\n\n",
            undo.display(),
            path.display()
        ));
    }
    asked.iter().for_each(|one| say(&sentence(one, &tuned.resized.after)));
    tuning::apply(&volume, &tuned, request.undo.as_deref(), &console)?;
    let has = |feature| tuned.resized.after.has(feature) && !superblock.has(feature);
    let asks_for_journal = asked.iter().any(|one| matches!(one, Tuning::Journal(_)));
    if has(Feature::HAS_JOURNAL) || asks_for_journal {
        say("Creating journal inode: done\n");
    }
    if has(Feature::MMP) {
        say(&format!(
            "Multiple mount protection has been enabled with update interval {}s.\n",
            tuned.resized.after.mount_interval_seconds()
        ));
    }
    match request.lists {
        true => list(name, path),
        false => Ok(()),
    }
}

/// What is asked for without what another program does, which is said; and not a second journal.
fn narrowed(path: &Path, superblock: &Superblock, asked: &[Tuning]) -> Result<Vec<Tuning>> {
    let is_journal = |one: &Tuning| matches!(one, Tuning::Journal(_));
    let removes = asked.contains(&Tuning::Feature(Feature::HAS_JOURNAL, Wanted::Cleared));
    if superblock.has(Feature::HAS_JOURNAL) && asked.iter().any(is_journal) && !removes {
        return Err(Refused::Said("The filesystem already has a journal.".into()));
    }
    let mut kept = Vec::new();
    for one in asked {
        let wanted = match one {
            Tuning::Feature(Feature::SIXTY_FOUR_BIT, wanted) => *wanted,
            other => {
                kept.push(other.clone());
                continue;
            }
        };
        let is_there = superblock.has(Feature::SIXTY_FOUR_BIT);
        let shown = path.display();
        match (wanted, is_there) {
            (Wanted::Set, false) => {
                complain(&format!("Please run `resize2fs -b {shown}' to enable 64-bit mode."))
            }
            (Wanted::Cleared, true) => {
                complain(&format!("Please run `resize2fs -s {shown}' to disable 64-bit mode."))
            }
            _ => {}
        }
    }
    Ok(kept)
}

/// What tune2fs says of a change.
fn sentence(one: &Tuning, after: &Superblock) -> String {
    let line = match one {
        Tuning::MaxMountCount(_) | Tuning::RandomMaxMountCount => {
            format!("Setting maximal mount count to {}", after.max_mount_count)
        }
        Tuning::MountCount(count) => format!("Setting current mount count to {count}"),
        Tuning::OnError(what) => format!("Setting error behavior to {what}"),
        Tuning::ReservedGroup(group) => format!("Setting reserved blocks gid to {group}"),
        Tuning::ReservedUser(user) => format!("Setting reserved blocks uid to {user}"),
        Tuning::CheckInterval(seconds) => {
            format!("Setting interval between checks to {seconds} seconds")
        }
        Tuning::ReservedPercent(percent) => format!(
            "Setting reserved blocks percentage to {percent}% ({} blocks)",
            after.reserved_blocks
        ),
        Tuning::ReservedBlocks(blocks) => format!("Setting reserved blocks count to {blocks}"),
        Tuning::LastChecked(seconds) => {
            format!("Setting time filesystem last checked to {}\n", date(*seconds))
        }
        Tuning::MountOptions(words) => {
            format!("Setting extended default mount options to '{}'", words.escape_ascii())
        }
        Tuning::Stride(blocks) => format!("Setting stride size to {blocks}"),
        Tuning::StripeWidth(blocks) => format!("Setting stripe width to {blocks}"),
        Tuning::Hash(version) => {
            let name = match version {
                HashVersion::Legacy => "legacy",
                HashVersion::HalfMd4 => "half_md4",
                HashVersion::Tea => "tea",
            };
            format!("Setting default hash algorithm to {name} ({})", version.code())
        }
        Tuning::InodeSize(size) => format!("Setting inode size {size}"),
        Tuning::TestFlag(Wanted::Set) => "Setting test filesystem flag".into(),
        Tuning::TestFlag(Wanted::Cleared) => "Clearing test filesystem flag".into(),
        Tuning::ForceCheck => "Setting filesystem error flag to force fsck.".into(),
        Tuning::MountInterval(_) => format!(
            "Setting multiple mount protection update interval to {} seconds",
            after.mount_interval_seconds()
        ),
        Tuning::Encoding(_, 0) => "Setting encoding to 'utf8'".into(),
        Tuning::Encoding(..) => {
            "Setting encoding to 'utf8'\nSetting encoding_flags to 'strict'".into()
        }
        _ => return String::new(),
    };
    line + "\n"
}

/// A time as ctime(3) has it, in UTC.
fn date(seconds: u64) -> String {
    let CalendarTime { year, month, day, hour, minute, second } =
        CalendarTime::of(i64::try_from(seconds).unwrap_or(0));
    let text = format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC");
    dumpe2fs::dated(&text).unwrap_or(text)
}

/// What the superblock says.
fn list(name: &str, path: &Path) -> Result<()> {
    match dumpe2fs::superblock_lines(path) {
        Ok(lines) => {
            say(&lines);
            Ok(())
        }
        Err(error) => {
            complain(&one_line(name, &error));
            Err(Refused::Said("Couldn't find valid filesystem superblock.".into()))
        }
    }
}

/// Why a volume is not changed, in words that scripts know where there are any.
fn refused(path: &Path, volume: &Volume, error: extant_repair::Error) -> Refused {
    let shown = path.display();
    match error {
        extant_repair::Error::Unclean(problem) => {
            Refused::Said(format!("{shown}: {problem}\n\nPlease run e2fsck -f {shown}.\n"))
        }
        extant_repair::Error::Refused(why) if why.starts_with("reserved blocks") => {
            Refused::Said(format!("tune2fs: {why}"))
        }
        extant_repair::Error::Refused(why) => Refused::Said(why),
        error => {
            let place = ImageArguments::default();
            Refused::Failed(closed::failure(path, &*volume.device, &place, error))
        }
    }
}
