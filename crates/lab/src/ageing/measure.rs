//! What an aged volume costs on a drive: it is put on a simulated one, cold, and read, written and
//! checked there. Each measurement has a drive, a clock and a copy of the volume of its own, so
//! that none knows of the others.
use super::colony::{Age, Colony};
use super::error::{AgeingError, doing};
use super::report::{Sample, Timing};
use super::sample::parts;
use crate::setup::Setup;
use extant_block::{MemoryDevice, Operation};
use extant_engine::{Access, DataKeeping, ErrorKind, Filesystem, Options, cache_for_blocks};
use extant_format::inode::FileType;
use extant_inspect::{CheckOptions, check};
use extant_sim::clock::{Settings, VirtualClock};
use extant_sim::device::{DeviceSettings, PowerCuts, SimDevice, TraceKeeping};
use extant_sim::drive::file::DriveSpec;
use extant_sim::random::Random;
use extant_sim::trace::TraceRecord;
use std::sync::Arc;

/// Memory of the machine that reads and writes the samples.
const MEMORY_BYTES: usize = 256 << 20;
/// A sample has no more files.
const FILES_MAX: usize = 1000;
/// And no more bytes: it ends behind the file that reaches them.
const SAMPLE_BYTES_MAX: u64 = 512 << 20;
/// Of a large file only so much is read or written.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// How programs read.
const CHUNK_BYTES: usize = 64 << 10;
/// The unit of the dynamic layout score.
const SCORE_BYTES: u64 = 4096;

/// Where a volume is measured.
#[derive(Clone)]
pub(super) struct Bench {
    /// The drive.
    pub(super) drive: DriveSpec,
    /// How the machine reads and writes.
    pub(super) setup: Setup,
    /// Of the drive.
    pub(super) seed: u64,
}

/// What is read and written.
#[derive(Clone, Default)]
pub(super) struct FilesToRead {
    directories: Vec<String>,
    newest: Vec<String>,
    oldest: Vec<String>,
    writes: Vec<(String, u64)>,
}

impl FilesToRead {
    /// For the volume as it is now; the seed decides which directories, and what is written.
    pub(super) fn new(colonies: &[Colony], seed: u64, size_most: u64) -> FilesToRead {
        let mut random = Random::for_part(seed, "samples");
        let mut plan = FilesToRead {
            newest: by_age(colonies, Age::Newest),
            oldest: by_age(colonies, Age::Oldest),
            ..FilesToRead::default()
        };
        // Any living file, in any population by its number of files: what a reader would meet.
        let total: u64 = colonies.iter().map(|colony| colony.living.len() as u64).sum();
        let mut bytes = 0;
        for at in 0..FILES_MAX.min(usize::try_from(total).unwrap_or(FILES_MAX)) {
            let mut place = random.below(total);
            let colony = colonies.iter().find(|colony| {
                let here = colony.living.len() as u64;
                let is_here = place < here;
                place = if is_here { place } else { place - here };
                is_here
            });
            let Some(colony) = colony else { continue };
            let file = colony.file(colony.living[place as usize]);
            let directory = &colony.directories[file.directory as usize].path;
            let directory = if directory.is_empty() { "/" } else { directory };
            plan.directories.push(directory.to_owned());
            let size = colony.population.size.draw(&mut random, size_most).min(FILE_BYTES_MAX);
            if bytes < SAMPLE_BYTES_MAX {
                bytes += size;
                plan.writes
                    .push((format!("{}/sample-{at}", directory.trim_end_matches('/')), size));
            }
        }
        plan.directories.sort_unstable();
        plan.directories.dedup();
        random.shuffle(&mut plan.directories);
        plan
    }
}

/// Files of all populations by age, the least of their populations' ages first.
fn by_age(colonies: &[Colony], age: Age) -> Vec<String> {
    let total: usize = colonies.iter().map(|colony| colony.living.len()).sum();
    let mut paths = Vec::new();
    for colony in colonies {
        // Each population by its share of all files; the newest and the oldest never are the same.
        let count = colony.living.len() * FILES_MAX.min(total.div_ceil(4)) / total.max(1);
        paths.extend(colony.by_age(count, age).into_iter().map(|(_, slot)| colony.path(slot)));
    }
    paths
}

