//! A test that does nothing says so, and at the gate it fails: tried by running two tests of this
//! program again, as a user who may mount nothing.
use extant_testkit::command::{copy_program, program};
use extant_testkit::oracle::{can_mount, kernel_mounts_block_size, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::skips::{MARK, require_root};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

#[test]
fn loop_mounts_are_here() {
    can_mount();
}

#[test]
fn a_block_of_a_page_is_mounted() {
    kernel_mounts_block_size(4096);
}

/// This program's test of that name, run by nobody, at the gate or not.
fn by_nobody(test: &str, gate: &str) -> Output {
    let folder = Scratch::inside(Path::new("/tmp"), "gate");
    let copy = folder.join("kit");
    copy_program(std::env::current_exe().unwrap(), &copy);
    for path in [folder.path(), &copy] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut run = program("setpriv");
    run.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(&copy);
    run.args(["--exact", test]).current_dir("/").env("CI", gate).env("TMPDIR", "/tmp");
    run.output().unwrap()
}

#[test]
fn what_cannot_be_judged_fails_at_the_gate_only() {
    if !require_root() || !require("setpriv") {
        return;
    }
    let tests = [
        ("kit::gate::loop_mounts_are_here", "no loop mounts (not root)"),
        ("kit::gate::a_block_of_a_page_is_mounted", "no mount of blocks of 4096 bytes (not root)"),
    ];
    for (test, lack) in tests {
        let line = format!("{MARK}{test}: {lack}\n");
        for (gate, is_well) in [("false", true), ("true", false)] {
            let output = by_nobody(test, gate);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), is_well, "{test}, CI={gate}: {said}");
            // A test that passes prints nothing else: cargo would have hidden it.
            assert!(said.contains(&line), "{test}, CI={gate}: {said}");
        }
    }
}
