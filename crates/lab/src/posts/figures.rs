//! What a page draws of a post besides its tables.
use super::file::{BarValue, BarsSpec, Drawing, FigureSpec, LinesSpec, RunDrawings};
use super::report::Quantity;
use super::runs::Runs;
use super::tables::{columns, quantity};
use super::value::{CellPlace, Column};
use crate::figures::activity;
use extant_chart::{BarChart, Figure, LineChart};

/// All figures, in the order of the file.
pub(super) fn figures(runs: &Runs<'_>) -> Vec<Figure> {
    let figures = runs.post.figure.iter().flat_map(|spec| {
        let all = match &spec.draw {
            Drawing::Runs(drawings) => of_runs(runs, spec, drawings),
            Drawing::Lines(lines) => vec![of_lines(runs, &spec.run, lines)],
            Drawing::Bars(bars) => vec![of_bars(runs, &spec.run, bars)],
        };
        all.into_iter().map(|figure| figure.section(&spec.section))
    });
    figures.collect()
}

fn of_runs(runs: &Runs<'_>, spec: &FigureSpec, drawings: &RunDrawings) -> Vec<Figure> {
    let mut figures = Vec::new();
    for system in &drawings.systems {
        let Some(ran) = runs.find(&spec.run, system, None, None, 0) else { continue };
        let titled = |title: &str| title.replace("{system}", system);
        if let Some((title, process)) = &drawings.calls {
            let title = titled(title);
            figures.extend(activity::latencies_of_process(&ran.report, process, &title));
        }
        if let Some(title) = &drawings.seeks {
            let drive = ran.report.drives.first();
            figures.extend(drive.and_then(|drive| activity::of_drive(drive, &titled(title))));
        }
    }
    figures
}

fn of_lines(runs: &Runs<'_>, run: &str, spec: &LinesSpec) -> Figure {
    let columns = columns(runs, &spec.series, run);
    let cases = runs.post.cases[&spec.each].at(runs.work.scale);
    let mut chart = LineChart::new(spec.x.clone(), spec.y.clone());
    for column in &columns {
        let point = |case| {
            let place = CellPlace {
                runs,
                columns: &columns,
                column,
                run: None,
                case: Some(case),
                variant: None,
                draw: 0,
            };
            Some((case.x, place.value(&spec.value)?.value()))
        };
        chart = chart.series(&column.name, cases.iter().filter_map(point));
    }
    Figure::new(&spec.title, chart).line(&spec.line)
}

fn of_bars(runs: &Runs<'_>, run: &str, spec: &BarsSpec) -> Figure {
    let value = |bar: &BarValue| {
        if let Some(posted) = &bar.posted {
            return quantity(posted, None, runs.divisor(run)).map(Quantity::value);
        }
        let column = Column {
            name: String::new(),
            system: bar.system.clone(),
            run: bar.run.as_deref().unwrap_or(run).to_owned(),
            policies: String::new(),
        };
        let place = CellPlace {
            runs,
            columns: &[],
            column: &column,
            run: None,
            case: None,
            variant: None,
            draw: 0,
        };
        place.value(bar.value.as_ref()?).map(Quantity::value)
    };
    let chart = BarChart {
        value: spec.value.clone(),
        bars: spec.bars.iter().map(|bar| (bar.name.clone(), bar.origin)).collect(),
        groups: spec
            .groups
            .iter()
            .map(|group| (group.name.clone(), group.bars.iter().map(value).collect()))
            .collect(),
    };
    Figure::new(&spec.title, chart).line(&spec.line)
}
