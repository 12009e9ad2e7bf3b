//! Cuts: what the file holds if only some of the writes since its last flush were kept.
use super::lives::stretch;
use super::recorder::{Event, Recorder, apply};
use super::{KINDS, Made, judged};
use extant_block::BlockDevice;
use extant_testkit::numbers::Numbers;
use extant_testkit::oracle::require;
use extant_testkit::variables;
use std::collections::BTreeMap;
use std::sync::Arc;

const SECTOR: usize = 512;

/// What a sector of the disk may hold from an event of the file on.
struct Written {
    /// How many events of the file there were before.
    from: usize,
    /// Its other contents are not possible any more, from this event on.
    flushed: usize,
    bytes: Vec<u8>,
}

/// What was written to the disk, sector by sector.
struct Life {
    before: Vec<u8>,
    sectors: BTreeMap<usize, Vec<Written>>,
}

impl Life {
    fn write(&mut self, model: &mut [u8], at: usize, bytes: &[u8], from: usize) {
        model[at..at + bytes.len()].copy_from_slice(bytes);
        for sector in at / SECTOR..(at + bytes.len()).div_ceil(SECTOR) {
            let end = ((sector + 1) * SECTOR).min(model.len());
            let bytes = model[sector * SECTOR..end].to_vec();
            let written = Written { from, flushed: usize::MAX, bytes };
            self.sectors.entry(sector).or_default().push(written);
        }
    }

    fn flushed(&mut self, at: usize) {
        for written in self.sectors.values_mut().flatten() {
            written.flushed = written.flushed.min(at);
        }
    }

    /// Whether a sector may hold this after the file was cut at an event.
    fn may_hold(&self, sector: usize, now: &[u8], cut: usize) -> bool {
        let start = sector * SECTOR;
        let Some(written) = self.sectors.get(&sector) else {
            return now == &self.before[start..start + now.len()];
        };
        let first = written.iter().rposition(|it| it.flushed <= cut);
        let may = written[first.unwrap_or(0)..].iter().any(|it| it.from < cut && it.bytes == now);
        may || first.is_none() && now == &self.before[start..start + now.len()]
    }
}

/// The file as a cut before an event leaves it: each sector as it was at some moment since the last
/// flush.
fn cut(before: &[u8], events: &[Event], at: usize, numbers: &mut Numbers) -> Vec<u8> {
    let flush = |event: &Event| matches!(event, Event::Flush);
    let safe = events[..at].iter().rposition(flush).map_or(0, |flush| flush + 1);
    let (seed, kept) = (numbers.draw(), numbers.below(4));
    let moment = |sector: usize| {
        let mut numbers = Numbers::new(seed ^ sector as u64);
        match numbers.below(4) {
            draw if draw < kept => at,
            _ => safe + numbers.below((at - safe + 1) as u64) as usize,
        }
    };
    let mut file = before.to_vec();
    for (number, event) in events[..at].iter().enumerate() {
        let (start, bytes) = match event {
            Event::Flush => continue,
            Event::Discard { at, bytes } => (*at as usize, &vec![0xdb; *bytes as usize]),
            Event::Write { at, bytes } => (*at as usize, bytes),
        };
        let mut done = 0;
        while done < bytes.len() {
            let place = start + done;
            let end = (done + SECTOR - place % SECTOR).min(bytes.len());
            if number < safe || number < moment(place / SECTOR) {
                apply(&mut file, place as u64, &bytes[done..end]);
            }
            done = end;
        }
    }
    file
}

