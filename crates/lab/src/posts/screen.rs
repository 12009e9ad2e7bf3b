//! The posts on one screen: of each its claim, a line for every row that is judged with the post's
//! figures, ours and the verdict beside them, and what `modern` does with the same work.
use super::counts::{Judged, WhoseRow};
use super::judge::judge;
use super::report::{Cell, Class, Goal, PostReport, PostsReport, Quantity, Rank, Row};
use super::tables::RATIO;
use super::text::{fragile, hundredths};
use super::verdict::Verdict;
use extant_chart::wrapped;

/// Names of rows are not cut to fewer columns than this.
const WHAT_MIN: usize = 20;

impl PostsReport {
    /// One screen, in lines of at most `width` columns where that is wide enough.
    pub fn to_screen(&self, width: usize) -> String {
        let mut text = String::new();
        for post in &self.posts {
            text.push_str(&self::post(post, width));
        }
        text.push_str(&wrapped(&self.totals(), width, 2));
        text
    }
}

/// A line: what, the post's figures, ours, the verdict; and the same of their ratio.
struct Line {
    what: String,
    posted: String,
    ours: String,
    verdict: String,
    /// The columns, where they are not those of the post's head.
    others: String,
    ratio: Option<(String, String)>,
}

fn post(post: &PostReport, width: usize) -> String {
    let judged = post.judged();
    let by_post: Vec<&Judged<'_>> =
        judged.iter().filter(|one| one.whose == WhoseRow::Post).collect();
    let usual = by_post.first().map(|one| columns(one)).unwrap_or_default();
    let year = post.origin.rsplit(", ").next().unwrap_or_default();
    let head = format!("Post {} ({year}, {usual}): {}\n", post.number, post.claim);
    let mut text = wrapped(&head, width, 2);
    let mut lines: Vec<Line> = Vec::new();
    for one in &by_post {
        match (one.what.strip_suffix(RATIO), lines.last_mut()) {
            (Some(what), Some(line)) if line.what == what => {
                let [posted, ours] = figures(one);
                line.ratio = Some((format!("ratio {posted}  {ours}"), verdict(one)));
            }
            _ => lines.push(self::line(one, &usual)),
        }
    }
    text.push_str(&aligned(&lines, width));
    let ours = judged.iter().filter(|one| one.whose == WhoseRow::Ours);
    for one in ours.filter(|one| one.verdict != Verdict::Agrees) {
        let words = format!("  a bound of our own: {}: {}\n", one.what, verdict(one));
        text.push_str(&wrapped(&words, width, 4));
    }
    let modern = modern(post);
    if !modern.is_empty() {
        text.push_str(&wrapped(&modern, width, 4));
    }
    text
}

/// The columns in which the post has a figure.
fn columns(one: &Judged<'_>) -> String {
    let names = one.table.columns.iter().enumerate();
    let is_posted = |at: usize| {
        one.rows.iter().any(|row| row.cells.get(at).is_some_and(|cell| cell.posted.is_some()))
    };
    let names = names.filter(|(at, _)| is_posted(*at)).map(|(_, column)| column.name.as_str());
    names.collect::<Vec<_>>().join("/")
}

fn line(one: &Judged<'_>, usual: &str) -> Line {
    let [posted, ours] = figures(one);
    let others = Some(columns(one)).filter(|names| names != usual);
    let others = others.map_or_else(String::new, |names| format!("({names})"));
    Line { what: one.what.to_owned(), posted, ours, verdict: verdict(one), others, ratio: None }
}

/// The post's figures and ours; of a block how many rows there are, and how many are right.
fn figures(one: &Judged<'_>) -> [String; 2] {
    if one.is_block() {
        let right = one.rows.iter().filter(|row| judge(row) == Verdict::Agrees).count();
        return [format!("{} rows", one.rows.len()), format!("{right} the same")];
    }
    let cells = one.rows.iter().flat_map(|row| &row.cells);
    let cells: Vec<&Cell> = cells.filter(|cell| cell.posted.is_some()).collect();
    let posted: Vec<Option<Quantity>> = cells.iter().map(|cell| cell.posted).collect();
    let ours: Vec<Option<Quantity>> = cells.iter().map(|cell| cell.ours).collect();
    [brief(&posted), brief(&ours)]
}

fn verdict(one: &Judged<'_>) -> String {
    let word = match one.verdict {
        Verdict::Agrees => "ok",
        Verdict::Misses => "MISSES",
        Verdict::Warns => "outside",
        Verdict::Shown => "",
    };
    let drawn = one.rows.iter().filter(|row| row.class == Class::Drawn);
    let drawn = drawn.flat_map(|row| &row.cells).find_map(|cell| cell.range);
    let drawn = drawn.map_or_else(String::new, |range| {
        format!(", {} of {} draws", range.as_posted, range.values)
    });
    let fragile = one.rows.iter().find_map(|row| fragile(row));
    let fragile = fragile.map_or_else(String::new, |words| format!(", {words}"));
    format!("{word}{drawn}{fragile}")
}

