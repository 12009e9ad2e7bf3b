//! The line that moves: how much is done, how fast, how long still. On stderr, and only where that
//! is a terminal.
//!
//! *Invariants*: the line is redrawn at most ten times a second, and is gone when the
//! [`ProgressLine`] is dropped. *Locking*: none; counters are atomics, so any thread may advance
//! it.
#![allow(
    clippy::disallowed_methods,
    reason = "progress is for people: it runs on the host's clock"
)]
use crate::size::readable;
use extant_image::Progress;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// At most ten times a second.
const REDRAW_NS: u64 = 100_000_000;
/// The clock is read once in this many bytes, or this many items.
const LOOK_BYTES: u64 = 1 << 20;
const LOOK_ITEMS: u64 = 256;

static SHOWN: AtomicBool = AtomicBool::new(false);

/// One phase of work, counted in bytes or things.
pub struct ProgressLine {
    label: &'static str,
    unit: Unit,
    total: AtomicU64,
    done: AtomicU64,
    /// `done` when the clock was read last.
    looked: AtomicU64,
    drawn_ns: AtomicU64,
    started: Instant,
    visibility: Visibility,
}

/// Whether a moving line may be shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Visibility {
    /// It is drawn.
    Shown,
    /// Everything is counted, nothing is drawn.
    Hidden,
}

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bytes, shown as MiB and GiB.
    Bytes,
    /// Files, inodes: plain numbers.
    Items,
}

impl ProgressLine {
    /// Starts a phase; `total` is 0 where it is not known.
    pub(crate) fn new(
        label: &'static str,
        unit: Unit,
        total: u64,
        visibility: Visibility,
    ) -> ProgressLine {
        ProgressLine {
            label,
            unit,
            total: AtomicU64::new(total),
            done: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            drawn_ns: AtomicU64::new(0),
            started: Instant::now(),
            visibility,
        }
    }
    /// Sets the total, once it is known.
    pub fn set_total(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }
    /// What is done so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    fn draw(&self, done: u64) {
        let now = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let before = self.drawn_ns.load(Ordering::Relaxed);
        let due = now.saturating_sub(before) >= REDRAW_NS;
        if due
            && self
                .drawn_ns
                .compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            SHOWN.store(true, Ordering::Relaxed);
            let line = line(
                self.label,
                self.unit,
                done,
                self.total.load(Ordering::Relaxed),
                now as f64 / 1e9,
            );
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K{line}");
        }
    }
}

impl Progress for ProgressLine {
    /// Cheap: the clock is read about once a MiB, or once in 256 items.
    fn advance(&self, amount: u64) {
        let done = self.done.fetch_add(amount, Ordering::Relaxed).saturating_add(amount);
        if self.visibility == Visibility::Hidden {
            return;
        }
        let step = if self.unit == Unit::Bytes { LOOK_BYTES } else { LOOK_ITEMS };
        if done.saturating_sub(self.looked.load(Ordering::Relaxed)) >= step {
            self.looked.store(done, Ordering::Relaxed);
            self.draw(done);
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.visibility == Visibility::Shown {
            clear_line();
        }
    }
}

/// A line that says what is being done, where it is not known how much of it there is.
pub struct Status {
    visibility: Visibility,
}

impl Status {
    /// A line without text.
    pub(crate) fn new(visibility: Visibility) -> Status {
        Status { visibility }
    }
    /// In place of the line before, cut to what fits on most terminals.
    pub fn show(&mut self, line: &str) {
        const WIDTH: usize = 79;
        if self.visibility == Visibility::Shown {
            SHOWN.store(true, Ordering::Relaxed);
            let line: String =
                line.chars().filter(|letter| !letter.is_control()).take(WIDTH).collect();
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K{line}");
        }
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        if self.visibility == Visibility::Shown {
            clear_line();
        }
    }
}

/// Wipes the moving line, if one is shown, so that something else can be said.
pub(crate) fn clear_line() {
    if SHOWN.swap(false, Ordering::Relaxed) {
        let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
    }
}

/// The line: `build: 512.0 MiB of 1.3 GiB (38%), 640.1 MiB/s, 2 s left`.
fn line(label: &str, unit: Unit, done: u64, total: u64, seconds: f64) -> String {
    let show = |amount: f64| match unit {
        Unit::Bytes => readable(amount),
        Unit::Items => format!("{amount:.0}"),
    };
    let rate = done as f64 / seconds.max(1e-3);
    if total == 0 {
        return format!("{label}: {}, {}/s", show(done as f64), show(rate));
    }
    let percent = done.min(total) as f64 * 100.0 / total as f64;
    let left = total.saturating_sub(done) as f64 / rate.max(1.0);
    let (done, total, rate) = (show(done as f64), show(total as f64), show(rate));
    format!("{label}: {done} of {total} ({percent:.0}%), {rate}/s, {left:.0} s left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_rate_and_rest() {
        let line = line("build", Unit::Bytes, 100 << 20, 300 << 20, 2.0);
        assert_eq!(line, "build: 100.0 MiB of 300.0 MiB (33%), 50.0 MiB/s, 4 s left");
    }
}
