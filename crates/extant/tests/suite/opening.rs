//! What an image may be, who may have it, and that reading it writes nothing.
use crate::devices::{Disk, ReadOnly};
use crate::{PROFILES, digest, sample, sample_file};
use extant::{Error, ErrorKind, Image, Memory, Options, Profile, Volume};
use extant_testkit::command::program;
use extant_testkit::journals;
use extant_testkit::oracle::{self, require};
use extant_testkit::scratch::Scratch;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

fn hostname(image: impl Into<Image>) -> extant::Result<Vec<u8>> {
    Volume::open(image)?.read("/etc/name")
}

fn kind<T>(result: extant::Result<T>) -> ErrorKind {
    result.err().expect("an error").kind()
}

/// An image as a crash leaves it: its journal holds what was synced.
fn unclosed(profile: Profile) -> Vec<u8> {
    let disk = Disk::whole(sample(profile).to_vec());
    let volume = Options::new().write(true).open(Image::device(disk.clone())).unwrap();
    volume.write("/etc/hostname", "synced\n").unwrap();
    volume.sync_path("/etc/hostname").unwrap();
    let bytes = disk.bytes();
    volume.close().unwrap();
    assert_ne!(digest(&bytes), digest(&disk.bytes()), "closing wrote nothing");
    bytes
}

#[test]
fn all_kinds_of_images_are_read() {
    let folder = Scratch::new("extant-open");
    for profile in PROFILES {
        let bytes = sample(profile).to_vec();
        let path = sample_file(&folder, profile);
        let text = path.to_str().unwrap();
        assert_eq!(hostname(&path).unwrap(), b"extant\n");
        assert_eq!(hostname(text).unwrap(), b"extant\n");
        assert_eq!(hostname(text.to_owned()).unwrap(), b"extant\n");
        assert_eq!(hostname(File::open(&path).unwrap()).unwrap(), b"extant\n");
        assert_eq!(hostname(bytes.clone()).unwrap(), b"extant\n");
        assert_eq!(hostname(Memory::from(&bytes[..])).unwrap(), b"extant\n");
        assert_eq!(hostname(Image::device(Arc::new(ReadOnly(bytes)))).unwrap(), b"extant\n");
    }
}

#[test]
fn reading_writes_nothing() {
    let folder = Scratch::new("extant-read");
    for profile in PROFILES {
        let path = folder.join("x.img");
        std::fs::write(&path, unclosed(profile)).unwrap();
        let before = (digest(&std::fs::read(&path).unwrap()), std::fs::metadata(&path).unwrap());
        let volume = Volume::open(&path).unwrap();
        if profile != Profile::Ext2 {
            assert_eq!(volume.read("/etc/hostname").unwrap(), b"synced\n", "replayed in memory");
        }
        for entry in volume.walk("/").unwrap() {
            let entry = entry.unwrap();
            volume.attributes(&entry.path).unwrap();
        }
        assert_eq!(kind(volume.write("/etc/hostname", "x")), ErrorKind::ReadOnly);
        volume.sync().unwrap();
        volume.close().unwrap();
        Options::new().write(true).check(&path).unwrap();
        let after = (digest(&std::fs::read(&path).unwrap()), std::fs::metadata(&path).unwrap());
        assert_eq!(before.0, after.0, "{profile:?}");
        let times = |metadata: &std::fs::Metadata| (metadata.mtime_nsec(), metadata.ctime_nsec());
        assert_eq!(times(&before.1), times(&after.1), "{profile:?}");
        // A device that takes no write is never asked for one.
        let image = Image::device(Disk::new(unclosed(profile), 0));
        Volume::open(image).unwrap().read("/large").unwrap();
    }
}

