//! Journals on a device of their own: what Linux left in them, and what we write to them.
use crate::journals::theirs::{with_counted_links, with_old_times};
use crate::recovery::{device, options};
use extant_block::{Access as DeviceAccess, BlockDevice, Clock, MemoryDevice, RealClock};
use extant_engine::{Access, ErrorKind, Filesystem, Orphans, recovered};
use extant_format::superblock::Feature;
use extant_testkit::compare;
use extant_testkit::journals::{External, is_possible, tree};
use extant_testkit::scratch::Scratch;
use extant_testkit::walk::Entry;
use std::path::Path;
use std::sync::Arc;

fn joined(volume: &External, access: DeviceAccess) -> Arc<dyn BlockDevice> {
    let [image, journal] = [&volume.image, &volume.journal].map(|file| device(file, access));
    extant_journal::join(image, journal).expect("it is the volume's journal")
}

fn differences(left: &[Entry], right: &[Entry]) -> Vec<String> {
    let options = compare::Options::copy();
    compare::entries(left, right, &options).iter().map(ToString::to_string).collect()
}

/// What a reader sees, in an image.
fn save_as_read(device: Arc<dyn BlockDevice>, image: &Path) {
    let recovered = recovered(device, Orphans::Finish).expect("it is recovered");
    assert!(recovered.report.is_some(), "nothing waited");
    let mut bytes = vec![0; recovered.device.own_bytes() as usize];
    recovered.device.read(0, &mut bytes).expect("it is read");
    std::fs::write(image, bytes).expect("it is saved");
}

#[test]
fn what_linux_left_in_it_is_replayed_as_linux_replays_it() {
    if !is_possible() {
        return;
    }
    for (seed, block_size, features) in
        [(3, 1024, ""), (4, 4096, "^metadata_csum"), (5, 4096, "fast_commit")]
    {
        let what = format!("seed {seed}, blocks of {block_size}, {features}");
        let folder = Scratch::new("external-left");
        let left = External::make(folder.path(), block_size, features).expect("it is made");
        left.under_load(seed).expect("the kernel leaves it");
        let kernels = left.copy("kernel").expect("copied");
        let replayed_at = RealClock::new().wall();
        let mut kernel = match kernels.after_kernel() {
            // Linux 6.18 cannot always replay its own fast commits.
            Err(said) if features == "fast_commit" => {
                eprintln!("{what}: the kernel refuses its fast commits: {said}");
                continue;
            }
            kernel => kernel.expect("it is mounted"),
        };
        assert!(kernel.len() > 10, "{what}: the load did nothing");
        // Its fast commits sometimes log a wrong count of links, which both of us replay.
        let miscounted = match features {
            "fast_commit" => kernels.clean().err(),
            _ => None,
        };
        let counted = |tree| match &miscounted {
            Some(said) => with_counted_links(tree, said),
            None => tree,
        };
        kernel = counted(kernel);

        let before = [&left.image, &left.journal].map(|file| std::fs::read(file).expect("read"));
        let read = left.image.with_extension("read");
        save_as_read(joined(&left, DeviceAccess::ReadOnly), &read);
        let seen = counted(tree(&read).expect("mounted"));
        if features == "fast_commit" {
            kernel = with_old_times(kernel, &seen, replayed_at);
        }
        assert_eq!(differences(&kernel, &seen), [""; 0], "{what}: read");
        let after = [&left.image, &left.journal].map(|file| std::fs::read(file).expect("read"));
        assert!(before == after, "{what}: a reader wrote");

        let written = left.copy("written").expect("copied");
        let device = joined(&written, DeviceAccess::ReadWrite);
        let volume = Filesystem::open(device, &options(Access::ReadWrite)).expect("opens");
        volume.close().expect("closes");
        if miscounted.is_none() {
            written.clean().unwrap_or_else(|said| panic!("{what}: {said}"));
        }
        assert_eq!(
            differences(&kernel, &counted(tree(&written.image).expect("mounted"))),
            [""; 0],
            "{what}"
        );
    }
}

/// Both devices of a volume in memory, as files give them.
fn in_memory(volume: &External) -> [Arc<MemoryDevice>; 2] {
    [&volume.image, &volume.journal].map(|file| {
        let bytes = std::fs::read(file).expect("it is read");
        Arc::new(MemoryDevice::from_bytes(RealClock::new(), &bytes))
    })
}

