//! The machine of a run: devices with their queues, file systems on them.
use super::mount::{FilesystemParts, Mount};
use super::options::{Existing, Layouts, RunOptions};
use super::partition::{Contents, Partition};
use super::prepare::{refused, writes};
use super::step::{Action, each_step};
use super::time::Time;
use super::world::{Medium, World};
use super::{
    DriveEntry, FilesystemEntry, Origin, ProcessEntry, Scenario, ScenarioError, Workplace,
};
use super::{ageing, image};
use extant_block::{BlockDevice, FileDevice};
use extant_engine::Access;
use extant_engine::mkfs::{self, Contents as Before};
use extant_engine::throttle::DirtyBudget;
use extant_sim::device::{DeviceSettings, PowerCuts, SimDevice};
use extant_sim::drive::file::FileError;
use extant_sim::queue::QueueSettings;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

/// The queue before a drive: what the file says, else what the preset of the first file system on
/// it has. A command is at most as long as the drive says.
pub(super) fn queue(scenario: &Scenario, number: usize) -> QueueSettings {
    let drive = &scenario.drives[number];
    let first = scenario.filesystems.iter().find(|entry| entry.drive == number);
    let mut settings =
        first.map_or_else(QueueSettings::default, |entry| entry.setup.machine.queue());
    settings.elevator = drive.elevator.unwrap_or(settings.elevator);
    settings.requests_max = drive.requests.unwrap_or(settings.requests_max);
    settings.merge_bytes_max = drive.merge_bytes.unwrap_or(drive.spec.largest_command_bytes);
    settings.plug_ns = drive.plug_ns.unwrap_or(settings.plug_ns);
    settings
}

/// Whether any process cuts the power of the drive of that number.
fn power_cuts(scenario: &Scenario, number: usize) -> PowerCuts {
    let drive = |process: &ProcessEntry| match process.place {
        Workplace::Filesystem(filesystem) => scenario.filesystems[filesystem].drive,
        Workplace::Drive(drive) => drive,
    };
    let mut found = PowerCuts::Excluded;
    for process in scenario.processes.iter().filter(|process| drive(process) == number) {
        each_step(&process.steps, &mut |step| {
            if matches!(step.action, Action::PowerCut { .. }) {
                found = PowerCuts::Possible;
            }
        });
    }
    found
}

/// Simulated drives, blank.
pub(super) fn drives(
    scenario: &Scenario,
    time: &Time,
    options: &RunOptions,
) -> Result<Vec<Medium>, ScenarioError> {
    let Time::Virtual(clock) = time else {
        return Err(refused(&scenario.file, "drives are simulated in virtual time only"));
    };
    let device = |(number, entry): (usize, &DriveEntry)| {
        let settings = DeviceSettings {
            name: entry.name.clone(),
            queue: queue(scenario, number),
            trace: options.trace,
            power_cuts: power_cuts(scenario, number),
        };
        let (clock, drive) = (Arc::clone(clock), entry.spec.build(scenario.seed));
        let device = match options.prepared.as_ref().filter(|_| number == 0) {
            None => SimDevice::new(clock, drive, settings),
            Some(prepared) => SimDevice::with_contents(clock, drive, settings, prepared.contents())
                .map_err(|error| refused(&scenario.file, error))?,
        };
        Ok(Medium::Simulated(device))
    };
    scenario.drives.iter().enumerate().map(device).collect()
}

