//! `extant chattr`: inode flags in an image are changed.
use crate::editing::operands;
use crate::editing::{Edit, EditCommand, Job};
use extant_edit::Change;
use extant_edit::metadata;
use extant_edit::tree::Reach;
use std::ffi::OsString;

pub use crate::editing::run;

/// The command.
pub type Arguments = EditCommand<OwnArguments>;

/// Change inode flags in an image, as chattr(1), all or nothing.
///
/// Letters: a append only, A no access times, d no dump, D directory synchronous, i immutable,
/// P project hierarchy, s secure deletion, S synchronous, T top of a hierarchy, u undeletable.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  extant chattr +i disk.img:/etc/resolv.conf
  extant chattr -R -- -ia disk.img:/srv")]
pub struct OwnArguments {
    /// Directories with all that is in them
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// +FLAGS, -FLAGS or =FLAGS
    #[arg(value_name = "FLAGS", allow_hyphen_values = true)]
    pub flags: String,
    /// The files
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    pub paths: Vec<OsString>,
}

impl Edit for OwnArguments {
    const NAME: &'static str = "chattr";
    fn inside(&mut self) -> Vec<&mut OsString> {
        self.paths.iter_mut().collect()
    }
    fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()> {
        let wanted = metadata::parse_flags(&self.flags)?;
        let reach = if self.recursive { Reach::Tree } else { Reach::One };
        for path in &operands::expanded(change, &self.paths, &job.patterns)? {
            let loops = &mut job.loops;
            job.done.objects += metadata::inode_flags(change, path, wanted, reach, loops)?;
        }
        Ok(())
    }
}
