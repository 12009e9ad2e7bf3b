//! Extended attributes: in inodes, in blocks that several inodes share, and values in inodes of
//! their own.
//!
//! *Invariants*: a block is read once, after all inodes were seen, in the order of the disk,
//! whichever inodes share it. Only on volumes with values in inodes of their own, and for encrypted
//! inodes, it is read with the inode too: what it holds decides how many blocks the inode counts.
//! *Locking*: none here; the lists have their own.
use super::subject::Subject;
use crate::check::codes::Code;
use crate::check::facts::{Encryption, Facts, HeldByAttributes, Sharer};
use crate::check::problem::Problem;
use crate::check::reader::Reader;
use crate::error::Error;
use extant_format::attribute::{
    self, ENCRYPTION_CONTEXT, HEADER, INLINE_DATA, ListFault, MAGIC, StoredBlock, StoredEntry,
    StoredValue,
};
use extant_format::inode::{Inode, flags};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, Ino};

/// Judges the attributes in an inode in use, and remembers its attribute block. Pass 1 calls it for
/// each inode, on any thread. Claims no block: [`finish`] does.
pub(super) fn judge(subject: Subject<'_>) -> HeldByAttributes {
    let mut held = HeldByAttributes::default();
    // Extra fields that do not fit are reported with the inode.
    if let Some(list) = subject.stored().tail().and_then(attribute::list_in_tail) {
        ListJudge::new(subject.facts, subject.ino, None).list(list, 0, &mut held);
    }
    if subject.inode.attribute_block.0 != 0 {
        remember(subject, &mut held);
    }
    held
}

/// Checks where an inode's attribute block is, and remembers it.
fn remember(subject: Subject<'_>, held: &mut HeldByAttributes) {
    let Subject { facts, ino, inode, .. } = subject;
    let block = inode.attribute_block;
    let superblock = facts.volume.superblock();
    let is_possible = superblock.has(Feature::EXT_ATTR)
        && block.0 >= u64::from(superblock.first_data_block).max(1)
        && facts.volume.holds(block);
    let is_named = !subject.is_value() && !facts.is_of_system(ino);
    if !is_possible && !is_named {
        // e2fsck does not look at this in what has no name.
        return;
    }
    if !is_possible {
        facts.report(subject.problem(Code::AttributeBlockOutside).block(block));
        return;
    }
    held.blocks += u64::from(facts.volume.cluster_blocks());
    facts.attributes.add(Sharer { block, ino });
    if superblock.has(Feature::EA_INODE) || subject.has_flag(flags::ENCRYPTED) {
        let Ok(bytes) = facts.volume.block("attributes", block) else {
            return;
        };
        let silent =
            ListJudge { reported: Reported::Nothing, ..ListJudge::new(facts, ino, Some(block)) };
        silent.list(&bytes, HEADER, held);
    }
}

/// What is reported: nothing of a block that is read with an inode, since it is judged later.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reported {
    Everything,
    Nothing,
}

/// Judges one list.
struct ListJudge<'a> {
    facts: &'a Facts,
    ino: Ino,
    block: Option<BlockNo>,
    reported: Reported,
}

