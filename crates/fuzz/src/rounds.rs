//! Many inputs of one target, each in bounded time and memory.
//!
//! *Locking*: what the worker is at is in one short lock, which the thread that watches it reads.
use crate::memory;
use crate::mutate;
use crate::targets::Target;
use extant_block::{Clock, RealClock, ShortLock, WaitQueue};
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// How much of one target is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The first seed.
    pub seed: u64,
    /// How many inputs; the seeds follow each other.
    pub rounds: u64,
    /// No input begins after so many seconds.
    pub seconds: Option<u64>,
    /// What one input may take.
    pub limits: Limits,
}

/// What one input may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Seconds; one that takes more is taken for one that never ends.
    pub seconds: u64,
    /// Bytes that are asked of the allocator beyond what was held before, if that is counted.
    pub bytes: usize,
}

impl Limits {
    /// What is more than any input needs.
    pub const USUAL: Limits = Limits { seconds: 30, bytes: 192 << 20 };
}

/// An input that hurts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The target.
    pub target: &'static str,
    /// The seed of the input.
    pub seed: u64,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { target, seed, what } = self;
        write!(f, "{what}: xtask fuzz --target {target} --seed {seed} --rounds 1")
    }
}

/// Where a worker is.
#[derive(Default)]
struct Now {
    /// The seed, and when it began in nanoseconds of the clock.
    at: Option<(u64, u64)>,
    done: u64,
    ended: Option<Result<(), Failure>>,
}

/// Where the process says what it is at, for whoever finds it dead.
pub struct Note(Option<File>);

impl Note {
    /// Nowhere.
    pub const NONE: Note = Note(None);

    /// In this file.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn at(path: &Path) -> std::io::Result<Note> {
        File::create(path).map(|file| Note(Some(file)))
    }

    fn say(&self, target: &str, seed: u64) {
        if let Note(Some(file)) = self {
            // Without it only the words of who finds the process dead are poorer.
            let _ = file.write_all_at(format!("{target:<16} {seed:>20}\n").as_bytes(), 0);
        }
    }
}

/// Runs them, one after the other, and gives how many there were.
///
/// # Errors
/// The first input that panics, takes too long or too much memory. After one that takes too long
/// its thread is still there.
pub fn run(target: &'static Target, plan: &Plan, note: Note) -> Result<u64, Failure> {
    let clock = RealClock::new();
    let shared: Arc<(ShortLock<Now>, WaitQueue)> = Arc::new((
        ShortLock::new(Now::default()),
        WaitQueue::new(Arc::clone(&clock) as Arc<dyn Clock>),
    ));
    let (inner, inside, plan) = (Arc::clone(&shared), Arc::clone(&clock), *plan);
    let task = clock.spawn(
        target.name,
        Box::new(move || {
            let ended = work(target, &plan, &note, (&*inside, &inner.0));
            inner.0.lock().ended = Some(ended);
            inner.1.wake_all();
        }),
    );
    let limit = plan.limits.seconds.saturating_mul(1_000_000_000);
    loop {
        let look = clock.now() + 500_000_000;
        let ended = shared.1.wait_until_deadline(&shared.0, look, |now| now.ended.take());
        if let Some(ended) = ended {
            task.join();
            return ended.map(|()| shared.0.lock().done);
        }
        let now = shared.0.lock();
        if let Some((seed, since)) = now.at
            && clock.now().saturating_sub(since) > limit
        {
            let what = format!("not done after {} seconds", plan.limits.seconds);
            return Err(Failure { target: target.name, seed, what });
        }
    }
}

fn work(
    target: &'static Target,
    plan: &Plan,
    note: &Note,
    (clock, now): (&RealClock, &ShortLock<Now>),
) -> Result<(), Failure> {
    let begun = (target.begun)();
    let until = plan.seconds.map(|seconds| clock.now() + seconds.saturating_mul(1_000_000_000));
    for seed in (plan.seed..).take(plan.rounds.try_into().unwrap_or(usize::MAX)) {
        if until.is_some_and(|until| clock.now() >= until) {
            break;
        }
        now.lock().at = Some((seed, clock.now()));
        note.say(target.name, seed);
        let input = mutate::input(&begun, seed);
        one(target, &input, plan.limits).map_err(|what| Failure {
            target: target.name,
            seed,
            what,
        })?;
        let mut now = now.lock();
        now.at = None;
        now.done += 1;
    }
    Ok(())
}

/// One input; what it did that it must not.
fn one(target: &Target, input: &[u8], limits: Limits) -> Result<(), String> {
    let (held, most) = (memory::held(), memory::most());
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.body)(input)));
    if let Err(panic) = outcome {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        return Err(format!("panic: {}", text.unwrap_or_default()));
    }
    let taken = memory::most().saturating_sub(held);
    if memory::most() > most && taken > limits.bytes {
        return Err(format!("{} MiB of memory", taken >> 20));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(limits: Limits) -> Plan {
        Plan { seed: 5, rounds: 20, seconds: None, limits }
    }

    #[test]
    fn what_hurts_is_said_with_its_seed() {
        static PANICS: Target = Target {
            name: "panics",
            about: "",
            begun: || vec![vec![0; 9]],
            body: |input| assert!(input.len() == 9, "nine"),
        };
        let failure = run(&PANICS, &plan(Limits::USUAL), Note::NONE).unwrap_err();
        assert_eq!((failure.target, &*failure.what), ("panics", "panic: nine"));
        assert!(mutate::input(&[vec![0; 9]], failure.seed).len() != 9);
    }

    #[test]
    fn what_does_not_end_is_said() {
        static WAITS: Target = Target {
            name: "waits",
            about: "",
            begun: Vec::new,
            body: |_| {
                RealClock::new().park(None);
            },
        };
        let limits = Limits { seconds: 0, ..Limits::USUAL };
        let failure = run(&WAITS, &plan(limits), Note::NONE).unwrap_err();
        assert_eq!((failure.seed, &*failure.what), (5, "not done after 0 seconds"));
    }

    #[test]
    fn what_is_well_is_counted() {
        static WELL: Target = Target { name: "well", about: "", begun: Vec::new, body: |_| () };
        assert_eq!(run(&WELL, &plan(Limits::USUAL), Note::NONE), Ok(20));
    }
}
