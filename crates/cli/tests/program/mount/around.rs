//! A volume in a part of a file is mounted, and every byte around it stays.
use crate::mount::fixture::{Bench, Mounted, done, has_fuse};
use extant_testkit::command::{output, program};
use std::fs;
use std::os::unix::fs::FileExt;

const START: usize = 4 << 20;

#[test]
fn what_is_around_a_mounted_volume_stays() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-around");
    let volume = fs::read(bench.image()).unwrap();
    let mut before = vec![0; START + volume.len() + START];
    let mut random = fs::File::open("/dev/urandom").unwrap();
    std::io::Read::read_exact(&mut random, &mut before).unwrap();
    before[START..START + volume.len()].copy_from_slice(&volume);
    for options in ["offset=4194304", "offset=4M", "offset=8192s,sync"] {
        fs::write(bench.image(), &before).unwrap();
        let mounted = Mounted::of(&bench);
        done(["mount", "-o", options, &bench.image(), &bench.point()]);
        for number in 0..40_u8 {
            fs::write(bench.inside(&number.to_string()), vec![number; 500_000]).unwrap();
        }
        (0..20).for_each(|number| fs::remove_file(bench.inside(&number.to_string())).unwrap());
        let last = fs::File::options().write(true).open(bench.inside("39")).unwrap();
        last.write_all_at(b"end", 2 << 20).unwrap();
        last.sync_all().unwrap();
        drop(last);
        // What is free is discarded: of the volume, not of the file.
        output(program("fstrim").arg(bench.point())).unwrap();
        done(["umount", &bench.point()]);
        drop(mounted);
        let after = fs::read(bench.image()).unwrap();
        assert_eq!(after.len(), before.len(), "{options}");
        assert!(after[..START] == before[..START], "{options}: what is before it changed");
        let end = START + volume.len();
        assert!(after[end..] == before[end..], "{options}: what is after it changed");
        assert!(after[START..end] != before[START..end], "{options}: nothing was written");
        let at = format!("{}?offset={START}", bench.image());
        extant_testkit::oracle::e2fsck(at.as_ref()).unwrap_or_else(|error| panic!("{error}"));
    }
}
