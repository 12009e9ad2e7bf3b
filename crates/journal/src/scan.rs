//! The transactions of a log, what is replayed of them, and why the log ends where it does.
//!
//! One pass reads the log once: checksums are compared as the blocks are met, and copies are kept
//! up to a limit of memory.
//!
//! ```text
//! expected block?  no magic, other sequence ----> the log ends: clean between transactions
//!     | descriptor: tags, and their copies    | revoke: blocks      | commit: the transaction is
//!     v   torn: damaged if a commit follows   v   the same          v   whole, or damaged
//!     pending transaction --------------------------------------> plan: newest copy of each block
//! ```
use crate::error::Error;
use crate::locate::Journal;
use crate::reader::Reader;
use extant_format::journal::fast_commit::{self, FastCommits};
use extant_format::journal::{
    BlockKind, Header, JournalSuperblock, LogFormat, Sequence, TransactionChecksum, commit,
    commit::CommitTime, descriptor, incompat, revoke,
};
use extant_format::{BlockNo, Fault};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Different blocks that are replayed, and that are revoked, at most: 16 GiB of 4 KiB blocks.
const BLOCKS_MAX: usize = 1 << 22;
/// Bytes of fast commits that are read at most. Linux makes 256 blocks of them.
const FAST_COMMIT_BYTES_MAX: u64 = 64 << 20;

/// What a log holds.
#[derive(Debug)]
pub struct Scan {
    /// Its whole transactions, in order.
    pub transactions: Vec<Transaction>,
    /// What is replayed, by rising target: each target once, inside the volume and outside the
    /// journal.
    pub plan: Vec<Replayed>,
    /// How many copies are not replayed because they were revoked.
    pub revoked: u64,
    /// How many blocks revokes name.
    pub revokes: usize,
    /// Why the log ends.
    pub end: End,
    /// The transaction that would come next.
    pub next: Sequence,
    /// The fast commits after the last transaction.
    pub fast_commits: FastCommits,
    /// Copies that were kept in memory, by their block of the journal, the magic number put back.
    kept: FxHashMap<u32, Arc<Vec<u8>>>,
}

/// A whole transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// Its number.
    pub sequence: Sequence,
    /// Its first block in the journal.
    pub start: u32,
    /// Copies in it.
    pub copies: u32,
    /// Blocks that it revokes.
    pub revokes: u32,
    /// When it was committed.
    pub time: CommitTime,
}

/// A copy that is replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replayed {
    /// The block of the volume that it belongs to.
    pub target: BlockNo,
    /// The block of the journal that holds it.
    pub source: u32,
    /// Whether its first four bytes stand for the magic number.
    pub is_escaped: bool,
}

/// Why a log ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// After a whole transaction; what follows is older or was never used.
    Clean,
    /// A transaction has no commit block: the cut came before it.
    Unfinished(Sequence),
    /// A transaction was damaged, and nothing from it on is replayed.
    Damaged {
        /// The transaction.
        sequence: Sequence,
        /// The block of the journal.
        block: u32,
        /// What is wrong there.
        fault: Fault,
    },
}

/// A transaction whose commit block was not met yet.
struct Pending {
    start: u32,
    copies: Vec<Copied>,
    revokes: Vec<BlockNo>,
    checksum: TransactionChecksum,
    /// The first copy that is not what was logged.
    misfit: Option<(u32, Fault)>,
}

struct Copied {
    target: BlockNo,
    source: u32,
    is_escaped: bool,
    bytes: Option<Arc<Vec<u8>>>,
}

/// The newest copy of a block.
struct Newest {
    sequence: Sequence,
    source: u32,
    is_escaped: bool,
}

struct Scanner<'a> {
    journal: &'a Journal,
    superblock: &'a JournalSuperblock,
    format: LogFormat,
    reader: Reader<'a>,
    /// Where the next block is read, and how many blocks of the ring are left.
    at: u32,
    left: u32,
    sequence: Sequence,
    memory_left: u64,
    /// The end of the volume, in blocks, as the newest copy of its superblock says.
    end: u64,
    transactions: Vec<Transaction>,
    newest: FxHashMap<BlockNo, Newest>,
    revoked: FxHashMap<BlockNo, Sequence>,
    kept: FxHashMap<u32, Arc<Vec<u8>>>,
}

impl Journal {
    /// Reads the log: what has to be replayed. Keeps copies in memory, of at most `memory_bytes` in
    /// all; others are read again when they are needed. An empty log has no transactions.
    ///
    /// # Errors
    /// A device that fails, a copy in a whole transaction that belongs outside the volume or into
    /// the journal, or more blocks than can be replayed. Damage is an [`End`], no error.
    pub fn scan(&self, memory_bytes: u64) -> Result<Scan, Error> {
        let superblock = self.superblock();
        let mut scanner = Scanner {
            journal: self,
            superblock,
            format: superblock.log_format(),
            reader: Reader::new(self, superblock.log_end()),
            at: superblock.start,
            left: superblock.log_blocks(),
            sequence: superblock.sequence,
            memory_left: memory_bytes,
            end: self.volume_end(),
            transactions: Vec::new(),
            newest: FxHashMap::default(),
            revoked: FxHashMap::default(),
            kept: FxHashMap::default(),
        };
        let end = match superblock.is_empty() {
            true => End::Clean,
            false => scanner.run()?,
        };
        let next = scanner.sequence;
        let fast_commits = self.read_fast_commits(next)?;
        Ok(scanner.finish(end, next, fast_commits))
    }

