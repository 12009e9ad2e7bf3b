//! `extant truncate`: files in an image are cut or made longer.
use crate::editing::operands;
use crate::editing::{Edit, EditCommand, Job};
use extant_edit::Change;
use extant_edit::create::{self, Missing, NewSize};
use extant_host::size::Size;
use std::ffi::OsString;

pub use crate::editing::run;

/// The command.
pub type Arguments = EditCommand<OwnArguments>;

/// Cut files of an image, or make them longer with a hole, all or nothing.
///
/// As truncate(1): a file that is not there is made.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  extant truncate -s 0 disk.img:/var/log/syslog
  extant truncate -s +1M disk.img:/swap")]
pub struct OwnArguments {
    /// The size: 4096, 512K, 1M; with + or - in front that much more or less, with < or > at most
    /// or at least that much, with / or % rounded down or up to a multiple
    #[arg(short = 's', long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    pub size: NewSize,
    /// Make no file
    #[arg(short = 'c', long)]
    pub no_create: bool,
    /// The files
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    pub paths: Vec<OsString>,
}

impl Edit for OwnArguments {
    const NAME: &'static str = "truncate";
    fn inside(&mut self) -> Vec<&mut OsString> {
        self.paths.iter_mut().collect()
    }
    fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()> {
        let missing = if self.no_create { Missing::Leave } else { Missing::Make };
        for path in &operands::expanded(change, &self.paths, &job.patterns)? {
            create::truncate(change, path, self.size, missing)?;
            job.done.objects += 1;
        }
        Ok(())
    }
}

/// What a number after a sign means.
type Kind = fn(u64) -> NewSize;

const KINDS: [(char, Kind); 6] = [
    ('+', NewSize::More),
    ('-', NewSize::Less),
    ('<', NewSize::AtMost),
    ('>', NewSize::AtLeast),
    ('/', NewSize::Down),
    ('%', NewSize::Up),
];

fn size(word: &str) -> Result<NewSize, String> {
    let kind = KINDS.iter().find(|(sign, _)| word.starts_with(*sign));
    let (kind, digits): (Kind, &str) =
        kind.map_or((NewSize::To, word), |(_, kind)| (*kind, &word[1..]));
    let parsed: Size = digits.parse().map_err(|error| format!("{error}"))?;
    let bytes = parsed.bytes(1).ok_or("is too large")?;
    match bytes {
        0 if word.starts_with(['/', '%']) => Err("a multiple of 0".to_owned()),
        bytes => Ok(kind(bytes)),
    }
}
