//! `extant edit`: many changes of an image, as one.
use super::write;
use super::{chattr, chgrp, chmod, chown, cp, ln, mkdir, mv, rm, rmdir, setfattr, touch, truncate};
use crate::editing::copying::CopyArguments;
use crate::editing::report;
use crate::editing::{self, Edit, EditArguments, Input, Job, opening, operands};
use crate::troubles::Troubles;
use clap::{Args, FromArgMatches};
use extant_edit::walk::HostTree;
use extant_edit::{Change, script, tree};
use extant_host::change_failure;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A script may be this long, in bytes.
const SCRIPT_BYTES_MAX: u64 = 64 << 20;

/// Change an image by a script, all of it or nothing.
///
/// A script has one command a line, with words quoted as a shell has it and # before a comment:
/// cp, rm, rmdir, mkdir, mv, ln, chmod, chown, chgrp, chattr, touch, truncate, setfattr and write,
/// with the options that they have by themselves. Paths are those of the image and begin with a
/// slash. put copies from the host, with the options of cp: put -a rootfs/. /
///
/// All is read before the image is opened. If a line fails, it is named, and nothing is changed.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant edit disk.img changes.txt
  extant edit --dry-run disk.img changes.txt
  printf '%s\\n' 'mkdir -p /srv/app' 'put -a build/. /srv/app' 'chown -R 1000:1000 /srv/app' |
      extant edit disk.img -")]
pub struct Arguments {
    /// The image: a file or a block device
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// The script; "-" is standard input
    #[arg(value_name = "SCRIPT")]
    pub script: PathBuf,
    /// Do all in memory, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub editing: EditArguments,
}

/// `put`: a copy from the host.
#[derive(clap::Args, Clone, Debug)]
struct Put {
    #[command(flatten)]
    copying: CopyArguments,
    /// The directory into which all is copied
    #[arg(short = 't', long, value_name = "DIR", conflicts_with = "no_target_directory")]
    target_directory: Option<OsString>,
    /// Files of the host, and where they go in the image
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

impl Edit for Put {
    const NAME: &'static str = "put";
    fn inside(&mut self) -> Vec<&mut OsString> {
        Vec::new()
    }
    fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()> {
        let is_directory = |path: &Path| tree::is_directory(change, path);
        let into = (self.target_directory.as_ref(), self.copying.no_target_directory);
        let (sources, destination) = operands::destination(&self.paths, into, &is_directory)?;
        let sources: Vec<PathBuf> = sources.iter().map(PathBuf::from).collect();
        let tree = Box::new(HostTree::default());
        let group = cp::Group { tree, paths: &sources, image: None };
        cp::into_image(change, &[group], &destination, &self.copying, job)
    }
}

/// A line of a script, read.
struct Line {
    number: usize,
    edit: Box<dyn Runnable>,
    patterns: operands::Patterns,
}

/// A command whose words are known.
trait Runnable {
    fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()>;
}

impl<E: Edit> Runnable for E {
    fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()> {
        Edit::apply(self, change, job)
    }
}

/// Reads the words of a command.
fn words_of<E: Edit + Args + FromArgMatches + 'static>(
    words: Vec<OsString>,
) -> Result<Box<dyn Runnable>, String> {
    let command = clap::Command::new(E::NAME).no_binary_name(true).disable_help_flag(true);
    let matches = E::augment_args(command).try_get_matches_from(words);
    let parsed = matches.and_then(|matches| E::from_arg_matches(&matches));
    let edit = parsed.map_err(|error| {
        let text = error.render().to_string();
        let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
        let said = lines.collect::<Vec<_>>().join(" ");
        said.trim_start_matches("error: ").to_owned()
    })?;
    Ok(Box::new(edit))
}

