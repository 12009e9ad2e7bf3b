//! One run: a volume, operations done to both sides, comparisons; and the shrinking of a run that
//! failed.

use crate::model::compare;
use crate::model::generator::Generator;
use crate::model::operation::{Answer, Operation, Path, Slots};
use crate::model::rules::FLAGS;
use crate::model::tree::{ENOSPC, Limits, Object, ROOT, Tree};
use crate::volume::{Random, SetClock, Specification, judge};
use extant_block::MemoryDevice;
use extant_engine::{Filesystem, Metadata};
use extant_format::inode::Time;
use extant_format::superblock::{Feature, MappingKind};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A path at which the model errs on purpose, for the test of the test.
pub const FAULT: &[u8] = b"/a path that the model takes for another";

/// Operations that end in a difference, and what it is.
pub struct Failure {
    pub operations: Vec<Operation>,
    pub message: String,
}

pub struct Round {
    specification: Specification,
    clock: Arc<SetClock>,
    device: Arc<MemoryDevice>,
    volume: Option<Filesystem>,
    tree: Tree,
    slots: Slots,
    /// How often the state before and after ENOSPC is still compared until the next reopening.
    full_compares: u32,
    tally: Tally,
}

/// How often each operation ended with each errno (0 for success).
pub type Tally = BTreeMap<(&'static str, i32), u64>;

fn object(metadata: &Metadata, parent: u64) -> Object {
    Object {
        kind: metadata.file_type,
        permissions: metadata.mode & 0o7777,
        uid: metadata.uid,
        gid: metadata.gid,
        links: metadata.links.into(),
        flags: metadata.flags & FLAGS,
        size: metadata.size,
        access_time: metadata.access_time,
        modify_time: metadata.modify_time,
        change_time: metadata.change_time,
        create_time: metadata.create_time,
        device: metadata.device.unwrap_or_default(),
        target: Vec::new(),
        reach: 0,
        content: Default::default(),
        attributes: BTreeMap::new(),
        names: BTreeMap::new(),
        parent,
        opens: 0,
    }
}

impl Round {
    fn new(specification: &Specification) -> Round {
        let clock = SetClock::new(1_700_000_000);
        let device = specification.make(clock.clone());
        let volume = specification.open(&device).expect("a fresh volume opens");
        let superblock = volume.superblock();
        let has_extents = superblock.has(Feature::EXTENTS);
        let kind = if has_extents { MappingKind::Extents } else { MappingKind::Indirect };
        let statfs = volume.statfs();
        let limits = Limits {
            block_size: specification.block_size.into(),
            size_max: superblock.max_file_size(kind),
            has_extents,
            has_nanoseconds: specification.inode_size > 128,
            has_dir_nlink: superblock.has(Feature::DIR_NLINK),
            // Of a fresh volume, but for the root and lost+found.
            system_inodes: (statfs.inodes - statfs.free_inodes) as usize - 2,
            has_large_values: superblock.has(Feature::EA_INODE),
            access_times: specification.options().policies.access_times,
        };
        let mut tree = Tree::new(limits, object(&volume.metadata("/").expect("a root"), ROOT));
        let found = tree.add(object(&volume.metadata("/lost+found").expect("lost+found"), ROOT));
        tree.objects.get_mut(&ROOT).expect("a root").names.insert(b"lost+found".to_vec(), found);
        Round {
            specification: *specification,
            clock,
            device,
            volume: Some(volume),
            tree,
            slots: Slots::default(),
            full_compares: 3,
            tally: Tally::new(),
        }
    }

    fn volume(&self) -> &Filesystem {
        self.volume.as_ref().expect("the volume is open")
    }

    /// One operation on both sides.
    fn step(&mut self, operation: &Operation) -> Result<(), String> {
        self.clock.advance(1_000_000_007);
        let wall = extant_block::Clock::wall(&*self.clock);
        self.tree.set_now(Time { seconds: wall.seconds, nanoseconds: wall.nanoseconds });
        if matches!(operation, Operation::Reopen) {
            return self.reopen();
        }
        let volume = self.volume.take().expect("the volume is open");
        let before = volume.statfs();
        let outcome = operation.run(&volume, &mut self.slots);
        let after = volume.statfs();
        self.volume = Some(volume);
        let Some(outcome) = outcome else { return Ok(()) };
        let errno = outcome.as_ref().err().map_or(0, extant_engine::Error::errno);
        *self.tally.entry((operation.name(), errno)).or_default() += 1;
        let engine = outcome.map_err(|error| (error.errno(), error));
        if let Err((ENOSPC, error)) = &engine {
            let free = before.free_blocks.max(after.free_blocks);
            return self.believe_no_space(operation, free, before.free_inodes, error);
        }
        let mut model = operation.model(&mut self.tree, &mut self.slots);
        if matches!(operation, Operation::Stat(path) if path.0 == FAULT) {
            model = Ok(Answer::Length(7));
        }
        match (&engine, &model) {
            (Ok(engine), Ok(model)) if engine == model => Ok(()),
            (Err((engine, _)), Err(model)) if engine == model => Ok(()),
            (Ok(engine), Ok(model)) => {
                Err(format!("{operation:?}: {}, the model has {}", told(engine), told(model)))
            }
            (Ok(_), Err(model)) => Err(format!("{operation:?}: done, the model has errno {model}")),
            (Err((errno, error)), Ok(_)) => {
                Err(format!("{operation:?}: errno {errno} ({error}), the model does it"))
            }
            (Err((errno, error)), Err(model)) => {
                Err(format!("{operation:?}: errno {errno} ({error}), the model has {model}"))
            }
        }
    }

    /// ENOSPC is believed when there is little room; then everything is as it was before.
    fn believe_no_space(
        &mut self,
        operation: &Operation,
        free_blocks: u64,
        free_inodes: u32,
        error: &extant_engine::Error,
    ) -> Result<(), String> {
        let block_size = self.tree.limits.block_size;
        let is_full = free_blocks <= operation.blocks_max(block_size) || free_inodes == 0;
        if !is_full && !self.is_large_attribute(operation) {
            return Err(format!(
                "{operation:?}: {error}, but {free_blocks} blocks and {free_inodes} inodes are free"
            ));
        }
        if let Operation::Close { .. } | Operation::Sync = operation {
            return Err(format!("{operation:?}: {error}: room was promised"));
        }
        if self.full_compares > 0 {
            self.full_compares -= 1;
            compare::trees(self.volume(), &self.tree)
                .map_err(|said| format!("after {operation:?}, {error}: {said}"))?;
        }
        Ok(())
    }

    /// Attributes may fill an inode's tail and a block: whether the last one fits is the engine's
    /// to say.
    fn is_large_attribute(&self, operation: &Operation) -> bool {
        let Operation::SetAttribute { path, name, value, .. } = operation else {
            return false;
        };
        if self.tree.limits.has_large_values {
            return false;
        }
        let Ok(id) = self.tree.resolve(&path.0, crate::model::tree::Follow::NotLast) else {
            return false;
        };
        let size =
            |name: usize, value: usize| 16 + name.next_multiple_of(4) + value.next_multiple_of(4);
        let others: usize = self
            .tree
            .object(id)
            .attributes
            .iter()
            .map(|(name, value)| size(name.len(), value.len()))
            .sum();
        others + size(name.0.len(), value.length) > self.specification.block_size as usize - 64
    }

    /// Compares, closes, has the volume judged, opens, compares again.
    fn reopen(&mut self) -> Result<(), String> {
        compare::trees(self.volume(), &self.tree)?;
        for slot in 0..self.slots.files.len() {
            let _ = Operation::Close { slot }.model(&mut self.tree, &mut self.slots);
        }
        compare::trees(self.volume(), &self.tree)
            .map_err(|said| format!("files closed: {said}"))?;
        let volume = self.volume.take().expect("the volume is open");
        volume.close().map_err(|error| format!("close: {error}"))?;
        judge(&self.device)?;
        let volume =
            self.specification.open(&self.device).map_err(|error| format!("open: {error}"))?;
        self.volume = Some(volume);
        self.full_compares = 3;
        compare::trees(self.volume(), &self.tree).map_err(|said| format!("opened again: {said}"))
    }

    fn caught(&mut self, operation: &Operation) -> Result<(), String> {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.step(operation)));
        outcome.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(format!("{operation:?}: panic: {}", text.unwrap_or_default()))
        })
    }
}

