//! An image behind functions of the program.
use crate::failure::{Failure, Result};
use crate::sized;
use crate::structs::Device;
use std::ffi::{c_int, c_void};
use std::io;
use std::sync::Arc;

/// The caller's functions. Released when nothing uses them any more.
struct Callbacks {
    device: Device,
    bytes: u64,
}

// SAFETY: the header asks of the program that its functions may be called from every thread; what
// `context` points to is only ever handed to them.
unsafe impl Send for Callbacks {}
// SAFETY: as above: also at the same time.
unsafe impl Sync for Callbacks {}

impl Drop for Callbacks {
    fn drop(&mut self) {
        if let Some(release) = self.device.release {
            // SAFETY: the program's function with its own context; this is its last call.
            unsafe { release(self.device.context) };
        }
    }
}

/// A device of the program, as the crate has it.
///
/// # Errors
/// It is NULL, or has no `size` or `read_at`.
pub unsafe fn device(given: *const Device) -> Result<Arc<dyn extant::Device>> {
    if given.is_null() {
        return Err(Failure::null("device"));
    }
    // SAFETY: not NULL, and by the promise of the caller such a struct.
    let device = unsafe { sized::read(given) }?;
    let mut callbacks = Callbacks { device, bytes: 0 };
    let size = device.size.ok_or_else(|| Failure::null("the device's size"))?;
    if device.read_at.is_none() {
        return Err(Failure::null("the device's read_at"));
    }
    // SAFETY: the program's function with its own context.
    callbacks.bytes = unsafe { size(device.context) };
    Ok(Arc::new(callbacks))
}

/// What a function of the program returned.
fn outcome(errno: c_int) -> io::Result<()> {
    match errno {
        0 => Ok(()),
        errno if errno > 0 => Err(io::Error::from_raw_os_error(errno)),
        _ => Err(io::Error::other("the device returned a negative number")),
    }
}

impl extant::Device for Callbacks {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let Some(read) = self.device.read_at else { return Err(io::ErrorKind::Unsupported.into()) };
        let (start, length) = (bytes.as_mut_ptr().cast::<c_void>(), bytes.len());
        // SAFETY: the program's function with its own context, and so many bytes for it to fill.
        outcome(unsafe { read(self.device.context, offset, start, length) })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let Some(write) = self.device.write_at else {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        };
        let (start, length) = (bytes.as_ptr().cast::<c_void>(), bytes.len());
        // SAFETY: the program's function with its own context, and so many bytes for it to read.
        outcome(unsafe { write(self.device.context, offset, start, length) })
    }

    fn flush(&self) -> io::Result<()> {
        match self.device.flush {
            // SAFETY: the program's function with its own context.
            Some(flush) => outcome(unsafe { flush(self.device.context) }),
            None => Ok(()),
        }
    }
}
