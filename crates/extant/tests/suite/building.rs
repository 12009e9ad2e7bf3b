//! Images into a file, memory and a device: the same bytes, exactly as many as are needed.
use crate::devices::Disk;
use crate::{PROFILES, assert_clean, assert_clean_bytes, digest};
use extant::{
    Builder, DeviceNumbers, ErrorKind, Memory, NewFile, Profile, Time, Transaction, Volume,
};
use extant_image::assemble::{BuildOptions, Destination, Job, Place};
use extant_image::source::{Holes, ReadOptions, Source, collect};
use extant_testkit::command::{is_root, program};
use extant_testkit::oracle::{self, require};
use extant_testkit::scratch::Scratch;
use std::fs::{self, File};
use std::io::Cursor;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// When all files of the tree were changed.
const CHANGED: Time = Time { seconds: 1_600_000_000, nanoseconds: 0 };

/// A folder with files of all kinds that need no root.
fn folder(scratch: &Scratch) -> PathBuf {
    let root = scratch.join("rootfs");
    fs::create_dir_all(root.join("etc/conf.d")).unwrap();
    fs::write(root.join("etc/hostname"), "extant\n").unwrap();
    fs::write(root.join("etc/conf.d/empty"), "").unwrap();
    // Zeros that become a hole, and bytes around them.
    let mut large = vec![0; 3 << 20];
    large[..5000].fill(1);
    large[2_500_000..].fill(2);
    fs::write(root.join("large"), large).unwrap();
    fs::write(root.join("small"), vec![3; 10_000]).unwrap();
    fs::set_permissions(root.join("small"), fs::Permissions::from_mode(0o4750)).unwrap();
    fs::hard_link(root.join("small"), root.join("zz-again")).unwrap();
    symlink("etc/hostname", root.join("link")).unwrap();
    let touched = program("find")
        .arg(&root)
        .args(["-exec", "touch", "-h", "-d", "@1600000000", "{}", "+"])
        .status();
    assert!(touched.unwrap().success());
    root
}

/// The same by calls.
fn made(builder: Builder, root: &Path) -> Builder {
    let metadata = fs::symlink_metadata(root).unwrap();
    let owner = |file: NewFile| {
        use std::os::unix::fs::MetadataExt;
        file.owner(metadata.uid(), metadata.gid()).time(CHANGED)
    };
    let builder = builder.files(|files| {
        let large = fs::read(root.join("large"))?;
        files.add("zz-again", owner(NewFile::file(vec![3; 10_000]).mode(0o4750)))?;
        files.add("/small", NewFile::hard_link("zz-again"))?;
        files.add("large", owner(NewFile::stream(Cursor::new(large))))?;
        files.add("link", owner(NewFile::symlink("etc/hostname")))?;
        files.add("/etc/conf.d/empty", owner(NewFile::file("")))?;
        files.add("/etc/hostname", owner(NewFile::file("replaced")))?;
        files.add("/etc/hostname", owner(NewFile::file("extant\n")))?;
        for path in ["/", "/etc", "/etc/conf.d"] {
            let mode = fs::metadata(root.join(path.trim_start_matches('/')))?.permissions().mode();
            files.add(path, owner(NewFile::directory().mode((mode & 0o7777) as u16)))?;
        }
        Ok(())
    });
    builder.unwrap()
}

/// As the command does it, with nothing of this crate.
fn by_the_lower_crate(root: &Path, profile: Profile, image: &Path) -> Vec<u8> {
    let options = ReadOptions { holes: Holes::Auto, ..ReadOptions::default() };
    let collected = collect([Source::from(root)], &options, &()).unwrap();
    let file = File::options().read(true).write(true).create(true).truncate(true).open(image);
    let file = file.unwrap();
    let destination = Destination { medium: &file, name: "x".to_owned(), place: Place::Whole };
    let job = Job::new(&collected, &BuildOptions::new(profile), &destination).unwrap();
    job.build(&()).unwrap();
    fs::read(image).unwrap()
}

