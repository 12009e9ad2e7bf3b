//! `extant rm`: names are removed from an image.
use crate::editing::operands;
use crate::editing::{Edit, EditCommand, Job};
use extant_edit::Change;
use extant_edit::removal::{self, Depth};
use extant_edit::tree::{self, Links};
use std::ffi::OsString;

pub use crate::editing::run;

/// The command.
pub type Arguments = EditCommand<OwnArguments>;

/// Remove files from an image.
///
/// As rm(1), but all or nothing: if one of the names cannot be removed, none is.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  extant rm disk.img:/etc/motd
  extant rm -rf disk.img:/var/cache disk.img:/tmp/x
  extant rm 'disk.img:/var/log/*.log'       # a pattern is looked for in the image")]
pub struct OwnArguments {
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

impl Edit for OwnArguments {
    const NAME: &'static str = "rm";
    fn inside(&mut self) -> Vec<&mut OsString> {
        self.paths.iter_mut().collect()
    }
    fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()> {
        let depth = if self.recursive { Depth::Tree } else { Depth::File };
        for path in &operands::expanded(change, &self.paths, &job.patterns)? {
            if self.force && tree::found(change, path, Links::Stay)?.is_none() {
                continue;
            }
            job.done.objects += removal::remove(change, path, depth, &mut job.loops)?;
        }
        Ok(())
    }
}
