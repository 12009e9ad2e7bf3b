//! `extant write`: standard input becomes a file of an image.
use crate::editing::Input;
use crate::editing::copying::mode;
use crate::editing::operands;
use crate::editing::{Edit, EditCommand, Job};
use extant_edit::Change;
use extant_edit::create::{self, Into};
use extant_edit::metadata;
use extant_edit::mode::Mode;
use extant_edit::owner::Owner;
use extant_edit::tree::{Links, Reach};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

pub use crate::editing::run;

/// The command.
pub type Arguments = EditCommand<OwnArguments>;

/// Write standard input into a file of an image, all or nothing.
///
/// A file that is not there is made, with the permissions 0644 and owned by root; one that is there
/// keeps what it is.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  echo builder | extant write disk.img:/etc/hostname
  extant write --text 'nameserver 9.9.9.9\\n' disk.img:/etc/resolv.conf
  extant write --append disk.img:/etc/fstab < more-lines")]
pub struct OwnArguments {
    /// Write after what is there
    #[arg(short = 'a', long)]
    pub append: bool,
    /// Write this, not standard input; \n is a line end, \t a tabulator, \\ a backslash
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub text: Option<OsString>,
    /// The permissions of the file: 644, u+x
    #[arg(short = 'm', long, value_name = "MODE", value_parser = mode)]
    pub mode: Option<Mode>,
    /// To whom it belongs; names are those of the image
    #[arg(long, value_name = "OWNER:GROUP")]
    pub owner: Option<String>,
    /// The file
    #[arg(value_name = "IMAGE:/PATH")]
    pub path: OsString,
}

impl Edit for OwnArguments {
    const NAME: &'static str = "write";
    fn inside(&mut self) -> Vec<&mut OsString> {
        vec![&mut self.path]
    }
    fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()> {
        let path = operands::path(&self.path)?;
        let into = if self.append { Into::End } else { Into::Whole };
        job.done.bytes += match (&self.text, job.input) {
            (Some(text), _) => {
                create::write(change, path, into, &mut unescaped(text.as_bytes()).as_slice())?
            }
            (None, Input::Taken) => {
                return Err(extant_edit::Error::usage(
                    "write",
                    "has no standard input in a script",
                )
                .hint("write --text TEXT /PATH, or put FILE /PATH"));
            }
            (None, Input::Standard) => {
                create::write(change, path, into, &mut std::io::stdin().lock())?
            }
        };
        if let Some(owner) = &self.owner {
            let owner = Owner::parse(change, owner)?;
            metadata::owner(change, path, owner, (Reach::One, Links::Follow), &mut job.loops)?;
        }
        if let Some(mode) = &self.mode {
            metadata::permissions(change, path, mode, Reach::One, &mut job.loops)?;
        }
        job.done.objects += 1;
        Ok(())
    }
}

/// A text with its `\n`, `\t` and `\\\\`; other backslashes are themselves.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        match (byte, rest.clone().next()) {
            (b'\\', Some(next @ (b'n' | b't' | b'\\'))) => {
                rest.next();
                bytes.push(match next {
                    b'n' => b'\n',
                    b't' => b'\t',
                    _ => b'\\',
                });
            }
            _ => bytes.push(byte),
        }
    }
    bytes
}
