//! A table of a drive file: its values, exact, with the line that each is in.
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// What is wrong with a drive file, in one line: file, line, key, reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileError {
    /// The file, as it was named.
    pub file: String,
    /// Counted from 1; 0 when it is the file as a whole.
    pub line: usize,
    /// The key with the tables around it, such as `cache.segments`; empty when it is the file as a
    /// whole.
    pub key: String,
    /// What is the matter.
    pub reason: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:", self.file)?;
        if self.line > 0 {
            write!(formatter, "{}:", self.line)?;
        }
        if !self.key.is_empty() {
            write!(formatter, " {}:", self.key)?;
        }
        write!(formatter, " {}", self.reason)
    }
}

impl std::error::Error for FileError {}

/// A file's name and text.
pub struct Source<'a> {
    /// As errors name it.
    pub file: &'a str,
    /// What it holds.
    pub text: &'a str,
}

impl Source<'_> {
    fn line(&self, at: usize) -> usize {
        let before = self.text.as_bytes().get(..at).unwrap_or(self.text.as_bytes());
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }

    /// An error at that byte.
    pub fn error(&self, at: usize, key: &str, reason: impl Into<String>) -> FileError {
        FileError {
            file: self.file.to_owned(),
            line: self.line(at),
            key: key.to_owned(),
            reason: reason.into(),
        }
    }

    /// The error of the parser.
    pub fn parse_error(&self, error: &toml::de::Error) -> FileError {
        let at = error.span().map_or(0, |span| span.start);
        self.error(at, "", error.message().lines().collect::<Vec<_>>().join("; "))
    }
}

/// A table: its values by key. Keys that were not asked for are refused by [`Section::finish`].
pub struct Section<'a> {
    source: &'a Source<'a>,
    table: &'a DeTable<'a>,
    at: usize,
    path: String,
    taken: BTreeSet<&'a str>,
    /// Keys that were asked for, whether they are there or not.
    known: RefCell<BTreeSet<String>>,
}

