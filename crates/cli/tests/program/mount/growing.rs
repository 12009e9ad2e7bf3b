//! A volume that is mounted gets longer, by our command and by the other resize2fs.
use crate::mount::device::LoopDevice;
use crate::mount::fixture::{Bench, done, errno, extant, has_fuse};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{self, require};
use extant_testkit::skips::skip;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Blocks of the file system at a place, as statfs has them.
fn blocks_at(path: &Path) -> u64 {
    rustix::fs::statvfs(path).expect("is there").f_blocks
}

/// Makes the image anew by mke2fs.
fn make(bench: &Bench, words: &[&str], size: &str) {
    fs::remove_file(bench.image()).expect("is there");
    let mut mke2fs = program("mke2fs");
    output(mke2fs.args(["-q", "-F"]).args(words).args([&bench.image(), size])).expect("makes it");
}

#[test]
fn a_full_mount_has_room_after_it_has_grown() {
    if !has_fuse() || !require("mke2fs") {
        return;
    }
    for words in
        [&["-t", "ext4", "-b", "1024"][..], &["-t", "ext2"], &["-t", "ext4", "-O", "^resize_inode"]]
    {
        let bench = Bench::new("mount-growing");
        make(&bench, words, "20M");
        // A full volume is told to each write.
        let mounted = bench.mount("write_through");
        let held = fs::File::create(bench.inside("held")).expect("makes it");
        let mut count = 0;
        while fs::write(bench.inside(&format!("{count}")), vec![count as u8; 1 << 20]).is_ok() {
            count += 1;
        }
        assert!((10..30).contains(&count), "{count}");
        let before = blocks_at(&bench.inside(""));
        let said = done(["resize", &bench.point(), "64M"]);
        assert!(said.contains("before") && said.ends_with("; mounted\n"), "{said}");
        assert_eq!(fs::metadata(bench.image()).expect("is there").len(), 64 << 20);
        let after = blocks_at(&bench.inside(""));
        assert!(after > before * 5 / 2, "{before}, then {after}");
        let sizes = ["+16M", "150%", "max", "300M"];
        for (size, image) in sizes.iter().zip([bench.image(), bench.point()].iter().cycle()) {
            done(["resize", image, size]);
        }
        assert_eq!(fs::metadata(bench.image()).expect("is there").len(), 300 << 20);
        for number in 0..count + 100 {
            let content = vec![number as u8; 1 << 20];
            match number < count {
                true => assert!(fs::read(bench.inside(&format!("{number}"))).unwrap() == content),
                false => fs::write(bench.inside(&format!("{number}")), content).expect("has room"),
            }
        }
        held.set_len(5).expect("is open");
        drop(held);
        mounted.end();
        let dump = oracle::dumpe2fs(bench.image().as_ref()).expect("dumps");
        let size = dump.number("Block size").expect("one");
        assert_eq!(dump.number("Block count").expect("one") * size, 300 << 20, "{words:?}");
    }
}

#[test]
fn programs_write_while_a_mount_grows_and_its_server_is_killed() {
    if !has_fuse() || !require("e2fsck") {
        return;
    }
    for rounds in [3, 1, 0] {
        let bench = Bench::new("mount-growing-killed");
        let mounted = bench.mount("");
        let (server, ended) = (mounted.server(), AtomicBool::new(false));
        let synced = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut synced = Vec::new();
                for number in 0_u32.. {
                    let path = bench.inside(&format!("{number}"));
                    let content = vec![number as u8; 200_000];
                    let written = fs::write(&path, &content);
                    let kept = written.and_then(|()| fs::File::open(&path)?.sync_all());
                    match kept {
                        Ok(()) => synced.push(number),
                        Err(_) if ended.load(Ordering::Acquire) => break,
                        // It is full until it grows.
                        Err(_) => drop(fs::remove_file(&path)),
                    }
                }
                synced
            });
            for round in 0..rounds {
                done(["resize", &bench.point(), &format!("{}M", 64 << round)]);
            }
            let mut growing = crate::mount::fixture::command(["resize", &bench.image(), "1G"]);
            let growing = growing.stdout(std::process::Stdio::null());
            let mut child = growing.stderr(std::process::Stdio::null()).spawn().expect("runs");
            if rounds > 0 {
                let _ = child.wait();
            }
            ended.store(true, Ordering::Release);
            rustix::process::kill_process(server, rustix::process::Signal::KILL).expect("dies");
            let _ = child.wait();
            writer.join().expect("writes")
        });
        let told = extant(["umount", &bench.point()]);
        assert!(told.code == 0, "{told:?}");
        drop(mounted);
        let healed = extant(["heal", &bench.image()]);
        assert!(healed.code <= 1, "{healed:?}");
        bench.is_whole();
        let mounted = bench.mount("ro");
        for number in &synced {
            let read = fs::read(bench.inside(&format!("{number}"))).expect("is there");
            assert!(read == vec![*number as u8; 200_000], "{number}");
        }
        mounted.end();
    }
}

