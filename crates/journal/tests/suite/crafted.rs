//! Logs that were made by hand: odd ones are replayed right, bad ones end in one clear line and
//! nothing is written.
use crate::volumes;

use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_format::journal::{JournalSuperblock, MAGIC, Sequence, compat, incompat};
use extant_format::superblock::{Feature, state};
use extant_journal::{End, Journal, MapSource, Outcome, Report, State, apply, overlay};
use extant_sim::CrashLog;
use extant_testkit::scratch::Scratch;
use std::sync::Arc;
use volumes::{LogWriter, bytes_of, change_superblock, fresh, superblock, tools};

const PLAIN: &str = "^metadata_csum,^64bit";
const MODERN: &str = "metadata_csum,64bit";

fn unchanged(_: &mut JournalSuperblock) {}

/// Applies, with an overlay compared.
fn recover(device: &Arc<MemoryDevice>) -> Report {
    let (over, seen) = overlay(Arc::clone(device) as _, 1 << 30).expect("an overlay");
    let report = apply(Arc::clone(device) as _).expect("it is applied");
    assert_eq!(seen, report);
    let (memory, bytes) = (bytes_of(&*over), bytes_of(&**device));
    let differ =
        (0..bytes.len()).find(|at| !(1024..2048).contains(at) && memory[*at] != bytes[*at]);
    assert_eq!(differ, None);
    assert!(!superblock(&**device).has(Feature::NEEDS_RECOVERY));
    assert_eq!(volumes::journal(device).state(), State::Empty);
    report
}

/// Expects one line that contains `words`, from both ways of recovery, and that nothing is written.
fn refuse(device: &Arc<MemoryDevice>, words: &str) {
    let watched = Arc::new(CrashLog::new(device.snapshot()));
    let over = overlay(Arc::clone(&watched) as _, 1 << 30).err().expect(words).to_string();
    let applied = apply(Arc::clone(&watched) as _).expect_err(words).to_string();
    assert_eq!(over, applied);
    assert!(applied.contains(words) && !applied.contains('\n'), "{applied}, not {words}");
    assert_eq!(watched.moments(), 0, "{words}: something was written");
}

/// Every kind of checksum and of number; a log that wraps, and a sequence that does.
#[test]
fn a_log_wraps_and_so_do_its_sequences() {
    if !tools() {
        return;
    }
    let kinds: [(&str, u32, u32); 6] = [
        (PLAIN, 0, 0),
        (PLAIN, compat::CHECKSUM, 0),
        (PLAIN, compat::CHECKSUM, incompat::ASYNC_COMMIT),
        (PLAIN, 0, incompat::SIXTY_FOUR_BIT),
        (MODERN, 0, 0),
        (MODERN, 0, incompat::CHECKSUM_V2),
    ];
    for (features, with_compat, with_incompat) in kinds {
        let device = fresh(features, 1024);
        let end = volumes::journal(&device).superblock().log_end();
        let mut log = LogWriter::new(&device, end - 7, u32::MAX - 1, |journal| {
            if with_incompat == incompat::CHECKSUM_V2 {
                journal.incompat &= !incompat::CHECKSUM_V3;
            }
            journal.compat |= with_compat;
            journal.incompat |= with_incompat;
        });
        let mut escaped = log.filled(3);
        escaped[..4].copy_from_slice(&MAGIC.to_be_bytes());
        log.transaction(&[(25_000, log.filled(1)), (25_001, escaped.clone())], &[]);
        log.transaction(&[(25_002, log.filled(2)), (25_000, log.filled(4))], &[]);
        log.transaction(&[(25_003, log.filled(5))], &[25_002]);
        assert!(log.at < end - 7, "it wrapped");
        let report = recover(&device);
        assert_eq!(report.outcome, Outcome::Replayed, "{:?}", log.format);
        assert_eq!((report.transactions, report.blocks, report.revoked), (3, 3, 1));
        assert_eq!(report.sequences, Some((Sequence(u32::MAX - 1), Sequence(0))));
        assert_eq!(report.end, End::Clean);
        for (block, bytes) in [(25_000, log.filled(4)), (25_001, escaped), (25_003, log.filled(5))]
        {
            assert!(log.block(&*device, block) == bytes, "block {block} of {:?}", log.format);
        }
        assert!(log.block(&*device, 25_002) == log.filled(0), "it was revoked");
        assert_eq!(volumes::journal(&device).superblock().sequence, Sequence(2));
    }
}

