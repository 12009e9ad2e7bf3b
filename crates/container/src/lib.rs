//! Disks that are not a plain volume: their partitions, by GPT and MBR; compressed by gzip, zstd or
//! xz; qcow2; Android's sparse form. Read only, as a
//! [`BlockDevice`](extant_block::BlockDevice) that knows nothing of file systems.
//!
//! ```text
//! partitions   where the volumes of a disk are
//! form      what a file is, by its first bytes
//! spool     a compressed file, unpacked into a file without a name
//! qcow2     its header and tables: qcow2/header, qcow2/tables; qcow2/cluster: compressed ones
//! android   a list of chunks
//! content   bytes at any place as a device
//! error     why a container cannot be read, with the byte at which it is wrong
//! ```
//! The bytes come from a stranger. What they claim is held against the length of the file before
//! memory is given to it, and every table is walked once.
//!
//! Why not libraries: the crates for GPT and MBR read through `Read` and `Seek` on their own view
//! of sectors, and none reads all of a GPT's copy, both sizes of sectors and logical partitions.
//! `imago`, which reads qcow2, is built on tokio and brings more crates than all else here; the
//! others are for kernels or unkept. What is read of qcow2 is three pages.
mod android;
mod content;
mod error;
mod form;
mod partitions;
mod qcow2;
mod spool;

pub use error::Error;
pub use form::{Form, LOOK_BYTES, form_of};
pub use partitions::{Partition, PartitionTable, Scheme, partitions};
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
        Form::Qcow2 => Arc::new(content::Disk::new(clock, qcow2::Qcow2::open(file)?, name)),
        Form::AndroidSparse => {
            Arc::new(content::Disk::new(clock, android::Sparse::open(file)?, name))
        }
        Form::Compressed(_) => return Err(Error::NotUnpacked),
    })
}
