//! Windows ahead of walks over a device that is far away: a state machine without I/O, lock or
//! clock.
//!
//! A window is read in pieces, side by side, and the next pieces are asked for when half of it was
//! read, so that the device is never idle. How long it may be is learned (`pace`); how long it is
//! depends on how much of it the walk uses. Where a request is dear, a read that is near no other
//! comes with the whole piece that it is in, as long as such pieces are read again.
//!
//! ```text
//!         start            reached                      end
//!   walk    |--read---------->|------ahead, in pieces---->|
//!                             |<-------- window --------->|   half of it read: the next pieces
//! ```
use super::Limits;
use super::pace::Worth;
use crate::device::Request;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// How many walks are tracked at a time.
const WALKS_MAX: usize = 16;
/// How many stretches that were read are known.
const READ_MAX: usize = 64;
/// A read at most this many bytes after a walk, or before it, still belongs to it.
const NEAR_BYTES: u64 = 256 << 10;
/// Windows have at least this many bytes.
const FIRST_BYTES: u64 = 64 << 10;
/// The first window of a walk, as a part of what the device can have under way: two reads may be
/// near each other by chance.
const FIRST_SHARE: u64 = 8;
/// A window is this many times as long as the one before while the walk uses what it gets.
const GROWTH: u64 = 4;
/// Where a request is dear a read that is near no other gets a whole piece around it, as long as
/// one piece in this many is read again, ..
const LONE_SHARE: u32 = 4;
/// .. of at most twice as many that came last; and one in so many does all the same.
const LONE_KNOWN: u32 = 32;
/// Length of a piece of a long window at least and at most, in bytes, and how many it has; a short
/// window has four.
const PIECE_BYTES_MIN: u64 = 256 << 10;
const PIECE_BYTES_MAX: u64 = 4 << 20;
const PIECES: u64 = 64;

/// All walks over a device.
pub(super) struct Walks {
    /// The one used last is at the back.
    walks: Vec<Walk>,
    /// Reads of what is coming.
    waiting: Vec<Request>,
    /// Writes under way.
    writes: Vec<Range<u64>>,
    /// What was read lately, small gaps included; the stretch read last is at the back.
    read: VecDeque<Range<u64>>,
    /// Bytes of all pieces, at most `memory_bytes`.
    held_bytes: u64,
    memory_bytes: u64,
    device_bytes: u64,
    number_next: u64,
    /// Reads so far.
    reads: u64,
    /// Windows that are used may have this many bytes, whatever the device is worth.
    window_bytes_min: u64,
    /// Pieces have at least this many bytes, where their window has.
    piece_bytes_min: u64,
    lone: Lone,
}

/// How pieces around reads that were near no other did.
#[derive(Default)]
pub(super) struct Lone {
    /// Reads that were near no other.
    met: u32,
    /// Those that got a piece, and those of them whose piece was read again.
    asked: u32,
    pub(super) used: u32,
}

impl Lone {
    /// Notes one more such read. Returns whether a piece around it is worth its bytes.
    pub(super) fn meet(&mut self) -> bool {
        self.met = self.met.wrapping_add(1);
        let is_used = self.asked <= LONE_KNOWN || self.used >= self.asked / LONE_SHARE;
        if !is_used && !self.met.is_multiple_of(LONE_KNOWN) {
            return false;
        }
        self.asked += 1;
        if self.asked > 2 * LONE_KNOWN {
            (self.asked, self.used) = (self.asked / 2, self.used / 2);
        }
        true
    }
}

/// Reads that follow each other.
#[derive(Default)]
struct Walk {
    /// Where it began.
    start: u64,
    /// The end of its furthest read.
    reached: u64,
    /// By place; they do not overlap.
    pieces: VecDeque<Piece>,
    /// How far ahead it is read; 0 for not at all.
    window: u64,
    /// How far it had come, and what it had read of its pieces, when it was read ahead last.
    reached_before: u64,
    used_bytes: u64,
    /// Whether it has waited for a piece since then, and the device's rate then.
    waited: bool,
    rate_before: u64,
}

/// A stretch of the device that was read ahead.
struct Piece {
    number: u64,
    place: Range<u64>,
    /// `None` while it is being read.
    bytes: Option<Arc<Vec<u8>>>,
    /// Bytes that were not read yet.
    left: u64,
    /// How many reads there had been when it was used last, or asked for.
    used_at: u64,
    /// It was asked for with a read that is near no other, and not read again yet.
    is_lone: bool,
}

