//! What the server tells the kernel without being asked, and answers that are given later.
use crate::protocol::numbers::notice;
use crate::protocol::{Sink, wire};
use crate::transport::Transport;
use std::io::IoSlice;
use std::sync::{Arc, OnceLock};
use zerocopy::{Immutable, IntoBytes};

/// The way to the kernel, once there is one.
#[derive(Default)]
pub(super) struct Notices {
    transport: OnceLock<Arc<dyn Transport>>,
}

impl Notices {
    /// Notices go this way from now on. A second way is not taken.
    pub(super) fn connect(&self, transport: Arc<dyn Transport>) {
        let _ = self.transport.set(transport);
    }

    /// Has the kernel send what it has of a file from a byte on, and forget it. It is sent by write
    /// requests, for whose answers this waits: no worker may call it.
    pub(super) fn send_back(&self, node: u64, offset: u64) {
        let offset = i64::try_from(offset).unwrap_or(i64::MAX);
        self.tell(notice::INVALIDATE_INODE, &wire::InvalidateInode { node, offset, length: 0 });
    }

    /// Has the kernel ask for what stat shows of a file when it is next wanted. Nothing is waited
    /// for.
    pub(super) fn forget_attributes(&self, node: u64) {
        const ATTRIBUTES_ALONE: i64 = -1;
        let notice = wire::InvalidateInode { node, offset: ATTRIBUTES_ALONE, length: 0 };
        self.tell(notice::INVALIDATE_INODE, &notice);
    }

    /// Has the kernel give up what it has of an inode that no program uses. Kernels before 6.18 do
    /// not know this. What it still has to send of it is waited for: no worker may call this.
    pub(super) fn give_up(&self, node: u64) {
        self.tell(notice::PRUNE, &wire::Prune { count: 1, unused: 0, spare: 0, node });
    }

    /// A notice that the kernel refuses is of something that it does not have.
    fn tell<T: IntoBytes + Immutable>(&self, code: i32, notice: &T) {
        let Some(transport) = self.transport.get() else { return };
        let length = size_of::<wire::ReplyHeader>() + size_of::<T>();
        let header = wire::ReplyHeader { length: length as u32, error: code, unique: 0 };
        let parts = [IoSlice::new(header.as_bytes()), IoSlice::new(notice.as_bytes())];
        let _ = transport.send(&parts);
    }
}

impl Sink for Notices {
    /// An answer that the kernel refuses is to a request that was withdrawn.
    fn send(&self, parts: &[IoSlice<'_>]) {
        if let Some(transport) = self.transport.get() {
            let _ = transport.send(parts);
        }
    }
}
