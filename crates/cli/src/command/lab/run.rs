//! `extant lab run`: a scenario on its drives, or on a file or device of the host.
use super::data::DataOption;
use super::failure;
use super::outputs::{self, are_one_file, saved_path, trace_path};
use super::page::PageOption;
use extant_format::superblock::SuperblockError;
use extant_host::console::Console;
use extant_host::disk;
use extant_host::error::{Error, Exit};
use extant_host::image;
use extant_inspect::{SuperblockPlace, Volume};
use extant_lab::posts::SEEDS_MAX;
use extant_lab::report::Report;
use extant_lab::scenario::{
    self, Existing, Layouts, Left, Origin, Processor, RunOptions, Scenario, Target,
};
use extant_lab::spread::{self, Spread};
use extant_lab::{observations, page};
use extant_sim::device::TraceKeeping;
use extant_sim::trace::{self, TraceFormat, TraceRecord};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Run a scenario and report what it measured.
///
/// SCENARIO is a built-in one (`extant lab list`) or a TOML file (docs/LAB.md has its keys). On its
/// drives it runs in virtual time, and the same command gives the same bytes; with --real it runs
/// on a file or device in real time.
#[derive(Clone, clap::Args)]
#[command(after_help = "Examples:
  extant lab run read-cold
  extant lab run read-cold --image disk.img --drive ide-2001-7200
  extant lab run walk-cold --image before.img --image packed.img --drive all
  extant lab run read-cold --preset linux-2.4,placement=orlov --json | jq .measures
  extant lab run mine.toml --trace mine.trace --trace-format blktrace
  extant lab run stat-cold --drive object-store --seeds 5
  extant lab run writer-and-reader --html page.html
  extant lab run mine.toml --save after.img && e2fsck -fn after.img
  extant lab run mine.toml --real /srv/scratch.img --scale 10")]
pub struct Arguments {
    /// A built-in scenario, or a file
    #[arg(value_name = "SCENARIO")]
    pub scenario: String,
    /// Begin with a copy of this image in place of the first file system; steps with skip_on_image
    /// are left out. Given several times, the scenario runs on each, and a table has them beside
    /// each other
    #[arg(long, value_name = "IMAGE")]
    pub image: Vec<PathBuf>,
    /// Run on this file or device, in real time; a file that does not exist is made. With --image
    /// both name the same file: the scenario begins with what it holds
    #[arg(long, value_name = "PATH", conflicts_with_all = ["drive", "trace", "save"])]
    pub real: Option<PathBuf>,
    /// What the files of --real, --trace and --save hold may be lost
    #[arg(long)]
    pub overwrite: bool,
    /// In place of every drive: a built-in one, or a file; all: each built-in one in turn
    #[arg(long, value_name = "DRIVE")]
    pub drive: Option<String>,
    /// Policies of every file system: a preset, columns (COLUMN=CHOICE) to change, or both, with
    /// commas between
    #[arg(long, value_name = "POLICIES", visible_alias = "policies")]
    pub preset: Option<String>,
    /// In place of the scenario's seed
    #[arg(long, value_name = "NUMBER",
        value_parser = clap::value_parser!(u64).range(0..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Run with as many seeds, the first and those that follow it: of each measure the median and
    /// the range, and a warning where seeds reverse the order of two
    #[arg(long, value_name = "COUNT", default_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(SEEDS_MAX)),
        conflicts_with_all = ["real", "trace", "save"])]
    pub seeds: u32,
    /// Charge all file systems for this processor, whatever their presets: 2001, 2007, today or
    /// none
    #[arg(long, value_name = "PROCESSOR", value_parser = scenario::processor)]
    pub processor: Option<&'static Processor>,
    /// Divide counts of files, bytes, pieces and calls by this, but not those of `repeat`
    #[arg(long, value_name = "NUMBER", default_value = "1",
        value_parser = clap::value_parser!(u64).range(1..))]
    pub scale: u64,
    /// Write every command that the drives got; with several drives, FILE.DRIVE for each
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// How: disksim, blktrace, fio-iolog, fio-iolog-3; json has a record a line, with all that is
    /// known
    #[arg(long, value_name = "FORMAT", default_value = "disksim", value_parser = trace_form)]
    pub trace_format: TraceForm,
    /// Write the file systems out as they are in the end, sparse: a file, or a folder for several.
    /// File data reads as zeros unless the scenario keeps it (data = "bytes")
    #[arg(long, value_name = "PATH")]
    pub save: Option<PathBuf>,
    #[command(flatten)]
    pub page: PageOption,
    #[command(flatten)]
    pub data: DataOption,
}