#[test]
fn what_is_in_use_is_refused() {
    let folder = Scratch::new("extant-use");
    let path = sample_file(&folder, Profile::Ext4);
    let write = Options::new().write(true);
    let writer = write.open(&path).unwrap();
    for second in [kind(Volume::open(&path)), kind(write.open(&path)), kind(write.begin(&path))] {
        assert_eq!(second, ErrorKind::InUse);
    }
    let error = extant::check(&path).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::InUse, 16), "{error}");
    assert!(error.path().is_some_and(|named| named == path), "{error}");
    writer.close().unwrap();
    let (one, other) = (Volume::open(&path).unwrap(), Volume::open(&path).unwrap());
    assert_eq!(kind(write.open(&path)), ErrorKind::InUse);
    drop((one, other));
    let change = write.begin(&path).unwrap();
    assert_eq!(kind(Volume::open(&path)), ErrorKind::InUse);
    drop(change);
    write.open(&path).unwrap().close().unwrap();

    let memory = sample(Profile::Ext4);
    let writer = write.open(memory.clone()).unwrap();
    assert_eq!(kind(Volume::open(memory.clone())), ErrorKind::InUse);
    assert_eq!(kind(extant::Builder::new().build_memory(&memory)), ErrorKind::InUse);
    drop(writer);
    let reader = Volume::open(memory.clone()).unwrap();
    assert_eq!(kind(write.open(memory.clone())), ErrorKind::InUse);
    hostname(memory.clone()).unwrap();
    drop(reader);
    write.open(memory).unwrap().close().unwrap();
}

#[test]
fn what_the_kernel_has_mounted_is_not_written() {
    if !oracle::can_mount() {
        return;
    }
    let folder = Scratch::new("extant-mounted");
    let path = sample_file(&folder, Profile::Ext4);
    let mounted = oracle::mount_loop(&path, oracle::Access::ReadWrite, "").unwrap();
    let write = Options::new().write(true);
    assert_eq!(kind(write.open(&path)), ErrorKind::InUse);
    assert_eq!(kind(write.begin(&path)), ErrorKind::InUse);
    assert_eq!(kind(Volume::open(&path)), ErrorKind::InUse, "its journal is being written");
    let replaced = extant::Builder::new().replace(true).build(&path);
    assert_eq!(kind(replaced), ErrorKind::InUse);
    mounted.unmount().unwrap();
    write.open(&path).unwrap().close().unwrap();
}

/// A disk with an MBR: a partition of zeros, and one that is the volume.
fn disk() -> (Vec<u8>, std::ops::Range<u64>) {
    let volume = sample(Profile::Ext2).to_vec();
    let (start, sectors) = (4096_u32, (volume.len() / 512) as u32);
    let mut disk = vec![0; start as usize * 512];
    let entry = |start: u32, sectors: u32| {
        let kind = [0, 0, 0, 0, 0x83, 0, 0, 0];
        [&kind[..], &start.to_le_bytes(), &sectors.to_le_bytes()].concat()
    };
    disk[446..462].copy_from_slice(&entry(2048, 2048));
    disk[462..478].copy_from_slice(&entry(start, sectors));
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    disk.extend(&volume);
    disk.extend([9; 4096]);
    (disk, u64::from(start) * 512..u64::from(start + sectors) * 512)
}

#[test]
fn a_part_of_an_image_is_a_volume_and_nothing_else_is_written() {
    let (bytes, range) = disk();
    assert_eq!(hostname(bytes.clone()).unwrap(), b"extant\n", "the only volume is found");
    let options = Options::new().write(true);
    for options in [options.clone().partition("2"), options.clone().range(range.clone())] {
        let memory = Memory::from(&bytes[..]);
        let volume = options.open(memory.clone()).unwrap();
        volume.write("/new", vec![5; 100_000]).unwrap();
        volume.close().unwrap();
        let change = options.begin(memory.clone()).unwrap();
        change.remove_all("/dir").unwrap();
        change.commit().unwrap();
        let after = memory.to_vec();
        let (start, end) = (range.start as usize, range.end as usize);
        assert!(after[..start] == bytes[..start] && after[end..] == bytes[end..]);
        crate::assert_clean_bytes(&after[start..end], "a partition");
        assert!(options.check(memory).unwrap().is_clean());
    }
    let short = options.clone().range(range.start..range.end - 4096).open(bytes.clone());
    assert_eq!(kind(short), ErrorKind::Damaged, "it ends before its volume does");
    assert_eq!(kind(options.clone().partition("3").open(bytes.clone())), ErrorKind::NotFound);
    let elsewhere = options.clone().partition("1").open(bytes.clone());
    assert_eq!(kind(elsewhere), ErrorKind::NotAVolume);
    let past_the_end = options.range(1 << 40..1 << 41).open(bytes);
    assert!(matches!(kind(past_the_end), ErrorKind::Io | ErrorKind::NotAVolume));
}

