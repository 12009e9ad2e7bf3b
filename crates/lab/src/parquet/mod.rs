//! Tables in Parquet files: rows of JSON values under columns that have a kind.
//!
//! Only written, never read, and only as far as tables of results need it: every field may be
//! missing, values are plain, nothing is compressed, and there are no columns inside of columns.
//! Rows come one by one, in groups that are written when they are full, so that a table may be
//! longer than memory. Whatever reads Parquet reads it: pandas, pyarrow, duckdb, Spark.
//!
//! ```text
//! "PAR1" | group: a page for each column | group .. | footer | its length, u32 | "PAR1"
//! page:    header | length, u32, and runs of "has a value" | values
//! footer:  columns, groups, and where each page begins
//! ```
//!
//! *Invariants*: what was written of a group is in the footer, and nothing else; each column of a
//! group has as many levels as the group has rows. A file whose [`ParquetWriter::finish`] was not
//! called has no footer, and nothing reads it.
//! *Locking*: none.
//!
//! ```text
//! footer   what stands at the end      page     values of a column in a group
//! compact  Thrift's compact protocol   schema   columns and their kinds
//! ```
mod compact;
mod footer;
mod page;
mod schema;
#[cfg(test)]
mod tests;

pub use schema::{Column, Kind};

use footer::{Chunk, Group};
use page::Page;
use serde_json::Value;
use std::io::{self, Write};

/// What a file begins and ends with.
const MAGIC: &[u8; 4] = b"PAR1";
/// Rows of a group, at most.
const GROUP_ROWS: u64 = 1 << 16;
/// A group ends when its values take this many bytes.
const GROUP_BYTES: usize = 16 << 20;

/// A table that is being written.
pub struct ParquetWriter<W: Write> {
    out: W,
    /// Bytes that were written.
    at: u64,
    columns: Vec<Column>,
    /// The group at hand: a page for each column.
    pages: Vec<Page>,
    /// Its rows.
    rows: u64,
    groups: Vec<Group>,
}

impl<W: Write> ParquetWriter<W> {
    /// A table of these columns, without rows.
    ///
    /// # Errors
    /// What `out` says; `InvalidInput` where two columns have one name, or there is none.
    pub fn begin(columns: Vec<Column>, mut out: W) -> io::Result<ParquetWriter<W>> {
        schema::check(&columns)?;
        out.write_all(MAGIC)?;
        let pages = columns.iter().map(|column| Page::new(column.kind)).collect();
        let at = MAGIC.len() as u64;
        Ok(ParquetWriter { out, at, columns, pages, rows: 0, groups: Vec::new() })
    }

    /// One more row: a value for each column, `null` where there is none.
    ///
    /// # Errors
    /// What `out` says; `InvalidData` for a value that is not of its column's kind, and
    /// `InvalidInput` for a row of another length.
    pub fn row(&mut self, values: &[Value]) -> io::Result<()> {
        if values.len() != self.columns.len() {
            let words = format!("a row of {}, not {}", values.len(), self.columns.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
        }
        for ((page, column), value) in self.pages.iter_mut().zip(&self.columns).zip(values) {
            page.add(value).map_err(|_| {
                let words = format!("column {}: {value} is no {}", column.name, column.kind.name());
                io::Error::new(io::ErrorKind::InvalidData, words)
            })?;
        }
        self.rows += 1;
        let bytes: usize = self.pages.iter().map(Page::bytes).sum();
        match self.rows >= GROUP_ROWS || bytes >= GROUP_BYTES {
            true => self.end_group(),
            false => Ok(()),
        }
    }

    /// Writes what is left, and the footer; gives back what it was written to, flushed.
    ///
    /// # Errors
    /// What `out` says.
    pub fn finish(mut self) -> io::Result<W> {
        if self.rows > 0 {
            self.end_group()?;
        }
        let footer = footer::encode(&self.columns, &self.groups);
        let bytes = u32::try_from(footer.len()).map_err(|_| too_long("the footer"))?;
        self.put(&footer)?;
        self.put(&bytes.to_le_bytes())?;
        self.put(MAGIC)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn end_group(&mut self) -> io::Result<()> {
        let mut chunks = Vec::new();
        for at in 0..self.pages.len() {
            let page = std::mem::replace(&mut self.pages[at], Page::new(self.columns[at].kind));
            debug_assert_eq!(page.rows(), self.rows, "a level for each row");
            let (offset, nulls) = (self.at, page.nulls());
            let content = page.encode();
            let bytes = i32::try_from(content.len()).map_err(|_| too_long("a page"))?;
            self.put(&footer::page_header(bytes, self.rows))?;
            self.put(&content)?;
            chunks.push(Chunk { offset, bytes: self.at - offset, nulls });
        }
        let rows = std::mem::take(&mut self.rows);
        self.groups.push(Group { rows, chunks });
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

fn too_long(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("{what} is too long for a Parquet file"))
}
