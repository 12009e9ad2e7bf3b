//! Threads over a counter of work: each takes the next piece until none is left.
//!
//! *Invariants*: every piece is done once; with one thread nothing is spawned and pieces are done
//! in order.
//! *Locking*: none; the error slot is a short lock held for a store.
use super::state::State;
use crate::error::Error;
use extant_block::ShortLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a thread works on: its own memory between pieces, made by its first.
pub(crate) trait Worker: Default {
    /// Does one piece.
    fn work(&mut self, state: &Arc<State>, piece: u64) -> Result<(), Error>;
    /// There is no piece left for this thread.
    fn finish(&mut self, state: &Arc<State>) -> Result<(), Error> {
        let _ = state;
        Ok(())
    }
}

struct Pieces {
    next: AtomicU64,
    count: u64,
    failed: ShortLock<Option<Error>>,
}

/// Does the pieces `0..count` with as many threads as the options allow, each with a worker of its
/// own.
pub(crate) fn share<W: Worker + 'static>(
    state: &Arc<State>,
    name: &str,
    count: u64,
) -> Result<(), Error> {
    let pieces = Arc::new(Pieces { next: AtomicU64::new(0), count, failed: ShortLock::new(None) });
    let threads = u64::from(state.options.threads.get()).min(count);
    let mut tasks = Vec::new();
    for number in 1..threads {
        let (state, pieces) = (Arc::clone(state), Arc::clone(&pieces));
        let clock = Arc::clone(&state.clock);
        let body = Box::new(move || run::<W>(&state, &pieces));
        tasks.push(clock.spawn(&format!("{name}-{number}"), body));
    }
    run::<W>(state, &pieces);
    tasks.into_iter().for_each(extant_block::Task::join);
    let failed = pieces.failed.lock().take();
    failed.map_or(Ok(()), Err)
}

fn run<W: Worker>(state: &Arc<State>, pieces: &Pieces) {
    let mut worker = W::default();
    let mut done = Ok(());
    while done.is_ok() {
        let piece = pieces.next.fetch_add(1, Ordering::Relaxed);
        if piece >= pieces.count {
            break;
        }
        done = worker.work(state, piece);
    }
    let done = done.and_then(|()| worker.finish(state));
    if let Err(error) = done {
        // The others end with the piece that they are at.
        pieces.next.store(pieces.count, Ordering::Relaxed);
        pieces.failed.lock().get_or_insert(error);
    }
}
