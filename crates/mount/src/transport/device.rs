//! `/dev/fuse` as a transport: a read takes one request, a write sends one reply.
//!
//! *Invariants*: the handle is that of a mount, and reads of it do not wait; it is closed with the
//! last clone of the device, which ends the connection.
//!
//! *Locking*: none; the kernel queues the requests, and gives each to one reader.
use super::connection::Connection;
use super::{Received, Transport};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;

/// The kernel's device.
pub(super) const PATH: &str = "/dev/fuse";

/// An open `/dev/fuse` that belongs to a mount.
pub struct FuseDevice {
    file: OwnedFd,
    connection: Connection,
}

impl FuseDevice {
    /// # Errors
    /// The handle takes no flags.
    pub(super) fn new(file: OwnedFd, connection: Connection) -> io::Result<FuseDevice> {
        let flags = fcntl_getfl(&file)?;
        fcntl_setfl(&file, flags | OFlags::NONBLOCK)?;
        Ok(FuseDevice { file, connection })
    }
}

impl Transport for FuseDevice {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let mut asked = [PollFd::new(&self.file, PollFlags::IN)];
        match poll(&mut asked, None) {
            Ok(_) => Ok(self.receive_now(buffer)?.unwrap_or(Received::Interrupted)),
            Err(Errno::INTR | Errno::AGAIN) => Ok(Received::Interrupted),
            Err(error) => Err(error.into()),
        }
    }

    fn receive_now(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        match rustix::io::read(&self.file, buffer) {
            Ok(bytes) => Ok(Some(Received::Message(bytes))),
            Err(Errno::AGAIN) => Ok(None),
            // ENOENT: the process that asked was killed, and the request was withdrawn while it was
            // copied.
            Err(Errno::NOENT | Errno::INTR) => Ok(Some(Received::Interrupted)),
            Err(Errno::NODEV) => Ok(Some(Received::Unmounted)),
            Err(Errno::CONNABORTED) => Ok(Some(Received::Aborted)),
            Err(error) => Err(error.into()),
        }
    }

    fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        match rustix::io::retry_on_intr(|| rustix::io::writev(&self.file, parts)) {
            Ok(_) => Ok(()),
            // No process waits for it: the request was withdrawn, or the connection has ended.
            Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn is_pending(&self) -> bool {
        let mut asked = [PollFd::new(&self.file, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut asked, Some(&at_once)), Ok(1..))
            && asked[0].revents().contains(PollFlags::IN)
    }

    fn widen_read_ahead(&self, kib: u32) {
        self.connection.widen_read_ahead(kib);
    }

    fn abort(&self) -> io::Result<()> {
        self.connection.abort()
    }
}
