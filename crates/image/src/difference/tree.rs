//! What folders and archives hold, as a side.
use super::side::{Body, Name, Number, Reason, View};
use crate::source::{BodyReader, Collected};
use crate::tree::NodeId;
use extant_format::attribute::Attribute;
use extant_tree::Facts;
use std::ops::Range;

/// A tree of sources.
pub(super) struct TreeSide {
    collected: Collected,
}

impl TreeSide {
    pub(super) fn new(collected: Collected) -> TreeSide {
        TreeSide { collected }
    }
}

impl View for TreeSide {
    fn root(&self) -> Number {
        NodeId::ROOT.0
    }

    fn names(&mut self, directory: Number) -> (Vec<Name>, Option<Reason>) {
        let children = self.collected.tree.children(NodeId(directory));
        let name =
            |child: crate::tree::Child<'_>| Name { bytes: child.name.to_vec(), file: child.node.0 };
        (children.map(name).collect(), None)
    }

    fn facts(&self, file: Number) -> Result<Option<Facts>, Reason> {
        let (tree, node) = (&self.collected.tree, NodeId(file));
        if !tree.is_described(node) {
            return Ok(None);
        }
        Ok(Some(Facts {
            file_type: tree.file_type(node),
            permissions: tree.mode(node) & 0o7777,
            uid: tree.uid(node),
            gid: tree.gid(node),
            modify_time: tree.modify_time(node),
            size: tree.length(node),
            device: tree.device(node),
            ..Facts::default()
        }))
    }

    fn may_have_links(&self, file: Number) -> bool {
        self.collected.tree.links(NodeId(file)) > 1
    }

    fn attributes(&self, file: Number) -> Result<Vec<Attribute>, Reason> {
        Ok(self.collected.tree.attributes(NodeId(file)).to_vec())
    }

    fn target(&self, file: Number) -> Result<Vec<u8>, Reason> {
        Ok(self.collected.tree.target(NodeId(file)).to_vec())
    }

    fn body<'a>(&'a self, file: Number) -> Box<dyn Body + 'a> {
        let Collected { tree, sources, .. } = &self.collected;
        let node = NodeId(file);
        let segments = tree.data_segments(node).map(|it| it.offset..it.offset + it.length);
        Box::new(TreeBody {
            reader: BodyReader::new(tree, sources),
            node,
            segments: Box::new(segments),
            current: None,
        })
    }

    fn is_made_by_mkfs(&self, _: Number, _: &[u8]) -> bool {
        false
    }
}

struct TreeBody<'a> {
    reader: BodyReader<'a>,
    node: NodeId,
    segments: Box<dyn Iterator<Item = Range<u64>> + 'a>,
    current: Option<Range<u64>>,
}

impl Body for TreeBody<'_> {
    fn next_data(&mut self, from: u64) -> Result<Option<Range<u64>>, Reason> {
        while self.current.as_ref().is_none_or(|segment| segment.end <= from) {
            let Some(segment) = self.segments.next() else { return Ok(None) };
            self.current = Some(segment);
        }
        Ok(self.current.as_ref().map(|segment| segment.start.max(from)..segment.end))
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Reason> {
        self.reader.read_at(self.node, offset, buffer).map_err(|error| error.message)
    }
}
