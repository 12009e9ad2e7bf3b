//! A part of a whole, in integers: the same on every machine.

/// A part of a whole. `part` is at most `whole`, and `whole` at least 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fraction {
    /// The numerator.
    pub part: u64,
    /// The denominator.
    pub whole: u64,
}

impl Fraction {
    /// Nothing.
    pub const ZERO: Fraction = Fraction { part: 0, whole: 1 };
    /// All.
    pub const ONE: Fraction = Fraction { part: 1, whole: 1 };

    /// This fraction of an amount, rounded down.
    pub fn of(self, amount: u64) -> u64 {
        (u128::from(amount) * u128::from(self.part.min(self.whole)) / u128::from(self.whole.max(1)))
            as u64
    }
}

impl Default for Fraction {
    fn default() -> Fraction {
        Fraction::ZERO
    }
}
