//! Writes that were answered before they are on the medium: what may be lost when the power fails.
//!
//! *Invariants*: `runs` do not touch or overlap; `oldest` of a run is not above any of its entries;
//! `used` is the sectors in `runs`, in `in_flight` and those that [`WriteBuffer::reserve`] set
//! aside; every entry of `log` belongs to one run or to `in_flight`, and what is left of it lies
//! within.
use crate::drive::Unflushed;
use std::collections::BTreeMap;

/// How many runs the choice of the next one looks at on each side of the arm.
const NEIGHBOURS: usize = 4;
/// The oldest run is taken in its turn, wherever it is: once in so many. A run that has n older
/// ones before it is on the medium after n + 1 of these turns, whatever comes meanwhile. (An age
/// in time would make a full cache, of which everything is old, drain in the order of arrival.)
const TURN_OF_OLDEST: u64 = 16;

/// What of a write is not on the medium.
struct Logged {
    /// The command that brought it.
    id: u64,
    first: u64,
    end: u64,
}

struct Run {
    end: u64,
    /// No write in it has a lower number.
    oldest: u64,
    /// Numbers of the writes in it.
    entries: Vec<u64>,
}

/// A run, or a piece of one, on its way to the medium.
#[derive(Debug)]
pub struct Piece {
    pub first: u64,
    pub end: u64,
    entries: Vec<u64>,
}

#[derive(Default)]
pub struct WriteBuffer {
    capacity: u64,
    /// At most this many runs, with the one in flight; 0: as many as fit.
    runs_max: usize,
    used: u64,
    runs: BTreeMap<u64, Run>,
    log: BTreeMap<u64, Logged>,
    next_entry: u64,
    in_flight: Option<(u64, u64)>,
    /// How many pieces were taken.
    taken: u64,
}

impl WriteBuffer {
    pub fn new(capacity: u64, runs_max: usize) -> WriteBuffer {
        WriteBuffer { capacity, runs_max, ..WriteBuffer::default() }
    }

    /// Whether a write from that sector on may come in: it continues a run, or there can be another
    /// one.
    pub fn admits(&self, first: u64) -> bool {
        let continues = || {
            let run = self.runs.range(..=first).next_back();
            run.is_some_and(|(_, run)| run.end >= first)
                || self.in_flight.is_some_and(|(start, end)| start <= first && first <= end)
        };
        let runs = self.runs.len() + usize::from(self.in_flight.is_some());
        self.runs_max == 0 || runs < self.runs_max || continues()
    }

    /// How many sectors it can hold.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Whether a run has one of these sectors.
    pub fn overlaps(&self, first: u64, end: u64) -> bool {
        let before = self.runs.range(..end).next_back();
        before.is_some_and(|(_, run)| run.end > first)
    }

