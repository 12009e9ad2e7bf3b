//! Files of a volume that is written: what reaches the image, and which errors are told.
use crate::devices::Disk;
use crate::{PROFILES, assert_clean, assert_clean_bytes, sample, sample_file};
use extant::{
    DeviceNumbers, ErrorKind, File, FileType, Image, Options, Profile, Time, Transaction, Volume,
    Walk,
};
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Every call that changes something.
fn change(volume: &Volume) -> extant::Result<()> {
    volume.create_dir("/new")?;
    volume.create_dir_all("/new/a/b/c")?;
    volume.write("/new/a/file", "content\n")?;
    volume.hard_link("/new/a/file", "/new/again")?;
    volume.symlink("a/file", "/new/link")?;
    volume.make_node("/new/fifo", FileType::Fifo, 0o600, DeviceNumbers::default())?;
    let numbers = DeviceNumbers { major: 5, minor: 1 };
    volume.make_node("/new/console", FileType::CharacterDevice, 0o620, numbers)?;
    volume.set_mode("/new/a/file", 0o640)?;
    volume.set_owner("/new/a/file", 70_000, 80_000)?;
    volume.set_modify_time("/new/a/file", Time { seconds: 1_000_000, nanoseconds: 0 })?;
    volume.set_attribute("/new/a/file", "user.one", "1")?;
    volume.set_attribute("/new/a/file", "user.two", "2")?;
    volume.remove_attribute("/new/a/file", "user.one")?;
    volume.rename("/etc/hostname", "/new/hostname")?;
    volume.remove_file("/etc/name")?;
    volume.remove_dir("/etc")?;
    volume.remove_all("/dir")?;
    let mut file = volume.create_file("/new/stream")?;
    file.write_all(&[3; 200_000])?;
    file.seek(SeekFrom::Start(100))?;
    file.write_all(b"here")?;
    file.write_all_at(1 << 20, b"far")?;
    file.set_len((1 << 20) + 2)?;
    file.sync()?;
    let mut start = [0; 5];
    file.seek(SeekFrom::Start(99))?;
    file.read_exact(&mut start)?;
    assert_eq!(&start, b"\x03here");
    assert_eq!(file.metadata()?.size, (1 << 20) + 2);
    Ok(())
}

/// What the kernel sees after that.
fn judge(root: &Path) {
    let text = |path: &str| std::fs::read(root.join(path)).unwrap();
    let metadata = |path: &str| std::fs::symlink_metadata(root.join(path)).unwrap();
    assert_eq!(text("new/a/file"), b"content\n");
    assert_eq!(text("new/hostname"), b"extant\n");
    assert_eq!(std::fs::read_link(root.join("new/link")).unwrap(), Path::new("a/file"));
    let file = metadata("new/a/file");
    assert_eq!((file.mode() & 0o7777, file.uid(), file.gid()), (0o640, 70_000, 80_000));
    assert_eq!(
        (file.nlink(), file.mtime(), file.ino()),
        (2, 1_000_000, metadata("new/again").ino())
    );
    assert!(metadata("new/fifo").file_type().is_fifo());
    assert!(metadata("new/console").file_type().is_char_device());
    assert!(metadata("new/a/b/c").is_dir());
    let stream = text("new/stream");
    assert_eq!(stream.len(), (1 << 20) + 2);
    assert_eq!((&stream[98..105], &stream[1 << 20..]), (&b"\x03\x03here\x03"[..], &b"fa"[..]));
    assert!(!root.join("etc").exists() && !root.join("dir").exists());
    let names = extant_testkit::command::run(
        "getfattr",
        &["-d", root.join("new/a/file").to_str().unwrap()],
    );
    if let Ok(names) = names {
        let said = String::from_utf8_lossy(&names.stdout).into_owned();
        assert!(said.contains("user.two=\"2\"") && !said.contains("user.one"), "{said}");
    }
}

#[test]
fn what_is_written_is_what_the_kernel_reads() {
    let folder = Scratch::new("extant-write");
    for profile in PROFILES {
        let path = sample_file(&folder, profile);
        let volume = Options::new().write(true).open(&path).unwrap();
        change(&volume).unwrap();
        let free = volume.space().free_blocks;
        volume.close().unwrap();
        assert_clean(&path, &format!("{profile:?}"));
        assert!(extant::check(&path).unwrap().is_clean());
        let again = Volume::open(&path).unwrap();
        assert_eq!(again.read("/new/again").unwrap(), b"content\n");
        assert_eq!(again.space().free_blocks, free);
        drop(again);
        if oracle::can_mount() {
            let mounted = oracle::mount_loop(&path, oracle::Access::ReadOnly, "").unwrap();
            judge(mounted.path());
            mounted.unmount().unwrap();
        }
    }
}

#[test]
fn a_volume_that_is_dropped_is_closed() {
    for profile in PROFILES {
        let memory = sample(profile);
        let volume = Options::new().write(true).open(memory.clone()).unwrap();
        change(&volume).unwrap();
        drop(volume);
        assert_clean_bytes(&memory.to_vec(), &format!("{profile:?}"));
        assert_eq!(Volume::open(memory).unwrap().read("/new/link").unwrap(), b"content\n");
    }
}

