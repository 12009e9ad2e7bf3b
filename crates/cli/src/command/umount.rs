//! `extant umount`: the end of a mount, waited for.
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::mounting::ending;
use crate::mounting::farewell::Waiting;
use crate::mounting::points;
use extant_block::in_use::{self, Mount};
use extant_block::{Access, Clock, RealClock};
use extant_mount::transport::{Detach, DetachError, detach};
use std::io;
use std::path::{Path, PathBuf};

/// Unmount what extant mount has mounted, and wait until all is in the image and its lock is free.
///
/// DIR may also be the image, if it is mounted once. umount(8) and fusermount3 -u also unmount, and
/// do not wait. A mount in use stays, and who uses it is said; --lazy takes the name away at once,
/// and waits until its last user has ended.
///
/// Exit codes: 0 done; 1 wrong usage; 2 the host lacks something; 32 it is not mounted, is in use,
/// or writing the last of it failed.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant umount /mnt
  extant umount disk.img && extant check disk.img
  extant umount --lazy --no-wait /mnt")]
pub struct Arguments {
    /// The folder on which it is mounted, or the image
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Take the name away even if the mount is in use
    #[arg(long, short)]
    pub lazy: bool,
    /// Do not wait for the server
    #[arg(long)]
    pub no_wait: bool,
    /// Accepted for umount(8): a mount whose server is gone is always unmounted
    #[arg(long, short)]
    pub force: bool,
    /// Accepted for umount(8): no table is written
    #[arg(long, short)]
    pub no_mtab: bool,
    /// Accepted for umount(8): a mount in use stays as it is
    #[arg(long, short)]
    pub read_only: bool,
    /// Say what was unmounted
    #[arg(long, short)]
    pub verbose: bool,
}

/// Unmounts it. With `--json`: `{"schema": "extant-umount/1", "image", "folder", "waited"}`.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    let mount = find(&arguments.folder)?;
    // This process is not to be one that uses the mount.
    std::env::set_current_dir("/").map_err(|error| Error::io("/", &error))?;
    let image = mount.source.display().to_string();
    // Connected before: afterwards the server may have gone.
    // A server waits for the program that it runs: that one must not wait for the server.
    let is_its_program = std::env::var_os(ending::VARIABLE).is_some_and(|at| at == mount.folder);
    let waits = !arguments.no_wait && !is_its_program;
    let waiting = if waits { Waiting::connect(&mount) } else { None };
    let is_orphaned = waiting.is_none() && waits && is_unlocked(&mount);
    let how = if arguments.lazy { Detach::Lazy } else { Detach::WhenFree };
    detach(&mount.folder, how).map_err(|error| match error {
        DetachError::Busy(folder) => {
            let error = Error::new(format!("{}: is in use", arguments.folder.display()));
            let users = points::holders(&folder);
            let lazily = "--lazy unmounts it, and waits for its last user";
            error.hint(match users.is_empty() {
                true => lazily.to_owned(),
                false => format!("{users}; {lazily}"),
            })
        }
        error => Error { hint: error.hint(), ..Error::new(error.to_string()) },
    })?;
    if is_orphaned {
        console.warn(&format!(
            "{image}: its server had ended before: what was not synced may be missing"
        ));
    }
    let waited = match waiting {
        Some(waiting) => {
            waiting.wait(&image)?;
            true
        }
        None => waits && wait_for_lock(&mount, console),
    };
    if console.is_json() {
        console.print_json(&serde_json::json!({
            "schema": "extant-umount/1",
            "image": image,
            "folder": mount.folder.display().to_string(),
            "waited": waited,
        }))?;
    } else if arguments.verbose {
        console.print(&format!("{}: {image} is unmounted\n", mount.folder.display()))?;
    }
    Ok(Exit::Complete)
}

/// The mount that a word names.
fn find(word: &Path) -> Result<Mount, Error> {
    let shown = word.display();
    let path = points::resolved(word).map_err(|error| Error::io(&shown, &error))?;
    match points::at(&path) {
        Some(mount) if points::is_ours(&mount) => return Ok(mount),
        Some(mount) => {
            let what = format!("{}, {}", mount.source.display(), mount.kind);
            return Err(Error::new(format!("{shown}: is no mount of extant ({what})"))
                .hint(format!("umount {shown}")));
        }
        None => {}
    }
    let mut mounts = points::of_image(&path);
    match (mounts.pop(), mounts.is_empty()) {
        (Some(mount), true) => Ok(mount),
        (Some(_), false) => Err(Error::new(format!("{shown}: is mounted more than once"))
            .hint("name the folder to unmount")),
        (None, _) => Err(Error::new(format!("{shown}: is not mounted"))
            .hint("findmnt -t fuse.extant,fuseblk.extant lists what is")),
    }
}

/// Whether nothing has the image of a mount open: its server was killed.
fn is_unlocked(mount: &Mount) -> bool {
    std::fs::File::open(&mount.source).is_ok_and(|file| file.try_lock().is_ok())
}

/// Nanoseconds between two looks at a lock.
const PAUSE_NS: u64 = 20_000_000;

/// Waits for a server that cannot be asked: until the image is no longer locked. Whether it was
/// waited for; if not, that is said.
fn wait_for_lock(mount: &Mount, console: &Console) -> bool {
    let clock = RealClock::new();
    let image = mount.source.display();
    loop {
        let claimed = in_use::open(&mount.source, Access::ReadOnly)
            .and_then(|file| in_use::claim(&*clock, &file, Access::ReadOnly));
        match claimed {
            Ok(_) => return true,
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                clock.park(Some(clock.now().saturating_add(PAUSE_NS)));
            }
            Err(error) => {
                console.warn(&format!("{image}: its server is not waited for: {error}"));
                return false;
            }
        }
    }
}
