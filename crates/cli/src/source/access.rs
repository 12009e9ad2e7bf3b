//! POSIX access lists: from the text that archives carry to the bytes that getxattr gives (version
//! 2).
//!
//! Text is `user::rw-,user:1000:r--,group::r--,mask::r--,other::---`, separated by commas or lines.
//! Names of users and groups mean nothing here: an image knows numbers only, and the host that
//! builds it is not the one that reads it. A fourth field, as libarchive and star write it, gives
//! the number.

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

const TAGS: [Tag; 6] = [Tag::Owner, Tag::User, Tag::OwningGroup, Tag::Group, Tag::Mask, Tag::Other];
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

/// A list that was read from text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Read {
    /// Its bytes; `None` for one that says no more than a mode does.
    pub(super) list: Option<Vec<u8>>,
    /// Users and groups whose entries were left out, because they have a name and no number.
    pub(super) nameless: Vec<String>,
}

/// The bytes of a list; `None` for what is no list, or one that no kernel takes.
///
/// Entries without a number are left out and the mask stays, so nobody else gains or loses
/// anything.
pub(super) fn from_text(text: &[u8]) -> Option<Read> {
    let text = std::str::from_utf8(text).ok()?;
    let words =
        text.split([',', '\n']).map(|word| word.split('#').next().unwrap_or_default().trim());
    let (mut entries, mut nameless) = (Vec::new(), Vec::new());
    for word in words.filter(|word| !word.is_empty()) {
        match entry(word)? {
            Subject::Numbered(entry) => entries.push(entry),
            Subject::Named(whom) => nameless.push(whom),
        }
    }
    entries.sort();
    let count = |tag| entries.iter().filter(|entry| entry.tag == tag).count();
    let single = [Tag::Owner, Tag::OwningGroup, Tag::Other].into_iter().all(|tag| count(tag) == 1);
    let named = count(Tag::User) + count(Tag::Group) + nameless.len() > 0;
    let twice =
        entries.windows(2).any(|pair| (pair[0].tag, pair[0].id) == (pair[1].tag, pair[1].id));
    if !single || twice || count(Tag::Mask) > 1 || (named && count(Tag::Mask) == 0) {
        return None;
    }
    if entries.len() == 3 {
        return Some(Read { list: None, nameless });
    }
    let mut bytes = VERSION.to_le_bytes().to_vec();
    for entry in entries {
        bytes.extend_from_slice(&(entry.tag as u16).to_le_bytes());
        bytes.extend_from_slice(&entry.permissions.to_le_bytes());
        bytes.extend_from_slice(&entry.id.to_le_bytes());
    }
    let list = Some(bytes);
    Some(Read { list, nameless })
}

/// One entry of a text.
enum Subject {
    Numbered(AccessEntry),
    /// Whom it names.
    Named(String),
}

