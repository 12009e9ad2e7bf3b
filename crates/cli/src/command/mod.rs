//! The commands. The table below is all there is: the parser, `--help`, the completions and the man
//! pages are made of its rows, and of the doc comment and the fields of each row's `Arguments`.
//!
//! ```text
//! build              directories and archives become an image
//! tar, extract       an image becomes an archive, or a folder
//! mkfs               an empty file system
//! age                months of use, replayed in an image
//! ls, stat, cat      what is in an image
//! find, getfattr     which of it is meant, and its attributes
//! cp                 files go into an image, out of it, or are copied inside
//! rm, rmdir, mkdir, mv, ln, write, truncate      its tree is changed, all or nothing
//! chmod, chown, chgrp, chattr, touch, setfattr   what its files are like, likewise
//! edit               many changes as one
//! df, du             how full it is, and by what
//! info, layout       what a volume is like, and what is where in it
//! check              whether it is sound
//! repair, undo       what is wrong with it is mended, and that is taken back
//! heal               what it needs before it is used again
//! resize, shrink     another size, in place; as small as can be, or as another file
//!   resize::mounted  of what is mounted
//! repack, normalize  built anew, what is read first in front; built anew, the same bytes again
//! trim               free blocks become holes, and what was deleted goes
//!   trim::map        what is in use of a disk
//! tune               label, UUID, features, journal and settings
//! replay             the journal of a volume that was not unmounted
//! mount, umount      an image under other programs
//! lab                the engine in virtual time
//! sweep              many jobs of these commands, planned, run and collected
//! names              links by which this program is called as mke2fs and e2fsck are
//! man, completions   the manual, and words for shells
//! diff               what differs between images, folders and archives
//! elsewhere          commands of other tools
//! ```
//! A command is one file with
//! - `pub struct Arguments`, whose doc comment is the help and whose `after_help` shows examples;
//! - `pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error>`.

mod age;
mod build;
mod cat;
mod chattr;
mod check;
mod chmod;
mod chown;
mod completions;
mod cp;
mod df;
mod diff;
mod du;
mod edit;
mod elsewhere;
mod extract;
mod find;
mod getfattr;
mod heal;
mod info;
mod lab;
mod layout;
mod ln;
mod ls;
mod man;
mod mkdir;
mod mkfs;
mod mount;
mod mv;
mod names;
mod normalize;
mod repack;
mod repair;
mod replay;
mod resize;
mod rm;
mod rmdir;
mod setfattr;
mod shrink;
mod stat;
mod sweep;
mod tar;
mod touch;
mod trim;
mod truncate;
mod tune;
mod umount;
mod undo;
mod write;

use chown::chgrp;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use extant_block::in_use;
use extant_daemon::mount_8;
use extant_host::console::{Chatter, Console, Form};
use extant_host::error::{Convention, Error, Exit};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// One row a command: module, variant, name.
macro_rules! commands {
    ($($module:ident $variant:ident $name:literal,)*) => {
        /// A command and its arguments.
        #[derive(Subcommand)]
        pub enum Command {
            $(
                #[allow(missing_docs)]
                #[command(name = $name)]
                $variant(Box<$module::Arguments>),
            )*
        }

        impl Command {
            fn name(&self) -> &'static str {
                match self { $(Command::$variant(_) => $name,)* }
            }
            fn run(self, console: &Console) -> Result<Exit, Error> {
                match self {
                    $(Command::$variant(words) => $module::run(*words, console),)*
                }
            }
            /// One row of the table, as clap's own value.
            fn row(name: &str) -> Option<clap::Command> {
                let command = match name {
                    $($name => $module::Arguments::augment_args(clap::Command::new($name)),)*
                    _ => return None,
                };
                Some(command)
            }
        }
    };
}

