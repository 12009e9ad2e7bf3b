//! Changes to a scenario: values that a run sets in place of those of the file, by the names of
//! the entries and the keys of the file.
//!
//! They are made in the parsed file, before its values are checked. So a change is checked as if
//! the file said it: a key that is not known, or a value that does not fit, is refused.
use crate::fields::Result;
use extant_sim::drive::file::{FileError, Source};
use serde::{Deserialize, Deserializer, de};
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What is different from the file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// Keys of drives, by the drive's name.
    #[serde(default)]
    pub drive: BTreeMap<String, Settings>,
    /// Keys of file systems, by name.
    #[serde(default)]
    pub filesystem: BTreeMap<String, Settings>,
    /// Keys of trees, by name.
    #[serde(default)]
    pub tree: BTreeMap<String, Settings>,
    /// Keys of steps, by the process's name and the step's number in it: "1" is its first, "2.1"
    /// the first inside its second.
    #[serde(default)]
    pub step: BTreeMap<String, BTreeMap<String, Settings>>,
    /// Processes that are left out.
    #[serde(default)]
    pub without: Vec<String>,
    /// Of these processes only the first steps are left: how many.
    #[serde(default)]
    pub first_steps: BTreeMap<String, usize>,
}

/// Keys with their values.
pub type Settings = BTreeMap<String, Setting>;

/// The value of a key.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// A number.
    Whole(u64),
    /// One with a point.
    Decimal(Decimal),
    /// Words, a size or a time with its unit.
    Words(String),
    /// Several.
    List(Vec<Setting>),
    /// A table of its own; keys that it does not name stay.
    Table(Settings),
}

/// A number with a point, as it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decimal(String);

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<Decimal, D::Error> {
        let number = f64::deserialize(deserializer)?;
        match number.is_finite() {
            true => Ok(Decimal(format!("{number:?}"))),
            false => Err(de::Error::custom("is no finite number")),
        }
    }
}

