//! Thrift's compact protocol, as far as a footer needs it: structs whose fields come in the order
//! of their numbers, whole numbers, words and lists.
use super::page::put_varint;

/// What a field is, in the low half of its header.
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// A struct that is being written: [`Struct::end`] gives its bytes.
#[derive(Default)]
pub(super) struct Struct {
    bytes: Vec<u8>,
    /// The number of its last field.
    last: u8,
}

impl Struct {
    /// A field of 32 bits, such as an enumeration.
    pub(super) fn i32(mut self, number: u8, value: i32) -> Struct {
        self.header(number, I32);
        put_signed(&mut self.bytes, value.into());
        self
    }

    /// A field of 64 bits; a count, which fits.
    pub(super) fn i64(mut self, number: u8, value: u64) -> Struct {
        self.header(number, I64);
        put_signed(&mut self.bytes, value as i64);
        self
    }

    /// A field of text.
    pub(super) fn words(mut self, number: u8, words: &str) -> Struct {
        self.header(number, BINARY);
        put_words(&mut self.bytes, words);
        self
    }

    /// A struct in it.
    pub(super) fn inner(mut self, number: u8, inner: Struct) -> Struct {
        self.header(number, STRUCT);
        self.bytes.extend(inner.end());
        self
    }

    /// A list of structs in it.
    pub(super) fn structs(mut self, number: u8, list: Vec<Struct>) -> Struct {
        self.header(number, LIST);
        self.list_header(list.len(), STRUCT);
        list.into_iter().for_each(|one| self.bytes.extend(one.end()));
        self
    }

    /// A list of numbers of 32 bits in it.
    pub(super) fn i32s(mut self, number: u8, list: &[i32]) -> Struct {
        self.header(number, LIST);
        self.list_header(list.len(), I32);
        list.iter().for_each(|one| put_signed(&mut self.bytes, (*one).into()));
        self
    }

    /// A list of one text in it.
    pub(super) fn one_of_words(mut self, number: u8, words: &str) -> Struct {
        self.header(number, LIST);
        self.list_header(1, BINARY);
        put_words(&mut self.bytes, words);
        self
    }

    /// Its bytes, with the mark of its end.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }

    /// The distance from the last field's number in the high half, never above 15 here.
    fn header(&mut self, number: u8, kind: u8) {
        assert!((self.last + 1..=self.last + 15).contains(&number), "fields come in their order");
        self.bytes.push((number - self.last) << 4 | kind);
        self.last = number;
    }

    fn list_header(&mut self, length: usize, kind: u8) {
        match length {
            0..=14 => self.bytes.push((length as u8) << 4 | kind),
            _ => {
                self.bytes.push(0xf0 | kind);
                put_varint(&mut self.bytes, length as u64);
            }
        }
    }
}

fn put_words(out: &mut Vec<u8>, words: &str) {
    put_varint(out, words.len() as u64);
    out.extend_from_slice(words.as_bytes());
}

/// Small numbers of both signs are short: 0, -1, 1, -2 become 0, 1, 2, 3.
fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_varint(out, (number << 1 ^ number >> 63) as u64);
}