/// What a piece of work did.
#[derive(Default)]
struct Work {
    files: u64,
    bytes: u64,
}

type Act = fn(&Filesystem, &FilesToRead, &mut Work) -> extant_engine::Result<()>;

/// Reads, writes and checks a volume, and notes what it took.
pub(super) fn measure(
    bench: &Bench,
    contents: &MemoryDevice,
    plan: &FilesToRead,
    sample: &mut Sample,
) -> Result<(), AgeingError> {
    let run = |access, keeping, act| bench.run(contents, plan, access, keeping, act);
    let (scan, trace) = run(Access::ReadOnly, TraceKeeping::All, scan)?;
    sample.dynamic_layout_score_ppm = dynamic_layout_score(&trace);
    sample.scan = Some(scan);
    sample.read_newest = Some(run(Access::ReadOnly, TraceKeeping::None, read_newest)?.0);
    sample.read_oldest = Some(run(Access::ReadOnly, TraceKeeping::None, read_oldest)?.0);
    sample.write = Some(run(Access::ReadWrite, TraceKeeping::None, write)?.0);
    sample.check = Some(bench.check(contents)?);
    Ok(())
}

/// Of the blocks read, the first excluded, the share that lay right behind the one before (Conway
/// and others 2017).
fn dynamic_layout_score(trace: &[TraceRecord]) -> Option<u64> {
    let mut reads: Vec<&TraceRecord> =
        trace.iter().filter(|record| record.operation == Operation::Read).collect();
    reads.sort_by_key(|record| (record.dispatch_ns, record.completion_ns));
    let (mut blocks, mut adjacent, mut end) = (0, 0, None);
    for record in reads {
        let count = record.bytes.div_ceil(SCORE_BYTES);
        blocks += count;
        adjacent += count.saturating_sub(u64::from(end != Some(record.offset)));
        end = Some(record.offset + record.bytes);
    }
    (blocks > 1).then(|| parts(adjacent, blocks - 1, 1_000_000))
}

impl Bench {
    fn device(
        &self,
        contents: &MemoryDevice,
        trace: TraceKeeping,
    ) -> Result<(Arc<VirtualClock>, Arc<SimDevice>), AgeingError> {
        let clock = VirtualClock::new(Settings::default());
        let queue = self.setup.machine.queue();
        let settings = DeviceSettings {
            name: "drive".to_owned(),
            queue,
            trace,
            power_cuts: PowerCuts::Excluded,
        };
        let drive = self.drive.build(self.seed);
        let device =
            SimDevice::with_contents(Arc::clone(&clock), drive, settings, contents.snapshot());
        Ok((clock, device.map_err(|error| AgeingError::Run(error.to_string()))?))
    }

    /// Has a copy of the volume checked, on the drive.
    fn check(&self, contents: &MemoryDevice) -> Result<Timing, AgeingError> {
        let (clock, device) = self.device(contents, TraceKeeping::None)?;
        let (inner, time) = (Arc::clone(&device), Arc::clone(&clock));
        let ran = clock.run("check", move || {
            let report = check(inner.clone(), &CheckOptions::default())?;
            time.settle();
            Ok((report, time.local_now(), inner.statistics()))
        });
        let ran: Result<_, extant_inspect::Error> =
            ran.map_err(|error| AgeingError::Run(error.to_string()))?;
        let (report, elapsed_ns, statistics) = ran?;
        if !report.is_clean() {
            let first = report.problems.first().map(ToString::to_string).unwrap_or_default();
            return Err(AgeingError::Run(format!("the aged volume has problems: {first}")));
        }
        Ok(Timing {
            elapsed_ns,
            files: report.summary.inodes_used,
            bytes: statistics.bytes_read,
            commands: statistics.commands,
            seeks: statistics.seeks,
        })
    }

