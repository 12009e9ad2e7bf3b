//! Numbers that many threads change, kept in a line of the processor's cache of their own: what is
//! read beside them would be fetched anew after each change.
use std::ops::{Deref, DerefMut};

/// A value with nothing else in its line of the cache. Two lines of 64 bytes, because processors
/// fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
pub struct Apart<T>(pub T);

impl<T> Deref for Apart<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Apart<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