#[test]
fn the_other_resize2fs_makes_a_mount_longer_as_it_makes_a_closed_volume() {
    if !has_fuse() || !["resize2fs", "mke2fs", "dumpe2fs"].into_iter().all(require) {
        return;
    }
    for (words, of) in
        [(&["-t", "ext4"][..], "ext4"), (&["-t", "ext4", "-b", "4096"], "ext4, 4096")]
    {
        let bench = Bench::new("mount-growing-resize2fs");
        make(&bench, words, "30M");
        let closed = bench.join("closed.img");
        fs::copy(bench.image(), &closed).expect("copies");
        let mounted = bench.mount("");
        let run = |program: &mut Command| {
            let output = program.output().expect("runs");
            let said = [output.stdout, output.stderr].concat();
            (output.status.code(), String::from_utf8_lossy(&said).into_owned())
        };
        let theirs = |image: &str, size: &str| run(program("resize2fs").args([image, size]));
        let ours =
            |image: &str, size: &str| run(crate::names::extant("resize2fs").args([image, size]));
        for (size, by) in [("50M", 0), ("80M", 1), ("200M", 0), ("40M", 0), ("40M", 1)] {
            let (code, said) = match by {
                0 => theirs(&bench.image(), size),
                _ => ours(&bench.image(), size),
            };
            assert!(said.contains("on-line resizing required"), "{of}: {said}");
            match size {
                "40M" => assert!(code == Some(1) && said.contains("On-line shrinking"), "{said}"),
                _ => assert!(code == Some(0) && said.contains("is now"), "{of}: {said}"),
            }
        }
        mounted.end();
        let _ = theirs(&closed.display().to_string(), "200M");
        let field = |image: &Path, field: &str| {
            oracle::dumpe2fs(image).expect("dumps").number(field).expect("is there")
        };
        let fields = [
            "Block count",
            "Inode count",
            "Reserved block count",
            "Free blocks",
            "Free inodes",
            "Reserved GDT blocks",
            "Inodes per group",
        ];
        for name in fields {
            assert_eq!(field(bench.image().as_ref(), name), field(&closed, name), "{of}: {name}");
        }
    }
}