#[test]
fn a_revoke_counts_for_its_own_and_earlier_transactions_and_many_fit_in_a_block() {
    if !tools() {
        return;
    }
    let device = fresh(MODERN, 1024);
    let mut log = LogWriter::new(&device, 1, 7, unchanged);
    let many: Vec<u64> = (26_000..26_200).collect();
    log.transaction(
        &[(26_000, log.filled(1)), (26_150, log.filled(1)), (5_000, log.filled(1))],
        &[],
    );
    log.transaction(&[(26_199, log.filled(2))], &many);
    log.transaction(&[(26_150, log.filled(3))], &[]);
    let report = recover(&device);
    assert_eq!((report.transactions, report.blocks, report.revoked), (3, 2, 2));
    for (block, byte) in [(26_000, 0), (26_199, 0), (26_150, 3), (5_000, 1)] {
        assert!(log.block(&*device, block) == log.filled(byte), "block {block}");
    }
}

/// More copies than a descriptor names, until the ring is full to its last block.
#[test]
fn a_log_that_is_full_to_the_last_block_is_replayed() {
    if !tools() {
        return;
    }
    for (start, features) in [(1, PLAIN), (700, MODERN)] {
        let device = fresh(features, 1024);
        let mut log = LogWriter::new(&device, start, 1, unchanged);
        let blocks = log.superblock.log_blocks() as usize;
        let mut copies = blocks - 1;
        while log.format.transaction_blocks(copies, 0) > blocks {
            copies -= 1;
        }
        let copies: Vec<(u64, Vec<u8>)> =
            (0..copies).map(|n| (10_000 + n as u64, log.filled(n as u8))).collect();
        log.transaction(&copies, &[]);
        let report = recover(&device);
        assert_eq!((report.transactions, report.blocks), (1, copies.len()), "{features}");
        for (block, bytes) in &copies {
            assert!(log.block(&*device, *block) == *bytes, "block {block}");
        }
    }
}

#[test]
fn a_log_ends_at_its_last_whole_transaction_and_says_why() {
    if !tools() {
        return;
    }
    let log_of = |features: &str| {
        let device = fresh(features, 1024);
        let mut log = LogWriter::new(&device, 1, 10, unchanged);
        log.transaction(&[(25_000, log.filled(1))], &[]);
        (device, log)
    };
    // Without a commit block, and with one of another transaction.
    let (device, mut log) = log_of(MODERN);
    log.unfinished(&[(25_000, log.filled(2))], &[]);
    let unfinished = recover(&device);
    assert_eq!((unfinished.transactions, unfinished.end), (1, End::Unfinished(Sequence(11))));
    assert!(log.block(&*device, 25_000) == log.filled(1));
    // A cut that tore its descriptor, or its revoke block, and no commit block after it.
    for torn in [0, 2] {
        let (device, mut log) = log_of(MODERN);
        let first = log.at;
        log.unfinished(&[(25_000, log.filled(2))], &[30_000]);
        let mut bytes = log.read(first + torn);
        bytes[900] ^= 1;
        log.write(first + torn, &bytes);
        let report = recover(&device);
        assert_eq!((report.transactions, report.end), (1, End::Unfinished(Sequence(11))));
        assert!(log.block(&*device, 25_000) == log.filled(1), "block {torn}");
    }
    // With damage: in the copy, in the descriptor, in the revoke block, in the commit block.
    for damaged in 0..4 {
        let (device, mut log) = log_of(MODERN);
        let first = log.at;
        log.transaction(&[(25_000, log.filled(2))], &[30_000]);
        log.transaction(&[(25_001, log.filled(3))], &[]);
        let mut bytes = log.read(first + damaged);
        bytes[900] ^= 1;
        log.write(first + damaged, &bytes);
        let report = recover(&device);
        assert_eq!((report.transactions, report.blocks), (1, 1), "block {damaged}");
        let End::Damaged { sequence, block, fault } = report.end else {
            panic!("{:?}", report.end)
        };
        assert_eq!((sequence, block), (Sequence(11), first + damaged));
        assert!(fault.to_string().contains("checksum"), "{fault}");
        assert!(log.block(&*device, 25_001) == log.filled(0));
        // What follows the damage is never taken for a part of a later log.
        let after = volumes::journal(&device).superblock().sequence;
        assert!(after.is_after(Sequence(12 + 100)), "{after}");
    }
    // Version 1 has one checksum of all.
    let device = fresh(PLAIN, 1024);
    let mut log = LogWriter::new(&device, 1, 10, |journal| journal.compat |= compat::CHECKSUM);
    log.transaction(&[(25_000, log.filled(1))], &[]);
    log.transaction(&[(25_000, log.filled(2))], &[]);
    log.write(5, &log.filled(3));
    let report = recover(&device);
    assert!(matches!(report.end, End::Damaged { sequence: Sequence(11), .. }), "{report:?}");
    assert!(log.block(&*device, 25_000) == log.filled(1));
}