/// How a trace is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceForm {
    /// As other tools read it.
    Foreign(TraceFormat),
    /// Everything that is known, a JSON object a line.
    Json,
}

fn trace_form(word: &str) -> Result<TraceForm, String> {
    match word {
        "json" => Ok(TraceForm::Json),
        _ => word
            .parse()
            .map(TraceForm::Foreign)
            .map_err(|_| "there are disksim, blktrace, fio-iolog, fio-iolog-3 and json".to_owned()),
    }
}

/// Runs it. With `--json`: the report, whose schema is in docs/LAB.md.
pub fn run(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    let scenario = failure::scenario(&arguments.scenario)?;
    let options = options(arguments)?;
    if arguments.save.is_some() && scenario.filesystems.is_empty() {
        return Err(Error::usage("--save: this scenario has no file system"));
    }
    check_pair(arguments)?;
    let files = outputs::Asked {
        trace: arguments.trace.as_deref(),
        save: arguments.save.as_deref(),
        page: arguments.page.html.as_deref(),
    };
    let written = outputs::outputs(&scenario, &files);
    arguments.page.check()?;
    arguments.data.check()?;
    let existing = if arguments.overwrite { Existing::Overwrite } else { Existing::Keep };
    outputs::check(&written, &inputs(arguments, &scenario), existing)?;
    image_of(arguments).map_or(Ok(()), look_at)?;
    if arguments.seeds > 1 {
        return over_seeds(arguments, &scenario, &options, console);
    }
    let mut outcome = scenario::run(&scenario, &options).map_err(|error| failure::ran(&error))?;
    if let Some(path) = &arguments.trace {
        write_traces(path, arguments.trace_format, &mut outcome.report)?;
    }
    if let Some(path) = &arguments.save {
        save(path, &outcome.filesystems)?;
    }
    arguments.page.write(|| page::of_report(&outcome.report))?;
    arguments.data.write(|| observations::of_report(&outcome.report))?;
    match console.is_json() {
        true => console.print(&outcome.report.to_json())?,
        false => console.report(&outcome.report.to_text(console.width()))?,
    }
    Ok(Exit::Complete)
}

/// The same with several seeds. With `--json`: the document whose schema is in docs/LAB.md.
fn over_seeds(
    arguments: &Arguments,
    scenario: &Scenario,
    options: &RunOptions,
    console: &Console,
) -> Result<Exit, Error> {
    let seeds = spread::seeds(arguments.seed.unwrap_or(scenario.seed), arguments.seeds);
    let mut status = console.status();
    let mut runs = Vec::new();
    let mut drive = String::new();
    for (at, seed) in seeds.iter().enumerate() {
        status.show(&format!("seed {seed}, {} of {}", at + 1, seeds.len()));
        let options = RunOptions { seed: Some(*seed), ..options.clone() };
        let outcome = scenario::run(scenario, &options).map_err(|error| failure::ran(&error))?;
        drive = outcome.report.drive_words();
        runs.push(spread::of_report(&outcome.report));
    }
    drop(status);
    let found = Spread::of(&scenario.name, &drive, &seeds, &runs);
    outputs::spread(&found, &arguments.page, &arguments.data, console)
}

/// On the host's own file nothing is copied: an image that is elsewhere would be ignored, and the
/// file written over.
fn check_pair(arguments: &Arguments) -> Result<(), Error> {
    let (Some(image), Some(real)) = (image_of(arguments), &arguments.real) else {
        return Ok(());
    };
    match are_one_file(image, real) {
        true => Ok(()),
        false => Err(Error::usage(format!(
            "--image {}: is not copied to the file of --real",
            image.display()
        ))
        .hint(format!(
            "make the copy yourself, and name it twice: --image {0} --real {0}",
            real.display()
        ))),
    }
}

/// Files that a run reads.
fn inputs(arguments: &Arguments, scenario: &Scenario) -> Vec<PathBuf> {
    let mut inputs = vec![PathBuf::from(&arguments.scenario)];
    inputs.extend(image_of(arguments).map(Path::to_owned));
    inputs.extend(arguments.drive.as_ref().map(PathBuf::from));
    inputs.extend(scenario.filesystems.iter().filter_map(|entry| match &entry.origin {
        Origin::Image(path) => Some(path.clone()),
        Origin::Format(_) => None,
    }));
    inputs
}

