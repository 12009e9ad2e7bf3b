//! POSIX access lists: from the text that archives carry to the bytes that getxattr gives (version 2).
//!
//! Text is `user::rw-,user:1000:r--,group::r--,mask::r--,other::---`, separated by commas or lines. Names of users and
//! groups mean nothing here: an image knows numbers only, and the host that builds it is not the one that reads it. A
//! fourth field, as libarchive and star write it, gives the number.

/// Whom an entry speaks of. The values are those of the bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u16)]
#[allow(missing_docs)]
pub(super) enum Tag {
    Owner = 1,
    User = 2,
    OwningGroup = 4,
    Group = 8,
    Mask = 16,
    Other = 32,
}

const TAGS: [Tag; 6] = [
    Tag::Owner,
    Tag::User,
    Tag::OwningGroup,
    Tag::Group,
    Tag::Mask,
    Tag::Other,
];
const VERSION: u32 = 2;
const NOBODY: u32 = u32::MAX;
const HEADER_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;

/// One entry: ordered as the bytes must be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct AccessEntry {
    tag: Tag,
    id: u32,
    permissions: u16,
}

/// Why a text is no access list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum TextError {
    /// A user or group is given by name only.
    NameOnly(String),
    /// Not a list at all, or one that no kernel takes.
    Malformed,
}

/// The bytes of a list; `None` for one that says no more than a mode does.
pub(super) fn from_text(text: &[u8]) -> Result<Option<Vec<u8>>, TextError> {
    let text = std::str::from_utf8(text).map_err(|_| TextError::Malformed)?;
    let words = text
        .split([',', '\n'])
        .map(|word| word.split('#').next().unwrap_or_default().trim());
    let mut entries = words
        .filter(|word| !word.is_empty())
        .map(entry)
        .collect::<Result<Vec<_>, _>>()?;
    entries.sort();
    let count = |tag| entries.iter().filter(|entry| entry.tag == tag).count();
    let single = [Tag::Owner, Tag::OwningGroup, Tag::Other]
        .into_iter()
        .all(|tag| count(tag) == 1);
    let named = count(Tag::User) + count(Tag::Group) > 0;
    let twice = entries
        .windows(2)
        .any(|pair| (pair[0].tag, pair[0].id) == (pair[1].tag, pair[1].id));
    if !single || twice || count(Tag::Mask) > 1 || (named && count(Tag::Mask) == 0) {
        return Err(TextError::Malformed);
    }
    if entries.len() == 3 {
        return Ok(None);
    }
    let mut bytes = VERSION.to_le_bytes().to_vec();
    for entry in entries {
        bytes.extend_from_slice(&(entry.tag as u16).to_le_bytes());
        bytes.extend_from_slice(&entry.permissions.to_le_bytes());
        bytes.extend_from_slice(&entry.id.to_le_bytes());
    }
    Ok(Some(bytes))
}

fn entry(word: &str) -> Result<AccessEntry, TextError> {
    let word = word
        .strip_prefix("default:")
        .or_else(|| word.strip_prefix("d:"))
        .unwrap_or(word);
    let mut fields = word.split(':').map(str::trim);
    let (kind, whom) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
    // "other:r--" and "mask:r--" without the empty field are written by some.
    let (whom, permissions) = match (fields.next(), kind) {
        (Some(permissions), _) => (whom, permissions),
        (None, "other" | "o" | "mask" | "m") => ("", whom),
        (None, _) => return Err(TextError::Malformed),
    };
    let number = whom
        .parse()
        .ok()
        .or_else(|| fields.next().and_then(|id| id.parse().ok()));
    let named = |tag| match number {
        Some(id) => Ok((tag, id)),
        None => Err(TextError::NameOnly(whom.to_owned())),
    };
    let (tag, id) = match (kind, whom) {
        ("user" | "u", "") => (Tag::Owner, NOBODY),
        ("user" | "u", _) => named(Tag::User)?,
        ("group" | "g", "") => (Tag::OwningGroup, NOBODY),
        ("group" | "g", _) => named(Tag::Group)?,
        ("mask" | "m", "") => (Tag::Mask, NOBODY),
        ("other" | "o", "") => (Tag::Other, NOBODY),
        _ => return Err(TextError::Malformed),
    };
    let permissions = permissions_of(permissions).ok_or(TextError::Malformed)?;
    Ok(AccessEntry { tag, id, permissions })
}

