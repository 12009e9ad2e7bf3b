//! A volume in use: filled, then session by session, as its profile says.
//!
//! A *session* is a part of a day. What its share of the rates asks for is done in an order that
//! the seed decides; then units whose room is needed go, or more are made, so that the volume stays
//! as full as it is meant to be; then all is synced. Several files are written at a time, a piece
//! of each in turn.
//!
//! *Invariants*: between sessions no file is open. What the volume has no room for is counted and
//! room is made; nothing else that goes wrong is passed over.
//! *Locking*: none; one process owns it.
use super::colony::Colony;
use super::profile::{Profile, Unit};
use extant_engine::{Error, ErrorKind, File, Filesystem, Rename};
use extant_format::inode::{Device, FileType};
use extant_sim::random::{Random, mix};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What became of something that takes room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Done {
    /// It was done.
    Yes,
    /// The volume was full: part of it may have been done.
    Full,
}

type Result<T> = std::result::Result<T, Error>;

/// What can be asked for, in the order in which rates name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Deed {
    Create,
    Delete,
    Append,
    Truncate,
    Overwrite,
    Rename,
    Replace,
    NewDirectory,
}

const DEEDS: [Deed; 8] = [
    Deed::Create,
    Deed::Delete,
    Deed::Append,
    Deed::Truncate,
    Deed::Overwrite,
    Deed::Rename,
    Deed::Replace,
    Deed::NewDirectory,
];

/// No session does more of one deed.
const DEEDS_MAX: u128 = 4_000_000;
/// Units that are given up at once when the volume is full.
const RELIEF_UNITS: u32 = 8;
/// No file and no tree is larger than this part of its volume: one does not decide how full a small
/// volume is. (A tree ends with the file that reaches it.)
pub(super) const LARGEST_PART: u64 = 32;
/// A try at something that cannot be done just now ends after this many others.
const TRIES: u32 = 4;

/// A file that is being written.
struct InFlight {
    colony: usize,
    slot: u32,
    file: File,
    offset: u64,
    end: u64,
    /// Of a replacement: where it lies until it is whole.
    beside: Option<String>,
}

/// What was done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Operations on files and directories.
    pub operations: u64,
    /// Those that found the volume full.
    pub refused: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
    /// Files made.
    pub files_made: u64,
    /// Files deleted.
    pub files_deleted: u64,
}

impl Tally {
    /// What was done since `before`.
    pub(crate) fn since(&self, before: &Tally) -> Tally {
        Tally {
            operations: self.operations - before.operations,
            refused: self.refused - before.refused,
            bytes_written: self.bytes_written - before.bytes_written,
            files_made: self.files_made - before.files_made,
            files_deleted: self.files_deleted - before.files_deleted,
        }
    }
}

/// Where a life takes place.
pub(crate) struct VolumePlace {
    /// Blocks of the volume.
    pub(crate) blocks: u64,
    /// Bytes of one.
    pub(crate) block_bytes: u32,
    /// Blocks that no file can have, or that are in use by others.
    pub(crate) base_blocks: u64,
    /// A directory of the volume in which all of it lies; empty for the root.
    pub(crate) into: String,
    /// What else lives there.
    pub(crate) others: Others,
}

/// What lives on a volume besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Others {
    /// Nothing: the volume is new.
    None,
    /// Perhaps something, which is not to be touched.
    Perhaps,
}

/// A volume in use.
pub(crate) struct Life {
    profile: Arc<Profile>,
    /// Rates and counts of the profile times this.
    scale: (u128, u128),
    seed: u64,
    /// No file is larger.
    size_most: u64,
    /// A directory of the volume in which all of it lies; empty for the root.
    into: String,
    others: Others,
    pub(super) colonies: Vec<Colony>,
    /// What is left of each rate, by colony and deed.
    owed: Vec<[u128; DEEDS.len()]>,
    random: Random,
    in_flight: Vec<InFlight>,
    /// Thousandths of days since the volume was filled.
    pub(super) millidays: u64,
    /// Blocks of the volume.
    blocks: u64,
    /// Blocks that no file can have, or that are in use by others.
    base_blocks: u64,
    pub(crate) tally: Tally,
    buffer: Vec<u8>,
}

