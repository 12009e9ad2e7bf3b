//! What C holds: a value, the last failure of a call on it, and whether a call ended by a fault.
//!
//! *Invariants*: no panic leaves [`call`], [`on`], [`begin`], [`begin_on`], [`end`] and [`plain`].
//! A handle in which one happened does nothing any more, and is not even dropped: what it holds may
//! be half changed, and an image is better off with what its journal has.
//! *Locking*: the last failure is under one lock, held for a copy.
use crate::failure::{Failure, INVALID, Result, keep};
use crate::pointer::{place, put, put_words};
use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A value that C holds.
pub struct Handle<T> {
    value: T,
    failure: Mutex<Option<Failure>>,
    is_poisoned: AtomicBool,
}

impl<T> Handle<T> {
    /// Of a value, without a failure.
    pub fn new(value: T) -> Handle<T> {
        Handle { value, failure: Mutex::new(None), is_poisoned: AtomicBool::new(false) }
    }

    /// A call on it: its number, kept here and for the thread.
    fn call(&self, body: impl FnOnce(&T) -> Result<()>) -> c_int {
        let failure = if self.is_poisoned.load(Ordering::Acquire) {
            Failure::poisoned()
        } else {
            match caught(|| body(&self.value)) {
                Caught::Done(()) => return 0,
                Caught::Failed(failure) => failure,
                Caught::Fault(failure) => {
                    self.is_poisoned.store(true, Ordering::Release);
                    failure
                }
            }
        };
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure.clone());
        keep(failure)
    }

    fn last(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A type of the header with a handle in it.
pub trait Handled: Sized {
    /// What the handle holds.
    type Value;
    /// Around a handle.
    fn of(handle: Handle<Self::Value>) -> Self;
    /// The handle.
    fn handle(&self) -> &Handle<Self::Value>;
    /// The handle, taken out.
    fn into_handle(self) -> Handle<Self::Value>;
}

/// Types of the header, each with a handle in it.
macro_rules! handles {
    ($($name:ident: $value:ty),+ $(,)?) => {
        $(impl $crate::handle::Handled for $name {
            type Value = $value;
            fn of(handle: $crate::handle::Handle<$value>) -> $name {
                $name { handle }
            }
            fn handle(&self) -> &$crate::handle::Handle<$value> {
                &self.handle
            }
            fn into_handle(self) -> $crate::handle::Handle<$value> {
                self.handle
            }
        })+
    };
}
pub(crate) use handles;

/// How a body ended.
enum Caught<T> {
    Done(T),
    Failed(Failure),
    /// By a panic.
    Fault(Failure),
}

fn caught<T>(body: impl FnOnce() -> Result<T>) -> Caught<T> {
    // What a panic leaves half done is in a handle that does nothing any more, or was the call's.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => Caught::Done(value),
        Ok(Err(failure)) => Caught::Failed(failure),
        Err(panic) => {
            let failure = Failure::panicked(&*panic);
            // What it carries may panic again when it is dropped.
            std::mem::forget(panic);
            Caught::Fault(failure)
        }
    }
}

/// A call without a handle.
pub fn call(body: impl FnOnce() -> Result<()>) -> c_int {
    match caught(body) {
        Caught::Done(()) => 0,
        Caught::Failed(failure) | Caught::Fault(failure) => keep(failure),
    }
}

/// A call that answers something else than a number of a failure, and `otherwise` where it ends by
/// a fault.
pub fn plain<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    match caught(|| Ok(body())) {
        Caught::Done(value) => value,
        Caught::Failed(_) | Caught::Fault(_) => otherwise,
    }
}

/// A call on a handle.
pub unsafe fn on<H: Handled>(
    handle: *const H,
    body: impl FnOnce(&H::Value) -> Result<()>,
) -> c_int {
    // SAFETY: by the promise of the caller NULL, or a handle of this library that is not closed
    // during the call; nobody has it for writing.
    match unsafe { handle.as_ref() } {
        Some(handle) => handle.handle().call(body),
        None => call(|| Err(Failure::null("handle"))),
    }
}

/// Makes a handle, and stores it in `target`.
unsafe fn store<H: Handled>(
    target: *mut *mut H,
    body: impl FnOnce() -> Result<H::Value>,
) -> Result<()> {
    // Even if there is no place for it: what the body was given is released.
    let value = body()?;
    let target = place(target, "the place for the handle")?;
    let made = Box::into_raw(Box::new(H::of(Handle::new(value))));
    // SAFETY: not NULL, and by the promise of the caller a place for a pointer.
    unsafe { put(target, made) };
    Ok(())
}

/// A call that makes a handle, and stores it in `target`; NULL where it fails.
pub unsafe fn begin<H: Handled>(
    target: *mut *mut H,
    body: impl FnOnce() -> Result<H::Value>,
) -> c_int {
    // SAFETY: the promise of the caller about the place, as it is.
    unsafe {
        put(target, std::ptr::null_mut());
        call(|| store(target, body))
    }
}

