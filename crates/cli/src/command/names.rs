//! `extant names`: links by which this program is called as e2fsprogs's are.
use extant_host::console::{Chatter, Console};
use extant_host::error::{Error, Exit};
use extant_names::NAMES;
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};

/// Make links to this program under the names that scripts call: mkfs.ext4, e2fsck and so on.
///
/// Under such a name it takes that program's options, prints in its shape and ends with its exit
/// codes: mke2fs, mkfs.ext2, mkfs.ext3, mkfs.ext4, e2fsck, fsck.ext2, fsck.ext3, fsck.ext4,
/// mkfs.ext4dev, resize2fs, dumpe2fs and e2label. `extant --as NAME WORDS..` does the same without
/// a link. Where a file is under one of the names nothing is made; --force replaces links, and only
/// links.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant names ~/bin
  extant names --force /usr/local/sbin
  extant names --list
  extant --as mkfs.ext4 -q -F disk.img 64M")]
pub struct Arguments {
    /// The folder that the links are made in
    #[arg(value_name = "DIR", required_unless_present = "list")]
    pub folder: Option<PathBuf>,
    /// Replace links that are there under these names
    #[arg(long, short = 'F')]
    pub force: bool,
    /// List the names, and make nothing
    #[arg(long, conflicts_with = "folder")]
    pub list: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    made: Vec<String>,
}

/// Makes them, and says which.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let names = NAMES.map(|(name, _)| name);
    let Some(folder) = arguments.folder.as_deref() else {
        return list(console, &names);
    };
    let program = extant_host::itself::file().map_err(|error| Error::io("this program", &error))?;
    if std::fs::metadata(folder).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Err(Error::no_folder(folder.display()));
    }
    let made: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    // All are looked at before the first is made.
    for link in &made {
        check(link, &arguments)?;
    }
    for link in &made {
        let failed = |error: io::Error| Error::io(link.display(), &error);
        match std::fs::remove_file(link) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        std::os::unix::fs::symlink(&program, link).map_err(failed)?;
    }
    let made = made.iter().map(|link| link.display().to_string()).collect();
    match (console.is_json(), console.chatter) {
        (true, _) => console.print_json("extant-names/1", &Report { made })?,
        (false, Chatter::Quiet) => {}
        (false, Chatter::Normal) => {
            console.print(&made.iter().map(|link| format!("{link}\n")).collect::<String>())?;
        }
    }
    Ok(Exit::Complete)
}

fn list(console: &Console, names: &[&str]) -> Result<Exit, Error> {
    match console.is_json() {
        true => console.print_json("extant-names/1", &serde_json::json!({ "names": names }))?,
        false => {
            console.print(&names.iter().map(|name| format!("{name}\n")).collect::<String>())?;
        }
    }
    Ok(Exit::Complete)
}

/// Refuses what is there and may not be replaced.
fn check(link: &Path, arguments: &Arguments) -> Result<(), Error> {
    let shown = link.display();
    match std::fs::symlink_metadata(link) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io(shown, &error)),
        Ok(metadata) if !metadata.file_type().is_symlink() => {
            Err(Error::new(format!("{shown}: exists, and is no link"))
                .hint("choose another folder, and put it before the others in PATH"))
        }
        Ok(_) if arguments.force => Ok(()),
        Ok(_) => Err(Error::new(format!("{shown}: exists already")).hint("--force replaces links")),
    }
}