/// Bytes of the device from `start` on.
pub(super) struct Held {
    pub(super) start: u64,
    pub(super) bytes: Arc<Vec<u8>>,
}

/// Where the bytes of a read are.
pub(super) enum Whereabouts {
    /// In memory: by place, without gaps.
    Here(Vec<Held>),
    /// All are in memory or on their way.
    Coming,
    /// On the device only.
    Device,
}

/// A stretch to be read ahead.
#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) number: u64,
    pub(super) place: Range<u64>,
}

/// What became of reads that waited.
#[derive(Default)]
pub(super) struct Released {
    /// Their bytes are here.
    pub(super) answered: Vec<(Request, Vec<Held>)>,
    /// They have to be read from the device.
    pub(super) passed_on: Vec<Request>,
}

impl Walks {
    /// Bytes of all pieces.
    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// None yet, over a device of that size.
    pub(super) fn new(limits: &Limits, device_bytes: u64) -> Walks {
        Walks {
            walks: Vec::new(),
            waiting: Vec::new(),
            writes: Vec::new(),
            read: VecDeque::new(),
            held_bytes: 0,
            memory_bytes: limits.memory_bytes,
            device_bytes,
            number_next: 0,
            reads: 0,
            window_bytes_min: limits.stretch_bytes_max,
            piece_bytes_min: 0,
            lone: Lone::default(),
        }
    }

    /// Notes a read. Returns where its bytes are, and what to read ahead of it, in rising order.
    pub(super) fn read(
        &mut self,
        place: &Range<u64>,
        worth: &Worth,
    ) -> (Whereabouts, Vec<Stretch>) {
        self.reads += 1;
        self.piece_bytes_min = worth.piece_bytes;
        self.note(place);
        if let Some(at) = self.walks.iter().rposition(|walk| walk.covers(place)) {
            let reads = self.reads;
            let walk = self.touch(at);
            let is_used = walk.takes_lone(place);
            let found = walk.use_pieces(place, reads);
            self.lone.used += u32::from(is_used);
            self.drop_used(place.start);
            return (found, self.go_on(worth));
        }
        let found = Whereabouts::Device;
        if place.is_empty() {
            return (found, Vec::new());
        }
        let walk = self.walks.iter().rposition(|walk| walk.is_near(place));
        let Some(at) = walk else {
            self.begin(place);
            return self.around(place);
        };
        let walk = self.touch(at);
        walk.start = walk.start.min(place.start);
        let was_ahead = place.end < walk.end();
        walk.reached = walk.reached.max(place.end);
        if was_ahead {
            // It is in a hole: what it jumped over, or what was forgotten.
            let until = place.end.saturating_add(walk.window.max(FIRST_BYTES));
            return (found, self.add(place.end..aligned(until)));
        }
        (found, self.go_on(worth))
    }

    /// Where a request is dear, the whole pieces that a read is in, which has begun the walk used
    /// last: they come as one with it.
    fn around(&mut self, place: &Range<u64>) -> (Whereabouts, Vec<Stretch>) {
        let unit = self.piece_bytes_min;
        let length = place.end - place.start;
        if unit == 0 || length >= unit || !self.lone.meet() {
            return (Whereabouts::Device, Vec::new());
        }
        let pieces = self.walks.iter().flat_map(|walk| &walk.pieces).map(|piece| &piece.place);
        let before = pieces.chain(&self.writes).chain(&self.read);
        let taken = before.map(|taken| taken.end).filter(|end| *end <= place.start).max();
        let start = (place.start - place.start % unit).max(taken.unwrap_or(0));
        let stretches = self.add(start..place.end.next_multiple_of(unit));
        let reads = self.reads;
        let Some(walk) = self.walks.last_mut().filter(|walk| walk.covers(place)) else {
            return (Whereabouts::Device, stretches);
        };
        let found = walk.use_pieces(place, reads);
        walk.pieces.iter_mut().for_each(|piece| piece.is_lone = true);
        (found, stretches)
    }

    /// The bytes of a place, if all are here.
    pub(super) fn held(&self, place: &Range<u64>) -> Option<Vec<Held>> {
        self.walks.iter().rfind(|walk| walk.covers(place))?.held(place)
    }

