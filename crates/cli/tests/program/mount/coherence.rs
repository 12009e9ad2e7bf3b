//! Bytes that are read in one way, after they were written in another.
use crate::mount::fixture::{Bench, has_fuse};
use extant_testkit::skips::skip;
use extant_testkit::variables::number;
use std::process::Command;

/// As `coherence.c` knows them.
const WAYS: [&str; 12] = [
    "pwrite", "aio", "ring", "buffered", "map", "both", "copy", "hole", "zeros", "cut", "append",
    "names",
];
/// The exit code for a way that the host does not have.
const ABSENT: i32 = 77;

#[test]
fn what_is_read_is_what_was_written_last_in_any_way() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-coherence");
    let (source, program) = (bench.join("coherence.c"), bench.join("coherence"));
    std::fs::write(&source, include_str!("coherence.c")).expect("writes");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source);
    assert!(compiler.status().expect("a C compiler").success());
    for options in ["", "write_through"].into_iter().step_by(number("EXTANT_CASES") as usize) {
        let mounted = bench.mount(options);
        for way in WAYS.into_iter().step_by(number("EXTANT_CASES").div_ceil(3) as usize) {
            let mut timed = Command::new("timeout");
            timed.args(["-k", "5", "120"]).arg(&program).arg(way).arg(bench.point());
            let output = timed.output().expect("it runs");
            if output.status.code() == Some(ABSENT) {
                skip(format_args!("no {way}"));
                continue;
            }
            assert!(output.status.success(), "{options} {way}: {output:?}");
        }
        for entry in std::fs::read_dir(bench.point()).expect("lists").flatten() {
            if entry.path().is_file() {
                std::fs::remove_file(entry.path()).expect("removes");
            }
        }
        mounted.end();
    }
}
