//! The hold on a volume that several machines may reach (feature mmp): one of them writes it.
//!
//! ```text
//! take      in use by a checker: refused
//!           in use otherwise: the block is watched for the time that its machine may take between
//!             two writes; refused if it changes
//!           our sequence number is written, and still there when it is read again
//! refresh   every interval: still ours, or nothing is written any more; the next number
//! release   still ours: nobody has the volume
//! ```
//!
//! Numbers are drawn of the volume, the time and the machine's name. Where nobody had the volume
//! the block is read again after a second: Linux writes its number at once there.
//!
//! *Invariants*: the block is written only by who has seen that its number is his, or that nobody's
//! is. It has a thread of its own, since a commit may take longer than the others wait for it.
//! *Locking*: `state` is held by who reads or writes the block, `ended` for a moment.
use crate::error::{Error, ErrorKind, HeldBy, MountHolder, Place, Result};
use crate::latch::Latch;
use crate::ranks;
use extant_block::{BlockDevice, ShortLock, SleepLock, Task, WaitQueue};
use extant_format::checksum::crc32c;
use extant_format::mount_block::{
    self, MOUNT_BLOCK_SIZE, NewMountBlock, StoredMountBlock, first_sequence, next_sequence,
};
use extant_format::superblock::{Feature, Superblock};
use std::sync::{Arc, OnceLock};

const SECOND_NS: u64 = 1_000_000_000;
/// The shortest time for which a block is watched is twice this, and the longest, in seconds.
const INTERVAL_SECONDS: std::ops::RangeInclusive<u16> = 5..=300;

/// The hold on one volume. Dropped without a release, it stays on the disk, as after a power cut.
pub struct MountHold {
    shared: Arc<Shared>,
    task: ShortLock<Option<Task>>,
}

struct Shared {
    device: Arc<dyn BlockDevice>,
    superblock: Superblock,
    /// Where the block is, in bytes.
    place: u64,
    state: SleepLock<State>,
    ended: ShortLock<bool>,
    queue: WaitQueue,
    latch: OnceLock<Arc<Latch>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It is ours, with this number.
    Held(u32),
    /// It was given back, or is another machine's.
    Over,
}

impl MountHold {
    /// Takes the volume on a device, and keeps it until it is released; `None` for one without the
    /// feature. Waits as long as its mount block asks for.
    ///
    /// # Errors
    /// `Held`; `Corrupt` for a mount block that is none; what the device returns.
    pub fn take(
        device: &Arc<dyn BlockDevice>,
        superblock: &Superblock,
    ) -> Result<Option<MountHold>> {
        if !superblock.has(Feature::MMP) {
            return Ok(None);
        }
        let clock = device.clock();
        let shared = Shared {
            place: place(superblock)?,
            device: Arc::clone(device),
            superblock: superblock.clone(),
            state: SleepLock::new(Arc::clone(clock), State::Over).ranked(ranks::FLUSHING),
            ended: ShortLock::ranked(ranks::LAST, false),
            queue: WaitQueue::new(Arc::clone(clock)),
            latch: OnceLock::new(),
        };
        let found = shared.read()?;
        let interval = shared.watched_seconds(&found);
        let watch_seconds = (2 * interval + 1).min(interval + 60);
        let mut confirm_seconds = 1;
        if StoredMountBlock::new(&found).is_held() {
            confirm_seconds = match shared.watch(&found, watch_seconds)? {
                Watched::Released => 1,
                Watched::Still => watch_seconds,
            };
        }
        let sequence = shared.draw();
        shared.write(sequence)?;
        *shared.state.lock() = State::Held(sequence);
        shared.sleep(confirm_seconds);
        shared.confirm()?;
        let shared = Arc::new(shared);
        let theirs = Arc::clone(&shared);
        let body = Box::new(move || theirs.keep());
        let task = match clock.try_spawn("mount block", body) {
            Ok(task) => task,
            Err(error) => {
                shared.release()?;
                return Err(ErrorKind::Device(error).into());
            }
        };
        Ok(Some(MountHold { shared, task: ShortLock::ranked(ranks::LAST, Some(task)) }))
    }

