//! A line of a file of rules: its words, and where it is.
use crate::error::Error;
use extant_archive::printable;

/// A line that is neither empty nor a comment.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    /// The name of the file.
    pub(super) file: &'a str,
    /// From 1 on.
    pub(super) number: usize,
    /// Without the end of line, and without spaces at its end.
    pub(super) text: &'a [u8],
}

impl<'a> Line<'a> {
    /// Its words, between spaces and tabs.
    pub(super) fn words(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let text = self.text;
        text.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty())
    }

    /// What is wrong with it.
    pub(super) fn wrong(&self, why: &str) -> Error {
        let start = &self.text[..self.text.len().min(80)];
        // Libraries repeat what is in a file.
        let why = printable(why.as_bytes());
        Error::new(format!("{}:{}: {why}: {}", self.file, self.number, printable(start)))
    }

    /// A decimal number.
    pub(super) fn number(&self, word: &[u8], what: &str) -> Result<u32, Error> {
        let text = std::str::from_utf8(word).ok();
        let number = text.and_then(|text| text.parse().ok());
        // The last one means "no change" to chown, and belongs to no user.
        let number = number.filter(|number| *number != u32::MAX);
        number.ok_or_else(|| self.wrong(&format!("{what} is not a number")))
    }

    /// A mode in octal digits, at most 07777.
    pub(super) fn mode(&self, word: &[u8]) -> Result<u16, Error> {
        let text = std::str::from_utf8(word).ok();
        let mode = text.and_then(|text| u16::from_str_radix(text, 8).ok());
        mode.filter(|mode| *mode <= 0o7777).ok_or_else(|| self.wrong("the mode is not octal"))
    }
}

/// The lines of a file that say something. `#` begins a comment at the start of a line.
pub(super) fn lines<'a>(file: &'a str, text: &'a [u8]) -> impl Iterator<Item = Line<'a>> {
    let lines = text.split(|byte| *byte == b'\n').enumerate();
    lines.filter_map(move |(index, line)| {
        let text = line.trim_ascii_end();
        let first = text.trim_ascii_start().first()?;
        (*first != b'#').then_some(Line { file, number: index + 1, text })
    })
}