    fn read_fast_commits(&self, expected: Sequence) -> Result<FastCommits, Error> {
        let superblock = self.superblock();
        let mut fast = fast_commit::Reader::new(expected);
        if superblock.has(incompat::FAST_COMMIT) && !superblock.is_empty() {
            let area = superblock.fast_commit_area();
            let most = FAST_COMMIT_BYTES_MAX / u64::from(superblock.block_size);
            if area.len() as u64 > most {
                return Err(Error::TooLarge { what: "blocks of fast commits", limit: most });
            }
            let mut reader = Reader::new(self, area.end);
            for block in area {
                if !fast.read(&reader.take(block)?) {
                    break;
                }
            }
        }
        Ok(fast.finish())
    }
}

impl Scanner<'_> {
    /// Reads transactions until the log ends.
    fn run(&mut self) -> Result<End, Error> {
        loop {
            match self.transaction()? {
                None => self.sequence = self.sequence.next(),
                Some(end) => return Ok(end),
            }
        }
    }

    /// Takes the next block of the ring; `None` when all of it has been read.
    fn take(&mut self) -> Result<Option<(u32, Vec<u8>)>, Error> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        let block = self.at;
        let bytes = self.reader.take(block)?;
        self.left = left;
        self.at = self.superblock.after(block, 1);
        Ok(Some((block, bytes)))
    }

    /// Reads one transaction; returns why the log ends when it is not whole.
    fn transaction(&mut self) -> Result<Option<End>, Error> {
        let sequence = self.sequence;
        let mut pending = Pending {
            start: self.at,
            copies: Vec::new(),
            revokes: Vec::new(),
            checksum: TransactionChecksum::default(),
            misfit: None,
        };
        let damaged = |block, fault| Ok(Some(End::Damaged { sequence, block, fault }));
        let mut is_begun = false;
        while let Some((block, bytes)) = self.take()? {
            let header = Header::parse(&bytes).filter(|header| header.sequence == sequence);
            let Some(header) = header else { break };
            match header.kind {
                BlockKind::Descriptor => match descriptor::tags(&self.format, &bytes) {
                    Ok(tags) => {
                        pending.checksum.add(&bytes);
                        if !self.copies(&mut pending, &tags)? {
                            break;
                        }
                    }
                    Err(fault) => return self.torn(block, fault).map(Some),
                },
                BlockKind::Revoke => match revoke::parse(&self.format, &bytes) {
                    Ok(revoked) => pending.revokes.extend(revoked),
                    Err(fault) => return self.torn(block, fault).map(Some),
                },
                BlockKind::Commit => {
                    if let Some((block, fault)) = pending.misfit {
                        return damaged(block, fault);
                    }
                    let commit = commit::parse(&self.format, &bytes)
                        .and_then(|commit| commit.check(pending.checksum).map(|()| commit));
                    match commit {
                        Ok(commit) => self.accept(pending, commit.time)?,
                        Err(fault) => return damaged(block, fault),
                    }
                    return Ok(None);
                }
                BlockKind::Superblock | BlockKind::Other(_) => break,
            }
            is_begun = true;
            if pending.copies.len().max(pending.revokes.len()) > BLOCKS_MAX {
                return Err(too_large());
            }
        }
        Ok(Some(if is_begun { End::Unfinished(sequence) } else { End::Clean }))
    }

    /// Why the log ends at a descriptor or revoke block that is not what was logged: it is damaged
    /// if the transaction, or a later one, was committed. A cut tears blocks of one that was not.
    fn torn(&mut self, block: u32, fault: Fault) -> Result<End, Error> {
        let sequence = self.sequence;
        while let Some((_, bytes)) = self.take()? {
            let committed = |header: &Header| {
                header.kind == BlockKind::Commit && !sequence.is_after(header.sequence)
            };
            if Header::parse(&bytes).as_ref().is_some_and(committed) {
                return Ok(End::Damaged { sequence, block, fault });
            }
        }
        Ok(End::Unfinished(sequence))
    }

    /// Reads the copies that follow a descriptor. Returns whether all of them are in the log.
    fn copies(&mut self, pending: &mut Pending, tags: &[descriptor::Tag]) -> Result<bool, Error> {
        let needs_transaction_checksum =
            self.format.checksums == extant_format::journal::Checksums::Version1;
        for tag in tags {
            let Some((source, mut bytes)) = self.take()? else { return Ok(false) };
            if needs_transaction_checksum {
                pending.checksum.add(&bytes);
            }
            if pending.misfit.is_none() && !tag.fits(&self.format, self.sequence, &bytes) {
                let structure = "copy in the journal";
                let computed = self.format.copy_checksum(self.sequence, &bytes);
                let fault = Fault::Checksum { structure, stored: tag.checksum, computed };
                pending.misfit = Some((source, fault));
            }
            let bytes = self.memory_left.checked_sub(bytes.len() as u64).map(|left| {
                self.memory_left = left;
                descriptor::unescape(tag, &mut bytes);
                Arc::new(bytes)
            });
            let (target, is_escaped) = (tag.target, tag.is_escaped());
            pending.copies.push(Copied { target, source, is_escaped, bytes });
        }
        Ok(true)
    }

    /// Takes over a whole transaction.
    fn accept(&mut self, pending: Pending, time: CommitTime) -> Result<(), Error> {
        let sequence = self.sequence;
        let (copies, revokes) = (pending.copies.len() as u32, pending.revokes.len() as u32);
        self.transactions.push(Transaction {
            sequence,
            start: pending.start,
            copies,
            revokes,
            time,
        });
        for block in pending.revokes {
            self.revoked.insert(block, sequence);
        }
        for Copied { target, source, is_escaped, bytes } in &pending.copies {
            let end = match bytes {
                Some(bytes) => self.journal.end_in_copy(*target, bytes),
                None if target.0 <= 1 => {
                    let mut bytes = vec![0; self.superblock.block_size as usize];
                    self.journal.device.read(self.journal.offset(*source), &mut bytes)?;
                    if *is_escaped {
                        descriptor::restore(&mut bytes);
                    }
                    self.journal.end_in_copy(*target, &bytes)
                }
                None => None,
            };
            self.end = end.map_or(self.end, |end| end.max(self.end));
        }
        for copied in pending.copies {
            let Copied { target, source, is_escaped, bytes } = copied;
            if let Some(reason) = self.journal.refusal(target, self.end) {
                return Err(Error::Target { sequence, target, reason });
            }
            if let Some(bytes) = bytes {
                self.kept.insert(source, bytes);
            }
            let older = self.newest.insert(target, Newest { sequence, source, is_escaped });
            let unused = older.and_then(|older| self.kept.remove(&older.source));
            self.memory_left += unused.map_or(0, |bytes| bytes.len() as u64);
        }
        if self.newest.len().max(self.revoked.len()) > BLOCKS_MAX {
            return Err(too_large());
        }
        Ok(())
    }

    /// The plan: the newest copy of each block, unless it was revoked then or later.
    fn finish(self, end: End, next: Sequence, fast_commits: FastCommits) -> Scan {
        let Scanner { newest, revoked, mut kept, transactions, .. } = self;
        let mut plan = Vec::with_capacity(newest.len());
        let mut revoked_copies = 0;
        for (target, Newest { sequence, source, is_escaped }) in newest {
            match revoked.get(&target) {
                Some(revoke) if !sequence.is_after(*revoke) => {
                    revoked_copies += 1;
                    kept.remove(&source);
                }
                _ => plan.push(Replayed { target, source, is_escaped }),
            }
        }
        plan.sort_unstable_by_key(|replayed| replayed.target);
        Scan {
            transactions,
            plan,
            revoked: revoked_copies,
            revokes: revoked.len(),
            end,
            next,
            fast_commits,
            kept,
        }
    }
}

