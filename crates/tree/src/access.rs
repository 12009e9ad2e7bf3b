//! Access lists as text, which archives have beside the bytes.
//!
//! Text is `user::rw-,user:1000:r--,group::r--,mask::r--,other::---`, separated by commas or lines.
//! Names of users and groups mean nothing here: an image knows numbers only, and the host that
//! reads an archive is not the one that wrote it. A fourth field, as libarchive and star write it,
//! gives the number.
use extant_format::acl::{AccessList, Entry, Tag};
use std::fmt::Write;

/// A list that was read from text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextList {
    /// The list; `None` for one that says no more than a mode does.
    pub list: Option<AccessList>,
    /// Users and groups whose entries were left out, because they have a name and no number.
    pub nameless: Vec<String>,
}

/// Reads a text; `None` for what is no list, or one that no kernel takes.
///
/// Entries without a number are left out and the mask stays, so nothing else gains or loses
/// permissions.
pub fn from_text(text: &[u8]) -> Option<TextList> {
    let text = std::str::from_utf8(text).ok()?;
    let words =
        text.split([',', '\n']).map(|word| word.split('#').next().unwrap_or_default().trim());
    let mut nameless = Vec::new();
    let mut list = AccessList::default();
    for word in words.filter(|word| !word.is_empty()) {
        match subject(word)? {
            Subject::Numbered(entry) => list.entries.push(entry),
            Subject::Named(name) => nameless.push(name),
        }
    }
    list.entries.sort();
    let mut pairs = list.entries.iter().zip(list.entries.iter().skip(1));
    let is_masked = nameless.is_empty() || list.of(Tag::Mask).is_some();
    if !list.is_whole() || !is_masked || pairs.any(|(one, next)| one.tag == next.tag) {
        return None;
    }
    Some(TextList { list: (!list.is_minimal()).then_some(list), nameless })
}

/// The text, with numbers in place of names: what GNU tar and bsdtar restore.
pub fn to_text(list: &AccessList) -> String {
    let mut text = String::new();
    for Entry { tag, permissions } in &list.entries {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(match tag {
            Tag::Owner | Tag::User(_) => "user:",
            Tag::OwningGroup | Tag::Group(_) => "group:",
            Tag::Mask => "mask:",
            Tag::Other => "other:",
        });
        if let Some(id) = tag.id() {
            // Writing to a string does not fail.
            let _ = write!(text, "{id}");
        }
        text.push(':');
        for (bit, letter) in [(4, 'r'), (2, 'w'), (1, 'x')] {
            text.push(if permissions & bit == 0 { '-' } else { letter });
        }
    }
    text
}

/// One entry of a text.
enum Subject {
    Numbered(Entry),
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
    let tag = match (kind, name) {
        ("user" | "u", "") => Some(Tag::Owner),
        ("user" | "u", _) => number.map(Tag::User),
        ("group" | "g", "") => Some(Tag::OwningGroup),
        ("group" | "g", _) => number.map(Tag::Group),
        ("mask" | "m", "") => Some(Tag::Mask),
        ("other" | "o", "") => Some(Tag::Other),
        _ => return None,
    };
    let permissions = permissions_of(permissions)?;
    Some(match tag {
        Some(tag) => Subject::Numbered(Entry { tag, permissions }),
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
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    fn list(text: &str) -> AccessList {
        from_text(text.as_bytes()).unwrap().list.unwrap()
    }

    #[test]
    fn text_becomes_sorted_bytes() {
        let bytes =
            list("user::rw-\nother::---\nmask::r--\ngroup::r-x\nuser:lisp:r--:1000\nuser:7:rwx\n")
                .to_attribute();
        let tags: Vec<u8> = bytes[4..].chunks(8).map(|entry| entry[0]).collect();
        assert_eq!(tags, [1, 2, 2, 4, 16, 32]);
        assert_eq!(&bytes[12..20], &[2, 0, 7, 0, 7, 0, 0, 0]);
    }

    #[test]
    fn text_and_bytes_say_the_same() {
        let text = "user::rw-,user:70000:r-x,group::r--,mask::rwx,other::---";
        let bytes = list(text).to_attribute();
        assert_eq!(to_text(&AccessList::from_attribute(&bytes).unwrap()), text);
        assert_eq!(AccessList::from_attribute(&bytes[..bytes.len() - 1]), None);
        assert_eq!(AccessList::from_attribute(&[1, 0, 0, 0]), None);
        assert_eq!(AccessList::from_attribute(&[2, 0, 0]), None);
    }

    #[test]
    fn what_a_mode_says_needs_no_list() {
        let read = from_text(b"user::rw-,group::r--,other::r--").unwrap();
        assert_eq!((read.list, read.nameless), (None, vec![]));
    }

    #[test]
    fn entries_without_a_number_are_left_out_and_nonsense_is_refused() {
        let text = b"user::rw-,user:joe:r--,group:7:r--,group::r--,mask::r--,other::r--";
        let read = from_text(text).unwrap();
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
            assert_eq!(from_text(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn a_number_that_no_volume_has_is_read_for_whoever_maps_it() {
        let text = b"user::rw-,user:4294967295:r--,group::r--,mask::r--,other::r--";
        let list = from_text(text).unwrap().list.unwrap();
        assert!(list.is_whole() && !list.is_well_formed());
    }

    proptest! {
        #[test]
        fn a_list_is_what_its_text_says(
            users in btree_map(0..u32::MAX, 0..8_u16, 0..5),
            groups in btree_map(0..u32::MAX, 0..8_u16, 0..5),
            given in vec(0..8_u16, 4),
        ) {
            let entry = |(tag, permissions)| Entry { tag, permissions };
            let named = users.into_iter().map(|(id, given)| (Tag::User(id), given));
            let groups = groups.into_iter().map(|(id, given)| (Tag::Group(id), given));
            let entries = [(Tag::Owner, given[0])].into_iter().chain(named);
            let entries = entries.chain([(Tag::OwningGroup, given[1])]).chain(groups);
            let entries = entries.chain([(Tag::Mask, given[2]), (Tag::Other, given[3])]);
            let list = AccessList { entries: entries.map(entry).collect() };
            let read = from_text(to_text(&list).as_bytes());
            prop_assert_eq!(read, Some(TextList { list: Some(list), nameless: vec![] }));
        }

        #[test]
        fn hostile_text_gives_a_well_formed_list_or_none(
            words in vec("(d:)?(u|g|m|o|user|group|mask|other|x)(:[rwx0-9a-]{0,3}){0,4}", 0..7),
            bytes in vec(any::<u8>(), 0..60),
        ) {
            for text in [words.join(",").as_bytes(), &bytes] {
                if let Some(TextList { list: Some(list), .. }) = from_text(text) {
                    prop_assert!(list.is_well_formed(), "{list:?}");
                }
            }
        }
    }
}
