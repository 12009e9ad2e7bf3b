//! A Debian root file system, made here and put on a disk by `extant build`, boots in QEMU to a
//! prompt. What is done there is in the image afterwards.
//!
//! `EXTANT_BOOT=yes` asks for it, as `make test-all` does: it takes packages from the registry that
//! this machine's apt uses.
use crate::shipping::fixture::{command, told};
use extant_testkit::command::program;
use extant_testkit::oracle::{e2fsck_replays, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::skips::{Known, skip_known};
use extant_testkit::tools::{KERNEL, require_data};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long a machine may take: it is emulated, as not every host lets a guest use its processor.
const BOOT_MAX: Duration = Duration::from_secs(180);
/// What the shell in the machine is given.
const SCRIPT: &str = "echo alive-$((40 + 2)); cat /etc/debian_version; sha256sum /usr/bin/dpkg; \
    echo written > /written; sync; mount -t proc proc /proc; echo o > /proc/sysrq-trigger\n";

#[test]
fn a_debian_root_boots_to_a_prompt() {
    if extant_testkit::variables::word("EXTANT_BOOT") != "yes" {
        return skip_known(Known::Rounds, "EXTANT_BOOT is not yes");
    }
    let tools = ["mmdebstrap", "qemu-system-x86_64"];
    let Some(kernel) = require_data(&KERNEL) else { return };
    if !tools.into_iter().all(require) {
        return;
    }
    let folder = Scratch::new("boot");
    make_disk(&folder);
    let said = run_machine(&folder, &kernel);
    assert!(said.contains("alive-42"), "{said}");
    assert!(said.contains("12."), "no version of Debian: {said}");
    // The machine read its files as they were built.
    told(&folder, "dd", &["if=disk.img", "of=volume", "bs=1M", "skip=1", "status=none"]);
    let dpkg = command(&folder, "cat volume:/usr/bin/dpkg").output().unwrap();
    std::fs::write(folder.join("dpkg"), &dpkg.stdout).unwrap();
    let digest = told(&folder, "sha256sum", &["dpkg"]);
    assert!(said.contains(&digest[..64]), "{said}");
    // It was switched off without unmounting.
    e2fsck_replays(&folder.join("volume")).unwrap_or_else(|error| panic!("{error}"));
    let written = command(&folder, "cat volume:/written").output().unwrap();
    assert_eq!(written.stdout, b"written\n");
}

/// The packages go through a pipe into the disk.
fn make_disk(folder: &Scratch) {
    let mut packages = program("mmdebstrap");
    packages.args(["--variant=essential", "--quiet", "bookworm", "-"]);
    let mut packages = packages.stdout(Stdio::piped()).spawn().unwrap();
    let words = "build --partition gpt,type=root-x86-64,name=root --free 64M - disk.img";
    let mut build = command(folder, words);
    let built = build.stdin(packages.stdout.take().unwrap()).output().unwrap();
    assert!(packages.wait().unwrap().success(), "mmdebstrap failed");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
}

/// Boots the disk, gives the shell the script, and returns all that the console showed until the
/// machine ended.
fn run_machine(folder: &Scratch, kernel: &Path) -> String {
    let name = kernel.file_name().unwrap().to_str().unwrap();
    let initial = kernel.with_file_name(name.replacen("vmlinuz-", "initrd.img-", 1));
    let mut machine = program("qemu-system-x86_64");
    machine.args(["-machine", "accel=tcg", "-m", "512", "-nographic", "-no-reboot"]);
    machine.args(["-nodefaults", "-serial", "stdio"]);
    machine.arg("-kernel").arg(kernel).arg("-initrd").arg(initial);
    machine.args(["-append", "root=/dev/vda1 rw console=ttyS0 init=/bin/sh panic=-1"]);
    machine.args(["-drive", "file=disk.img,if=virtio,format=raw"]).current_dir(folder.path());
    machine.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut machine = machine.spawn().unwrap();
    let console = follow(&mut machine);
    let begun = Instant::now();
    let mut said = String::new();
    let mut is_asked = false;
    while begun.elapsed() < BOOT_MAX {
        match console.recv_timeout(Duration::from_secs(1)) {
            Ok(text) => said.push_str(&text),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
        }
        if !is_asked && said.trim_end().ends_with('#') {
            is_asked = true;
            machine.stdin.as_mut().unwrap().write_all(SCRIPT.as_bytes()).unwrap();
        }
    }
    let _ = machine.kill();
    machine.wait().unwrap();
    assert!(is_asked, "no prompt came in {} s: {said}", begun.elapsed().as_secs());
    said
}

/// What the console shows, as it comes.
fn follow(machine: &mut Child) -> Receiver<String> {
    let mut output = machine.stdout.take().unwrap();
    let (sender, receiver) = channel();
    // tidy: thread because the console is read while the test waits for the machine
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = output.read(&mut buffer) {
            if sender.send(String::from_utf8_lossy(&buffer[..count]).into_owned()).is_err() {
                return;
            }
        }
    });
    receiver
}
