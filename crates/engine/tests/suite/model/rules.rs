//! The rules of Linux for flags, rights that end with a change, and access times.

use crate::model::tree::{EOPNOTSUPP, EPERM, Follow, Id, Object, Outcome, Tree};
use extant_engine::preset::AccessTimes;
use extant_format::inode::FileType;
use extant_format::inode::flags::{APPEND, IMMUTABLE, NOATIME, NODUMP};

/// The flags that the model knows.
pub const FLAGS: u32 = IMMUTABLE | APPEND | NOATIME | NODUMP;
const DAY: i64 = 86_400;

fn refuse(object: &Object, flags: u32) -> Outcome<()> {
    if object.flags & flags != 0 { Err(EPERM) } else { Ok(()) }
}

impl Tree {
    pub fn check_not_immutable(&self, id: Id) -> Outcome<()> {
        refuse(self.object(id), IMMUTABLE)
    }

    pub fn check_not_append(&self, id: Id) -> Outcome<()> {
        refuse(self.object(id), APPEND)
    }

    pub fn check_not_locked(&self, id: Id) -> Outcome<()> {
        refuse(self.object(id), IMMUTABLE | APPEND)
    }

    /// A name leaves a directory.
    pub fn check_may_unlink(&self, directory: Id, child: Id) -> Outcome<()> {
        self.check_not_locked(directory)?;
        self.check_not_locked(child)
    }

    /// Takes set-user-ID away, and set-group-ID where the group may execute.
    pub fn end_rights(&mut self, id: Id) {
        let object = self.get(id);
        let ends = if object.permissions & 0o010 == 0 { 0o4000 } else { 0o6000 };
        object.permissions &= !ends;
    }

    /// What a directory gives to a new object.
    pub fn inherited_flags(&self, directory: Id) -> u32 {
        self.object(directory).flags & (NOATIME | NODUMP)
    }

    pub fn change_flags(&mut self, path: &[u8], set: u32, clear: u32) -> Outcome<()> {
        let id = self.resolve(path, Follow::NotLast)?;
        let now = self.now;
        let object = self.get(id);
        if !matches!(object.kind, FileType::Regular | FileType::Directory) {
            return Err(EOPNOTSUPP);
        }
        let after = object.flags & !clear | set;
        if object.flags & after & IMMUTABLE != 0 && after != object.flags {
            return Err(EPERM);
        }
        object.flags = after;
        object.change_time = now;
        Ok(())
    }

    /// Notes that the content of an object was read.
    pub fn accessed(&mut self, id: Id) {
        let (now, policy) = (self.now, self.limits.access_times);
        let object = self.get(id);
        let accessed = object.access_time;
        let is_due = match policy {
            AccessTimes::None => false,
            AccessTimes::Strict => true,
            AccessTimes::Relative => {
                accessed <= object.modify_time.max(object.change_time)
                    || now.seconds - accessed.seconds >= DAY
            }
        };
        if is_due && object.flags & NOATIME == 0 {
            object.access_time = now;
        }
    }
}
