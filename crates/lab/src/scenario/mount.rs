//! A file system of a run: opened, used by processes step by step, closed and opened again.
//!
//! *Invariants*: `users` counts the steps that hold a clone of the file system; it is closed only
//! when there is no other than the one that closes it, but for a power cut, which waits for them.
//! What was opened before a power cut reaches the drive no more.
//! *Locking*: `state` is short, and waited for with `left`; nothing is called with it held.
use super::Data;
use super::partition::Cable;
use crate::figures::layout;
use crate::report::{LayoutFigures, LayoutRecord};
use extant_block::{BlockDevice, FileDevice, ShortLock, WaitQueue};
use extant_engine::preset::{Journal, Policies};
use extant_engine::throttle::DirtyBudget;
use extant_engine::{Access, DataKeeping, Filesystem, JournalCounts, Options, cache_for_blocks};
use extant_inspect::{LayoutMap, SuperblockPlace};
use std::sync::Arc;

/// A file system of a run.
pub(super) struct Mount {
    /// Number of its drive.
    pub(super) drive: usize,
    /// Its part of the drive.
    pub(super) device: Arc<dyn BlockDevice>,
    /// The same, without waiting for the drive.
    pub(super) contents: Arc<dyn BlockDevice>,
    /// The host's own file or device, if that is the drive.
    host: Option<Arc<FileDevice>>,
    access: Access,
    memory_bytes: u64,
    data: Data,
    /// What is dirty on all file systems of the run.
    budget: Option<Arc<DirtyBudget>>,
    state: ShortLock<MountState>,
    /// A step has ended that used it.
    left: WaitQueue,
}

struct MountState {
    filesystem: Option<Filesystem>,
    /// How the open file system reaches the drive.
    cable: Option<Arc<Cable>>,
    policies: Policies,
    users: u32,
    /// What went through its journal before it was closed last.
    journal: Option<JournalCounts>,
    layouts: Vec<LayoutRecord>,
    /// A map of each, under its name; `None` when they are not drawn.
    maps: Option<Vec<(String, LayoutMap)>>,
}

/// A file system in use by a step.
pub(super) struct InUse<'a> {
    mount: &'a Mount,
    pub(super) filesystem: Filesystem,
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.mount.state.lock().users -= 1;
        self.mount.left.wake_all();
    }
}

/// What a file system of a run is made of.
pub(super) struct FilesystemParts {
    pub(super) drive: usize,
    pub(super) device: Arc<dyn BlockDevice>,
    pub(super) contents: Arc<dyn BlockDevice>,
    pub(super) host: Option<Arc<FileDevice>>,
    pub(super) access: Access,
    pub(super) memory_bytes: u64,
    pub(super) data: Data,
    pub(super) policies: Policies,
    pub(super) budget: Option<Arc<DirtyBudget>>,
}

impl Mount {
    /// A file system that is not open yet.
    pub(super) fn new(parts: FilesystemParts) -> Mount {
        let state = MountState {
            filesystem: None,
            cable: None,
            policies: parts.policies,
            users: 0,
            journal: None,
            layouts: Vec::new(),
            maps: None,
        };
        Mount {
            left: WaitQueue::new(Arc::clone(parts.device.clock())),
            drive: parts.drive,
            device: parts.device,
            contents: parts.contents,
            host: parts.host,
            access: parts.access,
            memory_bytes: parts.memory_bytes,
            data: parts.data,
            budget: parts.budget,
            state: ShortLock::new(state),
        }
    }

    /// Opens it.
    pub(super) fn open(&self) -> Result<(), String> {
        let cable = Arc::new(Cable::new(Arc::clone(&self.device)));
        let device = Arc::clone(&cable) as Arc<dyn BlockDevice>;
        let policies = self.state.lock().policies.clone();
        let filesystem = self.open_on(&device, policies, self.budget.as_ref())?;
        let mut state = self.state.lock();
        (state.filesystem, state.cable) = (Some(filesystem), Some(cable));
        Ok(())
    }

    /// Whether it is open.
    pub(super) fn is_open(&self) -> bool {
        self.state.lock().filesystem.is_some()
    }

    /// Its drive has no power: waits until no step uses it, and closes it with nothing written.
    pub(super) fn lose_power(&self) {
        let (filesystem, cable) = {
            let mut state = self.state.lock();
            (state.filesystem.take(), state.cable.take())
        };
        if let Some(cable) = cable {
            cable.pull();
        }
        self.left.wait_until(&self.state, |state| (state.users == 0).then_some(()));
        // That it cannot be closed is what a cut means.
        drop(filesystem.map(|filesystem| self.end(filesystem)));
    }

