//! What a command that reads a tree could not read: told one by one, while it goes on with the
//! rest.
use extant_archive::printable;
use extant_host::change_failure;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::image::damage_hint;
use extant_image::export::{Blame, LeftOut, Omission};
use extant_image::source::OnTrouble;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
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
        self.told(&change_failure::of(self.image, error));
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

/// What `tar` and `extract` do about what cannot be read or made.
pub struct LeaveOut<'a> {
    console: &'a Console,
    image: &'a Path,
    on_trouble: OnTrouble,
    /// The paths that were left out.
    pub left_out: Vec<String>,
    /// Whether the image was to blame for one.
    pub is_damaged: bool,
}

impl<'a> LeaveOut<'a> {
    /// Nothing so far.
    pub fn new(console: &'a Console, image: &'a Path, on_trouble: OnTrouble) -> LeaveOut<'a> {
        LeaveOut { console, image, on_trouble, left_out: Vec::new(), is_damaged: false }
    }

    /// Goes through what is known before anything is written. Gives the sockets, each of which is
    /// named as `of_socket` has it.
    ///
    /// # Errors
    /// What cannot be read, unless that is left out.
    pub fn sort(
        &mut self,
        omissions: Vec<Omission>,
        of_socket: &dyn Fn(&LeftOut) -> String,
    ) -> Result<Vec<String>, Error> {
        let mut sockets = Vec::new();
        for omission in omissions {
            match omission {
                Omission::Socket(left_out) => {
                    self.console.warn(&of_socket(&left_out));
                    sockets.push(left_out.path);
                }
                Omission::Damaged(left_out) => {
                    let message = self.message(&left_out);
                    if self.leave_out(left_out).is_break() {
                        let hint = "--keep-going leaves it out and goes on";
                        return Err(Error::new(message).hint(hint));
                    }
                }
            }
        }
        Ok(sockets)
    }

    /// Names what is left out, or ends the command for it.
    pub fn leave_out(&mut self, left_out: LeftOut) -> ControlFlow<()> {
        if self.on_trouble == OnTrouble::Stop {
            return ControlFlow::Break(());
        }
        self.console.skipped(&self.message(&left_out));
        self.is_damaged |= left_out.blame == Blame::Image;
        self.left_out.push(left_out.path);
        ControlFlow::Continue(())
    }

    fn message(&self, left_out: &LeftOut) -> String {
        format!("{}: {left_out}", printable(self.image.as_os_str().as_bytes()))
    }
}
