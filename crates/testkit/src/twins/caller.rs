//! Who makes a call: identities that a thread takes on for one call, and gives back.

use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// Whose calls a life is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    /// The superuser's alone.
    One,
    /// Those of all [`USERS`].
    Many,
}

/// A user of the host, whom no file of accounts needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// The user.
    pub uid: u32,
    /// The first group.
    pub gid: u32,
    /// Other groups.
    pub groups: &'static [u32],
}

/// Those who take part; the first is the superuser.
pub const USERS: [Identity; 4] = [
    Identity { uid: 0, gid: 0, groups: &[] },
    Identity { uid: 1001, gid: 1001, groups: &[3000] },
    Identity { uid: 1002, gid: 1002, groups: &[3000] },
    Identity { uid: 1003, gid: 1003, groups: &[] },
];

/// What `act` returns when this thread is that user for as long as it runs. Only the effective
/// identity changes, so that the thread can take its own back.
///
/// # Errors
/// The thread may not change its identity.
///
/// # Panics
/// It cannot take its own identity back: what it did next would be done as somebody else.
pub fn acting_as<T>(user: usize, act: impl FnOnce() -> T) -> Result<T, Errno> {
    let identity = USERS.get(user).copied().unwrap_or(USERS[0]);
    if identity.uid == 0 {
        return Ok(act());
    }
    let groups: Vec<Gid> = identity.groups.iter().map(|group| Gid::from_raw(*group)).collect();
    set_thread_groups(&groups)?;
    set_thread_res_gid(None, Gid::from_raw(identity.gid), None)?;
    set_thread_res_uid(None, Uid::from_raw(identity.uid), None)?;
    let result = act();
    let taken_back = set_thread_res_uid(None, Uid::ROOT, None)
        .and_then(|()| set_thread_res_gid(None, Gid::ROOT, None))
        .and_then(|()| set_thread_groups(&[]));
    assert_eq!(taken_back, Ok(()), "a thread gets its identity back");
    Ok(result)
}
