//! A volume that is built anew from another: the same files, identity and features, and everything
//! where a build puts it.
use super::job::{Built, Destination, Job, Place};
use super::like::{Sized, carry, check_kept, differing, like};
use super::medium::Medium;
use super::order::{LOST_AND_FOUND, LostFolder, WayEnd, way};
use super::plan::FlexGroups;
use super::prepare::BuildOptions;
use super::room::{ImageSize, Room};
use crate::error::Error;
use crate::progress::Progress;
use crate::source::{
    Collected, Containers, Holes, ReadOptions, Source, Times, VolumeSource, collect,
};
use extant_block::{Clock, RealClock};
use extant_engine::survey::Survey;
use extant_format::Ino;
use extant_format::superblock::Superblock;
use std::sync::Arc;

/// What stays of files besides their content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Facts {
    /// All of it.
    All,
    /// As an image is built from an archive: the modify time stands for the other times too, and
    /// blocks of zeros of large files are holes.
    Canonical,
}

/// A volume that is to be built anew.
pub struct Remake {
    collected: Collected,
    options: BuildOptions,
    before: Superblock,
    sized: Sized,
}

impl Remake {
    /// That of a volume which does not change meanwhile; `name` is what messages call it.
    ///
    /// # Errors
    /// Something of it is damaged, or is kept by nothing but its own inode: as [`like`].
    pub fn of(
        survey: Arc<Survey>,
        (name, facts): (&str, Facts),
        progress: &dyn Progress,
    ) -> Result<Remake, Error> {
        let before = survey.superblock().clone();
        check_kept(survey.uses()).map_err(|error| error.about(name))?;
        let mut options = like(&**survey.device(), &before).map_err(|error| error.about(name))?;
        let root = survey.object(Ino::ROOT).ok();
        if root.is_none_or(|root| survey.find(root, LOST_AND_FOUND).is_none()) {
            options.lost_and_found = LostFolder::Omitted;
        }
        let volume = VolumeSource::new(survey, name.to_owned())?;
        let (times, holes) = match facts {
            Facts::All => (Times::All, Holes::AsSource),
            Facts::Canonical => (Times::Modify, Holes::Auto),
        };
        let read = ReadOptions {
            times,
            holes,
            containers: Containers::Files,
            block_bytes: before.block_size(),
            ..ReadOptions::default()
        };
        let collected = collect([Source::Volume(volume)], &read, progress)?;
        Ok(Remake { collected, options, before, sized: Sized::AsBefore })
    }

    /// What comes before everything else, in this order: paths, through symlinks too. Gives how
    /// many of them lead to something.
    pub fn put_first(&mut self, paths: Vec<Vec<u8>>) -> u64 {
        let leads = |path: &&Vec<u8>| way(&self.collected.tree, path).1 == WayEnd::Found;
        let found = paths.iter().filter(leads).count() as u64;
        self.options.first = paths;
        found
    }

    /// Makes it as large as its files need, and this much room, in place of as large as before.
    pub fn size_to_fit(&mut self, room: Room) {
        self.sized = Sized::ToFit;
        self.options.size = ImageSize::Exact(room);
        self.options.inodes = None;
        self.options.flex_groups = FlexGroups::Fitting;
    }

    /// Its superblock before.
    pub fn before(&self) -> &Superblock {
        &self.before
    }

    /// Builds it into a medium, from byte `origin_bytes` on.
    ///
    /// # Errors
    /// It does not fit; the medium's and the volume's.
    pub fn build(
        &self,
        (medium, name): (&dyn Medium, &str),
        (origin_bytes, place): (u64, Place),
        progress: &dyn Progress,
    ) -> Result<Built, Error> {
        let destination = Destination { medium, name: name.to_owned(), place };
        let options = BuildOptions { origin_bytes, ..self.options.clone() };
        let built = Job::new(&self.collected, &options, &destination)?.build(progress)?;
        let clock: Arc<dyn Clock> = RealClock::new();
        let device = medium.device(&clock, name, origin_bytes, built.bytes());
        let device = device.map_err(|error| Error::io(name, &error))?;
        carry(&*device, &self.before).map_err(|error| error.about(name))?;
        let after = extant_engine::read_superblock(&*device);
        let after = after.map_err(|error| Error::new(error.to_string()).about(name))?;
        match differing(&self.before, &after, self.sized) {
            None => Ok(built),
            Some(what) => Err(Error::new(format!(
                "{name}: a volume built anew would not have the same {what}: its layout is one \
                 that no option of a build asks for"
            ))),
        }
    }
}