/// Whether it is only that the volume is full; anything else is an error.
fn full(result: Result<()>) -> Result<Done> {
    match result {
        Ok(()) => Ok(Done::Yes),
        Err(error) if matches!(error.kind, ErrorKind::NoSpace { .. }) => Ok(Done::Full),
        Err(error) => Err(error),
    }
}

impl Life {
    /// One that has not begun.
    pub(crate) fn new(profile: Arc<Profile>, place: &VolumePlace, seed: u64) -> Life {
        let colony = |population| Colony::new(population, place.block_bytes.into(), seed);
        let colonies: Vec<Colony> = profile.populations.iter().map(colony).collect();
        let bytes = place.blocks.saturating_mul(place.block_bytes.into());
        Life {
            scale: (bytes.into(), profile.bytes.max(1).into()),
            seed,
            size_most: bytes / LARGEST_PART,
            into: place.into.trim_end_matches('/').to_owned(),
            others: place.others,
            blocks: place.blocks,
            base_blocks: place.base_blocks,
            owed: vec![[0; DEEDS.len()]; colonies.len()],
            colonies,
            random: Random::for_part(seed, "sessions"),
            in_flight: Vec::new(),
            millidays: 0,
            tally: Tally::default(),
            buffer: vec![0; profile.chunk_bytes as usize],
            profile,
        }
    }

    /// A count of the profile for this volume; at least 1.
    fn scaled(&self, count: u64) -> u64 {
        u64::try_from(u128::from(count) * self.scale.0 / self.scale.1).unwrap_or(u64::MAX).max(1)
    }

    /// Makes the directories and fills the volume.
    ///
    /// # Errors
    /// What the engine answers; `Exists` when the volume has names that the profile uses.
    pub(crate) fn fill(&mut self, filesystem: &Filesystem) -> Result<()> {
        let mut made = BTreeSet::new();
        for colony in 0..self.colonies.len() {
            self.found(filesystem, colony, &mut made)?;
        }
        let goals = self.goals();
        let mut left: Vec<usize> = (0..self.colonies.len()).collect();
        while !left.is_empty() {
            // The one that has the least of what it shall have.
            let least = |&at: &usize| {
                u128::from(self.colonies[at].blocks) * 1_000_000 / u128::from(goals[at].max(1))
            };
            let Some(at) = left.iter().copied().min_by_key(least) else {
                break;
            };
            let is_done = self.colonies[at].blocks >= goals[at]
                || self.make_unit(filesystem, at)? == Done::Full;
            if is_done {
                left.retain(|other| *other != at);
            }
        }
        self.finish_writing(filesystem)?;
        filesystem.sync()
    }

    /// Makes the directories of a population. That in which it lives is new, or was made for
    /// another, or is where all is to be.
    fn found(
        &mut self,
        filesystem: &Filesystem,
        at: usize,
        made: &mut BTreeSet<String>,
    ) -> Result<()> {
        let top = format!("{}{}", self.into, self.colonies[at].population.at.trim_end_matches('/'));
        let mut path = String::new();
        for name in top.split('/').filter(|name| !name.is_empty()) {
            path.push('/');
            path.push_str(name);
            let is_new = match filesystem.create_dir(&path, 0o755) {
                Err(error) if matches!(error.kind, ErrorKind::Exists) => false,
                made => made.map(|()| true)?,
            };
            if is_new {
                made.insert(path.clone());
            } else if path == top && top != self.into && !made.contains(&path) {
                return Err(Error::from(ErrorKind::Exists).at(path));
            }
        }
        self.colonies[at].add_directory(top, 0);
        if let Unit::File { directories, .. } = self.colonies[at].population.unit
            && self.colonies[at].population.depth.1 > 0
        {
            for _ in 0..self.scaled(directories) {
                self.new_directory(filesystem, at)?;
            }
        }
        Ok(())
    }

