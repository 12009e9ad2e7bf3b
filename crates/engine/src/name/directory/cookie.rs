//! Cookies: places in a directory as numbers that a program may keep, as in `telldir`.
//!
//! ```text
//! 0                              before "."
//! by hash: 1                     before ".."
//!          major / 2 << 32 | rank    before the first name with this key, or one above it
//! linear:  byte of the directory     before the first entry at this byte or after it
//! ```
//!
//! In a directory that is read by hash (see `list`), a name's key depends on the name alone: half
//! of its hash's major part above, and below a rank, which is the minor part, or for the legacy
//! hash, which has none, a CRC of the name. So a cookie stays valid whatever names are made and
//! removed, when leaves are split, and when a directory of one block becomes a hashed one. Names
//! whose keys are equal (63 bits; 31 bits and a CRC with the legacy hash) get rising keys in the
//! order of their bytes: only among these does a removal move the others.
//!
//! In a linear directory entries never move, so their offsets stay valid.
//!
//! *Invariants*: the cookies of one listing rise, so a listing that is resumed comes to an end.
use super::keyless::Legality;
use super::list::{Listed, Position, list_from};
use crate::error::{ErrorKind, Result};
use crate::inode::NodeState;
use crate::inode::volume::Volume;
use extant_format::Ino;
use extant_format::hash::NameHash;
use extant_format::inode::FileType;
use std::ops::ControlFlow;

/// Before ".": where a listing begins.
const START: u64 = 0;
/// Before "..", by hash.
const PARENT: u64 = 1;
/// The lowest key of a name.
const FIRST: u64 = 2;
/// The highest rank that a hash gives. Those above it are for names with equal keys.
const RANK_MAX: u32 = u32::MAX - (1 << 16);
/// The first number that is not a cookie: programs keep them in signed numbers.
const COOKIE_END: u64 = 1 << 63;

/// An entry, and where to continue after it.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The name's bytes.
    pub name: &'a [u8],
    /// The number of its inode.
    pub ino: Ino,
    /// Its type, where the volume keeps types in directories.
    pub file_type: Option<FileType>,
    /// The cookie with which a listing continues after it.
    pub next: u64,
}

/// Called for each entry; at `Break` the listing ends, and that entry counts as visited.
pub(crate) type Visit<'a> = dyn FnMut(Entry<'_>) -> ControlFlow<()> + 'a;

/// A name that was listed, with its type and number.
struct Name {
    rank: u32,
    bytes: Vec<u8>,
    ino: Ino,
    file_type: Option<FileType>,
}

/// Names of one major hash, not yet in order.
struct Equals {
    major: u32,
    names: Vec<Name>,
}

/// Calls `visit` for every entry from a cookie on, until it breaks.
///
/// # Errors
/// `InvalidArgument` for a number that is no cookie; `Corrupt`; what the device returns, after the
/// entries before it were visited.
pub(crate) fn list_after(
    volume: &Volume,
    node: &NodeState,
    cookie: u64,
    (visit, passed): (&mut Visit<'_>, &mut bool),
) -> Result<()> {
    if cookie >= COOKIE_END {
        return Err(ErrorKind::InvalidArgument("no cookie of a directory").into());
    }
    let position = match (super::is_by_hash(volume, node)?, cookie) {
        (_, START) => Position::Start,
        (false, offset) => Position::Offset(offset),
        (true, PARENT) => Position::Parent,
        (true, key) => {
            let hash = NameHash { major: ((key >> 32) << 1) as u32, minor: 0 };
            Position::Hash { hash, skip: 0 }
        }
    };
    let mut equals: Option<Equals> = None;
    let mut flow = ControlFlow::Continue(());
    let listed = list_from(volume, node, position, &mut |listed| {
        // No program could do anything with one.
        if listed.legality == Legality::Illegal {
            *passed = true;
            return ControlFlow::Continue(());
        }
        flow = match listed.next {
            Position::Offset(next) => visit(entry(&listed, next)),
            Position::Parent => visit(entry(&listed, PARENT)),
            Position::Start => visit(entry(&listed, START)),
            Position::Hash { skip: 0, .. } => visit(entry(&listed, FIRST)),
            Position::Hash { hash, .. } => collect(&mut equals, &listed, hash, cookie, visit),
        };
        flow
    });
    // Those before a place that cannot be read are visited too.
    if let Some(equals) = equals.filter(|_| flow.is_continue()) {
        let _given = equals.give(cookie, visit);
    }
    listed.map(|_| ())
}

fn entry<'a>(listed: &Listed<'a>, next: u64) -> Entry<'a> {
    Entry { name: listed.name, ino: listed.ino, file_type: listed.file_type, next }
}

/// Adds a name to those of its major hash. If it is the first one, those of the hash before are
/// visited.
fn collect(
    equals: &mut Option<Equals>,
    listed: &Listed<'_>,
    hash: NameHash,
    cookie: u64,
    visit: &mut Visit<'_>,
) -> ControlFlow<()> {
    let others = equals.take_if(|equals| equals.major != hash.major);
    let rank = match hash.minor {
        0 => extant_format::checksum::crc32c(u32::MAX, listed.name),
        minor => minor,
    };
    let name = Name {
        rank: rank.clamp(FIRST as u32, RANK_MAX),
        bytes: listed.name.to_vec(),
        ino: listed.ino,
        file_type: listed.file_type,
    };
    let of_hash = || Equals { major: hash.major, names: Vec::new() };
    equals.get_or_insert_with(of_hash).names.push(name);
    others.map_or(ControlFlow::Continue(()), |others| others.give(cookie, visit))
}

impl Equals {
    /// Visits the names whose keys are not below a cookie.
    fn give(mut self, cookie: u64, visit: &mut Visit<'_>) -> ControlFlow<()> {
        self.names
            .sort_unstable_by(|one, other| (one.rank, &one.bytes).cmp(&(other.rank, &other.bytes)));
        let base = u64::from(self.major >> 1) << 32;
        let mut free_from = 0;
        for Name { rank, bytes, ino, file_type } in &self.names {
            let low = u64::from(*rank).max(free_from).min(u32::MAX.into());
            free_from = low + 1;
            let key = base | low;
            if key >= cookie {
                let (name, ino, file_type) = (&bytes[..], *ino, *file_type);
                visit(Entry { name, ino, file_type, next: key + 1 })?;
            }
        }
        ControlFlow::Continue(())
    }
}
