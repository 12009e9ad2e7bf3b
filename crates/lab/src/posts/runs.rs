//! The runs of a post: each system through each scenario, case by case, and what they gave.
use super::Work;
use super::file::{Case, Post, RunSpec, System, TableSpec, Together, Variant};
use super::fitted::Without;
use super::jobs::{self, Group, Job, side_by_side};
use super::kept::{self, BlockRun};
use super::report::Scale;
use crate::report::Report;
use crate::scenario::{
    self, Changes, Left, Outcome, Prepared, RunOptions, Scenario, ScenarioError,
};
use crate::setup::Setup;
use crate::wanted::Wanted;
use extant_block::capability::Capabilities;
use extant_block::{
    BlockDevice, Clock, Completed, DeviceInfo, Operation, RealClock, Request, Segment,
};
use extant_engine::preset::Policies;
use extant_engine::{Access, DataKeeping, Filesystem, Options, cache_for_blocks};
use extant_sim::random;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// A system that has run.
pub(super) struct Ran {
    run: String,
    system: String,
    case: String,
    variant: String,
    /// Of a run that is drawn several times, which of them.
    draw: u64,
    pub(super) report: Report,
    /// The volume, where the post looks at it.
    left: Option<Left>,
    /// Where the blocks of the recorded directory are.
    directory: Vec<BlockRun>,
    facts: OnceLock<serde_json::Value>,
}

impl Ran {
    /// The report as JSON, with `content_bytes` of its volume, the `directory`, and the `volume`
    /// that was kept.
    pub(super) fn facts(&self) -> &serde_json::Value {
        self.facts.get_or_init(|| {
            let mut facts = serde_json::json!(self.report);
            facts["content_bytes"] = kept::content(&self.report).into();
            facts["directory"] = kept::directory(&self.directory);
            facts["volume"] = self.left.as_ref().map(kept::volume).into();
            facts
        })
    }
}

/// All runs of a post.
pub(super) struct Runs<'a> {
    pub(super) post: &'a Post,
    pub(super) work: Work,
    wanted: Wanted,
    all: Vec<Ran>,
    group: Group,
    tree: OnceLock<serde_json::Value>,
}

/// The scenario whose tree limits are of.
const TREE_SCENARIO: &str = "post-0";

/// `{case}` in a text as the name of the case.
pub(super) fn named(text: &str, case: Option<&Case>) -> String {
    match case {
        Some(case) => text.replace("{case}", &case.name),
        None => text.to_owned(),
    }
}

/// Whether a part of the file that is `full` or always there is there now.
pub(super) fn is_at(only: Option<Scale>, scale: Scale) -> bool {
    only.is_none_or(|only| only == scale)
}

fn failed(file: &str, reason: String) -> ScenarioError {
    ScenarioError::Run { file: file.to_owned(), reason }
}

