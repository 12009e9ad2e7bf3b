//! In which order the entries of trees that are put onto a volume at once get their inodes: as the
//! years and the placement of directories leave them.
//!
//! Scattered trees come first, all their entries by chance, then trees in their own order, then
//! those that grew directory by directory, all directories by chance: one inode after the other.
//!
//! What follows is what Orlov's rules keep together. A tree begins in a group by chance, as
//! directories at the top do, and a directory stays in its parent's group until that has a quarter
//! of its inodes less free than the average: so as many inodes of a tree are in one group, then
//! the next group follows. Directories of one part were made at different times, so they are
//! anywhere in the group's table, each with its files in a row; or its files are anywhere too, for
//! updates replace files one by one, and a new file takes any free inode of its directory's group.
//! Each row was made by another process.
use super::step::InodeOrder;
use super::tree::{Entry, Tree};
use extant_format::Ino;
use extant_sim::random::Random;

/// A tree, the files of each of its directories, and which inodes it gets.
pub(super) struct Source<'a> {
    pub(super) tree: &'a Tree,
    pub(super) within: &'a [Vec<u32>],
    pub(super) inodes: InodeOrder,
}

/// Something that needs an inode: in which tree, and what.
#[derive(Clone, Copy)]
pub(super) struct Object {
    pub(super) tree: u32,
    pub(super) entry: Entry,
}

/// What Orlov's rules keep of a tree in one group before they look for another: a share of the
/// group's inodes.
const PART_OF_GROUP: u32 = 4;
/// Numbers of processes begin again after as many.
const PROCESSES: u64 = 32_768;

/// An object with its inode, and the process that made it, where that is not this one.
#[derive(Clone, Copy)]
pub(super) struct Numbered {
    pub(super) ino: Ino,
    pub(super) object: Object,
    pub(super) process: Option<u32>,
}

/// The inodes of a volume.
#[derive(Clone, Copy)]
pub(super) struct Inodes {
    /// The first free one.
    pub(super) first: Ino,
    pub(super) per_group: u32,
    pub(super) groups: u32,
}

