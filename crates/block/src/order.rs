//! Which locks a thread holds, in debug builds: that it waits with no short lock held, and takes
//! locks in their order.
//!
//! *Invariants*: a thread's counts are of the guards that it holds; guards never move to another
//! thread. An order has its bit exactly while its count is not zero.
//! *Locking*: none; all of it belongs to one thread.
use std::cell::Cell;

/// The place of a lock in the order in which a thread may take several. A lock without a rank is
/// not judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rank {
    /// Locks are taken in rising order; 1 to 31.
    pub order: u8,
    /// Whether a thread may hold several locks of this rank, whose order among each other is a
    /// matter of its own.
    pub company: Company,
    /// What it is called when the order is broken.
    pub name: &'static str,
}

/// Whether a thread may hold several locks of one rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Company {
    /// One.
    One,
    /// Any number.
    Several,
}

impl Rank {
    /// A rank of which a thread holds one lock at a time.
    pub const fn one(order: u8, name: &'static str) -> Rank {
        Rank { order, company: Company::One, name }
    }

    /// A rank of which a thread may hold several.
    pub const fn several(order: u8, name: &'static str) -> Rank {
        Rank { order, company: Company::Several, name }
    }
}

/// As many as a word has bits.
const ORDERS: usize = u32::BITS as usize;

thread_local! {
    static SHORT_LOCKS_HELD: Cell<u32> = const { Cell::new(0) };
    /// How many locks of each order are held.
    static HELD: [Cell<u32>; ORDERS] = const { [const { Cell::new(0) }; ORDERS] };
    /// A bit for each order of which locks are held: to look at all the counts would take longer
    /// than to take a lock.
    static ORDERS_HELD: Cell<u32> = const { Cell::new(0) };
    /// What a lock of each order is called.
    static NAMES: [Cell<&'static str>; ORDERS] = const { [const { Cell::new("") }; ORDERS] };
}

/// One more short lock of this thread, as long as it lives. Counts in debug builds only.
pub(crate) struct CountedShort;

impl CountedShort {
    pub(crate) fn new() -> CountedShort {
        if cfg!(debug_assertions) {
            let _ = SHORT_LOCKS_HELD.try_with(|held| held.set(held.get() + 1));
        }
        CountedShort
    }
}

impl Drop for CountedShort {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            let _ = SHORT_LOCKS_HELD.try_with(|held| held.set(held.get() - 1));
        }
    }
}

/// The rank that a lock keeps, in debug builds. Elsewhere it takes no room: there are as many locks
/// as inodes and blocks in memory.
#[derive(Clone, Copy, Default)]
pub(crate) struct KeptRank {
    #[cfg(debug_assertions)]
    rank: Option<Rank>,
}

impl KeptRank {
    /// None: the lock is not judged.
    pub(crate) const NONE: KeptRank = KeptRank {
        #[cfg(debug_assertions)]
        rank: None,
    };

    /// This one.
    #[cfg_attr(not(debug_assertions), allow(unused_variables, reason = "it is not kept"))]
    pub(crate) const fn of(rank: Rank) -> KeptRank {
        KeptRank {
            #[cfg(debug_assertions)]
            rank: Some(rank),
        }
    }

    fn get(self) -> Option<Rank> {
        #[cfg(debug_assertions)]
        return self.rank;
        #[cfg(not(debug_assertions))]
        return None;
    }
}

/// One more lock of a rank that this thread holds, as long as it lives. Counts in debug builds
/// only.
pub(crate) struct RankCount(KeptRank);

impl RankCount {
    /// The thread is about to take a lock.
    ///
    /// # Panics
    /// In debug builds, when it holds one that comes later in the order, or another one of a rank
    /// that has no company.
    #[track_caller]
    pub(crate) fn new(rank: KeptRank) -> RankCount {
        if let Some(rank) = rank.get() {
            let at = usize::from(rank.order) % ORDERS;
            let earlier = match rank.company {
                Company::One => (1 << at) - 1,
                Company::Several => u32::MAX >> (ORDERS - 1 - at),
            };
            let later = ORDERS_HELD.try_with(Cell::get).unwrap_or(0) & !earlier;
            if later != 0 && !std::thread::panicking() {
                let name = NAMES.with(|names| names[later.trailing_zeros() as usize].get());
                panic!("{} is locked while {name} is, which comes later", rank.name);
            }
            let _ = HELD.try_with(|held| held[at].set(held[at].get() + 1));
            let _ = ORDERS_HELD.try_with(|held| held.set(held.get() | 1 << at));
            let _ = NAMES.try_with(|names| names[at].set(rank.name));
        }
        RankCount(rank)
    }
}

impl Drop for RankCount {
    fn drop(&mut self) {
        if let Some(rank) = self.0.get() {
            let at = usize::from(rank.order) % ORDERS;
            let left = HELD.try_with(|held| {
                held[at].set(held[at].get().saturating_sub(1));
                held[at].get()
            });
            if left == Ok(0) {
                let _ = ORDERS_HELD.try_with(|held| held.set(held.get() & !(1 << at)));
            }
        }
    }
}

/// A rank that this thread holds without a lock of this crate, as long as it lives: for what makes
/// threads wait in another way.
pub struct HeldRank {
    _count: RankCount,
}

impl HeldRank {
    /// The thread is about to hold it.
    ///
    /// # Panics
    /// In debug builds, when it holds a lock that comes later in the order.
    #[track_caller]
    pub fn new(rank: Rank) -> HeldRank {
        HeldRank { _count: RankCount::new(KeptRank::of(rank)) }
    }
}

/// Whether the calling thread holds a short lock; known in debug builds only.
pub(crate) fn holds_short_lock() -> bool {
    SHORT_LOCKS_HELD.try_with(Cell::get).unwrap_or(0) > 0
}

/// In debug builds panics when the calling thread holds a short lock; every `Clock::park` calls it.
/// A thread that is panicking already is left in peace.
#[track_caller]
pub fn assert_no_short_lock() {
    if cfg!(debug_assertions) && !std::thread::panicking() {
        let held = SHORT_LOCKS_HELD.try_with(Cell::get).unwrap_or(0);
        assert!(held == 0, "a thread that holds {held} short lock(s) is about to wait");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(order: u8, company: Company) -> RankCount {
        RankCount::new(KeptRank::of(Rank { order, company, name: "it" }))
    }

    /// Whether the thread may take such a lock beside what it holds.
    fn may_take(order: u8, company: Company) -> bool {
        std::panic::catch_unwind(|| drop(count(order, company))).is_ok()
    }

    #[test]
    fn locks_are_taken_in_rising_order_and_beside_their_like_only_in_company() {
        let orders = [1, 2, 16, 30, 31];
        for held in orders {
            let _held = count(held, Company::Several);
            for order in orders {
                assert_eq!(may_take(order, Company::One), order > held, "{order} after {held}");
                assert_eq!(may_take(order, Company::Several), order >= held, "{order}, {held}");
            }
        }
    }

    #[test]
    fn a_rank_is_held_until_the_last_of_its_locks_goes() {
        let (one, other) = (count(5, Company::Several), count(5, Company::Several));
        drop(one);
        assert!(!may_take(4, Company::One));
        drop(other);
        assert!(may_take(4, Company::One) && may_take(5, Company::One));
    }
}
