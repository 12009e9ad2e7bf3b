//! Volumes that are mended and made ready for use by a program.
use extant::{Builder, CheckWhen, ErrorKind, Healed, KeepUndo, Memory, Options, Profile, Scope};
use extant_testkit::command::{self, program};
use extant_testkit::journals;
use extant_testkit::oracle::{debugfs, e2fsck, require};
use extant_testkit::scratch::Scratch;
use std::path::{Path, PathBuf};

/// Where the state of a volume is: 1 for one that was unmounted.
const STATE: usize = 1024 + 0x3a;

#[test]
fn a_clean_volume_needs_nothing() {
    let folder = Scratch::new("mending-clean");
    let image = folder.join("disk.img");
    Builder::new().profile(Profile::Ext2).free(1 << 20).build(&image).unwrap();
    let before = std::fs::read(&image).unwrap();
    let options = Options::new();
    let heal = || options.heal(&image, CheckWhen::Doubted, KeepUndo::Keep);
    assert!(matches!(heal().unwrap(), Healed::Clean));
    for scope in [Scope::Preen, Scope::Safe, Scope::All] {
        let repaired = options.repair(&image, scope, KeepUndo::Keep).unwrap();
        assert!(repaired.left.is_clean() && repaired.changes.is_empty());
        assert_eq!((repaired.blocks, repaired.undo), (0, None));
    }
    assert!(options.undo(&image).unwrap_err().to_string().contains("no repair to undo"));
    assert!(std::fs::read(&image).unwrap() == before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let held = std::fs::File::options().write(true).read(true).open(&image).unwrap();
    held.lock().unwrap();
    assert_eq!(heal().unwrap_err().kind(), ErrorKind::InUse);
}

#[test]
fn one_that_was_not_unmounted_is_checked() {
    let memory = Memory::new();
    Builder::new().profile(Profile::Ext2).free(1 << 20).build_memory(&memory).unwrap();
    let mut bytes = memory.to_vec();
    bytes[STATE] = 0;
    let memory = Memory::from(bytes);
    let healed = Options::new().heal(memory.clone(), CheckWhen::Doubted, KeepUndo::Keep);
    let Healed::Repaired(reason, repaired) = healed.unwrap() else {
        panic!("it is not checked");
    };
    assert!(reason.contains("not unmounted") && repaired.left.is_clean(), "{reason}");
    assert_eq!(repaired.undo, None, "beside memory there is no place");
    if require("e2fsck") {
        let folder = Scratch::new("mending-checked");
        let image = folder.join("disk.img");
        std::fs::write(&image, memory.to_vec()).unwrap();
        e2fsck(&image).unwrap();
    }
}

/// Changes a volume by debugfs.
fn damage(image: &Path, requests: &[&str]) {
    for request in requests {
        command::output(program("debugfs").args(["-w", "-R", request]).arg(image)).unwrap();
    }
}

/// An image of the default kind with other numbers of free blocks, and a name that leads nowhere,
/// which costs that name.
fn damaged(folder: &Scratch) -> PathBuf {
    let image = folder.join("disk.img");
    let files = [("/a", "one\n"), ("/b", "two\n"), ("/c", "three\n")];
    let builder = Builder::new().free(1 << 20);
    builder.build(&image).unwrap();
    let volume = Options::new().write(true).open(&image).unwrap();
    files.iter().for_each(|(path, content)| volume.write(*path, *content).unwrap());
    volume.close().unwrap();
    damage(&image, &["ssv free_blocks_count 7", "clri /b", "unlink /c"]);
    image
}

#[test]
fn what_a_repair_would_do_is_said_and_not_done() {
    if !require("debugfs") || !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("mending-dry");
    let image = damaged(&folder);
    let before = std::fs::read(&image).unwrap();
    let options = Options::new();
    let dry = options.would_repair(&image, Scope::All).unwrap();
    assert!(dry.is_clean() && dry.exit_code() == 1, "{dry:?}");
    assert_eq!((dry.blocks, &dry.undo), (0, &None));
    assert!(dry.changes.iter().any(|change| change.loss.is_some()), "{:?}", dry.changes);
    let zeros = Memory::from(vec![0; 1 << 20]);
    let refused = options.would_repair(zeros.clone(), Scope::All).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotAVolume, "{refused}");
    let refused = options.repair(zeros, Scope::All, KeepUndo::Keep).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotAVolume, "{refused}");
    // What is left keeps a preening from all else, too.
    let preened = options.repair(&image, Scope::Preen, KeepUndo::Keep).unwrap();
    assert_eq!((preened.exit_code(), preened.blocks, preened.undo), (4, 0, None));
    assert!(std::fs::read(&image).unwrap() == before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let safe = options.repair(&image, Scope::Safe, KeepUndo::Discard).unwrap();
    assert_eq!((safe.exit_code(), safe.undo), (4, None));
    std::fs::write(&image, &before).unwrap();
    let done = options.repair(&image, Scope::All, KeepUndo::Keep).unwrap();
    assert_eq!(done.changes, dry.changes);
    assert!(done.blocks > 0 && done.undo.as_ref().is_some_and(|undo| undo.exists()));
    e2fsck(&image).unwrap();
    assert_eq!(options.undo(&image).unwrap(), done.blocks);
    assert!(std::fs::read(&image).unwrap() == before);
}