fn too_large() -> Error {
    Error::TooLarge { what: "blocks to replay", limit: BLOCKS_MAX as u64 }
}

impl Scan {
    /// The bytes of a copy, as they belong on the volume: from memory, or from the log.
    ///
    /// # Errors
    /// Those of the device.
    pub fn bytes(&self, journal: &Journal, replayed: &Replayed) -> Result<Arc<Vec<u8>>, Error> {
        if let Some(bytes) = self.kept.get(&replayed.source) {
            return Ok(Arc::clone(bytes));
        }
        let mut bytes = vec![0; journal.superblock().block_size as usize];
        journal.device.read(journal.offset(replayed.source), &mut bytes)?;
        if replayed.is_escaped {
            descriptor::restore(&mut bytes);
        }
        Ok(Arc::new(bytes))
    }

    /// The sequence with which an emptied log goes on, so that nothing that is in it now is ever
    /// taken for a part of what is written later.
    pub fn sequence_after(&self, superblock: &JournalSuperblock) -> Sequence {
        // An unfinished transaction has the number `next`. After damage whole ones may follow, of
        // at least a block each.
        let skipped = match self.end {
            End::Clean | End::Unfinished(_) => 1,
            End::Damaged { .. } => superblock.log_blocks(),
        };
        Sequence(self.next.0.wrapping_add(skipped))
    }
}
