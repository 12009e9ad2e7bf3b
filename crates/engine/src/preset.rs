//! The tables of policies and presets; what `--list` prints. One static table a trait.
//!
//! A preset is a row: one policy of each kind. Its columns can be overridden, so that one change can be looked at alone:
//!
//! ```
//! use extant_engine::preset::Policies;
//! let policies: Policies = "modern,allocation=ext2-goal".parse().unwrap();
//! assert_eq!((policies.names.placement, policies.names.allocation), ("flex", "ext2-goal"));
//! let error = "modern,allocation=best".parse::<Policies>().err().unwrap();
//! assert_eq!(error.to_string(), "unknown allocation \"best\": known are ext2-goal, multi-block, packed");
//! ```
use crate::allocation::{self, Allocation, packed_from};
use crate::placement::{self, Placement};
use extant_format::BlockNo;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A policy as a table knows it.
pub struct Policy<T: ?Sized> {
    /// What it is called on command lines and in reports.
    pub name: &'static str,
    /// One line about it, with its source.
    pub line: &'static str,
    /// Makes one. A policy with a cursor is made anew for each volume.
    pub make: fn() -> Arc<T>,
}

/// All placements.
pub static PLACEMENTS: &[Policy<dyn Placement>] = &[
    Policy {
        name: "spread",
        line: "directories where most blocks are free (ext2 up to Linux 2.4; post of 2001)",
        make: || Arc::new(placement::Spread),
    },
    Policy {
        name: "parent",
        line: "directories like files, in the parent's group (the change tried in the post of 2001)",
        make: || Arc::new(placement::Parent),
    },
    Policy {
        name: "orlov",
        line: "directories near their parent unless crowded, those at the top spread (Linux 2.5.46 and later)",
        make: || Arc::new(placement::Orlov),
    },
    Policy {
        name: "flex",
        line: "orlov with flex groups as the unit, inodes packed in front (ext4, Linux 2.6.28 and later)",
        make: || Arc::new(placement::Flex),
    },
    Policy {
        name: "packed",
        line: "the first group with a free inode (for images made in one go)",
        make: || Arc::new(placement::Packed),
    },
];

/// All allocations.
pub static ALLOCATIONS: &[Policy<dyn Allocation>] = &[
    Policy {
        name: "ext2-goal",
        line: "next to the last block, by goal and free byte, 8 preallocated (ext2 of Linux 2.4; post of 2001)",
        make: || Arc::new(allocation::Ext2Goal),
    },
    Policy {
        name: "multi-block",
        line: "long runs at write-back, file data apart from directories (ext4, Linux 2.6.28 and later)",
        make: || Arc::new(allocation::MultiBlock),
    },
    Policy {
        name: "packed",
        line: "one block behind the other as they are asked for (for images made in one go)",
        make: || Arc::new(packed_from(BlockNo(0), BlockNo(0))),
    },
];

/// One policy of each kind, under one name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preset {
    /// What it is called.
    pub name: &'static str,
    /// One line about it.
    pub line: &'static str,
    /// Its placement, by name.
    pub placement: &'static str,
    /// Its allocation, by name.
    pub allocation: &'static str,
}

/// All presets.
pub static PRESETS: &[Preset] = &[
    Preset {
        name: "linux-2.4",
        line: "ext2 of 2001",
        placement: "spread",
        allocation: "ext2-goal",
    },
    // Its allocation was that with reservation windows from 2.6.10 on.
    Preset {
        name: "linux-2.6",
        line: "ext2 and ext3 of 2003",
        placement: "orlov",
        allocation: "ext2-goal",
    },
    Preset {
        name: "modern",
        line: "ext4 as it is today",
        placement: "flex",
        allocation: "multi-block",
    },
    Preset {
        name: "packed",
        line: "images made in one go",
        placement: "packed",
        allocation: "packed",
    },
];

/// The preset that stands where none is named.
pub const DEFAULT_PRESET: &str = "modern";

/// Which policies were chosen, by name: for reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Names {
    /// The row.
    pub preset: &'static str,
    /// The placement, perhaps another than the row's.
    pub placement: &'static str,
    /// The allocation, perhaps another than the row's.
    pub allocation: &'static str,
}

/// The policies of one volume. Parsed from `PRESET[,placement=NAME][,allocation=NAME]`; without a preset from
/// [`DEFAULT_PRESET`].
#[derive(Clone)]
pub struct Policies {
    /// Where inodes go.
    pub placement: Arc<dyn Placement>,
    /// Where blocks go.
    pub allocation: Arc<dyn Allocation>,
    /// What they are called.
    pub names: Names,
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.names.fmt(f)
    }
}

/// Why words do not name policies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PresetError {
    /// A name that is in no table.
    Unknown {
        /// What was to be named: "preset".
        what: &'static str,
        /// The name.
        name: String,
        /// The names that there are.
        known: Vec<&'static str>,
    },
    /// The same column twice.
    Twice(&'static str),
}

