//! `extant mv`: names of an image are moved.
use crate::editing::operands;
use crate::editing::{Edit, EditCommand, Job};
use extant_edit::Change;
use extant_edit::renaming::{self, Existing, Moved};
use extant_edit::tree;
use std::ffi::OsString;
use std::path::Path;

pub use crate::editing::run;

/// The command.
pub type Arguments = EditCommand<OwnArguments>;

/// Move files inside an image, all or nothing.
///
/// As mv(1): into a directory that is there, or to a new name. From one image to another, or
/// between host and image: extant cp -a, then rm.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  extant mv disk.img:/etc/app.conf.new disk.img:/etc/app.conf
  extant mv -t disk.img:/srv disk.img:/home/a disk.img:/home/b")]
pub struct OwnArguments {
    /// Replace what is there without a question, which is never asked
    #[arg(short = 'f', long)]
    pub force: bool,
    /// Leave alone what is there, and what was to be moved over it
    #[arg(short = 'n', long, conflicts_with = "force")]
    pub no_clobber: bool,
    /// The last word is the new name, not a directory for it
    #[arg(short = 'T', long, conflicts_with = "target_directory")]
    pub no_target_directory: bool,
    /// The directory into which all is moved
    #[arg(short = 't', long, value_name = "IMAGE:/DIR")]
    pub target_directory: Option<OsString>,
    /// What is moved, and where to
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    pub paths: Vec<OsString>,
}

impl Edit for OwnArguments {
    const NAME: &'static str = "mv";
    fn inside(&mut self) -> Vec<&mut OsString> {
        self.paths.iter_mut().chain(&mut self.target_directory).collect()
    }
    fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()> {
        let is_directory = |path: &Path| tree::is_directory(change, path);
        let into = (self.target_directory.as_ref(), self.no_target_directory);
        let paths = operands::expanded_sources(change, &self.paths, into.0, &job.patterns)?;
        let (sources, destination) = operands::destination(&paths, into, &is_directory)?;
        let existing = if self.no_clobber { Existing::Keep } else { Existing::Replace };
        for word in sources {
            let from = operands::path(word)?;
            match renaming::rename(change, from, &destination.of(from), existing)? {
                Moved::Yes => job.done.objects += 1,
                Moved::Kept => job.done.kept += 1,
            }
        }
        Ok(())
    }
}
