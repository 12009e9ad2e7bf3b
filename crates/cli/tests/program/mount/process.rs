//! The processes of a mount: their names, and what happens where the host gives no more of them.
use crate::mount::fixture::{Bench, has_fuse};
use extant_testkit::command::program;
use extant_testkit::skips::skip;
use std::fs;

/// A user of whom no other test has processes: limits count them all.
const USER: &str = "61234";

#[test]
fn ps_shows_the_server_and_its_guard_by_our_name() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-names-of-threads");
    let mounted = bench.mount("");
    let server = mounted.server().as_raw_nonzero().get();
    let name = |path: String| fs::read_to_string(path).unwrap_or_default().trim_end().to_owned();
    assert_eq!(name(format!("/proc/{server}/comm")), "extant");
    let arguments = name(format!("/proc/{server}/cmdline"));
    assert!(arguments.starts_with("extant\0mount\0"), "{arguments:?}");
    // A thread names itself, a moment after it was started.
    let named = || -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{server}/task")).unwrap();
        tasks.map(|task| name(task.unwrap().path().join("comm").display().to_string())).collect()
    };
    let wanted = ["extant", "worker-0", "watcher", "seeks", "keeper", "signals"];
    let has_all = || {
        let threads = named();
        wanted.iter().all(|thread| threads.iter().any(|name| name == thread))
    };
    let in_time = comes_true(has_all);
    let threads = named();
    assert!(in_time, "{threads:?}");
    assert!(!threads.iter().any(|name| name == "exe"), "{threads:?}");
    // Its children: the guard. A moment may pass before it has named itself.
    let children = format!("/proc/{server}/task");
    let guards = || {
        let tasks = fs::read_dir(&children).unwrap();
        let of = |task: fs::DirEntry| name(task.path().join("children").display().to_string());
        let numbers: Vec<String> = tasks.map(|task| of(task.unwrap())).collect();
        let numbers = numbers.join(" ");
        let names = numbers.split_whitespace().map(|number| name(format!("/proc/{number}/comm")));
        names.collect::<Vec<String>>()
    };
    assert!(comes_true(|| guards() == ["extant"]), "{:?}", guards());
    mounted.end();
}

/// Whether it comes true within a minute: what another process does at once may take seconds on a
/// machine that has more to do.
fn comes_true(is_so: impl Fn() -> bool) -> bool {
    let clock = extant_block::RealClock::new();
    let rest = || {
        let deadline = extant_block::Clock::now(&*clock) + 10_000_000;
        extant_block::Clock::park(&*clock, Some(deadline));
    };
    (0..6000).any(|_| {
        is_so() || {
            rest();
            false
        }
    })
}

/// With each number of processes from too few to enough: one line and no mount, or a mount.
#[test]
fn without_threads_there_is_an_error_and_no_mount() {
    if !has_fuse() || !extant_testkit::oracle::require("setpriv") {
        return;
    }
    let bench = Bench::new("mount-no-threads");
    extant_testkit::command::copy_tested(env!("CARGO_BIN_EXE_extant"), bench.join("extant"));
    let script = "set -e; cd \"$1\"
        mount --make-rprivate /
        mknod -m 666 fuse c 10 229
        mount --bind fuse /dev/fuse
        # fusermount3 asks for the name of who mounts.
        { cat /etc/passwd; echo tester:x:61234:61234::/:/bin/sh; } > passwd
        mount --bind passwd /etc/passwd
        chown -R 61234 .
        as=\"setpriv --reuid=61234 --regid=61234 --clear-groups\"
        for limit in $(seq 1 40); do
            echo \"round $limit\"
            $as prlimit --nproc=$limit ./extant mount disk.img point 2>&1 && code=0 || code=$?
            mounted=$(grep -c \" $1/point \" /proc/self/mountinfo) || true
            echo \"code $code mounted $mounted\"
            if [ $code = 0 ]; then
                $as sh -c 'echo content > point/a; cat point/a; ./extant umount point'
                break
            fi
            [ $mounted = 0 ] || umount -l point
        done";
    let folder = bench.join("");
    let folder = folder.display().to_string();
    let mut run = program("timeout");
    run.args(["-k", "5", "300", "unshare", "-m", "sh", "-c", script, "sh"]);
    let done = run.arg(folder.trim_end_matches('/')).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    if errors.contains("unshare") || errors.contains("mknod") {
        return skip(format_args!("no namespaces ({})", errors.trim_end()));
    }
    assert!(!said.contains("panicked"), "{said}");
    let rounds: Vec<&str> = said.split("round ").skip(1).collect();
    assert!(rounds.len() > 5, "{USER}: {said}{errors}");
    for round in &rounds[..rounds.len() - 1] {
        let message = round.lines().nth(1).unwrap_or_default();
        assert!(message.starts_with("extant: mount: "), "{round}");
        assert!(round.contains("mounted 0"), "{round}");
    }
    let threads = rounds.iter().filter(|round| round.contains("cannot start the thread"));
    assert!(threads.count() > 3, "{said}");
    assert!(rounds.last().unwrap().contains("code 0 mounted 1\ncontent"), "{said}{errors}");
    bench.is_whole();
}
