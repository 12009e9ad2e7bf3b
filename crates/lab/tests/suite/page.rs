//! Pages: the same bytes each time, nothing from outside that is markup, and, in headless Chromium,
//! no error, every plot with all of its data, light and dark, wide and narrow, and a cursor that
//! keys move.
use extant_chart::{
    Alignment, Axis, BarChart, Figure, FigureContent, Grid, Histogram, Hue, LineChart, LineStyle,
    Origin, Raster, RasterCell, Table, Unit,
};
use extant_lab::page;
use extant_lab::posts::{
    Cell, Class, Fitted, FittedOrigin, FittedValues, Limit, PostColumn, PostReport, PostTable,
    PostsReport, Quantity, Range, Row, SCHEMA, Scale, TableForm,
};
use extant_lab::scenario::{self, Layouts, RunOptions};
use extant_testkit::oracle;
use extant_testkit::scratch::Scratch;
use std::path::Path;
use std::process::Command;

/// What somebody could call a file, a scenario, a process.
const HOSTILE: &str = "</script><script>document.title='taken'</script><img src=x \
    onerror=\"parent.taken=1\">'\"&\u{7}";

const SMALL: &str = r#"name = "small"
seed = 7
memory = "16M"
[[drive]]
name = "disk"
model = "ide-2001-7200"
[[filesystem]]
name = "volume"
size = "64M"
profile = "ext2"
preset = "linux-2.4"
[[process]]
name = "<b>worker</b>"
steps = [
    { step = "create-files", at = "/files", count = 200, directories = 10, size = "8K" },
    { step = "remount" },
    { step = "read-all", at = "/", measure = "read" },
]
"#;

/// The page of a small run.
fn run() -> String {
    let scenario = scenario::parse("small.toml", SMALL, Path::new("")).unwrap();
    let options = RunOptions { layouts: Layouts::Drawn, ..RunOptions::default() };
    page::of_report(&scenario::run(&scenario, &options).unwrap().report)
}

/// One figure of each kind, with words of somebody else in every place that takes words.
fn figures() -> Vec<Figure> {
    let axis = |unit| Axis::new(HOSTILE, unit);
    let curve = LineChart::new(axis(Unit::Bytes).logarithmic(), axis(Unit::Nanoseconds))
        .posted("the post", [(4096, 0), (65_536, 1_000_000_000)])
        .series(HOSTILE, (12..32).map(|power| (1 << power, 7_000_000_000 / (power - 8))))
        .with("limit", Origin::Limit, [(4096, 5), (u64::MAX, u64::MAX)]);
    let steps = |style| {
        LineChart::new(axis(Unit::Nanoseconds), axis(Unit::BytesPerSecond))
            .style(style)
            .series("read", (0..300).map(|at| (at * 1_000_000, at * at % 977 * 1000)))
    };
    let bars = |value| BarChart {
        value,
        bars: vec![("post".to_owned(), Origin::Posted), (HOSTILE.to_owned(), Origin::Ours)],
        groups: vec![
            (HOSTILE.to_owned(), vec![Some(3), None]),
            ("b".to_owned(), vec![Some(0), Some(u64::MAX)]),
        ],
    };
    let latencies = Histogram::new(axis(Unit::Nanoseconds))
        .with("reads", Origin::Ours, &[(3, 1), (1000, 500), (9_000_000_000, u64::MAX)])
        .with(HOSTILE, Origin::Posted, &[(900, 5), (7000, 1)]);
    let raster = Raster {
        x: axis(Unit::Nanoseconds),
        y: axis(Unit::Bytes),
        x_range: (0, 60_000_000_000),
        y_range: (0, 1 << 40),
        columns: 300,
        rows: 100,
        cells: (0..300)
            .map(|column| RasterCell {
                column,
                row: column * 7 % 100,
                reads: u64::from(column % 3),
                writes: u64::from(column % 3 == 0) * 20,
            })
            .collect(),
    };
    let grid = Grid {
        kinds: vec![("free".to_owned(), Hue::Empty), (HOSTILE.to_owned(), Hue::Red)],
        columns: 30,
        maps: ["before", HOSTILE]
            .map(|name| {
                (name.to_owned(), (0..200u16).map(|field| u8::from(field % 7 == 0)).collect())
            })
            .into(),
        field: HOSTILE.to_owned(),
    };
    let mut table = Table::new(HOSTILE, &[("a", Alignment::Left), (HOSTILE, Alignment::Right)]);
    table.row([HOSTILE.to_owned(), "1".to_owned()]);
    let stack: Vec<FigureContent> = vec![raster.clone().into(), steps(LineStyle::Steps).into()];
    [
        FigureContent::from(curve),
        steps(LineStyle::Plain).into(),
        bars(Axis::new("a", Unit::Count)).into(),
        bars(Axis::new("a", Unit::Count).logarithmic()).into(),
        latencies.into(),
        raster.into(),
        grid.into(),
        table.into(),
        HOSTILE.to_owned().into(),
        FigureContent::Stack(stack),
    ]
    .map(|content| Figure::new(HOSTILE, content).line(HOSTILE).section(HOSTILE))
    .into()
}