impl<'a> Section<'a> {
    /// The whole file.
    pub fn root(source: &'a Source<'a>, table: &'a DeTable<'a>) -> Section<'a> {
        Section::new(source, table, 0, String::new())
    }

    fn new(source: &'a Source<'a>, table: &'a DeTable<'a>, at: usize, path: String) -> Section<'a> {
        Section { source, table, at, path, taken: BTreeSet::new(), known: RefCell::default() }
    }

    /// The value of a key as it stands; `None` when the key is absent.
    pub fn find(&mut self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known.borrow_mut().insert(key.to_owned());
        let (name, value) = self.table.get_key_value(key)?;
        self.taken.insert(name.get_ref());
        Some(value)
    }

    fn full(&self, key: &str) -> String {
        match (self.path.as_str(), key) {
            ("", key) => key.to_owned(),
            (path, "") => path.to_owned(),
            (path, key) => format!("{path}.{key}"),
        }
    }

    /// An error about that key, in the key's line, or in the table's when it is not there.
    pub fn error(&self, key: &str, reason: impl Into<String>) -> FileError {
        let found = self.table.get_key_value(key);
        let at = found.map_or(self.at, |(name, _)| name.span().start);
        self.source.error(at, &self.full(key), reason)
    }

    /// The error of a key that has to be there. Where a key that was not asked for looks like it,
    /// the error is that one's, in its own line.
    pub fn missing(&self, key: &str) -> FileError {
        let untaken = self.table.iter().filter(|(name, _)| !self.taken.contains(&**name.get_ref()));
        let misspelt = untaken.filter(|(name, _)| is_misspelt(name.get_ref(), key));
        match misspelt.min_by_key(|(name, _)| name.span().start) {
            None => self.error(key, "is missing"),
            Some((name, _)) => {
                let reason = format!("no such key; {key} is missing");
                self.source.error(name.span().start, &self.full(name.get_ref()), reason)
            }
        }
    }

    fn wrong(&self, key: &str, span: &Range<usize>, wanted: &str) -> FileError {
        self.source.error(span.start, &self.full(key), format!("has to be {wanted}"))
    }

    /// The line in which the table begins.
    pub fn line(&self) -> usize {
        self.source.line(self.at)
    }

    /// Whether the key is there.
    pub fn has(&self, key: &str) -> bool {
        self.known.borrow_mut().insert(key.to_owned());
        self.table.contains_key(key)
    }

    /// The first key, in the order of the text, whose value is a text with `part` in it.
    pub fn key_with(&self, part: &str) -> Option<&'a str> {
        let has_part = |value: &DeValue<'_>| value.as_str().is_some_and(|text| text.contains(part));
        let found = self.table.iter().filter(|(_, value)| has_part(value.get_ref()));
        let first = found.min_by_key(|(name, _)| name.span().start);
        first.map(|(name, _)| &**name.get_ref())
    }

    /// A number times 10^`digits`, exact; `None` when the key is absent. More digits behind the
    /// point are cut off.
    pub fn optional_decimal(&mut self, key: &str, digits: u32) -> Result<Option<i64>, FileError> {
        self.find(key).map(|value| self.number(key, value, digits)).transpose()
    }

    /// A number times 10^`digits`, exact: `decimal("rpm", 0)`, or milliseconds in nanoseconds with
    /// 6 digits.
    pub fn decimal(&mut self, key: &str, digits: u32) -> Result<i64, FileError> {
        self.optional_decimal(key, digits)?.ok_or_else(|| self.missing(key))
    }

    /// A number times 10^`digits` within bounds, or the default when it is absent.
    pub fn decimal_within(
        &mut self,
        key: &str,
        digits: u32,
        bounds: std::ops::RangeInclusive<i64>,
        default: Option<i64>,
    ) -> Result<i64, FileError> {
        let value = match (self.optional_decimal(key, digits)?, default) {
            (Some(value), _) => value,
            (None, Some(default)) => return Ok(default),
            (None, None) => return Err(self.missing(key)),
        };
        if bounds.contains(&value) {
            return Ok(value);
        }
        let (least, most) = (shown(*bounds.start(), digits), shown(*bounds.end(), digits));
        Err(self.error(
            key,
            format!("has to lie within {least} and {most}, not {}", shown(value, digits)),
        ))
    }

    /// A whole number within bounds, or the default when it is absent.
    pub fn whole_within(
        &mut self,
        key: &str,
        bounds: std::ops::RangeInclusive<u64>,
        default: Option<u64>,
    ) -> Result<u64, FileError> {
        let cut = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        if let Some(value) = self.find(key)
            && let DeValue::Float(number) = value.get_ref()
            && has_fraction(number.as_str())
        {
            return Err(self.wrong(key, &value.span(), "a whole number"));
        }
        let value = self.decimal_within(
            key,
            0,
            cut(*bounds.start())..=cut(*bounds.end()),
            default.map(cut),
        )?;
        Ok(value.unsigned_abs())
    }

    /// A word or sentence; `None` when the key is absent.
    pub fn optional_text(&mut self, key: &str) -> Result<Option<&'a str>, FileError> {
        let Some(value) = self.find(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::String(text) => Ok(Some(text)),
            _ => Err(self.wrong(key, &value.span(), "a string")),
        }
    }

    /// `true` or `false`; `false` when the key is absent.
    pub fn flag(&mut self, key: &str) -> Result<bool, FileError> {
        self.flag_or(key, false)
    }

    /// `true` or `false`, or the default when the key is absent.
    // tidy: boolean because it is the default of a key that is one
    pub fn flag_or(&mut self, key: &str, default: bool) -> Result<bool, FileError> {
        let Some(value) = self.find(key) else {
            return Ok(default);
        };
        match value.get_ref() {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => Err(self.wrong(key, &value.span(), "true or false")),
        }
    }

    /// One of several words, by its value; the default when the key is absent.
    pub fn choice<T: Copy>(
        &mut self,
        key: &str,
        words: &[(&str, T)],
        default: T,
    ) -> Result<T, FileError> {
        let Some(word) = self.optional_text(key)? else {
            return Ok(default);
        };
        if let Some((_, value)) = words.iter().find(|(known, _)| *known == word) {
            return Ok(*value);
        }
        let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
        Err(self.error(key, format!("no such word as {word:?}; there are {}", known.join(", "))))
    }

    /// An array of numbers times 10^`digits`; `None` when the key is absent.
    pub fn optional_numbers(
        &mut self,
        key: &str,
        digits: u32,
    ) -> Result<Option<Vec<i64>>, FileError> {
        let Some(array) = self.array(key)? else { return Ok(None) };
        let numbers: Result<Vec<i64>, FileError> =
            array.iter().map(|value| self.number(key, value, digits)).collect();
        numbers.map(Some)
    }

    /// An array of pairs of numbers, each times its own power of ten, with the byte that each
    /// stands at (for [`Section::error_at`]).
    pub fn pairs(
        &mut self,
        key: &str,
        digits: (u32, u32),
    ) -> Result<Vec<(usize, i64, i64)>, FileError> {
        let array = self.array(key)?.ok_or_else(|| self.missing(key))?;
        let pair = |value: &'a Spanned<DeValue<'a>>| match value.get_ref() {
            DeValue::Array(two) => match &two[..] {
                [first, second] => Ok((
                    value.span().start,
                    self.number(key, first, digits.0)?,
                    self.number(key, second, digits.1)?,
                )),
                _ => Err(self.wrong(key, &value.span(), "pairs of numbers")),
            },
            _ => Err(self.wrong(key, &value.span(), "pairs of numbers")),
        };
        array.iter().map(pair).collect()
    }

    /// An error about that key at that byte.
    pub fn error_at(&self, at: usize, key: &str, reason: impl Into<String>) -> FileError {
        self.source.error(at, &self.full(key), reason)
    }

    fn array(&mut self, key: &str) -> Result<Option<&'a DeArray<'a>>, FileError> {
        let Some(value) = self.find(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::Array(array) => Ok(Some(array)),
            _ => Err(self.wrong(key, &value.span(), "an array")),
        }
    }

    /// The table of that name; `None` when it is absent.
    pub fn optional_section(&mut self, key: &str) -> Result<Option<Section<'a>>, FileError> {
        let Some(value) = self.find(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::Table(table) => {
                Ok(Some(Section::new(self.source, table, value.span().start, self.full(key))))
            }
            _ => Err(self.wrong(key, &value.span(), "a table")),
        }
    }

    /// The table of that name.
    pub fn section(&mut self, key: &str) -> Result<Section<'a>, FileError> {
        self.optional_section(key)?.ok_or_else(|| self.missing(key))
    }

    /// The tables of that name (`[[zone]]`); none when the key is absent.
    pub fn sections(&mut self, key: &str) -> Result<Vec<Section<'a>>, FileError> {
        let Some(array) = self.array(key)? else {
            return Ok(Vec::new());
        };
        let path = self.full(key);
        let section = |value: &'a Spanned<DeValue<'a>>| match value.get_ref() {
            DeValue::Table(table) => {
                Ok(Section::new(self.source, table, value.span().start, path.clone()))
            }
            _ => Err(self.wrong(key, &value.span(), "a table")),
        };
        array.iter().map(section).collect()
    }

    /// Every key has been read.
    ///
    /// # Errors
    /// The first key in the text that was not, with those that were asked for.
    pub fn finish(self) -> Result<(), FileError> {
        let known: Vec<String> = self.known.borrow().iter().cloned().collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        self.refuse_unread(&known)
    }

    /// Every key has been read; `keys` are all that can be.
    ///
    /// # Errors
    /// The first key in the text that was not, with `keys`.
    ///
    /// # Panics
    /// In debug builds: a key was asked for that is not in `keys`.
    pub fn finish_with(self, keys: &[&str]) -> Result<(), FileError> {
        for asked in self.known.borrow().iter() {
            debug_assert!(keys.contains(&asked.as_str()), "{asked} is read, and is in no table");
        }
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        self.refuse_unread(&keys)
    }

    /// Every key has been read. For tables of many keys.
    ///
    /// # Errors
    /// The first key in the text that was not, with the one of those that were asked for that is
    /// most like it.
    pub fn finish_with_nearest(self) -> Result<(), FileError> {
        let known = self.known.borrow();
        match self.first_unread() {
            None => Ok(()),
            Some(name) => {
                let nearest = nearest(name.get_ref(), known.iter().map(String::as_str));
                let reason = match nearest {
                    Some(nearest) => format!("no such key; the nearest one is {nearest}"),
                    None => "no such key".to_owned(),
                };
                Err(self.source.error(name.span().start, &self.full(name.get_ref()), reason))
            }
        }
    }

    fn first_unread(&self) -> Option<&'a Spanned<Cow<'a, str>>> {
        let names = self.table.keys();
        let unread = names.filter(|name| !self.taken.contains(&**name.get_ref()));
        unread.min_by_key(|name| name.span().start)
    }

    fn refuse_unread(&self, known: &[&str]) -> Result<(), FileError> {
        match self.first_unread() {
            None => Ok(()),
            Some(name) => {
                let key = self.full(name.get_ref());
                let reason = match known.is_empty() {
                    true => "no such key; there are none".to_owned(),
                    false => format!("no such key; there are {}", known.join(", ")),
                };
                Err(self.source.error(name.span().start, &key, reason))
            }
        }
    }

    fn number(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        digits: u32,
    ) -> Result<i64, FileError> {
        let parsed = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => decimal(number.as_str(), digits),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .ok()
                .and_then(|number| number.checked_mul(10i64.checked_pow(digits)?)),
            DeValue::Float(number) => decimal(number.as_str(), digits),
            _ => return Err(self.wrong(key, &value.span(), "a number")),
        };
        parsed.ok_or_else(|| {
            self.wrong(key, &value.span(), "a number that a drive can have; this one is too large")
        })
    }
}

