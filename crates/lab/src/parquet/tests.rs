//! What was written is read by its own footer, byte by byte.
use super::*;
use serde_json::json;
use std::collections::BTreeMap;

/// What Thrift's compact protocol has.
#[derive(Debug)]
enum Thrift {
    Whole(i64),
    Bytes(Vec<u8>),
    List(Vec<Thrift>),
    Struct(BTreeMap<u8, Thrift>),
}

impl Thrift {
    fn whole(&self, path: &[u8]) -> i64 {
        match self.at(path) {
            Thrift::Whole(whole) => *whole,
            other => panic!("{path:?}: {other:?}"),
        }
    }

    fn words(&self, path: &[u8]) -> String {
        match self.at(path) {
            Thrift::Bytes(bytes) => String::from_utf8(bytes.clone()).unwrap(),
            other => panic!("{path:?}: {other:?}"),
        }
    }

    fn list(&self, path: &[u8]) -> &[Thrift] {
        match self.at(path) {
            Thrift::List(list) => list,
            other => panic!("{path:?}: {other:?}"),
        }
    }

    fn at(&self, path: &[u8]) -> &Thrift {
        path.iter().fold(self, |from, number| match from {
            Thrift::Struct(fields) => &fields[number],
            other => panic!("{number}: {other:?}"),
        })
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap();
        self.0 = rest;
        *first
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken.to_vec()
    }

    fn varint(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    }

    fn signed(&mut self) -> i64 {
        let raw = self.varint();
        (raw >> 1) as i64 ^ -((raw & 1) as i64)
    }

    fn value(&mut self, kind: u8) -> Thrift {
        match kind {
            5 | 6 => Thrift::Whole(self.signed()),
            8 => {
                let length = self.varint() as usize;
                Thrift::Bytes(self.take(length))
            }
            9 => {
                let head = self.byte();
                let length = if head >> 4 == 15 { self.varint() } else { u64::from(head >> 4) };
                Thrift::List((0..length).map(|_| self.value(head & 15)).collect())
            }
            12 => self.fields(),
            other => panic!("kind {other}"),
        }
    }

    fn fields(&mut self) -> Thrift {
        let (mut fields, mut last) = (BTreeMap::new(), 0);
        loop {
            let head = self.byte();
            if head == 0 {
                return Thrift::Struct(fields);
            }
            assert!(head >> 4 > 0, "a distance in the header");
            last += head >> 4;
            fields.insert(last, self.value(head & 15));
        }
    }
}

fn column(name: &str, kind: Kind) -> Column {
    Column { name: name.to_owned(), kind }
}

fn written(columns: &[Column], rows: &[Vec<Value>]) -> Vec<u8> {
    let mut writer = ParquetWriter::begin(columns.to_vec(), Vec::new()).unwrap();
    rows.iter().for_each(|row| writer.row(row).unwrap());
    writer.finish().unwrap()
}

fn footer(file: &[u8]) -> Thrift {
    let (rest, end) = file.split_at(file.len() - 8);
    assert_eq!((&file[..4], &end[4..]), (&MAGIC[..], &MAGIC[..]));
    let length = u32::from_le_bytes(end[..4].try_into().unwrap()) as usize;
    let mut reader = Reader(&rest[rest.len() - length..]);
    let footer = reader.fields();
    assert!(reader.0.is_empty(), "the footer is as long as it says");
    footer
}

/// Names, physical types and what they are taken for.
fn schema(footer: &Thrift) -> Vec<(String, i64, Option<i64>)> {
    let elements = footer.list(&[2]);
    assert_eq!(elements[0].whole(&[5]) as usize, elements.len() - 1);
    let fields = elements[1..].iter().map(|element| {
        assert_eq!(element.whole(&[3]), 1, "each may be missing");
        let Thrift::Struct(fields) = element else { panic!("{element:?}") };
        let taken_for = fields.get(&6).map(|_| element.whole(&[6]));
        (element.words(&[4]), element.whole(&[1]), taken_for)
    });
    fields.collect()
}

