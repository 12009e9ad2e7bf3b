//! Quota files count what each user, group and project has after every close, and after a power cut
//! once the journal was replayed: e2fsck counts again, and finds nothing to say.
use crate::volume;

use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_engine::mkfs::Profile;
use extant_engine::{Change, ErrorKind, Filesystem, Rename, SetAttribute};
use extant_sim::CrashLog;
use extant_testkit::command::program;
use extant_testkit::oracle::{self, require};
use extant_testkit::scratch::Scratch;
use std::sync::Arc;
use volume::{MIB, Random, Specification, judge};

fn specification(
    profile: Profile,
    block_size: u32,
    features: &'static str,
    policies: &'static str,
) -> Specification {
    Specification { features, policies, ..Specification::new(profile, block_size, 12 * MIB) }
}

const ALL: &str = "quota,project";

fn rows() -> Vec<Specification> {
    vec![
        specification(Profile::Ext4, 1024, ALL, "modern"),
        specification(Profile::Ext4, 4096, ALL, "modern"),
        specification(Profile::Ext4, 2048, "quota,orphan_file,^metadata_csum", "modern"),
        specification(Profile::Ext3, 1024, ALL, "modern"),
        specification(Profile::Ext4, 4096, ALL, "modern,journal=none"),
        specification(Profile::Ext2, 1024, "quota", "linux-2.4"),
        specification(Profile::Ext3, 4096, ALL, "linux-2.6"),
        specification(Profile::Ext2, 4096, "quota", "freebsd-5.2"),
        specification(Profile::Ext4, 1024, ALL, "modern,journal=data"),
    ]
}

/// A user, group or project: few that have much, many that have little, of which the bytes differ
/// at every step of the tree.
fn id(random: &mut Random) -> u32 {
    match random.below(3) {
        0 => random.below(3) as u32,
        1 => 1000 + random.below(40) as u32,
        _ => (random.below(6) << 24 | random.below(5) << 16 | random.below(300)) as u32,
    }
}

/// One change of a volume. What is refused is refused.
fn step(volume: &Filesystem, random: &mut Random) {
    let name = |random: &mut Random| format!("/d{}/f{}", random.below(3), random.below(40));
    let path = name(random);
    let _ = match random.below(13) {
        0..4 => {
            let content = vec![b'q'; random.below(40_000) as usize];
            volume.write(&path, &content).and_then(|()| owned(volume, &path, random))
        }
        4..6 => owned(volume, &path, random),
        6 => volume.remove_file(&path),
        7 => volume.rename(&path, name(random), Rename::Replace),
        8 => volume.open_file(&path).and_then(|file| file.set_len(random.below(90_000))),
        9 => volume.symlink("t".repeat(random.below(300) as usize + 1), &path),
        10 => {
            // Too large without ea_inode, now and then.
            let value = vec![b'a'; random.below(1500) as usize];
            volume.set_attribute(&path, b"user.a", &value, SetAttribute::Any)
        }
        11 => volume.open_file(&path).and_then(|file| {
            file.punch_hole(0, random.below(20_000) + 1)?;
            // Kept open while its last name goes.
            volume.remove_file(&path)?;
            file.write_all_at(5_000, b"nobody sees this")
        }),
        _ => volume.sync(),
    };
}

fn owned(volume: &Filesystem, path: &str, random: &mut Random) -> extant_engine::Result<()> {
    let change = Change { uid: Some(id(random)), gid: Some(id(random)), ..Change::default() };
    volume.change(path, &change)?;
    let inode = volume.inode(path)?;
    // Refused where there are no projects.
    let _ = volume.inodes().set_project(&inode, id(random));
    Ok(())
}

fn directories(volume: &Filesystem) {
    for number in 0..3 {
        volume.create_dir(format!("/d{number}"), 0o755).expect("a directory");
    }
}

#[test]
fn what_everybody_has_is_counted_by_every_change() {
    if !require("e2fsck") {
        return;
    }
    for (seed, specification) in (1..).zip(rows()) {
        let mut random = Random::new(seed);
        let device = specification.make(RealClock::new());
        for round in 0..3 {
            let volume = specification.open(&device).expect("opens");
            if round == 0 {
                directories(&volume);
            }
            for _ in 0..220 {
                step(&volume, &mut random);
            }
            volume.close().expect("closes");
            judge(&device).unwrap_or_else(|said| panic!("{specification}, {round}: {said}"));
        }
    }
}