#[test]
fn copies_for_places_that_are_not_the_volumes_are_refused() {
    if !tools() {
        return;
    }
    for (target, words) in [
        (1 << 40, "outside the volume"),
        (32_768, "outside the volume"),
        (0, "outside the volume"),
        (u64::MAX, "journal in the journal"),
    ] {
        let device = fresh(MODERN, 1024);
        let mut log = LogWriter::new(&device, 1, 1, unchanged);
        let own = log.journal.place(200..201).start.0;
        let target = if target == u64::MAX { own } else { target };
        let words = words.trim_start_matches("journal ");
        log.transaction(&[(25_000, log.filled(1)), (target, log.filled(1))], &[]);
        refuse(&device, words);
        refuse(&device, "transaction 1 ");
    }
    // Not before it is committed.
    let device = fresh(MODERN, 1024);
    let mut log = LogWriter::new(&device, 1, 1, unchanged);
    log.unfinished(&[(1 << 40, log.filled(1))], &[]);
    assert_eq!(recover(&device).transactions, 0);
}

#[test]
fn superblocks_of_journals_that_cannot_be_are_refused() {
    type Change = fn(&mut [u8]);
    let cases: [(&str, Change); 11] = [
        ("no magic number", |bytes| bytes[0] = 0),
        ("type 7", |bytes| bytes[7] = 7),
        ("block size 2048", |bytes| bytes[12..16].copy_from_slice(&2048_u32.to_be_bytes())),
        ("block size 3", |bytes| bytes[12..16].copy_from_slice(&3_u32.to_be_bytes())),
        ("number of blocks 5000", |bytes| bytes[16..20].copy_from_slice(&5000_u32.to_be_bytes())),
        ("first block 0", |bytes| bytes[20..24].copy_from_slice(&0_u32.to_be_bytes())),
        ("first block 4096", |bytes| bytes[20..24].copy_from_slice(&4096_u32.to_be_bytes())),
        ("start 4096", |bytes| bytes[28..32].copy_from_slice(&4096_u32.to_be_bytes())),
        ("features 128", |bytes| bytes[43] |= 0x80),
        ("two versions of checksums", |bytes| bytes[43] |= 0x18),
        ("checksum", |bytes| bytes[43] |= 0x10),
    ];
    if !tools() {
        return;
    }
    for (words, change) in cases {
        let device = fresh(PLAIN, 1024);
        let log = LogWriter::new(&device, 1, 1, unchanged);
        let mut bytes = log.read(0);
        change(&mut bytes);
        log.write(0, &bytes);
        refuse(&device, words);
    }
    let device = fresh(MODERN, 1024);
    let log = LogWriter::new(&device, 1, 1, unchanged);
    let mut bytes = log.read(0);
    bytes[0x30] ^= 1;
    log.write(0, &bytes);
    refuse(&device, "checksum");
}

