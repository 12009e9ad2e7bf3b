//! libCacheSim's oracleGeneral: records of 24 bytes, little-endian, packed.
//!
//! ```text
//! 0 time (seconds, 32 bits)   4 object (64 bits)   12 size (32 bits)   16 next access (64 bits)
//! ```
use super::request::{Held, Request};
use extant_block::Operation;

/// Bytes of a record.
pub(super) const BYTES: usize = 24;
/// What the number of an object is taken for that of.
const SECTOR: u64 = 512;
const SECOND_NS: u64 = 1_000_000_000;
/// Places stay below 2^62: numbers of objects may be hashes of 64 bits.
const PLACES: u64 = (1 << 62) / SECTOR;

fn field<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&record[at..at + N]);
    bytes
}

/// The time of a record, in seconds, and the size of its object.
pub(super) fn time_and_size(record: &[u8]) -> (u32, u32) {
    (u32::from_le_bytes(field(record, 0)), u32::from_le_bytes(field(record, 12)))
}

/// What a record of [`BYTES`] holds.
pub(super) fn record(record: &[u8]) -> Held<'_> {
    let (time, bytes) = time_and_size(record);
    let object = u64::from_le_bytes(field(record, 4));
    if bytes == 0 {
        return Held::Other;
    }
    let request = Request {
        arrival_ns: u64::from(time) * SECOND_NS,
        operation: Operation::Read,
        offset: object % PLACES * SECTOR,
        bytes: bytes.into(),
        measured_ns: None,
    };
    Held::Request(&[], request)
}
