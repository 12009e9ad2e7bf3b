//! `extant cp`: files go into an image, out of it, or are copied inside.
use super::cat;
use crate::editing::copying::{self, CopyArguments};
use crate::editing::operands::{self, Destination};
use crate::editing::report;
use crate::editing::{self, Edit, EditArguments, Input, Job};
use crate::troubles::Troubles;
use extant_edit::copy::{self, HostSink, ImageSink, Source};
use extant_edit::tree;
use extant_edit::walk::{self, HostTree, ImageTree};
use extant_edit::{Change, glob};
use extant_engine::{ErrorKind, Filesystem};
use extant_host::change_failure;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::image::{self, DamageArguments, ImagePath};
use std::cell::RefCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Copy files into an image, out of it, inside it, or from image to image.
///
/// As cp(1): into a directory that is there, or to a new name; symbolic links are followed unless
/// directories are copied. What changes in an image is all or nothing. Copies belong to root
/// (--owner says otherwise) and have the permissions of the source less 022, unless -p or -a keeps
/// what they were; -a keeps everything: holes, hard links, devices, access lists and attributes
/// too.
///
/// As the last word, - is standard output: files go there one after the other, as with cat.
///
/// On the host nothing is written through a symbolic link, and what was copied before an error
/// stays. What cannot be read of a damaged image is named, the rest is copied, and the exit code is
/// 1; a file whose name no file may have comes out with its slashes written as %2F. --force-read is
/// for copies out of images.
#[derive(clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  extant cp -a rootfs/. disk.img:/
  extant cp --owner 0:0 --mode 755 agent disk.img:/usr/local/bin/
  extant cp disk.img:/boot/vmlinuz .
  extant cp disk.img:/etc/fstab - | grep ext4
  extant cp -a disk.img:/home backup/
  extant cp -a old.img:/srv new.img:/
  extant cp -a disk.img:/etc disk.img:/etc.orig"
)]
pub struct Arguments {
    #[command(flatten)]
    pub words: OwnArguments,
    #[command(flatten)]
    pub editing: EditArguments,
    #[command(flatten)]
    pub damage: DamageArguments,
    /// Print help
    #[arg(short = 'h', long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
}

/// The words of the command, also in a script, where all paths are in the image.
#[derive(clap::Args, Clone, Debug)]
pub struct OwnArguments {
    #[command(flatten)]
    pub copying: CopyArguments,
    /// The directory into which all is copied
    #[arg(short = 't', long, value_name = "DIR", conflicts_with = "no_target_directory")]
    pub target_directory: Option<OsString>,
    /// What is copied, and where to; IMAGE:/PATH in an image
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,
}

impl Edit for OwnArguments {
    const NAME: &'static str = "cp";
    fn inside(&mut self) -> Vec<&mut OsString> {
        self.paths.iter_mut().chain(&mut self.target_directory).collect()
    }
    fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()> {
        let is_directory = |path: &Path| tree::is_directory(change, path);
        let paths = operands::expanded_sources(change, &self.paths, self.into().0, &job.patterns)?;
        let (sources, destination) = operands::destination(&paths, self.into(), &is_directory)?;
        let sources = sources.iter().map(|word| operands::path(word).map(Path::to_owned));
        let sources: Vec<PathBuf> = sources.collect::<Result<_, _>>()?;
        let tree = Box::new(ImageTree::new(change));
        let group = Group { tree, paths: &sources, image: None };
        into_image(change, &[group], &destination, &self.copying, job)
    }
}

impl OwnArguments {
    fn into(&self) -> (Option<&OsString>, bool) {
        (self.target_directory.as_ref(), self.copying.no_target_directory)
    }
}

/// What is copied into an image: sources of one tree.
pub struct Group<'a> {
    /// The tree.
    pub tree: Box<dyn Source + 'a>,
    /// Its sources.
    pub paths: &'a [PathBuf],
    /// The image that it is, where that is another than the one that is written.
    pub image: Option<&'a Path>,
}

