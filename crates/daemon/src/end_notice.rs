//! How the end of a server is waited for.
//!
//! umount(2) returns when the name is gone; the server then still writes what it holds. So a server
//! listens on sockets in the host's abstract names. A program that unmounts connects first, and is
//! told how it ended when all is on the device and the image is unlocked: that needs neither the
//! image's path nor the server's number, and leaves no file behind. In another network namespace
//! the names are not seen; [`Waiting::connect`] then gives `None`.
//!
//! The names are `extant-mount-` and the number of the mount that the kernel gives to no other one
//! until it is started again (Linux 6.8), and `extant-mount-` MAJOR`:`MINOR, the number of its
//! device: for older kernels, and for root, who may not look at the mount of a user. A number of a
//! device is used again while the server before still writes, so it is asked for last.
//!
//! *Invariants*: each connection of root, or of the server's own user, gets one line in the end:
//! after the volume was closed. Those of others are closed as they come, so that they neither fill
//! the queue nor take memory. An end of file without a line means that the server was killed. A
//! server of another user than the mount's is not believed.
//!
//! *Locking*: one short lock around those who wait; nothing is sent under it.
use super::points;
use extant_block::in_use::Mount;
use extant_block::{Clock, RealClock, ShortLock, Unparked};
use extant_host::error::Error;
use rustix::fs::{AtFlags, CWD, StatxFlags, major, minor, statx};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType};
use rustix::net::{recv, shutdown, socket_with};
use rustix::process::Pid;
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The line of a server whose volume is closed.
const WHOLE: &str = "whole\n";
/// The beginning of such a line with something to be said nevertheless.
const WHOLE_BUT: &str = "whole: ";
/// Bytes of a line that are read, at most.
const LINE_BYTES_MAX: u64 = 4096;

/// The names of the sockets of a mount, the one to ask first before the other.
fn names(mount: &Mount) -> Vec<String> {
    let unique = unique_number(&mount.folder).map(|number| format!("extant-mount-{number}"));
    let device = format!("extant-mount-{}:{}", major(mount.device), minor(mount.device));
    unique.into_iter().chain([device]).collect()
}

/// The number of a mount that no other one gets; `None` on a kernel without, and for who may not
/// look at it. The server is not asked for it.
fn unique_number(folder: &Path) -> Option<u64> {
    /// STATX_MNT_ID_UNIQUE
    const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
    let found = statx(CWD, folder, AtFlags::STATX_DONT_SYNC, UNIQUE).ok()?;
    (found.stx_mask & UNIQUE.bits() != 0).then_some(found.stx_mnt_id)
}

fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}

/// Those who wait for the end of one server, at most.
const WAITING_MAX: usize = 256;

/// The server's end.
pub struct EndNotice {
    listeners: Vec<(Arc<UnixListener>, JoinHandle<()>)>,
    connected: Arc<ShortLock<Connected>>,
}

/// Those who have come.
#[derive(Default)]
struct Connected {
    waiting: Vec<UnixStream>,
    /// How the server ended, once it has: one that comes now gets the line at once.
    line: Option<String>,
}

impl EndNotice {
    /// Listens for those who want to know the end of this mount, on the names that are free.
    pub fn listen(mount: &Mount) -> EndNotice {
        let connected = Arc::default();
        let listener = |name: String| {
            let listener = Arc::new(UnixListener::bind_addr(&address(&name).ok()?).ok()?);
            let (of_thread, connected) = (Arc::clone(&listener), Arc::clone(&connected));
            // tidy: thread because it waits in accept(2), by no clock
            let thread = std::thread::Builder::new().name("end notice".into());
            let thread = thread.spawn(move || receive(&of_thread, &connected)).ok()?;
            Some((listener, thread))
        };
        let listeners = names(mount).into_iter().filter_map(listener).collect();
        EndNotice { listeners, connected }
    }

