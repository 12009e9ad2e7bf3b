//! `extant sweep plan`: a matrix becomes jobs.
use super::words::Table;
use super::{epoch, failure};
use extant_block::RealClock;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_sweep::matrix::Matrix;
use extant_sweep::plan::{LIMIT, Planner};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::PathBuf;

/// Write the jobs of a matrix to standard output, one JSON object a line.
///
/// Every key and value of the matrix is looked at first: nothing is written for one that means
/// nothing. Files that jobs read are read once each, for their digests. Paths begin in this folder,
/// where `sweep run` has to be called too. With --json the same lines are printed: they are JSON.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant sweep plan matrix.toml > jobs.jsonl
  extant sweep plan matrix.toml | extant sweep run - night
  extant sweep plan matrix.toml --limit 5000000 > jobs.jsonl
  extant sweep plan matrix.toml | jq -r .words[]")]
pub struct Arguments {
    /// A TOML file; docs/FLEETS.md has its keys
    #[arg(value_name = "MATRIX")]
    pub matrix: PathBuf,
    /// The most combinations that there may be, before `only` and `except` leave some out
    #[arg(long, value_name = "NUMBER", default_value_t = LIMIT)]
    pub limit: u64,
}

/// No matrix is longer, in bytes.
const MATRIX_BYTES_MAX: u64 = 64 << 20;

/// Plans. Each line is a job, whose form docs/FLEETS.md has (`"schema": "extant-sweep-job/1"`).
pub fn run(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    let path = &arguments.matrix;
    let io = |error: std::io::Error| Error::io(path.display(), &error);
    let mut text = Vec::new();
    let file = File::open(path).map_err(io)?;
    file.take(MATRIX_BYTES_MAX + 1).read_to_end(&mut text).map_err(io)?;
    let name = path.display().to_string();
    let text = match (text.len() as u64 > MATRIX_BYTES_MAX, String::from_utf8(text)) {
        (false, Ok(text)) => text,
        (true, _) => {
            return Err(Error::new(format!("{name}: has more than {MATRIX_BYTES_MAX} bytes")));
        }
        (false, Err(_)) => return Err(Error::new(format!("{name}: is not text"))),
    };
    let matrix = Matrix::parse(&name, &text).map_err(failure)?;
    let (table, clock) = (Table::new(), RealClock::new());
    let tell = console.teller();
    let planner = Planner {
        vocabulary: &table,
        clock: &*clock,
        limit: arguments.limit,
        epoch: epoch(),
        tell: &*tell,
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut stopped = None;
    let planned = planner.plan(&matrix, &mut |job| {
        let written = writeln!(out, "{}", job.line()?);
        written.map_err(|error| {
            stopped = Some(Error::stdout(&error));
            extant_sweep::error::Error::new("standard output")
        })
    });
    if let Some(error) = stopped {
        return Err(error);
    }
    let planned = planned.map_err(failure)?;
    out.flush().map_err(|error| Error::stdout(&error))?;
    drop(tell);
    if planned.jobs == 0 {
        let left_out = planned.left_out;
        return Err(Error::new(format!("{name}: no job is left: {left_out} were filtered out")));
    }
    if planned.repeated > 0 {
        let (repeated, jobs) = (planned.repeated, planned.jobs);
        console.warn(&format!("{name}: {repeated} combinations are one of the {jobs} jobs again"));
    }
    Ok(Exit::Complete)
}
