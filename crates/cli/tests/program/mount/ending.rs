//! Unmounting, signals, servers that are killed.
use crate::mount::fixture::{Bench, Mounted, command, done, extant, has_fuse, when_free};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

/// A server in the foreground, whose mount answers.
struct Foreground {
    child: Child,
    stderr: std::process::ChildStderr,
}

impl Foreground {
    fn start(bench: &Bench) -> Foreground {
        let mut command =
            Command::new(extant_testkit::command::tested(env!("CARGO_BIN_EXE_extant")));
        command.args(["mount", "-f", "-v", &bench.image(), &bench.point()]);
        let mut command = extant_testkit::command::with_default_signals(&command);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("mounted on"), "{line}");
        let stderr = child.stderr.take().unwrap();
        Foreground { child, stderr }
    }

    fn signal(&self, signal: Signal) {
        let number = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(number).unwrap(), signal).unwrap();
    }

    /// Its exit code, and what it said.
    fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

#[test]
fn a_signal_unmounts() {
    if !has_fuse() {
        return;
    }
    for signal in [Signal::TERM, Signal::INT] {
        let bench = Bench::new("mount-signal");
        let mounted = Mounted::of(&bench);
        let server = Foreground::start(&bench);
        fs::write(bench.inside("a"), "content").unwrap();
        server.signal(Signal::HUP);
        server.signal(signal);
        assert_eq!(server.end(), (Some(0), String::new()), "{signal:?}");
        assert_eq!(bench.line(), None);
        drop(mounted);
        bench.is_whole();
        assert_eq!(done(["cat", &format!("{}:/a", bench.image())]), "content");
    }
}

/// The first signal says who uses it, and the second ends it for them: what they wrote is kept.
#[test]
fn a_mount_in_use_ends_with_the_second_signal() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-two-signals");
    let mounted = Mounted::of(&bench);
    let server = Foreground::start(&bench);
    let mut file = fs::File::create(bench.inside("open")).unwrap();
    file.write_all(b"content").unwrap();
    server.signal(Signal::TERM);
    let mut first = vec![0; 4096];
    let mut stderr = server.stderr;
    let length = stderr.read(&mut first).unwrap();
    let first = String::from_utf8_lossy(&first[..length]).into_owned();
    assert!(first.contains("has open open") && first.contains("a second signal"), "{first}");
    assert!(fs::read(bench.inside("open")).is_ok(), "it goes on");
    let server = Foreground { stderr, ..server };
    server.signal(Signal::TERM);
    let (code, said) = server.end();
    assert_eq!((code, said.trim()), (Some(0), ""));
    assert!(file.write_all(b"more").and_then(|()| file.sync_all()).is_err());
    drop((file, mounted));
    bench.is_whole();
    assert_eq!(done(["cat", &format!("{}:/open", bench.image())]), "content");
}

#[test]
fn umount_waits_until_all_is_in_the_image() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-wait");
    let content: Vec<u8> = (0..16u32 << 18).flat_map(|n| n.to_le_bytes()[..1].to_vec()).collect();
    for round in 0..3 {
        let mounted = bench.mount("");
        let server = mounted.server();
        for name in 0..50 {
            fs::write(bench.inside(&format!("{round}-{name}")), name.to_string()).unwrap();
        }
        fs::write(bench.inside("large"), &content).unwrap();
        // By the folder, relatively; and by the image, which has another name by now.
        let word = match round {
            0 => bench.point(),
            1 => "point".to_owned(),
            _ => bench.image(),
        };
        let mut command = command(["umount", &word]);
        let told: crate::mount::fixture::Told =
            command.current_dir(bench.join("")).output().unwrap().into();
        assert!(told.code == 0 && told.stderr.is_empty(), "{told:?}");
        // No waiting here: the image is free and whole at once.
        bench.is_whole();
        // The server itself is gone, or about to: its last act was to say so.
        let _ = test_kill_process(server);
        drop(mounted);
    }
    let listed = done(["ls", &format!("{}:/", bench.image())]);
    assert_eq!(listed.lines().count(), 50 * 3 + 2, "{listed}");
}

