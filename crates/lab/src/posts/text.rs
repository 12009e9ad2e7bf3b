//! Reports of posts as text: every row of every table, the bad ones and those that are not modelled
//! too.
use super::judge::judge;
use super::limit::Limit;
use super::report::{Cell, Class, PostReport, PostTable, PostsReport, Quantity, Range, Row, Scale};
use super::standing::Frontier;
use super::verdict::Verdict;
use Alignment::{Left, Right};
use extant_chart::{Alignment, Table, beside, wrapped};
use extant_sim::drive::presets;

/// What the columns mean.
const LEGEND: [&str; 2] = [
    "x: ours over the post's. asked: the same number, a ratio to the first column or a time within \
     so much, or a bound; \
     ratios and exact rows decide. ours: a bound of our own, of which the post says nothing. Rows \
     of one block count once.",
    "limit: the least time that the drive could take. modern/best, modern/limit: the modern column \
     over the best other one, \
     and over the limit.",
];

impl PostsReport {
    /// As JSON, indented, with a line end. Rows have, besides what [`Row`] says, `class`, `verdict`
    /// and each cell's `ratio_permille`; absent values are `null`.
    pub fn to_json(&self) -> String {
        crate::report::json(self)
    }

    /// As tables for people, in lines of at most `width` columns, ending in the rows that do not
    /// agree.
    pub fn to_text(&self, width: usize) -> String {
        render(self, width)
    }
}

/// All posts, and what they came to, in lines of at most `width` columns.
pub(super) fn render(report: &PostsReport, width: usize) -> String {
    let mut text = String::new();
    for post in &report.posts {
        text.push_str(&self::post(post, report.model_version, report.scale, width));
        text.push('\n');
    }
    LEGEND.iter().for_each(|line| text.push_str(&wrapped(line, width, 2)));
    text.push_str(&wrapped(&summary(report), width, 2));
    text
}

fn summary(report: &PostsReport) -> String {
    let rows = report.posts.iter().flat_map(PostReport::rows);
    let (left_out, modelled): (Vec<&Row>, Vec<&Row>) =
        rows.partition(|row| matches!(row.class, Class::NotModelled { .. }));
    let shown = modelled.into_iter().filter(|row| judge(row) == Verdict::Shown).count();
    let mut text = report.totals();
    text.push_str(&format!("{shown} rows shown only, {} not modelled\n", left_out.len()));
    let lines = [
        ("misses", report.missed()),
        ("warning", report.warned()),
        ("fragile", report.fragile()),
        ("modern falls short", report.shortfalls()),
    ];
    for (mark, lines) in lines {
        lines.iter().for_each(|line| text.push_str(&format!("{mark}: {line}\n")));
    }
    text
}

/// The seeds in words: what the values of a report are.
pub(crate) fn seeds(seeds: &[u64]) -> String {
    let words: Vec<String> = seeds.iter().map(u64::to_string).collect();
    match words.as_slice() {
        [one] => format!("seed {one}"),
        several if several.len() > 8 => {
            format!("{} seeds from {}", several.len(), several.first().map_or("", |one| one))
        }
        several => format!("seeds {}", several.join(", ")),
    }
}

fn post(post: &PostReport, model_version: u32, scale: Scale, width: usize) -> String {
    let scale = match scale {
        Scale::Quick => "quick",
        Scale::Full => "full",
    };
    let mut text =
        wrapped(&format!("Post {}: {} ({})", post.number, post.title, post.origin), width, 2);
    let origin = format!(
        "drive {}, processor {} for all columns; {}: {}; {}, model {model_version}, scale {scale}, \
         trace {}",
        drive(&post.drive),
        post.processor,
        post.fitted_count(),
        post.fitted_words(),
        seeds(&post.seeds),
        post.trace_hash
    );
    text.push_str(&wrapped(&origin, width, 2));
    post.tables.iter().for_each(|table| text.push_str(&self::table(table, width)));
    let standing = post.standing();
    if standing.rows > 0 {
        let line = format!(
            "\nmodern: the best column in {} of {} rows that are goals, {} shortfalls",
            standing.best,
            standing.rows,
            standing.shortfalls.len()
        );
        text.push_str(&wrapped(&line, width, 2));
    }
    if let Some(frontier) = post.frontier() {
        text.push_str(&self::frontier(&frontier, width));
    }
    if !post.notes.is_empty() {
        text.push('\n');
        let notes = post.notes.iter();
        notes.for_each(|note| text.push_str(&beside("- ", note, width)));
    }
    text
}

