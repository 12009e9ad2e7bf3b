//! Keeps idle processors from halting as long as requests come one after another.
//!
//! A client and its server take turns: each waits while the other works, so that the processor of
//! the one that waits has nothing to do. A processor that has halted must be woken by another one,
//! which takes far longer than a request, most of all on a virtual machine: a message to a thread
//! on another processor and back was measured at 60 microseconds there, and at 5 where processors
//! poll for work instead. Linux takes wishes about this by `/dev/cpu_dma_latency`: as long as a
//! program holds it open with 0 in it, idle processors poll. They take power meanwhile, and on a
//! shared host the time of others, so it is held only while requests are dense.
//!
//! *Invariants*: it is held only if one of the last [`QUIET_LOOKS`] looks found [`DENSE`] requests.
//! The host gives it back by itself when the program ends, however it ends.
//!
//! *Locking*: none; it belongs to the watcher.
//!
//! Source: the kernel's documentation, "PM Quality Of Service Interface".
use std::fs::{File, OpenOptions};
use std::io::Write;

/// Where Linux takes the wish.
const DEVICE: &str = "/dev/cpu_dma_latency";
/// Microseconds that an idle processor may take until it works again.
const LATENCY_US: i32 = 0;
/// Requests between two looks, a millisecond apart, from which on they count as dense.
const DENSE: u64 = 4;
/// After this many looks in a row without dense requests processors may halt again.
const QUIET_LOOKS: u32 = 16;

/// What idle processors do while requests are dense.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Idle {
    /// They poll, where the host lets this program say so: as root.
    #[default]
    Poll,
    /// What the host has them do.
    Halt,
}

/// The wish, while it is held.
pub(super) struct IdleWish {
    held: Option<File>,
    quiet_looks: u32,
    /// Whether it is not to be held, or the host refused it.
    is_refused: bool,
}

impl IdleWish {
    pub(super) fn new(idle: Idle) -> IdleWish {
        IdleWish { held: None, quiet_looks: 0, is_refused: idle == Idle::Halt }
    }

    /// To be called at each look, with the number of requests since the last one.
    pub(super) fn note(&mut self, requests: u64) {
        self.note_with(requests, || {
            let mut device = OpenOptions::new().write(true).open(DEVICE).ok()?;
            device.write_all(&LATENCY_US.to_ne_bytes()).ok()?;
            Some(device)
        });
    }

    fn note_with(&mut self, requests: u64, hold: impl FnOnce() -> Option<File>) {
        if self.is_refused {
            return;
        }
        if requests < DENSE {
            self.quiet_looks += 1;
            if self.quiet_looks >= QUIET_LOOKS {
                self.give_back();
            }
            return;
        }
        self.quiet_looks = 0;
        if self.held.is_none() {
            self.held = hold();
            self.is_refused = self.held.is_none();
        }
    }

    /// Processors may halt again.
    pub(super) fn give_back(&mut self) {
        self.held = None;
        self.quiet_looks = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::{DENSE, Idle, IdleWish, QUIET_LOOKS};
    use std::fs::File;

    fn some_file() -> Option<File> {
        File::open("/dev/null").ok()
    }

    #[test]
    fn it_is_held_while_requests_are_dense_and_a_moment_longer() {
        let mut wish = IdleWish::new(Idle::Poll);
        wish.note_with(DENSE - 1, some_file);
        assert!(wish.held.is_none());
        wish.note_with(DENSE, some_file);
        assert!(wish.held.is_some());
        for _ in 1..QUIET_LOOKS {
            wish.note_with(0, some_file);
            assert!(wish.held.is_some());
        }
        wish.note_with(DENSE, || panic!("it is held"));
        (0..QUIET_LOOKS).for_each(|_| wish.note_with(0, some_file));
        assert!(wish.held.is_none());
    }

    #[test]
    fn a_host_that_refuses_is_asked_once_and_halting_is_never_hindered() {
        let mut wish = IdleWish::new(Idle::Poll);
        wish.note_with(DENSE, || None);
        wish.note_with(DENSE, || panic!("it was refused"));
        let mut wish = IdleWish::new(Idle::Halt);
        wish.note_with(DENSE, || panic!("it is not wished for"));
        assert!(wish.held.is_none());
    }
}