fn told(answer: &Answer) -> String {
    match answer {
        Answer::Bytes(bytes) => {
            format!("{} bytes {:?}...", bytes.len(), &bytes[..bytes.len().min(16)])
        }
        other => format!("{other:?}"),
    }
}

/// Does `count` random operations and reopens the volume. Returns the counts of what they did.
pub fn run(specification: &Specification, seed: u64, count: usize) -> Result<Tally, Failure> {
    Round::random(specification, seed, count).map(|round| round.tally)
}

impl Round {
    /// A round of `count` random operations, with one reopening at the end.
    pub fn random(
        specification: &Specification,
        seed: u64,
        count: usize,
    ) -> Result<Round, Failure> {
        let mut round = Round::new(specification);
        let mut generator = Generator { random: Random::new(seed), planned: Vec::new() };
        let mut operations = Vec::new();
        for at in 0..=count {
            let operation =
                if at == count { Operation::Reopen } else { generator.next(&round.tree) };
            operations.push(operation.clone());
            if let Err(message) = round.caught(&operation) {
                return Err(Failure { operations, message });
            }
        }
        Ok(round)
    }

    /// Closes the volume.
    pub fn finish(mut self) -> Result<(Tree, Arc<MemoryDevice>), String> {
        let volume = self.volume.take().expect("the volume is open");
        volume.close().map_err(|error| format!("close: {error}"))?;
        Ok((self.tree, self.device))
    }
}