impl ListJudge<'_> {
    fn new(facts: &Facts, ino: Ino, block: Option<BlockNo>) -> ListJudge<'_> {
        ListJudge { facts, ino, block, reported: Reported::Everything }
    }

    fn report(&self, code: Code, detail: impl FnOnce(Problem) -> Problem) {
        if self.reported == Reported::Nothing {
            return;
        }
        let problem = Problem::new(code).ino(self.ino);
        let problem = match self.block {
            Some(block) => problem.block(block),
            None => problem,
        };
        self.facts.report(detail(problem));
    }

    /// Judges the list from byte `start` of `region` on, and adds to what is held.
    fn list(&self, region: &[u8], start: usize, held: &mut HeldByAttributes) {
        let walked = attribute::walk(region, start, &mut |entry| self.entry(&entry, region, held));
        match walked {
            Ok(()) => {}
            Err(ListFault::Overlap) => self.report(Code::AttributesOverlap, |problem| problem),
            Err(ListFault::ValueTooLong(bytes)) => {
                self.report(Code::AttributeValueSize, |problem| problem.found(bytes));
            }
        }
    }

    /// Judges one entry of a list in that region.
    fn entry(&self, entry: &StoredEntry<'_>, region: &[u8], held: &mut HeldByAttributes) {
        let length = region.len();
        if (entry.prefix, entry.name) == ENCRYPTION_CONTEXT {
            held.encryption = match entry.value {
                StoredValue::Here(value) => Encryption::read(value),
                StoredValue::Elsewhere { .. } => Encryption::Corrupt,
            };
        }
        if self.block.is_some() && entry.prefix == 0 {
            self.report(Code::AttributePrefix, |problem| problem.name(entry.name));
        }
        if self.block.is_some() && entry.value == StoredValue::Here(&[]) && entry.offset > length {
            self.report(Code::AttributesOverlap, |problem| problem);
        }
        match entry.value {
            StoredValue::Here(value) => {
                let is_data = (entry.prefix, entry.name) == INLINE_DATA;
                if is_data
                    && self.block.is_none()
                    && entry.offset.saturating_add(value.len()) <= length
                {
                    held.has_inline_data = true;
                    held.inline_bytes = value.len() as u64;
                }
                // The kernel stores no hash in inodes.
                let is_unset = self.block.is_none() && entry.hash == 0;
                // Whole words are hashed, whatever follows the value in the last one.
                let end = entry.offset.saturating_add(value.len().next_multiple_of(4));
                let words = region.get(entry.offset..end).unwrap_or(value);
                if !is_unset && !entry.is_hash_of_value(words) {
                    self.wrong_hash(entry);
                }
            }
            StoredValue::Elsewhere { ino, bytes } => {
                let volume = &self.facts.volume;
                let cluster_blocks = u64::from(volume.cluster_blocks());
                let cluster_bytes = cluster_blocks * u64::from(volume.superblock().block_size());
                held.blocks += u64::from(bytes).div_ceil(cluster_bytes) * cluster_blocks;
                held.value_inodes += 1;
                self.value_inode(entry, ino);
            }
        }
    }

    fn wrong_hash(&self, entry: &StoredEntry<'_>) {
        self.report(Code::AttributeHash, |problem| problem.name(entry.name).found(entry.hash));
    }

    /// Judges the inode that is a value.
    fn value_inode(&self, entry: &StoredEntry<'_>, ino: Ino) {
        if self.reported == Reported::Nothing {
            return;
        }
        let superblock = self.facts.volume.superblock();
        let value = (superblock.has(Feature::EA_INODE)
            && ino.0 >= superblock.first_inode
            && ino != self.ino)
            .then(|| self.facts.read_or_fail(self.facts.volume.inode(ino)))
            .flatten();
        let is_value = |value: &Inode| value.flags & flags::EA_INODE != 0 && value.links > 0;
        let Some(value) = value.filter(is_value) else {
            self.report(Code::AttributeValueInode, |problem| problem.other(ino));
            return;
        };
        self.facts.attributes.add_value(ino);
        // The inode keeps the hash of its content in place of the access time.
        let hash = value.access_time.seconds as u32;
        if !entry.is_hash_of_inode(hash) {
            self.wrong_hash(entry);
        }
    }
}

/// Reads, judges and claims all attribute blocks that were remembered, and claims those of
/// translators. Pass 1 calls it when all
/// inodes were seen, before it asks whether any block was claimed twice.
///
/// # Errors
/// When the device fails.
pub(super) fn finish(facts: &Facts) -> Result<(), Error> {
    let sharers = facts.attributes.sorted();
    let groups: Vec<&[Sharer]> = sharers.chunk_by(|a, b| a.block == b.block).collect();
    let place: fn(&&[Sharer]) -> BlockNo =
        |group| group.first().map_or(BlockNo(0), |sharer| sharer.block);
    let mut reader = Reader::default();
    for range in Reader::batches(facts, &groups, place) {
        let batch = groups.get(range).unwrap_or_default();
        reader.read(facts, "attributes", batch, place)?;
        for (at, group) in batch.iter().enumerate() {
            if let Some(first) = group.first() {
                facts.claims.claim_run(first.block, 1);
                judge_block(facts, *first, group.len() as u64, reader.item(at));
            }
        }
    }
    for translator in facts.attributes.translators() {
        facts.claims.claim_run(translator.block, 1);
    }
    Ok(())
}

/// Judges a block that `sharers` inodes have, of which this is the first.
fn judge_block(facts: &Facts, sharer: Sharer, sharers: u64, bytes: &[u8]) {
    let judge = ListJudge::new(facts, sharer.ino, Some(sharer.block));
    let block = StoredBlock::new(bytes);
    let (magic, references, blocks) = (block.magic(), block.references(), block.blocks());
    let superblock = facts.volume.superblock();
    let stored = block.checksum();
    let computed = block.computed_checksum(sharer.block, superblock);
    let is_sealed = !superblock.has(Feature::METADATA_CSUM) || stored == computed;
    let is_header = magic == MAGIC && blocks == 1 && is_sealed;
    if u64::from(references) != sharers {
        // A count in what is no header cannot be set right: e2fsck ends there.
        let code =
            if is_header { Code::AttributeReferences } else { Code::AttributeReferencesLost };
        judge.report(code, |problem| problem.found(references).expected(sharers));
    }
    if magic != MAGIC {
        judge.report(Code::AttributeBlockMagic, |problem| problem.found(magic));
        return;
    }
    if blocks != 1 {
        judge.report(Code::AttributeBlockCount, |problem| problem.found(blocks).expected(1_u64));
    }
    if !is_sealed {
        judge.report(Code::AttributeBlockChecksum, |problem| {
            problem.found(stored).expected(computed)
        });
    }
    judge.list(bytes, HEADER, &mut HeldByAttributes::default());
}
