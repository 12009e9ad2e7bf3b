//! Workers that do their work, die, grow, hang or are something else.
use crate::fixture::{FREE, HELLO, LOOP, Limits, WRITES, kept, run, worker};
use extant_sweep::directory::{Directory, Part};
use extant_sweep::pool::Ran;
use extant_testkit::scratch::Scratch;

fn script(body: &str) -> String {
    format!("{HELLO}{LOOP}{body}{WRITES}done\n")
}

fn counts(ran: &Ran) -> [u64; 4] {
    [ran.jobs, ran.done, ran.there, ran.failed]
}

struct Sweep {
    _folder: Scratch,
    directory: Directory,
}

fn sweep(name: &str) -> Sweep {
    let folder = Scratch::new(name);
    let directory = Directory::make(&folder.join("d")).unwrap();
    Sweep { _folder: folder, directory }
}

#[test]
fn every_job_is_done_once_and_parts_add_up() {
    let Sweep { directory, .. } = &sweep("runs");
    let (jobs, plan) = kept(directory, 7);
    let log = directory.path().join("plans/log");
    let noting = script(&format!("echo $seed >> {}\n", log.display()));
    let part = |index| Limits { part: Part::Shard { index, of: 3 }, ..FREE };
    let ran: Vec<[u64; 4]> =
        (0..3).map(|index| counts(&run(directory, &plan, &noting, part(index)).unwrap())).collect();
    assert_eq!(ran, [[3, 3, 0, 0], [2, 2, 0, 0], [2, 2, 0, 0]]);
    let mut seeds: Vec<u32> =
        std::fs::read_to_string(&log).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    seeds.sort_unstable();
    assert_eq!(seeds, [1, 2, 3, 4, 5, 6, 7]);
    assert!(jobs.iter().all(|job| directory.read_result(&job.id).unwrap().is_some()));
    let one = Limits { part: Part::Job(6), ..FREE };
    assert_eq!(counts(&run(directory, &plan, &noting, one).unwrap()), [1, 1, 0, 0]);
    let beyond = Limits { part: Part::Job(7), ..FREE };
    let refused = run(directory, &plan, &noting, beyond).unwrap_err().message;
    assert_eq!(refused, "--job 8: the plan has 7 jobs");
}

#[test]
fn a_job_that_kills_its_worker_fails_alone_and_by_name() {
    let Sweep { directory, .. } = &sweep("runs-die");
    let (jobs, plan) = kept(directory, 6);
    let dies = script("if [ $seed = 3 ]; then echo last words >&2; kill -SEGV $$; fi\n");
    let ran = run(directory, &plan, &dies, Limits { retries: 2, ..FREE }).unwrap();
    assert_eq!(counts(&ran), [6, 5, 0, 1]);
    let failure = directory.read_failure(&jobs[2].id).unwrap();
    assert_eq!(failure, ran.failures[0]);
    assert_eq!(failure.reason, "its process was ended by signal 11");
    assert_eq!((failure.tries, failure.said), (3, vec!["last words".to_owned()]));
    assert!(failure.label.starts_with("lab run scenario=s seed=3 ("), "{}", failure.label);
    // Once it succeeds it has not failed.
    let once = Limits { part: Part::Job(2), ..FREE };
    assert_eq!(counts(&run(directory, &plan, &script(""), once).unwrap()), [1, 1, 0, 0]);
}

#[test]
fn a_worker_that_is_killed_from_outside_costs_one_try() {
    let Sweep { directory, .. } = &sweep("runs-killed");
    let (_, plan) = kept(directory, 6);
    let mark = directory.path().join("plans/mark");
    let once = format!(
        "if [ $seed = 4 ] && mkdir {} 2>/dev/null; then kill -KILL $$; fi\n",
        mark.display()
    );
    let ran = run(directory, &plan, &script(&once), Limits { retries: 1, ..FREE }).unwrap();
    assert_eq!(counts(&ran), [6, 6, 0, 0]);
    assert!(mark.exists());
}

