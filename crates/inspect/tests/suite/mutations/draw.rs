//! One change of a volume, drawn from all that could be changed.
use super::fields::{ByteOrder, Field};
use super::places::{Place, Places};
use super::seal::Seal;
use crate::damage::harness::Image;
use extant_format::superblock::Superblock;
use extant_testkit::numbers::Numbers;
use std::collections::BTreeSet;
use std::fmt;

/// A change: bytes that are put somewhere, and the checksums that are stored after it.
#[derive(Clone)]
pub struct Change {
    /// `structure.field`.
    pub name: String,
    puts: Vec<(usize, Vec<u8>)>,
    seals: Vec<Seal>,
    said: String,
}

/// Of so many changes one is of a whole block.
const BLOCKS_ONE_OF: u64 = 20;

/// Whether checksums are stored anew after a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Checksum {
    Sealed,
    Stale,
}

impl Change {
    /// The next change for a volume.
    pub fn draw(numbers: &mut Numbers, image: &Image, places: &Places) -> Change {
        if numbers.below(BLOCKS_ONE_OF) == 0 {
            return Change::draw_block(numbers, image, places);
        }
        // Each kind of structure as often as any other, however many there are of it.
        let kinds: BTreeSet<&str> =
            places.places.iter().map(|place| place.structure.name).collect();
        let kind = pick(numbers, &kinds.into_iter().collect::<Vec<_>>()).copied();
        let of_kind: Vec<&Place> =
            places.places.iter().filter(|place| Some(place.structure.name) == kind).collect();
        let place = *pick(numbers, &of_kind).expect("the kind is one of theirs");
        let field = pick(numbers, place.structure.fields).expect("it has fields");
        let at = place.at + field.at;
        let others: Vec<usize> = of_kind.iter().map(|other| other.at + field.at).collect();
        let (what, value) = value(numbers, image, (place, field), &others);
        let checksum = match numbers.below(4) {
            0 => Checksum::Stale,
            _ => Checksum::Sealed,
        };
        let bytes = match place.structure.order {
            ByteOrder::Little => value.to_le_bytes()[..field.width].to_vec(),
            ByteOrder::Big => value.to_be_bytes()[8 - field.width..].to_vec(),
        };
        let name = format!("{}.{}", place.structure.name.to_lowercase(), field.name);
        let said = format!("{name} at byte {at} = {value:#x} ({what}, {checksum:?})");
        let is_checksum = field.name.starts_with("checksum");
        let seals = match checksum {
            Checksum::Sealed if !is_checksum => vec![place.seal.clone()],
            _ => Vec::new(),
        };
        Change { name, puts: vec![(at, bytes)], seals, said }
    }

    /// A block of metadata is lost, in whole or from its middle on, has the bytes of another, or
    /// changes places with it; with checksums that are right where it is now, or not.
    fn draw_block(numbers: &mut Numbers, image: &Image, places: &Places) -> Change {
        let length = image.block_size();
        let to = *pick(numbers, &places.blocks).expect("it has blocks");
        let from = *pick(numbers, &places.blocks).expect("as before");
        let block = |at: usize| image.bytes[at..at + length].to_vec();
        let half = length / 2;
        let (name, puts) = match numbers.below(5) {
            0 => ("block dropped", vec![(to, vec![0; length])]),
            1 => ("block torn", vec![(to + half, vec![0; half])]),
            2 => ("block torn by another", vec![(to + half, block(from)[half..].to_vec())]),
            3 => ("block repeated", vec![(to, block(from))]),
            _ => ("block swapped", vec![(to, block(from)), (from, block(to))]),
        };
        let checksum = match numbers.below(2) {
            0 => Checksum::Stale,
            _ => Checksum::Sealed,
        };
        let is_changed = |at: usize| puts.iter().any(|(start, _)| start / length == at / length);
        let seals = match checksum {
            Checksum::Sealed => {
                let inside = places.places.iter().filter(|place| is_changed(place.at));
                inside.map(|place| place.seal.clone()).collect()
            }
            Checksum::Stale => Vec::new(),
        };
        let said = format!("{name}: {} of {} ({checksum:?})", to / length, from / length);
        Change { name: name.to_owned(), puts, seals, said }
    }

    /// Makes the change.
    pub fn apply(&self, image: &mut Image, before: &Image, superblock: &Superblock) {
        self.puts.iter().for_each(|(at, bytes)| image.put(*at, bytes));
        self.seals.iter().for_each(|seal| seal.store(image, before, superblock));
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

fn pick<'a, T>(numbers: &mut Numbers, of: &'a [T]) -> Option<&'a T> {
    of.get(numbers.below(of.len() as u64) as usize)
}

/// What a field is set to, and in which way it was chosen.
fn value(
    numbers: &mut Numbers,
    image: &Image,
    (place, field): (&Place, &Field),
    others: &[usize],
) -> (&'static str, u64) {
    let read = |at: usize| {
        let bytes = &image.bytes[at..at + field.width];
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        match place.structure.order {
            ByteOrder::Little => bytes.iter().rev().fold(0, add),
            ByteOrder::Big => bytes.iter().fold(0, add),
        }
    };
    let bits = 8 * field.width as u64;
    let most = u64::MAX >> (64 - bits);
    let now = read(place.at + field.at);
    let (what, value) = match numbers.below(10) {
        0 => ("zero", 0),
        1 => ("one", 1),
        2 => ("most", most),
        3 => ("one more", now.wrapping_add(1)),
        4 => ("one less", now.wrapping_sub(1)),
        5 | 6 => ("a bit", now ^ 1 << numbers.below(bits)),
        7 => ("of another", pick(numbers, others).map_or(0, |at| read(*at))),
        8 => ("small", numbers.below(64)),
        _ => ("any", numbers.draw()),
    };
    (what, value & most)
}
