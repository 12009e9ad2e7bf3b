//! A number of a report by its path.
use super::{Ratio, Unit};
use serde_json::Value;
use std::fmt;

/// What an element of a list is called by, the first that it has.
const NAMES: [&str; 4] = ["name", "label", "call", "measure"];

/// The path of numbers in a report's JSON: fields, and elements of lists, between slashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path(String);

impl Path {
    pub(super) fn new(text: &str) -> Path {
        Path(text.to_owned())
    }

    /// Its first field, and the parts after it.
    pub(super) fn parts(&self) -> (&str, impl Iterator<Item = &str>) {
        let mut parts = self.0.split('/');
        (parts.next().unwrap_or_default(), parts)
    }

    /// Whether it may mean several numbers.
    pub(super) fn is_many(&self) -> bool {
        self.0.split('/').any(|part| part == "*")
    }

    fn field(&self) -> &str {
        self.0.rsplit('/').find(|part| *part != "*").unwrap_or_default()
    }

    /// What its numbers are measured in, by the name of their field.
    pub(super) fn unit(&self) -> Unit {
        match self.field() {
            field if field.ends_with("_ns") => Unit::SECONDS,
            field if field.ends_with("bytes_per_second") => Unit { seconds: -1, bytes: 1 },
            field if field.split('_').any(|word| word == "bytes") => Unit::BYTES,
            _ => Unit::default(),
        }
    }

    /// The numbers below the value of its first field.
    ///
    /// # Errors
    /// There is none, or something else is there.
    pub(super) fn numbers(&self, first: &Value) -> Result<Vec<Ratio>, String> {
        let mut found = vec![first];
        for part in self.parts().1 {
            found = found.into_iter().flat_map(|value| below(value, part)).collect();
        }
        let number = |value: &Value| {
            let number = value.as_u64()?;
            match self.field() {
                field if field.ends_with("_ns") => Some(Ratio::seconds(number)),
                field if field.ends_with("_permille") => Ratio::new(number.into(), 1000),
                _ => Some(Ratio::whole(number)),
            }
        };
        match found.is_empty() {
            true => Err(format!("{self} is not there")),
            false => found
                .into_iter()
                .map(number)
                .collect::<Option<_>>()
                .ok_or_else(|| format!("{self} is no whole number")),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "'{}'", self.0)
    }
}

/// What a part of a path means in a value.
fn below<'a>(value: &'a Value, part: &str) -> Vec<&'a Value> {
    let Value::Array(all) = value else {
        return value.get(part).into_iter().collect();
    };
    if part == "*" {
        return all.iter().collect();
    }
    let named =
        |name: &&str| all.iter().find(|one| one.get(name).and_then(Value::as_str) == Some(part));
    let numbered = || all.get(part.parse::<usize>().ok()?.checked_sub(1)?);
    let last = || all.last().filter(|_| part == "last");
    NAMES.iter().find_map(named).or_else(numbered).or_else(last).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn elements_are_found_by_name_number_and_place() {
        let steps = json!([
            { "label": "cold", "measure": "a", "elapsed_ns": 5, "calls": [{ "bytes": 1 }] },
            { "label": "a", "measure": "b", "elapsed_ns": 7, "calls": [{ "bytes": 2 }] },
            { "label": "c", "measure": null, "share_permille": 250, "free": null, "calls": [] },
        ]);
        let found = |path: &str| Path::new(path).numbers(&steps);
        assert_eq!(found("steps/cold/elapsed_ns"), Ok(vec![Ratio::seconds(5)]));
        assert_eq!(found("steps/a/elapsed_ns"), Ok(vec![Ratio::seconds(7)]));
        assert_eq!(found("steps/b/elapsed_ns"), Ok(vec![Ratio::seconds(7)]));
        assert_eq!(found("steps/2/calls/1/bytes"), Ok(vec![Ratio::whole(2)]));
        assert_eq!(found("steps/*/calls/*/bytes"), Ok(vec![Ratio::whole(1), Ratio::whole(2)]));
        assert_eq!(found("steps/last/share_permille"), Ok(vec![Ratio::new(1, 4).unwrap()]));
        assert_eq!(found("steps/0/elapsed_ns"), Err("'steps/0/elapsed_ns' is not there".into()));
        assert_eq!(found("steps/c/free"), Err("'steps/c/free' is no whole number".into()));
        assert!(found("steps").is_err_and(|words| words.ends_with("is no whole number")));
    }
}
