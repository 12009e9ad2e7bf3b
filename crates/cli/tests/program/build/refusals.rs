//! Bad input: one line that names the thing, a hint where there is something to do, the exit code,
//! nothing left over.
use crate::build::command::{
    Refusal, build, build_command, bytes, extant, judge, read_refusal, refusal,
};
use extant_testkit::archive::{self, Member};
use extant_testkit::command::{find, output, program, with_default_signals};
use extant_testkit::oracle::{Access, can_mount, e2fsck, mount_loop, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::skips::require_root;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A folder with a source of some files, and where the image goes.
struct Place {
    folder: Scratch,
    source: PathBuf,
    image: PathBuf,
}

fn place(name: &str) -> Place {
    let folder = Scratch::new(name);
    let source = folder.join("source");
    fs::create_dir(&source).unwrap();
    for number in 0..30 {
        fs::write(source.join(format!("file-{number}")), bytes(number, 5000)).unwrap();
    }
    fs::create_dir(folder.join("target")).unwrap();
    let image = folder.join("target/x.img");
    Place { folder, source, image }
}

impl Place {
    fn is_clean(&self) -> bool {
        fs::read_dir(self.folder.join("target")).unwrap().count() == 0
    }

    fn refused(&self, words: &str) -> Refusal {
        let refused = refusal(&mut build_command(words, &[&self.source], &self.image));
        assert!(self.is_clean(), "something is left: {refused:?}");
        refused
    }

    fn tar(&self) -> PathBuf {
        let path = self.folder.join("x.tar");
        output(program("tar").arg("-cf").arg(&path).arg("-C").arg(&self.source).arg(".")).unwrap();
        path
    }
}

/// Who is not root and may not read everything.
fn as_nobody(command: &Command) -> Command {
    let mut nobody = Command::new(find("setpriv").unwrap());
    nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    nobody.arg(command.get_program()).args(command.get_args()).env_remove("SOURCE_DATE_EPOCH");
    nobody
}

/// The command where everybody can run it: its own folder may be closed to others.
fn for_everybody(place: &Place) -> PathBuf {
    let copy = place.folder.join("extant");
    extant_testkit::command::copy_tested(env!("CARGO_BIN_EXE_extant"), &copy);
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(place.folder.join("target"), fs::Permissions::from_mode(0o777)).unwrap();
    copy
}

#[test]
fn what_cannot_be_read_is_named_and_may_be_left_out() {
    if !require_root() || !require("setpriv") {
        return;
    }
    let place = place("build-unreadable");
    let copy = for_everybody(&place);
    let secret = place.source.join("file-7");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(place.source.join("closed")).unwrap();
    fs::write(place.source.join("closed/inner"), "x").unwrap();
    fs::set_permissions(place.source.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    let mut words = Command::new(copy);
    words.args(["build", "--json"]).arg(&place.source).arg(&place.image);
    let refused = refusal(&mut as_nobody(&words));
    assert_eq!(refused.code, Some(1));
    assert!(refused.message.contains("ermission denied"), "{refused:?}");
    assert!(
        refused.message.contains("file-7") || refused.message.contains("closed"),
        "{refused:?}"
    );
    assert!(refused.hint.is_some(), "{refused:?}");
    assert!(place.is_clean());

    let output = as_nobody(words.arg("--keep-going")).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report: crate::build::command::Report = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report.skipped.len(), 2, "{report:?}");
    assert!(report.skipped.iter().any(|line| line.contains("file-7")), "{report:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 2, "a line each");
    judge(&place.image, &report);
}

#[test]
fn a_source_that_is_not_there() {
    let place = place("build-missing");
    let refused = refusal(&mut build_command("", &[&place.folder.join("nothing")], &place.image));
    assert!(refused.message.contains("nothing: No such file"), "{refused:?}");
    assert!(place.is_clean() && refused.code == Some(1));
    let output = extant(["build", "only-one"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// Cut off or changed in the middle, in every dress: refused, with the archive's name, and the
/// image is not there.
#[test]
fn broken_archives() {
    if !require("gzip") || !require("zstd") || !require("xz") {
        return;
    }
    let place = place("build-broken");
    let tar = place.tar();
    for (tool, words, suffix) in
        [("gzip", "-kn", "gz"), ("zstd", "-qk", "zst"), ("xz", "-k", "xz"), ("true", "", "tar")]
    {
        let path =
            if suffix == "tar" { tar.clone() } else { tar.with_extension(format!("tar.{suffix}")) };
        if suffix != "tar" {
            output(program(tool).arg(words).arg(&tar)).unwrap();
        }
        let whole = fs::read(&path).unwrap();
        let broken = place.folder.join(&format!("broken.{suffix}"));
        let mut changed = whole.clone();
        // In a plain archive only headers have a sum: the size of the third entry is made nonsense.
        let at =
            if suffix == "tar" { find_header(&whole, "./file-2") + 124 } else { whole.len() / 2 };
        changed[at..at + 8].copy_from_slice(b"!~#\xff!~#\xff");
        for (content, name) in
            [(&whole[..whole.len() / 2], "cut"), (&whole[..40], "stump"), (&changed[..], "changed")]
        {
            fs::write(&broken, content).unwrap();
            let refused = refusal(&mut build_command("", &[&broken], &place.image));
            assert!(refused.message.contains("broken"), "{suffix} {name}: {refused:?}");
            assert_eq!(refused.code, Some(1), "{suffix} {name}");
            assert!(place.is_clean(), "{suffix} {name}");
            let piped = build_command("", &[Path::new("-")], &place.image)
                .stdin(File::open(&broken).unwrap())
                .output()
                .unwrap();
            assert_eq!(read_refusal(&piped).code, Some(1), "{suffix} {name}, piped");
            assert!(place.is_clean(), "{suffix} {name}, piped");
        }
    }
    let refused = refusal(&mut build_command("", &[&place.source.join("file-1")], &place.image));
    assert!(refused.message.contains("file-1") && refused.code == Some(1), "{refused:?}");
}

fn find_header(archive: &[u8], name: &str) -> usize {
    let is_it =
        |at: &usize| archive[*at..].starts_with(name.as_bytes()) && archive[*at + name.len()] == 0;
    (0..archive.len()).step_by(512).find(is_it).unwrap()
}

#[test]
fn an_image_that_exists_is_not_touched() {
    let place = place("build-exists");
    fs::write(&place.image, "old").unwrap();
    let refused = refusal(&mut build_command("", &[&place.source], &place.image));
    assert!(refused.message.ends_with("exists already") && refused.code == Some(1), "{refused:?}");
    assert!(refused.hint.is_some_and(|hint| hint.contains("--force")));
    assert_eq!(fs::read(&place.image).unwrap(), b"old");
    // Nor when a replacement fails half-way.
    let refused = refusal(&mut build_command("--force --size 10K", &[&place.source], &place.image));
    assert!(refused.message.contains("bytes more"), "{refused:?}");
    assert_eq!(fs::read(&place.image).unwrap(), b"old");
    assert_eq!(fs::read_dir(place.folder.join("target")).unwrap().count(), 1);
    build("--force", &[&place.source], &place.image);
    e2fsck(&place.image).unwrap();
}

#[test]
fn what_is_no_place_for_an_image() {
    let place = place("build-places");
    let folder = place.folder.join("folder");
    fs::create_dir(&folder).unwrap();
    for (target, words) in [
        (folder.as_path(), "is a directory"),
        (&place.folder.join("no/x.img"), "no such folder"),
        (Path::new("/dev/full"), "neither a regular file"),
        (Path::new("/dev/null"), "neither a regular file"),
    ] {
        for force in ["", "--force"] {
            let refused = refusal(&mut build_command(force, &[&place.source], target));
            assert!(refused.message.contains(words) && refused.code == Some(1), "{refused:?}");
        }
    }
    assert!(Path::new("/dev/null").metadata().unwrap().file_type().is_char_device());
    // The folder of the source is no image either.
    let refused = refusal(&mut build_command("--force", &[&place.source], &place.source));
    assert!(refused.message.contains("is a directory"), "{refused:?}");
}

#[test]
fn a_mounted_image_is_refused() {
    if !can_mount() {
        return;
    }
    let place = place("build-mounted");
    build("", &[&place.source], &place.image);
    let before = fs::read(&place.image).unwrap();
    let mounted = mount_loop(&place.image, Access::ReadOnly, "").unwrap();
    let refused = refusal(&mut build_command("--force", &[&place.source], &place.image));
    assert!(refused.message.contains("is mounted on") && refused.hint.is_some(), "{refused:?}");
    assert!(fs::read(&place.image).unwrap() == before);
    assert!(mounted.path().join("file-1").exists());
}

/// The words for a size that nothing goes with.
#[test]
fn options_that_do_not_go_together() {
    let place = place("build-options");
    for words in [
        "--size 1M -J size=200",
        "-J size=1",
        "-b 1024 -I 2048",
        "-O ^has_journal,orphan_file",
        "-N 5000000000",
    ] {
        let refused = place.refused(words);
        assert!(matches!(refused.code, Some(1 | 2)), "{words}: {refused:?}");
    }
    let refused = place.refused("--size 1M -J size=200");
    assert!(refused.message.contains("bytes more"), "{refused:?}");
    let report = build("-J size=200", &[&place.source], &place.image);
    assert!(report.bytes > 200 << 20 && report.free_blocks == 0, "{report:?}");
    judge(&place.image, &report);
}

/// A disk of 8 MiB that an image of 20 MiB goes to.
fn small_disk(place: &Place, kind: &str) -> (Scratch, PathBuf) {
    let folder = Scratch::inside(place.folder.path(), "disk");
    let mut mount = program("mount");
    if kind == "tmpfs" {
        mount.args(["-t", "tmpfs", "-o", "size=8m", "none"]).arg(folder.path());
    } else {
        let disk = place.folder.join("disk.img");
        output(program("mke2fs").args(["-q", "-F", "-t", "ext4"]).arg(&disk).arg("8M")).unwrap();
        mount.args(["-o", "loop"]).arg(&disk).arg(folder.path());
    }
    output(&mut mount).unwrap();
    let path = folder.path().to_path_buf();
    (folder, path)
}

#[test]
fn a_full_disk_is_the_hosts_and_the_image_goes() {
    if !can_mount() {
        return;
    }
    for kind in ["tmpfs", "ext4"] {
        let place = place("build-full");
        for number in 0..20 {
            fs::write(place.source.join(format!("large-{number}")), bytes(number, 1 << 20))
                .unwrap();
        }
        let (folder, disk) = small_disk(&place, kind);
        let names = || {
            let mut names: Vec<_> =
                fs::read_dir(&disk).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let before = names();
        for words in ["", "-t ext2", "--size 30M"] {
            let refused = refusal(&mut build_command(words, &[&place.source], &disk.join("x.img")));
            assert!(refused.message.contains("full"), "{kind} {words}: {refused:?}");
            assert!(
                refused.message.contains(disk.to_str().unwrap()),
                "{kind} {words}: {refused:?}"
            );
            assert!(refused.hint.is_some() && refused.code == Some(1));
            assert_eq!(names(), before, "{kind} {words}");
        }
        // A stream is kept beside the image until its end is known.
        let tar = place.tar();
        let piped = build_command("", &[Path::new("-")], &disk.join("x.img"))
            .stdin(
                Command::new("cat")
                    .arg(&tar)
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap()
                    .stdout
                    .unwrap(),
            )
            .env_remove("TMPDIR")
            .output()
            .unwrap();
        let refused = read_refusal(&piped);
        assert!(
            refused.message.contains("o space") || refused.message.contains("full"),
            "{refused:?}"
        );
        assert_eq!(names(), before);
        extant_testkit::oracle::unmount_all(folder.path()).unwrap();
    }
}

/// A signal removes the partial image, and ends with 128 and its number.
#[test]
fn signals_remove_what_is_partial() {
    let place = place("build-signal");
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        // The archive never ends, so the command is there when the signal comes.
        let mut command = with_default_signals(&build_command("", &[Path::new("-")], &place.image));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let tar = fs::read(place.tar()).unwrap();
        input.write_all(&tar[..tar.len() / 2]).unwrap();
        input.flush().unwrap();
        let target = place.folder.join("target");
        let deadline = Instant::now() + Duration::from_secs(120);
        while fs::read_dir(&target).unwrap().count() == 0 {
            assert!(Instant::now() < deadline, "no partial image appears");
            std::thread::sleep(Duration::from_millis(5));
        }
        output(program("kill").arg(format!("-{signal}")).arg(child.id().to_string())).unwrap();
        let ended = child.wait_with_output().unwrap();
        drop(input);
        assert_eq!(ended.status.code(), Some(code), "{signal}");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(said.contains(&format!("SIG{signal}")) && said.lines().count() == 1, "{said}");
        assert!(place.is_clean(), "{signal}");
    }
}

/// A file that shrinks between its stat and its reading is named; one that grows is taken as long
/// as it was.
#[test]
fn files_that_change_under_way() {
    let place = place("build-changing");
    fs::write(place.source.join("aaa-changing"), bytes(1, 3 << 20)).unwrap();
    // A pipe as a second source holds the build back between the reading of names and that of
    // bytes.
    let start = |words: &str| {
        let _ = fs::remove_file(&place.image);
        let mut command = build_command(words, &[&place.source, Path::new("-")], &place.image);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        // More than a pipe holds: when it is gone, the first source was read.
        archive::append(&mut input, "second", Member::File(&bytes(4, 1 << 20))).unwrap();
        (child, input)
    };
    let end_of_archive = [0; 1024];
    let file = File::options().write(true).open(place.source.join("aaa-changing")).unwrap();

    let (child, mut input) = start("");
    file.write_all_at(&bytes(2, 1 << 20), 3 << 20).unwrap();
    input.write_all(&end_of_archive).unwrap();
    drop(input);
    let grown = child.wait_with_output().unwrap();
    assert!(grown.status.success(), "{}", String::from_utf8_lossy(&grown.stderr));
    e2fsck(&place.image).unwrap();

    let (child, mut input) = start("");
    file.set_len(1 << 20).unwrap();
    input.write_all(&end_of_archive).unwrap();
    drop(input);
    let refused = read_refusal(&child.wait_with_output().unwrap());
    assert!(refused.message.contains("aaa-changing: became shorter"), "{refused:?}");
    assert!(place.is_clean() && refused.code == Some(1));
}

/// A loop device with old content: only --force writes it, whatever it held before, and never more
/// than it has.
#[test]
fn block_devices() {
    if !can_mount() || !require("losetup") {
        return;
    }
    let place = place("build-device");
    let backing = place.folder.join("backing");
    let garbage = bytes(99, 24 << 20);
    fs::write(&backing, &garbage).unwrap();
    let attached = output(program("losetup").args(["--find", "--show"]).arg(&backing)).unwrap();
    let device = PathBuf::from(String::from_utf8_lossy(&attached.stdout).trim().to_owned());
    let detach = Detach(device.clone());
    let refused = refusal(&mut build_command("", &[&place.source], &device));
    assert!(
        refused.message.contains("exists already")
            && refused.hint.is_some_and(|hint| hint.contains("--force"))
    );
    for words in [
        "-t ext2",
        "-t ext3",
        "-t ext4",
        "-t ext4 -b 1024 -O orphan_file",
        "--size 20M",
        "-t ext2 --size 24M -b 1024",
    ] {
        let report = build(&format!("--force {words}"), &[&place.source], &device);
        e2fsck(&device).unwrap_or_else(|error| panic!("{words}: {error}"));
        let mounted = program("mount")
            .args(["-o", "ro"])
            .arg(&device)
            .arg(place.folder.join("target"))
            .status()
            .unwrap();
        assert!(mounted.success(), "{words}");
        let copied = fs::read(place.folder.join("target/file-3")).unwrap();
        let busy = refusal(&mut build_command("--force", &[&place.source], &device));
        output(program("umount").arg(place.folder.join("target"))).unwrap();
        assert!(copied == bytes(3, 5000), "{words}");
        assert!(busy.message.contains("mounted") || busy.message.contains("in use"), "{busy:?}");
        assert!(report.bytes <= 24 << 20);
        let rest = fs::read(&backing).unwrap();
        assert_eq!(rest.len(), garbage.len());
        // What is after the volume belongs to something else.
        let last = garbage.len() - 4096;
        assert!(report.bytes > last as u64 || rest[last..] == garbage[last..], "{words}");
        fs::write(&backing, &garbage).unwrap();
        output(program("blockdev").arg("--flushbufs").arg(&device)).unwrap();
    }
    for words in ["--size 25M", "--free 30M", "-J size=40"] {
        let refused =
            refusal(&mut build_command(&format!("--force {words}"), &[&place.source], &device));
        assert!(
            refused.message.contains("bytes more") && refused.code == Some(1),
            "{words}: {refused:?}"
        );
        assert!(fs::read(&backing).unwrap() == garbage, "{words}: the device was touched");
    }
    // Before the offset nothing changes.
    build("--force -E offset=1048576", &[&place.source], &device);
    assert!(fs::read(&backing).unwrap()[..1 << 20] == garbage[..1 << 20]);
    drop(detach);
}

struct Detach(PathBuf);

impl Drop for Detach {
    fn drop(&mut self) {
        let _ = program("losetup").arg("-d").arg(&self.0).status();
    }
}

/// Words for people: a line, and the hint below it.
#[test]
fn people_read_two_lines() {
    let place = place("build-people");
    let output =
        extant(["build", "--size", "20K"]).arg(&place.source).arg(&place.image).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].starts_with("extant: build: ") && lines[1].starts_with("  hint: "), "{said}");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty() && place.is_clean());
    let quiet = extant(["build", "--quiet"]).arg(&place.source).arg(&place.image).output().unwrap();
    assert!(quiet.status.success() && quiet.stdout.is_empty() && quiet.stderr.is_empty());
}

#[test]
fn what_begins_with_zeros_is_no_archive_unless_it_is_an_empty_one() {
    let folder = Scratch::new("build-zeros");
    let source = folder.join("source");
    fs::create_dir(&source).unwrap();
    let image = folder.join("image.img");
    build("", &[&source], &image);
    let zeros = folder.join("zeros");
    fs::write(&zeros, vec![0; 4 << 20]).unwrap();
    let begins = folder.join("begins");
    fs::write(&begins, [vec![0; 512], vec![7; 4096]].concat()).unwrap();
    for (no_archive, words) in [
        (&image, "is an ext image"),
        (&zeros, "is not a tar archive"),
        (&begins, "is not a tar archive"),
    ] {
        let refused = refusal(&mut build_command("", &[no_archive], &folder.join("x.img")));
        assert_eq!(refused.code, Some(1), "{}", refused.message);
        assert!(refused.message.contains(words), "{}", refused.message);
    }
    let empty = folder.join("empty.tar");
    fs::write(&empty, vec![0; 10_240]).unwrap();
    assert_eq!(build("", &[&empty], &folder.join("y.img")).files, 1);
}

#[test]
fn a_journal_that_is_asked_for_is_made() {
    let place = place("build-journal");
    for (options, has_journal) in [
        ("-t ext3", true),
        ("-t ext2 -j", true),
        ("-O has_journal", true),
        ("-t ext4", false),
        ("-t ext3 -O ^has_journal", false),
    ] {
        let report = crate::build::command::rebuild(options, &[&place.source], &place.image);
        judge(&place.image, &report);
        assert_eq!(report.has_journal, has_journal, "{options}");
    }
}
