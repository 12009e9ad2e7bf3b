//! Mistakes made on purpose: each is found by the share of the cuts that every commit runs. A
//! program of its own, because a mistake of the engine is made in the whole process.
//!
//! Mistakes in the order or the bytes of what the device was asked for are made in the log of it:
//! the engine is right, and the log says what it would have asked for if it were not.

use extant_crash::campaign::{Journal, Plan, Progress, processes};
use extant_crash::examine::Judges;
use extant_crash::random::Pace;
use extant_crash::verdict::Bytes;
use extant_engine::seeded::{Bug, plant};
use extant_format::BlockNo;
use extant_format::journal::{
    BlockKind, Header, JournalSuperblock, LogFormat, Sequence, descriptor, revoke,
};
use extant_sim::crash_log::{Event, LoggedWrite};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// States at most until a mistake is found: as many as `promises` examines.
const STATES: u64 = 3000;

/// Who makes a mistake.
#[derive(Clone, Copy)]
enum Maker {
    /// The engine.
    Engine(Bug),
    /// Who asks the device.
    Asking(fn(&mut Asked<'_>)),
}
use Maker::{Asking, Engine};

const MISTAKES: [(&str, Maker); 10] = [
    ("the commit block without a flush before it", Asking(no_flush_before_commit)),
    ("the commit block before the blocks of its transaction", Asking(commit_before_log)),
    ("the log's tail moves before what was checkpointed", Asking(tail_before_checkpoint)),
    ("no revoke record", Asking(revoke_missing)),
    ("a freed block given again before its freeing commits", Engine(Bug::FreedBlockGivenEarly)),
    ("the superblock in place around the log", Engine(Bug::SuperblockAroundLog)),
    ("a checkpoint of what is not committed", Asking(checkpoint_of_uncommitted)),
    ("data that a commit does not wait for", Asking(data_not_waited_for)),
    ("an orphan that is not linked", Engine(Bug::OrphanNotLinked)),
    ("a descriptor that is sealed early", Asking(descriptor_sealed_early)),
];

/// What shows one of them: what processes do, from a seed on.
fn plan(words: &str) -> Plan {
    let pace = match words.contains("checkpoint") || words.contains("revoke") {
        true => Pace::Busy,
        false => Pace::Mixed,
    };
    // Before a volume is closed, a checkpoint comes only where the log is nearly full, and only the
    // moments between it and the next commit show this one: long histories, cut often.
    let (steps, states_each) = match words {
        "a checkpoint of what is not committed" => ([400, 400], 500),
        _ => ([12, 80], 60),
    };
    Plan {
        seed: 1,
        steps,
        enough: 1,
        states: STATES,
        states_each,
        pace,
        journal: Journal::Ordered,
        judges: Judges { e2fsck_one_in: 0, second_cut_one_in: 8, bytes: Bytes::Own },
    }
}

#[test]
fn each_mistake_is_found() {
    let mut unseen = Vec::new();
    for (words, maker) in MISTAKES {
        let mut first = None;
        // Made while processes live, not by the recovery that is to show it.
        let report = processes(&plan(words), |progress| match (progress, maker) {
            (Progress::Begins, Engine(bug)) => plant(Some(bug)),
            (Progress::Lived(_), Engine(_)) => plant(None),
            (Progress::Lived(Some(log)), Asking(mistake)) => {
                log.change(|writes, events| mistake(&mut Asked::new(writes, events)));
            }
            (Progress::Examined(report), _) if report.wrong_states() > 0 => {
                first.get_or_insert(report.states());
            }
            _ => {}
        });
        let report = report.expect("volumes are made");
        println!("{words}: {first:?} of {} states", report.states());
        match report.wrong.first() {
            Some(wrong) => {
                println!("  {}: {}", wrong.place, wrong.reason.lines().next().unwrap_or_default());
            }
            None => unseen.push(words),
        }
    }
    assert!(unseen.is_empty(), "{unseen:?} are not found");
}

/// What a device was asked for.
struct Asked<'a> {
    writes: &'a mut [LoggedWrite],
    events: &'a mut [Event],
    format: LogFormat,
    /// The journal, in bytes of the device: it is in one piece.
    log: Range<u64>,
    transactions: Vec<Transaction>,
}

/// A transaction, by numbers of writes.
struct Transaction {
    /// Its blocks in the log, in order.
    log: Vec<usize>,
    commit: usize,
    /// The copies in it, by the block that they are of.
    copies: BTreeMap<u64, Vec<u8>>,
}

impl<'a> Asked<'a> {
    fn new(writes: &'a mut [LoggedWrite], events: &'a mut [Event]) -> Asked<'a> {
        // A volume that is opened to be written stores the journal's superblock.
        let found = writes.iter().find_map(|write| {
            let superblock = JournalSuperblock::parse(&write.bytes).ok()?;
            Some((write.offset, superblock))
        });
        let (start, superblock) = found.expect("a journal's superblock");
        let format = superblock.log_format();
        let end = start + u64::from(superblock.log_end()) * u64::from(format.block_size);
        let log = start..end;
        let mut asked = Asked { writes, events, format, log, transactions: Vec::new() };
        let mut of_log = Vec::new();
        for number in 0..asked.writes.len() {
            if !asked.is_log(number) || asked.has(number, BlockKind::Superblock) {
                continue;
            }
            if !asked.has(number, BlockKind::Commit) {
                of_log.push(number);
                continue;
            }
            let copies = asked.copies(&of_log);
            let log = std::mem::take(&mut of_log);
            asked.transactions.push(Transaction { log, commit: number, copies });
        }
        asked
    }

