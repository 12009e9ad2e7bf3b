//! What scenario files need of a table besides plain numbers and words: sizes, times, counts, paths
//! inside a volume.
use crate::quantity;
use extant_sim::drive::file::{FileError, Section};
use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::Path;
use toml::de::DeValue;

/// What a text file holds, if that is not more than `most` bytes. No more is read, whatever the
/// file says of its length: of a device it is 0.
///
/// # Errors
/// What is wrong, as the end of a sentence.
pub fn contents(path: &Path, most: u64) -> std::result::Result<String, String> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut text));
    read.map_err(|error| error.to_string())?;
    if text.len() as u64 > most {
        return Err(format!("has more than {most} bytes"));
    }
    String::from_utf8(text).map_err(|_| "is not text".to_owned())
}

/// The result of reading a key.
pub type Result<T> = std::result::Result<T, FileError>;

/// A size: a number of bytes, or a string with a unit. `None` when the key is absent.
pub fn size(
    section: &mut Section<'_>,
    key: &str,
    bounds: RangeInclusive<u64>,
) -> Result<Option<u64>> {
    let Some(value) = section.find(key) else {
        return Ok(None);
    };
    let parsed = match value.get_ref() {
        DeValue::String(text) => quantity::bytes(text),
        DeValue::Integer(number) if number.radix() == 10 => quantity::bytes(number.as_str()),
        _ => Err("has to be a size such as 4096, \"64K\" or \"21GB\"".to_owned()),
    };
    let bytes = parsed.map_err(|reason| section.error(key, reason))?;
    match bounds.contains(&bytes) {
        true => Ok(Some(bytes)),
        false => {
            let reason = format!(
                "has to lie within {} and {} bytes, not {bytes}",
                bounds.start(),
                bounds.end()
            );
            Err(section.error(key, reason))
        }
    }
}

/// A time with a unit. `None` when the key is absent.
pub fn time(section: &mut Section<'_>, key: &str) -> Result<Option<u64>> {
    // A number alone gets the words of a time without a unit, and not those of a missing string.
    if let Some(number) = section.find(key).and_then(|value| bare_number(value.get_ref())) {
        let reason = quantity::nanoseconds(&number).err();
        return Err(section.error(key, reason.unwrap_or_else(|| "has no unit".to_owned())));
    }
    let Some(text) = section.optional_text(key)? else {
        return Ok(None);
    };
    quantity::nanoseconds(text).map(Some).map_err(|reason| section.error(key, reason))
}

/// A number without quotes, as it stands.
fn bare_number(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::Integer(number) => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        _ => None,
    }
}

/// A whole number within bounds. `None` when the key is absent.
pub fn count(
    section: &mut Section<'_>,
    key: &str,
    bounds: RangeInclusive<u64>,
) -> Result<Option<u64>> {
    match section.has(key) {
        true => section.whole_within(key, bounds, None).map(Some),
        false => Ok(None),
    }
}

/// What has to be there.
pub fn required<T>(section: &Section<'_>, key: &str, found: Option<T>) -> Result<T> {
    found.ok_or_else(|| section.missing(key))
}

/// A string that has to be there, in which no letter ends a line.
pub fn text(section: &mut Section<'_>, key: &str) -> Result<String> {
    let found = section.optional_text(key)?;
    let text = required(section, key, found)?;
    match text.is_empty() || text.contains(char::is_control) {
        true => Err(section.error(key, "has to be one line, and not empty")),
        false => Ok(text.to_owned()),
    }
}

/// An absolute path inside a volume; `None` when the key is absent.
pub fn optional_path(section: &mut Section<'_>, key: &str) -> Result<Option<String>> {
    let Some(path) = section.optional_text(key)? else {
        return Ok(None);
    };
    if !path.starts_with('/') || path.contains('\0') || path.len() > 1024 {
        return Err(
            section.error(key, format!("{path:?} is not an absolute path inside the file system"))
        );
    }
    let trimmed = path.trim_end_matches('/');
    Ok(Some(if trimmed.is_empty() { "/" } else { trimmed }.to_owned()))
}

/// An absolute path inside a volume.
pub fn path(section: &mut Section<'_>, key: &str) -> Result<String> {
    let found = optional_path(section, key)?;
    required(section, key, found)
}

/// An array of words; none when the key is absent.
pub fn words(section: &mut Section<'_>, key: &str) -> Result<Vec<String>> {
    let Some(value) = section.find(key) else {
        return Ok(Vec::new());
    };
    let word = |value: &toml::Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::String(word) => Some(word.clone().into_owned()),
        _ => None,
    };
    let words = match value.get_ref() {
        DeValue::Array(array) => array.iter().map(word).collect(),
        _ => None,
    };
    words.ok_or_else(|| section.error(key, "has to be an array of strings"))
}

/// The keys of a table whose values are strings or whole numbers, with their values; none when the
/// key is absent.
pub fn pairs(section: &mut Section<'_>, key: &str) -> Result<Vec<(String, String)>> {
    let Some(value) = section.find(key) else {
        return Ok(Vec::new());
    };
    let DeValue::Table(table) = value.get_ref() else {
        return Err(section.error(key, "has to be a table of columns with their choices"));
    };
    let pair = |name: &str, value: &DeValue<'_>| match value {
        DeValue::String(text) => Some((name.to_owned(), text.clone().into_owned())),
        DeValue::Integer(number) => Some((name.to_owned(), number.as_str().to_owned())),
        _ => None,
    };
    let pairs = table.iter().map(|(name, value)| pair(name.get_ref(), value.get_ref())).collect();
    let pairs: Option<Vec<_>> = pairs;
    pairs.ok_or_else(|| section.error(key, "has to be a table of columns with their choices"))
}
