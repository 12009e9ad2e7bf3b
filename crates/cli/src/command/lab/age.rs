//! `extant lab age`: months of use of a volume, under several policies.
use super::data::DataOption;
use super::failure;
use super::outputs;
use super::page::PageOption;
use extant_chart::{Figure, TEXT_WIDTH, beside};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::size::Amount;
use extant_lab::ageing::{
    self, AgeOptions, Aged, AgeingReport, EXPERIMENTS, Experiment, Form, Keep, PROFILES, Sampling,
    Tell,
};
use extant_lab::posts::SEEDS_MAX;
use extant_lab::scenario::{self, Processor};
use extant_lab::spread::{self, Spread};
use extant_lab::{asked, observations, page};
use std::num::NonZeroUsize;

/// Let a volume live for months, and see what becomes of its layout and its speed.
///
/// WHAT is an experiment (post-0, post-1), a profile (mail, git, packages, containers,
/// new-directories, file-server), or a TOML file of one of the two. A profile runs under every
/// preset. Volumes have their full size, with data that has places but no content; every month
/// where everything is on the volume is looked at, and samples are read and written on the
/// simulated drive, cold. The same command gives the same bytes.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant lab age post-1
  extant lab age post-0 --full
  extant lab age mail --preset linux-2.6 --preset modern --size 8G
  extant lab age git --months 12 --json | jq '.series[] | {name, scores: \
  [.samples[].layout_score_ppm]}'
  extant lab age post-1 --html ageing.html
  extant lab age post-1 --seeds 3
  extant lab age mine.toml --layout-only")]
pub struct Arguments {
    /// An experiment, a profile, or a file; the profiles are listed if none is given
    #[arg(value_name = "WHAT")]
    pub what: Option<String>,
    /// Policies in place of the experiment's: a preset, perhaps with columns changed; may be given
    /// several times
    #[arg(long, value_name = "POLICIES", visible_alias = "policies")]
    pub preset: Vec<String>,
    /// ext2, ext3 or ext4, for all policies; by default what was usual in a preset's time
    #[arg(long, value_name = "KIND", value_parser = ["ext2", "ext3", "ext4"])]
    pub volume: Option<String>,
    /// For this many months of 30 days
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=120))]
    pub months: Option<u32>,
    /// Size of the volume, as 8G; what is done on it a day grows and shrinks with it
    #[arg(long, value_name = "SIZE", conflicts_with = "full")]
    pub size: Option<Amount>,
    /// The full size of the experiment or profile: minutes instead of seconds
    #[arg(long)]
    pub full: bool,
    /// Everything random comes from this
    #[arg(long, value_name = "NUMBER", default_value = "1",
        value_parser = clap::value_parser!(u64).range(0..=i64::MAX as u64))]
    pub seed: u64,
    /// Run with as many seeds, the first and those that follow it: of each metric of the last month
    /// the median and the range, and a warning where seeds reverse the order of two policies
    #[arg(long, value_name = "COUNT", default_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(SEEDS_MAX)))]
    pub seeds: u32,
    /// Charge all policies for this processor, whatever their presets: 2001, 2007, today or none
    #[arg(long, value_name = "PROCESSOR", value_parser = scenario::processor)]
    pub processor: Option<&'static Processor>,
    /// Where samples are read and written: a built-in drive, or a file
    #[arg(long, value_name = "DRIVE")]
    pub drive: Option<String>,
    /// Only look where everything is; read and write no samples
    #[arg(long, conflicts_with = "drive")]
    pub layout_only: bool,
    #[command(flatten)]
    pub page: PageOption,
    #[command(flatten)]
    pub data: DataOption,
}

/// Runs it. With `--json`: the report, whose schema is in docs/LAB.md.
pub fn run(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    arguments.page.check()?;
    arguments.data.check()?;
    let Some(what) = &arguments.what else {
        arguments.page.write(list_page)?;
        console.print(&list(console.width()))?;
        return Ok(Exit::Complete);
    };
    let experiment = experiment(arguments, what)?;
    let options = options(arguments)?;
    let tell: Tell = console.teller();
    let seeds = spread::seeds(arguments.seed, arguments.seeds);
    let mut reports = Vec::new();
    for seed in &seeds {
        let options = AgeOptions { seed: *seed, ..options.clone() };
        let aged = ageing::run(&experiment, &options, Keep::Report, &tell);
        let Aged { report, .. } = aged.map_err(|error| Error::new(error.to_string()))?;
        reports.push(report);
    }
    drop(tell);
    let [report] = &reports[..] else {
        let runs: Vec<_> = reports.iter().map(spread::of_ageing).collect();
        let drive = reports.first().map(AgeingReport::drive_words).unwrap_or_default();
        let found = Spread::of(what, &drive, &seeds, &runs);
        return outputs::spread(&found, &arguments.page, &arguments.data, console);
    };
    arguments.page.write(|| page::of_ageing(report))?;
    arguments.data.write(|| observations::of_ageing(report))?;
    match console.is_json() {
        true => console.print(&report.to_json())?,
        false => console.report(&report.to_text(console.width()))?,
    }
    Ok(Exit::Complete)
}

/// The profiles and experiments, as text on a page.
fn list_page() -> String {
    page::of_figures(
        "Ageing",
        "Profiles and experiments.",
        &[Figure::new("What there is", list(TEXT_WIDTH))],
    )
}

fn experiment(arguments: &Arguments, what: &str) -> Result<Experiment, Error> {
    let experiment = asked::experiment(what).map_err(failure::refused)?;
    let volume = arguments.volume.as_deref().and_then(ageing::volume_kind);
    let changed = experiment.changed(&arguments.preset, volume, arguments.processor);
    changed.map_err(|error| failure::of_option("--preset", error))
}

fn options(arguments: &Arguments) -> Result<AgeOptions, Error> {
    let bytes = arguments.size.map(|size| size.bytes);
    if bytes.is_some_and(|bytes| !ageing::VOLUME_BYTES.contains(&bytes)) {
        return Err(Error::usage("--size: has to lie within 16M and 16T"));
    }
    Ok(AgeOptions {
        seed: arguments.seed,
        form: if arguments.full { Form::Full } else { Form::Quick },
        months: arguments.months,
        bytes,
        drive: arguments.drive.as_deref().map(failure::drive).transpose()?,
        sampling: if arguments.layout_only { Sampling::Layout } else { Sampling::Drive },
        threads: std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
    })
}

/// What is built in.
fn list(width: usize) -> String {
    let mut text = "Experiments\n".to_owned();
    let line = |name: &str, line: &str| beside(&format!("  {name:<16}  "), line, width);
    for builtin in EXPERIMENTS {
        let found = Experiment::find(builtin.name).map(|experiment| experiment.line);
        text.push_str(&line(builtin.name, &found.unwrap_or_default()));
    }
    text.push_str("\nProfiles\n");
    for builtin in PROFILES {
        let found = ageing::find(builtin.name).map(|profile| profile.line);
        text.push_str(&line(builtin.name, &found.unwrap_or_default()));
    }
    text
}