    /// Adds a read to what was read.
    fn note(&mut self, place: &Range<u64>) {
        let near = |read: &Range<u64>| {
            read.start <= place.start && place.start <= read.end.saturating_add(NEAR_BYTES)
        };
        let Some(at) = self.read.iter().rposition(near) else {
            if self.read.len() >= READ_MAX {
                self.read.pop_front();
            }
            self.read.push_back(place.clone());
            return;
        };
        let Some(mut read) = self.read.remove(at) else { return };
        read.end = read.end.max(place.end);
        // It has come to where another one began.
        while let Some(next) =
            self.read.iter().position(|next| read.start <= next.start && next.start <= read.end)
        {
            let next = self.read.remove(next);
            read.end = read.end.max(next.map_or(0, |next| next.end));
        }
        self.read.push_back(read);
    }

    /// Keeps a read that waits for what is coming.
    pub(super) fn wait(&mut self, request: Request) {
        self.waiting.push(request);
    }

    /// What to read ahead of the walk used last, if it has used half of its window.
    fn go_on(&mut self, worth: &Worth) -> Vec<Stretch> {
        let most = (self.memory_bytes / 2).max(self.window_bytes_min);
        let limit = worth.window_bytes.clamp(self.window_bytes_min, most);
        let Some(walk) = self.walks.last_mut() else { return Vec::new() };
        let end = walk.end();
        let ahead = end - walk.reached;
        if ahead > walk.window / 2 {
            return Vec::new();
        }
        // A device that gives more when more is asked for has not shown its rate yet.
        let rate = worth.bytes_per_s;
        let shows_more = walk.waited && rate > walk.rate_before + walk.rate_before / 4;
        let advance = walk.reached.saturating_sub(walk.reached_before);
        walk.window = match (walk.window, walk.used_bytes) {
            (0, _) => (limit / FIRST_SHARE).max(FIRST_BYTES),
            (window, 0) if window / 2 < FIRST_BYTES => 0,
            (window, 0) => window / 2,
            (window, used) if used >= advance / 2 => {
                let most = if shows_more { most } else { limit.max(window / 2) };
                (window * GROWTH).min(most)
            }
            (window, used) if used >= advance / 8 => window.max((window * 2).min(limit / 4)),
            (window, _) => (window / 2).max(FIRST_BYTES),
        };
        (walk.reached_before, walk.used_bytes) = (walk.reached, 0);
        (walk.rate_before, walk.waited) = (rate, false);
        let until = walk.reached.saturating_add(walk.window);
        self.add(end..aligned(until))
    }

    /// Adds pieces to the walk used last, up to the first byte that is in memory or being written.
    fn add(&mut self, mut wanted: Range<u64>) -> Vec<Stretch> {
        let pieces = self.walks.iter().flat_map(|walk| &walk.pieces).map(|piece| &piece.place);
        for taken in pieces.chain(&self.writes).filter(|taken| taken.end > wanted.start) {
            wanted.end = wanted.end.min(taken.start);
        }
        // What was read is in its reader's memory, from its first byte on: a walk that has come to
        // where another one began has nothing to read there.
        let long = |read: &&Range<u64>| read.end - read.start >= NEAR_BYTES;
        for read in self.read.iter().filter(long).filter(|read| read.start >= wanted.start) {
            wanted.end = wanted.end.min(read.start);
        }
        wanted.end = wanted.end.min(self.device_bytes);
        let window = self.walks.last().map_or(0, |walk| walk.window);
        let least = (window / 4).next_power_of_two().clamp(FIRST_BYTES, PIECE_BYTES_MIN);
        let unit = (window / PIECES).next_power_of_two().clamp(least, PIECE_BYTES_MAX);
        let unit = unit.max(self.piece_bytes_min);
        let mut stretches = Vec::new();
        while wanted.start < wanted.end {
            let end = (wanted.start / unit).saturating_add(1).saturating_mul(unit).min(wanted.end);
            let piece = wanted.start..end;
            if !self.make_room(end - wanted.start, wanted.start) {
                break;
            }
            let Some(walk) = self.walks.last_mut() else { break };
            let (number, length) = (self.number_next, end - wanted.start);
            self.number_next += 1;
            self.held_bytes += length;
            let at = walk.pieces.partition_point(|other| other.place.start < piece.start);
            let (place, used_at) = (piece.clone(), self.reads);
            walk.pieces.insert(
                at,
                Piece { number, place, bytes: None, left: length, used_at, is_lone: false },
            );
            stretches.push(Stretch { number, place: piece });
            wanted.start = end;
        }
        stretches
    }