#[test]
fn every_owner_gets_an_entry_and_the_file_grows() {
    if !require("e2fsck") {
        return;
    }
    for specification in rows() {
        let specification = Specification { inodes: 2000, ..specification };
        let device = specification.make(RealClock::new());
        let volume = specification.open(&device).expect("opens");
        for number in 0..400_u32 {
            let path = format!("/{number}");
            volume.write(&path, b"1").expect("a file");
            // Bytes of the id differ at the lowest step, and at each of the higher ones.
            let id = number.wrapping_mul(0x0101_0011);
            let change = Change { uid: Some(id), gid: Some(number), ..Change::default() };
            volume.change(&path, &change).expect("is owned");
        }
        volume.close().expect("closes");
        judge(&device).unwrap_or_else(|said| panic!("{specification}: {said}"));
        let volume = specification.open(&device).expect("opens");
        (0..400).for_each(|number| volume.remove_file(format!("/{number}")).expect("is removed"));
        volume.close().expect("closes");
        judge(&device).unwrap_or_else(|said| panic!("{specification}, removed: {said}"));
    }
}

/// What e2fsck says of quotas once it has replayed the journal; `None` where orphans wait.
fn quarrels(device: &MemoryDevice) -> Option<String> {
    let folder = Scratch::new("cut-owners");
    let image = folder.join("cut.img");
    device.save(&image).expect("is saved");
    oracle::e2fsck_replays(&image).expect("is replayed");
    let output = program("e2fsck").arg("-fn").arg(&image).output().expect("e2fsck runs");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    // One that waits to be freed is said to be free by its links.
    if said.contains("orphan") {
        return None;
    }
    let is_of_quotas = |line: &&str| line.contains("uota ") || line.contains("QUOTA");
    Some(said.lines().filter(is_of_quotas).map(|line| format!("{line}\n")).collect())
}

#[test]
fn a_transaction_has_the_counts_of_its_inodes() {
    if !require("e2fsck") {
        return;
    }
    for (seed, specification) in (50..).zip(rows()) {
        if specification.policies.contains("none") || specification.profile == Profile::Ext2 {
            continue;
        }
        let mut random = Random::new(seed);
        let device = specification.make(RealClock::new());
        let volume = specification.open(&device).expect("opens");
        directories(&volume);
        volume.close().expect("closes");
        let base = device.snapshot();
        let log = Arc::new(CrashLog::new(Arc::new(base.snapshot())));
        let logged = Arc::clone(&log) as Arc<dyn BlockDevice>;
        let volume = Filesystem::open(logged, &specification.options()).expect("opens");
        for _ in 0..160 {
            step(&volume, &mut random);
        }
        let _ = volume.sync();
        let mut judged = 0;
        for _ in 0..14 {
            let cut = log.cut(random.below(log.moments() as u64 + 1) as usize);
            // Linux 2.6 did not flush between a log and its commit.
            let medium = match specification.policies {
                "linux-2.6" => cut.prefix(&base),
                _ => cut.subset(&base, 1024, random.next()),
            };
            let medium = Arc::new(medium.expect("a medium"));
            if let Some(said) = quarrels(&medium) {
                assert_eq!(said, "", "{specification}");
                judged += 1;
            }
            let volume = specification.open(&medium).expect("recovers");
            volume.close().expect("closes");
            judge(&medium).unwrap_or_else(|said| panic!("{specification}: {said}"));
        }
        assert!(judged >= 4, "{specification}: of {judged} cuts e2fsck has judged quotas");
    }
}

/// Where the quota file of users begins on a volume, in bytes.
fn users_at(device: &MemoryDevice, block_size: u64) -> u64 {
    let mut head = [0; 8];
    let is_head = |at: &u64| {
        device.read(*at, &mut head).expect("is read");
        head == [0x11, 0x1f, 0xc0, 0xd9, 1, 0, 0, 0]
    };
    (0..12 * MIB).step_by(block_size as usize).find(is_head).expect("a quota file")
}

