//! Reads the file of a post, and checks that the names in it are names of something in it.
use super::file::{ColumnSpec, Drawing, LimitSpec, Post, RowSpec, RunSpec, TableSpec};
use super::limits;
use crate::scenario;
use std::collections::BTreeMap;

/// The post of a file's text.
///
/// # Errors
/// The text is not TOML of this form, or names what is not in it: a system, a run, a list of
/// cases, a column.
pub(super) fn parse(text: &str) -> Result<Post, String> {
    let post: Post = toml::from_str(text).map_err(|error| error.to_string())?;
    check(&post)?;
    Ok(post)
}

/// Everything that a file names is there.
fn check(post: &Post) -> Result<(), String> {
    for system in &post.system {
        known_change(post, system.change.as_deref())?;
    }
    post.run.iter().try_for_each(|run| self::run(post, run))?;
    fitted_runs(post)?;
    post.table.iter().try_for_each(|table| self::table(post, table))?;
    for figure in &post.figure {
        known_run(post, &figure.run)?;
        match &figure.draw {
            Drawing::Runs(drawings) => {
                drawings.systems.iter().try_for_each(|name| known_system(post, name))?;
            }
            Drawing::Lines(lines) => {
                known_cases(post, Some(&lines.each))?;
                lines.series.iter().try_for_each(|column| self::column(post, column))?;
            }
            Drawing::Bars(bars) => {
                let all = bars.groups.iter().flat_map(|group| &group.bars);
                for bar in all.filter(|bar| bar.value.is_some()) {
                    known_system(post, &bar.system)?;
                    bar.run.as_deref().map_or(Ok(()), |run| known_run(post, run))?;
                }
            }
        }
    }
    Ok(())
}

fn unknown(kind: &str, name: &str) -> String {
    format!("{name:?}: there is no such {kind}")
}

fn known_system(post: &Post, name: &str) -> Result<(), String> {
    match post.system.iter().any(|system| system.name == name) {
        true => Ok(()),
        false => Err(unknown("system", name)),
    }
}

fn known_run(post: &Post, name: &str) -> Result<(), String> {
    match post.run.iter().any(|run| run.name == name) {
        true => Ok(()),
        false => Err(unknown("run", name)),
    }
}

fn known_in<T>(all: &BTreeMap<String, T>, name: Option<&str>, kind: &str) -> Result<(), String> {
    match name {
        Some(name) if !all.contains_key(name) => Err(unknown(kind, name)),
        _ => Ok(()),
    }
}

fn known_change(post: &Post, name: Option<&str>) -> Result<(), String> {
    known_in(&post.change, name, "change")
}

fn known_cases(post: &Post, name: Option<&str>) -> Result<(), String> {
    known_in(&post.cases, name, "list of cases")
}

fn column(post: &Post, column: &ColumnSpec) -> Result<(), String> {
    known_system(post, column.system())?;
    column.run().map_or(Ok(()), |run| known_run(post, run))
}

fn run(post: &Post, run: &RunSpec) -> Result<(), String> {
    for name in run.scenarios.values().chain([&run.scenario]) {
        if scenario::of_post(name).is_none() {
            return Err(unknown("scenario", name));
        }
    }
    let systems = run.systems.iter().chain(run.scenarios.keys()).chain(&run.keep);
    systems.into_iter().try_for_each(|name| known_system(post, name))?;
    known_cases(post, run.cases.as_deref())?;
    known_change(post, run.quick.as_deref())
}

fn table(post: &Post, table: &TableSpec) -> Result<(), String> {
    known_run(post, &table.run)?;
    table.columns.iter().try_for_each(|column| self::column(post, column))?;
    if let Some(stem) = &table.stem {
        known_system(post, &stem.system)?;
    }
    for group in &table.rows {
        known_cases(post, group.each.as_deref())?;
        group.row.iter().try_for_each(|row| self::row(post, table, row))?;
    }
    Ok(())
}

fn row(post: &Post, table: &TableSpec, row: &RowSpec) -> Result<(), String> {
    row.run.as_deref().map_or(Ok(()), |run| known_run(post, run))?;
    let run = row.run.as_deref().unwrap_or(&table.run);
    if let Some(variant) = &row.variant {
        let mut variants = post.run.iter().filter(|spec| spec.name == run).flat_map(|r| &r.variant);
        if !variants.any(|known| known.name == *variant) {
            return Err(unknown("variant", variant));
        }
    }
    let named = row.posted.keys().chain(row.values.keys()).chain(row.columns.iter().flatten());
    for name in named {
        if !table.columns.iter().any(|column| column.name() == name) {
            return Err(format!("{}: {}", row.what, unknown("column", name)));
        }
    }
    match &row.limit {
        Some(LimitSpec::Computed(name)) if !limits::is_known(name) => Err(unknown("limit", name)),
        _ => Ok(()),
    }
}

/// The runs that its fitted values name are there.
///
/// # Errors
/// The first that is not.
fn fitted_runs(post: &Post) -> Result<(), String> {
    let named = post.fitted.iter().filter_map(|value| value.without.as_ref());
    for run in named.flat_map(|without| &without.runs) {
        if !post.run.iter().any(|known| known.name == *run) {
            return Err(format!("{run:?}: there is no such run"));
        }
    }
    Ok(())
}
