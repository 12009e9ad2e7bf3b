//! Images that are not written: each is refused before anything is.
use super::recorder::Recorder;
use super::{Before, KINDS, Made, judged};
use extant_block::BlockDevice;
use extant_testkit::numbers::Numbers;
use extant_testkit::oracle::require;
use std::sync::Arc;

/// A header's field is something else.
#[test]
fn what_an_image_says_of_itself_decides() {
    if !require("qemu-img") || !require("qemu-io") {
        return;
    }
    let made = Made::new(&KINDS[4], &mut Numbers::new(1));
    let image = std::fs::read(made.file()).unwrap();
    let cases: &[(usize, &[u8], &str)] = &[
        (79, &[1], "was not closed by QEMU"),
        (79, &[2], "marked as corrupt"),
        (79, &[4], "in another file"),
        (79, &[128], "feature 7"),
        (35, &[2], "is encrypted"),
        (96, &[0, 0, 0, 7], "counts of 2^7 bits"),
        (48, &[0x7f], "a refcount table"),
        (56, &[0, 0, 0, 0], "a refcount table of 0 bytes"),
        (60, &[0, 0, 0, 9], "a snapshot past the end"),
        (60, &[0xff], "snapshots"),
    ];
    for (at, bytes, words) in cases {
        let mut changed = image.clone();
        changed[*at..*at + bytes.len()].copy_from_slice(bytes);
        let file = Recorder::new(changed);
        let error = made.open(Arc::clone(&file) as _).map(drop).unwrap_err();
        assert!(error.to_string().contains(words), "byte {at}: {error}");
        assert_eq!(file.count(), 0);
    }
}

/// Damage anywhere in the tables: an error, or an image in which nothing else is destroyed; no
/// panic, and no end that does not come.
#[test]
fn damaged_tables_are_refused_or_do_no_harm() {
    if !require("qemu-img") || !require("qemu-io") {
        return;
    }
    for kind in [&KINDS[1], &KINDS[4], &KINDS[7], &KINDS[10], &KINDS[5]] {
        let mut numbers = Numbers::new(5);
        let made = Made::new(kind, &mut numbers);
        let image = std::fs::read(made.file()).unwrap();
        let mut places = Vec::from([0..112_u64, 0..112]);
        {
            let disk = made.open(Recorder::new(image.clone()) as _).unwrap();
            let mut state = disk.inner.state.write();
            for at in (0..made.model.len() as u64).step_by(4096) {
                state.load(at).unwrap();
            }
            let size = state.header.cluster_bytes();
            places.extend(state.tables.values().map(|table| table.at..table.at + size));
            places
                .extend(state.counts.table.iter().filter(|at| **at != 0).map(|at| *at..at + size));
            places.push(state.header.l1_offset..state.header.l1_offset + 64);
            places.push(state.counts.table_at..state.counts.table_at + 64);
        }
        for _ in 0..120 {
            let mut changed = image.clone();
            for _ in 0..1 + numbers.below(3) {
                let place = &places[numbers.below(places.len() as u64) as usize];
                let at = place.start + numbers.below((place.end - place.start).min(400));
                changed[at as usize] ^= 1 << numbers.below(8);
            }
            let file = Recorder::new(changed);
            let Ok(disk) = made.open(Arc::clone(&file) as _) else {
                assert_eq!(file.count(), 0);
                continue;
            };
            let bytes = disk.info().bytes;
            for _ in 0..4 {
                let at = numbers.below(bytes.min(8 << 20));
                let _ = disk.write(at, &vec![9; 3000.min(bytes - at) as usize]);
                let _ = disk.flush();
            }
        }
    }
}

/// Bits that others rely on are cleared before the first change, and only then.
#[test]
fn what_others_rely_on_is_taken_back() {
    if !require("qemu-img") {
        return;
    }
    assert_eq!(KINDS[15].2, Before::Nothing);
    let made = Made::new(&KINDS[15], &mut Numbers::new(1));
    super::qemu(made.folder.path(), &["bitmap", "--add", "x.qcow2", "changes"]);
    let image = std::fs::read(made.file()).unwrap();
    assert_eq!(image[95], 1);
    let file = Recorder::new(image.clone());
    let disk = made.open(Arc::clone(&file) as _).unwrap();
    disk.flush().unwrap();
    let mut byte = [0];
    disk.read(5, &mut byte).unwrap();
    assert_eq!(file.bytes(), image);
    disk.write(5, &[1]).unwrap();
    drop(disk);
    assert_eq!(file.bytes()[88..96], [0; 8]);
    std::fs::write(made.file(), file.bytes()).unwrap();
    let (code, said) = judged(made.folder.path());
    assert!(matches!(code, 0 | 3), "{said}");
}
