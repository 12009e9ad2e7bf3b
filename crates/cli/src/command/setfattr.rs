//! `extant setfattr`: extended attributes in an image are set.
use crate::editing::Input;
use crate::editing::operands;
use crate::editing::{Edit, EditCommand, Job, LongHelp};
use extant_edit::Change;
use extant_edit::attribute;
use extant_edit::metadata::{self, AttributeChange};
use extant_edit::tree::Links;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub use crate::editing::run;

/// The command.
pub type Arguments = EditCommand<OwnArguments, LongHelp>;

/// Set or remove extended attributes in an image, all or nothing.
///
/// As setfattr(1). Values are text, 0x and hexadecimal digits, or 0s and base64; text in double
/// quotes may have \OOO for a byte. --restore reads what getfattr -d printed.
#[derive(clap::Args, Clone, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  extant setfattr -n user.origin -v build-7 disk.img:/etc/issue
  extant setfattr -n security.capability -v 0x0100000200200000000000000000000000000000 \\
      disk.img:/usr/bin/ping
  extant setfattr -x user.origin disk.img:/etc/issue
  extant setfattr --restore dump.txt disk.img:/"
)]
pub struct OwnArguments {
    /// The attribute that is set
    #[arg(short = 'n', long, value_name = "NAME")]
    pub name: Option<OsString>,
    /// Its value; nothing unless given
    #[arg(short = 'v', long, value_name = "VALUE", requires = "name", allow_hyphen_values = true)]
    pub value: Option<OsString>,
    /// The attribute that is removed
    #[arg(short = 'x', long, value_name = "NAME", conflicts_with_all = ["name", "restore"])]
    pub remove: Option<OsString>,
    /// Set all that this file says ("-": standard input), paths beginning at the one named
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    pub restore: Option<PathBuf>,
    /// A symbolic link itself, not what it leads to
    #[arg(short = 'h', long)]
    pub no_dereference: bool,
    /// The files
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    pub paths: Vec<OsString>,
}

impl Edit for OwnArguments {
    const NAME: &'static str = "setfattr";
    fn inside(&mut self) -> Vec<&mut OsString> {
        self.paths.iter_mut().collect()
    }
    fn apply(&self, change: &Change, job: &mut Job<'_>) -> extant_edit::Result<()> {
        let links = if self.no_dereference { Links::Stay } else { Links::Follow };
        if let Some(dump) = &self.restore {
            return self.restore(change, job, dump);
        }
        let (name, wanted) = match (&self.name, &self.remove) {
            (Some(name), _) => {
                let value = self.value.as_ref().map_or(&b""[..], |value| value.as_bytes());
                let value = attribute::decoded(value);
                let value = value.map_err(|why| extant_edit::Error::usage("--value", why))?;
                (name, AttributeChange::Set(value))
            }
            (None, Some(name)) => (name, AttributeChange::Remove),
            (None, None) => {
                return Err(extant_edit::Error::usage("setfattr", "-n, -x or --restore is needed"));
            }
        };
        for path in &operands::expanded(change, &self.paths, &job.patterns)? {
            metadata::attribute(change, path, (name.as_bytes(), &wanted), links)?;
            job.done.objects += 1;
        }
        Ok(())
    }
}

/// A dump may be this long, in bytes.
const DUMP_BYTES_MAX: u64 = 256 << 20;

impl OwnArguments {
    /// Sets all that a dump says.
    fn restore(&self, change: &Change, job: &mut Job<'_>, dump: &Path) -> extant_edit::Result<()> {
        let [root] = self.paths.as_slice() else {
            return Err(extant_edit::Error::usage("--restore", "takes one path to begin at"));
        };
        let root = operands::path(root)?;
        let text = read(dump, job.input)?;
        let files = attribute::parse_dump(&text);
        let files = files.map_err(|why| extant_edit::Error::host_said(dump, why))?;
        for file in files {
            let below = OsStr::from_bytes(file.path.trim_ascii_start());
            let below = Path::new(below).strip_prefix("/").unwrap_or(Path::new(below));
            let path = if below == Path::new(".") { root.to_owned() } else { root.join(below) };
            for (name, value) in file.attributes {
                let wanted = AttributeChange::Set(value);
                metadata::attribute(change, &path, (&name, &wanted), Links::Stay)?;
            }
            job.done.objects += 1;
        }
        Ok(())
    }
}

/// The bytes of a dump.
fn read(dump: &Path, input: Input) -> extant_edit::Result<Vec<u8>> {
    let failed = |error| extant_edit::Error::host(dump, error);
    let mut text = Vec::new();
    let mut reader: Box<dyn Read> = match (dump == Path::new("-"), input) {
        (true, Input::Standard) => Box::new(std::io::stdin().lock()),
        (true, Input::Taken) => {
            return Err(extant_edit::Error::usage("--restore -", "the script is standard input"));
        }
        (false, _) => Box::new(std::fs::File::open(dump).map_err(failed)?),
    };
    reader.by_ref().take(DUMP_BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    match text.len() as u64 > DUMP_BYTES_MAX {
        true => Err(extant_edit::Error::host_said(dump, "is too long for a list of attributes")),
        false => Ok(text),
    }
}