    /// Opens a copy of the volume and does something with it; how long that took, and what the
    /// drive was asked if it is kept.
    fn run(
        &self,
        contents: &MemoryDevice,
        plan: &FilesToRead,
        access: Access,
        keeping: TraceKeeping,
        act: Act,
    ) -> Result<(Timing, Vec<TraceRecord>), AgeingError> {
        let (clock, device) = self.device(contents, keeping)?;
        let options = Options {
            access,
            policies: self.setup.policies.clone(),
            cache_bytes: cache_for_blocks(MEMORY_BYTES),
            data: DataKeeping::Phantom,
        };
        let (plan, inner, time) = (plan.clone(), Arc::clone(&device), Arc::clone(&clock));
        let ran = clock.run("sample", move || {
            let filesystem = Filesystem::open(inner.clone(), &options)?;
            time.settle();
            let (start, before) = (time.local_now(), inner.statistics());
            inner.take_trace();
            let mut work = Work::default();
            act(&filesystem, &plan, &mut work)?;
            time.settle();
            let (end, after) = (time.local_now(), inner.statistics());
            let timing = Timing {
                elapsed_ns: end - start,
                files: work.files,
                bytes: work.bytes,
                commands: after.commands - before.commands,
                seeks: after.seeks - before.seeks,
            };
            let trace = inner.take_trace();
            filesystem.close()?;
            Ok((timing, trace))
        });
        doing("sample", ran.map_err(|error| AgeingError::Run(error.to_string()))?)
    }
}

fn read_file(
    filesystem: &Filesystem,
    path: &str,
    buffer: &mut [u8],
    work: &mut Work,
) -> extant_engine::Result<()> {
    let file = filesystem.open_file(path)?;
    let mut offset = 0;
    while offset < FILE_BYTES_MAX {
        let length = file.read_at(offset, buffer)? as u64;
        offset += length;
        work.bytes += length;
        if length < buffer.len() as u64 {
            break;
        }
    }
    work.files += 1;
    Ok(())
}

fn read_files(
    filesystem: &Filesystem,
    paths: &[String],
    work: &mut Work,
) -> extant_engine::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    for path in paths {
        read_file(filesystem, path, &mut buffer, work)?;
        if work.bytes >= SAMPLE_BYTES_MAX {
            break;
        }
    }
    Ok(())
}

fn read_newest(
    filesystem: &Filesystem,
    plan: &FilesToRead,
    work: &mut Work,
) -> extant_engine::Result<()> {
    read_files(filesystem, &plan.newest, work)
}

fn read_oldest(
    filesystem: &Filesystem,
    plan: &FilesToRead,
    work: &mut Work,
) -> extant_engine::Result<()> {
    read_files(filesystem, &plan.oldest, work)
}

/// Directory by directory, file by file in the order of readdir.
fn scan(filesystem: &Filesystem, plan: &FilesToRead, work: &mut Work) -> extant_engine::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    for directory in &plan.directories {
        for entry in filesystem.read_dir(directory)? {
            let name = String::from_utf8_lossy(&entry.name);
            if entry.file_type.is_none_or(|file_type| file_type == FileType::Regular) {
                let path = format!("{}/{name}", directory.trim_end_matches('/'));
                read_file(filesystem, &path, &mut buffer, work)?;
            }
            if work.files >= FILES_MAX as u64 || work.bytes >= SAMPLE_BYTES_MAX {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// New files, then a sync. A volume that gets full ends it.
fn write(
    filesystem: &Filesystem,
    plan: &FilesToRead,
    work: &mut Work,
) -> extant_engine::Result<()> {
    let buffer = vec![0; CHUNK_BYTES];
    for (path, bytes) in &plan.writes {
        match write_file(filesystem, path, *bytes, &buffer, work) {
            Err(error) if matches!(error.kind, ErrorKind::NoSpace { .. }) => break,
            written => written?,
        }
    }
    filesystem.sync()
}

fn write_file(
    filesystem: &Filesystem,
    path: &str,
    bytes: u64,
    buffer: &[u8],
    work: &mut Work,
) -> extant_engine::Result<()> {
    let file = filesystem.create_file(path, 0o644)?;
    let mut offset = 0;
    while offset < bytes {
        let length = (bytes - offset).min(buffer.len() as u64);
        file.write_all_at(offset, &buffer[..length as usize])?;
        offset += length;
        work.bytes += length;
    }
    work.files += 1;
    Ok(())
}