    /// Says how it ended, and what the user should know although all is on the device. To be called
    /// when the image is unlocked.
    pub fn say(self, ended: &Result<Option<String>, String>) {
        let line = match ended {
            Ok(None) => WHOLE.to_owned(),
            Ok(Some(said)) => format!("{WHOLE_BUT}{}\n", said.replace('\n', " ")),
            Err(reason) => format!("{}\n", reason.replace('\n', " ")),
        };
        let mut connected = self.connected.lock();
        let waiting = std::mem::take(&mut connected.waiting);
        connected.line = Some(line.clone());
        drop(connected);
        waiting.iter().for_each(|stream| tell(stream, &line));
        for (listener, thread) in self.listeners {
            // Who is still in the queue is served by the thread; who comes later is turned away.
            if shutdown(&listener, Shutdown::Both).is_ok() {
                let _ = thread.join();
            }
        }
    }
}

/// One that has gone meanwhile does not want to know, and one that does not read is not waited for:
/// the line fits into an empty socket.
fn tell(mut stream: &UnixStream, line: &str) {
    let _ = stream.set_nonblocking(true);
    let _ = stream.write_all(line.as_bytes());
}

/// The life of a listener's thread: lets in who may know, until the socket is shut.
fn receive(listener: &UnixListener, connected: &ShortLock<Connected>) {
    // A process without descriptors to spare does not try again at once for ever.
    const REST_NS: u64 = 100_000_000;
    loop {
        match listener.accept() {
            Ok((stream, _)) => receive_one(stream, connected),
            // EINVAL: it was shut, and the queue is empty.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            Err(_) if connected.lock().line.is_some() => return,
            Err(_) => rest(REST_NS),
        }
    }
}

/// Lets time pass.
fn rest(nanoseconds: u64) {
    let clock = RealClock::new();
    let deadline = clock.now().saturating_add(nanoseconds);
    while clock.park(Some(deadline)) == Unparked::Woken {}
}

/// Keeps a connection of one who may unmount: others have nothing to wait for.
fn receive_one(stream: UnixStream, connected: &ShortLock<Connected>) {
    let Ok(peer) = rustix::net::sockopt::socket_peercred(&stream) else { return };
    if !peer.uid.is_root() && peer.uid != rustix::process::geteuid() {
        return;
    }
    let mut connected = connected.lock();
    match connected.line.clone() {
        Some(line) => {
            drop(connected);
            tell(&stream, &line);
        }
        None => {
            if connected.waiting.len() >= WAITING_MAX {
                // An attempt to unmount what is in use waits no longer than it takes to see that.
                connected.waiting.retain(is_there);
            }
            if connected.waiting.len() < WAITING_MAX {
                connected.waiting.push(stream);
            }
        }
    }
}

/// Whether the other end is open: it never writes, so there is nothing to read until it is closed.
fn is_there(stream: &UnixStream) -> bool {
    let mut byte = [0];
    let found = recv(stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT);
    found.is_err_and(|error| error == Errno::AGAIN)
}

/// Connects to a socket, without waiting for long: one whose queue is full may be that of a
/// stranger.
fn connect(name: &str) -> Option<UnixStream> {
    const TRIES: u32 = 20;
    const REST_NS: u64 = 50_000_000;
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?;
    for _ in 0..TRIES {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => {
                let stream = UnixStream::from(socket);
                return stream.set_nonblocking(false).ok().map(|()| stream);
            }
            Err(Errno::AGAIN) => rest(REST_NS),
            Err(_) => return None,
        }
    }
    None
}

/// One who waits for the end of a server.
pub struct Waiting {
    stream: UnixStream,
    server: Pid,
}

impl Waiting {
    /// Asks the server of a mount to tell its end. `None` if no server can be asked.
    pub fn connect(mount: &Mount) -> Option<Waiting> {
        let believed = |stream: UnixStream| {
            let peer = rustix::net::sockopt::socket_peercred(&stream).ok()?;
            let is_believed = peer.uid.is_root() || points::owner(mount) == Some(peer.uid.as_raw());
            is_believed.then_some(Waiting { stream, server: peer.pid })
        };
        // Another user may have taken a name first: then the next one is asked.
        names(mount).iter().filter_map(|name| connect(name)).find_map(believed)
    }

