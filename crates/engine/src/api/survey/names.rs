//! The directories: their blocks in the order of the disk, then their names sorted by directory.
use super::tables::{Directories, DirectoryRun};
use super::{
    Content, GAP_BYTES_MAX, NameId, NameRecord, ObjectId, READ_BYTES_MAX, Reads, Survey, too_much,
};
use crate::error::{Error, Place, Result};
use crate::flush::Core;
use crate::name::directory::{Legality, OwnNames};
use extant_format::directory::is_own;
use extant_format::directory::legal::saved_as;
use extant_format::superblock::Feature;
use extant_format::{Fault, FileBlock};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// Reads names, their text, and which of them each directory has.
pub(super) fn read(survey: &mut Survey, mut directories: Directories) -> Result<()> {
    directories.runs.sort_unstable();
    let core = Arc::clone(&survey.core);
    let block_size = core.inodes.volume.store.block_size() as usize;
    let runs = single_use(
        survey,
        &directories,
        split(&directories.runs, (READ_BYTES_MAX / block_size).max(1) as u32),
    );
    let mut reader =
        Reader { survey, core: &core, directories: &directories, unsorted: Vec::new(), block_size };
    let mut reads = Reads::new();
    let mut rest = runs.as_slice();
    while !rest.is_empty() {
        let (together, behind) = rest.split_at(reader.together(rest));
        reader.read(together, &mut reads)?;
        rest = behind;
    }
    for (at, data) in &directories.inline {
        reader.inline(*at, data)?;
    }
    let unsorted = reader.unsorted;
    sort_by_directory(survey, &directories, &unsorted)?;
    save_illegal(survey)
}

/// Splits runs into runs of at most `most` blocks.
fn split(runs: &[DirectoryRun], most: u32) -> impl Iterator<Item = DirectoryRun> + '_ {
    runs.iter().flat_map(move |run| {
        (0..run.length).step_by(most as usize).map(move |at| DirectoryRun {
            start: extant_format::BlockNo(run.start.0 + u64::from(at)),
            length: most.min(run.length - at),
            block: run.block + at,
            ..*run
        })
    })
}

/// Drops what overlaps an earlier run: no block is read for two directories, or twice for one.
fn single_use(
    survey: &mut Survey,
    directories: &Directories,
    runs: impl Iterator<Item = DirectoryRun>,
) -> Vec<DirectoryRun> {
    let mut end = 0;
    let mut kept = Vec::with_capacity(directories.runs.len());
    for run in runs {
        if run.start.0 < end {
            let object = directories.list[run.directory as usize].object;
            let place = Place::InodeBlock(survey.ino(object), run.start);
            let reason = "one that belongs to a directory already";
            survey
                .add_fault(object, Error::field(place, "directory", "block", run.start.0, reason));
            continue;
        }
        end = run.start.0 + u64::from(run.length);
        kept.push(run);
    }
    kept
}

struct Reader<'a> {
    survey: &'a mut Survey,
    core: &'a Core,
    directories: &'a Directories,
    /// Names in the order of the disk; `directory` is an index into the list of directories.
    unsorted: Vec<NameRecord>,
    block_size: usize,
}

