//! `extant cat`: the bytes of files in an image.
use crate::troubles::Troubles;
use extant_edit::glob;
use extant_edit::tree::{self, Links};
use extant_engine::{ErrorKind, File, Filesystem, Rights};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::image::{DamageArguments, ImageArguments, ImagePath, failure};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Write files in an image to standard output.
///
/// Symbolic links are followed, holes come out as zeros. A file of a damaged image whose name no
/// file may have is read by what extant extract would call it (..%2Fname), and the exit code is 1.
/// --json changes only how errors are printed.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant cat disk.img:/etc/os-release
  extant cat disk.img:/var/log/a.log.gz | zcat
  extant cat 'disk.img:/etc/*.conf'
  extant cat disk.img:/boot/part1 disk.img:/boot/part2 > whole")]
pub struct Arguments {
    /// The files
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    pub places: Vec<OsString>,
    #[command(flatten)]
    pub damage: DamageArguments,
    #[command(flatten)]
    pub image: ImageArguments,
}

/// Bytes that are read at a time.
pub const BUFFER_BYTES: usize = 1 << 20;
/// What is lost at once where it cannot be read.
const LOST_BYTES: u64 = 1024;

/// Writes them, one after the other.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let (mut opened, mut exit) = (None, Exit::Complete);
    let mut buffer = vec![0; BUFFER_BYTES];
    for word in &arguments.places {
        let place = ImagePath::of(word);
        let Some(path) = &place.path else {
            return Err(Error::usage(format!(
                "{}: names no file in the image",
                place.image.display()
            ))
            .hint("write IMAGE:/path"));
        };
        let filesystem = match opened.take() {
            Some((image, filesystem)) if image == place.image => filesystem,
            _ => {
                let opened = arguments.damage.open(&place.image, &arguments.image, console)?;
                if opened.exit() != Exit::Complete {
                    exit = opened.exit();
                }
                opened.filesystem
            }
        };
        for path in glob::expand(&filesystem, path) {
            let at = (place.image.as_path(), path.as_path());
            let printed = match arguments.damage.force_read {
                true => print_over(&filesystem, at, &mut buffer, console)?,
                false => print(&filesystem, at, &mut buffer, console)?,
            };
            exit = if printed == Exit::Complete { exit } else { printed };
        }
        opened = Some::<(PathBuf, _)>((place.image, filesystem));
    }
    Ok(exit)
}

/// A file whose own name no file may have.
struct Saved {
    file: File,
    said: String,
}

/// The file that is written as the last name of a path, because no file may have its own.
fn saved(filesystem: &Filesystem, path: &Path) -> Option<Saved> {
    let (folder, name) = tree::split(path);
    let inodes = filesystem.inodes();
    let folder = tree::inode(filesystem, folder, Links::Follow).ok()?;
    let names = inodes.names(&folder).ok()?;
    let entry = names.into_iter().find(|entry| entry.name == name && entry.stored.is_some())?;
    let inode = inodes.by_number(entry.ino).ok()?;
    let file = inodes.open(&inode, Rights::READ).ok()?;
    let stored = entry.stored.unwrap_or_default();
    let said = format!("has a name that no file may have: \"{}\"", stored.escape_ascii());
    Some(Saved { file, said })
}

/// Writes a file of an image to standard output. One whose own name no file may have is named, and
/// the exit is that of files that were left out.
///
/// # Errors
/// It is no file; what cannot be read of it; a closed pipe.
pub fn print(
    filesystem: &Filesystem,
    (image, path): (&Path, &Path),
    buffer: &mut [u8],
    console: &Console,
) -> Result<Exit, Error> {
    let (file, exit) = match filesystem.open_file(path) {
        Err(error) if matches!(error.kind, ErrorKind::NotFound) => {
            let saved = saved(filesystem, path).ok_or_else(|| failure(image, error))?;
            let troubles = Troubles::new(console, image);
            troubles.tell(extant_edit::Error::inside(path, saved.said));
            (saved.file, troubles.exit())
        }
        opened => (opened.map_err(|error| failure(image, error))?, Exit::Complete),
    };
    copy(&file, buffer, image, path)?;
    Ok(exit)
}

/// The same over damage: what cannot be read is named and comes out as zeros, and so is a file that
/// cannot be opened, of which nothing comes out.
///
/// # Errors
/// As [`print`]; what cannot be read is none.
pub fn print_over(
    filesystem: &Filesystem,
    (image, path): (&Path, &Path),
    buffer: &mut [u8],
    console: &Console,
) -> Result<Exit, Error> {
    let troubles = Troubles::new(console, image);
    let tell = |error: extant_engine::Error| troubles.told(&failure(image, error.at(path)));
    let opened = filesystem.open_file(path).and_then(|file| Ok((file.metadata()?.size, file)));
    let (size, file) = match opened {
        Ok(opened) => opened,
        Err(error) if matches!(error.kind, ErrorKind::NotFound) => {
            return print(filesystem, (image, path), buffer, console);
        }
        Err(error) => {
            tell(error);
            return Ok(troubles.exit());
        }
    };
    let mut out = std::io::stdout().lock();
    let mut at = 0;
    while at < size {
        // Small pieces where a large one cannot be read.
        let large = (size - at).min(buffer.len() as u64) as usize;
        let mut read = file.read_at(at, &mut buffer[..large]);
        if read.is_err() {
            let small = (size - at).min(LOST_BYTES - at % LOST_BYTES) as usize;
            read = file.read_at(at, &mut buffer[..small]).or_else(|error| {
                tell(error);
                buffer[..small].fill(0);
                Ok(small)
            });
        }
        let length = read.unwrap_or(0);
        if length == 0 {
            break;
        }
        out.write_all(&buffer[..length]).map_err(|error| Error::stdout(&error))?;
        at += length as u64;
    }
    Ok(troubles.exit())
}

/// Stretch by stretch: data is read in large pieces, what is between is zeros that are not read.
fn copy(file: &File, buffer: &mut [u8], image: &Path, path: &Path) -> Result<(), Error> {
    let failed = |error: extant_engine::Error| failure(image, error.at(path));
    let mut out = std::io::stdout().lock();
    let mut write = |bytes: &[u8]| out.write_all(bytes).map_err(|error| Error::stdout(&error));
    let size = file.metadata().map_err(failed)?.size;
    let mut at = 0;
    while let Some(data) = file.next_data(at).map_err(failed)? {
        zeros(data.start.min(size).saturating_sub(at), buffer, &mut write)?;
        at = data.start;
        while at < data.end {
            let want = (data.end - at).min(buffer.len() as u64) as usize;
            let length = file.read_at(at, &mut buffer[..want]).map_err(failed)?;
            if length == 0 {
                return Ok(());
            }
            write(&buffer[..length])?;
            at += length as u64;
        }
    }
    zeros(size.saturating_sub(at), buffer, &mut write)
}

fn zeros(
    mut length: u64,
    buffer: &mut [u8],
    write: &mut impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    if length > 0 {
        buffer.fill(0);
    }
    while length > 0 {
        let piece = length.min(buffer.len() as u64);
        write(&buffer[..piece as usize])?;
        length -= piece;
    }
    Ok(())
}