/// Whether two words of more than one letter differ in one letter (another, one more, one less), or
/// in two that changed places.
fn is_misspelt(word: &str, right: &str) -> bool {
    let (word, right): (Vec<char>, Vec<char>) = (word.chars().collect(), right.chars().collect());
    if word.len().min(right.len()) < 2 || word.len().abs_diff(right.len()) > 1 {
        return false;
    }
    let same = word.iter().zip(&right).take_while(|(one, other)| one == other).count();
    let (word, right) = (&word[same..], &right[same..]);
    match (word, right) {
        ([_, word @ ..], [_, right @ ..]) if word == right => true,
        ([_, rest @ ..], right) if rest == right => true,
        (word, [_, rest @ ..]) if word == rest => true,
        ([a, b, word @ ..], [c, d, right @ ..]) => a == d && b == c && word == right,
        _ => false,
    }
}

/// The longest word for which a similar one is looked for.
const WORD_LETTERS_MAX: usize = 100;

/// The known word from which the fewest letters have to change to get this one; of several the
/// first. `None` for a word that is like nothing.
fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let letters: Vec<char> = word.chars().take(WORD_LETTERS_MAX + 1).collect();
    let most = letters.len() / 2;
    let known = known.filter(|_| letters.len() <= WORD_LETTERS_MAX);
    let distances = known.map(|other| (distance(&letters, other), other));
    distances.filter(|(far, _)| *far <= most).min_by_key(|(far, _)| *far).map(|(_, word)| word)
}

