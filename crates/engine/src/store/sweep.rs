//! A sweep: all metadata that is dirty is frozen together and written.
//!
//! Where data comes first, the gate is closed while it is frozen, so that every operation is in the
//! sweep as a whole or not at all; then it is written stage by stage, each durable before the next:
//!
//! ```text
//! data of files, and    | maps that lead | inode tables, | directories | directories that names
//! blocks that are new   | to more        | bitmaps, ...  |             | were moved out of, and
//! nothing leads to them |                |               |             | maps that lead to less
//! ```
//!
//! So nothing on the disk ever leads to a block, or counts on one, that does not hold yet what it
//! is to hold. A stage that is empty costs no barrier.
//!
//! *Locking*: one sweep at a time; then the gate, which waits for the operations that are open. No
//! operation is open in the thread that sweeps.
use super::Store;
use super::handle::Handle;
use crate::error::Result;
use crate::policy::preset::DataOrder;

impl Store {
    /// Writes all metadata that is dirty, and waits for it and for the files' blocks that were
    /// under way. Before that `late` stores what is kept outside of frames until now; what it gives
    /// is given back.
    ///
    /// # Errors
    /// Those of `late`; the first write error, which latches: what the disk holds is not known.
    pub(crate) fn sweep<T>(&self, late: impl FnOnce(&Handle<'_>) -> Result<T>) -> Result<T> {
        self.check_writable()?;
        match self.policies.data_order {
            DataOrder::DataFirst => self.sweep_in_stages(late),
            DataOrder::Unordered => {
                let stored = late(&Handle::of_sweep(self))?;
                let metadata = self.cache.write_back();
                // A failure of either is reported, whichever it was.
                self.writes.wait().and(metadata)?;
                Ok(stored)
            }
        }
    }

    /// Stores what is kept outside of frames, for frames that are written one by one. Not where
    /// data comes first.
    ///
    /// # Errors
    /// `ReadOnly`; what closed the latch; those of `late`.
    pub(crate) fn change_late(&self, late: impl FnOnce(&Handle<'_>) -> Result<()>) -> Result<()> {
        self.check_writable()?;
        late(&Handle::of_sweep(self))
    }

    fn sweep_in_stages<T>(&self, late: impl FnOnce(&Handle<'_>) -> Result<T>) -> Result<T> {
        let _one = self.cache.lock_sweep();
        let closed = self.gate.close();
        let stored = late(&Handle::of_sweep(self))?;
        let frozen = self.cache.freeze();
        drop(closed);
        // Twice: a file's write-back that was announced when this began submits its requests under
        // later numbers, all of them before it is no longer announced.
        let data = self.writes.wait().and_then(|()| self.writes.wait());
        self.cache.write_frozen(&frozen, data)?;
        Ok(stored)
    }
}
