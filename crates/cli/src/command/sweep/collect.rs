//! `extant sweep collect`: results as a table.
use super::failure;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_sweep::collect::collect;
use extant_sweep::directory::Directory;
use extant_sweep::table::{Form, Lines};
use extant_sweep::whole;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

/// Write the results of a sweep as one table.
///
/// A row for each observation of a simulation, or for each job whose result is one document; the
/// values of the matrix are columns of every row. The rows are in the order of the plan. Exit code
/// 1 if jobs have no result yet: what is there is written, and how many are missing is said.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant sweep collect night --csv > night.csv
  extant sweep collect night --jsonl -o night.jsonl
  extant sweep collect night --jsonl | jq 'select(.kind == \"check\" and .exit != 0) | .image'")]
#[command(group = clap::ArgGroup::new("form").required(true))]
pub struct Arguments {
    /// The directory of the sweep
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// As CSV: a line of names, then a row a line
    #[arg(long, group = "form")]
    pub csv: bool,
    /// As JSON Lines: an object a line
    #[arg(long, group = "form")]
    pub jsonl: bool,
    /// Write it to this file, which is replaced when all is written; standard output if none is
    /// named
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Collects. The table goes to standard output in its own form, with `--json` too.
pub fn run(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    let directory = Directory::open(&arguments.directory).map_err(failure)?;
    let form = if arguments.csv { Form::Csv } else { Form::JsonLines };
    let collected = match &arguments.output {
        None => {
            let mut out = Watched { out: BufWriter::new(std::io::stdout().lock()), error: None };
            let collected = collect(&directory, &mut Lines::new(form, &mut out), "standard output");
            match out.error {
                Some(error) => return Err(error),
                None => collected.map_err(failure)?,
            }
        }
        Some(path) => {
            let partial = whole::partial(path);
            let file = File::create(&partial).map_err(|error| Error::io(path.display(), &error))?;
            let partial = extant_host::cleanup::PartialFile::register(&partial);
            let mut lines = Lines::new(form, BufWriter::new(file));
            let collected = collect(&directory, &mut lines, &path.display().to_string());
            let collected = collected.map_err(failure)?;
            partial.rename(path, extant_host::cleanup::Replace::Existing)?;
            collected
        }
    };
    if collected.missing == 0 {
        return Ok(Exit::Complete);
    }
    let (missing, jobs) = (collected.missing, collected.jobs);
    let shown = arguments.directory.display();
    console.skipped(&format!("{shown}: {missing} of {jobs} jobs have no result"));
    console.hint(&format!("extant sweep status {shown} says which failed"));
    Ok(Exit::Incomplete)
}

/// Standard output, which remembers why it could not be written: a reader that went away is no
/// failure to speak of.
struct Watched<W> {
    out: W,
    error: Option<Error>,
}

impl<W: std::io::Write> std::io::Write for Watched<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes);
        written.inspect_err(|error| self.error = Some(Error::stdout(error)))
    }
    fn flush(&mut self) -> std::io::Result<()> {
        let flushed = self.out.flush();
        flushed.inspect_err(|error| self.error = Some(Error::stdout(error)))
    }
}
