//! Block devices.
use crate::mount::fixture::{Bench, Mounted, done, extant, has_fuse, take_away, when_free};
use extant_testkit::command::{output, program};
use extant_testkit::skips::skip;
use std::fs;
use std::path::PathBuf;

/// A loop device over an image; detached with its value.
pub struct LoopDevice(String);

impl LoopDevice {
    /// With these words for losetup. `None` where there are none.
    pub fn over(words: &[&str]) -> Option<LoopDevice> {
        let made = output(program("losetup").args(["--find", "--show"]).args(words)).ok()?;
        Some(LoopDevice(String::from_utf8(made.stdout).ok()?.trim().to_owned()))
    }

    /// Such as `/dev/loop3`.
    pub fn path(&self) -> &str {
        &self.0
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // It may be used by a mount that a failed test left.
        let _ = output(program("losetup").args(["--detach", &self.0]));
    }
}

/// The kernel mounts the device itself, and umount(8) waits until the server has written all.
#[test]
fn unmounting_a_block_device_waits() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-device");
    let Some(device) = LoopDevice::over(&[&bench.image()]) else {
        return skip("no loop devices");
    };
    let mounted = Mounted::of(&bench);
    let read_ahead = || {
        let name = device.0.trim_start_matches("/dev/");
        fs::read_to_string(format!("/sys/block/{name}/queue/read_ahead_kb")).unwrap_or_default()
    };
    let read_ahead_before = read_ahead();
    done(["mount", &device.0, &bench.point()]);
    // That of the mount is wider; the device is the host's.
    assert_eq!(read_ahead(), read_ahead_before);
    let line = bench.line().unwrap();
    assert!(line.contains(&format!(" - fuseblk.extant {} ", device.0)), "{line}");
    for number in 0..100 {
        fs::write(bench.inside(&number.to_string()), vec![b'x'; 10_000]).unwrap();
    }
    let other = bench.join("other");
    fs::create_dir(&other).unwrap();
    let told = extant(["mount", &device.0, &other.display().to_string()]);
    assert!(told.code == 32 && told.stderr.contains("is mounted on"), "{told:?}");
    let told = extant(["mount", &bench.image(), &other.display().to_string()]);
    assert!(told.code == 32 && told.stderr.contains("is attached to"), "{told:?}");
    output(program("umount").arg(bench.point())).unwrap();
    // At once: what is on the device is whole.
    extant_testkit::oracle::e2fsck(device.0.as_ref()).expect("whole");
    done(["mount", "-o", "ro", &device.0, &bench.point()]);
    assert_eq!(fs::read(bench.inside("99")).unwrap(), vec![b'x'; 10_000]);
    done(["umount", &device.0]);
    drop((mounted, device));
    bench.is_whole();
}

/// As mount(8) does it: read-only, with one line; and not at all with `rw`.
#[test]
fn a_write_protected_loop_device_is_mounted_read_only_with_one_line() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-loop-protected");
    let Some(device) = LoopDevice::over(&["-r", &bench.image()]) else {
        return skip("no loop devices");
    };
    let mounted = Mounted::of(&bench);
    let told = extant(["mount", device.path(), &bench.point()]);
    let warning = "is write-protected, and mounted read-only";
    assert_eq!(told.stderr, format!("extant: mount: {}: {warning}\n", device.path()));
    assert_eq!(told.code, 0);
    assert!(bench.line().unwrap().contains(" ro,"), "{:?}", bench.line());
    assert!(fs::write(bench.inside("a"), "x").is_err());
    done(["umount", &bench.point()]);
    let asked_for = extant(["mount", "-o", "rw", device.path(), &bench.point()]);
    assert!(
        asked_for.stderr.contains("the device is write-protected\n  hint: -o ro"),
        "{asked_for:?}"
    );
    assert_eq!((asked_for.code, bench.line()), (32, None));
    // Other commands that write say the same.
    let told = extant(["mkdir", &format!("{}:/x", device.path())]);
    assert!(told.code != 0 && told.stderr.contains("write-protected"), "{told:?}");
    drop((mounted, device));
    bench.is_whole();
}

/// A place beside the image to mount on; taken away with its value.
struct Point(PathBuf);

