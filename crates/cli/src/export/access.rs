//! Access lists as text, with numbers for names: what GNU tar and bsdtar restore.

const TAG_NAMES: [(u16, &str); 6] =
    [(1, "user:"), (2, "user:"), (4, "group:"), (8, "group:"), (16, "mask:"), (32, "other:")];
const USER: u16 = 2;
const GROUP: u16 = 8;

/// The text of a list in the form of getxattr: `user::rw-,user:1000:r--,...`; `None` when it is no
/// such list.
pub(super) fn to_text(value: &[u8]) -> Option<String> {
    let (version, entries) = value.split_first_chunk()?;
    if u32::from_le_bytes(*version) != 2 || entries.is_empty() || entries.len() % 8 != 0 {
        return None;
    }
    let mut text = String::new();
    for entry in entries.chunks_exact(8) {
        let (tag, permissions) = (u16::from_le_bytes([entry[0], entry[1]]), entry[2]);
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let (_, name) = TAG_NAMES.iter().find(|(number, _)| *number == tag)?;
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        if matches!(tag, USER | GROUP) {
            text.push_str(&id.to_string());
        }
        text.push(':');
        for (bit, letter) in [(4, 'r'), (2, 'w'), (1, 'x')] {
            text.push(if permissions & bit == 0 { '-' } else { letter });
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::to_text;

    #[test]
    fn a_list_in_words() {
        let entry = |tag: u8, permissions: u8, id: u32| {
            [&[tag, 0, permissions, 0][..], &id.to_le_bytes()].concat()
        };
        let list = [
            vec![2, 0, 0, 0],
            entry(1, 6, u32::MAX),
            entry(2, 5, 70000),
            entry(4, 4, u32::MAX),
            entry(16, 7, u32::MAX),
            entry(32, 0, u32::MAX),
        ]
        .concat();
        assert_eq!(
            to_text(&list).unwrap(),
            "user::rw-,user:70000:r-x,group::r--,mask::rwx,other::---"
        );
        assert_eq!(to_text(&list[..list.len() - 1]), None);
        assert_eq!(to_text(&[1, 0, 0, 0]), None);
    }
}