/// Letters that are put in, taken out or replaced (Levenshtein).
fn distance(word: &[char], other: &str) -> usize {
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (at, letter) in other.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (index, own) in word.iter().enumerate() {
            let replaced = diagonal + usize::from(*own != letter);
            diagonal = row[index + 1];
            row[index + 1] = replaced.min(row[index] + 1).min(diagonal + 1);
        }
    }
    row[word.len()]
}

/// A decimal number with or without an exponent, times 10^`digits`, cut towards zero. `None` when
/// it is none, or too large.
fn decimal(text: &str, digits: u32) -> Option<i64> {
    let text: String = text.chars().filter(|letter| *letter != '_').collect();
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text.as_str(), 0),
    };
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let shift = i64::from(exponent) + i64::from(digits) - i64::try_from(fraction.len()).ok()?;
    let mut value: i128 = 0;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value.checked_mul(10)?.checked_add(i128::from(digit.to_digit(10)?))?;
    }
    let value = match u32::try_from(shift.unsigned_abs()) {
        _ if value == 0 => 0,
        Ok(shift_by) if shift >= 0 => value.checked_mul(10i128.checked_pow(shift_by)?)?,
        Ok(shift_by) => 10i128.checked_pow(shift_by).map_or(0, |by| value / by),
        Err(_) => return None,
    };
    i64::try_from(if negative { -value } else { value }).ok()
}

