//! How long recovery takes beside what it cannot avoid: `recovery FOLDER [MIB]` fills the log of a
//! volume in FOLDER, and compares, five times each,
//! - scanning and an overlay with reading the log,
//! - replay in place with writing the same blocks in the order of the disk and a flush.
//!
//! Run it with `bench/recovery`, which builds it with optimisation. What is read is not in the page
//! cache, as after a power cut; a second row says what it takes when it is.
use extant_block::file::Access;
use extant_block::{BlockDevice, FileDevice, Operation, RealClock, Segment};
use extant_format::BlockNo;
use extant_format::journal::{Sequence, TransactionChecksum, commit, descriptor};
use extant_format::superblock::{Feature, SUPERBLOCK_SIZE, Superblock};
use extant_journal::{Found, Journal, MEMORY_BYTES_MAX, MapSource, Recovery};
use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Copies in a transaction.
const COPIES: usize = 2_000;
const ROUNDS: usize = 5;
/// The first block that copies belong to, in the group after that of the journal.
const FIRST: u64 = 40_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let folder = words.next().ok_or("recovery FOLDER [MIB]")?;
    let mib: u64 = words.next().map_or(Ok(128), |word| word.parse())?;
    let image = Path::new(&folder).join("recovery.img");
    let made = Command::new("mke2fs")
        .args(["-q", "-F", "-t", "ext4", "-b", "4096", "-J", &format!("size={mib}")])
        .arg(&image)
        .arg(format!("{}M", mib * 8))
        .status()?;
    if !made.success() {
        return Err("mke2fs failed".into());
    }
    let device: Arc<dyn BlockDevice> =
        Arc::new(FileDevice::open(RealClock::new(), &image, Access::ReadWrite, 0)?);
    let journal = fill(&device)?;
    let pairs = [
        measure_reading(&device, &journal, Cache::Cold(&image))?,
        measure_reading(&device, &journal, Cache::Warm)?,
        measure_writing(&device)?,
    ];
    std::fs::remove_file(&image)?;
    for (what, ours, least) in pairs {
        let ratio = ours.as_secs_f64() / least.as_secs_f64();
        println!("{what}: {ours:.1?} against {least:.1?}: {ratio:.2}");
    }
    Ok(())
}

/// Fills the log with transactions until none fits.
fn fill(device: &Arc<dyn BlockDevice>) -> Result<Journal, Box<dyn Error>> {
    let find = || Journal::find(Arc::clone(device), MapSource::Inode);
    let journal = find()?.ok_or("no journal")?;
    let mut superblock = *journal.superblock();
    superblock.adopt_features(journal.volume());
    (superblock.start, superblock.sequence) = (superblock.first, Sequence(1));
    let format = superblock.log_format();
    let size = format.block_size as usize;
    let put = |block: u32, bytes: &[u8]| {
        device.write(journal.place(block..block + 1).start.0 * size as u64, bytes)
    };
    let (mut at, mut sequence, mut target) = (superblock.first, Sequence(1), FIRST);
    while (superblock.log_end() - at) as usize >= format.transaction_blocks(COPIES, 0) {
        let copies: Vec<u64> = (target..target + COPIES as u64).collect();
        for chunk in copies.chunks(format.tags_per_descriptor()) {
            let mut writer = descriptor::Writer::new(&format, sequence);
            let descriptor_at = at;
            for block in chunk {
                let bytes = vec![*block as u8; size];
                writer.add(BlockNo(*block), &bytes);
                at += 1;
                put(at, &bytes)?;
            }
            put(descriptor_at, &writer.finish())?;
            at += 1;
        }
        let unused = TransactionChecksum::default();
        put(at, &commit::encode(&format, sequence, Default::default(), unused))?;
        (at, sequence, target) = (at + 1, sequence.next(), target + COPIES as u64);
    }
    let mut bytes = vec![0; size];
    device.read(journal.place(0..1).start.0 * size as u64, &mut bytes)?;
    superblock.store(&mut bytes);
    put(0, &bytes)?;
    let mut bytes = [0; SUPERBLOCK_SIZE];
    device.read(1024, &mut bytes)?;
    let mut volume = Superblock::parse(&bytes)?;
    volume.features.set(Feature::NEEDS_RECOVERY);
    device.write(1024, &volume.encode())?;
    device.flush()?;
    Ok(find()?.ok_or("no journal")?)
}

