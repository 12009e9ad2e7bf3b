//! `mount -t fuse.extant` and `umount`, in a table of mounts of their own, where `/usr/sbin` has
//! our links and nothing else.
use crate::mount::fixture::{Bench, has_fuse};
use extant_testkit::command::program;
use extant_testkit::skips::skip;

#[test]
fn mount_8_and_umount_8_find_us() {
    if !has_fuse() || !extant_testkit::oracle::require("mount") {
        return;
    }
    let bench = Bench::new("mount-system");
    let fstab = format!(
        "{} {} fuse.extant noauto,ro,nodev,noatime,uhelper=fuse.extant,x-any.thing 0 0\n",
        bench.image(),
        bench.point()
    );
    std::fs::write(bench.join("fstab"), fstab).unwrap();
    let script = "set -e
        exe=$1 image=$2 point=$3 fstab=$4
        mount --make-rprivate /
        sbin=$(readlink -f /sbin)
        mount -t tmpfs none $sbin
        ln -s $exe $sbin/mount.fuse.extant
        ln -s $exe $sbin/umount.fuse.extant
        mount -t fuse.extant -o nosuid,uhelper=fuse.extant $image $point
        grep \" $point \" /proc/self/mountinfo
        echo content > $point/a
        mount -o remount,ro $point
        touch $point/b 2> /dev/null && exit 9
        mount -o remount,rw $point
        umount $point
        # The link waited: the image is free and whole at once.
        flock --nonblock $image true
        mount --fstab $fstab $point
        grep \" $point \" /proc/self/mountinfo
        cat $point/a
        umount $point
        code=0
        mount -t fuse.extant -o no_such_word $image $point || code=$?
        echo code $code";
    let mut run = program("timeout");
    run.args(["-k", "5", "180", "unshare", "-m", "sh", "-c", script, "sh"]);
    run.args([
        extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")),
        &bench.image(),
        &bench.point(),
    ])
    .arg(bench.join("fstab"));
    let output = run.output().unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if errors.contains("unshare") {
        return skip(format_args!("no namespaces ({})", errors.trim_end()));
    }
    assert!(output.status.success(), "{said}{errors}");
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines[0].contains("rw,nosuid,relatime") && lines[0].contains(" fuse.extant "),
        "{said}"
    );
    assert!(lines[1].contains("ro,nodev,noatime"), "{said}");
    assert_eq!(lines[2..], ["content", "code 1"], "{said}{errors}");
    assert!(errors.contains("no_such_word: there is no such option"), "{errors}");
    bench.is_whole();
}

/// Without a link mount.fuse3 calls `extant IMAGE DIR -o OPTIONS`, if it finds us.
#[test]
fn mount_8_finds_us_by_mount_fuse3_too() {
    if !has_fuse() || !extant_testkit::oracle::require("mount") {
        return;
    }
    if !std::path::Path::new("/sbin/mount.fuse3").exists() {
        return skip("no /sbin/mount.fuse3");
    }
    let bench = Bench::new("mount-by-fuse3");
    let script = "set -e
        exe=$1 image=$2 point=$3
        mount --make-rprivate /
        mount -t tmpfs none /usr/local/bin
        ln -s $exe /usr/local/bin/extant
        mount -t fuse.extant -o noatime $image $point
        grep \" $point \" /proc/self/mountinfo
        echo content > $point/a
        /usr/local/bin/extant umount $point
        mount -t fuse.extant -o ro $image $point
        cat $point/a
        /usr/local/bin/extant umount $point";
    let mut run = program("timeout");
    run.args(["-k", "5", "180", "unshare", "-m", "sh", "-c", script, "sh"]);
    run.args([
        extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")),
        &bench.image(),
        &bench.point(),
    ]);
    let output = run.output().unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if errors.contains("unshare") {
        return skip(format_args!("no namespaces ({})", errors.trim_end()));
    }
    assert!(output.status.success(), "{said}{errors}");
    assert!(said.contains("rw,noatime") && said.ends_with("content\n"), "{said}");
    bench.is_whole();
}
