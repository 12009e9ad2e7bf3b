//! Whiteouts: what a layer removes of the layers below it.
//!
//! They wait for the end of their layer, so they never touch their own layer, and the order within
//! it does not matter: a path is resolved when all other entries of the layer are in the tree.
use super::{Entry, EntryState, FOLLOW_MAX, FileType, Growing, LastLink, Node, NodeId, implicit};
use crate::error::Error;

/// A whiteout of an archive that is resolved at the end of its layer.
pub(super) struct Waiting {
    /// The directory, as a clean path.
    folder: Vec<u8>,
    /// The name that is removed; `None` for all of them.
    name: Option<Vec<u8>>,
}

impl Growing {
    /// Removes the name of lower layers.
    pub fn white_out(&mut self, directory: NodeId, name: &[u8]) {
        if let Some(entry) = self.find_entry(directory, name) {
            self.whited.insert(entry);
        }
    }
    /// Removes all that lower layers have in the directory.
    pub fn make_opaque(&mut self, directory: NodeId) {
        self.opaque.insert(directory.0);
    }
    /// The same for a clean path, at the end of the layer. A directory that is not there then has
    /// nothing to remove, and is not made.
    pub fn white_out_at(&mut self, folder: &[u8], name: &[u8]) {
        self.waiting.push(Waiting { folder: folder.to_vec(), name: Some(name.to_vec()) });
    }
    /// [`Growing::make_opaque`] for a clean path, at the end of the layer.
    pub fn make_opaque_at(&mut self, folder: &[u8]) {
        self.waiting.push(Waiting { folder: folder.to_vec(), name: None });
    }

    /// Ends a source: its whiteouts take effect on the layers below it.
    ///
    /// # Errors
    /// More sources than can be counted.
    pub fn end_layer(&mut self) -> Result<(), Error> {
        for Waiting { folder, name } in std::mem::take(&mut self.waiting) {
            let mut follow = FOLLOW_MAX;
            let found = self.resolve(NodeId::ROOT, &folder, &mut follow, LastLink::Follow);
            match (found, name) {
                (None, _) => {}
                (Some(directory), Some(name)) => self.white_out(directory, &name),
                (Some(directory), None) => self.make_opaque(directory),
            }
        }
        if !self.whited.is_empty() || !self.opaque.is_empty() {
            self.apply_whiteouts();
        }
        self.layer =
            self.layer.checked_add(1).ok_or_else(|| Error::new("more than 65,535 sources"))?;
        self.trail.clear();
        Ok(())
    }

    fn apply_whiteouts(&mut self) {
        let (whited, opaque) = (std::mem::take(&mut self.whited), std::mem::take(&mut self.opaque));
        let count = self.tree.entries.len();
        let mut doomed = vec![false; count];
        let mut emptied = vec![false; self.tree.nodes.len()];
        emptied[0] = opaque.contains(&NodeId::ROOT.0);
        // Directories come before what they hold, so one pass carries a whiteout down ...
        for (at, entry) in self.tree.entries.iter().enumerate() {
            let hit = emptied[entry.directory as usize] || whited.contains(&(at as u32));
            doomed[at] = hit && entry.layer < self.layer;
            if self.tree.file_type(NodeId(entry.node)) == FileType::Directory {
                emptied[entry.node as usize] = hit || opaque.contains(&entry.node);
            }
        }
        // ... and one pass back carries up that something of this layer needs its directory.
        for at in (0..count).rev() {
            let entry: &Entry = &self.tree.entries[at];
            if !doomed[at] && entry.state == EntryState::Alive && entry.directory != NodeId::ROOT.0
            {
                let node = entry.directory as usize;
                let above = self.tree.nodes[node].entry as usize;
                if std::mem::replace(&mut doomed[above], false) {
                    // It was removed: what is there now is another directory, which no layer
                    // describes.
                    let Node { entry, links, .. } = self.tree.nodes[node];
                    self.tree.nodes[node] = Node { entry, links, ..implicit() };
                }
            }
        }
        for at in (0..count).filter(|at| doomed[*at]) {
            self.tree.entries[at].state = EntryState::Dead;
            let hash = self.entry_hash(at as u32);
            if let Ok(found) = self.index.find_entry(hash, |entry| *entry == at as u32) {
                found.remove();
            }
        }
    }
}
