//! POSIX access lists as archives and system calls have them: as text, and as the bytes that
//! `getxattr` gives (version 2).
//!
//! Text is `user::rw-,user:1000:r--,group::r--,mask::r--,other::---`, separated by commas or lines.
//! Names of users and groups mean nothing here: an image knows numbers only, and the host that
//! reads an archive is not the one that wrote it. A fourth field, as libarchive and star write it,
//! gives the number.
use std::fmt::Write;

/// What an entry gives permissions to. The values are those of the bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u16)]
pub enum Tag {
    /// The owner of the file.
    Owner = 1,
    /// The user of the entry's number.
    User = 2,
    /// The group of the file.
    OwningGroup = 4,
    /// The group of the entry's number.
    Group = 8,
    /// The most that users and groups with a number, and the owning group, are given.
    Mask = 16,
    /// Everybody else.
    Other = 32,
}

const TAGS: [Tag; 6] = [Tag::Owner, Tag::User, Tag::OwningGroup, Tag::Group, Tag::Mask, Tag::Other];
const VERSION: u32 = 2;
/// In place of a number where an entry has none.
const NO_ID: u32 = u32::MAX;
const ENTRY_BYTES: usize = 8;

impl Tag {
    fn word(self) -> &'static str {
        match self {
            Tag::Owner | Tag::User => "user",
            Tag::OwningGroup | Tag::Group => "group",
            Tag::Mask => "mask",
            Tag::Other => "other",
        }
    }

    fn has_id(self) -> bool {
        matches!(self, Tag::User | Tag::Group)
    }
}

/// One entry. Entries are ordered as the bytes must be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AccessEntry {
    /// What is given permissions.
    pub tag: Tag,
    /// The number of a user or group; `u32::MAX` for the other tags.
    pub id: u32,
    /// Read 4, write 2, execute 1.
    pub permissions: u16,
}

/// The entries of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessList {
    /// In the order of the bytes, which the kernel wants to rise.
    pub entries: Vec<AccessEntry>,
}

/// A list that was read from text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextList {
    /// The list; `None` for one that says no more than a mode does.
    pub list: Option<AccessList>,
    /// Users and groups whose entries were left out, because they have a name and no number.
    pub nameless: Vec<String>,
}

impl AccessList {
    /// Reads a text; `None` for what is no list, or one that no kernel takes.
    ///
    /// Entries without a number are left out and the mask stays, so nothing else gains or loses
    /// permissions.
    pub fn from_text(text: &[u8]) -> Option<TextList> {
        let text = std::str::from_utf8(text).ok()?;
        let words =
            text.split([',', '\n']).map(|word| word.split('#').next().unwrap_or_default().trim());
        let (mut entries, mut nameless) = (Vec::new(), Vec::new());
        for word in words.filter(|word| !word.is_empty()) {
            match subject(word)? {
                Subject::Numbered(entry) => entries.push(entry),
                Subject::Named(name) => nameless.push(name),
            }
        }
        entries.sort();
        let count = |tag| entries.iter().filter(|entry| entry.tag == tag).count();
        let single =
            [Tag::Owner, Tag::OwningGroup, Tag::Other].into_iter().all(|tag| count(tag) == 1);
        let named = count(Tag::User) + count(Tag::Group) + nameless.len() > 0;
        let twice =
            entries.windows(2).any(|pair| (pair[0].tag, pair[0].id) == (pair[1].tag, pair[1].id));
        if !single || twice || count(Tag::Mask) > 1 || (named && count(Tag::Mask) == 0) {
            return None;
        }
        let list = (entries.len() > 3).then_some(AccessList { entries });
        Some(TextList { list, nameless })
    }

    /// Reads the bytes that `getxattr` gives; `None` for what is no list.
    pub fn from_bytes(value: &[u8]) -> Option<AccessList> {
        let (version, entries) = value.split_first_chunk()?;
        if u32::from_le_bytes(*version) != VERSION || entries.len() % ENTRY_BYTES != 0 {
            return None;
        }
        let read = |bytes: &[u8]| {
            let code = u16::from_le_bytes([bytes[0], bytes[1]]);
            Some(AccessEntry {
                tag: TAGS.into_iter().find(|tag| *tag as u16 == code)?,
                id: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
                permissions: u16::from_le_bytes([bytes[2], bytes[3]]),
            })
        };
        let entries = entries.chunks_exact(ENTRY_BYTES).map(read).collect::<Option<Vec<_>>>()?;
        Some(AccessList { entries })
    }

