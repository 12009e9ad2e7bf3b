//! e2label: the label of a volume, shown or set.
use super::in_place::{self, InPlace};
use super::{complain, getopt, one_line, say};
use crate::error::Error;
use crate::image;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes of a label.
const LABEL_BYTES: usize = 16;

/// Exit code 0, or 1 as e2label has it.
pub fn run(name: &'static str, words: &[OsString]) -> u8 {
    let read = match getopt::read(words, "") {
        Ok(read) => read.operands,
        Err(error) => {
            complain(&format!("{name}: {}", error.0));
            Vec::new()
        }
    };
    let done = match read.as_slice() {
        [device] => show(Path::new(device)),
        [device, label] => set(name, Path::new(device), label.as_bytes()),
        _ => {
            complain(&format!("Usage: {name} device [newlabel]"));
            return 1;
        }
    };
    match done {
        Ok(()) => 0,
        Err(error) => {
            complain(&one_line(name, &error));
            1
        }
    }
}

fn show(path: &Path) -> Result<(), Error> {
    let device = image::device(path, 0)?;
    let superblock = in_place::superblock(&*device, path)?;
    let label = superblock.label.split(|byte| *byte == 0).next().unwrap_or_default();
    say(&format!("{}\n", extant_archive::printable(label)));
    Ok(())
}

fn set(name: &str, path: &Path, label: &[u8]) -> Result<(), Error> {
    if label.len() > LABEL_BYTES {
        complain(&format!("{name}: Warning: label too long, truncating."));
    }
    let mut stored = [0; LABEL_BYTES];
    for (to, from) in stored.iter_mut().zip(label) {
        *to = *from;
    }
    let volume = InPlace::open(path)?;
    let superblock = volume.superblock()?;
    volume.write(&superblock, |copy| copy.label = stored)
}
