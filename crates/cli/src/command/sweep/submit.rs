//! `extant sweep submit`: the file that hands a sweep to a scheduler.
use super::failure;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_sweep::directory::next_line;
use extant_sweep::job::Job;
use extant_sweep::matrix::reader::bytes;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

/// Write the file that hands the jobs of a plan to another scheduler: to standard output, or to a
/// new file.
///
/// Nothing is sent: the file is for `sbatch`, `kubectl`, `hq` or Dask's operator, and its first
/// lines say how. The jobs are divided into shards, a task each; all tasks write into one
/// directory, which every machine has to reach by the same name. A task that is run again does no
/// harm, and neither does a sweep that is handed over twice.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant sweep submit jobs.jsonl /shared/night --to slurm | sbatch
  extant sweep submit jobs.jsonl /shared/night --to kubernetes --image registry/extant:1 -o job.yaml
  extant sweep submit jobs.jsonl /shared/night --to hyperqueue --shards 64 -o night.sh
  extant sweep submit jobs.jsonl /shared/night --to dask-kubernetes --image registry/extant:1")]
pub struct Arguments {
    /// A plan: what `sweep plan` wrote
    #[arg(value_name = "JOBS")]
    pub jobs: PathBuf,
    /// The directory of the sweep
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The scheduler
    #[arg(long, value_name = "KIND")]
    pub to: Kind,
    /// How many tasks the jobs are divided into; if nothing is said a hundred jobs a task, and at
    /// most a thousand tasks
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub shards: Option<u64>,
    /// What the scheduler calls it
    #[arg(long, value_name = "NAME", default_value = "extant-sweep", value_parser = name)]
    pub name: String,
    /// The container's image that has `extant` (Kubernetes)
    #[arg(long, value_name = "IMAGE", default_value = "extant:latest")]
    pub image: String,
    /// What a task may hold, from 256M on; its jobs may hold 128M less, so that one ends at its own
    /// limit before the task does
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = memory)]
    pub memory: u64,
    /// How long a job may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,
    /// Write it to this new file
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Schedulers that a file can be written for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Kind {
    /// An array of Slurm
    Slurm,
    /// An indexed job of Kubernetes
    Kubernetes,
    /// HyperQueue
    Hyperqueue,
    /// A cluster of Dask's operator for Kubernetes
    DaskKubernetes,
}

impl Kind {
    fn template(self) -> &'static str {
        match self {
            Kind::Slurm => include_str!("submit/slurm.sh"),
            Kind::Kubernetes => include_str!("submit/kubernetes.yaml"),
            Kind::Hyperqueue => include_str!("submit/hyperqueue.sh"),
            Kind::DaskKubernetes => include_str!("submit/dask-kubernetes.yaml"),
        }
    }

    fn is_shell(self) -> bool {
        matches!(self, Kind::Slurm | Kind::Hyperqueue)
    }
}

/// Jobs of a task if nothing is said.
const JOBS_A_TASK: u64 = 100;
/// More than a thousand tasks most sites of Slurm do not take.
const TASKS_MAX: u64 = 1000;
const MIB: u64 = 1 << 20;
/// What the run itself has of a task.
const RUN_BYTES: u64 = 128 * MIB;

fn memory(word: &str) -> Result<u64, String> {
    let size = bytes(word)?;
    match size >= 2 * RUN_BYTES {
        true => Ok(size),
        false => Err("a task has 256M at least".into()),
    }
}

/// Names of Kubernetes are the narrowest: letters, digits, hyphens.
fn name(word: &str) -> Result<String, String> {
    let is_inside = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let ends = [word.bytes().next(), word.bytes().last()];
    let is_name = word.len() <= 40
        && ends.into_iter().all(|end| end.is_some_and(is_inside))
        && word.bytes().all(|letter| is_inside(letter) || letter == b'-');
    match is_name {
        true => Ok(word.to_owned()),
        false => {
            Err("up to 40 small letters, digits and hyphens, a letter or digit at the ends".into())
        }
    }
}

/// Writes it. With `--json` the same text is printed: it is no report.
pub fn run(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    let count = count(arguments)?;
    let asked = arguments.shards.unwrap_or(count.div_ceil(JOBS_A_TASK).min(TASKS_MAX));
    let shards = asked.min(count);
    let text = filled(arguments, count, shards)?;
    let Some(path) = &arguments.output else {
        console.print(&text)?;
        return Ok(Exit::Complete);
    };
    let failed = |error: std::io::Error| Error::io(path.display(), &error);
    let mut file = File::create_new(path).map_err(failed)?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)?;
    Ok(Exit::Complete)
}

/// How many jobs the plan has; each of them is looked at.
fn count(arguments: &Arguments) -> Result<u64, Error> {
    let path = &arguments.jobs;
    let file = File::open(path).map_err(|error| Error::io(path.display(), &error))?;
    let name = path.display().to_string();
    let mut lines = BufReader::new(file);
    let mut count = 0;
    while let Some(line) = next_line(&name, count + 1, &mut lines).map_err(failure)? {
        count += 1;
        Job::parse(&line).map_err(|error| {
            let said = failure(error);
            Error { message: format!("{name}:{count}: {}", said.message), ..said }
        })?;
    }
    match count {
        0 => Err(Error::new(format!("{name}: has no job"))),
        count => Ok(count),
    }
}

fn filled(arguments: &Arguments, count: u64, shards: u64) -> Result<String, Error> {
    let json = |text: &str| serde_json::Value::from(text).to_string();
    let word = |path: &PathBuf| {
        let text = path.to_str().filter(|text| !text.contains(['\n', '\r']));
        let text = text.ok_or_else(|| {
            Error::new(format!("{}: a name that no file can hold as a line", path.display()))
        })?;
        Ok::<String, Error>(match arguments.to.is_shell() {
            true => format!("'{}'", text.replace('\'', "'\\''")),
            // JSON's strings are YAML's, and two dollars of a command one of Kubernetes.
            false if arguments.to == Kind::Kubernetes => json(&text.replace('$', "$$")),
            false => json(text),
        })
    };
    let pairs = [
        ("@JOBS@", word(&arguments.jobs)?),
        ("@DIRECTORY@", word(&arguments.directory)?),
        ("@COUNT@", count.to_string()),
        ("@SHARDS@", shards.to_string()),
        ("@NAME@", arguments.name.clone()),
        ("@IMAGE@", json(&arguments.image)),
        ("@MEGABYTES@", (arguments.memory / MIB).to_string()),
        ("@JOB_MEGABYTES@", ((arguments.memory - RUN_BYTES) / MIB).to_string()),
        ("@SECONDS@", arguments.seconds.to_string()),
    ];
    // From the left, so that nothing that was put in is read again.
    let mut text = String::new();
    let mut rest = arguments.to.template();
    let next = |rest: &str| {
        let found = pairs.iter().filter_map(|pair| Some((rest.find(pair.0)?, pair)));
        found.min_by_key(|found| found.0).map(|(at, (mark, word))| (at, mark.len(), word.clone()))
    };
    while let Some((at, length, word)) = next(rest) {
        text += &rest[..at];
        text += &word;
        rest = &rest[at + length..];
    }
    Ok(text + rest)
}
