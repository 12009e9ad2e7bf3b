//! `extant getfattr`: extended attributes in an image.
use crate::editing::operands;
use crate::troubles::Troubles;
use extant_edit::attribute::{self, Encoding};
use extant_edit::tree::{Links, Reach};
use extant_edit::walk::{self, Below, Event, ImageTree, Manner, Visited};
use extant_engine::Filesystem;
use extant_host::change_failure;
use extant_host::console::{Console, with_schema};
use extant_host::error::{Error, Exit};
use extant_host::image::{self, ImageArguments};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Print extended attributes of files in an image. The image is only read.
///
/// As getfattr(1): names, with -d values too, in a form that setfattr --restore reads. Only names
/// in user. are shown unless -m says which.
#[derive(clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  extant getfattr -d -m - disk.img:/usr/bin/ping
  extant getfattr -n security.capability -e hex disk.img:/usr/bin/ping
  extant getfattr -R -d -m - disk.img:/ > dump.txt"
)]
pub struct Arguments {
    /// Print this attribute
    #[arg(short = 'n', long, value_name = "NAME", conflicts_with = "pattern")]
    pub name: Option<OsString>,
    /// Print values too
    #[arg(short = 'd', long)]
    pub dump: bool,
    /// Names with this in them (^ in front: that begin with it); \"-\" for all
    #[arg(short = 'm', long = "match", value_name = "TEXT", default_value = "^user.")]
    #[arg(allow_hyphen_values = true)]
    pub pattern: String,
    /// How values are written: text, hex or base64; text where it is text unless given
    #[arg(short = 'e', long, value_name = "FORM", value_parser = encoding)]
    pub encoding: Option<Encoding>,
    /// Directories with all that is in them
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Of a symbolic link itself, not of what it leads to
    #[arg(short = 'h', long)]
    pub no_dereference: bool,
    /// The value of -n alone, as it is
    #[arg(long, requires = "name")]
    pub only_values: bool,
    /// The files
    #[arg(value_name = "IMAGE:/PATH", required = true)]
    pub paths: Vec<OsString>,
    #[command(flatten)]
    pub place: ImageArguments,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
}

fn encoding(word: &str) -> Result<Encoding, String> {
    match word {
        "text" => Ok(Encoding::Text),
        "hex" => Ok(Encoding::Hex),
        "base64" => Ok(Encoding::Base64),
        _ => Err("there are text, hex and base64".to_owned()),
    }
}

/// Prints them.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let mut paths = arguments.paths.clone();
    let image = operands::resolve(paths.iter_mut().collect())?;
    let failed = |error| change_failure::of(&image, error);
    let filesystem = image::open(&image, &arguments.place, console)?;
    let reach = if arguments.recursive { Reach::Tree } else { Reach::One };
    let links = if arguments.no_dereference { Links::Stay } else { Links::Follow };
    let troubles = Troubles::new(console, &image);
    let mut output = Vec::new();
    for path in
        &operands::expanded(&filesystem, &paths, &operands::Patterns::new()).map_err(failed)?
    {
        let path = Path::new(path);
        walk::walk(&ImageTree::new(&filesystem), path, Manner::plain(links), &mut |event| {
            match event {
                Event::Found(visited) => {
                    show(&filesystem, &visited, &arguments, console, &mut output)?;
                }
                Event::Left(_) => {}
                Event::Trouble(error) => troubles.tell(error),
            }
            Ok(if reach == Reach::Tree { Below::Enter } else { Below::Skip })
        })
        .map_err(failed)?;
    }
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    out.write_all(&output).and_then(|()| out.flush()).map_err(|error| Error::stdout(&error))?;
    Ok(troubles.exit())
}

fn is_meant(arguments: &Arguments, name: &[u8]) -> bool {
    if let Some(wanted) = &arguments.name {
        return name == wanted.as_bytes();
    }
    match arguments.pattern.strip_prefix('^') {
        Some(head) => name.starts_with(head.replace('\\', "").as_bytes()),
        None if arguments.pattern == "-" => true,
        None => {
            let wanted = arguments.pattern.as_bytes();
            wanted.is_empty() || name.windows(wanted.len()).any(|part| part == wanted)
        }
    }
}

/// Adds what is to be said of an object.
fn show(
    filesystem: &Filesystem,
    visited: &Visited<'_>,
    arguments: &Arguments,
    console: &Console,
    output: &mut Vec<u8>,
) -> extant_edit::Result<()> {
    let path = visited.spot.path;
    let inode = filesystem.inodes().by_number(visited.number())?;
    let attributes = filesystem.inodes().attributes(&inode);
    let mut attributes = attributes.map_err(|error| error.at(path))?;
    attributes.retain(|attribute| is_meant(arguments, &attribute.name));
    attributes.sort();
    if attributes.is_empty() {
        return match (&arguments.name, visited.depth) {
            (Some(name), 0) => {
                let said = format!("{}: no such attribute", name.display());
                Err(extant_edit::Error::inside(path, said))
            }
            _ => Ok(()),
        };
    }
    let path = path.as_os_str().as_bytes();
    if arguments.only_values {
        attributes.iter().for_each(|attribute| output.extend(&attribute.value));
        return Ok(());
    }
    if console.is_json() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let pair = |one: &extant_format::attribute::Attribute| {
            (text(&one.name), serde_json::Value::from(attribute::base64(&one.value)))
        };
        let values: serde_json::Map<_, _> = attributes.iter().map(pair).collect();
        let document = serde_json::json!({ "path": text(path), "xattrs": values });
        let line = with_schema("extant-xattrs/1", &document)
            .map_err(|error| extant_edit::Error::inside(visited.spot.path, error.message))?;
        output.extend(line.into_bytes());
        output.push(b'\n');
        return Ok(());
    }
    output.extend(b"# file: ");
    let shown = path.strip_prefix(b"/").filter(|rest| !rest.is_empty()).unwrap_or(b".");
    output.extend(attribute::escaped_name(shown));
    for one in &attributes {
        output.push(b'\n');
        output.extend(attribute::escaped_name(&one.name));
        if arguments.dump || arguments.name.is_some() {
            let encoding = arguments.encoding.unwrap_or_default();
            output.push(b'=');
            output.extend(attribute::encoded(&one.value, encoding).into_bytes());
        }
    }
    output.extend(b"\n\n");
    Ok(())
}
