//! The first message, in which kernel and server agree on a version and on what each of them does.
//!
//! What is asked for, as far as the kernel offers it:
//!
//! - Always: several reads of a file at once, large messages, look-ups and listings of one
//!   directory in parallel, links kept in the kernel, ioctls of directories, look-ups of `.` and
//!   `..` by number (for exports), an error that says that the connection was ended.
//! - Open truncates (`ATOMIC_TRUNCATE`): `open(O_TRUNC)` is one request instead of two. The server
//!   looks at the flag.
//! - The server applies the umask (`DONT_MASK`): a default access list takes its place.
//! - The server takes set-user-ID, set-group-ID and capabilities away (`KILL_PRIVILEGES`); else the
//!   kernel asks for an attribute before each write.
//! - Cached data is dropped only when the server says so (`EXPLICIT_INVALIDATE_DATA`): nothing else
//!   writes the volume.
//! - Access lists are the kernel's only where it checks permissions: asking for them turns
//!   `default_permissions` on, and with it one request for attributes before each create.
//!
//! Not asked for: direct I/O that is not waited for (`ASYNC_DIRECT_IO`), after which the kernel
//! keeps the pages that it had of the bytes before, so that who reads by the cache never sees what
//! was written; shared maps of files that are written directly (which is how append-only files
//! are kept from being overwritten), opens without a request (the server would not know which
//! unlinked files are in use), locks (the kernel's own are right as long as it is the only one to
//! write), supplementary groups (the kernel checks), splicing, DAX, and passing files through.
use crate::protocol::numbers::init;
use crate::protocol::wire::{Init, InitReply};
use crate::protocol::{Errno, Operation, Reply, Request, Sink};
use crate::transport::{AttachError, Audience, Received, Transport};
use std::io::IoSlice;

/// The major number of the protocol; only this one exists.
const MAJOR: u32 = 7;
/// The oldest minor number that is spoken: Linux 5.4.
const MINOR_MIN: u32 = 31;
/// The newest: what came later is not used.
const MINOR_MAX: u32 = 45;
/// Bytes of the first message at most: the kernel wants room for this much.
const GREETING_BYTES: usize = 1 << 14;
/// How far the kernel reads ahead in a file, at most, where it can be told: a mebibyte, which is
/// one request. Linux begins with 128 KiB, and a greeting can only make it less.
const READ_AHEAD_KIB: u32 = 1024;
/// EPROTO: the kernel's answer to everything after a failed greeting is an error anyway.
const PROTOCOL_ERROR: Errno = Errno(71);

/// What is asked for on every mount.
const ALWAYS: u64 = init::ASYNC_READ
    | init::ATOMIC_TRUNCATE
    | init::EXPORT
    | init::BIG_WRITES
    | init::DONT_MASK
    | init::IOCTL_OF_DIRECTORIES
    | init::PARALLEL_DIRECTORIES
    | init::ABORT_ERROR
    | init::PAGES_MAX
    | init::CACHE_SYMLINKS
    | init::EXPLICIT_INVALIDATE_DATA
    | init::KILL_PRIVILEGES;

/// Where written data waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Writing {
    /// In the kernel, which sends it later in large pieces, and keeps size and times meanwhile.
    #[default]
    Cached,
    /// Each call of write(2) is a request.
    Through,
}

/// What a listing brings with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Listing {
    /// Attributes of each entry if the kernel expects them to be looked at: at the beginning of a
    /// directory, and as long as look-ups follow.
    #[default]
    Adaptive,
    /// Always attributes.
    Attributes,
    /// Names only.
    Names,
}

/// Whether the volume has access lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AccessLists {
    /// None.
    #[default]
    Absent,
    /// The kernel checks them, where it checks permissions.
    Present,
}

/// What a mount asks of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wishes {
    /// Who uses it.
    pub audience: Audience,
    /// Where written data waits.
    pub writing: Writing,
    /// What a listing brings with it.
    pub listing: Listing,
    /// Whether there are access lists.
    pub access_lists: AccessLists,
    /// The steps of the volume's times, in nanoseconds: 1, or a second.
    pub time_step_ns: u32,
    /// The largest write in bytes, and with it the largest read: at most a mebibyte.
    pub write_bytes_max: u32,
    /// Requests that no program waits for (read-ahead, write-back), at most, at a time.
    pub background_max: u16,
}

impl Default for Wishes {
    fn default() -> Wishes {
        Wishes {
            audience: Audience::Mounter,
            writing: Writing::Cached,
            listing: Listing::Adaptive,
            access_lists: AccessLists::Absent,
            time_step_ns: 1,
            write_bytes_max: 1 << 20,
            background_max: 32,
        }
    }
}

