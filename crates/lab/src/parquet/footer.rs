//! What stands at the end of a file: its columns, and where the pages of each group are. The
//! numbers of fields and enumerations are those of the format's `parquet.thrift`.
use super::compact::Struct;
use super::schema::{Column, Kind};

/// The rows between two writes of pages.
pub(super) struct Group {
    pub(super) rows: u64,
    pub(super) chunks: Vec<Chunk>,
}

/// A column in a group: one page.
pub(super) struct Chunk {
    /// Of its page's header, from the start of the file.
    pub(super) offset: u64,
    /// Its header included.
    pub(super) bytes: u64,
    /// Rows without a value.
    pub(super) nulls: u64,
}

// Encodings.
const PLAIN: i32 = 0;
const RUNS: i32 = 3;
/// Of repetitions: a field that may be missing.
const OPTIONAL: i32 = 1;
/// Of codecs: none.
const UNCOMPRESSED: i32 = 0;
/// Of pages: values.
const DATA_PAGE: i32 = 0;
/// Of the format that the footer is in.
const VERSION: i32 = 1;

/// The physical type, and what it is taken for where that is not clear from the type.
fn kind_of(kind: Kind) -> (i32, Option<i32>) {
    const BOOLEAN: i32 = 0;
    const INT64: i32 = 2;
    const DOUBLE: i32 = 5;
    const BYTES: i32 = 6;
    const UTF8: i32 = 0;
    const UINT_64: i32 = 14;
    match kind {
        Kind::Flag => (BOOLEAN, None),
        Kind::Whole => (INT64, None),
        Kind::Natural => (INT64, Some(UINT_64)),
        Kind::Real => (DOUBLE, None),
        Kind::Words => (BYTES, Some(UTF8)),
    }
}

/// What stands before the content of a page.
pub(super) fn page_header(bytes: i32, rows: u64) -> Vec<u8> {
    // A group is never as long.
    let values = i32::try_from(rows).unwrap_or(i32::MAX);
    let values = Struct::default().i32(1, values).i32(2, PLAIN).i32(3, RUNS).i32(4, RUNS);
    Struct::default().i32(1, DATA_PAGE).i32(2, bytes).i32(3, bytes).inner(5, values).end()
}

/// The footer of a file, without its length.
pub(super) fn encode(columns: &[Column], groups: &[Group]) -> Vec<u8> {
    let root = Struct::default().words(4, "table");
    let root = root.i32(5, i32::try_from(columns.len()).unwrap_or(i32::MAX));
    let mut schema = vec![root];
    schema.extend(columns.iter().map(|column| {
        let (physical, taken_for) = kind_of(column.kind);
        let field = Struct::default().i32(1, physical).i32(3, OPTIONAL).words(4, &column.name);
        match taken_for {
            Some(taken_for) => field.i32(6, taken_for),
            None => field,
        }
    }));
    let rows = groups.iter().map(|group| group.rows).sum();
    let groups = groups.iter().map(|group| encode_group(columns, group)).collect();
    let made_by = concat!("extant version ", env!("CARGO_PKG_VERSION"));
    let whole = Struct::default().i32(1, VERSION).structs(2, schema).i64(3, rows);
    whole.structs(4, groups).words(6, made_by).end()
}

fn encode_group(columns: &[Column], group: &Group) -> Struct {
    let bytes = group.chunks.iter().map(|chunk| chunk.bytes).sum();
    let chunks = columns.iter().zip(&group.chunks).map(|(column, chunk)| {
        let (physical, _) = kind_of(column.kind);
        let facts = Struct::default()
            .i32(1, physical)
            .i32s(2, &[PLAIN, RUNS])
            .one_of_words(3, &column.name)
            .i32(4, UNCOMPRESSED)
            .i64(5, group.rows)
            .i64(6, chunk.bytes)
            .i64(7, chunk.bytes)
            .i64(9, chunk.offset)
            .inner(12, Struct::default().i64(3, chunk.nulls));
        Struct::default().i64(2, chunk.offset).inner(3, facts)
    });
    Struct::default().structs(1, chunks.collect()).i64(2, bytes).i64(3, group.rows)
}