impl<'a> Runs<'a> {
    fn new(post: &'a Post, work: Work, wanted: Wanted) -> Runs<'a> {
        Runs { post, work, wanted, all: Vec::new(), group: Group::new(), tree: OnceLock::new() }
    }

    /// The tree of the first post: see [`kept::tree`].
    pub(super) fn tree(&self) -> &serde_json::Value {
        self.tree.get_or_init(|| kept::tree(TREE_SCENARIO, self.work.seed))
    }

    /// Runs everything, and tells `progress` what.
    ///
    /// # Errors
    /// That of the first run that failed.
    pub(super) fn make(
        post: &'a Post,
        work: Work,
        wanted: &Wanted,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Runs<'a>, ScenarioError> {
        let mut runs = Runs::new(post, work, wanted.clone());
        for spec in post.run.iter().filter(|spec| is_at(spec.scale, work.scale)) {
            let wanted = runs.wanted(spec);
            match spec.together {
                Together::One => runs.one_by_one(spec, wanted, progress)?,
                Together::Two => {
                    progress(&format!("post {}: {}: {}", post.number, spec.name, wanted.len()));
                    runs.two_at_a_time(wanted)?;
                }
            }
        }
        Ok(runs)
    }

    /// The reports, in the order of the runs.
    pub(super) fn reports(&self) -> impl Iterator<Item = &Report> {
        self.all.iter().map(|ran| &ran.report)
    }

    /// The run of a system: in this case where it has cases, and in its first variant unless
    /// another is named. `draw` is one of [`Runs::draws`].
    pub(super) fn find(
        &self,
        run: &str,
        system: &str,
        case: Option<&Case>,
        variant: Option<&str>,
        draw: u64,
    ) -> Option<&Ran> {
        let spec = self.post.run.iter().find(|spec| spec.name == run)?;
        let system = named(system, case);
        let case = spec.cases.as_ref().map_or("", |_| case.map_or("", |case| case.name.as_str()));
        let first = spec.variant.first().map(|variant| variant.name.as_str());
        let variant = variant.or(first).unwrap_or_default();
        self.all.iter().find(|ran| {
            (ran.run == run && ran.system == system && ran.draw == draw)
                && (ran.case == case && ran.variant == variant)
        })
    }

    /// How often a run is drawn.
    pub(super) fn draws(&self, run: &str) -> u64 {
        let spec = self.post.run.iter().find(|spec| spec.name == run);
        spec.map_or(1, |spec| spec.draws.max(1))
    }

    /// By what the counts of a run are divided.
    pub(super) fn divisor(&self, run: &str) -> u64 {
        match (self.work.scale, self.post.run.iter().find(|spec| spec.name == run)) {
            (Scale::Quick, Some(spec)) => spec.quick_divisor,
            _ => 1,
        }
    }

    /// The title of a table at this size.
    pub(super) fn title<'t>(&self, table: &'t TableSpec) -> &'t str {
        match (self.work.scale, &table.quick_title) {
            (Scale::Quick, Some(title)) => title,
            _ => &table.title,
        }
    }

    /// What a run consists of, in order.
    fn wanted(&self, spec: &'a RunSpec) -> Vec<Planned<'a>> {
        let scale = self.work.scale;
        let cases: Vec<Option<&Case>> = match &spec.cases {
            Some(cases) => self.post.cases[cases].at(scale).iter().map(Some).collect(),
            None => vec![None],
        };
        let variants: Vec<Option<&Variant>> = match spec.variant.is_empty() {
            true => vec![None],
            false => spec.variant.iter().map(Some).collect(),
        };
        let mut all = Vec::new();
        for case in cases {
            for name in &spec.systems {
                let system = self.post.system(name);
                if !is_at(system.scale, scale) {
                    continue;
                }
                for variant in &variants {
                    let wanted = |draw| Planned { spec, system, case, variant: *variant, draw };
                    all.extend((0..spec.draws.max(1)).map(wanted));
                }
            }
        }
        all
    }

    fn one_by_one(
        &mut self,
        spec: &RunSpec,
        wanted: Vec<Planned<'_>>,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), ScenarioError> {
        // One volume after the other in memory: each is made once.
        let mut made: Option<(&Option<String>, Option<Prepared>)> = None;
        for one in wanted {
            let words = format!("post {}: {}: {}", self.post.number, spec.name, one.words());
            progress(&words);
            let (scenario, mut options) = one.prepared(self.post, self.work)?;
            options.wanted = self.wanted.clone();
            if let Some(process) = &spec.volume_by {
                if made.as_ref().is_none_or(|(change, _)| **change != one.system.change) {
                    // The one before goes first: volumes are gigabytes.
                    drop(made.take());
                    let volume = make_volume(self.group, &scenario, &options, process)?;
                    made = Some((&one.system.change, volume));
                }
                options.prepared = made.as_ref().and_then(|(_, volume)| volume.clone());
            }
            let outcome = jobs::run(self.group, &scenario, &options)?;
            let ran = one.ran(outcome)?;
            self.all.push(ran);
        }
        Ok(())
    }

    fn two_at_a_time(&mut self, wanted: Vec<Planned<'_>>) -> Result<(), ScenarioError> {
        let mut jobs = Vec::new();
        for one in &wanted {
            let (scenario, mut options) = one.prepared(self.post, self.work)?;
            options.wanted = self.wanted.clone();
            jobs.push(Job { scenario, options });
        }
        let reports = side_by_side(self.group, &jobs)?;
        self.all.extend(wanted.iter().zip(reports).map(|(one, report)| one.with(report)));
        Ok(())
    }
}