/// Whether a decimal number is none of the whole ones, however small what is behind its point. What
/// is no number at all is told elsewhere.
fn has_fraction(text: &str) -> bool {
    let text = text.replace('_', "");
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    let Ok(exponent) = exponent.parse::<i64>() else {
        return false;
    };
    let is_zero = !significant.contains(|digit: char| matches!(digit, '1'..='9'));
    // The place of the last digit that is not 0, counted from the point.
    let zeros = (digits.len() - significant.len()) as i64;
    !is_zero && exponent.saturating_add(zeros) < fraction.len() as i64
}

/// A number times 10^`digits` as people write it.
fn shown(value: i64, digits: u32) -> String {
    let Some(unit) = 10u64.checked_pow(digits) else {
        return value.to_string();
    };
    let (whole, rest) = (value.unsigned_abs() / unit, value.unsigned_abs() % unit);
    let sign = if value < 0 { "-" } else { "" };
    if rest == 0 {
        return format!("{sign}{whole}");
    }
    let width = usize::try_from(digits).unwrap_or(0);
    format!("{sign}{whole}.{}", format!("{rest:0width$}").trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!(decimal("1.245", 6), Some(1_245_000));
        assert_eq!(decimal("-0.483", 6), Some(-483_000));
        assert_eq!(decimal("40e9", 0), Some(40_000_000_000));
        assert_eq!(decimal("1.5E-3", 6), Some(1_500));
        assert_eq!(decimal("0.00000000000000000001", 6), Some(0));
        assert_eq!(decimal("1e300", 0), None);
        assert_eq!(decimal("1e-300", 6), Some(0));
        assert_eq!(decimal("0e99999999999", 6), None);
        assert_eq!(decimal("nan", 6), None);
        assert_eq!(shown(-1_500_000, 6), "-1.5");
    }

    #[test]
    fn misspelt_words_are_known_by_one_slip() {
        for word in ["rmp", "rp", "rpmm", "rpn", "xpm"] {
            assert!(is_misspelt(word, "rpm"), "{word}");
        }
        for (word, right) in
            [("b", "a"), ("to", "at"), ("max", "min"), ("", "at"), ("heads", "rpm")]
        {
            assert!(!is_misspelt(word, right), "{word}");
        }
    }

    #[test]
    fn the_nearest_word_needs_the_fewest_letters_changed() {
        let known = ["fast_write_level", "write_completion", "read_completion"];
        let of = |word: &str| nearest(word, known.into_iter());
        assert_eq!(of("fast_writelevl"), Some("fast_write_level"));
        assert_eq!(of("readcompletion"), Some("read_completion"));
        assert_eq!(of("colour"), None);
        assert_eq!(of(&"fast_write_level".repeat(100_000)), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn fractions_are_told_from_whole_numbers() {
        for whole in
            ["5", "5.0", "40e9", "1.5e1", "-3.00", "0.0", "0e-9", "1_000.0", "100e-2", "nan"]
        {
            assert!(!has_fraction(whole), "{whole}");
        }
        for part in
            ["5.5", "4.7e0", "1.55e1", "-0.1", "1e-3", "0.00000000000000000001", "1e-99999999"]
        {
            assert!(has_fraction(part), "{part}");
        }
    }
}
