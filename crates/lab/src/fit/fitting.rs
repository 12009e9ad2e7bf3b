//! From a recording to the drive that explains it best.
use super::bars::{Bar, bars};
use super::family::{Family, Scale, Written};
use super::kinds::families;
use super::probes::held_out;
use super::recording::Recording;
use super::score::Agreement;
use super::search::Search;
use super::watch::{Watch, Watching};
use serde::Serialize;

/// Candidates that are played for each kind before one is chosen, for each that is then near the
/// best, and for the one that is chosen.
const CHOOSING: usize = 40;
const COMPARING: usize = 150;
const SEARCHING: usize = 350;
/// A kind whose start is that many times as far as the nearest one is not searched.
const HOPELESS: f64 = 6.0;
/// Kinds that are that many times as far as the nearest one are searched for longer before one is
/// chosen.
const NEAR: f64 = 2.0;
/// The host's work is assumed where it brings the distance below this share of the nearest one
/// without it.
const HOST_NEARER: f64 = 0.9;
/// The same of object stores: one whose objects and connections show in nothing is a volume.
const OBJECT_NEARER: f64 = 0.95;
/// The seed with which the held-out phase is played.
const SEED: u64 = 4711;
/// A bar that spans more than this factor says nothing.
const SPAN_MOST: f64 = 8.0;

/// How well a value is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Known {
    /// Both ends of its error bar are known.
    Identified,
    /// Smaller values are excluded, larger ones are not.
    AtLeast,
    /// Larger values are excluded, smaller ones are not.
    AtMost,
    /// The probes do not tell.
    NotIdentified,
    /// A choice: the best of those that were tried.
    Chosen,
}

/// A value of the drive file, and what is known of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FittedValue {
    /// Table and key.
    pub name: String,
    /// As the file has it.
    pub value: String,
    /// The error bar, as the file would have its ends.
    pub least: Option<String>,
    /// See above.
    pub most: Option<String>,
    /// How well it is known.
    pub known: Known,
}

/// How well one kind explained the probes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct KindScore {
    /// `rotating`, `ssd`, `network` or `object`.
    pub kind: String,
    /// Whether the host's work is before it.
    pub host: bool,
    /// The mean distance over all phases; infinite for no valid drive.
    pub distance: f64,
}

/// The drive that explains a recording best.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Fit {
    /// Its kind.
    pub kind: String,
    /// The drive file.
    pub text: String,
    /// Its values.
    pub values: Vec<FittedValue>,
    /// The mean distance over all phases.
    pub distance: f64,
    /// Candidates that were played.
    pub candidates: usize,
    /// Whether the time was over before the search and its error bars were done.
    pub is_cut_short: bool,
    /// All kinds that were tried, after a short search.
    pub kinds: Vec<KindScore>,
    /// How well it agrees with the held-out phase.
    pub held_out: Option<Agreement>,
    /// The same for each depth.
    pub held_out_by_depth: Vec<(u32, Agreement)>,
}

/// A family, the best values that were found, and their distance.
struct Tried {
    family: Family,
    values: Vec<f64>,
    distance: f64,
}

impl Tried {
    /// Its distance as it counts: the host's work has to explain more than the drive alone, and an
    /// object store more than a volume.
    fn rank(&self) -> f64 {
        match (self.family.has_host(), self.family.kind) {
            (true, _) => self.distance / HOST_NEARER,
            (false, "object") => self.distance / OBJECT_NEARER,
            (false, _) => self.distance,
        }
    }

    /// Searches on. Returns how many candidates were played.
    fn search(&mut self, seen: &Recording, watch: &Watch<'_>, evaluations: usize) -> usize {
        let mut search = Search::new(&self.family, seen, watch);
        self.distance = search.descend(&mut self.values, evaluations);
        search.evaluations
    }
}

/// All families after a short search, and a longer one of those that are near the best; the best
/// one first. With it how many candidates were played.
fn try_kinds(seen: &Recording, watch: &Watch<'_>) -> (Vec<Tried>, usize) {
    let mut tried: Vec<Tried> = Vec::new();
    for family in families(seen) {
        let values = family.starts();
        let distance = Search::new(&family, seen, watch).total(&values);
        tried.push(Tried { family, values, distance });
    }
    let mut candidates = tried.len();
    for (evaluations, farthest) in [(CHOOSING, HOPELESS), (COMPARING, NEAR)] {
        let nearest = tried.iter().map(|one| one.distance).fold(f64::INFINITY, f64::min);
        let mut near: Vec<&mut Tried> =
            tried.iter_mut().filter(|one| one.distance <= nearest * farthest).collect();
        // The last ones are compared with each other.
        if near.len() > 1 || evaluations == CHOOSING {
            for one in &mut near {
                watch.begin(one.family.kind);
                candidates += one.search(seen, watch, evaluations);
            }
        }
        tried.sort_by(|one, other| one.rank().total_cmp(&other.rank()));
    }
    (tried, candidates)
}

