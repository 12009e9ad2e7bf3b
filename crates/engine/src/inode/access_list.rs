//! POSIX access lists: what they permit, what a new object inherits of them, and how they and the
//! mode follow each other (acl(5)).
//!
//! Lists have the form of `getxattr` here: a version and entries of 8 bytes. [`extant_format::acl`]
//! decides whether one is well formed, and has checked every list that was read from a volume.
use crate::error::{Error, ErrorKind, Result};
use crate::inode::caller::Caller;
use extant_format::acl;

/// The attribute that holds the list of an object.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute that holds the list that new objects of a directory begin with.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;

/// What an entry applies to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tag {
    Owner,
    User(u32),
    OwnerGroup,
    Group(u32),
    Mask,
    Others,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    tag: Tag,
    /// Read 4, write 2, execute 1.
    bits: u16,
}

/// A list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AccessList {
    entries: Vec<Entry>,
}

fn wrong() -> Error {
    ErrorKind::InvalidArgument("not an access control list").into()
}

/// Whether a list says more than nine bits of a mode can.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    /// The mode says the same: the list need not be kept.
    Minimal,
    /// It names users or groups, or has a mask.
    Extended,
}

impl AccessList {
    /// Reads the form of `getxattr`; `None` for one without entries, which means no list.
    /// Whether they make a list is another question: see [`AccessList::check`].
    ///
    /// # Errors
    /// `OperationUnsupported` for another version, `InvalidArgument` for what has not this form.
    pub(crate) fn parse(value: &[u8]) -> Result<Option<AccessList>> {
        let (version, rest) = value.split_first_chunk::<4>().ok_or_else(wrong)?;
        if u32::from_le_bytes(*version) != VERSION {
            return Err(ErrorKind::OperationUnsupported("a version of access lists").into());
        }
        if rest.is_empty() {
            return Ok(None);
        }
        if !rest.len().is_multiple_of(8) {
            return Err(wrong());
        }
        let entries = rest.chunks_exact(8).map(|bytes| Entry::parse(bytes).ok_or_else(wrong));
        Ok(Some(AccessList { entries: entries.collect::<Result<_>>()? }))
    }

    /// Fails unless its entries are in order, complete, and give nothing that does not exist.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(crate) fn check(&self) -> Result<()> {
        acl::to_disk(&self.to_value()).map(drop).ok_or_else(wrong)
    }

    /// The form of `getxattr`.
    pub(crate) fn to_value(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for entry in &self.entries {
            let (code, id) = entry.tag.code();
            value.extend_from_slice(&code.to_le_bytes());
            value.extend_from_slice(&entry.bits.to_le_bytes());
            value.extend_from_slice(&id.to_le_bytes());
        }
        value
    }

    fn bits(&self, tag: Tag) -> Option<u16> {
        self.entries.iter().find(|entry| entry.tag == tag).map(|entry| entry.bits)
    }

    fn restrict(&mut self, tag: Tag, bits: u16) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.tag == tag) {
            entry.bits &= bits;
        }
    }

    fn set(&mut self, tag: Tag, bits: u16) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.tag == tag) {
            entry.bits = bits;
        }
    }

    /// The entry that the group bits of the mode show: the mask where there is one.
    fn group_class(&self) -> Tag {
        if self.bits(Tag::Mask).is_some() { Tag::Mask } else { Tag::OwnerGroup }
    }

    /// Whether a mode could say the same.
    pub(crate) fn extent(&self) -> Extent {
        let is_minimal =
            |entry: &Entry| matches!(entry.tag, Tag::Owner | Tag::OwnerGroup | Tag::Others);
        match self.entries.iter().all(is_minimal) {
            true => Extent::Minimal,
            false => Extent::Extended,
        }
    }

    /// The nine bits of the mode that an object with this list has.
    pub(crate) fn permissions(&self) -> u16 {
        let bits = |tag| self.bits(tag).unwrap_or(0);
        bits(Tag::Owner) << 6 | bits(self.group_class()) << 3 | bits(Tag::Others)
    }

    /// Changes the list as `chmod` does.
    pub(crate) fn set_permissions(&mut self, mode: u16) {
        self.set(Tag::Owner, mode >> 6 & 7);
        self.set(self.group_class(), mode >> 3 & 7);
        self.set(Tag::Others, mode & 7);
    }

    /// Makes the default list of a directory that of a new object in it, made with this mode; gives
    /// the mode that the object gets.
    pub(crate) fn inherit(&mut self, mode: u16) -> u16 {
        self.restrict(Tag::Owner, mode >> 6 & 7);
        self.restrict(self.group_class(), mode >> 3 & 7);
        self.restrict(Tag::Others, mode & 7);
        mode & !0o777 | self.permissions()
    }

    /// Whether the list permits all of `wanted` to a caller that is not the owner.
    pub(crate) fn permits(&self, caller: &Caller, gid: u32, wanted: u16) -> bool {
        let mask = self.bits(Tag::Mask).unwrap_or(7);
        let mut is_in_a_group = false;
        for entry in &self.entries {
            let gives = |bits: u16| bits & wanted == wanted;
            match entry.tag {
                Tag::User(uid) if uid == caller.uid => return gives(entry.bits & mask),
                Tag::OwnerGroup if caller.is_in_group(gid) => {
                    is_in_a_group = true;
                    if gives(entry.bits) {
                        return gives(mask);
                    }
                }
                Tag::Group(gid) if caller.is_in_group(gid) => {
                    is_in_a_group = true;
                    if gives(entry.bits) {
                        return gives(mask);
                    }
                }
                Tag::Others => return !is_in_a_group && gives(entry.bits),
                _ => {}
            }
        }
        false
    }
}

