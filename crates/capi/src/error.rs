//! What the last call of a thread said that failed.
use crate::failure::{EXTANT_KIND_FAULT, EXTANT_KIND_NONE, INVALID, last};
use crate::handle::{plain, tell};
use std::ffi::{c_char, c_int};

/// The number of the last call that failed in this thread, whatever its handle; 0 if none did. Its
/// words are copied to `buffer`, cut to `size` bytes with the NUL. `buffer` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_error(buffer: *mut c_char, size: usize) -> c_int {
    // SAFETY: `buffer` is NULL or has `size` bytes.
    plain(INVALID, || unsafe { tell(last(), buffer, size) })
}

/// Of which kind the last call that failed in this thread was: EXTANT_KIND_NONE if none did.
#[unsafe(no_mangle)]
pub extern "C" fn extant_error_kind() -> u32 {
    plain(EXTANT_KIND_FAULT, || last().map_or(EXTANT_KIND_NONE, |failure| failure.kind))
}

/// The version of the library, "0.1.0". The string is the library's own.
#[unsafe(no_mangle)]
pub extern "C" fn extant_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
