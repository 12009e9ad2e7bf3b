//! `-C`: how far a check is, told to a program as lines `pass done all name`, or shown to a person.
//!
//! *Invariants*: passes only rise, and within a pass so does `done`; the last line of a pass has
//! `done` equal to `all`. *Locking*: one mutex around what was told last; threads of the check call
//! in any order.
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::progress::{ProgressLine, Unit};
use extant_image::Progress as _;
use extant_inspect::{Listener, Pass, Progress};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// Who is told.
enum Ear {
    /// A descriptor, which a program reads.
    File(File),
    /// A terminal.
    Line(Console),
}

/// What was told last.
struct Told {
    ear: Ear,
    name: String,
    /// The pass, from 1 on; 0 before the first.
    pass: u8,
    done: u64,
    all: u64,
    line: Option<ProgressLine>,
}

/// How far a check is, for whoever asked.
pub(super) struct Completion {
    told: Option<Arc<Mutex<Told>>>,
}

impl Completion {
    /// Opens what `-C` names: 0 is the terminal; a negative descriptor waits for a signal that is
    /// never sent here.
    ///
    /// # Errors
    /// There is no such descriptor.
    pub(super) fn open(
        descriptor: Option<i32>,
        name: &str,
        console: &Console,
    ) -> Result<Completion, Error> {
        let ear = match descriptor {
            None | Some(..0) => return Ok(Completion { told: None }),
            Some(0) => Ear::Line(console.clone()),
            Some(number) => Ear::File(opened(number).map_err(|error| {
                let reason = extant_archive::reason(&error);
                Error::new(format!(
                    "Invalid completion information file descriptor: {number}: {reason}"
                ))
                .exit(Exit::Failure)
            })?),
        };
        let name = name.to_owned();
        let told = Told { ear, name, pass: 0, done: 0, all: 0, line: None };
        Ok(Completion { told: Some(Arc::new(Mutex::new(told))) })
    }

    /// What the check calls.
    pub(super) fn listener(&self) -> Option<Listener> {
        let told = Arc::clone(self.told.as_ref()?);
        Some(Arc::new(move |state| {
            told.lock().unwrap_or_else(PoisonError::into_inner).take(state);
        }))
    }

    /// The check has ended.
    pub(super) fn end(&mut self) {
        if let Some(told) = &self.told {
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            told.finish();
            told.line = None;
        }
    }
}

/// A descriptor that this process was given.
fn opened(number: i32) -> std::io::Result<File> {
    let opened = OpenOptions::new().append(true).open(format!("/dev/fd/{number}"));
    match opened {
        // A socket cannot be opened by a name.
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
            let own = pidfd_open(getpid(), PidfdFlags::empty())?;
            Ok(pidfd_getfd(own, number, PidfdGetfdFlags::empty())?.into())
        }
        opened => opened,
    }
}

/// The pass in e2fsck's count; `None` for what is none there.
fn number(pass: Pass) -> Option<u8> {
    match pass {
        Pass::Volume => None,
        Pass::Inodes | Pass::Duplicates => Some(1),
        Pass::Directories => Some(2),
        Pass::Connectivity => Some(3),
        Pass::Links => Some(4),
        Pass::Bitmaps => Some(5),
    }
}

impl Told {
    fn take(&mut self, state: Progress) {
        let Some(pass) = number(state.pass) else { return };
        if pass > self.pass {
            self.finish();
            (self.pass, self.done, self.all) = (pass, 0, state.expected_bytes.max(1));
            self.tell();
        } else if pass == self.pass
            && state.pass != Pass::Duplicates
            && state.done_bytes > self.done
        {
            self.done = state.done_bytes;
            self.all = self.all.max(state.expected_bytes).max(self.done);
            self.tell();
        }
    }

    /// The pass that was told last is over.
    fn finish(&mut self) {
        if self.pass > 0 && self.done < self.all {
            self.done = self.all;
            self.tell();
        }
    }

    fn tell(&mut self) {
        match &mut self.ear {
            Ear::File(file) => {
                let line = format!("{} {} {} {}\n", self.pass, self.done, self.all, self.name);
                // A program that reads no more does not end the check.
                let _ = file.write_all(line.as_bytes());
            }
            Ear::Line(console) => {
                if self.done == 0 {
                    self.line = None;
                    let label = match self.pass {
                        1 => "pass 1",
                        2 => "pass 2",
                        3 => "pass 3",
                        4 => "pass 4",
                        _ => "pass 5",
                    };
                    self.line = Some(console.progress(label, Unit::Bytes, self.all));
                }
                if let Some(line) = &self.line {
                    line.set_total(self.all);
                    line.advance(self.done.saturating_sub(line.done()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_rise_and_end_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("told");
        let ear = Ear::File(File::create(&path).unwrap());
        let mut told = Told { ear, name: "x.img".to_owned(), pass: 0, done: 0, all: 0, line: None };
        let state = |pass, done_bytes, expected_bytes| Progress {
            pass,
            done_bytes,
            expected_bytes,
            elapsed_ns: 0,
            left_ns: None,
        };
        for (pass, done, expected) in [
            (Pass::Volume, 5, 5),
            (Pass::Inodes, 0, 10),
            (Pass::Inodes, 4, 10),
            (Pass::Inodes, 3, 10),
            (Pass::Duplicates, 7, 70),
            (Pass::Directories, 0, 2),
            (Pass::Inodes, 9, 10),
            (Pass::Bitmaps, 0, 0),
        ] {
            told.take(state(pass, done, expected));
        }
        told.finish();
        let lines = "1 0 10 x.img\n1 4 10 x.img\n1 10 10 x.img\n2 0 2 x.img\n2 2 2 x.img\n\
                     5 0 1 x.img\n5 1 1 x.img\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), lines);
    }
}
