//! Bytes that say whose they are: records of 16 bytes with a mark, the file, the write, and the
//! place in the file.

/// Bytes of a record.
pub const RECORD: usize = 16;
/// Owner of the records that free blocks hold at the beginning.
pub const SECRET: u32 = u32::MAX;
const MARK: u32 = 0x7e57_da7a;

/// What a record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The number of the file.
    pub owner: u32,
    /// The number of the write.
    pub write: u32,
    /// Where in the file it was written, in bytes.
    pub offset: u64,
}

/// The bytes of a write of `length` bytes (whole records) at an offset.
pub fn record(owner: u32, write: u32, offset: u64, length: u64) -> Vec<u8> {
    let records = (offset..offset + length).step_by(RECORD);
    records.flat_map(|at| [MARK, owner, write, at as u32]).flat_map(u32::to_le_bytes).collect()
}

/// A record; `None` where there are only zeros.
///
/// # Errors
/// The bytes, where they are neither.
pub fn parse(bytes: &[u8]) -> Result<Option<Record>, String> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let word = |at: usize| {
        bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes)
    };
    match (word(0), word(4), word(8), word(12)) {
        (Some(MARK), Some(owner), Some(write), Some(offset)) => {
            Ok(Some(Record { owner, write, offset: offset.into() }))
        }
        _ => Err(format!("no record: {bytes:02x?}")),
    }
}