/// A post with a table in which every class and verdict stands.
fn posts() -> PostsReport {
    let cell = |posted: Option<u64>, ours: u64| Cell {
        posted: posted.map(Quantity::Nanoseconds),
        ours: Some(Quantity::Nanoseconds(ours)),
        ..Cell::default()
    };
    let row = |what: &str, class: Class, first: u64, second: u64| Row {
        what: what.to_owned(),
        class,
        cells: vec![
            cell(Some(1_000_000_000), first),
            cell(Some(500_000_000), second),
            cell(None, 7),
        ],
        limit: None,
        goal: None,
        note: Some(HOSTILE.to_owned()),
        verdicts: Vec::new(),
        block: None,
    };
    let reason = HOSTILE.to_owned();
    let column = |name: &str| PostColumn { name: name.to_owned(), policies: HOSTILE.to_owned() };
    let table = PostTable {
        title: "a table".to_owned(),
        heading: None,
        caption: String::new(),
        form: TableForm::Rows,
        columns: vec![column("stock"), column(HOSTILE), column("modern")],
        rows: vec![
            row("agrees", Class::Absolute { within_permille: 100 }, 1_000_000_000, 510_000_000),
            row("misses", Class::Exact, 1, 2),
            row("warns", Class::Absolute { within_permille: 10 }, 1, 2),
            row("shown", Class::Shown, 1, 2),
            row(HOSTILE, Class::NotModelled { reason }, 1, 2),
        ],
    };
    let post = PostReport {
        number: 0,
        origin: HOSTILE.to_owned(),
        title: HOSTILE.to_owned(),
        question: HOSTILE.to_owned(),
        claim: HOSTILE.to_owned(),
        drive: HOSTILE.to_owned(),
        processor: HOSTILE.to_owned(),
        fitted: FittedValues(vec![Fitted::new(HOSTILE, FittedOrigin::Fitted, HOSTILE)]),
        seed: 4,
        seeds: vec![4],
        tables: vec![table],
        figures: figures(),
        notes: vec![HOSTILE.to_owned()],
        trace_hash: "00ff".to_owned(),
        trace_hashes: vec!["00ff".to_owned()],
    };
    PostsReport { schema: SCHEMA, model_version: 7, scale: Scale::Quick, posts: vec![post] }
}

#[test]
fn the_same_report_gives_the_same_bytes_and_nothing_from_outside_is_markup() {
    let pages =
        || [page::of_posts(&posts()), page::of_figures(HOSTILE, HOSTILE, &figures()), run()];
    let all = pages();
    assert_eq!(all, pages());
    for html in &all {
        assert!(html.starts_with(page::BEGINNING));
        assert!(
            !html.contains("<img")
                && !html.contains("<script>document")
                && !html.contains("<b>worker")
        );
        assert!(!html.contains("http:") && !html.contains("https:"), "a page asks for nothing");
        assert!(html.len() < 5_000_000, "{} bytes", html.len());
    }
    for (class, count) in
        [("agrees", 1), ("misses", 1), ("warns", 1), ("shown", 1), ("left-out", 1)]
    {
        let rows = all[0].matches(&format!("<tr class=\"{class}\">")).count();
        assert_eq!(rows, count, "rows of class {class}");
    }
    for word in
        ["small", "ide-2001-7200", "seeks over time", "what its blocks are used for", "measures"]
    {
        assert!(all[2].contains(word), "{word}");
    }
}

