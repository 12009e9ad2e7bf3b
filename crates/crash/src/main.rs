//! `xtask crash`: power cuts by the thousand, with a table of what came of them. Exits with 1 when
//! a state is not as promised, and says how it is seen again.
// tidy: print because this is a command

use extant_block::{Clock, RealClock, ShortLock};
use extant_crash::campaign::{self, Journal, Plan, Progress, Report, SequencePlan};
use extant_crash::examine::Judges;
use extant_crash::random::Pace;
use std::process::ExitCode;
use std::sync::Arc;

const USAGE: &str = "\
crash [--states N] [--seed S] [--each N] [--steps N,N]   histories of four processes
crash --sequences ONE,TWO [--subsets N] [--seed S]       sequences of one and two operations
  --pace mixed|busy                                      busy: mostly syncs; default: mixed
  --journal ordered|ordered-jbd|data|writeback           default: ordered
  --e2fsck N       e2fsck judges one of N new media; 0: none; default: 1
  --second N       one of N recoveries is cut too; 0: none; default: 4
  --jobs N         threads; default: 2";

/// What was asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    states: u64,
    seed: u64,
    each: u64,
    steps: [usize; 2],
    sequences: Option<[usize; 2]>,
    subsets: u64,
    pace: Pace,
    journal: Journal,
    e2fsck: u64,
    second: u64,
    jobs: u64,
}

fn parse(words: &[String]) -> Result<Asked, String> {
    let mut asked = Asked {
        states: 3000,
        seed: 1,
        each: 60,
        steps: [12, 80],
        sequences: None,
        subsets: 20,
        pace: Pace::Mixed,
        journal: Journal::Ordered,
        e2fsck: 1,
        second: 4,
        jobs: 2,
    };
    for pair in words.chunks(2) {
        let [word, value] = pair else { return Err(USAGE.to_owned()) };
        let number = || value.parse::<u64>().map_err(|_| format!("{word} {value}: no number"));
        let two = || -> Result<[usize; 2], String> {
            let parts = value.split_once(',').map(|(one, two)| (one.parse(), two.parse()));
            match parts {
                Some((Ok(one), Ok(two))) => Ok([one, two]),
                _ => Err(format!("{word} {value}: not two numbers")),
            }
        };
        match word.as_str() {
            "--states" => asked.states = number()?,
            "--seed" => asked.seed = number()?,
            "--each" => asked.each = number()?.max(1),
            "--steps" => asked.steps = two()?,
            "--sequences" => asked.sequences = Some(two()?),
            "--subsets" => asked.subsets = number()?,
            "--e2fsck" => asked.e2fsck = number()?,
            "--second" => asked.second = number()?,
            "--jobs" => asked.jobs = number()?.max(1),
            "--pace" => asked.pace = pace(value)?,
            "--journal" => asked.journal = Journal::from_name(value).ok_or(USAGE)?,
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(asked)
}

fn pace(name: &str) -> Result<Pace, String> {
    let found = Pace::ALL.iter().find(|(known, _)| *known == name);
    found.map(|(_, pace)| *pace).ok_or_else(|| USAGE.to_owned())
}

impl Asked {
    fn judges(&self) -> Judges {
        Judges {
            e2fsck_one_in: self.e2fsck,
            second_cut_one_in: self.second,
            bytes: self.journal.bytes(),
        }
    }

    /// The work in pieces, each with a name.
    fn pieces(&self) -> Vec<(String, Piece)> {
        let judges = self.judges();
        if let Some([of_one, of_two]) = self.sequences {
            let piece = |setting: extant_crash::base::Setting| {
                let (seed, subsets, journal) = (self.seed, self.subsets, self.journal);
                let plan = SequencePlan { seed, of_one, of_two, subsets, journal, judges };
                let work: Piece =
                    Box::new(move |progress| campaign::sequences(&plan, &setting, progress));
                (setting.to_string(), work)
            };
            return self.journal.settings().into_iter().map(piece).collect();
        }
        // Pieces begin at multiples of the histories of one, so that seeds never meet.
        let most = 6000;
        let mut pieces: Vec<(String, Piece)> = Vec::new();
        let (mut left, mut seed) = (self.states, self.seed);
        while left > 0 {
            let states = left.min(most);
            let (states_each, steps, pace) = (self.each, self.steps, self.pace);
            let (journal, enough) = (self.journal, 20);
            let plan = Plan { seed, states, states_each, enough, steps, pace, journal, judges };
            let histories = states.div_ceil(self.each);
            let name = format!("seeds {seed}..{}", seed + histories);
            pieces.push((name, Box::new(move |progress| campaign::processes(&plan, progress))));
            left -= states;
            seed += histories;
        }
        pieces
    }
}

/// Does a part of the work, and calls this now and then.
type Piece = Box<dyn FnOnce(&mut dyn FnMut(Progress<'_>)) -> Result<Report, String> + Send>;

/// What the threads share.
#[derive(Default)]
struct Work {
    pieces: Vec<(String, Piece)>,
    report: Report,
    failure: Option<String>,
}

fn work(clock: &RealClock, shared: &ShortLock<Work>) {
    loop {
        let Some((name, piece)) = shared.lock().pieces.pop() else { return };
        let mut last = clock.now();
        let mut progress = |progress: Progress<'_>| {
            if let Progress::Examined(report) = progress
                && clock.now() - last > 10_000_000_000
            {
                last = clock.now();
                let (states, wrong) = (report.states(), report.wrong_states());
                eprintln!("{name}: {states} states, {wrong} wrong");
            }
        };
        let outcome = piece(&mut progress);
        let mut shared = shared.lock();
        match outcome {
            Ok(report) => shared.report.merge(report),
            Err(failure) => {
                shared.failure.get_or_insert(failure);
            }
        }
        if shared.report.wrong_states() > 0 {
            shared.pieces.clear();
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let asked = match parse(&words) {
        Ok(asked) => asked,
        Err(said) => {
            eprintln!("{said}");
            return ExitCode::from(2);
        }
    };
    let clock = RealClock::new();
    let begun = clock.now();
    let mut pieces = asked.pieces();
    pieces.reverse();
    let shared = Arc::new(ShortLock::new(Work { pieces, ..Work::default() }));
    let spawn = |_| {
        let (clock, shared) = (Arc::clone(&clock), Arc::clone(&shared));
        let inner = Arc::clone(&clock);
        clock.spawn("crash", Box::new(move || work(&inner, &shared)))
    };
    let tasks: Vec<_> = (0..asked.jobs).map(spawn).collect();
    tasks.into_iter().for_each(|task| task.join());
    let shared = shared.lock();
    println!("{}", shared.report);
    println!("{} s", (clock.now() - begun) / 1_000_000_000);
    if let Some(failure) = &shared.failure {
        eprintln!("{failure}");
        return ExitCode::FAILURE;
    }
    if shared.report.wrong_states() > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
