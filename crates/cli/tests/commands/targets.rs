//! Images that are in use, and signals while one is written.
use extant_cli::target::{Existing, Target};
use std::path::Path;
use std::process::Command;

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

/// Not a test of its own: what the next test runs in a process that it may kill.
#[test]
fn waits_with_a_partial_image() {
    let Ok(path) = std::env::var("PARTIAL_IMAGE") else {
        return;
    };
    extant_cli::cleanup::watch_signals().unwrap();
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
        waits.args(["--exact", "targets::waits_with_a_partial_image", "--nocapture"]);
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
