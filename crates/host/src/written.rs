//! The disk in a file that is open and locked to be written: its bytes, or what a qcow2 image has.
//!
//! *Invariants*: the file is open as long as the disk is, and so is its lock.
use crate::error::Error;
use extant_block::{BlockDevice, Clock, FileDevice};
use extant_disk::in_place::Qcow2;
use extant_disk::read::{Form, LOOK_BYTES, form_of};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A disk.
#[derive(Clone)]
pub struct Disk {
    /// Its bytes.
    pub device: Arc<dyn BlockDevice>,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    /// The file's own bytes.
    Plain(Arc<FileDevice>),
    Qcow2(Arc<Qcow2>),
}

impl Disk {
    /// The disk in a file or block device of this length.
    ///
    /// # Errors
    /// The host's; a qcow2 image that is not written.
    pub fn open(
        clock: Arc<dyn Clock>,
        (file, path): (&File, &Path),
        bytes: u64,
        shown: &str,
    ) -> Result<Disk, Error> {
        let failed = |error: io::Error| Error::io(shown, &error);
        let copy = file.try_clone().map_err(failed)?;
        let file =
            FileDevice::from_file(clock, copy, shown.to_owned(), bytes, 0).map_err(failed)?;
        Disk::in_file(Arc::new(file), path, shown)
    }

    /// The disk in a file that is a device already.
    ///
    /// # Errors
    /// A qcow2 image that is not written.
    pub fn in_file(file: Arc<FileDevice>, path: &Path, shown: &str) -> Result<Disk, Error> {
        let mut head = [0; LOOK_BYTES];
        let form = file.read(0, &mut head).ok().and_then(|()| form_of(&head));
        if form != Some(Form::Qcow2) {
            return Ok(Disk { device: Arc::clone(&file) as _, kind: Kind::Plain(file) });
        }
        // What is written past the end of the file makes it longer.
        let failed = |error: io::Error| Error::io(shown, &error);
        let (clock, bytes) = (Arc::clone(file.clock()), file.info().bytes);
        let copy = file.file().try_clone().map_err(failed)?;
        drop(file);
        let file =
            FileDevice::from_file(clock, copy, shown.to_owned(), bytes, 0).map_err(failed)?;
        let opened = Qcow2::open_at(Arc::new(file), path, shown.to_owned());
        let disk = Arc::new(opened.map_err(|error| unread(Form::Qcow2, shown, &error))?);
        Ok(Disk { device: Arc::clone(&disk) as _, kind: Kind::Qcow2(disk) })
    }

    /// Whether it is in a qcow2 image.
    pub fn is_qcow2(&self) -> bool {
        matches!(self.kind, Kind::Qcow2(_))
    }

    /// Gives it another length. The disk of a qcow2 image does not become shorter: what is past
    /// its new end is given back.
    ///
    /// # Errors
    /// The host's; a qcow2 image that cannot be longer.
    pub fn set_length(&self, bytes: u64) -> io::Result<Disk> {
        let file = match &self.kind {
            Kind::Plain(file) => file,
            Kind::Qcow2(disk) => {
                let there = disk.info().bytes;
                match there.checked_sub(bytes) {
                    None => disk.grow(bytes)?,
                    // What cannot be given back stays: nothing reads it.
                    Some(rest) => drop(self.device.discard(bytes, rest)),
                }
                return Ok(self.clone());
            }
        };
        let (clock, name) = (Arc::clone(file.clock()), file.info().name);
        file.file().set_len(bytes)?;
        let file = file.file().try_clone()?;
        let file = Arc::new(FileDevice::from_file(clock, file, name, bytes, 0)?);
        Ok(Disk { device: Arc::clone(&file) as _, kind: Kind::Plain(file) })
    }
}

/// What is said of a container that cannot be opened.
pub fn unread(form: Form, shown: &str, error: &extant_disk::read::Error) -> Error {
    use extant_disk::read::Error as Unread;
    let that = match error {
        Unread::Unsupported(_) | Unread::Uncounted(_) => " that",
        _ => ":",
    };
    let failure = Error::new(format!("{shown}: is {}{that} {error}", form.name()));
    failure.hint(match (form, error) {
        (Form::Qcow2, Unread::Uncounted(_)) => {
            format!("qemu-img check -r all {shown} counts anew")
        }
        _ => format!("another program may read it: {}", form.conversion(shown)),
    })
}
