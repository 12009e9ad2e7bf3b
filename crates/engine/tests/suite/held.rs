//! Volumes that several machines may reach (mmp) are written by one of them.
use extant_block::{BlockDevice, Clock, MemoryDevice, RealClock};
use extant_engine::{Access, DataKeeping, ErrorKind, Filesystem, Options, Result, recover};
use extant_format::mount_block::{
    MOUNT_BLOCK_SIZE, NewMountBlock, StoredMountBlock, hold, initialize,
};
use extant_format::superblock::Superblock;
use extant_testkit::command::run;
use extant_testkit::oracle::{self, mount_loop};
use extant_testkit::scratch::Scratch;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const CHECKING: u32 = 0xe24d_4d50;

/// The device that all machines reach.
type Shared = Arc<MemoryDevice>;

fn shared(image: &Path) -> Shared {
    let bytes = std::fs::read(image).expect("reads");
    let device = MemoryDevice::new(RealClock::new(), bytes.len() as u64);
    device.write(0, &bytes).expect("writes");
    Arc::new(device)
}

fn open(device: &Shared) -> Result<Filesystem> {
    let options = Options {
        access: Access::ReadWrite,
        policies: "modern".parse().expect("policies"),
        cache_bytes: 24 << 20,
        data: DataKeeping::Bytes,
    };
    Filesystem::open(Arc::clone(device) as Arc<dyn BlockDevice>, &options)
}

fn make(folder: &Scratch, features: &str) -> PathBuf {
    let image = folder.join("image");
    let path = image.display().to_string();
    let interval = "mmp_update_interval=1";
    let words = ["-q", "-F", "-t", "ext4", "-b", "1024", "-O", features, "-E", interval, &path];
    run("mke2fs", &[&words[..], &["16M"]].concat()).expect("mke2fs makes it");
    image
}

fn pause(milliseconds: u64) {
    let clock = RealClock::new();
    let end = clock.now() + milliseconds * 1_000_000;
    while clock.now() < end {
        clock.park(Some(end));
    }
}

fn superblock(device: &Shared) -> Superblock {
    extant_engine::read_superblock(&**device).expect("it is read")
}

fn place(device: &Shared) -> u64 {
    superblock(device).mount_block().0 * 1024
}

fn block(device: &Shared) -> Vec<u8> {
    let mut bytes = vec![0; MOUNT_BLOCK_SIZE];
    device.read(place(device), &mut bytes).expect("it is read");
    assert!(StoredMountBlock::new(&bytes).is_sound(&superblock(device)));
    bytes
}

/// Has another machine write the block, with this sequence number.
fn write_as_another(device: &Shared, sequence: Option<u32>) {
    let new = NewMountBlock {
        seconds: 1_700_000_000,
        node_name: b"elsewhere",
        device_name: b"/dev/shared",
        interval_seconds: 5,
    };
    let mut bytes = vec![0; MOUNT_BLOCK_SIZE];
    match sequence {
        None => initialize(&mut bytes, &new, &superblock(device)),
        Some(sequence) => hold(&mut bytes, sequence, &new, &superblock(device)),
    }
    device.write(place(device), &bytes).expect("it is written");
}

fn refused<T>(outcome: Result<T>) -> String {
    match outcome.map(drop).expect_err("another has it") {
        error if matches!(error.kind, ErrorKind::Held(_)) => error.to_string(),
        error => panic!("another error: {error}"),
    }
}

#[test]
fn of_two_writers_the_second_is_refused_and_the_first_gives_the_volume_back() {
    if !oracle::require("mke2fs") || !oracle::require("e2fsck") || !oracle::can_mount() {
        return;
    }
    for features in ["mmp", "mmp,^has_journal,^metadata_csum"] {
        let folder = Scratch::new("held");
        let image = make(&folder, features);
        let device = shared(&image);
        assert!(!StoredMountBlock::new(&block(&device)).is_held());
        let volume = open(&device).expect("no machine has it");
        let node = std::fs::read("/proc/sys/kernel/hostname").expect("a name");
        let first = block(&device);
        let stored = StoredMountBlock::new(&first);
        assert!(stored.is_held() && !stored.is_held_by_checker());
        assert_eq!(stored.node_name(), node.trim_ascii());
        volume.write("/file", b"content").expect("written");
        let words = refused(open(&device));
        let node = String::from_utf8(node.trim_ascii().to_vec()).expect("text");
        assert!(words.contains(&node) && words.contains("s ago"), "{words}");
        // It is written every second, and not by who was refused.
        pause(2500);
        let later = StoredMountBlock::new(&block(&device)).sequence();
        let steps = later.wrapping_sub(stored.sequence());
        assert!((2..60).contains(&steps), "{steps}");
        volume.write("/file", b"other content").expect("it is still ours");
        volume.close().expect("closes");
        assert!(!StoredMountBlock::new(&block(&device)).is_held());
        device.save(&image).expect("saves");
        oracle::e2fsck(&image).expect("e2fsck finds nothing");
        let mounted = mount_loop(&image, oracle::Access::ReadWrite, "").expect("Linux mounts it");
        let read = std::fs::read(mounted.path().join("file")).expect("reads");
        assert_eq!(read, b"other content");
        mounted.unmount().expect("unmounts");
        open(&shared(&image)).expect("Linux has given it back").close().expect("closes");
    }
}

