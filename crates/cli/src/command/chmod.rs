//! `extant chmod`: permissions in an image are changed.
use crate::editing::copying::mode;
use crate::editing::operands;
use crate::editing::{Edit, EditCommand, Job};
use extant_edit::Change;
use extant_edit::metadata;
use extant_edit::mode::Mode;
use extant_edit::tree::Reach;
use std::ffi::OsString;

pub use crate::editing::run;

/// The command.
pub type Arguments = EditCommand<OwnArguments>;

/// Change permissions in an image, all or nothing.
///
/// As chmod(1), with the umask 022 where nobody is named (+w). Access lists follow. Symbolic links
/// have no permissions: one that is named stands for what it leads to, with -R others are left out.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  extant chmod 600 disk.img:/etc/shadow
  extant chmod -R u=rwX,go=rX disk.img:/srv/www
  extant chmod 600 'disk.img:/etc/ssh/*_key'")]
pub struct OwnArguments {
    /// Directories with all that is in them
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// The permissions: 644, u+x, go=rX
    #[arg(value_name = "MODE", value_parser = mode, allow_hyphen_values = true)]
    pub mode: Mode,
    /// The files
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    pub paths: Vec<OsString>,
}

impl Edit for OwnArguments {
    const NAME: &'static str = "chmod";
    fn inside(&mut self) -> Vec<&mut OsString> {
        self.paths.iter_mut().collect()
    }
    fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()> {
        let reach = if self.recursive { Reach::Tree } else { Reach::One };
        for path in &operands::expanded(change, &self.paths, &job.patterns)? {
            let loops = &mut job.loops;
            job.done.objects += metadata::permissions(change, path, &self.mode, reach, loops)?;
        }
        Ok(())
    }
}
