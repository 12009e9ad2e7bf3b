//! The tree through the engine: every node in the order of its number, each with all that is known
//! of it.
use super::goals::Goals;
use super::job::{Failure, Job};
use super::order::LostAndFound;
use super::stream::DataStream;
use crate::error::Error;
use crate::tree::NodeId;
use extant_archive::printable;
use extant_engine::import::{Import, NewEntry, NewNode};
use extant_format::Ino;
use extant_format::inode::FileType;

/// Nodes between two looks at memory and at the workers.
const LOOK_NODES: usize = 64;

impl Job<'_> {
    /// Brings the whole tree into an empty volume.
    pub(super) fn import(
        &self,
        import: &mut Import,
        goals: &Goals<'_>,
        stream: &mut DataStream<'_>,
    ) -> Result<(), Failure> {
        let (tree, order) = (self.tree, &self.order);
        let names = order.names(tree, NodeId::ROOT);
        import.values_from(order.end());
        let root = import.root(&self.new_node(NodeId::ROOT), &mut entries(&names));
        root.map_err(|error| self.at(NodeId::ROOT, error.into()))?;
        if let LostAndFound::Redressed(node) = order.lost_and_found {
            let redressed = import.redress(order.ino(node), &self.new_node(node));
            redressed.map_err(|error| self.at(node, error.into()))?;
        }
        for (count, node) in order.sequence().iter().enumerate() {
            if count % LOOK_NODES == 0 {
                import.balance()?;
                if stream.has_failed() {
                    return Ok(());
                }
            }
            let ino = self
                .import_node(import, goals, stream, *node)
                .map_err(|failure| self.at(*node, failure))?;
            if ino != order.ino(*node) {
                let message =
                    format!("inode {} was expected, {} was made", order.ino(*node).0, ino.0);
                return Err(Error::new(message).into());
            }
        }
        Ok(())
    }

    fn import_node(
        &self,
        import: &mut Import,
        goals: &Goals<'_>,
        stream: &mut DataStream<'_>,
        node: NodeId,
    ) -> Result<Ino, Failure> {
        let tree = self.tree;
        let new = self.new_node(node);
        let ino = match tree.file_type(node) {
            FileType::Directory => {
                let parent = self.order.ino(tree.parent(node));
                let names = self.order.names(tree, node);
                import.directory(&new, parent, &mut entries(&names))
            }
            FileType::Regular => return self.import_file(import, goals, stream, node),
            FileType::Symlink => goals.to_come(|| import.symlink(&new, tree.target(node))),
            special => import.special(&new, special, tree.device(node)),
        };
        Ok(ino?)
    }

    fn import_file(
        &self,
        import: &mut Import,
        goals: &Goals<'_>,
        stream: &mut DataStream<'_>,
        node: NodeId,
    ) -> Result<Ino, Failure> {
        let (tree, new) = (self.tree, self.new_node(node));
        let length = tree.length(node);
        let mut data =
            tree.data_segments(node).map(|segment| segment.offset..segment.offset + segment.length);
        let arrived = self.sources.arrived_at(tree.body(node));
        let stored = tree.stored_bytes(node);
        let Some(mut arrived) = arrived.and_then(|offset| goals.arrived(offset, stored)) else {
            let give = &mut |stretch| stream.add(node, stretch);
            return Ok(goals.to_come(|| import.file(&new, length, &mut data, give))?);
        };
        let ino = import.file(&new, length, &mut data, &mut |stretch| arrived.add(stretch))?;
        match arrived.agrees() {
            true => Ok(ino),
            false => Err(Error::new("its blocks are not those that its bytes are in").into()),
        }
    }

    fn new_node(&self, node: NodeId) -> NewNode<'_> {
        let tree = self.tree;
        let links = match tree.file_type(node) {
            FileType::Directory => self.order.links(tree, node),
            _ => tree.links(node),
        };
        let (uid, gid) = match self.root_owner {
            Some(owner) if node == NodeId::ROOT => (owner.uid, owner.gid),
            _ => (tree.uid(node), tree.gid(node)),
        };
        NewNode {
            permissions: tree.mode(node) & 0o7777,
            uid,
            gid,
            flags: tree.flags(node),
            links,
            access_time: tree.access_time(node),
            change_time: tree.change_time(node),
            modify_time: tree.modify_time(node),
            create_time: self.created,
            attributes: tree.attributes(node),
            attribute_list: tree.attribute_list(node),
        }
    }

    fn at(&self, node: NodeId, failure: Failure) -> Failure {
        match failure {
            Failure::Other(error) => {
                Failure::Other(error.about(format_args!("/{}", printable(&self.tree.path(node)))))
            }
            full => full,
        }
    }
}

fn entries<'a>(names: &'a [super::order::Name<'a>]) -> impl ExactSizeIterator<Item = NewEntry<'a>> {
    names.iter().map(|name| NewEntry { name: name.name, ino: name.ino, file_type: name.file_type })
}
