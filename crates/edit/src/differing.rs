//! Blocks that differ between a view of a volume and its device, and room for them there.
use extant_block::{BlockDevice, Overlay};
use extant_engine::Error;
use extant_format::superblock::{SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock};
use extant_journal::transaction::Blocks;
use std::io;
use std::sync::Arc;

/// Bytes that a device has of a block: less than all of the last one, where it ends within that.
pub(crate) fn block_bytes(device: &dyn BlockDevice, number: u64, block_size: u32) -> usize {
    let start = number.saturating_mul(block_size.into());
    device.info().bytes.saturating_sub(start).min(block_size.into()) as usize
}

/// Reads a block; what the device does not have of it is zeros.
///
/// # Errors
/// The device's.
pub(crate) fn read_block(
    device: &dyn BlockDevice,
    number: u64,
    bytes: &mut [u8],
) -> io::Result<()> {
    let size = bytes.len();
    let (has, missing) = bytes.split_at_mut(block_bytes(device, number, size as u32));
    missing.fill(0);
    match has.is_empty() {
        true => Ok(()),
        false => device.read(number * size as u64, has),
    }
}

/// The blocks of a volume that an overlay changed, in blocks of any size.
pub(crate) fn written(overlay: &Overlay, block_size: u32) -> Vec<u64> {
    let (kept, size) = (overlay.block_bytes() as u64, u64::from(block_size));
    let end = |number: u64| (number + 1).saturating_mul(kept).div_ceil(size);
    let blocks = overlay.written().into_iter();
    let mut blocks: Vec<u64> =
        blocks.flat_map(|number| number.saturating_mul(kept) / size..end(number)).collect();
    blocks.dedup();
    blocks
}

/// The blocks of a view that differ from those of the device below it.
pub(crate) struct Differing<'a> {
    device: &'a Arc<dyn BlockDevice>,
    view: &'a dyn BlockDevice,
    numbers: Vec<u64>,
    block_size: u32,
}

impl<'a> Differing<'a> {
    /// Those among `candidates`, which rise.
    ///
    /// # Errors
    /// The device's.
    pub fn of(
        device: &'a Arc<dyn BlockDevice>,
        view: &'a dyn BlockDevice,
        candidates: Vec<u64>,
        block_size: u32,
    ) -> Result<Differing<'a>, Error> {
        let mut differing = Differing { device, view, numbers: Vec::new(), block_size };
        let primary = SUPERBLOCK_OFFSET / u64::from(block_size);
        let size = block_size as usize;
        let (mut before, mut after) = (vec![0; size], vec![0; size]);
        for number in candidates {
            read_block(&**device, number, &mut before)?;
            read_block(view, number, &mut after)?;
            if before != after {
                differing.numbers.push(number);
            }
        }
        // A superblock in which only its time differs says that nothing happened.
        if differing.numbers == [primary] && differing.is_only_time(primary)? {
            differing.numbers.clear();
        }
        Ok(differing)
    }

    /// Writes zeros where the device has holes and blocks are to be brought: the bytes are as they
    /// were, but a host file system that is full says so while nothing is decided.
    ///
    /// # Errors
    /// The device's.
    pub fn take_room(&self) -> Result<(), Error> {
        take_room(self.device, self.block_size, self)
    }

    fn is_only_time(&self, primary: u64) -> io::Result<bool> {
        let size = self.block_size as usize;
        let (mut before, mut after) = (vec![0; size], vec![0; size]);
        read_block(&**self.device, primary, &mut before)?;
        read_block(self.view, primary, &mut after)?;
        let offset = SUPERBLOCK_OFFSET as usize % size;
        for block in [&mut before, &mut after] {
            let place = block.get_mut(offset..).and_then(|rest| rest.first_chunk_mut());
            let Some(place) = place else { return Ok(false) };
            let place: &mut [u8; SUPERBLOCK_SIZE] = place;
            let Ok(mut superblock) = Superblock::parse_any(place) else { return Ok(false) };
            superblock.written_seconds = 0;
            *place = superblock.encode();
        }
        Ok(before == after)
    }
}

impl Blocks for Differing<'_> {
    fn len(&self) -> usize {
        self.numbers.len()
    }
    fn number(&self, at: usize) -> u64 {
        self.numbers[at]
    }
    fn bytes(&self, at: usize) -> io::Result<Arc<Vec<u8>>> {
        let mut bytes = vec![0; self.block_size as usize];
        read_block(self.view, self.numbers[at], &mut bytes)?;
        Ok(Arc::new(bytes))
    }
}

/// As [`Differing::take_room`], for any blocks.
///
/// # Errors
/// The device's.
pub(crate) fn take_room(
    device: &Arc<dyn BlockDevice>,
    block_size: u32,
    blocks: &dyn Blocks,
) -> Result<(), Error> {
    let zeros = vec![0; block_size as usize];
    let mut data = 0..0;
    for number in (0..blocks.len()).map(|at| blocks.number(at)) {
        let mut at = number * u64::from(block_size);
        let end = at + block_bytes(&**device, number, block_size) as u64;
        while at < end {
            if data.end <= at {
                data = device.next_data(at)?.unwrap_or(u64::MAX..u64::MAX);
            }
            let stop = end.min(if data.start > at { data.start } else { data.end });
            if data.start > at {
                // tidy: writers because these bytes are zeros already
                device.write(at, &zeros[..(stop - at) as usize])?;
            }
            at = stop;
        }
    }
    Ok(())
}