/// Columns below each other; names are cut where a line has no room for them.
fn aligned(lines: &[Line], width: usize) -> String {
    let longest = |of: &dyn Fn(&Line) -> usize| lines.iter().map(of).max().unwrap_or(0);
    let letters = |words: &str| words.chars().count();
    let has_ratio = lines.iter().any(|line| line.ratio.is_some());
    let posted = longest(&|line| letters(&line.posted));
    let ours = longest(&|line| letters(&line.ours));
    let verdict = longest(&|line| letters(&line.verdict));
    let ratio = longest(&|line| line.ratio.as_ref().map_or(0, |(words, _)| letters(words)));
    let end = longest(&|line| line.ratio.as_ref().map_or(0, |(_, words)| letters(words)));
    let ratios = if has_ratio { 4 + ratio + end } else { 0 };
    let rest = 2 + 2 + posted + 2 + ours + 2 + verdict + ratios;
    let room = width.saturating_sub(rest).max(WHAT_MIN);
    let what = longest(&|line| letters(&line.what)).min(room);
    let mut text = String::new();
    for line in lines {
        let name = cut(&line.what, what);
        let (shown, verdict) = (&line.posted, format!("{:<verdict$}", line.verdict));
        let mut row = format!("  {name:<what$}  {shown:>posted$}  {:>ours$}  {verdict}", line.ours);
        if let Some((words, end)) = &line.ratio {
            row.push_str(&format!("  {words:<ratio$}  {end}"));
        }
        let row = row.trim_end();
        text.push_str(row);
        match line.others.as_str() {
            "" => {}
            others if letters(row) + 1 + letters(others) <= width => {
                text.push_str(&format!(" {others}"));
            }
            others => text.push_str(&format!("\n    {others}")),
        }
        text.push('\n');
    }
    text
}

fn cut(words: &str, room: usize) -> String {
    match words.chars().count() <= room {
        true => words.to_owned(),
        false => words.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// What `modern` does: in how many rows no column is better, and its value in the headline.
fn modern(post: &PostReport) -> String {
    let standing = post.standing();
    if standing.rows == 0 {
        return String::new();
    }
    let mut words = format!("  modern: best in {} of {}", standing.best, standing.rows);
    for table in &post.tables {
        let Some(modern) = table.modern() else { continue };
        let is_best =
            |row: &&Row| matches!(row.goal, Some(Goal::Less(Rank::Best) | Goal::More(Rank::Best)));
        for row in table.rows.iter().filter(is_best) {
            let value = brief(&[row.cells.get(modern).and_then(|cell| cell.ours)]);
            words.push_str(&format!("; {} {value}", row.what));
            if let Some(over) = table.over_best_permille(row) {
                words.push_str(&format!(", x {} of the best other", hundredths(over)));
            }
        }
    }
    match standing.shortfalls.len() {
        0 => {}
        count => words.push_str(&format!("; falls short {count} times")),
    }
    words.push('\n');
    words
}

/// Values side by side with their unit once, in three digits.
fn brief(values: &[Option<Quantity>]) -> String {
    let times = values.iter().flatten().filter_map(|value| match value {
        Quantity::Nanoseconds(time) => Some(*time),
        _ => None,
    });
    let longest = times.max();
    let (unit, name) = match longest {
        None => (1, ""),
        Some(0..1_000_000) => (1_000, " us"),
        Some(1_000_000..1_000_000_000) => (1_000_000, " ms"),
        Some(_) => (1_000_000_000, " s"),
    };
    let one = |value: &Option<Quantity>| match value {
        None => "-".to_owned(),
        Some(Quantity::Nanoseconds(time)) => three_digits(*time, unit),
        Some(Quantity::Count(count)) => count.to_string(),
        Some(Quantity::Permille(permille)) => three_digits(*permille, 1000),
    };
    format!("{}{name}", values.iter().map(one).collect::<Vec<_>>().join("/"))
}

/// A number of units in three digits, rounded.
fn three_digits(value: u64, unit: u64) -> String {
    let digits = match u128::from(value) * 1000 / u128::from(unit.max(1)) {
        100_000.. => 0,
        10_000.. => 1,
        1_000.. => 2,
        _ => 3,
    };
    let scale = 10u128.pow(digits);
    let unit = u128::from(unit.max(1));
    let steps = (u128::from(value) * scale + unit / 2) / unit;
    match digits {
        0 => steps.to_string(),
        digits => format!("{}.{:0width$}", steps / scale, steps % scale, width = digits as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_digits_and_one_unit() {
        let times = |all: &[u64]| {
            let all: Vec<_> = all.iter().map(|time| Some(Quantity::Nanoseconds(*time))).collect();
            brief(&all)
        };
        assert_eq!(times(&[59_170_000_000, 172_030_000_000]), "59.2/172 s");
        assert_eq!(times(&[55_000_000_000, 780_000_000]), "55.0/0.780 s");
        assert_eq!(times(&[74_731_000]), "74.7 ms");
        assert_eq!(brief(&[Some(Quantity::Permille(611)), None]), "0.611/-");
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
