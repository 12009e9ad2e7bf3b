//! The commands of the gate: `cargo run --bin xtask -- COMMAND`.

use std::process::ExitCode;

use xtask::{licenses, tidy, tools};

/// One row a command: its words, what it does, and the function.
struct Task {
    name: &'static str,
    words: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<(), String>,
}

const TASKS: &[Task] = &[
    Task {
        name: "licenses",
        words: "",
        about: "every dependency has a licence that we may use",
        run: licenses::run,
    },
    Task {
        name: "tidy",
        words: "",
        about: "the house rules, read from the sources",
        run: tidy::run,
    },
    Task {
        name: "tools",
        words: "",
        about: "install, or name, what the tests call from the host",
        run: tools::run,
    },
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(task) = words
        .first()
        .and_then(|word| TASKS.iter().find(|task| task.name == word))
    else {
        for task in TASKS {
            eprintln!("xtask {:<10} {:<28} {}", task.name, task.words, task.about);
        }
        return ExitCode::from(2);
    };
    match (task.run)(&words[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask {}: {message}", task.name);
            ExitCode::FAILURE
        }
    }
}
