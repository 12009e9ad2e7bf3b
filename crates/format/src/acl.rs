//! POSIX access lists (acl(5)): the list, its rules, and its two forms in bytes.
//!
//! ```text
//! form of getxattr (version 2)   tag 2 | permissions 2 | id 4        for every entry
//! form on disk     (version 1)   tag 2 | permissions 2 | id 4        of named users and groups
//!                                tag 2 | permissions 2               of all others
//! ```
//! What makes a list well formed is the kernel's rule: owner, named users, group, named groups,
//! mask, others, in this order; a mask wherever a user or group is named.

/// The attribute that holds the list of an object.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute that holds the list that new objects of a directory begin with.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";
/// The version at the beginning of the form of getxattr.
pub const ATTRIBUTE_VERSION: u32 = 2;
const DISK_VERSION: u32 = 1;
/// "No id" in the form of getxattr.
const NO_ID: u32 = u32::MAX;

/// What an entry applies to. Tags are ordered as entries must be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Tag {
    /// The owner of the file.
    Owner,
    /// The user of this number.
    User(u32),
    /// The group of the file.
    OwningGroup,
    /// The group of this number.
    Group(u32),
    /// The most that users and groups with a number, and the owning group, are given.
    Mask,
    /// Everybody else.
    Other,
}

/// One entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Entry {
    /// What it applies to.
    pub tag: Tag,
    /// Read 4, write 2, execute 1.
    pub permissions: u16,
}

/// A list, well formed or not: see [`AccessList::is_well_formed`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccessList {
    /// Its entries, in the order of the bytes.
    pub entries: Vec<Entry>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Attribute,
    Disk,
}

impl Form {
    fn version(self) -> u32 {
        match self {
            Form::Attribute => ATTRIBUTE_VERSION,
            Form::Disk => DISK_VERSION,
        }
    }

    fn has_id(self, code: u16) -> bool {
        self == Form::Attribute || matches!(code, 0x02 | 0x08)
    }
}

impl Tag {
    /// The id is not looked at where the tag names nobody, as in the kernel.
    fn new(code: u16, id: u32) -> Option<Tag> {
        Some(match code {
            0x01 => Tag::Owner,
            0x02 => Tag::User(id),
            0x04 => Tag::OwningGroup,
            0x08 => Tag::Group(id),
            0x10 => Tag::Mask,
            0x20 => Tag::Other,
            _ => return None,
        })
    }

    fn code(self) -> u16 {
        match self {
            Tag::Owner => 0x01,
            Tag::User(_) => 0x02,
            Tag::OwningGroup => 0x04,
            Tag::Group(_) => 0x08,
            Tag::Mask => 0x10,
            Tag::Other => 0x20,
        }
    }

    /// The number of a named user or group.
    pub fn id(self) -> Option<u32> {
        match self {
            Tag::User(id) | Tag::Group(id) => Some(id),
            Tag::Owner | Tag::OwningGroup | Tag::Mask | Tag::Other => None,
        }
    }

    /// Whether this tag may follow that one (`None`: come first).
    fn follows(self, before: Option<Tag>) -> bool {
        match self {
            Tag::Owner => before.is_none(),
            Tag::User(_) | Tag::OwningGroup => {
                matches!(before, Some(Tag::Owner | Tag::User(_)))
            }
            Tag::Group(_) | Tag::Mask => {
                matches!(before, Some(Tag::OwningGroup | Tag::Group(_)))
            }
            Tag::Other => matches!(before, Some(Tag::OwningGroup | Tag::Mask)),
        }
    }
}

impl AccessList {
    /// Reads the form of getxattr; `None` for what has not this form. A list without entries is
    /// one.
    pub fn from_attribute(value: &[u8]) -> Option<AccessList> {
        decode(value, Form::Attribute)
    }

    /// The form of getxattr.
    pub fn to_attribute(&self) -> Vec<u8> {
        encode(&self.entries, Form::Attribute)
    }

