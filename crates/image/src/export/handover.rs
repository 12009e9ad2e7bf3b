//! A pipe, or the null device, that takes pages of the image from the host's cache, without a copy
//! of them.
//!
//! What a pipe was handed is the image's own page until it is read from the pipe. So an export ends
//! only when everything that was handed over has left the pipe: what is written to the image after
//! the command cannot change the archive.
use extant_block::BlockDevice;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType as HostFileType, makedev, sendfile};
use rustix::io::{Errno, ioctl_fionread};
use rustix::pipe::{SpliceFlags, fcntl_setpipe_size, splice};
use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::sync::Arc;

/// Shorter stretches are copied: handing one over costs as much as copying this many bytes.
pub(super) const HANDED_BYTES_MIN: u64 = 64 << 10;
/// Bytes that the pipe is to hold; the host's limit for users.
const PIPE_BYTES: usize = 1 << 20;
/// Between two looks at what is left in the pipe, in nanoseconds.
const LOOK_NANOSECONDS: i64 = 500_000;

/// An output that takes pages.
#[derive(Debug)]
pub struct PageOutput {
    file: File,
    kind: OutputKind,
    state: PipeState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OutputKind {
    Pipe,
    NullDevice,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PipeState {
    /// Everything in it is a copy.
    Copies,
    /// It may hold pages of the image.
    Pages,
}

impl PageOutput {
    /// The pipe or null device that a file is; `None` if it is something else, or the host does not
    /// say.
    pub fn of(file: &File) -> Option<PageOutput> {
        let status = rustix::fs::fstat(file).ok()?;
        let kind = match HostFileType::from_raw_mode(status.st_mode) {
            HostFileType::Fifo => OutputKind::Pipe,
            HostFileType::CharacterDevice if status.st_rdev == makedev(1, 3) => {
                OutputKind::NullDevice
            }
            _ => return None,
        };
        let file = file.try_clone().ok()?;
        if kind == OutputKind::Pipe {
            // A smaller one does too.
            let _ = fcntl_setpipe_size(&file, PIPE_BYTES);
        }
        Some(PageOutput { file, kind, state: PipeState::Copies })
    }

    /// Hands over `length` bytes of a device from `offset` on, as far as the host does it without a
    /// copy; how many.
    pub(super) fn take(&mut self, device: &Arc<dyn BlockDevice>, offset: u64, length: u64) -> u64 {
        let Some((image, origin)) = device.host_file() else { return 0 };
        let mut done = 0;
        while done < length {
            let mut at = origin + offset + done;
            let left = usize::try_from(length - done).unwrap_or(usize::MAX);
            let taken = match self.kind {
                OutputKind::Pipe => {
                    splice(image, Some(&mut at), &self.file, None, left, SpliceFlags::MORE)
                }
                OutputKind::NullDevice => sendfile(&self.file, image, Some(&mut at), left),
            };
            match taken {
                Ok(0) => break,
                Ok(count) => {
                    done += count as u64;
                    if self.kind == OutputKind::Pipe {
                        self.state = PipeState::Pages;
                    }
                }
                Err(Errno::INTR) => {}
                // Copying it will say what is wrong, if anything is.
                Err(_) => break,
            }
        }
        done
    }

    /// Waits until all that was handed over is read, or the pipe has no reader any more.
    pub(super) fn drain(&mut self) {
        let look = Timespec { tv_sec: 0, tv_nsec: LOOK_NANOSECONDS };
        while self.state == PipeState::Pages
            && ioctl_fionread(&self.file).is_ok_and(|left| left > 0)
        {
            let mut ends = [PollFd::new(&self.file, PollFlags::empty())];
            match poll(&mut ends, Some(&look)) {
                Ok(0) | Err(Errno::INTR) => {}
                // The other end is closed.
                _ => break,
            }
        }
        self.state = PipeState::Copies;
    }
}

impl Write for PageOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }
    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.file.write_vectored(pieces)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