    /// The server's number.
    pub fn server(&self) -> Pid {
        self.server
    }

    /// Waits until the server has ended. Returns what it has to say although all went well.
    ///
    /// # Errors
    /// What it says of its end; that it said nothing.
    pub fn wait(self, image: &str) -> Result<Option<String>, Error> {
        let mut line = String::new();
        let read = self.stream.take(LINE_BYTES_MAX).read_to_string(&mut line);
        match (read, line.as_str()) {
            (_, WHOLE) => Ok(None),
            (Ok(_), line) if line.starts_with(WHOLE_BUT) => {
                Ok(line.strip_prefix(WHOLE_BUT).map(|said| said.trim_end().to_owned()))
            }
            (Ok(_), "") | (Err(_), _) => Err(Error::new(format!(
                "{image}: its server ended before it said that all is on the device"
            ))
            .hint(format!(
                "what was synced is there: extant replay {image}, then extant check {image}"
            ))),
            // It begins with the image, as the server was given it.
            (Ok(_), reason) => Err(Error::new(reason.trim_end())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_block::in_use::Access;

    fn mount(device: u64) -> Mount {
        let uid = rustix::process::geteuid().as_raw();
        Mount {
            device,
            folder: "/none/such".into(),
            access: Access::ReadWrite,
            kind: "fuse.extant".into(),
            source: "x.img".into(),
            options: format!("rw,user_id={uid}"),
        }
    }

    /// Numbers that no mount of this machine has, one for each test of each process.
    fn device(number: u32) -> u64 {
        rustix::fs::makedev(4000 + number, std::process::id() & 0xf_ffff)
    }

    #[test]
    fn all_who_wait_are_told() {
        assert!(Waiting::connect(&mount(device(0))).is_none());
        for (number, ended, expected) in [
            (1, Ok(None), Ok(None)),
            (2, Err("x.img: no\nroom".to_owned()), Err("x.img: no room".to_owned())),
            (9, Ok(Some("it was\ndeleted".to_owned())), Ok(Some("it was deleted".to_owned()))),
        ] {
            let mount = mount(device(number));
            let notice = EndNotice::listen(&mount);
            let two = [(); 2].map(|()| Waiting::connect(&mount).unwrap());
            notice.say(&ended);
            for waiting in two {
                assert_eq!(waiting.wait("x.img").map_err(|error| error.message), expected);
            }
        }
    }

    /// Many come and go again, as those do that see that the mount is in use.
    #[test]
    fn those_who_went_take_no_place() {
        let mount = mount(device(5));
        let notice = EndNotice::listen(&mount);
        for _ in 0..3 * WAITING_MAX {
            drop(Waiting::connect(&mount).expect("it is let in"));
        }
        let waiting = Waiting::connect(&mount).expect("it is let in");
        notice.say(&Ok(None));
        waiting.wait("x.img").expect("it is told");
    }

    /// A socket whose queue is full does not hold up a program for long.
    #[test]
    fn a_full_queue_is_given_up() {
        let mount = mount(device(6));
        let name = &names(&mount)[0];
        let listener = UnixListener::bind_addr(&address(name).unwrap()).unwrap();
        let mut held = Vec::new();
        while let Some(stream) = connect(name) {
            held.push(stream);
        }
        assert!(!held.is_empty() && Waiting::connect(&mount).is_none());
        drop(listener);
    }

    #[test]
    fn a_server_that_is_killed_has_said_nothing() {
        let listener =
            UnixListener::bind_addr(&address(&names(&mount(device(3)))[0]).unwrap()).unwrap();
        let waiting = Waiting::connect(&mount(device(3))).unwrap();
        drop(listener.accept().unwrap());
        let error = waiting.wait("x.img").unwrap_err();
        assert!(error.message.contains("before it said"), "{error}");
    }
}
