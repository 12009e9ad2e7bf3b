//! A commit that takes all that is free of the log, or nearly so.
use super::*;
use crate::superblock::FreeCounts;
use crate::{Access, DataKeeping, Options};
use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_engine::Filesystem;
use extant_engine::mkfs::{FormatOptions, Identity, Profile, default_wishes, format};
use extant_format::{BlockNo, GroupNo};
use extant_journal::{Journal, MapSource};
use extant_policy::preset::Policies;
use std::sync::Arc;

const BYTES: u64 = 8 << 20;
const BLOCK_BYTES: u32 = 1024;

fn policies() -> Policies {
    "modern,commit=3600s".parse().unwrap()
}

/// A fresh ext4 volume with the smallest log.
fn formatted() -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(RealClock::new(), BYTES));
    let mut wishes = default_wishes(Profile::Ext4, BYTES, Some(BLOCK_BYTES), Identity::NONE);
    wishes.blocks = BYTES / u64::from(BLOCK_BYTES);
    let shared = Arc::clone(&device) as Arc<dyn BlockDevice>;
    format(shared, &FormatOptions::new(wishes), &policies()).unwrap();
    device
}

/// A store whose log this test drives alone.
fn opened(device: &Arc<MemoryDevice>) -> Store {
    let shared = Arc::clone(device) as Arc<dyn BlockDevice>;
    let journal = Journal::find(Arc::clone(&shared), MapSource::Inode).unwrap().unwrap();
    let run = journal.place(0..journal.superblock().blocks);
    let (access, data) = (Access::ReadWrite, DataKeeping::Bytes);
    let options = Options { access, policies: policies(), cache_bytes: 64 << 20, data };
    let store = Store::open(shared, &options, None).unwrap();
    store.start_journal(vec![run]).unwrap();
    // As the engine does before it lets the log begin: the volume asks for recovery.
    let counts = FreeCounts { blocks: 0, inodes: 0 };
    store.write_superblock(counts, GroupNo(0)).unwrap();
    store.barrier.pass().unwrap();
    store.begin_log().unwrap();
    store
}

fn free(log: &Log) -> u32 {
    log.state.lock().free
}

/// A transaction of so many blocks of the log: revoke records and the commit block.
fn transaction(log: &Log, blocks: u32) -> Transaction<'static> {
    let records = (blocks - 1) as usize * log.format.revokes_per_block();
    let (transaction, _) = {
        log.state.lock().revoked.extend((0..records as u64).map(|at| BlockNo(10_000 + at)));
        log.lock(&[])
    };
    assert_eq!(transaction.blocks(log).len() as u32 + 1, blocks);
    transaction
}

/// Commits such a transaction. Returns how many checkpoints that took.
fn commit(store: &Store, log: &Log, blocks: u32) -> Result<u64> {
    let before = log.counts().checkpoints;
    let transaction = transaction(log, blocks);
    let written = log.write(store, &transaction)?.unwrap();
    assert_eq!(written.blocks, blocks);
    log.committed(&transaction, written);
    assert!(free(log) >= 1, "the end of the log has met its beginning");
    Ok(log.counts().checkpoints - before)
}

/// Commits until this many blocks of the log are free.
fn fill(store: &Store, log: &Log, left: u32) {
    while free(log) > left {
        let blocks = if (free(log) - left).is_multiple_of(2) { 2 } else { 3 };
        assert_eq!(commit(store, log, blocks).unwrap(), 0, "{} blocks are free", free(log));
    }
    assert_eq!(free(log), left);
}

#[test]
fn a_transaction_never_takes_the_last_free_block_of_the_log() {
    let device = formatted();
    let store = &opened(&device);
    let log = store.log().unwrap();
    let all = u32::try_from(log.log_blocks()).unwrap();
    assert_eq!(free(log), all);
    // One block more than it takes: no checkpoint is needed.
    fill(store, log, 3);
    assert_eq!((commit(store, log, 2).unwrap(), free(log)), (0, 1));
    // Exactly as many as it takes: a checkpoint makes room.
    assert_eq!((commit(store, log, 2).unwrap(), free(log)), (1, all - 2));
    fill(store, log, 2);
    assert_eq!((commit(store, log, 2).unwrap(), free(log)), (1, all - 2));
    // What others find on the disk now can be replayed, around the end of the log.
    fill(store, log, 1);
    let (access, data) = (extant_engine::Access::ReadWrite, extant_engine::DataKeeping::Bytes);
    let options =
        extant_engine::Options { access, policies: policies(), cache_bytes: 64 << 20, data };
    let cut = Filesystem::open(Arc::new(device.snapshot()) as _, &options).unwrap();
    cut.close().unwrap();
    // The largest that fits into the empty log, and the smallest that does not.
    assert_eq!((commit(store, log, all - 1).unwrap(), free(log)), (1, 1));
    let refused = log.write(store, &transaction(log, all)).err().expect("it does not fit");
    assert!(refused.to_string().contains("does not fit"), "{refused}");
}

#[test]
fn there_is_room_for_a_transaction_that_leaves_a_block_free() {
    let store = &opened(&formatted());
    let log = store.log().unwrap();
    for left in [600, 601] {
        fill(store, log, log.log_blocks() as u32);
        log.state.lock().free = left;
        let wanted = |dirty: u64| {
            log.format.transaction_blocks((dirty + crate::journal::room::GROUPS) as usize, 0)
        };
        let exact = (0..u64::from(left)).any(|dirty| wanted(dirty) == left as usize);
        assert!(exact, "no transaction takes exactly {left} blocks");
        for dirty in 0..u64::from(left) {
            let has_room = wanted(dirty) < left as usize;
            assert_eq!(log.has_room(dirty), has_room, "{dirty} dirty blocks, {left} free");
        }
        log.state.lock().free = log.log_blocks() as u32;
    }
}
