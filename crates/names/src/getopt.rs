//! Words of a command line as getopt(3) reads them: letters joined (`-Fq`), values joined or apart
//! (`-b4096`, `-b 4096`), options after operands, and `--`, after which all are operands.
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A command line, read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Words {
    /// Letters in their order, each with its value if it takes one.
    pub options: Vec<(char, OsString)>,
    /// What is no option.
    pub operands: Vec<OsString>,
}

/// Why a command line cannot be read, in getopt's own words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable(pub String);

/// Reads the words after the program's name. `known` has the letters, one that takes a value with a
/// colon after it: `b:cF`.
///
/// # Errors
/// A letter that is not known; one without its value.
pub fn read(words: &[OsString], known: &str) -> Result<Words, Unreadable> {
    let mut read = Words::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let bytes = word.as_bytes();
        if bytes == b"--" {
            read.operands.extend(words.cloned());
            break;
        }
        match bytes.strip_prefix(b"-") {
            Some(letters) if !letters.is_empty() => {
                read_letters(letters, known, &mut words, &mut read)?;
            }
            _ => read.operands.push(word.clone()),
        }
    }
    Ok(read)
}

/// Reads one word of letters; the last one may take its value from the next word.
fn read_letters<'a>(
    mut letters: &[u8],
    known: &str,
    words: &mut impl Iterator<Item = &'a OsString>,
    read: &mut Words,
) -> Result<(), Unreadable> {
    while let Some((letter, rest)) = letters.split_first() {
        let letter = char::from(*letter);
        let at = known.find(letter).filter(|_| letter != ':');
        let Some(at) = at else {
            return Err(Unreadable(format!("invalid option -- '{}'", letter.escape_default())));
        };
        let takes_value = known.as_bytes().get(at + 1) == Some(&b':');
        if !takes_value {
            read.options.push((letter, OsString::new()));
            letters = rest;
            continue;
        }
        let value = match rest.is_empty() {
            false => Some(OsStr::from_bytes(rest).to_os_string()),
            true => words.next().cloned(),
        };
        let value = value
            .ok_or_else(|| Unreadable(format!("option requires an argument -- '{letter}'")))?;
        read.options.push((letter, value));
        break;
    }
    Ok(())
}

/// A value as text; what is not UTF-8 is shown as well as it can be.
pub fn text(value: &OsStr) -> String {
    String::from_utf8_lossy(&value.to_os_string().into_vec()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &str) -> Result<String, String> {
        let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        let read = read(&words, "b:Fqn").map_err(|error| error.0)?;
        let options = read.options.iter().map(|(letter, value)| format!("{letter}{}", text(value)));
        let operands = read.operands.iter().map(|operand| text(operand));
        Ok(options
            .chain(std::iter::once("|".to_owned()))
            .chain(operands)
            .collect::<Vec<_>>()
            .join(" "))
    }

    #[test]
    fn letters_may_be_joined_and_come_after_operands() {
        assert_eq!(line("-Fqb4096 x.img -n 64M").unwrap(), "F q b4096 n | x.img 64M");
        assert_eq!(line("x.img -b 1024").unwrap(), "b1024 | x.img");
        assert_eq!(line("-F -- -q -").unwrap(), "F | -q -");
        assert_eq!(line("-").unwrap(), "| -");
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(line("-Fx").unwrap_err(), "invalid option -- 'x'");
        assert_eq!(line("x.img -b").unwrap_err(), "option requires an argument -- 'b'");
        assert_eq!(line("-:").unwrap_err(), "invalid option -- ':'");
    }
}
