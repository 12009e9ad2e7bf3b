//! The end of a mount that another process serves, waited for until all is in the image.
use crate::end_notice::Waiting;
use crate::{connection, ending, locks, points};
use extant_block::in_use::{self, Mount};
use extant_block::{Access, Clock, RealClock};
use extant_host::console::Console;
use extant_host::error::Error;
use extant_mount::transport::{Detach, DetachError, detach};
use rustix::io::Errno;
use rustix::process::Pid;
use std::io;
use std::path::Path;

/// How it is unmounted.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Its name is taken away even if it is in use.
    pub is_lazy: bool,
    /// The server is waited for.
    pub waits: bool,
}

/// What was unmounted.
#[derive(Debug)]
pub struct Unmounted {
    /// The image.
    pub image: String,
    /// The folder that it was mounted on.
    pub folder: String,
    /// Whether all is in the image by now.
    pub is_waited_for: bool,
}

/// Unmounts the mount that a word names: its folder, or its image.
///
/// # Errors
/// It is not mounted, is in use, or writing the last of it failed.
pub fn unmount(word: &Path, wish: Wish, console: &Console) -> Result<Unmounted, Error> {
    let mount = find(word)?;
    // This process is not to be one that uses the mount.
    std::env::set_current_dir("/").map_err(|error| Error::io("/", &error))?;
    let image = mount.source.display().to_string();
    // A server waits for the program that it runs: that one must not wait for the server.
    let is_its_program = std::env::var_os(ending::VARIABLE).is_some_and(|at| at == mount.folder);
    let waits = wish.waits && !is_its_program;
    // Connected before: afterwards the server may have gone.
    let waiting = if is_its_program { None } else { Waiting::connect(&mount) };
    let server = if is_its_program { Server::Serves } else { look(&mount, waiting.as_ref()) };
    let waiting = waiting.filter(|_| waits && server == Server::Serves);
    let is_lockable = server != Server::Killed || end_killed(&mount, console);
    let server = take_away(&mount, word, wish, server)?;
    let waiting = waiting.filter(|_| server == Server::Serves);
    let has_none = || waiting.is_none() && waits && is_unlocked(&mount);
    if server == Server::Gone || server == Server::Serves && has_none() {
        console.warn(&format!(
            "{image}: its server had ended before: what was not synced may be missing"
        ));
    }
    let is_waited_for = match waiting {
        Some(waiting) => {
            if let Some(said) = waiting.wait(&image)? {
                console.warn(&said);
            }
            true
        }
        None => waits && is_lockable && wait_for_lock(&mount, console),
    };
    let folder = mount.folder.display().to_string();
    Ok(Unmounted { image, folder, is_waited_for })
}

/// What has become of the server of a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Server {
    Serves,
    /// It has ended, and every call on the mount fails.
    Gone,
    /// It was killed while a thread of it waited in the kernel for its own mount: neither ends.
    Killed,
}

/// Looks after the server of a mount, of which the one that can be asked is known.
fn look(mount: &Mount, asked: Option<&Waiting>) -> Server {
    match asked.map(Waiting::server).or_else(|| holder(&mount.source)) {
        Some(server) if connection::is_dying(server) => match ends(server) {
            true => Server::Gone,
            false => Server::Killed,
        },
        Some(_) => Server::Serves,
        // Asked only if none has the image: a server that does not answer is not waited for here.
        None => match rustix::fs::statfs(&mount.folder) {
            Err(Errno::NOTCONN) => Server::Gone,
            _ => Server::Serves,
        },
    }
}

/// Whether the server of a mount in use is gone a moment later.
fn dies(mount: &Mount) -> bool {
    let clock = RealClock::new();
    clock.park(Some(clock.now().saturating_add(PAUSE_NS)));
    look(mount, None) == Server::Gone
}

/// Whether a server that was killed ends within a second.
fn ends(server: Pid) -> bool {
    let clock = RealClock::new();
    (0..LOOKS).any(|_| {
        let has_ended = connection::has_died(server) && !connection::has_threads(server);
        if !has_ended {
            clock.park(Some(clock.now().saturating_add(PAUSE_NS)));
        }
        has_ended
    })
}

/// The process that has locked a file.
fn holder(file: &Path) -> Option<Pid> {
    let locks = locks::of(&std::fs::metadata(file).ok()?);
    locks.into_iter().filter(|lock| lock.is_certain).find_map(|lock| lock.holder)
}

