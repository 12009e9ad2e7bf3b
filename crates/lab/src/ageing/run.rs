//! Ageing on a volume in memory: months of life under each list of policies, with a sample after
//! each.
//!
//! A volume lives on a device in memory, where data has places but no content, and no drive is
//! waited for: the clock is virtual, and nothing but the processor's work passes on it. Every month
//! it is closed and looked at, and copies of it are measured on the simulated drive.
//!
//! *Locking*: none; each series has its own device and clock.
use super::error::{AgeingError, doing};
use super::experiment::{Experiment, Subject};
use super::life::{LARGEST_PART, Life, Others, VolumePlace};
use super::measure::{Bench, FilesToRead, measure};
use super::profile::Profile;
use super::report::{AgeingReport, Form, ProfileFacts, Sample, Series};
use super::sample;
use crate::scenario::of_its_time;
use crate::wanted::{UNWANTED, Wanted};
use extant_block::{Clock, MemoryDevice, RealClock, ShortLock, Task};
use extant_engine::mkfs::{self, FormatOptions, Identity, default_wishes};
use extant_engine::{Access, DataKeeping, Filesystem, Options, cache_for_blocks};
use extant_format::layout::Inodes;
use extant_sim::clock::{Settings, VirtualClock};
use extant_sim::drive::file::DriveSpec;
use extant_sim::random::Random;
use std::collections::VecDeque;
use std::sync::Arc;

/// Memory of the machine on which the volume lives: for metadata, and as much again for files.
const MEMORY_BYTES: usize = 128 << 20;
/// Metadata lies scattered over a large volume: the device keeps pieces of this.
const CHUNK_BYTES: usize = 4096;
/// A month, in days.
pub(super) const MONTH_DAYS: u32 = 30;

/// Who is told what is being done.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// What is measured besides the layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sampling {
    /// Samples are read, written and checked on the simulated drive.
    Drive,
    /// Only where everything is.
    Layout,
}

/// How an experiment runs.
#[derive(Clone)]
pub struct AgeOptions {
    /// Everything random comes from this.
    pub seed: u64,
    /// How large.
    pub form: Form,
    /// In place of the months of the experiment or profile.
    pub months: Option<u32>,
    /// In place of the size of the experiment or profile.
    pub bytes: Option<u64>,
    /// In place of the experiment's drive.
    pub drive: Option<DriveSpec>,
    /// What is measured.
    pub sampling: Sampling,
    /// How many series run at the same time; at least one.
    pub threads: usize,
}

/// What a run gave.
pub struct Aged {
    /// The series.
    pub report: AgeingReport,
    /// The volumes as they are in the end, closed, in the order of the series; none unless they
    /// were asked for.
    pub volumes: Vec<MemoryDevice>,
}

/// Whether volumes are given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// Only the report.
    Report,
    /// The volumes too.
    Volumes,
}

/// What every series of a run shares.
struct Setting {
    profile: Arc<Profile>,
    drive: DriveSpec,
    seed: u64,
    bytes: u64,
    /// Blocks that files cannot have on the volume that leaves them the least: each life has as
    /// much room.
    base_blocks: u64,
    days: u32,
    sampling: Sampling,
    wanted: Wanted,
    tell: Tell,
}

impl Setting {
    fn check_wanted(&self) -> Result<(), AgeingError> {
        match self.wanted.is_wanted() {
            true => Ok(()),
            false => Err(AgeingError::Run(UNWANTED.to_owned())),
        }
    }
}

/// Runs it.
///
/// # Errors
/// One line: what cannot run, or what went wrong first.
pub fn run(
    experiment: &Experiment,
    options: &AgeOptions,
    keep: Keep,
    tell: &Tell,
) -> Result<Aged, AgeingError> {
    run_while(experiment, options, keep, &Wanted::default(), tell)
}