/// `rwx`, with `-` in place of what is missing; order and length are not insisted upon.
fn permissions_of(text: &str) -> Option<u16> {
    text.bytes().try_fold(0, |bits, letter| match letter {
        b'r' => Some(bits | 4),
        b'w' => Some(bits | 2),
        b'x' => Some(bits | 1),
        b'-' => Some(bits),
        _ => None,
    })
}

/// Changes the ids in the bytes of a list, and puts it in order again. What is no list is left as it is.
pub(super) fn map_ids(value: &mut [u8], map: impl Fn(Tag, u32) -> u32) {
    let Some(list) = value
        .get_mut(HEADER_BYTES..)
        .filter(|list| list.len() % ENTRY_BYTES == 0)
    else {
        return;
    };
    let read = |bytes: &[u8]| {
        let number = u16::from_le_bytes([bytes[0], bytes[1]]);
        let tag = TAGS.into_iter().find(|tag| *tag as u16 == number)?;
        let id = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let id = if matches!(tag, Tag::User | Tag::Group) {
            map(tag, id)
        } else {
            id
        };
        Some(AccessEntry {
            tag,
            id,
            permissions: u16::from_le_bytes([bytes[2], bytes[3]]),
        })
    };
    let entries: Option<Vec<AccessEntry>> = list.chunks_exact(ENTRY_BYTES).map(read).collect();
    let Some(mut entries) = entries else { return };
    entries.sort();
    for (bytes, entry) in list.chunks_exact_mut(ENTRY_BYTES).zip(entries) {
        bytes[..2].copy_from_slice(&(entry.tag as u16).to_le_bytes());
        bytes[2..4].copy_from_slice(&entry.permissions.to_le_bytes());
        bytes[4..].copy_from_slice(&entry.id.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_sorted_bytes() {
        let bytes = from_text(b"user::rw-\nother::---\nmask::r--\ngroup::r-x\nuser:lisp:r--:1000\nuser:7:rwx\n");
        let bytes = bytes.unwrap().unwrap();
        let tags: Vec<u8> = bytes[4..].chunks(8).map(|entry| entry[0]).collect();
        assert_eq!(tags, [1, 2, 2, 4, 16, 32]);
        assert_eq!(&bytes[12..20], &[2, 0, 7, 0, 7, 0, 0, 0]);
    }

    #[test]
    fn what_a_mode_says_needs_no_list() {
        assert_eq!(from_text(b"user::rw-,group::r--,other::r--"), Ok(None));
    }

    #[test]
    fn names_and_nonsense_are_told_apart() {
        assert_eq!(
            from_text(b"user::rw-,user:joe:r--,group::r--,mask::r--,other::r--"),
            Err(TextError::NameOnly("joe".into()))
        );
        for wrong in [
            "",
            "x",
            "user::rw-",
            "user::rwz,group::r--,other::r--",
            "user::r,group::r,other::r,user:1:r",
        ] {
            assert_eq!(from_text(wrong.as_bytes()), Err(TextError::Malformed), "{wrong}");
        }
    }

    #[test]
    fn ids_are_mapped_and_put_in_order() {
        let list = "user::rw-,user:1:r--,user:2:-w-,group::r--,mask::rw-,other::---";
        let mut bytes = from_text(list.as_bytes()).unwrap().unwrap();
        map_ids(&mut bytes, |_, id| if id == 1 { 9 } else { id });
        assert_eq!(
            bytes,
            from_text(list.replace(":1:", ":9:").as_bytes()).unwrap().unwrap()
        );
    }
}
