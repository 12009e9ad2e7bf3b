//! The report of a run, from what its processes and drives gave.
use super::machine::queue;
use super::process::Finished;
use super::rows::RowKey;
use super::time::Time;
use super::world::{Medium, World};
use super::{Data, DriveEntry, FilesystemEntry, Origin};
use crate::figures::layout;
use crate::report::{
    Column, Distribution, DriveReport, FilesystemReport, JournalFigures, MODEL_VERSION, Measure,
    Report, SCHEMA, TimeKind,
};
use crate::results;
use extant_chart::Figure;
use extant_engine::read_superblock;
use extant_sim::device::{Activity, TraceKeeping};
use extant_sim::drive::presets;
use extant_sim::random;
use std::collections::BTreeMap;

pub(super) fn report(
    world: &World,
    finished: Vec<Finished>,
    elapsed_ns: u64,
    trace: TraceKeeping,
) -> Report {
    let scenario = &world.scenario;
    let drives = scenario.drives.iter().enumerate();
    let filesystems = scenario.filesystems.iter().enumerate();
    let hashes =
        world.drives.iter().filter_map(Medium::simulated).map(|device| device.trace_hash());
    let mut report = Report {
        schema: SCHEMA,
        model_version: MODEL_VERSION,
        scenario: scenario.name.clone(),
        line: scenario.line.clone(),
        seed: scenario.seed,
        scale: world.scale,
        time: match world.time {
            Time::Virtual(_) => TimeKind::Virtual,
            Time::Real(_) => TimeKind::Real,
        },
        elapsed_ns,
        drives: drives.map(|(number, entry)| drive(world, number, entry, trace)).collect(),
        filesystems: filesystems.map(|(number, entry)| filesystem(world, number, entry)).collect(),
        processes: Vec::new(),
        measures: Vec::new(),
        steps: Vec::new(),
        results: Vec::new(),
        trace_hash: match world.time {
            Time::Virtual(_) => {
                format!("{:016x}", hashes.fold(0, |all, hash| random::mix(all ^ hash)))
            }
            Time::Real(_) => String::new(),
        },
        figures: maps(world),
    };
    for copies in finished.chunk_by(|one, other| one.report.name == other.report.name) {
        if let [first, _, ..] = copies {
            report.measures.extend(together(world, first.process, copies));
        }
        for one in copies {
            report.processes.push(one.report.clone());
            report.measures.extend(one.measures.iter().cloned());
            report.steps.extend(one.steps.iter().cloned());
        }
    }
    report.results = results::evaluate(&scenario.results, &report);
    report
}

/// The rows of all copies of a process, in the order of the first copy that has each: the time in
/// which any of them was in it. A row that one copy alone has is none.
fn together(world: &World, process: usize, copies: &[Finished]) -> Vec<Measure> {
    let mut rows: Vec<(&RowKey, Measure, usize)> = Vec::new();
    let mut places: BTreeMap<&RowKey, usize> = BTreeMap::new();
    for (key, own) in copies.iter().flat_map(|copy| copy.keys.iter().zip(&copy.measures)) {
        let place = *places.entry(key).or_insert(rows.len());
        match rows.get_mut(place) {
            Some((_, row, count)) => {
                row.work = row.work.and(&own.work);
                *count += 1;
            }
            None => rows.push((key, Measure { copy: None, ..own.clone() }, 1)),
        }
    }
    let shared = rows.into_iter().filter(|(_, _, count)| *count > 1);
    shared
        .map(|(key, mut row, _)| {
            if let Some(all) = world.together(process, key.clone()) {
                row.started_ns = all.started_ns;
                row.elapsed_ns = all.elapsed_ns;
                row.traffic = all.traffic;
            }
            row
        })
        .collect()
}

/// Maps of the file systems, where they were drawn.
fn maps(world: &World) -> Vec<Figure> {
    let mounts = world.scenario.filesystems.iter().zip(&world.mounts);
    let figures = mounts.filter_map(|(entry, mount)| {
        let title = format!("{}: what its blocks are used for", entry.name);
        layout::of_layouts(&mount.maps(), &title)
    });
    figures.collect()
}

