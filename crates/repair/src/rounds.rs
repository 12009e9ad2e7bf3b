//! A check, edits for what it found, and again, until nothing is left or nothing changes.
use crate::bitmaps::Marked;
use crate::considered::{Unread, considered, doubtful, is_sum};
use crate::corrected::{self, Corrected};
use crate::draft::Draft;
use crate::earlier::Earlier;
use crate::error::Error;
use crate::options::{LostFound, Optimize, RepairOptions, Scope};
use crate::outcome::{Change, Repaired, is_clean};
use crate::preen::Preening;
use crate::recovery::{freed_orphans, recovered};
use crate::scope::{frees, price};
use crate::shape::{self, Shaped};
use crate::{
    bitmaps, connect, directories, duplicates, earlier, growth_map, index, inline, inodes, journal,
    orphans, places, primary, quota, regain, reserved, superblock,
};
use extant_block::{BlockDevice, Overlay};
use extant_format::Ino;
use extant_format::inode::flags;
use extant_format::superblock::{SUPERBLOCK_OFFSET, Superblock, state};
use extant_inspect::{CheckOptions, CheckReport, Code, Pass, Problem, Usage};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Memory for changed blocks, in bytes; more are in the spool.
pub(crate) const MEMORY_BYTES_MAX: u64 = 64 << 20;
/// Checks after which a volume is left as it is.
const ROUNDS_MAX: u32 = 12;
/// Rounds in which places are looked for that nothing leads to.
const PLACES_ROUNDS: u32 = 3;
/// Checks after which a volume is clean again that something was made smaller on.
const IMPROVING_ROUNDS: u32 = 4;
/// What was mended is kept up to this number.
const CHANGES_MAX: usize = 100_000;
/// Changed blocks are kept in pieces of this size where the volume does not say its own.
const BLOCK_BYTES: u32 = 1024;

/// Mends a volume in memory.
///
/// # Errors
/// The device fails; the device holds no ext2, ext3 or ext4 volume, nor a copy of its superblock,
/// or one whose features are not known, or none at the place that was named; another machine holds
/// it; its journal is on another device; memory for the changes does not suffice and there is no
/// spool.
pub fn repair(device: Arc<dyn BlockDevice>, options: RepairOptions) -> Result<Repaired, Error> {
    let RepairOptions { scope, superblock, spool, .. } = options;
    let named = superblock.map(|place| primary::at(&device, place)).transpose()?;
    let superblock = named.clone().or_else(|| extant_engine::read_superblock(&*device).ok());
    let block_size = superblock.as_ref().map_or(BLOCK_BYTES, Superblock::block_size);
    let overlay = Overlay::new(device, block_size, MEMORY_BYTES_MAX);
    let overlay = Arc::new(match spool {
        Some(spool) => overlay.with_spool(spool),
        None => overlay,
    });
    let over = Arc::clone(&overlay) as Arc<dyn BlockDevice>;
    let (recovery, mended) = recovered(&over, named.as_ref())?;
    let how = CheckOptions {
        threads: options.threads,
        progress: options.progress,
        ..CheckOptions::default()
    };
    let mut mender = Mender {
        overlay: Arc::clone(&overlay),
        how,
        scope,
        now: u32::try_from(options.now_seconds).unwrap_or(u32::MAX),
        round: 0,
        changes: mended.into_iter().map(before_the_first_check).collect(),
        omitted: 0,
        doubtful: BTreeSet::new(),
        corrected: Corrected::default(),
        regained: regain::Regained::default(),
        unindexed: BTreeSet::new(),
        lost_found: options.lost_found,
        optimize: options.optimize,
        made_lost_found: false,
        connected: BTreeSet::new(),
        has_late_orphans: false,
        shaped: Shaped::default(),
        was_clean: false,
    };
    let (found, left) = mender.run()?;
    if is_clean(&left) {
        signed(&overlay, mender.now)?;
    }
    let Mender { round: rounds, changes, omitted, made_lost_found, shaped, .. } = mender;
    Ok(Repaired {
        overlay,
        block_size,
        recovery,
        found,
        left,
        rounds,
        changes,
        omitted,
        made_lost_found,
        indexed: shaped.directories,
        smaller_trees: shaped.trees,
    })
}