    fn block_size(&self) -> u64 {
        self.format.block_size.into()
    }

    fn is_log(&self, number: usize) -> bool {
        self.log.contains(&self.writes[number].offset)
    }

    /// The blocks of a write that begin with a header of this kind: where in it, and of which
    /// transaction.
    fn headers(&self, number: usize, kind: BlockKind) -> Vec<(usize, Sequence)> {
        let size = self.format.block_size as usize;
        let blocks = self.writes[number].bytes.chunks(size).enumerate();
        let headers = blocks.filter_map(|(at, block)| Some((at * size, Header::parse(block)?)));
        let own = headers.filter(|(_, header)| header.kind == kind);
        own.map(|(at, header)| (at, header.sequence)).collect()
    }

    fn has(&self, number: usize, kind: BlockKind) -> bool {
        !self.headers(number, kind).is_empty()
    }

    fn copies(&self, log: &[usize]) -> BTreeMap<u64, Vec<u8>> {
        let size = self.format.block_size as usize;
        let mut blocks = log.iter().flat_map(|number| self.writes[*number].bytes.chunks(size));
        let mut copies = BTreeMap::new();
        while let Some(block) = blocks.next() {
            let Ok(tags) = descriptor::tags(&self.format, block) else { continue };
            if Header::parse(block).is_none_or(|header| header.kind != BlockKind::Descriptor) {
                continue;
            }
            for tag in tags {
                let mut copy = blocks.next().expect("a copy for each tag").to_vec();
                descriptor::unescape(&tag, &mut copy);
                copies.insert(tag.target.0, copy);
            }
        }
        copies
    }

    /// The newest copy of a block that is committed when this write is asked for.
    fn committed(&self, block: u64, number: usize) -> Option<&[u8]> {
        let before = self.transactions.iter().rev().filter(|before| before.commit < number);
        before.into_iter().find_map(|before| before.copies.get(&block)).map(Vec::as_slice)
    }

    /// Whether a write brings copies to their place.
    fn is_in_place(&self, number: usize) -> bool {
        let write = &self.writes[number];
        let first = write.bytes.get(..self.format.block_size as usize);
        let copy = self.committed(write.offset / self.block_size(), number);
        !self.is_log(number) && copy.is_some() && copy == first
    }

    /// The write of a file's data that has completed then.
    fn completed_data(&self, event: Event) -> Option<usize> {
        let Event::Completed(number) = event else { return None };
        let is_other =
            self.is_log(number) || self.is_in_place(number) || self.writes[number].forced;
        (!is_other).then_some(number)
    }

    /// Has these writes complete after the event with that number, if they completed before: no
    /// flush covers them earlier.
    fn complete_late(&mut self, late: &BTreeSet<usize>, end: usize) {
        let is_late = |event: &Event| match event {
            Event::Completed(number) => Some(late.contains(number)),
            _ => None,
        };
        let completed: Vec<bool> = self.events[..=end].iter().filter_map(is_late).collect();
        for (number, event) in self.events.iter_mut().enumerate() {
            if let Event::FlushEnded { covered } = event
                && (number <= end || *covered < completed.len())
            {
                *covered -= completed[..*covered].iter().filter(|is_late| **is_late).count();
            }
        }
        let before = self.events[..=end].iter().copied();
        let (last, first): (Vec<Event>, Vec<Event>) =
            before.partition(|event| is_late(event) == Some(true));
        self.events[..=end].copy_from_slice(&[first, last].concat());
    }

