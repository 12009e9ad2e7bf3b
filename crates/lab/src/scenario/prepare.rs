//! What is decided before a run: the options, the trees, and whether it can fit.
use super::format;
use super::options::RunOptions;
use super::step::{Action, Among, Deed, Direction, OnImage, PlacedFiles, Step, Targets, each_step};
use super::tree::{Tree, TreeSpec};
use super::world::{Trees, tree_key};
use super::{Data, DriveEntry, Origin, Scenario, ScenarioError, Workplace};
use crate::setup::Setup;
use extant_engine::mkfs::Identity;
use extant_engine::preset::{Costs, PresetError, Words};
use extant_format::layout::Inodes;
use extant_sim::drive::file::FileError;
use std::fmt::Display;
use std::sync::Arc;

/// What a run may take of the host's memory for file data that is kept, and for trees.
const HOST_MEMORY: u64 = 4 << 30;
/// What a tree takes of it for each entry.
const ENTRY_BYTES: u64 = 24;

/// The run cannot be.
pub(super) fn refused(file: &str, reason: impl Display) -> ScenarioError {
    ScenarioError::Run { file: file.to_owned(), reason: reason.to_string() }
}

/// The scenario as the options want it.
pub(super) fn with_options(
    scenario: &Scenario,
    options: &RunOptions,
) -> Result<Scenario, ScenarioError> {
    let mut scenario = scenario.clone();
    let file = scenario.file.clone();
    if let Some(seed) = options.seed {
        reseed(&mut scenario, seed);
    }
    if let Some(spec) = &options.drive {
        for drive in &mut scenario.drives {
            drive.spec = spec.clone();
            drive.fitted.clear();
        }
    }
    if let Some(words) = &options.policies {
        let said = Words::split(words).map_err(|error| refused(&file, error))?;
        for entry in &mut scenario.filesystems {
            entry.setup = changed(&entry.setup, &said).map_err(|error| refused(&file, error))?;
            give_way(&mut scenario.drives[entry.drive], &said);
        }
    }
    if let Some(image) = &options.image {
        let Some(first) = scenario.filesystems.first_mut() else {
            return Err(refused(&file, "an image needs a file system, and this scenario has none"));
        };
        first.origin = Origin::Image(image.clone());
    }
    scenario.processor = options.processor.or(scenario.processor);
    charge(&mut scenario);
    leave_out(&mut scenario, options)?;
    Ok(scenario)
}

/// What every file system of a run is charged for, those that steps open again with other policies
/// too.
#[cfg(test)]
pub(crate) fn charged(
    scenario: &Scenario,
    options: &RunOptions,
) -> Result<Vec<Costs>, ScenarioError> {
    let scenario = with_options(scenario, options)?;
    let mut all: Vec<Costs> =
        scenario.filesystems.iter().map(|entry| entry.setup.policies.costs).collect();
    for process in &scenario.processes {
        each_step(&process.steps, &mut |step| {
            if let Action::Remount { setup: Some(setup) } = &step.action {
                all.push(setup.policies.costs);
            }
        });
    }
    Ok(all)
}

/// One processor for all file systems, also after a remount with another preset.
fn charge(scenario: &mut Scenario) {
    let Some(costs) = scenario.processor.map(|processor| processor.costs()) else { return };
    scenario.filesystems.iter_mut().for_each(|entry| entry.setup.policies.costs = costs);
    let steps = scenario.processes.iter_mut().flat_map(|process| &mut process.steps);
    steps.for_each(|step| charge_step(step, costs));
}

fn charge_step(step: &mut Step, costs: Costs) {
    match &mut step.action {
        Action::Remount { setup: Some(setup) } => setup.policies.costs = costs,
        Action::Repeat { steps, .. } | Action::Until { steps, .. } => {
            steps.iter_mut().for_each(|step| charge_step(step, costs));
        }
        _ => {}
    }
}