#[test]
fn a_check_may_be_asked_for_and_what_was_healed_taken_back() {
    if !require("debugfs") || !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("mending-asked");
    let image = folder.join("disk.img");
    Builder::new().free(1 << 20).build(&image).unwrap();
    damage(&image, &["ssv free_inodes_count 3", "freeb 100"]);
    let before = std::fs::read(&image).unwrap();
    let options = Options::new();
    let heal = |when| options.heal(&image, when, KeepUndo::Keep).unwrap();
    assert!(matches!(heal(CheckWhen::Doubted), Healed::Clean), "its superblock says nothing");
    let Healed::Repaired(reason, repaired) = heal(CheckWhen::Always) else {
        panic!("it is not checked");
    };
    assert!(reason.contains("asked for") && repaired.is_clean(), "{reason}");
    e2fsck(&image).unwrap();
    assert_eq!(options.undo(&image).unwrap(), repaired.blocks);
    assert!(std::fs::read(&image).unwrap() == before);
}

#[test]
fn a_journal_on_another_device_is_replayed_before_a_repair() {
    if !journals::is_possible() || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("mending-journal");
    let made = journals::External::make(folder.path(), 1024, "").unwrap();
    made.under_load(12).unwrap();
    let with = Options::new().journal(&made.journal);
    let bytes = || [&made.image, &made.journal].map(|file| std::fs::read(file).unwrap());
    let before = bytes();
    let dry = with.would_repair(&made.image, Scope::All).unwrap();
    assert!(dry.is_clean(), "{dry:?}");
    assert!(bytes() == before, "a dry run wrote");
    let refused = Options::new().repair(&made.image, Scope::All, KeepUndo::Keep).unwrap_err();
    assert!(bytes() == before, "{refused}: it wrote");
    let done = with.repair(&made.image, Scope::Safe, KeepUndo::Keep).unwrap();
    assert!(done.is_clean(), "{done:?}");
    if let Some(undo) = &done.undo {
        // What is on the other device has no place in a file beside the image: records of a number
        // and a sum follow the header, a block each.
        let (kept, blocks) = (std::fs::read(undo).unwrap(), before[0].len() as u64 / 1024);
        let records = kept[64..].chunks_exact(12 + 1024).take(done.blocks as usize);
        let numbers = records.map(|record| u64::from_le_bytes(record[..8].try_into().unwrap()));
        assert!(numbers.clone().all(|number| number < blocks), "{:?}", numbers.max());
    }
    made.clean().unwrap();
    damage(&made.image, &["freeb 9000", "setb 9000", "freeb 500"]);
    let damaged = bytes();
    let done = with.repair(&made.image, Scope::Safe, KeepUndo::Keep).unwrap();
    assert!(done.exit_code() == 1 && done.undo.is_some(), "{done:?}");
    made.clean().unwrap();
    assert_eq!(with.undo(&made.image).unwrap(), done.blocks);
    assert!(bytes() == damaged);
}

#[test]
fn what_a_damaged_log_held_can_be_had_back() {
    if !require("debugfs") || !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("mending-torn");
    let image = folder.join("disk.img");
    Builder::new().block_size(1024).free(8 << 20).build(&image).unwrap();
    let commands = folder.join("commands");
    std::fs::write(&commands, "jo -c\njw -b 5000 /dev/zero\njc\n").unwrap();
    command::output(program("debugfs").args(["-w", "-f"]).arg(&commands).arg(&image)).unwrap();
    // The first block after the descriptor is what the log has for block 5000.
    let block = debugfs(&image, "bmap <8> 2").unwrap();
    let at = block.trim().parse::<usize>().unwrap() * 1024;
    let mut bytes = std::fs::read(&image).unwrap();
    bytes[at] ^= 0xff;
    std::fs::write(&image, &bytes).unwrap();
    let options = Options::new();
    let healed = options.heal(&image, CheckWhen::Doubted, KeepUndo::Discard).unwrap();
    let Healed::Repaired(reason, repaired) = healed else { panic!("{healed:?}") };
    assert!(reason.contains("log of its journal is damaged"), "{reason}");
    assert!(repaired.has_lost_log() && repaired.is_clean(), "{repaired:?}");
    assert_eq!(repaired.exit_code(), 1);
    e2fsck(&image).unwrap();
    assert_eq!(options.undo(&image).unwrap(), repaired.blocks);
    assert!(std::fs::read(&image).unwrap() == bytes);
}