#[test]
fn file_memory_device_and_calls_give_the_bytes_of_the_command() {
    let scratch = Scratch::new("extant-build");
    let root = folder(&scratch);
    for profile in PROFILES {
        let wanted = by_the_lower_crate(&root, profile, &scratch.join("lower.img"));
        let builder = || Builder::new().profile(profile);
        let path = scratch.join(&format!("{profile:?}.img"));
        let built = builder().source(&root).build(&path).unwrap();
        assert_eq!((built.bytes, built.free_blocks), (wanted.len() as u64, 0), "{profile:?}");
        assert_eq!(digest(&fs::read(&path).unwrap()), digest(&wanted), "{profile:?}, a file");
        assert_clean(&path, &format!("{profile:?}"));

        let memory = Memory::from(&b"what was there"[..]);
        let in_memory = builder().source(&root).build_memory(&memory).unwrap();
        assert_eq!(in_memory, built);
        assert_eq!(digest(&memory.to_vec()), digest(&wanted), "{profile:?}, memory");

        // What a device held stays where nothing is written.
        for before in [0, 9] {
            let device = Disk::whole(vec![before; wanted.len() + 5000]);
            builder().source(&root).build_device(device.clone()).unwrap();
            let bytes = device.bytes();
            let (image, after) = bytes.split_at(wanted.len());
            let kept: Vec<usize> =
                (0..image.len()).filter(|at| image[*at] != wanted[*at]).collect();
            assert!(after.iter().all(|byte| *byte == before), "what is after it stays");
            assert_clean_bytes(image, &format!("{profile:?}, a device"));
            assert!(before != 0 || kept.is_empty(), "{profile:?}, a device of zeros");
            // Of its first block mkfs writes the superblock.
            assert!(kept.iter().all(|at| (2048..4096).contains(at)), "{profile:?}: {kept:?}");
        }

        let calls = Memory::new();
        made(builder(), &root).build_memory(&calls).unwrap();
        assert_eq!(digest(&calls.to_vec()), digest(&wanted), "{profile:?}, by calls");
    }
}

#[test]
fn an_archive_is_a_source() {
    if !require("tar") {
        return;
    }
    let scratch = Scratch::new("extant-tar");
    let root = folder(&scratch);
    let packed = scratch.join("x.tar.gz");
    let words = ["--format=pax", "--numeric-owner", "-czf"];
    assert!(
        program("tar")
            .args(words)
            .arg(&packed)
            .arg("-C")
            .arg(&root)
            .arg(".")
            .status()
            .unwrap()
            .success()
    );
    let (one, other, folder) = (Memory::new(), Memory::new(), Memory::new());
    Builder::new().source(&packed).build_memory(&one).unwrap();
    let archive = File::open(&packed).unwrap();
    Builder::new().archive(archive).unwrap().build_memory(&other).unwrap();
    Builder::new().source(&root).build_memory(&folder).unwrap();
    assert!(one.to_vec() == other.to_vec());
    assert!(one.to_vec() == folder.to_vec());
    let cut = &fs::read(&packed).unwrap()[..60];
    let error = Builder::new().archive(cut).unwrap().build_memory(&one).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    assert_eq!(one.len(), 0, "what was half built is gone");
}

#[test]
fn options_reach_the_image() {
    let scratch = Scratch::new("extant-options");
    let root = folder(&scratch);
    let path = scratch.join("x.img");
    let builder = || Builder::new().source(&root).label("data").uuid([7; 16]).owner(0, 0);
    let built = builder().size(16 << 20).block_size(1024).exclude("conf.d").newest(1000);
    let built = built.build(&path).unwrap();
    assert_eq!((built.bytes, built.block_size, built.uuid), (16 << 20, 1024, [7; 16]));
    assert_eq!(fs::metadata(&path).unwrap().len(), 16 << 20);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777 & !0o644, 0);
    assert_clean(&path, "options");
    let volume = Volume::open(&path).unwrap();
    assert_eq!((volume.label(), volume.uuid()), ("data".to_owned(), [7; 16]));
    let small = volume.metadata("/small").unwrap();
    assert_eq!((small.uid, small.gid, small.modify_time.seconds), (0, 0, 1000));
    assert_eq!(volume.metadata("/etc/conf.d").unwrap_err().kind(), ErrorKind::NotFound);
    let large = volume.metadata("/large").unwrap();
    assert!(large.sectors * 512 < 1 << 20, "{large:?}: zeros are holes");
    drop(volume);

    let refused = builder().build(&path).unwrap_err();
    assert_eq!((refused.kind(), refused.path()), (ErrorKind::Exists, Some(&*path)));
    let before = fs::read(&path).unwrap();
    let short = builder().replace(true).size(512 << 10).build(&path).unwrap_err();
    assert_eq!((short.kind(), short.errno()), (ErrorKind::NoSpace, 28), "{short}");
    assert!(fs::read(&path).unwrap() == before, "what fails leaves what was there");
    builder().replace(true).build(&path).unwrap();
    assert!(fs::metadata(&path).unwrap().len() < 4 << 20);
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 2, "nothing is left beside it");
    let long = builder().label("longer than 16 bytes").build_memory(&Memory::new());
    assert_eq!(long.unwrap_err().kind(), ErrorKind::InvalidInput);
    let small = Disk::whole(vec![0; 64 << 10]);
    let error = builder().build_device(small).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
}

