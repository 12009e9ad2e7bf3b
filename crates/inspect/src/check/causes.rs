//! Which problem follows from which: damage to one thing shows in many places, and whoever mends it
//! wants the one.
//!
//! ```text
//! whole    a thing whose checksum or shape is wrong: what is wrong inside of it follows
//! near     what says itself which inode, group or directory it comes from
//! alone    what was lost somewhere (names, blocks, counts): it follows from the only problem that
//!          can lose such things, and from none where there are several
//! ```
//!
//! *Invariants*: a cause is a problem of the same report that has no cause itself.
use super::codes::Code;
use super::problem::Problem;
use super::rule::{Pass, Repair};
use extant_format::{GroupNo, Ino};
use rustc_hash::{FxHashMap, FxHashSet};

/// What is wrong as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Thing {
    Superblock,
    Descriptors,
    Descriptor(GroupNo),
    Journal,
    Inode(Ino),
    /// The map of an inode: its blocks cannot be reached, or are those of others.
    Map(Ino),
    Attributes(Ino),
    /// A directory that lacks blocks.
    Directory(Ino),
    DirectoryBlock(Ino, u64),
    Index(Ino),
    BlockBitmap(GroupNo),
    InodeBitmap(GroupNo),
    /// How many blocks, inodes and directories of a group are in use.
    BlocksOf(GroupNo),
    InodesOf(GroupNo),
    /// The counts of all groups.
    GroupCounts(Code),
}

/// Sets `cause` of all problems, which stand in the order of a report.
pub(super) fn find(problems: &mut [Problem]) {
    let mut found = Causes::of(problems);
    for step in [Causes::inside, Causes::near] {
        for (at, problem) in problems.iter().enumerate() {
            step(&mut found, at, problem);
        }
    }
    found.alone(problems);
    for (at, problem) in problems.iter_mut().enumerate() {
        let root = found.root(at);
        problem.cause = (root != at).then_some(root);
    }
}

/// What is known while causes are looked for, by places in the list.
struct Causes {
    /// The first problem that is one of a thing as a whole.
    whole: FxHashMap<Thing, usize>,
    /// The first problem of each inode, in the passes that judge inodes.
    inodes: FxHashMap<Ino, usize>,
    /// Directories of which names may be missing, by the first problem that says so.
    closed: FxHashMap<Ino, usize>,
    /// What each follows from, not yet to the root.
    cause: Vec<Option<usize>>,
}

impl Causes {
    fn of(problems: &[Problem]) -> Causes {
        let mut causes = Causes {
            whole: FxHashMap::default(),
            inodes: FxHashMap::default(),
            closed: FxHashMap::default(),
            cause: vec![None; problems.len()],
        };
        for (at, problem) in problems.iter().enumerate() {
            for thing in wholes(problem).into_iter().flatten() {
                causes.whole.entry(thing).or_insert(at);
            }
            let Some(ino) = problem.ino else { continue };
            if matches!(problem.rule().pass, Pass::Inodes | Pass::Duplicates) {
                causes.inodes.entry(ino).or_insert(at);
            }
            if closes(problem) {
                causes.closed.entry(ino).or_insert(at);
            }
        }
        causes
    }

    /// The end of the chain of causes.
    fn root(&self, at: usize) -> usize {
        let mut root = at;
        // `follows` adds no link that closes a circle.
        while let Some(Some(next)) = self.cause.get(root) {
            root = *next;
        }
        root
    }

    /// `at` follows from `cause`, unless it has a cause or `cause` follows from it.
    fn follows(&mut self, at: usize, cause: Option<usize>) {
        let Some(cause) = cause.filter(|cause| self.root(*cause) != at) else { return };
        if let Some(slot) = self.cause.get_mut(at) {
            slot.get_or_insert(cause);
        }
    }

    fn whole(&self, thing: Thing) -> Option<usize> {
        self.whole.get(&thing).copied()
    }

    /// What is wrong inside of a thing that is wrong as a whole.
    fn inside(&mut self, at: usize, problem: &Problem) {
        for thing in insides(problem).into_iter().flatten() {
            self.follows(at, self.whole(thing));
        }
    }