    /// Forgets pieces until this many bytes fit: those that walks have passed, first what was not
    /// used for longest, then the furthest ones of the walk that holds most, of the walk used last
    /// only what is after `from`. Returns whether they fit.
    fn make_room(&mut self, bytes: u64, from: u64) -> bool {
        let last = self.walks.len().saturating_sub(1);
        while self.held_bytes.saturating_add(bytes) > self.memory_bytes {
            let holds = |(number, walk): (usize, &Walk)| (walk.held_bytes(), number);
            let most = self.walks.iter().enumerate().map(holds).max().map(|(_, walk)| walk);
            let furthest = || {
                let walk = most?;
                let pieces = &self.walks[walk].pieces;
                let at = pieces.iter().rposition(|piece| {
                    piece.bytes.is_some() && (walk != last || piece.place.start > from)
                })?;
                Some((walk, at))
            };
            let Some((walk, at)) = self.passed_longest().or_else(furthest) else { return false };
            let forgotten = self.walks[walk].pieces.remove(at);
            self.held_bytes -= forgotten.map_or(0, |piece| piece.length());
        }
        true
    }

    /// The walk and the number in it of the piece that a walk has passed and that was not used for
    /// longest.
    fn passed_longest(&self) -> Option<(usize, usize)> {
        let passed = self.walks.iter().enumerate().flat_map(|(number, walk)| {
            let passed = |piece: &Piece| piece.bytes.is_some() && piece.place.end <= walk.reached;
            let pieces = walk.pieces.iter().enumerate().filter(move |(_, piece)| passed(piece));
            pieces.map(move |(at, piece)| (piece.used_at, number, at))
        });
        passed.min().map(|(_, number, at)| (number, at))
    }

    /// Forgets the pieces of the walk used last, up to this byte, of which everything was read.
    /// Those between them that it jumped over stay, and those that a read waits for with others.
    fn drop_used(&mut self, before: u64) {
        let Some(walk) = self.walks.last_mut() else { return };
        let waiting: Vec<Range<u64>> = self.waiting.iter().map(Request::place).collect();
        let is_wanted = |place: &Range<u64>| waiting.iter().any(|wanted| overlap(wanted, place));
        let mut forgotten = 0;
        walk.pieces.retain(|piece| {
            let is_read = piece.place.end <= before && piece.left == 0 && piece.bytes.is_some();
            let is_used = is_read && !is_wanted(&piece.place);
            forgotten += if is_used { piece.length() } else { 0 };
            !is_used
        });
        self.held_bytes -= forgotten;
    }

    /// A read that is near no other.
    fn begin(&mut self, place: &Range<u64>) {
        if self.walks.len() >= WALKS_MAX {
            let idle = |walk: &Walk| walk.pieces.iter().all(|piece| piece.bytes.is_some());
            if let Some(oldest) = self.walks.iter().position(idle) {
                self.held_bytes -= self.walks.remove(oldest).held_bytes();
            }
        }
        let (start, reached) = (place.start, place.end);
        self.walks.push(Walk { start, reached, reached_before: reached, ..Walk::default() });
    }

    /// Makes a walk the one used last.
    fn touch(&mut self, at: usize) -> &mut Walk {
        let last = self.walks.len() - 1;
        self.walks[at..].rotate_left(1);
        &mut self.walks[last]
    }

    /// A piece has come, or has failed. Returns the reads that waited for it.
    pub(super) fn land(&mut self, number: u64, bytes: Option<Arc<Vec<u8>>>) -> Released {
        for walk in &mut self.walks {
            let at = walk.pieces.iter().position(|piece| piece.number == number);
            let Some(at) = at else { continue };
            match bytes {
                Some(bytes) => walk.pieces[at].bytes = Some(bytes),
                None => {
                    let failed = walk.pieces.remove(at);
                    self.held_bytes -= failed.as_ref().map_or(0, Piece::length);
                }
            }
            return self.release();
        }
        Released::default()
    }

    /// Takes out the reads that wait for nothing that is coming.
    fn release(&mut self) -> Released {
        let mut released = Released::default();
        for request in std::mem::take(&mut self.waiting) {
            let place = request.place();
            match self.walks.iter().rfind(|walk| walk.covers(&place)).map(|walk| walk.held(&place))
            {
                None => released.passed_on.push(request),
                Some(None) => self.waiting.push(request),
                Some(Some(held)) => released.answered.push((request, held)),
            }
        }
        released
    }

    /// A write begins: what it touches is forgotten. Returns the reads that waited for such bytes;
    /// they began before the write, and may get either.
    pub(super) fn begin_write(&mut self, place: &Range<u64>) -> Released {
        self.writes.push(place.clone());
        let mut forgotten = 0;
        for walk in &mut self.walks {
            walk.pieces.retain(|piece| {
                let touched = overlap(&piece.place, place);
                forgotten += if touched { piece.length() } else { 0 };
                !touched
            });
        }
        self.held_bytes -= forgotten;
        if forgotten > 0 { self.release() } else { Released::default() }
    }

