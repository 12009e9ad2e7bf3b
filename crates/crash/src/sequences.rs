//! Short sequences after a sync, as in the Bounded Black-Box tests of 2018: each operation is
//! followed by a sync of the thing, of its directory, or of everything.
use crate::base::first_write;
use crate::history::Script;
use crate::operation::{Operation, Piece, Sync, split};
use crate::tree::{Kind, Model};
use extant_engine::Size;
use extant_engine::mkfs::Profile;

const KIB: u64 = 1 << 10;

/// What a sequence finds on the volume.
pub fn content() -> Vec<Operation> {
    let create = |path: &str| Operation::Create { path: path.to_owned() };
    let directory = |path: &str| Operation::MakeDirectory { path: path.to_owned() };
    vec![
        directory("/A"),
        directory("/B"),
        create("/A/foo"),
        first_write("/A/foo", 3, 20 * KIB),
        create("/A/bar"),
        first_write("/A/bar", 4, 7 * KIB + 512),
        Operation::Link { from: "/A/bar".to_owned(), to: "/B/bar".to_owned() },
        directory("/A/empty"),
        directory("/A/full"),
        create("/A/full/file"),
        create("/B/foo"),
        first_write("/B/foo", 8, 64 * KIB),
        directory("/B/empty"),
        attribute("/A/foo", "user.old", 30),
        Operation::Symlink { target: "/A/foo".to_owned(), path: "/B/symlink".to_owned() },
    ]
}

fn attribute(path: &str, name: &str, length: usize) -> Operation {
    let (path, name) = (path.to_owned(), name.to_owned());
    Operation::SetAttribute { path, name, value: vec![b'v'; length] }
}

/// An operation, and the path of the thing that is synced after it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Act {
    operation: Operation,
    thing: &'static str,
}

fn act(thing: &'static str, operation: Operation) -> Act {
    Act { operation, thing }
}

/// Every operation of the set, on the names of `content`.
fn acts(profile: Profile) -> Vec<Act> {
    let mut acts = names();
    acts.extend(writes());
    acts.extend(attributes());
    if profile == Profile::Ext4 {
        acts.extend(ranges());
    }
    acts
}

fn names() -> Vec<Act> {
    let own = str::to_owned;
    let create = |path: &'static str| act(path, Operation::Create { path: own(path) });
    let link =
        |from: &str, to: &'static str| act(to, Operation::Link { from: own(from), to: own(to) });
    let rename =
        |from: &str, to: &'static str| act(to, Operation::Rename { from: own(from), to: own(to) });
    let unlink =
        |path: &str, thing: &'static str| act(thing, Operation::Unlink { path: own(path) });
    let remove = |path: &str, thing: &'static str| {
        act(thing, Operation::RemoveDirectory { path: own(path) })
    };
    let symlink = |target: &str, path: &'static str| {
        act(path, Operation::Symlink { target: own(target), path: own(path) })
    };
    let nameless = |path: &'static str, write: u32, length: u64| {
        // The owner is put in where the sequence is made.
        let piece = Piece { owner: 0, write, offset: 0, length };
        act(path, Operation::Nameless { path: own(path), piece })
    };
    vec![
        create("/A/new"),
        create("/B/new"),
        act("/A/made", Operation::MakeDirectory { path: own("/A/made") }),
        act("/B/made", Operation::MakeDirectory { path: own("/B/made") }),
        link("/A/foo", "/A/link"),
        link("/A/foo", "/B/link"),
        symlink("short", "/A/symlink"),
        symlink(LONG, "/A/symlink"),
        unlink("/A/foo", "/A"),
        unlink("/A/bar", "/B/bar"),
        unlink("/B/symlink", "/B"),
        remove("/A/empty", "/A"),
        rename("/A/foo", "/A/bar"),
        rename("/A/foo", "/B/foo"),
        rename("/A/foo", "/B/renamed"),
        rename("/A/bar", "/A/renamed"),
        rename("/A/full", "/B/full"),
        rename("/A/full", "/B/empty"),
        nameless("/A/new", 50, 5 * KIB),
        nameless("/B/new", 51, 16),
    ]
}

/// A target that does not fit into an inode.
const LONG: &str = "a/long/target/that/needs/a/block/of/its/own/because/it/is/longer/than/sixty";

fn writes() -> Vec<Act> {
    let write = |thing: &'static str, write: u32, offset: u64, length: u64| {
        let piece = Piece { owner: 0, write, offset, length };
        act(thing, Operation::Write { path: thing.to_owned(), piece })
    };
    let truncate = |thing: &'static str, size: u64| {
        act(thing, Operation::Truncate { path: thing.to_owned(), size })
    };
    let punch = |thing: &'static str, offset: u64, length: u64| {
        act(thing, Operation::Punch { path: thing.to_owned(), offset, length })
    };
    vec![
        write("/A/foo", 60, 20 * KIB, 3 * KIB),
        write("/A/bar", 61, 7 * KIB + 512, 9 * KIB),
        write("/A/foo", 62, 4 * KIB, 8 * KIB),
        write("/A/foo", 63, 5 * KIB + 16, 32),
        write("/A/foo", 64, 18 * KIB, 6 * KIB),
        write("/A/foo", 65, 40 * KIB, 4 * KIB),
        write("/A/full/file", 66, 0, 2 * KIB),
        truncate("/A/foo", 8 * KIB),
        truncate("/A/foo", 5 * KIB + 48),
        truncate("/A/foo", 0),
        truncate("/B/foo", 16),
        truncate("/A/bar", 30 * KIB),
        punch("/A/foo", 4 * KIB, 8 * KIB),
        punch("/A/foo", KIB + 512, 6 * KIB),
        punch("/B/foo", 0, 64 * KIB),
    ]
}