#[test]
fn limits_of_memory_and_time_end_one_job() {
    let Sweep { directory, .. } = &sweep("runs-limits");
    let (jobs, plan) = kept(directory, 4);
    let body = "if [ $seed = 2 ]; then x=$(head -c 120000000 /dev/zero | tr '\\0' a); \
                while :; do :; done; fi\n\
                if [ $seed = 3 ]; then while :; do :; done; fi\n";
    let limits = Limits { memory_bytes: Some(50 << 20), seconds: Some(2), ..FREE };
    let ran = run(directory, &plan, &script(body), limits).unwrap();
    assert_eq!(counts(&ran), [4, 2, 0, 2]);
    let reason = |at: usize| directory.read_failure(&jobs[at].id).unwrap().reason;
    assert!(reason(1).starts_with("passed its memory limit of 50 MiB (it held "), "{}", reason(1));
    assert_eq!(reason(2), "passed its time limit of 2 s");
}

#[test]
fn a_command_that_fails_is_tried_again_unless_that_is_no_use() {
    let Sweep { directory, .. } = &sweep("runs-fail");
    let (jobs, plan) = kept(directory, 3);
    let fails = |is_final: bool, seed: u32| {
        format!(
            "if [ $seed = {seed} ]; then printf '{{\"id\":\"%s\",\"state\":\"failed\",\
             \"reason\":\"no\",\"exit\":1,\"said\":[],\"is_final\":{is_final}}}\\n' \"$id\"; \
             continue; fi\n"
        )
    };
    let both = script(&(fails(false, 1) + &fails(true, 2)));
    let ran = run(directory, &plan, &both, Limits { retries: 4, ..FREE }).unwrap();
    assert_eq!(counts(&ran), [3, 1, 0, 2]);
    let tries = |at: usize| directory.read_failure(&jobs[at].id).unwrap().tries;
    assert_eq!((tries(0), tries(1)), (5, 1));
}

#[test]
fn a_directory_that_cannot_be_written_ends_the_run_with_what_it_says() {
    let Sweep { directory, .. } = &sweep("runs-broken");
    let (jobs, plan) = kept(directory, 5);
    let full = "if [ $seed = 3 ]; then printf '{\"id\":\"%s\",\"state\":\"broken\",\
                \"reason\":\"d: No space left on device\",\"hint\":null}\\n' \"$id\"; \
                continue; fi\n";
    let first = Limits { part: Part::Job(0), ..FREE };
    assert_eq!(counts(&run(directory, &plan, &script(full), first).unwrap()), [1, 1, 0, 0]);
    let error = run(directory, &plan, &script(full), FREE).unwrap_err().message;
    assert_eq!(error, "d: No space left on device");
    // What was done is there, and the same run goes on.
    assert!(directory.read_result(&jobs[0].id).unwrap().is_some());
    assert_eq!(counts(&run(directory, &plan, &script(""), FREE).unwrap())[3], 0);
}

#[test]
fn what_is_no_worker_of_this_version_is_refused_in_one_line() {
    let Sweep { directory, .. } = &sweep("runs-strange");
    let (_, plan) = kept(directory, 2);
    let wrong = |script: &str| run(directory, &plan, script, FREE).unwrap_err().message;
    let version = extant_sweep::VERSION;
    assert_eq!(
        wrong(&format!("VERSION=9.9.9\n{HELLO}{LOOP}done\n")),
        format!("worker script: is extant 9.9.9, and the jobs are of {version}")
    );
    assert_eq!(
        wrong("echo hello; read -r line"),
        "worker script: said \"hello\": it is no extant that has `sweep worker`"
    );
    let ended = wrong("echo no such command >&2; exit 2");
    assert_eq!(ended, "worker script: ended before it had a job (exit status: 2): no such command");
    let other = format!("{HELLO}{LOOP}printf '{{\"id\":\"x\",\"state\":\"done\"}}\\n'\ndone\n");
    assert_eq!(wrong(&other), "worker script: answered for a job that it did not have");
    let odd = format!("{HELLO}{LOOP}echo what\ndone\n");
    assert!(wrong(&odd).starts_with("worker script: answered \"what\""));
    let mut none = worker(directory, "");
    none = std::process::Command::new(format!("{:?}-none", none.get_program()));
    let none = extant_sweep::process::Process::start(none, "none").unwrap_err().message;
    assert_eq!(none, "none: cannot be run as a worker: No such file or directory");
}
