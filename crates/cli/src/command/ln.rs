//! `extant ln`: names and symbolic links are made in an image.
use crate::editing::operands;
use crate::editing::{Edit, EditCommand, Job};
use extant_edit::Change;
use extant_edit::create::{self, Existing};
use extant_edit::tree::{self, Links};
use extant_format::inode::FileType;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub use crate::editing::run;

/// The command.
pub type Arguments = EditCommand<OwnArguments>;

/// Make links in an image, all or nothing.
///
/// As ln(1): another name for a file, or with -s a symbolic link, whose target is text and taken
/// as it is.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  extant ln -s /usr/lib/systemd/systemd disk.img:/sbin/init
  extant ln -sf ../run/resolv.conf disk.img:/etc/resolv.conf
  extant ln disk.img:/bin/busybox disk.img:/bin/sh")]
pub struct OwnArguments {
    /// Symbolic links
    #[arg(short = 's', long)]
    pub symbolic: bool,
    /// Remove what has the name of a link, unless it is a directory
    #[arg(short = 'f', long)]
    pub force: bool,
    /// A symbolic link to a directory that has the name of the link is no directory for it
    #[arg(short = 'n', long)]
    pub no_dereference: bool,
    /// The last word is the link, not a directory for it
    #[arg(short = 'T', long, conflicts_with = "target_directory")]
    pub no_target_directory: bool,
    /// The directory in which links are made
    #[arg(short = 't', long, value_name = "IMAGE:/DIR")]
    pub target_directory: Option<OsString>,
    /// Targets, and the link or a directory
    #[arg(value_name = "TARGET", required = true)]
    pub paths: Vec<OsString>,
}

impl Edit for OwnArguments {
    const NAME: &'static str = "ln";
    fn inside(&mut self) -> Vec<&mut OsString> {
        // The target of a symbolic link is text.
        let text = match (self.symbolic, &self.target_directory) {
            (false, _) => 0,
            (true, Some(_)) => self.paths.len(),
            (true, None) => self.paths.len().saturating_sub(1),
        };
        self.paths.iter_mut().skip(text).chain(&mut self.target_directory).collect()
    }
    fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()> {
        let stays = if self.no_dereference { Links::Stay } else { Links::Follow };
        let is_directory = |path: &Path| {
            let found = tree::found(change, path, stays)?;
            Ok(found.is_some_and(|found| found.file_type == FileType::Directory))
        };
        let into = (self.target_directory.as_ref(), self.no_target_directory);
        let paths = match self.symbolic {
            // What a symbolic link says is text.
            true => self.paths.clone(),
            false => operands::expanded_sources(change, &self.paths, into.0, &job.patterns)?,
        };
        let (targets, destination) = operands::destination(&paths, into, &is_directory)?;
        let existing = if self.force { Existing::Replace } else { Existing::Refuse };
        for target in targets {
            let link = destination.of(Path::new(target));
            match self.symbolic {
                true => create::symlink(change, target.as_bytes(), &link, existing)?,
                false => create::hard_link(change, operands::path(target)?, &link, existing)?,
            }
            job.done.objects += 1;
        }
        Ok(())
    }
}
