//! `extant find`: which objects of an image are meant.
use crate::editing::operands;
use crate::listing::Record;
use crate::troubles::Troubles;
use extant_edit::find::{self, Ends, Query};
use extant_edit::walk::Visited;
use extant_host::change_failure;
use extant_host::console::{Console, with_schema};
use extant_host::error::{Error, Exit};
use extant_host::image::{self, ImageArguments};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Find files in an image by tests, and print their paths. The image is only read.
///
/// As find(1), with names in the order of their bytes. Tests: -name, -iname, -path, -ipath PATTERN;
/// -type f,d,l,p,s,b,c; -size N[cwbkMG]; -perm MODE, -MODE, /MODE; -uid, -gid, -links, -inum N;
/// -user, -group NAME of the image; -newer PATH of the image; -newermt TIME; -xattr NAME, or '*'
/// for any; -empty. N is a number, +N more, -N less. They are joined by -a, -o, ! and parentheses.
/// -maxdepth and -mindepth N; -print0 ends paths with a zero byte.
///
/// What is damaged, directories that are in themselves and names that no file may have among it, is
/// named on standard error and passed over; the exit code is 1 then.
///
/// --json (before the first path) prints the records of extant ls --json, one a line.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant find disk.img:/ -type f -perm /6000
  extant find disk.img:/var -name '*.log' -size +1M -print0 | xargs -0 ...
  extant find disk.img:/ -xattr security.capability
  extant --json find disk.img:/etc ! -user root | jq .path")]
pub struct Arguments {
    #[command(flatten)]
    pub place: ImageArguments,
    /// Where to begin, and the tests
    #[arg(value_name = "IMAGE:/PATH", required = true, trailing_var_arg = true)]
    #[arg(allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}

/// Prints what is found.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let begins = |word: &&OsString| !matches!(word.as_bytes(), [b'-', _, ..] | b"!" | b"(");
    let count = arguments.words.iter().take_while(begins).count();
    let (paths, tests) = arguments.words.split_at(count);
    let mut paths = paths.to_vec();
    let image = operands::resolve(paths.iter_mut().collect())?;
    let failed = |error| change_failure::of(&image, error);
    let filesystem = image::open(&image, &arguments.place, console)?;
    let tests: Vec<Vec<u8>> = tests.iter().map(|word| word.clone().into_vec()).collect();
    let query = Query::parse(&filesystem, &tests).map_err(failed)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut broken = None;
    let troubles = Troubles::new(console, &image);
    for path in
        &operands::expanded(&filesystem, &paths, &operands::Patterns::new()).map_err(failed)?
    {
        let mut show = |visited: &Visited<'_>| {
            let bytes = visited.spot.path.as_os_str().as_bytes();
            let written = match (console.is_json(), query.ends) {
                (true, _) => {
                    let object = filesystem.object_of(visited.number())?;
                    let record = Record::new(bytes, &object)?;
                    with_schema(Record::SCHEMA, &record)
                        .map_err(std::io::Error::other)
                        .and_then(|line| writeln!(out, "{line}"))
                }
                (false, Ends::Line) => out.write_all(bytes).and_then(|()| out.write_all(b"\n")),
                (false, Ends::Zero) => out.write_all(bytes).and_then(|()| out.write_all(b"\0")),
            };
            written.map_err(|error| {
                let stopped = extant_edit::Error::host("standard output", error.kind());
                broken = Some(error);
                stopped
            })
        };
        let found = find::find(&filesystem, path.as_ref(), &query, &mut show, &mut |error| {
            troubles.tell(error);
            Ok(())
        });
        match (found, broken.take()) {
            (Err(_), Some(error)) => return Err(Error::stdout(&error)),
            (found, _) => found.map_err(failed)?,
        }
    }
    out.flush().map_err(|error| Error::stdout(&error))?;
    Ok(troubles.exit())
}
