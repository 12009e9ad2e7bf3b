//! The files that are open for writing: the kernel may have bytes of them that it has not sent, and
//! takes more from programs without asking.
//!
//! Where it keeps written pages, a program is not told that one could not be written before it
//! closes or syncs the file: `cat /dev/zero` would fill a full volume for ever. But before it takes
//! bytes, the kernel asks for the attributes by the handle, if it has no valid ones. So after a
//! write that failed it is told that they changed, and then that question fails, and with it the
//! program's write(2).
//!
//! *Invariants*: a node is here as long as one of its handles may write.
//! *Locking*: one short lock, under which no other is taken.
use crate::protocol::Errno;
use extant_block::ShortLock;
use rustc_hash::FxHashMap;

/// What is known of nodes that may be written.
#[derive(Default)]
pub(super) struct Writers {
    nodes: ShortLock<FxHashMap<u32, Written>>,
}

#[derive(Default)]
struct Written {
    handles: u32,
    /// Why the last write of what the kernel kept failed.
    failure: Option<Errno>,
}

impl Writers {
    /// Adds a handle that may write a node.
    pub(super) fn add(&self, node: u32) {
        self.nodes.lock().entry(node).or_default().handles += 1;
    }

    /// Takes one away.
    pub(super) fn remove(&self, node: u32) {
        let mut nodes = self.nodes.lock();
        if let Some(written) = nodes.get_mut(&node) {
            written.handles -= 1;
            if written.handles == 0 {
                nodes.remove(&node);
            }
        }
    }

    /// Whether a handle may write this node.
    pub(super) fn has(&self, node: u32) -> bool {
        self.nodes.lock().contains_key(&node)
    }

    /// Whether a handle may write anything.
    pub(super) fn has_any(&self) -> bool {
        !self.nodes.lock().is_empty()
    }

    /// Notes how a write of what the kernel kept ended.
    pub(super) fn note(&self, node: u32, failure: Option<Errno>) {
        if let Some(written) = self.nodes.lock().get_mut(&node) {
            written.failure = failure;
        }
    }

    /// Why the last such write failed, if it did.
    pub(super) fn failure(&self, node: u32) -> Option<Errno> {
        self.nodes.lock().get(&node)?.failure
    }
}