    /// Does something with it, mounted where it takes no time of the drive; if it is open, it is
    /// closed before and opened afterwards.
    pub(super) fn at_once<T>(
        &self,
        work: impl FnOnce(&Filesystem) -> Result<T, String>,
    ) -> Result<T, String> {
        let was_open = self.is_open();
        self.close()?;
        // What is written at no cost says nothing of how fast a drive is: it counts by itself, and
        // nothing of it goes through a journal.
        let mut policies = self.state.lock().policies.clone();
        policies.journal = Journal::None;
        let filesystem = self.open_on(&self.contents, policies, None)?;
        let done = work(&filesystem);
        filesystem.close().map_err(|error| error.to_string())?;
        let done = done?;
        if was_open {
            self.open()?;
        }
        Ok(done)
    }

    fn open_on(
        &self,
        device: &Arc<dyn BlockDevice>,
        policies: Policies,
        budget: Option<&Arc<DirtyBudget>>,
    ) -> Result<Filesystem, String> {
        let options = Options {
            access: self.access,
            policies,
            cache_bytes: cache_for_blocks(usize::try_from(self.memory_bytes).unwrap_or(usize::MAX)),
            data: match self.data {
                Data::Phantom => DataKeeping::Phantom,
                Data::Bytes => DataKeeping::Bytes,
            },
        };
        let device = Arc::clone(device);
        let opened = match budget {
            Some(budget) => Filesystem::open_within(device, &options, budget, self.drive as u32),
            None => Filesystem::open(device, &options),
        };
        opened.map_err(|error| error.to_string())
    }

    /// For a step.
    pub(super) fn enter(&self) -> Result<InUse<'_>, String> {
        let mut state = self.state.lock();
        let filesystem = state.filesystem.clone().ok_or("the file system is not open")?;
        state.users += 1;
        Ok(InUse { mount: self, filesystem })
    }

    /// Writes everything and closes it.
    pub(super) fn close(&self) -> Result<(), String> {
        let mut state = self.state.lock();
        if state.users > 0 {
            let users = state.users;
            return Err(format!(
                "the file system is in use by {users} other processes and cannot be closed"
            ));
        }
        let filesystem = state.filesystem.take();
        drop(state);
        match filesystem {
            Some(filesystem) => self.end(filesystem).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    /// Closes what was open, and adds up what its journal did.
    fn end(&self, filesystem: Filesystem) -> extant_engine::Result<()> {
        let closed = filesystem.clone().close();
        if let Some(counts) = filesystem.journal_counts() {
            let mut state = self.state.lock();
            let before = state.journal.unwrap_or_default();
            state.journal = Some(JournalCounts {
                commits: before.commits + counts.commits,
                log_blocks: before.log_blocks + counts.log_blocks,
                checkpoints: before.checkpoints + counts.checkpoints,
                checkpoint_blocks: before.checkpoint_blocks + counts.checkpoint_blocks,
            });
        }
        closed
    }

    /// What went through its journal, each time that it was open; `None` when it had none. The
    /// file system is closed.
    pub(super) fn journal(&self) -> Option<JournalCounts> {
        self.state.lock().journal
    }

    /// Has the host forget what it remembers of its own file. It is asked, not made to; a device's
    /// pages stay.
    fn forget(&self) -> Result<(), String> {
        let Some(device) = &self.host else { return Ok(()) };
        let file = device.file();
        file.sync_all().map_err(|error| error.to_string())?;
        rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)
            .map_err(|error| error.to_string())
    }

    /// Closes and opens it, with other policies if there are any.
    pub(super) fn reopen(&self, policies: Option<&Policies>) -> Result<(), String> {
        self.close()?;
        self.forget()?;
        if let Some(policies) = policies {
            self.state.lock().policies = policies.clone();
        }
        self.open()
    }

    /// Records where everything is on the device. What is only in memory is not seen.
    pub(super) fn survey(&self, when: &str, at_ns: u64) -> Result<(), String> {
        let failed = |error: extant_inspect::Error| error.to_string();
        let volume =
            extant_inspect::Volume::open(Arc::clone(&self.contents), SuperblockPlace::Primary)
                .map_err(failed)?;
        let layout = extant_inspect::survey(&volume).map_err(failed)?;
        let record =
            LayoutRecord { when: when.to_owned(), at_ns, layout: LayoutFigures::from(&layout) };
        let is_drawn = self.state.lock().maps.is_some();
        let map = match is_drawn {
            true => Some(extant_inspect::layout_map(&volume, layout::FIELDS).map_err(failed)?),
            false => None,
        };
        let mut state = self.state.lock();
        state.layouts.push(record);
        if let (Some(maps), Some(map)) = (&mut state.maps, map) {
            maps.push((when.to_owned(), map));
        }
        Ok(())
    }

    /// From now on, surveys make a map too.
    pub(super) fn draw_layouts(&self) {
        self.state.lock().maps.get_or_insert_default();
    }

    /// The maps that were made.
    pub(super) fn maps(&self) -> Vec<(String, LayoutMap)> {
        self.state.lock().maps.clone().unwrap_or_default()
    }

    /// What was recorded.
    pub(super) fn layouts(&self) -> Vec<LayoutRecord> {
        self.state.lock().layouts.clone()
    }
}
