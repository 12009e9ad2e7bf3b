//! Journals: blocks of the log, and fast commits.
// tidy: writers because bytes of volumes that nobody has open are changed on purpose
use super::base::{self, Base, KIB, Kind};
use super::image::{changed, torture};
use extant_block::{BlockDevice, MemoryDevice};
use extant_format::checksum::crc32c;
use extant_format::journal::fast_commit::Reader;
use extant_format::journal::{Sequence, descriptor, revoke};
use extant_journal::{Journal, MapSource};
use extant_testkit::numbers::Numbers;
use std::hint::black_box;
use std::sync::Arc;

/// A few changes of a log.
pub fn changes() -> Vec<Vec<u8>> {
    (0..4).map(|seed| Numbers::new(seed).bytes(6 * (1 + seed as usize))).collect()
}

/// A log with changed words, as blocks and as a whole.
pub fn journal(input: &[u8]) {
    let base = base::of(&Kind::Left);
    let device = changed(base, &base.log, input);
    let shared: Arc<dyn BlockDevice> = Arc::new(device.snapshot());
    if let Ok(Some(journal)) = Journal::find(shared, MapSource::Inode) {
        black_box(journal.scan(1 << 20).is_ok());
        let format = journal.superblock().log_format();
        for block in input.chunks(KIB as usize) {
            let block = super::padded(block, KIB as usize);
            black_box(descriptor::tags(&format, &block).is_ok());
            black_box(revoke::parse(&format, &block).is_ok());
            black_box(extant_format::journal::commit::parse(&format, &block).is_ok());
        }
    }
    torture(device, input);
}

const ADD: u16 = 1;
const DELETE: u16 = 2;
const CREATE: u16 = 3;
const UNLINK: u16 = 5;
const INODE: u16 = 6;
const TAIL: u16 = 8;
const HEAD: u16 = 9;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn tag(kind: u16, value: &[u8]) -> Vec<u8> {
    let head = [kind.to_le_bytes(), (value.len() as u16).to_le_bytes()].concat();
    [head.as_slice(), value].concat()
}

/// Tags as Linux leaves them: a new file with a block, its name, what became of another file.
pub fn tags() -> Vec<Vec<u8>> {
    let mut inode = vec![0; 160];
    inode[..2].copy_from_slice(&0o100_644_u16.to_le_bytes());
    inode[26] = 1;
    inode[32..36].copy_from_slice(&0x8_0000_u32.to_le_bytes());
    inode[128] = 32;
    let new = 100_u32;
    let made = [
        tag(INODE, &[words(&[new]), inode.clone()].concat()),
        tag(CREATE, &[words(&[2, new]), b"made fast".to_vec()].concat()),
        tag(ADD, &words(&[new, 0, 1, 3000])),
    ];
    let changed = [
        tag(UNLINK, &[words(&[2, 60]), b"long".to_vec()].concat()),
        tag(DELETE, &words(&[58, 0, 5])),
        tag(ADD, &words(&[58, 3, 2, 3100])),
    ];
    vec![made.concat(), changed.concat(), tag(INODE, &[words(&[58]), inode].concat())]
}

/// The volume with these tags as its one fast commit, whose checksum is right.
fn with(base: &Base, tags: &[u8]) -> Option<MemoryDevice> {
    let device = base.device.snapshot();
    let shared: Arc<dyn BlockDevice> = Arc::new(device.snapshot());
    let journal = Journal::find(shared, MapSource::Inode).ok()??;
    let sequence = journal.scan(0).ok()?.next.0;
    let size = KIB as usize;
    let mut block = tag(HEAD, &words(&[0, sequence]));
    let room = size.checked_sub(block.len() + 12)?;
    block.extend(&tags[..room.min(tags.len())]);
    let tail_bytes = (size - block.len() - 4) as u16;
    block.extend([TAIL.to_le_bytes(), tail_bytes.to_le_bytes()].concat());
    block.extend(sequence.to_le_bytes());
    block.extend(crc32c(0, &block).to_le_bytes());
    block.resize(size, 0);
    device.write(base.fast.start, &block).ok()?;
    Some(device)
}

/// Any tags.
pub fn fast_commit(input: &[u8]) {
    let mut reader = Reader::new(Sequence(7));
    for block in input.chunks(KIB as usize) {
        if !reader.read(block) {
            break;
        }
    }
    black_box(reader.finish());
    if let Some(device) = with(base::of(&Kind::Fast), input) {
        torture(device, input);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_engine::{Access, Filesystem};

    #[test]
    fn a_fast_commit_to_begin_with_is_replayed() {
        let device = Arc::new(with(base::of(&Kind::Fast), &tags()[0]).expect("there is an area"));
        let volume = Filesystem::open(device, &base::options(Access::ReadOnly)).unwrap();
        assert_eq!(volume.read("/made fast").unwrap(), b"");
        assert_eq!(volume.read("/d/late").unwrap(), [9; 3000]);
    }

    #[test]
    fn a_log_to_begin_with_is_replayed() {
        let base = base::of(&Kind::Left);
        assert!(base.log.len() > 10, "{} sectors", base.log.len());
        let device = Arc::new(base.device.snapshot());
        let volume = Filesystem::open(device, &base::options(Access::ReadOnly)).unwrap();
        assert_eq!(volume.read("/d/late").unwrap(), [9; 3000]);
    }
}
