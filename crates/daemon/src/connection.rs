//! The kernel's connection of a mount, which is ended from outside, and the process that has the
//! other end of it.
use extant_block::in_use::mounts;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, UnmountFlags};
use rustix::mount::{fsconfig_create, fsmount, fsopen};
use rustix::process::{Pid, Signal};
use std::io;
use std::path::Path;

/// Ends the connection of a mount: by the kernel's file for it, or by unmounting by force. Nothing
/// is asked of the server.
///
/// # Errors
/// Those of the host: it allows neither.
pub fn end_connection(folder: &Path, device: u64) -> io::Result<()> {
    let by_file = by_number(folder, device);
    if by_file.is_ok() {
        return Ok(());
    }
    match rustix::mount::unmount(folder, UnmountFlags::FORCE) {
        // It aborts, and then fails: the mount is in use.
        Ok(()) | Err(Errno::BUSY) => Ok(()),
        Err(_) => by_file,
    }
}

/// Ends the connection of a mount by the kernel's file for it, unless another mount has the number
/// by now.
///
/// # Errors
/// Those of the host: the file is not there, or not for us; `NotFound` for another mount.
pub fn by_number(folder: &Path, device: u64) -> io::Result<()> {
    let mut with_number = mounts().into_iter().filter(|mount| mount.device == device).peekable();
    if with_number.peek().is_some() && !with_number.any(|mount| mount.folder == folder) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // As the kernel keeps it: 20 bits for the minor number.
    let number = u64::from(major) << 20 | u64::from(minor);
    let by_path = std::fs::write(format!("/sys/fs/fuse/connections/{number}/abort"), "1");
    by_path.or_else(|error| by_own_mount(number).map_err(|_| error))
}

/// The same where the host has not mounted these files: root may, for a moment and for nobody else.
fn by_own_mount(number: u64) -> Result<(), Errno> {
    let context = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let files = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = openat(&files, format!("{number}/abort"), flags, Mode::empty())?;
    rustix::io::write(&file, b"1").map(drop)
}

/// Whether a process has died, or was killed while a thread of it is in the kernel: its first
/// thread has then ended. A server's waits for all others.
pub fn has_died(process: Pid) -> bool {
    let stat = std::fs::read(format!("/proc/{}/stat", process.as_raw_nonzero()));
    match stat {
        Ok(stat) => is_of_dead(&stat),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Whether a process has died or soon will: the signal that kills it waits for a processor, or its
/// first thread is on its way out. A process that was killed a moment ago shows the one or the
/// other, until it has died.
pub fn is_dying(process: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero()));
    let stat = std::fs::read(format!("/proc/{}/stat", process.as_raw_nonzero()));
    status.is_ok_and(|status| is_killed(&status))
        || stat.is_ok_and(|stat| is_on_its_way_out(&stat))
        // Last: what was dying above may have died meanwhile.
        || has_died(process)
}

/// Whether a process that has died still has a thread beside its first one.
pub fn has_threads(process: Pid) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()));
    tasks.is_ok_and(|tasks| tasks.count() > 1)
}

/// The state comes after the name, which is in parentheses and may hold any byte.
fn is_of_dead(stat: &[u8]) -> bool {
    let end = stat.iter().rposition(|byte| *byte == b')').unwrap_or(stat.len());
    matches!(stat.get(end + 2), Some(b'Z' | b'X'))
}

/// Seven words after the state come the flags of the first thread.
fn is_on_its_way_out(stat: &[u8]) -> bool {
    /// PF_EXITING of Linux.
    const EXITING: u64 = 4;
    let end = stat.iter().rposition(|byte| *byte == b')').unwrap_or(stat.len());
    let words = String::from_utf8_lossy(stat.get(end + 1..).unwrap_or_default()).into_owned();
    let flags = words.split_whitespace().nth(6).and_then(|flags| flags.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & EXITING != 0)
}

/// Whether SIGKILL waits for a thread, or for all of them.
fn is_killed(status: &str) -> bool {
    let masks = status
        .lines()
        .filter_map(|line| line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:")));
    let mut masks = masks.filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    masks.any(|mask| mask & 1 << (Signal::KILL.as_raw() - 1) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_not_waited_for_has_died() {
        assert!(!has_died(rustix::process::getpid()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let number = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
        while !has_died(number) {
            std::thread::yield_now();
        }
        assert!(child.wait().unwrap().success());
        assert!(has_died(number));
        assert!(is_dying(number) && !is_dying(rustix::process::getpid()));
        assert!(is_on_its_way_out(b"7 (a b) c) R 1 2 3 4 5 4228 9"));
        assert!(
            !is_on_its_way_out(b"7 (a b) c) R 1 2 3 4 5 4224 9") && !is_on_its_way_out(b"7 (a")
        );
        assert!(is_killed("SigQ:\t0/9\nSigPnd:\t0000000000000100\nShdPnd:\t0\n"));
        assert!(is_killed("ShdPnd:\t0000000000000100") && !is_killed("SigBlk:\t0000000000000100"));
        assert!(!is_killed("SigPnd:\t0000000000000080"));
        assert!(is_of_dead(b"7 (a) S) Z 1") && !is_of_dead(b"7 (Z) S 1") && !is_of_dead(b""));
    }
}
