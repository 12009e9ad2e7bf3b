//! `extant lab session`: a recorded session of a mount on a drive.
use super::data::DataOption;
use super::failure;
use super::outputs;
use super::page::PageOption;
use extant_block::{BlockDevice, MemoryDevice, RealClock};
use extant_chart::{Figure, beside};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::image::{self, ImageArguments};
use extant_lab::posts::SEEDS_MAX;
use extant_lab::session::{self, SessionError, SessionReport};
use extant_lab::spread::{self, Spread};
use extant_lab::{page, traces};
use extant_sim::drive::presets;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// No trace is longer: it is read whole.
const TRACE_BYTES_MAX: u64 = 1 << 30;
/// Bytes of a volume that are kept in memory, at most.
const LOADED_BYTES_MAX: u64 = 3 << 30;
/// Bytes that are loaded at once.
const PIECE_BYTES: u64 = 1 << 20;

/// Live a session of a mount again, on a drive: the calls that programs made, by the engine, in
/// virtual time.
///
/// TRACE is the file that extant mount --trace FILE writes as FILE.files. --image is the volume as
/// it was before that session: a copy made before, or an empty one made again by the same mkfs. It
/// is only read. Calls are made one after another, with the pauses of the session; attributes,
/// locks and contents are not part of the trace. FILE.blktrace goes to extant lab replay.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cp disk.img before.img; extant mount --trace life disk.img -- make
  extant lab session life.files --image before.img --drive hdd-2022-20t
  extant lab session life.files --image before.img --drive ide-2001-7200 --preset linux-2.4
  extant lab session life.files --image before.img --drive object-store --seeds 5
  extant lab session life.files --image packed.img --recorded-on before.img --drive object-store
  extant lab replay --format blktrace --trace life.blktrace --drive ssd-sata")]
pub struct Arguments {
    /// The file trace
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// The volume as it was before
    #[arg(long, value_name = "IMAGE")]
    pub image: PathBuf,
    /// The volume that the session was on, where --image is another with the same files: one that
    /// extant repack made of it
    #[arg(long, value_name = "IMAGE")]
    pub recorded_on: Option<PathBuf>,
    /// A built-in drive, or a file
    #[arg(long, value_name = "DRIVE")]
    pub drive: String,
    /// Where things go and when they are read and written: a preset, perhaps with columns changed
    #[arg(long, value_name = "POLICIES", default_value = "modern", visible_alias = "policies")]
    pub preset: String,
    /// What is random in the drive comes from this; disks have nothing that is
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub seed: u64,
    /// Run with as many seeds, the first and those that follow it: of each kind of call the median
    /// and the range, and a warning where seeds reverse the order of two
    #[arg(long, value_name = "COUNT", default_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(SEEDS_MAX)))]
    pub seeds: u32,
    #[command(flatten)]
    pub page: PageOption,
    #[command(flatten)]
    pub data: DataOption,
}

#[derive(Serialize)]
struct Document<'a> {
    drive: &'a str,
    validation: Option<&'static str>,
    policies: String,
    elapsed_ns: u64,
    left_out: u64,
    differ: u64,
    traffic: session::Traffic,
    calls: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    call: &'a str,
    count: u64,
    session_mean_ns: u64,
    session_max_ns: u64,
    replay_mean_ns: u64,
    replay_p99_ns: u64,
    replay_max_ns: u64,
}

