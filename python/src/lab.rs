//! The laboratory: what `extant lab` runs, with results as the JSON that its `--json` prints and as
//! the tables that its `--csv`, `--jsonl` and `--parquet` write.
//!
//! *Locking*: none; a result does not change.
use crate::failure::{class_of, os_error};
use crate::shared::path;
use crate::task::{self, Left, Watch};
use extant::Progress;
use extant_lab::ageing::{
    self, AgeOptions, AgeingError, AgeingReport, Form, Keep, Sampling, Tell, VOLUME_BYTES,
};
use extant_lab::asked;
use extant_lab::fit::{self, Caching, FitOptions};
use extant_lab::observations::{self, DataForm, Observations};
use extant_lab::parquet::Kind;
use extant_lab::posts::{self, PostsReport, Scale, Seeds, Work};
use extant_lab::refused::{Reason, Refused};
use extant_lab::report::Report;
use extant_lab::scenario::{self, Processor, RunOptions, ScenarioError};
use extant_lab::traces::{self, RequestsReport, TimesReport, TraceOptions};
use extant_lab::wanted::Wanted;
use extant_sim::trace::Recognised;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use serde_json::Value;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

/// What something in the laboratory came to.
#[pyclass(frozen, module = "extantfs._native")]
pub struct Found {
    json: String,
    source: Source,
}

/// What its table is made of.
enum Source {
    Run(Box<Report>),
    Posts(PostsReport),
    Age(AgeingReport),
    Fit(Box<fit::Found>),
    Times(TimesReport),
    /// The times of a trace of any length, where they were kept, with the measured ones.
    Requests(Box<RequestsReport>, Option<Vec<(u64, Option<u64>)>>),
}

impl Source {
    fn observations(&self) -> PyResult<Observations<'_>> {
        Ok(match self {
            Source::Run(report) => observations::of_report(report),
            Source::Posts(report) => observations::of_posts(report),
            Source::Age(report) => observations::of_ageing(report),
            Source::Fit(found) => observations::of_fit(found),
            Source::Times(report) => {
                let measured_ns = report.measured_ns.as_deref();
                observations::of_replay(&report.drive, &report.times_ns, measured_ns)
            }
            Source::Requests(report, Some(times)) => {
                observations::of_requests(&report.drive, times.iter().copied())
            }
            Source::Requests(_, None) => {
                let words = "the times of single requests were not kept: replay(.., times=True)";
                return Err(PyValueError::new_err(words));
            }
        })
    }
}

#[pymethods]
impl Found {
    /// What the command prints with `--json`.
    fn json<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.json.as_bytes())
    }

    /// The table: of each column its name, its kind and its values.
    fn columns(&self, py: Python<'_>) -> PyResult<Vec<(String, &'static str, Py<PyList>)>> {
        let (columns, rows) = self.source.observations()?.into_parts();
        let lists: Vec<Bound<'_, PyList>> = columns.iter().map(|_| PyList::empty(py)).collect();
        for row in rows {
            for ((list, value), column) in lists.iter().zip(&row).zip(&columns) {
                match (column.kind, value) {
                    (_, Value::Null) => list.append(py.None())?,
                    (_, Value::Bool(flag)) if column.kind == Kind::Flag => list.append(flag)?,
                    (Kind::Whole, value) => list.append(value.as_i64())?,
                    (Kind::Natural, value) => list.append(value.as_u64())?,
                    (Kind::Real, value) => list.append(value.as_f64())?,
                    (_, Value::String(words)) => list.append(words)?,
                    (_, other) => list.append(other.to_string())?,
                }
            }
        }
        let columns = columns.into_iter().zip(lists);
        Ok(columns.map(|(column, list)| (column.name, column.kind.name(), list.unbind())).collect())
    }

    /// Writes the table into a file, which is replaced: `csv`, `jsonl` or `parquet`.
    fn write(&self, py: Python<'_>, form: &str, at: &[u8]) -> PyResult<()> {
        let form = match form {
            "csv" => DataForm::Csv,
            "jsonl" => DataForm::JsonLines,
            "parquet" => DataForm::Parquet,
            _ => return Err(PyValueError::new_err(format!("{form}: csv, jsonl or parquet"))),
        };
        let observations = self.source.observations()?;
        let at = path(at);
        let wrote = File::create(at).and_then(|file| {
            let mut out = BufWriter::new(file);
            observations.write(form, &mut out)?;
            out.flush()
        });
        wrote.map_err(|error| refused(py, Refused::host(at.display(), &error)))
    }
}