commands! {
    age         Age         "age",
    build       Build       "build",
    cat         Cat         "cat",
    chattr      Chattr      "chattr",
    check       Check       "check",
    chgrp       Chgrp       "chgrp",
    chmod       Chmod       "chmod",
    chown       Chown       "chown",
    completions Completions "completions",
    df          Df          "df",
    diff        Diff        "diff",
    du          Du          "du",
    extract     Extract     "extract",
    cp          Cp          "cp",
    edit        Edit        "edit",
    find        Find        "find",
    getfattr    Getfattr    "getfattr",
    heal        Heal        "heal",
    info        Info        "info",
    lab         Lab         "lab",
    layout      Layout      "layout",
    ln          Ln          "ln",
    ls          Ls          "ls",
    man         Man         "man",
    mkdir       Mkdir       "mkdir",
    mkfs        Mkfs        "mkfs",
    mount       Mount       "mount",
    mv          Mv          "mv",
    names       Names       "names",
    normalize   Normalize   "normalize",
    repack      Repack      "repack",
    repair      Repair      "repair",
    replay      Replay      "replay",
    resize      Resize      "resize",
    rm          Rm          "rm",
    rmdir       Rmdir       "rmdir",
    setfattr    Setfattr    "setfattr",
    shrink      Shrink      "shrink",
    stat        Stat        "stat",
    sweep       Sweep       "sweep",
    tar         Tar         "tar",
    touch       Touch       "touch",
    trim        Trim        "trim",
    truncate    Truncate    "truncate",
    tune        Tune        "tune",
    umount      Umount      "umount",
    undo        Undo        "undo",
    write       Write       "write",
}

/// Make, fill, read, check and mount ext2, ext3 and ext4 images.
#[derive(Parser)]
#[command(name = "extant", version, arg_required_else_help = true)]
#[command(max_term_width = 100, after_help = EXIT_CODES)]
pub struct Extant {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub shared: Shared,
}

