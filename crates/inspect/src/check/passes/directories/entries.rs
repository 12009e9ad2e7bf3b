//! What is wrong with the entries of a block of a directory by themselves: names, the first two
//! entries, names that come twice.
use crate::check::codes::Code;
use crate::check::facts::{Facts, InodeFacts};
use extant_format::directory::stored::{EntryShape, StoredEntry, is_dots};
use extant_format::directory::{HEADER, RECORD_MIN};

/// The shortest encrypted name.
const ENCRYPTED_MIN: usize = 16;
/// Bytes of the hash after a name that is encrypted and knows no case.
const HASH_BYTES: usize = 8;

/// What names of a directory are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NameKind {
    /// Bytes without slash and zero.
    Plain,
    /// Any bytes.
    Encrypted,
    /// Text in UTF-8, and nothing else.
    Text,
}

/// How the entries of a directory look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) entries: EntryShape,
    pub(super) names: NameKind,
}

impl Shape {
    /// Of a directory, by the facts of its inode.
    pub(super) fn of(facts: &Facts, directory: InodeFacts) -> Shape {
        let is_strict = directory.is_casefolded() && facts.volume.stored().is_encoding_strict();
        let names = match (directory.is_encrypted(), is_strict) {
            (true, _) => NameKind::Encrypted,
            (false, true) => NameKind::Text,
            (false, false) => NameKind::Plain,
        };
        let is_hashed = directory.is_encrypted() && directory.is_casefolded();
        let hash_bytes = if is_hashed { HASH_BYTES } else { 0 };
        let entries = EntryShape { block_size: facts.volume.block_size(), hash_bytes };
        Shape { entries, names }
    }

    /// What is wrong with a used entry's name by itself.
    #[inline]
    pub(super) fn name_problem(self, name: &[u8]) -> Option<Code> {
        if name.is_empty() {
            return Some(Code::EntryNameEmpty);
        }
        if is_dots(name) {
            return Some(Code::DotTwice);
        }
        match self.names {
            NameKind::Encrypted => (name.len() < ENCRYPTED_MIN).then_some(Code::EntryNameShort),
            // Without an early exit the compiler compares many bytes at once.
            _ if name.iter().fold(false, |found, &byte| found | (byte == b'/') | (byte == 0)) => {
                Some(Code::EntryNameIllegal)
            }
            NameKind::Text if std::str::from_utf8(name).is_err() => Some(Code::EntryNameEncoding),
            NameKind::Text | NameKind::Plain => None,
        }
    }
}

/// Which of the first two entries is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dot {
    /// `.`
    Itself,
    /// `..`
    Parent,
}

impl Dot {
    /// What is wrong with the entry that should be this one, if anything; it may still have an
    /// inode that counts.
    pub(super) fn problem(self, entry: &StoredEntry<'_>) -> Option<Code> {
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

/// When a name was met first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Met {
    /// Now.
    Now,
    /// In an entry before, of the same block.
    Before,
}

/// The names of one block, so far: finds those that come twice. Its memory is used again for the
/// next block.
pub(super) struct Seen {
    /// Of the entries of a block, by hash. A slot of an earlier round is free.
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
    /// A new block begins, of `bytes` bytes.
    pub(super) fn begin(&mut self, bytes: usize) {
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

    /// Notes a name; gives whether it was met before.
    #[inline]
    pub(super) fn note(&mut self, bytes: &[u8], entry: &StoredEntry<'_>) -> Met {
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
                return Met::Now;
            }
            let start = slot.offset as usize + HEADER;
            if slot.hash == hash
                && bytes.get(start..start + slot.length as usize) == Some(entry.name)
            {
                return Met::Before;
            }
            at = (at + 1) & mask;
        }
        Met::Now
    }
}

/// A hash that is only quick; its high bits are the better ones.
#[inline]
pub(super) fn quick_hash(name: &[u8]) -> u64 {
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

    const SHAPE: Shape =
        Shape { entries: EntryShape { block_size: 64, hash_bytes: 0 }, names: NameKind::Plain };

    fn entry(ino: u32, length: u16, name: &[u8], code: u8) -> Vec<u8> {
        let mut bytes = ino.to_le_bytes().to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend([name.len() as u8, code]);
        bytes.extend(name);
        bytes.resize(usize::from(length).max(bytes.len()), 0);
        bytes
    }

    #[test]
    fn names_are_judged_by_the_kind_of_directory() {
        let of = |names| Shape { names, ..SHAPE };
        assert_eq!(SHAPE.name_problem(b"plain \xff"), None);
        assert_eq!(SHAPE.name_problem(b""), Some(Code::EntryNameEmpty));
        assert_eq!(SHAPE.name_problem(b".."), Some(Code::DotTwice));
        assert_eq!(SHAPE.name_problem(b"a/b"), Some(Code::EntryNameIllegal));
        assert_eq!(SHAPE.name_problem(b"a\0b"), Some(Code::EntryNameIllegal));
        assert_eq!(of(NameKind::Text).name_problem(b"a\xff"), Some(Code::EntryNameEncoding));
        assert_eq!(of(NameKind::Text).name_problem("\u{e9}".as_bytes()), None);
        assert_eq!(of(NameKind::Encrypted).name_problem(b"0123/\x0056789abcdef"), None);
        assert_eq!(of(NameKind::Encrypted).name_problem(b"short"), Some(Code::EntryNameShort));
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
            let mut met = Vec::new();
            SHAPE.entries.walk(&bytes, 0, &mut |entry| met.push(seen.note(&bytes, entry)));
            assert_eq!(met, [Met::Now, Met::Before, Met::Now]);
        }
    }
}