impl Entry {
    fn parse(bytes: &[u8]) -> Option<Entry> {
        let bytes: &[u8; 8] = bytes.try_into().ok()?;
        let [low, high, bits_low, bits_high, id @ ..] = *bytes;
        let id = u32::from_le_bytes(id);
        let tag = match u16::from_le_bytes([low, high]) {
            0x01 => Tag::Owner,
            0x02 => Tag::User(id),
            0x04 => Tag::OwnerGroup,
            0x08 => Tag::Group(id),
            0x10 => Tag::Mask,
            0x20 => Tag::Others,
            _ => return None,
        };
        Some(Entry { tag, bits: u16::from_le_bytes([bits_low, bits_high]) })
    }
}

impl Tag {
    /// Its code and its id; all ones if it has none.
    fn code(self) -> (u16, u32) {
        match self {
            Tag::Owner => (0x01, u32::MAX),
            Tag::User(id) => (0x02, id),
            Tag::OwnerGroup => (0x04, u32::MAX),
            Tag::Group(id) => (0x08, id),
            Tag::Mask => (0x10, u32::MAX),
            Tag::Others => (0x20, u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(Tag, u16)]) -> AccessList {
        let entries = entries.iter().map(|&(tag, bits)| Entry { tag, bits }).collect();
        AccessList { entries }
    }

    fn extended() -> AccessList {
        list(&[
            (Tag::Owner, 7),
            (Tag::User(5), 6),
            (Tag::OwnerGroup, 5),
            (Tag::Group(8), 7),
            (Tag::Mask, 3),
            (Tag::Others, 1),
        ])
    }

    #[test]
    fn a_list_is_what_its_value_says() {
        for list in [extended(), list(&[(Tag::Owner, 6), (Tag::OwnerGroup, 4), (Tag::Others, 0)])] {
            assert_eq!(AccessList::parse(&list.to_value()).expect("well formed"), Some(list));
        }
        assert_eq!(AccessList::parse(&[2, 0, 0, 0]).expect("none"), None);
        for wrong in [&[][..], &[2, 0, 0], &[2, 0, 0, 0, 1], &[2, 0, 0, 0, 9, 0, 7, 0, 0, 0, 0, 0]]
        {
            assert_eq!(AccessList::parse(wrong).expect_err("no list").errno(), 22, "{wrong:?}");
        }
        let incomplete = list(&[(Tag::Owner, 7), (Tag::Others, 7)]);
        assert!(extended().check().is_ok() && incomplete.check().is_err());
    }

    #[test]
    fn the_group_bits_of_a_mode_are_the_mask() {
        let mut list = extended();
        assert_eq!((list.permissions(), list.extent()), (0o731, Extent::Extended));
        assert_eq!(list.inherit(0o1624), 0o1620);
        list.set_permissions(0o754);
        assert_eq!(list.permissions(), 0o754);
        assert_eq!(list.bits(Tag::OwnerGroup), Some(5));
    }

    #[test]
    fn named_users_come_before_groups_and_groups_before_others() {
        let list = extended();
        let member = |uid, gid| Caller::user(uid, gid);
        // Caller, wanted bits, answer; the file's group is 9.
        let rows = [
            (member(5, 1), 2, true),
            (member(5, 1), 4, false),
            (member(5, 8), 1, false),
            (member(6, 8), 3, true),
            (member(6, 8), 4, false),
            (member(6, 9), 1, true),
            (member(6, 9), 2, false),
            (member(6, 1), 1, true),
            (member(6, 1), 2, false),
        ];
        for (caller, wanted, expected) in rows {
            assert_eq!(list.permits(&caller, 9, wanted), expected, "{caller:?} {wanted}");
        }
    }
}
