//! What the engine holds, judged by what it has asked the allocator for: at most 1.05 times
//! `cache_bytes`, from the least that is taken on, whatever is done and under all policies.
use crate::{ALLOCATOR, again, in_memory};
use extant_block::{BlockDevice, Clock, FileDevice, MemoryDevice, RealClock, file};
use extant_engine::mkfs::{FormatOptions, Identity, Profile, default_wishes, format};
use extant_engine::preset::{PRESETS, Policies};
use extant_engine::{Access, DataKeeping, Filesystem, Options, least_cache_bytes};
use extant_testkit::variables::number;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const MIB: usize = 1 << 20;
const VOLUME: u64 = 1 << 30;
/// Set in the processes that do the work: preset, profile, bytes of a block, bytes of the cache.
const CASE: &str = "EXTANT_TEST_MEMORY_CASE";
const IDENTITY: Identity =
    Identity { uuid: *b"a volume to hold", hash_seed: [5, 6, 7, 8], created_seconds: 1 << 30 };
/// The most that may be held, in hundredths of `cache_bytes`.
const HELD_MAX: usize = 105;

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// The work of one thread, with its number.
type Load = fn(&Filesystem, u64) -> extant_engine::Result<()>;

const LOADS: [(&str, u64, Load); 6] = [
    ("large files", 2, large_files),
    ("writes here and there", 2, scattered),
    ("many small files", 2, small_files),
    ("a large directory", 1, large_directory),
    ("deep maps", 2, deep_maps),
    ("writers beside readers", 6, together),
];

fn large_files(filesystem: &Filesystem, thread: u64) -> extant_engine::Result<()> {
    // On the stack, which is not counted.
    let mut piece = [7; 128 << 10];
    let file = filesystem.create_file(format!("/large{thread}"), 0o644)?;
    for at in 0..80 {
        file.write_all_at(at * piece.len() as u64, &piece)?;
    }
    for at in 0..160 {
        file.read_at(at % 80 * piece.len() as u64, &mut piece)?;
    }
    Ok(())
}

fn scattered(filesystem: &Filesystem, thread: u64) -> extant_engine::Result<()> {
    let mut dice = Dice(thread);
    let file = filesystem.open_file(format!("/large{thread}"))?;
    let mut bytes = [3; 700];
    for _ in 0..1200 {
        file.write_all_at(dice.below(10 << 20), &bytes)?;
        file.read_at(dice.below(10 << 20), &mut bytes)?;
    }
    Ok(())
}

fn small_files(filesystem: &Filesystem, thread: u64) -> extant_engine::Result<()> {
    filesystem.create_dir(format!("/small{thread}"), 0o755)?;
    let path =
        |number: u64| format!("/small{thread}/{number:0>width$}", width = 5 + number as usize % 90);
    for number in 0..1500 {
        filesystem.write(path(number), &vec![1; number as usize % 3 * 900])?;
    }
    for number in 0..1500 {
        filesystem.read(path(number))?;
        filesystem.metadata(path(number))?;
    }
    for number in (0..1500).step_by(2) {
        filesystem.remove_file(path(number))?;
    }
    Ok(())
}

fn large_directory(filesystem: &Filesystem, _: u64) -> extant_engine::Result<()> {
    filesystem.create_dir("/directory", 0o755)?;
    filesystem.write("/directory/one", b"")?;
    let path = |number: u64| format!("/directory/{number:0>200}");
    for number in 0..3000 {
        filesystem.symlink("target", path(number))?;
    }
    for number in 0..3000 {
        filesystem.symlink_metadata(path(number * 7919 % 3000))?;
    }
    for number in 0..1500 {
        filesystem.remove_file(path(number))?;
    }
    Ok(())
}

