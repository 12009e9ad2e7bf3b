//! Which blocks are taken, and which are taken twice.
//!
//! A volume is cut into chunks of 65,536 clusters. A chunk is a short list of runs as long as that
//! is enough, and a bitmap from then on: a volume of well laid out files takes some bytes a chunk,
//! whatever its size, and no volume more than a bit a block.
//!
//! *Invariants*: runs of a chunk rise, and neither overlap nor touch. What is claimed stays so.
//! *Locking*: one short lock a chunk, held for a claim; that of a chunk of claims is not held when
//! its double is locked.
use crate::slabs::Slabs;
use extant_block::ShortLock;
use extant_format::BlockNo;

/// Clusters of a chunk.
const CHUNK: u64 = 1 << 16;
const WORDS: usize = CHUNK as usize / 64;
/// Runs of a chunk above which a bitmap is smaller or faster.
const RUNS_MAX: usize = 64;

/// Which blocks (clusters with bigalloc) are taken.
pub(crate) struct Claims {
    cluster_log2: u32,
    taken: Slabs<ShortLock<Chunk>>,
    /// Clusters that were claimed again.
    double: Slabs<ShortLock<Chunk>>,
}

enum Chunk {
    /// From, and after the last.
    Runs(Vec<(u32, u32)>),
    /// With the number of bits set.
    Bits(Box<[u64]>, u32),
}

impl Default for Chunk {
    fn default() -> Chunk {
        Chunk::Runs(Vec::new())
    }
}

impl Claims {
    /// No block is taken of `blocks`, which must be bounded by what is on the device: a byte for
    /// some megabytes of it is allocated at once.
    pub(crate) fn new(blocks: u64, cluster_log2: u32) -> Claims {
        let chunks = (blocks >> cluster_log2) / CHUNK + 1;
        Claims { cluster_log2, taken: Slabs::new(chunks), double: Slabs::new(chunks) }
    }

    /// Claims a run; gives whether all of it was free. What was not is marked as claimed twice.
    /// Blocks past the end are ignored: the caller has judged them.
    pub(crate) fn claim_run(&self, start: BlockNo, length: u64) -> bool {
        let mut free = true;
        for (number, from, to) in self.parts(start, length) {
            let Some(chunk) = self.taken.make(number) else { break };
            let mut overlaps = Vec::new();
            let mut chunk = chunk.lock();
            chunk.overlaps(from, to, |from, to| overlaps.push((from, to)));
            chunk.add(from, to);
            drop(chunk);
            for (from, to) in overlaps {
                free = false;
                if let Some(double) = self.double.make(number) {
                    double.lock().add(from, to);
                }
            }
        }
        free
    }

    /// Takes a run for metadata, also where it is taken already.
    pub(crate) fn take_run(&self, start: BlockNo, length: u64) {
        for (number, from, to) in self.parts(start, length) {
            let Some(chunk) = self.taken.make(number) else { break };
            chunk.lock().add(from, to);
        }
    }

    /// Whether no block of a run is taken.
    pub(crate) fn is_free(&self, start: BlockNo, length: u64) -> bool {
        !overlap_any(&self.taken, self.parts(start, length))
    }

    /// Whether the block was claimed twice.
    pub(crate) fn is_double(&self, block: BlockNo) -> bool {
        overlap_any(&self.double, self.parts(block, 1))
    }

    /// Whether any block was claimed twice.
    pub(crate) fn any_double(&self) -> bool {
        self.double.made().any(|(_, chunk)| !chunk.lock().is_empty())
    }

    /// The double clusters of a run, each by its first block.
    pub(crate) fn double_in(&self, start: BlockNo, length: u64) -> Vec<BlockNo> {
        let mut found = Vec::new();
        for (number, from, to) in self.parts(start, length) {
            let Some(chunk) = self.double.get(number) else { continue };
            let first = number as u64 * CHUNK;
            chunk.lock().overlaps(from, to, |from, to| {
                let clusters = from..to;
                found.extend(
                    clusters
                        .map(|cluster| BlockNo((first + u64::from(cluster)) << self.cluster_log2)),
                );
            });
        }
        found
    }

    /// The claims of clusters from `first` on, as bits of words.
    pub(crate) fn words(&self, first: u64, count: u32) -> Vec<u64> {
        let mut words = vec![0_u64; count.div_ceil(64) as usize];
        let end = first + u64::from(count);
        let mut at = first;
        while at < end {
            let number = usize::try_from(at / CHUNK).unwrap_or(usize::MAX);
            let start = at / CHUNK * CHUNK;
            let to = end.min(start + CHUNK);
            if let Some(chunk) = self.taken.get(number) {
                chunk.lock().overlaps((at - start) as u32, (to - start) as u32, |from, to| {
                    let from = (start + u64::from(from) - first) as usize;
                    let to = (start + u64::from(to) - first) as usize;
                    set_bits(&mut words, from, to);
                });
            }
            at = to;
        }
        words
    }

    /// A run of blocks as parts of chunks: the chunk, the first cluster in it, and after the last.
    fn parts(
        &self,
        start: BlockNo,
        length: u64,
    ) -> impl Iterator<Item = (usize, u32, u32)> + use<> {
        let mut at = start.0 >> self.cluster_log2;
        let end = match length {
            0 => at,
            _ => (start.0.saturating_add(length - 1) >> self.cluster_log2) + 1,
        };
        std::iter::from_fn(move || {
            let number = at / CHUNK;
            let to = end.min((number + 1) * CHUNK);
            let part =
                (usize::try_from(number).ok()?, (at % CHUNK) as u32, (to - number * CHUNK) as u32);
            let more = at < end;
            at = to;
            more.then_some(part)
        })
    }
}

