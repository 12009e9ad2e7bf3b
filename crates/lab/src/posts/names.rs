//! Reads the file of a post, and checks that the names in it are names of something in it.
use super::file::{
    Case, ClassSpec, ColumnSpec, Drawing, Post, RowGroup, RowSpec, RunSpec, TableSpec, Value,
};
use super::value::known;
use crate::results::Named;
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
                let case = first_case(post, Some(&lines.each));
                value(post, &figure.run, &lines.series, case, &lines.value)?;
            }
            Drawing::Bars(bars) => {
                let all = bars.groups.iter().flat_map(|group| &group.bars);
                for bar in all.filter(|bar| bar.value.is_some()) {
                    known_system(post, &bar.system)?;
                    bar.run.as_deref().map_or(Ok(()), |run| known_run(post, run))?;
                    bar.value.iter().try_for_each(|it| value(post, &figure.run, &[], None, it))?;
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
        group.row.iter().try_for_each(|row| self::row(post, table, group, row))?;
    }
    Ok(())
}

fn row(post: &Post, table: &TableSpec, group: &RowGroup, row: &RowSpec) -> Result<(), String> {
    row.run.as_deref().map_or(Ok(()), |run| known_run(post, run))?;
    let run = row.run.as_deref().unwrap_or(&table.run);
    if let Some(variant) = &row.variant {
        post.variant(run, variant).ok_or_else(|| unknown("variant", variant))?;
    }
    let named = row.posted.keys().chain(row.values.keys());
    let named = named.chain(row.columns.iter().flatten()).chain(row.held.iter().flatten());
    for name in named {
        if !table.columns.iter().any(|column| column.name() == name) {
            return Err(format!("{}: {}", row.what, unknown("column", name)));
        }
    }
    own_bounds(row)?;
    let limit = row.limit.iter();
    let limit = limit.flat_map(|it| [&it.bytes_read, &it.bytes_written, &it.beside]).flatten();
    let case = first_case(post, group.each.as_deref());
    for value in row.value.iter().chain(row.values.values()).chain(limit) {
        self::value(post, run, &table.columns, case, value)
            .map_err(|reason| format!("{}: {reason}", row.what))?;
    }
    Ok(())
}

fn first_case<'a>(post: &'a Post, cases: Option<&str>) -> Option<&'a Case> {
    post.cases.get(cases?)?.full.first()
}

/// A value can be read, and what it is compared to is there.
fn value(
    post: &Post,
    run: &str,
    columns: &[ColumnSpec],
    case: Option<&Case>,
    value: &Value,
) -> Result<(), String> {
    let known = known(post, case)?;
    let (expression, _) = value.expression(&known, case)?;
    let mut others = Ok(());
    expression.each_name(&mut |named| {
        if let Named::Other(name) = named
            && !columns.iter().any(|column| column.name() == name)
            && post.variant(run, name).is_none()
        {
            others = Err(unknown("column or variant", name));
        }
    });
    others
}

/// The column "post" holds what the post says: a bound of our own has its ends in its class, and
/// what the post says is judged as the post's.
fn own_bounds(row: &RowSpec) -> Result<(), String> {
    let wrong = |reason: &str| Err(format!("{}: {reason}", row.what));
    match &row.class {
        ClassSpec::Bound(bound) if bound.least.is_none() && bound.most.is_none() => {
            wrong("a bound has at least one end")
        }
        ClassSpec::Bound(_) | ClassSpec::BoundByFirst if !row.posted.is_empty() => {
            wrong("a bound of our own has no figure of the post")
        }
        ClassSpec::Bound(_) | ClassSpec::BoundByFirst => Ok(()),
        _ if row.held.is_some() => wrong("held is for bounds of our own"),
        _ => Ok(()),
    }
}

