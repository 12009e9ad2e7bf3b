//! `fusermount3`: the program with root's rights that mounts for users, and unmounts for them.
//!
//! It opens `/dev/fuse` itself, and sends the handle over the socket whose number is in
//! `_FUSE_COMMFD`. The socket is its standard input here: that is passed on to a child without a
//! handle that other children could inherit.
use super::error::{AttachError, DetachError};
use super::options::{Detach, Options};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};
use std::ffi::OsStr;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = "fusermount3";
const SOCKET: &str = "_FUSE_COMMFD";

/// Mounts on `target` and returns the handle of `/dev/fuse`.
pub(super) fn mount(target: &Path, options: &Options) -> Result<OwnedFd, AttachError> {
    let failed = |error: io::Error| AttachError::Fusermount(error.to_string());
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(|error| failed(error.into()))?;
    let mut command = Command::new(PROGRAM);
    command.arg("-o").arg(options.fusermount_words()).arg("--").arg(target);
    command.env(SOCKET, "0").env("LC_ALL", "C").stdin(Stdio::from(theirs));
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => AttachError::NoFusermount,
        _ => failed(error),
    })?;
    // The command still has a handle of the child's end, and with it the child's end would look
    // open for ever.
    drop(command);
    let handle = received_handle(&ours);
    let output = child.wait_with_output().map_err(failed)?;
    match handle {
        Ok(Some(handle)) if output.status.success() => Ok(handle),
        Err(error) => Err(failed(error)),
        Ok(_) => Err(refusal(&said(&output))),
    }
}

/// What its words mean.
fn refusal(said: &str) -> AttachError {
    match said {
        _ if said.contains("user_allow_other") => AttachError::OthersNotAllowed,
        _ if said.contains("/dev/fuse: Permission denied") => {
            AttachError::Device(io::ErrorKind::PermissionDenied.into())
        }
        _ if said.contains("device not found") => AttachError::NoDevice,
        _ if said.contains("failed to open /dev/fuse") && said.contains("Permission denied") => {
            AttachError::Device(io::ErrorKind::PermissionDenied.into())
        }
        _ => AttachError::Fusermount(said.to_owned()),
    }
}

/// Its first line without its name.
fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().next().unwrap_or_default();
    let line = line.strip_prefix(PROGRAM).unwrap_or(line).trim_start_matches(':').trim();
    match line.is_empty() {
        true => output.status.to_string(),
        false => line.to_owned(),
    }
}

/// Waits for the one message, and takes the handle out of it; none if the socket was closed first.
fn received_handle(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::io::retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(&mut byte)];
        recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let handles = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(handles) => Some(handles),
        _ => None,
    });
    Ok(handles.and_then(|mut handles| handles.next()))
}

/// Unmounts `target`.
pub(super) fn unmount(target: &Path, how: Detach) -> Result<(), DetachError> {
    let mut command = Command::new(PROGRAM);
    command.arg("-u").args((how == Detach::Lazy).then_some(OsStr::new("-z")));
    command.arg("--").arg(target).env("LC_ALL", "C").stdin(Stdio::null());
    let target = || target.to_owned();
    let other = |said| DetachError::Other { target: target(), said };
    let output = command.output().map_err(|error| other(format!("{PROGRAM}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = said(&output);
    Err(match said.as_str() {
        words if words.contains("busy") => DetachError::Busy(target()),
        words if words.contains("not found in /etc/mtab") || words.contains("not mounted") => {
            DetachError::NotMounted(target())
        }
        words if words.contains("not permitted") || words.contains("not owner") => {
            DetachError::NotAllowed(target())
        }
        _ => other(format!("{PROGRAM}: {said}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_recognised_by_its_words() {
        let others = "option allow_other only allowed if 'user_allow_other' is set in \
             /etc/fuse.conf";
        assert!(matches!(refusal(others), AttachError::OthersNotAllowed));
        let closed = "failed to open /dev/fuse: Permission denied";
        assert!(matches!(refusal(closed), AttachError::Device(_)));
        let device = "fuse: device not found, try 'modprobe fuse' first";
        assert!(matches!(refusal(device), AttachError::NoDevice));
        let closed = refusal("failed to open /dev/fuse: Permission denied");
        assert_eq!(closed.to_string(), "/dev/fuse: permission denied");
        assert!(closed.hint().expect("a hint").contains("mode"));
        assert_eq!(refusal("bad mount point").to_string(), "fusermount3: bad mount point");
    }
}
