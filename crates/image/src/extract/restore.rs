//! Owner, permissions, times, attributes and flags of what was made, as far as the user's rights
//! and the host's file system go.
//!
//! The order matters: a new owner takes set-user-ID bits and capabilities away, so permissions and
//! attributes come after it; what cannot get its owner gets no set-user-ID bit. Times come after
//! all that changes them. Flags come last of all, when everything has its other names: what is
//! immutable takes no link.
use super::losses::{LossKind, Losses};
use extant_archive::{printable, reason};
use extant_format::acl::{ACCESS, AccessList, DEFAULT, Tag};
use extant_format::attribute::Attribute;
use extant_format::inode::{FileType, mode};
use extant_tree::Facts;
use extant_tree::host;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{
    IFlags, Timestamps, XattrFlags, fgetxattr, fremovexattr, fsetxattr, futimens, ioctl_getflags,
    ioctl_setflags, lsetxattr,
};
use rustix::io::Errno;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, fchown};

/// The rights of others that a program runs with.
const SET_ID: u16 = mode::SET_USER_ID | mode::SET_GROUP_ID;

/// Whether new files get the access list that the target has for them, which is to be taken away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Inheritance {
    None,
    Lists,
}

impl Inheritance {
    /// That of files that are made in a directory which was there before.
    pub(super) fn of(folder: impl AsFd) -> Inheritance {
        match fgetxattr(folder, DEFAULT, &mut [0_u8; 0][..]) {
            Ok(length) if length > 0 => Inheritance::Lists,
            _ => Inheritance::None,
        }
    }
}

/// What an object of the image is to have.
pub(super) struct Wanted<'a> {
    pub(super) facts: &'a Facts,
    pub(super) attributes: &'a [Attribute],
    /// Its path, for messages.
    pub(super) path: &'a dyn Fn() -> Vec<u8>,
}

impl Wanted<'_> {
    fn lost(&self, losses: &mut Losses, kind: LossKind, what: &str, error: &io::Error) {
        losses.add(kind, || format!("{}: {what}: {}", printable(&(self.path)()), reason(error)));
    }

    /// What permissions are given: without set-user-ID bits where the owner is another.
    fn permissions(&self, owner: Result<(), io::Error>, losses: &mut Losses) -> u16 {
        let permissions = self.facts.permissions;
        let Err(error) = owner else { return permissions };
        let what = format!("its owner {}:{}", self.facts.uid, self.facts.gid);
        self.lost(losses, LossKind::Owner, &what, &error);
        if permissions & SET_ID != 0 && self.facts.file_type != FileType::Directory {
            losses.add(LossKind::Permissions, || {
                let path = printable(&(self.path)());
                format!("{path}: set-user-ID bits: are not given without the owner")
            });
            return permissions & !SET_ID;
        }
        permissions
    }

    fn note_attribute(&self, losses: &mut Losses, attribute: &Attribute, error: Errno) {
        let what = format!("its attribute {}", printable(&attribute.name));
        self.lost(losses, LossKind::Attribute, &what, &error.into());
    }

    /// Of a file or directory that is open.
    pub(super) fn restore(&self, file: &File, inheritance: Inheritance, losses: &mut Losses) {
        let owner = fchown(file, Some(self.facts.uid), Some(self.facts.gid));
        let mut permissions = self.permissions(owner, losses);
        if inheritance == Inheritance::Lists {
            for name in [ACCESS, DEFAULT] {
                if !self.attributes.iter().any(|attribute| attribute.name == name) {
                    // None was there, or the host has none.
                    let _ = fremovexattr(file, name);
                }
            }
        }
        for attribute in self.attributes {
            let name = attribute.name.as_slice();
            if let Err(error) = fsetxattr(file, name, &attribute.value, XattrFlags::empty()) {
                self.note_attribute(losses, attribute, error);
                if name == ACCESS {
                    permissions = without_list(permissions, &attribute.value);
                }
            }
        }
        if let Err(error) = file.set_permissions(Permissions::from_mode(permissions.into())) {
            self.lost(losses, LossKind::Permissions, &mode(permissions), &error);
        }
        if let Err(error) = futimens(file, &times(self.facts)) {
            self.lost(losses, LossKind::Times, "its times", &error.into());
        }
    }

    /// Of a symlink, device or fifo, which cannot be opened, by its name in an open directory.
    pub(super) fn restore_by_name(
        &self,
        place @ (folder, name): (BorrowedFd<'_>, &[u8]),
        losses: &mut Losses,
    ) {
        let owned = host::set_owner(place, Some(self.facts.uid), Some(self.facts.gid));
        let permissions = self.permissions(owned.map_err(io::Error::from), losses);
        for attribute in self.attributes {
            let path = [host::path_of(folder).as_bytes(), b"/", name].concat();
            let attribute_name = attribute.name.as_slice();
            let set = lsetxattr(path, attribute_name, &attribute.value, XattrFlags::empty());
            if let Err(error) = set {
                self.note_attribute(losses, attribute, error);
            }
        }
        if self.facts.file_type != FileType::Symlink
            // By a descriptor of the file itself: a name may be another file by now.
            && let Err(error) = host::open_object(place)
                .and_then(|object| host::set_permissions(object.as_fd(), permissions))
        {
            self.lost(losses, LossKind::Permissions, &mode(permissions), &error.into());
        }
        if let Err(error) = host::set_times(place, &times(self.facts)) {
            self.lost(losses, LossKind::Times, "its times", &error.into());
        }
    }

    /// The flags of an open file or directory, added to those that it has.
    pub(super) fn restore_flags(&self, file: &File, losses: &mut Losses) {
        let wanted = flags(self.facts);
        let set = ioctl_getflags(file).and_then(|there| ioctl_setflags(file, there | wanted));
        if let Err(error) = set {
            self.lost(losses, LossKind::Flags, "its flags", &error.into());
        }
    }
}

/// Permissions of a file that does not get its access list: with a list those of the group are the
/// most that any entry gives; without it the owning group would get them all.
fn without_list(permissions: u16, list: &[u8]) -> u16 {
    let list = AccessList::from_attribute(list).unwrap_or_default();
    let of = |tag: Tag| list.of(tag).unwrap_or(0) & 7;
    permissions & !0o070 | (of(Tag::OwningGroup) & of(Tag::Mask)) << 3
}

/// Flags that can be given to a file of the host.
pub(super) fn flags(facts: &Facts) -> IFlags {
    let kept = IFlags::SYNC | IFlags::IMMUTABLE | IFlags::APPEND | IFlags::NODUMP | IFlags::NOATIME;
    IFlags::from_bits_retain(facts.flags.unwrap_or(0)) & kept
}

fn mode(permissions: u16) -> String {
    format!("its mode {permissions:04o}")
}

fn times(facts: &Facts) -> Timestamps {
    host::times(facts.last_read(), facts.modify_time)
}