/// A drive's name, and that nothing was measured on it where that is so.
pub(crate) fn drive(name: &str) -> String {
    match presets::standing(name) {
        Some(words) => format!("{name} ({words})"),
        None => name.to_owned(),
    }
}

/// The frontier of a post: a line for each column, and whether another is better on every side.
fn frontier(frontier: &Frontier, width: usize) -> String {
    let mut columns: Vec<(&str, Alignment)> = vec![("", Left)];
    columns.extend(frontier.sides.iter().map(|(what, _)| (what.as_str(), Right)));
    columns.push(("no column is better in both", Left));
    let mut rendered = Table::new("the frontier", &columns);
    for point in &frontier.points {
        let mut cells = vec![point.name.clone()];
        cells.extend(point.values.iter().map(|value| shown(Some(*value))));
        cells.push(if point.is_on_it { "so it is" } else { "" }.to_owned());
        rendered.row(cells);
    }
    rendered.render(width)
}

/// What stands beside the rows of a table: only what some row has.
struct Shape {
    /// For each column, whether the post has a figure in it.
    posted: Vec<bool>,
    has_limit: bool,
    has_best: bool,
}

impl Shape {
    fn of(table: &PostTable) -> Shape {
        Shape {
            posted: table.posted_columns(),
            has_limit: table.rows.iter().any(|row| row.limit.is_some()),
            has_best: table.rows.iter().any(|row| table.over_best_permille(row).is_some()),
        }
    }

    fn heads(&self, table: &PostTable) -> Vec<(String, Alignment)> {
        let mut heads = vec![(String::new(), Left)];
        for (column, is_posted) in table.columns.iter().zip(&self.posted) {
            if *is_posted {
                heads.extend([
                    (format!("{}: post", column.name), Right),
                    ("ours".to_owned(), Right),
                    ("x".to_owned(), Right),
                ]);
            } else {
                heads.push((column.name.clone(), Right));
            }
        }
        if self.has_best {
            heads.push(("modern/best".to_owned(), Right));
        }
        if self.has_limit {
            heads.extend([("limit".to_owned(), Right), ("modern/limit".to_owned(), Right)]);
        }
        heads.push(("asked".to_owned(), Left));
        heads.push(("".to_owned(), Left));
        heads
    }

    fn cells(&self, table: &PostTable, row: &Row, note: Option<usize>) -> Vec<String> {
        let mut cells = vec![row.what.clone()];
        for (column, is_posted) in self.posted.iter().enumerate() {
            let cell = row.cells.get(column).copied().unwrap_or_default();
            if *is_posted {
                cells.push(shown(cell.posted));
            }
            cells.push(ours(&cell));
            if *is_posted {
                cells.push(cell.ratio_permille().map_or_else(String::new, hundredths));
            }
        }
        let ratio = |permille: Option<u64>| permille.map_or_else(String::new, hundredths);
        if self.has_best {
            cells.push(ratio(table.over_best_permille(row)));
        }
        if self.has_limit {
            let limit = row.limit.map(|Limit { nanoseconds, .. }| time(nanoseconds));
            cells.extend([limit.unwrap_or_default(), ratio(table.over_limit_permille(row))]);
        }
        cells.push(asked(&row.class));
        cells.push(mark(row, note));
        cells
    }
}