/// The operations that `run` does.
pub fn record(specification: &Specification, seed: u64, count: usize) -> Vec<Operation> {
    let mut round = Round::new(specification);
    let mut generator = Generator { random: Random::new(seed), planned: Vec::new() };
    let mut operations = Vec::new();
    for _ in 0..count {
        let operation = generator.next(&round.tree);
        round.caught(&operation).expect("the engine does what the model does");
        operations.push(operation);
    }
    operations
}

/// Does these operations, and reopens the volume.
pub fn replay(specification: &Specification, operations: &[Operation]) -> Result<(), Failure> {
    let mut round = Round::new(specification);
    for (at, operation) in operations.iter().chain([&Operation::Reopen]).enumerate() {
        if let Err(message) = round.caught(operation) {
            let operations = operations[..operations.len().min(at + 1)].to_vec();
            return Err(Failure { operations, message });
        }
    }
    Ok(())
}

/// Runs that shrinking may take.
const ATTEMPTS_MAX: u32 = 400;

/// Leaves out what is not needed for a failure: halves, quarters, single operations.
pub fn shrink(specification: &Specification, failure: Failure) -> (Vec<Operation>, String) {
    let Failure { mut operations, mut message } = failure;
    let mut attempts = 0;
    let mut piece = operations.len().div_ceil(2);
    while piece > 0 && attempts < ATTEMPTS_MAX {
        let mut at = 0;
        while at < operations.len() && attempts < ATTEMPTS_MAX {
            attempts += 1;
            let behind = (at + piece).min(operations.len());
            let rest = [&operations[..at], &operations[behind..]].concat();
            match replay(specification, &rest) {
                Err(smaller) => (operations, message) = (smaller.operations, smaller.message),
                Ok(()) => at = behind,
            }
        }
        piece = if piece == 1 { 0 } else { piece.div_ceil(2) };
    }
    (operations, message)
}

/// A path is printed where a name is.
impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Path) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Path {
    fn cmp(&self, other: &Path) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}
