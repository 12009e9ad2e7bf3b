//! A share of `xtask mount-proofs --only cuts`: a server killed, or its device cut, under load.
use extant_testkit::command::{output, program};
use extant_testkit::oracle;
use extant_testkit::skips::skip;
use extant_testkit::system::can_mount_fuse;
use std::path::Path;

/// Two of three cut the device, the others kill the server.
const ROUNDS: &str = "12";

#[test]
fn promises_are_kept_when_a_server_is_killed_or_its_device_cut() {
    let has_tools = ["mke2fs", "e2fsck"].iter().all(|tool| oracle::require(tool));
    if !has_tools || !can_mount_fuse() || !oracle::can_mount() {
        return;
    }
    let xtask = Path::new(env!("CARGO_BIN_EXE_xtask"));
    let built = xtask.parent().expect("a folder");
    let (extant, server) = (built.join("extant"), built.join("examples/cut_server"));
    // `cargo test -p xtask` builds neither.
    if !extant.exists() || !server.exists() {
        return skip("not all built: cargo test --workspace builds what this runs");
    }
    let mut proof = program(&xtask.display().to_string());
    proof.args(["mount-proofs", "--only", "cuts", "--rounds", ROUNDS]);
    proof.arg("--extant").arg(extant).arg("--cut-server").arg(server);
    if let Err(said) = output(&mut proof) {
        panic!("{said}");
    }
}
