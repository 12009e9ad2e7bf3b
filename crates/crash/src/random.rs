//! Processes that do what a seed draws, on names of their own in directories that they share.
use crate::base::first_write;
use crate::history::Script;
use crate::operation::{Operation, Piece, Sync};
use crate::tree::{Kind, Model};
use crate::verdict::mark;
use extant_engine::Size;
use extant_engine::mkfs::Profile;
use extant_sim::random::Random;
use extant_testkit::content::RECORD;

/// Processes of a history.
pub const PROCESSES: usize = 4;
/// Nodes and writes of a process are numbered from multiples of this.
const NUMBERS: u32 = 1 << 20;
/// Names of a process in a directory.
const NAMES: u64 = 6;
/// How far from its beginning a file is written, in bytes: mostly, and now and then.
const REACH: [u64; 2] = [20 << 10, 330 << 10];

/// What the processes find: two directories that they share, and a file of each process.
pub fn content() -> Vec<Operation> {
    let mut content = Vec::new();
    for path in ["/a", "/b"] {
        content.push(Operation::MakeDirectory { path: path.to_owned() });
    }
    for process in 0..PROCESSES {
        let path = format!("/a/{}0", mark(process));
        content.push(Operation::Create { path: path.clone() });
        content.push(first_write(&path, 3 + process as u32, 12 << 10));
    }
    content
}

/// What processes do most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// Something of everything.
    Mixed,
    /// Syncs of small changes: many transactions, so that the least log is full soon.
    Busy,
}

impl Pace {
    /// All, by name.
    pub const ALL: [(&'static str, Pace); 2] = [("mixed", Pace::Mixed), ("busy", Pace::Busy)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Pace::ALL.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}

/// What is drawn.
struct Draw<'a> {
    random: &'a mut Random,
    process: usize,
    has_extents: bool,
    pace: Pace,
    next_write: u32,
}

/// The scripts of all processes: `steps` steps each.
pub fn scripts(
    base: &Model,
    profile: Profile,
    seed: u64,
    (steps, pace): (usize, Pace),
) -> Vec<Script> {
    let script = |process: usize| {
        let mut random = Random::for_part(seed, &format!("process {process}"));
        let first = (process as u32 + 1) * NUMBERS;
        let mut script = Script::new(base.clone().numbered_from(first));
        let has_extents = profile == Profile::Ext4;
        let mut draw = Draw { random: &mut random, process, has_extents, pace, next_write: first };
        while script.steps.len() < steps {
            let operation = draw.operation(&script.model);
            if script.model.allows(&operation) && is_kept_apart(&script, &operation) {
                script.push(operation);
            }
        }
        script
    };
    (0..PROCESSES).map(script).collect()
}

/// A file is opened under one path once: its handle is found by it.
fn is_kept_apart(script: &Script, operation: &Operation) -> bool {
    !matches!(operation, Operation::Hold { .. })
        || !script.steps.iter().any(|step| step.operation == *operation)
}

impl Draw<'_> {
    fn one_in(&mut self, times: u64) -> bool {
        self.random.below(times) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.random.below(from.len() as u64) as usize).cloned()
    }

    /// Paths of this process's nodes of a kind.
    fn own(&mut self, model: &Model, is_wanted: impl Fn(&Kind) -> bool) -> String {
        let mark = format!("/{}", mark(self.process));
        let own: Vec<&String> = model
            .tree
            .names
            .iter()
            .filter(|(path, id)| path.contains(&mark) && is_wanted(&model.tree.nodes[id].kind))
            .map(|(path, _)| path)
            .collect();
        self.pick(&own).cloned().unwrap_or_default()
    }

    fn file(&mut self, model: &Model) -> String {
        self.own(model, |kind| *kind == Kind::File)
    }

    /// A path that is this process's, of something or of nothing yet.
    fn path(&mut self, model: &Model) -> String {
        let directory = match self.random.below(4) {
            0 => "/a".to_owned(),
            1 => "/b".to_owned(),
            2 => String::new(),
            _ => self.own(model, |kind| *kind == Kind::Directory),
        };
        let number = self.random.below(NAMES);
        // Now and then a long name: directories get a second block, and split.
        let tail = if self.one_in(3) { "-".repeat(150) } else { String::new() };
        format!("{directory}/{}{number}{tail}", mark(self.process))
    }

