//! POSIX access lists: the form that getxattr gives (version 2, 8 bytes an entry) and the form on
//! disk (version 1, 4 or 8).
//!
//! Both are a version number and entries of tag, permissions and an id; on disk only entries of
//! named users and groups have one. What makes a list well formed is the kernel's rule: owner,
//! named users, group, named groups, mask, others, in this order; a mask wherever a user or group
//! is named.

const ATTRIBUTE_VERSION: u32 = 2;
const DISK_VERSION: u32 = 1;
/// "No id" in the getxattr form.
const NO_ID: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    tag: Tag,
    permissions: u16,
    /// [`NO_ID`] unless the tag names a user or group.
    id: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tag {
    Owner,
    User,
    OwnerGroup,
    Group,
    Mask,
    Others,
}

impl Tag {
    fn from_code(code: u16) -> Option<Tag> {
        Some(match code {
            0x01 => Tag::Owner,
            0x02 => Tag::User,
            0x04 => Tag::OwnerGroup,
            0x08 => Tag::Group,
            0x10 => Tag::Mask,
            0x20 => Tag::Others,
            _ => return None,
        })
    }

    fn code(self) -> u16 {
        match self {
            Tag::Owner => 0x01,
            Tag::User => 0x02,
            Tag::OwnerGroup => 0x04,
            Tag::Group => 0x08,
            Tag::Mask => 0x10,
            Tag::Others => 0x20,
        }
    }

    fn is_named(self) -> bool {
        matches!(self, Tag::User | Tag::Group)
    }

    /// Whether this tag may follow that one (`None`: come first).
    fn follows(self, before: Option<Tag>) -> bool {
        match self {
            Tag::Owner => before.is_none(),
            Tag::User | Tag::OwnerGroup => matches!(before, Some(Tag::Owner | Tag::User)),
            Tag::Group | Tag::Mask => matches!(before, Some(Tag::OwnerGroup | Tag::Group)),
            Tag::Others => matches!(before, Some(Tag::OwnerGroup | Tag::Mask)),
        }
    }
}

/// From the getxattr form to the disk form; `None` when it is not a well-formed list.
pub fn to_disk(value: &[u8]) -> Option<Vec<u8>> {
    let mut rest = after_version(value, ATTRIBUTE_VERSION)?;
    let mut entries = Vec::with_capacity(rest.len() / 8);
    while !rest.is_empty() {
        let (tag, permissions) = take_entry(&mut rest)?;
        let id = take_id(&mut rest)?;
        // The id of the others is ignored, as the kernel ignores it.
        entries.push(Entry { tag, permissions, id: if tag.is_named() { id } else { NO_ID } });
    }
    is_valid(&entries).then(|| encode(DISK_VERSION, &entries, Tag::is_named))
}

/// From the disk form to the getxattr form; `None` when it is not a well-formed list.
pub fn from_disk(value: &[u8]) -> Option<Vec<u8>> {
    let mut rest = after_version(value, DISK_VERSION)?;
    let mut entries = Vec::with_capacity(rest.len() / 4);
    while !rest.is_empty() {
        let (tag, permissions) = take_entry(&mut rest)?;
        let id = if tag.is_named() { take_id(&mut rest)? } else { NO_ID };
        entries.push(Entry { tag, permissions, id });
    }
    is_valid(&entries).then(|| encode(ATTRIBUTE_VERSION, &entries, |_| true))
}

fn after_version(value: &[u8], version: u32) -> Option<&[u8]> {
    let (found, rest) = value.split_first_chunk()?;
    (u32::from_le_bytes(*found) == version).then_some(rest)
}

fn take_entry(rest: &mut &[u8]) -> Option<(Tag, u16)> {
    let (&[tag_low, tag_high, low, high], after) = rest.split_first_chunk()?;
    *rest = after;
    Some((
        Tag::from_code(u16::from_le_bytes([tag_low, tag_high]))?,
        u16::from_le_bytes([low, high]),
    ))
}

fn take_id(rest: &mut &[u8]) -> Option<u32> {
    let (id, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u32::from_le_bytes(*id))
}

fn is_valid(entries: &[Entry]) -> bool {
    let mut before = None;
    let (mut has_named, mut has_mask) = (false, false);
    for entry in entries {
        if !entry.tag.follows(before)
            || entry.permissions > 7
            || (entry.tag.is_named() && entry.id == NO_ID)
        {
            return false;
        }
        has_named |= entry.tag.is_named();
        has_mask |= entry.tag == Tag::Mask;
        before = Some(entry.tag);
    }
    before == Some(Tag::Others) && (has_mask || !has_named)
}

fn encode(version: u32, entries: &[Entry], has_id: impl Fn(Tag) -> bool) -> Vec<u8> {
    let mut bytes = version.to_le_bytes().to_vec();
    for entry in entries {
        bytes.extend_from_slice(&entry.tag.code().to_le_bytes());
        bytes.extend_from_slice(&entry.permissions.to_le_bytes());
        if has_id(entry.tag) {
            bytes.extend_from_slice(&entry.id.to_le_bytes());
        }
    }
    bytes
}