fn entry(word: &str) -> Option<Subject> {
    let word = word.strip_prefix("default:").or_else(|| word.strip_prefix("d:")).unwrap_or(word);
    let mut fields = word.split(':').map(str::trim);
    let (kind, whom) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
    // "other:r--" and "mask:r--" without the empty field are written by some.
    let (whom, permissions) = match (fields.next(), kind) {
        (Some(permissions), _) => (whom, permissions),
        (None, "other" | "o" | "mask" | "m") => ("", whom),
        (None, _) => return None,
    };
    let number = whom.parse().ok().or_else(|| fields.next().and_then(|id| id.parse().ok()));
    let (tag, id) = match (kind, whom) {
        ("user" | "u", "") => (Tag::Owner, Some(NOBODY)),
        ("user" | "u", _) => (Tag::User, number),
        ("group" | "g", "") => (Tag::OwningGroup, Some(NOBODY)),
        ("group" | "g", _) => (Tag::Group, number),
        ("mask" | "m", "") => (Tag::Mask, Some(NOBODY)),
        ("other" | "o", "") => (Tag::Other, Some(NOBODY)),
        _ => return None,
    };
    let permissions = permissions_of(permissions)?;
    Some(match id {
        Some(id) => Subject::Numbered(AccessEntry { tag, id, permissions }),
        None => Subject::Named(format!("{kind} {whom}")),
    })
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

/// Changes the ids in the bytes of a list, and puts it in order again. What is no list is left as
/// it is.
pub(super) fn map_ids(value: &mut [u8], map: impl Fn(Tag, u32) -> u32) {
    let Some(mut entries) = entries(value) else { return };
    for entry in entries.iter_mut().filter(|entry| matches!(entry.tag, Tag::User | Tag::Group)) {
        entry.id = map(entry.tag, entry.id);
    }
    entries.sort();
    for (bytes, entry) in value[HEADER_BYTES..].chunks_exact_mut(ENTRY_BYTES).zip(entries) {
        bytes[..2].copy_from_slice(&(entry.tag as u16).to_le_bytes());
        bytes[2..4].copy_from_slice(&entry.permissions.to_le_bytes());
        bytes[4..].copy_from_slice(&entry.id.to_le_bytes());
    }
}

/// The nine bits of permission of a file with this access list, as the kernel sets them with it:
/// those of the group are the mask's. `None` for what is no whole list.
pub(super) fn permissions(value: &[u8]) -> Option<u16> {
    let entries = entries(value)?;
    let of = |tag| entries.iter().find(|entry| entry.tag == tag).map(|entry| entry.permissions & 7);
    let group = of(Tag::Mask).or(of(Tag::OwningGroup))?;
    Some(of(Tag::Owner)? << 6 | group << 3 | of(Tag::Other)?)
}

/// The entries of a list in bytes; `None` for what is no list.
fn entries(value: &[u8]) -> Option<Vec<AccessEntry>> {
    let list = value.get(HEADER_BYTES..).filter(|list| list.len() % ENTRY_BYTES == 0)?;
    let read = |bytes: &[u8]| {
        let number = u16::from_le_bytes([bytes[0], bytes[1]]);
        Some(AccessEntry {
            tag: TAGS.into_iter().find(|tag| *tag as u16 == number)?,
            id: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            permissions: u16::from_le_bytes([bytes[2], bytes[3]]),
        })
    };
    list.chunks_exact(ENTRY_BYTES).map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_sorted_bytes() {
        let read = from_text(
            b"user::rw-\nother::---\nmask::r--\ngroup::r-x\nuser:lisp:r--:1000\nuser:7:rwx\n",
        );
        let bytes = read.and_then(|read| read.list).unwrap();
        let tags: Vec<u8> = bytes[4..].chunks(8).map(|entry| entry[0]).collect();
        assert_eq!(tags, [1, 2, 2, 4, 16, 32]);
        assert_eq!(&bytes[12..20], &[2, 0, 7, 0, 7, 0, 0, 0]);
    }

    #[test]
    fn what_a_mode_says_needs_no_list() {
        let read = from_text(b"user::rw-,group::r--,other::r--").unwrap();
        assert_eq!((read.list, read.nameless), (None, vec![]));
    }

    #[test]
    fn entries_without_a_number_are_left_out_and_nonsense_is_refused() {
        let read = from_text(b"user::rw-,user:joe:r--,group:7:r--,group::r--,mask::r--,other::r--")
            .unwrap();
        assert_eq!(read.nameless, ["user joe"]);
        let kept = from_text(b"user::rw-,group:7:r--,group::r--,mask::r--,other::r--").unwrap();
        assert_eq!(read.list, kept.list);
        for wrong in [
            "",
            "x",
            "user::rw-",
            "user::rwz,group::r--,other::r--",
            "user::r,group::r,other::r,user:1:r",
        ] {
            assert_eq!(from_text(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn the_mask_is_the_permission_of_the_group() {
        let of = |text: &[u8]| permissions(&from_text(text).unwrap().list.unwrap());
        assert_eq!(of(b"user::rw-,user:1:rwx,group::---,mask::rw-,other::r--"), Some(0o664));
        assert_eq!(permissions(b"no list"), None);
        assert_eq!(permissions(&[2, 0, 0, 0]), None);
    }

    #[test]
    fn ids_are_mapped_and_put_in_order() {
        let list = "user::rw-,user:1:r--,user:2:-w-,group::r--,mask::rw-,other::---";
        let mut bytes = from_text(list.as_bytes()).unwrap().list.unwrap();
        map_ids(&mut bytes, |_, id| if id == 1 { 9 } else { id });
        assert_eq!(bytes, from_text(list.replace(":1:", ":9:").as_bytes()).unwrap().list.unwrap());
    }
}