/// Looks at pages from within: each in two frames of its own, narrow and wide; what it finds goes
/// into `pre#found`.
const HARNESS: &str = r##"<!doctype html><meta charset="utf-8"><pre id="found"></pre><script>
const pages = PAGES;
const count = (path) => {
  const d = path.getAttribute("d") ?? "", token = path.dataset.token;
  if (token === "h") return [...d.matchAll(/h(\d+)/g)].reduce((sum, found) => sum + Number(found[1]), 0);
  return [...d].filter((letter) => token.includes(letter)).length;
};
const look = (frame, width) => {
  const page = frame.contentDocument, view = frame.contentWindow, wrong = [...frame.errors], seen = {};
  const say = (words) => wrong.push(words);
  if (page.documentElement.scrollWidth > page.documentElement.clientWidth) say("wider than " + width + ": " + page.documentElement.scrollWidth);
  if (view.performance.getEntriesByType("resource").length) say("asked the network");
  if (page.title.includes("taken") && !page.title.includes("<")) say("title taken");
  if (window.taken) say("taken");
  const ids = [...page.querySelectorAll("[id]")].map((one) => one.id);
  if (new Set(ids).size !== ids.length) say("an id twice");
  for (const link of page.querySelectorAll("a[href]")) if (!page.getElementById(link.getAttribute("href").slice(1))) say("no such place: " + link.getAttribute("href"));
  if (width >= 1280) for (const box of page.querySelectorAll(".scroll")) {
    // What is folded away beside a figure may move in its box, if a window has room for it.
    const room = box.querySelector("table.rows") ? box.clientWidth : 1300;
    if (box.scrollWidth > room) say("a table is wider than its box: " + box.scrollWidth + " of " + box.clientWidth + ", " + box.getAttribute("aria-label"));
  }
  for (const plot of page.querySelectorAll(".plot")) {
    const kind = plot.dataset.kind, wanted = Number(plot.dataset.count);
    const drawn = [...plot.querySelectorAll("path[data-token]")].reduce((sum, path) => sum + count(path), 0);
    seen[kind] = (seen[kind] ?? 0) + 1;
    if (!(wanted > 0)) say(kind + ": nothing in it");
    // Fields of a seek plot hold reads, writes or both: as many marks as fields at least.
    const isRaster = kind === "raster" || kind === "stack";
    if (isRaster ? drawn < wanted : drawn !== wanted) say(kind + ": " + drawn + " of " + wanted + " marks");
    const output = plot.parentElement.querySelector("output");
    const press = (key) => { plot.dispatchEvent(new view.KeyboardEvent("keydown", { key, bubbles: true, cancelable: true })); return output.textContent; };
    plot.focus();
    if (page.activeElement !== plot) say(kind + ": takes no focus");
    const first = press("Home"), last = press("End"), before = press("ArrowLeft");
    if (!first || first === last || before === last) say(kind + ": the cursor reads " + JSON.stringify([first, before, last]));
    if (press("Escape") !== "") say(kind + ": the cursor stays");
    const box = plot.querySelector("svg:not(.key)").getBoundingClientRect();
    if (box.width < 100 || box.height < 10) say(kind + ": " + box.width + " by " + box.height);
  }
  const paper = () => view.getComputedStyle(page.body).backgroundColor;
  const button = page.getElementById("theme"), system = paper();
  button.click(); const light = paper();
  button.click(); const dark = paper();
  button.click();
  if (light === dark) say("light is dark");
  if (paper() !== system) say("the system's theme does not come back");
  return { wrong, seen, isDark: system === dark };
};
const found = [];
const next = (at) => {
  if (at === 2 * pages.length) { document.getElementById("found").textContent = JSON.stringify(found); return; }
  const width = at % 2 ? 1280 : 360, frame = document.createElement("iframe");
  frame.errors = [];
  frame.style.cssText = "border:0;height:900px;width:" + width + "px";
  frame.onload = () => { try { found.push(look(frame, width)); } catch (error) { found.push({ wrong: [String(error.stack)], seen: {} }); } frame.remove(); next(at + 1); };
  const listen = "<head><script>{ const errors = window.frameElement.errors; window.onerror = (words) => errors.push(words); console.error = (...words) => errors.push(words.join(' ')); document.addEventListener('securitypolicyviolation', (event) => errors.push(event.violatedDirective)); }</scr" + "ipt>";
  frame.srcdoc = pages[Math.floor(at / 2)].replace("<head>", listen);
  document.body.append(frame);
};
next(0);
</script>"##;

