//! What all plots share: panels over a common horizontal axis, their names, and what the cursor
//! reads out.
//!
//! A drawing is stretched to the room that it gets, so that it is as readable on a telephone as on
//! paper: lines and marks keep their width (`vector-effect`), and words are beside the drawing,
//! not in it. Marks are lines of no length with round or square ends.
use super::markup::Markup;
use super::scale::{LENGTH, Scale, Tick};
use crate::Origin;
use serde::Serialize;
use std::collections::BTreeMap;

/// How many colours there are for series.
const HUES: usize = 8;
/// The most places at which the cursor stops.
const STOPS_MAX: usize = 640;

/// How high a panel is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Height {
    Tall,
    Medium,
    Short,
}

/// What a series looks like in the list of names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Name {
    /// Classes of its mark.
    pub(super) classes: String,
    pub(super) words: String,
}

/// A field with a vertical axis of its own.
pub(super) struct Panel {
    pub(super) label: String,
    pub(super) height: Height,
    pub(super) ticks: Vec<Tick>,
    /// The inside of its drawing.
    pub(super) drawing: Markup,
    pub(super) names: Vec<Name>,
    /// What the cursor says at places of the horizontal axis.
    pub(super) says: BTreeMap<u64, String>,
}

/// Panels over one horizontal axis.
pub(super) struct Plot<'a> {
    pub(super) kind: &'a str,
    pub(super) title: &'a str,
    pub(super) x: &'a Scale,
    pub(super) x_label: &'a str,
    /// How many things are drawn.
    pub(super) marks: usize,
    pub(super) panels: Vec<Panel>,
}

/// Places and words for the cursor.
#[derive(Serialize)]
struct Stops {
    at: Vec<u64>,
    say: Vec<String>,
}

/// The classes of a series: its colour by its number, and whose it is.
pub(super) fn classes(number: usize, origin: Origin) -> String {
    let whose = match origin {
        Origin::Ours => "ours",
        Origin::Posted => "posted",
        Origin::Limit => "bound",
    };
    // Where colours come a second time, lines are broken.
    let again = if number < HUES { "" } else { " again" };
    format!("h{} {whose}{again}", number % HUES)
}

/// The height of a place in a drawing, which counts from above.
pub(super) fn from_above(place: u64) -> u64 {
    LENGTH - place.min(LENGTH)
}

impl Plot<'_> {
    pub(super) fn draw(self, out: &mut Markup) {
        // One list for all panels that show the same; else each has its own.
        let is_common = self.panels.windows(2).all(|pair| pair[0].names == pair[1].names);
        let naming = if is_common { Naming::Once } else { Naming::Each };
        if is_common {
            names(self.panels.iter().take(1), out);
        }
        let label = format!("{}. Arrow keys move the cursor, Home and End jump.", self.title);
        let marks = self.marks.to_string();
        out.open(
            "div",
            &[
                ("class", "plot"),
                ("tabindex", "0"),
                ("role", "group"),
                ("aria-label", &label),
                ("data-kind", self.kind),
                ("data-count", &marks),
            ],
        );
        let x_ticks = self.x.ticks();
        for panel in &self.panels {
            field(panel, &x_ticks, naming, out);
        }
        out.open("div", &[("class", "x"), ("aria-hidden", "true")]);
        for tick in &x_ticks {
            let edge = match tick.place {
                0..60 => "first",
                941.. => "last",
                _ => "",
            };
            let style = format!("left:{}", percent(tick.place));
            out.element("span", &[("class", edge), ("style", &style)], &tick.words);
        }
        out.close("div").data(&stops(&self.panels)).close("div");
        out.element("p", &[("class", "x-label")], self.x_label);
        out.raw("<output class=\"readout\" aria-live=\"polite\"></output>");
    }
}

/// The names of the series of panels.
fn names<'a>(panels: impl Iterator<Item = &'a Panel>, out: &mut Markup) {
    let mut all = panels.flat_map(|panel| &panel.names).peekable();
    if all.peek().is_none() {
        return;
    }
    out.open("ul", &[("class", "names")]);
    for name in all {
        out.raw("<li>");
        key(&name.classes, out);
        out.element("span", &[], &name.words).raw("</li>");
    }
    out.close("ul");
}

/// The mark of a series beside its name.
fn key(classes: &str, out: &mut Markup) {
    out.raw("<svg class=\"key\" viewBox=\"0 0 28 12\" aria-hidden=\"true\">");
    out.open("path", &[("class", &format!("line {classes}")), ("d", "M1 6H27")]).close("path");
    out.open("path", &[("class", &format!("mark {classes}")), ("d", "M14 6h0")]).close("path");
    out.open("path", &[("class", &format!("core {classes}")), ("d", "M14 6h0")]).close("path");
    out.raw("</svg>");
}

/// Where the names of series are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Naming {
    /// Over all panels, which have the same.
    Once,
    /// Over each panel.
    Each,
}

fn field(panel: &Panel, x_ticks: &[Tick], naming: Naming, out: &mut Markup) {
    let height = match panel.height {
        Height::Tall => "panel tall",
        Height::Medium => "panel medium",
        Height::Short => "panel short",
    };
    out.open("div", &[("class", height)]);
    out.raw("<div class=\"above\">").element("p", &[("class", "y-label")], &panel.label);
    if naming == Naming::Each {
        names([panel].into_iter(), out);
    }
    out.close("div");
    out.open("div", &[("class", "y"), ("aria-hidden", "true")]);
    for tick in &panel.ticks {
        out.element("span", &[("style", &format!("bottom:{}", percent(tick.place)))], &tick.words);
    }
    out.raw(
        "</div><div class=\"field\"><svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" \
         aria-hidden=\"true\">",
    );
    let across = panel.ticks.iter().map(|tick| format!("M0 {}H1000", from_above(tick.place)));
    let down = x_ticks.iter().map(|tick| format!("M{} 0V1000", tick.place));
    let lines: String = across.chain(down).collect();
    out.open("path", &[("class", "grid"), ("d", &lines)]).close("path");
    out.raw(panel.drawing.html()).raw("</svg></div></div>");
}

/// A place as a share of the axis.
pub(super) fn percent(place: u64) -> String {
    format!("{}.{}%", place / 10, place % 10)
}

/// All places of all panels; a panel that has none there says what it said before.
fn stops(panels: &[Panel]) -> Stops {
    let mut at: Vec<u64> = panels.iter().flat_map(|panel| panel.says.keys().copied()).collect();
    at.sort_unstable();
    at.dedup();
    let every = at.len().div_ceil(STOPS_MAX).max(1);
    let at: Vec<u64> = at.into_iter().step_by(every).collect();
    let words = |place: &u64| {
        let said = panels.iter().filter_map(|panel| panel.says.range(..=*place).next_back());
        said.map(|(_, words)| words.as_str()).collect::<Vec<_>>().join(" · ")
    };
    Stops { say: at.iter().map(words).collect(), at }
}
