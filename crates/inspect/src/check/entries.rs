//! One directory block, or the directory part of an inode, as bytes: what it says, and what is
//! wrong with that by itself.
//!
//! What an entry's inode is, the caller knows: he gets each entry in turn.
use super::codes::Code;
use super::words::{u16_at, u32_at};

/// Bytes of an entry before its name.
const HEADER: usize = 8;
/// The shortest entry.
const RECORD_MIN: usize = 12;
/// Bytes of the tail with the checksum, which looks like an unused entry.
pub(crate) const TAIL: usize = 12;
/// The type of a tail.
const TAIL_CODE: u8 = 0xde;
/// The shortest encrypted name.
const ENCRYPTED_MIN: usize = 16;

/// What names of a directory are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Names {
    /// Bytes without slash and zero.
    Plain,
    /// Any bytes.
    Encrypted,
    /// Text in UTF-8, and nothing else.
    Text,
}

/// How the blocks of a directory look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) block_size: usize,
    pub(crate) names: Names,
    /// Bytes behind each name in which its hash stands: 8 where names are encrypted and know no
    /// case.
    pub(crate) hash_bytes: usize,
}

/// One link of the chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) offset: usize,
    pub(crate) length: usize,
    /// 0 marks an unused one.
    pub(crate) ino: u32,
    pub(crate) code: u8,
    pub(crate) name: &'a [u8],
    /// The first byte behind the name, when there is one.
    pub(crate) after: u8,
}

/// How a chain ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// At the end of the block.
    Block,
    /// At a tail.
    Tail,
    /// At this byte, which begins no entry.
    Broken(usize),
}

impl Shape {
    /// Record lengths in blocks of 64 KiB: 65,536 is stored as 0xffff or 0, and the low two bits
    /// stand for lengths above.
    #[inline]
    fn length(self, stored: u16) -> usize {
        let stored = usize::from(stored);
        match stored {
            _ if self.block_size < 0x1_0000 => stored,
            0 | 0xffff => 0x1_0000,
            _ => (stored & 0xfffc) | ((stored & 3) << 16),
        }
    }

    /// The entry at a byte; `None` when there is none.
    #[inline]
    fn entry<'a>(self, bytes: &'a [u8], offset: usize) -> Option<Entry<'a>> {
        let rest = bytes.get(offset..)?;
        let header = rest.first_chunk::<HEADER>()?;
        let [i0, i1, i2, i3, l0, l1, name_length, code] = *header;
        let ino = u32::from_le_bytes([i0, i1, i2, i3]);
        let length = self.length(u16::from_le_bytes([l0, l1]));
        let behind = if ino == 0 { 0 } else { self.hash_bytes };
        let used = HEADER + usize::from(name_length);
        let hidden = if behind > 0 && !is_dots(rest.get(HEADER..used)?) { behind } else { 0 };
        if length < RECORD_MIN
            || !length.is_multiple_of(4)
            || length > rest.len()
            || used + hidden > length
        {
            return None;
        }
        Some(Entry {
            offset,
            length,
            ino,
            code,
            name: rest.get(HEADER..used)?,
            after: rest.get(used).copied().unwrap_or(0),
        })
    }

    /// Walks the chain from byte `start` on, unused entries included.
    #[inline]
    pub(crate) fn walk<'a>(
        self,
        bytes: &'a [u8],
        start: usize,
        visit: &mut impl FnMut(&Entry<'a>),
    ) -> End {
        let mut offset = start;
        while offset < bytes.len() {
            let Some(entry) = self.entry(bytes, offset) else {
                return End::Broken(offset);
            };
            if offset + TAIL == bytes.len()
                && entry.ino == 0
                && entry.name.is_empty()
                && entry.code == TAIL_CODE
            {
                return End::Tail;
            }
            visit(&entry);
            offset += entry.length;
        }
        End::Block
    }

    /// Whether the block is a node of an index, by how its first entry looks: unused and as long as
    /// the block, and with as many places behind it as fit.
    pub(crate) fn is_node(self, bytes: &[u8], tail: usize) -> bool {
        let is_cover = u32_at(bytes, 0) == 0
            && self.length(u16_at(bytes, 4)) == self.block_size
            && bytes.get(6).is_some_and(|length| *length == 0);
        is_cover && usize::from(u16_at(bytes, HEADER)) == (self.block_size - HEADER - tail) / 8
    }

    /// What is wrong with a used entry's name by itself.
    #[inline]
    pub(crate) fn name_problem(self, name: &[u8]) -> Option<Code> {
        if name.is_empty() {
            return Some(Code::EntryNameEmpty);
        }
        if is_dots(name) {
            return Some(Code::DotTwice);
        }
        match self.names {
            Names::Encrypted => (name.len() < ENCRYPTED_MIN).then_some(Code::EntryNameShort),
            // Without an early exit the compiler compares many bytes at once.
            _ if name.iter().fold(false, |found, &byte| found | (byte == b'/') | (byte == 0)) => {
                Some(Code::EntryNameIllegal)
            }
            Names::Text if std::str::from_utf8(name).is_err() => Some(Code::EntryNameEncoding),
            Names::Text | Names::Plain => None,
        }
    }
}

#[inline]
pub(crate) fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// Which of the first two entries is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dot {
    /// `.`
    Itself,
    /// `..`
    Parent,
}

impl Dot {
    /// What is wrong with the entry that should be this one, if anything; it may still have an
    /// inode that counts.
    pub(crate) fn problem(self, entry: &Entry<'_>) -> Option<Code> {
        let (name, missing, misnamed, open): (&[u8], _, _, _) = match self {
            Dot::Itself => (b".", Code::DotMissing, Code::DotNotFirst, Code::DotNotTerminated),
            Dot::Parent => {
                (b"..", Code::DotDotMissing, Code::DotDotNotSecond, Code::DotDotNotTerminated)
            }
        };
        if entry.ino == 0 {
            Some(missing)
        } else if entry.name != name {
            Some(misnamed)
        } else if entry.after != 0 {
            Some(open)
        } else {
            None
        }
    }
}