/// The host's file or device in place of the only drive.
pub(super) fn host(
    scenario: &Scenario,
    time: &Time,
    path: &Path,
    existing: Existing,
) -> Result<Vec<Medium>, ScenarioError> {
    let failed = |reason: String| refused(&scenario.file, format!("{}: {reason}", path.display()));
    if scenario.drives.len() != 1 || scenario.filesystems.len() > 1 {
        return Err(failed(
            "in real time a scenario has one drive and at most one file system".to_owned(),
        ));
    }
    let io = |error: std::io::Error| failed(error.to_string());
    // Only looked at unless it may be lost.
    let makes = scenario.filesystems.iter().any(|entry| matches!(entry.origin, Origin::Format(_)));
    let length = std::fs::metadata(path).map(|metadata| metadata.len()).unwrap_or(0);
    let is_device = path.exists() && !path.is_file();
    for entry in &scenario.filesystems {
        // Nothing is copied to it: what it holds is the image.
        if let Origin::Image(image) = &entry.origin
            && !is_same(image, path)
        {
            let image = image.display();
            return Err(failed(format!(
                "is not the image {image}; a copy has to be made before the run"
            )));
        }
    }
    let changes = makes
        || raw_writes(scenario)
        || scenario.filesystems.iter().any(|entry| entry.aged.is_some() || any_writes(scenario, 0));
    if changes && existing == Existing::Keep && (length > 0 || is_device) {
        return Err(failed("is not empty, and would be overwritten".to_owned()));
    }
    let bare = || scenario.drives[0].spec.build(0).info().bytes;
    let wanted = scenario.filesystems.first().map_or_else(bare, end);
    if (makes || length == 0) && !is_device && length < wanted {
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).open(path).map_err(io)?;
        file.set_len(wanted).map_err(io)?;
    }
    let access =
        if changes { extant_block::Access::ReadWrite } else { extant_block::Access::ReadOnly };
    let device = FileDevice::open(time.clock(), path, access, 0)
        .map_err(|error| refused(&scenario.file, error))?;
    Ok(vec![Medium::Host(Arc::new(device))])
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

fn raw_writes(scenario: &Scenario) -> bool {
    let on_drive =
        scenario.processes.iter().filter(|process| matches!(process.place, Workplace::Drive(_)));
    on_drive.into_iter().any(|process| {
        let mut found = false;
        each_step(&process.steps, &mut |step| found |= is_raw_write(step));
        found
    })
}

fn is_raw_write(step: &super::step::Step) -> bool {
    use super::step::Direction;
    matches!(&step.action, Action::Stream(stream) if stream.direction == Direction::Write)
}

/// Whether any process changes the file system of that number.
fn any_writes(scenario: &Scenario, number: usize) -> bool {
    let on_it =
        scenario.processes.iter().filter(|process| process.place == Workplace::Filesystem(number));
    on_it.into_iter().any(|process| {
        let mut found = false;
        each_step(&process.steps, &mut |step| found |= writes(step));
        found
    })
}

/// The byte behind a new file system.
fn end(entry: &FilesystemEntry) -> u64 {
    match &entry.origin {
        Origin::Format(format) => {
            let bytes = format.wishes.blocks.saturating_mul(format.wishes.block_size.into());
            entry.offset.saturating_add(bytes)
        }
        Origin::Image(_) => entry.offset,
    }
}

/// File systems, not made and not open. Those of one drive do not overlap.
pub(super) fn mounts(scenario: &Scenario, drives: &[Medium]) -> Result<Vec<Mount>, ScenarioError> {
    let mut taken: Vec<(usize, u64, u64, &str)> = Vec::new();
    let mut mounts = Vec::new();
    let budget = budget(scenario, drives);
    for (number, entry) in scenario.filesystems.iter().enumerate() {
        let error = |key: &str, reason: String| {
            ScenarioError::File(FileError {
                file: scenario.file.clone(),
                line: entry.line,
                key: format!("filesystem.{key}"),
                reason,
            })
        };
        let medium = &drives[entry.drive];
        let room = medium.device().info().bytes;
        let end = match (&entry.origin, medium) {
            (Origin::Image(_), Medium::Host(_)) => room,
            (Origin::Image(path), Medium::Simulated(_)) => {
                let bytes = image::bytes(path)
                    .map_err(|failure| error("image", format!("{}: {failure}", path.display())))?;
                entry.offset.saturating_add(bytes)
            }
            (Origin::Format(_), _) => end(entry),
        };
        if end > room {
            return Err(error(
                "size",
                format!("{} ends at byte {end}, and its drive at byte {room}", entry.name),
            ));
        }
        let overlaps = |other: &&(usize, u64, u64, &str)| {
            other.0 == entry.drive && entry.offset < other.2 && other.1 < end
        };
        if let Some(other) = taken.iter().find(overlaps) {
            return Err(error(
                "offset",
                format!("{} overlaps {} on its drive", entry.name, other.3),
            ));
        }
        taken.push((entry.drive, entry.offset, end, &entry.name));
        let is_changed = matches!(entry.origin, Origin::Format(_)) || entry.aged.is_some();
        let access = match is_changed || any_writes(scenario, number) {
            true => Access::ReadWrite,
            false => Access::ReadOnly,
        };
        mounts.push(mount(entry, medium, end - entry.offset, (access, &budget)));
    }
    Ok(mounts)
}