fn drive(world: &World, number: usize, entry: &DriveEntry, trace: TraceKeeping) -> DriveReport {
    let settings = queue(&world.scenario, number);
    let medium = &world.drives[number];
    let mut report = DriveReport {
        name: entry.name.clone(),
        spec: None,
        validation: None,
        fitted: Vec::new(),
        bytes: medium.device().info().bytes,
        media_bytes_per_second: 0,
        least_seek_ns: 0,
        elevator: String::new(),
        requests: 0,
        merge_bytes: 0,
        plug_ns: 0,
        traffic: medium.traffic(),
        queue_depth_mean_permille: 0,
        queue_depth_max: 0,
        read_latency: Distribution::default(),
        write_latency: Distribution::default(),
        trace_hash: String::new(),
        activity: Activity::default(),
        trace: None,
    };
    if let Medium::Simulated(device) = medium {
        let statistics = device.statistics();
        let depth =
            u128::from(statistics.depth_sum) * 1000 / u128::from(statistics.requests.max(1));
        report.spec = Some(entry.spec.clone());
        report.validation = presets::standing(&entry.spec.name);
        report.fitted.clone_from(&entry.fitted);
        report.media_bytes_per_second = device.drive().media_bytes_per_second;
        report.least_seek_ns = device.drive().least_seek_ns;
        report.elevator = settings.elevator.to_string();
        report.requests = settings.requests_max;
        report.merge_bytes = settings.merge_bytes_max;
        report.plug_ns = settings.plug_ns;
        report.queue_depth_mean_permille = u64::try_from(depth).unwrap_or(u64::MAX);
        report.queue_depth_max = statistics.depth_max;
        report.read_latency = Distribution::from(&statistics.read_latency);
        report.write_latency = Distribution::from(&statistics.write_latency);
        report.trace_hash = format!("{:016x}", device.trace_hash());
        report.activity = device.activity();
        report.trace = (trace == TraceKeeping::All).then(|| device.take_trace());
    }
    report
}

fn filesystem(world: &World, number: usize, entry: &FilesystemEntry) -> FilesystemReport {
    let mount = &world.mounts[number];
    let superblock = read_superblock(&*mount.contents).ok();
    let superblock = superblock.as_ref();
    let features = superblock
        .map(|superblock| superblock.features.iter().map(|feature| feature.name()).collect());
    let setup = &entry.setup;
    let columns = setup
        .columns()
        .into_iter()
        .map(|(column, choice)| Column { column: column.to_owned(), choice: choice.to_owned() });
    FilesystemReport {
        name: entry.name.clone(),
        drive: world.scenario.drives[entry.drive].name.clone(),
        offset: entry.offset,
        image: match &entry.origin {
            Origin::Image(path) => Some(path.display().to_string()),
            Origin::Format(_) => None,
        },
        bytes: superblock.map_or(0, |superblock| {
            superblock.blocks_count.saturating_mul(superblock.block_size().into())
        }),
        block_size: superblock.map_or(0, |superblock| superblock.block_size()),
        groups: superblock.map_or(0, |superblock| superblock.group_count()),
        inodes: superblock.map_or(0, |superblock| superblock.inodes_count),
        features: features.unwrap_or_default(),
        policies: setup.to_string(),
        preset: setup.preset().to_owned(),
        columns: columns.collect(),
        memory_bytes: entry.memory_bytes,
        data: match entry.data {
            Data::Phantom => "phantom",
            Data::Bytes => "bytes",
        }
        .to_owned(),
        journal: mount.journal().map(|counts| JournalFigures {
            commits: counts.commits,
            log_blocks: counts.log_blocks,
            log_bytes: counts
                .log_blocks
                .saturating_mul(superblock.map_or(0, |superblock| superblock.block_size().into())),
            checkpoints: counts.checkpoints,
            checkpoint_blocks: counts.checkpoint_blocks,
        }),
        free_blocks: superblock.map_or(0, |superblock| superblock.free_blocks),
        free_inodes: superblock.map_or(0, |superblock| superblock.free_inodes),
        layouts: mount.layouts(),
    }
}
