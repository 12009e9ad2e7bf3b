//! Clusters of more than one block (bigalloc): which of them a map has.
//!
//! Two nodes of a map that follow each other in the file may share a cluster: the first ends in the
//! middle of it, the second goes on there. Nodes are not met in the order of the file, so the first
//! and the last cluster of each are put aside, and claimed when all of the map was seen.
use crate::claims::Claims;
use extant_format::BlockNo;

/// A cluster of a file: its number in the file, and on the volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cluster {
    of_file: u64,
    of_volume: u64,
}

/// The first and the last cluster of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edges {
    first: Cluster,
    /// `None` when the node has no other.
    last: Option<Cluster>,
}

impl Edges {
    fn end(self) -> Cluster {
        self.last.unwrap_or(self.first)
    }
}

/// Whether a run goes on in the middle of a cluster of the file, and in another one of the volume
/// than what is before it in its node.
pub(crate) fn is_split(edges: Option<Edges>, cluster_blocks: u64, run: DataRun) -> bool {
    let first = Cluster {
        of_file: run.file_block / cluster_blocks,
        of_volume: run.start.0 / cluster_blocks,
    };
    edges.is_some_and(|edges| edges.end().of_file == first.of_file && edges.end() != first)
}

/// What the edges of the nodes of a map come to.
pub(crate) struct Joined {
    /// Clusters that were counted by two nodes that follow each other.
    pub(crate) shared: u64,
    /// The first file block of a cluster that two nodes have at different places.
    pub(crate) split: Option<u64>,
}

/// A run of blocks of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DataRun {
    pub(crate) file_block: u64,
    pub(crate) start: BlockNo,
    /// Blocks; at least 1.
    pub(crate) length: u64,
}

/// Claims the clusters of a run, but the first and the last of its node, which go to `edges`. Gives
/// how many blocks the run adds to the file; clusters count whole.
pub(crate) fn claim_inner(
    claims: &Claims,
    cluster_blocks: u64,
    run: DataRun,
    edges: &mut Option<Edges>,
) -> u64 {
    let at = |offset: u64| Cluster {
        of_file: (run.file_block + offset) / cluster_blocks,
        of_volume: (run.start.0 + offset) / cluster_blocks,
    };
    let claim = |from: u64, to: u64| {
        let clusters = to.saturating_sub(from);
        claims.claim_run(BlockNo(from * cluster_blocks), clusters * cluster_blocks);
    };
    let (first, last) = (at(0), at(run.length - 1));
    let before = edges.map(Edges::end);
    let continues = before == Some(first);
    let count = last.of_volume - first.of_volume + u64::from(!continues);
    if continues && last == first {
        return count * cluster_blocks;
    }
    if let Some(edge) = edges.and_then(|edges| edges.last) {
        claim(edge.of_volume, edge.of_volume + 1);
    }
    let is_edge = continues || before.is_none();
    claim(first.of_volume + u64::from(is_edge), last.of_volume);
    let has_more = before.is_some() || last != first;
    *edges = Some(Edges {
        first: edges.map_or(first, |edges| edges.first),
        last: has_more.then_some(last),
    });
    count * cluster_blocks
}

/// Claims the first and the last cluster of each node, in the order of the file.
pub(crate) fn claim_edges(claims: &Claims, cluster_blocks: u64, edges: &mut [Edges]) -> Joined {
    edges.sort_unstable();
    let claim =
        |edge: Cluster| claims.claim_run(BlockNo(edge.of_volume * cluster_blocks), cluster_blocks);
    let (mut before, mut shared, mut split) = (None::<Cluster>, 0, None);
    for edges in edges.iter() {
        if before == Some(edges.first) {
            shared += 1;
        } else {
            claim(edges.first);
            let of_file = edges.first.of_file;
            let is_split = before.is_some_and(|before| before.of_file == of_file);
            split = split.or(is_split.then_some(of_file * cluster_blocks));
        }
        edges.last.map(claim);
        before = Some(edges.end());
    }
    Joined { shared, split }
}
