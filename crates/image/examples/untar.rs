//! How long it takes to unpack an archive into a mounted volume, as tar does: every file made,
//! written and closed one after the other, everything synced and closed in the end. Prints the
//! milliseconds.
//!
//! ```text
//! untar ARCHIVE IMAGE POLICIES
//! ```
// tidy: print because a measurement is for a script
use extant_archive::{Bodies, Content, Reader};
use extant_block::{Clock, FileDevice, RealClock, file};
use extant_engine::preset::Policies;
use extant_engine::{Access, DataKeeping, ErrorKind, Filesystem, Options};
use std::error::Error;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes of a file that are read and written at once.
const PIECE_BYTES: u64 = 1 << 20;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [archive, image, policies] = &words[..] else {
        return Err("untar ARCHIVE IMAGE POLICIES".into());
    };
    let clock = RealClock::new();
    let policies: Policies = policies.parse().map_err(|error| format!("{error}"))?;
    let device = FileDevice::open(clock.clone(), image.as_ref(), file::Access::ReadWrite, 0)?;
    let (access, data) = (Access::ReadWrite, DataKeeping::Bytes);
    let options = Options { access, policies, cache_bytes: 256 << 20, data };
    let archive = std::fs::File::open(archive)?;
    let mut reader = Reader::new(archive, &Bodies::Keep { spool_folder: None })?;
    let start = clock.now();
    let filesystem = Filesystem::open(std::sync::Arc::new(device), &options)?;
    unpack(&mut reader, &filesystem)?;
    filesystem.close()?;
    println!("{}", (clock.now() - start) / 1_000_000);
    Ok(())
}

fn unpack(reader: &mut Reader, filesystem: &Filesystem) -> Outcome<()> {
    let mut buffer = vec![0; PIECE_BYTES as usize];
    while let Some(entry) = reader.next_entry()? {
        let path = entry.path?;
        let path = Path::new("/").join(OsStr::from_bytes(&path));
        let made = match &entry.content {
            Content::Directory => filesystem.create_dir(&path, 0o755),
            Content::Symlink { target } => filesystem.symlink(OsStr::from_bytes(target), &path),
            Content::File(body) => {
                let file = filesystem.create_file(&path, 0o644)?;
                for offset in (0..body.size).step_by(PIECE_BYTES as usize) {
                    let piece = &mut buffer[..PIECE_BYTES.min(body.size - offset) as usize];
                    reader.read_body(body, offset, piece)?;
                    file.write_all_at(offset, piece)?;
                }
                Ok(())
            }
            // Links and devices are few and small.
            _ => Ok(()),
        };
        match made {
            Err(error) if !matches!(error.kind, ErrorKind::Exists) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}
