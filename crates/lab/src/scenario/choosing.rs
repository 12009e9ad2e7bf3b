//! Which single files a step works on.
//!
//! *Invariants*: a file that a step removed or renamed by its number in a tree is not chosen by its
//! number again, until the tree is made again. What is drawn depends on the seed alone.
use super::process::{Outcome, Stop, Worker};
use super::step::{Among, Deed, Number, Skew, Targets, Which};
use super::tree::Tree;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Tries to draw a file that was not drawn before, until the next one is taken instead.
const TRIES: u32 = 32;

/// A file that was chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Chosen {
    /// Its number among those that it was chosen from.
    pub(super) number: u64,
    pub(super) path: String,
}

/// What was chosen, and what has to be remembered of it.
pub(super) struct Choice {
    pub(super) files: Vec<Chosen>,
    /// Where the numbers of a tree that are gone are remembered.
    pub(super) register: Option<String>,
}

/// What files are chosen from.
enum Candidates {
    /// Numbers of a tree's files.
    Tree(Arc<Tree>, Vec<u32>),
    Paths(Vec<String>),
}

impl Candidates {
    fn len(&self) -> u64 {
        match self {
            Candidates::Tree(_, numbers) => numbers.len() as u64,
            Candidates::Paths(paths) => paths.len() as u64,
        }
    }

    /// The index of the file of this number: of a tree, the number that it was made with.
    fn of_number(&self, number: u64) -> Result<u64, String> {
        match self {
            Candidates::Tree(tree, left) => {
                let files = tree.totals().files;
                let found = left.iter().position(|file| u64::from(*file) == number);
                found.map(|index| index as u64).ok_or_else(|| match number < files {
                    true => format!("its file of number {number} was removed or renamed"),
                    false => format!("has {files} files, and none of number {number}"),
                })
            }
            Candidates::Paths(paths) if number < paths.len() as u64 => Ok(number),
            Candidates::Paths(paths) => {
                Err(format!("has {} files, and none of number {number}", paths.len()))
            }
        }
    }

    fn take(&self, at: &str, index: u64) -> Chosen {
        match self {
            Candidates::Tree(tree, numbers) => {
                let file = numbers[index as usize] as usize;
                let directory = tree.directory_path(at, tree.directory_of(file));
                let path = format!("{}/{}", directory.trim_end_matches('/'), tree.file_name(file));
                Chosen { number: file as u64, path }
            }
            Candidates::Paths(paths) => {
                Chosen { number: index, path: paths[index as usize].clone() }
            }
        }
    }
}

impl Worker {
    /// The files that a step is to work on.
    pub(super) fn choose(&mut self, targets: &Targets, deed: &Deed) -> Outcome<Choice> {
        let at = self.path(&targets.at);
        let (candidates, register) = match &targets.among {
            Among::Path => {
                let files = vec![Chosen { number: 0, path: at }];
                return Ok(Choice { files, register: None });
            }
            Among::Tree(spec) => {
                let tree = self.tree(spec)?;
                let register = self.register(&at)?;
                let gone = self.world.gone(&register);
                let all = 0..tree.totals().files as u32;
                let left = all.filter(|number| !gone.contains(number)).collect();
                (Candidates::Tree(tree, left), Some(register))
            }
            Among::Found(order) => (Candidates::Paths(self.files_below(&at, *order)?), None),
        };
        let indices = self
            .indices(targets.which, deed, &candidates)
            .map_err(|reason| Stop::Failed(format!("{at}: {reason}")))?;
        let mut files: Vec<Chosen> =
            indices.into_iter().map(|index| candidates.take(&at, index)).collect();
        for file in &mut files {
            file.path = self.path(&file.path);
        }
        Ok(Choice { files, register })
    }

    /// The name of the list of those that are gone of a tree at this path.
    pub(super) fn register(&self, at: &str) -> Outcome<String> {
        Ok(format!("{} {at}", self.mount()?))
    }