/// The same while it is wanted, which is asked before each day and each measurement.
///
/// # Errors
/// As [`run`], and when it is not wanted any more.
pub fn run_while(
    experiment: &Experiment,
    options: &AgeOptions,
    keep: Keep,
    wanted: &Wanted,
    tell: &Tell,
) -> Result<Aged, AgeingError> {
    let profile = Arc::new(experiment.profile.clone());
    let drive = options.drive.clone().unwrap_or_else(|| experiment.drive.clone());
    let bytes = options.bytes.unwrap_or(match options.form {
        Form::Full => experiment.bytes,
        Form::Quick => experiment.quick_bytes,
    });
    let mut setting = Setting {
        seed: options.seed,
        bytes,
        base_blocks: 0,
        days: options.months.unwrap_or(experiment.months) * MONTH_DAYS,
        sampling: options.sampling,
        wanted: wanted.clone(),
        tell: Arc::clone(tell),
        profile: Arc::clone(&profile),
        drive: drive.clone(),
    };
    for subject in &experiment.subjects {
        let (layout, journal_blocks) =
            doing("planning the volume", mkfs::plan(&format_options(&setting, subject)))?;
        let blocks = layout.overhead_blocks().saturating_add(journal_blocks.into());
        setting.base_blocks = setting.base_blocks.max(blocks);
    }
    let setting = Arc::new(setting);
    let facts = ProfileFacts { name: profile.name.clone(), line: profile.line.clone() };
    let mut report =
        AgeingReport::new(&experiment.name, &experiment.line, facts, options.seed, options.form);
    report.drive = drive.name.clone();
    report.volume_bytes = bytes;
    report.sample_days = profile.sample_days;
    let mut volumes = Vec::new();
    for aged in all(&setting, &experiment.subjects, options.threads) {
        let (series, volume) = aged?;
        report.series.push(series);
        volumes.extend(Some(volume).filter(|_| keep == Keep::Volumes));
    }
    report.list_metrics();
    Ok(Aged { report, volumes })
}

type Outcome = Result<(Series, MemoryDevice), AgeingError>;

/// All series, several at the same time, in their order.
fn all(setting: &Arc<Setting>, subjects: &[Subject], threads: usize) -> Vec<Outcome> {
    let waiting: VecDeque<(usize, Subject)> = subjects.iter().cloned().enumerate().collect();
    let queue = Arc::new(ShortLock::new(waiting));
    let slots: Arc<ShortLock<Vec<Option<Outcome>>>> =
        Arc::new(ShortLock::new(subjects.iter().map(|_| None).collect()));
    let clock = RealClock::new();
    let worker = |_| {
        let (setting, queue, slots) = (Arc::clone(setting), Arc::clone(&queue), Arc::clone(&slots));
        let work = move || {
            loop {
                let next = queue.lock().pop_front();
                let Some((at, subject)) = next else { return };
                let outcome = series(&setting, &subject);
                slots.lock()[at] = Some(outcome);
            }
        };
        clock.spawn("ageing", Box::new(work))
    };
    let tasks: Vec<Task> = (0..threads.clamp(1, subjects.len().max(1))).map(worker).collect();
    tasks.into_iter().for_each(Task::join);
    let mut slots = slots.lock();
    slots.drain(..).flatten().collect()
}

/// What the volume is told by: the seed decides it.
fn identity(seed: u64) -> Identity {
    let mut random = Random::for_part(seed, "volume");
    let hash_seed = std::array::from_fn(|_| random.next_u64() as u32);
    let mut uuid = [0; 16];
    for piece in uuid.chunks_mut(8) {
        piece.copy_from_slice(&random.next_u64().to_be_bytes());
    }
    // A random UUID of RFC 4122.
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    // The first second of 2001, as everywhere in the laboratory.
    Identity { uuid, hash_seed, created_seconds: 978_307_200 }
}

/// The volume that mke2fs of the preset's time makes of the profile's wishes.
fn format_options(setting: &Setting, subject: &Subject) -> FormatOptions {
    let (profile, bytes) = (&setting.profile, setting.bytes);
    let wishes_of = &profile.volume;
    let kind = subject.volume.unwrap_or(wishes_of.kind);
    let identity = identity(setting.seed);
    let mut wishes = default_wishes(kind, bytes, Some(wishes_of.block_bytes), identity);
    wishes.blocks = bytes / u64::from(wishes_of.block_bytes);
    of_its_time(&mut wishes, kind, subject.setup.preset());
    if let Some(ratio) = wishes_of.bytes_per_inode {
        wishes.inodes = Inodes::AtLeast((bytes / u64::from(ratio)).clamp(16, u32::MAX.into()));
    }
    FormatOptions::new(wishes)
}

