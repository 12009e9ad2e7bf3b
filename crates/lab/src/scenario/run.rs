//! Runs a scenario: on simulated drives in virtual time, or on a file or device of the host in real
//! time.
use super::mount::Mount;
use super::options::{Layouts, Prepared, RunOptions, Target};
use super::prepare::{self, refused};
use super::process::{Finished, Worker};
use super::time::Time;
use super::world::{Medium, World};
use super::{Scenario, ScenarioError, machine, summary};
use crate::report::Report;
use crate::wanted::UNWANTED;
use extant_block::{BlockDevice, RealClock, ShortLock};
use extant_sim::clock::{Settings, VirtualClock};
use extant_sim::device::SimDevice;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// What a run gave.
pub struct Outcome {
    /// All that was measured.
    pub report: Report,
    /// File systems as they are in the end, closed, in the order of the file.
    pub filesystems: Vec<Left>,
}

/// A file system after a run.
pub struct Left {
    /// Its name in the scenario.
    pub name: String,
    /// What is on it, without waiting for a drive.
    pub contents: Arc<dyn BlockDevice>,
    /// The drive, and whether the file system begins at its first byte.
    drive: Option<(Arc<SimDevice>, Begins)>,
}

/// Where on its drive a file system begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Begins {
    AtFirstByte,
    Behind,
}

impl Left {
    /// What is on its drive, for other runs; `None` of the host's own.
    pub fn prepared(&self) -> Option<Prepared> {
        self.drive.as_ref().map(|(device, _)| Prepared(Arc::clone(device)))
    }

    /// Writes it to a file, sparse. One that exists is replaced.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        if let Some((device, Begins::AtFirstByte)) = &self.drive {
            // Quicker: only what was ever written is looked at.
            return device.contents().save_start(path, self.contents.info().bytes);
        }
        let file = std::fs::File::create(path)?;
        let bytes = self.contents.info().bytes;
        file.set_len(bytes)?;
        let mut piece = vec![0; 1 << 20];
        let mut at = 0;
        while at < bytes {
            let length = (bytes - at).min(piece.len() as u64) as usize;
            self.contents.read(at, &mut piece[..length])?;
            for (number, block) in piece[..length].chunks(4096).enumerate() {
                if block.iter().any(|byte| *byte != 0) {
                    file.write_all_at(block, at + number as u64 * 4096)?;
                }
            }
            at += length as u64;
        }
        Ok(())
    }

    /// Writes it to a file and has `e2fsck -fn` judge it; gives what e2fsck finds, empty when
    /// nothing. (Of a file system with phantom data the metadata is judged all the same.)
    ///
    /// # Errors
    /// The file cannot be written, or e2fsck not be run.
    pub fn check(&self, scratch: &Path) -> io::Result<String> {
        self.save(scratch)?;
        let judged = Command::new("e2fsck").arg("-fn").arg(scratch).output();
        std::fs::remove_file(scratch)?;
        let judged = judged?;
        match judged.status.success() {
            true => Ok(String::new()),
            false => Ok(String::from_utf8_lossy(&judged.stdout).into_owned()
                + &String::from_utf8_lossy(&judged.stderr)),
        }
    }
}