impl Point {
    fn beside(bench: &Bench, name: &str) -> Point {
        fs::create_dir(bench.join(name)).unwrap();
        Point(bench.join(name))
    }
    fn path(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for Point {
    fn drop(&mut self) {
        take_away(&self.0);
    }
}

/// Fails with one line, which names the thing and ends like this.
fn refused(words: &[&str], why: &str) {
    let told = extant(words);
    let line = told.stderr.lines().next().unwrap_or_default();
    assert!(told.code != 0 && line.contains(why), "{words:?}: {told:?}");
}

/// Every way to a mounted image by way of a loop device over it.
#[test]
fn a_loop_device_over_a_mounted_image_is_refused() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-loop-over");
    let (image, other) = (bench.image(), Point::beside(&bench, "other"));
    let mounted = bench.mount("");
    fs::write(bench.inside("first"), "first").unwrap();
    let Some(device) = LoopDevice::over(&[&image]) else {
        return skip("no loop devices");
    };
    let nested = LoopDevice::over(&[device.path()]).unwrap();
    let part = LoopDevice::over(&["--offset", "4096", "--sizelimit", "16777216", &image]).unwrap();
    let why = format!("its backing file {image} is mounted on {}", bench.point());
    for name in [device.path(), nested.path(), part.path()] {
        let place = format!("{name}:/");
        let lost = format!("{name}:/first");
        refused(&["mount", name, &other.path()], &why);
        refused(&["mount", "-o", "ro", name, &other.path()], &why);
        refused(&["ls", &place], &why);
        refused(&["check", name], &why);
        refused(&["info", name], &why);
        refused(&["replay", name], &why);
        refused(&["rm", &lost], &why);
        refused(&["mkfs", "--force", name], "is ");
    }
    // The file has no name any more.
    let moved = bench.join("moved.img");
    fs::rename(&image, &moved).unwrap();
    refused(&["mount", device.path(), &other.path()], "is ");
    fs::hard_link(&moved, &image).unwrap();
    fs::remove_file(&moved).unwrap();
    let kept = fs::File::open(&image).unwrap();
    fs::remove_file(&image).unwrap();
    for name in [device.path(), nested.path()] {
        refused(&["mount", name, &other.path()], "is ");
        refused(&["ls", &format!("{name}:/")], "is open for writing elsewhere");
    }
    drop((nested, part, device));
    let told = when_free(["umount", &bench.point()]);
    assert!(told.code == 0 && told.stderr.contains("was deleted"), "{told:?}");
    std::io::copy(&mut &kept, &mut fs::File::create(&moved).unwrap()).unwrap();
    fs::rename(moved, &image).unwrap();
    drop(mounted);
    bench.is_whole();
    assert_eq!(done(["cat", &format!("{image}:/first")]), "first");
}

/// The other way round: a loop device is mounted, and then the file under all its names.
#[test]
fn an_image_whose_loop_device_is_mounted_is_refused() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-loop-under");
    let (image, other) = (bench.image(), Point::beside(&bench, "other"));
    let Some(device) = LoopDevice::over(&[&image]) else {
        return skip("no loop devices");
    };
    let second = LoopDevice::over(&[&image]).unwrap();
    done(["mount", device.path(), &bench.point()]);
    let mounted = Mounted::of(&bench);
    let nested = LoopDevice::over(&[device.path()]).unwrap();
    for name in [second.path(), nested.path()] {
        refused(&["mount", name, &other.path()], "is ");
        refused(&["ls", &format!("{name}:/")], "is ");
    }
    let (link, symbolic) = (bench.join("link.img"), bench.join("symbolic.img"));
    fs::hard_link(&image, &link).unwrap();
    std::os::unix::fs::symlink(&image, &symbolic).unwrap();
    for name in [image.as_str(), link.to_str().unwrap(), symbolic.to_str().unwrap()] {
        refused(&["mount", name, &other.path()], "is attached to loop");
        refused(&["ls", &format!("{name}:/")], "is attached to loop");
        refused(&["rm", &format!("{name}:/x")], "is ");
    }
    // The name under which it was attached is gone: losetup knows the inode.
    fs::remove_file(&image).unwrap();
    let link = link.display().to_string();
    refused(&["mount", &link, &other.path()], "is attached to loop");
    refused(&["ls", &format!("{link}:/")], "is attached to loop");
    drop((nested, second));
    done(["umount", &bench.point()]);
    drop((mounted, device));
    fs::rename(&link, &image).unwrap();
    bench.is_whole();
}

/// Links and mounts of folders are other names of the same file.
#[test]
fn an_image_is_mounted_once_under_all_its_names() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-names");
    let (image, other) = (bench.image(), Point::beside(&bench, "other"));
    let bound = Point::beside(&bench, "bound");
    let (link, symbolic) = (bench.join("link.img"), bench.join("symbolic.img"));
    fs::hard_link(&image, &link).unwrap();
    std::os::unix::fs::symlink(&image, &symbolic).unwrap();
    output(program("mount").args(["--bind", &bench.join("").display().to_string(), &bound.path()]))
        .unwrap();
    let mounted = bench.mount("");
    let inside = bound.0.join("disk.img");
    for name in [&link, &symbolic, &inside] {
        let name = name.display().to_string();
        let why = format!("is mounted on {}", bench.point());
        refused(&["mount", &name, &other.path()], &why);
        refused(&["ls", &format!("{name}:/")], &why);
    }
    mounted.end();
}

