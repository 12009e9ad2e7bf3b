//! e2label: the label of a volume, shown or set.
use super::in_place::{self, InPlace};
use super::{complain, getopt, one_line, say};
use extant_engine::recover;
use extant_format::superblock::Feature;
use extant_host::error::Error;
use extant_host::image::{self, ImageArguments};
use extant_host::recovery;
use extant_journal::{Journal, MapSource};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

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
    let device = image::device(path, &ImageArguments::default())?;
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
    let failed = |error| image::failure(path, error);
    let refused = |error: extant_journal::Error| failed(error.into());
    // A copy of the superblock in a log would bring the old label back.
    let superblock = volume.superblock()?;
    extant_journal::check_place(&*volume.device, &superblock).map_err(refused)?;
    Journal::find(Arc::clone(&volume.device), MapSource::Inode).map_err(refused)?;
    if volume.superblock()?.has(Feature::NEEDS_RECOVERY) {
        say(&format!("{}: recovering journal\n", path.display()));
        let report = recover(&volume.device).map_err(failed)?;
        let cut = report.and_then(|report| recovery::cut(path, &report));
        cut.iter().for_each(|cut| complain(&format!("{name}: {cut}")));
    }
    let superblock = volume.superblock()?;
    volume.write(&superblock, |copy| copy.label = stored)
}
