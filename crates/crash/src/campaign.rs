//! Many histories, each cut at many moments: how many states there were, which are wrong, and how
//! each of those is seen again.
use crate::base::{Base, Setting};
use crate::examine::{Examiner, Judged, Judges};
use crate::machine::{Lived, Log, live};
use crate::random::{self, Pace};
use crate::sequences::{self, Sequence};
use crate::state::{Manner, State};
use crate::verdict::Bytes;
use extant_engine::mkfs::Profile;
use extant_sim::random::Random;
use std::fmt;

/// What is examined.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of the first history; the next ones follow.
    pub seed: u64,
    /// How many states of histories are examined, of each row's share.
    pub states: u64,
    /// How many of one history.
    pub states_each: u64,
    /// After how many wrong states it ends, at the end of a history.
    pub enough: u64,
    /// Steps of each process: of most histories, and of every fourth one.
    pub steps: [usize; 2],
    /// What the processes do most.
    pub pace: Pace,
    /// The column `journal`.
    pub journal: Journal,
    /// Who judges.
    pub judges: Judges,
}

/// The choices of the column `journal` that are examined, and what each promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Journal {
    /// No file shows what was never its own.
    Ordered,
    /// The same.
    OrderedJbd,
    /// The same.
    Data,
    /// A file that was written since it was last synced may show anything.
    Writeback,
}

impl Journal {
    /// All, by name.
    pub const ALL: [(&'static str, Journal); 4] = [
        ("ordered", Journal::Ordered),
        ("ordered-jbd", Journal::OrderedJbd),
        ("data", Journal::Data),
        ("writeback", Journal::Writeback),
    ];

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Journal> {
        Journal::ALL.iter().find(|(known, _)| *known == name).map(|(_, journal)| *journal)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Journal::ALL.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// Which bytes it allows.
    pub fn bytes(self) -> Bytes {
        if self == Journal::Writeback { Bytes::Stale } else { Bytes::Own }
    }

    fn policies(self) -> &'static str {
        match self {
            Journal::Ordered => "modern,journal=ordered",
            Journal::OrderedJbd => "modern,journal=ordered-jbd",
            Journal::Data => "modern,journal=data",
            Journal::Writeback => "modern,journal=writeback",
        }
    }

    /// The volumes that are examined with it.
    pub fn settings(self) -> Vec<Setting> {
        let policies = self.policies();
        let mut settings = Vec::new();
        for profile in [Profile::Ext4, Profile::Ext3] {
            for block_bytes in [1024, 4096] {
                settings.push(Setting { profile, block_bytes, policies });
            }
        }
        settings
    }
}

/// A state, or a history, that is not as promised.
#[derive(Clone, Debug)]
pub struct Wrong {
    /// The history.
    pub place: String,
    /// What is wrong.
    pub reason: String,
    /// Words of the command that shows it again.
    pub again: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.place, self.reason)?;
        write!(f, "  again: cargo run --bin xtask -- crash {}", self.again)
    }
}

/// What came of one kind of volume.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The volume and its policies.
    pub name: String,
    /// Histories that were lived.
    pub histories: u64,
    /// States that were examined.
    pub states: u64,
    /// Media that were recovered: many states are equal.
    pub media: u64,
    /// States that are wrong.
    pub wrong: u64,
}

/// What came of all.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// By kind of volume.
    pub rows: Vec<Row>,
    /// The first that are wrong.
    pub wrong: Vec<Wrong>,
    /// What was done in the history of the first.
    pub story: String,
}

/// How many that are wrong are kept.
const WRONG_MAX: usize = 20;

impl Report {
    /// How many states are wrong.
    pub fn wrong_states(&self) -> u64 {
        self.rows.iter().map(|row| row.wrong).sum()
    }

    /// How many states were examined.
    pub fn states(&self) -> u64 {
        self.rows.iter().map(|row| row.states).sum()
    }

    /// Adds what came of other histories.
    pub fn merge(&mut self, other: Report) {
        for row in other.rows {
            let known = self.row(&row.name);
            known.histories += row.histories;
            known.states += row.states;
            known.media += row.media;
            known.wrong += row.wrong;
        }
        if self.wrong.is_empty() {
            self.story = other.story;
        }
        self.wrong.extend(other.wrong);
        self.wrong.truncate(WRONG_MAX);
    }