fn deep_maps(filesystem: &Filesystem, thread: u64) -> extant_engine::Result<()> {
    let mut dice = Dice(thread);
    let file = filesystem.create_file(format!("/deep{thread}"), 0o644)?;
    let mut places = Vec::new();
    for _ in 0..800 {
        let at = dice.below(16 << 30);
        file.write_all_at(at, &[9; 100])?;
        places.push(at);
    }
    for at in &places {
        file.read_at(*at, &mut [0; 100])?;
    }
    for at in places.iter().step_by(2) {
        file.punch_hole(at / 65_536 * 65_536, 65_536)?;
    }
    file.set_len(1 << 30)
}

fn together(filesystem: &Filesystem, thread: u64) -> extant_engine::Result<()> {
    let mut dice = Dice(thread + 100);
    if thread.is_multiple_of(2) {
        let file = filesystem.create_file(format!("/both{thread}"), 0o644)?;
        for number in 0..80 {
            file.write_all_at(number * 100_000, &[4; 100_000])?;
            filesystem.write(format!("/both{thread}-{number}"), &[5; 5000])?;
        }
        return Ok(());
    }
    let file = filesystem.open_file("/large0")?;
    let mut bytes = [0; 64 << 10];
    for number in 0..300 {
        file.read_at(dice.below(10 << 20), &mut bytes)?;
        let _ = filesystem.read(format!("/small0/{:0>width$}", number, width = 5 + number % 90));
    }
    Ok(())
}

fn pause(nanoseconds: u64) {
    let clock = RealClock::new();
    let until = clock.now() + nanoseconds;
    while clock.now() < until {
        clock.park(Some(until));
    }
}

/// Looks at what is held as often as it can, until it is told to end.
fn watch(before: usize, most: &AtomicUsize, ended: &AtomicBool) {
    while !ended.load(Ordering::Acquire) {
        most.fetch_max(ALLOCATOR.allocated().saturating_sub(before), Ordering::AcqRel);
        pause(200_000);
    }
}

/// Does all the work on one volume, and says what was held at most during each part, in hundredths
/// of `cache_bytes`.
fn measure(
    filesystem: &Filesystem,
    before: usize,
    cache_bytes: usize,
) -> Vec<(&'static str, usize)> {
    let hundredths = |bytes: usize| bytes * 100 / cache_bytes;
    let mut rows = vec![("opened", hundredths(ALLOCATOR.allocated() - before))];
    for (name, threads, load) in LOADS {
        let (most, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
        // What the engine itself says of it.
        let said = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(before, &most, &ended));
            let counter = scope.spawn(|| {
                while !ended.load(Ordering::Acquire) {
                    said.fetch_max(filesystem.memory_use().total(), Ordering::AcqRel);
                    pause(20_000_000);
                }
            });
            let workers: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || load(filesystem, thread))).collect();
            for worker in workers {
                worker.join().expect("no panic").unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            ended.store(true, Ordering::Release);
            watcher.join().expect("no panic");
            counter.join().expect("no panic");
        });
        let said = said.into_inner();
        eprintln!(
            "  {name}: {} held, {} said: {:?}",
            hundredths(most.load(Ordering::Acquire)),
            hundredths(said),
            filesystem.memory_use()
        );
        rows.push((name, hundredths(most.into_inner())));
    }
    rows
}