    /// The bytes that `setxattr` takes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for entry in &self.entries {
            bytes.extend_from_slice(&(entry.tag as u16).to_le_bytes());
            bytes.extend_from_slice(&entry.permissions.to_le_bytes());
            bytes.extend_from_slice(&entry.id.to_le_bytes());
        }
        bytes
    }

    /// The text, with numbers in place of names: what GNU tar and bsdtar restore.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(entry.tag.word());
            text.push(':');
            if entry.tag.has_id() {
                // Writing to a string does not fail.
                let _ = write!(text, "{}", entry.id);
            }
            text.push(':');
            for (bit, letter) in [(4, 'r'), (2, 'w'), (1, 'x')] {
                text.push(if entry.permissions & bit == 0 { '-' } else { letter });
            }
        }
        text
    }

    /// The nine bits of permission of a file with this list, as the kernel sets them with it: those
    /// of the group are the mask's. `None` for a list that is not whole.
    pub fn permissions(&self) -> Option<u16> {
        let find = |tag| self.entries.iter().find(|entry| entry.tag == tag);
        let of = |tag| find(tag).map(|entry| entry.permissions & 7);
        let group = of(Tag::Mask).or(of(Tag::OwningGroup))?;
        Some(of(Tag::Owner)? << 6 | group << 3 | of(Tag::Other)?)
    }

    /// Changes the numbers of users and groups, and puts the entries in order again.
    pub fn map_ids(&mut self, map: impl Fn(Tag, u32) -> u32) {
        for entry in self.entries.iter_mut().filter(|entry| entry.tag.has_id()) {
            entry.id = map(entry.tag, entry.id);
        }
        self.entries.sort();
    }
}

/// One entry of a text.
enum Subject {
    Numbered(AccessEntry),
    /// One that has a name alone.
    Named(String),
}

fn subject(word: &str) -> Option<Subject> {
    let word = word.strip_prefix("default:").or_else(|| word.strip_prefix("d:")).unwrap_or(word);
    let mut fields = word.split(':').map(str::trim);
    let (kind, name) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
    // "other:r--" and "mask:r--" without the empty field are written by some.
    let (name, permissions) = match (fields.next(), kind) {
        (Some(permissions), _) => (name, permissions),
        (None, "other" | "o" | "mask" | "m") => ("", name),
        (None, _) => return None,
    };
    let number = name.parse().ok().or_else(|| fields.next().and_then(|id| id.parse().ok()));
    let (tag, id) = match (kind, name) {
        ("user" | "u", "") => (Tag::Owner, Some(NO_ID)),
        ("user" | "u", _) => (Tag::User, number),
        ("group" | "g", "") => (Tag::OwningGroup, Some(NO_ID)),
        ("group" | "g", _) => (Tag::Group, number),
        ("mask" | "m", "") => (Tag::Mask, Some(NO_ID)),
        ("other" | "o", "") => (Tag::Other, Some(NO_ID)),
        _ => return None,
    };
    let permissions = permissions_of(permissions)?;
    Some(match id {
        Some(id) => Subject::Numbered(AccessEntry { tag, id, permissions }),
        None => Subject::Named(format!("{kind} {name}")),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> AccessList {
        AccessList::from_text(text.as_bytes()).unwrap().list.unwrap()
    }

    #[test]
    fn text_becomes_sorted_bytes() {
        let bytes =
            list("user::rw-\nother::---\nmask::r--\ngroup::r-x\nuser:lisp:r--:1000\nuser:7:rwx\n")
                .to_bytes();
        let tags: Vec<u8> = bytes[4..].chunks(8).map(|entry| entry[0]).collect();
        assert_eq!(tags, [1, 2, 2, 4, 16, 32]);
        assert_eq!(&bytes[12..20], &[2, 0, 7, 0, 7, 0, 0, 0]);
    }

    #[test]
    fn text_and_bytes_say_the_same() {
        let text = "user::rw-,user:70000:r-x,group::r--,mask::rwx,other::---";
        let bytes = list(text).to_bytes();
        assert_eq!(AccessList::from_bytes(&bytes).unwrap().to_text(), text);
        assert_eq!(AccessList::from_bytes(&bytes[..bytes.len() - 1]), None);
        assert_eq!(AccessList::from_bytes(&[1, 0, 0, 0]), None);
        assert_eq!(AccessList::from_bytes(&[2, 0, 0]), None);
    }

    #[test]
    fn what_a_mode_says_needs_no_list() {
        let read = AccessList::from_text(b"user::rw-,group::r--,other::r--").unwrap();
        assert_eq!((read.list, read.nameless), (None, vec![]));
    }

    #[test]
    fn entries_without_a_number_are_left_out_and_nonsense_is_refused() {
        let text = b"user::rw-,user:joe:r--,group:7:r--,group::r--,mask::r--,other::r--";
        let read = AccessList::from_text(text).unwrap();
        assert_eq!(read.nameless, ["user joe"]);
        let kept = list("user::rw-,group:7:r--,group::r--,mask::r--,other::r--");
        assert_eq!(read.list, Some(kept));
        for wrong in [
            "",
            "x",
            "user::rw-",
            "user::rwz,group::r--,other::r--",
            "user::r,group::r,other::r,user:1:r",
        ] {
            assert_eq!(AccessList::from_text(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn the_mask_is_the_permission_of_the_group() {
        let text = "user::rw-,user:1:rwx,group::---,mask::rw-,other::r--";
        assert_eq!(list(text).permissions(), Some(0o664));
        assert_eq!(AccessList { entries: vec![] }.permissions(), None);
    }

    #[test]
    fn ids_are_mapped_and_put_in_order() {
        let text = "user::rw-,user:1:r--,user:2:-w-,group::r--,mask::rw-,other::---";
        let mut mapped = list(text);
        mapped.map_ids(|_, id| if id == 1 { 9 } else { id });
        assert_eq!(mapped, list(&text.replace(":1:", ":9:")));
    }
}