/// The image, where there is one.
fn image_of(arguments: &Arguments) -> Option<&Path> {
    arguments.image.first().map(PathBuf::as_path)
}

pub(super) fn options(arguments: &Arguments) -> Result<RunOptions, Error> {
    if let Some(words) = &arguments.preset {
        failure::setup(words)?;
    }
    let existing = if arguments.overwrite { Existing::Overwrite } else { Existing::Keep };
    let real = |path: &PathBuf| Target::Real { path: path.clone(), existing };
    Ok(RunOptions {
        target: arguments.real.as_ref().map_or(Target::Virtual, real),
        image: image_of(arguments).map(Path::to_owned),
        drive: arguments.drive.as_deref().map(failure::drive).transpose()?,
        policies: arguments.preset.clone(),
        processor: arguments.processor,
        seed: arguments.seed,
        scale: arguments.scale,
        trace: if arguments.trace.is_some() { TraceKeeping::All } else { TraceKeeping::None },
        layouts: match arguments.page.html {
            Some(_) => Layouts::Drawn,
            None => Layouts::Recorded,
        },
        ..RunOptions::default()
    })
}

/// Whether an image can be opened and is one: found out before anything runs, in the words of the
/// other commands.
pub(super) fn look_at(path: &Path) -> Result<(), Error> {
    disk::refuse_part(path, "the laboratory")?;
    let place = disk::writable(path, 0)?;
    if place.range.is_some() {
        let start = place.start();
        let refused = Error::new(format!("{}: is a disk with partitions", path.display()));
        return Err(without_offset(path, refused.hint(format!("its volume: --offset {start}"))));
    }
    let device = image::device(path, &image::ImageArguments::default())?;
    match Volume::open(device.clone(), SuperblockPlace::Primary) {
        Err(extant_inspect::Error::Superblock { error: SuperblockError::NotExt, .. }) => {
            Err(without_offset(path, image::not_ext(path, &*device, 0)))
        }
        // What else is wrong with it shows in the run.
        _ => Ok(()),
    }
}

/// The laboratory takes whole images: a hint that names a part of one says how to cut the volume
/// out.
fn without_offset(path: &Path, refused: Error) -> Error {
    match refused.hint.clone() {
        Some(hint) if hint.contains("at byte") || hint.contains("--offset") => {
            refused.hint(format!(
                "{hint}; here it has to be cut out: dd if={} of=volume.img iflag=skip_bytes bs=1M \
             skip=OFFSET",
                path.display()
            ))
        }
        _ => refused,
    }
}

/// Takes the traces out of the report: they are written to files of their own.
fn write_traces(path: &Path, form: TraceForm, report: &mut Report) -> Result<(), Error> {
    let drives = report.drives.len();
    for drive in &mut report.drives {
        let path = trace_path(path, &drive.name, drives);
        let records = drive.trace.take().unwrap_or_default();
        write_trace(&path, form, &records, &drive.name)
            .map_err(|reason| Error::new(format!("{}: {reason}", path.display())))?;
    }
    Ok(())
}

fn write_trace(
    path: &Path,
    form: TraceForm,
    records: &[TraceRecord],
    drive: &str,
) -> Result<(), String> {
    let mut out =
        BufWriter::new(File::create(path).map_err(|error| extant_archive::reason(&error))?);
    match form {
        TraceForm::Foreign(format) => {
            let device: String = drive.split_whitespace().collect::<Vec<_>>().join("_");
            trace::write(format, records, &device, &mut out).map_err(|error| error.to_string())?;
        }
        TraceForm::Json => {
            for record in records {
                serde_json::to_writer(&mut out, record).map_err(|error| error.to_string())?;
                out.write_all(b"\n").map_err(|error| extant_archive::reason(&error))?;
            }
        }
    }
    out.flush().map_err(|error| extant_archive::reason(&error))
}

fn save(path: &Path, filesystems: &[Left]) -> Result<(), Error> {
    match filesystems {
        [] => Ok(()),
        [one] => one.save(path).map_err(|error| Error::io(path.display(), &error)),
        several => {
            std::fs::create_dir_all(path).map_err(|error| Error::io(path.display(), &error))?;
            for one in several {
                let file = saved_path(path, &one.name);
                one.save(&file).map_err(|error| Error::io(file.display(), &error))?;
            }
            Ok(())
        }
    }
}