// Options of all commands. Without a doc comment, which clap would take for the help.
#[derive(Args)]
#[allow(missing_docs)]
pub struct Shared {
    /// Results as one JSON document on stdout; errors and warnings as JSON lines on stderr.
    #[arg(long, global = true, display_order = 900)]
    pub json: bool,
    /// Say nothing but errors.
    #[arg(long, short, global = true, display_order = 901)]
    pub quiet: bool,
    /// Wait for an image that is in use, for SECONDS at most; without a number, as long as it
    /// takes.
    #[arg(long, global = true, display_order = 902, value_name = "SECONDS", num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "18446744073")]
    pub wait: Option<u64>,
    /// Say at the end, on stderr, what the exit code means.
    #[arg(long, global = true, display_order = 903)]
    pub explain_exit: bool,
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed, or files were left out; 2 wrong usage; \
    130, 143 stopped by a signal; 141 the reader of the output went away; check, repair and heal: \
    fsck's; diff: diff's; mount and umount: mount(8)'s.";

/// The table, as clap's own value: for completions, man pages, and tests.
pub fn table() -> clap::Command {
    Extant::command()
}

/// A command line in our words, where mount(8) or umount(8) wrote it.
pub fn translated(words: Vec<OsString>) -> Vec<OsString> {
    mount_8::translate(words, &|word| word.to_str().is_some_and(Command::has_subcommand))
}

/// What a command line asks for.
///
/// # Errors
/// What the whole table says of words that it does not accept.
pub fn parse(words: &[OsString]) -> Result<Extant, clap::Error> {
    // The table is large, and most words are accepted: one row takes a quarter of the time.
    match parse_alone(words) {
        Some(line) => Ok(line),
        None => Extant::try_parse_from(words),
    }
}

/// What is asked for, if the row of the command that is named first accepts these words.
fn parse_alone(words: &[OsString]) -> Option<Extant> {
    // No option before the name of a command takes a word of its own.
    let name = words.iter().skip(1).find(|word| !word.as_encoded_bytes().starts_with(b"-"))?;
    let row = Command::row(name.to_str()?)?;
    let table = Shared::augment_args(clap::Command::new("extant")).subcommand(row);
    let mut matches = table.try_get_matches_from(words).ok()?;
    Extant::from_arg_matches_mut(&mut matches).ok()
}

/// Where the command of a line says what it has to say.
fn console(line: &Extant) -> Console {
    Console {
        command: line.command.name(),
        form: if line.shared.json { Form::Json } else { Form::Text },
        chatter: if line.shared.quiet { Chatter::Quiet } else { Chatter::Normal },
    }
}

/// Runs a parsed command line and prints how it failed, if it did.
pub fn run(line: Extant) -> ExitCode {
    let console = console(&line);
    if let Some(seconds) = line.shared.wait {
        in_use::wait_for_others(Duration::from_secs(seconds));
    }
    let explains = line.shared.explain_exit;
    let watched = match &line.command {
        // A mount is not removed by a signal, but unmounted.
        Command::Mount(_) => Ok(()),
        _ => extant_host::cleanup::watch_signals().map_err(|error| Error::io("signals", &error)),
    };
    let exit = watched.and_then(|()| line.command.run(&console)).unwrap_or_else(|error| {
        console.fail(&error);
        error.exit
    });
    let code = Convention::of(console.command).code(exit);
    if explains {
        console.explain_exit(code);
    }
    ExitCode::from(code)
}

/// Runs the words after `extant` inside of another command, which has its own signals, and gives
/// the exit code.
fn code_within(words: &[String]) -> u8 {
    let words: Vec<OsString> = ["extant"]
        .into_iter()
        .map(OsString::from)
        .chain(words.iter().map(OsString::from))
        .collect();
    let line = match parse(&words) {
        Ok(line) => line,
        Err(refusal) => {
            let _ = refuse(&refusal, &words);
            return Convention::of(named(&words)).code(Exit::Usage);
        }
    };
    let console = console(&line);
    let exit = line.command.run(&console).unwrap_or_else(|error| {
        console.fail(&error);
        error.exit
    });
    Convention::of(console.command).code(exit)
}

/// The first line of a refusal, with what it names in the lines below where it ends in a colon.
fn one_line(text: &str) -> String {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let named = lines.map(str::trim).take_while(|line| !line.is_empty());
    match first.ends_with(':') {
        true => [first].into_iter().chain(named).collect::<Vec<_>>().join(" "),
        false => first.into(),
    }
}

/// Prints what clap answers to words that it did not accept: help and version on stdout, mistakes
/// on stderr; and what the exit code means, if that is asked for.
pub fn refuse(refusal: &clap::Error, words: &[OsString]) -> ExitCode {
    let form = match words.iter().any(|word| word == "--json") {
        true => Form::Json,
        false => Form::Text,
    };
    let (command, code) = match of_another_tool(refusal, words) {
        Some(error) => {
            let console = Console { command: "", form, chatter: Chatter::Normal };
            console.fail(&error);
            ("", Convention::Plain.code(error.exit))
        }
        None => {
            let command = named(words);
            let exit = refused(refusal, (command, form));
            (command, Convention::of(command).code(exit))
        }
    };
    if words.iter().any(|word| word == "--explain-exit") {
        Console { command, form, chatter: Chatter::Normal }.explain_exit(code);
    }
    ExitCode::from(code)
}

/// Prints what clap answers, in the form of a command.
fn refused(refusal: &clap::Error, (command, form): (&'static str, Form)) -> Exit {
    use clap::error::ErrorKind;
    let asked = matches!(refusal.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if asked || form == Form::Text {
        let printed = refusal.print().and_then(|()| std::io::stdout().flush());
        return match printed {
            // A closed pipe after `--help` is no failure.
            Err(error) if asked && error.kind() != std::io::ErrorKind::BrokenPipe => {
                let error = Error::stdout(&error);
                Console { command, form, chatter: Chatter::Normal }.fail(&error);
                error.exit
            }
            _ if asked => Exit::Complete,
            _ => Exit::Usage,
        };
    }
    let text = refusal.render().to_string();
    let message = one_line(text.trim_start_matches("error: "));
    let console = Console { command, form: Form::Json, chatter: Chatter::Normal };
    console.fail(
        &Error::usage(message)
            .hint("extant --help shows the commands, extant COMMAND --help the options"),
    );
    Exit::Usage
}

/// The refusal of a command that other tools have, and this one does not.
fn of_another_tool(refusal: &clap::Error, words: &[OsString]) -> Option<Error> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let word = match refusal.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) if refusal.kind() == ErrorKind::InvalidSubcommand => word,
        _ => return None,
    };
    // A word after `lab` is one of the laboratory's.
    let first = words.iter().skip(1).find(|word| !word.as_encoded_bytes().starts_with(b"-"))?;
    let advice = elsewhere::advice(word).filter(|_| first == word.as_str())?;
    Some(Error::usage(format!("{word}: there is no such command")).hint(advice))
}

