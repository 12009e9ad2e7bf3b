//! What a command says: results on stdout, everything else on stderr, as text or as JSON.
use crate::error::{Convention, Error, Exit};
use crate::progress::{ProgressLine, Status, Unit, Visibility, clear_line};
use extant_chart::TEXT_WIDTH;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex};

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

#[derive(Serialize)]
struct Ended<'a> {
    command: &'a str,
    exit: u8,
    means: &'a str,
}

impl Console {
    /// Whether results are JSON.
    pub fn is_json(&self) -> bool {
        self.form == Form::Json
    }
    /// Whether a moving line may be shown: not quiet, not JSON, and stderr is a terminal that can
    /// go back to the start of a line.
    fn visibility(&self) -> Visibility {
        let is_normal = self.chatter == Chatter::Normal && self.form == Form::Text;
        let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
        match is_normal && !is_dumb && io::stderr().is_terminal() {
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
    /// The same for work that tells each line, on whatever thread.
    pub fn teller(&self) -> Arc<dyn Fn(&str) + Send + Sync> {
        let status = Mutex::new(self.status());
        Arc::new(move |line: &str| {
            if let Ok(mut status) = status.lock() {
                status.show(line);
            }
        })
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
    /// Writes a report for people to stdout, unless quiet: what it says is also in the exit code,
    /// in JSON, or in the files that were asked for. What other programs take as it is, a drive
    /// file or a list of times, is printed.
    pub fn report(&self, text: &str) -> Result<(), Error> {
        match self.chatter {
            Chatter::Quiet => Ok(()),
            Chatter::Normal => self.print(text),
        }
    }
    /// A document with its schema in front, as [`Console::print_json`] prints it.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub fn json_text(&self, schema: &str, document: &impl Serialize) -> Result<String, Error> {
        let mut text = with_schema(schema, document)?;
        text.push('\n');
        Ok(text)
    }
    /// Writes one JSON document and a newline to stdout; the name of its schema comes first in it.
    pub fn print_json(&self, schema: &str, document: &impl Serialize) -> Result<(), Error> {
        self.print(&self.json_text(schema, document)?)
    }
    /// Writes one JSON document to stderr, for a command whose stdout carries something else.
    pub fn print_json_aside(&self, schema: &str, document: &impl Serialize) {
        complain_json(schema, document);
    }
    /// One line on stderr, unless quiet.
    pub fn warn(&self, message: &str) {
        if self.chatter == Chatter::Quiet {
            return;
        }
        let message = &without_numbers(message);
        match self.form {
            Form::Text => complain(&format!("extant: {}: {message}", self.command)),
            Form::Json => {
                let warning = Warning { command: self.command, warning: message };
                complain_json("extant-warning/1", &warning);
            }
        }
    }
    /// A file that was left out and makes the exit code 1: also shown when quiet.
    pub fn skipped(&self, message: &str) {
        Console { chatter: Chatter::Normal, ..self.clone() }.warn(message);
    }
    /// What can be done about files that were left out, after the last of them.
    pub fn hint(&self, hint: &str) {
        if self.form == Form::Text {
            complain(&format!("  hint: {hint}"));
        }
    }
    /// What the code means that the command ends with, on stderr.
    pub fn explain_exit(&self, code: u8) {
        let means = &Convention::of(self.command).meaning(code);
        match self.form {
            Form::Text if self.command.is_empty() => {
                complain(&format!("extant: exit {code}: {means}"));
            }
            Form::Text => complain(&format!("extant: {}: exit {code}: {means}", self.command)),
            Form::Json => {
                let ended = Ended { command: self.command, exit: code, means };
                complain_json("extant-exit/1", &ended);
            }
        }
    }
    /// The failure that ends the command.
    pub fn fail(&self, error: &Error) {
        if error.exit == Exit::PipeClosed {
            return;
        }
        let message = &without_numbers(&error.message);
        match self.form {
            Form::Text => {
                let head = if self.command.is_empty() {
                    String::new()
                } else {
                    format!("{}: ", self.command)
                };
                let hint =
                    error.hint.iter().map(|hint| format!("\n  hint: {hint}")).collect::<String>();
                complain(&format!("extant: {head}{message}{hint}"));
            }
            Form::Json => complain_json(
                "extant-error/1",
                &Failure {
                    command: self.command,
                    error: message,
                    hint: error.hint.as_deref(),
                    exit: Convention::of(self.command).code(error.exit),
                },
            ),
        }
    }
}

/// A message without the numbers that the standard library appends to what the host says: the
/// words before each say the same.
fn without_numbers(message: &str) -> String {
    const HEAD: &str = " (os error ";
    let mut text = String::with_capacity(message.len());
    let mut rest = message;
    while let Some((before, after)) = rest.split_once(HEAD) {
        text.push_str(before);
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        rest = match after[digits..].strip_prefix(')') {
            Some(after) if digits > 0 => after,
            _ => {
                text.push_str(HEAD);
                after
            }
        };
    }
    text.push_str(rest);
    text
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

fn complain_json(schema: &str, line: &impl Serialize) {
    if let Ok(text) = with_schema(schema, line) {
        complain(&text);
    }
}

/// A document or a record, which is one JSON object, with the name of its schema as its first
/// member: by it a program knows what it reads, and what a later release may have added.
///
/// # Errors
/// It cannot be written as JSON, or is no object.
pub fn with_schema(schema: &str, document: &impl Serialize) -> Result<String, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::new(format!("JSON: {error}"));
    let text = serde_json::to_string(document).map_err(|error| failed(&error))?;
    let rest = text.strip_prefix('{').ok_or_else(|| failed(&"is no object"))?;
    let comma = if rest == "}" { "" } else { "," };
    Ok(format!("{{\"schema\":\"{schema}\"{comma}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_errors_are_left_out() {
        for (text, shown) in [
            ("x: No such file (os error 2)", "x: No such file"),
            ("x: a (os error 2): b (os error 17), c", "x: a: b, c"),
            ("x (os error ) (os error 2", "x (os error ) (os error 2"),
            ("", ""),
        ] {
            assert_eq!(without_numbers(text), shown);
        }
    }

    #[test]
    fn a_document_names_its_schema_first() {
        let document = serde_json::json!({"a": 1});
        assert_eq!(with_schema("x/1", &document).unwrap(), r#"{"schema":"x/1","a":1}"#);
        assert_eq!(with_schema("x/1", &serde_json::json!({})).unwrap(), r#"{"schema":"x/1"}"#);
        assert!(with_schema("x/1", &[1]).is_err());
    }
}
