//! Volumes without room: the kernel keeps what is written and does not ask whether there is any.
#![allow(clippy::disallowed_methods, reason = "room comes back when the host's clock says so")]
use crate::mount::fixture::{Bench, Mounted, done, extant, has_fuse, take_away, when_free};
use extant_testkit::command::{output, program};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

#[test]
fn a_program_that_fills_the_volume_is_told() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-full");
    let image = bench.image();
    // Ended by the signal of `timeout`, it would give 124.
    let script = "timeout 120 cat /dev/zero > full; code=$?; \
        rm full; echo back > small && sync small; exit $code";
    let told = extant(["mount", &image, "--", "sh", "-c", script]);
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.stderr.contains("No space left on device"), "{told:?}");
    bench.is_whole();
    assert_eq!(done(["cat", &format!("{image}:/small")]), "back\n");
}

/// With `discard` what is removed makes room on the disk of the image; where that is full, the
/// mount takes no more, says so, and what was synced is there.
#[test]
fn a_full_disk_below_a_mount_that_gives_room_back_loses_nothing_that_was_synced() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-full-disk");
    let disk = bench.join("disk");
    fs::create_dir(&disk).unwrap();
    let mut small = program("mount");
    output(small.args(["-t", "tmpfs", "-o", "size=12M", "tmpfs"]).arg(&disk)).unwrap();
    let _small = Small(disk.clone());
    let image = disk.join("small.img").display().to_string();
    done(["mkfs", "-q", &image, "64M"]);
    let mounted = Mounted::of(&bench);
    let log = bench.join("log").display().to_string();
    let words = ["mount", "--log", &log, "-o", "discard,commit=1", &image, &bench.point()];
    assert_eq!(extant(words).code, 0);
    let synced = |name: &str, bytes: usize| {
        let mut file = fs::File::create(bench.inside(name))?;
        std::io::Write::write_all(&mut file, &vec![0x5a; bytes])?;
        file.sync_all()
    };
    // Four times as much as the disk holds, never much at a time.
    for round in 0..8 {
        synced("again", 6 << 20).unwrap();
        fs::remove_file(bench.inside("again")).unwrap();
        let is_back = || fs::metadata(&image).unwrap().blocks() * 512 < 3 << 20;
        let until = Instant::now() + Duration::from_secs(20);
        while !is_back() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(is_back(), "round {round}: nothing was given back");
    }
    synced("kept", 4 << 20).unwrap();
    assert!(synced("much", 20 << 20).is_err());
    assert!(fs::write(bench.inside("later"), "x").is_err(), "no change is taken");
    assert!(fs::read(bench.inside("kept")).unwrap() == vec![0x5a; 4 << 20]);
    let told = when_free(["umount", &bench.point()]);
    assert!(told.code == 32 && told.stderr.contains("No space left"), "{told:?}");
    drop(mounted);
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains("No space left") && log.contains("no change is taken"), "{log}");
    let copy = bench.join("copy.img");
    fs::copy(&image, &copy).unwrap();
    let _ = program("e2fsck").arg("-fy").arg(&copy).output().unwrap();
    extant_testkit::oracle::e2fsck(&copy).unwrap();
    let word = format!("{}:/kept", copy.display());
    let kept = crate::mount::fixture::command(["cat", &word]).output();
    assert!(kept.unwrap().stdout == vec![0x5a; 4 << 20]);
}

/// A file system that is unmounted with its value.
struct Small(std::path::PathBuf);

impl Drop for Small {
    fn drop(&mut self) {
        take_away(&self.0);
    }
}

#[test]
fn a_program_that_was_not_told_is_not_the_last_word() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-not-told");
    let image = bench.image();
    // What is written before the last descriptor is closed waits in the kernel.
    let script = "exec 3> late; head -c 40000000 /dev/zero >&3 || exit 0";
    let told = extant(["mount", &image, "--", "sh", "-c", script]);
    let size = done(["stat", "--json", &format!("{image}:/late")]);
    let is_whole = size.contains("\"size\":40000000");
    assert!(is_whole || told.code == 32 || told.stderr.contains("full"), "{told:?} {size}");
    bench.is_whole();
}