    /// One more directory of a population of files. Below the least depth of files its parents are
    /// made with it.
    fn new_directory(&mut self, filesystem: &Filesystem, at: usize) -> Result<Done> {
        let colony = &mut self.colonies[at];
        let (least, most) = colony.population.depth;
        let mut parent = colony.random.below(colony.directories.len() as u64) as u32;
        // Trees are bushy at the top.
        if colony.random.chance(1, 2) || colony.depth(parent) >= most {
            parent = 0;
        }
        loop {
            let colony = &mut self.colonies[at];
            let (number, depth) = (colony.number(), colony.depth(parent) + 1);
            let path = format!(
                "{}/d{number}",
                colony.directories[parent as usize].path.trim_end_matches('/')
            );
            self.tally.operations += 1;
            if full(filesystem.create_dir(&path, 0o755))? == Done::Full {
                return Ok(Done::Full);
            }
            parent = self.colonies[at].add_directory(path, depth);
            if depth >= least.max(1) {
                return Ok(Done::Yes);
            }
        }
    }

    /// The blocks that each population is meant to have now. What the policies did with the volume
    /// is not asked: maps come on top, so that one seed gives one life under all policies.
    fn goals(&self) -> Vec<u64> {
        let goal_ppm = self.profile.utilisation.goal_ppm(self.millidays);
        let goal = (u128::from(self.blocks) * u128::from(goal_ppm) / 1_000_000) as u64;
        let room = goal.saturating_sub(self.base_blocks);
        let share = |colony: &Colony| {
            (u128::from(room) * u128::from(colony.population.share_ppm) / 1_000_000) as u64
        };
        self.colonies.iter().map(share).collect()
    }

    /// One day.
    ///
    /// # Errors
    /// What the engine answers, but for a full volume.
    pub(crate) fn day(&mut self, filesystem: &Filesystem) -> Result<()> {
        let sessions = u64::from(self.profile.sessions_per_day);
        let midnight = self.millidays;
        for session in 1..=sessions {
            self.millidays = midnight + session * 1000 / sessions;
            self.end_due(filesystem)?;
            for (colony, deed) in self.deeds(sessions) {
                if self.act(filesystem, colony, deed)? == Done::Full {
                    self.tally.refused += 1;
                    self.relieve(filesystem)?;
                }
            }
            self.finish_writing(filesystem)?;
            self.keep_to_goals(filesystem)?;
            filesystem.sync()?;
        }
        Ok(())
    }

    /// Deletes what has lived its time.
    fn end_due(&mut self, filesystem: &Filesystem) -> Result<()> {
        for at in 0..self.colonies.len() {
            if self.colonies[at].population.lifetime.is_none() {
                continue;
            }
            while let Some(slot) = self.colonies[at].next_due(self.millidays) {
                self.delete_unit(filesystem, at, slot)?;
            }
        }
        Ok(())
    }

    /// What a session does, in a random order.
    fn deeds(&mut self, sessions: u64) -> Vec<(usize, Deed)> {
        let (by, over) = (self.scale.0, self.scale.1 * 1000 * u128::from(sessions));
        let mut deeds = Vec::new();
        for (at, colony) in self.colonies.iter().enumerate() {
            let rates = &colony.population.rates;
            let new_directories = match colony.population.unit {
                Unit::File { new_directories, .. } => new_directories,
                Unit::Tree { .. } => 0,
            };
            let rates = [
                rates.create,
                rates.delete,
                rates.append,
                rates.truncate,
                rates.overwrite,
                rates.rename,
                rates.replace,
                new_directories,
            ];
            for ((deed, rate), owed) in DEEDS.into_iter().zip(rates).zip(&mut self.owed[at]) {
                *owed += u128::from(rate) * by;
                let count = (*owed / over).min(DEEDS_MAX);
                *owed %= over;
                deeds.extend((0..count).map(|_| (at, deed)));
            }
        }
        self.random.shuffle(&mut deeds);
        deeds
    }

