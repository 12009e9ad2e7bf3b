//! The commands of the gate: `cargo run --bin xtask -- COMMAND`.

use std::process::ExitCode;

use xtask::{
    alone, api, bench, crash, damage, demo, diff_walk, dist, fixtures, fuzz, guide, header,
    instructions, kernel_journals, licenses, proofs, published, python, shape, suites, tidy, tools,
    turnaround,
};

/// One row a command: its words, what it does, and the function.
struct Task {
    name: &'static str,
    words: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<(), String>,
}

const fn task(
    name: &'static str,
    words: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<(), String>,
) -> Task {
    Task { name, words, about, run }
}

const TASKS: &[Task] = &[
    task("alone", "CRATE [WORD..]", "what each test costs the processors", alone::run),
    task("api", "[--write]", "the public items of the crate extant, as a list", api::run),
    task("bench", "[--rounds N] ..", "the tables of speed and memory; see bench/run", bench::run),
    task(
        "crash",
        "[--states N] [--seed S] ..",
        "power cuts by the thousand: promises against what is recovered",
        crash::run,
    ),
    task(
        "damage",
        "[--mutations N] [--seed S] ..",
        "fields of volumes changed, judged by the check and by e2fsck",
        damage::run,
    ),
    task("demo", "[TREE]", "a real tree becomes an image and comes out again", demo::run),
    task(
        "diff-walk",
        "LEFT RIGHT",
        "two trees, or --listing FILE and a tree, compared",
        diff_walk::run,
    ),
    task(
        "dist",
        "[--judge|--everywhere|--twice] ..",
        "packages, a static command, libextant and a wheel, or whether they install and run",
        dist::run,
    ),
    task(
        "fixtures",
        "FOLDER [NAME]",
        "images made by mke2fs and the kernel, with their listings",
        fixtures::run,
    ),
    task(
        "fuzz",
        "[--target NAME] [--seconds N] [--seed S] ..",
        "bytes that nobody wrote, for all that reads bytes of others",
        fuzz::run,
    ),
    task("guide", "", "writes the tables of the suites into CONTRIBUTING.md", guide::run),
    task("header", "[--write]", "include/extant.h, made of the sources by cbindgen", header::run),
    task(
        "instructions",
        "BEFORE AFTER",
        "what two builds of the command execute for the same work",
        instructions::run,
    ),
    task(
        "kernel-journals",
        "[--count N] [--seed S] ..",
        "logs that the kernel wrote, and ours cut, replayed by all",
        kernel_journals::run,
    ),
    task("licenses", "", "every dependency has a licence that we may use", licenses::run),
    task(
        "loop",
        "[--write] [CRATE..]",
        "how long a change of a crate takes to be tested",
        turnaround::run,
    ),
    task(
        "mount-load",
        "FOLDER NOTES SEED PROCESS",
        "what mount-proofs runs four of while it cuts a mount",
        proofs::load,
    ),
    task(
        "mount-proofs",
        "[--only WORD,..] [--seed S] ..",
        "suites, loads, real programs and power cuts on a mount",
        proofs::run,
    ),
    task("published", "", "the crates that are published can be packed", published::run),
    task(
        "python",
        "[--level L] [WORD..]",
        "the Python package: built, installed in a fresh environment, tested",
        python::run,
    ),
    task(
        "shape",
        "[REPOSITORY] [--crates]",
        "lines, files, functions, comments, assertions of a checkout",
        shape::run,
    ),
    task("suites", "[--level L] [WORD..]", "the tests, and the time of each crate's", suites::run),
    task("tidy", "[--debts]", "the house rules, read from the sources", tidy::run),
    task("tools", "", "install, or name, what the tests call from the host", tools::run),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(task) = words.first().and_then(|word| TASKS.iter().find(|task| task.name == word))
    else {
        for task in TASKS {
            eprintln!("xtask {:<15} {:<28} {}", task.name, task.words, task.about);
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