    /// Has this latch closed when another machine takes the volume.
    pub fn closes(&self, latch: &Arc<Latch>) {
        let _ = self.shared.latch.set(Arc::clone(latch));
    }

    /// Fails unless the volume is still ours, as the device says now.
    ///
    /// # Errors
    /// `Held`, `Corrupt`; what the device returns.
    pub fn confirm(&self) -> Result<()> {
        self.shared.confirm()
    }

    /// Gives the volume back: no machine has it. A second time does nothing.
    ///
    /// # Errors
    /// As [`MountHold::confirm`]; then nothing is written.
    pub fn release(&self) -> Result<()> {
        self.end();
        let task = self.task.lock().take();
        if let Some(task) = task {
            task.join();
        }
        self.shared.release()
    }

    fn end(&self) {
        *self.shared.ended.lock() = true;
        self.shared.queue.wake_all();
    }
}

impl Drop for MountHold {
    fn drop(&mut self) {
        self.end();
    }
}

/// Where the mount block is, in bytes.
fn place(superblock: &Superblock) -> Result<u64> {
    let block = superblock.mount_block();
    let is_there = block.0 > superblock.first_data_block.into()
        && block.0 < superblock.blocks_count
        && superblock.block_size() as usize >= MOUNT_BLOCK_SIZE;
    let place = block.0.checked_mul(superblock.block_size().into());
    place.filter(|_| is_there).ok_or_else(|| {
        let reason = "none that can be the mount block: run e2fsck";
        Error::field(Place::Superblock, "superblock", "mount block", block.0, reason)
    })
}

/// What became of a block that was watched.
enum Watched {
    /// Its machine has given the volume back.
    Released,
    /// It is as it was: its machine has ended without that.
    Still,
}