    /// Asks for the last of these writes first, and for each other one in place of the next.
    fn rotate(&mut self, numbers: &[usize]) {
        let content = |write: &LoggedWrite| (write.offset, Arc::clone(&write.bytes), write.forced);
        let mut contents: Vec<_> =
            numbers.iter().map(|number| content(&self.writes[*number])).collect();
        contents.rotate_right(1);
        for (number, (offset, bytes, forced)) in numbers.iter().zip(contents) {
            let epoch = self.writes[*number].epoch;
            self.writes[*number] = LoggedWrite { offset, bytes, epoch, forced };
        }
    }

    fn moment(&self, event: Event) -> usize {
        self.events.iter().position(|other| *other == event).expect("it happened")
    }
}

fn no_flush_before_commit(asked: &mut Asked<'_>) {
    for at in 0..asked.transactions.len() {
        let Transaction { log, commit, .. } = &asked.transactions[at];
        let (late, commit) = (log.iter().copied().collect(), *commit);
        asked.complete_late(&late, asked.moment(Event::Submitted(commit)));
    }
}

fn commit_before_log(asked: &mut Asked<'_>) {
    let transactions = std::mem::take(&mut asked.transactions);
    for Transaction { mut log, commit, .. } in transactions {
        log.push(commit);
        asked.rotate(&log);
    }
}

fn tail_before_checkpoint(asked: &mut Asked<'_>) {
    let mut in_place = Vec::new();
    for number in 0..asked.writes.len() {
        if asked.is_in_place(number) {
            in_place.push(number);
        } else if asked.is_log(number) && asked.has(number, BlockKind::Superblock) {
            in_place.push(number);
            asked.rotate(&std::mem::take(&mut in_place));
        }
    }
}

fn revoke_missing(asked: &mut Asked<'_>) {
    // One that no volume has.
    let nothing = [BlockNo(u32::MAX.into())];
    for number in 0..asked.writes.len() {
        for (at, sequence) in asked.headers(number, BlockKind::Revoke) {
            let block = revoke::encode(&asked.format, sequence, &nothing).remove(0);
            let bytes = Arc::make_mut(&mut asked.writes[number].bytes);
            bytes[at..at + block.len()].copy_from_slice(&block);
        }
    }
}

/// The last tag of a descriptor was changed after it was sealed.
fn descriptor_sealed_early(asked: &mut Asked<'_>) {
    for number in 0..asked.writes.len() {
        for (at, _) in asked.headers(number, BlockKind::Descriptor) {
            // The number of the first block, after the header of 12 bytes.
            Arc::make_mut(&mut asked.writes[number].bytes)[at + 15] ^= 1;
        }
    }
}

/// A block comes to its place as the next transaction has it.
fn checkpoint_of_uncommitted(asked: &mut Asked<'_>) {
    let size = asked.block_size();
    for number in 0..asked.writes.len() {
        if !asked.is_in_place(number) {
            continue;
        }
        let first = asked.writes[number].offset / size;
        let mut bytes = asked.writes[number].bytes.to_vec();
        for (block, bytes) in (first..).zip(bytes.chunks_exact_mut(size as usize)) {
            let mut later = asked.transactions.iter().filter(|later| later.commit > number);
            let later = later.find_map(|later| later.copies.get(&block));
            if let Some(copy) = later
                && asked.committed(block, number) == Some(bytes)
            {
                bytes.copy_from_slice(copy);
            }
        }
        asked.writes[number].bytes = Arc::new(bytes);
    }
}

/// Data that was written for a transaction completes after its commit.
fn data_not_waited_for(asked: &mut Asked<'_>) {
    let mut begin = 0;
    for at in 0..asked.transactions.len() {
        let end = asked.moment(Event::Completed(asked.transactions[at].commit));
        let own = asked.events[begin..end].iter();
        let late = own.filter_map(|event| asked.completed_data(*event)).collect();
        asked.complete_late(&late, end);
        begin = end + 1;
    }
}