#[test]
fn a_tree_that_cannot_be_is_refused_before_anything_is_written() {
    let specification = specification(Profile::Ext4, 4096, ALL, "modern");
    let device = specification.make(RealClock::new());
    let at = users_at(&device, 4096);
    // Magic; version; blocks; a free block; a leaf with room; the root to itself, to nothing, and
    // to a block that is not of the file.
    let rows: [(u64, u32); 9] = [
        (0, 1),
        (4, 7),
        (20, 1 << 30),
        (24, 3),
        (28, 2),
        (1024, 1),
        (1024, 0x7fff_ffff),
        (1028, 2),
        (2048, 1),
    ];
    for (offset, value) in rows {
        let damaged = Arc::new(device.snapshot());
        damaged.write(at + offset, &value.to_le_bytes()).expect("is written");
        let before = damaged.snapshot();
        let refused = match specification.open(&damaged) {
            Ok(_) => panic!("{offset}: {value} is not refused"),
            Err(error) => error,
        };
        assert!(matches!(refused.kind, ErrorKind::Corrupt(_)), "{offset}: {refused}");
        assert!(refused.to_string().contains("quota file"), "{offset}: {refused}");
        let (mut one, mut other) = (vec![0; 12 << 20], vec![0; 12 << 20]);
        before.read(0, &mut one).expect("is read");
        damaged.read(0, &mut other).expect("is read");
        assert!(one == other, "{offset}: nothing is written");
    }
}

#[test]
fn random_damage_of_a_quota_file_hurts_nobody() {
    let specification = specification(Profile::Ext4, 1024, ALL, "modern,journal=none");
    let device = specification.make(RealClock::new());
    let volume = specification.open(&device).expect("opens");
    directories(&volume);
    let mut random = Random::new(9);
    (0..120).for_each(|_| step(&volume, &mut random));
    volume.close().expect("closes");
    let at = users_at(&device, 1024);
    for _ in 0..150 {
        let damaged = Arc::new(device.snapshot());
        for _ in 0..=random.below(3) {
            let offset = at + random.below(2) * random.below(12_000) / 4 * 4;
            let value = *random.pick(&[0, 1, 2, 5, 300, u32::MAX]);
            damaged.write(offset + random.below(9) * 4, &u32::to_le_bytes(value)).expect("writes");
        }
        let Ok(volume) = specification.open(&damaged) else { continue };
        (0..20).for_each(|_| step(&volume, &mut random));
        let _ = volume.close();
    }
}

/// A volume of mke2fs, whose limits an administrator has set: they stay as they are.
#[test]
fn limits_stay_as_they_are() {
    if !require("e2fsck") || !require("mke2fs") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("quota-limits");
    let (tree, image) = (folder.join("tree"), folder.join("q.img"));
    std::fs::create_dir(&tree).expect("a directory");
    std::fs::write(tree.join("file"), [b'f'; 5000]).expect("a file");
    let words = ["-q", "-F", "-t", "ext4", "-O", ALL, "-d"];
    let quotas = ["-E", "quotatype=usrquota:grpquota:prjquota"];
    let mut mke2fs = program("mke2fs");
    mke2fs.args(words).arg(&tree).args(quotas).arg(&image).arg("12M");
    assert!(mke2fs.status().expect("mke2fs runs").success());
    // mke2fs counts before it copies.
    let _ = program("e2fsck").arg("-fy").arg(&image).output().expect("e2fsck runs");
    oracle::e2fsck(&image).expect("is whole");
    let bytes = std::fs::read(&image).expect("is read");
    let device = Arc::new(MemoryDevice::new(RealClock::new(), bytes.len() as u64));
    device.write(0, &bytes).expect("is written");
    let specification = specification(Profile::Ext4, 1024, ALL, "modern");
    let at = users_at(&device, 1024);
    // The entry of user 0 is the only one of the first leaf.
    let mut file = vec![0; 64 << 10];
    device.read(at, &mut file).expect("is read");
    let leaf = (0..64_usize).find(|block| file[block * 1024 + 8..block * 1024 + 10] == [1, 0]);
    let limits = at + leaf.expect("a leaf") as u64 * 1024 + 16 + 8;
    let set = [7_u64, 9].map(u64::to_le_bytes).concat();
    device.write(limits, &set).expect("is written");
    let volume = specification.open(&device).expect("opens");
    (0..30).for_each(|number| volume.write(format!("/{number}"), b"more than 9").expect("a file"));
    volume.close().expect("closes");
    judge(&device).expect("is whole");
    let mut kept = [0; 16];
    device.read(limits, &mut kept).expect("is read");
    assert_eq!(kept[..], set[..]);
}

