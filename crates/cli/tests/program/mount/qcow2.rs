//! A volume in a qcow2 image, mounted for reading and writing, and its server killed.
use crate::mount::fixture::{Bench, done, extant, has_fuse, holder_of};
use extant_testkit::command::{output, program};
use extant_testkit::oracle;
use rustix::process::{Signal, kill_process};
use std::fs;
use std::io::Write;

/// What QEMU reads of an image, which its own check finds whole.
fn read_by_qemu(bench: &Bench, checked: &[i32]) -> std::path::PathBuf {
    let (image, raw) = (bench.join("x.qcow2"), bench.join("raw"));
    let check = program("qemu-img").arg("check").arg(&image).output().unwrap();
    let text = String::from_utf8_lossy(&check.stdout);
    assert!(checked.contains(&check.status.code().unwrap()), "{text}");
    output(program("qemu-img").args(["convert", "-O", "raw"]).arg(&image).arg(&raw)).unwrap();
    raw
}

#[test]
fn a_qcow2_image_is_mounted_writable_and_outlives_its_server() {
    if !has_fuse() || !oracle::require("qemu-img") || !oracle::require("e2fsck") {
        return;
    }
    let bench = Bench::new("mount-qcow2");
    let image = bench.join("x.qcow2");
    let mut convert = program("qemu-img");
    convert.args(["convert", "-f", "raw", "-O", "qcow2", "-o", "cluster_size=4096"]);
    output(convert.arg(bench.image()).arg(&image)).unwrap();
    let (shown, point) = (image.to_str().unwrap().to_owned(), bench.point());

    done(["mount", &shown, &point]);
    fs::write(bench.inside("file"), vec![7; 300_000]).unwrap();
    done(["umount", &point]);
    let raw = read_by_qemu(&bench, &[0]);
    oracle::e2fsck(&raw).unwrap();

    // What an fsync promised is there after the server was killed.
    done(["mount", &shown, &point]);
    let mut file = fs::File::create(bench.inside("promised")).unwrap();
    file.write_all(&vec![9; 200_000]).unwrap();
    file.sync_all().unwrap();
    fs::write(bench.inside("late"), vec![5; 400_000]).unwrap();
    drop(file);
    kill_process(holder_of(&image), Signal::KILL).unwrap();
    while fs::metadata(&point).is_ok() {
        std::thread::yield_now();
    }
    let _ = extant(["umount", &point]);
    read_by_qemu(&bench, &[0, 3]);
    done(["heal", &shown]);
    let raw = read_by_qemu(&bench, &[0, 3]);
    oracle::e2fsck(&raw).unwrap();
    assert!(done(["cat", &format!("{shown}:/promised")]).as_bytes() == vec![9; 200_000]);
    assert!(done(["cat", &format!("{shown}:/file")]).as_bytes() == vec![7; 300_000]);
}
