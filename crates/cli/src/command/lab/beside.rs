//! One scenario on several images and drives, the figures beside each other.
use super::failure;
use super::run::{Arguments, look_at, options};
use extant_chart::{Alignment, Table};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_lab::scenario::{self, RunOptions, Scenario};
use extant_lab::spread::{self, Figure};
use extant_lab::traces::drive_words;
use extant_sim::drive::presets::PRESETS;
use serde::Serialize;
use std::path::Path;

/// The word for every built-in drive.
const ALL: &str = "all";

/// Whether several images, or every drive, are asked for.
pub fn is_asked(arguments: &Arguments) -> bool {
    arguments.image.len() > 1 || arguments.drive.as_deref() == Some(ALL)
}

#[derive(Serialize)]
struct Document<'a> {
    scenario: &'a str,
    runs: Vec<Run<'a>>,
}

/// What one image gave on one drive.
#[derive(Serialize)]
struct Run<'a> {
    image: Option<String>,
    drive: String,
    figures: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    kind: &'a str,
    name: &'a str,
    unit: &'a str,
    millionths: Option<i64>,
}

/// What the images gave on one drive, one column each.
struct Drive {
    name: String,
    columns: Vec<Vec<Figure>>,
}

/// Runs it on each. With `--json`: `{"schema": "extant-lab-beside/1", "scenario", "runs":
/// [{"image", "drive", "figures": [{"kind", "name", "unit", "millionths"}]}]}`.
pub fn run(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    refuse_others(arguments)?;
    let scenario = &failure::scenario(&arguments.scenario)?;
    arguments.image.iter().try_for_each(|image| look_at(image))?;
    let drives: Vec<Option<&str>> = match arguments.drive.as_deref() {
        Some(ALL) => PRESETS.iter().map(|preset| Some(preset.name)).collect(),
        one => vec![one],
    };
    let images: Vec<Option<&Path>> = match arguments.image.len() {
        0 => vec![None],
        _ => arguments.image.iter().map(|image| Some(image.as_path())).collect(),
    };
    let base = options(&Arguments { drive: None, image: Vec::new(), ..arguments.clone() })?;
    let (mut status, mut done) = (console.status(), Vec::new());
    for drive in &drives {
        let spec = drive.map(failure::drive).transpose()?;
        let mut of = Drive { name: String::new(), columns: Vec::new() };
        for image in &images {
            let shown = image.map_or_else(String::new, |image| image.display().to_string());
            status.show(&format!("{} {shown}", drive.unwrap_or_default()));
            let image = image.map(Path::to_owned);
            let options = RunOptions { drive: spec.clone(), image, ..base.clone() };
            let outcome =
                scenario::run(scenario, &options).map_err(|error| failure::ran(&error))?;
            of.name = match &spec {
                Some(spec) => drive_words(&spec.name),
                None => outcome.report.drive_words(),
            };
            of.columns.push(spread::of_report(&outcome.report));
        }
        done.push(of);
    }
    drop(status);
    told(scenario, (&images, &done), console)
}

/// What gives one report of one run.
fn refuse_others(arguments: &Arguments) -> Result<(), Error> {
    let given = [
        ("--real", arguments.real.is_some()),
        ("--trace", arguments.trace.is_some()),
        ("--save", arguments.save.is_some()),
        ("--seeds", arguments.seeds > 1),
        ("--html", arguments.page.html.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => {
            Err(Error::usage(format!("{option}: not with several images, nor with --drive all")))
        }
    }
}

fn told(
    scenario: &Scenario,
    (images, drives): (&[Option<&Path>], &[Drive]),
    console: &Console,
) -> Result<Exit, Error> {
    let names: Vec<Option<String>> =
        images.iter().map(|image| image.map(|image| image.display().to_string())).collect();
    if console.is_json() {
        let mut runs = Vec::new();
        for drive in drives {
            for (image, figures) in names.iter().zip(&drive.columns) {
                let (image, drive) = (image.clone(), drive.name.clone());
                runs.push(Run { image, drive, figures: figures.iter().map(line).collect() });
            }
        }
        console.print_json("extant-lab-beside/1", &Document { scenario: &scenario.name, runs })?;
        return Ok(Exit::Complete);
    }
    let mut text = String::new();
    for drive in drives {
        let mut columns = vec![("", Alignment::Left)];
        columns.extend(names.iter().map(|name| (name.as_deref().unwrap_or(""), Alignment::Right)));
        columns.push(("unit", Alignment::Left));
        let mut table = Table::new(&format!("{}, {}", scenario.name, drive.name), &columns);
        for (at, figure) in drive.columns.first().into_iter().flatten().enumerate() {
            let value = |column: &Vec<Figure>| {
                let found = column.get(at).and_then(|figure| figure.millionths);
                found.map_or_else(|| "-".to_owned(), extant_lab::report::decimal)
            };
            let first = std::iter::once(figure.name.clone());
            table.row(first.chain(drive.columns.iter().map(value)).chain([figure.unit.clone()]));
        }
        text += &format!("{}\n", table.title());
        text += &table.render(console.width());
    }
    console.report(&text)?;
    Ok(Exit::Complete)
}

fn line(figure: &Figure) -> Line<'_> {
    let Figure { kind, name, unit, millionths } = figure;
    Line { kind, name, unit, millionths: *millionths }
}