impl fmt::Display for PresetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PresetError::Unknown { what, name, known } => {
                write!(f, "unknown {what} {name:?}: known are {}", known.join(", "))
            }
            PresetError::Twice(what) => write!(f, "{what} is given twice"),
        }
    }
}
impl std::error::Error for PresetError {}

fn find<T>(
    what: &'static str,
    name: &str,
    table: &'static [T],
    name_of: fn(&T) -> &'static str,
) -> Result<&'static T, PresetError> {
    let unknown = || {
        let known = table.iter().map(name_of).collect();
        PresetError::Unknown {
            what,
            name: name.to_owned(),
            known,
        }
    };
    table.iter().find(|entry| name_of(entry) == name).ok_or_else(unknown)
}

/// The preset of that name.
///
/// # Errors
/// [`PresetError::Unknown`].
pub fn preset(name: &str) -> Result<&'static Preset, PresetError> {
    find("preset", name, PRESETS, |preset| preset.name)
}

fn placement(name: &str) -> Result<&'static Policy<dyn Placement>, PresetError> {
    find("placement", name, PLACEMENTS, |policy| policy.name)
}

fn allocation(name: &str) -> Result<&'static Policy<dyn Allocation>, PresetError> {
    find("allocation", name, ALLOCATIONS, |policy| policy.name)
}

/// Puts a value in, once.
fn choose<T>(column: &mut Option<T>, what: &'static str, value: T) -> Result<(), PresetError> {
    match column.replace(value) {
        Some(_) => Err(PresetError::Twice(what)),
        None => Ok(()),
    }
}

impl FromStr for Policies {
    type Err = PresetError;

    fn from_str(words: &str) -> Result<Policies, PresetError> {
        let (mut row, mut place, mut allocate) = (None, None, None);
        for word in words.split(',') {
            match word.split_once('=') {
                None => choose(&mut row, "preset", preset(word)?)?,
                Some(("preset", name)) => choose(&mut row, "preset", preset(name)?)?,
                Some(("placement", name)) => choose(&mut place, "placement", placement(name)?)?,
                Some(("allocation", name)) => choose(&mut allocate, "allocation", allocation(name)?)?,
                Some((column, _)) => {
                    let known = vec!["preset", "placement", "allocation"];
                    return Err(PresetError::Unknown {
                        what: "column",
                        name: column.to_owned(),
                        known,
                    });
                }
            }
        }
        let row = row.map_or_else(|| preset(DEFAULT_PRESET), Ok)?;
        let place = place.map_or_else(|| placement(row.placement), Ok)?;
        let allocate = allocate.map_or_else(|| allocation(row.allocation), Ok)?;
        Ok(Policies {
            placement: (place.make)(),
            allocation: (allocate.make)(),
            names: Names {
                preset: row.name,
                placement: place.name,
                allocation: allocate.name,
            },
        })
    }
}

/// The words that give these policies again.
impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.preset)?;
        let row = preset(self.preset).ok();
        if row.is_none_or(|row| row.placement != self.placement) {
            write!(f, ",placement={}", self.placement)?;
        }
        if row.is_none_or(|row| row.allocation != self.allocation) {
            write!(f, ",allocation={}", self.allocation)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_resolves_and_every_name_stands_once() {
        for row in PRESETS {
            let policies: Policies = row.name.parse().unwrap();
            let names = Names {
                preset: row.name,
                placement: row.placement,
                allocation: row.allocation,
            };
            assert_eq!(policies.names, names);
            assert_eq!(names.to_string(), row.name);
        }
        let names = |all: Vec<&'static str>| {
            let count = all.len();
            let distinct: std::collections::BTreeSet<_> = all.into_iter().collect();
            assert_eq!(distinct.len(), count);
        };
        names(PRESETS.iter().map(|row| row.name).collect());
        names(PLACEMENTS.iter().map(|policy| policy.name).collect());
        names(ALLOCATIONS.iter().map(|policy| policy.name).collect());
    }

    #[test]
    fn every_pair_of_policies_can_be_named_and_named_again() {
        for place in PLACEMENTS {
            for allocate in ALLOCATIONS {
                let words = format!("placement={},allocation={}", place.name, allocate.name);
                let names = words.parse::<Policies>().unwrap().names;
                assert_eq!(
                    (names.preset, names.placement, names.allocation),
                    ("modern", place.name, allocate.name)
                );
                assert_eq!(names.to_string().parse::<Policies>().unwrap().names, names);
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_is_known() {
        let told = |words: &str| words.parse::<Policies>().err().unwrap().to_string();
        assert_eq!(
            told("linux"),
            "unknown preset \"linux\": known are linux-2.4, linux-2.6, modern, packed"
        );
        assert_eq!(
            told(""),
            "unknown preset \"\": known are linux-2.4, linux-2.6, modern, packed"
        );
        assert_eq!(
            told("modern,placement="),
            "unknown placement \"\": known are spread, parent, orlov, flex, packed"
        );
        assert_eq!(
            told("elevator=noop"),
            "unknown column \"elevator\": known are preset, placement, allocation"
        );
        assert_eq!(told("modern,packed"), "preset is given twice");
        assert_eq!(told("allocation=packed,allocation=packed"), "allocation is given twice");
    }
}
