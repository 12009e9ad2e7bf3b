//! Names of a tree's directories and files: by a pattern, invented, or kept from a listing.
use extant_sim::random;

/// Where names come from. A number says which; for invented ones also whose child it is.
#[derive(Debug)]
pub(super) enum Names {
    /// Each `%d` stands for the number.
    Patterns { directory: String, file: String },
    /// Invented: syllables by the seed, and the number.
    Words { seed: u64 },
    /// End to end, with the end of each.
    Kept(NameList),
}

/// Names end to end.
#[derive(Debug, Default)]
pub(super) struct NameList {
    letters: String,
    ends: Vec<u32>,
}

impl NameList {
    /// Keeps a name; gives its number. `None` when there is no room (4 GiB of names).
    pub(super) fn add(&mut self, name: &str) -> Option<u32> {
        let number = u32::try_from(self.ends.len()).ok()?;
        let end = u32::try_from(self.letters.len().checked_add(name.len())?).ok()?;
        self.letters.push_str(name);
        self.ends.push(end);
        Some(number)
    }

    fn get(&self, number: u32) -> &str {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.letters[start as usize..self.ends[number] as usize]
    }
}

impl Names {
    /// Writes the name of a directory behind `path`.
    pub(super) fn directory(&self, _directory: usize, number: u32, path: &mut String) {
        match self {
            Names::Patterns { directory, .. } => expand(directory, number.into(), path),
            Names::Words { seed } => word(*seed ^ 0xd1, number.into(), path),
            Names::Kept(kept) => path.push_str(kept.get(number)),
        }
    }

    /// Writes the name of a file behind `path`.
    pub(super) fn file(&self, file: usize, number: u32, path: &mut String) {
        match self {
            Names::Patterns { file, .. } => expand(file, number.into(), path),
            Names::Words { seed } => {
                word(seed.wrapping_add(file as u64), number.into(), path);
                path.push_str(if random::mix(*seed ^ file as u64).is_multiple_of(4) {
                    ".h"
                } else {
                    ".c"
                });
            }
            Names::Kept(kept) => path.push_str(kept.get(number)),
        }
    }
}

/// One `%d` is the number; of several, each is one of its last decimal digits. Without any the
/// number is put behind.
fn expand(pattern: &str, number: u64, path: &mut String) {
    let pieces: Vec<&str> = pattern.split("%d").collect();
    let places = pieces.len() - 1;
    for (at, piece) in pieces.iter().enumerate() {
        path.push_str(piece);
        let power = 10u64.checked_pow((places.saturating_sub(at + 1)) as u32);
        match (at < places, places) {
            (true, 1) => path.push_str(&number.to_string()),
            (true, _) => path.push_str(&power.map_or(0, |power| number / power % 10).to_string()),
            (false, 0) => path.push_str(&number.to_string()),
            (false, _) => {}
        }
    }
}

const SYLLABLES: [&str; 16] = [
    "in", "sys", "dev", "net", "buf", "ram", "ext", "tty", "pci", "map", "irq", "lock", "time",
    "serial", "page", "io",
];

/// The number in letters, and two syllables that look like a source file's name. Names sort as
/// their numbers do: an archive of such a tree is in the order of names, as archives are that were
/// made of a sorted listing.
fn word(seed: u64, number: u64, path: &mut String) {
    let bits = random::mix(seed ^ number.wrapping_mul(0x9e37));
    for place in (0..LETTERS).rev() {
        let letter = number / 26u64.pow(place) % 26;
        path.push(char::from(b'a' + letter as u8));
    }
    path.push_str(SYLLABLES[(bits % 16) as usize]);
    path.push_str(SYLLABLES[(bits / 16 % 16) as usize]);
    if number >= 26u64.pow(LETTERS) {
        path.push_str(&number.to_string());
    }
}

/// Letters of a number in a name.
const LETTERS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_of_several_places_has_a_digit_in_each() {
        let name = |pattern: &str, number| {
            let mut name = String::new();
            expand(pattern, number, &mut name);
            name
        };
        assert_eq!(name("file-name-%d-%d-%d-%d", 0), "file-name-0-0-0-0");
        assert_eq!(name("file-name-%d-%d-%d-%d", 999), "file-name-0-9-9-9");
        assert_eq!(name("d%d.x", 123), "d123.x");
        assert_eq!(name("plain", 7), "plain7");
        assert_eq!(name(&"%d".repeat(40), 12).len(), 40);
    }
}