/// Another seed, which decides the identity of new volumes too: it was drawn by the file's when
/// that was read.
fn reseed(scenario: &mut Scenario, seed: u64) {
    scenario.seed = seed;
    for entry in &mut scenario.filesystems {
        if let Origin::Format(format) = &mut entry.origin {
            let Identity { uuid, hash_seed, .. } = format::identity(seed, &entry.name);
            (format.wishes.uuid, format.wishes.hash_seed) = (uuid, hash_seed);
        }
    }
}

/// What the file says of a drive's queue, and the words of a run by its column, goes for these.
fn give_way(drive: &mut DriveEntry, said: &Words<'_>) {
    for (column, _) in &said.columns {
        match *column {
            "elevator" => drive.elevator = None,
            "requests" => drive.requests = None,
            "plug" => drive.plug_ns = None,
            _ => {}
        }
    }
}

/// A preset with columns as they stand; columns alone in place of those that there are.
fn changed(setup: &Setup, said: &Words<'_>) -> Result<Setup, PresetError> {
    match said.preset {
        Some(row) => Setup::with(row, said.columns.iter().copied()),
        None => setup.changed(&said.columns),
    }
}

/// Takes away the steps that make what an image already has.
fn leave_out(scenario: &mut Scenario, options: &RunOptions) -> Result<(), ScenarioError> {
    for process in &mut scenario.processes {
        let is_image = match process.place {
            Workplace::Filesystem(number) => {
                let entry = &scenario.filesystems[number];
                matches!(entry.origin, Origin::Image(_))
                    || (options.prepared.is_some() && entry.drive == 0)
            }
            Workplace::Drive(_) => false,
        };
        if is_image {
            process.steps.retain(|step| step.on_image == OnImage::Done);
        }
        if process.steps.is_empty() {
            let reason = format!("process {} has no step left on an image", process.name);
            return Err(refused(&scenario.file, reason));
        }
    }
    Ok(())
}

/// Whether a step changes the file system.
pub(super) fn writes(step: &Step) -> bool {
    match &step.action {
        Action::Make { .. } | Action::Remove { .. } | Action::Recover => true,
        Action::Files { deed, .. } => !matches!(deed, Deed::Stat | Deed::Read { .. }),
        Action::Create { .. } | Action::MakeDirectory { .. } | Action::Symlink { .. } => true,
        Action::Copy { .. } | Action::Age(_) => true,
        Action::Place { .. } | Action::PlaceTrees { .. } | Action::Fill { .. } => true,
        Action::Stream(stream) => stream.path.is_some() && stream.direction == Direction::Write,
        _ => false,
    }
}

fn step_error(scenario: &Scenario, step: &Step, reason: String) -> ScenarioError {
    ScenarioError::File(FileError {
        file: scenario.file.clone(),
        line: step.line,
        key: step.label.clone(),
        reason,
    })
}

/// The trees that a step makes.
fn specs(step: &Step) -> Vec<&TreeSpec> {
    match &step.action {
        Action::Make { tree, .. } => vec![tree],
        Action::PlaceTrees { trees } => trees.iter().map(|placed| &placed.tree).collect(),
        Action::Files { targets: Targets { among: Among::Tree(tree), .. }, .. } => vec![tree],
        _ => Vec::new(),
    }
}

/// Every tree of every step.
pub(super) fn trees(scenario: &Scenario, scale: u64) -> Result<Trees, ScenarioError> {
    let mut trees = Trees::new();
    let mut memory = 0u64;
    for process in &scenario.processes {
        let mut steps = Vec::new();
        each_step(&process.steps, &mut |step| steps.push(step));
        for step in steps {
            for spec in specs(step) {
                let Some(key) = tree_key(spec) else { continue };
                if trees.contains_key(&key) {
                    continue;
                }
                let totals = spec.totals(scale);
                memory = memory.saturating_add(
                    totals.files.saturating_add(totals.directories).saturating_mul(ENTRY_BYTES),
                );
                if memory > HOST_MEMORY {
                    let reason = format!(
                        "the trees of this scenario take more than {HOST_MEMORY} bytes of memory"
                    );
                    return Err(step_error(scenario, step, reason));
                }
                let tree = spec
                    .build(scenario.seed, scale)
                    .map_err(|reason| step_error(scenario, step, reason))?;
                trees.insert(key, tree);
            }
        }
    }
    Ok(trees)
}

