//! Images that are in use, and signals while one is written.
use crate::commands::command::{extant, printed_text};
use extant_host::target::{Existing, Target};
use extant_testkit::oracle;
use std::path::Path;
use std::process::Command;

/// Standard output of a command that must end with 0.
fn told(words: &[&str]) -> String {
    printed_text(words, extant(words))
}

/// How a command fails: its exit code and what it says.
fn failure(words: &[&str]) -> (i32, String) {
    let output = extant(words);
    (output.status.code().expect("it ends"), String::from_utf8(output.stderr).expect("text"))
}

/// Whether a command worked; the words it printed.
fn ran(program: &str, words: &[&str]) -> Option<String> {
    let done = Command::new(program).args(words).output().ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

#[test]
fn an_image_behind_a_loop_device_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("x.img");
    std::fs::write(&image, vec![0; 1 << 20]).unwrap();
    let Some(device) = ran("losetup", &["--find", "--show", &image.display().to_string()]) else {
        eprintln!("no loop device can be had here: not tried");
        return;
    };
    let attached = Target::create(&image, Existing::Overwrite).map(drop);
    let formatted = ran("mke2fs", &["-q", "-F", &device]);
    let point = folder.path().join("mounted");
    std::fs::create_dir(&point).unwrap();
    let mounted = formatted.and_then(|_| ran("mount", &[&device, &point.display().to_string()]));
    let [file, block] = [&image, Path::new(&device)]
        .map(|path| Target::create(path, Existing::Overwrite).map(drop));
    if mounted.is_some() {
        ran("umount", &[&point.display().to_string()]).expect("unmounted");
    }
    ran("losetup", &["--detach", &device]).expect("detached");
    assert!(attached.unwrap_err().message.contains("is attached to loop"));
    if mounted.is_some() {
        for refused in [file, block] {
            let message = refused.unwrap_err().message;
            assert!(message.ends_with(&format!("is mounted on {}", point.display())), "{message}");
        }
    }
}

/// Every command that writes, and those that read while another writes.
#[test]
fn an_image_that_is_open_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("x.img");
    let shown = image.display().to_string();
    told(&["mkfs", "-q", &shown, "8M"]);
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    let source = source.display().to_string();
    let device = |access| {
        let clock = extant_block::RealClock::new();
        extant_block::FileDevice::open(clock, &image, access, 0).unwrap()
    };
    let refused = |words: &[&str], why: &str| {
        let (code, said) = failure(words);
        let line = format!("extant: {}: {shown}: {why}\n  hint: ", words[0]);
        // A check that cannot be made has a code of its own, as that of e2fsck.
        let expected = if words[0] == "check" { 8 } else { 1 };
        assert!(code == expected && said.starts_with(&line), "{words:?}: {said}");
    };
    let writer = device(extant_block::Access::ReadWrite);
    let elsewhere = "is open for writing elsewhere";
    let place = format!("{shown}:/");
    for words in [
        &["ls", &place] as &[&str],
        &["tar", "-o", "/dev/null", &shown],
        &["check", &shown],
        &["stat", &place],
        &["info", &shown],
        &["layout", &shown],
        &["mkfs", "-F", &shown, "8M"],
        &["mkfs", "-F", "-E", "offset=4096", &shown, "4M"],
        &["build", "--force", &source, &shown],
        &["age", &shown, "--profile", "mail", "--days", "0"],
    ] {
        let why = match words.contains(&"offset=4096") {
            true => "is open elsewhere",
            false => elsewhere,
        };
        refused(words, why);
    }
    drop(writer);
    // A new image takes the name of one that is still read.
    let reader = device(extant_block::Access::ReadOnly);
    told(&["ls", &place]);
    refused(&["age", &shown, "--profile", "mail", "--days", "0"], "is open elsewhere");
    told(&["build", "-q", "--force", &source, &shown]);
    drop(reader);
    told(&["check", "-q", &shown]);
}

#[test]
fn a_mounted_image_is_read_with_a_warning_and_never_written() {
    if !oracle::can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("x.img");
    let shown = image.display().to_string();
    told(&["mkfs", "-q", "-t", "ext2", &shown, "8M"]);
    let mounted = oracle::mount_loop(&image, oracle::Access::ReadWrite, "").unwrap();
    let point = mounted.path().display().to_string();
    let (code, said) = failure(&["age", &shown, "--profile", "mail", "--days", "0"]);
    assert!(code == 1 && said.contains(&format!("is mounted on {point}")), "{said}");
    assert!(said.contains(": is attached to loop"), "{said}");
    for words in [["ls", &format!("{shown}:/")], ["info", &shown]] {
        let done = extant(&words);
        assert!(done.status.success());
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        let warning = format!("{shown}: is mounted on {point}: what is read here may be old");
        assert!(said.contains(&warning), "{words:?}: {said}");
    }
    mounted.unmount().unwrap();
    assert!(extant(&["info", &shown]).stderr.is_empty());
}

/// Not a test of its own: what the next test runs in a process that it may kill.
#[test]
fn waits_with_a_partial_image() {
    let Ok(path) = std::env::var("PARTIAL_IMAGE") else {
        return;
    };
    extant_host::cleanup::watch_signals().unwrap();
    let _target = Target::create(Path::new(&path), Existing::Refuse).unwrap();
    println!("ready");
    // Until the signal comes; the test's own process ends it otherwise.
    std::io::Read::read(&mut std::io::stdin(), &mut [0]).unwrap();
}

#[test]
fn a_signal_removes_the_partial_image() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::{BufRead, BufReader};
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let folder = tempfile::tempdir().unwrap();
        let mut waits = Command::new(std::env::current_exe().unwrap());
        waits.args(["--exact", "commands::targets::waits_with_a_partial_image", "--nocapture"]);
        waits.env("PARTIAL_IMAGE", folder.path().join("x.img"));
        let mut child = extant_testkit::command::with_default_signals(&waits)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // Held to the end: at the end of its input the child would clean up by itself.
        let _input = child.stdin.take();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().ends_with("ready")));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "the partial image");
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(code));
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains("the partial image was removed"), "{said}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }
}
