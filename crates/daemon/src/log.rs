//! Where a server says what it met: the terminal; and in the background a file, or syslog.
use extant_block::ShortLock;
use extant_host::console::Console;
use extant_host::error::Error;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where syslog listens.
const SYSLOG: &str = "/dev/log";
/// Facility 3 (daemons), severity 4 (warnings).
const PRIORITY: u8 = 3 << 3 | 4;

/// What a server says while it serves. Lines go to stderr, which is a file with `--log`; of a
/// server in the background without one, to syslog.
pub struct Log {
    console: Console,
    file: Option<File>,
    syslog: ShortLock<Option<UnixDatagram>>,
    is_alone: AtomicBool,
}

impl Log {
    /// A log on stderr until the terminal is left.
    ///
    /// # Errors
    /// The file cannot be opened to be added to.
    pub fn new(console: &Console, file: Option<&Path>) -> Result<Log, Error> {
        let open = |path: &Path| {
            let file = File::options().append(true).create(true).open(path);
            file.map_err(|error| Error::io(path.display(), &error))
        };
        let file = file.map(open).transpose()?;
        Ok(Log {
            console: console.clone(),
            file,
            syslog: ShortLock::default(),
            is_alone: AtomicBool::new(false),
        })
    }

    /// From now on stderr is the file, or nothing, and lines go to syslog.
    ///
    /// # Errors
    /// Those of the host.
    pub fn leave_terminal(&self, null: &OwnedFd) -> Result<(), Error> {
        self.is_alone.store(true, Ordering::Relaxed);
        let done = match &self.file {
            Some(file) => rustix::stdio::dup2_stderr(file),
            None => {
                *self.syslog.lock() = UnixDatagram::unbound().ok();
                rustix::stdio::dup2_stderr(null)
            }
        };
        done.map_err(|error| Error::io("standard error", &error.into()))
    }

    /// Whether the terminal was left: what is printed is seen by no one.
    pub fn is_alone(&self) -> bool {
        self.is_alone.load(Ordering::Relaxed)
    }

    /// Says one line.
    pub fn say(&self, line: &str) {
        if let Some(socket) = &*self.syslog.lock() {
            let process = std::process::id();
            let message = format!("<{PRIORITY}>extant[{process}]: {line}");
            // A machine without syslog has no place for it.
            let _ = socket.send_to(message.as_bytes(), SYSLOG);
            return;
        }
        self.console.skipped(line);
    }
}