/// The command that refused words were meant for: the first of them that is no option.
fn named(words: &[OsString]) -> &'static str {
    let mut plain = words.iter().skip(1).filter_map(|word| word.to_str());
    match plain.find(|word| !word.starts_with('-')) {
        Some("check") => "check",
        Some("diff") => "diff",
        Some("heal") => "heal",
        Some("mount") => "mount",
        Some("repair") => "repair",
        Some("umount") => "umount",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        table().debug_assert();
    }

    #[test]
    fn a_row_accepts_what_the_table_accepts() {
        let lines = [
            "extant ls -lR --json disk.img:/",
            "extant --json -q --wait=3 check disk.img",
            "extant cp -a one two disk.img:/ --wait",
            "extant lab run --help",
            "extant lab policies",
            "extant ls --nonsense",
            "extant --nonsense ls",
            "extant -- ls disk.img:/",
            "extant nonsense",
            "extant help ls",
            "extant --version",
            "extant",
            "extant ls",
        ];
        for line in lines {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let said = |parsed: Result<Extant, clap::Error>| match parsed {
                Ok(line) => {
                    let Shared { json, quiet, wait, explain_exit } = line.shared;
                    Ok((line.command.name(), json, quiet, wait, explain_exit))
                }
                Err(refusal) => Err(refusal.render().to_string()),
            };
            assert_eq!(said(parse(&words)), said(Extant::try_parse_from(&words)), "{line}");
        }
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for command in table().get_subcommands() {
            assert!(Command::row(command.get_name()).is_some(), "{}", command.get_name());
        }
        let alone = parse_alone(&words("extant --json --wait=3 check disk.img")).unwrap();
        assert_eq!((alone.command.name(), alone.shared.wait), ("check", Some(3)));
        assert!(parse_alone(&words("extant nonsense")).is_none());
    }

    #[test]
    fn a_refusal_names_what_is_missing() {
        let refusal = table().try_get_matches_from(["extant", "age", "disk.img"]).unwrap_err();
        let text = refusal.render().to_string();
        let said = one_line(text.trim_start_matches("error: "));
        assert!(
            said.starts_with("the following required arguments were not provided: --"),
            "{said}"
        );
        assert!(said.contains("--profile"), "{said}");
        assert_eq!(one_line("no such word 'x'\n\nUsage: ..\n"), "no such word 'x'");
    }

    #[test]
    fn every_command_explains_itself_and_shows_examples() {
        let table = table();
        let nested = table.get_subcommands().flat_map(clap::Command::get_subcommands);
        for command in table.get_subcommands().chain(nested) {
            let name = command.get_name();
            assert!(command.get_about().is_some(), "{name} has no help");
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(examples.starts_with("Examples:\n"), "{name} shows no examples");
            assert!(
                examples.lines().skip(1).all(|line| line.starts_with("  ")),
                "{name}: {examples}"
            );
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{name}: {} has no help", argument.get_id());
            }
        }
    }
}