#[test]
fn what_does_not_grow_mounted_is_refused_with_one_line_and_a_hint() {
    if !has_fuse() || !require("mke2fs") {
        return;
    }
    let bench = Bench::new("mount-growing-refused");
    let mounted = bench.mount("");
    let inode = fs::metadata(bench.image()).expect("is there").ino();
    for (words, said) in [
        (&["min"][..], "gets longer and not shorter"),
        (&["20M"], "gets longer and not shorter"),
        (&["--partition", "64M"], "the end of its partition does not move"),
        (&["64E"], "SIZE"),
    ] {
        let told = extant(["resize", &bench.point()].iter().chain(words));
        assert!(told.code > 0 && told.stderr.contains(said), "{words:?}: {told:?}");
        assert_eq!(fs::metadata(bench.image()).expect("is there").len(), 32 << 20, "{words:?}");
    }
    assert_eq!(fs::metadata(bench.image()).expect("is there").ino(), inode);
    mounted.end();
    let mounted = bench.mount("ro");
    let told = extant(["resize", &bench.point(), "64M"]);
    assert!(told.code == 1 && told.stderr.contains("read-only"), "{told:?}");
    mounted.end();
    make(&bench, &["-t", "ext4", "-O", "sparse_super2"], "32M");
    let mounted = bench.mount("");
    let told = extant(["resize", &bench.image(), "64M"]);
    assert!(told.code == 1 && told.stderr.contains("sparse_super2"), "{told:?}");
    assert!(told.stderr.contains("\n  hint: extant umount"), "{told:?}");
    assert_eq!(told.stderr.lines().count(), 2, "{told:?}");
    assert_eq!(fs::metadata(bench.image()).expect("is there").len(), 32 << 20);
    fs::write(bench.inside("goes-on"), "x").expect("writes");
    mounted.end();
    if !require("debugfs") {
        return;
    }
    // Found out after the file was made longer: it is as long again as it was.
    make(&bench, &["-t", "ext4"], "32M");
    let mut debugfs = program("debugfs");
    let request = ["-w", "-R", "set_inode_field <7> block[DIND] 0", &bench.image()];
    output(debugfs.args(request)).expect("changes it");
    // It is warned of.
    extant(["mount", &bench.image(), &bench.point()]);
    let mounted = crate::mount::fixture::Mounted::of(&bench);
    let told = extant(["resize", &bench.image(), "64M"]);
    assert!(told.code == 1 && told.stderr.contains("not mapped as they should be"), "{told:?}");
    assert_eq!(fs::metadata(bench.image()).expect("is there").len(), 32 << 20);
    fs::write(bench.inside("goes-on"), "x").expect("writes");
    done(["umount", &bench.point()]);
    drop(mounted);
}

#[test]
fn a_block_device_grows_with_what_it_has() {
    if !has_fuse() || !require("mke2fs") {
        return;
    }
    let bench = Bench::new("mount-growing-device");
    let file = fs::File::options().write(true).open(bench.image()).expect("opens");
    file.set_len(100 << 20).expect("is longer");
    let Some(device) = LoopDevice::over(&[&bench.image()]) else {
        return skip("no loop devices");
    };
    done(["mount", "-o", "write_through", device.path(), &bench.point()]);
    let mounted = crate::mount::fixture::Mounted::of(&bench);
    let told = extant(["resize", device.path(), "200M"]);
    assert!(told.code == 1 && told.stderr.lines().count() == 2, "{told:?}");
    done(["resize", device.path()]);
    fs::write(bench.inside("big"), vec![1; 70 << 20]).expect("has room");
    let full = errno(fs::write(bench.inside("bigger"), vec![1; 70 << 20]));
    assert_eq!(full, Some(28));
    output(program("umount").arg(bench.point())).expect("unmounts");
    oracle::e2fsck(device.path().as_ref()).expect("whole");
    drop((mounted, device));
    bench.is_whole();
    let dump = oracle::dumpe2fs(bench.image().as_ref()).expect("dumps");
    let bytes = dump.number("Block count").zip(dump.number("Block size"));
    assert_eq!(bytes.map(|(count, size)| count * size), Some(100 << 20));
}

/// The kernel grows its own mount. It asks for CAP_SYS_RESOURCE, which containers may lack.
#[test]
fn a_mount_of_the_kernel_grows_by_the_kernel() {
    if !has_fuse() || !require("mke2fs") {
        return;
    }
    let bench = Bench::new("mount-growing-kernel");
    make(&bench, &["-t", "ext4"], "30M");
    let file = fs::File::options().write(true).open(bench.image()).expect("opens");
    file.set_len(100 << 20).expect("is longer");
    let mounted = match oracle::mount_loop(bench.image().as_ref(), oracle::Access::ReadWrite, "") {
        Ok(mounted) => mounted,
        Err(_) => return skip("no loop devices"),
    };
    let point = mounted.path().display().to_string();
    let told = extant(["resize", &point, "20M"]);
    assert!(told.code == 1 && told.stderr.contains("gets longer and not shorter"), "{told:?}");
    let before = blocks_at(mounted.path());
    let told = extant(["resize", &point, "80M"]);
    match told.code {
        0 => assert!(blocks_at(mounted.path()) > before * 2),
        _ => assert!(told.stderr.contains("CAP_SYS_RESOURCE"), "{told:?}"),
    }
    mounted.unmount().expect("unmounts");
    bench.is_whole();
}