#[test]
fn inodes_that_are_no_journal_are_refused() {
    if !tools() {
        return;
    }
    let folder = Scratch::new("journal-inodes");
    let image = folder.join("image");
    // Of the inode: requests of debugfs; without metadata_csum nothing else has to fit.
    for (features, requests, words) in [
        (PLAIN, "sif <8> mode 0040755", "no regular file"),
        (PLAIN, "sif <8> links_count 0", "not in use"),
        (PLAIN, "sif <8> size 1024", "number of blocks"),
        (PLAIN, "sif <8> size 0", "past the end"),
        ("^metadata_csum,^64bit,^extent", "sif <8> block[3] 0", "block 3 is a hole"),
        ("^metadata_csum,^64bit,^extent", "sif <8> block[3] 99999", "outside the volume"),
        ("^metadata_csum,^64bit,^extent", "sif <8> block[IND] 0", "a hole"),
        ("^metadata_csum,^64bit,^extent", "sif <8> block[IND] 99999", "outside the volume"),
        (PLAIN, "ssv journal_inum 50000", "none of the volume"),
        (PLAIN, "ssv journal_inum 12", "inode 12"),
    ] {
        volumes::make(&image, features, 1024);
        let mut debugfs = extant_testkit::command::program("debugfs");
        let debugfs = debugfs.args(["-w", "-R", requests]).arg(&image);
        extant_testkit::command::output(debugfs).expect(requests);
        let device = volumes::load(&image);
        change_superblock(&*device, |volume| volume.features.set(Feature::NEEDS_RECOVERY));
        refuse(&device, words);
    }
    // A map that contains itself, and one that contains the journal twice.
    let features = "^metadata_csum,^64bit,^extent";
    volumes::make(&image, features, 1024);
    let map = |index: &str| {
        let said = extant_testkit::oracle::debugfs(&image, &format!("bmap <8> {index}"));
        said.expect("debugfs").trim().parse::<u64>().expect("a block")
    };
    let (first, late) = (map("0"), map("300"));
    for (word, words) in [("block[DIND]", "contains itself"), ("block[5]", "twice")] {
        volumes::make(&image, features, 1024);
        let stat = extant_testkit::oracle::debugfs(&image, "stat <8>").expect("debugfs");
        let indirect = stat.split("(IND):").nth(1).and_then(|rest| rest.split(',').next());
        let indirect: u64 = indirect.and_then(|text| text.trim().parse().ok()).expect("a block");
        let value = if word == "block[DIND]" { indirect } else { first };
        let mut debugfs = extant_testkit::command::program("debugfs");
        let request = format!("sif <8> {word} {value}");
        let debugfs = debugfs.args(["-w", "-R", &request]).arg(&image);
        extant_testkit::command::output(debugfs).expect(word);
        let device = volumes::load(&image);
        change_superblock(&*device, |volume| volume.features.set(Feature::NEEDS_RECOVERY));
        refuse(&device, words);
    }
    assert!(late > first);
}

/// The backup in the superblock finds the journal when its inode is lost.
#[test]
fn the_backup_of_the_map_leads_to_the_same_log() {
    if !tools() {
        return;
    }
    for features in [PLAIN, "^metadata_csum,^64bit,^extent"] {
        let device = fresh(features, 1024);
        let mut log = LogWriter::new(&device, 1, 1, unchanged);
        log.transaction(&[(25_000, log.filled(1))], &[]);
        let found = Journal::find(Arc::clone(&device) as _, MapSource::Backup).expect(features);
        let found = found.expect("a journal");
        assert_eq!(found.superblock(), volumes::journal(&device).superblock());
        let scan = found.scan(1 << 20).expect("a log");
        assert_eq!((scan.plan.len(), scan.transactions.len()), (1, 1));
        assert!((0..4096).all(|at| found.place(at..at + 1) == log.journal.place(at..at + 1)));
    }
}

#[test]
fn journals_elsewhere_are_named_and_refused() {
    if !tools() {
        return;
    }
    let folder = Scratch::new("journal-external");
    let image = folder.join("image");
    let mut mke2fs = extant_testkit::command::program("mke2fs");
    let mke2fs = mke2fs.args(["-q", "-F", "-O", "journal_dev", "-b", "1024"]).arg(&image).arg("8M");
    extant_testkit::command::output(mke2fs).expect("mke2fs");
    refuse(&volumes::load(&image), "the journal of another volume");
    let device = fresh(PLAIN, 1024);
    change_superblock(&*device, |volume| {
        volume.journal_inode = 0;
        volume.features.set(Feature::NEEDS_RECOVERY);
    });
    refuse(&device, "names no inode");
    let mut bytes = [0; 1024];
    device.read(1024, &mut bytes).expect("read");
    bytes[0xd0..0xe0].fill(0xab);
    device.write(1024, &bytes).expect("written");
    refuse(&device, "on another device (UUID abababab");
}

/// A UUID of zeros, as volumes with an internal journal have it, sends nobody to another device.
#[test]
fn a_journal_without_a_uuid_in_the_superblock_is_an_internal_one() {
    if !tools() {
        return;
    }
    let device = fresh(MODERN, 4096);
    assert_eq!(superblock(&*device).journal_uuid(), [0; 16]);
    let mut log = LogWriter::new(&device, 1, 1, unchanged);
    log.transaction(&[(7_000, log.filled(1))], &[]);
    assert_eq!(recover(&device).blocks, 1);
}

