//! What C points to: strings, buffers, places for results.
use crate::failure::{Failure, Result};
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::slice;

/// The bytes of a string, without its NUL.
///
/// # Errors
/// It is NULL.
pub unsafe fn bytes<'c>(string: *const c_char, name: &str) -> Result<&'c [u8]> {
    if string.is_null() {
        return Err(Failure::null(name));
    }
    // SAFETY: not NULL, so by the promise of the caller a string that ends with a NUL and stays as
    // it is during the call.
    Ok(unsafe { CStr::from_ptr(string) }.to_bytes())
}

/// A path: any bytes.
///
/// # Errors
/// It is NULL.
pub unsafe fn path<'c>(string: *const c_char, name: &str) -> Result<&'c Path> {
    // SAFETY: the caller's promise, as it is.
    let bytes = unsafe { bytes(string, name) }?;
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// Words of the library's own.
///
/// # Errors
/// They are NULL, or no UTF-8.
pub unsafe fn words<'c>(string: *const c_char, name: &str) -> Result<&'c str> {
    // SAFETY: the caller's promise, as it is.
    let bytes = unsafe { bytes(string, name) }?;
    str::from_utf8(bytes).map_err(|_| Failure::invalid(format!("{name} is no UTF-8")))
}

/// Words that may be left out: `None` for NULL.
///
/// # Errors
/// They are no UTF-8.
pub unsafe fn optional_words<'c>(string: *const c_char, name: &str) -> Result<Option<&'c str>> {
    if string.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise, as it is.
    unsafe { words(string, name) }.map(Some)
}

/// Bytes to read from. Those of length 0 may be NULL.
///
/// # Errors
/// They are NULL, or more than memory can have.
pub unsafe fn given<'c>(start: *const u8, length: usize, name: &str) -> Result<&'c [u8]> {
    if length == 0 {
        return Ok(&[]);
    }
    if start.is_null() {
        return Err(Failure::null(name));
    }
    within(length, name)?;
    // SAFETY: not NULL, not longer than a slice may be, and by the promise of the caller so many
    // bytes that stay as they are during the call.
    Ok(unsafe { slice::from_raw_parts(start, length) })
}

/// A buffer to fill. One of length 0 may be NULL. What is in it may be anything: it is set to 0
/// first, as bytes that were never written may not be looked at.
///
/// # Errors
/// It is NULL, or more than memory can have.
pub unsafe fn buffer<'c>(start: *mut u8, length: usize, name: &str) -> Result<&'c mut [u8]> {
    if length == 0 {
        return Ok(&mut []);
    }
    if start.is_null() {
        return Err(Failure::null(name));
    }
    within(length, name)?;
    // SAFETY: not NULL, and by the promise of the caller so many bytes that it may write.
    unsafe { start.write_bytes(0, length) };
    // SAFETY: as above; the caller looks at them only after the call, and they were written.
    Ok(unsafe { slice::from_raw_parts_mut(start, length) })
}

/// What a slice of Rust may be long.
fn within(length: usize, name: &str) -> Result<()> {
    match isize::try_from(length) {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::invalid(format!("{name} cannot have {length} bytes"))),
    }
}

/// Whether there is a place for a result.
///
/// # Errors
/// There is none: NULL.
pub fn place<T>(place: *mut T, name: &str) -> Result<*mut T> {
    if place.is_null() { Err(Failure::null(name)) } else { Ok(place) }
}

/// Stores a result where there is a place for it.
pub unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: not NULL, and by the promise of the caller a place for such a value; what was
        // there is no value that has to be dropped.
        unsafe { place.write(value) };
    }
}

/// Copies bytes into a buffer of the caller, and says how many there are. A size of 0 only asks.
///
/// # Errors
/// The buffer is too small: nothing is copied, but the length is told.
pub unsafe fn put_bytes(
    bytes: &[u8],
    start: *mut u8,
    size: usize,
    length: *mut usize,
) -> Result<()> {
    // SAFETY: the caller's promise about the place for the length.
    unsafe { put(length, bytes.len()) };
    if size == 0 {
        return Ok(());
    }
    if size < bytes.len() {
        return Err(Failure::small(bytes.len()));
    }
    let start = place(start, "buffer")?;
    // SAFETY: there is room for all of them, and a buffer of the caller is no memory of ours.
    unsafe { start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}

/// Copies words into a buffer, cut to its size, with a NUL.
pub unsafe fn put_words(words: &str, buffer: *mut c_char, size: usize) {
    if buffer.is_null() || size == 0 {
        return;
    }
    let mut length = words.len().min(size - 1);
    while !words.is_char_boundary(length) {
        length -= 1;
    }
    let start: *mut u8 = buffer.cast();
    // SAFETY: at most `size` - 1 bytes of a buffer of `size`, which is no memory of ours.
    unsafe { start.copy_from_nonoverlapping(words.as_ptr(), length) };
    // SAFETY: `length` is less than `size`.
    let end = unsafe { start.add(length) };
    // SAFETY: the byte after them, inside of the buffer.
    unsafe { end.write(0) };
}
