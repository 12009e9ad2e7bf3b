//! How many files a directory has and how large files are: uneven as in life, with exact totals.
use super::Tree;
use extant_sim::random::{Quantiles, Random};

/// Cuts `total` by weights; the parts add up to it.
fn proportional(total: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum::<u128>().max(1);
    let mut before = 0u128;
    let mut given = 0u64;
    let mut parts = Vec::with_capacity(weights.len());
    for weight in weights {
        before += u128::from(*weight);
        let until = (u128::from(total) * before / sum) as u64;
        parts.push(until - given);
        given = until;
    }
    parts
}

/// How many of `files` files each of `directories` directories has: log-normal, a few have very
/// many.
pub(super) fn shares(files: u64, directories: u64, random: &mut Random) -> Vec<u64> {
    let weights = Quantiles::log_normal(1_000, 14_000);
    let weights: Vec<u64> = (0..directories).map(|_| weights.draw(random).max(1)).collect();
    proportional(files, &weights)
}

/// Sizes of `files` files that add up to `bytes`: log-normal with a median of some 0.4 of the mean,
/// and one in a hundred of some ten times the mean, as source trees have them.
pub(super) fn file_bytes(files: u64, bytes: u64, random: &mut Random) -> Vec<u64> {
    let mean = (bytes / files.max(1)).max(1);
    let sizes = Quantiles::log_normal((mean * 2 / 5).max(1), mean.saturating_mul(9).max(2));
    let weights: Vec<u64> = (0..files).map(|_| sizes.draw(random).max(1)).collect();
    proportional(bytes, &weights)
}

/// These sizes with this many of 0 bytes evenly among them.
pub(super) fn with_empty(sizes: &[u64], empty: u64) -> Vec<u64> {
    let count = sizes.len() as u64 + empty;
    let before = |place: u64| (u128::from(place) * u128::from(empty)) / u128::from(count.max(1));
    let mut sizes = sizes.iter();
    let size = |place: u64| match before(place + 1) > before(place) {
        true => 0,
        false => sizes.next().copied().unwrap_or(0),
    };
    (0..count).map(size).collect()
}

/// Counts blocks as ext2 uses them.
pub(super) struct Blocks {
    size: u64,
    pointers: u64,
}

/// Blocks that an inode maps itself.
const DIRECT: u64 = 12;
/// "." and "..".
const DOTS_BYTES: u64 = 24;

impl Blocks {
    pub(super) fn new(block_size: u32) -> Blocks {
        let size = u64::from(block_size.max(64));
        Blocks { size, pointers: size / 4 }
    }

    /// Data and indirect blocks of a file of this many blocks.
    fn mapped(&self, blocks: u64) -> u64 {
        let (mut left, mut total) = (blocks.saturating_sub(DIRECT), blocks);
        let mut reach = self.pointers;
        for level in 1..=3u32 {
            if left == 0 {
                break;
            }
            let covered = left.min(reach);
            // One block at the top, and below it as many at each level as the blocks covered need.
            let mut below = 1;
            for _ in 0..level {
                total += covered.div_ceil(reach / below);
                below *= self.pointers;
            }
            left -= covered;
            reach = reach.saturating_mul(self.pointers);
        }
        total
    }

    fn of_file(&self, bytes: u64) -> u64 {
        self.mapped(bytes.div_ceil(self.size))
    }

    fn of_directory(&self, names: impl Iterator<Item = usize>) -> u64 {
        let (mut blocks, mut used) = (1, DOTS_BYTES);
        for length in names {
            let bytes = (8 + length as u64).next_multiple_of(4);
            if used + bytes > self.size {
                (blocks, used) = (blocks + 1, 0);
            }
            used += bytes;
        }
        self.mapped(blocks)
    }

    pub(super) fn of_tree(&self, tree: &Tree) -> u64 {
        let mut names: Vec<Vec<u8>> = vec![Vec::new(); tree.directories.len()];
        for (number, file) in tree.files.iter().enumerate() {
            names[file.directory as usize].push(tree.file_name(number).len().min(255) as u8);
        }
        for (number, directory) in tree.directories.iter().enumerate().skip(1) {
            let mut name = String::new();
            tree.names.directory(number, directory.name, &mut name);
            names[directory.parent as usize].push(name.len().min(255) as u8);
        }
        let lengths =
            |names: &Vec<u8>| self.of_directory(names.iter().map(|length| usize::from(*length)));
        let files: u64 = tree.files.iter().map(|file| self.of_file(file.bytes)).sum();
        files + names.iter().map(lengths).sum::<u64>()
    }

    /// Makes the last files longer or shorter by whole blocks until the tree takes this many. Empty
    /// files stay empty.
    pub(super) fn meet(&self, tree: &mut Tree, wanted: u64) -> Result<(), String> {
        let mut now = self.of_tree(tree);
        // A pass moves every file by a block; what a tree cannot reach in as many passes is a rule
        // that contradicts itself.
        for _ in 0..1_000_000 / (tree.files.len() + 1) + 64 {
            let before = now;
            for file in tree.files.iter_mut().rev().filter(|file| file.bytes > 0) {
                if now == wanted {
                    return Ok(());
                }
                let bytes = match now < wanted {
                    true => file.bytes.saturating_add(self.size),
                    false if file.bytes > self.size => file.bytes - self.size,
                    false => continue,
                };
                let moved = now - self.of_file(file.bytes) + self.of_file(bytes);
                if moved.abs_diff(wanted) < now.abs_diff(wanted) {
                    (file.bytes, now) = (bytes, moved);
                }
            }
            if now == before {
                break;
            }
        }
        match now == wanted {
            true => Ok(()),
            false => {
                Err(format!("the tree takes {now} blocks and cannot be made to take {wanted}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up() {
        assert_eq!(proportional(10, &[1, 1, 1]), [3, 3, 4]);
        assert_eq!(proportional(7, &[0, 0]).iter().sum::<u64>(), 0);
        let sizes = file_bytes(1000, 13_200_000, &mut Random::new(1));
        assert_eq!(sizes.iter().sum::<u64>(), 13_200_000);
        assert!(sizes.iter().max() > Some(&80_000) && sizes.iter().min() < Some(&2_000));
        assert_eq!(with_empty(&[1, 2, 3, 4], 2), [1, 2, 0, 3, 4, 0]);
        assert_eq!(with_empty(&[1, 2], 0), [1, 2]);
        assert_eq!(with_empty(&[], 3), [0, 0, 0]);
    }

    #[test]
    fn maps_are_those_of_ext2() {
        let blocks = Blocks::new(1024);
        let cases = [
            (0, 0),
            (12, 12),
            (13, 14),
            (268, 269),
            (269, 272),
            (12 + 256 + 257, 12 + 256 + 257 + 1 + 3),
        ];
        for (data, total) in cases {
            assert_eq!(blocks.mapped(data), total, "{data}");
        }
        let all_of_two = 12 + 256 + 65536;
        assert_eq!(blocks.mapped(all_of_two), all_of_two + 1 + 257);
        assert_eq!(blocks.mapped(all_of_two + 1), all_of_two + 1 + 1 + 257 + 3);
    }
}