#[test]
fn a_mount_in_use_stays_and_its_user_is_named() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-busy");
    let mounted = bench.mount("");
    let mut file = fs::File::create(bench.inside("a")).unwrap();
    let told = extant(["umount", &bench.point()]);
    assert_eq!(told.code, 32, "{told:?}");
    let holder = format!("({}) has a open", std::process::id());
    assert!(told.stderr.contains(": is in use\n") && told.stderr.contains(&holder), "{told:?}");
    assert!(bench.line().is_some());
    // The name goes at once; the command waits for the last user.
    let lazy = command(["umount", "--lazy", &bench.point()]).spawn().unwrap();
    while bench.line().is_some() {
        std::thread::yield_now();
    }
    file.write_all(b"content").unwrap();
    drop(file);
    assert!(lazy.wait_with_output().unwrap().status.success());
    drop(mounted);
    bench.is_whole();
    assert_eq!(done(["cat", &format!("{}:/a", bench.image())]), "content");
}

#[test]
fn an_image_that_lost_its_name_is_waited_for_too() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-deleted");
    let mounted = bench.mount("");
    fs::write(bench.inside("a"), "content").unwrap();
    let kept = fs::File::open(bench.image()).unwrap();
    fs::remove_file(bench.image()).unwrap();
    // That the name is lost is said, with an exit code of 0.
    assert_eq!(when_free(["umount", &bench.point()]).code, 0);
    drop(mounted);
    let copy = bench.join("copy.img");
    std::io::copy(&mut &kept, &mut fs::File::create(&copy).unwrap()).unwrap();
    fs::rename(copy, bench.image()).unwrap();
    bench.is_whole();
}

#[test]
fn what_is_not_mounted_is_said() {
    let bench = Bench::new("mount-none");
    for (word, message) in [
        (bench.point(), "is not mounted"),
        (bench.image(), "is not mounted"),
        ("/proc".to_owned(), "is no mount of extant"),
        (bench.join("none").display().to_string(), "No such file"),
    ] {
        let told = extant(["umount", &word]);
        assert!(told.code == 32 && told.stderr.contains(message), "{told:?}");
    }
    assert_eq!(extant(["umount"]).code, 1);
}

/// Between the unmount and its last word, a server can be killed: then all may not be there.
#[test]
fn a_server_that_is_killed_is_not_taken_for_whole() {
    if !has_fuse() {
        return;
    }
    let bench = Bench::new("mount-killed");
    let mounted = bench.mount("");
    let file = fs::File::create(bench.inside("a")).unwrap();
    let server = mounted.server();
    let lazy =
        command(["umount", "--lazy", &bench.point()]).stderr(Stdio::piped()).spawn().unwrap();
    while bench.line().is_some() {
        std::thread::yield_now();
    }
    kill_process(server, Signal::KILL).unwrap();
    let told: crate::mount::fixture::Told = lazy.wait_with_output().unwrap().into();
    assert_eq!(told.code, 32, "{told:?}");
    assert!(told.stderr.contains("ended before it said"), "{told:?}");
    drop((file, mounted));
}

#[test]
fn an_image_that_lost_its_name_is_told_at_the_end() {
    if !has_fuse() {
        return;
    }
    for is_replaced in [false, true] {
        let bench = Bench::new("mount-lost-name");
        let mounted = bench.mount("");
        fs::write(bench.inside("a"), "content").unwrap();
        if is_replaced {
            fs::write(bench.join("other"), "other").unwrap();
            fs::rename(bench.join("other"), bench.image()).unwrap();
        } else {
            fs::remove_file(bench.image()).unwrap();
        }
        let told = when_free(["umount", &bench.point()]);
        let said = if is_replaced { "is another file than" } else { "was deleted or moved" };
        assert!(told.code == 0 && told.stderr.contains(said), "{told:?}");
        assert!(told.stderr.lines().count() == 1, "{told:?}");
        drop(mounted);
    }
    // A server in the foreground says it itself.
    let bench = Bench::new("mount-lost-name-foreground");
    let mounted = Mounted::of(&bench);
    let server = Foreground::start(&bench);
    fs::remove_file(bench.image()).unwrap();
    server.signal(Signal::TERM);
    let (code, said) = server.end();
    assert!(code == Some(0) && said.contains("was deleted or moved"), "{code:?}: {said}");
    drop(mounted);
}