    /// Whether its entries are in order, complete, and give nothing that does not exist, to owners
    /// and groups that can be stored.
    pub fn is_well_formed(&self) -> bool {
        self.is_whole() && self.entries.iter().all(|entry| entry.tag.id() != Some(NO_ID))
    }

    /// Whether its entries are in order, complete, and give nothing that does not exist. It may
    /// name an owner that no volume has until its number is mapped to another.
    pub fn is_whole(&self) -> bool {
        let mut before = None;
        for Entry { tag, permissions } in &self.entries {
            if !tag.follows(before) || *permissions > 7 {
                return false;
            }
            before = Some(*tag);
        }
        let has_named = self.entries.iter().any(|entry| entry.tag.id().is_some());
        before == Some(Tag::Other) && (!has_named || self.of(Tag::Mask).is_some())
    }

    /// Whether a mode could say the same: it names nobody, and has no mask.
    pub fn is_minimal(&self) -> bool {
        let is_minimal =
            |entry: &Entry| matches!(entry.tag, Tag::Owner | Tag::OwningGroup | Tag::Other);
        self.entries.iter().all(is_minimal)
    }

    /// What the first entry with this tag gives.
    pub fn of(&self, tag: Tag) -> Option<u16> {
        self.entries.iter().find(|entry| entry.tag == tag).map(|entry| entry.permissions)
    }

    fn change(&mut self, tag: Tag, change: impl Fn(u16) -> u16) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.tag == tag) {
            entry.permissions = change(entry.permissions);
        }
    }

    /// The entry that the group bits of the mode show: the mask where there is one.
    fn group_class(&self) -> Tag {
        if self.of(Tag::Mask).is_some() { Tag::Mask } else { Tag::OwningGroup }
    }

    /// The nine bits of the mode of an object with this list; `None` for a list that is not whole.
    pub fn permissions(&self) -> Option<u16> {
        let of = |tag| self.of(tag).map(|permissions| permissions & 7);
        Some(of(Tag::Owner)? << 6 | of(self.group_class())? << 3 | of(Tag::Other)?)
    }

    /// Changes the list as `chmod` does.
    pub fn set_permissions(&mut self, mode: u16) {
        self.change(Tag::Owner, |_| mode >> 6 & 7);
        self.change(self.group_class(), |_| mode >> 3 & 7);
        self.change(Tag::Other, |_| mode & 7);
    }

    /// Makes the default list of a directory that of a new object in it, made with this mode; gives
    /// the mode that the object gets.
    pub fn inherit(&mut self, mode: u16) -> u16 {
        self.change(Tag::Owner, |given| given & mode >> 6);
        self.change(self.group_class(), |given| given & mode >> 3);
        self.change(Tag::Other, |given| given & mode);
        mode & !0o777 | self.permissions().unwrap_or(0)
    }

    /// Whether the list permits all of `wanted` to a user that is not the owner, of a file of the
    /// group `gid`.
    pub fn permits(
        &self,
        (uid, is_in_group): (u32, impl Fn(u32) -> bool),
        gid: u32,
        wanted: u16,
    ) -> bool {
        let mask = self.of(Tag::Mask).unwrap_or(7);
        let gives = |permissions: u16| permissions & wanted == wanted;
        let mut is_member = false;
        for Entry { tag, permissions } in &self.entries {
            let group = match *tag {
                Tag::User(user) if user == uid => return gives(*permissions & mask),
                Tag::OwningGroup => gid,
                Tag::Group(group) => group,
                Tag::Other => return !is_member && gives(*permissions),
                Tag::Owner | Tag::User(_) | Tag::Mask => continue,
            };
            if is_in_group(group) {
                is_member = true;
                if gives(*permissions) {
                    return gives(mask);
                }
            }
        }
        false
    }

    /// Changes the numbers of users and groups, and puts the entries in order again.
    pub fn map_ids(&mut self, map: impl Fn(Tag) -> Tag) {
        for entry in self.entries.iter_mut() {
            entry.tag = map(entry.tag);
        }
        self.entries.sort();
    }
}

/// Whether the attribute of this name holds a list.
pub fn is_access_list(name: &[u8]) -> bool {
    name == ACCESS || name == DEFAULT
}