/// One memory for all file systems: the most that any of them is given.
fn budget(scenario: &Scenario, drives: &[Medium]) -> Option<Arc<DirtyBudget>> {
    let memory = scenario.filesystems.iter().map(|entry| entry.memory_bytes).max()?;
    Some(DirtyBudget::new(drives.first()?.device().clock(), memory))
}

fn mount(
    entry: &FilesystemEntry,
    medium: &Medium,
    bytes: u64,
    (access, budget): (Access, &Option<Arc<DirtyBudget>>),
) -> Mount {
    let part = |device: Arc<dyn BlockDevice>| {
        Arc::new(Partition::new(device, entry.offset, bytes)) as Arc<dyn BlockDevice>
    };
    let contents: Arc<dyn BlockDevice> = match medium {
        Medium::Simulated(device) => Arc::new(Contents(Arc::clone(device))),
        Medium::Host(device) => Arc::clone(device) as Arc<dyn BlockDevice>,
    };
    Mount::new(FilesystemParts {
        drive: entry.drive,
        device: part(medium.device()),
        contents: part(contents),
        host: match medium {
            Medium::Simulated(_) => None,
            Medium::Host(device) => Some(Arc::clone(device)),
        },
        access,
        memory_bytes: entry.memory_bytes,
        data: entry.data,
        policies: entry.setup.policies.clone(),
        budget: budget.clone(),
    })
}

/// Makes and opens the file systems. What is made takes no time of the drive.
pub(super) fn prepare(world: &World, options: &RunOptions) -> Result<(), ScenarioError> {
    let is_there = |entry: &FilesystemEntry| options.prepared.is_some() && entry.drive == 0;
    for (entry, mount) in world.scenario.filesystems.iter().zip(&world.mounts) {
        if is_there(entry) {
            continue;
        }
        let failed =
            |reason: String| refused(&world.scenario.file, format!("{}: {reason}", entry.name));
        match &entry.origin {
            Origin::Format(format) => {
                let mut format = (**format).clone();
                if matches!(world.drives[entry.drive], Medium::Host(_)) {
                    format.contents = Before::Unknown;
                }
                let made =
                    mkfs::format(Arc::clone(&mount.contents), &format, &entry.setup.policies);
                made.map_err(|error| failed(error.to_string()))?;
            }
            Origin::Image(path) => {
                if matches!(world.drives[entry.drive], Medium::Simulated(_)) {
                    let loaded = image::load(path, &*mount.contents, entry.data);
                    loaded.map_err(|error| failed(format!("{}: {error}", path.display())))?;
                }
            }
        }
    }
    for (number, entry) in world.scenario.filesystems.iter().enumerate() {
        if !is_there(entry) {
            ageing::begin_aged(world, number, entry).map_err(|reason| {
                refused(&world.scenario.file, format!("{}: aged: {reason}", entry.name))
            })?;
        }
    }
    if options.layouts == Layouts::Drawn {
        world.mounts.iter().for_each(Mount::draw_layouts);
    }
    if options.layouts != Layouts::AtSteps {
        survey(world, "before")?;
    }
    for (entry, mount) in world.scenario.filesystems.iter().zip(&world.mounts) {
        let failed =
            |reason: String| refused(&world.scenario.file, format!("{}: {reason}", entry.name));
        mount.open().map_err(failed)?;
    }
    Ok(())
}

/// Records where everything is.
pub(super) fn survey(world: &World, when: &str) -> Result<(), ScenarioError> {
    for (entry, mount) in world.scenario.filesystems.iter().zip(&world.mounts) {
        let surveyed = mount.survey(when, world.time.now());
        surveyed
            .map_err(|reason| refused(&world.scenario.file, format!("{}: {reason}", entry.name)))?;
    }
    Ok(())
}
