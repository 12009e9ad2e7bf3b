//! All or nothing: committed, dropped, and cut at every write.
use crate::devices::Disk;
use crate::{PROFILES, assert_clean, assert_clean_bytes, sample, sample_file};
use extant::{ErrorKind, Image, Memory, Options, Profile, Transaction, Volume};
use extant_testkit::scratch::Scratch;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Every path of a volume, with its bytes.
type Tree = BTreeMap<PathBuf, Vec<u8>>;

fn tree(image: impl Into<Image>) -> Tree {
    let volume = Volume::open(image).unwrap();
    let walk = volume.walk("/").unwrap();
    walk.map(|entry| {
        let entry = entry.unwrap();
        let bytes = volume.read(&entry.path).unwrap_or_default();
        (entry.path, bytes)
    })
    .collect()
}

fn change(change: &Transaction) -> extant::Result<()> {
    change.create_dir_all("/srv/app/data")?;
    for number in 0..30 {
        change.write(format!("/srv/app/{number}"), vec![number; 5000])?;
    }
    change.remove_all("/dir")?;
    change.write("/large", "small now\n")?;
    change.rename("/etc/hostname", "/srv/hostname")
}

#[test]
fn a_commit_brings_all_and_a_drop_nothing() {
    let folder = Scratch::new("extant-transaction");
    for profile in PROFILES {
        let path = sample_file(&folder, profile);
        let before = tree(&path);
        let dropped = Transaction::begin(&path).unwrap();
        change(&dropped).unwrap();
        assert_eq!(dropped.read("/srv/hostname").unwrap(), b"extant\n", "it sees its changes");
        dropped.sync().unwrap();
        drop(dropped);
        assert_eq!(tree(&path), before, "{profile:?}");
        assert_clean(&path, &format!("{profile:?}, dropped"));
        let committed = Transaction::begin(&path).unwrap();
        change(&committed).unwrap();
        committed.commit().unwrap();
        let after = tree(&path);
        assert_eq!(after[&PathBuf::from("/srv/app/29")], vec![29; 5000]);
        assert!(!after.contains_key(&PathBuf::from("/dir")));
        assert_clean(&path, &format!("{profile:?}, committed"));
        // Also in memory, where there is a journal or none.
        let memory = sample(profile);
        let committed = Transaction::begin(memory.clone()).unwrap();
        change(&committed).unwrap();
        committed.commit().unwrap();
        assert_eq!(tree(memory.clone()), after, "{profile:?}, in memory");
        assert_clean_bytes(&memory.to_vec(), "in memory");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no log is left");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_change_that_fails_leaves_the_image() {
    let memory = sample(Profile::Ext4);
    let before = tree(memory.clone());
    let failing = Transaction::begin(memory.clone()).unwrap();
    failing.write("/etc/hostname", "new").unwrap();
    let error = failing.write("/huge", vec![1; 40 << 20]).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::NoSpace, 28), "{error}");
    drop(failing);
    assert_eq!(tree(memory), before);
}

/// Without a journal, and without a place for a log, nothing is half done.
#[test]
fn a_device_without_a_journal_is_as_it_was() {
    let disk = Disk::whole(sample(Profile::Ext2).to_vec());
    let before = tree(disk.bytes());
    let refused = Transaction::begin(Image::device(disk.clone())).unwrap();
    change(&refused).unwrap();
    let error = refused.commit().unwrap_err();
    assert!(error.to_string().contains("no place for a redo log"), "{error}");
    assert_eq!(tree(disk.bytes()), before);
    assert_clean_bytes(&disk.bytes(), "refused");
}

/// The device takes so many writes and then none, as when the power goes: what is there after the
/// next opening is the tree before or after, for every number of writes.
#[test]
fn a_cut_at_any_write_leaves_all_or_nothing() {
    for profile in [Profile::Ext3, Profile::Ext4] {
        let bytes = sample(profile).to_vec();
        let before = tree(bytes.clone());
        let (mut kept, mut done) = (0, 0);
        for writes in 0.. {
            let disk = Disk::new(bytes.clone(), writes);
            let outcome = Transaction::begin(Image::device(disk.clone())).and_then(|cut| {
                change(&cut)?;
                cut.commit()
            });
            let is_broken = disk.is_broken();
            let words = format!("{profile:?}, {writes} writes: {outcome:?}");
            // The next opening ends what was decided.
            let memory = Memory::from(disk.bytes());
            Options::new().write(true).open(memory.clone()).expect(&words).close().expect(&words);
            let now = tree(memory.clone());
            let is_whole = now.contains_key(&PathBuf::from("/srv/app/29"));
            if is_whole {
                assert_eq!(now[&PathBuf::from("/large")], b"small now\n", "{words}");
                assert!(!now.contains_key(&PathBuf::from("/dir/below")), "{words}");
                assert_eq!(now.len(), before.len() - 3 + 33, "{words}");
                done += 1;
            } else {
                assert_eq!(now, before, "{words}");
                kept += 1;
            }
            assert!(outcome.is_err() || is_whole, "{words}: what is committed is there");
            if writes % 7 == 0 || !is_broken {
                assert_clean_bytes(&memory.to_vec(), &words);
            }
            if outcome.is_ok() && !is_broken {
                break;
            }
        }
        assert!(kept > 3 && done > 1, "{profile:?}: {kept} before, {done} after");
    }
}
