//! Images that lie: an error, and no panic, no end of a walk that does not come.
use crate::{PROFILES, sample};
use extant::{Builder, ErrorKind, Memory, NewFile, Options, Profile, Transaction, Volume};
use extant_testkit::command::program;
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

/// Reads all that can be read.
fn read(volume: &Volume) -> usize {
    let Ok(walk) = volume.walk("/") else { return 0 };
    let mut errors = 0;
    for entry in walk {
        match entry {
            Ok(entry) => {
                errors += usize::from(volume.attributes(&entry.path).is_err());
                if entry.metadata.size < 1 << 24 {
                    errors += usize::from(volume.read(&entry.path).is_err());
                }
                errors += usize::from(volume.read_link(&entry.path).is_err());
            }
            Err(_) => errors += 1,
        }
    }
    errors
}

#[test]
fn damage_gives_errors_and_no_panic() {
    let mut refused = 0;
    for profile in PROFILES {
        let whole = sample(profile).to_vec();
        // Where metadata is.
        let metadata = whole.iter().rposition(|byte| *byte == 7).unwrap();
        for seed in 1..25_u64 {
            let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
            let mut bytes = whole.clone();
            for _ in 0..1 + numbers.next(12) {
                let within = if seed % 3 == 0 { 2048 } else { metadata };
                let at = numbers.next(within);
                bytes[at] = numbers.next(256) as u8;
            }
            if seed % 5 == 0 {
                bytes.truncate(numbers.next(bytes.len()));
            }
            match Volume::open(bytes.clone()) {
                Ok(volume) => drop(read(&volume)),
                Err(error) => {
                    refused += 1;
                    assert!(!error.to_string().is_empty());
                }
            }
            let _ = extant::check(bytes.clone());
            if let Ok(volume) = Options::new().write(true).open(bytes.clone()) {
                let _ = volume.write("/etc/hostname", vec![1; 10_000]);
                let _ = volume.remove_all("/dir");
                let _ = volume.close();
            }
            if let Ok(change) = Transaction::begin(bytes) {
                let _ = change.create_dir_all("/a/b");
                let _ = change.commit();
            }
        }
    }
    assert!(refused > 5, "{refused}");
}

#[test]
fn short_and_empty_images_are_no_volumes() {
    let whole = sample(Profile::Ext4).to_vec();
    for length in [0, 1, 511, 1024, 1025, 2047] {
        let error = Volume::open(whole[..length].to_vec()).unwrap_err();
        let kinds = [ErrorKind::NotAVolume, ErrorKind::Io, ErrorKind::Damaged];
        assert!(kinds.contains(&error.kind()), "{length}: {error}");
    }
    let error = Volume::open(whole[..whole.len() / 2].to_vec()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
}

/// A directory that is its own grandchild.
#[test]
fn a_circle_of_directories_is_walked_once() {
    if !require("debugfs") {
        return;
    }
    let folder = Scratch::new("extant-circle");
    let path = folder.join("x.img");
    let builder = Builder::new().profile(Profile::Ext2).free(1 << 20).files(|files| {
        files.add("/a/b/c", NewFile::file("x"))?;
        files.add("/z", NewFile::file("after it"))
    });
    builder.unwrap().build(&path).unwrap();
    let linked = program("debugfs").args(["-w", "-R", "link /a /a/b/again"]).arg(&path).output();
    assert!(linked.unwrap().status.success());
    let volume = Volume::open(Memory::from(std::fs::read(&path).unwrap())).unwrap();
    let (mut met, mut errors) = (Vec::new(), Vec::new());
    for entry in volume.walk("/").unwrap() {
        match entry {
            Ok(entry) => met.push(entry.path.display().to_string()),
            Err(error) => errors.push(error),
        }
    }
    assert!(met.contains(&"/a/b/c".to_owned()) && met.contains(&"/z".to_owned()), "{met:?}");
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0].kind(), ErrorKind::Damaged);
    assert_eq!(errors[0].path().unwrap().to_str(), Some("/a/b/again"));
}