/// A call on a handle that makes another, and stores it in `target`; NULL where it fails.
pub unsafe fn begin_on<P: Handled, H: Handled>(
    parent: *const P,
    target: *mut *mut H,
    body: impl FnOnce(&P::Value) -> Result<H::Value>,
) -> c_int {
    // SAFETY: the promise of the caller about both, as it is.
    unsafe {
        put(target, std::ptr::null_mut());
        on(parent, |value| store(target, || body(value)))
    }
}

/// The last call on a handle, which takes its value. NULL is none, and no failure.
pub unsafe fn end<H: Handled>(handle: *mut H, body: impl FnOnce(H::Value) -> Result<()>) -> c_int {
    if handle.is_null() {
        return 0;
    }
    // SAFETY: by the promise of the caller it came from `begin`, and this is the only call that
    // ends it, with no other on it at the same time.
    let owned = unsafe { Box::from_raw(handle) };
    let inner = (*owned).into_handle();
    if inner.is_poisoned.load(Ordering::Acquire) {
        std::mem::forget(inner);
        return keep(Failure::poisoned());
    }
    call(|| body(inner.value))
}

/// Copies the words of a failure, and returns its number, or 0 and no words where there is none.
pub unsafe fn tell(failure: Option<Failure>, buffer: *mut c_char, size: usize) -> c_int {
    let (errno, words) = failure.map_or((0, String::new()), |one| (one.errno, one.words));
    // SAFETY: the caller's promise about the buffer.
    unsafe { put_words(&words, buffer, size) };
    errno
}

/// The last failure on a handle: its number, and its words into a buffer.
pub unsafe fn failure_of<H: Handled>(handle: *const H, buffer: *mut c_char, size: usize) -> c_int {
    plain(INVALID, || {
        // SAFETY: as in `on`.
        match unsafe { handle.as_ref() } {
            // SAFETY: the caller's promise about the buffer.
            Some(handle) => unsafe { tell(handle.handle().last(), buffer, size) },
            // SAFETY: as above.
            None => unsafe { tell(Some(Failure::null("handle")), buffer, size) },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    struct Thing {
        handle: Handle<Dropped>,
    }
    handles!(Thing: Dropped);

    /// Counts how often it was dropped.
    struct Dropped(&'static AtomicUsize);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn made(count: &'static AtomicUsize) -> *mut Thing {
        let mut made: *mut Thing = std::ptr::null_mut();
        // SAFETY: a place for a pointer.
        assert_eq!(unsafe { begin(&mut made, || Ok(Dropped(count))) }, 0);
        assert!(!made.is_null());
        made
    }

    fn said(thing: *const Thing) -> (c_int, String) {
        let mut buffer = [0; 200];
        // SAFETY: a handle, and a buffer of that size.
        let errno = unsafe { failure_of(thing, buffer.as_mut_ptr(), buffer.len()) };
        let words = buffer.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8);
        (errno, String::from_utf8(words.collect()).unwrap())
    }

    #[test]
    fn a_panic_becomes_a_number_and_poisons_its_handle_alone() {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let (thing, other) = (made(&COUNT), made(&COUNT));
        // SAFETY: all handles are open until `end`.
        unsafe {
            assert_eq!(on(thing, |_| Ok(())), 0);
            assert_eq!(said(thing), (0, String::new()));
            assert_eq!(on(thing, |_| panic!("planted {}", 7)), 131);
            assert_eq!(said(thing), (131, "a fault of the library: planted 7".to_owned()));
            assert_eq!(on(thing, |_| Ok(())), 131);
            assert!(said(thing).1.contains("an earlier call"), "{:?}", said(thing));
            assert_eq!(on(other, |_| Ok(())), 0);
            assert_eq!(end(thing, |_| panic!("never reached")), 131);
            assert_eq!(COUNT.load(Ordering::SeqCst), 0, "what a fault left is not dropped");
            assert_eq!(end(other, |_| Ok(())), 0);
            assert_eq!(COUNT.load(Ordering::SeqCst), 1);
        }
    }

    #[test]
    fn a_panic_of_what_begins_or_ends_makes_no_handle() {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let mut thing: *mut Thing = std::ptr::NonNull::dangling().as_ptr();
        // SAFETY: a place for a pointer; then a handle that is open.
        unsafe {
            assert_eq!(begin(&mut thing, || panic!("no handle")), 131);
            assert!(thing.is_null());
            assert_eq!(end(thing, |_| panic!("never reached")), 0, "NULL is closed already");
            assert_eq!(end(made(&COUNT), |_| panic!("in the end")), 131);
            assert_eq!(begin::<Thing>(std::ptr::null_mut(), || Ok(Dropped(&COUNT))), 22);
            assert_eq!(COUNT.load(Ordering::SeqCst), 2, "what ended, and what had no place");
        }
        assert_eq!(plain(5, || panic!("no answer")), 5);
    }
}