#[test]
fn a_log_that_need_not_be_replayed_is_not() {
    if !tools() {
        return;
    }
    // Empty, and the volume says so.
    let device = fresh(MODERN, 1024);
    let before = bytes_of(&*device);
    assert_eq!(apply(Arc::clone(&device) as _).expect("clean").outcome, Outcome::Clean);
    assert!(bytes_of(&*device) == before);
    // Transactions of a volume that needs no recovery.
    let mut log = LogWriter::new(&device, 1, 1, unchanged);
    log.transaction(&[(25_000, log.filled(1))], &[]);
    change_superblock(&*device, |volume| volume.features.clear(Feature::NEEDS_RECOVERY));
    let before = bytes_of(&*device);
    assert_eq!(apply(Arc::clone(&device) as _).expect("stale").outcome, Outcome::Stale);
    assert!(bytes_of(&*device) == before);
    // Transactions before an empty log: a clean journal, of a volume that says otherwise.
    log.superblock.start = 0;
    log.store_superblock();
    change_superblock(&*device, |volume| volume.features.set(Feature::NEEDS_RECOVERY));
    assert_eq!(recover(&device).outcome, Outcome::Empty);
    assert!(log.block(&*device, 25_000) == log.filled(0));
    // No journal.
    change_superblock(&*device, |volume| volume.features.clear(Feature::HAS_JOURNAL));
    assert_eq!(apply(Arc::clone(&device) as _).expect("none").outcome, Outcome::NoJournal);
    let (over, report) = overlay(Arc::clone(&device) as _, 0).expect("none");
    assert_eq!((report.outcome, over.changed().len()), (Outcome::Clean, 0));
}

/// An error that is noted in the journal becomes the flag of errors of the volume.
#[test]
fn an_error_in_the_journal_is_handed_to_the_volume() {
    if !tools() {
        return;
    }
    let device = fresh(MODERN, 1024);
    let mut log = LogWriter::new(&device, 1, 1, |journal| journal.error = -5);
    log.transaction(&[(25_000, log.filled(1))], &[]);
    assert_eq!(recover(&device).journal_error, -5);
    assert!(superblock(&*device).state & state::ERRORS != 0);
    assert_eq!(volumes::journal(&device).superblock().error, 0);
}

/// Other files, and such as end before a superblock would.
#[test]
fn what_is_no_volume_is_said_to_be_none() {
    for length in [0, 512, 1024, 1536, 2048, 1 << 20] {
        let device = MemoryDevice::from_bytes(RealClock::new(), &vec![0x1f; length]);
        refuse(&Arc::new(device), "no ext2, ext3 or ext4 superblock");
    }
}

/// The superblock that replay writes is the one that is used from then on.
#[test]
fn the_superblock_is_read_again_after_replay() {
    if !tools() {
        return;
    }
    let device = fresh(MODERN, 1024);
    let mut log = LogWriter::new(&device, 1, 1, unchanged);
    let mut volume = superblock(&*device);
    volume.label[..5].copy_from_slice(b"later");
    let mut block = log.filled(0);
    block.copy_from_slice(&volume.encode());
    log.transaction(&[(1, block)], &[]);
    recover(&device);
    assert!(superblock(&*device).label.starts_with(b"later"));
}

/// Bytes that claim anything: no panic, and no write when there is an error.
#[test]
fn random_damage_ends_in_an_error_or_a_shorter_log() {
    if !tools() {
        return;
    }
    let base = fresh(PLAIN, 1024);
    let mut log = LogWriter::new(&base, 1, 1, unchanged);
    for number in 0..6 {
        log.transaction(&[(25_000 + number, log.filled(1)), (25_100, log.filled(2))], &[25_050]);
    }
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut draw = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    for round in 0..400 {
        let device = Arc::new(base.snapshot());
        let block = draw(40) as u32;
        let mut bytes = log.read(block);
        for _ in 0..=draw(8) {
            bytes[draw(64)] = draw(256) as u8;
        }
        let offset = log.journal.place(block..block + 1).start.0 * 1024;
        device.write(offset, &bytes).expect("written");
        let watched = Arc::new(CrashLog::new(Arc::into_inner(device).expect("the only one")));
        match apply(Arc::clone(&watched) as _) {
            Ok(report) => assert!(report.transactions <= 6, "round {round}"),
            Err(error) => assert_eq!(watched.moments(), 0, "round {round}: {error}"),
        }
    }
}