/// Reads a command and its words.
fn command(mut words: Vec<OsString>) -> Result<Box<dyn Runnable>, String> {
    let name = words.remove(0);
    match name.to_str().unwrap_or_default() {
        "cp" => words_of::<cp::OwnArguments>(words),
        "put" => words_of::<Put>(words),
        "rm" => words_of::<rm::OwnArguments>(words),
        "rmdir" => words_of::<rmdir::OwnArguments>(words),
        "mkdir" => words_of::<mkdir::OwnArguments>(words),
        "mv" => words_of::<mv::OwnArguments>(words),
        "ln" => words_of::<ln::OwnArguments>(words),
        "chmod" => words_of::<chmod::OwnArguments>(words),
        "chown" => words_of::<chown::OwnArguments>(words),
        "chgrp" => words_of::<chgrp::OwnArguments>(words),
        "chattr" => words_of::<chattr::OwnArguments>(words),
        "touch" => words_of::<touch::OwnArguments>(words),
        "truncate" => words_of::<truncate::OwnArguments>(words),
        "setfattr" => words_of::<setfattr::OwnArguments>(words),
        "write" => words_of::<write::OwnArguments>(words),
        _ => Err(format!(
            "{}: there is no such command; extant edit --help lists them",
            name.display()
        )),
    }
}

/// Reads a script.
fn parse(name: &Path, text: &[u8]) -> Result<Vec<Line>, Error> {
    let mut lines = Vec::new();
    for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let number = at + 1;
        let wrong = |said: String| {
            Error::usage(format!("{}:{number}: {said}", name.display()))
                .hint("nothing was changed; a script has one command a line")
        };
        let words = script::words(line).map_err(wrong)?;
        if words.is_empty() {
            continue;
        }
        let patterns = words.iter().filter_map(|word| {
            Some((OsString::from_vec(word.bytes.clone()), word.pattern.clone()?))
        });
        let patterns = patterns.collect();
        let words = words.into_iter().map(|word| OsString::from_vec(word.bytes)).collect();
        lines.push(Line { number, edit: command(words).map_err(wrong)?, patterns });
    }
    Ok(lines)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |error| Error::io(path.display(), &error);
    let mut text = Vec::new();
    let mut reader: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(std::fs::File::open(path).map_err(failed)?),
    };
    reader.by_ref().take(SCRIPT_BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    match text.len() as u64 > SCRIPT_BYTES_MAX {
        true => Err(Error::new(format!("{}: is too long for a script", path.display()))),
        false => Ok(text),
    }
}

/// Runs it, and says with `--json` what was done: {"schema": "extant-edit/1", ...}.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let Arguments { image, script, .. } = &arguments;
    let lines = parse(script, &read(script)?)?;
    let mut failed_at = None;
    let mut apply = |change: &Change, job: &mut Job<'_>| {
        job.input = Input::Taken;
        for line in &lines {
            job.patterns.clone_from(&line.patterns);
            line.edit.apply(change, job).inspect_err(|_| failed_at = Some(line.number))?;
            job.done.commands += 1;
        }
        Ok(())
    };
    let outcome = if arguments.dry_run {
        let change = opening::open_dry(image, &arguments.editing, console)?;
        let mut job = Job::new(console, Input::Taken);
        apply(&change, &mut job)
            .map_err(|error| change_failure::of(image, error))
            .and_then(|()| report::print(image, job.done, None, console))
            .map(|()| {
                let troubles = Troubles::new(console, image);
                job.loops.into_iter().for_each(|error| troubles.tell(error));
                troubles.exit()
            })
    } else {
        editing::change(image, &arguments.editing, console, apply)
    };
    outcome.map_err(|error| match failed_at {
        None => error,
        Some(number) => {
            let message = format!("{}:{number}: {}", script.display(), error.message);
            // Some failures say so themselves.
            let unchanged = "nothing was changed";
            let hint = match error.hint.as_deref() {
                Some(hint) if hint.starts_with(unchanged) => hint.to_owned(),
                Some(hint) => format!("{unchanged}; {hint}"),
                None => unchanged.to_owned(),
            };
            Error { message, ..error }.hint(hint)
        }
    })
}
