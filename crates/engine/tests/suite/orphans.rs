//! The list of orphans on the disk: after each operation it has the inodes that recovery has to
//! free, and no other. e2fsck follows it, and so does our next opening.
use crate::volume;

use extant_block::{MemoryDevice, RealClock};
use extant_engine::mkfs::Profile;
use extant_engine::{File, Filesystem, New, Rename};
use extant_testkit::oracle::{self, require};
use extant_testkit::scratch::Scratch;
use std::process::Command;
use std::sync::Arc;
use volume::{MIB, Specification, judge};

/// An open volume on a device, and the number of its free inodes without any orphan.
struct Bench {
    specification: Specification,
    device: Arc<MemoryDevice>,
    volume: Filesystem,
}

/// What is expected to be on the list, newest first: files by their number.
type Listed<'a> = &'a [u32];

impl Bench {
    fn new(specification: Specification) -> Bench {
        let device = specification.make(RealClock::new());
        let volume = specification.open(&device).expect("opens");
        Bench { specification, device, volume }
    }

    /// Makes a file with some content and opens it.
    fn open(&self, name: &str) -> (u32, File) {
        self.volume.write(name, &vec![name.len() as u8; 30_000]).expect("a file");
        let file = self.volume.open_file(name).expect("opens");
        (self.volume.metadata(name).expect("is there").ino.0, file)
    }

    /// Fails unless the volume on the device has this list, and is whole once that is recovered:
    /// by e2fsck, and by our opening it.
    fn expect(&self, expected: Listed<'_>, when: &str) {
        self.volume.sync().expect("syncs");
        let when = format!("{when}; {}", self.specification);
        let folder = Scratch::new("orphans");
        let image = folder.join("cut.img");
        self.device.save(&image).expect("is saved");
        let output = Command::new("e2fsck").arg("-fy").arg(&image).output().expect("e2fsck runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(cleared(&said), expected, "{when}: {said}");
        let repairs: Vec<_> = said.lines().filter(|line| line.ends_with("? yes")).collect();
        assert!(repairs.is_empty(), "{when}: {said}");
        oracle::e2fsck(&image).unwrap_or_else(|said| panic!("{when}, after -fy: {said}"));

        let copy = Arc::new(self.device.snapshot());
        let volume = self.specification.open(&copy).expect("opens");
        let free = self.volume.statfs().free_inodes + expected.len() as u32;
        assert_eq!(volume.statfs().free_inodes, free, "{when}");
        volume.close().expect("closes");
        judge(&copy).unwrap_or_else(|said| panic!("{when}, opened by us: {said}"));
    }
}

/// The inodes that e2fsck says it cleared as orphans, in its order.
fn cleared(said: &str) -> Vec<u32> {
    let number = |line: &str| {
        let words = line.strip_prefix("Clearing orphaned inode ")?;
        words.split(' ').next()?.parse().ok()
    };
    said.lines().filter_map(number).collect()
}

fn specifications() -> Vec<Specification> {
    [
        (Profile::Ext4, 1024, "modern,journal=none"),
        (Profile::Ext4, 4096, "modern,journal=none"),
        (Profile::Ext3, 1024, "modern,journal=none"),
        (Profile::Ext2, 1024, "linux-2.4"),
        (Profile::Ext2, 4096, "freebsd-5.2"),
    ]
    .map(|(profile, block_size, policies)| Specification {
        policies,
        ..Specification::new(profile, block_size, 16 * MIB)
    })
    .into()
}

#[test]
fn a_name_that_goes_makes_an_open_inode_an_orphan_until_it_is_closed() {
    if !require("e2fsck") {
        return;
    }
    for specification in specifications() {
        let bench = Bench::new(specification);
        let names = ["/a", "/bb", "/ccc", "/dddd", "/eeeee"];
        let files = names.map(|name| bench.open(name));
        let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|at| files[at].0);
        let [file_a, file_b, file_c, file_d, file_e] = files.map(|(_, file)| file);
        bench.expect(&[], "files that have names");
        for name in ["/bb", "/a", "/dddd"] {
            bench.volume.remove_file(name).expect("is removed");
        }
        bench.expect(&[d, a, b], "three names removed");
        drop(file_a);
        bench.expect(&[d, b], "closed in the middle");
        file_b.write_all_at(40_000, b"more").expect("writes");
        bench.expect(&[d, b], "written");
        bench.volume.rename("/eeeee", "/ccc", Rename::Replace).expect("is renamed");
        bench.expect(&[c, d, b], "renamed over");
        drop(file_b);
        bench.expect(&[c, d], "closed at the end");
        drop(file_c);
        bench.expect(&[d], "closed at the head");
        drop(file_e);
        bench.volume.remove_file("/ccc").expect("is removed");
        bench.expect(&[d], "removed and not open");
        assert_ne!(e, d);
        drop(file_d);
        bench.expect(&[], "all closed");
        bench.volume.close().expect("closes");
        judge(&bench.device).unwrap_or_else(|said| panic!("{said}"));
    }
}

#[test]
fn an_inode_without_a_name_is_an_orphan_until_it_gets_one() {
    if !require("e2fsck") {
        return;
    }
    for specification in specifications() {
        let bench = Bench::new(specification);
        let inodes = bench.volume.inodes();
        let root = inodes.root().expect("a root");
        let made: Vec<_> = (0..4)
            .map(|number| {
                let made = inodes.create_nameless(&root, &New::default()).expect("makes it");
                made.1.write_all_at(0, &vec![number; 20_000]).expect("writes");
                made
            })
            .collect();
        let number = |at: usize| made[at].0.number().0;
        let all = [number(3), number(2), number(1), number(0)];
        bench.expect(&all, "four without a name");
        inodes.link(&made[2].0, &root, b"named").expect("names it");
        bench.expect(&[all[0], all[2], all[3]], "one was named");
        inodes.link(&made[2].0, &root, b"twice").expect("names it");
        inodes.link(&made[3].0, &root, b"newest").expect("names it");
        bench.expect(&[all[2], all[3]], "the newest was named");
        inodes.unlink(&root, b"newest").expect("removes it");
        bench.expect(&[all[0], all[2], all[3]], "and lost its name");
        inodes.link(&made[0].0, &root, b"oldest").expect("names it");
        bench.expect(&[all[0], all[2]], "the oldest was named");
        drop(made);
        bench.expect(&[], "all closed");
        assert_eq!(bench.volume.read("/oldest").expect("reads"), [0; 20_000]);
        bench.volume.close().expect("closes");
        judge(&bench.device).unwrap_or_else(|said| panic!("{said}"));
    }
}

#[test]
fn orphans_of_many_threads_leave_no_trace() {
    if !require("e2fsck") {
        return;
    }
    let specification = Specification {
        policies: "modern,journal=none",
        ..Specification::new(Profile::Ext4, 1024, 16 * MIB)
    };
    let bench = Bench::new(specification);
    let (kept_ino, kept) = bench.open("/kept");
    bench.volume.remove_file("/kept").expect("is removed");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let volume = &bench.volume;
            scope.spawn(move || {
                for round in 0..60 {
                    let name = format!("/{thread} {}", round % 7);
                    volume.write(&name, &[thread; 3000]).expect("a file");
                    let file = volume.open_file(&name).expect("opens");
                    volume.remove_file(&name).expect("is removed");
                    if round % 9 == 0 {
                        volume.sync().expect("syncs");
                    }
                    drop(file);
                }
            });
        }
    });
    bench.expect(&[kept_ino], "after the threads");
    drop(kept);
    bench.expect(&[], "all closed");
}
