//! `extant touch`: times in an image are set.
use crate::editing::operands;
use crate::editing::{Edit, EditCommand, Job, LongHelp};
use extant_edit::Change;
use extant_edit::create::Missing;
use extant_edit::metadata::{self, Times};
use extant_edit::tree::Links;
use extant_engine::SetTime;
use extant_format::inode::Time;
use std::ffi::OsString;

pub use crate::editing::run;

/// The command.
pub type Arguments = EditCommand<OwnArguments, LongHelp>;

/// Set times of files in an image, all or nothing; a file that is not there is made.
///
/// As touch(1). Times without a zone are UTC.
#[derive(clap::Args, Clone, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  extant touch disk.img:/etc/machine-id
  extant touch -d 2026-01-31T12:00:00Z disk.img:/etc/issue
  extant touch -hd @0 disk.img:/etc/localtime"
)]
pub struct OwnArguments {
    /// The access time only
    #[arg(short = 'a')]
    pub access: bool,
    /// The modification time only
    #[arg(short = 'm')]
    pub modify: bool,
    /// Make no file
    #[arg(short = 'c', long)]
    pub no_create: bool,
    /// This time: @SECONDS, 2026-01-31, 2026-01-31T12:34:56.7Z
    #[arg(short = 'd', long, value_name = "TIME", value_parser = time)]
    pub date: Option<Time>,
    /// The times of this file of the image
    #[arg(short = 'r', long, value_name = "IMAGE:/PATH", conflicts_with = "date")]
    pub reference: Option<OsString>,
    /// A symbolic link itself, not what it leads to
    #[arg(short = 'h', long)]
    pub no_dereference: bool,
    /// The files
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    pub paths: Vec<OsString>,
}

impl Edit for OwnArguments {
    const NAME: &'static str = "touch";
    fn inside(&mut self) -> Vec<&mut OsString> {
        self.paths.iter_mut().chain(&mut self.reference).collect()
    }
    fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()> {
        let (access, modify) = match (&self.reference, self.date) {
            (Some(word), _) => {
                let metadata = change.metadata(operands::path(word)?)?;
                (SetTime::To(metadata.access_time), SetTime::To(metadata.modify_time))
            }
            (None, Some(time)) => (SetTime::To(time), SetTime::To(time)),
            (None, None) => (SetTime::Now, SetTime::Now),
        };
        let is_both = self.access == self.modify;
        let times = Times {
            access: (self.access || is_both).then_some(access),
            modify: (self.modify || is_both).then_some(modify),
        };
        let makes = !self.no_create && !self.no_dereference;
        let missing = if makes { Missing::Make } else { Missing::Leave };
        let links = if self.no_dereference { Links::Stay } else { Links::Follow };
        for path in &operands::expanded(change, &self.paths, &job.patterns)? {
            metadata::times(change, path, times, (missing, links))?;
            job.done.objects += 1;
        }
        Ok(())
    }
}

fn time(word: &str) -> Result<Time, String> {
    extant_edit::time::parse(word)
}
