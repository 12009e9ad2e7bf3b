//! `extant lab list`: what is built in, a line each.
use super::page::PageOption;
use extant_chart::{Alignment, Figure, Table, beside};
use extant_host::console::Console;
use extant_host::error::{Error, Exit};
use extant_lab::page;
use extant_lab::posts::POSTS;
use extant_lab::scenario::step::KINDS;
use extant_lab::scenario::{self, BUILTINS, POST_SCENARIOS, PROCESSORS};
use extant_sim::drive::presets::PRESETS;
use serde::Serialize;

/// List the built-in scenarios, posts and drives, and the steps that scenarios are made of.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  extant lab list
  extant lab list --json | jq -r '.drives[].name'")]
pub struct Arguments {
    #[command(flatten)]
    pub page: PageOption,
}

#[derive(Serialize)]
struct Line {
    name: String,
    line: String,
}

#[derive(Serialize)]
struct Lists {
    scenarios: Vec<Line>,
    posts: Vec<Line>,
    drives: Vec<DriveLine>,
    processors: Vec<Line>,
    steps: Vec<Line>,
}

#[derive(Serialize)]
struct DriveLine {
    #[serde(flatten)]
    line: Line,
    /// What the model was held against; `null` where nothing was measured.
    measured: Option<&'static str>,
}

/// Prints it. With `--json`: `{"scenarios": [{"name", "line"}], "posts": .., "drives": [..
/// "measured"], "processors": .., "steps": ..}`; a drive that nothing was measured on has `null`.
pub fn run(arguments: &Arguments, console: &Console) -> Result<Exit, Error> {
    arguments.page.check()?;
    let lists = lists()?;
    arguments.page.write(|| page(&lists))?;
    match console.is_json() {
        true => console.print_json("extant-lab-list/1", &lists)?,
        false => console.print(&text(&lists, console.width()))?,
    }
    Ok(Exit::Complete)
}

fn lists() -> Result<Lists, Error> {
    let line = |name: &str, line: &str| Line { name: name.to_owned(), line: line.to_owned() };
    let mut scenarios = Vec::new();
    for builtin in BUILTINS.iter().chain(POST_SCENARIOS) {
        let found = scenario::find(builtin.name).map_err(|error| Error::new(error.to_string()))?;
        scenarios.push(line(builtin.name, &found.line));
    }
    let posts = POSTS.iter();
    Ok(Lists {
        scenarios,
        posts: posts
            .map(|post| line(&post.number.to_string(), &format!("{}: {}", post.origin, post.title)))
            .collect(),
        drives: PRESETS
            .iter()
            .map(|preset| DriveLine {
                line: line(preset.name, &format!("{}; {}", preset.about, preset.standing())),
                measured: preset.measured,
            })
            .collect(),
        processors: PROCESSORS.iter().map(|one| line(one.name, one.line)).collect(),
        steps: KINDS.iter().map(|kind| line(kind.name, kind.line)).collect(),
    })
}

/// The lists with what they are for.
fn parts(lists: &Lists) -> [(&'static str, Vec<&Line>); 5] {
    fn all(lines: &[Line]) -> Vec<&Line> {
        lines.iter().collect()
    }
    [
        ("Scenarios (extant lab run NAME)", all(&lists.scenarios)),
        ("Posts (extant lab posts NUMBER)", all(&lists.posts)),
        ("Drives (--drive NAME)", lists.drives.iter().map(|drive| &drive.line).collect()),
        ("Processors (--processor NAME); each preset has that of its time", all(&lists.processors)),
        ("Steps of scenarios, with their keys (docs/LAB.md)", all(&lists.steps)),
    ]
}

fn page(lists: &Lists) -> String {
    let figures = parts(lists).map(|(title, lines)| {
        let mut table =
            Table::new(title, &[("name", Alignment::Left), ("what it is", Alignment::Left)]);
        lines.iter().for_each(|line| table.row([line.name.clone(), line.line.clone()]));
        Figure::new("", table).section(title)
    });
    page::of_figures(
        "The laboratory",
        "What is built in, and can be run, shown and changed.",
        &figures,
    )
}

fn text(lists: &Lists, columns: usize) -> String {
    let mut text = String::new();
    for (title, lines) in parts(lists) {
        let width = lines.iter().map(|line| line.name.len()).max().unwrap_or(0);
        text.push_str(&format!("{title}\n"));
        for line in lines {
            text.push_str(&beside(&format!("  {:<width$}  ", line.name), &line.line, columns));
        }
        text.push('\n');
    }
    text.pop();
    text
}
