//! What a server has done by other processes, because it would wait in the kernel for itself.
//!
//! A thread that asks the kernel for something that the kernel asks the server for waits until
//! another thread has answered. If the server is killed meanwhile, that thread is still there, and
//! with it the handle of `/dev/fuse`: the kernel goes on waiting, and so does every program on the
//! mount. A process without that handle does no such harm. So the command runs itself once more
//! ([`itself`]), with hidden words:
//!
//! ```text
//! keep                      the guard of a mount: see extant_mount's keeper
//! send FOLDER DEVICE        has the kernel send what it keeps of the mount
//! unmount, unmount-lazily FOLDER
//! run FORM FOLDER PROGRAM.. becomes the program, in the folder if it has a name; FORM is that of
//!                           an error's line: text or json
//! ```
use super::connection;
use extant_block::{Clock, RealClock};
use extant_host::arena;
use extant_host::console::{Chatter, Console, Form};
use extant_host::error::{Convention, Error, Exit};
use extant_host::itself;
use extant_mount::transport::{Detach, DetachError, detach};
use rustix::fs::{Mode, OFlags, fstat, open, syncfs};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use signal_hook::consts::SIGTERM;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, OnceLock};

/// The hidden word.
const ERRAND: &str = "--errand";

/// Exit codes of an unmount, with what they mean.
const DONE: u8 = 0;
const FAILED: u8 = 1;
const BUSY: u8 = 2;
const NOT_MOUNTED: u8 = 3;
const NOT_ALLOWED: u8 = 4;

fn command(errand: &str) -> Command {
    let mut command = itself::command();
    command.args([ERRAND, errand]);
    command
}

/// The command that guards a mount.
pub fn guard() -> Command {
    command("keep")
}

/// The command that becomes a program: in the folder, if there is one. A program that cannot be run
/// is said there, and ends with 126 or 127.
pub fn program(words: &[OsString], folder: Option<&Path>, form: Form) -> Command {
    let mut command = command("run");
    command.arg(if form == Form::Json { "json" } else { "text" });
    command.arg(folder.unwrap_or(Path::new(""))).args(words);
    command
}

/// Unmounts, as [`detach`] does.
///
/// # Errors
/// As for [`detach`].
pub fn unmount(folder: &Path, how: Detach) -> Result<(), DetachError> {
    let target = || folder.to_owned();
    let other = |said: String| DetachError::Other { target: target(), said };
    let errand = if how == Detach::Lazy { "unmount-lazily" } else { "unmount" };
    let mut command = command(errand);
    command.arg(folder).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().map_err(|error| other(error.to_string()))?;
    let code = output.status.code().and_then(|code| u8::try_from(code).ok());
    match code {
        Some(DONE) => Ok(()),
        Some(BUSY) => Err(DetachError::Busy(target())),
        Some(NOT_MOUNTED) => Err(DetachError::NotMounted(target())),
        Some(NOT_ALLOWED) => Err(DetachError::NotAllowed(target())),
        Some(_) => Err(other(String::from_utf8_lossy(&output.stdout).into_owned())),
        None => Err(other(output.status.to_string())),
    }
}

/// Has the kernel send what it keeps of the mount.
///
/// # Errors
/// Those of the host: it gives no process. A mount that is hidden or fails is left alone.
pub fn send(folder: &Path, device: u64) -> io::Result<()> {
    let mut command = command("send");
    command.arg(folder).arg(device.to_string()).stdin(Stdio::null());
    command.status().map(drop)
}

/// The words of an errand, if these are.
pub fn called(words: &[OsString]) -> Option<&[OsString]> {
    let (_, rest) = words.split_first()?;
    let (first, errand) = rest.split_first()?;
    (first == ERRAND).then_some(errand)
}

/// Does an errand.
pub fn run(errand: &[OsString]) -> ExitCode {
    let Some((name, words)) = errand.split_first() else { return ExitCode::FAILURE };
    match (name.to_str(), words) {
        (Some("keep"), []) => keep(),
        (Some("send"), [folder, device]) => {
            let device = device.to_str().and_then(|device| device.parse().ok());
            device.into_iter().for_each(|device| send_back(Path::new(folder), device));
            ExitCode::SUCCESS
        }
        (Some("unmount"), [folder]) => unmounted(Path::new(folder), Detach::WhenFree),
        (Some("unmount-lazily"), [folder]) => unmounted(Path::new(folder), Detach::Lazy),
        (Some("run"), [form, folder, program, arguments @ ..]) => {
            let form = if form == "json" { Form::Json } else { Form::Text };
            become_program(form, Path::new(folder), program, arguments)
        }
        _ => ExitCode::FAILURE,
    }
}