    fn act(&mut self, filesystem: &Filesystem, at: usize, deed: Deed) -> Result<Done> {
        match deed {
            Deed::Create => self.make_unit(filesystem, at),
            Deed::NewDirectory => self.new_directory(filesystem, at),
            Deed::Delete => {
                if let Some(slot) = self.colonies[at].any_unit() {
                    self.delete_unit(filesystem, at, slot)?;
                }
                Ok(Done::Yes)
            }
            Deed::Append | Deed::Truncate | Deed::Overwrite | Deed::Rename | Deed::Replace => {
                let Some(slot) = self.any_file(at) else {
                    return Ok(Done::Yes);
                };
                self.tally.operations += 1;
                match deed {
                    Deed::Append => self.append(filesystem, at, slot),
                    Deed::Truncate => self.truncate(filesystem, at, slot),
                    Deed::Overwrite => self.overwrite(filesystem, at, slot),
                    Deed::Replace => self.replace(filesystem, at, slot),
                    _ => self.rename(filesystem, at, slot),
                }
            }
        }
    }

    /// Any file that is not being written.
    fn any_file(&mut self, at: usize) -> Option<u32> {
        let in_flight = &self.in_flight;
        let colony = &mut self.colonies[at];
        (0..TRIES).find_map(|_| {
            let place = colony.random.below(colony.living.len() as u64);
            let slot = *colony.living.get(place as usize)?;
            let is_busy = in_flight.iter().any(|other| other.colony == at && other.slot == slot);
            (!is_busy).then_some(slot)
        })
    }

    /// One more file, or tree of files.
    pub(super) fn make_unit(&mut self, filesystem: &Filesystem, at: usize) -> Result<Done> {
        let before = self.colonies[at].blocks;
        let done = match self.colonies[at].population.unit {
            Unit::File { .. } => self.make_file(filesystem, at),
            Unit::Tree { .. } => self.make_tree(filesystem, at),
        };
        self.colonies[at].count_unit(before);
        done
    }

    /// When a unit that is made now will end: behind everybody else where nothing is said.
    fn end_of(&mut self, at: usize) -> u64 {
        let now = self.millidays;
        let colony = &mut self.colonies[at];
        let Some(lifetime) = &colony.population.lifetime else {
            return now;
        };
        let span = lifetime.draw(&mut colony.random, u64::MAX >> 1);
        // At the beginning each has lived a part of its time already.
        let span = if now == 0 { colony.random.below(span + 1) } else { span };
        now + span.max(1)
    }

    fn make_file(&mut self, filesystem: &Filesystem, at: usize) -> Result<Done> {
        let directory = self.directory_for_file(at);
        let (slot, done) = self.write_new(filesystem, at, directory)?;
        if let Some(slot) = slot {
            let end = self.end_of(at);
            self.colonies[at].set_file_due(slot, end);
        }
        Ok(done)
    }

    /// Where a new file goes: where directories arrive, half of the files go to the newest tenth of
    /// them.
    fn directory_for_file(&mut self, at: usize) -> u32 {
        let colony = &mut self.colonies[at];
        let count = colony.directories.len() as u64;
        let Unit::File { new_directories, .. } = colony.population.unit else {
            return 0;
        };
        let least = colony.population.depth.0;
        for _ in 0..TRIES * 8 {
            let is_new = new_directories > 0 && colony.random.chance(1, 2);
            let from = if is_new { count - count.div_ceil(10) } else { 0 };
            let directory = colony.random.within(from..count) as u32;
            if colony.depth(directory) >= least {
                return directory;
            }
        }
        // The newest is always deep enough.
        (count - 1) as u32
    }

    /// Begins a file in a directory; `None` when there was no room for it at all.
    fn write_new(
        &mut self,
        filesystem: &Filesystem,
        at: usize,
        directory: u32,
    ) -> Result<(Option<u32>, Done)> {
        let size_most = self.size_most;
        let colony = &mut self.colonies[at];
        let (name, bytes) =
            (colony.number(), colony.population.size.draw(&mut colony.random, size_most));
        let path = colony.path_of(directory, name);
        self.tally.operations += 1;
        let file = match self.create(filesystem, &path) {
            Err(error) if matches!(error.kind, ErrorKind::NoSpace { .. }) => {
                return Ok((None, Done::Full));
            }
            made => made?,
        };
        self.tally.files_made += 1;
        let slot = self.colonies[at].add_file(directory, name);
        let done = self.write(
            filesystem,
            InFlight { colony: at, slot, file, offset: 0, end: bytes, beside: None },
        )?;
        Ok((Some(slot), done))
    }