    /// What names the inode, the directory or the group that it comes from.
    fn near(&mut self, at: usize, problem: &Problem) {
        let of_inode = |ino: Option<Ino>| ino.and_then(|ino| self.inodes.get(&ino)).copied();
        let of_directory = |ino: Option<Ino>| ino.and_then(|ino| self.closed.get(&ino)).copied();
        let cause = match problem.code {
            Code::EntryType | Code::EntryUnused | Code::EntryInode | Code::EntryToValue => {
                let root = Some(Ino::ROOT).filter(|_| problem.other == Some(Ino::ROOT));
                let root = root.and_then(|root| self.whole(Thing::Inode(root)));
                of_inode(problem.other).or(root)
            }
            Code::BlocksOfOther => of_inode(problem.other).filter(|cause| *cause < at),
            Code::RootMissing | Code::RootNotDirectory => of_inode(problem.ino),
            Code::DirectoryHole => of_inode(problem.ino),
            Code::DirectoryUnreachable => of_directory(problem.other),
            Code::DotDotWrong => of_directory(problem.ino),
            Code::GroupFreeBlocks => problem.group.and_then(|it| self.whole(Thing::BlocksOf(it))),
            Code::GroupFreeInodes => problem.group.and_then(|it| self.whole(Thing::InodesOf(it))),
            Code::FreeBlocks => self.whole(Thing::GroupCounts(Code::GroupFreeBlocks)),
            Code::FreeInodes => self.whole(Thing::GroupCounts(Code::GroupFreeInodes)),
            _ => None,
        };
        self.follows(at, cause);
    }

    /// What was lost or counted wrong, where only one problem can be the reason: first names, then
    /// what is in use.
    fn alone(&mut self, problems: &[Problem]) {
        let closed = self.only(self.closed.values().copied());
        for (at, problem) in problems.iter().enumerate() {
            let is_name = matches!(
                problem.code,
                Code::InodeUnattached | Code::DirectoryUnreachable | Code::DotDotWrong
            );
            self.follows(at, closed.filter(|_| is_name));
        }
        let judged = |problem: &Problem| {
            problem.rule().pass < Pass::Links && changes_use(problem)
                || problem.code == Code::InodeUnattached
        };
        let damaged = problems.iter().enumerate().filter(|(_, problem)| judged(problem));
        let damaged = self.only(damaged.map(|(at, _)| at));
        for (at, problem) in problems.iter().enumerate() {
            let cause = match problem.code {
                Code::LinkCount => closed,
                Code::BlocksMarkedFree
                | Code::BlocksMarkedUsed
                | Code::InodesMarkedFree
                | Code::InodesMarkedUsed
                | Code::GroupFreeBlocks
                | Code::GroupFreeInodes
                | Code::GroupDirectories
                | Code::FreeBlocks
                | Code::FreeInodes
                | Code::ValueReferences
                | Code::AttributeReferences
                | Code::QuotaUsage => damaged,
                _ => None,
            };
            self.follows(at, cause);
        }
    }

    /// What all of these follow from, if it is one problem.
    fn only(&self, problems: impl Iterator<Item = usize>) -> Option<usize> {
        let roots: FxHashSet<usize> = problems.map(|at| self.root(at)).collect();
        let mut roots = roots.into_iter();
        roots.next().filter(|_| roots.next().is_none())
    }
}

/// What a problem says is wrong as a whole.
fn wholes(problem: &Problem) -> [Option<Thing>; 2] {
    let (group, ino) = (problem.group, problem.ino);
    let block = ino.zip(problem.file_block);
    let one = |thing: Option<Thing>| [thing, None];
    match problem.code {
        Code::SuperblockDamaged | Code::SuperblockChecksum => one(Some(Thing::Superblock)),
        Code::DescriptorsDamaged => one(Some(Thing::Descriptors)),
        Code::DescriptorChecksum => one(group.map(Thing::Descriptor)),
        Code::JournalInode
        | Code::JournalSuperblock
        | Code::JournalChecksum
        | Code::JournalMissing => one(Some(Thing::Journal)),
        Code::InodeChecksum | Code::InodeChecksumUnread => one(ino.map(Thing::Inode)),
        Code::DirectoryChain | Code::DirectoryChecksum | Code::DirectoryNoChecksum => {
            one(block.map(|(ino, block)| Thing::DirectoryBlock(ino, block)))
        }
        Code::BlockBitmapChecksum | Code::BlockBitmapPlace | Code::BlockBitmapConflict => {
            one(group.map(Thing::BlockBitmap))
        }
        Code::InodeBitmapChecksum | Code::InodeBitmapPlace | Code::InodeBitmapConflict => {
            one(group.map(Thing::InodeBitmap))
        }
        Code::BlocksMarkedFree | Code::BlocksMarkedUsed => one(group.map(Thing::BlocksOf)),
        Code::InodesMarkedFree | Code::InodesMarkedUsed => one(group.map(Thing::InodesOf)),
        Code::GroupFreeBlocks | Code::GroupFreeInodes => {
            one(Some(Thing::GroupCounts(problem.code)))
        }
        Code::DirectoryHole => one(ino.map(Thing::Directory)),
        Code::RootMissing | Code::RootNotDirectory => one(Some(Thing::Inode(Ino::ROOT))),
        Code::BlocksOfOther => one(ino.map(Thing::Map)),
        _ => match problem.rule().repair {
            Repair::RebuildIndex => one(ino.map(Thing::Index)),
            Repair::ClearAttributes => one(ino.map(Thing::Attributes)),
            _ if loses_map(problem) => [ino.map(Thing::Map), ino.map(Thing::Directory)],
            _ => [None, None],
        },
    }
}