fn unmounted(folder: &Path, how: Detach) -> ExitCode {
    let code = match detach(folder, how) {
        Ok(()) => DONE,
        Err(DetachError::Busy(_)) => BUSY,
        Err(DetachError::NotMounted(_)) => NOT_MOUNTED,
        Err(DetachError::NotAllowed(_)) => NOT_ALLOWED,
        Err(error) => {
            let said = match error {
                DetachError::Other { said, .. } => said,
                error => error.to_string(),
            };
            // Who asked may have ended.
            let _ = io::stdout().write_all(said.as_bytes());
            FAILED
        }
    };
    ExitCode::from(code)
}

fn become_program(form: Form, folder: &Path, program: &OsStr, arguments: &[OsString]) -> ExitCode {
    let mut command = Command::new(program);
    command.args(arguments);
    arena::end(&mut command);
    if !folder.as_os_str().is_empty() {
        command.current_dir(folder);
    }
    // Returns only if it fails.
    let error = command.exec();
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    let error = Error::io(program.display(), &error).exit(Exit::OfProgram(code));
    let console = Console { command: "mount", form, chatter: Chatter::Normal };
    console.fail(&error);
    ExitCode::from(Convention::of(console.command).code(error.exit))
}

/// A mount that is guarded.
struct Kept {
    folder: PathBuf,
    device: u64,
}

/// The life of a guard.
fn keep() -> ExitCode {
    // Signals of the server's terminal are not for it.
    let _ = rustix::process::setsid();
    let kept: Arc<OnceLock<Kept>> = Arc::default();
    if let Some(server) = getppid() {
        watch(server, Arc::clone(&kept));
    }
    let mut input = BufReader::new(io::stdin().lock());
    let mut line = Vec::new();
    let read = input.read_until(0, &mut line);
    let (Ok(_), Some(found)) = (read, parsed(&line)) else { return ExitCode::SUCCESS };
    let kept = kept.get_or_init(|| found);
    let mut rounds = [0; 512];
    // Several that were asked for meanwhile are one.
    while input.read(&mut rounds).is_ok_and(|bytes| bytes > 0) {
        send_back(&kept.folder, kept.device);
    }
    ExitCode::SUCCESS
}

/// The mount of a guard's first line.
fn parsed(line: &[u8]) -> Option<Kept> {
    let line = line.strip_suffix(&[0])?;
    let space = line.iter().position(|byte| *byte == b' ')?;
    let device = std::str::from_utf8(&line[..space]).ok()?.parse().ok()?;
    Some(Kept { folder: PathBuf::from(OsStr::from_bytes(&line[space + 1..])), device })
}

/// Ends the connection when the server dies: Linux then sends a signal.
fn watch(server: Pid, kept: Arc<OnceLock<Kept>>) {
    /// Nanoseconds between two looks at a server, and how many there are.
    const PAUSE_NS: u64 = 10_000_000;
    const LOOKS: u32 = 500;
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGTERM]) else { return };
    let clock = RealClock::new();
    let waits = Arc::clone(&clock);
    let take = move || {
        for _ in signals.forever() {
            // The thread that started this process was perhaps the first to die. Of others than
            // Linux the signal means nothing.
            for _ in 0..LOOKS {
                if connection::has_died(server) {
                    let _ = kept.get().map(|kept| connection::by_number(&kept.folder, kept.device));
                    break;
                }
                waits.park(Some(waits.now().saturating_add(PAUSE_NS)));
            }
        }
    };
    drop(clock.spawn("signals", Box::new(take)));
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
}

/// A mount that is hidden by another, or detached, is left alone; so is one that fails.
fn send_back(folder: &Path, device: u64) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(root) = open(folder, flags, Mode::empty()) else { return };
    if fstat(&root).is_ok_and(|stat| stat.st_dev == device) {
        let _ = syncfs(&root);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_line_names_the_mount() {
        let kept = parsed(b"57 /mnt/a b\0").unwrap();
        assert_eq!((kept.device, kept.folder), (57, "/mnt/a b".into()));
        for line in [&b"57 /mnt"[..], b"", b"\0", b"57\0", b"x /mnt\0"] {
            assert!(parsed(line).is_none());
        }
    }

    #[test]
    fn other_words_are_no_errand() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(called(&words(&["extant", "--errand", "keep"])), Some(&words(&["keep"])[..]));
        assert_eq!(called(&words(&["extant", "ls", "--errand"])), None);
        assert_eq!(called(&words(&["extant"])), None);
    }
}