    /// Makes a file. Where others live it is not one of theirs, which would be emptied.
    fn create(&self, filesystem: &Filesystem, path: &str) -> Result<File> {
        if self.others == Others::None {
            return filesystem.create_file(path, 0o644);
        }
        filesystem.make_node(path, FileType::Regular, 0o644, Device::default())?;
        filesystem.open_file(path)
    }

    /// A tree as an archive is unpacked: a directory, its files, the next directory.
    fn make_tree(&mut self, filesystem: &Filesystem, at: usize) -> Result<Done> {
        let colony = &mut self.colonies[at];
        let Unit::Tree { files, files_per_directory, names } = colony.population.unit.clone()
        else {
            return Ok(Done::Yes);
        };
        let mut left = files.draw(&mut colony.random, u64::MAX);
        let blocks_most = colony.blocks + self.blocks / LARGEST_PART;
        let number = colony.number();
        let top = colony.directories[0].path.trim_end_matches('/');
        let path = format!("{top}/{}", names.replace("%d", &number.to_string()));
        self.tally.operations += 1;
        if full(filesystem.create_dir(&path, 0o755))? == Done::Full {
            return Ok(Done::Full);
        }
        let colony = &mut self.colonies[at];
        let tree = colony.add_tree(number);
        let mut directory = colony.add_directory(path, 0);
        colony.tree_mut(tree).directories.push(directory);
        let end = self.end_of(at);
        self.colonies[at].set_tree_due(tree, end);
        loop {
            for _ in 0..files_per_directory.min(left) {
                let (slot, done) = self.write_new(filesystem, at, directory)?;
                self.colonies[at].tree_mut(tree).files.extend(slot);
                if done == Done::Full || self.colonies[at].blocks > blocks_most {
                    return Ok(done);
                }
            }
            left = left.saturating_sub(files_per_directory);
            if left == 0 {
                return Ok(Done::Yes);
            }
            match self.tree_directory(filesystem, at, tree)? {
                Some(next) => directory = next,
                None => return Ok(Done::Full),
            }
        }
    }

    /// One more directory in a tree, in any that is not too deep; `None` when there is no room.
    fn tree_directory(
        &mut self,
        filesystem: &Filesystem,
        at: usize,
        tree: u32,
    ) -> Result<Option<u32>> {
        let colony = &mut self.colonies[at];
        let most = colony.population.depth.1;
        let count = colony.tree(tree).directories.len() as u64;
        let any = colony.random.below(count) as usize;
        let mut parent = colony.tree(tree).directories[any];
        if colony.depth(parent) >= most {
            parent = colony.tree(tree).directories[0];
        }
        let (number, depth) = (colony.number(), colony.depth(parent) + 1);
        let path = format!("{}/d{number}", colony.directories[parent as usize].path);
        self.tally.operations += 1;
        if full(filesystem.create_dir(&path, 0o755))? == Done::Full {
            return Ok(None);
        }
        let colony = &mut self.colonies[at];
        let directory = colony.add_directory(path, depth);
        colony.tree_mut(tree).directories.push(directory);
        Ok(Some(directory))
    }

    /// Deletes a file or a tree.
    fn delete_unit(&mut self, filesystem: &Filesystem, at: usize, slot: u32) -> Result<()> {
        if !self.colonies[at].is_trees() {
            return self.delete_file(filesystem, at, slot);
        }
        let tree = self.colonies[at].take_tree(slot);
        for file in tree.files {
            self.delete_file(filesystem, at, file)?;
        }
        for directory in tree.directories.into_iter().rev() {
            self.tally.operations += 1;
            let path = &self.colonies[at].directories[directory as usize].path;
            filesystem.remove_dir(&**path)?;
            self.colonies[at].remove_directory(directory);
        }
        Ok(())
    }

