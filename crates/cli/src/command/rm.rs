//! `extant rm`: names are removed from an image.
use crate::editing::operands;
use crate::editing::{self, Edit, EditArguments, Job};
use extant_edit::Change;
use extant_edit::removal::{self, Depth};
use extant_edit::tree::{self, Links};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use std::ffi::OsString;

/// Remove files from an image.
///
/// As rm(1), but all or nothing: if one of the names cannot be removed, none is.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant rm disk.img:/etc/motd
  extant rm -rf disk.img:/var/cache disk.img:/tmp/x
  extant rm 'disk.img:/var/log/*.log'       # a pattern is looked for in the image")]
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
    /// Remove directories with all that is in them
    #[arg(short = 'r', long, visible_short_alias = 'R')]
    pub recursive: bool,
    /// A file that is not there is no error
    #[arg(short = 'f', long)]
    pub force: bool,
    /// The files
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    pub paths: Vec<OsString>,
}

impl Edit for Words {
    const NAME: &'static str = "rm";
    fn inside(&mut self) -> Vec<&mut OsString> {
        self.paths.iter_mut().collect()
    }
    fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()> {
        let depth = if self.recursive { Depth::Tree } else { Depth::File };
        for word in &operands::expanded(change, &self.paths, &job.patterns)? {
            let path = operands::path(word)?;
            if self.force && tree::found(change, path, Links::Stay)?.is_none() {
                continue;
            }
            job.done.objects += removal::remove(change, path, depth, &mut job.loops)?;
        }
        Ok(())
    }
}

/// Changes the image, and says what was done with `--json`: {"schema": "extant-edit/1", ...}.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    editing::run(arguments.words, &arguments.editing, console)
}
