//! Blocks at rising places are gathered into requests: those that follow each other, as many as one
//! request takes. Whatever writes blocks in the order of the disk does it by this.

/// Bytes of one request, at most. Linux splits longer ones for most devices.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;

/// How many blocks of `block_bytes` one request takes: at least one.
pub fn blocks_per_request(block_bytes: usize) -> usize {
    (REQUEST_BYTES_MAX / block_bytes.max(1)).max(1)
}

/// Blocks that follow each other, each with what is written there, up to one request.
///
/// *Invariants*: item `i` belongs to the block `first + i`; there are never more than one request
/// takes.
#[derive(Debug)]
pub struct Gather<T> {
    blocks_max: usize,
    first: u64,
    items: Vec<T>,
}

impl<T> Gather<T> {
    /// None so far, of blocks of `block_bytes`.
    pub fn new(block_bytes: usize) -> Gather<T> {
        Gather { blocks_max: blocks_per_request(block_bytes), first: 0, items: Vec::new() }
    }

    /// Whether a block can be added: it follows the last one, and the request has room for it.
    pub fn takes(&self, block: u64) -> bool {
        let follows = block.checked_sub(self.first) == Some(self.items.len() as u64);
        self.items.is_empty() || (follows && self.items.len() < self.blocks_max)
    }

    /// Adds a block that it takes.
    pub fn push(&mut self, block: u64, item: T) {
        debug_assert!(
            self.takes(block),
            "block {block} after {} of {}",
            self.items.len(),
            self.first
        );
        if self.items.is_empty() {
            self.first = block;
        }
        self.items.push(item);
    }

    /// Takes what was gathered out: the first block, and the items. `None` if there are none.
    pub fn take(&mut self) -> Option<(u64, Vec<T>)> {
        let items = std::mem::take(&mut self.items);
        (!items.is_empty()).then_some((self.first, items))
    }
}

/// Calls `write` for each request that these blocks make, in their order, with the offset of its
/// first byte and the items of its blocks. Blocks that do not rise are written too, in requests of
/// their own.
///
/// # Errors
/// The first of `blocks`, after what came before it was written; the first of `write`.
pub fn each_request<T, E>(
    blocks: impl IntoIterator<Item = Result<(u64, T), E>>,
    block_bytes: usize,
    mut write: impl FnMut(u64, Vec<T>) -> Result<(), E>,
) -> Result<(), E> {
    let mut gather = Gather::new(block_bytes);
    let mut write_gathered = |gather: &mut Gather<T>| match gather.take() {
        Some((first, items)) => write(first.saturating_mul(block_bytes as u64), items),
        None => Ok(()),
    };
    for block in blocks {
        let (block, item) = match block {
            Ok(block) => block,
            Err(error) => return write_gathered(&mut gather).and(Err(error)),
        };
        if !gather.takes(block) {
            write_gathered(&mut gather)?;
        }
        gather.push(block, item);
    }
    write_gathered(&mut gather)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The requests that blocks of this size make: offsets and blocks.
    fn requests(blocks: &[u64], block_bytes: usize) -> Vec<(u64, Vec<u64>)> {
        let mut made = Vec::new();
        let blocks = blocks.iter().map(|block| Ok::<_, ()>((*block, *block)));
        each_request(blocks, block_bytes, |offset, items| {
            made.push((offset, items));
            Ok(())
        })
        .unwrap();
        made
    }

    #[test]
    fn only_blocks_that_follow_each_other_share_a_request() {
        let made = requests(&[0, 1, 3, 4, 4, 2, 3, u64::MAX], 4096);
        let blocks: Vec<&[u64]> = made.iter().map(|(_, blocks)| blocks.as_slice()).collect();
        assert_eq!(blocks, [&[0, 1][..], &[3, 4], &[4], &[2, 3], &[u64::MAX]]);
        let offsets: Vec<u64> = made.iter().map(|(offset, _)| *offset).collect();
        assert_eq!(offsets, [0, 3 * 4096, 4 * 4096, 2 * 4096, u64::MAX]);
        assert!(requests(&[], 4096).is_empty());
    }

    #[test]
    fn a_request_has_a_mebibyte_or_one_block() {
        let blocks: Vec<u64> = (7..7 + 600).collect();
        let made = requests(&blocks, 4096);
        let lengths: Vec<usize> = made.iter().map(|(_, blocks)| blocks.len()).collect();
        assert_eq!(lengths, [256, 256, 88]);
        assert_eq!(requests(&[1, 2], 2 << 20).len(), 2);
    }

    #[test]
    fn what_came_before_an_error_is_written() {
        let mut made = Vec::new();
        let blocks = [Ok((1, 'a')), Ok((2, 'b')), Err("cut"), Ok((3, 'c'))];
        let outcome = each_request(blocks, 4096, |offset, items| {
            made.push((offset, items));
            Ok(())
        });
        assert_eq!((outcome, made), (Err("cut"), vec![(4096, vec!['a', 'b'])]));
        let outcome = each_request([Ok((1, 'a')), Ok((3, 'c'))], 4096, |_, _| Err("full"));
        assert_eq!(outcome, Err("full"));
    }
}
