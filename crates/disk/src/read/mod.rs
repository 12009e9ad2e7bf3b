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
pub(crate) mod device;
pub(crate) mod error;
mod form;
pub(crate) mod qcow2;
mod spool;

pub use error::Error;
pub use form::{Form, LOOK_BYTES, form_of};
pub use spool::{Progress, Spooled, unpack};

use crate::in_place::{self, BACKINGS_MAX};
use extant_block::{BlockDevice, Clock};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// The disk in a file of this form, under that name in messages. [`Form::Compressed`] has to be
/// unpacked before. With the `place` of the file, a qcow2 image may be based on another one
/// ([`in_place::backing_at`](crate::in_place::backing_at)).
///
/// # Errors
/// What is damaged, or not supported, by name.
pub fn open(
    clock: Arc<dyn Clock>,
    file: File,
    form: Form,
    (name, place): (String, Option<&Path>),
) -> Result<Arc<dyn BlockDevice>, Error> {
    Ok(match form {
        Form::Qcow2 => {
            let backing = match place {
                Some(place) => in_place::backing_at(&clock, &file, place, BACKINGS_MAX)?,
                None => None,
            };
            Arc::new(device::Disk::new(clock, qcow2::Qcow2::open(file, backing)?, name))
        }
        Form::AndroidSparse => {
            Arc::new(device::Disk::new(clock, android::Sparse::open(file)?, name))
        }
        Form::Compressed(_) => return Err(Error::NotUnpacked),
    })
}
