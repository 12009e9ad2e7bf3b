//! `extant lab`: the engine on drives in virtual time.
//!
//! ```text
//! posts        the mailing list posts: their figures and ours
//! run          a scenario gives a report
//! beside       one scenario on several images and drives
//! replay       a trace on a drive, command by command
//! requests     a trace of another system, of any length
//! replay_options  what a replay is asked
//! session      what programs asked of a mount, lived again on a drive
//! fit          a drive file from a real device
//! age          months of use of a volume
//! capsule      scenarios and what they gave in one file, and the same run again
//! list, show   what is built in
//! policies     what can be chosen
//! outputs      what a run writes, checked before it starts
//! page         --html: the same as a page
//! data         --csv, --jsonl and --parquet: the same for other programs
//! failure      what goes wrong, in the console's words
//! ```
mod age;
mod beside;
mod capsule;
mod data;
pub mod failure;
mod fit;
mod list;
mod outputs;
pub mod page;
mod policies;
mod posts;
mod replay;
mod replay_options;
mod requests;
mod run;
mod session;
mod show;

use clap::Subcommand;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};

/// Run the engine on drives in virtual time: scenarios, the mailing list posts, traces.
///
/// The laboratory runs the file system of the other commands, not a copy of it, on models of
/// drives. What it says is the same on every machine: the same command gives the same bytes.
#[derive(clap::Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "Examples:
  extant lab posts
  extant lab run read-cold --image disk.img --drive ide-2001-7200
  extant lab run read-cold --preset linux-2.4,placement=parent
  extant lab list
  extant lab show read-cold > mine.toml; extant lab run mine.toml")]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

/// What the laboratory does.
#[derive(Subcommand)]
pub enum Action {
    Posts(posts::Arguments),
    Run(run::Arguments),
    Age(age::Arguments),
    Capsule(capsule::Arguments),
    List(list::Arguments),
    Show(show::Arguments),
    Replay(replay::Arguments),
    Session(session::Arguments),
    Fit(fit::Arguments),
    Policies(policies::Arguments),
}

/// Does it.
pub fn run(arguments: Arguments, console: &Console) -> Result<Exit, Error> {
    match arguments.action {
        Action::Posts(arguments) => posts::run(&arguments, console),
        Action::Run(arguments) if beside::is_asked(&arguments) => beside::run(&arguments, console),
        Action::Run(arguments) => run::run(&arguments, console),
        Action::Age(arguments) => age::run(&arguments, console),
        Action::Capsule(arguments) => capsule::run(&arguments, console),
        Action::List(arguments) => list::run(&arguments, console),
        Action::Show(arguments) => show::run(&arguments, console),
        Action::Replay(arguments) => replay::run(&arguments, console),
        Action::Session(arguments) => session::run(&arguments, console),
        Action::Fit(arguments) => fit::run(&arguments, console),
        Action::Policies(arguments) => policies::run(&arguments, console),
    }
}
