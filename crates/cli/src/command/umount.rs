//! `extant umount`: the end of a mount, waited for.
use extant_daemon::{Unmounted, Wish, unmount};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use std::path::PathBuf;

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
    let wish = Wish { is_lazy: arguments.lazy, waits: !arguments.no_wait };
    let Unmounted { image, folder, is_waited_for } = unmount(&arguments.folder, wish, console)?;
    if console.is_json() {
        let document = serde_json::json!({
            "image": image,
            "folder": folder,
            "waited": is_waited_for,
        });
        console.print_json("extant-umount/1", &document)?;
    } else if arguments.verbose {
        console.print(&format!("{folder}: {image} is unmounted\n"))?;
    }
    Ok(Exit::Complete)
}