fn overlap_any(
    chunks: &Slabs<ShortLock<Chunk>>,
    parts: impl Iterator<Item = (usize, u32, u32)>,
) -> bool {
    let mut any = false;
    for (number, from, to) in parts {
        if let Some(chunk) = chunks.get(number) {
            chunk.lock().overlaps(from, to, |_, _| any = true);
        }
    }
    any
}

/// Sets the bits `from..to`, word by word.
pub(crate) fn set_bits(words: &mut [u64], from: usize, to: usize) {
    let mut at = from;
    while at < to {
        let next = to.min((at / 64 + 1) * 64);
        if let Some(word) = words.get_mut(at / 64) {
            *word |= mask(at, next);
        }
        at = next;
    }
}

/// The bits `from..to` of the word that holds both ends.
fn mask(from: usize, to: usize) -> u64 {
    let length = to - from;
    let ones = if length >= 64 { u64::MAX } else { (1 << length) - 1 };
    ones << (from % 64)
}

impl Chunk {
    fn is_empty(&self) -> bool {
        match self {
            Chunk::Runs(runs) => runs.is_empty(),
            Chunk::Bits(_, count) => *count == 0,
        }
    }

    /// Visits the parts of `from..to` that are set.
    fn overlaps(&self, from: u32, to: u32, mut visit: impl FnMut(u32, u32)) {
        match self {
            Chunk::Runs(runs) => {
                let first = runs.partition_point(|run| run.1 <= from);
                for run in runs.get(first..).unwrap_or_default().iter().take_while(|run| run.0 < to)
                {
                    visit(run.0.max(from), run.1.min(to));
                }
            }
            Chunk::Bits(words, _) => {
                let mut at = from as usize;
                while at < to as usize {
                    let next = (to as usize).min((at / 64 + 1) * 64);
                    let mut set = words.get(at / 64).copied().unwrap_or(0) & mask(at, next);
                    while set != 0 {
                        let first = set.trailing_zeros();
                        let length = (set >> first).trailing_ones();
                        let start = (at / 64 * 64) as u32 + first;
                        visit(start, start + length);
                        set &= !(mask(first as usize, (first + length) as usize));
                    }
                    at = next;
                }
            }
        }
    }

    /// Sets `from..to`.
    fn add(&mut self, from: u32, to: u32) {
        match self {
            Chunk::Runs(runs) => {
                // Those that overlap or touch become one with it.
                let first = runs.partition_point(|run| run.1 < from);
                let next = runs.partition_point(|run| run.0 <= to);
                let joined = runs.get(first..next).unwrap_or_default();
                let start = joined.first().map_or(from, |run| run.0.min(from));
                let end = joined.last().map_or(to, |run| run.1.max(to));
                if joined.len() == 1 {
                    runs[first] = (start, end);
                } else {
                    runs.splice(first..next.max(first), [(start, end)]);
                }
                if runs.len() > RUNS_MAX {
                    *self = bits(runs);
                }
            }
            Chunk::Bits(words, count) => {
                let mut at = from as usize;
                while at < to as usize {
                    let next = (to as usize).min((at / 64 + 1) * 64);
                    if let Some(word) = words.get_mut(at / 64) {
                        let mask = mask(at, next);
                        *count += (mask & !*word).count_ones();
                        *word |= mask;
                    }
                    at = next;
                }
                if u64::from(*count) == CHUNK {
                    *self = Chunk::Runs(vec![(0, CHUNK as u32)]);
                }
            }
        }
    }
}

fn bits(runs: &[(u32, u32)]) -> Chunk {
    let mut words = vec![0; WORDS].into_boxed_slice();
    for (from, to) in runs {
        set_bits(&mut words, *from as usize, *to as usize);
    }
    let count = runs.iter().map(|run| run.1 - run.0).sum();
    Chunk::Bits(words, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain list of flags, near and across the end of a chunk, as runs and as bits.
        #[test]
        fn claims_are_those_of_a_plain_list(
            runs in prop::collection::vec((0_u64..400, 1_u64..20), 1..200),
            log2 in 0_u32..3,
        ) {
            let origin = (CHUNK << log2) - 200;
            let claims = Claims::new(CHUNK << (log2 + 2), log2);
            let mut plain = vec![0_u32; 500];
            for (start, length) in runs {
                let start = origin + start;
                let clusters = (start >> log2)..=((start + length - 1) >> log2);
                let mut free = true;
                for cluster in clusters {
                    let slot = &mut plain[(cluster - (origin >> log2)) as usize];
                    free &= *slot == 0;
                    *slot += 1;
                }
                prop_assert_eq!(claims.is_free(BlockNo(start), length), free);
                prop_assert_eq!(claims.claim_run(BlockNo(start), length), free);
            }
            let words = claims.words(origin >> log2, 500);
            for (index, count) in plain.iter().enumerate() {
                let block = BlockNo(((origin >> log2) + index as u64) << log2);
                prop_assert_eq!(words[index / 64] >> (index % 64) & 1 == 1, *count > 0);
                prop_assert_eq!(claims.is_double(block), *count > 1);
                prop_assert_eq!(claims.double_in(block, 1).len(), usize::from(*count > 1));
            }
        }
    }

    #[test]
    fn a_full_chunk_is_one_run_again() {
        let claims = Claims::new(CHUNK, 0);
        for block in (0..CHUNK).step_by(2).chain((1..CHUNK).step_by(2)) {
            assert!(claims.claim_run(BlockNo(block), 1));
        }
        assert!(
            matches!(&*claims.taken.get(0).unwrap().lock(), Chunk::Runs(runs) if runs.len() == 1)
        );
        assert!(!claims.any_double());
    }
}