/// The seed of a later draw: those of one seed are not those of the next.
fn seed_of_draw(seed: u64, draw: u64) -> u64 {
    random::mix(random::mix(seed) ^ draw) >> 1
}

impl Post {
    /// The variant of that name of a run.
    pub(super) fn variant(&self, run: &str, name: &str) -> Option<&str> {
        let mut variants = self.run.iter().filter(|spec| spec.name == run).flat_map(|r| &r.variant);
        variants.find(|variant| variant.name == name).map(|variant| variant.name.as_str())
    }

    /// The seed of its first scenario.
    ///
    /// # Errors
    /// The scenario is wrong.
    pub(super) fn own_seed(&self) -> Result<u64, ScenarioError> {
        let first = self.run.first().and_then(|run| scenario::of_post(&run.scenario));
        let Some(builtin) = first else { return Ok(1) };
        let file = format!("{}.toml", builtin.name);
        Ok(scenario::parse(&file, builtin.text, Path::new(""))?.seed)
    }

    /// What is run in place of the fitted value that is taken away.
    fn without(&self, work: Work) -> Option<&Without> {
        self.fitted.get(work.without_fitted?)?.without.as_ref()
    }
}

/// The volume that a process makes, the first of its scenario.
fn make_volume(
    group: Group,
    scenario: &Scenario,
    options: &RunOptions,
    process: &str,
) -> Result<Option<Prepared>, ScenarioError> {
    let mut alone = scenario.clone();
    alone.processes.retain(|entry| entry.name == process);
    let outcome = jobs::run(group, &alone, options)?;
    Ok(outcome.filesystems.first().and_then(|left| left.prepared()))
}

/// A run to be made.
struct Planned<'a> {
    spec: &'a RunSpec,
    system: &'a System,
    case: Option<&'a Case>,
    variant: Option<&'a Variant>,
    draw: u64,
}

impl Planned<'_> {
    fn words(&self) -> String {
        let system = named(&self.system.name, self.case);
        match self.variant {
            Some(variant) => format!("{system}, {}", variant.name),
            None => system,
        }
    }

    fn scenario_name(&self) -> &str {
        let own = self.spec.scenarios.get(&self.system.name);
        own.unwrap_or(&self.spec.scenario)
    }

    /// The scenario as it is run, and how.
    fn prepared(&self, post: &Post, work: Work) -> Result<(Scenario, RunOptions), ScenarioError> {
        let is_quick = work.scale == Scale::Quick;
        let quick = self.spec.quick.as_ref().filter(|_| is_quick);
        let mut changes = Changes::default();
        for name in self.system.change.iter().chain(quick) {
            changes = changes.and(&post.change[name]);
        }
        let own = self.case.map(|case| &case.change);
        let own = own.into_iter().chain(self.variant.map(|variant| &variant.change));
        changes = own.fold(changes, Changes::and);
        let mut policies = named(&self.system.policies, self.case);
        let mut processor = post.processor.as_str();
        if let Some(without) = post.without(work).filter(|without| without.is_in(&self.spec.name)) {
            changes = changes.and(&without.change);
            policies = without.policies(&policies);
            processor = without.processor.as_deref().unwrap_or(processor);
        }
        let name = self.scenario_name();
        let file = format!("{name}.toml");
        let builtin = scenario::of_post(name)
            .ok_or_else(|| failed(&file, "is no scenario that is built in".to_owned()))?;
        let scenario = scenario::parse_changed(&file, builtin.text, Path::new(""), &changes)?;
        let options = RunOptions {
            policies: Some(policies),
            processor: Some(scenario::processor(processor).map_err(|words| failed(&file, words))?),
            scale: if is_quick { self.spec.quick_divisor } else { 1 },
            layouts: self.spec.layouts,
            seed: match self.draw {
                0 => work.seed,
                draw => Some(seed_of_draw(work.seed.unwrap_or(scenario.seed), draw)),
            },
            ..RunOptions::default()
        };
        Ok((scenario, options))
    }

    fn with(&self, report: Report) -> Ran {
        Ran {
            run: self.spec.name.clone(),
            system: named(&self.system.name, self.case),
            case: self.case.map(|case| case.name.clone()).unwrap_or_default(),
            variant: self.variant.map(|variant| variant.name.clone()).unwrap_or_default(),
            draw: self.draw,
            report,
            left: None,
            directory: Vec::new(),
            facts: OnceLock::new(),
        }
    }

    /// What is kept of an outcome: volumes take memory, so only those that are looked at.
    fn ran(&self, outcome: Outcome) -> Result<Ran, ScenarioError> {
        let Outcome { report, mut filesystems } = outcome;
        let mut ran = self.with(report);
        if let (Some(directory), Some(left)) = (&self.spec.directory, filesystems.first()) {
            let wrong = |reason: String| failed(self.scenario_name(), reason);
            let setup: Setup =
                self.system.policies.parse().map_err(
                    |error: extant_engine::preset::PresetError| wrong(error.to_string()),
                )?;
            ran.directory = blocks_of(&left.contents, setup.policies, directory)
                .map_err(|error| wrong(error.to_string()))?;
        }
        if self.spec.keep.contains(&self.system.name) {
            ran.left = filesystems.pop();
        }
        Ok(ran)
    }
}

