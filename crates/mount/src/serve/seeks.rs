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
use super::unseen::Unseen;
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
    GiveUp(GiveUp),
}

/// The kernel is to give up an inode, which may be in use for a moment more.
struct GiveUp {
    node: u64,
    number: u32,
    /// How often it was asked for.
    tries: u32,
}

/// How often the kernel is asked at most: twice as long after each time.
const TRIES_MAX: u32 = 8;
/// Nanoseconds after the first time.
const AGAIN_NS: u64 = 1_000_000;

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    /// What is asked for again, and when.
    again: VecDeque<(u64, GiveUp)>,
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
    pub(super) fn start(
        &self,
        clock: &Arc<dyn Clock>,
        notices: &Arc<Notices>,
        unseen: &Arc<Unseen>,
    ) -> io::Result<()> {
        let (shared, notices) = (Arc::clone(&self.shared), Arc::clone(notices));
        let (unseen, now) = (Arc::clone(unseen), Arc::clone(clock));
        let body = move || {
            while let Some(work) = shared.next() {
                match work {
                    Work::Search(search) => {
                        notices.send_back(search.node, search.arguments.offset);
                        answer(&notices, &search, find(&search.open.file, &search.arguments));
                    }
                    Work::GiveUp(one) => {
                        notices.give_up(one.node);
                        if one.tries < TRIES_MAX && unseen.has(one.number) {
                            shared.put_off(now.now(), one);
                        }
                    }
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
    pub(super) fn give_up(&self, node: u64, number: u32) {
        let mut queue = self.shared.queue.lock();
        if !queue.has_ended {
            queue.work.push_back(Work::GiveUp(GiveUp { node, number, tries: 0 }));
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
        let pop = |queue: &mut Queue| match queue.work.pop_front() {
            Some(work) => Some(Some(work)),
            None if queue.has_ended => Some(None),
            None => None,
        };
        let due = self.queue.lock().again.front().map(|(due, _)| *due);
        let Some(due) = due else { return self.arrived.wait_until(&self.queue, pop) };
        match self.arrived.wait_until_deadline(&self.queue, due, pop) {
            Some(next) => next,
            None => self.queue.lock().again.pop_front().map(|(_, one)| Work::GiveUp(one)),
        }
    }

    /// Asks for it again, later. Only the thread itself does.
    fn put_off(&self, now: u64, one: GiveUp) {
        let due = now.saturating_add(AGAIN_NS << one.tries);
        let one = GiveUp { tries: one.tries + 1, ..one };
        self.queue.lock().again.push_back((due, one));
    }
}

fn answer(notices: &Notices, search: &Search, found: Result<wire::SeekReply, Errno>) {
    let reply = Reply::new(notices, search.unique);
    match found {
        Ok(place) => reply.value(&place),
        Err(errno) => reply.error(errno),
    }
}
