//! The calls by which a mounted volume gets longer: that of ext4, which resize2fs makes and a mount
//! of ours answers too, and one of ours, which also says how long it is and why it does not grow.
//!
//! An ioctl is given a pointer to what its number says, so these two calls are `unsafe`, and they
//! are all that is here. The pointer is to a value of the size that the number has, and lives as
//! long as the call.
use rustix::ioctl::{Opcode, Setter, Updater, ioctl};
use std::io;
use std::os::fd::AsFd;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// EXT4_IOC_RESIZE_FS, with a number of blocks of 64 bits: the volume gets as long.
pub const RESIZE: u32 = 0x4008_6610;

/// The call of ours, with an [`Asked`].
pub const ASK: u32 = 0xc0e0_7845;

/// Bytes of the reason in an [`Asked`].
pub const REASON_BYTES: usize = 192;

/// What a mount is asked, and what it answers.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Asked {
    /// Blocks that it is to have; 0 to ask how many it has.
    pub wanted_blocks: u64,
    /// Answered: blocks that it has.
    pub blocks: u64,
    /// Answered: bytes that there are for it, without making its image longer.
    pub room_bytes: u64,
    /// Answered: bytes of a block.
    pub block_size: u32,
    /// Answered: why it did not grow, as an errno; 0 if it did.
    pub error: u32,
    /// Answered: the same in words, and zeros.
    pub reason: [u8; REASON_BYTES],
}

// The number says how many bytes the kernel moves.
const _: () = assert!(size_of::<Asked>() == (ASK >> 16 & 0x3fff) as usize);

impl Asked {
    /// Asks for so many blocks; 0 to ask how many it has.
    pub fn for_blocks(wanted_blocks: u64) -> Asked {
        let reason = [0; REASON_BYTES];
        Asked { wanted_blocks, blocks: 0, room_bytes: 0, block_size: 0, error: 0, reason }
    }

    /// Says why it did not grow. What is longer than there is room for is cut off.
    pub fn refuse(&mut self, error: u32, reason: &str) {
        self.error = error;
        let place = self.reason.iter_mut().zip(reason.bytes());
        place.for_each(|(place, byte)| *place = byte);
    }

    /// Why it did not grow, in words.
    pub fn reason(&self) -> String {
        let end = self.reason.iter().position(|byte| *byte == 0).unwrap_or(REASON_BYTES);
        String::from_utf8_lossy(self.reason.get(..end).unwrap_or_default()).into_owned()
    }
}

/// Gives the volume on which an open folder or file is so many blocks, as resize2fs does.
///
/// # Errors
/// Those of the file system that is mounted: `EPERM` for who may not, `EOPNOTSUPP` for a volume
/// that does not grow while it is mounted.
pub fn resize(file: impl AsFd, blocks: u64) -> io::Result<()> {
    const NUMBER: Opcode = RESIZE as Opcode;
    // SAFETY: the number is that of a call which reads 8 bytes, and the value has 8.
    unsafe { ioctl(file, Setter::<NUMBER, u64>::new(blocks)) }.map_err(io::Error::from)
}

/// Asks a mount of ours. What others have mounted there has no such call.
///
/// # Errors
/// Those of the call itself: `ENOTTY` from what is not ours, `EPERM` for who may not ask.
pub fn ask(file: impl AsFd, asked: &mut Asked) -> io::Result<()> {
    const NUMBER: Opcode = ASK as Opcode;
    // SAFETY: the number is that of a call which reads and writes as many bytes as the value has,
    // and every value of these bytes is one.
    unsafe { ioctl(file, Updater::<NUMBER, Asked>::new(asked)) }.map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_said_and_cut_where_there_is_no_room() {
        let mut asked = Asked::for_blocks(7);
        asked.refuse(95, "it is marked as having errors");
        assert_eq!((asked.error, asked.reason().as_str()), (95, "it is marked as having errors"));
        asked.refuse(1, &"a".repeat(1000));
        assert_eq!(asked.reason(), "a".repeat(REASON_BYTES));
    }

    #[test]
    fn what_is_not_ours_has_no_such_call() {
        let file = std::fs::File::open("/proc").expect("a folder");
        assert!(ask(&file, &mut Asked::for_blocks(0)).is_err());
        assert!(resize(&file, 1).is_err());
    }
}
