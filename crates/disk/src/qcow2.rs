//! The format of QEMU: clusters of 64 KiB, of which only those with data are stored.
use crate::content::{Content, Piece};
use imago::file::File as Storage;
use imago::qcow2::Qcow2;
use imago::{DenyImplicitOpenGate, FormatAccess, FormatCreateBuilder, FormatDriverBuilder};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of a cluster.
const CLUSTER_BYTES: u64 = 64 << 10;

/// Writes a disk into an empty file, version 3 of the format. What is free or zeros is not stored.
///
/// # Errors
/// The host's.
pub fn write(content: &Content<'_>, to: File) -> io::Result<()> {
    let storage = Storage::try_from(to.try_clone()?)?;
    let builder = Qcow2::<Storage>::create_builder(storage);
    let disk =
        builder.size(content.bytes).create_open(DenyImplicitOpenGate::default(), |image| {
            Ok(Qcow2::<Storage>::builder(image).backing(None).write(true))
        })?;
    let disk = FormatAccess::new(disk);
    let mut buffer = vec![0; CLUSTER_BYTES as usize];
    for run in content.runs(CLUSTER_BYTES)?.iter().filter(|run| run.piece == Piece::Data) {
        for cluster in run.blocks.clone() {
            let at = cluster * CLUSTER_BYTES;
            let part = &mut buffer[..CLUSTER_BYTES.min(content.bytes - at) as usize];
            content.read(part, at)?;
            disk.write(&*part, at)?;
        }
    }
    disk.flush()?;
    drop(disk);
    sort_features(&to)
}

/// Where the header says how long it is, and the type of the extension that names features.
const HEADER_LENGTH_AT: usize = 100;
const FEATURE_NAMES: u32 = 0x6803_f857;
/// Bytes of a feature's name, with its kind and its bit before it.
const FEATURE_BYTES: usize = 48;

/// Puts the names of features in order: the library has them in another one each time. QEMU reads
/// them in any order.
fn sort_features(file: &File) -> io::Result<()> {
    let mut header = vec![0; CLUSTER_BYTES as usize];
    file.read_exact_at(&mut header, 0)?;
    let word = |at: usize| {
        let bytes = header.get(at..at + 4)?;
        Some(bytes.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)))
    };
    let mut at = word(HEADER_LENGTH_AT).unwrap_or(0) as usize;
    while let (Some(kind), Some(length)) = (word(at), word(at + 4)) {
        let start = at + 8;
        let end = start.saturating_add(length as usize);
        if kind == FEATURE_NAMES && end <= header.len() {
            let (names, _) = header[start..end].as_chunks_mut::<FEATURE_BYTES>();
            names.sort_unstable();
            return file.write_all_at(&header[start..end], start as u64);
        }
        // The list ends with an extension of type 0.
        if kind == 0 || end > header.len() {
            break;
        }
        at = end.next_multiple_of(8);
    }
    Ok(())
}
