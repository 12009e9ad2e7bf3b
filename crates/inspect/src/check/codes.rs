//! Every problem that the check knows: one table, one line a code.
use super::problem::{Pass, Repair, Severity};

/// What is known of a code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The code.
    pub code: Code,
    /// Its name, in kebab case: it never changes.
    pub name: &'static str,
    /// Which pass finds it.
    pub pass: Pass,
    /// How much it matters.
    pub severity: Severity,
    /// What is told of it. Blanks: `{group} {ino} {file_block} {block} {name} {other} {found} {expected}`.
    pub sentence: &'static str,
    /// What a repair would do.
    pub repair: Repair,
}

macro_rules! codes {
    ($($code:ident, $name:literal, $pass:ident, $severity:ident, $sentence:literal, $repair:ident;)*) => {
        /// What can be wrong, one variant a fact. Within a pass and a place, problems are told in this order.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Code {
            $(#[doc = $sentence] $code,)*
        }

        /// All codes, in the order of the enum.
        pub static CODES: &[Rule] = &[
            $(Rule {
                code: Code::$code,
                name: $name,
                pass: Pass::$pass,
                severity: Severity::$severity,
                sentence: $sentence,
                repair: Repair::$repair,
            },)*
        ];
    };
}

impl Code {
    /// What is known of it.
    pub fn rule(self) -> &'static Rule {
        &CODES[self as usize]
    }
}

codes! {
    // The superblock, its copies, features.
    SuperblockUnusable, "superblock-unusable", Volume, Fatal,
        "no superblock that can be used was found, neither the first nor a copy", None;
    SuperblockDamaged, "superblock-damaged", Volume, Error,
        "the first superblock cannot be used; the copy in block {block} is", RewriteSuperblock;
    // Groups.
    // The journal.
    // Inodes and maps.
    // Attributes.
    // Duplicates.
    // Directories.
    // The index.
    // Connectivity and links.
    // Bitmaps and counters.
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_finds_its_rule_and_names_are_unique() {
        let mut names = std::collections::BTreeSet::new();
        for (index, rule) in CODES.iter().enumerate() {
            assert_eq!(rule.code as usize, index);
            assert!(names.insert(rule.name), "{} stands twice", rule.name);
            assert!(
                rule.name
                    .bytes()
                    .all(|byte| byte == b'-' || byte.is_ascii_lowercase() || byte.is_ascii_digit())
            );
        }
    }
}