/// Lives it again. With `--json`: `{"schema": "extant-lab-session/1", "drive",
/// "validation", "policies", "elapsed_ns", "left_out", "differ", "traffic", "calls"}`.
pub fn run(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    arguments.page.check()?;
    arguments.data.check()?;
    let drive = failure::drive(&arguments.drive)?;
    let setup = failure::setup(&arguments.preset)?;
    let trace = &arguments.trace;
    let bytes = failure::contents(trace, TRACE_BYTES_MAX)?;
    let failed = |error: SessionError| match error {
        SessionError::Line { line, reason } => {
            Error::new(format!("{}:{line}: {reason}", trace.display()))
        }
        SessionError::Volume(error) => image::failure(&arguments.image, error),
        SessionError::Run(reason) => Error::new(reason),
    };
    let records = session::read(&String::from_utf8_lossy(&bytes)).map_err(failed)?;
    let records = match &arguments.recorded_on {
        None => records,
        Some(recorded_on) => {
            let of = |path: &Path| {
                let filesystem = image::open(path, &ImageArguments::default(), console)?;
                filesystem.survey().map_err(|error| image::failure(path, error))
            };
            session::carried(records, &of(recorded_on)?, &of(&arguments.image)?)
        }
    };
    let contents = contents(&arguments.image)?;
    let names = setup.to_string();
    let seeds = spread::seeds(arguments.seed, arguments.seeds);
    let mut status = console.status();
    let mut reports = Vec::new();
    for (at, seed) in seeds.iter().enumerate() {
        status.show(&format!("seed {seed}, {} of {}", at + 1, seeds.len()));
        let report = session::replay(records.clone(), &contents, &drive, setup.clone(), *seed);
        reports.push(report.map_err(failed)?);
    }
    drop(status);
    let model = traces::drive_words(&drive.name);
    let runs: Vec<_> = reports.iter().map(spread::of_session).collect();
    let found = Spread::of(&trace.display().to_string(), &model, &seeds, &runs);
    let [report] = &reports[..] else {
        return outputs::spread(&found, &arguments.page, &arguments.data, console);
    };
    arguments.page.write(|| {
        let figure = Figure::new("Calls and the whole time", found.table());
        page::of_figures("A session", &format!("{} on {model}", found.what), &[figure])
    })?;
    arguments.data.write(|| found.observations())?;
    let calls: Vec<Line<'_>> = lines(report);
    if console.is_json() {
        console.print_json(
            "extant-lab-session/1",
            &Document {
                drive: &drive.name,
                validation: presets::standing(&drive.name),
                policies: names,
                elapsed_ns: report.elapsed_ns,
                left_out: report.left_out,
                differ: report.differ,
                traffic: report.traffic,
                calls,
            },
        )?;
    } else {
        console.report(&format!("on {model}\n{}", text(report, &calls)))?;
    }
    Ok(Exit::Complete)
}

/// A volume in memory, holes left out.
fn contents(path: &Path) -> Result<MemoryDevice, Error> {
    let device = image::device(path, &image::ImageArguments::default())?;
    let failed = |error: std::io::Error| Error::io(path.display(), &error);
    let contents = MemoryDevice::new(RealClock::new(), device.info().bytes);
    let (mut at, mut loaded) = (0, 0u64);
    while let Some(data) = device.next_data(at).map_err(failed)? {
        let end = data.end.min(data.start.saturating_add(PIECE_BYTES));
        let mut piece = vec![0; usize::try_from(end - data.start).unwrap_or(0)];
        device.read(data.start, &mut piece).map_err(failed)?;
        if piece.iter().any(|byte| *byte != 0) {
            loaded += piece.len() as u64;
            contents.write(data.start, &piece).map_err(failed)?;
        }
        if loaded > LOADED_BYTES_MAX {
            return Err(Error::new(format!(
                "{}: holds more than {LOADED_BYTES_MAX} bytes, and has to fit in memory",
                path.display()
            )));
        }
        at = end;
    }
    Ok(contents)
}

fn lines(report: &SessionReport) -> Vec<Line<'_>> {
    let calls = report.calls.iter().map(|(call, times)| Line {
        call,
        count: times.replay.count(),
        session_mean_ns: times.session.mean(),
        session_max_ns: times.session.max(),
        replay_mean_ns: times.replay.mean(),
        replay_p99_ns: times.replay.permille(990),
        replay_max_ns: times.replay.max(),
    });
    calls.collect()
}

fn text(report: &SessionReport, calls: &[Line<'_>]) -> String {
    let micros = |ns: u64| format!("{}.{}", ns / 1000, ns / 100 % 10);
    let row = |head: &str, cells: [&str; 6]| {
        let rest: String = cells.iter().map(|cell| format!("{cell:>13}")).collect();
        beside(&format!("{head:<18}"), &rest, 100)
    };
    let heads = ["count", "then mean us", "then max us", "mean us", "p99 us", "max us"];
    let mut text = row("call", heads);
    for line in calls {
        let cells = [
            &line.count.to_string(),
            &micros(line.session_mean_ns),
            &micros(line.session_max_ns),
            &micros(line.replay_mean_ns),
            &micros(line.replay_p99_ns),
            &micros(line.replay_max_ns),
        ];
        text.push_str(&row(line.call, cells.map(String::as_str)));
    }
    let traffic = &report.traffic;
    let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
    text.push_str(&format!(
        "\n{}.{:03} s until all was on the drive; {} reads ({} MiB), {} writes ({} MiB), \
         {} seeks\n",
        report.elapsed_ns / 1_000_000_000,
        report.elapsed_ns / 1_000_000 % 1000,
        traffic.reads,
        mebibytes(traffic.bytes_read),
        traffic.writes,
        mebibytes(traffic.bytes_written),
        traffic.seeks
    ));
    if report.left_out > 0 {
        text.push_str(&format!("{} calls are not lived again\n", report.left_out));
    }
    if report.differ > 0 {
        text.push_str(&format!("{} calls ended otherwise than then\n", report.differ));
    }
    text
}
