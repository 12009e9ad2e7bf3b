//! How far the time for a fit has gone: the search asks before each candidate, says what it is at,
//! and ends with what it has when the time is over.
use std::cell::RefCell;

/// All of it is spent.
const ALL_PERMILLE: u64 = 1000;

/// What a search asks and tells.
pub trait Watching {
    /// Says how far the time has gone.
    fn tick(&self);
    /// Whether the time is over.
    fn is_over(&self) -> bool;
}

/// What is told of: what is being done, and the share of the time that has passed, in percent.
type Tell<'t> = dyn FnMut(&str, u64) + 't;

/// Who is asked and told.
pub struct Watch<'w> {
    /// Thousandths of the time that have passed.
    spent: &'w dyn Fn() -> u64,
    /// Gets what is being done, and the share of the time that has passed, in percent.
    told: RefCell<&'w mut Tell<'w>>,
    doing: RefCell<String>,
}

impl<'w> Watch<'w> {
    /// Nothing begun yet.
    pub fn new(spent: &'w dyn Fn() -> u64, told: &'w mut Tell<'w>) -> Watch<'w> {
        Watch { spent, told: RefCell::new(told), doing: RefCell::new(String::new()) }
    }

    /// Begins something, and says so.
    pub fn begin(&self, what: &str) {
        what.clone_into(&mut self.doing.borrow_mut());
        self.tick();
    }
}

impl Watching for Watch<'_> {
    fn tick(&self) {
        let percent = (self.spent)().min(ALL_PERMILLE) / 10;
        let mut told = self.told.borrow_mut();
        (*told)(&self.doing.borrow(), percent);
    }

    fn is_over(&self) -> bool {
        (self.spent)() >= ALL_PERMILLE
    }
}
