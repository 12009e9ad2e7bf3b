//! The values of one axis: a list, a range, the files of a folder, the lines of a file.
use super::reader::{Placed, Source, entries};
use crate::error::Result;
use serde_json::Value;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use toml::de::DeValue;

/// The values of an axis.
#[derive(Clone, PartialEq, Debug)]
pub enum Values {
    /// One by one.
    List(Vec<Value>),
    /// Whole numbers: `first`, and so on by `step`.
    Range {
        /// The first.
        first: i64,
        /// From one to the next; never 0.
        step: i64,
        /// How many; never 0, and the last is a number of 64 bits.
        count: u64,
    },
}

/// No list of lines is longer, in bytes.
const LINES_BYTES_MAX: u64 = 64 << 20;

impl Values {
    /// How many there are.
    pub fn count(&self) -> u64 {
        match self {
            Values::List(list) => list.len() as u64,
            Values::Range { count, .. } => *count,
        }
    }

    /// One of them, from 0; null beyond the last.
    pub fn get(&self, at: u64) -> Value {
        match self {
            Values::List(list) => {
                usize::try_from(at).ok().and_then(|at| list.get(at)).cloned().unwrap_or_default()
            }
            Values::Range { first, step, count } if at < *count => {
                let number = i128::from(*first) + i128::from(at) * i128::from(*step);
                // The last is a number of 64 bits, and so are all before it.
                i64::try_from(number).map_or(Value::Null, Value::from)
            }
            Values::Range { .. } => Value::Null,
        }
    }

    /// Whether one of them is this.
    pub fn has(&self, value: &Value) -> bool {
        match self {
            Values::List(list) => list.contains(value),
            Values::Range { first, step, count } => value.as_i64().is_some_and(|number| {
                let distance = i128::from(number) - i128::from(*first);
                let step = i128::from(*step);
                distance % step == 0 && (0..i128::from(*count)).contains(&(distance / step))
            }),
        }
    }

    /// Those by which all are judged: all of a list, the ends of a range.
    pub fn samples(&self) -> Vec<Value> {
        match self {
            Values::List(list) => list.clone(),
            Values::Range { count, .. } => vec![self.get(0), self.get(count - 1)],
        }
    }

    /// What stands after `KEY =`: a scalar, a list, or a table that says where the values come
    /// from.
    ///
    /// # Errors
    /// It is none of these, or there is no value in it.
    pub fn parse(source: &Source, key: &str, value: &Placed<'_>) -> Result<Values> {
        let at = value.span().start;
        let values = match value.get_ref() {
            DeValue::Array(list) => {
                let list = list.iter().map(|one| element(source, key, one));
                Values::List(list.collect::<Result<_>>()?)
            }
            DeValue::Table(_) => return from_table(source, key, value),
            _ => Values::List(vec![scalar(source, key, value)?]),
        };
        match values.count() {
            0 => Err(source.error(at, format!("{key}: the list is empty"))),
            _ => Ok(values),
        }
    }
}

/// An element of a list: a scalar, or a list of scalars that are given together.
fn element(source: &Source, key: &str, value: &Placed<'_>) -> Result<Value> {
    match value.get_ref() {
        DeValue::Array(list) => {
            let list: Result<Vec<Value>> =
                list.iter().map(|one| scalar(source, key, one)).collect();
            Ok(Value::Array(list?))
        }
        _ => scalar(source, key, value),
    }
}

fn scalar(source: &Source, key: &str, value: &Placed<'_>) -> Result<Value> {
    let wrong = |reason: &str| source.error(value.span().start, format!("{key}: {reason}"));
    match value.get_ref() {
        DeValue::String(text) if text.contains(['\n', '\0']) => Err(wrong("has to be one line")),
        DeValue::String(text) => Ok(Value::from(text.as_ref())),
        DeValue::Boolean(value) => Ok(Value::Bool(*value)),
        DeValue::Integer(_) => source.whole(key, value).map(Value::from),
        DeValue::Float(number) => {
            let number: Option<f64> = number.as_str().replace('_', "").parse().ok();
            let number = number.and_then(serde_json::Number::from_f64);
            number.map(Value::Number).ok_or_else(|| wrong("is no number that can be given"))
        }
        _ => Err(wrong("has to be a string, a number, or true or false")),
    }
}

