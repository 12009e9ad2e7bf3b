//! One mount, from its beginning to its end.
//!
//! ```text
//! begin   attach, answer the kernel's greeting, start the workers: the mount answers
//! serve   until it is unmounted; then everything is written and the volume closed
//! ```
//!
//! *Invariants*: a volume whose session ended without an error is whole: everything is on its
//! device. A session that could not begin has closed its volume and left no mount.
use crate::greeting::{AccessLists, Listing, Wishes as GreetingWishes, Writing, greet};
use crate::keeper::Keeper;
use crate::serve::{Serve, Server, Settings, Watch, Xattrs};
use crate::transport::{AttachError, Detach, Options, Transport, attach, detach};
use crate::workers::{Ending, Idle, Recruits, Settings as WorkersSettings, Workers};
use extant_block::Clock;
use extant_block::in_use::mounts;
use extant_engine::Filesystem;
use extant_format::superblock::Feature;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// How a volume is mounted.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// What the host's mount is like.
    pub options: Options,
    /// How the volume is shown.
    pub settings: Settings,
    /// Where written data waits.
    pub writing: Writing,
    /// What a listing brings with it.
    pub listing: Listing,
    /// The largest number of threads; `None` for two a processor and eight.
    pub workers: Option<usize>,
    /// What idle processors do while requests are dense.
    pub idle: Idle,
    /// After this many seconds at most the kernel sends what it keeps of files that are open for
    /// writing.
    /// `None`: as it likes, after 30 seconds.
    pub send_seconds: Option<u32>,
    /// Starts the process that has the kernel send it, and ends the connection of a server that was
    /// killed: as the top of `keeper.rs` says. `None`: neither is done.
    pub guard: Option<fn() -> Command>,
}

impl Wishes {
    /// As people expect it who say no more.
    pub fn new(options: Options) -> Wishes {
        Wishes {
            options,
            settings: Settings::default(),
            writing: Writing::default(),
            listing: Listing::default(),
            workers: None,
            idle: Idle::default(),
            send_seconds: None,
            guard: None,
        }
    }
}

