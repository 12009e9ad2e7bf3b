//! Where map blocks go: beside the data that they map, or together in one run of blocks of each
//! group, a *metacluster*, so that a check of the volume reads them from few places (the second
//! post, 2007).
//!
//! A cluster is only an order of search. It leaves no trace on disk, no block is reserved, and a
//! volume may be opened with clusters today and without them tomorrow.
//!
//! - A map block gets the first free block in the cluster of the group in which its file got its
//!   last block. If the cluster is full, it goes where it would go without clusters: after the
//!   data.
//! - Everything else is allocated outside the clusters: in the group that the allocation wants,
//!   then in the others in its order. A group that has no more free blocks than its cluster is
//!   skipped.
//! - If that finds nothing, the groups are searched in turn from the wanted one on: first outside
//!   the cluster, then inside. So nothing is wasted: the last block of a volume is used as it is
//!   without clusters.
//!
//! # Where in the group
//! `begin` is after the bitmaps and the inode table at the start of a group: it splits no file's
//! run that these would not split, and the head passes it on the way into the group. `middle` is
//! the choice of the post: a map block is a quarter of a group from its data on average, but each
//! file longer than half a group has one more gap. `end` splits no run either (the next group's
//! metadata follows), and is after the data that a sequential reader has just read.
//!
//! # How large
//! A group has 8 blocks for each byte of a block, and a map block has a pointer in each 4 bytes.
//! So, whatever the block size, a group full of large files has 32 indirect blocks, and at most two
//! of the levels above. But files of 13 blocks need one for each 14 blocks: 2,340 in a group of
//! 32,768. Ordinary trees are in between: if half of the blocks belong to files of more than 12
//! blocks, with 50 blocks on average, there are about 330. A cluster that is too large costs only a
//! longer gap in a file's run, because data enters it in the end. From a cluster that is too small,
//! map blocks spill, and are read as before. The default, 1/64 of the group (512 of 32,768 blocks,
//! 2 of 128 MiB), holds sixteen times what large files need, and a disk of 60 MB/s reads it whole
//! in 35 ms. Only the smallest files with maps overflow it.
use super::{AllocationFacts, AllocationPlan, Purpose};
use extant_format::BlockNo;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Where map blocks go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MapBlocks {
    /// Where the allocation puts them: between the data.
    #[default]
    Beside,
    /// Together.
    Metacluster(Metacluster),
}

/// The cluster of each group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Metacluster {
    /// Where in the group.
    pub position: Position,
    /// How large.
    pub size: ClusterSize,
}

/// Where in a group its cluster is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Position {
    /// After the metadata at the start of the group.
    Begin,
    /// Around the middle of the group (the post).
    #[default]
    Middle,
    /// The last blocks of the group.
    End,
}

/// How large a cluster is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClusterSize {
    /// This many blocks.
    Blocks(u32),
    /// The group divided by this number.
    Part(u32),
    /// This percentage of the group.
    Percent(u32),
}

impl Default for ClusterSize {
    fn default() -> ClusterSize {
        ClusterSize::Part(64)
    }
}

/// What a policy may know of the shape of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupShape {
    /// Blocks of the group: the last one may be short.
    pub blocks: u32,
    /// Blocks of metadata that it begins with.
    pub front: u32,
}

/// Where one run of blocks is searched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// As the plan says: there are no clusters.
    Anywhere,
    /// Outside all clusters; inside them if nothing else is free.
    Around,
    /// In the cluster of the group of this block. If it is full, as `Around`.
    Inside(BlockNo),
}

impl ClusterSize {
    /// How many blocks of a group of `of` blocks the cluster has: at least 1, at most half.
    fn blocks(self, of: u32) -> u32 {
        let blocks = match self {
            ClusterSize::Blocks(blocks) => blocks,
            ClusterSize::Part(part) => of / part.max(1),
            ClusterSize::Percent(percent) => of / 100 * percent + of % 100 * percent / 100,
        };
        blocks.min(of / 2).max(1)
    }
}

impl Metacluster {
    /// The cluster of a group, as a range of its blocks. Not empty, unless the group is. Its blocks
    /// may be in use for other things.
    pub fn place(self, group: GroupShape) -> Range<u32> {
        let length = self.size.blocks(group.blocks).min(group.blocks);
        let last = group.blocks - length;
        let start = match self.position {
            Position::Begin => group.front,
            Position::Middle => (last / 2).max(group.front),
            Position::End => last,
        };
        let start = start.min(last);
        start..start + length
    }
}