#[test]
fn a_cut_leaves_what_was_flushed_and_an_image_that_is_whole() {
    if !require("qemu-img") || !require("qemu-io") {
        return;
    }
    let rounds = variables::number("EXTANT_CLUSTERS");
    for (number, kind) in KINDS.iter().enumerate() {
        for seed in 0..rounds {
            let mut numbers = Numbers::new(seed * 1000 + number as u64);
            let made = Made::new(kind, &mut numbers);
            let before = std::fs::read(made.file()).unwrap();
            let file = Recorder::new(before.clone());
            let disk = made.open(Arc::clone(&file) as _).unwrap();
            let mut life = Life { before: made.model.clone(), sectors: BTreeMap::new() };
            let mut model = made.model.clone();
            for _ in 0..25 {
                let (at, length) = stretch(&mut numbers, model.len() as u64);
                let bytes = numbers.bytes(length as usize);
                let from = file.count();
                disk.write(at, &bytes).unwrap();
                life.write(&mut model, at as usize, &bytes, from);
                if numbers.below(4) == 0 {
                    disk.flush().unwrap();
                    life.flushed(file.count());
                }
            }
            drop(disk);
            let events = file.events();
            for turn in 0..16 {
                let at = numbers.below(events.len() as u64 + 1) as usize;
                let name = format!("{} {seed}, event {at} of {}", kind.0, events.len());
                let left = Recorder::new(cut(&before, &events, at, &mut numbers));
                if turn % 8 == 0 {
                    std::fs::write(made.file(), left.bytes()).unwrap();
                    let (code, said) = judged(made.folder.path());
                    assert!(matches!(code, 0 | 3), "{name}: {said}");
                }
                let disk = made.open(left as _).unwrap_or_else(|error| panic!("{name}: {error}"));
                let mut now = vec![0; model.len()];
                disk.read(0, &mut now).unwrap();
                for (sector, bytes) in now.chunks(SECTOR).enumerate() {
                    let may = life.may_hold(sector, bytes, at);
                    assert!(may, "{name}: sector {sector} of the disk");
                }
            }
        }
    }
}

/// A host that is full, or that fails: an error, and what was flushed is there.
#[test]
fn a_write_that_fails_destroys_nothing() {
    if !require("qemu-img") || !require("qemu-io") {
        return;
    }
    for (number, kind) in KINDS.iter().enumerate() {
        let mut numbers = Numbers::new(number as u64);
        let made = Made::new(kind, &mut numbers);
        let file = Recorder::new(std::fs::read(made.file()).unwrap());
        let disk = made.open(Arc::clone(&file) as _).unwrap();
        let mut model = made.model.clone();
        let mut unsure = vec![0_u8; model.len()];
        for turn in 0..30 {
            let fails = turn % 3 == 2;
            file.fail_after(fails.then(|| numbers.below(5)));
            let (at, length) = stretch(&mut numbers, model.len() as u64);
            let bytes = numbers.bytes(length as usize);
            let range = at as usize..(at + length) as usize;
            match disk.write(at, &bytes) {
                Ok(()) => {
                    model[range.clone()].copy_from_slice(&bytes);
                    unsure[range].fill(0);
                }
                Err(_) => unsure[range].fill(1),
            }
            file.fail_after(None);
        }
        disk.flush().unwrap();
        drop(disk);
        std::fs::write(made.file(), file.bytes()).unwrap();
        let (code, said) = judged(made.folder.path());
        assert_eq!(code, 0, "{}: {said}", kind.0);
        let disk = made.open(file as _).unwrap();
        let mut now = vec![0; model.len()];
        disk.read(0, &mut now).unwrap();
        let differs = |at: &usize| now[*at] != model[*at] && unsure[*at] == 0;
        assert_eq!((0..now.len()).find(differs), None, "{}", kind.0);
    }
}

/// After a flush that failed nothing is written: what it was to keep may be gone.
#[test]
fn a_flush_that_fails_is_the_end() {
    if !require("qemu-img") || !require("qemu-io") {
        return;
    }
    let made = Made::new(&KINDS[0], &mut Numbers::new(1));
    let file = Recorder::new(std::fs::read(made.file()).unwrap());
    let disk = made.open(Arc::clone(&file) as _).unwrap();
    disk.write(0, &[1; 512]).unwrap();
    file.fail_after(Some(0));
    disk.flush().unwrap_err();
    file.fail_after(None);
    let count = file.count();
    disk.write(0, &[2; 512]).unwrap_err();
    disk.flush().unwrap_err();
    drop(disk);
    assert_eq!(file.count(), count);
}
