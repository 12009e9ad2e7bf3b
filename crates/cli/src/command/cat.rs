//! `extant cat`: the bytes of files in an image.
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::image::{self, ImageArguments, ImagePath, failure};
use extant_edit::glob;
use extant_engine::{File, Filesystem};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Write files in an image to standard output.
///
/// Symbolic links are followed, holes come out as zeros. --json changes only how errors are
/// printed.
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
    #[allow(missing_docs)]
    pub image: ImageArguments,
}

/// Bytes that are read at a time.
pub const BUFFER_BYTES: usize = 1 << 20;

/// Writes them, one after the other.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let offset = arguments.image.offset_bytes();
    let mut opened = None;
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
            _ => image::open(&place.image, offset, console)?,
        };
        for path in glob::expand(&filesystem, path) {
            print(&filesystem, &place.image, &path, &mut buffer)?;
        }
        opened = Some::<(PathBuf, _)>((place.image, filesystem));
    }
    Ok(Exit::Complete)
}

/// Writes a file of an image to standard output.
///
/// # Errors
/// It is no file; what cannot be read of it; a closed pipe.
pub fn print(
    filesystem: &Filesystem,
    image: &Path,
    path: &Path,
    buffer: &mut [u8],
) -> Result<(), Error> {
    let file = filesystem.open_file(path).map_err(|error| failure(image, error))?;
    copy(&file, buffer, image, path)
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