    fn row(&mut self, name: &str) -> &mut Row {
        let at = self.rows.iter().position(|row| row.name == name);
        let at = at.unwrap_or_else(|| {
            self.rows.push(Row { name: name.to_owned(), ..Row::default() });
            self.rows.len() - 1
        });
        &mut self.rows[at]
    }

    fn note(&mut self, setting: &Setting, place: String, reason: String, again: String) {
        self.row(&setting.to_string()).wrong += 1;
        if self.wrong.len() < WRONG_MAX {
            self.wrong.push(Wrong { place, reason, again });
        }
    }

    /// Whether so much is wrong that looking on shows nothing new.
    fn is_enough(&self) -> bool {
        self.wrong.len() >= WRONG_MAX
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<44} {:>9} {:>9} {:>9} {:>6}",
            "volume", "histories", "states", "media", "wrong"
        )?;
        for Row { name, histories, states, media, wrong } in &self.rows {
            writeln!(f, "{name:<44} {histories:>9} {states:>9} {media:>9} {wrong:>6}")?;
        }
        self.wrong.iter().try_for_each(|wrong| writeln!(f, "{wrong}"))?;
        f.write_str(&self.story)
    }
}

/// How far a campaign is.
#[derive(Clone, Copy)]
pub enum Progress<'a> {
    /// A history is about to be lived: what is changed in the engine now changes it.
    Begins,
    /// It was lived, and is to be examined: what the device was asked for.
    Lived(Option<&'a Log>),
    /// It was examined.
    Examined(&'a Report),
}

/// Histories of four processes, drawn by seeds. `progress` is called around each history.
///
/// # Errors
/// A volume that cannot be made.
pub fn processes(plan: &Plan, mut progress: impl FnMut(Progress<'_>)) -> Result<Report, String> {
    let made = |setting: &Setting| setting.make(&random::content());
    let bases: Vec<Base> =
        plan.journal.settings().iter().map(made).collect::<Result<_, String>>()?;
    let mut report = Report::default();
    let mut judged = Judged::default();
    let mut seed = plan.seed;
    while report.states() < plan.states && report.wrong_states() < plan.enough {
        let base = &bases[(seed % bases.len() as u64) as usize];
        let asked = plan.states_each.min(plan.states - report.states()).max(1);
        history((plan, base, seed), asked, (&mut judged, &mut report), &mut progress);
        progress(Progress::Examined(&report));
        seed += 1;
    }
    Ok(report)
}

/// One history of a seed.
fn history(
    (plan, base, seed): (&Plan, &Base, u64),
    asked: u64,
    (judged, report): (&mut Judged, &mut Report),
    progress: &mut dyn FnMut(Progress<'_>),
) {
    let setting = &base.setting;
    let steps = plan.steps[usize::from((seed / 4) % 4 == 3)];
    let scripts = random::scripts(&base.model, setting.profile, seed, (steps, plan.pace));
    let again = format!(
        "--seed {seed} --states {} --each {} --steps {},{} --pace {} --journal {}",
        plan.states_each,
        plan.states_each,
        plan.steps[0],
        plan.steps[1],
        plan.pace.name(),
        plan.journal.name()
    );
    let place = format!("{setting}, seed {seed}");
    report.row(&setting.to_string()).histories += 1;
    progress(Progress::Begins);
    let lived = live(base, scripts, seed);
    progress(Progress::Lived(lived.as_ref().ok().map(|lived| &*lived.log)));
    let lived = match lived {
        Ok(lived) => lived,
        Err(reason) => {
            report.row(&setting.to_string()).states += asked;
            return report.note(setting, place, reason, again);
        }
    };
    let mut random = Random::for_part(seed, "cuts");
    let moments = lived.log.moments() as u64;
    let mut states = Vec::new();
    while states.len() < asked as usize {
        let moment = random.below(moments + 1) as usize;
        states.push(State { moment, manner: Manner::Prefix });
        for _ in 0..2 {
            states.push(State { moment, manner: Manner::Subset(random.next_u64()) });
        }
    }
    states.truncate(asked as usize);
    let subject = Subject { base, lived: &lived, judges: plan.judges, place, again };
    subject.examine(states, judged, report);
}

/// What is examined now.
struct Subject<'a> {
    base: &'a Base,
    lived: &'a Lived,
    judges: Judges,
    place: String,
    again: String,
}

impl Subject<'_> {
    fn examine(&self, states: Vec<State>, judged: &mut Judged, report: &mut Report) {
        let mut examiner = Examiner::new(self.base, self.lived, self.judges);
        let setting = &self.base.setting;
        for state in states {
            report.row(&setting.to_string()).states += 1;
            if let Err(reason) = examiner.examine(state, judged) {
                let place = format!("{}, {state}", self.place);
                if report.wrong.is_empty() {
                    report.story = self.lived.history.to_string();
                }
                report.note(setting, place, reason, self.again.clone());
                if report.is_enough() {
                    break;
                }
            }
        }
        report.row(&setting.to_string()).media += examiner.distinct() as u64;
    }
}

/// Which sequences are examined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequencePlan {
    /// The seed that draws sequences and subsets.
    pub seed: u64,
    /// How many sequences of one operation on each volume; all if there are fewer.
    pub of_one: usize,
    /// How many of two operations on each volume.
    pub of_two: usize,
    /// How many subsets at each moment.
    pub subsets: u64,
    /// The column `journal`.
    pub journal: Journal,
    /// Who judges.
    pub judges: Judges,
}

