//! Revoke blocks: copies of these blocks in the same and earlier transactions must not be replayed.
use super::log_format::REVOKE_HEADER_BYTES;
use super::{BlockKind, BlockNumbers, HEADER_BYTES, Header, LogFormat, Sequence, put};
use crate::{BlockNo, Fault};

const STRUCTURE: &str = "journal revoke block";

/// The blocks that a revoke block names.
///
/// # Errors
/// A checksum that is wrong, a length that is not possible, or bytes that are not one block.
pub fn parse(format: &LogFormat, block: &[u8]) -> Result<Vec<BlockNo>, Fault> {
    format.check_tail(STRUCTURE, block)?;
    let used = block.get(HEADER_BYTES..).and_then(|rest| rest.first_chunk());
    let used = used.map_or(0, |used| u32::from_be_bytes(*used));
    let wrong = |reason| Fault::Field {
        structure: STRUCTURE,
        field: "bytes in use",
        value: used.into(),
        reason,
    };
    let body = block.get(..format.body_end()).unwrap_or_default();
    let body = body.get(..used as usize).ok_or_else(|| wrong("more than a block has"))?;
    let numbers =
        body.get(REVOKE_HEADER_BYTES..).ok_or_else(|| wrong("less than its header takes"))?;
    Ok(match format.block_numbers {
        BlockNumbers::Narrow => {
            let (numbers, _) = numbers.as_chunks::<4>();
            numbers.iter().map(|number| BlockNo(u32::from_be_bytes(*number).into())).collect()
        }
        BlockNumbers::Wide => {
            let (numbers, _) = numbers.as_chunks::<8>();
            numbers.iter().map(|number| BlockNo(u64::from_be_bytes(*number))).collect()
        }
    })
}

/// Revoke blocks that name these blocks, in their order: none for none.
///
/// # Panics
/// When the number of a block needs more bits than the log has.
pub fn encode(format: &LogFormat, sequence: Sequence, revoked: &[BlockNo]) -> Vec<Vec<u8>> {
    let per_block = format.revokes_per_block().max(1);
    revoked.chunks(per_block).map(|numbers| encode_block(format, sequence, numbers)).collect()
}

fn encode_block(format: &LogFormat, sequence: Sequence, numbers: &[BlockNo]) -> Vec<u8> {
    let mut block = Header { kind: BlockKind::Revoke, sequence }.block(format);
    let mut end = REVOKE_HEADER_BYTES;
    for number in numbers {
        match format.block_numbers {
            BlockNumbers::Wide => put(&mut block, end, &number.0.to_be_bytes()),
            BlockNumbers::Narrow => {
                let narrow = u32::try_from(number.0).expect("a block of a log of 32-bit numbers");
                put(&mut block, end, &narrow.to_be_bytes());
            }
        }
        end = end.saturating_add(format.revoke_bytes());
    }
    let used = u32::try_from(end).unwrap_or(u32::MAX);
    put(&mut block, HEADER_BYTES, &used.to_be_bytes());
    format.seal(&mut block);
    block
}
