//! Redo logs, which anybody may have put beside an image.
use super::base::{self, Kind};
use extant_block::BlockDevice;
use extant_edit::redo::{self, Identity};
use extant_testkit::scratch::Scratch;
use sha2::{Digest, Sha256};
use std::sync::Arc;

const DIGEST_BYTES: usize = 32;
/// The crc32 of 512 zeros.
const ZEROS: u32 = 0xb2aa_7578;

fn record(block: u64, sums: &[u32], bytes: &[u8]) -> Vec<u8> {
    let sums: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    [&block.to_le_bytes()[..], &sums, bytes].concat()
}

/// A log of the volume, without its digest: of blocks that are all zeros before.
pub fn logs() -> Vec<Vec<u8>> {
    let base = base::of(&Kind::Ext2);
    let bytes = base.device.info().bytes;
    let log = |records: u64, sum: u32| {
        let mut log = b"EXTREDO4".to_vec();
        log.extend(1024_u32.to_le_bytes());
        log.extend(0_u32.to_le_bytes());
        log.extend(base.superblock.uuid);
        log.extend(0_u64.to_le_bytes());
        log.extend(bytes.to_le_bytes());
        log.extend(records.to_le_bytes());
        log.extend(0_u64.to_le_bytes());
        for number in 0..records {
            log.extend(record(4000 + number, &[sum; 2], &[7; 1024]));
        }
        log
    };
    vec![log(2, ZEROS), log(1, !ZEROS), log(0, 0)]
}

/// A log whose digest is right, and one that ends as the input does.
pub fn log(input: &[u8]) {
    let folder = Scratch::new("fuzz-redo");
    let path = folder.join("log");
    let base = base::of(&Kind::Ext2);
    let device = Arc::new(base.device.snapshot()) as Arc<dyn BlockDevice>;
    let identity = Identity { offset: 0, image_bytes: base.device.info().bytes };
    let sealed = [input, &Sha256::digest(input)].concat();
    for bytes in [&sealed[..], input, &sealed[..sealed.len().saturating_sub(DIGEST_BYTES / 2)]] {
        if std::fs::write(&path, bytes).is_ok()
            && let Ok(Some(over)) = redo::over(&path, &device, &identity)
        {
            let mut block = [0; 1024];
            for at in [1024, 4_000 * 1024, base.device.info().bytes - 1024] {
                let _ = over.read(at, &mut block);
            }
        }
    }
    let image = folder.join("image");
    if std::fs::write(&path, &sealed).is_ok()
        && base.device.save(&image).is_ok()
        && let Ok(file) = std::fs::File::options().read(true).write(true).open(&image)
    {
        let _ = redo::finish(&path, &file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first log to begin with is of the volume, and the second one of another state of it.
    #[test]
    fn a_log_to_begin_with_is_of_the_volume() {
        let folder = Scratch::new("fuzz-redo-seeds");
        let path = folder.join("log");
        let base = base::of(&Kind::Ext2);
        let device = Arc::new(base.device.snapshot()) as Arc<dyn BlockDevice>;
        let identity = Identity { offset: 0, image_bytes: base.device.info().bytes };
        let belongs = |log: &[u8]| {
            std::fs::write(&path, [log, &Sha256::digest(log)].concat()).expect("it is written");
            redo::over(&path, &device, &identity).is_ok_and(|over| over.is_some())
        };
        let logs = logs();
        assert!(belongs(&logs[0]) && !belongs(&logs[1]));
    }
}
