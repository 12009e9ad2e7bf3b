//! Why a run ended badly, in one line.
use std::backtrace::Backtrace;
use std::error::Error;
use std::fmt;

/// A process that waits for what will not come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// Its name.
    pub process: String,
    /// What it waits for, as far as that is known: the function that waits, or whose end it waits for.
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

/// The function that waits on this thread: the innermost one that belongs neither to a clock nor to a lock. Slow: for a thread
/// that will unwind.
pub(super) fn waiting_function() -> Option<String> {
    let trace = Backtrace::force_capture().to_string();
    let frames = trace.lines().filter_map(|line| line.trim_start().split_once(": "));
    let functions = frames.filter(|(number, _)| number.bytes().all(|byte| byte.is_ascii_digit()));
    let function = functions
        .map(|(_, function)| function)
        .skip_while(|function| !is_of_the_clock(function))
        .find(|function| !is_of_the_clock(function) && !is_waiting_itself(function))?;
    let name = function.split("::{{closure}}").next().unwrap_or(function);
    Some(format!("a wake in {name}"))
}

fn is_of_the_clock(function: &str) -> bool {
    function.contains("extant_lab::clock::")
}

fn is_waiting_itself(function: &str) -> bool {
    let places = [
        "extant_block::lock::",
        "extant_block::clock::",
        "extant_block::device::",
        "core::ops::",
        "std::",
    ];
    places.iter().any(|place| function.contains(place))
}