impl Reader<'_> {
    /// How many of the runs are close enough to be read together; at least 1.
    fn together(&self, runs: &[DirectoryRun]) -> usize {
        let block_size = self.block_size as u64;
        let start = runs.first().map_or(0, |run| run.start.0);
        let is_close = |pair: &&[DirectoryRun]| {
            let [last, next] = pair else { return false };
            let end = last.start.0 + u64::from(last.length);
            let span = (next.start.0 + u64::from(next.length) - start) * block_size;
            (next.start.0 - end) * block_size <= GAP_BYTES_MAX && span <= READ_BYTES_MAX as u64
        };
        1 + runs.windows(2).take_while(is_close).count()
    }

    fn read(&mut self, runs: &[DirectoryRun], reads: &mut Reads) -> Result<()> {
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
            return Ok(());
        };
        let block_size = self.block_size as u64;
        let range =
            first.start.0 * block_size..(last.start.0 + u64::from(last.length)) * block_size;
        match reads.read(&*self.core.inodes.volume.store.device, range) {
            Ok(bytes) => {
                for run in runs {
                    let start = (run.start.0 - first.start.0) as usize * self.block_size;
                    let end = start + run.length as usize * self.block_size;
                    self.blocks(run, bytes.get(start..end).unwrap_or_default())?;
                }
                Ok(())
            }
            Err(error) => self.unreadable(runs, error),
        }
    }

    /// Reads the blocks one by one, after reading them together failed.
    fn unreadable(&mut self, runs: &[DirectoryRun], error: Error) -> Result<()> {
        let mut bytes = vec![0; self.block_size];
        let mut first = Some(error);
        for block in split(runs, 1) {
            match self
                .core
                .inodes
                .volume
                .store
                .device
                .read(block.start.0 * self.block_size as u64, &mut bytes)
            {
                Ok(()) => self.blocks(&block, &bytes)?,
                Err(error) => {
                    let object = self.directories.list[block.directory as usize].object;
                    let error = first.take().unwrap_or_else(|| error.into());
                    self.survey.add_fault(object, error);
                }
            }
        }
        Ok(())
    }

    /// Takes the names out of the blocks of a run.
    fn blocks(&mut self, run: &DirectoryRun, bytes: &[u8]) -> Result<()> {
        let directory = &self.directories.list[run.directory as usize];
        let volume = &self.core.inodes.volume;
        let is_checked = volume.store.superblock.has(Feature::METADATA_CSUM);
        for (at, bytes) in (0..).zip(bytes.chunks_exact(self.block_size)) {
            let block = FileBlock(run.block + at);
            let mut outcome = match is_checked {
                true => volume.store.style.verify(bytes, block, directory.form, directory.seed),
                false => Ok(()),
            };
            if outcome.is_ok() {
                outcome = self.names(run.directory, block, bytes)?;
            }
            if let Err(fault) = outcome {
                let place = extant_format::BlockNo(run.start.0 + u64::from(at));
                let place = Place::InodeBlock(self.survey.ino(directory.object), place);
                self.survey.add_fault(directory.object, Error::corrupt(place, fault));
            }
        }
        Ok(())
    }

    /// Takes the names out of the inode of a directory.
    fn inline(&mut self, directory: u32, data: &[u8]) -> Result<()> {
        let object = self.directories.list[directory as usize].object;
        let ino = self.survey.ino(object);
        let block = self.core.inodes.volume.store.style.block_of_inline(ino, data);
        let outcome = match block {
            Ok(bytes) => self.names(directory, FileBlock(0), &bytes)?,
            Err(fault) => Err(fault),
        };
        if let Err(fault) = outcome {
            self.survey.add_fault(object, Error::corrupt(Place::Inode(ino), fault));
        }
        Ok(())
    }

    /// Takes the names out of one block, up to what is wrong with it.
    fn names(
        &mut self,
        directory: u32,
        block: FileBlock,
        bytes: &[u8],
    ) -> Result<std::result::Result<(), Fault>> {
        let mut own = OwnNames::of(block);
        let naming = self.directories.list[directory as usize].naming;
        let entries = self.core.inodes.volume.store.style.all_entries(bytes);
        let mut outcome = Ok(());
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(fault) => {
                    outcome = Err(fault);
                    break;
                }
            };
            let legality = own.legality(entry.name);
            if is_own(entry.name) && legality == Legality::Legal {
                continue;
            }
            let (name, legality) = naming.shown(bytes, &entry, legality);
            self.unsorted.push(NameRecord {
                directory: ObjectId(directory),
                ino: entry.ino,
                start: self.survey.text.len() as u32,
                length: name.len() as u8,
                legality,
            });
            self.survey.text.extend_from_slice(&name);
        }
        // The offsets above may have been cut to 32 bits; nothing of this block is kept then.
        if u32::try_from(self.survey.text.len()).is_err()
            || u32::try_from(self.unsorted.len()).is_err()
        {
            return Err(too_much());
        }
        Ok(outcome)
    }
}

fn sort_by_directory(
    survey: &mut Survey,
    directories: &Directories,
    unsorted: &[NameRecord],
) -> Result<()> {
    let mut next = vec![0_u32; directories.list.len()];
    for record in unsorted {
        next[record.directory.0 as usize] += 1;
    }
    let mut first = 0;
    for (directory, count) in directories.list.iter().zip(&mut next) {
        survey.objects[directory.object.0 as usize].content =
            Content::Names { first, count: *count };
        (first, *count) = (first + *count, first);
    }
    let empty = NameRecord {
        directory: ObjectId(0),
        ino: extant_format::Ino(0),
        start: 0,
        length: 0,
        legality: Legality::Legal,
    };
    survey.names = vec![empty; unsorted.len()];
    for record in unsorted {
        let place = &mut next[record.directory.0 as usize];
        let directory = directories.list[record.directory.0 as usize].object;
        survey.names[*place as usize] = NameRecord { directory, ..*record };
        *place += 1;
    }
    Ok(())
}

/// Gives names that no file may have others, which no other name of their directory is.
fn save_illegal(survey: &mut Survey) -> Result<()> {
    let names = (0..).zip(&survey.names);
    let illegal = names.filter(|(_, record)| record.legality == Legality::Illegal);
    let mut illegal: Vec<NameId> = illegal.map(|(id, _)| NameId(id)).collect();
    // By number, so that all readers come to the same names.
    illegal.sort_by_key(|name| {
        (survey.directory_of(*name), survey.leads_to(*name), survey.name(*name).to_vec())
    });
    let mut taken: FxHashSet<Vec<u8>> = FxHashSet::default();
    let mut of = None;
    for name in illegal {
        let directory = survey.directory_of(name);
        if of.replace(directory) != Some(directory) {
            let is_legal = |name: &NameId| {
                survey.names.get(name.0 as usize).is_some_and(|r| r.legality == Legality::Legal)
            };
            let legal = survey.names(directory).filter(is_legal);
            taken = legal.map(|name| survey.name(name).to_vec()).collect();
        }
        let saved =
            saved_as(survey.name(name), survey.leads_to(name), &mut |name| taken.contains(name));
        let (start, length) = (survey.keep_text(&saved)?, saved.len() as u8);
        let Some(record) = survey.names.get_mut(name.0 as usize) else { continue };
        let before = record.start as usize;
        survey.stored.insert(name, before..before + usize::from(record.length));
        (record.start, record.length) = (start, length);
        taken.insert(saved);
    }
    Ok(())
}