fn from_table(source: &Source, key: &str, value: &Placed<'_>) -> Result<Values> {
    let table = source.table(key, value)?;
    let at = value.span().start;
    let keys: Vec<&str> = entries(table).into_iter().map(|(name, _, _)| name).collect();
    if let ([name @ ("files" | "lines")], Some(value)) = (keys.as_slice(), table.values().next()) {
        let word = source.text(name, value)?;
        let list = match *name {
            "files" => files(word),
            _ => lines(word),
        };
        let list = list.map_err(|reason| source.error(at, format!("{key}: {reason}")))?;
        return Ok(Values::List(list.into_iter().map(Value::from).collect()));
    }
    source.only_keys(table, &["from", "to", "step"]).map_err(|error| {
        error.hint(
            "values are a list, { from = 1, to = 9, step = 2 }, { files = \"*.img\" } or \
                    { lines = \"list.txt\" }",
        )
    })?;
    let number = |name: &str| table.get(name).map(|value| source.whole(name, value)).transpose();
    let missing = |name: &str| source.error(at, format!("{key}: {name} is missing"));
    let first = number("from")?.ok_or_else(|| missing("from"))?;
    let last = number("to")?.ok_or_else(|| missing("to"))?;
    let step = number("step")?.unwrap_or(1);
    if step < 1 || last < first {
        let reason = format!("{key}: from {first} to {last} by {step} is no range");
        return Err(source.error(at, reason));
    }
    let count = (i128::from(last) - i128::from(first)) / i128::from(step) + 1;
    Ok(Values::Range { first, step, count: u64::try_from(count).unwrap_or(u64::MAX) })
}

/// The files of a folder whose names fit a pattern, sorted.
fn files(pattern: &str) -> std::result::Result<Vec<String>, String> {
    let (place, name) = pattern.rsplit_once('/').map_or(("", pattern), |(place, name)| {
        if place.is_empty() { ("/", name) } else { (place, name) }
    });
    if place.contains(['*', '?']) {
        return Err(format!("{pattern}: only the last name may have * or ?"));
    }
    let within = Path::new(if place.is_empty() { "." } else { place });
    let entries = std::fs::read_dir(within)
        .map_err(|error| format!("{}: {}", within.display(), crate::error::reason(&error)))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| format!("{}: {error}", within.display()))?;
        let named = entry.file_name();
        let is_hidden = named.as_bytes().starts_with(b".") && !name.starts_with('.');
        if is_hidden || !fits(name.as_bytes(), named.as_bytes()) {
            continue;
        }
        // What fits and cannot be a job is not left out without a word.
        let path = entry.path();
        let said = |reason: &str| format!("{}: {reason}", path.display());
        let facts = path.metadata().map_err(|error| said(&crate::error::reason(&error)))?;
        if facts.is_file() {
            let named = named.to_str().ok_or_else(|| said("is no text, which a job has to be"))?;
            found.push(Path::new(place).join(named).to_string_lossy().into_owned());
        }
    }
    found.sort_unstable();
    match found.is_empty() {
        true => Err(format!("{pattern}: no file fits")),
        false => Ok(found),
    }
}

fn lines(name: &str) -> std::result::Result<Vec<String>, String> {
    use std::io::Read;
    let path = Path::new(name);
    let failed = |reason: String| format!("{}: {reason}", path.display());
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(LINES_BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(|error| failed(crate::error::reason(&error)))?;
    if text.len() as u64 > LINES_BYTES_MAX {
        return Err(failed(format!("has more than {LINES_BYTES_MAX} bytes")));
    }
    let lines: Vec<String> =
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if lines.is_empty() { Err(failed("has no line".into())) } else { Ok(lines) }
}

/// Whether a name fits a pattern with `*` and `?`. At most one step back for each letter and star.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut of) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(letter) = name.get(of) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, of));
                at += 1;
            }
            Some(wanted) if *wanted == b'?' || wanted == letter => {
                at += 1;
                of += 1;
            }
            _ => match star {
                Some((after, taken)) => {
                    star = Some((after, taken + 1));
                    at = after;
                    of = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).is_none_or(|rest| rest.iter().all(|letter| *letter == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_a_shell_has_it() {
        for (pattern, name, is_fit) in [
            ("*.img", "a.img", true),
            ("*.img", "a.imgs", false),
            ("a*b*c", "axxbyybzc", true),
            ("a*b*c", "axxbyyb", false),
            ("?.img", "ab.img", false),
            ("", "", true),
            ("*", "", true),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), is_fit, "{pattern} {name}");
        }
    }

    #[test]
    fn a_range_knows_its_members() {
        let range = Values::Range { first: 3, step: 4, count: 3 };
        let all: Vec<Value> = (0..4).map(|at| range.get(at)).collect();
        assert_eq!(all, [3.into(), 7.into(), 11.into(), Value::Null]);
        let step = 6_000_000_000_000_000_000;
        let wide = Values::Range { first: -9_000_000_000_000_000_000, step, count: 4 };
        assert_eq!(wide.get(2), 3_000_000_000_000_000_000_i64);
        assert_eq!(wide.get(3), 9_000_000_000_000_000_000_i64);
        let has: Vec<i64> = (0..20).filter(|number| range.has(&Value::from(*number))).collect();
        assert_eq!(has, [3, 7, 11]);
    }
}