/// What a problem may be inside of, the nearest first.
fn insides(problem: &Problem) -> [Option<Thing>; 4] {
    let (group, ino) = (problem.group, problem.ino);
    let whole_volume = [Some(Thing::Descriptors), Some(Thing::Superblock)];
    let [descriptors, superblock] = whole_volume;
    match (problem.code, problem.rule().pass) {
        (Code::SuperblockDamaged | Code::SuperblockChecksum | Code::DescriptorsDamaged, _) => {
            [None; 4]
        }
        (_, Pass::Volume) if group.is_some() => {
            [group.map(Thing::Descriptor), descriptors, superblock, None]
        }
        (_, Pass::Volume) => [ino.map(|_| Thing::Journal), superblock, None, None],
        (Code::SectorCount | Code::FileSize | Code::DirectorySize, _) => {
            let [whole, map, attributes] = [Thing::Inode, Thing::Map, Thing::Attributes];
            [ino.map(whole), ino.map(map), ino.map(attributes), None]
        }
        (_, Pass::Inodes | Pass::Duplicates) if loses_map(problem) => {
            [ino.map(Thing::Inode), ino.map(Thing::Map), None, None]
        }
        (code, Pass::Inodes) if code.rule().repair == Repair::ClearAttributes => {
            [ino.map(Thing::Inode), ino.map(Thing::Attributes), None, None]
        }
        (Code::BlocksOfOther | Code::BlocksTwiceInFile | Code::BlocksOfMetadata, _) => {
            [ino.map(Thing::Inode), ino.map(Thing::Map), None, None]
        }
        (_, Pass::Inodes | Pass::Duplicates) | (Code::LinkCount, _) => {
            [ino.map(Thing::Inode), None, None, None]
        }
        (code, Pass::Directories) => {
            let block = ino.zip(problem.file_block);
            let block = block.map(|(ino, block)| Thing::DirectoryBlock(ino, block));
            let index = ino.filter(|_| code.rule().repair == Repair::RebuildIndex);
            [index.map(Thing::Index), block, ino.map(Thing::Inode), ino.map(Thing::Directory)]
        }
        (Code::BlocksMarkedFree | Code::BlocksMarkedUsed | Code::BlockBitmapPadding, _) => {
            [group.map(Thing::BlockBitmap), None, None, None]
        }
        (Code::InodesMarkedFree | Code::InodesMarkedUsed | Code::InodeBitmapPadding, _) => {
            [group.map(Thing::InodeBitmap), None, None, None]
        }
        // What is counted in a descriptor follows from it, unless more was found to be in use.
        (Code::GroupFreeBlocks, _) => {
            [group.map(Thing::BlocksOf), group.map(Thing::Descriptor), descriptors, superblock]
        }
        (Code::GroupFreeInodes, _) => {
            [group.map(Thing::InodesOf), group.map(Thing::Descriptor), descriptors, superblock]
        }
        (Code::GroupDirectories | Code::BlockBitmapChecksum | Code::InodeBitmapChecksum, _) => {
            [group.map(Thing::Descriptor), descriptors, superblock, None]
        }
        (Code::FreeBlocks, _) => {
            let counts = Thing::GroupCounts(Code::GroupFreeBlocks);
            [Some(counts), superblock, None, None]
        }
        (Code::FreeInodes, _) => {
            let counts = Thing::GroupCounts(Code::GroupFreeInodes);
            [Some(counts), superblock, None, None]
        }
        _ => [None; 4],
    }
}

/// Whether blocks of an inode cannot be reached any more.
fn loses_map(problem: &Problem) -> bool {
    let rule = problem.rule();
    let is_lost =
        matches!(rule.repair, Repair::ClearInode | Repair::ClearPointer | Repair::RebuildMap);
    rule.pass == Pass::Inodes && is_lost
}

/// Whether names of a directory may be missing after this problem.
fn closes(problem: &Problem) -> bool {
    let is_entry = matches!(
        problem.rule().repair,
        Repair::RemoveEntry | Repair::RewriteEntry | Repair::RebuildDirectoryBlock
    );
    let may_be_changed =
        matches!(problem.code, Code::InodeChecksumUnread | Code::DirectoryChecksum);
    is_entry || may_be_changed || loses_map(problem)
}

/// Whether this problem may change which blocks and inodes are found in use, and how often an inode
/// is named.
fn changes_use(problem: &Problem) -> bool {
    closes(problem)
        || matches!(
            problem.rule().repair,
            Repair::ClearAttributes
                | Repair::ReconnectToLostFound
                | Repair::RelocateMetadata
                | Repair::RecreateJournal
        )
        || matches!(
            problem.code,
            Code::InodeChecksum
                | Code::DeletedWithoutTime
                | Code::UsedButDeleted
                | Code::BlocksOfOther
                | Code::BlocksOfMetadata
                | Code::BlocksTwiceInFile
                | Code::RootMissing
                | Code::RootNotDirectory
        )
}
