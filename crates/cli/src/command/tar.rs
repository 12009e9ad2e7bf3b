//! `extant tar`: an image becomes an archive.
use crate::output::Output;
use crate::troubles::LeaveOut;
use extant_archive::printable;
use extant_edit::glob;
use extant_host::console::{Console, Form};
use extant_host::error::{Error, Exit};
use extant_host::image::{self, DamageArguments, ImageArguments, ImagePath, Opened};
use extant_host::place::{self, VolumeName};
use extant_host::progress::Unit;
use extant_host::target::Existing;
use extant_image::ErrorKind;
use extant_image::export::{ExportPlan, LeftOut, Summary, write, write_pages};
use extant_image::source::OnTrouble;
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
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
    pub damage: DamageArguments,
    #[command(flatten)]
    pub place: ImageArguments,
}

#[derive(Serialize)]
struct Report {
    image: String,
    output: String,
    entries: u64,
    files: u64,
    directories: u64,
    symlinks: u64,
    hard_links: u64,
    specials: u64,
    data_bytes: u64,
    bytes: u64,
    sockets: Vec<String>,
    left_out: Vec<String>,
}

/// The schema of the report.
const SCHEMA: &str = "extant-tar/1";

/// Writes it. With `--json` what it came to, on stdout; on stderr when the archive itself goes to
/// stdout.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let image = &arguments.image;
    check_words(&arguments)?;
    let Opened { filesystem, skipped } = arguments.damage.open(image, &arguments.place, console)?;
    check_output(&arguments)?;
    let survey =
        filesystem.survey().map_err(|error| Error::new(format!("{}: {error}", image.display())))?;
    let paths = arguments.paths.iter().flat_map(|path| glob::expand(&filesystem, path.as_ref()));
    let paths: Vec<Vec<u8>> = paths.map(|path| path.into_os_string().into_vec()).collect();
    let in_image = |error: extant_image::Error| {
        let error = Error::from(error);
        Error { message: format!("{}: {}", image.display(), error.message), ..error }
    };
    let mut plan = ExportPlan::new(Arc::new(survey), &paths).map_err(in_image)?;
    let goes_on = arguments.keep_going || arguments.damage.force_read;
    let on_damage = if goes_on { OnTrouble::Skip } else { OnTrouble::Stop };
    let mut damage = LeaveOut::new(console, image, on_damage);
    damage.left_out = skipped;
    let sockets = damage.sort(std::mem::take(&mut plan.omissions), &LeftOut::to_string)?;
    let existing = if arguments.force { Existing::Overwrite } else { Existing::Refuse };
    let mut output = match output_path(&arguments) {
        None => Output::stdout()?,
        Some(path) => Output::file(path, existing)?,
    };
    let progress = console.progress("tar", Unit::Bytes, plan.bytes);
    let plan = Arc::new(plan);
    let mut leave_out = |left_out: LeftOut| damage.leave_out(left_out);
    let written = match output.pages() {
        Some(mut pages) => write_pages(&plan, &mut pages, &progress, &mut leave_out),
        None => write(&plan, &mut output, &progress, &mut leave_out),
    };
    let summary = written.map_err(|error| match &error.kind {
        ErrorKind::Output(cause) => output.failure(cause),
        ErrorKind::LeftOut => in_image(error),
        _ => error.into(),
    })?;
    drop(progress);
    let (to_stdout, name) = (output.is_stdout(), output.name().to_owned());
    output.finish()?;
    let exit = if damage.left_out.is_empty() { Exit::Complete } else { Exit::Incomplete };
    if exit == Exit::Incomplete {
        console.hint(&image::damage_hint(image));
    }
    if console.form == Form::Json {
        let report = report(image, name, summary, sockets, damage.left_out);
        match to_stdout {
            false => console.print_json(SCHEMA, &report)?,
            true => console.print_json_aside(SCHEMA, &report),
        }
    }
    Ok(exit)
}

fn report(
    image: &Path,
    output: String,
    summary: Summary,
    sockets: Vec<String>,
    left_out: Vec<String>,
) -> Report {
    let Summary { entries, files, directories, symlinks, hard_links, specials, .. } = summary;
    Report {
        image: image.display().to_string(),
        output,
        entries,
        files,
        directories,
        symlinks,
        hard_links,
        specials,
        data_bytes: summary.data_bytes,
        bytes: summary.bytes,
        sockets,
        left_out,
    }
}

/// `IMAGE:/path`, as other commands have it, is two words here.
fn check_words(arguments: &Arguments) -> Result<(), Error> {
    let place = ImagePath::of(arguments.image.as_os_str());
    let Some(path) = place.path.filter(|_| VolumeName::is_there(&place.image)) else {
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
    let image = identity(&place::file_of(&arguments.image));
    match output_path(arguments) {
        Some(path) if image.is_some() && identity(path) == image => {
            Err(Error::usage(format!("{}: is the image itself", path.display())))
        }
        _ => Ok(()),
    }
}
