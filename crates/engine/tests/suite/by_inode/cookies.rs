//! Directories that are read in small pieces while they change.
use crate::by_inode::{BYTES, KINDS, finish, fresh, specification};
use crate::volume::Random;
use extant_block::BlockDevice;
use extant_engine::mkfs::Profile;
use extant_engine::{Filesystem, Inode, Known, New, NewKind, Rename};
use extant_format::hash::Hasher;
use extant_format::superblock::{HashVersion, Superblock};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Reads at most `most` names from a cookie on; gives them and where to go on.
fn piece(volume: &Filesystem, directory: &Inode, cookie: u64, most: usize) -> (Vec<Vec<u8>>, u64) {
    let (mut names, mut at) = (Vec::new(), cookie);
    volume
        .inodes()
        .read_dir(directory, cookie, &mut |entry| {
            assert!(entry.next > at, "cookies rise: {at:#x}, {:#x}", entry.next);
            at = entry.next;
            names.push(entry.name.to_vec());
            if names.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .expect("lists");
    (names, at)
}

fn name(number: u64) -> String {
    format!("name {number} of a directory")
}

/// Reads a directory piece by piece; between the pieces names with odd numbers come and go.
fn names_that_stay_come_once(kind: (Profile, u32, u16, &'static str), count: u64, most: u64) {
    let (device, volume) = fresh(&specification(kind, BYTES));
    let inodes = volume.inodes();
    let root = inodes.root().expect("a root");
    let directory = New { kind: NewKind::Directory, permissions: 0o755, ..New::default() };
    let directory = inodes.create(&root, b"d", &directory).expect("makes it");
    let make =
        |number: u64| inodes.create(&directory, name(number).as_bytes(), &New::default()).map(drop);
    (0..count).for_each(|number| make(number).expect("makes it"));
    let mut random = Random::new(count + most);
    let mut seen: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    let mut cookie = 0;
    loop {
        let (names, next) = piece(&volume, &directory, cookie, 1 + random.below(most) as usize);
        if names.is_empty() {
            break;
        }
        cookie = next;
        names.into_iter().for_each(|name| *seen.entry(name).or_default() += 1);
        for _ in 0..8 {
            let odd = random.below(2 * count) | 1;
            match random.below(3) {
                0 => drop(inodes.unlink(&directory, name(odd).as_bytes())),
                1 => drop(make(odd)),
                _ => {
                    let (from, to) = (name(odd), name(random.below(2 * count) | 1));
                    let (from, to) = (from.as_bytes(), to.as_bytes());
                    let (from, to) = ((&directory, from), (&directory, to));
                    drop(inodes.rename(from, to, Rename::Replace));
                }
            }
        }
    }
    let stayed = (0..count).step_by(2).map(name).chain([".".to_owned(), "..".to_owned()]);
    for name in stayed {
        assert_eq!(seen.get(name.as_bytes()), Some(&1), "{kind:?}: {name}");
    }
    assert_eq!(piece(&volume, &directory, cookie, 1), (Vec::new(), cookie));
    finish(&device, volume);
}

#[test]
fn names_that_stay_come_once_while_others_come_and_go() {
    names_that_stay_come_once((Profile::Ext4, 1024, 256, ""), 10_000, 40);
    names_that_stay_come_once((Profile::Ext2, 1024, 128, "^dir_index"), 2_000, 40);
    // One block, and one that becomes hashed on the way.
    names_that_stay_come_once((Profile::Ext4, 4096, 256, ""), 40, 3);
    names_that_stay_come_once((Profile::Ext4, 1024, 256, ""), 20, 1);
}

/// Names of which two and two have the same legacy hash, which has 31 bits.
fn twins(hasher: &Hasher) -> Vec<String> {
    let mut by_hash = BTreeMap::new();
    let mut twins = Vec::new();
    for number in 0..300_000 {
        let name = format!("{number}");
        let hash = hasher.hash(name.as_bytes());
        if let Some(other) = by_hash.insert(hash, name.clone()) {
            twins.extend([other, name]);
        }
    }
    twins.sort();
    twins.dedup();
    assert!(twins.len() > 20, "{twins:?}");
    twins
}

#[test]
fn names_with_equal_hashes_come_once_each() {
    let specification = specification((Profile::Ext4, 1024, 256, ""), BYTES);
    let device = specification.make(extant_block::RealClock::new());
    let mut bytes = [0; 1024];
    device.read(1024, &mut bytes).expect("reads");
    let mut superblock = Superblock::parse(&bytes).expect("a superblock");
    superblock.hash_version = HashVersion::Legacy;
    device.write(1024, &superblock.encode()).expect("writes");
    let volume = specification.open(&device).expect("opens");
    let inodes = volume.inodes();
    let root = inodes.root().expect("a root");
    let file = inodes.create(&root, b"file", &New::default()).expect("makes it");
    let directory = New { kind: NewKind::Directory, permissions: 0o755, ..New::default() };
    let directory = inodes.create(&root, b"d", &directory).expect("makes it");
    let mut names = twins(&Hasher::of(&superblock));
    names.extend((300_000..302_000).map(|number| format!("{number}")));
    for name in &names {
        inodes.link(&file, &directory, name.as_bytes()).expect("links it");
    }
    for most in [1, 7] {
        let (mut cookie, mut found) = (0, Vec::new());
        loop {
            let (names, next) = piece(&volume, &directory, cookie, most);
            if names.is_empty() {
                break;
            }
            cookie = next;
            found.extend(names);
        }
        assert_eq!(found.len(), names.len() + 2);
        found.sort();
        found.dedup();
        assert_eq!(found.len(), names.len() + 2);
    }
    finish(&device, volume);
}

#[test]
fn cookies_outlive_the_opening_and_those_that_are_none_are_refused() {
    for kind in KINDS {
        let specification = specification(kind, BYTES);
        let (device, volume) = fresh(&specification);
        volume.create_dir("/d", 0o755).expect("makes it");
        for number in 0..300 {
            volume.write(format!("/d/{}", name(number)), b"").expect("writes");
        }
        let directory = crate::by_inode::at(&volume, "/d");
        let (first, cookie) = piece(&volume, &directory, 0, 150);
        let (rest, _) = piece(&volume, &directory, cookie, usize::MAX);
        assert_eq!(first.len() + rest.len(), 302, "{kind:?}");
        volume.close().expect("closes");
        let volume = specification.open(&device).expect("opens");
        let directory = crate::by_inode::at(&volume, "/d");
        assert_eq!(piece(&volume, &directory, cookie, usize::MAX).0, rest, "{kind:?}");
        for cookie in [1, 5, 1 << 20, 1 << 40, (1 << 63) - 1] {
            piece(&volume, &directory, cookie, usize::MAX);
        }
        let mut nothing = |_: extant_engine::Entry<'_>| ControlFlow::Continue(());
        for cookie in [1 << 63, u64::MAX] {
            let refused = volume.inodes().read_dir(&directory, cookie, &mut nothing);
            assert_eq!(refused.expect_err("no cookie").errno(), 22);
        }
        finish(&device, volume);
    }
}

#[test]
fn a_listing_with_metadata_gives_the_same_names_and_what_they_lead_to() {
    let (device, volume) = fresh(&specification(KINDS[0], BYTES));
    volume.create_dir("/d", 0o755).expect("makes it");
    for number in 0..300 {
        let content = vec![b'a'; number as usize];
        volume.write(format!("/d/{}", name(number)), &content).expect("writes");
    }
    let inodes = volume.inodes();
    let directory = crate::by_inode::at(&volume, "/d");
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        let before = names.len();
        inodes
            .read_dir_plus(&directory, cookie, &mut |entry, known| {
                cookie = entry.next;
                names.push(entry.name.to_vec());
                match known {
                    None => assert!(matches!(entry.name, b"." | b"..")),
                    Some(Known { inode, metadata }) => {
                        assert_eq!((inode.number(), entry.ino), (metadata.ino, metadata.ino));
                        let size = String::from_utf8_lossy(entry.name);
                        let size = size.split(' ').nth(1).expect("a number");
                        assert_eq!(metadata.size.to_string(), size);
                    }
                }
                match names.len() - before {
                    100 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            })
            .expect("lists");
        if names.len() == before {
            break;
        }
    }
    assert_eq!(names, piece(&volume, &directory, 0, usize::MAX).0);
    finish(&device, volume);
}
