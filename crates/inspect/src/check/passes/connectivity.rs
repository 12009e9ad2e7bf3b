//! Pass 3: whether every directory is reached from the root, and knows its parent.
//!
//! *Invariants*: each directory is walked through once, so loops end.
//! *Locking*: none.
use super::directories::Tree;
use crate::check::codes::Code;
use crate::check::facts::Facts;
use crate::check::problem::Problem;
use crate::check::rule::Pass;
use extant_format::Ino;

/// Judges what pass 2 left, unless parts of directories could not be read there: then names are
/// missing that may be in them.
pub(crate) fn run(facts: &Facts, tree: &Tree) {
    facts.begin(Pass::Connectivity, 0);
    if facts.problems.count(Code::DirectoryChain) > 0 {
        return;
    }
    let root = facts.inodes.get(Ino::ROOT);
    if !root.is_used() {
        facts.report(Problem::new(Code::RootMissing).ino(Ino::ROOT));
        return;
    }
    if !root.is_directory() {
        facts.report(Problem::new(Code::RootNotDirectory).ino(Ino::ROOT));
        return;
    }
    parents(facts, tree);
    for ino in cut_off(tree) {
        let problem = Problem::new(Code::DirectoryUnreachable).ino(ino);
        facts.report(problem.other(tree.dotdot(ino)));
    }
}

/// Judges `..` of all directories that have a place in the tree.
fn parents(facts: &Facts, tree: &Tree) {
    for &ino in tree.inodes() {
        let parent = match ino {
            Ino::ROOT => Some(Ino::ROOT),
            _ => tree.parent(ino),
        };
        let dotdot = tree.dotdot(ino);
        if let Some(parent) = parent.filter(|parent| *parent != dotdot) {
            let problem = Problem::new(Code::DotDotWrong).ino(ino);
            facts.report(problem.found(dotdot.0).expected(parent.0));
        }
    }
}

/// How far a directory is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Unknown,
    /// On the way up from the directory with this number.
    Walked(u32),
    Done,
}

/// The uppermost directory of each part that hangs on nothing; of a loop, the one with the lowest
/// number.
fn cut_off(tree: &Tree) -> Vec<Ino> {
    let inodes = tree.inodes();
    let mut marks = vec![Mark::Unknown; inodes.len()];
    let mut tops = Vec::new();
    for (walk, &start) in (0_u32..).zip(inodes) {
        let (mut ino, mut path) = (start, Vec::new());
        while let Ok(at) = inodes.binary_search(&ino) {
            match marks.get(at) {
                Some(Mark::Walked(number)) if *number == walk => {
                    // The loop is what was walked since this directory.
                    let first = path.iter().position(|&before| before == at).unwrap_or(0);
                    let lowest = path.get(first..).unwrap_or_default().iter().min();
                    tops.extend(lowest.and_then(|at| inodes.get(*at)));
                    break;
                }
                Some(Mark::Unknown) => {}
                _ => break,
            }
            path.push(at);
            if let Some(mark) = marks.get_mut(at) {
                *mark = Mark::Walked(walk);
            }
            if ino == Ino::ROOT {
                break;
            }
            match tree.parent(ino) {
                Some(parent) => ino = parent,
                None => {
                    tops.push(ino);
                    break;
                }
            }
        }
        for at in path {
            if let Some(mark) = marks.get_mut(at) {
                *mark = Mark::Done;
            }
        }
    }
    tops
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::facts::DirectoryBlock;
    use extant_format::BlockNo;

    /// A tree of directories with one block each; pairs of directory and parent.
    fn tree(inodes: &[u32], parents: &[(u32, u32)]) -> Tree {
        let block = |&ino: &u32| DirectoryBlock {
            block: BlockNo(100 + u64::from(ino)),
            ino: Ino(ino),
            file_block: 0,
            generation: 0,
        };
        let all: Vec<Ino> = inodes.iter().copied().map(Ino).collect();
        let blocks = inodes.iter().map(block).collect();
        let tree = Tree::new(all.clone(), Vec::new(), blocks);
        for (ino, parent) in parents {
            let at = all.binary_search(&Ino(*parent)).unwrap();
            tree.add_entry(Ino(*ino), tree.place_of_block(at));
        }
        tree
    }

    #[test]
    fn only_the_top_of_what_is_cut_off_is_reported() {
        let whole = tree(&[2, 11, 12, 13], &[(11, 2), (12, 11), (13, 12)]);
        assert_eq!(cut_off(&whole), []);
        let cut = tree(&[2, 11, 12, 13, 14], &[(11, 2), (13, 12), (14, 13)]);
        assert_eq!(cut_off(&cut), [Ino(12)]);
    }

    #[test]
    fn a_loop_is_reported_once_and_ends() {
        let ring = tree(&[2, 11, 12, 13, 14], &[(11, 13), (12, 11), (13, 12), (14, 12)]);
        assert_eq!(cut_off(&ring), [Ino(11)]);
        let own = tree(&[2, 11], &[(11, 11)]);
        assert_eq!(cut_off(&own), [Ino(11)]);
        let two = tree(&[2, 11, 12, 13, 14], &[(11, 12), (12, 11), (13, 14), (14, 13)]);
        assert_eq!(cut_off(&two), [Ino(11), Ino(13)]);
    }

    #[test]
    fn the_entry_with_the_lowest_place_makes_the_parent() {
        let tree = tree(&[2, 11, 12, 13], &[(13, 12), (13, 11), (11, 2), (12, 2)]);
        assert_eq!(tree.parent(Ino(13)), Some(Ino(11)));
        assert_eq!(tree.linked_twice(), [Ino(13)]);
        assert_eq!(tree.parent(Ino(2)), None);
    }
}
