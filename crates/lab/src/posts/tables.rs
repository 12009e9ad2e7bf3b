//! The tables of a post: each row of its file with what was measured.
use super::file::{
    Case, ClassSpec, ColumnSpec, Divided, Posted, RowGroup, RowSpec, StemSpec, TableSpec, Value,
};
use super::judge::permille;
use super::limits;
use super::report::{Cell, Class, PostColumn, PostTable, Quantity, Row, TableForm};
use super::runs::{Runs, is_at, named};
use super::seeds;
use super::value::{CellPlace, Column};
use extant_chart::StemPlot;

impl ClassSpec {
    /// As the report has it; counts in the ends of a bound are divided by this.
    fn class(&self, case: Option<&Case>, divisor: u64) -> Class {
        let end = |end: &Option<Posted>| end.as_ref().and_then(|end| quantity(end, case, divisor));
        match self {
            ClassSpec::Exact => Class::Exact,
            ClassSpec::Ratio(within) => Class::Ratio { within_permille: *within },
            ClassSpec::Absolute(within) => Class::Absolute { within_permille: *within },
            ClassSpec::Between(least, most) => Class::Between { least: *least, most: *most },
            ClassSpec::AtMost => Class::AtMost,
            ClassSpec::Bound(bound) => {
                Class::Bound { least: end(&bound.least), most: end(&bound.most) }
            }
            ClassSpec::BoundByFirst => Class::BoundByFirst,
            ClassSpec::Drawn => Class::Drawn,
            ClassSpec::Shown => Class::Shown,
            ClassSpec::NotModelled(reason) => Class::NotModelled { reason: reason.clone() },
        }
    }
}

/// The tables that are shown at this size.
pub(super) fn tables(runs: &Runs<'_>) -> Vec<PostTable> {
    let shown = runs.post.table.iter().filter(|spec| is_at(spec.scale, runs.work.scale));
    let tables = shown.filter_map(|spec| match &spec.stem {
        Some(stem) => stem_table(runs, spec, stem),
        None => Some(rows_table(runs, spec)),
    });
    tables.collect()
}

/// The columns of a list whose systems run at this size.
pub(super) fn columns(runs: &Runs<'_>, specs: &[ColumnSpec], run: &str) -> Vec<Column> {
    let system = |spec: &ColumnSpec| runs.post.system(spec.system());
    let shown = specs.iter().filter(|spec| is_at(system(spec).scale, runs.work.scale));
    let column = |spec: &ColumnSpec| Column {
        name: spec.name().to_owned(),
        system: spec.system().to_owned(),
        run: spec.run().unwrap_or(run).to_owned(),
        policies: match spec {
            ColumnSpec::Named(column) => column.policies.clone(),
            ColumnSpec::System(_) => None,
        }
        .unwrap_or_else(|| system(spec).policies.clone()),
    };
    shown.map(column).collect()
}

fn rows_table(runs: &Runs<'_>, spec: &TableSpec) -> PostTable {
    let columns = columns(runs, &spec.columns, &spec.run);
    let mut rows = Vec::new();
    for group in &spec.rows {
        for case in cases(runs, group) {
            for row in &group.row {
                rows.extend(of_row(runs, spec, &columns, row, case));
            }
        }
    }
    PostTable {
        title: runs.title(spec).to_owned(),
        heading: spec.heading.clone(),
        caption: spec.caption.clone(),
        form: TableForm::Rows,
        columns: columns.into_iter().map(shown_column).collect(),
        rows,
    }
}

fn shown_column(column: Column) -> PostColumn {
    PostColumn { name: column.name, policies: column.policies }
}

fn cases<'a>(runs: &Runs<'a>, group: &RowGroup) -> Vec<Option<&'a Case>> {
    match &group.each {
        Some(cases) => runs.post.cases[cases].at(runs.work.scale).iter().map(Some).collect(),
        None => vec![None],
    }
}

/// A row; where both are asked for, that of times and that of their ratios, each with its verdict.
fn of_row(
    runs: &Runs<'_>,
    table: &TableSpec,
    columns: &[Column],
    spec: &RowSpec,
    case: Option<&Case>,
) -> Vec<Row> {
    let divisor = match spec.divided.contains(&Divided::Posted) {
        true => runs.divisor(spec.run.as_deref().unwrap_or(&table.run)),
        false => 1,
    };
    let cells: Vec<Cell> =
        columns.iter().map(|column| cell(runs, columns, column, (spec, case, divisor))).collect();
    let row = Row {
        what: named(&spec.what, case),
        class: spec.class.class(case, divisor),
        limit: limits::of_row(runs, columns, spec),
        goal: spec.goal,
        note: spec.note.clone(),
        verdicts: Vec::new(),
        block: spec.block.clone(),
        cells,
    };
    match (&spec.class, spec.times) {
        (ClassSpec::Ratio(_), None) => vec![Row { cells: ratios(&row.cells), ..row }],
        (ClassSpec::Ratio(_), Some(within_permille)) => {
            let ratio = Row {
                what: format!("{}{RATIO}", row.what),
                cells: ratios(&row.cells),
                limit: None,
                goal: None,
                note: None,
                ..row.clone()
            };
            vec![Row { class: Class::Absolute { within_permille }, ..row }, ratio]
        }
        _ => vec![row],
    }
}