#[test]
fn a_file_is_not_written_after_its_volume_was_closed() {
    let memory = sample(Profile::Ext4);
    let volume = Options::new().write(true).open(memory.clone()).unwrap();
    let mut file = volume.open_file("/large").unwrap();
    volume.close().unwrap();
    let closed = memory.to_vec();
    let error = file.write_all(b"late").unwrap_err();
    let ours = error.downcast::<extant::Error>().expect("ours");
    assert_eq!((ours.kind(), ours.path()), (ErrorKind::ReadOnly, Some(Path::new("/large"))));
    assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::ReadOnly);
    drop(file);
    assert!(memory.to_vec() == closed);
}

/// The last write of a program is in memory when its call returns: closing says what became of it.
#[test]
fn closing_says_what_a_device_did_not_take() {
    let mut failed = 0;
    for profile in PROFILES {
        for writes in [0, 1, 2, 3, 5, 8, 13, 21] {
            let disk = Disk::new(sample(profile).to_vec(), writes);
            let opened = Options::new().write(true).open(Image::device(disk.clone()));
            let Ok(volume) = opened else { continue };
            let written = volume.write("/etc/hostname", "new\n").and_then(|()| {
                (0..40).try_for_each(|number| volume.write(format!("/{number}"), vec![1; 3000]))
            });
            let closed = volume.close();
            if disk.is_broken() {
                let told = written.and(closed).expect_err("a lost write");
                assert_eq!(told.errno(), 5, "{profile:?}, {writes}: {told}");
                failed += 1;
            } else {
                written.and(closed).unwrap();
                assert_clean_bytes(&disk.bytes(), "a device that took all");
            }
        }
        let disk = Disk::new(sample(profile).to_vec(), 4);
        drop(Options::new().write(true).open(Image::device(disk)));
    }
    assert!(failed > 10, "{failed}");
}

#[test]
fn the_same_changes_at_the_same_time_are_the_same_bytes() {
    let changed = |profile| {
        let memory = sample(profile);
        let options = Options::new().write(true).time(1_700_000_000);
        let volume = options.policies("modern,throttle=inline").open(memory.clone()).unwrap();
        change(&volume).unwrap();
        volume.close().unwrap();
        memory.to_vec()
    };
    for profile in PROFILES {
        assert!(changed(profile) == changed(profile), "{profile:?}");
    }
}

#[test]
fn a_walk_meets_everything_once_in_order() {
    let volume = Options::new().write(true).open(sample(Profile::Ext4)).unwrap();
    let paths = |walk: Walk| -> Vec<String> {
        walk.map(|entry| entry.unwrap().path.to_str().unwrap().to_owned()).collect()
    };
    let all = ["/", "/dir", "/dir/below", "/dir/below/file", "/etc", "/etc/hostname", "/etc/name"];
    let all = [&all[..], &["/large", "/lost+found"]].concat();
    assert_eq!(paths(volume.walk("/").unwrap()), all);
    assert_eq!(paths(volume.read_dir("/etc").unwrap()), ["/etc/hostname", "/etc/name"]);
    assert_eq!(paths(volume.walk("/etc/name").unwrap()), ["/etc/name"]);
    assert_eq!(volume.walk("/nowhere").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(volume.read_dir("/large").unwrap_err().kind(), ErrorKind::NotDirectory);
    // Many levels, and the volume may go before the walk does.
    let mut deep = String::from("/deep");
    for _ in 0..700 {
        deep.push_str("/d");
    }
    volume.create_dir_all(&deep).unwrap();
    let mut walk = volume.walk("/deep").unwrap();
    assert_eq!(walk.next().unwrap().unwrap().metadata.file_type, FileType::Directory);
    volume.close().unwrap();
    assert_eq!(walk.count(), 700);
}

#[allow(clippy::disallowed_methods, reason = "a program has threads of its own")]
#[test]
fn handles_are_owned_and_go_from_thread_to_thread() {
    fn owned<T: Send + Sync + 'static>() {}
    owned::<Volume>();
    owned::<File>();
    owned::<Transaction>();
    owned::<extant::Memory>();
    owned::<extant::Image>();
    owned::<extant::Error>();
    owned::<Options>();
    owned::<Walk>();
    let memory = sample(Profile::Ext4);
    let volume = std::sync::Arc::new(Options::new().write(true).open(memory.clone()).unwrap());
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let volume = std::sync::Arc::clone(&volume);
            // tidy: thread because a program has threads of its own
            std::thread::spawn(move || {
                for number in 0..50 {
                    volume.write(format!("/{writer}-{number}"), vec![writer; 2000]).unwrap();
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    std::sync::Arc::into_inner(volume).unwrap().close().unwrap();
    assert_clean_bytes(&memory.to_vec(), "four threads");
    assert_eq!(Volume::open(memory).unwrap().read("/3-49").unwrap(), vec![3; 2000]);
}
