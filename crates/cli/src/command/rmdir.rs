//! `extant rmdir`: empty directories are removed from an image.
use crate::editing::operands;
use crate::editing::{self, Edit, EditArguments, Job};
use extant_edit::Change;
use extant_edit::removal;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use std::ffi::OsString;

/// Remove empty directories from an image, all or nothing.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant rmdir disk.img:/mnt/old")]
pub struct Arguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub words: Words,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub editing: EditArguments,
}

/// The words of the command, also in a script.
#[derive(clap::Args, Clone, Debug)]
pub struct Words {
    /// The directories
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    pub paths: Vec<OsString>,
}

impl Edit for Words {
    const NAME: &'static str = "rmdir";
    fn inside(&mut self) -> Vec<&mut OsString> {
        self.paths.iter_mut().collect()
    }
    fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()> {
        for word in &operands::expanded(change, &self.paths, &job.patterns)? {
            removal::remove_directory(change, operands::path(word)?)?;
            job.done.objects += 1;
        }
        Ok(())
    }
}

/// Changes the image, and says what was done with `--json`: {"schema": "extant-edit/1", ...}.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    editing::run(arguments.words, &arguments.editing, console)
}
