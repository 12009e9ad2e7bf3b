//! Images that others use, readers that go away, and temporary files of programs that were killed.
#![allow(
    clippy::disallowed_methods,
    reason = "that a command goes on waiting is seen by the host's clock only"
)]
use crate::commands::command::{command, extant, printed_text};
use extant_testkit::oracle;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Standard output of a command that must end with 0 and say nothing else.
fn told(words: &[&str]) -> String {
    printed_text(words, extant(words))
}

/// An image with a file and a folder.
fn image(folder: &Path) -> String {
    let tree = folder.join("tree");
    fs::create_dir_all(tree.join("etc")).unwrap();
    fs::write(tree.join("etc/motd"), vec![b'x'; 300_000]).unwrap();
    let image = folder.join("x.img").display().to_string();
    told(&["build", "-q", "--free", "2M", &tree.display().to_string(), &image]);
    image
}

fn locked(image: &str, is_shared: bool) -> fs::File {
    let file = fs::File::open(image).unwrap();
    if is_shared {
        file.lock_shared().unwrap()
    } else {
        file.lock().unwrap()
    }
    file
}

/// The commands that read an image.
fn readers(image: &str, folder: &Path) -> Vec<Vec<String>> {
    let file = format!("{image}:/etc/motd");
    let out = |name: &str| folder.join(name).display().to_string();
    let (tar, extracted, copied) = (out("out.tar"), out("extracted"), out("copied"));
    let script = out("script");
    fs::write(&script, "mkdir /new\n").unwrap();
    [
        &["ls", "-lR", image] as &[&str],
        &["stat", &file],
        &["cat", &file],
        &["find", &format!("{image}:/")],
        &["getfattr", "-R", "-d", &format!("{image}:/")],
        &["info", image],
        &["layout", image],
        &["check", image],
        &["diff", image, image],
        &["tar", "--force", "-o", &tar, image],
        &["extract", "--force", image, &extracted],
        &["cp", "-a", &format!("{image}:/etc"), &copied],
        &["edit", "--dry-run", image, &script],
    ]
    .iter()
    .map(|words| words.iter().map(ToString::to_string).collect())
    .collect()
}

#[test]
fn readers_beside_readers_never_fail() {
    let folder = tempfile::tempdir().unwrap();
    let image = image(folder.path());
    let _reader = locked(&image, true);
    // Each beside one that reads all the time, and beside its like.
    for words in readers(&image, folder.path()) {
        let mut pair: Vec<_> = (0..2)
            .map(|_| command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
            .collect();
        for child in pair.drain(..) {
            let ended = child.wait_with_output().unwrap();
            let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
            // Two that write one target may be in each other's way there, and only there.
            let is_about_target =
                ["out.tar", "extracted", "copied"].iter().any(|name| errors.contains(name));
            assert!(ended.status.success() || is_about_target, "{words:?}: {errors}");
            assert!(!errors.contains("is open"), "{words:?}: {errors}");
        }
    }
}

#[test]
fn an_image_in_use_is_waited_for_if_that_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let image = image(folder.path());
    let place = format!("{image}:/etc/motd");
    for (shared, words) in [
        (false, &["cat", &place] as &[&str]),
        (false, &["info", &image]),
        (true, &["chmod", "600", &place]),
    ] {
        let holder = locked(&image, shared);
        let ended = extant(words);
        let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.code() == Some(1) && errors.contains("--wait"), "{errors}");
        let mut waiting = vec!["--wait=1"];
        waiting.extend(words);
        let began = Instant::now();
        let ended = extant(&waiting);
        assert!(ended.status.code() == Some(1) && began.elapsed() >= Duration::from_secs(1));
        waiting[0] = "--wait";
        let child = command(&waiting).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        drop(holder);
        let ended = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success() && errors.is_empty(), "{words:?}: {errors}");
    }
}

/// What the kernel has is waited for too, and all claims of a command share the seconds.
#[test]
fn the_kernel_is_waited_for_and_the_seconds_are_those_of_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let image = image(folder.path());
    let second = folder.path().join("y.img").display().to_string();
    fs::copy(&image, &second).unwrap();
    let place = format!("{image}:/etc/motd");
    let took = |words: &[&str]| {
        let began = Instant::now();
        let ended = extant(words);
        let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
        (ended.status.code(), errors, began.elapsed().as_secs_f64())
    };
    // The first is let go when most of the time is over; the second never.
    let holders = (locked(&image, false), locked(&second, false));
    let words = ["--wait=3", "diff", &image, &second].map(str::to_owned);
    let child = command(&words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    std::thread::sleep(Duration::from_secs(2));
    drop(holders.0);
    let ended = child.wait_with_output().unwrap();
    let (errors, seconds) = (String::from_utf8_lossy(&ended.stderr), began.elapsed().as_secs_f64());
    assert!(ended.status.code() == Some(2) && errors.contains("y.img: is open"), "{errors}");
    assert!(errors.contains("--wait was not long enough"), "{errors}");
    assert!((2.9..4.5).contains(&seconds), "{seconds} s: {errors}");
    drop(holders.1);

    if !oracle::can_mount() {
        return;
    }
    let mounted = oracle::mount_loop(Path::new(&image), oracle::Access::ReadWrite, "").unwrap();
    let (code, errors, seconds) = took(&["--wait=1", "chmod", "600", &place]);
    assert!(code == Some(1) && errors.contains("is mounted on"), "{errors}");
    assert!((1.0..3.0).contains(&seconds), "{seconds}");
    let words = ["--wait=60", "chmod", "600", &place].map(str::to_owned);
    let child = command(&words).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    drop(mounted);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
}

#[test]
fn a_reader_that_goes_away_ends_a_command_as_the_signal_does() {
    let folder = tempfile::tempdir().unwrap();
    let image = image(folder.path());
    let (root, file) = (format!("{image}:/"), format!("{image}:/etc/motd"));
    for words in [
        &["tar", &image] as &[&str],
        &["cat", &file],
        &["ls", "-R", &root],
        &["find", &root],
        &["stat", &file],
        &["info", &image],
        &["getfattr", "-R", "-m", "-", "-d", &root],
        &["ls", "-R", "--json", &root],
    ] {
        if words[0] == "getfattr" {
            told(&["setfattr", "-n", "user.a", "-v", "b", &file]);
        }
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = command(words).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!((ended.status.code(), errors.as_str()), (Some(141), ""), "{words:?}");
    }
}

#[test]
fn what_a_killed_program_left_is_removed_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("x.img").display().to_string();
    // A build whose source, a pipe, gives nothing more.
    let mut child = command(["build", "-q", "-", &image])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _input = child.stdin.take();
    let names = || -> Vec<String> {
        let entries = fs::read_dir(folder.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let until = Instant::now() + Duration::from_secs(120);
    while names().is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let left = names();
    assert!(left.len() == 1 && left[0].starts_with(".x.img.extant-"), "{left:?}");
    // One that is held stays, beside whatever is made there.
    let other = folder.path().join("y.img").display().to_string();
    told(&["mkfs", "-q", &other, "2M"]);
    assert!(names().contains(&left[0]), "{:?}", names());
    child.kill().unwrap();
    child.wait().unwrap();
    let ended = extant(&["mkfs", "-q", &image, "2M"]);
    let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success() && errors.contains("was left by a program"), "{errors}");
    let mut now = names();
    now.sort();
    assert_eq!(now, ["x.img", "y.img"]);
}
