//! `extant lab policies`: every column with its choices, and the presets, which are rows of these
//! columns.
use super::page::PageOption;
use extant_chart::{Alignment, Figure, Table, beside, wrapped};
use extant_engine::preset::PRESETS;
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_lab::page;
use extant_lab::setup::{self, Setup};
use serde::Serialize;
use std::collections::BTreeMap;

/// List what can be chosen: the columns of the policies with all their choices, and the presets.
///
/// A preset names a choice for each column; --preset of `extant lab run` takes a preset, columns to
/// change in it, or both. Each choice of a preset that stands for a system of the past has the year
/// and the source that it is known from.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant lab policies
  extant lab policies --json | jq '.presets[] | {name, placement: .columns.placement}'
  extant lab run read-cold --preset linux-2.4,placement=orlov")]
pub struct Arguments {
    #[command(flatten)]
    pub page: PageOption,
}

#[derive(Serialize)]
struct Tables {
    columns: Vec<Column>,
    presets: Vec<Preset>,
}

#[derive(Serialize)]
struct Column {
    name: &'static str,
    line: &'static str,
    choices: Vec<Choice>,
}

#[derive(Serialize)]
struct Choice {
    name: &'static str,
    line: &'static str,
}

#[derive(Serialize)]
struct Preset {
    name: &'static str,
    line: &'static str,
    columns: serde_json::Map<String, serde_json::Value>,
    sources: BTreeMap<&'static str, Source>,
}

#[derive(Serialize)]
struct Source {
    year: u16,
    source: &'static str,
}

/// Prints them. With `--json`: `{"columns": [{"name", "line", "choices": [{"name", "line"}]}],
/// "presets": [{"name", "line", "columns": {COLUMN: CHOICE}, "sources": {COLUMN: {"year",
/// "source"}}}]}`; a column without choices takes a number, and presets of today have no sources.
pub fn run(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    arguments.page.check()?;
    let tables = tables()?;
    arguments.page.write(|| page(&tables))?;
    match console.is_json() {
        true => console.print_json("extant-lab-policies/1", &tables)?,
        false => console.print(&text(&tables, console.width()))?,
    }
    Ok(Exit::Complete)
}

fn tables() -> Result<Tables, Error> {
    let choice = |(name, line): (&'static str, &'static str)| Choice { name, line };
    let known = setup::columns();
    let columns = known.iter().map(|column| Column {
        name: column.name,
        line: column.line,
        choices: column.choices.iter().copied().map(choice).collect(),
    });
    let mut presets = Vec::new();
    for row in PRESETS {
        let setup: Setup = row.name.parse().map_err(|error| Error::new(format!("{error}")))?;
        let chosen = setup.columns().into_iter();
        let sources = known.iter().filter_map(|column| {
            let found = setup::source(row.name, column.name)?;
            Some((column.name, Source { year: found.year, source: found.source }))
        });
        presets.push(Preset {
            name: row.name,
            line: row.line,
            columns: chosen.map(|(column, choice)| (column.to_owned(), choice.into())).collect(),
            sources: sources.collect(),
        });
    }
    Ok(Tables { columns: columns.collect(), presets })
}

/// The presets beside each other, a row a column of the policies; then every column with its
/// choices.
fn page(tables: &Tables) -> String {
    let heads = tables.presets.iter().map(|preset| (preset.name, Alignment::Left));
    let heads: Vec<(&str, Alignment)> =
        [("column", Alignment::Left)].into_iter().chain(heads).collect();
    let mut presets = Table::new("Presets", &heads);
    for column in &tables.columns {
        let choice = |preset: &Preset| {
            let choice = preset.columns.get(column.name).and_then(|choice| choice.as_str());
            choice.unwrap_or_default().to_owned()
        };
        let choices = tables.presets.iter().map(choice);
        presets.row([column.name.to_owned()].into_iter().chain(choices));
    }
    let mut figures = vec![Figure::new("Which preset chooses what", presets).section("Presets")];
    for preset in tables.presets.iter().filter(|preset| !preset.sources.is_empty()) {
        let heads = ["column", "choice", "year", "source"].map(|head| (head, Alignment::Left));
        let mut table = Table::new(preset.name, &heads);
        for (column, choice) in &preset.columns {
            let Some(known) = preset.sources.get(column.as_str()) else { continue };
            let (choice, year) = (choice.as_str().unwrap_or_default(), known.year.to_string());
            let cells = [column.as_str(), choice, year.as_str(), known.source];
            table.row(cells.map(str::to_owned));
        }
        figures.push(Figure::new(preset.name, table).line(preset.line).section("Sources"));
    }
    for column in tables.columns.iter().filter(|column| !column.choices.is_empty()) {
        let mut table = Table::new(
            column.name,
            &[("choice", Alignment::Left), ("what it does", Alignment::Left)],
        );
        let rows = column.choices.iter();
        rows.for_each(|choice| table.row([choice.name.to_owned(), choice.line.to_owned()]));
        figures.push(Figure::new(column.name, table).line(column.line).section("Columns"));
    }
    page::of_figures("Policies", "What a file system of the laboratory can be set to do.", &figures)
}

fn text(tables: &Tables, columns: usize) -> String {
    let mut text = "Columns (--preset COLUMN=CHOICE)\n".to_owned();
    for column in &tables.columns {
        text.push('\n');
        text.push_str(&wrapped(&format!("{}: {}", column.name, column.line), columns, 2));
        let width = column.choices.iter().map(|choice| choice.name.len()).max().unwrap_or(0);
        for choice in &column.choices {
            text.push_str(&beside(&format!("  {:<width$}  ", choice.name), choice.line, columns));
        }
        if column.choices.is_empty() {
            text.push_str("  NUMBER\n");
        }
    }
    text.push_str("\nPresets (--preset NAME)\n");
    for preset in &tables.presets {
        text.push('\n');
        text.push_str(&wrapped(&format!("{}: {}", preset.name, preset.line), columns, 2));
        for (column, choice) in &preset.columns {
            let line = format!("  {column:<20}  {}", choice.as_str().unwrap_or_default());
            match preset.sources.get(column.as_str()) {
                Some(Source { year, source }) => {
                    let known = format!("{year}, {source}");
                    text.push_str(&beside(&format!("{line:<48}  "), &known, columns));
                }
                None => text.push_str(&format!("{line}\n")),
            }
        }
    }
    text
}