fn attributes() -> Vec<Act> {
    let (path, name) = ("/A/foo".to_owned(), "user.old".to_owned());
    vec![
        act("/A/foo", attribute("/A/foo", "user.new", 20)),
        act("/A/foo", attribute("/A/foo", "user.old", 600)),
        act("/A", attribute("/A", "user.new", 300)),
        act("/A/foo", Operation::RemoveAttribute { path, name }),
    ]
}

fn ranges() -> Vec<Act> {
    let mut acts = Vec::new();
    let path = || "/A/foo".to_owned();
    for (offset, length) in [(16 * KIB, 24 * KIB), (30 * KIB, 8 * KIB)] {
        for size in [Size::Grow, Size::Keep] {
            let path = path();
            acts.push(act("/A/foo", Operation::Allocate { path, offset, length, size }));
        }
    }
    for (offset, length) in [(4 * KIB, 8 * KIB), (3 * KIB + 16, 6 * KIB), (16 * KIB, 12 * KIB)] {
        for size in [Size::Grow, Size::Keep] {
            let path = path();
            acts.push(act("/A/foo", Operation::Zero { path, offset, length, size }));
        }
    }
    for (offset, length) in [(4 * KIB, 8 * KIB), (0, 4 * KIB)] {
        acts.push(act("/A/foo", Operation::Collapse { path: path(), offset, length }));
        acts.push(act("/A/foo", Operation::Insert { path: path(), offset, length }));
    }
    acts
}

/// The syncs that may follow an operation on this thing.
fn syncs(model: &Model, thing: &str) -> Vec<Sync> {
    let id = model.node(thing);
    let kind = id.and_then(|id| model.tree.nodes.get(&id)).map(|node| &node.kind);
    let parent = Sync::Directory(split(thing).0.to_owned());
    match kind {
        Some(Kind::File) => {
            vec![Sync::File(thing.to_owned()), Sync::Data(thing.to_owned()), parent, Sync::All]
        }
        Some(Kind::Directory) => vec![Sync::Directory(thing.to_owned()), parent, Sync::All],
        Some(Kind::Symlink(_)) | None => vec![parent, Sync::All],
    }
}

/// A sequence, with the step after which cuts are asked for.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// What is done.
    pub script: Script,
    /// Steps before the first operation; the last of them is a sync of everything.
    pub warm_steps: usize,
}

/// Every sequence of one operation.
pub fn of_one(base: &Model, profile: Profile) -> Vec<Sequence> {
    let warm = warm(base);
    acts(profile).iter().flat_map(|act| followed(&warm, act)).collect()
}

/// Every sequence of two operations: the second finds what the first has left.
pub fn of_two(base: &Model, profile: Profile) -> impl Iterator<Item = Sequence> {
    let acts = acts(profile);
    of_one(base, profile).into_iter().flat_map(move |first| {
        let then = |act: &Act| followed(&first, act);
        acts.iter().flat_map(then).collect::<Vec<_>>()
    })
}

/// A few changes and a sync: what the log and the caches hold after it matters.
fn warm(base: &Model) -> Sequence {
    let mut script = Script::new(base.clone().numbered_from(100));
    let piece = Piece { owner: 8, write: 40, offset: 8 * KIB, length: 2 * KIB };
    script.push(Operation::Create { path: "/A/warm".to_owned() });
    script.push(Operation::Write { path: "/B/foo".to_owned(), piece });
    script.push(Operation::Unlink { path: "/A/warm".to_owned() });
    script.push(attribute("/B", "user.warm", 10));
    script.push(Operation::Sync(Sync::All));
    Sequence { warm_steps: script.steps.len(), script }
}

/// The sequence with an operation more, once with each sync after it; none where the operation is
/// not allowed.
fn followed(before: &Sequence, act: &Act) -> Vec<Sequence> {
    let mut next = before.clone();
    let model = &next.script.model;
    let operation = owned(&act.operation, model);
    if !model.allows(&operation) {
        return Vec::new();
    }
    next.script.push(operation);
    let syncs = syncs(&next.script.model, act.thing);
    let with = |sync: Sync| {
        let mut sequence = next.clone();
        sequence.script.push(Operation::Sync(sync));
        sequence
    };
    syncs.into_iter().map(with).collect()
}

/// The operation with the owner of the file that it writes, and a number of its own.
fn owned(operation: &Operation, model: &Model) -> Operation {
    let mut operation = operation.clone();
    if let Operation::Write { path, piece } | Operation::Nameless { path, piece } = &mut operation {
        piece.owner = model.node(path).unwrap_or(model.next_node());
        let versions = model.contents.get(&piece.owner).map_or(0, Vec::len);
        piece.write += 100 * versions as u32;
    }
    operation
}