/// From the form of getxattr to the form on disk; `None` when it is not a well-formed list.
pub fn to_disk(value: &[u8]) -> Option<Vec<u8>> {
    let list = decode(value, Form::Attribute).filter(AccessList::is_well_formed)?;
    Some(encode(&list.entries, Form::Disk))
}

/// From the form on disk to the form of getxattr; `None` when it is not a well-formed list.
pub fn from_disk(value: &[u8]) -> Option<Vec<u8>> {
    let list = decode(value, Form::Disk).filter(AccessList::is_well_formed)?;
    Some(encode(&list.entries, Form::Attribute))
}

fn decode(value: &[u8], form: Form) -> Option<AccessList> {
    let (version, mut rest) = value.split_first_chunk()?;
    if u32::from_le_bytes(*version) != form.version() {
        return None;
    }
    let mut entries = Vec::with_capacity(rest.len() / 8);
    while !rest.is_empty() {
        let (&[code_low, code_high, low, high], after) = rest.split_first_chunk()?;
        rest = after;
        let code = u16::from_le_bytes([code_low, code_high]);
        let mut id = NO_ID;
        if form.has_id(code) {
            let (bytes, after) = rest.split_first_chunk()?;
            (id, rest) = (u32::from_le_bytes(*bytes), after);
        }
        let permissions = u16::from_le_bytes([low, high]);
        entries.push(Entry { tag: Tag::new(code, id)?, permissions });
    }
    Some(AccessList { entries })
}

fn encode(entries: &[Entry], form: Form) -> Vec<u8> {
    let mut bytes = form.version().to_le_bytes().to_vec();
    for Entry { tag, permissions } in entries {
        bytes.extend_from_slice(&tag.code().to_le_bytes());
        bytes.extend_from_slice(&permissions.to_le_bytes());
        if form.has_id(tag.code()) {
            bytes.extend_from_slice(&tag.id().unwrap_or(NO_ID).to_le_bytes());
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(Tag, u16)]) -> AccessList {
        let entries = entries.iter().map(|&(tag, permissions)| Entry { tag, permissions });
        AccessList { entries: entries.collect() }
    }

    fn extended() -> AccessList {
        list(&[
            (Tag::Owner, 7),
            (Tag::User(5), 6),
            (Tag::OwningGroup, 5),
            (Tag::Group(8), 7),
            (Tag::Mask, 3),
            (Tag::Other, 1),
        ])
    }

    #[test]
    fn the_group_bits_of_a_mode_are_the_mask() {
        let mut list = extended();
        assert_eq!((list.permissions(), list.is_minimal()), (Some(0o731), false));
        assert_eq!(list.inherit(0o1624), 0o1620);
        list.set_permissions(0o754);
        assert_eq!(list.permissions(), Some(0o754));
        assert_eq!(list.of(Tag::OwningGroup), Some(5));
        assert_eq!(AccessList::default().permissions(), None);
    }

    #[test]
    fn named_users_come_before_groups_and_groups_before_others() {
        // User, group, wanted bits, answer; the file's group is 9.
        for (uid, group, wanted, expected) in [
            (5, 1, 2, true),
            (5, 1, 4, false),
            (5, 8, 1, false),
            (6, 8, 3, true),
            (6, 8, 4, false),
            (6, 9, 1, true),
            (6, 9, 2, false),
            (6, 1, 1, true),
            (6, 1, 2, false),
        ] {
            let given = extended().permits((uid, |gid| gid == group), 9, wanted);
            assert_eq!(given, expected, "{uid}:{group} {wanted}");
        }
    }

    #[test]
    fn mapped_numbers_are_put_in_order() {
        let numbers = [(Tag::User(1), 4), (Tag::User(2), 2), (Tag::Mask, 7)];
        let mut mapped = list(&numbers);
        mapped.map_ids(|tag| if tag == Tag::User(1) { Tag::User(9) } else { tag });
        assert_eq!(mapped, list(&[(Tag::User(2), 2), (Tag::User(9), 4), (Tag::Mask, 7)]));
    }
}