#[test]
fn files_of_all_kinds_are_made_as_the_kernel_sees_them() {
    let scratch = Scratch::new("extant-kinds");
    let path = scratch.join("x.img");
    let builder = Builder::new().files(|files| {
        files.add("/dev/null", NewFile::character_device(DeviceNumbers { major: 1, minor: 3 }))?;
        files.add("/dev/disk", NewFile::block_device(DeviceNumbers { major: 8, minor: 0 }))?;
        files.add("/run/fifo", NewFile::fifo().mode(0o600))?;
        files.add(
            "/file",
            NewFile::file("x").owner(5, 6).attribute("user.note", "kept").time(CHANGED),
        )
    });
    let built = builder.unwrap().build(&path).unwrap();
    assert!(!built.has_journal && built.free_blocks == 0, "{built:?}");
    assert_clean(&path, "kinds");
    let volume = Volume::open(&path).unwrap();
    assert_eq!(volume.metadata("/file").unwrap().modify_time, CHANGED);
    assert_eq!(volume.attributes("/file").unwrap()[0].value, b"kept");
    drop(volume);
    if !oracle::can_mount() || !is_root() {
        return;
    }
    let mounted = oracle::mount_loop(&path, oracle::Access::ReadOnly, "").unwrap();
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let metadata = |name: &str| fs::metadata(mounted.path().join(name)).unwrap();
    assert_eq!(metadata("dev/null").rdev(), 1 << 8 | 3);
    assert!(metadata("dev/disk").file_type().is_block_device());
    assert!(metadata("run/fifo").file_type().is_fifo());
    let file = metadata("file");
    assert_eq!((file.uid(), file.gid(), file.mtime()), (5, 6, CHANGED.seconds));
    mounted.unmount().unwrap();
}

#[test]
fn what_cannot_be_made_is_refused() {
    let add = |path: &str, file: NewFile| {
        let builder = Builder::new().files(|files| files.add(path, file));
        builder.and_then(|builder| builder.build_memory(&Memory::new())).map(drop)
    };
    let numbers = DeviceNumbers { major: 1 << 20, minor: 0 };
    for (path, file) in [
        ("/../out", NewFile::file("x")),
        ("/nul\0", NewFile::file("x")),
        ("/", NewFile::file("x")),
        ("/link", NewFile::hard_link("/nothing")),
        ("/device", NewFile::block_device(numbers)),
    ] {
        assert!(add(path, file).is_err(), "{path}");
    }
    let name = "n".repeat(256);
    assert!(add(&name, NewFile::file("x")).is_err(), "a name of 256 bytes");
    add(&name[1..], NewFile::file("x")).unwrap();
    for bytes in [0, 5, 512, 1025, 131_072, u32::MAX] {
        let built = Builder::new().block_size(bytes).build_memory(&Memory::new());
        assert!(built.is_err(), "blocks of {bytes} bytes");
    }
    /// Ends with an error.
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::from_raw_os_error(28))
        }
    }
    let error = add("/x", NewFile::stream(Broken)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    let stopped = Builder::new().files(|_| Err(std::io::Error::other("enough").into()));
    assert_eq!(stopped.unwrap_err().to_string(), "enough");
}

#[test]
fn an_empty_volume_is_filled() {
    for profile in PROFILES {
        let memory = Memory::new();
        Builder::new().profile(profile).size(8 << 20).build_memory(&memory).unwrap();
        let change = Transaction::begin(memory.clone()).unwrap();
        change.write("/first", vec![1; 1 << 20]).unwrap();
        change.commit().unwrap();
        assert_clean_bytes(&memory.to_vec(), &format!("{profile:?}"));
    }
}
