//! What is known of a file, whatever keeps it.
use extant_format::attribute::Attribute;
use extant_format::inode::{Device, FileType, Time};
use std::ops::{Deref, DerefMut};

/// Type, owner, mode, times and size of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// What it is.
    pub file_type: FileType,
    /// The lower twelve bits of its mode.
    pub permissions: u16,
    /// Number of the owner.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
    /// When its content last changed.
    pub modify_time: Time,
    /// When it was last read; `None` where nothing says it.
    pub access_time: Option<Time>,
    /// When its inode last changed; `None` where nothing says it.
    pub change_time: Option<Time>,
    /// Bytes of a regular file; of anything else what its keeper says.
    pub size: u64,
    /// Numbers of a device; 0 and 0 for anything else.
    pub device: Device,
    /// Its flags, as chattr sets them ([`SETTABLE`](crate::flags::SETTABLE)): immutable, not
    /// dumped. `None` where nothing says them.
    pub flags: Option<u32>,
}

impl Facts {
    /// When it was last read: when it changed, where nothing says more.
    pub fn last_read(&self) -> Time {
        self.access_time.unwrap_or(self.modify_time)
    }
}

/// A file with its extended attributes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Described {
    /// All that has one size.
    pub facts: Facts,
    /// Extended attributes under their full names, access lists among them in the form that
    /// `getxattr` gives. No name is there twice.
    pub attributes: Vec<Attribute>,
}

impl Deref for Described {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        &self.facts
    }
}

impl DerefMut for Described {
    fn deref_mut(&mut self) -> &mut Facts {
        &mut self.facts
    }
}

impl From<Facts> for Described {
    /// Without attributes.
    fn from(facts: Facts) -> Described {
        Described { facts, attributes: Vec::new() }
    }
}