fn table(table: &PostTable, width: usize) -> String {
    let shape = Shape::of(table);
    let heads = shape.heads(table);
    let columns: Vec<(&str, Alignment)> =
        heads.iter().map(|(name, side)| (name.as_str(), *side)).collect();
    let mut rendered = Table::new(&table.title, &columns);
    // What belongs to a column of the post, and the verdict with what was asked, stays together.
    let is_part = |name: &str| matches!(name, "ours" | "x" | "limit" | "modern/limit" | "");
    let bound = (2..heads.len()).filter(|at| is_part(&heads[*at].0));
    bound.for_each(|at| rendered.bind(at));
    let mut notes: Vec<String> = Vec::new();
    for row in &table.rows {
        let note = note(row).map(|note| number(&mut notes, note));
        rendered.row(shape.cells(table, row, note));
    }
    let mut text = rendered.render(width);
    for (at, note) in notes.iter().enumerate() {
        text.push_str(&beside(&format!("  [{}] ", at + 1), note, width));
    }
    let names = table.columns.iter().map(|column| column.name.chars().count());
    let name_width = names.max().unwrap_or(0);
    for column in &table.columns {
        let head = format!("  {:<name_width$}  ", column.name);
        text.push_str(&beside(&head, &column.policies, width));
    }
    text
}

/// The number of a note, from 1; equal ones have one.
pub(crate) fn number(notes: &mut Vec<String>, note: String) -> usize {
    match notes.iter().position(|other| *other == note) {
        Some(at) => at + 1,
        None => {
            notes.push(note);
            notes.len()
        }
    }
}