/// A column's values in a group, as the bytes say.
fn values(file: &[u8], chunk: &Thrift, kind: Kind) -> Vec<Value> {
    let offset = chunk.whole(&[3, 9]) as usize;
    assert_eq!(chunk.whole(&[2]) as usize, offset);
    let bytes = chunk.whole(&[3, 7]) as usize;
    assert_eq!(chunk.whole(&[3, 6]) as usize, bytes);
    let mut reader = Reader(&file[offset..offset + bytes]);
    let header = reader.fields();
    assert_eq!([header.whole(&[1]), header.whole(&[5, 2]), header.whole(&[5, 3])], [0, 0, 3]);
    let content = [header.whole(&[2]), header.whole(&[3])];
    assert_eq!(content, [reader.0.len() as i64; 2]);
    let rows = header.whole(&[5, 1]) as usize;
    assert_eq!(chunk.whole(&[3, 5]) as usize, rows);
    let length = u32::from_le_bytes(reader.take(4).try_into().unwrap()) as usize;
    let mut runs = Reader(&reader.0[..length]);
    reader.0 = &reader.0[length..];
    let mut levels = Vec::new();
    while !runs.0.is_empty() {
        let head = runs.varint();
        assert_eq!(head & 1, 0, "a run of one value");
        let level = runs.byte();
        levels.extend(std::iter::repeat_n(level == 1, (head >> 1) as usize));
    }
    assert_eq!(levels.len(), rows);
    let nulls = levels.iter().filter(|has_value| !**has_value).count();
    assert_eq!(chunk.whole(&[3, 12, 3]) as usize, nulls);
    let mut flags = Vec::new();
    let found = levels.into_iter().map(|has_value| match (has_value, kind) {
        (false, _) => Value::Null,
        (true, Kind::Flag) => {
            if flags.is_empty() {
                let byte = reader.byte();
                flags.extend((0..8).rev().map(|bit| byte >> bit & 1 == 1));
            }
            json!(flags.pop())
        }
        (true, Kind::Whole) => json!(i64::from_le_bytes(reader.take(8).try_into().unwrap())),
        (true, Kind::Natural) => json!(u64::from_le_bytes(reader.take(8).try_into().unwrap())),
        (true, Kind::Real) => json!(f64::from_le_bytes(reader.take(8).try_into().unwrap())),
        (true, Kind::Words) => {
            let length = u32::from_le_bytes(reader.take(4).try_into().unwrap()) as usize;
            json!(String::from_utf8(reader.take(length)).unwrap())
        }
    });
    let found = found.collect();
    assert!(reader.0.is_empty(), "no values are left over");
    found
}

/// The rows of a file.
fn read(file: &[u8], kinds: &[Kind]) -> Vec<Vec<Value>> {
    let footer = footer(file);
    assert_eq!(footer.whole(&[1]), 1, "the version");
    assert_eq!(schema(&footer).len(), kinds.len());
    let mut rows = Vec::new();
    for group in footer.list(&[4]) {
        let chunks = group.list(&[1]);
        let columns: Vec<Vec<Value>> =
            chunks.iter().zip(kinds).map(|(chunk, kind)| values(file, chunk, *kind)).collect();
        let bytes: i64 = chunks.iter().map(|chunk| chunk.whole(&[3, 7])).sum();
        assert_eq!(group.whole(&[2]), bytes);
        let count = group.whole(&[3]) as usize;
        rows.extend(
            (0..count)
                .map(|at| columns.iter().map(|column| column[at].clone()).collect::<Vec<_>>()),
        );
    }
    assert_eq!(footer.whole(&[3]) as usize, rows.len());
    rows
}

const KINDS: [Kind; 5] = [Kind::Flag, Kind::Whole, Kind::Natural, Kind::Real, Kind::Words];

fn all_kinds() -> Vec<Column> {
    KINDS.iter().map(|kind| column(kind.name(), *kind)).collect()
}

#[test]
fn each_kind_is_read_as_it_was_written_with_gaps() {
    let mut rows: Vec<Vec<Value>> = vec![
        vec![json!(true), json!(i64::MIN), json!(u64::MAX), json!(-0.1), json!("a\u{1f600}\"\n")],
        vec![Value::Null; 5],
        vec![json!(false), json!(-1), json!(0), json!(1e308), json!("")],
    ];
    // Gaps of every length, one after the other, beyond a byte of flags.
    for at in 0..40u64 {
        let gone = |column: u64| (at >> column).is_multiple_of(2);
        let one = |column, value| if gone(column) { Value::Null } else { value };
        rows.push(vec![
            one(0, json!(at % 3 == 0)),
            one(1, json!(at)),
            one(2, json!(at << 58)),
            one(3, json!(at as f64 / 8.0)),
            one(4, json!("x".repeat(at as usize * 9))),
        ]);
    }
    let file = written(&all_kinds(), &rows);
    assert_eq!(read(&file, &KINDS), rows);
    let found = schema(&footer(&file));
    let physical: Vec<_> = found.iter().map(|(_, physical, taken)| (*physical, *taken)).collect();
    assert_eq!(physical, [(0, None), (2, None), (2, Some(14)), (5, None), (6, Some(0))]);
    assert_eq!(found[4].0, "string");
}

