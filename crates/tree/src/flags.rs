//! Flags as chattr sets them, in the words that archives have for them: those of libarchive, and of
//! our own where it has none. Readers pass over words that they do not know.
use extant_format::inode::flags;

/// All flags that chattr sets, but for those that say how a file is stored.
pub const SETTABLE: u32 = {
    let (mut all, mut at) = (0, 0);
    while at < WORDS.len() {
        all |= WORDS[at].2;
        at += 1;
    }
    all
};

/// The word that sets a flag and the one that takes it away. The first ones are written.
const WORDS: [(&str, &str, u32); 20] = [
    ("sappnd", "nosappnd", flags::APPEND),
    ("sappend", "nosappend", flags::APPEND),
    ("schg", "noschg", flags::IMMUTABLE),
    ("schange", "noschange", flags::IMMUTABLE),
    ("simmutable", "nosimmutable", flags::IMMUTABLE),
    ("nodump", "dump", flags::NODUMP),
    ("undel", "noundel", flags::UNDELETE),
    ("compress", "nocompress", flags::COMPRESS),
    ("noatime", "atime", flags::NOATIME),
    ("dirsync", "nodirsync", flags::DIRECTORY_SYNC),
    ("journal-data", "nojournal-data", flags::JOURNALED_DATA),
    ("journal", "nojournal", flags::JOURNALED_DATA),
    ("secdel", "nosecdel", flags::SECURE_DELETION),
    ("securedeletion", "nosecuredeletion", flags::SECURE_DELETION),
    ("sync", "nosync", flags::SYNC),
    ("notail", "tail", flags::NO_TAIL_MERGING),
    ("topdir", "notopdir", flags::TOP_DIRECTORY),
    ("nocow", "cow", flags::NO_COPY_ON_WRITE),
    ("projinherit", "noprojinherit", flags::PROJECT_INHERIT),
    ("casefold", "nocasefold", flags::CASEFOLDED),
];

/// Flags that were read from text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TextFlags {
    /// Those that the words set.
    pub flags: u32,
    /// The words that are none of ours, such as those of BSD for flags that ext does not have.
    pub unknown: Vec<String>,
}

/// Reads words that commas or blanks separate.
pub fn from_text(text: &[u8]) -> TextFlags {
    let mut read = TextFlags::default();
    let is_between = |byte: &u8| matches!(byte, b',' | b' ' | b'\t');
    for word in text.split(is_between).filter(|word| !word.is_empty()) {
        let of = |wanted: fn(&(&'static str, &'static str, u32)) -> &'static str| {
            WORDS.iter().find(move |row| wanted(row).as_bytes() == word).map(|row| row.2)
        };
        match (of(|row| row.0), of(|row| row.1)) {
            (Some(flag), _) => read.flags |= flag,
            (None, Some(flag)) => read.flags &= !flag,
            (None, None) => read.unknown.push(String::from_utf8_lossy(word).into_owned()),
        }
    }
    read
}

/// The words for flags; empty for none that chattr sets.
pub fn to_text(flags: u32) -> String {
    let (mut words, mut left) = (Vec::new(), flags);
    for (word, _, flag) in WORDS {
        if left & flag != 0 {
            words.push(word);
            left &= !flag;
        }
    }
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_libarchive() {
        assert_eq!(to_text(flags::IMMUTABLE | flags::NODUMP | flags::EXTENTS), "schg,nodump");
        assert_eq!(from_text(b"schg, nodump\tsimmutable").flags, flags::IMMUTABLE | flags::NODUMP);
        assert_eq!(from_text(b"noatime,atime,nosappnd").flags, 0);
        let read = from_text(b"uchg,dirsync,,arch");
        assert_eq!(
            (read.flags, read.unknown),
            (flags::DIRECTORY_SYNC, vec!["uchg".into(), "arch".into()])
        );
        for (word, _, flag) in WORDS {
            assert_eq!(from_text(word.as_bytes()).flags, flag, "{word}");
            assert_eq!(from_text(to_text(flag).as_bytes()).flags, flag, "{word}");
        }
        assert_eq!(from_text(to_text(u32::MAX).as_bytes()).flags, SETTABLE);
    }
}
