//! `extant chown` and `extant chgrp`: owners and groups in an image are changed.
use crate::editing::operands;
use crate::editing::{Edit, EditCommand, Job, LongHelp};
use extant_edit::Change;
use extant_edit::metadata;
use extant_edit::owner::Owner;
use extant_edit::tree::{Links, Reach};
use std::ffi::OsString;

pub use crate::editing::run;

/// The command `chown`.
pub type Arguments = EditCommand<OwnArguments, LongHelp>;

/// Change owners in an image, all or nothing.
///
/// As chown(1). Names are those of the image itself, of its /etc/passwd and /etc/group.
#[derive(clap::Args, Clone, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  extant chown 1000:1000 disk.img:/home/user
  extant chown -R www-data: disk.img:/srv/www"
)]
pub struct OwnArguments {
    #[command(flatten)]
    manner: Manner,
    /// OWNER, OWNER:GROUP, OWNER: (and its own group) or :GROUP
    #[arg(value_name = "OWNER")]
    owner: String,
    /// The files
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    paths: Vec<OsString>,
}

/// What of a tree is changed.
#[derive(clap::Args, Clone, Debug)]
struct Manner {
    /// Directories with all that is in them; symbolic links are changed themselves
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Change a symbolic link itself, not what it leads to
    #[arg(short = 'h', long)]
    no_dereference: bool,
}

impl Manner {
    fn apply(
        &self,
        change: &Change,
        owner: Owner,
        paths: &[OsString],
        job: &mut Job<'_>,
    ) -> extant_edit::Result<()> {
        let reach = if self.recursive { Reach::Tree } else { Reach::One };
        let links = if self.no_dereference { Links::Stay } else { Links::Follow };
        for path in &operands::expanded(change, paths, &job.patterns)? {
            let manner = (reach, links);
            job.done.objects += metadata::owner(change, path, owner, manner, &mut job.loops)?;
        }
        Ok(())
    }
}

impl Edit for OwnArguments {
    const NAME: &'static str = "chown";
    fn inside(&mut self) -> Vec<&mut OsString> {
        self.paths.iter_mut().collect()
    }
    fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()> {
        self.manner.apply(change, Owner::parse(change, &self.owner)?, &self.paths, job)
    }
}

/// The command `chgrp`.
pub mod chgrp {
    use super::*;

    pub use crate::editing::run;

    /// The command.
    pub type Arguments = EditCommand<OwnArguments, LongHelp>;

    /// Change groups in an image, all or nothing; names are those of its /etc/group.
    #[derive(clap::Args, Clone, Debug)]
    #[command(
        disable_help_flag = true,
        after_help = "Examples:
  extant chgrp -R adm disk.img:/var/log"
    )]
    pub struct OwnArguments {
        #[command(flatten)]
        manner: Manner,
        /// The group
        #[arg(value_name = "GROUP")]
        owner: String,
        /// The files
        #[arg(value_name = "IMAGE:/PATH", required = true)]
        paths: Vec<OsString>,
    }

    impl Edit for OwnArguments {
        const NAME: &'static str = "chgrp";
        fn inside(&mut self) -> Vec<&mut OsString> {
            self.paths.iter_mut().collect()
        }
        fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()> {
            self.manner.apply(change, Owner::parse_group(change, &self.owner)?, &self.paths, job)
        }
    }
}
