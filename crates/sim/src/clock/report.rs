//! Why a run ended badly, in one line.
use std::backtrace::Backtrace;
use std::error::Error;
use std::fmt;

/// A process that waits for what will not come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// Its name.
    pub process: String,
    /// What it waits for, as far as that is known: the function that waits, or whose end it waits
    /// for.
    pub waits_for: String,
}

/// How a run failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunError {
    /// Processes wait, and nothing will ever happen. In the order in which they were started.
    Deadlock {
        /// Who waits.
        processes: Vec<Waiting>,
    },
    /// A process panicked, or an event did.
    Panicked {
        /// Its name; "an event" for an event.
        process: String,
        /// What it said.
        message: String,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Panicked { process, message } => {
                write!(f, "{process} panicked: {}", message.replace('\n', "; "))
            }
            RunError::Deadlock { processes } => {
                f.write_str("deadlock: ")?;
                for (index, Waiting { process, waits_for }) in processes.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{process} waits for {waits_for}")?;
                }
                Ok(())
            }
        }
    }
}

impl Error for RunError {}

/// Where waiting itself is written: of this clock first, of locks and blocking devices, of the
/// language.
const WAITING: &[&str] =
    &["/src/clock.rs:", "/src/clock/", "block/src/lock.rs:", "block/src/device.rs:", "/library/"];

/// The function that waits on this thread: the innermost one of a file that is neither the clock's,
/// nor of the locks, nor the language's. Slow: for a thread that will unwind. Nothing when the
/// program carries no lines.
pub(super) fn waiting_function() -> Option<String> {
    let trace = Backtrace::force_capture().to_string();
    let mut frames = Vec::new();
    let mut function = "";
    for line in trace.lines().map(str::trim_start) {
        if let Some(place) = line.strip_prefix("at ") {
            frames.push((function, place));
        } else if let Some((number, name)) = line.split_once(": ")
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            function = name;
        }
    }
    let is_waiting = |place: &str| WAITING.iter().any(|file| place.contains(file));
    let waiting = frames.iter().skip_while(|(_, place)| !place.contains(WAITING[0]));
    let (function, place) = waiting.into_iter().find(|(_, place)| !is_waiting(place))?;
    // The folder and the file: what stands before them depends on where the program was built, and
    // runs.
    let file = place.rsplit_once(':').map_or(*place, |(file, _column)| file);
    let start = file.rmatch_indices('/').nth(1).map_or(0, |(slash, _)| slash + 1);
    let file = &file[start..];
    let name = function.rsplit("::").find(|name| !name.starts_with('{')).unwrap_or("a closure");
    Some(format!("a wake in {name} at {file}"))
}