/// A volume under some policies, from the beginning to the end.
fn series(setting: &Arc<Setting>, subject: &Subject) -> Outcome {
    let clock = VirtualClock::new(Settings::default());
    let seam: Arc<dyn Clock> = Arc::clone(&clock) as Arc<dyn Clock>;
    let device = Arc::new(MemoryDevice::with_chunks(seam, setting.bytes, CHUNK_BYTES));
    let format = format_options(setting, subject);
    let (blocks, block_bytes) = (format.wishes.blocks, format.wishes.block_size);
    let mut stage = Stage { clock, device, setting: Arc::clone(setting), subject: subject.clone() };
    let device = Arc::clone(&stage.device);
    let policies = subject.setup.policies.clone();
    stage.on_clock(move || doing("making the volume", mkfs::format(device, &format, &policies)))?;
    let place = VolumePlace {
        blocks,
        block_bytes,
        base_blocks: setting.base_blocks,
        into: String::new(),
        others: Others::None,
    };
    let life = Life::new(Arc::clone(&setting.profile), &place, setting.seed);
    let mut series =
        Series { name: subject.name.clone(), policies: subject.words.clone(), ..Series::default() };
    let mut life = stage.live(life, None)?;
    series.samples.push(stage.sample(&life)?);
    let mut day = 0;
    while day < setting.days {
        let next = (day + setting.profile.sample_days).min(setting.days);
        life = stage.live(life, Some(day..next))?;
        day = next;
        series.samples.push(stage.sample(&life)?);
    }
    series.refused = life.tally.refused;
    Ok((series, stage.device.snapshot()))
}

/// A volume with its clock.
struct Stage {
    clock: Arc<VirtualClock>,
    device: Arc<MemoryDevice>,
    setting: Arc<Setting>,
    subject: Subject,
}

impl Stage {
    /// Does something as a process of the clock.
    fn on_clock<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> Result<T, AgeingError> + Send + 'static,
    ) -> Result<T, AgeingError> {
        let ran = self.clock.run("ageing", work);
        ran.unwrap_or_else(|error| Err(AgeingError::Run(error.to_string())))
    }

    /// Opens the volume, fills it or lives some days, and closes it.
    fn live(
        &mut self,
        mut life: Life,
        days: Option<std::ops::Range<u32>>,
    ) -> Result<Life, AgeingError> {
        let (device, setting, subject) =
            (Arc::clone(&self.device), Arc::clone(&self.setting), self.subject.clone());
        let options = Options {
            access: Access::ReadWrite,
            policies: subject.setup.policies.clone(),
            cache_bytes: cache_for_blocks(MEMORY_BYTES),
            data: DataKeeping::Phantom,
        };
        self.on_clock(move || {
            let filesystem = doing("opening the volume", Filesystem::open(device, &options))?;
            match days {
                None => {
                    (setting.tell)(&format!("{}: filling", subject.name));
                    doing("filling the volume", life.fill(&filesystem))?;
                }
                Some(days) => {
                    for day in days {
                        setting.check_wanted()?;
                        (setting.tell)(&format!(
                            "{}: day {} of {}",
                            subject.name,
                            day + 1,
                            setting.days
                        ));
                        doing("ageing the volume", life.day(&filesystem))?;
                    }
                }
            }
            doing("closing the volume", filesystem.close())?;
            Ok(life)
        })
    }

    fn sample(&self, life: &Life) -> Result<Sample, AgeingError> {
        let setting = &self.setting;
        setting.check_wanted()?;
        // A clock of its own: nothing waits.
        let contents = Arc::new(self.device.snapshot());
        let mut sample = sample::layout(contents)?;
        sample.day = (life.millidays / 1000) as u32;
        sample.month = sample.day / MONTH_DAYS;
        sample.operations = life.tally.operations;
        if setting.sampling == Sampling::Drive {
            (setting.tell)(&format!("{}: measuring month {}", self.subject.name, sample.month));
            let bench = Bench {
                drive: setting.drive.clone(),
                setup: self.subject.setup.clone(),
                seed: setting.seed,
            };
            let plan = FilesToRead::new(&life.colonies, setting.seed, setting.bytes / LARGEST_PART);
            measure(&bench, &self.device, &plan, &mut sample)?;
        }
        Ok(sample)
    }
}
