//! Floating proportions: the share of recent events that each member caused, in integers and
//! without a clock.
//!
//! A period has 2^n events. At each half period the count of every member is halved, lazily, so old
//! events weigh less and less. The shares sum to one, minus rounding and minus what the first
//! periods lack (per-device limits of 2007).

use extant_policy::throttle::Fraction;

/// Events of all members together.
#[derive(Debug)]
pub(super) struct Proportions {
    /// Half a period is 2^n events.
    half_shift: u32,
    events: u64,
}

/// Events of one member. A new one has none.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Tally {
    events: u64,
    /// Half periods that had passed when it was last updated.
    halves: u64,
}

impl Proportions {
    /// Half a period is the smallest power of two that is at least `half_events`, and at least two.
    pub(super) fn new(half_events: u64) -> Proportions {
        let half_shift = half_events.clamp(2, 1 << 48).next_power_of_two().ilog2();
        Proportions { half_shift, events: 0 }
    }

    /// Counts events of one member.
    pub(super) fn count(&mut self, part: &mut Tally, events: u64) {
        let half = 1 << self.half_shift;
        let mut left = events;
        while left > 0 {
            self.catch_up(part);
            // Split at half periods, so that the halving comes at the right event.
            let step = left.min(half - self.events % half);
            part.events += step;
            self.events += step;
            left -= step;
        }
    }

    /// The member's share now.
    pub(super) fn share(&self, part: &Tally) -> Fraction {
        let mut part = *part;
        self.catch_up(&mut part);
        let half = 1 << self.half_shift;
        Fraction { part: part.events, whole: half + self.events % half }
    }

    fn catch_up(&self, part: &mut Tally) {
        let halves = self.events >> self.half_shift;
        let missed = halves - part.halves;
        part.events = u32::try_from(missed)
            .ok()
            .and_then(|missed| part.events.checked_shr(missed))
            .unwrap_or(0);
        part.halves = halves;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(all: &Proportions, parts: &[Tally]) -> (u64, u64) {
        let shares: Vec<Fraction> = parts.iter().map(|part| all.share(part)).collect();
        (shares.iter().map(|share| share.part).sum(), shares[0].whole)
    }

    #[test]
    fn shares_sum_to_one_and_follow_what_happens() {
        let mut all = Proportions::new(1 << 16);
        let mut parts = [Tally::default(); 3];
        let mut number = 1u64;
        for round in 0..40_000u64 {
            number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let who = ((number >> 33) % 4).saturating_sub(1) as usize;
            all.count(&mut parts[who], 1 + (number >> 50) % 700);
            let (of_all, whole) = sum(&all, &parts);
            assert!(of_all <= whole, "{of_all} of {whole}");
            if round > 10_000 {
                // Each halving rounds away less than one event per member.
                assert!(of_all + 2 * 3 >= whole, "{of_all} of {whole}");
            }
        }
        let shares = parts.map(|part| all.share(&part).of(1000));
        assert!((300..700).contains(&shares[0]), "{shares:?}");
        // A member that does nothing more loses half at each half period.
        let before = all.share(&parts[1]).part;
        all.count(&mut parts[0], 4 << 16);
        let after = all.share(&parts[1]).part;
        assert!(after <= before / 8 && after > 0, "{before}, then {after}");
        all.count(&mut parts[0], u64::from(u32::MAX));
        assert_eq!(all.share(&parts[1]).part, 0);
        assert!(all.share(&parts[0]).of(1000) >= 998);
    }

    #[test]
    fn fractions_are_taken_without_overflow() {
        let most = Fraction { part: u64::MAX - 1, whole: u64::MAX };
        assert_eq!(most.of(u64::MAX), u64::MAX - 1);
        assert_eq!(Fraction::default().of(5), 0);
        assert_eq!(Fraction { part: 1, whole: 3 }.of(10), 3);
    }
}
