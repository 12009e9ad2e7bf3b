//! The page of the posts: a section each, with its question, its tables and its plots.
use super::{frontier, tables};
use crate::posts::text;
use crate::posts::{PostReport, PostTable, PostsReport, Quantity, Row, Scale, WhoseRow};
use extant_chart::page::{Document, Markup, Section, draw};
use extant_chart::{Axis, BarChart, Figure, Origin, Unit};

/// The whole page.
pub(super) fn page(report: &PostsReport) -> String {
    let sections = report.posts.iter().map(|post| section(post, report.model_version));
    let document = Document {
        title: "The posts, measured again",
        lead: lead(report),
        sections: sections.chain([legend()]).collect(),
    };
    document.into_html()
}

/// How much of a post came to that: what is judged as it is counted, a block of rows once.
fn count(post: &PostReport, class: &str) -> usize {
    let (by_post, ours) = (post.tally(WhoseRow::Post), post.tally(WhoseRow::Ours));
    match class {
        "agrees" => by_post.agree,
        "bound" => ours.agree,
        "misses" => by_post.miss + ours.miss,
        "warns" => by_post.outside,
        _ => {
            let rows = post.tables.iter().flat_map(|table| &table.rows);
            rows.filter(|row| tables::verdict(row).0 == class).count()
        }
    }
}

const VERDICTS: [(&str, &str, &str); 6] = [
    ("agrees", "✓", "agree"),
    ("bound", "≤", "bounds of our own that hold"),
    ("misses", "✗", "miss"),
    ("warns", "!", "outside their tolerance"),
    ("shown", "·", "shown only"),
    ("left-out", "○", "not modelled"),
];

fn lead(report: &PostsReport) -> Markup {
    let mut out = Markup::default();
    out.raw(
        "<p class=\"lead\">Mailing list posts about the layout and the scheduling of ext2 and \
        its heirs, with what they \
             measured then, and what the same engine that ships gives now, on models of drives, in \
             virtual time. Beside each \
             stands what the <code>modern</code> preset takes for the same work, and the least \
             time that the drive could.</p>",
    );
    let scale = match report.scale {
        Scale::Quick => "in quick form: counts are divided where that keeps what a row is about",
        Scale::Full => "at the size of the posts",
    };
    let words = format!("Run {scale}; model {}.", report.model_version);
    out.element("p", &[("class", "facts")], &words);
    out.raw("<ul class=\"tally\">");
    for (class, mark, words) in VERDICTS {
        out.open("li", &[("class", class)]);
        let all: usize = report.posts.iter().map(|post| count(post, class)).sum();
        out.element("b", &[], &all.to_string());
        out.open("span", &[])
            .element("i", &[("aria-hidden", "true")], mark)
            .raw(" ")
            .text(words)
            .raw("</span></li>");
    }
    out.raw("</ul>");
    for (heading, lines) in [
        ("Rows that miss", report.missed()),
        ("Rows outside their tolerance", report.warned()),
        ("Fragile rows, whose verdict hangs on the seed", report.fragile()),
    ] {
        if lines.is_empty() {
            continue;
        }
        let heading = format!("{heading} ({})", lines.len());
        out.raw("<details class=\"lines\"><summary>").text(&heading).raw("</summary><ul>");
        for line in lines {
            out.element("li", &[], &line);
        }
        out.raw("</ul></details>");
    }
    out
}

/// The first letter of a title as a capital.
fn capital(words: &str) -> String {
    let mut characters = words.chars();
    characters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

fn section(post: &PostReport, model_version: u32) -> Section {
    let id = format!("post-{}", post.number);
    let mut body = Markup::default();
    if !post.question.is_empty() {
        body.element("p", &[("class", "question")], &post.question);
    }
    facts(post, model_version, &mut body);
    let mut parts = Vec::new();
    for (number, table) in post.tables.iter().enumerate() {
        let id = format!("{id}-{}", number + 1);
        let heading = capital(table.heading.as_ref().unwrap_or(&table.title));
        body.element("h3", &[("id", &id)], &heading);
        if !table.caption.is_empty() {
            body.element("p", &[("class", "facts")], &table.caption);
        }
        tables::of_post(table, &id, &mut body);
        let bars = against_the_post(table);
        let own = post.figures.iter().filter(|figure| figure.section == table.title);
        together(bars.iter().chain(own), &mut body);
        parts.push((id, heading));
    }
    if let Some(frontier) = frontier::figure(post) {
        let id = format!("{id}-frontier");
        body.element("h3", &[("id", &id)], "The frontier");
        together([&frontier].into_iter(), &mut body);
        parts.push((id, "The frontier".to_owned()));
    }
    further(post, &id, &mut body, &mut parts);
    if !post.notes.is_empty() {
        body.raw("<h3>To know</h3><ul class=\"to-know\">");
        for note in &post.notes {
            body.element("li", &[], note);
        }
        body.raw("</ul>");
    }
    Section {
        id,
        kicker: format!("Post {} · {}", post.number, post.origin),
        title: capital(&post.title),
        body,
        parts,
    }
}

/// Figures side by side, where there is room.
fn together<'a>(all: impl Iterator<Item = &'a Figure>, out: &mut Markup) {
    let mut all = all.peekable();
    if all.peek().is_none() {
        return;
    }
    out.raw("<div class=\"figures\">");
    all.for_each(|figure| draw(figure, out));
    out.raw("</div>");
}

