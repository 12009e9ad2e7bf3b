//! Users and groups of the volume, as those of the host.
//!
//! A map leads from the numbers *inside* the volume to those *outside*, and back. A number that it
//! does not name belongs to no user of the host: the kernel shows it as its overflow number
//! (65534), gives its rights to none, also not to that number's user, and refuses to write such a
//! file.

/// No user of the host: the one number that no user has.
const UNMAPPED: u32 = u32::MAX;

/// Whether a user may do what only the superuser may on Linux: that one, and who has mounted the
/// image. Kernels from 5.13 on have checked most of it; older ones check nothing.
pub(super) fn is_master(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Maps of users and groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identities {
    /// Users.
    pub users: IdMap,
    /// Groups.
    pub groups: IdMap,
}

/// A map of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IdMap {
    /// The same inside and outside.
    #[default]
    Same,
    /// All files are shown with this number. A new file gets the number of its directory.
    All(u32),
    /// Only numbers in these ranges are known. The first range that has a number counts.
    Ranges(Vec<IdRange>),
}

/// Numbers in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    /// The first number in the volume.
    pub inside: u32,
    /// The first number on the host.
    pub outside: u32,
    /// How many numbers.
    pub count: u32,
}

impl IdMap {
    /// The number that the host sees.
    pub(super) fn outside(&self, inside: u32) -> u32 {
        match self {
            IdMap::Same => inside,
            IdMap::All(number) => *number,
            IdMap::Ranges(ranges) => ranges
                .iter()
                .find_map(|range| moved(inside, range.inside, range.outside, range.count))
                .unwrap_or(UNMAPPED),
        }
    }

    /// The number for a file of this user of the host, in a directory of `parent`; `None` if the
    /// map has none.
    pub(super) fn of_new(&self, outside: u32, parent: impl FnOnce() -> Option<u32>) -> Option<u32> {
        match self {
            IdMap::All(_) => parent(),
            _ => self.inside(outside),
        }
    }

    /// The number in the volume; `None` if the map has none.
    pub(super) fn inside(&self, outside: u32) -> Option<u32> {
        match self {
            IdMap::Same => Some(outside),
            IdMap::All(_) => None,
            IdMap::Ranges(ranges) => ranges
                .iter()
                .find_map(|range| moved(outside, range.outside, range.inside, range.count)),
        }
    }
}

/// The number at the same place after `to` that `number` has after `from`.
fn moved(number: u32, from: u32, to: u32, count: u32) -> Option<u32> {
    let place = number.checked_sub(from).filter(|place| *place < count)?;
    to.checked_add(place)
}

/// Tags of an access list's entries with a number.
const USER: u16 = 2;
const GROUP: u16 = 8;
/// Bytes of a list's version, and of an entry: tag, permissions, number.
const VERSION_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;

impl Identities {
    /// Whether nothing is mapped.
    pub(super) fn is_same(&self) -> bool {
        *self == Identities::default()
    }

    /// The value of an access list as the host sees it: without entries of unknown numbers, which
    /// no user of the host can have.
    pub(super) fn list_outside(&self, value: &[u8]) -> Vec<u8> {
        let outside = |map: &IdMap, number| Some(map.outside(number)).filter(|n| *n != UNMAPPED);
        self.map_list(value, outside).0
    }

    /// The value of an access list for the volume; `None` if it names one that the map has not.
    pub(super) fn list_inside(&self, value: &[u8]) -> Option<Vec<u8>> {
        let (list, left_out) = self.map_list(value, IdMap::inside);
        (left_out == 0).then_some(list)
    }

    /// The list with each number mapped, and how many entries were left out because it has none.
    fn map_list(&self, value: &[u8], map: impl Fn(&IdMap, u32) -> Option<u32>) -> (Vec<u8>, usize) {
        let Some((version, entries)) = value.split_at_checked(VERSION_BYTES) else {
            return (value.to_vec(), 0);
        };
        let (mut list, mut left_out) = (version.to_vec(), 0);
        let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
        for entry in entries {
            let [tag_low, tag_high, permissions @ .., n0, n1, n2, n3] = *entry;
            let tag = u16::from_le_bytes([tag_low, tag_high]);
            let ids = match tag {
                USER => &self.users,
                GROUP => &self.groups,
                _ => {
                    list.extend_from_slice(entry);
                    continue;
                }
            };
            match map(ids, u32::from_le_bytes([n0, n1, n2, n3])) {
                None => left_out += 1,
                Some(number) => {
                    list.extend_from_slice(&[tag_low, tag_high]);
                    list.extend_from_slice(&permissions);
                    list.extend_from_slice(&number.to_le_bytes());
                }
            }
        }
        list.extend_from_slice(rest);
        (list, left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::{IdMap, IdRange, Identities};

    #[test]
    fn ranges_lead_both_ways_and_nowhere_else() {
        let ranges = vec![
            IdRange { inside: 0, outside: 1000, count: 1 },
            IdRange { inside: 1, outside: 100_000, count: 65_535 },
        ];
        let map = IdMap::Ranges(ranges);
        for (inside, outside) in [(0, 1000), (1, 100_000), (65_535, 165_534)] {
            assert_eq!(map.outside(inside), outside);
            assert_eq!(map.inside(outside), Some(inside));
        }
        assert_eq!(map.outside(65_536), u32::MAX);
        assert_eq!(map.inside(0), None);
        let top = IdMap::Ranges(vec![IdRange { inside: 0, outside: u32::MAX, count: 2 }]);
        assert_eq!((top.outside(0), top.outside(1)), (u32::MAX, u32::MAX));
    }

    #[test]
    fn one_number_for_all_gives_new_files_the_owner_of_their_directory() {
        let map = IdMap::All(1000);
        assert_eq!(map.outside(0), 1000);
        assert_eq!(map.of_new(1000, || Some(7)), Some(7));
        assert_eq!(IdMap::Same.of_new(1000, || Some(7)), Some(1000));
    }

    #[test]
    fn access_lists_are_mapped_entry_by_entry() {
        let users = IdMap::Ranges(vec![IdRange { inside: 5, outside: 50, count: 1 }]);
        let identities = Identities { users, groups: IdMap::Same };
        let list = [2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 7, 0, 5, 0, 0, 0];
        let outside = identities.list_outside(&list);
        assert_eq!((outside.len(), outside[16]), (list.len(), 50));
        assert_eq!(identities.list_inside(&outside).as_deref(), Some(&list[..]));
        let mut unknown = list;
        unknown[16] = 6;
        assert_eq!(identities.list_outside(&unknown), list[..12]);
        assert_eq!(identities.list_inside(&unknown), None);
        assert_eq!(identities.list_outside(&[1, 2]), [1, 2]);
    }
}
