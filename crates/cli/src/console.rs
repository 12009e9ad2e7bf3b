//! What a command says: results on stdout, everything else on stderr, as text or as JSON.
use crate::error::{Convention, Error, Exit};
use crate::progress::{ProgressLine, Status, Unit, Visibility, clear_line};
use extant_chart::TEXT_WIDTH;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};

/// Text is not folded to fewer columns, however narrow a terminal says that it is.
const NARROWEST: usize = 60;

/// How results are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// For people.
    Text,
    /// For programs: one JSON document on stdout; errors as one JSON line on stderr.
    Json,
}

/// How much is said on stderr besides errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chatter {
    /// Errors only.
    Quiet,
    /// Warnings, and progress where stderr is a terminal.
    Normal,
}

/// Where a command's words go.
#[derive(Clone, Debug)]
pub struct Console {
    /// The command, for the head of each line on stderr.
    pub command: &'static str,
    /// Text or JSON.
    pub form: Form,
    /// Quiet or not.
    pub chatter: Chatter,
}

#[derive(Serialize)]
struct Failure<'a> {
    command: &'a str,
    error: &'a str,
    hint: Option<&'a str>,
    exit: u8,
}

#[derive(Serialize)]
struct Warning<'a> {
    command: &'a str,
    warning: &'a str,
}

impl Console {
    /// Whether results are JSON.
    pub fn is_json(&self) -> bool {
        self.form == Form::Json
    }
    /// Whether a moving line may be shown: not quiet, not JSON, and stderr is a terminal.
    fn visibility(&self) -> Visibility {
        let is_normal = self.chatter == Chatter::Normal && self.form == Form::Text;
        match is_normal && io::stderr().is_terminal() {
            true => Visibility::Shown,
            false => Visibility::Hidden,
        }
    }
    /// A moving line for a phase of work; `total` is 0 where it is not known.
    pub fn progress(&self, label: &'static str, unit: Unit, total: u64) -> ProgressLine {
        ProgressLine::new(label, unit, total, self.visibility())
    }
    /// A moving line that says what is being done.
    pub fn status(&self) -> Status {
        Status::new(self.visibility())
    }
    /// Columns of a line of text on stdout: the terminal's, or 100 where it is none.
    pub fn width(&self) -> usize {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
        let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
        columns.map_or(TEXT_WIDTH, |columns| columns.max(NARROWEST))
    }
    /// Writes text to stdout. Nothing is added.
    pub fn print(&self, text: &str) -> Result<(), Error> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .map_err(|error| Error::stdout(&error))
    }
    /// Writes one JSON document and a newline to stdout.
    pub fn print_json(&self, document: &impl Serialize) -> Result<(), Error> {
        let mut text = serde_json::to_string(document)
            .map_err(|error| Error::new(format!("JSON: {error}")))?;
        text.push('\n');
        self.print(&text)
    }
    /// Writes one JSON document to stderr, for a command whose stdout carries something else.
    pub fn print_json_aside(&self, document: &impl Serialize) {
        complain_json(document);
    }
    /// One line on stderr, unless quiet.
    pub fn warn(&self, message: &str) {
        if self.chatter == Chatter::Quiet {
            return;
        }
        match self.form {
            Form::Text => complain(&format!("extant: {}: {message}", self.command)),
            Form::Json => complain_json(&Warning { command: self.command, warning: message }),
        }
    }
    /// A file that was left out and makes the exit code 1: also shown when quiet.
    pub fn skipped(&self, message: &str) {
        Console { chatter: Chatter::Normal, ..self.clone() }.warn(message);
    }
    /// The failure that ends the command.
    pub fn fail(&self, error: &Error) {
        if error.exit == Exit::PipeClosed {
            return;
        }
        match self.form {
            Form::Text => {
                let head = if self.command.is_empty() {
                    String::new()
                } else {
                    format!("{}: ", self.command)
                };
                let hint =
                    error.hint.iter().map(|hint| format!("\n  hint: {hint}")).collect::<String>();
                complain(&format!("extant: {head}{}{hint}", error.message));
            }
            Form::Json => complain_json(&Failure {
                command: self.command,
                error: &error.message,
                hint: error.hint.as_deref(),
                exit: Convention::of(self.command).code(error.exit),
            }),
        }
    }
}

/// One line on stderr that belongs to no command.
pub fn note(message: &str) {
    complain(&format!("extant: {message}"));
}

/// A line on stderr; when even that fails, there is nowhere left to say so.
fn complain(line: &str) {
    clear_line();
    let _ = writeln!(io::stderr().lock(), "{line}");
}

fn complain_json(line: &impl Serialize) {
    if let Ok(text) = serde_json::to_string(line) {
        complain(&text);
    }
}
