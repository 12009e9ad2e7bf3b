//! Work that has to end: done in a thread of its own, with a deadline.

use extant_block::{Clock, RealClock, ShortLock, WaitQueue};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Does the work and returns its result; `Err` if it panicked, or did not end within `seconds`.
pub fn within<T: Send + 'static>(
    seconds: u64,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let clock = RealClock::new();
    let done = Arc::new((ShortLock::new(None), WaitQueue::new(clock.clone() as Arc<dyn Clock>)));
    let told = Arc::clone(&done);
    let body = move || {
        let outcome = catch_unwind(AssertUnwindSafe(work));
        *told.0.lock() = Some(outcome);
        told.1.wake_all();
    };
    let deadline = clock.now() + seconds * 1_000_000_000;
    let task = clock.spawn(name, Box::new(body));
    match done.1.wait_until_deadline(&done.0, deadline, Option::take) {
        None => Err(format!("{name}: not done after {seconds} seconds")),
        Some(Ok(value)) => {
            task.join();
            Ok(value)
        }
        Some(Err(panic)) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(format!("{name}: panic: {}", text.unwrap_or_default()))
        }
    }
}