/// Everything that needs an inode, with its number, which rises.
///
/// # Errors
/// There are not as many inodes.
pub(super) fn order(
    sources: &[Source<'_>],
    inodes: Inodes,
    random: &mut Random,
) -> Result<Vec<Numbered>, String> {
    let dense = dense(sources, random);
    let numbered = (u64::from(inodes.first.0)..).zip(dense);
    let mut order = Vec::new();
    for (number, object) in numbered {
        let ino = u32::try_from(number).map(Ino).map_err(|_| NO_INODES)?;
        order.push(Numbered { ino, object, process: None });
    }
    let after = order.last().map_or(inodes.first.0 - 1, |last| last.ino.0);
    order.extend(near_parents(sources, inodes, after, random)?);
    Ok(order)
}

const NO_INODES: &str = "the trees have more entries than the volume has inodes";

/// What is numbered without a gap.
fn dense(sources: &[Source<'_>], random: &mut Random) -> Vec<Object> {
    let objects = |inodes: InodeOrder| {
        let trees = sources.iter().enumerate().filter(move |(_, source)| source.inodes == inodes);
        trees.flat_map(|(number, source)| {
            let top = std::iter::once(Entry::Directory(0));
            let object = move |entry| Object { tree: number as u32, entry };
            top.chain(source.tree.entries()).map(object)
        })
    };
    let mut order: Vec<Object> = objects(InodeOrder::Scattered).collect();
    random.shuffle(&mut order);
    order.extend(objects(InodeOrder::InOrder));
    let mut grown = directories(objects(InodeOrder::ByDirectory));
    random.shuffle(&mut grown);
    for object in grown {
        order.push(object);
        order.extend(files(sources, object));
    }
    order
}

fn directories(objects: impl Iterator<Item = Object>) -> Vec<Object> {
    objects.filter(|object| matches!(object.entry, Entry::Directory(_))).collect()
}

fn files<'a>(sources: &'a [Source<'_>], directory: Object) -> impl Iterator<Item = Object> + 'a {
    let within = match directory.entry {
        Entry::Directory(number) => sources[directory.tree as usize].within[number].as_slice(),
        Entry::File(_) => &[],
    };
    within.iter().map(move |file| Object { entry: Entry::File(*file as usize), ..directory })
}

/// Objects with inodes in a row, in a group.
struct Row {
    group: u32,
    objects: Vec<Object>,
}

/// Those of trees near their parents, in the groups after inode `after`.
fn near_parents(
    sources: &[Source<'_>],
    inodes: Inodes,
    after: u32,
    random: &mut Random,
) -> Result<Vec<Numbered>, String> {
    let is_near = |inodes| matches!(inodes, InodeOrder::NearParents | InodeOrder::InGroup);
    let near = sources.iter().enumerate().filter(|(_, source)| is_near(source.inodes));
    // The first group has the root, and perhaps what is numbered without a gap.
    let first = after.div_ceil(inodes.per_group.max(1));
    let groups = inodes.groups.saturating_sub(first);
    let mut used = vec![0; groups as usize];
    let mut rows: Vec<Row> = Vec::new();
    for (number, source) in near {
        let top = std::iter::once(Entry::Directory(0));
        let all = top.chain(source.tree.entries());
        let objects = all.map(|entry| Object { tree: number as u32, entry });
        let (mut group, mut part) = (random.below(u64::from(groups).max(1)) as u32, 0);
        for directory in directories(objects) {
            let own: Vec<Object> =
                std::iter::once(directory).chain(files(sources, directory)).collect();
            let count = u32::try_from(own.len()).map_err(|_| NO_INODES)?;
            if part >= inodes.per_group / PART_OF_GROUP {
                (group, part) = ((group + 1) % groups.max(1), 0);
            }
            group = with_room(&used, group, count, inodes.per_group)?;
            used[group as usize] += count;
            part += count;
            match source.inodes {
                InodeOrder::InGroup => {
                    rows.extend(own.into_iter().map(|one| Row { group, objects: vec![one] }));
                }
                _ => rows.push(Row { group, objects: own }),
            }
        }
    }
    random.shuffle(&mut rows);
    rows.sort_by_key(|row| row.group);
    let starts = rows.chunk_by(|one, other| one.group == other.group);
    let mut placed = Vec::new();
    for rows in starts {
        placed.extend(in_group(rows, first, inodes.per_group, random)?);
    }
    Ok(placed)
}

/// The first group from this one on that has room for as many more inodes.
fn with_room(used: &[u32], from: u32, count: u32, per_group: u32) -> Result<u32, String> {
    let groups = used.len() as u32;
    let mut all = (0..groups).map(|step| (from + step) % groups);
    let room = |group: &u32| per_group - used[*group as usize] >= count;
    let none = || format!("no group has {count} free inodes for a directory with its files");
    all.find(room).ok_or_else(none)
}

/// The rows of one group over its table, with the gaps between them by chance.
fn in_group(
    rows: &[Row],
    first: u32,
    per_group: u32,
    random: &mut Random,
) -> Result<Vec<Numbered>, String> {
    let taken: usize = rows.iter().map(|row| row.objects.len()).sum();
    let free = u64::from(per_group).saturating_sub(taken as u64);
    let mut gaps: Vec<u64> = rows.iter().map(|_| random.below(free + 1)).collect();
    gaps.sort_unstable();
    let mut placed = Vec::with_capacity(taken);
    for (row, gap) in rows.iter().zip(gaps) {
        let start = u64::from(first + row.group) * u64::from(per_group) + gap + 1;
        let process = Some(random.below(PROCESSES) as u32);
        for object in &row.objects {
            let number = start + placed.len() as u64;
            let ino = u32::try_from(number).map(Ino).map_err(|_| NO_INODES)?;
            placed.push(Numbered { ino, object: *object, process });
        }
    }
    Ok(placed)
}

#[cfg(test)]
mod tests {
    use super::super::tree::{SourceRule, TreeSpec};
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    const SPARSE: [InodeOrder; 2] = [InodeOrder::NearParents, InodeOrder::InGroup];
    const ALL: [InodeOrder; 5] = [
        InodeOrder::InOrder,
        InodeOrder::ByDirectory,
        InodeOrder::NearParents,
        InodeOrder::InGroup,
        InodeOrder::Scattered,
    ];
    const ROOMY: Inodes = Inodes { first: Ino(12), per_group: 256, groups: 24 };

    fn tree(files: u64) -> Arc<Tree> {
        let rule =
            SourceRule { files, directories: 60, empty: 0, bytes: files * 100, blocks: None };
        TreeSpec::Source(rule).build(1, 1).unwrap()
    }

    fn within(tree: &Tree) -> Vec<Vec<u32>> {
        let mut within = vec![Vec::new(); tree.totals().directories as usize + 1];
        for entry in tree.entries() {
            if let Entry::File(file) = entry {
                within[tree.directory_of(file)].push(file as u32);
            }
        }
        within
    }

    /// The order of one tree for each of `orders`.
    fn numbered(orders: &[InodeOrder], inodes: Inodes, seed: u64) -> Result<Vec<Numbered>, String> {
        let tree = tree(600);
        let within = within(&tree);
        let sources: Vec<Source> = orders
            .iter()
            .map(|inodes| Source { tree: &tree, within: &within, inodes: *inodes })
            .collect();
        order(&sources, inodes, &mut Random::for_part(seed, "test"))
    }

    fn refusal(orders: &[InodeOrder], inodes: Inodes) -> String {
        numbered(orders, inodes, 1).err().unwrap()
    }

    fn group(ino: Ino) -> u32 {
        (ino.0 - 1) / ROOMY.per_group
    }

    #[test]
    fn everything_gets_a_number_and_numbers_rise() {
        for orders in [&ALL[..], &ALL[2..3], &ALL[3..4]] {
            let numbered = numbered(orders, ROOMY, 1).unwrap();
            // 600 files, 60 directories, and the one that the tree is put at.
            assert_eq!(numbered.len(), 661 * orders.len(), "{orders:?}");
            assert!(numbered.is_sorted_by(|one, other| one.ino < other.ino), "{orders:?}");
            let last = ROOMY.per_group * ROOMY.groups;
            assert!(numbered.iter().all(|one| (12..=last).contains(&one.ino.0)), "{orders:?}");
            let objects: BTreeSet<(u32, bool, usize)> = numbered
                .iter()
                .map(|one| match one.object.entry {
                    Entry::Directory(number) => (one.object.tree, true, number),
                    Entry::File(number) => (one.object.tree, false, number),
                })
                .collect();
            assert_eq!(objects.len(), numbered.len(), "{orders:?}");
        }
    }

    /// Files are in the group of their directory, in a row after it or anywhere; a group has about
    /// a quarter of its inodes from one part of a tree, and each row another process.
    #[test]
    fn what_is_near_its_parent_is_in_its_group() {
        let tree = tree(600);
        for sparse in SPARSE {
            let numbered = numbered(&[sparse], ROOMY, 1).unwrap();
            let mut directories = vec![Ino(0); 61];
            for one in &numbered {
                if let Entry::Directory(number) = one.object.entry {
                    directories[number] = one.ino;
                }
            }
            let mut beside = 0;
            for one in &numbered {
                if let Entry::File(file) = one.object.entry {
                    let directory = directories[tree.directory_of(file)];
                    assert_eq!(group(one.ino), group(directory), "{sparse:?}");
                    let files = &within(&tree)[tree.directory_of(file)];
                    let place =
                        files.iter().position(|other| *other == file as u32).unwrap() as u32;
                    beside += u32::from(one.ino.0 == directory.0 + 1 + place);
                }
            }
            assert_eq!(beside == 600, sparse == InodeOrder::NearParents, "{beside}");
            let groups: BTreeSet<u32> = numbered.iter().map(|one| group(one.ino)).collect();
            assert!((5..=11).contains(&groups.len()), "{sparse:?}: {groups:?}");
            let processes: BTreeSet<u32> = numbered.iter().filter_map(|one| one.process).collect();
            let rows = if sparse == InodeOrder::NearParents { 61 } else { 661 };
            assert!(processes.len() > rows * 9 / 10 && processes.len() <= rows);
        }
    }

    #[test]
    fn a_seed_decides_it() {
        let inos = |seed| -> Vec<(u32, Option<u32>)> {
            let numbered = numbered(&ALL, ROOMY, seed).unwrap();
            numbered.iter().map(|one| (one.ino.0, one.process)).collect()
        };
        assert_eq!(inos(1), inos(1));
        assert_ne!(inos(1), inos(2));
    }

    /// What is numbered without a gap has the groups before, to the end of that in which it ends.
    #[test]
    fn what_has_gaps_begins_in_a_group_of_its_own() {
        let numbered = numbered(&[InodeOrder::InOrder, InodeOrder::InGroup], ROOMY, 1).unwrap();
        let of = |tree| numbered.iter().filter(move |one| one.object.tree == tree);
        let last = of(0).map(|one| group(one.ino)).max().unwrap();
        let first = of(1).map(|one| group(one.ino)).min().unwrap();
        assert!(last < first, "{last} {first}");
        assert!(of(0).all(|one| one.process.is_none()) && of(1).all(|one| one.process.is_some()));
    }

    #[test]
    fn a_volume_without_room_is_refused() {
        for sparse in SPARSE {
            for groups in [0, 1, 2] {
                let refused = refusal(&[sparse], Inodes { groups, ..ROOMY });
                assert!(
                    refused.contains("free inodes for a directory with its files"),
                    "{refused}"
                );
            }
        }
        let inodes = Inodes { first: Ino(u32::MAX - 100), ..ROOMY };
        let refused = refusal(&[InodeOrder::InOrder], inodes);
        assert_eq!(refused, NO_INODES);
    }
}
