//! `extant rmdir`: empty directories are removed from an image.
use crate::editing::operands;
use crate::editing::{Edit, EditCommand, Job};
use extant_edit::Change;
use extant_edit::removal;
use std::ffi::OsString;

pub use crate::editing::run;

/// The command.
pub type Arguments = EditCommand<OwnArguments>;

/// Remove empty directories from an image, all or nothing.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  extant rmdir disk.img:/mnt/old")]
pub struct OwnArguments {
    /// The directories
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    pub paths: Vec<OsString>,
}

impl Edit for OwnArguments {
    const NAME: &'static str = "rmdir";
    fn inside(&mut self) -> Vec<&mut OsString> {
        self.paths.iter_mut().collect()
    }
    fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()> {
        for path in &operands::expanded(change, &self.paths, &job.patterns)? {
            removal::remove_directory(change, path)?;
            job.done.objects += 1;
        }
        Ok(())
    }
}
