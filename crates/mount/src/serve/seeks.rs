//! Searches for data and holes in files that are being written.
//!
//! The kernel asks without sending what a program has written to its cache, and such a file may be
//! longer than is known here. So it is asked for that first, by a notice; without, a program that
//! copies a file by its data would take bytes for a hole. The notice ends when the kernel has sent
//! its pages, in write requests that others must answer: a worker that waited for it could be the
//! last one. So one thread of its own makes these searches, one after another. If the server is
//! killed meanwhile, that thread stays in the kernel, until the connection is ended from outside
//! (`keeper`).
//!
//! For the same reason it tells the kernel which inodes to give up (`unseen`).
//!
//! *Invariants*: a search that was handed over is answered once: when it was made, or with an error
//! at the end. No worker waits for this thread.
//! *Locking*: one short lock, under which nothing is called.
use super::handles::OpenFile;
use super::notices::Notices;
use crate::protocol::{Errno, Reply, wire};
use extant_block::{Clock, ShortLock, Task, WaitQueue};
use extant_engine::File;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// `whence` of lseek(2).
const DATA: u32 = 3;
const HOLE: u32 = 4;

/// A search, and the request that it answers.
pub(super) struct Search {
    pub(super) unique: u64,
    pub(super) node: u64,
    pub(super) open: Arc<OpenFile>,
    pub(super) arguments: wire::Seek,
}

/// The thread, and what it is to do.
pub(super) struct Seeks {
    shared: Arc<Shared>,
    task: ShortLock<Option<Task>>,
}

struct Shared {
    queue: ShortLock<Queue>,
    arrived: WaitQueue,
}

/// What the thread is asked to do.
enum Work {
    Search(Search),
    /// Have the kernel give up an inode that may be in use for a moment more.
    GiveUp(u64),
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    has_ended: bool,
}

/// The place that a file's search finds, or why there is none.
pub(super) fn find(file: &File, arguments: &wire::Seek) -> Result<wire::SeekReply, Errno> {
    let found = match arguments.whence {
        DATA => file.seek_data(arguments.offset),
        HOLE => file.seek_hole(arguments.offset),
        _ => return Err(Errno::INVALID),
    };
    let offset = found.map_err(|error| Errno(error.errno()))?.ok_or(Errno::NO_SUCH_POSITION)?;
    Ok(wire::SeekReply { offset })
}

impl Seeks {
    pub(super) fn new(clock: &Arc<dyn Clock>) -> Seeks {
        let (queue, arrived) = (ShortLock::default(), WaitQueue::new(Arc::clone(clock)));
        Seeks { shared: Arc::new(Shared { queue, arrived }), task: ShortLock::default() }
    }

    /// Starts the thread, which answers by `notices`.
    ///
    /// # Errors
    /// Those of the host: it gives no thread.
    pub(super) fn start(&self, clock: &Arc<dyn Clock>, notices: &Arc<Notices>) -> io::Result<()> {
        let (shared, notices) = (Arc::clone(&self.shared), Arc::clone(notices));
        let body = move || {
            while let Some(work) = shared.next() {
                match work {
                    Work::Search(search) => {
                        notices.send_back(search.node, search.arguments.offset);
                        answer(&notices, &search, find(&search.open.file, &search.arguments));
                    }
                    Work::GiveUp(node) => notices.give_up(node),
                }
            }
        };
        *self.task.lock() = Some(clock.try_spawn("seeks", Box::new(body))?);
        Ok(())
    }

    /// Hands a search over. It is given back after the end.
    pub(super) fn add(&self, search: Search) -> Result<(), Search> {
        let mut queue = self.shared.queue.lock();
        if queue.has_ended {
            return Err(search);
        }
        queue.work.push_back(Work::Search(search));
        drop(queue);
        self.shared.arrived.wake_all();
        Ok(())
    }

    /// Has the kernel give up an inode, if it is not in use. After the end nothing is done.
    pub(super) fn give_up(&self, node: u64) {
        let mut queue = self.shared.queue.lock();
        if !queue.has_ended {
            queue.work.push_back(Work::GiveUp(node));
        }
        drop(queue);
        self.shared.arrived.wake_all();
    }

    /// Ends the thread. What it has not begun is dropped: the mount is gone.
    pub(super) fn end(&self) {
        let left = {
            let mut queue = self.shared.queue.lock();
            queue.has_ended = true;
            std::mem::take(&mut queue.work)
        };
        drop(left);
        self.shared.arrived.wake_all();
        let task = self.task.lock().take();
        task.into_iter().for_each(Task::join);
    }
}

impl Shared {
    /// What is next; `None` at the end.
    fn next(&self) -> Option<Work> {
        self.arrived.wait_until(&self.queue, |queue| match queue.work.pop_front() {
            Some(work) => Some(Some(work)),
            None if queue.has_ended => Some(None),
            None => None,
        })
    }
}

fn answer(notices: &Notices, search: &Search, found: Result<wire::SeekReply, Errno>) {
    let reply = Reply::new(notices, search.unique);
    match found {
        Ok(place) => reply.value(&place),
        Err(errno) => reply.error(errno),
    }
}
