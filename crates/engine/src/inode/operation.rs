//! One operation on inodes and names: a handle together with the volume that it changes.
use crate::error::Result;
use crate::inode::shares::{Account, Counted, Share, counted};
use crate::inode::volume::Volume;
use crate::store::handle::Handle;
use extant_format::Ino;
use extant_format::inode::Inode;
use extant_format::superblock::Feature;
use std::ops::Deref;

/// A handle, and the volume with the layers above the store.
pub(crate) struct Operation<'v> {
    handle: Handle<'v>,
    volume: &'v Volume,
}

/// The quota files of a volume, in which operations count. They are inodes, so what reads and
/// changes them is above operations.
pub(crate) trait QuotaFiles: Send + Sync {
    /// Makes sure that a user, a group and a project have entries.
    ///
    /// # Errors
    /// `NoSpace`: nothing has changed then. What the device returns.
    fn prepare(&self, operation: &Operation<'_>, ids: [u32; 3]) -> Result<()>;

    /// Takes away what was counted, and adds what is.
    ///
    /// # Errors
    /// `NoSpace` for an owner without an entry: nothing has changed then. What the device returns.
    fn change(&self, operation: &Operation<'_>, before: &Counted, after: &Counted) -> Result<()>;
}

/// What [`Volume::quotas`] holds.
type Slot = Box<dyn QuotaFiles>;

/// Has every operation on a volume count in these files.
pub(crate) fn count_in(volume: &mut Volume, files: Box<dyn QuotaFiles>) {
    volume.quotas = Some(Box::new(files));
}

impl Volume {
    /// Runs an operation that changes at most `credits` blocks of metadata. See
    /// [`Store::change`](crate::store::Store::change).
    ///
    /// # Errors
    /// `ReadOnly`; what closed the latch; the operation's own.
    pub(crate) fn change<T>(
        &self,
        credits: u32,
        work: impl FnOnce(&Operation<'_>) -> Result<T>,
    ) -> Result<T> {
        let operation = Operation::begin(self, credits)?;
        let outcome = work(&operation);
        operation.end(outcome)
    }
}

impl<'v> Operation<'v> {
    /// Makes sure that a user, a group and a project have entries in the quota files, before the
    /// operation changes anything that they are needed for.
    ///
    /// # Errors
    /// As [`QuotaFiles::prepare`].
    pub(crate) fn prepare_quotas(&self, ids: [u32; 3]) -> Result<()> {
        self.quotas().map_or(Ok(()), |quotas| quotas.prepare(self, ids))
    }

    /// Counts an inode that is about to be stored as it is now; `before` is what it counted for.
    ///
    /// # Errors
    /// As [`QuotaFiles::change`].
    pub(crate) fn count(&self, ino: Ino, inode: &Inode, before: &mut Counted) -> Result<()> {
        let Some(quotas) = self.quotas() else { return Ok(()) };
        let share = |counted: &Counted| counted.as_deref().map(|account| account.share);
        if share(before) == Some(Share::Ended) {
            return Ok(());
        }
        let values = before.as_deref().and_then(|account| account.values);
        let now = counted(self.volume, ino, inode, values);
        if share(before) != share(&now) {
            quotas.change(self, before, &now)?;
            *before = now;
        }
        Ok(())
    }

    /// Counts an inode no more, which is being freed.
    ///
    /// # Errors
    /// What the device returns.
    pub(crate) fn end_count(&self, before: &mut Counted) -> Result<()> {
        let Some(quotas) = self.quotas() else { return Ok(()) };
        if before.is_some() {
            quotas.change(self, before, &None)?;
        }
        *before = Some(Box::new(Account { share: Share::Ended, values: None }));
        Ok(())
    }

    fn quotas(&self) -> Option<&dyn QuotaFiles> {
        let slot = self.volume.quotas.as_ref()?.downcast_ref::<Slot>();
        assert!(slot.is_some(), "only count_in fills the slot");
        slot.map(|files| &**files)
    }

    /// Begins an operation that changes at most `credits` blocks of metadata.
    ///
    /// # Errors
    /// `ReadOnly`; what closed the latch.
    pub(crate) fn begin(volume: &'v Volume, credits: u32) -> Result<Operation<'v>> {
        loop {
            if let Some(handle) = Handle::try_begin(&volume.store, credits)? {
                return Ok(Operation { handle, volume });
            }
            volume.space.write_metadata()?;
        }
    }

    /// Begins the next step of an operation, which changes at most `credits` blocks from here on.
    /// Lets a waiting sweep or commit freeze what was changed so far, and commits a transaction
    /// that is full; then `consistent` first stores what the operation has only in memory, so that
    /// the frozen state is valid on its own.
    ///
    /// # Errors
    /// Those of `consistent`; those of a commit.
    pub(crate) fn breathe(
        &self,
        credits: u32,
        consistent: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if !self.handle.should_pause() {
            self.handle.need(credits);
            return Ok(());
        }
        consistent()?;
        self.handle.pause();
        while !self.handle.try_resume(credits) {
            self.volume.space.write_metadata()?;
        }
        Ok(())
    }

    /// As [`Operation::breathe`], where a journal records one step after the other. Otherwise the
    /// steps stay together: a sweep in stages may write an inode that is half freed before the
    /// directory that has lost its name.
    ///
    /// # Errors
    /// As for `breathe`.
    pub(crate) fn next_step(
        &self,
        credits: u32,
        consistent: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if self.works_in_steps() {
            return self.breathe(credits, consistent);
        }
        self.handle.need(credits);
        Ok(())
    }

    /// Whether long work has to be cut into steps of a bounded number of blocks: it goes through a
    /// journal.
    pub(crate) fn works_in_steps(&self) -> bool {
        #[cfg(any(test, feature = "testing"))]
        if crate::store::handle::watch::is_watched() {
            return true;
        }
        self.volume.store.journals()
    }

    /// Ends the operation with this outcome.
    ///
    /// # Errors
    /// The error of `outcome`.
    pub(crate) fn end<T>(self, outcome: Result<T>) -> Result<T> {
        self.handle.end(outcome)
    }

    /// Notes a file's new size in bytes: 2 GiB and more need a feature flag of the volume.
    pub(crate) fn note_size(&self, size: u64) {
        if size > i32::MAX as u64 && !self.volume.store.superblock.has(Feature::LARGE_FILE) {
            self.change_superblock(|changes| changes.large_file = true);
        }
    }

    /// The volume that it changes.
    pub(crate) fn volume(&self) -> &'v Volume {
        self.volume
    }
}

impl<'v> Deref for Operation<'v> {
    type Target = Handle<'v>;
    fn deref(&self) -> &Handle<'v> {
        &self.handle
    }
}