/// Ends the connection of a mount whose server was killed and cannot end, and says so. Whether that
/// could be done.
fn end_killed(mount: &Mount, console: &Console) -> bool {
    let image = mount.source.display();
    match connection::end_connection(&mount.folder, mount.device) {
        Ok(()) => {
            console.warn(&format!(
                "{image}: its server was killed, and could not end: the connection was aborted; \
                 what was not synced may be missing"
            ));
            true
        }
        Err(error) => {
            console.warn(&format!(
                "{image}: its server was killed, and cannot end; the connection cannot be aborted \
                 here ({error}): the folder is free, the image stays locked until root does it"
            ));
            false
        }
    }
}

/// Takes the mount out of the tree of directories: also if it is in use, where it has no server.
/// What has become of the server by then.
///
/// A use of which nothing is seen is one of a moment, as of a program that looks at each file that
/// is written: it is waited for.
fn take_away(mount: &Mount, word: &Path, wish: Wish, server: Server) -> Result<Server, Error> {
    let how = match server {
        Server::Serves if !wish.is_lazy => Detach::WhenFree,
        Server::Serves | Server::Gone | Server::Killed => Detach::Lazy,
    };
    let clock = RealClock::new();
    let mut looks_left = LOOKS;
    loop {
        let folder = match detach(&mount.folder, how) {
            Ok(()) => return Ok(server),
            // By force, a moment ago.
            Err(DetachError::NotMounted(_)) if server == Server::Killed => return Ok(server),
            // Between two instructions a killed server looks like one that serves.
            Err(DetachError::Busy(_)) if server == Server::Serves && dies(mount) => {
                return take_away(mount, word, wish, Server::Gone);
            }
            Err(DetachError::Busy(folder)) => folder,
            Err(error) => {
                return Err(Error { hint: error.hint(), ..Error::new(error.to_string()) });
            }
        };
        let users = points::holders(&folder);
        if !users.is_empty() || looks_left == 0 {
            return Err(is_in_use(word, &users));
        }
        looks_left -= 1;
        clock.park(Some(clock.now().saturating_add(PAUSE_NS)));
    }
}

/// That somebody uses a mount: these, where they can be seen.
fn is_in_use(word: &Path, users: &str) -> Error {
    let lazily = "--lazy unmounts it, and waits for its last user";
    Error::new(format!("{}: is in use", word.display())).hint(match users.is_empty() {
        true => lazily.to_owned(),
        false => format!("{users}; {lazily}"),
    })
}

/// The mount that a word names.
fn find(word: &Path) -> Result<Mount, Error> {
    let shown = word.display();
    let path = points::resolved(word).map_err(|error| Error::io(&shown, &error))?;
    match points::at(&path) {
        Some(mount) if points::is_ours(&mount) => return Ok(mount),
        Some(mount) => {
            let what = format!("{}, {}", mount.source.display(), mount.kind);
            return Err(Error::new(format!("{shown}: is no mount of extant ({what})"))
                .hint(format!("umount {shown}")));
        }
        None => {}
    }
    let mut mounts = points::of_image(&path);
    match (mounts.pop(), mounts.is_empty()) {
        (Some(mount), true) => Ok(mount),
        (Some(_), false) => Err(Error::new(format!("{shown}: is mounted more than once"))
            .hint("name the folder to unmount")),
        (None, _) => Err(Error::new(format!("{shown}: is not mounted"))
            .hint("findmnt -t fuse.extant,fuseblk.extant lists what is")),
    }
}

/// Whether nothing has the image of a mount open: its server was killed.
fn is_unlocked(mount: &Mount) -> bool {
    std::fs::File::open(&mount.source).is_ok_and(|file| file.try_lock().is_ok())
}

/// Nanoseconds between two looks at a lock.
const PAUSE_NS: u64 = 20_000_000;

/// Looks until what should be over in a moment is taken to last.
const LOOKS: u32 = 50;

/// Waits for a server that cannot be asked: until the image is no longer locked. Whether it was
/// waited for; if not, that is said.
fn wait_for_lock(mount: &Mount, console: &Console) -> bool {
    let clock = RealClock::new();
    let image = mount.source.display();
    loop {
        let claimed = in_use::open(&mount.source, Access::ReadOnly)
            .and_then(|file| in_use::claim(&*clock, &file, Access::ReadOnly));
        match claimed {
            Ok(_) => return true,
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                clock.park(Some(clock.now().saturating_add(PAUSE_NS)));
            }
            Err(error) => {
                console.warn(&format!("{image}: its server is not waited for: {error}"));
                return false;
            }
        }
    }
}