/// Notes in the superblock that the volume was checked and is clean, if anything was changed or it
/// does not say so.
fn signed(overlay: &Overlay, now: u32) -> Result<(), Error> {
    // One that has a field that no check looks at stays as it is.
    let Ok(mut superblock) = extant_engine::read_superblock(overlay) else { return Ok(()) };
    let says_clean = superblock.state & (state::CLEAN | state::ERRORS) == state::CLEAN;
    if says_clean && overlay.written().is_empty() {
        return Ok(());
    }
    superblock.clear_errors();
    superblock.state |= state::CLEAN;
    superblock.mount_count = 0;
    superblock.checked_seconds = now.into();
    superblock.written_seconds = now.into();
    // tidy: writers because it is an overlay in memory
    Ok(overlay.write(SUPERBLOCK_OFFSET, &superblock.encode())?)
}

/// What had to be mended for the first check to find what there is.
fn before_the_first_check(problem: Problem) -> Change {
    Change { problem, round: 0, loss: None }
}

/// Whether a problem means that no byte of the volume may be written: what it is cannot be known.
fn forbids(code: Code) -> bool {
    use Code as C;
    matches!(
        code,
        C::SuperblockUnusable
            | C::SuperblockField
            | C::DeviceTooSmall
            | C::UnknownIncompatible
            | C::UnknownFeature
            | C::MountBlockHeld
            | C::IsJournalDevice
            | C::TooManyGroups
            | C::RootTablePlace
    )
}

/// A repair under way.
struct Mender {
    overlay: Arc<Overlay>,
    how: CheckOptions,
    scope: Scope,
    now: u32,
    round: u32,
    changes: Vec<Change>,
    omitted: u64,
    /// Inodes of which a checksum is wrong, and something else too.
    doubtful: BTreeSet<Ino>,
    corrected: Corrected,
    regained: regain::Regained,
    /// Directories that lost their index in this repair, and get another one at its end.
    unindexed: BTreeSet<Ino>,
    /// What is still to be made.
    lost_found: LostFound,
    optimize: Optimize,
    made_lost_found: bool,
    /// Directories that hung on nothing, and are in `lost+found` now.
    connected: BTreeSet<Ino>,
    /// Orphans were freed after the first check.
    has_late_orphans: bool,
    shaped: Shaped,
    /// Nothing was wrong when something was made, and the counts that follow from it are mended.
    was_clean: bool,
}

impl Mender {
    /// Gives the first report, and the last.
    fn run(&mut self) -> Result<(CheckReport, CheckReport), Error> {
        let mut first = None;
        let mut last = Progress::Made;
        let mut earlier = None;
        loop {
            self.round = self.round.saturating_add(1);
            let (report, usage) = earlier::examine(&self.overlay, &self.how, earlier.take())?;
            let first = first.get_or_insert_with(|| report.clone());
            let (report, usage) = match self.round {
                1 => self.by_the_best((report, usage))?,
                _ => (report, usage),
            };
            if self.places(&report, usage.as_ref())? == Progress::Made
                || self.frees_late_orphans(&report)?
            {
                continue;
            }
            if let Some(problem) = report.problems.iter().find(|problem| forbids(problem.code)) {
                return Err(Error::Refused(problem.to_string()));
            }
            let Some(usage) = usage else { return Ok((first.clone(), report)) };
            if self.round >= ROUNDS_MAX && !is_clean(&report) {
                // What is between two rounds may be worse than before.
                let left = report.problems.iter().map(ToString::to_string).next();
                return Err(Error::Refused(format!(
                    "its problems come back: not clean after {ROUNDS_MAX} rounds, nothing is \
                     written; at last {}",
                    left.unwrap_or_default()
                )));
            }
            self.was_clean &= !report.problems.is_empty();
            if !self.unindexed.is_empty() && (is_clean(&report) || last == Progress::None) {
                self.index(&report, usage)?;
                continue;
            }
            if is_clean(&report) && self.lost_found == LostFound::Always {
                self.lost_found = LostFound::WhereNeeded;
                self.lost_found(usage)?;
                continue;
            }
            if is_clean(&report) && self.may_improve(&usage) {
                self.improve(usage)?;
                continue;
            }
            let noted = self.changes.len();
            let blocks = self.overlay.changed();
            let (progress, usage) = self.mend(&report, usage)?;
            last = progress;
            earlier = usage.map(|usage| Earlier { report: report.clone(), usage, blocks });
            if self.was_clean {
                // Counters and links of what was made here: nothing of it was wrong before.
                self.changes.truncate(noted);
            }
            if last == Progress::None && self.unindexed.is_empty() {
                return Ok((first.clone(), report));
            }
        }
    }

