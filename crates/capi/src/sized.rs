//! Structs that carry their size in their first field, so that a program and a library of different
//! versions understand each other: what is missing is zero, what is more has to be.
use crate::failure::{Failure, Result};
use crate::pointer::place;
use std::mem::MaybeUninit;
use std::ptr;

/// A struct whose first field is its size as the caller knows it.
///
/// # Safety
/// It is `repr(C)`, its first field is a `usize`, and all of its bytes may be 0: numbers, pointers
/// and optional functions are like that.
pub unsafe trait Versioned: Copy {
    /// What messages call it.
    const NAME: &'static str;
}

/// One with zeros in all fields, its size too.
pub fn zeroed<T: Versioned>() -> T {
    // SAFETY: the promise of the trait: zeros are a value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// The size that the caller has set.
unsafe fn size_of<T: Versioned>(given: *const T) -> Result<usize> {
    // SAFETY: not NULL by the callers below; the first field is a size by the promise of the trait.
    let size = unsafe { given.cast::<usize>().read_unaligned() };
    if size < std::mem::size_of::<usize>() {
        let words = format!("{}: struct_size is {size}: set it to the struct's size", T::NAME);
        return Err(Failure::invalid(words));
    }
    Ok(size)
}

/// What the caller has filled in; zeros for NULL.
///
/// # Errors
/// Its size makes no sense, or it has values after what is known here.
pub unsafe fn read<T: Versioned>(given: *const T) -> Result<T> {
    let mut read: T = zeroed();
    if given.is_null() {
        return Ok(read);
    }
    // SAFETY: not NULL, and by the promise of the caller such a struct.
    let size = unsafe { size_of(given) }?;
    let ours = size_of_val(&read);
    let start: *const u8 = given.cast();
    for at in ours..size {
        // SAFETY: inside of the `size` bytes that the caller says there are.
        let next = unsafe { start.add(at) };
        // SAFETY: as above.
        if unsafe { next.read() } != 0 {
            return Err(Failure::newer(T::NAME));
        }
    }
    let target = ptr::from_mut(&mut read).cast::<u8>();
    // SAFETY: at most as many bytes as either has; a prefix of such a struct with zeros after it is
    // one, as fields are never split (sizes of earlier versions end after a field).
    unsafe { target.copy_from_nonoverlapping(start, size.min(ours)) };
    Ok(read)
}

/// Whether there is a struct to fill in.
///
/// # Errors
/// It is NULL, or its size makes no sense.
pub unsafe fn room<T: Versioned>(given: *mut T) -> Result<Room<T>> {
    let given = place(given, T::NAME)?;
    // SAFETY: not NULL, and by the promise of the caller such a struct.
    let size = unsafe { size_of(given) }?;
    Ok(Room { given, size })
}

/// A struct of the caller that is to be filled in.
pub struct Room<T> {
    given: *mut T,
    size: usize,
}

impl<T: Versioned> Room<T> {
    /// Fills it in as far as the caller knows it: its size stays, what is unknown here is 0.
    pub unsafe fn fill(self, value: &T) {
        let (first, ours) = (std::mem::size_of::<usize>(), std::mem::size_of::<T>());
        let (from, to) = (ptr::from_ref(value).cast::<u8>(), self.given.cast::<u8>());
        let known = self.size.min(ours);
        // SAFETY: both have more bytes than the size takes.
        let (from, to) = unsafe { (from.add(first), to.add(first)) };
        // SAFETY: what both have after their size; the caller's memory is not ours.
        unsafe { to.copy_from_nonoverlapping(from, known.saturating_sub(first)) };
        if self.size > known {
            // SAFETY: after what is known, inside of the size that the caller says.
            let rest = unsafe { to.add(known - first) };
            // SAFETY: as above.
            unsafe { rest.write_bytes(0, self.size - known) };
        }
    }
}