/// The work of one process; nothing where it was not asked for.
#[test]
fn the_work_of_a_process_that_is_counted() {
    let Ok(case) = std::env::var(CASE) else { return };
    let words: Vec<&str> = case.split(' ').collect();
    let [preset, profile, block_size, cache_bytes] = words[..] else { panic!("{case}") };
    let (block_size, cache_bytes) =
        (block_size.parse().unwrap(), cache_bytes.parse::<usize>().unwrap());
    let scratch = in_memory("held");
    let image = scratch.path().join("image");
    std::fs::File::create(&image).and_then(|file| file.set_len(VOLUME)).expect("a sparse file");
    let device = FileDevice::open(RealClock::new(), &image, file::Access::ReadWrite, 0);
    let device: Arc<dyn BlockDevice> = Arc::new(device.expect("it was just made"));
    let policies: Policies = preset.parse().expect("a preset");
    let profile = Profile::from_name(profile).expect("a profile");
    let wishes = default_wishes(profile, VOLUME, Some(block_size), IDENTITY);
    format(Arc::clone(&device), &FormatOptions::new(wishes), &policies).expect("a new volume");
    let before = ALLOCATOR.allocated();
    let options =
        Options { access: Access::ReadWrite, policies, cache_bytes, data: DataKeeping::Bytes };
    let filesystem = Filesystem::open(device, &options).expect("the new volume");
    let rows = measure(&filesystem, before, cache_bytes);
    filesystem.close().expect("a sound device");
    let over: Vec<_> = rows.iter().filter(|(_, held)| *held > HELD_MAX).collect();
    assert!(over.is_empty(), "{case}: of 100 bytes were held {over:?}");
}

/// The presets, on the volume of their time, and the sizes of blocks at both ends.
fn cases() -> Vec<String> {
    let of_preset = |preset: &str| match preset {
        "modern" | "packed" => "ext4",
        "linux-2.4" | "linux-2.4-akpm" | "freebsd-5.2" | "freebsd-2010" => "ext2",
        _ => "ext3",
    };
    let one_in = number("EXTANT_MEMORY_PRESETS") as usize;
    let mut cases: Vec<String> = PRESETS
        .iter()
        .step_by(one_in)
        .map(|row| format!("{} {} 4096 {}", row.name, of_preset(row.name), 8 * MIB))
        .collect();
    let mut of_sizes = Vec::new();
    for block_size in [1024, 4096, 65_536] {
        for preset in ["modern ext4", "linux-2.4 ext2"] {
            let least = least_cache_bytes(block_size);
            of_sizes.push(format!("{preset} {block_size} {least}"));
            of_sizes.push(format!("{preset} {block_size} {}", least.max(4 * MIB)));
        }
    }
    of_sizes.dedup();
    cases.extend(of_sizes.into_iter().step_by(one_in.div_ceil(2)));
    cases
}

/// Less than the least is refused with one line, and the least is enough to work with.
#[test]
fn less_than_the_least_is_refused() {
    for block_size in [1024, 2048, 4096, 16_384, 65_536] {
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(RealClock::new(), 256 << 20));
        let policies: Policies = "modern".parse().expect("a preset");
        let wishes = default_wishes(Profile::Ext4, 256 << 20, Some(block_size), IDENTITY);
        format(Arc::clone(&device), &FormatOptions::new(wishes), &policies).expect("a volume");
        let least = least_cache_bytes(block_size);
        let options = |cache_bytes| Options {
            access: Access::ReadWrite,
            policies: policies.clone(),
            cache_bytes,
            data: DataKeeping::Bytes,
        };
        let refused = Filesystem::open(Arc::clone(&device), &options(least - 1)).err();
        let said = refused.expect("one byte too few").to_string();
        let expected = format!(
            "a cache of {} bytes is too small for blocks of {block_size} bytes: \
             the least is {least}",
            least - 1
        );
        assert_eq!(said, expected);
        let filesystem = Filesystem::open(device, &options(least)).expect("the least");
        filesystem.write("/file", &vec![1; 8 << 20]).expect("a file larger than the cache");
        assert_eq!(filesystem.read("/file").expect("the file"), vec![1; 8 << 20]);
        filesystem.close().expect("a sound device");
    }
}

#[test]
fn no_more_is_held_than_the_cache_may_have() {
    let mut failed = Vec::new();
    for case in cases() {
        let (good, said) = again("held::the_work_of_a_process_that_is_counted", (CASE, &case));
        eprintln!("{case}\n{said}");
        if !good {
            failed.push(said.lines().filter(|line| line.contains("were held")).collect::<String>());
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
