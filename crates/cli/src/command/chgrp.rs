//! `extant chgrp`: groups in an image are changed.
use crate::editing::operands;
use crate::editing::{self, Edit, EditArguments, Job};
use extant_edit::Change;
use extant_edit::metadata;
use extant_edit::owner::Owner;
use extant_edit::tree::{Links, Reach};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use std::ffi::OsString;

/// Change groups in an image, all or nothing; names are those of its /etc/group.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
#[command(after_help = "Examples:
  extant chgrp -R adm disk.img:/var/log")]
pub struct Arguments {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub words: Words,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub editing: EditArguments,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
}

/// The words of the command, also in a script.
#[derive(clap::Args, Clone, Debug)]
pub struct Words {
    /// Directories with all that is in them; symbolic links are changed themselves
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Change a symbolic link itself, not what it leads to
    #[arg(short = 'h', long)]
    pub no_dereference: bool,
    /// The group
    #[arg(value_name = "GROUP")]
    pub owner: String,
    /// The files
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    pub paths: Vec<OsString>,
}

impl Edit for Words {
    const NAME: &'static str = "chgrp";
    fn inside(&mut self) -> Vec<&mut OsString> {
        self.paths.iter_mut().collect()
    }
    fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()> {
        let owner = Owner::parse_group(change, &self.owner)?;
        let reach = if self.recursive { Reach::Tree } else { Reach::One };
        let links = if self.no_dereference { Links::Stay } else { Links::Follow };
        for word in &operands::expanded(change, &self.paths, &job.patterns)? {
            let path = operands::path(word)?;
            let manner = (reach, links);
            job.done.objects += metadata::owner(change, path, owner, manner, &mut job.loops)?;
        }
        Ok(())
    }
}

/// Changes the image, and says what was done with `--json`: {"schema": "extant-edit/1", ...}.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    editing::run(arguments.words, &arguments.editing, console)
}
