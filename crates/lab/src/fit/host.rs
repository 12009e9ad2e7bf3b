//! A file or block device of the host, read past the page cache.
//!
//! What the page cache answers says nothing of a device, so everything is opened with `O_DIRECT`,
//! and refused where the host has no device to go to: on file systems in memory, and where a file
//! has holes. Times that no device has are refused afterwards ([`refuse_memory`]).
//!
//! *Invariants*: what is probed is opened for reading only. What is written is a file that was
//! empty or not there; it has lost its name before the first byte is written, so that it is gone
//! when the probes end, however they end.
use super::target::{ProbeRequest, TargetFacts};
use super::threaded::Store;
use extant_block::Operation;
use rustix::fs::OFlags;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Direct requests of the host begin and end at multiples of this, and so does their memory.
const ALIGNMENT: u64 = 4096;
/// How much is written at most; less where there is less room.
const WRITE_BYTES_MAX: u64 = 256 << 20;
/// The least that writes need.
const WRITE_BYTES_LEAST: u64 = 16 << 20;
/// How much is written at a time to fill the file.
const FILL_BYTES: u64 = 1 << 20;
/// File systems that keep files in memory: tmpfs and ramfs, by their numbers in statfs(2).
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
/// A read of 4 KiB is at least this far away on every device, in nanoseconds; a copy is not.
const DEVICE_NS_LEAST: f64 = 3_000.0;

/// Whether the page cache may answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caching {
    /// No: `O_DIRECT`, or an error.
    Bypassed,
    /// Yes: the result is that of the host's memory where it has the bytes.
    Allowed,
}

/// A file or block device of the host.
pub struct HostStore {
    name: String,
    file: File,
    bytes: u64,
    written: Option<Written>,
}

struct Written {
    file: File,
    bytes: u64,
}

impl HostStore {
    /// Opens a file or block device for reading.
    ///
    /// # Errors
    /// Those of the host; `InvalidInput` for other kinds of files and for files with holes;
    /// `Unsupported` where the page cache would answer.
    pub fn open(path: &Path, caching: Caching) -> io::Result<HostStore> {
        // Looked at before it is opened: opening a fifo waits for its other end.
        let kind = std::fs::metadata(path)?.file_type();
        check_kind(kind)?;
        let mut file = open(path, OpenOptions::new().read(true), caching)?;
        let bytes = file.seek(SeekFrom::End(0))? / ALIGNMENT * ALIGNMENT;
        let metadata = file.metadata()?;
        if bytes == 0 {
            return Err(invalid("is empty"));
        }
        if metadata.is_file() && metadata.blocks().saturating_mul(512) < bytes / 10 * 9 {
            return Err(invalid("has holes, which no device reads"));
        }
        Ok(HostStore { name: path.display().to_string(), file, bytes, written: None })
    }

    /// Lets the probes write: to a file that is not there or empty, which is filled first and is
    /// gone afterwards.
    ///
    /// # Errors
    /// Those of the host; `AlreadyExists` for a file with content; `StorageFull` where there is
    /// hardly any room; `Unsupported` where the page cache would answer.
    pub fn write_to(&mut self, path: &Path, caching: Caching) -> io::Result<()> {
        if let Ok(found) = std::fs::symlink_metadata(path) {
            check_kind(found.file_type())?;
            if !found.is_file() || found.len() > 0 {
                let message = "has content; writes go to a new file only";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
            }
            if found.nlink() > 1 {
                let message = "has another name, under which what is written would stay";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
            }
        }
        let mut options = OpenOptions::new();
        let file = open(path, options.read(true).write(true).create(true), caching);
        let removed = std::fs::remove_file(path);
        let file = file?;
        removed?;
        let host = rustix::fs::fstatfs(&file)?;
        let room = (host.f_bavail).saturating_mul(u64::try_from(host.f_bsize).unwrap_or(0)) / 4;
        let bytes = room.min(WRITE_BYTES_MAX) / FILL_BYTES * FILL_BYTES;
        if bytes < WRITE_BYTES_LEAST {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "there is hardly any room"));
        }
        let mut memory = Vec::new();
        for place in 0..bytes / FILL_BYTES {
            let piece = aligned(&mut memory, FILL_BYTES)?;
            piece.fill(place as u8 | 1);
            file.write_all_at(piece, place * FILL_BYTES)?;
        }
        file.sync_data()?;
        self.written = Some(Written { file, bytes });
        Ok(())
    }
}