    pub fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.used)
    }

    /// Whether there is something to bring to the medium.
    pub fn is_dirty(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Sets room aside for sectors that are on the bus.
    pub fn reserve(&mut self, sectors: u64) {
        self.used += sectors;
    }

    /// The sectors of a reservation have come, with that command. Returns the write's number:
    /// numbers rise in the order of arrival.
    pub fn add(&mut self, id: u64, first: u64, end: u64) -> u64 {
        self.used -= (end - first).min(self.used);
        let entry = self.next_entry;
        self.next_entry += 1;
        self.log.insert(entry, Logged { id, first, end });
        let (mut start, mut stop, mut oldest, mut entries) = (first, end, entry, Vec::new());
        while let Some((at, _)) =
            self.runs.range(..=stop).next_back().filter(|(_, run)| run.end >= start)
        {
            let at = *at;
            let Some(run) = self.runs.remove(&at) else { break };
            self.used -= run.end - at;
            (start, stop) = (start.min(at), stop.max(run.end));
            oldest = oldest.min(run.oldest);
            let (mut longer, shorter) = match run.entries.len() > entries.len() {
                true => (run.entries, entries),
                false => (entries, run.entries),
            };
            longer.extend(shorter);
            entries = longer;
        }
        entries.push(entry);
        self.used += stop - start;
        self.runs.insert(start, Run { end: stop, oldest, entries });
        entry
    }

    /// Whether one run, or the piece on its way, holds all of these.
    pub fn holds(&self, first: u64, end: u64) -> bool {
        let run = self.runs.range(..=first).next_back();
        run.is_some_and(|(_, run)| run.end >= end)
            || self.in_flight.is_some_and(|(from, to)| from <= first && end <= to)
    }

    /// The lowest number that is not on the medium yet.
    pub fn oldest(&self) -> Option<u64> {
        self.log.keys().next().copied()
    }

    /// The number that the next write gets.
    pub fn next_entry(&self) -> u64 {
        self.next_entry
    }

    /// The first sectors of the runs that are worth a look, of those that have a write below the
    /// number `below`: around `near`, where the arm is, and that at `next`, where its last piece
    /// ended (a long run goes on there, however many runs there are on the track). The oldest one
    /// alone when it is its turn.
    pub fn candidates(&self, near: u64, next: Option<u64>, below: u64, found: &mut Vec<u64>) {
        found.clear();
        if self.taken % TURN_OF_OLDEST < TURN_OF_OLDEST - 1 {
            let wanted = |(_, run): &(&u64, &Run)| run.oldest < below;
            let after = self.runs.range(near..).filter(wanted).take(NEIGHBOURS);
            found.extend(after.map(|(first, _)| *first));
            let before = self.runs.range(..near).rev().filter(wanted).take(NEIGHBOURS);
            found.extend(before.map(|(first, _)| *first));
            let goes_on = |first: &u64| self.runs.get(first).is_some_and(|run| run.oldest < below);
            found.extend(next.filter(goes_on));
        }
        if found.is_empty() {
            found.extend(self.run_of_oldest());
        }
    }

    /// The first sector of the run with the oldest write.
    pub fn run_of_oldest(&self) -> Option<u64> {
        self.log.values().find_map(|logged| {
            let (start, run) = self.runs.range(..=logged.first).next_back()?;
            (logged.first < run.end).then_some(*start)
        })
    }

    /// Takes the start of a run, at most this many sectors, to bring it to the medium.
    pub fn take(&mut self, start: u64, most: u64) -> Option<Piece> {
        let run = self.runs.remove(&start)?;
        self.taken += 1;
        let end = run.end.min(start + most.max(1));
        let touches = |entry: &u64, from: u64, to: u64| {
            self.log.get(entry).is_some_and(|logged| logged.first < to && from < logged.end)
        };
        let inside =
            run.entries.iter().filter(|entry| touches(entry, start, end)).copied().collect();
        if end < run.end {
            let entries: Vec<u64> =
                run.entries.iter().filter(|entry| touches(entry, end, run.end)).copied().collect();
            let oldest = entries.iter().min().copied().unwrap_or(run.oldest);
            self.runs.insert(end, Run { end: run.end, oldest, entries });
        }
        self.in_flight = Some((start, end));
        Some(Piece { first: start, end, entries: inside })
    }

    /// The piece is on the medium.
    pub fn written(&mut self, piece: &Piece) {
        self.in_flight = None;
        self.used -= (piece.end - piece.first).min(self.used);
        for entry in &piece.entries {
            let Some(logged) = self.log.get_mut(entry) else {
                continue;
            };
            // Pieces are taken from the start of a run: what is left of a write is its end.
            match logged.end <= piece.end {
                true => drop(self.log.remove(entry)),
                false => logged.first = logged.first.max(piece.end),
            }
        }
    }

    /// What is not on the medium, in the order of arrival, in bytes. Of the piece that is being
    /// written, the sectors before `passed` are there.
    pub fn unflushed(&self, piece: Option<(&Piece, u64)>, sector_bytes: u64) -> Vec<Unflushed> {
        let first_of = |entry: &u64, logged: &Logged| match piece {
            Some((piece, passed)) if piece.entries.contains(entry) => logged.first.max(passed),
            _ => logged.first,
        };
        let left = self.log.iter().map(|(entry, logged)| (first_of(entry, logged), logged));
        left.filter(|(first, logged)| *first < logged.end)
            .map(|(first, logged)| Unflushed {
                id: logged.id,
                offset: first * sector_bytes,
                bytes: (logged.end - first) * sector_bytes,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(buffer: &mut WriteBuffer, first: u64, end: u64) {
        buffer.reserve(end - first);
        buffer.add(first, first, end);
    }

    /// What is not on the medium: first sector and sectors.
    fn unflushed(buffer: &WriteBuffer) -> Vec<(u64, u64)> {
        buffer.unflushed(None, 1).iter().map(|left| (left.offset, left.bytes)).collect()
    }

    #[test]
    fn neighbours_become_one_run_and_keep_their_order() {
        let mut buffer = WriteBuffer::new(100, 0);
        add(&mut buffer, 20, 30);
        add(&mut buffer, 40, 50);
        add(&mut buffer, 28, 40);
        assert_eq!(unflushed(&buffer), [(20, 10), (40, 10), (28, 12)]);
        assert_eq!(buffer.room(), 70, "an overlap takes its room once");
        assert!(buffer.holds(20, 50) && !buffer.holds(20, 51));
        let piece = buffer.take(20, 100).expect("the run");
        assert_eq!((piece.first, piece.end), (20, 50));
        let half = buffer.unflushed(Some((&piece, 35)), 512);
        let half: Vec<_> = half.iter().map(|left| (left.id, left.offset, left.bytes)).collect();
        assert_eq!(half, [(40, 40 * 512, 10 * 512), (28, 35 * 512, 5 * 512)]);
        buffer.written(&piece);
        assert_eq!((buffer.room(), unflushed(&buffer)), (100, vec![]));
    }

    #[test]
    fn the_oldest_run_has_its_turn_and_a_flush_only_what_it_covers() {
        let mut buffer = WriteBuffer::new(10_000, 0);
        add(&mut buffer, 9000, 9001);
        (0..40).for_each(|number| add(&mut buffer, number * 10, number * 10 + 1));
        let mut found = Vec::new();
        buffer.candidates(100, None, 5, &mut found);
        assert_eq!(found, [9000, 30, 20, 10, 0], "the writes before the fifth");
        for piece in 1..=TURN_OF_OLDEST {
            buffer.candidates(100, Some(390), u64::MAX, &mut found);
            let is_turn = piece == TURN_OF_OLDEST;
            assert_eq!(found == [9000], is_turn, "{piece}: {found:?}");
            assert!(is_turn || found.contains(&390), "the run that goes on");
            let piece = buffer.take(found[0], 100).expect("a run");
            buffer.written(&piece);
        }
        assert_ne!(buffer.oldest(), Some(0));
    }

    #[test]
    fn a_write_that_comes_while_its_sectors_are_written_stays() {
        let mut buffer = WriteBuffer::new(100, 0);
        add(&mut buffer, 0, 40);
        let piece = buffer.take(0, 10).expect("its start");
        assert_eq!(buffer.room(), 60, "what is on its way still takes room");
        add(&mut buffer, 5, 8);
        buffer.written(&piece);
        assert_eq!(unflushed(&buffer), [(10, 30), (5, 3)]);
        assert_eq!(buffer.run_of_oldest(), Some(10));
        for start in [5, 10] {
            let piece = buffer.take(start, 100).expect("a run");
            buffer.written(&piece);
        }
        assert_eq!((buffer.room(), buffer.oldest()), (100, None));
    }
}