/// Copies sources into an image.
///
/// # Errors
/// What cannot be read or written. Where the image is full, that is said of the whole: how many
/// blocks all sources need, and how many there are.
pub fn into_image(
    change: &Change,
    sources: &[Group<'_>],
    destination: &Destination<'_>,
    copying: &CopyArguments,
    job: &mut Job<'_>,
) -> extant_edit::Result<()> {
    let options = copying.options(copying.owner(change)?);
    let sink = ImageSink::new(change.filesystem());
    let free_blocks = change.statfs().free_blocks;
    // All or nothing: what cannot be read is not left out.
    let loops = RefCell::new(Vec::new());
    let pass = |error: extant_edit::Error| match error.is_loop() {
        true => {
            loops.borrow_mut().push(error);
            Ok(())
        }
        false => Err(error),
    };
    let manner = (&options, &pass as copy::Troubles<'_>);
    for Group { tree, paths, image } in sources {
        let trees = (&**tree, &sink as &dyn copy::Sink);
        let copied = copying::copy(trees, paths, destination, manner, job);
        copied.map_err(|error| match image {
            _ if error.is_no_space() => of_whole(error, change, sources, &options, free_blocks),
            Some(image) => of_other(error, image, paths),
            None => error,
        })?;
        let looped = loops.take().into_iter().map(|error| match image {
            Some(image) => of_other(error, image, paths),
            None => error,
        });
        job.loops.extend(looped);
    }
    Ok(())
}

/// An error about a full image, about all that was to be copied.
fn of_whole(
    error: extant_edit::Error,
    change: &Change,
    sources: &[Group<'_>],
    options: &copy::Options,
    free_blocks: u64,
) -> extant_edit::Error {
    let mut need = copy::Need::of(change.superblock());
    for Group { tree, paths, .. } in sources {
        for path in *paths {
            // What cannot be read would have been the error.
            let _ = need.add(&**tree, path, options);
        }
    }
    if need.blocks <= free_blocks {
        return error;
    }
    let kind = ErrorKind::NoSpace { wanted_blocks: need.blocks, free_blocks };
    extant_edit::Error {
        place: extant_edit::Place::Volume,
        what: extant_edit::What::Engine(Box::new(kind)),
        hint: None,
    }
}

/// The sources in one tree.
struct Sources {
    /// Their image; `None` for the host.
    image: Option<PathBuf>,
    paths: Vec<PathBuf>,
}

impl Sources {
    /// The paths that are meant in their image.
    fn expanded(&self, filesystem: &Filesystem) -> Vec<PathBuf> {
        self.paths.iter().flat_map(|path| glob::expand(filesystem, path)).collect()
    }
}

/// Copies, and says with `--json` what was done: {"schema": "extant-edit/1", ...}.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let Arguments { words, editing, damage, .. } = arguments;
    let (last, named) = match &words.target_directory {
        Some(into) => (into.clone(), &words.paths[..]),
        None => match words.paths.split_last() {
            Some((last, named)) if !named.is_empty() => (last.clone(), named),
            _ => return Err(Error::usage("a source or where it goes is missing")),
        },
    };
    let place = ImagePath::of(&last);
    let mut sources: Vec<Sources> = Vec::new();
    for word in named {
        if word == "-" && !Path::new(word).exists() {
            return Err(Error::usage("-: standard input is no file to copy")
                .hint("extant write IMAGE:/PATH makes a file of it"));
        }
        let ImagePath { image, path } = ImagePath::of(word);
        let (image, path) = match path {
            Some(path) => (Some(image), path),
            None => (None, image),
        };
        match sources.last_mut() {
            Some(last) if last.image == image => last.paths.push(path),
            _ => sources.push(Sources { image, paths: vec![path] }),
        }
    }
    match place.path {
        Some(_) if damage.force_read => {
            Err(Error::usage("--force-read: nothing is copied into an image from a damaged one")
                .hint("copy it out to a folder first, and from there into the image"))
        }
        Some(path) => inwards(&words, &editing, (place.image, path), &sources, console),
        None if sources.iter().all(|sources| sources.image.is_some()) => match last == "-" {
            true => to_stdout((&editing, damage), &sources, console),
            false => outwards(&words, (&editing, damage), &place.image, &sources, console),
        },
        None => Err(Error::usage(format!("{}: is no path in an image", place.image.display()))
            .hint("write IMAGE:/path; between files of the host there is cp(1)")),
    }
}

/// Whether two paths lead to one file of the host.
fn is_same_file(a: &Path, b: &Path) -> bool {
    a == b || a.canonicalize().ok().zip(b.canonicalize().ok()).is_some_and(|(a, b)| a == b)
}

/// Copies into an image.
fn inwards(
    words: &OwnArguments,
    editing: &EditArguments,
    (image, path): (PathBuf, PathBuf),
    sources: &[Sources],
    console: &Console,
) -> Result<Exit, Error> {
    // Others are opened first: what cannot be read changes nothing.
    let is_own = |sources: &Sources| {
        sources.image.as_deref().is_some_and(|other| is_same_file(other, &image))
    };
    let mut others: Vec<Option<Filesystem>> = Vec::new();
    for sources in sources {
        others.push(match &sources.image {
            Some(other) if !is_own(sources) => {
                Some(image::open(other, &editing.place.among(other), console)?)
            }
            _ => None,
        });
    }
    editing::change(&image, editing, console, |change, job| {
        let is_directory = |path: &Path| tree::is_directory(change, path);
        let meant =
            |(sources, other): (&Sources, &Option<Filesystem>)| match (other, &sources.image) {
                (Some(other), _) => sources.expanded(other),
                (None, Some(_)) => sources.expanded(change),
                (None, None) => sources.paths.clone(),
            };
        let meant: Vec<Vec<PathBuf>> = sources.iter().zip(&others).map(meant).collect();
        let names: Vec<OsString> =
            meant.iter().flatten().map(|path| path.clone().into_os_string()).collect();
        let target = path.clone().into_os_string();
        let destination = match words.target_directory.is_some() {
            true => operands::destination(&names, (Some(&target), false), &is_directory)?.1,
            false => {
                let all: Vec<OsString> = names.iter().cloned().chain([target.clone()]).collect();
                let exact = words.copying.no_target_directory;
                match operands::destination(&all, (None, exact), &is_directory)?.1 {
                    Destination::Into(_) => Destination::Into(&path),
                    Destination::As(_) => Destination::As(&path),
                }
            }
        };
        let sources = sources.iter().zip(&others).zip(&meant);
        let sources = sources.map(|((sources, other), paths)| Group {
            tree: match (other, &sources.image) {
                (Some(other), Some(_)) => Box::new(ImageTree::new(other)),
                (None, Some(_)) => Box::new(ImageTree::new(change)),
                _ => Box::new(HostTree::default()),
            },
            paths,
            image: other.as_ref().and(sources.image.as_deref()),
        });
        let sources: Vec<Group<'_>> = sources.collect();
        into_image(change, &sources, &destination, &words.copying, job)
    })
}

/// An error about a path of another image that is read names that image.
fn of_other(error: extant_edit::Error, image: &Path, paths: &[PathBuf]) -> extant_edit::Error {
    let is_its = |path: &Path| paths.iter().any(|source| path.starts_with(source));
    match &error.place {
        extant_edit::Place::Inside(path)
            if is_its(path) && (error.is_not_found() || error.is_loop()) =>
        {
            let shown = format!("{}:{}", image.display(), path.display());
            extant_edit::Error { place: extant_edit::Place::Words(shown), ..error }
        }
        _ => error,
    }
}

/// Copies files out of images to standard output.
fn to_stdout(
    (editing, damage): (&EditArguments, DamageArguments),
    sources: &[Sources],
    console: &Console,
) -> Result<Exit, Error> {
    let mut buffer = vec![0; cat::BUFFER_BYTES];
    let mut exit = Exit::Complete;
    for sources in sources {
        let Some(image) = &sources.image else { continue };
        let opened = damage.open(image, &editing.place, console)?;
        exit = if opened.exit() == Exit::Complete { exit } else { opened.exit() };
        let filesystem = opened.filesystem;
        for path in &sources.expanded(&filesystem) {
            let at = (image.as_path(), path.as_path());
            let printed = match damage.force_read {
                true => cat::print_over(&filesystem, at, &mut buffer, console)?,
                false => cat::print(&filesystem, at, &mut buffer, console)?,
            };
            exit = if printed == Exit::Complete { exit } else { printed };
        }
    }
    Ok(exit)
}

/// Copies out of images.
fn outwards(
    words: &OwnArguments,
    (editing, damage): (&EditArguments, DamageArguments),
    target: &Path,
    sources: &[Sources],
    console: &Console,
) -> Result<Exit, Error> {
    let (mut opened, mut exit) = (Vec::new(), Exit::Complete);
    for sources in sources {
        let Some(image) = &sources.image else { continue };
        let one = damage.open(image, &editing.place, console)?;
        exit = if one.exit() == Exit::Complete { exit } else { one.exit() };
        let paths = sources.expanded(&one.filesystem);
        opened.push((image, one.filesystem, paths));
    }
    let count: usize = opened.iter().map(|(_, _, paths)| paths.len()).sum();
    let into = words.target_directory.is_some();
    let empty = Path::new("");
    let is_directory = target != empty && walk::is_host_folder(target);
    let is_folder = is_directory && !words.copying.no_target_directory;
    if (into || count > 1) && !is_folder {
        return Err(Error::new(format!("{}: is no directory", target.display()))
            .hint("several files go into a directory that is there"));
    }
    let (root, destination) = match (is_folder, is_directory) {
        (true, _) => (target, Destination::Into(empty)),
        (false, true) => (target, Destination::As(empty)),
        (false, false) => {
            let name = target.file_name().map(Path::new);
            let name =
                name.ok_or_else(|| Error::usage(format!("{}: names no file", target.display())))?;
            let folder = target.parent().filter(|folder| *folder != empty);
            (folder.unwrap_or(Path::new(".")), Destination::As(name))
        }
    };
    let sink = HostSink::new(root).map_err(|error| change_failure::of(target, error))?;
    let mut job = Job::new(console, Input::Standard);
    let mut shown = PathBuf::new();
    for (image, filesystem, paths) in &opened {
        let troubles = Troubles::new(console, image);
        let failed = |error| change_failure::of(image, error);
        let owner = words.copying.owner(filesystem).map_err(failed)?;
        let options = words.copying.options(owner);
        let tell = |error| {
            troubles.tell(error);
            Ok(())
        };
        let trees = (&ImageTree::new(filesystem) as &dyn Source, &sink as _);
        let manner = (&options, &tell as copy::Troubles<'_>);
        copying::copy(trees, paths, &destination, manner, &mut job).map_err(failed)?;
        shown.clone_from(*image);
        if troubles.exit() != Exit::Complete {
            exit = troubles.exit();
        }
    }
    if sink.left_out() > 0 {
        console.warn(&format!(
            "{}: {} owners and attributes were left out: only root may give them",
            target.display(),
            sink.left_out()
        ));
    }
    report::print(&shown, job.done, None, console)?;
    Ok(exit)
}
