//! A sweep: all dirty metadata is frozen together and written.
//!
//! With data first, the gate is closed during the freeze, so that a sweep contains every operation
//! either whole or not at all. Then it is written stage by stage, each durable before the next
//! starts:
//!
//! ```text
//! data of files, and    | maps that point | inode tables, | directories | directories a name was
//! new blocks that none  | to more blocks  | bitmaps, ...  |             | moved out of, and maps
//! points to yet         |                 |               |             | that point to less
//! ```
//!
//! So nothing on disk ever points to a block before that block's contents are on disk too. An empty
//! stage costs no flush.
//!
//! *Locking*: the lock on sweeps first, then the gate, which waits for the open operations. The
//! thread that sweeps has no operation open.
use super::Store;
use super::handle::Handle;
use crate::error::Result;

impl Store {
    /// Writes all dirty metadata, and waits for it and for the writes of files' blocks under way.
    /// First `late` stores what was kept outside of frames so far; its result is returned. With a
    /// journal, this commits the running transaction; `None` if another thread has done that.
    ///
    /// # Errors
    /// Those of `late`; the first write error, which closes the latch.
    pub fn sweep<T>(&self, late: impl FnOnce(&Handle<'_>) -> Result<T>) -> Result<Option<T>> {
        self.check_writable()?;
        if let Some(log) = self.log() {
            return self.commit(log, log.running(), late);
        }
        match self.writes_in_stages() {
            true => self.sweep_in_stages(late).map(Some),
            false => {
                let stored = late(&Handle::of_sweep(self))?;
                let metadata = self.cache.write_back();
                // Wait for both, and report a failure of either.
                self.writes.wait().and(metadata)?;
                Ok(Some(stored))
            }
        }
    }

    /// Runs `late`, which stores what is kept outside of frames, when frames are written one by
    /// one. Not for volumes that write data first.
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
        // Twice. A file's write-back is announced as a whole, and its requests get higher numbers.
        // When the first wait ends, all these requests are under way; the second waits for them.
        let data = self.writes.wait().and_then(|()| self.writes.wait());
        self.cache.write_frozen(&frozen, data)?;
        Ok(stored)
    }
}
