//! `extant tar`: an image becomes an archive.
use crate::console::{Console, Form};
use crate::error::{Error, Exit, printable};
use crate::export::{LeftOut, Output, Plan, Summary, Trouble, write};
use crate::image::{self, ImageArguments, Place};
use crate::progress::{Progress, Unit};
use crate::target::Existing;
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Write what is in an image as a tar archive, without loss and without mounting it.
///
/// Everything is kept: owners and groups above 65535 too, times to the nanosecond, extended
/// attributes, access lists, devices, hard links, holes. The same image gives the same bytes. GNU
/// tar restores all of it with --xattrs --xattrs-include='*' --acls --numeric-owner; "extant build"
/// needs --keep-atime for access and change times. Sockets are left out, and so is an empty
/// lost+found as mkfs makes it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant tar disk.img -o disk.tar
  extant tar disk.img | zstd > disk.tar.zst
  extant tar disk.img etc var/log | tar -tv
  extant tar disk.img | extant build -t ext2 - copy.img
  extant tar --keep-going damaged.img -o rescued.tar")]
pub struct Arguments {
    /// The image: a file, or a block device that is not mounted.
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Only these files and directories, with all that is in them. Symbolic links on the way are
    /// not followed.
    #[arg(value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Where the archive goes: a file, which must not be there yet; "-" is standard output, as is
    /// nothing.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace a file that is there.
    #[arg(long, short = 'F')]
    pub force: bool,
    /// Leave out what cannot be read, name it, and exit with 1 in the end.
    #[arg(long, short = 'k')]
    pub keep_going: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub place: ImageArguments,
}

#[derive(Serialize)]
struct Report {
    image: String,
    output: String,
    #[serde(flatten)]
    summary: Summary,
    sockets: Vec<String>,
    left_out: Vec<String>,
}

/// Writes it. With `--json` what it came to, on stdout; on stderr when the archive itself goes to
/// stdout.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let image = &arguments.image;
    check_words(&arguments)?;
    let filesystem = image::open(image, arguments.place.offset_bytes())?;
    check_output(&arguments)?;
    let survey =
        filesystem.survey().map_err(|error| Error::new(format!("{}: {error}", image.display())))?;
    let paths: Vec<Vec<u8>> = arguments.paths.iter().map(|path| path.as_bytes().to_vec()).collect();
    let in_image = |error: Error| Error {
        message: format!("{}: {}", image.display(), error.message),
        ..error
    };
    let mut plan = Plan::new(Arc::new(survey), &paths).map_err(in_image)?;
    let mut damage =
        Damage { console, image, keep_going: arguments.keep_going, left_out: Vec::new() };
    let sockets = damage.sort(std::mem::take(&mut plan.troubles))?;
    let existing = if arguments.force { Existing::Overwrite } else { Existing::Refuse };
    let mut output = match output_path(&arguments) {
        None => Output::stdout()?,
        Some(path) => Output::file(path, existing)?,
    };
    let progress = Progress::new(console, "tar", Unit::Bytes, plan.bytes);
    let summary =
        write(&Arc::new(plan), &mut output, &progress, &mut |left_out| damage.meet(left_out))?;
    drop(progress);
    let (to_stdout, name) = (output.is_stdout(), output.name().to_owned());
    output.finish()?;
    let exit = if damage.left_out.is_empty() { Exit::Complete } else { Exit::Incomplete };
    if console.form == Form::Json {
        let report = Report {
            image: image.display().to_string(),
            output: name,
            summary,
            sockets,
            left_out: damage.left_out,
        };
        match to_stdout {
            false => console.print_json(&report)?,
            true => console.print_json_aside(&report),
        }
    }
    Ok(exit)
}

/// `IMAGE:/path`, as other commands have it, is two words here.
fn check_words(arguments: &Arguments) -> Result<(), Error> {
    let place = Place::of(arguments.image.as_os_str());
    let Some(path) = place.path.filter(|_| place.image.exists()) else {
        return Ok(());
    };
    let path = printable(path.as_os_str().as_bytes());
    let words = format!("extant tar {} {}", place.image.display(), path.trim_start_matches('/'));
    Err(Error::usage(format!(
        "{}: tar takes paths as words of their \
            own",
        arguments.image.display()
    ))
    .hint(words.trim_end()))
}

fn output_path(arguments: &Arguments) -> Option<&Path> {
    arguments.output.as_deref().filter(|path| *path != Path::new("-"))
}

/// The archive must not replace the image that it is made from.
fn check_output(arguments: &Arguments) -> Result<(), Error> {
    let identity =
        |path: &Path| std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
    let image = identity(&arguments.image);
    match output_path(arguments) {
        Some(path) if image.is_some() && identity(path) == image => {
            Err(Error::usage(format!("{}: is the image itself", path.display())))
        }
        _ => Ok(()),
    }
}

/// What is done about what cannot be read.
struct Damage<'a> {
    console: &'a Console,
    image: &'a Path,
    keep_going: bool,
    left_out: Vec<String>,
}

impl Damage<'_> {
    /// Goes through what is known before anything is written. Gives the sockets.
    fn sort(&mut self, troubles: Vec<Trouble>) -> Result<Vec<String>, Error> {
        let mut sockets = Vec::new();
        for trouble in troubles {
            match trouble {
                Trouble::Damaged(left_out) => self.meet(left_out)?,
                Trouble::Socket(left_out) => {
                    self.console.warn(&left_out.to_string());
                    sockets.push(left_out.path);
                }
            }
        }
        Ok(sockets)
    }

    fn meet(&mut self, left_out: LeftOut) -> Result<(), Error> {
        let message = format!("{}: {left_out}", printable(self.image.as_os_str().as_bytes()));
        if !self.keep_going {
            return Err(Error::new(message).hint("--keep-going leaves it out and goes on"));
        }
        self.console.skipped(&message);
        self.left_out.push(left_out.path);
        Ok(())
    }
}