/// Why a session did not begin, or did not end well.
#[derive(Debug)]
pub enum Error {
    /// It was not mounted.
    Attach(AttachError),
    /// It was not mounted: the process that keeps it cannot be started.
    Guard(io::Error),
    /// It was not mounted: the host gives no thread.
    Thread(io::Error),
    /// The connection to the kernel failed while it was mounted.
    Connection(io::Error),
    /// The volume could not be written to its end.
    Volume(extant_engine::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Attach(error) => error.fmt(f),
            Error::Guard(error) => write!(f, "a process beside the server: {error}"),
            Error::Thread(error) => error.fmt(f),
            Error::Connection(error) => write!(f, "the connection to the kernel: {error}"),
            Error::Volume(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

/// A mount that answers.
pub struct Session {
    server: Arc<Server>,
    workers: Workers,
    keeper: Option<Keeper>,
    target: PathBuf,
}

impl Session {
    /// Mounts an open file system on `target`. When this returns, the mount answers.
    ///
    /// # Errors
    /// `Attach`, `Guard`, `Thread`; nothing is mounted then, and the file system is closed.
    /// `Volume` if that failed also.
    pub fn begin(
        filesystem: Filesystem,
        clock: Arc<dyn Clock>,
        target: &Path,
        wishes: &Wishes,
        watch: Option<Arc<dyn Watch>>,
    ) -> Result<Session, Error> {
        let greeting = greeting_wishes(&filesystem, wishes);
        let settings = wishes.settings.clone();
        let server = Arc::new(Server::new(filesystem, settings, Arc::clone(&clock), watch));
        let mut settings = WorkersSettings::new(0);
        settings.workers = wishes.workers.unwrap_or(settings.workers);
        settings.idle = wishes.idle;
        // All that can be missing is there before anything is mounted.
        let help = match Help::of(&server, &clock, settings.workers, wishes) {
            Ok(help) => help,
            Err(error) => {
                server.close().map_err(Error::Volume)?;
                return Err(error);
            }
        };
        let Help { keeper, recruits } = help;
        let begun = attach(target, &wishes.options).and_then(|attached| {
            let target = attached.target().to_owned();
            let transport: Arc<dyn Transport> = Arc::new(attached.into_device());
            match greet(&*transport, &greeting) {
                Ok(agreement) => Ok((target, transport, agreement)),
                Err(error) => {
                    drop(transport);
                    // Without a server it only fails, so it is taken away whether in use or not.
                    let _ = detach(&target, Detach::Lazy);
                    Err(error)
                }
            }
        });
        let (target, transport, agreement) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                keeper.into_iter().for_each(Keeper::end);
                server.close().map_err(Error::Volume)?;
                return Err(Error::Attach(error));
            }
        };
        settings.write_bytes_max = agreement.write_bytes_max;
        let serve: Arc<dyn Serve> = Arc::clone(&server) as Arc<dyn Serve>;
        server.connect(Arc::clone(&transport));
        let workers = recruits.serve(transport, serve, settings);
        // The server is not asked for the number: it would wait for itself.
        let device = mounts().into_iter().rfind(|mount| mount.folder == target);
        if let (Some(keeper), Some(mount)) = (&keeper, device) {
            let server = Arc::clone(&server);
            let is_written = move || server.is_written();
            keeper.begin(&target, mount.device, wishes.send_seconds, is_written);
        }
        Ok(Session { server, workers, keeper, target })
    }

    /// Where it is mounted: an absolute path without links.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Serves until it is unmounted, then writes everything and closes the volume.
    ///
    /// # Errors
    /// `Volume` if not everything was written; else `Connection`.
    pub fn serve(self) -> Result<Ending, Error> {
        let ended = self.workers.join();
        if let Some(keeper) = self.keeper {
            keeper.end();
        }
        self.server.close().map_err(Error::Volume)?;
        ended.map_err(Error::Connection)
    }
}

/// Who works for a mount, started before there is one.
struct Help {
    keeper: Option<Keeper>,
    recruits: Recruits,
}

impl Help {
    /// # Errors
    /// `Guard`, `Thread`; nothing of it is left then.
    fn of(
        server: &Server,
        clock: &Arc<dyn Clock>,
        workers: usize,
        wishes: &Wishes,
    ) -> Result<Help, Error> {
        // Before there is a handle of /dev/fuse that it could inherit.
        let keeper = wishes.guard.map(|guard| Keeper::start(clock, guard)).transpose();
        let keeper = keeper.map_err(Error::Guard)?;
        let recruits = || {
            server.prepare()?;
            Recruits::start(Arc::clone(clock), workers)
        };
        match recruits() {
            Ok(recruits) => Ok(Help { keeper, recruits }),
            Err(error) => {
                keeper.into_iter().for_each(Keeper::end);
                Err(Error::Thread(error))
            }
        }
    }
}

/// What is asked of the kernel for this volume.
fn greeting_wishes(filesystem: &Filesystem, wishes: &Wishes) -> GreetingWishes {
    /// Inodes from this size on keep nanoseconds.
    const INODE_WITH_NANOSECONDS: u16 = 256;
    let superblock = filesystem.superblock();
    let is_shown = wishes.settings.xattrs == Xattrs::Shown;
    let access_lists = match superblock.has(Feature::EXT_ATTR) && is_shown {
        true => AccessLists::Present,
        false => AccessLists::Absent,
    };
    let has_nanoseconds = superblock.inode_size >= INODE_WITH_NANOSECONDS;
    GreetingWishes {
        audience: wishes.options.audience,
        writing: wishes.writing,
        listing: wishes.listing,
        access_lists,
        time_step_ns: if has_nanoseconds { 1 } else { 1_000_000_000 },
        ..GreetingWishes::default()
    }
}
