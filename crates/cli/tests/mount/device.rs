//! Block devices.
use crate::fixture::{Bench, Mounted, done, extant, has_fuse};
use extant_testkit::command::{output, program};
use extant_testkit::skips::skip;
use std::fs;

/// A loop device over an image; detached with its value.
struct LoopDevice(String);

impl LoopDevice {
    /// `None` where there are none.
    fn over(image: &str) -> Option<LoopDevice> {
        let made = output(program("losetup").args(["--find", "--show", image])).ok()?;
        Some(LoopDevice(String::from_utf8(made.stdout).ok()?.trim().to_owned()))
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
    let Some(device) = LoopDevice::over(&bench.image()) else {
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