impl Setting {
    /// As a scenario file writes it.
    fn write(&self, out: &mut String) {
        match self {
            Setting::Whole(number) => out.push_str(&number.to_string()),
            Setting::Decimal(Decimal(number)) => out.push_str(number),
            Setting::Words(words) => {
                out.push('"');
                for letter in words.chars() {
                    match letter {
                        '"' | '\\' => out.extend(['\\', letter]),
                        letter if letter.is_control() => {
                            out.push_str(&format!("\\u{:04x}", u32::from(letter)));
                        }
                        letter => out.push(letter),
                    }
                }
                out.push('"');
            }
            Setting::List(values) => {
                out.push('[');
                for value in values {
                    value.write(out);
                    out.push(',');
                }
                out.push(']');
            }
            Setting::Table(settings) => {
                out.push('{');
                for (number, (key, value)) in settings.iter().enumerate() {
                    out.push_str(if number == 0 { "" } else { "," });
                    out.push_str(&format!("{key}="));
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// Settings as a TOML document.
fn written(settings: &Settings) -> String {
    let mut text = String::new();
    for (key, value) in settings {
        text.push_str(&format!("{key} = "));
        value.write(&mut text);
        text.push('\n');
    }
    text
}

/// An entry that is changed, and the TOML document of what it gets.
pub(super) struct Written {
    /// "filesystem", or "process" for a step.
    kind: &'static str,
    name: String,
    /// Numbers of steps inside each other, from 0; empty for the entry itself.
    step: Vec<usize>,
    text: String,
}

impl Changes {
    /// These, and `others` besides, which win.
    #[must_use]
    pub fn and(mut self, others: &Changes) -> Changes {
        let merge = |into: &mut BTreeMap<String, Settings>, from: &BTreeMap<String, Settings>| {
            for (name, settings) in from {
                into.entry(name.clone()).or_default().extend(settings.clone());
            }
        };
        merge(&mut self.drive, &others.drive);
        merge(&mut self.filesystem, &others.filesystem);
        merge(&mut self.tree, &others.tree);
        for (process, steps) in &others.step {
            merge(self.step.entry(process.clone()).or_default(), steps);
        }
        self.without.extend(others.without.iter().cloned());
        self.first_steps.extend(others.first_steps.clone());
        self
    }

    /// Each change as a TOML document: what [`Changes::apply`] reads.
    pub(super) fn written(&self) -> Vec<Written> {
        let entries =
            [("drive", &self.drive), ("filesystem", &self.filesystem), ("tree", &self.tree)];
        let mut all = Vec::new();
        for (kind, entries) in entries {
            all.extend(entries.iter().map(|(name, settings)| Written {
                kind,
                name: name.clone(),
                step: Vec::new(),
                text: written(settings),
            }));
        }
        for (process, steps) in &self.step {
            all.extend(steps.iter().map(|(number, settings)| {
                Written {
                    kind: "process",
                    name: process.clone(),
                    // What is no number is no step: it is not found.
                    step: number
                        .split('.')
                        .map(|part| part.parse::<usize>().unwrap_or(0).wrapping_sub(1))
                        .collect(),
                    text: written(settings),
                }
            }));
        }
        all
    }

    /// Makes the changes in a parsed file. `written` is what [`Changes::written`] gave.
    ///
    /// # Errors
    /// An entry or a step is not there.
    pub(super) fn apply<'a>(
        &self,
        written: &'a [Written],
        source: &Source<'_>,
        table: &mut DeTable<'a>,
    ) -> Result<()> {
        for change in written {
            let missing = || missing(source, change.kind, &change.name);
            let mut entry = entry(table, change.kind, &change.name).ok_or_else(missing)?;
            for number in &change.step {
                entry = step(entry, *number).ok_or_else(missing)?;
            }
            let span = entry.span();
            let DeValue::Table(inner) = entry.get_mut() else { return Err(missing()) };
            let parsed = DeTable::parse(&change.text);
            let mut settings = parsed.map_err(|error| source.parse_error(&error))?.into_inner();
            place(&mut settings, &span);
            merge(inner, &settings);
        }
        for (process, count) in &self.first_steps {
            let steps = entry(table, "process", process).and_then(|entry| {
                let DeValue::Table(process) = entry.get_mut() else { return None };
                process.get_mut("steps")
            });
            let Some(steps) = steps else { return Err(missing(source, "process", process)) };
            let mut numbers = 0..*count;
            retain(steps, |_| numbers.next().is_some());
        }
        for process in &self.without {
            if entry(table, "process", process).is_none() {
                return Err(missing(source, "process", process));
            }
            if let Some(all) = table.get_mut("process") {
                retain(all, |entry| !is_named(entry, process));
            }
        }
        Ok(())
    }
}

fn missing(source: &Source<'_>, kind: &str, name: &str) -> FileError {
    let reason = format!("cannot be changed: {name:?}, or its step, is not there");
    source.error(0, kind, reason)
}

/// Leaves those entries of an array that are to stay.
fn retain<'a>(
    array: &mut Spanned<DeValue<'a>>,
    mut stays: impl FnMut(&Spanned<DeValue<'a>>) -> bool,
) {
    if let DeValue::Array(entries) = array.get_mut() {
        *entries = entries.iter().filter(|entry| stays(entry)).cloned().collect();
    }
}

fn is_named(entry: &Spanned<DeValue<'_>>, name: &str) -> bool {
    let found = entry.get_ref().as_table().and_then(|entry| entry.get("name"));
    found.and_then(|found| found.get_ref().as_str()) == Some(name)
}

fn entry<'t, 'a>(
    table: &'t mut DeTable<'a>,
    kind: &str,
    name: &str,
) -> Option<&'t mut Spanned<DeValue<'a>>> {
    match table.get_mut(kind)?.get_mut() {
        DeValue::Array(entries) => entries.iter_mut().find(|entry| is_named(entry, name)),
        _ => None,
    }
}

fn step<'t, 'a>(
    entry: &'t mut Spanned<DeValue<'a>>,
    number: usize,
) -> Option<&'t mut Spanned<DeValue<'a>>> {
    let DeValue::Table(entry) = entry.get_mut() else { return None };
    match entry.get_mut("steps")?.get_mut() {
        DeValue::Array(steps) => steps.get_mut(number),
        _ => None,
    }
}

/// Errors about changed values name the line of the entry that was changed.
fn place(settings: &mut DeTable<'_>, span: &Range<usize>) {
    for (key, mut value) in std::mem::take(settings) {
        match value.get_mut() {
            DeValue::Table(inner) => place(inner, span),
            DeValue::Array(values) => {
                for value in values.iter_mut() {
                    *value = Spanned::new(span.clone(), value.get_ref().clone());
                }
            }
            _ => {}
        }
        let key = Spanned::new(span.clone(), key.into_inner());
        settings.insert(key, Spanned::new(span.clone(), value.into_inner()));
    }
}

/// Puts values over those that there are, table by table.
pub(super) fn merge<'a>(base: &mut DeTable<'a>, changes: &DeTable<'a>) {
    for (key, value) in changes.iter() {
        if let DeValue::Table(changes) = value.get_ref()
            && let Some(inner) = base.get_mut(key)
            && let DeValue::Table(inner) = inner.get_mut()
        {
            merge(inner, changes);
            continue;
        }
        base.insert(key.clone(), value.clone());
    }
}