/// Sequences of one and two operations on one kind of volume, cut at every moment after the first
/// sync.
///
/// # Errors
/// A volume that cannot be made.
pub fn sequences(
    plan: &SequencePlan,
    setting: &Setting,
    mut progress: impl FnMut(Progress<'_>),
) -> Result<Report, String> {
    let base = setting.make(&sequences::content())?;
    let mut random = Random::for_part(plan.seed, &setting.to_string());
    let ones = sequences::of_one(&base.model, setting.profile);
    let mut chosen = sample(ones, plan.of_one, &mut random);
    if plan.of_two > 0 {
        let twos = sequences::of_two(&base.model, setting.profile);
        chosen.extend(sample(twos, plan.of_two, &mut random));
    }
    let mut report = Report::default();
    let mut judged = Judged::default();
    for sequence in &chosen {
        if report.is_enough() {
            break;
        }
        cut_sequence(plan, &base, sequence, (&mut judged, &mut report));
        progress(Progress::Examined(&report));
    }
    Ok(report)
}

/// Draws this many of them, in their order.
fn sample(
    from: impl IntoIterator<Item = Sequence>,
    count: usize,
    random: &mut Random,
) -> Vec<Sequence> {
    // Each that comes takes the place of one that was chosen before, with falling odds.
    let mut chosen: Vec<(usize, Sequence)> = Vec::new();
    for (number, sequence) in from.into_iter().enumerate() {
        if chosen.len() < count {
            chosen.push((number, sequence));
            continue;
        }
        let place = random.below(number as u64 + 1) as usize;
        if let Some(place) = chosen.get_mut(place) {
            *place = (number, sequence);
        }
    }
    chosen.sort_by_key(|(number, _)| *number);
    chosen.into_iter().map(|(_, sequence)| sequence).collect()
}

fn cut_sequence(
    plan: &SequencePlan,
    base: &Base,
    sequence: &Sequence,
    (judged, report): (&mut Judged, &mut Report),
) {
    let setting = &base.setting;
    let steps = sequence.script.steps[sequence.warm_steps..].iter();
    let words: Vec<String> = steps.map(|step| format!("{:?}", step.operation)).collect();
    let place = format!("{setting}, {}", words.join("; "));
    let again = format!(
        "--sequences {},{} --subsets {} --seed {} --journal {}",
        plan.of_one,
        plan.of_two,
        plan.subsets,
        plan.seed,
        plan.journal.name()
    );
    report.row(&setting.to_string()).histories += 1;
    let lived = match live(base, vec![sequence.script.clone()], plan.seed) {
        Ok(lived) => lived,
        Err(reason) => {
            report.row(&setting.to_string()).states += 1;
            return report.note(setting, place, reason, again);
        }
    };
    let warm = lived.history.spans[0].get(sequence.warm_steps.saturating_sub(1));
    let first = warm.and_then(|span| span.ended).map_or(0, |ended| ended.moment);
    let mut random = Random::for_part(plan.seed, &place);
    let mut states = Vec::new();
    for moment in first..=lived.log.moments() {
        states.push(State { moment, manner: Manner::Prefix });
        if lived.log.cut(moment).loose() > 0 {
            states.push(State { moment, manner: Manner::Durable });
            for _ in 0..plan.subsets {
                states.push(State { moment, manner: Manner::Subset(random.next_u64()) });
            }
        }
    }
    let subject = Subject { base, lived: &lived, judges: plan.judges, place, again };
    subject.examine(states, judged, report);
}
