//! The words of a line, quoted as a shell has it; of all that a shell expands only patterns of
//! paths, where a command takes such.

/// A word of a line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Word {
    /// What it says, without quotes.
    pub bytes: Vec<u8>,
    /// The word as a pattern, with a backslash before what stood in quotes and would mean more
    /// outside of them; `None` where no such character did.
    pub pattern: Option<Vec<u8>>,
}

/// A word that is being read.
#[derive(Default)]
struct Growing {
    bytes: Vec<u8>,
    pattern: Vec<u8>,
    is_quoted: bool,
}

impl Growing {
    fn push(&mut self, byte: u8) {
        self.bytes.push(byte);
        self.pattern.push(byte);
    }

    fn push_quoted(&mut self, byte: u8) {
        self.bytes.push(byte);
        if b"*?[]{}\\".contains(&byte) {
            self.pattern.push(b'\\');
            self.is_quoted = true;
        }
        self.pattern.push(byte);
    }

    fn end(self) -> Word {
        Word { bytes: self.bytes, pattern: self.is_quoted.then_some(self.pattern) }
    }
}

/// Words of a line; none for an empty one and a comment. Quotes, double quotes and backslashes keep
/// spaces; `#` at the beginning of a word begins a comment.
///
/// # Errors
/// A quote or a backslash at the end of the line.
pub fn words(line: &[u8]) -> Result<Vec<Word>, String> {
    let mut words: Vec<Word> = Vec::new();
    let mut word: Option<Growing> = None;
    let mut bytes = line.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' | b'\t' | b'\r' => words.extend(word.take().map(Growing::end)),
            b'#' if word.is_none() => return Ok(words),
            b'\'' => single(&mut bytes, word.get_or_insert_default())?,
            b'"' => double(&mut bytes, word.get_or_insert_default())?,
            b'\\' => {
                let next = bytes.next().ok_or("a backslash at the end of the line")?;
                word.get_or_insert_default().push_quoted(next);
            }
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word.map(Growing::end));
    Ok(words)
}

fn single(bytes: &mut impl Iterator<Item = u8>, word: &mut Growing) -> Result<(), String> {
    for byte in bytes {
        match byte {
            b'\'' => return Ok(()),
            _ => word.push_quoted(byte),
        }
    }
    Err("a quote ' does not end".to_owned())
}

fn double(bytes: &mut impl Iterator<Item = u8>, word: &mut Growing) -> Result<(), String> {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return Ok(()),
            b'\\' => match bytes.next() {
                Some(next @ (b'"' | b'\\' | b'$' | b'`')) => word.push_quoted(next),
                Some(next) => [b'\\', next].into_iter().for_each(|byte| word.push_quoted(byte)),
                None => break,
            },
            _ => word.push_quoted(byte),
        }
    }
    Err("a quote \" does not end".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Vec<String>, String> {
        let words = words(line.as_bytes())?;
        Ok(words.into_iter().map(|word| String::from_utf8(word.bytes).unwrap()).collect())
    }

    #[test]
    fn words_are_those_of_a_shell() {
        assert_eq!(of("  rm  -r\t/a ").unwrap(), ["rm", "-r", "/a"]);
        assert_eq!(
            of(r#"mv '/a b' "/c \"d\" \e" /f\ g"#).unwrap(),
            ["mv", "/a b", "/c \"d\" \\e", "/f g"]
        );
        assert_eq!(of("chmod 644 /a#b # why").unwrap(), ["chmod", "644", "/a#b"]);
        assert_eq!(of("setfattr -n user.x -v '' /a").unwrap()[4], "");
        assert!(of("").unwrap().is_empty() && of("# all").unwrap().is_empty());
        for line in ["'a", "\"a", "a\\", "\"a\\"] {
            assert!(of(line).is_err(), "{line}");
        }
    }

    #[test]
    fn what_stands_in_quotes_is_no_pattern() {
        let pattern_of = |line: &str| words(line.as_bytes()).unwrap().remove(0).pattern;
        for line in ["/a/*", "/a/[b]?", "'/a b'", "/a\\ b", ""] {
            let found = words(line.as_bytes()).unwrap().pop().and_then(|word| word.pattern);
            assert_eq!(found, None, "{line}");
        }
        for (line, pattern) in [
            ("'/a/*'", "/a/\\*"),
            ("\"/a/*\"/*", "/a/\\*/*"),
            ("/a/\\*", "/a/\\*"),
            ("/'a?'*", "/a\\?*"),
            ("'/{a,b}'*", "/\\{a,b\\}*"),
            ("'/a\\b'*", "/a\\\\b*"),
        ] {
            assert_eq!(pattern_of(line).as_deref(), Some(pattern.as_bytes()), "{line}");
        }
    }
}
