//! Exact fractions.
use std::cmp::Ordering;

/// A fraction of whole numbers, as small as it can be written.
///
/// *Invariants*: the lower number is above 0, and the two have no common divisor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ratio {
    upper: i128,
    lower: i128,
}

/// Which whole number stands for a fraction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// That below it.
    Down,
    /// That above it.
    Up,
}

fn divisor(one: u128, other: u128) -> u128 {
    let (mut one, mut other) = (one, other);
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one.max(1)
}

impl Ratio {
    /// `upper / lower`; `None` when `lower` is 0, or the two are too large.
    pub fn new(upper: i128, lower: i128) -> Option<Ratio> {
        if lower == 0 {
            return None;
        }
        let common = i128::try_from(divisor(upper.unsigned_abs(), lower.unsigned_abs())).ok()?;
        let (upper, lower) = (upper / common, lower / common);
        match lower < 0 {
            true => Some(Ratio { upper: upper.checked_neg()?, lower: lower.checked_neg()? }),
            false => Some(Ratio { upper, lower }),
        }
    }

    /// A whole number.
    pub fn whole(number: u64) -> Ratio {
        Ratio { upper: number.into(), lower: 1 }
    }

    /// So many nanoseconds, in seconds.
    pub fn seconds(nanoseconds: u64) -> Ratio {
        Ratio::new(nanoseconds.into(), 1_000_000_000).unwrap_or(Ratio { upper: 0, lower: 1 })
    }

    /// The sum; `None` when it is too large, as of the others.
    pub fn plus(self, other: Ratio) -> Option<Ratio> {
        let common = i128::try_from(divisor(self.lower as u128, other.lower as u128)).ok()?;
        let upper = self
            .upper
            .checked_mul(other.lower / common)?
            .checked_add(other.upper.checked_mul(self.lower / common)?)?;
        Ratio::new(upper, self.lower.checked_mul(other.lower / common)?)
    }

    /// The other sign.
    pub fn negative(self) -> Option<Ratio> {
        Some(Ratio { upper: self.upper.checked_neg()?, lower: self.lower })
    }

    /// The product.
    pub fn times(self, other: Ratio) -> Option<Ratio> {
        // Divided crosswise first, numbers stay small.
        let one = Ratio::new(self.upper, other.lower)?;
        let two = Ratio::new(other.upper, self.lower)?;
        Ratio::new(one.upper.checked_mul(two.upper)?, one.lower.checked_mul(two.lower)?)
    }

    /// The quotient; `None` when `other` is 0, too.
    pub fn over(self, other: Ratio) -> Option<Ratio> {
        self.times(Ratio::new(other.lower, other.upper)?)
    }

    /// Whether it is 0.
    pub fn is_zero(self) -> bool {
        self.upper == 0
    }

    /// Which is larger; two that cannot be compared without overflow are ordered by whole parts.
    pub fn order(&self, other: &Ratio) -> Ordering {
        let crosswise =
            self.upper.checked_mul(other.lower).zip(other.upper.checked_mul(self.lower));
        match crosswise {
            Some((one, two)) => one.cmp(&two),
            None => (self.upper / self.lower).cmp(&(other.upper / other.lower)),
        }
    }

    /// The largest whole number that is not above it.
    pub fn floor(self) -> Ratio {
        Ratio { upper: self.upper.div_euclid(self.lower), lower: 1 }
    }

    /// So many times it as a whole number, 0 of what is below 0; `None` when that is no 64-bit
    /// number.
    pub fn scaled(self, by: u64, rounding: Rounding) -> Option<u64> {
        let upper = self.upper.max(0).checked_mul(by.into())?;
        let added = match rounding {
            Rounding::Down => 0,
            Rounding::Up => self.lower - 1,
        };
        u64::try_from(upper.checked_add(added)? / self.lower).ok()
    }

    /// In millionths, rounded half away from 0; `None` when that is no 64-bit number.
    pub fn millionths(self) -> Option<i64> {
        let scaled = self.upper.checked_mul(1_000_000)?;
        let half = self.lower / 2;
        let rounded = match scaled < 0 {
            true => scaled.checked_sub(half)? / self.lower,
            false => scaled.checked_add(half)? / self.lower,
        };
        i64::try_from(rounded).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{Ratio, Rounding};

    fn ratio(upper: i128, lower: i128) -> Ratio {
        Ratio::new(upper, lower).unwrap()
    }

    #[test]
    fn fractions_are_exact() {
        assert_eq!(ratio(1, 3).plus(ratio(1, 6)), Some(ratio(1, 2)));
        assert_eq!(ratio(6, -4), ratio(-3, 2));
        assert_eq!(ratio(2, 3).times(ratio(9, 4)), Some(ratio(3, 2)));
        assert_eq!(ratio(2, 3).over(ratio(4, 3)), Some(ratio(1, 2)));
        assert_eq!(ratio(2, 3).over(ratio(0, 3)), None);
        assert_eq!(ratio(1, 3).millionths(), Some(333_333));
        assert_eq!(ratio(-2, 3).millionths(), Some(-666_667));
        assert_eq!(ratio(1, 2).order(&ratio(2, 3)), std::cmp::Ordering::Less);
    }

    #[test]
    fn whole_numbers_stand_for_fractions() {
        let all = [Rounding::Down, Rounding::Up];
        let scaled = |one: Ratio| all.map(|rounding| one.scaled(10, rounding));
        assert_eq!(scaled(ratio(1, 4)), [Some(2), Some(3)]);
        assert_eq!(scaled(ratio(7, 5)), [Some(14); 2]);
        assert_eq!(scaled(ratio(1, 3)), [Some(3), Some(4)]);
        assert_eq!(scaled(ratio(-1, 3)), [Some(0); 2]);
        assert_eq!((ratio(7, 2).floor(), ratio(-7, 2).floor()), (ratio(3, 1), ratio(-4, 1)));
    }

    #[test]
    fn what_is_too_large_is_none() {
        let most = ratio(i128::MAX, 1);
        assert_eq!(most.plus(most), None);
        assert_eq!(most.times(most), None);
        assert_eq!(ratio(1 << 100, 1).millionths(), None);
        assert_eq!(Ratio::new(i128::MIN, -1), None);
    }
}