/// What the name of a row of ratios ends in, where the row of times is before it.
pub(super) const RATIO: &str = ": ratio";

fn cell(
    runs: &Runs<'_>,
    columns: &[Column],
    column: &Column,
    (spec, case, divisor): (&RowSpec, Option<&Case>, u64),
) -> Cell {
    let place = CellPlace {
        runs,
        columns,
        column,
        run: spec.run.as_deref(),
        case,
        variant: spec.variant.as_deref(),
        draw: 0,
    };
    let posted = spec.posted.get(&column.name);
    let posted = posted.and_then(|posted| quantity(posted, case, divisor));
    match (value_in(spec, column), &spec.class) {
        (Some(value), ClassSpec::Drawn) => drawn(&place, value, posted),
        (value, class) => {
            let is_bound = matches!(class, ClassSpec::Bound(_) | ClassSpec::BoundByFirst);
            let is_held =
                spec.held.as_ref().map_or(value.is_some(), |held| held.contains(&column.name));
            let ours = value.and_then(|value| place.value(value));
            Cell { posted, ours, range: None, is_held: is_bound && is_held }
        }
    }
}

/// Each value over that of the first column that has a posted one, which has none itself.
fn ratios(cells: &[Cell]) -> Vec<Cell> {
    let base = cells.iter().position(|cell| cell.posted.is_some());
    let first = base.and_then(|base| cells.get(base)).copied().unwrap_or_default();
    let over = |one: Option<Quantity>, whole: Option<Quantity>| {
        permille(one?.value(), whole?.value()).map(Quantity::Permille)
    };
    let ratio = |(at, cell): (usize, &Cell)| match Some(at) == base {
        true => Cell::default(),
        false => Cell {
            posted: over(cell.posted, first.posted),
            ours: over(cell.ours, first.ours),
            ..Cell::default()
        },
    };
    cells.iter().enumerate().map(ratio).collect()
}

/// The value of every draw of a run: the median, and their range.
fn drawn(place: &CellPlace<'_>, value: &Value, posted: Option<Quantity>) -> Cell {
    let draws = (0..place.draws()).map(|draw| {
        let ours = CellPlace { draw, ..*place }.value(value);
        Cell { posted, ours, ..Cell::default() }
    });
    seeds::over_cells(&draws.collect::<Vec<_>>())
}

fn value_in<'a>(spec: &'a RowSpec, column: &Column) -> Option<&'a Value> {
    let is_part = spec.columns.as_ref().is_none_or(|columns| columns.contains(&column.name));
    spec.values.get(&column.name).or(spec.value.as_ref().filter(|_| is_part))
}

/// What the post measured, at the size of the run.
pub(super) fn quantity(posted: &Posted, case: Option<&Case>, divisor: u64) -> Option<Quantity> {
    match posted {
        Posted::Quantity(Quantity::Nanoseconds(time)) => {
            Some(Quantity::Nanoseconds(time / divisor))
        }
        Posted::Quantity(Quantity::Count(count)) => Some(Quantity::Count(count / divisor)),
        Posted::Quantity(ratio) => Some(*ratio),
        Posted::OfCase(name) => quantity(case?.posted.get(name)?, None, divisor),
    }
}

/// A stem plot in rows as wide as the post's: ours drawn, both counted.
fn stem_table(runs: &Runs<'_>, spec: &TableSpec, stem: &StemSpec) -> Option<PostTable> {
    let ran = runs.find(&spec.run, &stem.system, None, None, 0)?;
    let process = ran.report.processes.iter().find(|process| process.name == stem.process);
    let calls = process.and_then(|process| process.calls.iter().find(|one| one.call == stem.call));
    let samples = calls.map_or(&[][..], |calls| &calls.samples_ns);
    let plot = StemPlot::in_rows(samples, stem.digits, stem.row_leaves, stem.posted.len());
    let rows = plot.lines().into_iter().zip(plot.rows()).enumerate();
    let rows = rows.map(|(number, (line, (_, count)))| Row {
        what: line,
        class: Class::Shown,
        cells: vec![Cell {
            posted: stem.posted.get(number).copied().map(Quantity::Count),
            ours: Some(Quantity::Count(count)),
            ..Cell::default()
        }],
        limit: None,
        goal: None,
        note: None,
        verdicts: Vec::new(),
        block: None,
    });
    Some(PostTable {
        title: format!("{}: {}", spec.title, plot.header()),
        heading: spec.heading.clone(),
        caption: spec.caption.clone(),
        form: TableForm::Stem,
        columns: vec![PostColumn {
            name: stem.column.clone(),
            policies: runs.post.system(&stem.system).policies.clone(),
        }],
        rows: rows.collect(),
    })
}
