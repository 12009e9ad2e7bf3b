//! Where the bytes of a regular file are.
use super::{NONE, Node};
use extant_format::inode::FileType;

/// A source of bodies: an archive, a spool, or a directory; see [`crate::source::Sources`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SourceId(pub u16);

/// A map of the pieces that hold data: see [`super::Tree::segments`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MapId(pub u32);

/// A piece of a file that holds data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// Length in bytes, never 0.
    pub length: u64,
    /// Where it begins in a body that is stored in an archive or spool: after all segments before
    /// it, where holes are not stored. [`Segment::ZEROS`] for zeros that are stored nowhere.
    pub packed: u64,
}

impl Segment {
    /// The place of zeros that are data of the image and stored nowhere.
    pub const ZEROS: u64 = u64::MAX;
}

/// The bytes of a regular file. Every `length` is the file's size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeBody {
    /// No bytes at all.
    Empty,
    /// Consecutive bytes of an archive or spool.
    Range {
        /// The source.
        source: SourceId,
        /// The first byte, counted from the start of the source's file.
        offset: u64,
        /// Bytes of the body.
        length: u64,
    },
    /// A file with holes, whose segments are in an archive or spool.
    Sparse {
        /// The source.
        source: SourceId,
        /// First byte of the first segment, counted from the start of the source's file.
        offset: u64,
        /// The segments.
        map: MapId,
        /// The file's size, holes included.
        length: u64,
    },
    /// A file of a source directory, under its first name.
    File {
        /// The source.
        source: SourceId,
        /// Its segments, where it has holes.
        map: Option<MapId>,
        /// Its size when the tree was read.
        length: u64,
    },
}

/// Marks a body that is in a file of its own.
const IN_FILE: u64 = u64::MAX;

pub(super) fn of(node: &Node) -> NodeBody {
    if node.length == 0 || super::file_type(node) != FileType::Regular {
        return NodeBody::Empty;
    }
    let (source, length) = (SourceId(node.source), node.length);
    let map = (node.map != NONE).then_some(MapId(node.map));
    match (node.offset, map) {
        (IN_FILE, map) => NodeBody::File { source, map, length },
        (offset, Some(map)) => NodeBody::Sparse { source, offset, map, length },
        (offset, None) => NodeBody::Range { source, offset, length },
    }
}

pub(super) fn store(node: &mut Node, body: NodeBody) {
    let (source, offset, map, length) = match body {
        NodeBody::Empty => (SourceId(0), 0, None, 0),
        NodeBody::Range { source, offset, length } => (source, offset, None, length),
        NodeBody::Sparse { source, offset, map, length } => (source, offset, Some(map), length),
        NodeBody::File { source, map, length } => (source, IN_FILE, map, length),
    };
    node.source = source.0;
    node.offset = offset;
    node.map = map.map_or(NONE, |map| map.0);
    node.length = length;
}