#[test]
fn a_volume_that_linux_has_mounted_is_refused_and_not_written() {
    if !oracle::require("mke2fs") || !oracle::require("e2fsck") || !oracle::can_mount() {
        return;
    }
    let folder = Scratch::new("held-mounted");
    let image = make(&folder, "mmp");
    let mounted = mount_loop(&image, oracle::Access::ReadWrite, "").expect("mounts");
    std::fs::write(mounted.path().join("file"), b"content").expect("writes");
    std::fs::File::open(mounted.path()).and_then(|all| all.sync_all()).expect("synced");
    pause(2000);
    // A copy, in which the block changes as Linux changes it.
    let device = shared(&image);
    let (theirs, from) = (Arc::clone(&device), image.clone());
    let ended = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&ended);
    let body = Box::new(move || {
        let at = place(&theirs) as usize;
        while !until.load(Ordering::Acquire) {
            let bytes = std::fs::read(&from).expect("reads");
            theirs.write(at as u64, &bytes[at..at + MOUNT_BLOCK_SIZE]).expect("writes");
            pause(100);
        }
    });
    let mirror = RealClock::new().spawn("mirror", body);
    let told = refused(open(&device));
    assert!(told.contains("in use on the machine"), "{told}");
    refused(recover(&(Arc::clone(&device) as Arc<dyn BlockDevice>)));
    ended.store(true, Ordering::Release);
    mirror.join();
    mounted.unmount().expect("unmounts");
    oracle::e2fsck(&image).expect("e2fsck finds nothing");
    let device = shared(&image);
    let volume = open(&device).expect("opens");
    assert_eq!(volume.read("/file").expect("reads"), b"content");
    volume.close().expect("closes");
    device.save(&image).expect("saves");
    oracle::e2fsck(&image).expect("e2fsck finds nothing");
}

#[test]
fn a_checker_a_machine_that_ended_and_a_block_that_is_none() {
    if !oracle::require("mke2fs") || !oracle::require("e2fsck") {
        return;
    }
    let folder = Scratch::new("held-otherwise");
    let image = make(&folder, "mmp");
    let device = shared(&image);
    for sequence in [CHECKING, u32::MAX] {
        write_as_another(&device, Some(sequence));
        let before = block(&device);
        let words = refused(open(&device));
        assert!(words.contains("check") && words.contains("elsewhere"), "{words}");
        assert!(words.contains("/dev/shared"), "{words}");
        assert!(block(&device) == before);
    }
    // The machine gives it back while it is watched.
    write_as_another(&device, Some(7));
    let theirs = Arc::clone(&device);
    let body = Box::new(move || {
        pause(1500);
        write_as_another(&theirs, None);
    });
    let other = RealClock::new().spawn("another machine", body);
    open(&device).expect("it was given back").close().expect("closes");
    other.join();
    // Reading neither waits nor writes.
    write_as_another(&device, Some(9));
    let before = block(&device);
    let options = Options {
        access: Access::ReadOnly,
        policies: "modern".parse().expect("policies"),
        cache_bytes: 24 << 20,
        data: DataKeeping::Bytes,
    };
    Filesystem::open(Arc::clone(&device) as Arc<dyn BlockDevice>, &options)
        .expect("is read")
        .close()
        .expect("closes");
    assert!(block(&device) == before);
    device.write(place(&device), &[0; MOUNT_BLOCK_SIZE]).expect("it is damaged");
    let error = open(&device).map(drop).expect_err("no mount block");
    assert!(matches!(error.kind, ErrorKind::Corrupt(_)), "{error}");
}

/// The longest of all waits: 11 s for the number of the machine that ended, and as long for ours.
#[test]
fn a_volume_whose_machine_has_ended_is_taken_after_the_time_that_it_asks_for() {
    if !oracle::require("mke2fs") || !oracle::require("e2fsck") {
        return;
    }
    let folder = Scratch::new("held-ended");
    let image = make(&folder, "mmp");
    let device = shared(&image);
    write_as_another(&device, Some(7));
    let clock = RealClock::new();
    let before = clock.now();
    let volume = open(&device).expect("its machine has ended");
    let seconds = (clock.now() - before) / 1_000_000_000;
    assert!((22..40).contains(&seconds), "{seconds}");
    volume.close().expect("closes");
    device.save(&image).expect("saves");
    oracle::e2fsck(&image).expect("e2fsck finds nothing");
}

#[test]
fn nothing_is_written_once_another_machine_has_the_volume() {
    if !oracle::require("mke2fs") {
        return;
    }
    let folder = Scratch::new("held-lost");
    let image = make(&folder, "mmp");
    let device = shared(&image);
    let volume = open(&device).expect("opens");
    volume.write("/file", b"content").expect("written");
    volume.sync().expect("synced");
    write_as_another(&device, Some(77));
    pause(2500);
    let error = volume.write("/file", b"other").expect_err("it is lost");
    assert!(error.to_string().contains("elsewhere"), "{error}");
    volume.close().expect_err("it is lost");
    let stored = block(&device);
    assert_eq!(StoredMountBlock::new(&stored).sequence(), 77);
}

/// Between two looks of ours.
#[test]
fn a_volume_that_another_machine_has_is_not_given_back() {
    if !oracle::require("mke2fs") {
        return;
    }
    let folder = Scratch::new("held-at-last");
    let image = folder.join("image");
    let path = image.display().to_string();
    run("mke2fs", &["-q", "-F", "-t", "ext4", "-O", "mmp", &path, "16M"]).expect("it is made");
    let device = shared(&image);
    let volume = open(&device).expect("opens");
    write_as_another(&device, Some(77));
    refused(volume.close());
    assert_eq!(StoredMountBlock::new(&block(&device)).sequence(), 77);
}
