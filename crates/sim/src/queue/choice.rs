//! An elevator as a user names it: `noop`, `linus(20000,20000)`.
use super::{ELEVATORS, Elevator, ElevatorEntry};
use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// How many numbers an elevator can have at most.
const PARAMETERS_MAX: usize = 8;

/// An entry of the table of elevators with its numbers. Written as its name, with numbers in
/// parentheses in the order of its parameters; numbers left out at the end have their defaults.
#[derive(Clone, Copy)]
pub struct ElevatorChoice {
    entry: &'static ElevatorEntry,
    /// One for each parameter of the entry, and then zeros.
    numbers: [u64; PARAMETERS_MAX],
}

impl ElevatorChoice {
    /// This entry with its default numbers.
    pub fn of(entry: &'static ElevatorEntry) -> ElevatorChoice {
        let mut numbers = [0; PARAMETERS_MAX];
        for (number, parameter) in numbers.iter_mut().zip(entry.parameters) {
            *number = parameter.default;
        }
        ElevatorChoice { entry, numbers }
    }
    /// The entry of the table.
    pub fn entry(&self) -> &'static ElevatorEntry {
        self.entry
    }
    /// The number of each parameter of the entry.
    pub fn numbers(&self) -> &[u64] {
        self.numbers.get(..self.entry.parameters.len()).unwrap_or(&self.numbers)
    }
    /// A new elevator of this kind, with nothing in it.
    pub fn build(&self) -> Box<dyn Elevator> {
        (self.entry.build)(self.numbers())
    }
}

impl PartialEq for ElevatorChoice {
    fn eq(&self, other: &ElevatorChoice) -> bool {
        self.entry.name == other.entry.name && self.numbers == other.numbers
    }
}
impl Eq for ElevatorChoice {}

impl fmt::Debug for ElevatorChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// In the form that can be parsed: only the name if all numbers are the defaults.
impl fmt::Display for ElevatorChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.entry.name)?;
        if *self == ElevatorChoice::of(self.entry) {
            return Ok(());
        }
        let numbers: Vec<String> = self.numbers().iter().map(u64::to_string).collect();
        write!(formatter, "({})", numbers.join(","))
    }
}

/// Why a text names no elevator. The message is one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ElevatorError {
    /// No elevator has that name.
    UnknownName {
        /// The name.
        name: String,
    },
    /// A parenthesis does not close, or something follows it.
    Parenthesis {
        /// The whole text.
        text: String,
    },
    /// More numbers than it has parameters.
    TooManyNumbers {
        /// The elevator.
        entry: &'static str,
        /// How many were given.
        given: usize,
    },
    /// Not a number, or out of range.
    Number {
        /// The elevator.
        entry: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// The lowest and the highest number allowed.
        range: (u64, u64),
        /// What was given.
        given: String,
    },
}

impl fmt::Display for ElevatorError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ElevatorError::UnknownName { name } => {
                let known: Vec<&str> = ELEVATORS.iter().map(|entry| entry.name).collect();
                write!(formatter, "no elevator is named {name:?}; there are {}", known.join(", "))
            }
            ElevatorError::Parenthesis { text } => {
                write!(
                    formatter,
                    "{text:?} is not an elevator: its numbers follow its name, in one pair of \
                     parentheses"
                )
            }
            ElevatorError::TooManyNumbers { entry, given } => {
                let found = ELEVATORS.iter().find(|found| found.name == *entry);
                let parameters = found.map_or(&[][..], |found| found.parameters);
                let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name).collect();
                let takes =
                    if names.is_empty() { "no numbers".to_owned() } else { names.join(", ") };
                write!(formatter, "the elevator {entry} takes {takes}; {given} numbers were given")
            }
            ElevatorError::Number { entry, parameter, range: (min, max), given } => {
                write!(
                    formatter,
                    "{parameter} of the elevator {entry} is a number from {min} to {max}, not \
                     {given:?}"
                )
            }
        }
    }
}
impl Error for ElevatorError {}

impl FromStr for ElevatorChoice {
    type Err = ElevatorError;

    fn from_str(text: &str) -> Result<ElevatorChoice, ElevatorError> {
        let (name, numbers) = split(text)?;
        let entry = ELEVATORS.iter().find(|entry| entry.name == name);
        let entry = entry.ok_or_else(|| ElevatorError::UnknownName { name: name.to_owned() })?;
        let mut choice = ElevatorChoice::of(entry);
        let given = numbers.len();
        if given > entry.parameters.len() {
            return Err(ElevatorError::TooManyNumbers { entry: entry.name, given });
        }
        for ((number, parameter), given) in
            choice.numbers.iter_mut().zip(entry.parameters).zip(numbers)
        {
            let parsed = given
                .parse()
                .ok()
                .filter(|parsed| (parameter.min..=parameter.max).contains(parsed));
            *number = parsed.ok_or_else(|| ElevatorError::Number {
                entry: entry.name,
                parameter: parameter.name,
                range: (parameter.min, parameter.max),
                given: given.to_owned(),
            })?;
        }
        Ok(choice)
    }
}

/// The name, and the texts of the numbers after it.
fn split(text: &str) -> Result<(&str, Vec<&str>), ElevatorError> {
    let Some((name, rest)) = text.split_once('(') else {
        return Ok((text.trim(), Vec::new()));
    };
    let inside = rest.trim_end().strip_suffix(')').filter(|inside| !inside.contains(['(', ')']));
    let inside = inside.ok_or_else(|| ElevatorError::Parenthesis { text: text.to_owned() })?;
    let numbers = if inside.trim().is_empty() {
        Vec::new()
    } else {
        inside.split(',').map(str::trim).collect()
    };
    Ok((name.trim(), numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_displayed_is_parsed() {
        for text in ["noop", "c-look", "linus", "linus(20000,20000)", "deadline(400,5000,16,2)"] {
            let choice: ElevatorChoice = text.parse().expect(text);
            assert_eq!(choice.to_string(), text);
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        for entry in ELEVATORS {
            assert_eq!(entry.name.parse(), Ok(ElevatorChoice::of(entry)));
            assert!(entry.parameters.len() <= PARAMETERS_MAX);
        }
        let short: ElevatorChoice =
            " linus( 20000 ) ".parse().expect("numbers may be left out at the end");
        assert_eq!(short.numbers(), [20000, 16384]);
        assert_eq!("linus()".parse(), Ok(ElevatorChoice::of(short.entry())));
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        let cases = [
            (
                "escalator",
                "noop, linus, linus-2.4.20, read-latency, deadline, anticipatory, cfq-2.6.20, \
                 cfq-2.6.23, c-look, disksort, turns",
            ),
            ("", "no elevator is named"),
            ("linus\n(1)x", "parentheses"),
            ("linus(1", "parentheses"),
            ("linus(1)(2)", "parentheses"),
            ("linus(1,2,3)", "read_latency_sectors, write_latency_sectors; 3 numbers"),
            ("noop(1)", "takes no numbers"),
            ("linus(1,,)", "takes"),
            ("linus(-1)", "not \"-1\""),
            ("linus(99999999999999999999999)", "from 0 to"),
            ("deadline(500,5000,0)", "batch_commands of the elevator deadline is a number from 1"),
            ("a\nb", "a\\nb"),
        ];
        for (text, said) in cases {
            let error = text.parse::<ElevatorChoice>().expect_err(text).to_string();
            assert!(error.contains(said), "{text:?}: {error}");
            assert!(!error.contains('\n'), "{text:?}: {error}");
        }
    }
}