/// A volume of mke2fs with content in inodes, some of which is larger than a block.
fn with_inline_data(folder: &Scratch, inode_size: &str) -> MemoryDevice {
    let (tree, image) = (folder.join("tree"), folder.join("inline.img"));
    std::fs::create_dir_all(&tree).expect("a directory");
    for number in 0..3 {
        let below = tree.join(format!("d{number}"));
        std::fs::create_dir_all(&below).expect("a directory");
        for length in [0, 40, 100, 160, 900, 2000] {
            std::fs::write(below.join(format!("s{length}")), vec![b's'; length]).expect("a file");
        }
    }
    let mut mke2fs = program("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-I", inode_size, "-N", "400", "-d"]);
    mke2fs.arg(&tree).args(["-O", "quota,project,inline_data"]).arg(&image).arg("12M");
    assert!(mke2fs.status().expect("mke2fs runs").success());
    // mke2fs counts before it copies.
    let _ = program("e2fsck").arg("-fy").arg(&image).output().expect("e2fsck runs");
    oracle::e2fsck(&image).expect("is whole");
    let bytes = std::fs::read(&image).expect("is read");
    MemoryDevice::from_bytes(RealClock::new(), &bytes).snapshot()
}

/// Content moves out of inodes, which change hands on the way: whatever a cut leaves, the counts
/// are those of the inodes.
#[test]
fn content_that_moves_out_of_an_inode_is_counted_with_its_block() {
    if !require("e2fsck") || !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("quota-inline");
    for (inode_size, policies) in
        [("256", "modern"), ("1024", "modern"), ("256", "modern,journal=writeback")]
    {
        let base = with_inline_data(&folder, inode_size);
        let specification = specification(Profile::Ext4, 1024, ALL, policies);
        let log = Arc::new(CrashLog::new(Arc::new(base.snapshot())));
        let logged = Arc::clone(&log) as Arc<dyn BlockDevice>;
        let volume = Filesystem::open(logged, &specification.options()).expect("opens");
        let mut random = Random::new(7);
        for round in 0..3 {
            for (at, length) in [0, 40, 100, 160, 900, 2000].into_iter().enumerate() {
                let path = format!("/d{round}/s{length}");
                owned(&volume, &path, &mut random).expect("changes hands");
                let file = volume.open_file(&path).expect("is there");
                match (at + round) % 3 {
                    0 => file.write_at(length, b"more").map(drop),
                    1 => file.write_at(5000, b"far").map(drop),
                    _ => file.set_len(length + 3000),
                }
                .expect("grows");
                if at % 2 == 0 {
                    volume.sync().expect("syncs");
                }
                step(&volume, &mut random);
            }
        }
        volume.close().expect("closes");
        let mut judged = 0;
        for moment in (0..=log.moments()).step_by(3) {
            let medium = log.cut(moment).subset(&base, 1024, moment as u64).expect("a medium");
            let medium = Arc::new(medium);
            if let Some(said) = quarrels(&medium) {
                assert_eq!(said, "", "{inode_size} {policies}, moment {moment}");
                judged += 1;
            }
            let volume = specification.open(&medium).expect("recovers");
            volume.close().expect("closes");
            judge(&medium)
                .unwrap_or_else(|said| panic!("{inode_size} {policies} {moment}: {said}"));
        }
        assert!(judged >= 10, "{judged} cuts");
    }
}

#[test]
fn threads_beside_each_other_count_as_one() {
    if !require("e2fsck") {
        return;
    }
    for features in [ALL, "quota,ea_inode"] {
        for policies in ["modern", "modern,journal=none"] {
            let specification = specification(Profile::Ext4, 1024, features, policies);
            let device = specification.make(RealClock::new());
            let volume = specification.open(&device).expect("opens");
            directories(&volume);
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let volume = &volume;
                    scope.spawn(move || {
                        let mut random = Random::new(900 + thread);
                        (0..150).for_each(|_| step(volume, &mut random));
                    });
                }
            });
            volume.close().expect("closes");
            judge(&device).unwrap_or_else(|said| panic!("{specification}: {said}"));
        }
    }
}