/// Refuses steps that make more than their file system can hold by itself, and data that the host's
/// memory cannot keep.
pub(super) fn check_room(
    scenario: &Scenario,
    trees: &Trees,
    scale: u64,
) -> Result<(), ScenarioError> {
    let mut kept = 0u64;
    for process in &scenario.processes {
        let Workplace::Filesystem(number) = process.place else {
            continue;
        };
        let entry = &scenario.filesystems[number];
        let Origin::Format(format) = &entry.origin else {
            continue;
        };
        let room = format.wishes.blocks.saturating_mul(format.wishes.block_size.into());
        let inodes = match format.wishes.inodes {
            Inodes::BytesPerInode(bytes) => room / bytes.max(1) + 65536,
            Inodes::AtLeast(inodes) | Inodes::About(inodes) => inodes.saturating_add(65536),
        };
        let mut steps = Vec::new();
        each_step(&process.steps, &mut |step| steps.push(step));
        for step in steps {
            let Some((bytes, objects)) = made(step, trees, scale) else {
                continue;
            };
            if bytes > room || objects > inodes {
                let reason = format!(
                    "{bytes} bytes in {objects} files and directories do not fit in file system {} \
                     of {room} bytes",
                    entry.name
                );
                return Err(step_error(scenario, step, reason));
            }
            if entry.data == Data::Bytes {
                kept = kept.saturating_add(bytes.saturating_mul(process.copies.into()));
            }
            if kept > HOST_MEMORY {
                let reason = format!(
                    "keeping {kept} bytes of file data takes more than {HOST_MEMORY} bytes of \
                     memory; data = \"phantom\" keeps none"
                );
                return Err(step_error(scenario, step, reason));
            }
        }
    }
    Ok(())
}

/// Bytes and objects that a step makes, as far as the file says.
fn made(step: &Step, trees: &Trees, scale: u64) -> Option<(u64, u64)> {
    match &step.action {
        Action::Make { tree, .. } => {
            let totals = built(tree, trees)?.totals();
            Some((totals.bytes, totals.files.saturating_add(totals.directories)))
        }
        Action::PlaceTrees { trees: placed } => {
            let totals = placed.iter().filter_map(|one| Some(built(&one.tree, trees)?.totals()));
            let made = totals
                .map(|totals| (totals.bytes, totals.files.saturating_add(totals.directories)));
            Some(made.fold((0, 0), |sum: (u64, u64), one| {
                (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1))
            }))
        }
        Action::Place { files } => {
            let count = |files: &PlacedFiles| (files.count / scale).max(1);
            let bytes = files.iter().map(|files| count(files).saturating_mul(files.bytes));
            let objects = files.iter().map(count).fold(0, u64::saturating_add);
            Some((bytes.fold(0, u64::saturating_add), objects))
        }
        Action::Stream(stream) if writes(step) => {
            let bytes = stream
                .count
                .map_or(stream.chunk, |count| (count / scale).max(1).saturating_mul(stream.chunk));
            Some((stream.span.map_or(bytes, |span| span.min(bytes)), 1))
        }
        _ => None,
    }
}

fn built(spec: &TreeSpec, trees: &Trees) -> Option<Arc<Tree>> {
    match (spec, tree_key(spec)) {
        (TreeSpec::Listing(tree), _) => Some(Arc::clone(tree)),
        (_, key) => trees.get(&key?).cloned(),
    }
}