    fn delete_file(&mut self, filesystem: &Filesystem, at: usize, slot: u32) -> Result<()> {
        // Who is still writing it stops.
        if let Some(busy) =
            self.in_flight.iter().position(|other| other.colony == at && other.slot == slot)
        {
            let writing = self.in_flight.swap_remove(busy);
            if let Some(beside) = writing.beside {
                filesystem.remove_file(beside)?;
            }
        }
        self.tally.operations += 1;
        self.tally.files_deleted += 1;
        filesystem.remove_file(self.colonies[at].path(slot))?;
        self.colonies[at].remove_file(slot);
        Ok(())
    }

    fn append(&mut self, filesystem: &Filesystem, at: usize, slot: u32) -> Result<Done> {
        let colony = &mut self.colonies[at];
        let bytes = colony.population.append.draw(&mut colony.random, self.size_most);
        let offset = colony.file(slot).bytes;
        let file = filesystem.open_file(colony.path(slot))?;
        self.write(
            filesystem,
            InFlight { colony: at, slot, file, offset, end: offset + bytes, beside: None },
        )
    }

    fn truncate(&mut self, filesystem: &Filesystem, at: usize, slot: u32) -> Result<Done> {
        let colony = &mut self.colonies[at];
        let (least, most) = colony.population.truncate_permille;
        let left = colony.random.within(least.into()..u64::from(most) + 1);
        let bytes = (u128::from(colony.file(slot).bytes) * u128::from(left) / 1000) as u64;
        let done = full(filesystem.open_file(colony.path(slot))?.set_len(bytes))?;
        if done == Done::Yes {
            colony.resize(slot, bytes);
        }
        Ok(done)
    }

    fn overwrite(&mut self, filesystem: &Filesystem, at: usize, slot: u32) -> Result<Done> {
        let colony = &mut self.colonies[at];
        let size = colony.file(slot).bytes;
        let bytes = colony.population.overwrite.draw(&mut colony.random, size);
        let offset = colony.random.within(0..size - bytes + 1);
        let file = filesystem.open_file(colony.path(slot))?;
        self.write(
            filesystem,
            InFlight { colony: at, slot, file, offset, end: offset + bytes, beside: None },
        )
    }

    /// Another name; in a tree it stays there.
    fn rename(&mut self, filesystem: &Filesystem, at: usize, slot: u32) -> Result<Done> {
        let colony = &self.colonies[at];
        let directory = match colony.is_trees() {
            true => colony.file(slot).directory,
            false => self.directory_for_file(at),
        };
        let colony = &mut self.colonies[at];
        let name = colony.number();
        let (from, to) = (colony.path(slot), colony.path_of(directory, name));
        let done = full(filesystem.rename(from, to, Rename::Replace))?;
        if done == Done::Yes {
            colony.rename(slot, directory, name);
        }
        Ok(done)
    }

    /// A new file beside the old one, which it replaces when it is whole.
    fn replace(&mut self, filesystem: &Filesystem, at: usize, slot: u32) -> Result<Done> {
        let size_most = self.size_most;
        let colony = &mut self.colonies[at];
        let bytes = colony.population.size.draw(&mut colony.random, size_most);
        let beside = format!("{}.new", colony.path(slot));
        let file = match self.create(filesystem, &beside) {
            Err(error) if matches!(error.kind, ErrorKind::NoSpace { .. }) => return Ok(Done::Full),
            made => made?,
        };
        self.write(
            filesystem,
            InFlight { colony: at, slot, file, offset: 0, end: bytes, beside: Some(beside) },
        )
    }

    /// Has a file written together with those that are being written; when there are as many as
    /// there can be, a piece of each until one has ended.
    fn write(&mut self, filesystem: &Filesystem, file: InFlight) -> Result<Done> {
        if file.beside.is_none() {
            // Counted from the beginning, so that no other is made for the same room.
            let colony = &mut self.colonies[file.colony];
            colony.resize(file.slot, colony.file(file.slot).bytes.max(file.end));
        }
        self.in_flight.push(file);
        let mut done = Done::Yes;
        while self.in_flight.len() >= self.profile.writers as usize {
            if self.turn(filesystem)? == Done::Full {
                done = Done::Full;
            }
        }
        Ok(done)
    }

