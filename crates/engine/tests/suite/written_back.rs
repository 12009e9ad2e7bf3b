//! One file as a kernel with a write-back cache treats it: several threads write whole pages of it,
//! a page to a MiB at a time, in any order and far beyond its end, each page by one thread at a
//! time; between them times are set, ranges become holes or zeros, memory is dropped and the file
//! is synced; between rounds it is cut and extended. What is read is held against a model, all the
//! time, and again after the volume was opened anew.
use crate::volume;

use extant_block::{Clock, RealClock};
use extant_engine::mkfs::Profile;
use extant_engine::{
    File, Inodes, MetadataChange, New, RangeChange, Rights, RunRights, SetTime, Size,
};
use extant_format::inode::Time;
use std::sync::Arc;
use volume::{KIB, MIB, Random, Specification, judge, patience};

const PAGE: u64 = 4096;
const THREADS: u64 = 4;
/// A thread's part of the file comes again after this many bytes of each other one.
const STRIPE: u64 = 256 * KIB;
const STRIPES: u64 = 6;
/// How long the file may become.
const BYTES_MAX: u64 = THREADS * STRIPES * STRIPE;

/// Profile, block size, policies.
const ROWS: [(Profile, u32, &str); 7] = [
    (Profile::Ext4, 4096, "modern"),
    (Profile::Ext4, 1024, "modern"),
    (Profile::Ext4, 4096, "modern,journal=data"),
    (Profile::Ext4, 1024, "modern,journal=writeback,commit=1s+data"),
    (Profile::Ext4, 4096, "modern,journal=none"),
    (Profile::Ext3, 1024, "modern"),
    (Profile::Ext2, 4096, "modern,commit=1s+data"),
];

/// What one thread knows of its stripes: their bytes, end to end.
struct Part {
    thread: u64,
    bytes: Vec<u8>,
}

impl Part {
    /// The byte of the file at which a byte of the part is.
    fn place(&self, at: u64) -> u64 {
        let stripe = at / STRIPE;
        (stripe * THREADS + self.thread) * STRIPE + at % STRIPE
    }

    /// A range of pages within one stripe, as bytes of the part.
    fn pages(random: &mut Random) -> std::ops::Range<u64> {
        let stripe = random.below(STRIPES) * STRIPE;
        let pages = STRIPE / PAGE;
        let first = random.below(pages);
        let most = if random.one_in(4) { pages - first } else { (pages - first).min(4) };
        let count = 1 + random.below(most);
        stripe + first * PAGE..stripe + (first + count) * PAGE
    }

    fn check(&self, file: &File, range: std::ops::Range<u64>, words: &str) {
        let mut read = vec![0xee; (range.end - range.start) as usize];
        let length = file.read_at(self.place(range.start), &mut read).expect("reads");
        let known = &self.bytes[range.start as usize..range.end as usize];
        // What is after the end of the file is zeros in the model.
        let wrong = read[..length].iter().zip(known).position(|(one, other)| one != other);
        let place = self.place(range.start);
        assert_eq!(wrong, None, "{words}: bytes from {place} on, {length} read");
        assert!(known[length..].iter().all(|byte| *byte == 0), "{words}: ends before {place}");
    }

    fn work(&mut self, inodes: Inodes<'_>, file: &File, random: &mut Random, words: &str) {
        let range = Part::pages(random);
        let (start, length) = (range.start as usize, (range.end - range.start) as usize);
        let place = self.place(range.start);
        match random.below(40) {
            0..=21 => {
                random.fill(&mut self.bytes[start..start + length]);
                let mut done = 0;
                while done < length {
                    let bytes = &self.bytes[start + done..start + length];
                    let at = place + done as u64;
                    done += file.write_at_as(at, bytes, RunRights::Stay).expect("writes");
                }
            }
            22..=31 => self.check(file, range, words),
            32 => {
                let time = Time { seconds: random.below(1 << 30) as i64, nanoseconds: 7 };
                let time = Some(SetTime::To(time));
                let change = MetadataChange {
                    access_time: time,
                    modify_time: time,
                    ..MetadataChange::default()
                };
                inodes.set_metadata(&file.inode(), &change).expect("sets times");
            }
            33 | 34 => inodes.drop_pages(&file.inode()).expect("drops"),
            35 => file.sync_data().expect("syncs"),
            36 => file.sync().expect("syncs"),
            number => {
                let change = match number {
                    37 => RangeChange::PunchHole,
                    38 => RangeChange::Zero(Size::Keep),
                    _ => RangeChange::Allocate(Size::Keep),
                };
                let outcome = file.change_range(place, length as u64, change, RunRights::Stay);
                match outcome {
                    Ok(()) if number < 39 => self.bytes[start..start + length].fill(0),
                    Ok(()) => {}
                    // Without extents there is only one of them.
                    Err(error) => assert_eq!(error.errno(), 95, "{words}: {error}"),
                }
            }
        }
    }
}

