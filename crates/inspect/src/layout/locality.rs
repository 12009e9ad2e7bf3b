//! The second pass of a survey: what directories hold, and how far their files are.
use super::maps::ratio;
use super::report::Locality;
use super::{Survey, each_file};
use crate::error::Error;
use crate::map::{self, Claimed, Visit};
use crate::paths::{NameOf, PathTable};
use crate::volume::Volume;
use extant_format::directory::Style;
use extant_format::directory::stored::is_dots;
use extant_format::inode::{FileType, Inode};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, Ino};
use std::ops::ControlFlow;

/// What the names in all directories come to, so far.
pub(super) struct Directories<'a> {
    volume: &'a Volume,
    survey: &'a Survey,
    paths: &'a mut PathTable,
    style: Style,
    names: u64,
    same_group: u64,
    distances: u64,
    distance_sum: f64,
    pairs: u64,
    rising: u64,
    faults: u64,
}

impl<'a> Directories<'a> {
    /// Reads all directories; their names go to `paths`.
    ///
    /// # Errors
    /// When the device fails.
    pub(super) fn read(
        volume: &'a Volume,
        survey: &'a mut Survey,
        paths: &'a mut PathTable,
    ) -> Result<Locality, Error> {
        let superblock = volume.superblock();
        let style = Style {
            block_size: superblock.block_size(),
            typed: superblock.has(Feature::FILETYPE),
            checksummed: superblock.has(Feature::METADATA_CSUM),
        };
        let mut pass = Directories {
            volume,
            survey,
            paths,
            style,
            names: 0,
            same_group: 0,
            distances: 0,
            distance_sum: 0.0,
            pairs: 0,
            rising: 0,
            faults: 0,
        };
        let mut claimed = [Claimed::default(), Claimed::default()];
        each_file(volume, &mut |ino, inode| match inode.file_type() {
            Some(FileType::Directory) => pass.directory(ino, inode, &mut claimed),
            _ => Ok(()),
        })?;
        let locality = Locality {
            names: pass.names,
            same_group: pass.same_group,
            names_with_blocks: pass.distances,
            mean_distance_blocks: (pass.distances > 0)
                .then(|| pass.distance_sum / pass.distances as f64),
            in_disk_order: ratio(pass.rising, pass.pairs),
        };
        let faults = pass.faults;
        survey.faults += faults;
        Ok(locality)
    }

    /// Reads a directory's blocks up to the first that is none: a map that is wrong about its size
    /// ends there. Blocks are claimed like those of maps, so that two directories over the same
    /// blocks cost no more than one.
    fn directory(
        &mut self,
        ino: Ino,
        inode: &Inode,
        claimed: &mut [Claimed; 2],
    ) -> Result<(), Error> {
        let volume = self.volume;
        let [maps, data] = claimed;
        let mut before = None;
        let mut failed = None;
        let walked = map::walk(volume, inode, maps, &mut |visit| {
            let Visit::Run { run, .. } = visit else {
                return ControlFlow::Continue(());
            };
            for block in (run.start.0..run.start.0.saturating_add(run.length.into())).map(BlockNo) {
                if !data.claim(block) || !volume.holds(block) {
                    self.faults += 1;
                    return ControlFlow::Break(());
                }
                match volume.block("directory", block) {
                    Ok(bytes) => self.block(ino, &bytes, &mut before)?,
                    Err(error) => {
                        failed = Some(error);
                        return ControlFlow::Break(());
                    }
                }
            }
            ControlFlow::Continue(())
        });
        walked?;
        failed.map_or(Ok(()), Err)
    }

    fn block(
        &mut self,
        directory: Ino,
        bytes: &[u8],
        before: &mut Option<BlockNo>,
    ) -> ControlFlow<()> {
        for entry in self.style.entries(bytes) {
            let Ok(entry) = entry else {
                self.faults += 1;
                return ControlFlow::Break(());
            };
            if entry.ino.0 != 0 && !is_dots(entry.name) {
                self.name(directory, entry.ino, before);
                let kind = match self.survey.is_directory(entry.ino) {
                    true => NameOf::Directory,
                    false => NameOf::Other,
                };
                self.paths.note(directory, entry.ino, entry.name, kind);
            }
        }
        ControlFlow::Continue(())
    }

    fn name(&mut self, directory: Ino, ino: Ino, before: &mut Option<BlockNo>) {
        let superblock = self.volume.superblock();
        let group = |ino| superblock.group_of_inode(ino).map(|(group, _)| group);
        let Some(home) = group(ino) else {
            self.faults += 1;
            return;
        };
        self.names += 1;
        self.same_group += u64::from(group(directory) == Some(home));
        let (Some(from), Some(to)) =
            (self.survey.first_block(directory), self.survey.first_block(ino))
        else {
            return;
        };
        self.distances += 1;
        self.distance_sum += from.0.abs_diff(to.0) as f64;
        if let Some(before) = before.replace(to) {
            self.pairs += 1;
            self.rising += u64::from(before < to);
        }
    }
}
