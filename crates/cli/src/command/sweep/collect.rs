//! `extant sweep collect`: results as a table.
use super::failure;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_lab::parquet::{self, Kind, ParquetWriter};
use extant_sweep::collect::collect;
use extant_sweep::directory::Directory;
use extant_sweep::table::{Cell, Column, Form, Lines, Schema, Sink, Type, typed};
use extant_sweep::whole;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
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
  extant sweep collect night --parquet -o night.parquet
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
    /// As Parquet, which has the type of each column
    #[arg(long, group = "form")]
    pub parquet: bool,
    /// Write it to this file, which is replaced when all is written; standard output if none is
    /// named
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Collects. The table goes to standard output in its own form, with `--json` too.
pub fn run(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    let directory = Directory::open(&arguments.directory).map_err(failure)?;
    let collected = match &arguments.output {
        None => {
            if arguments.parquet && io::stdout().is_terminal() {
                return Err(Error::usage("--parquet: is no text for a terminal")
                    .hint("name a file: -o night.parquet"));
            }
            let mut out = Watched { out: BufWriter::new(io::stdout().lock()), error: None };
            let collected = collect(&directory, &mut *sink(arguments, &mut out), "standard output");
            match out.error {
                Some(error) => return Err(error),
                None => collected.map_err(failure)?,
            }
        }
        Some(path) => {
            let partial = whole::partial(path);
            let file = File::create(&partial).map_err(|error| Error::io(path.display(), &error))?;
            let partial = extant_host::cleanup::PartialFile::register(&partial);
            let mut sink = sink(arguments, BufWriter::new(file));
            let collected = collect(&directory, &mut *sink, &path.display().to_string());
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

/// What takes the table in the form that was asked for.
fn sink<'a, W: Write + 'a>(arguments: &Arguments, out: W) -> Box<dyn Sink + 'a> {
    match (arguments.parquet, arguments.csv) {
        (true, _) => Box::new(Parquet::To(out)),
        (false, true) => Box::new(Lines::new(Form::Csv, out)),
        (false, false) => Box::new(Lines::new(Form::JsonLines, out)),
    }
}

/// A table as a Parquet file.
enum Parquet<W: Write> {
    /// Before its schema is known.
    To(W),
    Written(ParquetWriter<W>),
    /// All is written, or something failed.
    Ended,
}

impl<W: Write> Sink for Parquet<W> {
    fn begin(&mut self, schema: &Schema) -> io::Result<()> {
        let column = |column: &Column| parquet::Column {
            name: column.name.clone(),
            kind: match column.kind {
                Type::Boolean => Kind::Flag,
                Type::Integer | Type::Long => Kind::Whole,
                Type::Unsigned => Kind::Natural,
                Type::Float => Kind::Real,
                Type::Empty | Type::Text => Kind::Words,
            },
        };
        let columns = schema.columns.iter().map(column).collect();
        if let Parquet::To(out) = std::mem::replace(self, Parquet::Ended) {
            *self = Parquet::Written(ParquetWriter::begin(columns, out)?);
        }
        Ok(())
    }

    fn row(&mut self, schema: &Schema, cells: &[Cell]) -> io::Result<()> {
        let Parquet::Written(writer) = self else { return Ok(()) };
        let pairs = schema.columns.iter().zip(cells);
        writer.row(&pairs.map(|(column, cell)| typed(column, cell)).collect::<Vec<_>>())
    }

    fn end(&mut self) -> io::Result<()> {
        match std::mem::replace(self, Parquet::Ended) {
            Parquet::Written(writer) => writer.finish().map(|_| ()),
            _ => Ok(()),
        }
    }
}

/// Standard output, which remembers why it could not be written: a reader that went away is no
/// failure to speak of.
struct Watched<W> {
    out: W,
    error: Option<Error>,
}

impl<W: Write> Write for Watched<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        written.inspect_err(|error| self.error = Some(Error::stdout(error)))
    }
    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        flushed.inspect_err(|error| self.error = Some(Error::stdout(error)))
    }
}