#[test]
fn what_we_leave_in_it_is_replayed_by_linux() {
    if !is_possible() {
        return;
    }
    for block_size in [1024, 4096] {
        let folder = Scratch::new("external-ours");
        let made = External::make(folder.path(), block_size, "").expect("it is made");
        let [image, journal] = in_memory(&made);
        let device = extant_journal::join(image.clone(), journal.clone()).expect("is its journal");
        let volume = Filesystem::open(device, &options(Access::ReadWrite)).expect("opens");
        volume.create_dir("/kept", 0o755).expect("makes");
        for number in 0..200 {
            let name = format!("/kept/{number}");
            volume.write(&name, format!("content {number}").repeat(99).as_bytes()).expect("writes");
        }
        volume.sync_path("/kept/199").expect("syncs");
        volume.write("/lost", b"never synced").expect("writes");
        // The power is cut.
        let cut = made.copy("cut").expect("copied");
        image.save(&cut.image).expect("saved");
        journal.save(&cut.journal).expect("saved");
        volume.close().expect("closes");

        let ours = cut.image.with_extension("read");
        save_as_read(joined(&cut, DeviceAccess::ReadOnly), &ours);
        let kernel = cut.after_kernel().expect("the kernel mounts it");
        cut.clean().unwrap_or_else(|said| panic!("{said}"));
        let has = |name: &str| kernel.iter().any(|entry| entry.path.ends_with(name));
        assert!(has("kept/0") && has("kept/199") && !has("lost"), "{kernel:?}");
        assert_eq!(differences(&kernel, &tree(&ours).expect("mounted")), [""; 0]);

        let closed = made.copy("closed").expect("copied");
        image.save(&closed.image).expect("saved");
        journal.save(&closed.journal).expect("saved");
        closed.clean().unwrap_or_else(|said| panic!("{said}"));
        assert!(closed.after_kernel().expect("mounted").len() > 200);
    }
}

#[test]
fn without_it_nothing_is_written_and_another_one_is_refused() {
    if !is_possible() {
        return;
    }
    let folders = [Scratch::new("external-one"), Scratch::new("external-other")];
    let [one, other] = folders
        .each_ref()
        .map(|folder| External::make(folder.path(), 1024, "").expect("it is made"));
    let alone = device(&one.image, DeviceAccess::ReadWrite);
    let error = Filesystem::open(alone, &options(Access::ReadWrite)).map(drop);
    let error = error.expect_err("its journal is not there");
    assert!(matches!(error.kind, ErrorKind::Journal(extant_journal::Error::External(_))));
    let refused = |volume: &Path, journal: &Path, why: &str| {
        let [volume, journal] = [volume, journal].map(|file| device(file, DeviceAccess::ReadOnly));
        match extant_journal::join(volume, journal) {
            Err(extant_journal::Error::NotItsJournal(said)) => {
                assert!(said.contains(why), "{said}");
            }
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it was taken: {why}"),
        }
    };
    refused(&one.image, &other.journal, "and the volume names");
    refused(&one.image, &other.image, "it is a volume");
    let short = one.journal.with_extension("short");
    let bytes = std::fs::read(&one.journal).expect("read");
    std::fs::write(&short, &bytes[..bytes.len() - 1024]).expect("written");
    refused(&one.image, &short, "cut short");
    std::fs::write(&short, &bytes[..2048]).expect("written");
    refused(&one.image, &short, "too small");
    // Its users are in the journal's superblock, in the block after that of the device.
    for (at, byte, why) in [
        (2048 + 0x100, !bytes[2048 + 0x100], "the journal of the volume "),
        (2048 + 0x43, 2, "2 volumes at once"),
        (2048 + 0x43, 0, "of no volume yet"),
        (2048, 0, "no superblock of a journal"),
        (1024 + 0x38, 0, "has no superblock"),
        (1024 + 0x18, 2, "another size"),
    ] {
        let mut changed = bytes.clone();
        changed[at] = byte;
        std::fs::write(&short, &changed).expect("written");
        refused(&one.image, &short, why);
    }
    let device = joined(&one, DeviceAccess::ReadWrite);
    let volume = Filesystem::open(device, &options(Access::ReadWrite)).expect("opens");
    assert!(volume.superblock().has(Feature::HAS_JOURNAL));
    volume.close().expect("closes");
}
