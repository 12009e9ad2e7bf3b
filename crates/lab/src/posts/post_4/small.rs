//! The small set of files of 1997 that the post recalls: placement like that of ffs, over the
//! groups of the disk, lost to a "completely broken" sequential one, on a drive without a cache.
//! Nothing was posted in numbers; ours are shown, on the drive as it is and on one that does not
//! read on.
use super::{Class, PostColumn, PostTable, Ran, System, Volume, row, shown, system};
use crate::posts::Work;
use crate::report::Report;
use crate::scenario::{RunOptions, ScenarioError};
use extant_sim::drive::file::{DriveKind, DriveSpec};
use extant_sim::drive::rotating::LookAhead;

const SMALL: Volume =
    Volume { file: "post-4-small.toml", text: include_str!("../../../posts/post-4-small.toml") };

const SYSTEMS: [System; 4] = [
    system("dirpref", "freebsd-5.2,mount=async,placement=dirpref", None, None),
    system("orlov", "freebsd-5.2,mount=async,placement=orlov,allocation=ext2-goal", None, None),
    system("spread", "freebsd-5.2,mount=async,placement=spread", None, None),
    system("sequential", "freebsd-5.2,mount=async,placement=parent", None, None),
];

/// The table, and the reports of its runs.
pub(super) fn table(
    work: Work,
    progress: &mut dyn FnMut(&str),
) -> Result<(PostTable, Vec<Report>), ScenarioError> {
    let (mut cached, mut bare) = (Vec::new(), Vec::new());
    for system in SYSTEMS {
        progress(&format!("post 4: {}: {}", SMALL.file, system.name));
        let ran = run(&system, None, work)?;
        let spec = ran.report.drives.first().and_then(|drive| drive.spec.clone());
        bare.push(run(&system, spec.map(without_look_ahead), work)?);
        cached.push(ran);
    }
    let row = |what: &str, ran: &[Ran], name: &'static str| {
        row(what, Class::Shown, shown(ran, move |ran: &Ran| ran.time(name)))
    };
    let rows = vec![
        row("untar, sync", &cached, "untar"),
        row("tar", &cached, "tar"),
        row("untar, sync, no look-ahead", &bare, "untar"),
        row("tar, no look-ahead", &bare, "tar"),
    ];
    let columns = SYSTEMS.iter().map(|system| PostColumn {
        name: system.name.to_owned(),
        policies: system.policies.to_owned(),
    });
    let table = PostTable {
        title:
            "a small set of 1,000 files (14 MB) in 80 directories: like ffs, or one after the other"
                .to_owned(),
        columns: columns.collect(),
        rows,
    };
    let reports = cached.into_iter().chain(bare).map(|ran| ran.report).collect();
    Ok((table, reports))
}

fn run(system: &System, drive: Option<DriveSpec>, work: Work) -> Result<Ran, ScenarioError> {
    let options = RunOptions {
        policies: Some(system.policies.to_owned()),
        drive,
        seed: work.seed,
        ..RunOptions::default()
    };
    let outcome = super::run_scenario(SMALL.file, SMALL.text, &options)?;
    Ok(Ran { system: *system, report: outcome.report, left: None })
}

fn without_look_ahead(mut spec: DriveSpec) -> DriveSpec {
    if let DriveKind::Rotating(facts) = &mut spec.kind {
        facts.cache.look_ahead = LookAhead::Off;
    }
    spec
}
