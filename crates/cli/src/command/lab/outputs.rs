//! The files that a run writes, `--trace`, `--save` and `--html`: looked at before it starts, so
//! that no run is lost for a folder that is not there, and no file that is still needed is
//! replaced.
use super::data::DataOption;
use super::page::PageOption;
use extant_chart::Figure;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_host::place::folder_of;
use extant_lab::page;
use extant_lab::scenario::{Existing, Scenario};
use extant_lab::spread::Spread;
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The option of a page, which may replace another page: see [`super::page`].
const PAGE: &str = "--html";

/// A file that is to be written, with the option that asks for it.
pub struct Output {
    /// `--trace`, `--save` or `--html`.
    pub option: &'static str,
    /// Where.
    pub path: PathBuf,
}

/// The file for the trace of a drive, where `drives` are traced: `PATH` itself for the only one,
/// `PATH.NAME` for one of several.
pub fn trace_path(path: &Path, drive: &str, drives: usize) -> PathBuf {
    let mut whole: OsString = path.into();
    if drives > 1 {
        whole.push(".");
        whole.push(drive.replace('/', "_"));
    }
    whole.into()
}

/// The file of one of several file systems in the folder that they are saved in; a name has no
/// slash there.
pub fn saved_path(folder: &Path, filesystem: &str) -> PathBuf {
    folder.join(format!("{}.img", filesystem.replace('/', "_")))
}

/// What the options of a run name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// `--trace`
    pub trace: Option<&'a Path>,
    /// `--save`
    pub save: Option<&'a Path>,
    /// `--html`
    pub page: Option<&'a Path>,
}

/// All that a run writes.
pub fn outputs(scenario: &Scenario, asked: &Asked) -> Vec<Output> {
    let mut outputs = Vec::new();
    if let Some(path) = asked.trace {
        let drives = scenario.drives.len();
        outputs.extend(scenario.drives.iter().map(|drive| Output {
            option: "--trace",
            path: trace_path(path, &drive.name, drives),
        }));
    }
    if let Some(path) = asked.save {
        let filesystems = &scenario.filesystems;
        outputs.extend(filesystems.iter().map(|entry| Output {
            option: "--save",
            path: match filesystems.len() {
                1 => path.to_owned(),
                _ => saved_path(path, &entry.name),
            },
        }));
    }
    outputs.extend(asked.page.map(|path| Output { option: PAGE, path: path.to_owned() }));
    outputs
}

/// Refuses what would write over something: an input of the run or another of its outputs always,
/// any other file unless it may be lost.
pub fn check(outputs: &[Output], inputs: &[PathBuf], existing: Existing) -> Result<(), Error> {
    let inputs: Vec<(&PathBuf, Metadata)> =
        inputs.iter().filter_map(|path| Some((path, std::fs::metadata(path).ok()?))).collect();
    for (at, output) in outputs.iter().enumerate() {
        let name = format!("{} {}", output.option, output.path.display());
        if let Some(other) = outputs[..at].iter().find(|other| place(other) == place(output)) {
            return Err(Error::usage(format!("{name}: is written by {} too", other.option)));
        }
        let Ok(found) = std::fs::metadata(&output.path) else {
            folder_is_there(output, &name)?;
            continue;
        };
        if let Some((input, _)) = inputs.iter().find(|(_, input)| same(input, &found)) {
            return Err(Error::usage(format!(
                "{name}: is {}, which this run reads",
                input.display()
            )));
        }
        if found.is_dir() {
            return Err(Error::usage(format!("{name}: is a folder")));
        }
        // What is written to a terminal or a pipe replaces nothing.
        let replaces = !(found.file_type().is_char_device() || found.file_type().is_fifo());
        if replaces && existing == Existing::Keep && output.option != PAGE {
            let error = Error::new(format!("{name}: exists already"));
            return Err(error.hint("--overwrite replaces it"));
        }
    }
    Ok(())
}

/// What several seeds gave, where it was asked for: on a page, as rows, as JSON or as text.
/// Warnings are in each of them, and beside text on standard error too.
///
/// # Errors
/// What a file or stdout says.
pub fn spread(
    found: &Spread,
    page: &PageOption,
    data: &DataOption,
    console: &Console,
) -> Result<Exit, Error> {
    page.write(|| {
        let lead = format!("{} {}", found.what, found.drive);
        let table = Figure::new("Medians and ranges", found.table());
        let warnings: String = found.warnings().iter().map(|line| format!("{line}\n")).collect();
        let orders = Figure::new("Orders that hang on the seed", warnings);
        let figures = if found.reversed.is_empty() { vec![table] } else { vec![table, orders] };
        page::of_figures("Several seeds", &lead, &figures)
    })?;
    data.write(|| found.observations())?;
    match console.is_json() {
        true => console.print(&found.to_json())?,
        false => console.report(&found.to_text(console.width()))?,
    }
    Ok(Exit::Complete)
}

fn same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Whether two paths are of one file.
pub fn are_one_file(one: &Path, other: &Path) -> bool {
    match (std::fs::metadata(one), std::fs::metadata(other)) {
        (Ok(one), Ok(other)) => same(&one, &other),
        _ => false,
    }
}

/// Where a file is or will be, whatever its path looks like.
fn place(output: &Output) -> PathBuf {
    let whole = output.path.canonicalize();
    whole.unwrap_or_else(|_| {
        let folder = folder_of(&output.path);
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        folder.join(output.path.file_name().unwrap_or_default())
    })
}

/// A folder for several saved file systems is made; any other has to be there.
fn folder_is_there(output: &Output, name: &str) -> Result<(), Error> {
    let folder = folder_of(&output.path);
    if folder.is_dir()
        || (output.option == "--save" && !folder.exists() && folder_of(folder).is_dir())
    {
        return Ok(());
    }
    Err(Error::new(format!("{name}: there is no folder {}", folder.display())))
}
