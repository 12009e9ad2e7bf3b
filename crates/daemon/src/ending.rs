//! What ends a server: signals, or the program for which the mount was made.
//!
//! SIGINT and SIGTERM unmount. While the mount is in use that is said, with who uses it, and the
//! server goes on; a second signal ends it for its users too, after what the kernel holds was
//! written. Before the mount answers, a signal ends the process at once: a journal that is being
//! replayed is replayed again. SIGHUP has no effect. Beside a program, SIGINT and SIGQUIT are left
//! to that program, to which the terminal sends them too, and SIGTERM is passed on to it.
//!
//! *Locking*: the stage is under one short lock, which is not held while anything is unmounted.
use super::abort;
use super::errand;
use super::log::Log;
use super::observer::Observer;
use super::points;
use extant_block::{Clock, ShortLock};
use extant_host::console::Form;
use extant_host::error::{Convention, Error, Exit};
use extant_mount::transport::{Detach, DetachError};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Nanoseconds between two looks at what a connection has still to do.
const PAUSE_NS: u64 = 100_000_000;

/// How far a server is, for the thread that takes signals.
#[derive(Clone)]
enum Stage {
    /// Nothing is mounted.
    Opening,
    /// It answers.
    Serving(Served),
    /// It answers, for a program with this number.
    Beside(Option<Pid>),
}

/// A mount that answers.
#[derive(Clone)]
pub struct Served {
    /// The image, for messages.
    pub image: String,
    /// Where it is mounted.
    pub folder: PathBuf,
    /// The number of its device.
    pub device: u64,
    /// What sees its requests.
    pub observer: Arc<Observer>,
}

/// Takes signals on a thread of its own.
pub struct Ending {
    stage: Arc<ShortLock<Stage>>,
}

impl Ending {
    /// From now on signals are taken as described at the top of this file.
    ///
    /// # Errors
    /// Those of the host.
    pub fn watch(log: Arc<Log>, clock: Arc<dyn Clock>) -> Result<Ending, Error> {
        let stage = Arc::new(ShortLock::new(Stage::Opening));
        let signals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];
        let mut signals = signal_hook::iterator::Signals::new(signals)
            .map_err(|error| Error::io("signals", &error))?;
        let (seen, waits) = (Arc::clone(&stage), Arc::clone(&clock));
        let take = move || {
            let mut unmounts = 0u32;
            for signal in signals.forever().filter(|signal| *signal != SIGHUP) {
                let stage = seen.lock().clone();
                match stage {
                    Stage::Opening if signal == SIGQUIT => {}
                    // Before anything is mounted.
                    Stage::Opening => {
                        std::process::exit(Convention::Mount.code(Exit::Interrupted).into())
                    }
                    Stage::Beside(Some(program)) if signal == SIGTERM => {
                        // It may have ended by itself.
                        let _ = kill_process(program, Signal::TERM);
                    }
                    Stage::Serving(served) if signal != SIGQUIT => {
                        unmounts += 1;
                        unmount(&served, unmounts, &log, &*waits);
                    }
                    Stage::Beside(_) | Stage::Serving(_) => {}
                }
            }
        };
        let taking = clock.try_spawn("signals", Box::new(take));
        drop(taking.map_err(|error| no_thread(&error))?);
        Ok(Ending { stage })
    }

    /// The mount answers: signals unmount it.
    pub fn serves(&self, served: Served) {
        *self.stage.lock() = Stage::Serving(served);
    }

    /// The mount answers for a program, which is to be started next.
    pub fn serves_program(&self) {
        *self.stage.lock() = Stage::Beside(None);
    }
}

/// The host gives no thread: a limit of processes (`ulimit -u`, a cgroup's) counts them too.
pub fn no_thread(error: &std::io::Error) -> Error {
    Error::new(error.to_string())
        .exit(Exit::System)
        .hint("ulimit -u, or pids.max of a container, lets too few run")
}

fn unmount(served: &Served, attempt: u32, log: &Log, clock: &dyn Clock) {
    let Served { image, folder, device, observer } = served;
    let answered = || observer.answered_so_far();
    let pause = || {
        clock.park(Some(clock.now().saturating_add(PAUSE_NS)));
    };
    match errand::unmount(folder, Detach::WhenFree) {
        Ok(()) => {}
        Err(DetachError::Busy(_)) if attempt == 1 => {
            let users = users(folder);
            let folder = folder.display();
            log.say(&format!("{image}: {folder} is in use: {users}; a second signal ends it"));
        }
        Err(DetachError::Busy(_)) => {
            if let Err(error) = abort::abort(folder, *device, answered, pause) {
                let _ = errand::unmount(folder, Detach::Lazy);
                log.say(&format!("{image}: is served until its last user has ended: {error}"));
            }
        }
        Err(error) => log.say(&error.to_string()),
    }
}

fn users(folder: &Path) -> String {
    let users = points::holders(folder);
    if users.is_empty() { "by other programs".to_owned() } else { users }
}

/// Unmounts after a program. Where others still use the mount, its name goes, and the server ends
/// with them, which is said.
pub fn unmount_after_program(served: &Served, log: &Log) {
    let Served { image, folder, .. } = served;
    match errand::unmount(folder, Detach::WhenFree) {
        // The program may have unmounted it.
        Ok(()) | Err(DetachError::NotMounted(_)) => {}
        Err(DetachError::Busy(_)) => {
            log.say(&format!("{image}: is still in use: {}; waits for that", users(folder)));
            if let Err(error) = errand::unmount(folder, Detach::Lazy) {
                log.say(&error.to_string());
            }
        }
        Err(error) => log.say(&error.to_string()),
    }
}

/// Where a program finds the mount that was made for it.
pub const VARIABLE: &str = "EXTANT_MOUNT";

/// Runs a program beside a mount, and waits for its end. The exit code is that of the shell: 128
/// and the number for a signal; 126 or 127 if it cannot be run, which is then said in this `form`.
///
/// # Errors
/// There is no process for it.
pub fn run(
    words: &[OsString],
    folder: &Path,
    start: Start,
    form: Form,
    ending: &Ending,
) -> Result<u8, Error> {
    let Some(program) = words.first() else { return Ok(0) };
    let begins_in = (start == Start::InTheMount).then_some(folder);
    let mut command = errand::program(words, begins_in, form);
    command.env(VARIABLE, folder);
    let failed =
        |error: std::io::Error| Error::io(program.display(), &error).exit(Exit::OfProgram(126));
    let mut child = command.spawn().map_err(failed)?;
    let number = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    *ending.stage.lock() = Stage::Beside(number);
    let status = child.wait().map_err(failed)?;
    *ending.stage.lock() = Stage::Beside(None);
    let signal = || status.signal().map_or(255, |signal| 128 + signal);
    Ok(u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(255))
}

/// In which folder a program begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// The caller's.
    Here,
    /// The root of the mount, which has no other name for the caller.
    InTheMount,
}
