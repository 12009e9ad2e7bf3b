//! What the command line has to say of the words of jobs, and how they are run.
use crate::command::{code_within, lab, table};
use extant_sweep::vocabulary::{Sense, Takes, Vocabulary};
use extant_sweep::worker::Commands;
use std::cell::RefCell;

/// The table of commands, built once.
pub struct Table(RefCell<clap::Command>);

impl Table {
    /// That of this program.
    pub fn new() -> Table {
        let mut table = table();
        table.build();
        Table(RefCell::new(table))
    }
}

impl Vocabulary for Table {
    fn takes(&self, command: &[&str], option: &str) -> Takes {
        let table = self.0.borrow();
        let mut found = &*table;
        for word in command {
            match found.find_subcommand(word) {
                Some(inner) => found = inner,
                None => return Takes::Unknown,
            }
        }
        let is_named = |argument: &&clap::Arg| {
            let long = argument.get_long_and_visible_aliases().unwrap_or_default();
            let short = argument.get_short().map(String::from);
            long.contains(&option) || short.as_deref() == Some(option)
        };
        match found.get_arguments().find(is_named) {
            None => Takes::Unknown,
            Some(argument) if argument.get_action().takes_values() => Takes::Value,
            Some(_) => Takes::Nothing,
        }
    }

    fn check_words(&self, words: &[String]) -> Result<(), String> {
        let words = ["extant"].into_iter().chain(words.iter().map(String::as_str));
        let parsed = self.0.borrow_mut().try_get_matches_from_mut(words);
        parsed.map(drop).map_err(|refusal| {
            let text = refusal.render().to_string();
            crate::command::one_line(text.trim_start_matches("error: "))
        })
    }

    fn check_name(&self, sense: Sense, word: &str) -> Result<(), String> {
        let checked = match sense {
            Sense::Drive => lab::failure::drive(word).map(drop),
            Sense::Scenario => lab::failure::scenario(word).map(drop),
            Sense::Policies => lab::failure::setup(word).map(drop),
            _ => Ok(()),
        };
        checked.map_err(|error| error.message)
    }
}

/// The commands of this program, run in this process.
pub struct Own;

impl Commands for Own {
    fn run(&self, words: &[String]) -> u8 {
        code_within(words)
    }
}