/// What Chromium finds on pages, in an order of page and width; `scheme` is 0 for a dark system and
/// 1 for a light one.
fn look(pages: &[String], scheme: u32) -> Vec<serde_json::Value> {
    let folder = Scratch::new("page");
    let json = serde_json::to_string(pages).unwrap().replace('<', "\\u003c");
    let harness = folder.join("harness.html");
    std::fs::write(&harness, HARNESS.replacen("PAGES", &json, 1)).unwrap();
    let output = Command::new("chromium")
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-extensions",
            "--no-first-run",
        ])
        .args(["--virtual-time-budget=20000", "--dump-dom", "--window-size=1400,1000"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("file://{}", harness.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let found =
        dom.split_once("<pre id=\"found\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let found = found
        .map(|(found, _)| found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"));
    let found = found.filter(|found| !found.is_empty());
    let found = found
        .unwrap_or_else(|| panic!("nothing found: {}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(&found).unwrap()
}

/// A table as wide as that of post 0: eleven systems, three of them measured by the post, over
/// several seeds.
fn wide() -> PostsReport {
    let mut report = posts();
    let names = [
        "stock",
        "placement",
        "inode write-back",
        "preread",
        "bitmap lock",
        "queue",
        "all of writing",
        "1,024 deep",
        "patched",
        "orlov",
        "modern",
    ];
    let table = &mut report.posts[0].tables[0];
    let column =
        |name: &str| PostColumn { name: name.to_owned(), policies: "linux-2.4".to_owned() };
    table.columns = names.map(column).into();
    let seconds = |count: u64| Quantity::Nanoseconds(count * 1_000_000_000);
    for row in &mut table.rows {
        row.what = "create 100,000 files of 4 KiB, sync".to_owned();
        let cell = |at: usize| Cell {
            posted: ["stock", "1,024 deep", "patched"].contains(&names[at]).then(|| seconds(189)),
            ours: Some(seconds(167)),
            range: Some(Range { least: seconds(160), most: seconds(171), values: 5, as_posted: 0 }),
            is_held: false,
        };
        row.cells = (0..names.len()).map(cell).collect();
        row.limit = Some(Limit { nanoseconds: 7, media_ns: 7, seek_ns: 0, processor_ns: 0 });
    }
    report
}

#[test]
fn a_table_too_wide_for_a_window_continues_below() {
    let html = page::of_posts(&wide());
    let tables: Vec<&str> = html.split("<table class=\"rows\">").skip(1).collect();
    let tables: Vec<&str> =
        tables.iter().map(|table| table.split("</table>").next().unwrap_or_default()).collect();
    assert!(tables.len() >= 2, "{} tables", tables.len());
    // Every system once, and each table with the names of its rows.
    for name in ["stock", "1,024 deep", "orlov"] {
        let heads = tables.iter().filter(|table| table.contains(&format!(">{name}</th>")));
        assert_eq!(heads.count(), 1, "{name}");
    }
    assert!(tables.iter().all(|table| table.matches("<th scope=\"row\"").count() == 5));
    // A cell has at most as many digits as fit: of a window of 1,300 pixels 960 are left.
    for table in &tables {
        let row = table.split("<tr class=").nth(1).or_else(|| table.split("<tr>").nth(2));
        let cells = row.unwrap_or_default().matches("<td").count();
        assert!(cells <= 11, "{cells} cells in a row");
    }
    // What is judged is counted once, whatever the number of tables.
    assert_eq!(html.matches("<tr class=\"warns\">").count(), 2);
}

#[test]
fn chromium_shows_every_plot_wide_and_narrow_light_and_dark_and_keys_move_the_cursor() {
    if !oracle::require("chromium") {
        return;
    }
    let pages = [
        page::of_posts(&posts()),
        page::of_figures(HOSTILE, HOSTILE, &figures()),
        run(),
        page::of_posts(&wide()),
    ];
    for scheme in [0, 1] {
        let found = look(&pages, scheme);
        assert_eq!(found.len(), 2 * pages.len());
        for (at, one) in found.iter().enumerate() {
            assert_eq!(
                one["wrong"],
                serde_json::json!([]),
                "page {} at width {}",
                at / 2,
                [360, 1280][at % 2]
            );
            assert_eq!(one["isDark"], scheme == 0, "page {}", at / 2);
        }
        // One of each kind; of the post's, its own comparison of times too.
        for kind in ["lines", "histogram", "raster", "stack", "grid", "bars"] {
            assert!(found[2]["seen"][kind].as_u64() >= Some(1), "{kind}: {}", found[2]["seen"]);
        }
        assert_eq!(found[0]["seen"]["bars"], 3, "{}", found[0]["seen"]);
        assert!(
            found[4]["seen"]["grid"] == 1 && found[4]["seen"]["stack"] == 1,
            "{}",
            found[4]["seen"]
        );
    }
}
