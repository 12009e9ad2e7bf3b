//! The frontier of a post: two sides of a bargain, a mark for each column.
use crate::posts::{Goal, PostReport, Quantity};
use extant_chart::{Axis, Figure, LineChart, Origin, Unit};

/// The column that the figure is about.
const MODERN: &str = "modern";

/// What a reader waits against what a writer keeps, or whatever the two sides are: a mark for each
/// column, `modern` the first one, and a line through those that no other column beats. `None`
/// without two sides.
pub(super) fn figure(post: &PostReport) -> Option<Figure> {
    let frontier = post.frontier()?;
    let [(down, down_goal), (across, _)] = frontier.sides.as_slice() else { return None };
    let mut points = Vec::new();
    for point in &frontier.points {
        let [down, across] = point.values.as_slice() else { return None };
        points.push((point, (across.value(), down.value())));
    }
    let unit = |side: usize| frontier.points.first().map(|point| unit(point.values[side]));
    let mut best: Vec<(u64, u64)> =
        points.iter().filter(|(point, _)| point.is_on_it).map(|(_, place)| *place).collect();
    best.sort_unstable();
    let axes = (Axis::new(across, unit(1)?), Axis::new(down, unit(0)?).logarithmic());
    let mut chart = LineChart::new(axes.0, axes.1);
    // The first colour stands out.
    points.sort_by_key(|(point, _)| point.name != MODERN);
    for (point, place) in &points {
        chart = chart.series(&point.name, [*place]);
    }
    let chart = chart.with("the frontier", Origin::Limit, best);
    let lower = match down_goal {
        Goal::Less(_) => "Lower",
        Goal::More(_) => "Higher",
    };
    let line = format!("{lower} and further to the right is better.");
    Some(Figure::new("Two sides of a bargain", chart).line(&line))
}

fn unit(quantity: Quantity) -> Unit {
    match quantity {
        Quantity::Nanoseconds(_) => Unit::Nanoseconds,
        Quantity::Count(_) => Unit::Count,
        Quantity::Permille(_) => Unit::Permille,
    }
}
