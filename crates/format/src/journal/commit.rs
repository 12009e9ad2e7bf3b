//! Commit blocks: with one a transaction is whole.
use super::{BlockKind, Checksums, Header, LogFormat, Sequence, TransactionChecksum, put};
use crate::Fault;
use crate::checksum::crc32c;
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const STRUCTURE: &str = "journal commit block";
/// `checksum_type` and `checksum_bytes` of version 1: a crc32, of 4 bytes.
const CRC32: [u8; 2] = [1, 4];

/// A commit block of which the checksum, if it has one of its own, is right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Commit {
    /// The transaction that it ends.
    pub sequence: Sequence,
    /// When it was committed.
    pub time: CommitTime,
    /// What it says about the bytes of its transaction: version 1 only.
    transaction: Option<StoredChecksum>,
}

/// When a transaction was committed, since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CommitTime {
    /// Whole seconds.
    pub seconds: u64,
    /// And nanoseconds.
    pub nanoseconds: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct StoredChecksum {
    kind: [u8; 2],
    value: u32,
}

#[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawCommit {
    header: super::RawHeader,
    checksum_kind: [u8; 2],
    padding: [u8; 2],
    checksum: [U32; 8],
    seconds: U64,
    nanoseconds: U32,
}

/// Where the checksum is.
const CHECKSUM: usize = std::mem::offset_of!(RawCommit, checksum);

/// Reads a commit block.
///
/// # Errors
/// A checksum of its own (versions 2 and 3) that is wrong, or bytes that are not one block.
pub fn parse(format: &LogFormat, block: &[u8]) -> Result<Commit, Fault> {
    format.check_length(STRUCTURE, block)?;
    let (raw, _) = RawCommit::ref_from_prefix(block).map_err(|_| Fault::Field {
        structure: STRUCTURE,
        field: "length",
        value: block.len() as u64,
        reason: "less than its fields need",
    })?;
    let [stored, ..] = raw.checksum;
    if format.has_block_checksums() {
        let (stored, computed) = (stored.get(), checksum(format, block));
        if stored != computed {
            return Err(Fault::Checksum { structure: STRUCTURE, stored, computed });
        }
    }
    let value = stored.get();
    let transaction = (format.checksums == Checksums::Version1)
        .then_some(StoredChecksum { kind: raw.checksum_kind, value });
    Ok(Commit {
        sequence: Sequence(raw.header.sequence.get()),
        time: CommitTime { seconds: raw.seconds.get(), nanoseconds: raw.nanoseconds.get() },
        transaction,
    })
}

impl Commit {
    /// Refuses a transaction whose bytes are not those that were committed, as far as version 1
    /// can say: a commit block may have no checksum of them.
    ///
    /// # Errors
    /// A wrong checksum.
    pub fn check(&self, transaction: TransactionChecksum) -> Result<(), Fault> {
        let Some(StoredChecksum { kind, value }) = self.transaction else { return Ok(()) };
        let is_absent = kind == [0, 0] && value == 0;
        if is_absent || (kind == CRC32 && value == transaction.value()) {
            return Ok(());
        }
        let computed = transaction.value();
        Err(Fault::Checksum { structure: "journal transaction", stored: value, computed })
    }
}

/// The bytes of a commit block. `transaction` is stored by version 1 alone; others need not
/// compute it.
pub fn encode(
    format: &LogFormat,
    sequence: Sequence,
    time: CommitTime,
    transaction: TransactionChecksum,
) -> Vec<u8> {
    let mut block = Header { kind: BlockKind::Commit, sequence }.block(format);
    let mut raw = RawCommit::new_zeroed();
    put(raw.as_mut_bytes(), 0, &block);
    raw.seconds = time.seconds.into();
    raw.nanoseconds = time.nanoseconds.into();
    if format.checksums == Checksums::Version1 {
        let [first, ..] = &mut raw.checksum;
        *first = transaction.value().into();
        raw.checksum_kind = CRC32;
    }
    put(&mut block, 0, raw.as_bytes());
    if format.has_block_checksums() {
        let checksum = checksum(format, &block);
        put(&mut block, CHECKSUM, &checksum.to_be_bytes());
    }
    block
}

/// Of versions 2 and 3: over the whole block, with zeros for the checksum.
fn checksum(format: &LogFormat, block: &[u8]) -> u32 {
    let (before, rest) = block.split_at_checked(CHECKSUM).unwrap_or((block, &[]));
    let after = rest.get(size_of::<u32>()..).unwrap_or_default();
    crc32c(crc32c(crc32c(format.seed(), before), &[0; size_of::<u32>()]), after)
}