/// The two partitions of a disk; a kernel that does not read its table is told.
fn partitions_of(device: &LoopDevice) -> [String; 2] {
    [(1, "2048"), (2, "67584")].map(|(number, start)| {
        let name = format!("{}p{number}", device.path());
        if fs::metadata(&name).is_err() {
            let mut told = program("addpart");
            told.args([device.path(), &number.to_string(), start, "65536"]);
            let _ = output(&mut told);
        }
        name
    })
}

/// What has other bytes of the same file is no obstacle; what has some of the same is.
#[test]
fn two_partitions_of_a_loop_device_are_mounted_at_a_time() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-partitions");
    let disk = bench.join("whole.img").display().to_string();
    fs::File::create(&disk).unwrap().set_len(80 << 20).unwrap();
    let table = "printf 'label: gpt\\nstart=2048,size=65536\\nstart=67584,size=65536\\n'";
    let made = format!("{table} | sfdisk -q {disk}");
    output(program("sh").args(["-c", &made])).unwrap();
    let Some(device) = LoopDevice::over(&["--partscan", &disk]) else {
        return skip("no loop devices");
    };
    let parts = partitions_of(&device);
    if !parts.iter().all(|part| fs::metadata(part).is_ok()) {
        return skip("no partitions of loop devices");
    }
    parts.iter().for_each(|part| drop(done(["mkfs", "-q", "--force", part])));
    let points = ["one", "two", "three"].map(|name| Point::beside(&bench, name));
    let third = points[2].path();
    done(["mount", &parts[0], &points[0].path()]);
    done(["mount", &parts[1], &points[1].path()]);
    fs::write(points[0].0.join("a"), "one").unwrap();
    fs::write(points[1].0.join("a"), "two").unwrap();
    refused(&["mount", "-o", "offset=1M", &disk, &third], "p1 is mounted on");
    refused(&["ls", &format!("{disk}@1:/")], "is mounted on");
    refused(&["ls", &format!("{}@1:/", device.path())], "is mounted on");
    refused(&["mount", &parts[0], &third], "is mounted on");
    let same = LoopDevice::over(&["--offset", "1048576", &disk]).unwrap();
    refused(&["mount", same.path(), &third], "is ");
    refused(&["ls", &format!("{}:/", same.path())], "is ");
    drop(same);
    done(["umount", &parts[0]]);
    done(["umount", &parts[1]]);
    assert_eq!(done(["cat", &format!("{}:/a", parts[1])]), "two");
    // Readers do not disturb each other, under whatever name.
    done(["mount", "-o", "ro", &parts[0], &points[0].path()]);
    done(["mount", "-o", "ro", &parts[1], &points[1].path()]);
    assert_eq!(done(["cat", &format!("{disk}@1:/a")]), "one");
    refused(&["mount", "-o", "rw", &parts[0], &third], "is ");
    refused(&["rm", &format!("{}:/a", parts[1])], "is ");
    done(["umount", &points[0].path()]);
    done(["umount", &points[1].path()]);
    drop(device);
    // A file that is mounted by a part of it, and then its partitions.
    done(["mount", "-o", "offset=33M", &disk, &points[1].path()]);
    let device = LoopDevice::over(&["--partscan", &disk]).unwrap();
    for name in partitions_of(&device) {
        refused(&["mount", &name, &third], "is mounted on");
        refused(&["ls", &format!("{name}:/")], "is mounted on");
    }
    done(["umount", &points[1].path()]);
}

/// Two loop devices over different bytes of one file, as it was done before there were partitions
/// of loop devices.
#[test]
fn loop_devices_over_different_bytes_of_a_file_are_mounted_at_a_time() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-stretches");
    let disk = bench.join("whole.img").display().to_string();
    fs::File::create(&disk).unwrap().set_len(64 << 20).unwrap();
    let stretch =
        |start: &str| LoopDevice::over(&["--offset", start, "--sizelimit", "33554432", &disk]);
    let Some(first) = stretch("0") else {
        return skip("no loop devices");
    };
    let second = stretch("33554432").unwrap();
    for device in [&first, &second] {
        done(["mkfs", "-q", "--force", device.path()]);
    }
    let points = ["one", "two", "three"].map(|name| Point::beside(&bench, name));
    done(["mount", first.path(), &points[0].path()]);
    done(["mount", second.path(), &points[1].path()]);
    let middle = stretch("16777216").unwrap();
    for words in [
        &["mkfs", "--force", middle.path()] as &[&str],
        &["info", middle.path()],
        &["mount", "-o", "ro", &disk, &points[2].path()],
    ] {
        refused(words, "is ");
    }
    done(["umount", &points[0].path()]);
    done(["umount", &points[1].path()]);
    for device in [&first, &second] {
        extant_testkit::oracle::e2fsck(device.path().as_ref()).expect("whole");
    }
}