impl Shared {
    /// The block as it is on the device now.
    fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; MOUNT_BLOCK_SIZE];
        self.device.read_anew(self.place, &mut bytes)?;
        if !StoredMountBlock::new(&bytes).is_sound(&self.superblock) {
            let reason = "that of no mount block, or its checksum is wrong: run e2fsck";
            let block = self.superblock.mount_block();
            let place = Place::Block(block);
            return Err(Error::field(place, "mount block", "content", block.0, reason));
        }
        Ok(bytes)
    }

    /// Writes the block, durably: the volume is ours.
    fn write(&self, sequence: u32) -> Result<()> {
        let mut bytes = self.read()?;
        let wall = self.device.clock().wall().seconds;
        let interval_seconds = self.watched_seconds(&bytes) as u16;
        let name = self.device.info().name;
        let new = NewMountBlock {
            seconds: wall.max(0).cast_unsigned(),
            node_name: &node_name(),
            device_name: name.as_bytes(),
            interval_seconds,
        };
        mount_block::hold(&mut bytes, sequence, &new, &self.superblock);
        self.store(&bytes)
    }

    fn store(&self, bytes: &[u8]) -> Result<()> {
        assert!(StoredMountBlock::new(bytes).is_sound(&self.superblock), "what is written is read");
        assert!(self.place > 1024, "the superblock is not overwritten");
        Ok(self.device.write_durable(self.place, bytes)?)
    }

    /// The interval by which others watch the block, in seconds.
    fn watched_seconds(&self, bytes: &[u8]) -> u64 {
        let (least, most) = (*INTERVAL_SECONDS.start(), *INTERVAL_SECONDS.end());
        let stored = StoredMountBlock::new(bytes).interval_seconds();
        stored.max(self.superblock.mount_interval_seconds()).clamp(least, most).into()
    }

    /// Watches a block that says that another machine has the volume.
    ///
    /// # Errors
    /// `Held` if it has; as for `read`.
    fn watch(&self, found: &[u8], seconds: u64) -> Result<Watched> {
        let first = StoredMountBlock::new(found);
        if first.is_held_by_checker() {
            return Err(self.held(found));
        }
        for _ in 0..seconds {
            self.sleep(1);
            let now = self.read()?;
            let stored = StoredMountBlock::new(&now);
            if !stored.is_held() {
                return Ok(Watched::Released);
            }
            if stored.sequence() != first.sequence() {
                return Err(self.held(&now));
            }
        }
        Ok(Watched::Still)
    }

    /// The error that names who has the volume.
    fn held(&self, bytes: &[u8]) -> Error {
        let stored = StoredMountBlock::new(bytes);
        let now = self.device.clock().wall().seconds.max(0).cast_unsigned();
        let text = |name: &[u8]| match name {
            [] => "(without a name)".to_owned(),
            name => name.escape_ascii().to_string(),
        };
        let by = match stored.is_held_by_checker() {
            true => HeldBy::Checker,
            false => HeldBy::Mount,
        };
        ErrorKind::Held(Box::new(MountHolder {
            node: text(stored.node_name()),
            device: text(stored.device_name()),
            ago_seconds: now.saturating_sub(stored.seconds()),
            by,
        }))
        .into()
    }

    /// A number that another machine hardly draws at the same time.
    fn draw(&self) -> u32 {
        let clock = self.device.clock();
        let wall = clock.wall();
        let mut sum = crc32c(self.superblock.checksum_seed, &node_name());
        for number in [wall.seconds.cast_unsigned(), wall.nanoseconds.into(), clock.now()] {
            sum = crc32c(sum, &number.to_le_bytes());
        }
        first_sequence(sum)
    }

    fn sleep(&self, seconds: u64) {
        let clock = self.device.clock();
        let end = clock.now().saturating_add(seconds.saturating_mul(SECOND_NS));
        while clock.now() < end {
            clock.park(Some(end));
        }
    }

    fn confirm(&self) -> Result<()> {
        self.confirmed(*self.state.lock()).map(drop)
    }

    /// The block, which has our number.
    fn confirmed(&self, state: State) -> Result<Vec<u8>> {
        let bytes = self.read()?;
        match state {
            State::Held(sequence) if StoredMountBlock::new(&bytes).sequence() == sequence => {
                Ok(bytes)
            }
            _ => Err(self.held(&bytes)),
        }
    }

    fn refresh(&self) -> Result<()> {
        let mut state = self.state.lock();
        let State::Held(sequence) = *state else { return Ok(()) };
        let refreshed = self.confirmed(*state).and_then(|_| {
            let next = next_sequence(sequence);
            self.write(next).map(|()| next)
        });
        *state = refreshed.as_ref().map_or(State::Over, |next| State::Held(*next));
        refreshed.map(drop)
    }

    fn release(&self) -> Result<()> {
        let mut state = self.state.lock();
        if *state == State::Over {
            return Ok(());
        }
        let confirmed = self.confirmed(*state);
        *state = State::Over;
        let mut bytes = confirmed?;
        mount_block::release(&mut bytes, &self.superblock);
        self.store(&bytes)
    }

    /// Refreshes the block until the hold ends, or is lost.
    fn keep(&self) {
        let seconds = self.superblock.mount_interval_seconds();
        let seconds = if seconds == 0 { *INTERVAL_SECONDS.start() } else { seconds };
        let interval = u64::from(seconds.min(*INTERVAL_SECONDS.end())) * SECOND_NS;
        loop {
            let deadline = self.device.clock().now().saturating_add(interval);
            let ended = |ended: &mut bool| ended.then_some(());
            if self.queue.wait_until_deadline(&self.ended, deadline, ended).is_some() {
                return;
            }
            if let Err(error) = self.refresh() {
                if let Some(latch) = self.latch.get() {
                    latch.close(Some(&error));
                }
                return;
            }
        }
    }
}

/// What this machine is called.
fn node_name() -> Vec<u8> {
    let name = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim_ascii().to_vec()
}