/// Figures under headings of their own, and then those under none.
fn further(post: &PostReport, id: &str, body: &mut Markup, parts: &mut Vec<(String, String)>) {
    let is_placed =
        |figure: &&Figure| post.tables.iter().any(|table| table.title == figure.section);
    let others: Vec<&Figure> = post.figures.iter().filter(|figure| !is_placed(figure)).collect();
    let mut headings: Vec<&str> = Vec::new();
    for figure in &others {
        if !figure.section.is_empty() && !headings.contains(&figure.section.as_str()) {
            headings.push(&figure.section);
        }
    }
    for (number, heading) in headings.iter().chain(&[""]).enumerate() {
        let mut own = others.iter().copied().filter(|figure| figure.section == *heading).peekable();
        if own.peek().is_none() {
            continue;
        }
        let heading = if heading.is_empty() { "over time" } else { heading };
        let id = format!("{id}-figures-{}", number + 1);
        body.element("h3", &[("id", &id)], &capital(heading));
        together(own, body);
        parts.push((id, capital(heading)));
    }
}

fn facts(post: &PostReport, model_version: u32, out: &mut Markup) {
    let fitted = format!("{}: {}", post.fitted_count(), post.fitted_words());
    out.raw("<dl class=\"facts\">");
    let seeds = text::seeds(&post.seeds);
    let run = format!("{seeds}, model {model_version}, trace {}", post.trace_hash);
    let drive = text::drive(&post.drive);
    let processor = format!("of {}, for all columns", post.processor);
    let facts =
        [("Drive", &drive), ("Processor", &processor), ("Not the post's", &fitted), ("Run", &run)];
    for (what, words) in facts {
        out.raw("<div>").element("dt", &[], what).element("dd", &[], words).raw("</div>");
    }
    let verdicts = VERDICTS.iter().filter_map(|(class, mark, words)| match count(post, class) {
        0 => None,
        count => Some(format!("{mark} {count} {words}")),
    });
    out.raw("<div>").element("dt", &[], "Rows");
    out.element("dd", &[], &verdicts.collect::<Vec<_>>().join(", ")).raw("</div></dl>");
}

/// The times of a table that the post has too, post and model on one axis.
fn against_the_post(table: &PostTable) -> Option<Figure> {
    let time = |quantity: Option<Quantity>| match quantity {
        Some(Quantity::Nanoseconds(nanoseconds)) => Some(nanoseconds),
        _ => None,
    };
    let is_compared = |row: &&Row| {
        row.cells.iter().any(|cell| time(cell.posted).is_some() && time(cell.ours).is_some())
    };
    let rows: Vec<&Row> = table.rows.iter().filter(is_compared).collect();
    // A row is often there twice, as ratio and as time: once is enough.
    let mut groups: Vec<(String, Vec<Option<u64>>)> = Vec::new();
    let columns = 0..table.columns.len();
    let has_posted = |column: &usize| {
        rows.iter().any(|row| row.cells.get(*column).is_some_and(|cell| cell.posted.is_some()))
    };
    let shown: Vec<usize> =
        columns.filter(|column| has_posted(column) || table.modern() == Some(*column)).collect();
    let mut bars = Vec::new();
    for column in &shown {
        let name = &table.columns[*column].name;
        if has_posted(column) {
            bars.push((format!("{name}: post"), Origin::Posted));
        }
        bars.push((name.clone(), Origin::Ours));
    }
    for row in &rows {
        let mut values = Vec::new();
        for column in &shown {
            let cell = row.cells.get(*column).copied().unwrap_or_default();
            if has_posted(column) {
                values.push(time(cell.posted));
            }
            values.push(time(cell.ours));
        }
        if !groups.iter().any(|(_, known)| *known == values) {
            let words = row.what.trim_end_matches([' ', ',']).to_owned();
            groups.push((words, values));
        }
    }
    if groups.len() < 2 {
        return None;
    }
    let chart = BarChart {
        value: Axis::new("time, by powers", Unit::Nanoseconds).logarithmic(),
        bars,
        groups,
    };
    let line = "Hollow marks are the post's figures, full ones the model's; equal distances are \
        equal ratios.";
    Some(Figure::new("Post and model", chart).line(line))
}

/// How to read the page.
fn legend() -> Section {
    let mut body = Markup::default();
    body.raw("<dl class=\"legend\">");
    let words = [
        (
            "post, model, ratio",
            "What the post says, what the model gives for the same work, and the second over the \
             first.",
        ),
        ("exact", "The same number is asked for."),
        (
            "ratio",
            "The row has the ratios of columns to the first one that was measured: each is that of \
             the post, within so much.",
        ),
        (
            "ours",
            "A bound that we have set, for what the post says nothing of. Such rows are counted \
             apart.",
        ),
        (
            "exact, in blocks",
            "Rows that come out or not as one, such as those of a listing, count once.",
        ),
        (
            "time",
            "The time itself agrees within so much; a miss is a warning, for the post does not \
             name its drive.",
        ),
        ("at most", "The post has a bound in words."),
        (
            "among the draws",
            "The post's figure is one draw of many that could have been made; ours are those of \
             many seeds, and its figure is among them.",
        ),
        (
            "[least..most], fragile",
            "Of several seeds a value is the median, and the row is judged on it; in brackets \
             stand the least and the most. A fragile row comes to another verdict in some seed.",
        ),
        (
            "modern over the best, over the limit",
            "What the modern preset takes, over the best other column, and over the least time \
             that the drive could take: bytes over the rate of its medium, and the seeks that no \
             layout saves.",
        ),
        ("not modelled", "The row is the post's; why we have none stands in its note."),
    ];
    for (what, words) in words {
        body.element("dt", &[], what).element("dd", &[], words);
    }
    body.raw("</dl>");
    Section {
        id: "legend".to_owned(),
        kicker: String::new(),
        title: "How to read the tables".to_owned(),
        body,
        parts: Vec::new(),
    }
}
