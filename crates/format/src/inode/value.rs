//! What an inode that is the value of an attribute (`ea_inode`) keeps in place of its times.
//!
//! ```text
//! access time, seconds           hash of the value
//! change time, seconds | version how many entries have the value: high and low 32 bits
//! modification time, generation  of Lustre, which counts no entries: the one inode that has it
//! ```
use super::{Inode, Time};

/// Of an inode that is a value, or is to be: the hash that it keeps, and how many entries have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValueFacts {
    /// Of its content.
    pub hash: u32,
    /// How many entries of lists have it as their value.
    pub references: u64,
}

impl ValueFacts {
    /// What an inode says of itself.
    pub fn of(inode: &Inode) -> ValueFacts {
        // The low 32 bits are what is stored.
        let low = |seconds: i64| u64::from(seconds.cast_unsigned() as u32);
        let high = low(inode.change_time.seconds) << 32;
        ValueFacts {
            hash: inode.access_time.seconds.cast_unsigned() as u32,
            references: high | inode.version & u64::from(u32::MAX),
        }
    }

    /// Has an inode say so.
    pub fn store(self, inode: &mut Inode) {
        let time = |bits: u32| Time { seconds: i64::from(bits.cast_signed()), nanoseconds: 0 };
        inode.access_time = time(self.hash);
        inode.change_time = time((self.references >> 32) as u32);
        let low = self.references & u64::from(u32::MAX);
        inode.version = inode.version & !u64::from(u32::MAX) | low;
    }
}
