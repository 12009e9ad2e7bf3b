//! Values of extended attributes as getfattr(1) and setfattr(1) have them: text, `0x` and
//! hexadecimal digits, `0s` and base64; and the dumps of whole files of them.
use std::fmt::Write;

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Encoding {
    /// In quotes where it is text, else as base64.
    #[default]
    Auto,
    /// In quotes.
    Text,
    /// `0x` and digits.
    Hex,
    /// `0s` and base64.
    Base64,
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A value as text.
pub fn encoded(value: &[u8], encoding: Encoding) -> String {
    let is_text = !value.iter().any(|byte| *byte < 0x20 && !matches!(byte, b'\n' | b'\t'))
        && std::str::from_utf8(value).is_ok();
    match encoding {
        Encoding::Auto if is_text => quoted(value),
        Encoding::Text => quoted(value),
        Encoding::Hex => value.iter().fold("0x".to_owned(), |mut text, byte| {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        }),
        Encoding::Auto | Encoding::Base64 => format!("0s{}", base64(value)),
    }
}

fn quoted(value: &[u8]) -> String {
    let mut text = "\"".to_owned();
    for chunk in value.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '"' | '\\' => {
                    text.push('\\');
                    text.push(letter);
                }
                '\n' => text.push_str("\\012"),
                '\r' => text.push_str("\\015"),
                '\0' => text.push_str("\\000"),
                _ => text.push(letter),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\{byte:03o}");
        }
    }
    text.push('"');
    text
}

/// Base64 with padding.
pub fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let letter = DIGITS[(word >> (18 - 6 * digit) & 63) as usize];
            text.push(if digit <= chunk.len() { letter as char } else { '=' });
        }
    }
    text
}

fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let stripped: Vec<u8> =
        text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let end = stripped.iter().rposition(|byte| *byte != b'=').map_or(0, |at| at + 1);
    if stripped.len() - end > 2 || end % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(end / 4 * 3 + 2);
    for chunk in stripped[..end].chunks(4) {
        let mut word = 0_u32;
        for letter in chunk {
            let digit = DIGITS.iter().position(|digit| digit == letter)? as u32;
            word = word << 6 | digit;
        }
        word <<= 6 * (4 - chunk.len());
        let [_, three @ ..] = word.to_be_bytes();
        bytes.extend_from_slice(&three[..chunk.len() - 1]);
    }
    Some(bytes)
}

fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some((digit(*high)? << 4 | digit(*low)?) as u8)).collect()
}

/// The value that a text stands for: as it is, unless it begins with `0x`, `0s` or a quote.
///
/// # Errors
/// Digits that are none; a quote that does not end.
pub fn decoded(text: &[u8]) -> Result<Vec<u8>, String> {
    let shown = || String::from_utf8_lossy(text).into_owned();
    match text {
        [b'0', b'x' | b'X', rest @ ..] => {
            from_hex(rest).ok_or_else(|| format!("{:?} is not hexadecimal", shown()))
        }
        [b'0', b's' | b'S', rest @ ..] => {
            from_base64(rest).ok_or_else(|| format!("{:?} is not base64", shown()))
        }
        [b'"', rest @ ..] => {
            let inner = rest.strip_suffix(b"\"").filter(|_| !rest.is_empty());
            let inner = inner.ok_or_else(|| format!("{:?}: a quote does not end", shown()))?;
            Ok(unescaped(inner))
        }
        _ => Ok(unescaped(text)),
    }
}

/// A text without its backslashes: three octal digits after one are a byte, anything else is
/// itself.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'\\' || tail.is_empty() {
            bytes.push(*first);
            continue;
        }
        let octal = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(tail[0]);
                rest = &tail[1..];
            }
        }
    }
    bytes
}

/// A name as a dump has it: what could be taken for something else is octal.
pub fn escaped_name(name: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(name.len());
    for byte in name {
        match byte {
            b'\n' | b'\r' | b'\\' | b'=' => text.extend(format!("\\{byte:03o}").bytes()),
            _ => text.push(*byte),
        }
    }
    text
}

/// A file of a dump, with its attributes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dumped {
    /// Its path, from the root of the image on.
    pub path: Vec<u8>,
    /// Names and values.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What `getfattr -d` printed: `# file: PATH`, then `NAME=VALUE` lines, then an empty one.
///
/// # Errors
/// The number of a line that is none of these, and why.
pub fn parse_dump(text: &[u8]) -> Result<Vec<Dumped>, String> {
    let mut files: Vec<Dumped> = Vec::new();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let at = |said: &str| format!("line {}: {said}", number + 1);
        if let Some(path) = line.strip_prefix(b"# file: ") {
            files.push(Dumped { path: unescaped(path), attributes: Vec::new() });
        } else if !line.is_empty() && !line.starts_with(b"#") {
            let file = files.last_mut().ok_or_else(|| at("no \"# file:\" before it"))?;
            let (name, value) = match line.iter().position(|byte| *byte == b'=') {
                Some(sign) => (&line[..sign], decoded(&line[sign + 1..]).map_err(|why| at(&why))?),
                None => (line, Vec::new()),
            };
            file.attributes.push((unescaped(name), value));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        for value in [&b""[..], b"a", b"ab", b"abc", b"a\"b\\c\n", b"\0\x01\xff", "grün".as_bytes()]
        {
            for encoding in [Encoding::Auto, Encoding::Text, Encoding::Hex, Encoding::Base64] {
                let text = encoded(value, encoding);
                assert_eq!(decoded(text.as_bytes()).as_deref(), Ok(value), "{text}");
            }
        }
        assert_eq!(encoded(b"\0", Encoding::Auto), "0sAA==");
        assert_eq!(decoded(b"plain"), Ok(b"plain".to_vec()));
        for text in ["0xabc", "0xzz", "0s*", "0sA", "\"", "\"a"] {
            assert!(decoded(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_dump_is_read() {
        let dump = parse_dump(b"# file: a\\040b\nuser.x=\"1\"\nuser.y\n\n# file: c\nuser.z=0x01\n");
        let dump = dump.unwrap();
        assert_eq!((dump[0].path.as_slice(), dump[1].path.as_slice()), (&b"a b"[..], &b"c"[..]));
        assert_eq!(dump[0].attributes[1], (b"user.y".to_vec(), Vec::new()));
        assert_eq!(dump[1].attributes, [(b"user.z".to_vec(), vec![1])]);
        assert!(parse_dump(b"user.x=1\n").unwrap_err().starts_with("line 1"));
    }
}
