//! Programs of the host: run, and fail with the whole story.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::variables::chosen;

/// Where `tool` is, looked up in `PATH` and in the administrator's folders (which a user's `PATH`
/// may lack).
pub fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/local/sbin"].iter().map(PathBuf::from))
        .map(|folder| folder.join(tool))
        .find(|candidate| candidate.is_file())
}

/// `tool` ready to be given words: found as by [`find`], speaking the language of the manuals, in
/// UTC.
pub fn program(tool: &str) -> Command {
    let mut command = Command::new(find(tool).unwrap_or_else(|| PathBuf::from(tool)));
    command.env("LC_ALL", "C").env("TZ", "UTC0");
    command
}

/// Runs `command` to its end and returns its output; a failure is an error with the words, the
/// status and stderr.
///
/// # Errors
/// The program cannot be started or does not exit with 0.
pub fn output(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| format!("{}: {error}", shown(command)))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(format!(
        "{}: {}\n{}{}",
        shown(command),
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    ))
}

/// [`program`] with `words`, run by [`output`].
///
/// # Errors
/// As for [`output`].
pub fn run<W: AsRef<OsStr>>(tool: &str, words: &[W]) -> Result<Output, String> {
    output(program(tool).args(words))
}

/// The command as a person would type it.
pub fn shown(command: &Command) -> String {
    let name = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    command.get_args().fold(name, |line, word| line + " " + &word.to_string_lossy())
}

/// Whether this process is the superuser, who may mount.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this is the gate (`CI=true`), where a missing tool is an error and not a reason to skip.
pub fn is_gate() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

/// The same program with the signals that end it as they are by default: a shell that starts the
/// tests in the background ignores SIGINT in all of them.
pub fn with_default_signals(command: &Command) -> Command {
    let mut with = program("env");
    with.arg("--default-signal=INT,TERM,HUP").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => with.env(name, value),
            None => with.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        with.current_dir(folder);
    }
    with
}

/// The path of the command that the suites judge: what `EXTANT_PROGRAM` names (the gate names the
/// one that ships), else the one that cargo `built` for them.
pub fn tested(built: &'static str) -> &'static str {
    static NAMED: OnceLock<Option<String>> = OnceLock::new();
    NAMED.get_or_init(|| chosen("EXTANT_PROGRAM")).as_deref().unwrap_or(built)
}

/// Copies the command that the suites judge, as [`copy_program`] does.
///
/// # Panics
/// It cannot be copied.
pub fn copy_tested(built: &'static str, to: impl AsRef<OsStr>) {
    copy_program(tested(built), to);
}

/// Copies a program that is to be run. A process of its own writes the copy: what another test
/// starts at that moment would have a file open that this process writes, and no program is run
/// that is open for writing ("Text file busy").
///
/// # Panics
/// It cannot be copied.
pub fn copy_program(from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) {
    let copied = output(program("cp").arg(from).arg(to));
    copied.unwrap_or_else(|error| panic!("{error}"));
}