    /// Frees orphans that wait where nothing else is wrong any more, once: the superblock that has
    /// their list could not be used before the first check. Gives whether there were any.
    fn frees_late_orphans(&mut self, report: &CheckReport) -> Result<bool, Error> {
        let waits = report.counts.contains_key(Code::OrphansWait.rule().name);
        if !waits || !report.is_clean() || self.round == 1 || self.has_late_orphans {
            return Ok(false);
        }
        self.has_late_orphans = true;
        let over = Arc::clone(&self.overlay) as Arc<dyn BlockDevice>;
        Ok(freed_orphans(&over)?.is_some())
    }

    /// Makes `lost+found` in a volume that is clean; a file of that name is left as it is.
    fn lost_found(&mut self, usage: Usage) -> Result<(), Error> {
        let mut draft = Draft::new(&self.overlay, usage, self.now, self.scope);
        if !connect::make_lost_found(&mut draft)? {
            return Ok(());
        }
        self.made_lost_found = true;
        self.was_clean = true;
        self.unindexed.append(&mut draft.unindexed);
        bitmaps::write_stale(&draft, Marked::Freed)
    }

    /// Whether anything could be smaller or faster, and there are checks left to see what came of
    /// it.
    fn may_improve(&self, usage: &Usage) -> bool {
        let directories = || !usage.unindexed_directories().is_empty();
        let trees = || !usage.large_trees().is_empty();
        let is_asked_for = match self.optimize {
            Optimize::Nothing => false,
            Optimize::Directories => directories(),
            Optimize::DirectoriesAndTrees => directories() || trees(),
        };
        is_asked_for && self.round.saturating_add(IMPROVING_ROUNDS) < ROUNDS_MAX
    }

    /// Makes smaller and faster what can be, once.
    fn improve(&mut self, usage: Usage) -> Result<(), Error> {
        let mut draft = Draft::new(&self.overlay, usage, self.now, self.scope);
        let optimize = std::mem::replace(&mut self.optimize, Optimize::Nothing);
        self.shaped = shape::improve(&mut draft, optimize)?;
        self.was_clean = true;
        bitmaps::write_stale(&draft, Marked::Freed)
    }

    /// Makes the indexes anew that were taken away, each once.
    fn index(&mut self, report: &CheckReport, usage: Usage) -> Result<(), Error> {
        let mut draft = Draft::new(&self.overlay, usage, self.now, self.scope);
        // What cannot be read in a directory stays as it is.
        let is_torn = |ino: &Ino| {
            let of_it = |it: &Problem| it.ino == Some(*ino) && it.rule().pass != Pass::Links;
            report.omitted > 0 || report.problems.iter().any(of_it)
        };
        let unindexed = std::mem::take(&mut self.unindexed).into_iter();
        for ino in unindexed.filter(|ino| !is_torn(ino)) {
            index::build(&mut draft, ino)?;
        }
        self.was_clean = is_clean(report);
        let marked = match is_clean(report) || self.scope == Scope::All {
            true => Marked::Freed,
            false => Marked::Kept,
        };
        bitmaps::write_stale(&draft, marked)
    }

    /// What is found by the superblock that fits best.
    fn by_the_best(
        &mut self,
        found: (CheckReport, Option<Usage>),
    ) -> Result<(CheckReport, Option<Usage>), Error> {
        let over = Arc::clone(&self.overlay) as Arc<dyn BlockDevice>;
        let chosen = primary::chosen(&over, found, (&self.how, self.scope))?;
        if let Some(block) = chosen.from {
            self.note(&Problem::new(Code::SuperblockDamaged).block(block), true);
        }
        Ok((chosen.report, chosen.usage))
    }

    /// Whether a copy says what the first superblock says.
    fn is_confirmed(&self) -> bool {
        let over = Arc::clone(&self.overlay) as Arc<dyn BlockDevice>;
        primary::is_confirmed(&over)
    }