    /// Asserts what always holds.
    #[cfg(test)]
    pub(super) fn check(&self, memory_bytes: u64) {
        assert_eq!(self.held_bytes, self.walks.iter().map(Walk::held_bytes).sum::<u64>());
        assert!(self.held_bytes <= memory_bytes);
        let mut places: Vec<_> = self.walks.iter().flat_map(|walk| &walk.pieces).collect();
        places.sort_by_key(|piece| piece.place.start);
        for pair in places.windows(2) {
            assert!(pair[0].place.end <= pair[1].place.start, "pieces overlap");
        }
        let by_place = |walk: &Walk| walk.pieces.iter().is_sorted_by_key(|piece| piece.place.start);
        assert!(self.walks.iter().all(by_place));
    }

    /// A write has ended.
    pub(super) fn end_write(&mut self, place: &Range<u64>) {
        if let Some(at) = self.writes.iter().position(|write| write == place) {
            self.writes.swap_remove(at);
        }
    }
}

impl Walk {
    /// The end of what was read of it or ahead of it.
    fn end(&self) -> u64 {
        self.pieces.back().map_or(0, |piece| piece.place.end).max(self.reached)
    }

    /// The first of the pieces that hold a place, if they do.
    fn first_of(&self, place: &Range<u64>) -> Option<usize> {
        let first = self.pieces.partition_point(|piece| piece.place.end <= place.start);
        let mut at = place.start;
        for piece in self.pieces.range(first..) {
            if piece.place.start > at {
                return None;
            }
            at = piece.place.end;
            if at >= place.end {
                return Some(first);
            }
        }
        None
    }

    fn held_bytes(&self) -> u64 {
        self.pieces.iter().map(Piece::length).sum()
    }

    fn covers(&self, place: &Range<u64>) -> bool {
        place.start < place.end && self.first_of(place).is_some()
    }

    /// The bytes of a place, if all are here.
    fn held(&self, place: &Range<u64>) -> Option<Vec<Held>> {
        let first = self.first_of(place)?;
        let pieces = self.pieces.range(first..).take_while(|piece| piece.place.start < place.end);
        pieces
            .map(|piece| {
                let bytes = Arc::clone(piece.bytes.as_ref()?);
                Some(Held { start: piece.place.start, bytes })
            })
            .collect()
    }

    /// Whether a read is in a piece that was asked for with another one, for the first time.
    fn takes_lone(&mut self, place: &Range<u64>) -> bool {
        let first = self.pieces.partition_point(|piece| piece.place.end <= place.start);
        let piece = self.pieces.get_mut(first);
        piece.is_some_and(|piece| std::mem::take(&mut piece.is_lone))
    }

    /// Notes a read of what the pieces hold.
    fn use_pieces(&mut self, place: &Range<u64>, reads: u64) -> Whereabouts {
        let found = self.held(place).map_or(Whereabouts::Coming, Whereabouts::Here);
        let first = self.pieces.partition_point(|piece| piece.place.end <= place.start);
        for piece in self.pieces.range_mut(first..) {
            if piece.place.start >= place.end {
                break;
            }
            let part = piece.place.end.min(place.end) - piece.place.start.max(place.start);
            piece.left = piece.left.saturating_sub(part);
            piece.used_at = reads;
        }
        self.reached = self.reached.max(place.end);
        self.used_bytes += place.end - place.start;
        self.waited |= matches!(found, Whereabouts::Coming);
        found
    }

    /// Whether a read of this place belongs to the walk: names in the order of a hash jump back and
    /// forth.
    fn is_near(&self, place: &Range<u64>) -> bool {
        let held = self.pieces.front().map_or(self.reached, |piece| piece.place.start);
        let start = self.start.max(held.min(self.reached.saturating_sub(NEAR_BYTES)));
        place.end.saturating_add(NEAR_BYTES) >= start
            && place.start <= self.end().saturating_add(NEAR_BYTES)
    }
}

impl Piece {
    fn length(&self) -> u64 {
        self.place.end - self.place.start
    }
}

/// A window ends at a whole unit: a drive that reads on loses a turn at a boundary within a sector.
fn aligned(end: u64) -> u64 {
    end.checked_next_multiple_of(FIRST_BYTES).unwrap_or(u64::MAX)
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}