/// The names of one block, so far: tells which come twice. Its memory is used again for the next
/// block.
pub(crate) struct Seen {
    /// Of a block's entries, by hash. A slot of an earlier round is free.
    slots: Vec<Slot>,
    round: u32,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    round: u32,
    hash: u32,
    offset: u32,
    length: u32,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen { slots: vec![Slot::default(); 1024], round: 0 }
    }
}

impl Seen {
    /// A new block begins, of so many bytes.
    pub(crate) fn begin(&mut self, bytes: usize) {
        // Twice as many places as there can be entries.
        let places = (bytes / RECORD_MIN * 2).next_power_of_two();
        if self.slots.len() < places {
            self.slots.resize(places, Slot::default());
        }
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.slots.fill(Slot::default());
            self.round = 1;
        }
    }

    /// Notes a name; tells whether it was there before.
    #[inline]
    pub(crate) fn is_there(&mut self, bytes: &[u8], entry: &Entry<'_>) -> bool {
        let hash = (quick_hash(entry.name) >> 32) as u32;
        let mask = self.slots.len() - 1;
        let mut at = (hash >> 12) as usize & mask;
        for _ in 0..=mask {
            let Some(slot) = self.slots.get_mut(at) else { break };
            if slot.round != self.round {
                *slot = Slot {
                    round: self.round,
                    hash,
                    offset: entry.offset as u32,
                    length: entry.name.len() as u32,
                };
                return false;
            }
            let start = slot.offset as usize + HEADER;
            if slot.hash == hash
                && bytes.get(start..start + slot.length as usize) == Some(entry.name)
            {
                return true;
            }
            at = (at + 1) & mask;
        }
        false
    }
}

/// A hash that is only quick; its high bits are the better ones.
#[inline]
pub(crate) fn quick_hash(name: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = name.as_chunks::<8>();
    let mut hash = name.len() as u64;
    for word in words {
        hash = (hash.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR);
    }
    let last = rest.iter().fold(0_u64, |last, byte| last << 8 | u64::from(*byte));
    (hash.rotate_left(5) ^ last).wrapping_mul(FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { block_size: 64, names: Names::Plain, hash_bytes: 0 };

    fn entry(ino: u32, length: u16, name: &[u8], code: u8) -> Vec<u8> {
        let mut bytes = ino.to_le_bytes().to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend([name.len() as u8, code]);
        bytes.extend(name);
        bytes.resize(usize::from(length).max(bytes.len()), 0);
        bytes
    }

    fn names(bytes: &[u8]) -> (Vec<Vec<u8>>, End) {
        let mut names = Vec::new();
        let end = SHAPE.walk(bytes, 0, &mut |entry| names.push(entry.name.to_vec()));
        (names, end)
    }

    #[test]
    fn chains_end_at_the_end_or_where_they_break() {
        let first = entry(12, 16, b"first", 1);
        let whole = [first.clone(), entry(13, 48, b"second", 1)].concat();
        assert_eq!(names(&whole), (vec![b"first".to_vec(), b"second".to_vec()], End::Block));
        let tail = entry(0, 12, b"", TAIL_CODE);
        let tailed = [first.clone(), entry(13, 36, b"second", 1), tail].concat();
        assert_eq!(names(&tailed).1, End::Tail);
        for (length, name) in [(8, &b""[..]), (14, b"second"), (52, b"second"), (12, b"second")] {
            let mut second = entry(13, length, name, 1);
            second.resize(48, 0);
            assert_eq!(names(&[first.clone(), second].concat()).1, End::Broken(16), "{length}");
        }
        // Too short for another entry.
        let short = [first, entry(13, 44, b"second", 1), vec![0; 4]].concat();
        assert_eq!(names(&short).1, End::Broken(60));
    }

    #[test]
    fn names_are_judged_by_the_kind_of_directory() {
        let of = |names| Shape { names, ..SHAPE };
        assert_eq!(SHAPE.name_problem(b"plain \xff"), None);
        assert_eq!(SHAPE.name_problem(b""), Some(Code::EntryNameEmpty));
        assert_eq!(SHAPE.name_problem(b".."), Some(Code::DotTwice));
        assert_eq!(SHAPE.name_problem(b"a/b"), Some(Code::EntryNameIllegal));
        assert_eq!(SHAPE.name_problem(b"a\0b"), Some(Code::EntryNameIllegal));
        assert_eq!(of(Names::Text).name_problem(b"a\xff"), Some(Code::EntryNameEncoding));
        assert_eq!(of(Names::Text).name_problem("\u{e9}".as_bytes()), None);
        assert_eq!(of(Names::Encrypted).name_problem(b"0123/\x0056789abcdef"), None);
        assert_eq!(of(Names::Encrypted).name_problem(b"short"), Some(Code::EntryNameShort));
    }

    #[test]
    fn a_name_is_seen_twice_within_a_block_only() {
        let mut seen = Seen::default();
        let bytes = [
            entry(12, 20, b"same name", 1),
            entry(13, 20, b"same name", 1),
            entry(14, 24, b"same nam", 1),
        ]
        .concat();
        for _ in 0..3 {
            seen.begin(bytes.len());
            let mut twice = Vec::new();
            SHAPE.walk(&bytes, 0, &mut |entry| twice.push(seen.is_there(&bytes, entry)));
            assert_eq!(twice, [false, true, false]);
        }
    }
}
