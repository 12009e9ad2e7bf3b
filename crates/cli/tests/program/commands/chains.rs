//! Random chains of changes to one volume, by `bench/chains`: after each link e2fsck is silent and
//! the kernel reads every file as it was.
use crate::commands::command::command;
use extant_testkit::command::program;
use extant_testkit::oracle::{can_mount, require};
use extant_testkit::variables::number;

#[test]
fn chains_of_changes_keep_every_file() {
    if !["mke2fs", "e2fsck", "debugfs", "python3"].into_iter().all(require) || !can_mount() {
        return;
    }
    let mut chains = program("python3");
    chains.arg(extant_testkit::repository().join("bench/chains")).args(["--seed", "1"]);
    chains.arg("--program").arg(command([""]).get_program());
    let run = chains.args(["--chains", &number("EXTANT_CHAINS").to_string()]).output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && said.contains(" 0 broken"), "{said}{errors}");
}