impl MapBlocks {
    /// Where blocks of this plan are searched.
    pub fn route(self, facts: &AllocationFacts, plan: &AllocationPlan) -> Route {
        match (self, facts.purpose) {
            (MapBlocks::Beside, _) => Route::Anywhere,
            (MapBlocks::Metacluster(_), Purpose::Map) => Route::Inside(home(facts, plan)),
            (MapBlocks::Metacluster(_), _) => Route::Around,
        }
    }

    /// Where a map block of the volume itself is searched, which no allocation policy plans.
    pub fn map_route(self, near: BlockNo) -> Route {
        match self {
            MapBlocks::Beside => Route::Anywhere,
            MapBlocks::Metacluster(_) => Route::Inside(near),
        }
    }
}

/// The block whose group's cluster is used: the file's last block; else the one before the first
/// that the map block will map; else the allocation's goal.
fn home(facts: &AllocationFacts, plan: &AllocationPlan) -> BlockNo {
    let last = Some(facts.stream.next_goal).filter(|block| block.0 != 0);
    last.or(facts.previous.map(|(_, block)| block)).unwrap_or(plan.goal)
}

/// Why a text does not describe a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapBlocksError(String);

impl fmt::Display for MapBlocksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: known are beside, metacluster, metacluster(POSITION) and \
             metacluster(POSITION,SIZE), with POSITION begin, \
             middle or end, and SIZE a number of blocks, 1 to 50%, or 1/2 to 1/4096 of the group",
            self.0
        )
    }
}
impl std::error::Error for MapBlocksError {}

impl FromStr for Position {
    type Err = MapBlocksError;

    fn from_str(word: &str) -> Result<Position, MapBlocksError> {
        match word {
            "begin" => Ok(Position::Begin),
            "middle" => Ok(Position::Middle),
            "end" => Ok(Position::End),
            _ => Err(MapBlocksError(format!("unknown position {word:?}"))),
        }
    }
}

impl FromStr for ClusterSize {
    type Err = MapBlocksError;

    fn from_str(word: &str) -> Result<ClusterSize, MapBlocksError> {
        let number = |digits: &str, known: Range<u32>| {
            let number = digits.parse().ok().filter(|number| known.contains(number));
            number.ok_or_else(|| MapBlocksError(format!("unknown size {word:?}")))
        };
        if let Some(percent) = word.strip_suffix('%') {
            return number(percent, 1..51).map(ClusterSize::Percent);
        }
        if let Some(part) = word.strip_prefix("1/") {
            return number(part, 2..4097).map(ClusterSize::Part);
        }
        number(word, 1..1 << 24).map(ClusterSize::Blocks)
    }
}

impl FromStr for Metacluster {
    type Err = MapBlocksError;

    /// `POSITION[,SIZE]`.
    fn from_str(words: &str) -> Result<Metacluster, MapBlocksError> {
        let (position, size) = match words.split_once(',') {
            None => (words, None),
            Some((position, size)) => (position, Some(size)),
        };
        Ok(Metacluster {
            position: position.trim().parse()?,
            size: size.map_or(Ok(ClusterSize::default()), |size| size.trim().parse())?,
        })
    }
}

impl FromStr for MapBlocks {
    type Err = MapBlocksError;

    fn from_str(words: &str) -> Result<MapBlocks, MapBlocksError> {
        let bracketed = words.strip_prefix("metacluster(").and_then(|rest| rest.strip_suffix(')'));
        match (words, bracketed) {
            ("beside", _) => Ok(MapBlocks::Beside),
            ("metacluster", _) => Ok(MapBlocks::Metacluster(Metacluster::default())),
            (_, Some(words)) => words.parse().map(MapBlocks::Metacluster),
            _ => Err(MapBlocksError(format!("unknown {words:?}"))),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Position::Begin => "begin",
            Position::Middle => "middle",
            Position::End => "end",
        })
    }
}

impl fmt::Display for ClusterSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClusterSize::Blocks(blocks) => write!(f, "{blocks}"),
            ClusterSize::Part(part) => write!(f, "1/{part}"),
            ClusterSize::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// `POSITION,SIZE`, in the form that can be parsed.
impl fmt::Display for Metacluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.position, self.size)
    }
}

/// In the form that can be parsed.
impl fmt::Display for MapBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapBlocks::Beside => f.write_str("beside"),
            MapBlocks::Metacluster(cluster) => write!(f, "metacluster({cluster})"),
        }
    }
}
