//! What the commands that change an image have in common: `cp`, `rm`, `mkdir` and the others, and
//! `edit`, which runs many of them as one.
//!
//! ```text
//! opening    an image that is locked and open for a change
//! operands   IMAGE:/path, all of one image
//! copying    what cp and put have in common
//! report     what was done
//! ```
//! A command is a struct of its words ([`Edit`]): from the command line its paths are
//! `IMAGE:/path`, in a script they are paths of the image.
pub mod copying;
pub mod opening;
pub mod operands;
pub mod report;

use crate::troubles::Troubles;
use extant_edit::Change;
use extant_host::change_failure;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::image::ImageArguments;
use report::Done;
use std::ffi::OsString;
use std::path::PathBuf;

// Options of every command that changes an image; flatten it into the command's own.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct EditArguments {
    #[command(flatten)]
    pub place: ImageArguments,
    /// Change a volume although it is marked as having errors
    #[arg(long)]
    pub despite_errors: bool,
    /// Where a redo log may be, for a device without a journal: a file on another file system
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
}

// A command of the command line that changes an image: its own words, which a script has too, and
// the options of all such commands. Without a doc comment, which clap would take for the help: that
// is the one of the words.
#[derive(clap::Args)]
pub struct EditCommand<E: clap::Args, H: clap::Args = NoWords> {
    #[command(flatten)]
    words: E,
    #[command(flatten)]
    editing: EditArguments,
    #[command(flatten)]
    help: H,
}

// The help of a command whose `-h` is another option.
#[derive(clap::Args)]
pub struct LongHelp {
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

// Nothing: the help is clap's.
#[derive(clap::Args)]
pub struct NoWords {}

/// Where a command's standard input comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// It is the command's own.
    Standard,
    /// It is the script, or nothing.
    Taken,
}

/// What a command works with besides its words.
pub struct Job<'a> {
    /// What is said, and how far it is.
    pub console: &'a Console,
    /// Standard input.
    pub input: Input,
    /// What of the words of this command stood in quotes.
    pub patterns: operands::Patterns,
    /// What was done so far.
    pub done: Done,
    /// Directories that were passed over, so that a walk ends.
    pub loops: extant_edit::walk::Loops,
}

impl<'a> Job<'a> {
    /// Nothing was done so far.
    pub fn new(console: &'a Console, input: Input) -> Job<'a> {
        Job {
            console,
            input,
            patterns: operands::Patterns::new(),
            done: Done::default(),
            loops: Vec::new(),
        }
    }
}

/// A command that changes an image.
pub trait Edit {
    /// Its name.
    const NAME: &'static str;
    /// The words that are `IMAGE:/path` on a command line, to be replaced by their paths.
    fn inside(&mut self) -> Vec<&mut OsString>;
    /// Changes the image.
    ///
    /// # Errors
    /// What cannot be done; then nothing of it has happened.
    fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()>;
}

/// Runs a command of the command line, and says what was done with `--json`:
/// {"schema": "extant-edit/1", ...}.
///
/// # Errors
/// Words that name no image or several; what cannot be done.
pub fn run<E: Edit + clap::Args, H: clap::Args>(
    command: EditCommand<E, H>,
    console: &Console,
) -> Result<Exit, Error> {
    let EditCommand { mut words, editing, .. } = command;
    let image = operands::resolve(words.inside())?;
    change(&image, &editing, console, |change, job| words.apply(change, job))
}

/// Changes an image, all or nothing, and says what was done. A directory that is its own ancestor
/// is named, and the rest is changed.
///
/// # Errors
/// An image that cannot be changed; those of `work`; a commit that fails.
pub fn change(
    image: &std::path::Path,
    arguments: &EditArguments,
    console: &Console,
    work: impl FnOnce(&Change, &mut Job<'_>) -> extant_edit::Result<()>,
) -> Result<Exit, Error> {
    let opened = opening::open(image, arguments, console)?;
    let mut job = Job::new(console, Input::Standard);
    work(&opened.change, &mut job).map_err(|error| change_failure::of(image, error))?;
    let Job { done, loops, .. } = job;
    let committed = extant_host::cleanup::undisturbed(|| opened.change.commit());
    let committed = committed.map_err(|error| change_failure::of(image, error))?;
    opened.target.finish()?;
    let troubles = Troubles::new(console, image);
    loops.into_iter().for_each(|error| troubles.tell(error));
    report::print(image, done, Some(committed), console)?;
    Ok(troubles.exit())
}
