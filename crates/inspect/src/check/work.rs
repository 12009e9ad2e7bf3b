//! Threads over a counter of work: each takes the next piece until none is left.
//!
//! *Invariants*: every piece is done once; with one thread nothing is spawned and pieces are done
//! in order.
//! *Locking*: none; the error slot is a short lock held for a store.
use crate::error::Error;
use extant_block::{Clock, ShortLock};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many threads work, and on which clock.
pub(crate) struct Threads {
    clock: Arc<dyn Clock>,
    count: NonZeroU32,
}

impl Threads {
    pub(crate) fn new(clock: Arc<dyn Clock>, count: NonZeroU32) -> Threads {
        Threads { clock, count }
    }

    /// The clock that the threads run on.
    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// How many there are, the caller's included.
    pub(crate) fn count(&self) -> u64 {
        self.count.get().into()
    }

    /// A queue on which these threads wait for each other.
    pub(crate) fn wait_queue(&self) -> extant_block::WaitQueue {
        extant_block::WaitQueue::new(Arc::clone(&self.clock))
    }

    /// Does the pieces `0..count`, each thread with a worker of its own.
    ///
    /// # Errors
    /// The first that a worker met; the others then end after the piece that they are at.
    pub(crate) fn share<W: Worker>(
        &self,
        name: &str,
        shared: &Arc<W::Shared>,
        count: u64,
    ) -> Result<(), Error> {
        let pieces =
            Arc::new(Pieces { next: AtomicU64::new(0), count, failed: ShortLock::new(None) });
        let mut tasks = Vec::new();
        for number in 1..self.count().min(count) {
            let (shared, pieces) = (Arc::clone(shared), Arc::clone(&pieces));
            let body = Box::new(move || run::<W>(&shared, &pieces));
            tasks.push(self.clock.spawn(&format!("{name}-{number}"), body));
        }
        run::<W>(shared, &pieces);
        tasks.into_iter().for_each(extant_block::Task::join);
        let failed = pieces.failed.lock().take();
        failed.map_or(Ok(()), Err)
    }
}

/// What a thread keeps between pieces.
pub(crate) trait Worker: Default {
    /// What all threads of a pass see.
    type Shared: Send + Sync + 'static;

    /// Does one piece.
    fn work(&mut self, shared: &Self::Shared, piece: u64) -> Result<(), Error>;

    /// There is no piece left for this thread.
    fn finish(&mut self, shared: &Self::Shared) -> Result<(), Error> {
        let _ = shared;
        Ok(())
    }
}

struct Pieces {
    next: AtomicU64,
    count: u64,
    failed: ShortLock<Option<Error>>,
}

fn run<W: Worker>(shared: &W::Shared, pieces: &Pieces) {
    let mut worker = W::default();
    let mut done = Ok(());
    while done.is_ok() {
        let piece = pieces.next.fetch_add(1, Ordering::Relaxed);
        if piece >= pieces.count {
            break;
        }
        done = worker.work(shared, piece);
    }
    let done = done.and_then(|()| worker.finish(shared));
    if let Err(error) = done {
        pieces.next.store(pieces.count, Ordering::Relaxed);
        pieces.failed.lock().get_or_insert(error);
    }
}
