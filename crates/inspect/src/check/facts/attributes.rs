//! Which inodes have attributes outside of them: in a block that several share, or in inodes that
//! are values; what attributes say of encryption; and the blocks of translators of the Hurd.
//!
//! *Locking*: one short lock around each list, held for a push.
use extant_block::ShortLock;
use extant_format::{BlockNo, Ino};
use std::collections::BTreeMap;

/// An inode with an attribute block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Sharer {
    /// The block. First, so that sorted means by place.
    pub(crate) block: BlockNo,
    /// The inode that has it.
    pub(crate) ino: Ino,
}

/// What an encryption context says of keys and modes: all files of an encrypted directory have that
/// of the directory.
pub(crate) type Policy = [u8; POLICY_BYTES];

/// Bytes of the longest policy; a shorter one ends in zeros.
const POLICY_BYTES: usize = 24;

/// An encryption context, as it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Encryption {
    #[default]
    None,
    /// Of no version that there is, or not as long as its version is.
    Corrupt,
    Policy(Policy),
}

impl Encryption {
    /// Of the value of the attribute. A number of the file's own follows the policy.
    pub(crate) fn read(value: &[u8]) -> Encryption {
        let length = match (value.first(), value.len()) {
            (Some(1), 28) => 12,
            (Some(2), 40) => POLICY_BYTES,
            _ => return Encryption::Corrupt,
        };
        let mut policy = [0; POLICY_BYTES];
        policy.iter_mut().zip(value.iter().take(length)).for_each(|(to, from)| *to = *from);
        Encryption::Policy(policy)
    }
}

/// Attribute blocks with the inodes that have them, inodes that are values, and the policies of
/// encrypted inodes.
#[derive(Default)]
pub(crate) struct Sharers {
    blocks: ShortLock<Vec<Sharer>>,
    translators: ShortLock<Vec<Sharer>>,
    values: ShortLock<Vec<Ino>>,
    policies: ShortLock<BTreeMap<Ino, Policy>>,
}

impl Sharers {
    /// An inode has an attribute block.
    pub(crate) fn add(&self, sharer: Sharer) {
        self.blocks.lock().push(sharer);
    }

    /// The Hurd keeps the translator of an inode in a block, which no other has.
    pub(crate) fn add_translator(&self, of: Sharer) {
        self.translators.lock().push(of);
    }

    /// All blocks of translators, by place.
    pub(crate) fn translators(&self) -> Vec<Sharer> {
        let mut translators = self.translators.lock().clone();
        translators.sort_unstable();
        translators
    }

    /// An attribute has this inode as its value.
    pub(crate) fn add_value(&self, ino: Ino) {
        self.values.lock().push(ino);
    }

    /// An encrypted inode has this policy.
    pub(crate) fn add_policy(&self, ino: Ino, policy: Policy) {
        self.policies.lock().insert(ino, policy);
    }

    /// The policy of an encrypted inode, if it has one.
    pub(crate) fn policy(&self, ino: Ino) -> Option<Policy> {
        self.policies.lock().get(&ino).copied()
    }

    /// All attribute blocks, by place.
    pub(crate) fn sorted(&self) -> Vec<Sharer> {
        let mut sharers = self.blocks.lock().clone();
        sharers.sort_unstable();
        sharers
    }

    /// The inodes that are values, rising; each once for every attribute that has it.
    pub(crate) fn values(&self) -> Vec<Ino> {
        let mut values = self.values.lock().clone();
        values.sort_unstable();
        values
    }
}

/// What other judges of an inode have to know of its attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct HeldByAttributes {
    /// Blocks that count as the file's: its attribute block, and what the inodes of large values
    /// take.
    pub(crate) blocks: u64,
    /// Inodes that hold large values, one for each value.
    pub(crate) value_inodes: u64,
    /// It has the attribute in which data of the inode goes on (`system.data`).
    pub(crate) has_inline_data: bool,
    /// Bytes of that attribute.
    pub(crate) inline_bytes: u64,
    /// Its encryption context.
    pub(crate) encryption: Encryption,
}
