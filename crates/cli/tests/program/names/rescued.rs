//! What mke2fs does to a device that is not empty, or not sound: -S over a volume, -c and -l over
//! bad blocks; and the device of a journal.
use crate::names::{HASH_SEED, UUID, extant, run, theirs};
use extant_testkit::oracle::{Access, can_mount, e2fsck, mount_loop, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::skips::{Known, skip_known};
use std::path::Path;
use std::process::Command;

/// A volume of theirs with files in it.
fn volume(scratch: &Scratch, options: &str) -> std::path::PathBuf {
    let source = scratch.join("source");
    let _ = std::fs::create_dir_all(source.join("folder"));
    std::fs::write(source.join("folder/file"), vec![b'f'; 70_000]).unwrap();
    std::fs::write(source.join("small"), "content").unwrap();
    let image = scratch.join("x.img");
    let _ = std::fs::remove_file(&image);
    let mut command = theirs("mkfs.ext4");
    let words = ["-q", "-F", "-U", UUID].into_iter().chain(options.split_whitespace());
    let (code, said) = run(command
        .args(words)
        .arg("-d")
        .arg(&source)
        .args(["-E", HASH_SEED])
        .arg(&image)
        .arg("64M"));
    assert_eq!(code, Some(0), "{said}");
    image
}

/// What e2fsck makes of a volume, and a file of it after that.
fn repaired(image: &Path) -> String {
    let (code, said) = run(theirs("e2fsck").arg("-fy").arg(image));
    assert!(code.is_some_and(|code| code < 4), "{said}");
    e2fsck(image).unwrap();
    run(theirs("debugfs").args(["-R", "stat /folder/file"]).arg(image)).1
}

#[test]
fn superblocks_alone_leave_every_file_for_e2fsck() {
    if !["mke2fs", "e2fsck", "debugfs"].into_iter().all(require) {
        return;
    }
    let scratch = Scratch::new("names-super-only");
    for options in ["", "-O ^metadata_csum,uninit_bg", "-O bigalloc -b 1024 -C 4096"] {
        let image = volume(&scratch, options);
        let before = std::fs::read(&image).unwrap();
        // The superblock and all copies are lost, and so are descriptors.
        let mut bytes = before.clone();
        bytes[..8192].fill(7);
        std::fs::write(&image, &bytes).unwrap();
        let words = ["-S", "-q", "-F", "-U", UUID, "-E", HASH_SEED];
        let mut command = extant("mkfs.ext4");
        command.args(words).args(options.split_whitespace());
        let (code, said) = run(command.arg(&image));
        assert_eq!(code, Some(0), "{options}: {said}");
        assert!(said.contains("further corrupted"), "{said}");
        let after = std::fs::read(&image).unwrap();
        let changed = |(at, (one, other)): (usize, (&[u8], &[u8]))| (one != other).then_some(at);
        let kib = bytes.chunks(1024).zip(after.chunks(1024)).enumerate();
        // Superblock and descriptors, here and in four copies at most.
        assert!(kib.filter_map(changed).count() <= 15, "{options}: more is written");
        assert_eq!(after.len(), before.len());
        let said = repaired(&image);
        assert!(said.contains("Size: 70000"), "{options}: {said}");
    }
}

/// Nobody says -U: checksums have the seed that they had, and files without a name are not lost.
#[test]
fn superblocks_alone_keep_what_only_the_old_one_knew() {
    if !["mke2fs", "e2fsck", "debugfs"].into_iter().all(require) {
        return;
    }
    let scratch = Scratch::new("names-super-kept");
    for options in ["-b 1024", "-O orphan_file", "-O quota", "-O metadata_csum_seed,orphan_file"] {
        let image = volume(&scratch, options);
        let mut command = extant("mkfs.ext4");
        command.args(["-S", "-q", "-F"]).args(options.split_whitespace());
        let (code, said) = run(command.arg(&image));
        assert_eq!(code, Some(0), "{options}: {said}");
        let said = repaired(&image);
        assert!(said.contains("Size: 70000"), "{options}: {said}");
        let (_, said) = run(theirs("debugfs").args(["-R", "ls /lost+found"]).arg(&image));
        assert!(!said.contains('#'), "{options}: {said}");
    }
}

/// Nobody knows the UUID: that is said, since e2fsck gives up what is summed with another.
#[test]
fn superblocks_alone_without_the_uuid_are_warned_of() {
    if !require("mke2fs") {
        return;
    }
    const WARNING: &str = "its UUID is not known";
    let scratch = Scratch::new("names-super-unknown");
    let said_of = |options: &str, loss: &dyn Fn(&mut [u8]), words: &[&str]| {
        let image = volume(&scratch, options);
        let mut bytes = std::fs::read(&image).unwrap();
        loss(&mut bytes);
        std::fs::write(&image, &bytes).unwrap();
        let mut command = extant("mkfs.ext4");
        command.args(["-S", "-q", "-F"]).args(options.split_whitespace()).args(words);
        let (code, said) = run(command.arg(&image));
        assert_eq!(code, Some(0), "{options}: {said}");
        said
    };
    let lost = |bytes: &mut [u8]| bytes[1024..2048].fill(7);
    let said = said_of("", &lost, &[]);
    assert!(said.contains(WARNING) && said.contains("x.img"), "{said}");
    assert_eq!(said.matches(WARNING).count(), 1, "{said}");
    for (options, loss, words) in [
        ("", &lost as &dyn Fn(&mut [u8]), &["-U", UUID][..]),
        ("", &|_| {}, &[]),
        ("-O ^metadata_csum", &lost, &[]),
    ] {
        let said = said_of(options, loss, words);
        assert!(said.contains("further corrupted"), "{said}");
        assert!(!said.contains(WARNING), "{options} {words:?}: {said}");
    }
}

/// The end of a device that is no whole cluster, and what no group takes, is in no volume.
#[test]
fn a_search_for_bad_blocks_ends_where_the_volume_does() {
    if !require("e2fsck") {
        return;
    }
    let scratch = Scratch::new("names-searched");
    let image = scratch.join("x.img");
    let kinds =
        [("-O bigalloc -C 131072", 81_412_u64), ("-b 1024 -g 1024 -O ^flex_bg", 10 * 1024 + 9)];
    for (options, kib) in kinds {
        std::fs::File::create(&image).unwrap().set_len(kib << 10).unwrap();
        let mut command = extant("mkfs.ext4");
        command.args(["-q", "-c"]).args(options.split_whitespace());
        let (code, said) = run(command.arg(&image));
        assert_eq!(code, Some(0), "{options}: {said}");
        e2fsck(&image).unwrap_or_else(|error| panic!("{options}: {error}"));
    }
}

#[test]
fn listed_blocks_are_in_the_inode_of_bad_blocks_as_mke2fs_has_them() {
    if !["mke2fs", "e2fsck", "dumpe2fs"].into_iter().all(require) {
        return;
    }
    let scratch = Scratch::new("names-listed");
    let list = scratch.join("list");
    let numbers: Vec<String> =
        [10, 300].into_iter().chain(9000..9400).map(|n| n.to_string()).collect();
    std::fs::write(&list, numbers.join("\n")).unwrap();
    let images = ["theirs.img", "ours.img"].map(|name| scratch.join(name));
    for options in ["-b 1024 -O ^resize_inode", "-b 1024 -O ^resize_inode,^extent,^64bit"] {
        for (image, mut command) in images.iter().zip([theirs("mkfs.ext4"), extant("mkfs.ext4")]) {
            let _ = std::fs::remove_file(image);
            let words = ["-q", "-F", "-U", UUID, "-E", HASH_SEED].into_iter();
            command.args(words.chain(options.split(' '))).arg("-l").arg(&list);
            let (code, said) = run(command.arg(image).arg("24M"));
            assert_eq!(code, Some(0), "{options}: {said}");
            e2fsck(image).unwrap_or_else(|error| panic!("{options}: {error}"));
        }
        let told = images.each_ref().map(|image| run(theirs("dumpe2fs").arg(image)).1);
        let [their, our] = told.each_ref().map(|said| {
            let own = |line: &&str| !line.contains("Lifetime") && !line.contains("Checksum");
            said.lines().filter(own).collect::<Vec<_>>()
        });
        assert!(their.iter().any(|line| line.starts_with("Bad blocks: 10, 300, 9000")));
        assert_eq!(their, our, "{options}");
    }
    let (code, said) = run(extant("mkfs.ext4").args(["-q", "-l"]).arg(&list).args(["y.img", "1M"]));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("is not a block of the volume"), "{said}");
    std::fs::write(&list, "2").unwrap();
    let image = scratch.join("z.img");
    let mut command = extant("mkfs.ext4");
    let (code, said) =
        run(command.args(["-q", "-b", "1024", "-l"]).arg(&list).arg(&image).arg("8M"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("block 2 is bad"), "{said}");
}

/// What a file holds is written over where the volume is to be, and nowhere else.
#[test]
fn a_test_by_writing_leaves_what_is_around_the_volume() {
    if !require("e2fsck") {
        return;
    }
    let scratch = Scratch::new("names-written");
    let [image, plain] = ["x.img", "plain.img"].map(|name| scratch.join(name));
    for (image, tests) in [(&image, &["-c", "-c"][..]), (&plain, &[])] {
        std::fs::write(image, vec![7; 10 << 20]).unwrap();
        let words = format!("{HASH_SEED},offset=1048576");
        let mut command = extant("mkfs.ext4");
        command.args(["-q", "-F", "-U", UUID, "-E", &words]).args(tests);
        let (code, said) = run(command.arg(image).arg("8M"));
        assert_eq!(code, Some(0), "{said}");
    }
    let bytes = std::fs::read(&image).unwrap();
    assert!(bytes[..1 << 20].iter().chain(&bytes[9 << 20..]).all(|byte| *byte == 7));
    assert!(bytes == std::fs::read(&plain).unwrap());
}

/// A device with a hole in it that cannot be read, as long as this is there.
struct Broken {
    name: String,
    device: String,
}

impl Broken {
    fn new(image: &Path) -> Option<Broken> {
        let (code, said) = run(Command::new("losetup").args(["-f", "--show"]).arg(image));
        let device = said.trim().to_owned();
        assert_eq!(code, Some(0), "{said}");
        let name = format!("extant-broken-{}", std::process::id());
        // Sectors 2000 to 2007, which are blocks 1000 to 1003 of 1 KiB.
        let table =
            format!("0 2000 linear {device} 0\n2000 8 error\n2008 30760 linear {device} 2008\n");
        let (code, _) = run(Command::new("dmsetup").args(["create", &name, "--table", &table]));
        let broken = Broken { name, device };
        (code == Some(0)).then_some(broken)
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        let _ = run(Command::new("dmsetup").args(["remove", &self.name]));
        let _ = run(Command::new("losetup").args(["-d", &self.device]));
    }
}

#[test]
fn a_search_finds_the_blocks_that_cannot_be_read() {
    if !require("e2fsck") || !require("dumpe2fs") {
        return;
    }
    let scratch = Scratch::new("names-searched");
    let image = scratch.join("x.img");
    // Without bad blocks nothing is different.
    let made = ["-q", "-F", "-U", UUID, "-E", HASH_SEED];
    let kinds = [("", "a.img"), ("-c", "b.img"), ("-c -c", "c.img")];
    let images = kinds.map(|(option, name)| {
        let image = scratch.join(name);
        let mut command = extant("mkfs.ext4");
        command.args(made).args(option.split_whitespace());
        let (code, said) = run(command.arg(&image).arg("16M"));
        assert_eq!(code, Some(0), "{said}");
        std::fs::read(&image).unwrap()
    });
    assert!(images[0] == images[1]);
    assert!(images[0] == images[2]);
    std::fs::write(&image, vec![0; 16 << 20]).unwrap();
    if !can_mount() {
        return;
    }
    let Some(broken) = Broken::new(&image) else {
        skip_known(Known::KernelFeatures, "dmsetup makes no device");
        return;
    };
    let device = format!("/dev/mapper/{}", broken.name);
    for tests in [&["-c", "-c"][..], &["-c"]] {
        let mut command = extant("mkfs.ext4");
        let (code, said) = run(command.args(made).args(tests).args(["-b", "1024", &device]));
        assert_eq!(code, Some(0), "{said}");
        let (_, fields) = run(theirs("dumpe2fs").arg(&device));
        assert!(fields.contains("Bad blocks: 1000, 1001, 1002, 1003\n"), "{tests:?}: {fields}");
    }
    let mut command = extant("mkfs.ext4");
    let (code, said) = run(command.args(made).args(["-S", "-c", "-b", "1024", &device]));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("4 blocks cannot be read: 1000, 1001, 1002, 1003 (-S keeps"), "{said}");
    drop(broken);
    e2fsck(&image).unwrap();
    let mounted = mount_loop(&image, Access::ReadWrite, "").unwrap();
    std::fs::write(mounted.path().join("file"), vec![1; 1 << 20]).unwrap();
    mounted.unmount().unwrap();
    e2fsck(&image).unwrap();
}