/// Where the blocks of a directory are.
fn blocks_of(
    contents: &Arc<dyn BlockDevice>,
    policies: Policies,
    directory: &str,
) -> Result<Vec<BlockRun>, extant_engine::Error> {
    let device = Arc::new(Still { contents: Arc::clone(contents), clock: RealClock::new() });
    let options = Options {
        access: Access::ReadOnly,
        policies,
        cache_bytes: cache_for_blocks(1 << 20),
        data: DataKeeping::Bytes,
    };
    let filesystem = Filesystem::open(device, &options)?;
    let runs = filesystem.object(directory)?.runs()?;
    let run = runs
        .iter()
        .map(|run| BlockRun { first: run.run.start.0, blocks: u64::from(run.run.length) });
    Ok(run.collect())
}

/// What a run left, outside of its time.
struct Still {
    contents: Arc<dyn BlockDevice>,
    clock: Arc<dyn Clock>,
}

impl BlockDevice for Still {
    fn info(&self) -> DeviceInfo {
        self.contents.info()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
    fn submit(&self, request: Request) {
        self.contents.submit(request);
    }
    fn capabilities(&self) -> Capabilities<'_> {
        // Of what a run left nothing but the bytes is asked.
        Capabilities {
            durable: None,
            remembers: None,
            congestion: None,
            holes: None,
            discard: None,
            metadata: None,
            host_file: None,
            annex: None,
        }
    }
    fn transfer(&self, operation: Operation, offset: u64, segments: Vec<Segment>) -> Completed {
        self.contents.transfer(operation, offset, segments)
    }
}

/// What each run of a post at full size is prepared as, in words.
#[cfg(test)]
fn all_prepared(
    post: &Post,
    work: Work,
) -> Result<Vec<(String, Scenario, RunOptions)>, ScenarioError> {
    let runs = Runs::new(post, work, Wanted::default());
    let mut all = Vec::new();
    for spec in &post.run {
        for wanted in runs.wanted(spec) {
            let (scenario, options) = wanted.prepared(post, work)?;
            all.push((format!("{}: {}", spec.name, wanted.words()), scenario, options));
        }
    }
    Ok(all)
}

/// What the file systems of each run are charged for.
#[cfg(test)]
pub(super) fn costs_of_all(
    post: &Post,
) -> Result<Vec<(String, extant_engine::preset::Costs)>, ScenarioError> {
    let mut costs = Vec::new();
    for (words, scenario, options) in all_prepared(post, Work::from(Scale::Full))? {
        let charged = scenario::charged(&scenario, &options)?;
        costs.extend(charged.into_iter().map(|costs| (words.clone(), costs)));
    }
    Ok(costs)
}

/// Whether some run is another without that value.
#[cfg(test)]
pub(super) fn differ_without(post: &Post, at: usize) -> Result<bool, ScenarioError> {
    let full = Work::from(Scale::Full);
    let with = all_prepared(post, full)?;
    let without = all_prepared(post, Work { without_fitted: Some(at), ..full })?;
    Ok(format!("{with:?}") != format!("{without:?}"))
}