#[test]
fn a_long_table_has_groups_and_a_wide_one_a_long_list() {
    let rows: Vec<_> = (0..GROUP_ROWS * 2 + 7).map(|at| vec![json!(at), Value::Null]).collect();
    let columns = [column("a", Kind::Whole), column("b", Kind::Words)];
    let file = written(&columns, &rows);
    assert_eq!(footer(&file).list(&[4]).len(), 3);
    assert_eq!(read(&file, &[Kind::Whole, Kind::Words]), rows);
    for width in [13, 14, 15, 200] {
        let wide = (0..width).map(|at| column(&format!("c{at}"), Kind::Whole));
        let rows = vec![(0..width).map(|at| json!(at)).collect::<Vec<_>>()];
        let file = written(&wide.collect::<Vec<_>>(), &rows);
        assert_eq!(read(&file, &vec![Kind::Whole; width]), rows);
    }
}

#[test]
fn values_of_many_bytes_end_a_group_too() {
    let long = json!("x".repeat(GROUP_BYTES / 2));
    let rows = vec![vec![long.clone()], vec![long.clone()], vec![long]];
    let file = written(&[column("a", Kind::Words)], &rows);
    assert_eq!(footer(&file).list(&[4]).len(), 2);
    assert_eq!(read(&file, &[Kind::Words]), rows);
}

#[test]
fn a_table_without_rows_has_its_columns() {
    let file = written(&all_kinds(), &[]);
    assert_eq!(schema(&footer(&file)).len(), 5);
    assert!(read(&file, &KINDS).is_empty());
}

#[test]
fn what_does_not_fit_is_refused() {
    let begin = |columns: &[Column]| ParquetWriter::begin(columns.to_vec(), Vec::new()).map(drop);
    assert!(begin(&[]).is_err());
    let twice = [column("a", Kind::Flag), column("a", Kind::Words)];
    assert_eq!(begin(&twice).unwrap_err().to_string(), "two columns have the name a");
    let refused = |kind, value: Value| {
        let mut writer = ParquetWriter::begin(vec![column("a", kind)], Vec::new()).unwrap();
        writer.row(&[value]).unwrap_err().to_string()
    };
    assert_eq!(
        refused(Kind::Whole, json!(u64::MAX)),
        format!("column a: {} is no int64", u64::MAX)
    );
    assert_eq!(refused(Kind::Natural, json!(-1)), "column a: -1 is no uint64");
    assert_eq!(refused(Kind::Whole, json!(0.5)), "column a: 0.5 is no int64");
    assert_eq!(refused(Kind::Flag, json!("yes")), "column a: \"yes\" is no boolean");
    let mut writer = ParquetWriter::begin(all_kinds(), Vec::new()).unwrap();
    assert!(writer.row(&[json!(true)]).is_err());
}

#[test]
fn a_kind_holds_all_values_exactly() {
    let kind = |values: &[Value]| Kind::of(values.iter());
    assert_eq!(kind(&[]), None);
    assert_eq!(kind(&[Value::Null]), None);
    assert_eq!(kind(&[json!(true), Value::Null]), Some(Kind::Flag));
    assert_eq!(kind(&[json!(1), json!(-1)]), Some(Kind::Whole));
    assert_eq!(kind(&[json!(1), json!(u64::MAX)]), Some(Kind::Natural));
    assert_eq!(kind(&[json!(-1), json!(u64::MAX)]), Some(Kind::Words));
    assert_eq!(kind(&[json!(u64::MAX), json!(-1)]), Some(Kind::Words));
    assert_eq!(kind(&[json!(1), json!(0.5)]), Some(Kind::Real));
    assert_eq!(kind(&[json!((1i64 << 53) + 1), json!(0.5)]), Some(Kind::Words));
    assert_eq!(kind(&[json!(-(1i64 << 53)), json!(0.5)]), Some(Kind::Real));
    assert_eq!(kind(&[json!(1), json!("a")]), Some(Kind::Words));
    assert_eq!(kind(&[json!(true), json!(1)]), Some(Kind::Words));
}

#[test]
fn what_is_no_string_is_written_as_json_among_words() {
    let rows = [vec![json!("a")], vec![json!(1)], vec![json!({"b": [true]})]];
    let file = written(&[column("a", Kind::Words)], &rows);
    let found = read(&file, &[Kind::Words]);
    assert_eq!(found, [vec![json!("a")], vec![json!("1")], vec![json!("{\"b\":[true]}")]]);
}
