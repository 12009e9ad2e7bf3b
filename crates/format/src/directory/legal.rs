//! Names that no file may have, and what they are written as where their files are saved.
//!
//! ```text
//! ../pwn       ..%2Fpwn         slash and NUL as %2F and %00, and % as %25: each form is of one
//! name (no bytes)   %                no other name becomes a single %
//! .  ..        %2E  %2E%2E      beside the two that every directory has
//! ..%2Fpwn is there already     ..%2Fpwn.12, with the number of the inode
//! ```
use super::NAME_MAX;
use crate::Ino;

/// Whether a file may have this name: it has bytes, and neither a slash nor a NUL among them. That
/// "." and ".." are taken is not looked at.
#[inline]
pub fn is_legal(name: &[u8]) -> bool {
    // Without an early exit the compiler compares many bytes at once.
    let has_forbidden =
        name.iter().fold(false, |found, &byte| found | (byte == b'/') | (byte == 0));
    !name.is_empty() && !has_forbidden
}

/// What a name that no file may have is written as: itself with `%` and two digits for each byte
/// that is in the way. May be longer than a name.
pub fn escaped(name: &[u8]) -> Vec<u8> {
    match name {
        b"" => b"%".to_vec(),
        b"." => b"%2E".to_vec(),
        b".." => b"%2E%2E".to_vec(),
        name => {
            let mut escaped = Vec::with_capacity(name.len().saturating_add(8));
            for byte in name {
                match byte {
                    b'/' => escaped.extend_from_slice(b"%2F"),
                    0 => escaped.extend_from_slice(b"%00"),
                    b'%' => escaped.extend_from_slice(b"%25"),
                    byte => escaped.push(*byte),
                }
            }
            escaped
        }
    }
}

/// The name under which a file is saved whose own no file may have: `escaped`, with the number of
/// its inode after it where that is taken, or is too long. At most [`NAME_MAX`] bytes, legal, and
/// not taken, as long as a directory has fewer names than there are numbers.
pub fn saved_as(name: &[u8], ino: Ino, is_taken: &mut dyn FnMut(&[u8]) -> bool) -> Vec<u8> {
    let plain = escaped(name);
    if plain.len() <= NAME_MAX && !is_taken(&plain) {
        return plain;
    }
    let mut end = format!(".{}", ino.0);
    let mut count = 1_u32;
    loop {
        let kept = plain.len().min(NAME_MAX.saturating_sub(end.len()));
        let mut name = plain.get(..kept).unwrap_or_default().to_vec();
        name.extend_from_slice(end.as_bytes());
        if !is_taken(&name) || count == u32::MAX {
            return name;
        }
        count = count.saturating_add(1);
        end = format!(".{}.{count}", ino.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_of_one_name() {
        for (name, form) in [
            (&b"../pwn"[..], &b"..%2Fpwn"[..]),
            (b"a\0b", b"a%00b"),
            (b"..%2F/", b"..%252F%2F"),
            (b"", b"%"),
            (b".", b"%2E"),
            (b"..", b"%2E%2E"),
        ] {
            assert_eq!(escaped(name), form);
            assert!(is_legal(form) && (!is_legal(name) || super::super::is_own(name)));
        }
    }

    #[test]
    fn what_is_taken_gets_the_number_of_its_inode() {
        let taken = |names: &'static [&'static [u8]]| move |name: &[u8]| names.contains(&name);
        assert_eq!(saved_as(b"../pwn", Ino(12), &mut taken(&[])), b"..%2Fpwn");
        assert_eq!(saved_as(b"../pwn", Ino(12), &mut taken(&[b"..%2Fpwn"])), b"..%2Fpwn.12");
        let both: &[&[u8]] = &[b"..%2Fpwn", b"..%2Fpwn.12"];
        assert_eq!(saved_as(b"../pwn", Ino(12), &mut taken(both)), b"..%2Fpwn.12.2");
        let long = saved_as(&[b'/'; 200], Ino(77), &mut taken(&[]));
        assert_eq!(long.len(), NAME_MAX);
        assert!(long.ends_with(b".77"));
    }
}
