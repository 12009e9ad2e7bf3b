//! Ageing a real image in place: the same life as in the laboratory, with bytes, for those who need
//! an aged volume.
//!
//! *Invariants*: the same image, profile and seed give the same bytes: nothing depends on the
//! host's time. What is on the image already is never touched.
//! *Locking*: none.
use super::error::{AgeingError, doing};
use super::life::{Life, Others, Tally, VolumePlace};
use super::profile::Profile;
use super::run::Tell;
use extant_block::{BlockDevice, Clock, RealClock, Task, Unparked, Waker, WallTime};
use extant_engine::preset::Policies;
use extant_engine::{Access, DataKeeping, Filesystem, Options, cache_for_blocks};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

const DAY_SECONDS: i64 = 86_400;

/// The host's time for waiting; the time of day is set by the caller.
pub struct DatedClock {
    host: Arc<RealClock>,
    seconds: AtomicI64,
}

impl DatedClock {
    /// At that time of day, in seconds since 1970, until it is set again.
    pub fn new(seconds: i64) -> Arc<DatedClock> {
        Arc::new(DatedClock { host: RealClock::new(), seconds: AtomicI64::new(seconds) })
    }

    /// Sets the time of day.
    pub fn set(&self, seconds: i64) {
        self.seconds.store(seconds, Ordering::Relaxed);
    }
}

impl Clock for DatedClock {
    fn now(&self) -> u64 {
        self.host.now()
    }

    fn wall(&self) -> WallTime {
        WallTime { seconds: self.seconds.load(Ordering::Relaxed), nanoseconds: 0 }
    }

    fn waker(&self) -> Waker {
        self.host.waker()
    }

    fn park(&self, deadline: Option<u64>) -> Unparked {
        self.host.park(deadline)
    }

    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> Task {
        self.host.spawn(name, body)
    }

    fn charge(&self, cpu_ns: u64) {
        self.host.charge(cpu_ns);
    }
}

/// How an image is aged.
#[derive(Clone)]
pub struct ImageOptions {
    /// What it is used for.
    pub profile: Profile,
    /// For this many days; 0 only fills it.
    pub days: u32,
    /// Everything random comes from this.
    pub seed: u64,
    /// In place of the profile's, from the first day on: used blocks of all, in millionths.
    pub target_utilisation_ppm: Option<u32>,
    /// The directory in which all that is made lies; "" for the root.
    pub into: String,
    /// Where things go. Their throttle should be `inline`: a flusher knows the host's time.
    pub policies: Policies,
    /// Memory for metadata, and as much again for files, in bytes.
    pub cache_bytes: usize,
    /// What the inodes say of the last day, in seconds since 1970.
    pub end_seconds: i64,
}

/// What became of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImageAged {
    /// What was done.
    pub tally: Tally,
    /// Files that are left of those that were made.
    pub files: u64,
    /// Used blocks of all, in millionths, in the end.
    pub utilisation_ppm: u32,
}

/// Ages the volume on a device whose clock this is.
///
/// # Errors
/// What the engine answers: a volume that cannot be opened for writing, names of the profile that
/// are there already, the device's. The volume is closed all the same: it is as far as it got, and
/// sound unless the device failed.
pub fn age_image(
    device: Arc<dyn BlockDevice>,
    clock: &DatedClock,
    options: &ImageOptions,
    tell: &Tell,
) -> Result<ImageAged, AgeingError> {
    let mut profile = options.profile.clone();
    if let Some(target) = options.target_utilisation_ppm {
        profile.utilisation.target_ppm = target;
        profile.utilisation.start_ppm = profile.utilisation.start_ppm.min(target);
        profile.utilisation.after_days = profile.utilisation.after_days.min(options.days / 2);
    }
    let open = Options {
        access: Access::ReadWrite,
        // A journal commits by the clock of the machine, and an image that is aged is to be the
        // same each time.
        policies: options.policies.clone().without_journal(),
        cache_bytes: cache_for_blocks(options.cache_bytes),
        data: DataKeeping::Bytes,
    };
    let dated = |day: u32| {
        clock.set((options.end_seconds - i64::from(options.days - day) * DAY_SECONDS).max(1))
    };
    dated(0);
    let filesystem = doing("opening the volume", Filesystem::open(device, &open))?;
    let room = filesystem.statfs();
    let place = VolumePlace {
        blocks: room.blocks,
        block_bytes: room.block_size,
        base_blocks: room.blocks.saturating_sub(room.free_blocks),
        into: options.into.clone(),
        others: Others::Perhaps,
    };
    let mut life = Life::new(Arc::new(profile), &place, options.seed);
    let lived = live(&filesystem, &mut life, options, &mut |day| {
        dated(day);
        match day {
            0 => tell("filling"),
            day => tell(&format!("day {day} of {}", options.days)),
        }
    });
    let room = filesystem.statfs();
    let used = room.blocks.saturating_sub(room.free_blocks);
    // Also behind a failure: what was done so far is whole, unless the device failed, and then this
    // does too.
    let closed = doing("closing the volume", filesystem.close());
    lived.and(closed)?;
    Ok(ImageAged {
        tally: life.tally,
        files: life.colonies.iter().map(|colony| colony.living.len() as u64).sum(),
        utilisation_ppm: super::sample::parts(used, room.blocks, 1_000_000) as u32,
    })
}

fn live(
    filesystem: &Filesystem,
    life: &mut Life,
    options: &ImageOptions,
    begin: &mut dyn FnMut(u32),
) -> Result<(), AgeingError> {
    begin(0);
    doing("filling the volume", life.fill(filesystem))?;
    for day in 1..=options.days {
        begin(day);
        doing("ageing the volume", life.day(filesystem))?;
    }
    Ok(())
}