fn open(path: &Path, options: &mut OpenOptions, caching: Caching) -> io::Result<File> {
    if caching == Caching::Bypassed {
        options.custom_flags(OFlags::DIRECT.bits().cast_signed());
    }
    let opened = options.open(path);
    let file = opened.map_err(|error| match (error.kind(), caching) {
        (io::ErrorKind::InvalidInput, Caching::Bypassed) => page_cache("has no direct I/O"),
        _ => error,
    })?;
    let host = rustix::fs::fstatfs(&file)?;
    let is_in_memory = IN_MEMORY.contains(&(host.f_type as u64 & 0xffff_ffff));
    if caching == Caching::Bypassed && is_in_memory && file.metadata()?.is_file() {
        return Err(page_cache("keeps its files in memory"));
    }
    Ok(file)
}

fn page_cache(reason: &str) -> io::Error {
    let message = format!("its file system {reason}: the page cache would answer, not a device");
    io::Error::new(io::ErrorKind::Unsupported, message)
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

fn check_kind(kind: FileType) -> io::Result<()> {
    let wrong = match () {
        () if kind.is_dir() => "is a folder",
        () if kind.is_fifo() => "is a pipe",
        () if kind.is_char_device() => "is a character device",
        () if kind.is_socket() => "is a socket",
        () if kind.is_symlink() => "is a symbolic link",
        () => return Ok(()),
    };
    Err(invalid(&format!("{wrong}, not a file or block device")))
}

/// So many bytes of the memory, from a multiple of the alignment on.
fn aligned(memory: &mut Vec<u8>, bytes: u64) -> io::Result<&mut [u8]> {
    let too_large = || invalid("a request is too large for this machine");
    let (bytes, alignment) = (usize::try_from(bytes).map_err(|_| too_large())?, ALIGNMENT as usize);
    let room = bytes.checked_add(alignment).ok_or_else(too_large)?;
    if memory.len() < room {
        memory.resize(room, 0);
    }
    let start = memory.as_ptr().align_offset(alignment);
    memory.get_mut(start..start.saturating_add(bytes)).ok_or_else(too_large)
}

/// Refuses times that no device has: those of copies from the host's memory.
///
/// # Errors
/// `Unsupported`: half of the reads of 4 KiB took less time than any device needs.
pub fn refuse_memory(median_ns: f64) -> io::Result<()> {
    match median_ns < DEVICE_NS_LEAST {
        false => Ok(()),
        true => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("reads of 4 KiB take {median_ns:.0} ns: the page cache answers, not a device"),
        )),
    }
}

impl Store for HostStore {
    fn facts(&self) -> TargetFacts {
        TargetFacts {
            name: self.name.clone(),
            bytes: self.bytes,
            sector_bytes: ALIGNMENT as u32,
            write_bytes: self.written.as_ref().map_or(0, |written| written.bytes),
        }
    }

    fn serve(&self, request: &ProbeRequest, memory: &mut Vec<u8>) -> io::Result<()> {
        let ProbeRequest { operation, offset, bytes, .. } = *request;
        let ended = || io::Error::new(io::ErrorKind::UnexpectedEof, "became smaller meanwhile");
        match (operation, &self.written) {
            (Operation::Read, _) => {
                let read = self.file.read_exact_at(aligned(memory, bytes)?, offset);
                read.map_err(|error| match error.kind() {
                    io::ErrorKind::UnexpectedEof => ended(),
                    _ => error,
                })
            }
            (Operation::Write, Some(written)) => {
                written.file.write_all_at(aligned(memory, bytes)?, offset)
            }
            (Operation::Flush, Some(written)) => written.file.sync_data(),
            (Operation::Write | Operation::Flush, None) => Err(invalid("may not be written")),
        }
    }
}