/// Runs it.
///
/// # Errors
/// One line: what cannot run (an unknown policy, a tree that does not fit), the step that failed
/// first, or that it was not wanted any more.
pub fn run(scenario: &Scenario, options: &RunOptions) -> Result<Outcome, ScenarioError> {
    let is_wanted = || options.wanted.is_wanted();
    let unwanted = |file: &str| refused(file, UNWANTED);
    if !is_wanted() {
        return Err(unwanted(&scenario.file));
    }
    let scenario = prepare::with_options(scenario, options)?;
    let scale = options.scale.max(1);
    let trees = prepare::trees(&scenario, scale)?;
    prepare::check_room(&scenario, &trees, scale)?;
    let time = match &options.target {
        Target::Virtual => Time::Virtual(VirtualClock::new(Settings {
            processors: scenario.processors,
            ..Settings::default()
        })),
        Target::Real { .. } => Time::Real(RealClock::new()),
    };
    let drives = match &options.target {
        Target::Virtual => machine::drives(&scenario, &time, options)?,
        Target::Real { path, existing } => machine::host(&scenario, &time, path, *existing)?,
    };
    let file = scenario.file.clone();
    let mounts = machine::mounts(&scenario, &drives)?;
    let wanted = options.wanted.clone();
    let world = World::new(scenario, scale, time.clone(), drives, mounts, trees, wanted);
    let world = Arc::new(world);
    let (shared, chosen) = (Arc::clone(&world), options.clone());
    let (finished, elapsed_ns) = match &time {
        Time::Real(_) => all(&shared, options),
        Time::Virtual(clock) => {
            let ran = clock.run("scenario", move || all(&shared, &chosen));
            ran.unwrap_or_else(|error| (Err(refused(&file, error)), 0))
        }
    };
    if !is_wanted() {
        return Err(unwanted(&file));
    }
    Ok(Outcome {
        report: summary::report(&world, finished?, elapsed_ns, options.trace),
        filesystems: left(&world),
    })
}

fn simulated_drive(world: &World, number: usize) -> Option<Arc<SimDevice>> {
    match &world.drives[number] {
        Medium::Simulated(device) => Some(Arc::clone(device)),
        Medium::Host(_) => None,
    }
}

fn left(world: &World) -> Vec<Left> {
    let entries = world.scenario.filesystems.iter().zip(&world.mounts);
    let left = |(entry, mount): (&super::FilesystemEntry, &Mount)| Left {
        name: entry.name.clone(),
        contents: Arc::clone(&mount.contents),
        drive: simulated_drive(world, mount.drive).map(|device| match entry.offset {
            0 => (device, Begins::AtFirstByte),
            _ => (device, Begins::Behind),
        }),
    };
    entries.map(left).collect()
}

type All = Result<Vec<Finished>, ScenarioError>;

/// Everything that is done on the clock: making, opening, the processes, closing. The time is that
/// of the last end.
fn all(world: &Arc<World>, options: &RunOptions) -> (All, u64) {
    let finished = machine::prepare(world, options).and_then(|()| processes(world));
    let closed = close(world);
    let elapsed_ns = world.time.settled();
    let finished = finished.and_then(|finished| closed.map(|()| finished));
    let finished = finished.and_then(|finished| {
        if options.layouts != Layouts::AtSteps {
            machine::survey(world, "after")?;
        }
        Ok(finished)
    });
    (finished, elapsed_ns)
}

fn close(world: &World) -> Result<(), ScenarioError> {
    let mut result = Ok(());
    for (entry, mount) in world.scenario.filesystems.iter().zip(&world.mounts) {
        if let Err(reason) = mount.close() {
            result =
                result.and(Err(refused(&world.scenario.file, format!("{}: {reason}", entry.name))));
        }
    }
    result
}

fn processes(world: &Arc<World>) -> All {
    let origin_ns = world.time.settled();
    let mut tasks = Vec::new();
    for (process, entry) in world.scenario.processes.iter().enumerate() {
        for copy in 0..entry.copies {
            let name = if entry.copies == 1 {
                entry.name.clone()
            } else {
                format!("{} {copy}", entry.name)
            };
            let slot = Arc::new(ShortLock::new(None));
            let (worker, filled) =
                (Worker::new(Arc::clone(world), process, copy), Arc::clone(&slot));
            let body = Box::new(move || *filled.lock() = Some(worker.run(origin_ns)));
            tasks.push((world.time.clock().spawn(&name, body), slot));
        }
    }
    let mut finished = Vec::new();
    for (task, slot) in tasks {
        task.join();
        finished.extend(slot.lock().take());
    }
    let failed = finished.iter_mut().find_map(|one: &mut Finished| one.error.take());
    failed.map_or(Ok(finished), Err)
}
