//! kill -9 of a run and of its workers, in the middle: nothing is lost, and nothing is there twice.
use super::fixture::{Folder, counts};
use extant_block::{Clock, RealClock};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Child, Stdio};

/// Jobs that take a while together, and some tens of milliseconds each.
const LONG: &str = "[[jobs]]\nkind = \"lab run\"\n\
    over = { scenario = \"small.toml\", seed = { from = 1, to = 40 } }\n";
const JOBS: u64 = 40;

/// Waits until something is so, half a minute at most.
fn until(mut is_so: impl FnMut() -> bool) {
    let clock = RealClock::new();
    let end = clock.now() + 30_000_000_000;
    while !is_so() {
        assert!(clock.now() < end, "it takes too long");
        clock.park(Some(clock.now() + 2_000_000));
    }
}

fn begun(folder: &Folder, directory: &str) -> Child {
    let mut run = folder.command(&["sweep", "run", "jobs", directory, "-j", "2", "--json"]);
    run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn workers(run: &Child) -> Vec<i32> {
    let path = format!("/proc/{0}/task/{0}/children", run.id());
    let children = std::fs::read_to_string(path).unwrap_or_default();
    children.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

fn kill(process: i32) {
    // It may have ended meanwhile.
    let _ = kill_process(Pid::from_raw(process).unwrap(), Signal::KILL);
}

#[test]
fn a_run_that_is_killed_goes_on_where_it_was() {
    let folder = Folder::new("sweep-killed");
    folder.plan(LONG, "jobs");
    assert_eq!(folder.run(&["jobs", "whole"]).0, 0);
    let mut kills = 0;
    for wanted in [3, 9, 16] {
        let mut run = begun(&folder, "cut");
        until(|| folder.files("cut").len() >= wanted || run.try_wait().unwrap().is_some());
        let workers = workers(&run);
        kills += u32::from(run.try_wait().unwrap().is_none());
        kill(run.id().cast_signed());
        run.wait().unwrap();
        // Its workers end with it: nobody is at work any more.
        let is_alive = |number: &i32| {
            let state = std::fs::read_to_string(format!("/proc/{number}/stat"));
            state.is_ok_and(|state| !state.contains(") Z "))
        };
        until(|| !workers.iter().any(is_alive));
    }
    assert!(kills > 0, "every run was too quick to be killed");
    let before = folder.files("cut").keys().filter(|name| !name.contains("/.")).count() as u64;
    assert!(before < JOBS, "nothing is left to do");
    let (code, report) = folder.run(&["jobs", "cut"]);
    assert_eq!((code, counts(&report)), (0, [JOBS, JOBS - before, before, 0]), "{report}");
    // Also nothing half written is left.
    assert!(folder.files("cut") == folder.files("whole"));
}

#[test]
fn workers_that_are_killed_cost_a_try_and_nothing_else() {
    let folder = Folder::new("sweep-workers");
    folder.plan(LONG, "jobs");
    assert_eq!(folder.run(&["jobs", "whole"]).0, 0);
    let mut run = begun(&folder, "cut");
    let mut killed = 0;
    for wanted in [2, 8, 14] {
        until(|| folder.files("cut").len() >= wanted || run.try_wait().unwrap().is_some());
        // A worker without a job that ends by itself is no worker: only those with one are killed.
        if let Some(worker) = workers(&run).first().filter(|_| killed < 3) {
            kill(*worker);
            killed += 1;
        }
    }
    let output = run.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(killed > 0);
    assert_eq!(counts(&report)[0], JOBS);
    // One may have been killed twice with the same job: what failed is done by the next run.
    assert_eq!(folder.run(&["jobs", "cut"]).0, 0);
    assert!(folder.files("cut") == folder.files("whole"));
}

#[test]
fn two_runs_do_not_meet() {
    let folder = Folder::new("sweep-two");
    folder.plan(LONG, "jobs");
    let mut run = begun(&folder, "d");
    until(|| Path::new(&folder.path().join("d/lock")).exists() && !folder.files("d").is_empty());
    let (code, said) = folder.failure(&["sweep", "run", "jobs", "d"]);
    let is_over = run.try_wait().unwrap().is_some();
    let who = format!("extant: sweep: d: a run (process {} on ", run.id());
    assert!(is_over || (code == 1 && said.starts_with(&who)), "{code} {said}");
    let status = folder.told(&["sweep", "status", "d"]);
    assert!(
        is_over || status.contains("a run is at work\n") || status.contains(" 0 left"),
        "{status}"
    );
    assert!(run.wait().unwrap().success());
}