    /// Which of `count` candidates.
    fn indices(
        &mut self,
        which: Which,
        deed: &Deed,
        candidates: &Candidates,
    ) -> Result<Vec<u64>, String> {
        let count = candidates.len();
        let first = |wanted: u64| self.world.scaled(wanted).min(count);
        Ok(match which {
            Which::All => (0..count).collect(),
            Which::One(number) => {
                let number = match number {
                    Number::OfRun => self.run_number(),
                    Number::Fixed(number) => number / self.world.scale,
                };
                vec![candidates.of_number(number)?]
            }
            Which::First(wanted) => (0..first(wanted)).collect(),
            Which::Last(wanted) => (count - first(wanted)..count).collect(),
            Which::Every { every, from } => {
                let step = usize::try_from(every).unwrap_or(usize::MAX);
                (from.min(count)..count).step_by(step).collect()
            }
            Which::Draw { .. } if count == 0 => return Err("has no file to draw".to_owned()),
            Which::Draw { count: wanted, skew } => {
                // Counts that were divided may be rounded apart.
                if deed.takes_name() && self.world.scale == 1 && wanted > count {
                    return Err(format!("has {count} files, and {wanted} of them cannot be drawn"));
                }
                let wanted = self.world.scaled(wanted);
                match deed.takes_name() {
                    // What is gone is not there for another draw.
                    true => self.draw_distinct(wanted.min(count), count, skew),
                    false => (0..wanted).map(|_| self.draw(count, skew)).collect(),
                }
            }
        })
    }

    fn draw(&mut self, count: u64, skew: Skew) -> u64 {
        match skew {
            Skew::Uniform => self.random.below(count),
            Skew::SelfSimilar { draws, files } => {
                let mut count = count;
                loop {
                    let hot = count * files / 100;
                    if hot == 0 {
                        return self.random.below(count);
                    }
                    match self.random.chance(draws, 100) {
                        true => count = hot,
                        false => return self.random.within(hot..count),
                    }
                }
            }
        }
    }

    fn draw_distinct(&mut self, wanted: u64, count: u64, skew: Skew) -> Vec<u64> {
        let mut drawn = BTreeSet::new();
        let mut next = Next::new(count);
        let mut indices = Vec::with_capacity(wanted as usize);
        for _ in 0..wanted {
            let mut index = self.draw(count, skew);
            for _ in 0..TRIES {
                if !drawn.contains(&index) {
                    break;
                }
                index = self.draw(count, skew);
            }
            let index = next.take(index);
            drawn.insert(index);
            indices.push(index);
        }
        indices
    }
}

/// The next index that was not taken, cyclically.
struct Next {
    /// At or after each index; shortened as it is followed.
    after: Vec<u32>,
}

impl Next {
    fn new(count: u64) -> Next {
        Next { after: (0..=count as u32).collect() }
    }

    fn find(&mut self, index: usize) -> usize {
        let mut end = index;
        while self.after[end] as usize != end {
            end = self.after[end] as usize;
        }
        let mut at = index;
        while at != end {
            at = std::mem::replace(&mut self.after[at], end as u32) as usize;
        }
        end
    }

    /// Takes the first free index from this one on. One has to be free.
    fn take(&mut self, index: u64) -> u64 {
        let last = self.after.len() - 1;
        let mut found = self.find(index as usize);
        if found == last {
            found = self.find(0);
        }
        debug_assert!(found < last, "all {last} indices were taken");
        self.after[found.min(last)] = (found + 1).min(last) as u32;
        found as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Next;

    #[test]
    fn what_is_taken_is_passed_over_until_all_are() {
        let mut next = Next::new(4);
        assert_eq!([2, 2, 2, 2].map(|index| next.take(index)), [2, 3, 0, 1]);
        let mut next = Next::new(3);
        assert_eq!([0, 2, 0].map(|index| next.take(index)), [0, 2, 1]);
    }
}