/// A wish, if there is one.
fn wish<'py, T: FromPyObjectOwned<'py>>(
    wishes: &Bound<'py, PyDict>,
    name: &str,
) -> PyResult<Option<T>> {
    let Some(value) = wishes.get_item(name)? else { return Ok(None) };
    let extracted: Result<T, PyErr> = value.extract::<T>().map_err(Into::into);
    extracted.map(Some).map_err(|error| match error.is_instance_of::<PyTypeError>(wishes.py()) {
        true => PyTypeError::new_err(format!("{name}: {}", error.value(wishes.py()))),
        false => PyValueError::new_err(format!("{name}: {}", error.value(wishes.py()))),
    })
}

/// Words of the host as a path.
fn path_wish(wishes: &Bound<'_, PyDict>, name: &str) -> PyResult<Option<PathBuf>> {
    Ok(wish::<Vec<u8>>(wishes, name)?.map(|bytes| path(&bytes).to_owned()))
}

fn processor(wishes: &Bound<'_, PyDict>) -> PyResult<Option<&'static Processor>> {
    let word = wish::<String>(wishes, "processor")?;
    word.map(|word| scenario::processor(&word).map_err(PyValueError::new_err)).transpose()
}

/// As the command says it, with its hint.
fn refused(py: Python<'_>, error: Refused) -> PyErr {
    let words = match &error.hint {
        Some(hint) => format!("{} ({hint})", error.message),
        None => error.message,
    };
    match error.reason {
        Reason::Words | Reason::Content => PyValueError::new_err(words),
        Reason::Host { number: Some(number), .. } => os_error(number, &words),
        Reason::Host { .. } => lab_error(py, words),
    }
}

/// What went wrong in the midst of work.
fn lab_error(py: Python<'_>, words: String) -> PyErr {
    class_of(py, "LabError")
        .and_then(|class| class.call1((words,)))
        .map_or_else(|failed| failed, PyErr::from_value)
}

fn failed(py: Python<'_>, error: ScenarioError) -> PyErr {
    match error {
        ScenarioError::File(error) => PyValueError::new_err(error.to_string()),
        other => lab_error(py, other.to_string()),
    }
}

/// While nobody has cancelled the watch; each time that it is asked is told as progress.
fn wanted(watch: &Arc<Watch>) -> Wanted {
    let watch = Arc::clone(watch);
    Wanted::by(move || {
        watch.advance(1);
        !watch.is_cancelled()
    })
}

/// The same, where something else is told.
fn wanted_quietly(watch: &Arc<Watch>) -> Wanted {
    let watch = Arc::clone(watch);
    Wanted::by(move || !watch.is_cancelled())
}

/// Runs a scenario.
#[pyfunction]
#[pyo3(signature = (word, wishes, progress=None))]
pub fn lab_run(
    py: Python<'_>,
    word: &str,
    wishes: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Found> {
    let scenario = asked::scenario(word).map_err(|error| refused(py, error))?;
    let policies: Option<String> = wish(wishes, "preset")?;
    if let Some(words) = &policies {
        asked::setup(words).map_err(|error| refused(py, error))?;
    }
    let drive = wish::<String>(wishes, "drive")?.map(|word| asked::drive(&word)).transpose();
    let options = RunOptions {
        image: path_wish(wishes, "image")?,
        drive: drive.map_err(|error| refused(py, error))?,
        policies,
        processor: processor(wishes)?,
        seed: wish(wishes, "seed")?,
        scale: wish(wishes, "scale")?.unwrap_or(1),
        ..RunOptions::default()
    };
    if let Some(image) = &options.image {
        File::open(image).map_err(|error| refused(py, Refused::host(image.display(), &error)))?;
    }
    let image = options.image.clone();
    let outcome = task::run(py, progress, Left::Ended, move |watch| {
        let options = RunOptions { wanted: wanted(watch), ..options };
        scenario::run(&scenario, &options).map(|outcome| outcome.report)
    })?;
    let report = outcome.map_err(|error| match &image {
        // It says what is wrong with a volume, not which file that is.
        Some(image) => lab_error(py, format!("{}: {error}", image.display())),
        None => failed(py, error),
    })?;
    Ok(Found { json: report.to_json(), source: Source::Run(Box::new(report)) })
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Runs posts.
#[pyfunction]
#[pyo3(signature = (numbers, wishes, progress=None))]
pub fn lab_posts(
    py: Python<'_>,
    numbers: Vec<u32>,
    wishes: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Found> {
    let numbers = posts::chosen(&numbers).map_err(|error| refused(py, error))?;
    let is_full = wish(wishes, "full")?.unwrap_or(false);
    let scale = if is_full { Scale::Full } else { Scale::Quick };
    let seeds = Seeds {
        work: Work { seed: wish(wishes, "seed")?, ..Work::from(scale) },
        count: wish(wishes, "seeds")?.unwrap_or(1),
        threads: threads(),
    };
    let report = task::run(py, progress, Left::Ended, move |watch| {
        let told = Arc::clone(watch);
        let wanted = wanted_quietly(watch);
        posts::run_seeds_while(&numbers, seeds, &wanted, &move |_| told.advance(1))
    })?;
    let report = report.map_err(|error| failed(py, error))?;
    Ok(Found { json: report.to_json(), source: Source::Posts(report) })
}

/// Replays a trace on a drive.
#[pyfunction]
#[pyo3(signature = (drive, trace, wishes, progress=None))]
pub fn lab_replay(
    py: Python<'_>,
    drive: &str,
    trace: &[u8],
    wishes: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Found> {
    let no = |error| refused(py, error);
    let trace = path(trace).to_owned();
    let spec = match path_wish(wishes, "facts")? {
        Some(facts) => asked::drive_with_facts(drive, &facts),
        None => asked::drive(drive),
    };
    let spec = spec.map_err(no)?;
    let word = |name| wish::<String>(wishes, name);
    let format = word("format")?.map(|word| traces::format(&word)).transpose().map_err(no)?;
    let options = TraceOptions {
        format: format.flatten(),
        volume: word("volume")?,
        pace: word("pace")?.map(|word| traces::pace(&word)).transpose().map_err(no)?,
        beyond: word("beyond")?.map(|word| traces::beyond(&word)).transpose().map_err(no)?,
        seed: wish(wishes, "seed")?.unwrap_or(1),
    };
    let are_kept = wish(wishes, "times")?.unwrap_or(false);
    // What reads whole traces does not ask whether it is wanted.
    let found = task::run(py, progress, Left::Alone, move |watch| -> Result<Found, Refused> {
        let input = traces::open(&trace)?;
        let format = match options.format_of(&input) {
            Recognised::Requests(format) => format,
            format => {
                let report = traces::replay_times(&spec, &trace, format, &options)?;
                return Ok(Found { json: report.to_json(), source: Source::Times(report) });
            }
        };
        let mut times = are_kept.then(Vec::new);
        let mut each = |one: extant_sim::replay::Answered| {
            watch.advance(1);
            times.iter_mut().for_each(|times| times.push((one.took_ns, one.measured_ns)));
        };
        let wanted = wanted_quietly(watch);
        let input = (format, input);
        let report = traces::replay_requests(&spec, &trace, input, &options, &wanted, &mut each)?;
        let json = report.to_json();
        Ok(Found { json, source: Source::Requests(Box::new(report), times) })
    })?;
    found.map_err(no)
}

/// Fits a drive to a device.
#[pyfunction]
#[pyo3(signature = (device, wishes, progress=None))]
pub fn lab_fit(
    py: Python<'_>,
    device: &[u8],
    wishes: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Found> {
    let usual = FitOptions::default();
    let is_buffered = wish(wishes, "buffered")?.unwrap_or(false);
    let options = FitOptions {
        name: wish(wishes, "name")?.unwrap_or(usual.name),
        write: path_wish(wishes, "write")?,
        seconds: wish(wishes, "time")?.unwrap_or(usual.seconds),
        caching: if is_buffered { Caching::Allowed } else { Caching::Bypassed },
        seed: wish(wishes, "seed")?.unwrap_or(usual.seed),
    };
    let device = path(device).to_owned();
    let found = task::run(py, progress, Left::Ended, move |watch| {
        let told = Arc::clone(watch);
        let mut tell = |_: &str, permille| told.set(permille, 1000);
        fit::fit_device(&device, &options, &wanted_quietly(watch), &mut tell)
    })?;
    let found = found.map_err(|error| refused(py, error))?;
    Ok(Found { json: found.to_json(), source: Source::Fit(Box::new(found)) })
}

/// Ages a volume under several policies.
#[pyfunction]
#[pyo3(signature = (what, wishes, progress=None))]
pub fn lab_age(
    py: Python<'_>,
    what: &str,
    wishes: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Found> {
    let no = |error| refused(py, error);
    let volume = match wish::<String>(wishes, "volume")? {
        None => None,
        Some(word) => Some(ageing::volume_kind(&word).ok_or_else(|| {
            PyValueError::new_err(format!("{word}: no such volume; there are ext2, ext3, ext4"))
        })?),
    };
    let presets: Vec<String> = wish(wishes, "preset")?.unwrap_or_default();
    let experiment = asked::experiment(what).map_err(no)?;
    let experiment = experiment.changed(&presets, volume, processor(wishes)?).map_err(no)?;
    let bytes: Option<u64> = wish(wishes, "size")?;
    if bytes.is_some_and(|bytes| !VOLUME_BYTES.contains(&bytes)) {
        return Err(PyValueError::new_err("size: has to lie within 16 MiB and 16 TiB"));
    }
    let is_full = wish(wishes, "full")?.unwrap_or(false);
    let is_layout_only = wish(wishes, "layout_only")?.unwrap_or(false);
    let drive = wish::<String>(wishes, "drive")?.map(|word| asked::drive(&word)).transpose();
    let options = AgeOptions {
        seed: wish(wishes, "seed")?.unwrap_or(1),
        form: if is_full { Form::Full } else { Form::Quick },
        months: wish(wishes, "months")?,
        bytes,
        drive: drive.map_err(no)?,
        sampling: if is_layout_only { Sampling::Layout } else { Sampling::Drive },
        threads: threads(),
    };
    // Filling a volume asks nobody whether it is wanted.
    let aged = task::run(py, progress, Left::Alone, move |watch| {
        let told = Arc::clone(watch);
        let tell: Tell = Arc::new(move |_| told.advance(1));
        ageing::run_while(&experiment, &options, Keep::Report, &wanted_quietly(watch), &tell)
    })?;
    let report = aged.map_err(|error| match error {
        AgeingError::File(_) | AgeingError::Policies(..) => {
            PyValueError::new_err(error.to_string())
        }
        other => lab_error(py, other.to_string()),
    })?;
    Ok(Found { json: report.report.to_json(), source: Source::Age(report.report) })
}