/// What the two agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreement {
    /// The minor number of the protocol that is spoken.
    pub minor: u32,
    /// Flags of [`crate::protocol::numbers::init`] that are in force.
    pub flags: u64,
    /// The largest write in bytes.
    pub write_bytes_max: u32,
}

impl Agreement {
    /// Whether this flag is in force.
    pub fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }
}

/// The flags that these wishes need.
fn wanted(wishes: &Wishes) -> u64 {
    let writing = match wishes.writing {
        Writing::Cached => init::WRITE_BACK_CACHE,
        Writing::Through => 0,
    };
    let listing = match wishes.listing {
        Listing::Adaptive => init::READ_DIRECTORY_PLUS | init::READ_DIRECTORY_PLUS_AUTO,
        Listing::Attributes => init::READ_DIRECTORY_PLUS,
        Listing::Names => 0,
    };
    let lists = match (wishes.audience, wishes.access_lists) {
        (Audience::Everyone | Audience::MounterChecked, AccessLists::Present) => init::POSIX_ACL,
        _ => 0,
    };
    ALWAYS | writing | listing | lists
}

/// Answers the kernel's `request`, which offers `offered`, as these wishes ask.
///
/// # Errors
/// [`AttachError::Protocol`]: the kernel's version is not 7, or below 7.31.
pub fn negotiate(
    request: &Init,
    offered: u64,
    wishes: &Wishes,
) -> Result<(InitReply, Agreement), AttachError> {
    let (major, minor) = (request.major, request.minor);
    if major != MAJOR || minor < MINOR_MIN {
        return Err(AttachError::Protocol { major, minor });
    }
    let mut flags = wanted(wishes) & offered;
    if offered & init::MORE_FLAGS != 0 {
        flags |= init::MORE_FLAGS;
    } else {
        flags &= u64::from(u32::MAX);
    }
    let page = u32::try_from(rustix::param::page_size()).unwrap_or(4096);
    let write_max = match flags & init::PAGES_MAX {
        // Without the flag a message has 32 pages at most.
        0 => wishes.write_bytes_max.min(32 * page),
        _ => wishes.write_bytes_max,
    };
    let write_max = write_max.clamp(page, 1 << 20);
    let minor = minor.min(MINOR_MAX);
    let reply = InitReply {
        major: MAJOR,
        minor,
        read_ahead_max: request.read_ahead_max,
        flags: flags as u32,
        flags_more: (flags >> 32) as u32,
        background_max: wishes.background_max,
        congestion: wishes.background_max - wishes.background_max / 4,
        write_max,
        time_granularity: wishes.time_step_ns,
        pages_max: u16::try_from(write_max.div_ceil(page)).unwrap_or(u16::MAX),
        ..InitReply::default()
    };
    Ok((reply, Agreement { minor, flags, write_bytes_max: write_max }))
}

/// Sends replies, and keeps what went wrong.
struct Sending<'a> {
    transport: &'a dyn Transport,
    failure: std::cell::RefCell<Option<std::io::Error>>,
}

impl Sink for Sending<'_> {
    fn send(&self, parts: &[IoSlice<'_>]) {
        if let Err(error) = self.transport.send(parts) {
            self.failure.replace(Some(error));
        }
    }
}

