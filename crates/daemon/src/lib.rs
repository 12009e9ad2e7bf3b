//! The process that a mounted image is served by, and what `extant umount` does about it.
//!
//! `extant-mount` answers what the kernel asks of a mount; this crate is the process around it,
//! which reads `-o`, opens the image, goes to the background, sees signals and says how it ended.
//!
//! ```text
//! options     what -o asks for, as a value; words: the table of its words
//! mount_8     the names under which mount(8) and umount(8) call us
//! checks      what is looked at before anything is opened: the folder, the image
//! background  the server as a process of its own, and when the caller goes on
//! ending      signals, and a program for which a mount was made
//! abort       the end of a mount for users that do not end
//! connection  the kernel's connection of a mount, ended from outside, and the server's process
//! errand      what a server has done by other processes
//! end_notice  how the end of a server is waited for
//! server      from the image to the end of the mount
//! locks       the host's table of locks: who has locked an image, and how
//! log         where a server says what it met
//! name_of_image  whether the name of a mounted image still leads to it
//! observer    what is seen of a mount: errors, requests, times; recording: its device's requests
//! remount     other flags for a mount that is there
//! points      our mounts in the host's table, and who uses one
//! unmount     the end of a mount that another process serves
//! ```
mod abort;
mod background;
mod checks;
mod connection;
mod end_notice;
mod ending;
pub mod errand;
mod locks;
mod log;
pub mod mount_8;
mod name_of_image;
mod observer;
mod options;
mod points;
mod recording;
pub mod remount;
mod server;
mod unmount;
pub mod words;

pub use background::{ANNOUNCE, Ready};
pub use options::{MountOptions, Unknown};
pub use server::Job;
pub use unmount::{Unmounted, Wish, unmount};

use checks::Hold;
use extant_host::arena;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use log::Log;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Which process serves a mount, and who is told that it answers.
#[derive(Debug)]
pub enum Manner {
    /// Another one, which is this program called by these words; the caller goes on.
    Background(Vec<OsString>),
    /// This one, which tells the caller that started it for that.
    Announced,
    /// This one, as long as the mount is there.
    Foreground,
    /// None: all is checked, and nothing is mounted.
    Checked,
}

/// Mounts an image, or has it mounted. `tell` is called when it answers, unless another process
/// waits for that.
///
/// # Errors
/// It cannot be mounted; what the device returned in the end.
pub fn mount(
    job: Job,
    manner: Manner,
    tell: &dyn Fn(&Ready) -> Result<(), Error>,
    console: &Console,
) -> Result<Exit, Error> {
    if let Manner::Background(words) = manner {
        if job.timeline.as_deref().is_some_and(is_standard_output) {
            return Err(Error::usage("--timeline -: standard output is gone in the background")
                .hint("name a file, or take --foreground"));
        }
        return match background::launch(words)? {
            Ok(ready) => tell(&ready).map(|()| Exit::Complete),
            Err(exit) => Ok(exit),
        };
    }
    checks::note(&job.options, console)?;
    if matches!(manner, Manner::Announced) {
        background::leave_session();
    }
    if matches!(manner, Manner::Checked) {
        let folder = job.folder.as_deref();
        folder.map(|folder| checks::folder(folder, job.options.over)).transpose()?;
        checks::open(&job.image, &job.options, Hold::Ours, console)?;
        return Ok(Exit::Complete);
    }
    arena::share();
    let job = Job {
        trace: job.trace.as_deref().map(absolute).transpose()?,
        timeline: match job.timeline {
            Some(path) if !is_standard_output(&path) => Some(absolute(&path)?),
            path => path,
        },
        ..job
    };
    let tell = |ready: &Ready, log: &Log| match manner {
        Manner::Announced => background::announce(ready, log),
        _ => tell(ready),
    };
    server::run(&job, &tell, console)
}

fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// A path that means the same when the server has left the caller's folder.
fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(|error| Error::io(path.display(), &error))
}
