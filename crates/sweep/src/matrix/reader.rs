//! TOML with the line of everything: keys in the order of the text, and errors that say where.
use crate::error::{Error, Result};
use crate::job::Limits;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A file's name and text.
pub struct Source<'a> {
    /// As errors name it.
    pub file: &'a str,
    /// What it holds.
    pub text: &'a str,
}

/// A value with the place that it has.
pub type Placed<'a> = Spanned<DeValue<'a>>;

impl Source<'_> {
    /// The line of a byte, from 1.
    pub fn line(&self, at: usize) -> usize {
        let before = self.text.as_bytes().get(..at).unwrap_or(self.text.as_bytes());
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }

    /// An error about what begins at a byte.
    pub fn error(&self, at: usize, reason: impl std::fmt::Display) -> Error {
        self.error_in(self.line(at), reason)
    }

    /// An error about a line.
    pub fn error_in(&self, line: usize, reason: impl std::fmt::Display) -> Error {
        Error::new(format!("{}:{line}: {reason}", self.file))
    }

    /// The parser's error.
    pub fn parse_error(&self, error: &toml::de::Error) -> Error {
        let at = error.span().map_or(0, |span| span.start);
        self.error(at, error.message().lines().collect::<Vec<_>>().join("; "))
    }

    /// A value that has to be a table.
    ///
    /// # Errors
    /// It is none.
    pub fn table<'a>(&self, key: &str, value: &'a Placed<'a>) -> Result<&'a DeTable<'a>> {
        let table = value.get_ref().as_table();
        table.ok_or_else(|| self.error(value.span().start, format!("{key}: has to be a table")))
    }

    /// A value that has to be a list.
    ///
    /// # Errors
    /// It is none.
    pub fn list<'a>(
        &self,
        key: &str,
        value: &'a Placed<'a>,
    ) -> Result<impl Iterator<Item = &'a Placed<'a>> + use<'a>> {
        let list = value.get_ref().as_array();
        let list =
            list.ok_or_else(|| self.error(value.span().start, format!("{key}: has to be a list")))?;
        Ok(list.iter())
    }

    /// A value that has to be a string.
    ///
    /// # Errors
    /// It is none.
    pub fn text<'a>(&self, key: &str, value: &'a Placed<'a>) -> Result<&'a str> {
        let text = value.get_ref().as_str();
        text.ok_or_else(|| self.error(value.span().start, format!("{key}: has to be a string")))
    }

    /// A value that has to be a whole number.
    ///
    /// # Errors
    /// It is none, or too large.
    pub fn whole(&self, key: &str, value: &Placed<'_>) -> Result<i64> {
        let number = value.get_ref().as_integer();
        let number = number.and_then(|number| {
            i64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
        });
        number.ok_or_else(|| {
            self.error(value.span().start, format!("{key}: has to be a whole number"))
        })
    }

    /// Keys that are none.
    ///
    /// # Errors
    /// There is one: the first.
    pub fn only_keys(&self, table: &DeTable<'_>, known: &[&str]) -> Result<()> {
        match entries(table).into_iter().find(|(key, _, _)| !known.contains(key)) {
            None => Ok(()),
            Some((key, at, _)) => Err(self
                .error(at, format!("{key}: no such key"))
                .hint(format!("there are {}", known.join(", ")))),
        }
    }

    /// `{ memory = "2G", seconds = 600 }`.
    ///
    /// # Errors
    /// It is something else.
    pub fn limits(&self, value: &Placed<'_>) -> Result<Limits> {
        let table = self.table("limits", value)?;
        self.only_keys(table, &["memory", "seconds"])?;
        let mut limits = Limits::default();
        if let Some(value) = table.get("memory") {
            let words = self.text("memory", value)?;
            let bytes = bytes(words).map_err(|reason| self.error(value.span().start, reason))?;
            limits.memory_bytes = Some(bytes);
        }
        if let Some(value) = table.get("seconds") {
            let seconds = u64::try_from(self.whole("seconds", value)?).ok();
            let seconds = seconds.filter(|seconds| *seconds > 0);
            limits.seconds =
                Some(seconds.ok_or_else(|| {
                    self.error(value.span().start, "seconds: has to be 1 at least")
                })?);
        }
        Ok(limits)
    }
}

/// The entries of a table in the order of the text: key, where it begins, value.
pub fn entries<'a>(table: &'a DeTable<'a>) -> Vec<(&'a str, usize, &'a Placed<'a>)> {
    let mut entries: Vec<_> =
        table.iter().map(|(key, value)| (&**key.get_ref(), key.span().start, value)).collect();
    entries.sort_by_key(|(_, at, _)| *at);
    entries
}

/// Memory in bytes: a number with K, M, G or T, which are powers of 1024.
///
/// # Errors
/// It is something else, or less than a megabyte.
pub fn bytes(words: &str) -> std::result::Result<u64, String> {
    let wrong = || format!("{words}: has to be memory such as 512M or 2G");
    let digits = words.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let shift = match words.strip_prefix(digits).unwrap_or_default() {
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        "" => 0,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let bytes = number.checked_mul(1 << shift).ok_or_else(wrong)?;
    if bytes < 1 << 20 { Err(format!("{words}: no job fits in less than 1M")) } else { Ok(bytes) }
}