    /// Finds again what nothing leads to, before anything else is mended.
    fn places(&mut self, report: &CheckReport, usage: Option<&Usage>) -> Result<Progress, Error> {
        if self.scope < Scope::Safe || self.round > PLACES_ROUNDS {
            return Ok(Progress::None);
        }
        let mounts = report.problems.iter().find(|problem| problem.code == Code::MountBlock);
        if let Some(problem) = mounts {
            places::mount_block(&self.overlay, self.now)?;
            self.note(problem, true);
            return Ok(Progress::Made);
        }
        if let Some(problem) = places::numbers_of_inodes(&self.overlay, report)? {
            self.note(&problem, true);
            return Ok(Progress::Made);
        }
        let reserved = report.problems.iter().find(|problem| problem.code == Code::ReservedBlocks);
        if let Some(problem) = reserved {
            places::reserved_blocks(&self.overlay)?;
            self.note(problem, true);
            return Ok(Progress::Made);
        }
        let resize = report.problems.iter().find(|problem| problem.code == Code::ResizeInode);
        if let Some(problem) = resize.filter(|_| places::is_called_for(report))
            && reserved::settle(&self.overlay)?
        {
            self.note(problem, true);
            return Ok(Progress::Made);
        }
        let mut found = places::of_never_used(&self.overlay, report)?;
        if found.is_empty() && places::is_called_for(report) {
            found = places::of_groups(&self.overlay, (report, usage))?;
        }
        let count = found.len();
        for problem in found {
            self.changes.push(Change { problem, round: self.round, loss: None });
        }
        Ok(if count > 0 { Progress::Made } else { Progress::None })
    }

    /// Edits the overlay for what a check found. Gives back what it counted, where nothing else was
    /// to be mended first.
    fn mend(
        &mut self,
        report: &CheckReport,
        usage: Usage,
    ) -> Result<(Progress, Option<Usage>), Error> {
        // What a log holds may be what is missing: nothing is safe beside it.
        let waits = report.problems.iter().any(|it| it.code == Code::NeedsRecovery);
        // All checksums begin with the UUID of a superblock that nothing confirms.
        let is_torn = report.problems.iter().any(|it| it.code == Code::SuperblockChecksum);
        if (waits || is_torn && !self.is_confirmed()) && self.scope != Scope::All {
            return Ok((Progress::None, None));
        }
        let mut draft = Draft::new(&self.overlay, usage, self.now, self.scope);
        if self.numbers(&mut draft, report)? == Progress::Made
            || self.regain(&mut draft, report)? == Progress::Made
        {
            bitmaps::write_stale(&draft, Marked::Kept)?;
            return Ok((Progress::Made, None));
        }
        let several = report.problems.iter().filter(|it| it.rule().pass == Pass::Duplicates);
        let shared = duplicates::shared_nodes(&draft, several.filter_map(|it| it.ino))?;
        draft.shared = shared.blocks;
        let before = self.mended();
        let named = self.keep_named(&mut draft, report)?;
        self.doubtful = doubtful(report);
        let problems = considered(report, &named, &shared.files, self.scope);
        let within = self.within(&draft, report, problems);
        let is_of = |pass: Pass| within.iter().copied().filter(move |it| it.rule().pass == pass);
        for problem in is_of(Pass::Volume) {
            let is_done = superblock::mend(&mut draft, problem)?
                || journal::mend(&mut draft, problem)?
                || orphans::mend(&mut draft, problem)?
                || self.of_orphan(&mut draft, problem)?;
            self.note(problem, is_done);
        }
        self.inodes(&mut draft, is_of(Pass::Inodes))?;
        self.duplicates(&mut draft, &is_of(Pass::Duplicates).collect::<Vec<_>>())?;
        // What stands in blocks that two directories share is twice in none, once each has its own.
        let shares = |ino: Option<Ino>| is_of(Pass::Duplicates).any(|it| it.ino == ino);
        let of_one = |it: &&Problem| it.code != Code::DirectoryTwice || !shares(it.ino);
        self.directories(&mut draft, is_of(Pass::Directories).filter(of_one))?;
        let unread = self.unread(&draft, report, before);
        if unread != Unread::Names {
            self.links(&mut draft, is_of(Pass::Connectivity).chain(is_of(Pass::Links)))?;
        }
        let others = report.problems.iter().any(|it| it.rule().pass < Pass::Bitmaps);
        let is_kept = others && self.scope != Scope::All || unread != Unread::Nothing;
        let marked = if is_kept { Marked::Kept } else { Marked::Freed };
        self.bitmaps(&mut draft, is_of(Pass::Bitmaps), marked)?;
        bitmaps::write_stale(&draft, marked)?;
        self.unindexed.append(&mut draft.unindexed);
        let progress = match self.mended() > before {
            true => Progress::Made,
            false => Progress::None,
        };
        Ok((progress, Some(draft.usage)))
    }