/// What has to be said of a row: why it is not modelled, its note, what its limit is made of.
pub(crate) fn note(row: &Row) -> Option<String> {
    let reason = match &row.class {
        Class::NotModelled { reason } => Some(reason.clone()),
        _ => None,
    };
    let limit = row.limit.map(|limit| format!("limit: {}", parts_of(&limit)));
    let parts: Vec<String> =
        [reason, row.note.clone(), draws(row), limit].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Of a row that is drawn: how often its figure is.
fn draws(row: &Row) -> Option<String> {
    let is_drawn = row.class == Class::Drawn;
    let drawn = row.cells.iter().filter(|cell| cell.posted.is_some());
    let range = drawn.filter_map(|cell| cell.range).find(|_| is_drawn)?;
    Some(format!("the post's figure in {} of {} draws", range.as_posted, range.values))
}

fn parts_of(limit: &Limit) -> String {
    let parts = [
        (limit.media_ns, "under the head"),
        (limit.seek_ns, "of the least repositioning"),
        (limit.processor_ns, "of computing meanwhile"),
    ];
    let parts = parts.iter().filter(|(nanoseconds, _)| *nanoseconds > 0);
    let parts: Vec<String> =
        parts.map(|(nanoseconds, what)| format!("{} {what}", time(*nanoseconds))).collect();
    parts.join(", ")
}

pub(crate) fn asked(class: &Class) -> String {
    match class {
        Class::Exact => "exact".to_owned(),
        Class::Ratio { within_permille } => format!("ratio {}", percent(*within_permille)),
        Class::Absolute { within_permille } => format!("time {}", percent(*within_permille)),
        Class::Between { least, most } => {
            format!("{} to {}", hundredths(*least), hundredths(*most))
        }
        Class::AtMost => "at most".to_owned(),
        Class::Bound { least, most } => match (least, most) {
            (None, None) => "ours".to_owned(),
            (Some(least), None) => format!("ours: at least {}", shown(Some(*least))),
            (None, Some(most)) => format!("ours: at most {}", shown(Some(*most))),
            (Some(least), Some(most)) if least == most => format!("ours: {}", shown(Some(*most))),
            (Some(least), Some(most)) => {
                format!("ours: {} to {}", shown(Some(*least)), shown(Some(*most)))
            }
        },
        Class::BoundByFirst => "ours: at most the first".to_owned(),
        Class::Drawn => "among the draws".to_owned(),
        Class::Shown => String::new(),
        Class::NotModelled { .. } => "not modelled".to_owned(),
    }
}

fn percent(permille: u64) -> String {
    match permille % 10 {
        0 => format!("{} %", permille / 10),
        tenths => format!("{}.{tenths} %", permille / 10),
    }
}

fn mark(row: &Row, note: Option<usize>) -> String {
    let word = match judge(row) {
        Verdict::Agrees => "ok",
        Verdict::Misses => "MISSES",
        Verdict::Warns => "warning",
        Verdict::Shown => "",
    };
    let fragile = fragile(row).map(|words| format!("({words})"));
    let note = note.map(|note| format!("[{note}]"));
    [Some(word.to_owned()).filter(|word| !word.is_empty()), fragile, note]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
}

/// Of a row that hangs on the seed: that it does, and in how many seeds it comes to its verdict.
pub(crate) fn fragile(row: &Row) -> Option<String> {
    let (same, all) = row.seeds_that_agree();
    row.is_fragile().then(|| format!("fragile: {same} of {all}"))
}

/// Ours, with its range where it has one, and of draws how many are the post's figure.
pub(crate) fn ours(cell: &Cell) -> String {
    let middle = shown(cell.ours);
    // What differs by less than is shown is the same here.
    let is_seen = |range: &Range| shown(Some(range.least)) != shown(Some(range.most));
    match cell.range.filter(is_seen) {
        Some(range) => format!("{middle} [{}]", between(range.least, range.most)),
        None => middle,
    }
}

/// "31.20..36.01 ms": the unit once, where both have the same.
fn between(least: Quantity, most: Quantity) -> String {
    let (least, most) = (shown(Some(least)), shown(Some(most)));
    match (least.split_once(' '), most.split_once(' ')) {
        (Some((number, unit)), Some((_, other))) if unit == other => format!("{number}..{most}"),
        _ => format!("{least}..{most}"),
    }
}

pub(crate) fn shown(quantity: Option<Quantity>) -> String {
    match quantity {
        None => String::new(),
        Some(Quantity::Nanoseconds(nanoseconds)) => time(nanoseconds),
        Some(Quantity::Count(count)) => count.to_string(),
        Some(Quantity::Permille(permille)) => format!("{}.{:03}", permille / 1000, permille % 1000),
    }
}

/// A time in the unit that suits it.
pub(crate) fn time(nanoseconds: u64) -> String {
    let rounded = |unit: u64, digits: u32| {
        let step = unit / 10u64.pow(digits);
        let steps = nanoseconds / step + u64::from(nanoseconds % step >= step.div_ceil(2));
        let scale = 10u64.pow(digits);
        let width = digits as usize;
        match digits {
            0 => steps.to_string(),
            _ => format!("{}.{:0width$}", steps / scale, steps % scale),
        }
    };
    match nanoseconds {
        0..1_000_000 => format!("{} us", rounded(1_000, 0)),
        1_000_000..1_000_000_000 => format!("{} ms", rounded(1_000_000, 2)),
        _ => format!("{} s", rounded(1_000_000_000, 2)),
    }
}

pub(crate) fn hundredths(permille: u64) -> String {
    let hundredths = permille / 10 + u64::from(permille % 10 >= 5);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_suits_them() {
        let shown = [0, 499, 17_500, 1_000_000, 34_834_999, 999_999_999, 172_030_000_000].map(time);
        assert_eq!(
            shown,
            ["0 us", "0 us", "18 us", "1.00 ms", "34.83 ms", "1000.00 ms", "172.03 s"]
        );
        assert_eq!(
            (hundredths(1_005), percent(125), percent(250)),
            ("1.01".to_owned(), "12.5 %".to_owned(), "25 %".to_owned())
        );
    }
}
