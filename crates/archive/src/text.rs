//! Bytes of names and reasons of failures as text for people.
use std::fmt::Write;
use std::io;

/// Bytes of text after which the rest is left out.
const SHOWN_BYTES_MAX: usize = 300;

/// Bytes of a name as one line of at most about 300 bytes that a terminal shows as it is: UTF-8
/// stays, control characters, backslashes and bytes that are not UTF-8 are escaped.
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().min(SHOWN_BYTES_MAX));
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter.is_control() || letter == '\\' {
                true => text.extend(letter.escape_default()),
                false => text.push(letter),
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string does not fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
        if text.len() > SHOWN_BYTES_MAX {
            break;
        }
    }
    if text.len() > SHOWN_BYTES_MAX {
        let cut = (0..=SHOWN_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text.push_str("...");
    }
    text
}

/// The reason of an I/O error without the number that the standard library appends.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_print_on_one_line() {
        assert_eq!(printable("grün".as_bytes()), "grün");
        assert_eq!(printable(b"a\nb\xff"), "a\\nb\\xff");
        assert!(printable(&[b'x'; 5000]).len() < 310);
    }

    #[test]
    fn a_reason_has_no_number() {
        assert_eq!(reason(&io::Error::from_raw_os_error(28)), "No space left on device");
    }
}
