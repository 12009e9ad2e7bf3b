//! Disks that are read from other forms than a plain file: compressed by gzip, zstd or xz, qcow2,
//! Android's sparse form. Each is a [`BlockDevice`], which is never written.
//!
//! ```text
//! form      what a file is, by its first bytes
//! spool     a compressed file, unpacked into a file without a name
//! qcow2     its header and tables; single clusters that are compressed
//! android   a list of chunks
//! device    bytes at any place as a device
//! error     why a disk cannot be read, with the byte at which it is wrong
//! ```
//! The bytes come from a stranger. What they claim is held against the length of the file before
//! memory is given to it, and every table is walked once.
mod android;
mod device;
mod error;
mod form;
mod qcow2;
mod spool;

pub use error::Error;
pub use form::{Form, LOOK_BYTES, form_of};
pub use spool::{Progress, Spooled, unpack};

use extant_block::{BlockDevice, Clock};
use std::fs::File;
use std::sync::Arc;

/// The disk in a file of this form, under that name in messages. [`Form::Compressed`] has to be
/// unpacked before.
///
/// # Errors
/// What is damaged, or not supported, by name.
pub fn open(
    clock: Arc<dyn Clock>,
    file: File,
    form: Form,
    name: String,
) -> Result<Arc<dyn BlockDevice>, Error> {
    Ok(match form {
        Form::Qcow2 => Arc::new(device::Disk::new(clock, qcow2::Qcow2::open(file)?, name)),
        Form::AndroidSparse => {
            Arc::new(device::Disk::new(clock, android::Sparse::open(file)?, name))
        }
        Form::Compressed(_) => return Err(Error::NotUnpacked),
    })
}
