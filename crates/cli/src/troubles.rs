//! What a command that reads a tree could not read: told one by one, while it goes on with the
//! rest.
use crate::editing::failure;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::image::damage_hint;
use std::cell::Cell;
use std::path::Path;

/// The troubles of one command with one image.
pub struct Troubles<'a> {
    console: &'a Console,
    image: &'a Path,
    count: Cell<u64>,
}

impl<'a> Troubles<'a> {
    /// None so far.
    pub fn new(console: &'a Console, image: &'a Path) -> Troubles<'a> {
        Troubles { console, image, count: Cell::new(0) }
    }

    /// Tells one that the walk met.
    pub fn tell(&self, error: extant_edit::Error) {
        self.told(&failure::of(self.image, error));
    }

    /// Tells one in a line; after the first it is said what lists all.
    pub fn told(&self, error: &Error) {
        let hint = match self.count.get() {
            0 => format!("\n  hint: {}", damage_hint(self.image)),
            _ => String::new(),
        };
        self.count.set(self.count.get().saturating_add(1));
        match self.console.is_json() {
            true => self.console.skipped(&error.message),
            false => self.console.skipped(&format!("{}{hint}", error.message)),
        }
    }

    /// How the command ends.
    pub fn exit(&self) -> Exit {
        match self.count.get() {
            0 => Exit::Complete,
            _ => Exit::Incomplete,
        }
    }
}
