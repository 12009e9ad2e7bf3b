//! Volumes whose logs the tests write, with the encoder that a judge has compared with Linux.
#![allow(dead_code)] // each test uses a part
use extant_block::{BlockDevice, Clock, MemoryDevice, RealClock};
use extant_format::BlockNo;
use extant_format::journal::{
    JournalSuperblock, LogFormat, Sequence, TransactionChecksum, commit, descriptor, revoke,
};
use extant_format::superblock::{Feature, SUPERBLOCK_SIZE, Superblock};
use extant_journal::{Journal, MapSource};
use extant_testkit::scratch::Scratch;
use extant_testkit::{command, oracle};
use std::path::Path;
use std::sync::Arc;

pub fn clock() -> Arc<dyn Clock> {
    RealClock::new()
}

/// Whether the tests can run.
pub fn tools() -> bool {
    oracle::require("mke2fs") && oracle::require("e2fsck") && oracle::require("debugfs")
}

pub fn make(image: &Path, features: &str, block_size: u32) {
    let mut mke2fs = command::program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-O", features, "-b", &block_size.to_string()]);
    mke2fs.args(["-J", "size=4"]).arg(image).arg("32M");
    command::output(&mut mke2fs).expect("mke2fs makes it");
}

pub fn load(image: &Path) -> Arc<MemoryDevice> {
    let bytes = std::fs::read(image).expect("the image");
    Arc::new(MemoryDevice::from_bytes(clock(), &bytes))
}

/// A volume that mke2fs made, in memory.
pub fn fresh(features: &str, block_size: u32) -> Arc<MemoryDevice> {
    let folder = Scratch::new("journal-fresh");
    let image = folder.join("image");
    make(&image, features, block_size);
    load(&image)
}

pub fn bytes_of(device: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.info().bytes as usize];
    device.read(0, &mut bytes).expect("it can be read");
    bytes
}

pub fn journal(device: &Arc<MemoryDevice>) -> Journal {
    let device: Arc<dyn BlockDevice> = Arc::clone(device) as _;
    Journal::find(device, MapSource::Inode).expect("a journal").expect("a journal")
}

pub fn superblock(device: &dyn BlockDevice) -> Superblock {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    device.read(1024, &mut bytes).expect("it can be read");
    Superblock::parse_any(&bytes).expect("a superblock")
}

/// Changes the superblock of the volume.
pub fn change_superblock(device: &dyn BlockDevice, change: impl FnOnce(&mut Superblock)) {
    let mut volume = superblock(device);
    change(&mut volume);
    device.write(1024, &volume.encode()).expect("it can be written");
}

/// A log that is being written to a device.
pub struct LogWriter {
    device: Arc<MemoryDevice>,
    pub journal: Journal,
    pub superblock: JournalSuperblock,
    pub format: LogFormat,
    pub at: u32,
    pub sequence: Sequence,
}

impl LogWriter {
    /// Begins a log at a block and a sequence, with the features that Linux would use, and more.
    pub fn new(
        device: &Arc<MemoryDevice>,
        start: u32,
        sequence: u32,
        change: impl FnOnce(&mut JournalSuperblock),
    ) -> LogWriter {
        let journal = journal(device);
        let mut superblock = *journal.superblock();
        superblock.adopt_features(journal.volume());
        (superblock.start, superblock.sequence) = (start, Sequence(sequence));
        change(&mut superblock);
        let writer = LogWriter {
            device: Arc::clone(device),
            journal,
            superblock,
            format: superblock.log_format(),
            at: start,
            sequence: Sequence(sequence),
        };
        writer.store_superblock();
        change_superblock(&**device, |volume| volume.features.set(Feature::NEEDS_RECOVERY));
        writer
    }

    pub fn store_superblock(&self) {
        let mut bytes = self.read(0);
        self.superblock.store(&mut bytes);
        self.write(0, &bytes);
    }

    fn offset(&self, block: u32) -> u64 {
        self.journal.place(block..block + 1).start.0 * u64::from(self.superblock.block_size)
    }

    pub fn read(&self, block: u32) -> Vec<u8> {
        let mut bytes = vec![0; self.superblock.block_size as usize];
        self.device.read(self.offset(block), &mut bytes).expect("it can be read");
        bytes
    }

    pub fn write(&self, block: u32, bytes: &[u8]) {
        self.device.write(self.offset(block), bytes).expect("it can be written");
    }

    /// Writes the next block of the log; returns its number.
    pub fn append(&mut self, bytes: &[u8]) -> u32 {
        let block = self.at;
        self.write(block, bytes);
        self.at = self.superblock.after(block, 1);
        block
    }

    /// Writes a transaction of copies and revokes.
    pub fn transaction(&mut self, copies: &[(u64, Vec<u8>)], revoked: &[u64]) {
        self.unfinished(copies, revoked);
        let commit = self.commit_block(copies);
        self.append(&commit);
        self.sequence = self.sequence.next();
    }

    /// A transaction without its commit block.
    pub fn unfinished(&mut self, copies: &[(u64, Vec<u8>)], revoked: &[u64]) {
        let revoked: Vec<BlockNo> = revoked.iter().map(|block| BlockNo(*block)).collect();
        for block in revoke::encode(&self.format, self.sequence, &revoked) {
            self.append(&block);
        }
        for (descriptor, logged) in self.described(copies) {
            self.append(&descriptor);
            logged.iter().for_each(|copy| {
                self.append(copy);
            });
        }
    }

    /// Descriptors with the copies that follow each.
    fn described(&self, copies: &[(u64, Vec<u8>)]) -> Vec<(Vec<u8>, Vec<Vec<u8>>)> {
        let chunks = copies.chunks(self.format.tags_per_descriptor());
        chunks
            .map(|chunk| {
                let mut writer = descriptor::Writer::new(&self.format, self.sequence);
                let logged = chunk.iter().map(|(target, bytes)| {
                    writer.add(BlockNo(*target), bytes).unwrap_or_else(|| bytes.clone())
                });
                let logged = logged.collect();
                (writer.finish(), logged)
            })
            .collect()
    }

    pub fn commit_block(&self, copies: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut checksum = TransactionChecksum::default();
        for (descriptor, logged) in self.described(copies) {
            checksum.add(&descriptor);
            logged.iter().for_each(|copy| checksum.add(copy));
        }
        commit::encode(&self.format, self.sequence, Default::default(), checksum)
    }

    /// A block of one byte.
    pub fn filled(&self, byte: u8) -> Vec<u8> {
        vec![byte; self.superblock.block_size as usize]
    }

    /// What a block of the volume holds on a device.
    pub fn block(&self, device: &dyn BlockDevice, block: u64) -> Vec<u8> {
        let mut bytes = vec![0; self.superblock.block_size as usize];
        let offset = block * u64::from(self.superblock.block_size);
        device.read(offset, &mut bytes).expect("it can be read");
        bytes
    }
}