#[test]
fn a_compressed_image_is_read_and_not_written() {
    if !require("gzip") {
        return;
    }
    let folder = Scratch::new("extant-gz");
    let path = sample_file(&folder, Profile::Ext4);
    assert!(program("gzip").arg(&path).status().unwrap().success());
    let packed = folder.join("Ext4.img.gz");
    assert_eq!(hostname(&packed).unwrap(), b"extant\n");
    assert!(extant::check(&packed).unwrap().is_clean());
    let error = Options::new().write(true).open(&packed).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

fn facts(error: &Error) -> (ErrorKind, i32, Option<&Path>) {
    (error.kind(), error.errno(), error.path())
}

#[test]
fn errors_have_a_kind_a_number_and_a_path() {
    let folder = Scratch::new("extant-errors");
    let missing = folder.join("missing.img");
    let error = Volume::open(&missing).unwrap_err();
    assert_eq!(facts(&error), (ErrorKind::NotFound, 2, Some(&*missing)));
    assert_eq!(error.to_string(), format!("{}: No such file or directory", missing.display()));
    let error = Volume::open(folder.path()).unwrap_err();
    assert_eq!(facts(&error), (ErrorKind::IsDirectory, 21, Some(folder.path())), "{error}");
    let error = Volume::open(vec![0; 1 << 20]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAVolume);
    assert_eq!(error.to_string(), "memory: not an ext2, ext3 or ext4 volume");

    let path = sample_file(&folder, Profile::Ext4);
    let volume = Volume::open(&path).unwrap();
    let error = volume.read("/etc/passwd").unwrap_err();
    assert_eq!(facts(&error), (ErrorKind::NotFound, 2, Some(Path::new("/etc/passwd"))));
    assert_eq!(error.to_string(), "/etc/passwd: no such file or directory");
    let error = volume.read("/etc/hostname/x").unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::NotDirectory, 20));
    let error = volume.open_file("/etc").unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::IsDirectory, 21));
    let error = Options::new().policies("of-nobody").open(vec![0; 4096]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[test]
fn what_was_not_closed_and_has_no_journal_is_checked_first() {
    let bytes = unclosed(Profile::Ext2);
    let write = Options::new().write(true);
    assert_eq!(kind(write.open(bytes.clone())), ErrorKind::NeedsCheck);
    assert_eq!(kind(write.begin(bytes.clone())), ErrorKind::NeedsCheck);
    let despite = write.clone().despite_errors(true);
    despite.open(bytes.clone()).unwrap().close().unwrap();
    drop(despite.begin(bytes).unwrap());
    write.open(unclosed(Profile::Ext4)).unwrap().close().unwrap();
}

#[test]
fn a_volume_with_its_journal_on_another_device_is_opened_with_it() {
    if !journals::is_possible() {
        return;
    }
    let folder = Scratch::new("extant-journal");
    let made = journals::External::make(folder.path(), 1024, "").unwrap();
    made.under_load(11).unwrap();
    assert_eq!(kind(Volume::open(&made.image)), ErrorKind::Damaged);
    let with = || Options::new().journal(&made.journal);
    let before = [&made.image, &made.journal].map(|file| digest(&std::fs::read(file).unwrap()));
    assert!(with().open(&made.image).unwrap().walk("/").unwrap().count() > 10);
    assert!(with().check(&made.image).unwrap().is_clean());
    let after = [&made.image, &made.journal].map(|file| digest(&std::fs::read(file).unwrap()));
    assert_eq!(before, after, "a reader wrote");
    let change = with().begin(&made.image).unwrap();
    change.write("/changed", "all or nothing\n").unwrap();
    change.commit().unwrap();
    let volume = with().write(true).open(&made.image).unwrap();
    volume.write("/written", "as by a mount\n").unwrap();
    assert_eq!(kind(with().open(&made.image)), ErrorKind::InUse);
    volume.close().unwrap();
    made.clean().unwrap();
    assert_eq!(Volume::open(&made.image).unwrap().read("/changed").unwrap(), b"all or nothing\n");
    assert_eq!(
        kind(Options::new().journal(&made.image).open(&made.image)),
        ErrorKind::InvalidInput
    );
    assert_eq!(kind(with().open(sample_file(&folder, Profile::Ext4))), ErrorKind::InvalidInput);
}