/// The runs that its values name are there, the processors too, and none is without words on where
/// it comes from.
///
/// # Errors
/// The first that is not.
fn fitted_runs(post: &Post) -> Result<(), String> {
    let processors =
        post.fitted.iter().filter_map(|value| value.without.as_ref()?.processor.as_ref());
    for name in processors.chain([&post.processor]) {
        scenario::processor(name)?;
    }
    if let Some(value) = post.fitted.iter().find(|value| value.source.trim().is_empty()) {
        return Err(format!("{:?}: has no source", value.what));
    }
    let named = post.fitted.iter().filter_map(|value| value.without.as_ref());
    for run in named.flat_map(|without| &without.runs) {
        if !post.run.iter().any(|known| known.name == *run) {
            return Err(format!("{run:?}: there is no such run"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::posts::FILES;
    use extant_testkit::variables::number;

    #[test]
    fn the_column_of_the_post_holds_no_bound_of_ours() {
        let [_, _, two, ..] = FILES;
        assert!(parse(two).is_ok());
        let with = two.replace(
            "class = { bound = { most = 0.5 } }",
            "posted = { global = 0.5 }\nclass = { bound = { most = 0.5 } }",
        );
        assert_ne!(with, two);
        let said = "the disk's writer keeps, global: a bound of our own has no figure of the post";
        assert_eq!(parse(&with), Err(said.to_owned()));
        let endless = two.replace("{ bound = { most = 0.5 } }", "{ bound = {} }");
        assert!(parse(&endless).is_err_and(|words| words.ends_with("has at least one end")));
    }

    #[test]
    fn values_are_expressions_over_what_is_there() {
        let [.., three, _] = FILES;
        let with = |value: &str| parse(&three.replacen("\"reads(step cold)\"", value, 1));
        assert!(with("\"reads(step cold) in linear\"").is_ok());
        let cases = [
            ("\"reads(step cold) in nowhere\"", "\"nowhere\": there is no such column or variant"),
            ("\"reads(step cold) in hashed seeds\"", "\"seeds\" is not expected there"),
            ("\"result nothing\"", "there is no result \"nothing\" above"),
            ("{ share = \"step cold\" }", "is a ratio in s"),
        ];
        for (value, end) in cases {
            assert_eq!(with(value).err(), Some(format!("reads of the drive: {end}")), "{value}");
        }
        assert!(with("{ less = \"step cold\" }").is_err());
    }

    #[test]
    fn a_value_without_origin_or_source_is_refused() {
        let [zero, ..] = FILES;
        for gone in ["origin = \"assumed\"\n", "source = \"approximate"] {
            let at = zero.find(gone).expect("it is there");
            let end = zero[at..].find('\n').expect("a line");
            let without = format!("{}{}", &zero[..at], &zero[at + end + 1..]);
            assert!(parse(&without).is_err_and(|words| words.contains("missing field")), "{gone}");
        }
        // Words alone are no value: they do not say that it was fitted.
        let words =
            format!("fitted = [\"the preset\"]\n{}", zero.replace("[[fitted]]", "[[none]]"));
        assert!(parse(&words).is_err());
        let unknown = zero.replace("processor = \"2001\"", "processor = \"2002\"");
        assert!(parse(&unknown).is_err_and(|words| words.contains("no such processor")));
    }

    #[test]
    fn every_column_of_a_post_is_charged_for_one_processor() {
        for text in FILES {
            let post = parse(text).expect("it is right");
            let named = scenario::processor(&post.processor).expect("it is known");
            let costs = crate::posts::runs::costs_of_all(&post).expect("they can be prepared");
            assert!(costs.len() > 2, "post {}", post.number);
            for (run, own) in costs {
                assert_eq!(own, named.costs(), "post {}: {run}", post.number);
            }
        }
    }

    #[test]
    fn what_can_be_taken_away_can_be_run_without() {
        for text in FILES {
            let post = parse(text).expect("it is right");
            let (mut taken, mut run) = (0, 0);
            for at in (0..post.fitted.len()).step_by(number("EXTANT_RUNS") as usize) {
                run += 1;
                let found = crate::posts::runs::differ_without(&post, at);
                let differ = found.unwrap_or_else(|error| panic!("post {}: {error}", post.number));
                let is_taken = post.fitted[at].without.is_some();
                assert_eq!(differ, is_taken, "post {}: {}", post.number, post.fitted[at].what);
                taken += usize::from(is_taken);
            }
            let is_all = run == post.fitted.len();
            assert!(!is_all || taken >= 3, "post {}: {taken}", post.number);
        }
    }
}
