//! The server as a process of its own, and when the caller goes on.
//!
//! A program cannot go to the background from within without `unsafe`: so the command runs itself
//! once more ([`itself`]), with the same words and a hidden one. That process opens, checks
//! and mounts, with the caller's stderr; when the mount answers it writes one line of JSON to its
//! standard output, which is a pipe, and leaves the caller's terminal. The caller ends with 0 when
//! the line comes, and with the server's own code when it ends without.
use super::log::Log;
use extant_host::arena;
use extant_host::error::{Error, Exit};
use extant_host::itself;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::{Arc, OnceLock};

/// The hidden word that tells a server that its caller waits for a line.
pub const ANNOUNCE: &str = "--announce";

/// What a server says when its mount answers; the document of `--json`.
#[derive(Serialize, Deserialize, Debug)]
pub struct Ready {
    /// The image, without links.
    pub image: String,
    /// The folder, without links.
    pub folder: String,
    /// `read-only` or `read-write`
    pub access: String,
    /// The server's number.
    pub server: u32,
}

/// Starts the server with the words of this process, and waits until it answers.
///
/// # Errors
/// No process can be started.
pub fn launch(words: Vec<OsString>) -> Result<Result<Ready, Exit>, Error> {
    let failed = |what: &str, error: std::io::Error| Error::io(what, &error).exit(Exit::System);
    let mut words = words;
    // What follows two hyphens is a program to run; here none does.
    while words.last().is_some_and(|word| word == "--") {
        words.pop();
    }
    let mut server = itself::command();
    server.args(words.into_iter().skip(1)).arg(ANNOUNCE);
    arena::begin(&mut server);
    server.stdin(Stdio::null()).stdout(Stdio::piped());
    // Before there is a server, which would go on if this failed.
    let number = forward_signals().map_err(|error| failed("signals", error))?;
    let mut server = server.spawn().map_err(|error| failed("the server", error))?;
    // It was not set before.
    let _ = number.set(server.id());
    let mut line = String::new();
    let stdout = server.stdout.take().map(BufReader::new);
    // An error is an end without a line.
    let _ = stdout.map(|mut stdout| stdout.read_line(&mut line));
    if let Ok(ready) = serde_json::from_str(&line) {
        return Ok(Ok(ready));
    }
    let status = server.wait().map_err(|error| failed("the server", error))?;
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(code) if code != 0 => Ok(Err(Exit::OfProgram(code))),
        _ => Err(Error::new(format!("the server ended before the mount answered: {status}"))),
    }
}

/// A signal to the caller ends the server, whose number is set later, and which then says how.
fn forward_signals() -> std::io::Result<Arc<OnceLock<u32>>> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let number: Arc<OnceLock<u32>> = Arc::default();
    let server = Arc::clone(&number);
    let forward = move || {
        for _ in signals.forever() {
            let server = i32::try_from(*server.wait()).ok();
            if let Some(server) = server.and_then(rustix::process::Pid::from_raw) {
                // It may have ended by itself.
                let _ = rustix::process::kill_process(server, rustix::process::Signal::TERM);
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(forward)?;
    Ok(number)
}

/// Makes this process one that outlives its caller's terminal. To be called first.
pub fn leave_session() {
    // It fails for a leader of a group, which the caller's child is not; and nothing depends on it.
    let _ = rustix::process::setsid();
}

/// Tells the caller that the mount answers, and lets go of its folder and its terminal. From now on
/// nothing that is printed is seen, but what goes to the log.
///
/// # Errors
/// Those of the host.
pub fn announce(ready: &Ready, log: &Log) -> Result<(), Error> {
    let failed = |error: rustix::io::Errno| Error::io("/dev/null", &error.into());
    let line = serde_json::to_string(ready).map_err(|error| Error::new(error.to_string()))?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let null = null.map_err(failed)?;
    rustix::process::chdir("/").map_err(failed)?;
    let mut stdout = std::io::stdout().lock();
    // A caller that was killed meanwhile does not read it; the mount stays.
    let _ = stdout.write_all(line.as_bytes()).and_then(|()| stdout.write_all(b"\n"));
    let _ = stdout.flush();
    rustix::stdio::dup2_stdout(&null).map_err(failed)?;
    log.leave_terminal(&null)
}
