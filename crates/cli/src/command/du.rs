//! `extant du`: what the directories of an image take.
use crate::listing::Names;
use crate::troubles::Troubles;
use extant_edit::tree::Links;
use extant_edit::walk::{self, Below, Event, ImageTree, Manner, Visited};
use extant_format::Ino;
use extant_format::inode::FileType;
use extant_host::change_failure;
use extant_host::console::{Console, with_schema};
use extant_host::error::{Error, Exit};
use extant_host::image::{self, ImageArguments, ImagePath};
use extant_host::size;
use rustc_hash::FxHashSet;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Show what directories and files of an image take on it.
///
/// As du(1): blocks of maps and attributes count, holes do not; a file with several names counts
/// once; directories come after what is in them. Numbers count KiB. The image is only read.
#[derive(clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  extant du -sh disk.img
  extant du -d 1 disk.img:/usr | sort -n
  extant du -a --apparent-size disk.img:/etc"
)]
pub struct Arguments {
    /// What is measured; the whole image without a path
    #[arg(value_name = "IMAGE[:/PATH]", required = true)]
    pub places: Vec<OsString>,
    /// Show files too
    #[arg(long, short, conflicts_with = "summarize")]
    pub all: bool,
    /// Show one number for each word
    #[arg(long, short, conflicts_with = "max_depth")]
    pub summarize: bool,
    /// Show what is at most so many levels below
    #[arg(long, short = 'd', value_name = "LEVELS")]
    pub max_depth: Option<usize>,
    /// Show the sum of all words at the end
    #[arg(long, short = 'c')]
    pub total: bool,
    /// Sizes with a letter, rounded up: 1.3G
    #[arg(long, short = 'h')]
    pub human_readable: bool,
    /// Count bytes of files, not blocks that they take
    #[arg(long)]
    pub apparent_size: bool,
    #[command(flatten)]
    pub place: ImageArguments,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
}

/// Measures them. With `--json` a record a line: `{"schema": "extant-du/1", "path", "bytes"}`;
/// without a path it is the total. A path that is not UTF-8 has its wrong bytes replaced.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let out = std::io::stdout().lock();
    let names = if out.is_terminal() { Names::Escaped } else { Names::Raw };
    let mut report = Report { arguments: &arguments, console, names, out, failed: None };
    let mut opened: Option<(PathBuf, Counted)> = None;
    let (mut total, mut exit) = (0u64, Exit::Complete);
    for word in &arguments.places {
        let place = ImagePath::of(word);
        let mut counted = match opened.take() {
            Some((image, counted)) if image == place.image => counted,
            _ => {
                let filesystem = image::open(&place.image, &arguments.place, console)?;
                Counted { filesystem, seen: FxHashSet::default() }
            }
        };
        let troubles = Troubles::new(console, &place.image);
        for place in place.expanded(&counted.filesystem) {
            let bytes = counted.measure(place.path_or_root(), &mut report, &troubles);
            let bytes = match report.failed.take() {
                Some(error) => return Err(error),
                None => bytes.map_err(|error| change_failure::of(&place.image, error))?,
            };
            total = total.saturating_add(bytes);
        }
        exit = if troubles.exit() == Exit::Complete { exit } else { troubles.exit() };
        opened = Some((place.image, counted));
    }
    if arguments.total {
        report.line(None, total)?;
    }
    report.out.flush().map_err(|error| Error::stdout(&error))?;
    Ok(exit)
}

/// An image, and which files of it were counted: one with several names counts once.
struct Counted {
    filesystem: extant_engine::Filesystem,
    seen: FxHashSet<Ino>,
}

impl Counted {
    /// What is below a path, in bytes; tells the report of each object.
    fn measure(
        &mut self,
        path: &Path,
        report: &mut Report<'_>,
        troubles: &Troubles<'_>,
    ) -> extant_edit::Result<u64> {
        // Of each level what its objects so far came to.
        let mut sums: Vec<u64> = Vec::new();
        let Counted { filesystem, seen } = self;
        let tree = ImageTree::new(filesystem);
        walk::walk(&tree, path, Manner::plain(Links::Stay), &mut |event| {
            let visited = match event {
                Event::Found(visited) if visited.facts.file_type == FileType::Directory => {
                    return Ok(Below::Enter);
                }
                Event::Found(visited) | Event::Left(visited) => visited,
                Event::Trouble(error) => {
                    troubles.tell(error);
                    return Ok(Below::Skip);
                }
            };
            let below = sums.get_mut(visited.depth + 1).map(std::mem::take);
            let is_directory = visited.facts.file_type == FileType::Directory;
            let is_first =
                visited.facts.links < 2 && !is_directory || seen.insert(visited.number());
            let own = match (is_first, report.arguments.apparent_size) {
                (false, _) => 0,
                (true, true) => visited.facts.size,
                (true, false) => {
                    let object = filesystem.object_of(visited.number())?;
                    object.metadata()?.sectors.saturating_mul(512)
                }
            };
            let bytes = own.saturating_add(below.unwrap_or(0));
            if sums.len() <= visited.depth {
                sums.resize(visited.depth + 1, 0);
            }
            if let Some(sum) = sums.get_mut(visited.depth) {
                *sum = sum.saturating_add(bytes);
            }
            if report.shows(&visited) && (is_first || visited.depth == 0) {
                let shown = report.line(Some(visited.spot.path), bytes);
                shown.map_err(|error| report.stopped(error))?;
            }
            Ok(Below::Enter)
        })?;
        Ok(sums.first().copied().unwrap_or(0))
    }
}

/// What is printed.
struct Report<'a> {
    arguments: &'a Arguments,
    console: &'a Console,
    names: Names,
    out: std::io::StdoutLock<'static>,
    /// Why the walk was stopped.
    failed: Option<Error>,
}

impl Report<'_> {
    fn shows(&self, visited: &Visited<'_>) -> bool {
        let deepest = match self.arguments.summarize {
            true => 0,
            false => self.arguments.max_depth.unwrap_or(usize::MAX),
        };
        let is_directory = visited.facts.file_type == FileType::Directory;
        visited.depth == 0 || visited.depth <= deepest && (is_directory || self.arguments.all)
    }

    /// A line of the result: of a path, or of all.
    fn line(&mut self, path: Option<&Path>, bytes: u64) -> Result<(), Error> {
        let line = if self.console.is_json() {
            let document = match path {
                Some(path) => serde_json::json!({"path": path.to_string_lossy(), "bytes": bytes}),
                None => serde_json::json!({"bytes": bytes}),
            };
            with_schema("extant-du/1", &document)?.into_bytes()
        } else {
            let amount = match self.arguments.human_readable {
                true => size::short(bytes),
                false => bytes.div_ceil(1024).to_string(),
            };
            let name = path.map_or(&b"total"[..], |path| path.as_os_str().as_bytes());
            [amount.as_bytes(), b"\t", &self.names.write(name)].concat()
        };
        let written = self.out.write_all(&line).and_then(|()| self.out.write_all(b"\n"));
        written.map_err(|error| Error::stdout(&error))
    }

    /// Ends a walk for a line that could not be written.
    fn stopped(&mut self, error: Error) -> extant_edit::Error {
        let stopped = extant_edit::Error::host("standard output", std::io::ErrorKind::Other);
        self.failed = Some(error);
        stopped
    }
}
