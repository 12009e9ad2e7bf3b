//! What goes on from one job to the next: standard output and standard error, caught, and what was
//! read.
//!
//! *Invariant*: between two jobs the file that standard output is has nothing in it.
//! *Locking*: none; one thread.
use crate::inputs::Input;
use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// No result is longer, in bytes.
const RESULT_BYTES_MAX: u64 = 256 << 20;

/// What goes on from one job to the next: standard output and standard error, caught, and what was
/// read.
pub struct Session {
    /// Where standard output went before.
    pub answers: File,
    /// What standard output is.
    pub printed: File,
    /// What standard error is.
    pub log: File,
    /// Where standard error went before, if it was no file that can be read again.
    pub heard: Option<File>,
    /// What the last job said on standard error.
    pub said: String,
    /// Whether a command has.
    pub has_panicked: bool,
    /// Inputs that were read since they were not as their plan had them, by path.
    pub read: BTreeMap<String, Input>,
}

impl Session {
    /// From now on standard output, and standard error unless it is a file, are caught.
    ///
    /// # Errors
    /// Those of the host.
    pub fn begin() -> std::io::Result<Session> {
        let again = |descriptor: OwnedFd| File::from(descriptor);
        let answers = again(rustix::io::dup(rustix::stdio::stdout())?);
        let printed = again(memfd_create("stdout", MemfdFlags::CLOEXEC)?);
        rustix::stdio::dup2_stdout(&printed)?;
        let before = again(rustix::io::dup(rustix::stdio::stderr())?);
        let is_file = before.metadata()?.is_file();
        let (log, heard) = match is_file {
            true => (File::open(format!("/proc/self/fd/{}", before.as_raw_fd()))?, None),
            false => {
                let log = again(memfd_create("stderr", MemfdFlags::CLOEXEC)?);
                rustix::stdio::dup2_stderr(&log)?;
                (log, Some(before))
            }
        };
        let (said, read) = (String::new(), BTreeMap::new());
        Ok(Session { answers, printed, log, heard, said, has_panicked: false, read })
    }

    /// Runs a command; `None` if it panicked.
    pub fn around(&mut self, command: impl FnOnce() -> u8) -> Option<u8> {
        let from = self.log.metadata().map_or(0, |found| found.len());
        let ended = catch_unwind(AssertUnwindSafe(command));
        // The library holds lines back that have no end.
        let _ = std::io::stdout().flush();
        self.has_panicked |= ended.is_err();
        self.said = bounded(&mut self.log, from).unwrap_or_default();
        if let Some(heard) = &mut self.heard {
            // Nobody may be there to read it.
            let _ = heard.write_all(self.said.as_bytes());
            let _ = self.log.set_len(0).and_then(|()| self.log.rewind());
        }
        ended.ok()
    }

    /// What it printed, which is gone from the file then.
    ///
    /// # Errors
    /// It is too long, or cannot be read: why.
    pub fn printed(&mut self) -> std::result::Result<String, String> {
        let text = bounded(&mut self.printed, 0).map_err(|reason| format!("result: {reason}"));
        let emptied = self.printed.set_len(0).and_then(|()| self.printed.rewind());
        emptied.map_err(|error| error.to_string())?;
        text
    }
}

/// What a file has from a byte on.
///
/// # Errors
/// It is too long, or cannot be read: why.
pub fn bounded(file: &mut File, from: u64) -> std::result::Result<String, String> {
    let length = file.metadata().map_err(|error| error.to_string())?.len().saturating_sub(from);
    if length > RESULT_BYTES_MAX {
        return Err(format!("{length} bytes, the limit is {RESULT_BYTES_MAX}"));
    }
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(from)).and_then(|_| file.read_to_end(&mut bytes));
    read.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
