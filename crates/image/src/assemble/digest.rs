//! A number for the content of a tree, from which UUID and hash seed are made: the same tree, the
//! same image.
//!
//! It covers all that the image says of its files (names, types, modes, owners, times, attributes,
//! targets, devices, sizes, holes, hard links), and not their bytes: those are read once, when they
//! are written, and the seed is needed before.
use crate::tree::{NodeId, Tree};
use extant_format::inode::FileType;
use extant_format::layout::Wishes;
use sha2::{Digest, Sha256};
use std::ops::Range;

/// A digest of a tree and of the words that shape its image.
pub fn of_tree(tree: &Tree, shape: &str, wishes: &Wishes) -> [u8; 32] {
    let seen = vec![0; tree.node_bound()];
    let mut digest = TreeDigest {
        hash: Sha256::new(),
        seen,
        next: 1,
        block_size: wishes.block_size.into(),
        inode_size: wishes.inode_size,
    };
    digest.bytes(shape.as_bytes());
    digest.node(tree, NodeId::ROOT);
    let mut waiting = vec![NodeId::ROOT];
    while let Some(directory) = waiting.pop() {
        for child in tree.children(directory) {
            digest.bytes(child.name);
            if digest.node(tree, child.node) && tree.file_type(child.node) == FileType::Directory {
                waiting.push(child.node);
            }
        }
        digest.bytes(b"/");
    }
    digest.hash.finalize().into()
}

/// A UUID of version 8 (RFC 9562: its maker's own) out of the first half.
pub fn uuid(digest: &[u8; 32]) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&digest[..16]);
    uuid[6] = (uuid[6] & 0x0f) | 0x80;
    uuid[8] = (uuid[8] & 0x3f) | 0x80;
    uuid
}

/// A hash seed out of the second half.
pub fn seed(digest: &[u8; 32]) -> [u32; 4] {
    let mut seed = [0; 4];
    for (word, bytes) in seed.iter_mut().zip(digest[16..].chunks_exact(4)) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    seed
}

struct TreeDigest {
    hash: Sha256,
    /// By node: when it came first, so that hard links differ from copies.
    seen: Vec<u32>,
    next: u32,
    block_size: u64,
    inode_size: u16,
}

impl TreeDigest {
    fn bytes(&mut self, bytes: &[u8]) {
        self.hash.update((bytes.len() as u64).to_le_bytes());
        self.hash.update(bytes);
    }

    fn number(&mut self, number: u64) {
        self.hash.update(number.to_le_bytes());
    }

    /// True when the node came for the first time.
    fn node(&mut self, tree: &Tree, node: NodeId) -> bool {
        let seen = &mut self.seen[node.0 as usize];
        if *seen != 0 {
            let first = *seen;
            self.number(first.into());
            return false;
        }
        *seen = self.next;
        self.next += 1;
        self.number(tree.mode(node).into());
        self.number(u64::from(tree.uid(node)) << 32 | u64::from(tree.gid(node)));
        for time in [tree.modify_time(node), tree.access_time(node), tree.change_time(node)] {
            // As with holes: what the image does not keep must not make two sources of the same
            // image differ.
            let time = time.kept(self.inode_size);
            self.number(time.seconds as u64);
            self.number(time.nanoseconds.into());
        }
        let device = tree.device(node);
        self.number(u64::from(device.major) << 32 | u64::from(device.minor));
        self.number(tree.length(node));
        self.bytes(tree.target(node));
        self.holes(tree, node);
        self.number(tree.attributes(node).len() as u64);
        for attribute in tree.attributes(node) {
            self.bytes(&attribute.name);
            self.bytes(&attribute.value);
        }
        // Few trees have any: the number of the others is what it was.
        if tree.flags(node) != 0 {
            self.number(tree.flags(node).into());
        }
        true
    }

    /// Which blocks hold data: holes finer than a block reach no image, and must not make
    /// two sources of the same image differ.
    fn holes(&mut self, tree: &Tree, node: NodeId) {
        let mut last: Option<Range<u64>> = None;
        for segment in tree.data_segments(node) {
            let blocks = segment.offset / self.block_size
                ..(segment.offset + segment.length).div_ceil(self.block_size);
            match &mut last {
                Some(last) if blocks.start <= last.end => last.end = last.end.max(blocks.end),
                _ => {
                    let whole = last.replace(blocks);
                    self.blocks(whole);
                }
            }
        }
        self.blocks(last);
    }

    fn blocks(&mut self, blocks: Option<Range<u64>>) {
        if let Some(blocks) = blocks {
            self.number(blocks.start);
            self.number(blocks.end);
        }
    }
}