    /// Of the problems that are considered those that may be mended.
    fn within<'a>(
        &self,
        draft: &Draft,
        report: &CheckReport,
        problems: Vec<&'a Problem>,
    ) -> Vec<&'a Problem> {
        let preening = Preening::of(report);
        // Where it cannot be read it is left.
        let may_be = |problem: &Problem| preening.is_within(draft, problem).unwrap_or(false);
        let lost = self.lost(report, &may_be);
        let is_doubtful = |problem: &&Problem| {
            let of_content = matches!(problem.rule().pass, Pass::Inodes | Pass::Duplicates);
            of_content && problem.ino.is_some_and(|ino| self.doubtful.contains(&ino))
        };
        let mut within: Vec<&Problem> = problems
            .into_iter()
            .filter(|problem| self.scope != Scope::Safe || !is_doubtful(problem))
            .filter(|problem| may_be(problem))
            .filter(|problem| !Whole::of(problem).is_some_and(|whole| lost.contains(&whole)))
            .collect();
        // Who keeps a block is decided of all that have it, or not at all.
        let several = |problem: &&Problem| problem.rule().pass == Pass::Duplicates;
        let all = report.problems.iter().filter(several).count();
        if within.iter().filter(|it| several(it)).count() < all {
            within.retain(|problem| !several(problem));
        }
        within
    }

    /// What waits, after so many problems that were mended before this round.
    fn unread(&self, draft: &Draft, report: &CheckReport, before: u64) -> Unread {
        match self.scope {
            // What e2fsck does without asking it does at once.
            Scope::Preen => Unread::Nothing,
            // What is not mended now will not be.
            Scope::All if self.mended() == before => Unread::Nothing,
            Scope::Safe | Scope::All => Unread::of(report, draft),
        }
    }

    /// Sets right numbers of files of the system that lead to others: what else is wrong follows
    /// from it, or is found by the right file.
    fn numbers(&mut self, draft: &mut Draft, report: &CheckReport) -> Result<Progress, Error> {
        if self.scope < Scope::Safe {
            return Ok(Progress::None);
        }
        let renumbered = quota::renumber(draft, report)?;
        let progress = if renumbered.is_empty() { Progress::None } else { Progress::Made };
        for (problem, found) in renumbered {
            let loss = match found {
                quota::Found::File => None,
                quota::Found::Nothing => Some("limits of quota, where there were any".into()),
            };
            self.changes.push(Change { problem, round: self.round, loss });
        }
        Ok(progress)
    }

    /// Files that have a name and the flag of a value, and are the value of no attribute: it is the
    /// flag that is wrong.
    fn keep_named(
        &mut self,
        draft: &mut Draft,
        report: &CheckReport,
    ) -> Result<BTreeSet<Ino>, Error> {
        let mut kept = BTreeSet::new();
        if self.scope < Scope::Safe {
            return Ok(kept);
        }
        let values: BTreeSet<Ino> = draft.usage.values().into_iter().collect();
        for problem in report.problems.iter().filter(|it| it.code == Code::EntryToValue) {
            let Some(ino) = problem.other.filter(|ino| !values.contains(ino)) else { continue };
            let Some(mut inode) = draft.inode(ino)?.filter(|_| kept.insert(ino)) else { continue };
            inode.flags &= !flags::EA_INODE;
            draft.write_inode(ino, &inode)?;
            self.changes.push(Change { problem: problem.clone(), round: self.round, loss: None });
        }
        Ok(kept)
    }

    /// Sets right what proves what it was, bytes and then files: what else is wrong, with what is
    /// in them and with bitmaps, follows from what they were taken for.
    fn regain(&mut self, draft: &mut Draft, report: &CheckReport) -> Result<Progress, Error> {
        if self.scope < Scope::Safe {
            return Ok(Progress::None);
        }
        let mut regained = corrected::mend(draft, report, &mut self.corrected)?;
        if regained.is_empty() {
            regained = regain::mend(draft, report, &mut self.regained)?;
        }
        let progress = if regained.is_empty() { Progress::None } else { Progress::Made };
        regained.into_iter().for_each(|problem| self.add(&problem, None));
        Ok(progress)
    }

    /// The maps and directories of which something would be lost, or by -p decided without asking:
    /// they are not written anew, where that is not to be.
    fn lost(&self, report: &CheckReport, within: &dyn Fn(&Problem) -> bool) -> BTreeSet<Whole> {
        if self.scope == Scope::All {
            return BTreeSet::new();
        }
        let is_left = |problem: &&Problem| match self.scope {
            Scope::Preen => problem.code != Code::EntryTwiceApart && !within(problem),
            _ => price(problem.code).loss().is_some(),
        };
        report.problems.iter().filter(is_left).filter_map(Whole::of).collect()
    }

    fn of_orphan(&mut self, draft: &mut Draft, problem: &Problem) -> Result<bool, Error> {
        let ino = problem.ino.filter(|_| problem.code == Code::OrphanDeleted);
        ino.map_or(Ok(false), |ino| inodes::mend(draft, ino, problem))
    }

    /// Blocks of several files, by file.
    fn duplicates(&mut self, draft: &mut Draft, problems: &[&Problem]) -> Result<(), Error> {
        let files = problems.iter().filter_map(|problem| problem.ino).collect();
        let mut kept = BTreeSet::new();
        for ino in duplicates::in_order(draft, files)? {
            let is_done = duplicates::mend(draft, ino, &mut kept)?;
            let of_file = problems.iter().filter(|problem| problem.ino == Some(ino));
            of_file.for_each(|problem| self.note(problem, is_done));
        }
        Ok(())
    }

    /// Places in the tree of directories, and counts of links.
    fn links<'a>(
        &mut self,
        draft: &mut Draft,
        problems: impl Iterator<Item = &'a Problem>,
    ) -> Result<(), Error> {
        for problem in problems {
            let ino = problem.ino.unwrap_or(Ino(0));
            if draft.cleared.contains(&ino) {
                continue;
            }
            // It is in lost+found, and what else named it does so no more.
            let is_again =
                problem.code == Code::DirectoryUnreachable && draft.usage.parent(ino).is_some();
            if is_again && self.connected.contains(&ino) {
                continue;
            }
            let is_done = connect::mend(draft, problem)? || inodes::mend(draft, ino, problem)?;
            if is_done && problem.code == Code::DirectoryUnreachable {
                self.connected.insert(ino);
            }
            match draft.cleared.contains(&ino) {
                true => self.add(problem, Some("an empty file that has no name".into())),
                false => self.note(problem, is_done),
            }
        }
        Ok(())
    }

    fn inodes<'a>(
        &mut self,
        draft: &mut Draft,
        problems: impl Iterator<Item = &'a Problem>,
    ) -> Result<(), Error> {
        let (mut rebuilt, mut touched) = (BTreeSet::new(), BTreeSet::new());
        let problems: Vec<&Problem> = problems.collect();
        let garbage = match self.scope {
            Scope::All => inodes::garbage(draft, &problems),
            _ => BTreeSet::new(),
        };
        let has_map_for_growth = !problems.iter().any(|it| it.code == Code::ResizeInode);
        for problem in problems {
            let Some(ino) = problem.ino else { continue };
            if garbage.contains(&ino) {
                if !draft.cleared.contains(&ino) {
                    draft.clear_inode(ino)?;
                    self.add(problem, price(Code::InodeChecksumUnread).loss().map(str::to_owned));
                }
                continue;
            }
            // What is left of it once the rest is mended may be worth more.
            if touched.contains(&ino) && frees(problem.code) {
                continue;
            }
            touched.insert(ino);
            if inodes::is_of_map(problem.code) && !rebuilt.insert(ino) {
                self.note(problem, true);
                continue;
            }
            let is_done = match problem.code {
                Code::ResizeInode => growth_map::mend(draft)?,
                Code::ClusterSplit => duplicates::mend(draft, ino, &mut BTreeSet::new())?,
                // All of it follows from the superblock.
                Code::SectorCount if ino == Ino::RESIZE && !has_map_for_growth => {
                    growth_map::mend(draft)?
                }
                code if ino == Ino::RESIZE && inodes::is_of_map(code) => growth_map::mend(draft)?,
                _ => superblock::mend(draft, problem)? || inodes::mend(draft, ino, problem)?,
            };
            match problem.code {
                // It has the type that it had.
                Code::InodeChecksumUnread if is_done && !draft.cleared.contains(&ino) => {
                    self.add(problem, self.doubt(problem));
                }
                _ => self.note(problem, is_done),
            }
        }
        Ok(())
    }

    fn directories<'a>(
        &mut self,
        draft: &mut Draft,
        problems: impl Iterator<Item = &'a Problem>,
    ) -> Result<(), Error> {
        let mut by_inode: BTreeMap<Ino, Vec<&Problem>> = BTreeMap::new();
        for problem in problems.filter(|problem| problem.code != Code::EntryTwiceApart) {
            // What was cut off has its other names in its own loop.
            let is_here =
                |ino: &Ino| problem.name.as_deref() == Some(connect::name_of(*ino).as_slice());
            let other = problem.other.filter(|ino| self.connected.contains(ino) && is_here(ino));
            if let (Code::DirectoryTwice, Some(home), Some(ino)) =
                (problem.code, problem.ino, other)
            {
                let is_done = connect::forget(draft, ino, home)?;
                self.note(problem, is_done);
                continue;
            }
            if let Some(ino) = problem.ino.filter(|ino| !draft.cleared.contains(ino)) {
                by_inode.entry(ino).or_default().push(problem);
            }
        }
        for (ino, problems) in by_inode {
            let is_done = match inline::is_inline(draft, ino)? {
                true => inline::mend(draft, ino, &problems)?,
                false => directories::mend(draft, ino, &problems)?,
            };
            problems.into_iter().for_each(|problem| self.note(problem, is_done));
        }
        Ok(())
    }

    /// Bitmaps and counters, where what they mark without need may be freed: what else is wrong may
    /// need it.
    fn bitmaps<'a>(
        &mut self,
        draft: &mut Draft,
        problems: impl Iterator<Item = &'a Problem>,
        marked: Marked,
    ) -> Result<(), Error> {
        for problem in problems {
            if marked == Marked::Kept {
                continue;
            }
            let is_done = match problem.group {
                Some(group) => draft.stale.insert(group) || draft.stale.contains(&group),
                None => match (problem.code, problem.ino) {
                    (Code::QuotaUsage | Code::QuotaFile, Some(ino)) => {
                        quota::mend(draft, ino, problem.code)?
                    }
                    _ => superblock::mend(draft, problem)?,
                },
            };
            self.note(problem, is_done);
        }
        Ok(())
    }

    /// How many problems were mended.
    fn mended(&self) -> u64 {
        self.changes.len() as u64 + self.omitted
    }

    // tidy: boolean because it is the outcome of an edit that stands in each call
    fn note(&mut self, problem: &Problem, is_done: bool) {
        if is_done {
            if let (Code::SectorCount, Some(ino)) = (problem.code, problem.ino) {
                self.regained.has_counted(ino);
            }
            let loss = price(problem.code).loss().map(str::to_owned);
            self.add(problem, loss.or_else(|| self.doubt(problem)));
        }
    }

    /// What is lost where a checksum is all that says so.
    fn doubt(&self, problem: &Problem) -> Option<String> {
        let is_of_doubt = match problem.code {
            code if is_sum(code) => true,
            Code::SuperblockChecksum => !self.is_confirmed(),
            _ => false,
        };
        let is_doubtful = problem.ino.is_none_or(|ino| self.doubtful.contains(&ino));
        (is_of_doubt && is_doubtful)
            .then(|| "its checksum says that it is not what was written, and it is kept".to_owned())
    }

    fn add(&mut self, problem: &Problem, loss: Option<String>) {
        if self.changes.len() >= CHANGES_MAX {
            self.omitted = self.omitted.saturating_add(1);
            return;
        }
        self.changes.push(Change { problem: problem.clone(), round: self.round, loss });
    }
}

/// What is written anew whole, whatever is wrong with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Whole {
    Map(Option<Ino>),
    Directory(Option<Ino>),
}

impl Whole {
    /// That which a problem is of.
    fn of(problem: &Problem) -> Option<Whole> {
        match problem.rule().pass {
            Pass::Directories => Some(Whole::Directory(problem.ino)),
            Pass::Duplicates => Some(Whole::Map(problem.ino)),
            _ if inodes::is_of_map(problem.code) || inodes::is_of_length(problem.code) => {
                Some(Whole::Map(problem.ino))
            }
            _ => None,
        }
    }
}

/// Whether a round changed anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    None,
    Made,
}
