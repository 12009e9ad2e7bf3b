//! The words of a line, quoted as a shell has it; nothing is expanded.

/// Words of a line; none for an empty one and a comment. Quotes, double quotes and backslashes keep
/// spaces; `#` at the beginning of a word begins a comment.
///
/// # Errors
/// A quote or a backslash at the end of the line.
pub fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut bytes = line.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' | b'\t' | b'\r' => words.extend(word.take()),
            b'#' if word.is_none() => return Ok(words),
            b'\'' => single(&mut bytes, word.get_or_insert_default())?,
            b'"' => double(&mut bytes, word.get_or_insert_default())?,
            b'\\' => {
                let next = bytes.next().ok_or("a backslash at the end of the line")?;
                word.get_or_insert_default().push(next);
            }
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    Ok(words)
}

fn single(bytes: &mut impl Iterator<Item = u8>, word: &mut Vec<u8>) -> Result<(), String> {
    for byte in bytes {
        match byte {
            b'\'' => return Ok(()),
            _ => word.push(byte),
        }
    }
    Err("a quote ' does not end".to_owned())
}

fn double(bytes: &mut impl Iterator<Item = u8>, word: &mut Vec<u8>) -> Result<(), String> {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return Ok(()),
            b'\\' => match bytes.next() {
                Some(next @ (b'"' | b'\\' | b'$' | b'`')) => word.push(next),
                Some(next) => word.extend([b'\\', next]),
                None => break,
            },
            _ => word.push(byte),
        }
    }
    Err("a quote \" does not end".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Vec<String>, String> {
        let words = words(line.as_bytes())?;
        Ok(words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect())
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
}
