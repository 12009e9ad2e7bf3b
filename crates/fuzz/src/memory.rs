//! What the process has asked the allocator for. A program that wants it counted names
//! [`counting`] as its allocator.
use cap::Cap;
use std::alloc::System;
use std::sync::OnceLock;

/// An allocator that counts.
pub type Counting = Cap<System>;

/// One that refuses nothing.
pub const fn counting() -> Counting {
    Cap::new(System, usize::MAX)
}

static COUNTED: OnceLock<&'static Counting> = OnceLock::new();

/// From now on this process is counted by its allocator.
pub fn count_by(allocator: &'static Counting) {
    COUNTED.get_or_init(|| allocator);
}

/// Bytes that are asked for and not given back; 0 where nothing counts.
pub fn held() -> usize {
    COUNTED.get().map_or(0, |counted| counted.allocated())
}

/// The most that [`held`] has ever been.
pub fn most() -> usize {
    COUNTED.get().map_or(0, |counted| counted.max_allocated())
}