fn recovery(
    device: &Arc<dyn BlockDevice>,
    memory_bytes: u64,
) -> Result<Box<Recovery>, Box<dyn Error>> {
    match Recovery::find(Arc::clone(device), MapSource::Inode, memory_bytes)? {
        Found::Recovery(recovery) => Ok(recovery),
        Found::Nothing(report) => Err(format!("nothing to recover: {report:?}").into()),
    }
}

/// Whether what is read is in the page cache.
#[derive(Clone, Copy)]
enum Cache<'a> {
    /// Not: it is dropped before each round.
    Cold(&'a Path),
    Warm,
}

impl Cache<'_> {
    fn prepare(self) -> Result<(), Box<dyn Error>> {
        let Cache::Cold(image) = self else { return Ok(()) };
        let dropped = Command::new("dd")
            .arg(format!("of={}", image.display()))
            .args(["oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"])
            .status()?;
        if dropped.success() { Ok(()) } else { Err("dd failed".into()) }
    }
}

type Compared = (&'static str, Duration, Duration);

fn measure_reading(
    device: &Arc<dyn BlockDevice>,
    journal: &Journal,
    cache: Cache<'_>,
) -> Result<Compared, Box<dyn Error>> {
    let end = journal.superblock().log_end();
    let read = || -> Result<(), Box<dyn Error>> {
        let mut at = 0;
        while at < end {
            let run = journal.place(at..end.min(at + 256));
            let bytes = u64::from(run.length) * 4096;
            let segments = vec![Segment::Owned(vec![0; bytes as usize])];
            device.transfer(Operation::Read, run.start.0 * 4096, segments).result?;
            at += run.length;
        }
        Ok(())
    };
    let overlay = || -> Result<(), Box<dyn Error>> {
        black_box(recovery(device, 0)?.overlay(MEMORY_BYTES_MAX)?);
        Ok(())
    };
    let what = match cache {
        Cache::Cold(_) => "scan and overlay, against reading the log",
        Cache::Warm => "the same from the page cache",
    };
    Ok((what, median(cache, overlay)?, median(cache, read)?))
}

fn measure_writing(device: &Arc<dyn BlockDevice>) -> Result<Compared, Box<dyn Error>> {
    let recovery = recovery(device, MEMORY_BYTES_MAX)?;
    let plan: Vec<BlockNo> = recovery.scan().plan.iter().map(|one| one.target).collect();
    let bytes = vec![7; plan.len() * 4096];
    let write = || -> Result<(), Box<dyn Error>> {
        for (run, bytes) in plan.chunks(256).zip(bytes.chunks(256 * 4096)) {
            device.write(run.first().map_or(0, |block| block.0) * 4096, bytes)?;
        }
        Ok(device.flush()?)
    };
    let apply = || Ok(recovery.replay_in_place()?);
    Ok((
        "replay in place, against writing the blocks",
        median(Cache::Warm, apply)?,
        median(Cache::Warm, write)?,
    ))
}

/// The middle one of several times.
fn median(
    cache: Cache<'_>,
    run: impl Fn() -> Result<(), Box<dyn Error>>,
) -> Result<Duration, Box<dyn Error>> {
    let clock = RealClock::new();
    let mut times = Vec::new();
    run()?;
    for _ in 0..ROUNDS {
        cache.prepare()?;
        let begun = extant_block::Clock::now(&*clock);
        run()?;
        times.push(extant_block::Clock::now(&*clock).saturating_sub(begun));
    }
    times.sort_unstable();
    Ok(Duration::from_nanos(times.get(ROUNDS / 2).copied().unwrap_or_default()))
}
