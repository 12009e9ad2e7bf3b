//! Names that know no case (casefold): what of a name is compared and hashed.
//!
//! ```text
//! name in UTF-8 | without ignorable code points | full case folding (C+F) | NFD | folded name
//! ```
//!
//! A name that is not UTF-8 is not folded: its bytes are compared. The tables of Linux are those of
//! Unicode 12.1, and a code point that it does not know stays as it is. Of what it knows, folding
//! and decomposition are the same in all later versions, so the tables of newer crates serve.
mod assigned;

use crate::hash::{Hasher, NameHash};
use assigned::is_assigned;
use caseless::Caseless;
use std::borrow::Cow;
use std::ops::RangeInclusive;
use unicode_normalization::UnicodeNormalization;

/// Default_Ignorable_Code_Point of DerivedCoreProperties.txt, Unicode 12.1.
const IGNORABLE: [RangeInclusive<char>; 17] = [
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{61c}'..='\u{61c}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180e}',
    '\u{200b}'..='\u{200f}',
    '\u{202a}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{3164}'..='\u{3164}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fff8}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e0fff}',
];

fn is_ignorable(character: char) -> bool {
    IGNORABLE.iter().any(|range| range.contains(&character))
}

/// The folded form of a name, the same for all names that differ only in case, in how letters are
/// composed, or in what is ignorable; the name itself where it is not folded.
pub fn folded(name: &[u8]) -> Cow<'_, [u8]> {
    if name.is_ascii() {
        return match name.iter().any(u8::is_ascii_uppercase) {
            true => Cow::Owned(name.to_ascii_lowercase()),
            false => Cow::Borrowed(name),
        };
    }
    let Ok(text) = std::str::from_utf8(name) else { return Cow::Borrowed(name) };
    let kept: Vec<char> = text.chars().filter(|character| !is_ignorable(*character)).collect();
    let mut folded = String::with_capacity(text.len());
    for part in kept.chunk_by(|one, other| is_assigned(*one) == is_assigned(*other)) {
        let characters = part.iter().copied();
        match part.first().is_some_and(|character| is_assigned(*character)) {
            true => folded.extend(characters.default_case_fold().nfd()),
            false => folded.extend(characters),
        }
    }
    Cow::Owned(folded.into_bytes())
}

/// Whether two names are the same where names know no case.
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    one == other || folded(one) == folded(other)
}

impl Hasher {
    /// Hashes a name of a directory whose names know no case.
    pub fn hash_folded(&self, name: &[u8]) -> NameHash {
        self.hash(&folded(name))
    }
}