/// What dumpe2fs says of it, ours and theirs, of the superblock and the journal.
fn dumped(image: &Path) -> [Vec<String>; 2] {
    [theirs("dumpe2fs"), extant("dumpe2fs")].map(|mut program| {
        let said = run(program.arg("-h").arg(image)).1;
        let lines = said.lines().filter(|line| !line.starts_with("dumpe2fs"));
        lines.map(str::to_owned).collect()
    })
}

/// A file as a block device, as long as `work` goes on.
fn attached<T>(file: &Path, work: impl FnOnce(&str) -> T) -> T {
    let (code, said) = run(Command::new("losetup").args(["-f", "--show"]).arg(file));
    assert_eq!(code, Some(0), "{said}");
    let device = said.trim().to_owned();
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&device)));
    let _ = run(Command::new("losetup").args(["-d", &device]));
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[test]
fn a_journal_on_a_device_of_its_own_is_used_by_mke2fs_and_the_kernel() {
    if !["mke2fs", "e2fsck", "losetup"].into_iter().all(require) || !can_mount() {
        return;
    }
    let scratch = Scratch::new("names-journal");
    let [image, other, journal] = ["x.img", "y.img", "j.img"].map(|name| scratch.join(name));
    let program = extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant"));
    let volume = ["-q", "-F", "-U", UUID, "-E", HASH_SEED];
    for size in ["1024", "4096"] {
        // What was there is no log: it goes, though nothing is discarded.
        std::fs::write(&journal, vec![7; 16 << 20]).unwrap();
        let mut command = extant("mke2fs");
        command.args(["-q", "-F", "-K", "-O", "journal_dev", "-b", size]).arg(&journal);
        let (code, said) = run(command.arg("16M"));
        assert_eq!(code, Some(0), "{said}");
        let rest = &std::fs::read(&journal).unwrap()[8192..];
        assert!(rest.iter().all(|byte| *byte == 0));
        let [their, our] = dumped(&journal);
        assert!(their.len() > 30 && their == our, "{their:?}\n{our:?}");
        attached(&journal, |device| {
            let word = format!("device={device}");
            let _ = std::fs::remove_file(&image);
            let mut command = extant("mkfs.ext4");
            let (code, said) = run(command.args(volume).args(["-J", &word]).arg(&image).arg("32M"));
            assert_eq!(code, Some(0), "{said}");
            let options = format!("journal_path={device}");
            let mounted = mount_loop(&image, Access::ReadWrite, &options).unwrap();
            std::fs::write(mounted.path().join("file"), "content").unwrap();
            mounted.unmount().unwrap();
        });
        let (code, said) = run(theirs("e2fsck").arg("-fn").arg("-j").arg(&journal).arg(&image));
        assert_eq!(code, Some(0), "{said}");
        let (code, said) = run(Command::new(program).args(["info", "-h"]).arg(&journal));
        assert_eq!(code, Some(0), "{said}");
        let whose = format!("is no volume, but the journal of the volume {UUID}");
        assert!(said.contains(&whose), "{said}");
        for (command, exit) in [("check", 8), ("ls", 1)] {
            let (code, said) = run(Command::new(program).arg(command).arg(&journal));
            assert_eq!(code, Some(exit), "{command}: {said}");
            assert!(said.contains("is the journal of another volume"), "{command}: {said}");
        }
        // The same volume again, theirs and ours; and another, with which no kernel takes it.
        let fields = [theirs("mkfs.ext4"), extant("mkfs.ext4")].map(|mut command| {
            let _ = std::fs::remove_file(&other);
            attached(&journal, |device| {
                let word = format!("device={device}");
                let (code, said) =
                    run(command.args(volume).args(["-J", &word]).arg(&other).arg("32M"));
                assert_eq!(code, Some(0), "{said}");
            });
            let [fields, _] = dumped(&other);
            // It may be another loop device.
            let own =
                |line: &String| !line.contains("Checksum:") && !line.contains("Journal device");
            fields.into_iter().filter(own).collect::<Vec<_>>()
        });
        assert_eq!(fields[0], fields[1]);
        // They have one UUID, and count once.
        attached(&journal, |device| {
            let word = format!("device={device}");
            let mut command = extant("mkfs.ext4");
            let (code, said) = run(command.args(["-q", "-F", "-J", &word]).arg(&other).arg("32M"));
            assert_eq!(code, Some(0), "{said}");
        });
        let [their, our] = dumped(&journal);
        assert!(their.iter().any(|line| line.ends_with("users:  2")), "{their:?}");
        assert_eq!(their, our);
    }
    let (code, said) = run(extant("mkfs.ext4").args(["-J", "device=/dev/loop-absent"]).arg(&other));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("/dev/loop-absent"), "{said}");
}