    fn length(&mut self, most: u64) -> u64 {
        (1 + self.random.below(most / RECORD as u64)) * RECORD as u64
    }

    fn offset(&mut self, model: &Model, path: &str) -> u64 {
        let size = model.bytes(path).map_or(0, |bytes| bytes.len() as u64);
        let reach = REACH[usize::from(self.one_in(25))];
        let at = match self.random.below(4) {
            0 => size,
            1 => self.random.below(reach),
            2 => self.random.below(20) * 1024,
            _ => self.random.below(size + 1),
        };
        at.min(reach) / RECORD as u64 * RECORD as u64
    }

    fn piece(&mut self, model: &Model, path: &str) -> Piece {
        let write = self.next_write;
        self.next_write += 1;
        let most = if self.one_in(6) { 24 << 10 } else { 3 << 10 };
        let (owner, offset) = match model.node(path) {
            Some(owner) => (owner, self.offset(model, path)),
            None => (model.next_node(), 0),
        };
        Piece { owner, write, offset, length: self.length(most) }
    }

    fn operation(&mut self, model: &Model) -> Operation {
        if self.pace == Pace::Busy && self.one_in(2) {
            return self.sync(model);
        }
        match self.random.below(32) {
            0..=9 => self.names(model),
            10..=15 => {
                let path = self.file(model);
                let piece = self.piece(model, &path);
                Operation::Write { path, piece }
            }
            16..=20 => self.range(model),
            21 | 22 => self.attribute(model),
            23 => Operation::Hold { path: self.file(model) },
            24 => Operation::Release { path: self.file(model) },
            _ => self.sync(model),
        }
    }

    fn names(&mut self, model: &Model) -> Operation {
        let path = self.path(model);
        match self.random.below(12) {
            0..=2 => Operation::Create { path },
            3 => Operation::MakeDirectory { path },
            4 => {
                let length = if self.one_in(2) { 20 } else { 90 };
                Operation::Symlink { target: "t".repeat(length), path }
            }
            5 => Operation::Link { from: self.file(model), to: path },
            6 | 7 => Operation::Unlink { path: self.own(model, |kind| *kind != Kind::Directory) },
            8 => Operation::RemoveDirectory {
                path: self.own(model, |kind| *kind == Kind::Directory),
            },
            9 => {
                let piece = self.piece(model, &path);
                Operation::Nameless { path, piece }
            }
            10 => Operation::Rename { from: self.own(model, |_| true), to: path },
            _ => {
                let (from, to) = (self.file(model), self.file(model));
                Operation::Rename { from, to }
            }
        }
    }

    fn range(&mut self, model: &Model) -> Operation {
        let path = self.file(model);
        let offset = self.offset(model, &path);
        let length = self.length(6 << 10);
        let size = if self.one_in(2) { Size::Grow } else { Size::Keep };
        let (from, blocks) = (offset / 4096 * 4096, length.next_multiple_of(4096));
        match self.random.below(if self.has_extents { 8 } else { 3 }) {
            0 | 1 => Operation::Truncate { path, size: offset },
            2 => Operation::Punch { path, offset, length },
            3 => Operation::Allocate { path, offset, length, size },
            4 => Operation::Zero { path, offset, length, size },
            5 => Operation::Collapse { path, offset: from, length: blocks },
            6 => Operation::Insert { path, offset: from, length: blocks },
            _ => Operation::Punch { path, offset: from, length: blocks },
        }
    }

    fn attribute(&mut self, model: &Model) -> Operation {
        let path = self.own(model, |kind| !matches!(kind, Kind::Symlink(_)));
        let name = format!("user.{}", self.random.below(3));
        if self.one_in(3) {
            return Operation::RemoveAttribute { path, name };
        }
        let most = if self.one_in(2) { 20 } else { 250 };
        let byte = b'a' + self.random.below(26) as u8;
        let value = vec![byte; 1 + self.random.below(most) as usize];
        Operation::SetAttribute { path, name, value }
    }

    fn sync(&mut self, model: &Model) -> Operation {
        let sync = match self.random.below(10) {
            0 => Sync::All,
            1 | 2 => {
                let shared = ["/a".to_owned(), "/b".to_owned()];
                Sync::Directory(self.pick(&shared).unwrap_or_default())
            }
            3..=5 => Sync::Data(self.file(model)),
            _ => Sync::File(self.file(model)),
        };
        Operation::Sync(sync)
    }
}