    /// A piece of each file that is being written.
    fn turn(&mut self, filesystem: &Filesystem) -> Result<Done> {
        let mut done = Done::Yes;
        let mut at = 0;
        while at < self.in_flight.len() {
            let piece = self.piece(at)?;
            let writing = &self.in_flight[at];
            if piece == Done::Yes && writing.offset < writing.end {
                at += 1;
                continue;
            }
            let ended = self.in_flight.remove(at);
            if self.end_writing(filesystem, ended, piece)? == Done::Full {
                done = Done::Full;
            }
        }
        Ok(done)
    }

    /// Writes a piece. On a full volume the file stays as long as it is.
    fn piece(&mut self, at: usize) -> Result<Done> {
        let writing = &mut self.in_flight[at];
        let length = (writing.end - writing.offset).min(self.buffer.len() as u64) as usize;
        if length == 0 {
            return Ok(Done::Yes);
        }
        if writing.file.keeps_bytes() {
            let part = (writing.colony as u64) << 40 | u64::from(writing.slot);
            let mut random =
                Random::new(mix(self.seed ^ mix(part) ^ writing.offset ^ self.tally.operations));
            for word in self.buffer[..length].chunks_mut(8) {
                let bytes = random.next_u64().to_le_bytes();
                word.copy_from_slice(&bytes[..word.len()]);
            }
        }
        let written = writing.file.write_at(writing.offset, &self.buffer[..length]);
        let done = full(written.map(|_| ()))?;
        if done == Done::Yes {
            writing.offset += length as u64;
            self.tally.bytes_written += length as u64;
        }
        if done == Done::Full && writing.beside.is_none() {
            let (at, slot, bytes) = (writing.colony, writing.slot, writing.file.metadata()?.size);
            self.colonies[at].resize(slot, bytes);
        }
        Ok(done)
    }

    /// A file is whole, or as long as it could be made: a replacement takes its place, or goes.
    fn end_writing(
        &mut self,
        filesystem: &Filesystem,
        ended: InFlight,
        piece: Done,
    ) -> Result<Done> {
        let InFlight { colony: at, slot, file, offset, beside, .. } = ended;
        drop(file);
        let Some(beside) = beside else { return Ok(piece) };
        let path = self.colonies[at].path(slot);
        self.tally.operations += 1;
        if piece == Done::Yes
            && full(filesystem.rename(&beside, path, Rename::Replace))? == Done::Yes
        {
            let colony = &mut self.colonies[at];
            colony.resize(slot, offset);
            colony.renew(slot);
            return Ok(Done::Yes);
        }
        filesystem.remove_file(beside)?;
        Ok(Done::Full)
    }

    fn finish_writing(&mut self, filesystem: &Filesystem) -> Result<()> {
        while !self.in_flight.is_empty() {
            if self.turn(filesystem)? == Done::Full {
                self.tally.refused += 1;
                self.relieve(filesystem)?;
            }
        }
        Ok(())
    }

    /// The volume is full: those whose time comes next go, of the population that has the most.
    fn relieve(&mut self, filesystem: &Filesystem) -> Result<()> {
        for _ in 0..RELIEF_UNITS {
            let most = (0..self.colonies.len()).max_by_key(|at| self.colonies[*at].blocks);
            let Some(at) = most else { break };
            let Some(slot) = self.colonies[at].next_due(u64::MAX) else {
                break;
            };
            self.delete_unit(filesystem, at, slot)?;
        }
        Ok(())
    }

    /// Has units go, or more be made, until every population has what it is meant to have, give or
    /// take a unit.
    fn keep_to_goals(&mut self, filesystem: &Filesystem) -> Result<()> {
        let goals = self.goals();
        for (at, goal) in goals.into_iter().enumerate() {
            while self.colonies[at].blocks > goal + self.colonies[at].mean_unit_blocks() {
                let Some(slot) = self.colonies[at].next_due(u64::MAX) else {
                    break;
                };
                self.delete_unit(filesystem, at, slot)?;
            }
            while self.colonies[at].blocks + self.colonies[at].mean_unit_blocks() < goal {
                if self.make_unit(filesystem, at)? == Done::Full {
                    self.tally.refused += 1;
                    break;
                }
            }
        }
        self.finish_writing(filesystem)
    }
}