/// Searches the drive; the recording may have a held-out phase, which the search does not get.
/// `None` when no kind has a valid drive near the estimates.
pub(super) fn fit(name: &str, recording: &Recording, watch: &Watch<'_>) -> Option<Fit> {
    let seen = Recording {
        facts: recording.facts.clone(),
        phases: recording
            .phases
            .iter()
            .filter(|phase| !phase.name.starts_with(held_out::NAME) && !phase.timings.is_empty())
            .cloned()
            .collect(),
    };
    watch.begin("kinds");
    let (tried, mut candidates) = try_kinds(&seen, watch);
    let kinds = tried.iter().map(|one| KindScore {
        kind: one.family.kind.to_owned(),
        host: one.family.has_host(),
        distance: one.distance,
    });
    let kinds: Vec<KindScore> = kinds.collect();
    let Tried { family, mut values, .. } =
        tried.into_iter().find(|one| one.distance.is_finite())?;
    watch.begin("search");
    let mut search = Search::new(&family, &seen, watch);
    let distance = search.descend(&mut values, SEARCHING);
    watch.begin("error bars");
    let bars = bars(&mut search, &values);
    candidates += search.evaluations;
    // The held-out phase is played whatever the time: without it nobody knows how good this is.
    let is_cut_short = watch.is_over();
    let fitted: Vec<FittedValue> =
        (0..values.len()).map(|number| fitted(&family, number, &values, &bars)).collect();
    let remarks: Vec<String> = fitted
        .iter()
        .zip(&family.parameters)
        .map(|(value, parameter)| remark(value, parameter.unknown))
        .collect();
    let (held_out, by_depth) = agreement(&family, &values, recording);
    Some(Fit {
        kind: family.kind.to_owned(),
        text: family.text(name, &values, &remarks),
        values: fitted,
        distance,
        candidates,
        is_cut_short,
        kinds,
        held_out,
        held_out_by_depth: by_depth,
    })
}

fn fitted(family: &Family, number: usize, values: &[f64], bars: &[Bar]) -> FittedValue {
    let parameter = &family.parameters[number];
    let open = Bar { least: None, most: None };
    let bar_of = |number: usize| bars.get(number).copied().unwrap_or(open);
    let bar = match parameter.written {
        Written::Less(of) => bar_of(number).less(bar_of(of)),
        _ => bar_of(number),
    };
    let known = match (parameter.unknown, parameter.scale, bar.least, bar.most) {
        (Some(_), ..)
        | (None, Scale::Ratio(..) | Scale::Linear(..) | Scale::Steps(_), None, None) => {
            Known::NotIdentified
        }
        (None, Scale::Words(_), ..) => Known::Chosen,
        (None, _, Some(least), Some(most)) if most > least * SPAN_MOST && least > 0.0 => {
            Known::NotIdentified
        }
        (None, _, Some(_), Some(_)) => Known::Identified,
        (None, _, Some(_), None) => Known::AtLeast,
        (None, _, None, Some(_)) => Known::AtMost,
    };
    let end = |value: f64| match parameter.written {
        // The bar is the difference's already.
        Written::Less(of) => parameter.shown(value + values[of].max(0.0), values),
        _ => parameter.shown(value, values),
    };
    FittedValue {
        name: parameter.name(),
        value: parameter.shown(values[number], values),
        least: bar.least.map(end),
        most: bar.most.map(end),
        known,
    }
}

/// What the drive file says of a value.
fn remark(value: &FittedValue, unknown: Option<&str>) -> String {
    let end = |end: &Option<String>| end.clone().unwrap_or_default();
    match (value.known, unknown) {
        (Known::NotIdentified, Some(reason)) => reason.to_owned(),
        (Known::NotIdentified, None) => "not identified".to_owned(),
        (Known::Identified, _) => format!("{} to {}", end(&value.least), end(&value.most)),
        (Known::AtLeast, _) => format!("at least {}, no more is known", end(&value.least)),
        (Known::AtMost, _) => format!("at most {}, no more is known", end(&value.most)),
        (Known::Chosen, _) => "the best of the choices".to_owned(),
    }
}

/// The held-out phases on the fitted drive, after all that was probed before them.
fn agreement(
    family: &Family,
    values: &[f64],
    recording: &Recording,
) -> (Option<Agreement>, Vec<(u32, Agreement)>) {
    let Some(spec) = family.spec(values) else { return (None, Vec::new()) };
    let played = recording.play(&spec, SEED, |_| true);
    let (mut measured, mut model, mut by_depth) = (Vec::new(), Vec::new(), Vec::new());
    for (phase, timings) in recording.phases.iter().zip(&played) {
        if !phase.name.starts_with(held_out::NAME) {
            continue;
        }
        let theirs = phase.times();
        let ours: Vec<u64> = phase.compared(timings).map(|(_, time)| time).collect();
        by_depth.extend(Agreement::of(&theirs, &ours).map(|agreed| (phase.depth, agreed)));
        measured.extend(theirs);
        model.extend(ours);
    }
    (Agreement::of(&measured, &model), by_depth)
}
