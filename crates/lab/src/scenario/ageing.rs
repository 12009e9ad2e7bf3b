//! Months of life at once: what a profile does to a file system, and what programs asked of a mount
//! in a recorded session. The drive has no part in it.
//!
//! *Invariants*: a life goes on where the step before with the same profile and place left it.
use super::mount::Mount;
use super::process::{Outcome, Stop, Worker};
use super::step::AgeAction;
use super::world::World;
use super::{Aged, FilesystemEntry};
use crate::ageing::{Life, Others, Tally, VolumePlace};
use crate::session;
use extant_engine::Filesystem;
use std::sync::Arc;

impl Worker {
    /// Lets the file system live; the first time it is filled first.
    pub(super) fn age(&mut self, action: &AgeAction) -> Outcome {
        let world = Arc::clone(&self.world);
        let number = self.mount()?;
        let mut action = action.clone();
        action.into = self.path(&action.into);
        let lived = live(&world, number, &action).map_err(Stop::Failed)?;
        self.work.files += lived.files_made + lived.files_deleted;
        self.work.bytes_written += lived.bytes_written;
        Ok(())
    }
}

/// Lets the file system of that number live, and gives what was done to it.
fn live(world: &World, number: usize, action: &AgeAction) -> Result<Tally, String> {
    let name = format!("{number} {:?} {}", action.into, action.profile.name);
    let mut life = world.take_life(&name);
    let before = life.as_ref().map(|life| life.tally).unwrap_or_default();
    let days = match action.days {
        0 => 0,
        days => world.scaled(days),
    };
    let seed = world.scenario.seed;
    let life = world.mounts[number].at_once(|filesystem| {
        let mut life = match life.take() {
            Some(life) => life,
            None => begun(filesystem, action, seed)?,
        };
        for _ in 0..days {
            life.day(filesystem).map_err(|error| error.to_string())?;
        }
        Ok(life)
    })?;
    let done = life.tally.since(&before);
    world.keep_life(name, life);
    Ok(done)
}

/// A life whose volume is filled.
fn begun(filesystem: &Filesystem, action: &AgeAction, seed: u64) -> Result<Life, String> {
    let room = filesystem.statfs();
    let place = VolumePlace {
        blocks: room.blocks,
        block_bytes: room.block_size,
        base_blocks: room.blocks.saturating_sub(room.free_blocks),
        into: action.into.clone(),
        others: Others::Perhaps,
    };
    let mut life = Life::new(Arc::clone(&action.profile), &place, seed);
    life.fill(filesystem).map_err(|error| error.to_string())?;
    Ok(life)
}

/// Gives a file system that was just made its past.
pub(super) fn begin_aged(
    world: &World,
    number: usize,
    entry: &FilesystemEntry,
) -> Result<(), String> {
    match &entry.aged {
        None => Ok(()),
        Some(Aged::Life(action)) => live(world, number, action).map(drop),
        Some(Aged::Session(records)) => relive(&world.mounts[number], records),
    }
}

fn relive(mount: &Mount, records: &[session::FileRecord]) -> Result<(), String> {
    mount.at_once(|filesystem| {
        session::relive(filesystem, records).map_err(|error| error.to_string())
    })
}
