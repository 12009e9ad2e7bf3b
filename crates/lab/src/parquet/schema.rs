//! Columns and their kinds, given or found from values.
use serde_json::Value;
use std::collections::BTreeSet;
use std::io;

/// What the values of a column are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Yes or no.
    Flag,
    /// Whole numbers of 64 bits with a sign.
    Whole,
    /// Whole numbers of 64 bits without a sign.
    Natural,
    /// Doubles.
    Real,
    /// UTF-8. A value that is no string is written as JSON.
    Words,
}

impl Kind {
    /// As errors call it, and readers of Parquet: `boolean`, `int64`, `uint64`, `double`,
    /// `string`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Flag => "boolean",
            Kind::Whole => "int64",
            Kind::Natural => "uint64",
            Kind::Real => "double",
            Kind::Words => "string",
        }
    }

    /// The narrowest kind that holds all of these values exactly; `None` where each is `null`.
    /// Values of several kinds, and numbers that no kind holds together, are [`Kind::Words`].
    pub fn of<'a>(values: impl Iterator<Item = &'a Value>) -> Option<Kind> {
        let mut found: Option<Found> = None;
        for value in values {
            let Some(one) = Found::of(value) else { continue };
            found = Some(found.map_or(one, |found| found.and(one)));
        }
        found.map(Found::kind)
    }
}

/// A column: its name, and what its values are. Each of them may be missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What its values are.
    pub kind: Kind,
}

/// Up to here doubles hold every whole number: 2^53.
const EXACT_MAX: i64 = 1 << 53;

/// What is known of the values of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Flags,
    Numbers(Numbers),
    Words,
}

/// What numbers there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Numbers {
    has_negative: bool,
    /// From 2^63 on.
    has_large: bool,
    has_fraction: bool,
    /// A whole number that no double is.
    has_inexact: bool,
}

impl Found {
    fn of(value: &Value) -> Option<Found> {
        match value {
            Value::Null => None,
            Value::Bool(_) => Some(Found::Flags),
            Value::Number(number) => {
                Some(Found::Numbers(match (number.as_i64(), number.as_u64()) {
                    (Some(whole), _) => Numbers {
                        has_negative: whole < 0,
                        has_inexact: !(-EXACT_MAX..=EXACT_MAX).contains(&whole),
                        ..Numbers::default()
                    },
                    (None, Some(_)) => {
                        Numbers { has_large: true, has_inexact: true, ..Numbers::default() }
                    }
                    (None, None) => Numbers { has_fraction: true, ..Numbers::default() },
                }))
            }
            Value::String(_) | Value::Array(_) | Value::Object(_) => Some(Found::Words),
        }
    }

    fn and(self, other: Found) -> Found {
        match (self, other) {
            (Found::Flags, Found::Flags) => Found::Flags,
            (Found::Numbers(one), Found::Numbers(other)) => Found::Numbers(Numbers {
                has_negative: one.has_negative || other.has_negative,
                has_large: one.has_large || other.has_large,
                has_fraction: one.has_fraction || other.has_fraction,
                has_inexact: one.has_inexact || other.has_inexact,
            }),
            _ => Found::Words,
        }
    }

    fn kind(self) -> Kind {
        match self {
            Found::Flags => Kind::Flag,
            Found::Words => Kind::Words,
            Found::Numbers(numbers) if numbers.has_fraction => match numbers.has_inexact {
                true => Kind::Words,
                false => Kind::Real,
            },
            Found::Numbers(numbers) => match (numbers.has_large, numbers.has_negative) {
                (true, true) => Kind::Words,
                (true, false) => Kind::Natural,
                (false, _) => Kind::Whole,
            },
        }
    }
}

/// Whether a table can have these columns.
pub(super) fn check(columns: &[Column]) -> io::Result<()> {
    let wrong = |words: String| Err(io::Error::new(io::ErrorKind::InvalidInput, words));
    if columns.is_empty() {
        return wrong("a table without columns".to_owned());
    }
    let mut names = BTreeSet::new();
    match columns.iter().find(|column| !names.insert(&column.name)) {
        Some(twice) => wrong(format!("two columns have the name {}", twice.name)),
        None => Ok(()),
    }
}
