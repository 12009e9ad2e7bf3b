//! The values of one column in one group of rows: which rows have one, and the values, plain.
//!
//! *Invariants*: `runs` covers as many rows as were added, neighbours in it differ, and values are
//! those of the rows that have one.
use super::schema::Kind;
use serde_json::Value;

/// A page that is being filled.
pub(super) struct Page {
    kind: Kind,
    /// Whether so many rows in a row have a value.
    runs: Vec<Run>,
    values: Vec<u8>,
    /// Flags in the last byte of `values`.
    flags: u32,
}

struct Run {
    has_value: bool,
    rows: u64,
}

/// A value that is not of the page's kind.
#[derive(Debug)]
pub(super) struct OtherKind;

impl Page {
    pub(super) fn new(kind: Kind) -> Page {
        Page { kind, runs: Vec::new(), values: Vec::new(), flags: 0 }
    }

    /// The value of the next row; `null` is none.
    ///
    /// # Errors
    /// It is of another kind; the page is as before then.
    pub(super) fn add(&mut self, value: &Value) -> Result<(), OtherKind> {
        if !value.is_null() {
            match self.kind {
                Kind::Flag => self.add_bit(value.as_bool().ok_or(OtherKind)?.into()),
                Kind::Whole => self.add_bytes(&value.as_i64().ok_or(OtherKind)?.to_le_bytes()),
                Kind::Natural => self.add_bytes(&value.as_u64().ok_or(OtherKind)?.to_le_bytes()),
                Kind::Real => self.add_bytes(&value.as_f64().ok_or(OtherKind)?.to_le_bytes()),
                Kind::Words => match value {
                    Value::String(words) => self.add_words(words)?,
                    other => self.add_words(&other.to_string())?,
                },
            }
        }
        let has_value = !value.is_null();
        match self.runs.last_mut().filter(|run| run.has_value == has_value) {
            Some(run) => run.rows += 1,
            None => self.runs.push(Run { has_value, rows: 1 }),
        }
        Ok(())
    }

    /// How many rows it has.
    pub(super) fn rows(&self) -> u64 {
        self.runs.iter().map(|run| run.rows).sum()
    }

    /// How many of them have no value.
    pub(super) fn nulls(&self) -> u64 {
        self.runs.iter().filter(|run| !run.has_value).map(|run| run.rows).sum()
    }

    /// About how long it is.
    pub(super) fn bytes(&self) -> usize {
        self.values.len()
    }

    /// What stands in the file after the page's header.
    pub(super) fn encode(self) -> Vec<u8> {
        let mut levels = Vec::new();
        for run in &self.runs {
            // A run of one value, not of packed bits: the lowest bit is 0.
            put_varint(&mut levels, run.rows << 1);
            levels.push(u8::from(run.has_value));
        }
        // At most three bytes for each of the rows of a group.
        let mut content = (levels.len() as u32).to_le_bytes().to_vec();
        content.append(&mut levels);
        content.extend(self.values);
        content
    }

    fn add_bytes(&mut self, bytes: &[u8]) {
        self.values.extend_from_slice(bytes);
    }

    fn add_words(&mut self, words: &str) -> Result<(), OtherKind> {
        let length = u32::try_from(words.len()).map_err(|_| OtherKind)?;
        self.add_bytes(&length.to_le_bytes());
        self.add_bytes(words.as_bytes());
        Ok(())
    }

    /// Eight to a byte, the first in its lowest bit.
    fn add_bit(&mut self, bit: u8) {
        if self.flags.is_multiple_of(8) {
            self.values.push(0);
            self.flags = 0;
        }
        if let Some(last) = self.values.last_mut() {
            *last |= bit << self.flags;
        }
        self.flags += 1;
    }
}

/// Seven bits a byte, the lowest first; the highest bit says that another byte follows.
pub(super) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