/// Cuts or extends the file to this size, and the model with it.
fn resize(inodes: Inodes<'_>, file: &File, parts: &mut [Part], size: u64) {
    let run_rights = Some(RunRights::Stay);
    let change = MetadataChange { size: Some(size), run_rights, ..MetadataChange::default() };
    inodes.set_metadata(&file.inode(), &change).expect("sets the size");
    for part in parts {
        for stripe in 0..STRIPES {
            let place = part.place(stripe * STRIPE);
            let from = size.clamp(place, place + STRIPE) - place;
            let (from, end) = (stripe * STRIPE + from, (stripe + 1) * STRIPE);
            part.bytes[from as usize..end as usize].fill(0);
        }
    }
}

fn live(row: (Profile, u32, &'static str), seed: u64, rounds: u64) {
    let (profile, block_size, policies) = row;
    let specification = Specification {
        policies,
        // Less than the file: blocks are written and dropped all the time.
        cache_bytes: 4 * MIB as usize,
        ..Specification::new(profile, block_size, 64 * MIB)
    };
    let words = format!("{specification}, seed {seed}");
    let clock = RealClock::new();
    let device = specification.make(clock.clone());
    let volume = specification.open(&device).expect("opens");
    let (inode, file) = {
        let inodes = volume.inodes();
        let root = inodes.root().expect("a root");
        inodes.create_open(&root, b"file", &New::default()).expect("makes")
    };
    let file = Arc::new(file);
    let mut random = Random::new(seed);
    let mut parts: Vec<Part> = (0..THREADS)
        .map(|thread| Part { thread, bytes: vec![0; (STRIPES * STRIPE) as usize] })
        .collect();
    for round in 0..rounds {
        let tasks: Vec<_> = parts
            .drain(..)
            .map(|mut part| {
                let (volume, file, words) = (volume.clone(), Arc::clone(&file), words.clone());
                let mut random = Random::new(random.next());
                let done = Arc::new(extant_block::ShortLock::new(None));
                let given = Arc::clone(&done);
                let body = move || {
                    for _ in 0..60 {
                        part.work(volume.inodes(), &file, &mut random, &words);
                    }
                    *given.lock() = Some(part);
                };
                (clock.spawn("writer", Box::new(body)), done)
            })
            .collect();
        for (task, done) in tasks {
            task.join();
            parts.push(done.lock().take().expect("it has ended"));
        }
        let words = format!("{words}, round {round}");
        parts.iter().for_each(|part| {
            (0..STRIPES).for_each(|stripe| {
                part.check(&file, stripe * STRIPE..(stripe + 1) * STRIPE, &words);
            });
        });
        let size = random.below(BYTES_MAX);
        resize(volume.inodes(), &file, &mut parts, size);
        assert_eq!(file.metadata().expect("is there").size, size, "{words}");
    }
    let size = file.metadata().expect("is there").size;
    drop((inode, file));
    volume.close().expect("closes");
    let volume = specification.open(&device).expect("opens");
    let inode = volume.inode("/file").expect("is there");
    let file = volume.inodes().open(&inode, Rights::READ).expect("opens");
    assert_eq!(file.metadata().expect("is there").size, size, "{words}");
    for part in &parts {
        part.check(&file, 0..STRIPE, &words);
        (0..STRIPES).for_each(|stripe| {
            part.check(&file, stripe * STRIPE..(stripe + 1) * STRIPE, &words);
        });
    }
    drop((inode, file));
    volume.close().expect("closes");
    if extant_testkit::oracle::require("e2fsck") {
        judge(&device).unwrap_or_else(|said| panic!("{words}: {said}"));
    }
}

#[test]
fn pages_in_any_order_from_several_threads_are_the_file() {
    for seed in 0..=extant_testkit::variables::number("EXTANT_THREAD_ROUNDS") {
        for row in ROWS {
            let name = format!("{row:?}, seed {seed}");
            let run = move || live(row, seed, 6);
            patience::within(120, &name, run).unwrap_or_else(|said| panic!("{name}: {said}"));
        }
    }
}