/// Receives the kernel's first request and answers it. Everything that the mount is asked from then
/// on is for the workers.
///
/// # Errors
/// The kernel's protocol is another one, or the mount is gone.
pub fn greet(transport: &dyn Transport, wishes: &Wishes) -> Result<Agreement, AttachError> {
    let mut buffer = vec![0; GREETING_BYTES];
    let failed = |what: String| AttachError::Greeting(what);
    // A kernel with a newer major number is answered with ours, and asks again. Once.
    let mut is_second = false;
    loop {
        let bytes = match transport.receive(&mut buffer).map_err(|e| failed(e.to_string()))? {
            Received::Message(bytes) => bytes,
            Received::Interrupted => continue,
            Received::Unmounted | Received::Aborted => {
                return Err(failed("unmounted before its first request".to_owned()));
            }
        };
        let sink = Sending { transport, failure: Default::default() };
        let strange = || failed("the first message is not a greeting".to_owned());
        let request = Request::parse(&buffer[..bytes]).map_err(|_| strange())?;
        let reply = Reply::new(&sink, request.unique);
        let Operation::Init { init, flags } = request.operation else {
            reply.error(PROTOCOL_ERROR);
            return Err(strange());
        };
        if init.major > MAJOR && !is_second {
            is_second = true;
            reply.value(&InitReply { major: MAJOR, minor: MINOR_MAX, ..InitReply::default() });
            continue;
        }
        let (answer, agreement) = match negotiate(&init, flags, wishes) {
            Ok(agreed) => agreed,
            Err(error) => {
                reply.error(PROTOCOL_ERROR);
                return Err(error);
            }
        };
        reply.value(&answer);
        return match sink.failure.into_inner() {
            Some(error) => Err(failed(error.to_string())),
            None => {
                transport.widen_read_ahead(READ_AHEAD_KIB);
                Ok(agreement)
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(major: u32, minor: u32) -> Init {
        Init { major, minor, read_ahead_max: 128 << 10, flags: 0 }
    }

    /// What Linux 5.4 offers: all below the flags of 7.32 and later.
    const OLD: u64 = (1 << 26) - 1;

    #[test]
    fn a_new_kernel_gives_everything_that_is_asked_for() {
        let wishes = Wishes::default();
        let (reply, agreed) = negotiate(&request(7, 45), u64::MAX, &wishes).expect("agreed");
        assert_eq!((reply.major, reply.minor), (7, 45));
        assert_eq!(agreed.flags, wanted(&wishes) | init::MORE_FLAGS);
        let flags = u64::from(reply.flags) | u64::from(reply.flags_more) << 32;
        assert_eq!(flags, agreed.flags);
        assert_eq!((reply.write_max, reply.read_ahead_max), (1 << 20, 128 << 10));
        assert_eq!(u64::from(reply.pages_max) * rustix::param::page_size() as u64, 1 << 20);
        for never in [
            init::ASYNC_DIRECT_IO,
            init::DIRECT_IO_MAY_MAP,
            init::NO_OPEN,
            init::POSIX_LOCKS,
            init::SET_XATTR_MORE,
            init::POSIX_ACL,
        ] {
            assert!(!agreed.has(never), "{never:#x}");
        }
    }

    #[test]
    fn an_old_kernel_gives_what_it_has() {
        let (reply, agreed) = negotiate(&request(7, 31), OLD, &Wishes::default()).expect("agreed");
        assert_eq!((reply.minor, reply.flags_more), (31, 0));
        assert!(agreed.has(init::WRITE_BACK_CACHE) && agreed.has(init::PAGES_MAX));
        assert!(!agreed.has(init::KILL_PRIVILEGES));
        let bare = OLD & !init::PAGES_MAX;
        let (reply, _) = negotiate(&request(7, 31), bare, &Wishes::default()).expect("agreed");
        assert_eq!(u64::from(reply.write_max), 32 * rustix::param::page_size() as u64);
    }

    #[test]
    fn flags_of_the_upper_half_need_the_field_for_them() {
        let offered = !init::MORE_FLAGS;
        let (reply, agreed) =
            negotiate(&request(7, 40), offered, &Wishes::default()).expect("agreed");
        assert!(reply.flags_more == 0 && agreed.flags <= u64::from(u32::MAX));
    }

    #[test]
    fn older_and_other_versions_are_refused_with_their_number() {
        for (major, minor) in [(7, 30), (6, 45), (8, 0)] {
            let error = negotiate(&request(major, minor), u64::MAX, &Wishes::default());
            let error = error.expect_err("refused").to_string();
            assert!(error.contains(&format!("{major}.{minor}")), "{error}");
        }
    }

    #[test]
    fn access_lists_are_asked_for_only_where_the_kernel_checks() {
        let mut wishes = Wishes { access_lists: AccessLists::Present, ..Wishes::default() };
        assert_eq!(wanted(&wishes) & init::POSIX_ACL, 0);
        wishes.audience = Audience::Everyone;
        assert_ne!(wanted(&wishes) & init::POSIX_ACL, 0);
    }

    #[test]
    fn each_wish_changes_its_flag() {
        let of = |writing, listing| wanted(&Wishes { writing, listing, ..Wishes::default() });
        let plain = of(Writing::Through, Listing::Names);
        assert_eq!(of(Writing::Cached, Listing::Names), plain | init::WRITE_BACK_CACHE);
        let plus = of(Writing::Through, Listing::Attributes);
        assert_eq!(plus, plain | init::READ_DIRECTORY_PLUS);
        let adaptive = of(Writing::Through, Listing::Adaptive);
        assert_eq!(adaptive, plus | init::READ_DIRECTORY_PLUS_AUTO);
    }
}
