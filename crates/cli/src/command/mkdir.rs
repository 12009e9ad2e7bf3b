//! `extant mkdir`: directories are made in an image.
use crate::editing::copying::mode;
use crate::editing::operands;
use crate::editing::{Edit, EditCommand, Job};
use extant_edit::Change;
use extant_edit::create::{self, Parents};
use extant_edit::mode::Mode;
use std::ffi::OsString;

pub use crate::editing::run;

/// The command.
pub type Arguments = EditCommand<OwnArguments>;

/// Make directories in an image, all or nothing; they belong to root.
///
/// As mkdir(1) with the umask 022, whatever that of the shell is.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  extant mkdir -p disk.img:/srv/www/html
  extant mkdir -m 1777 disk.img:/scratch")]
pub struct OwnArguments {
    /// Make the directories above too; one that is there is no error
    #[arg(short = 'p', long)]
    pub parents: bool,
    /// Their permissions: 755, u=rwx,go=
    #[arg(short = 'm', long, value_name = "MODE", value_parser = mode)]
    pub mode: Option<Mode>,
    /// The directories
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    pub paths: Vec<OsString>,
}

impl Edit for OwnArguments {
    const NAME: &'static str = "mkdir";
    fn inside(&mut self) -> Vec<&mut OsString> {
        self.paths.iter_mut().collect()
    }
    fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()> {
        let parents = if self.parents { Parents::Make } else { Parents::Need };
        for word in &self.paths {
            let path = operands::path(word)?;
            job.done.objects += create::directory(change, path, parents, self.mode.as_ref())?;
        }
        Ok(())
    }
}
