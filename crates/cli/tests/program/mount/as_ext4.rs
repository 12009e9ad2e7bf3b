//! What the kernel's ext4 answers is what the mount answers.
use crate::mount::device::LoopDevice;
use crate::mount::fixture::{Bench, done, has_fuse, take_away};
use extant_testkit::command::{output, program};
use extant_testkit::oracle;
use extant_testkit::skips::skip;
use std::fs;
use std::path::PathBuf;

/// A mount by the kernel of a copy of a bench's image; taken away with its value.
struct Kernel {
    point: PathBuf,
    _device: LoopDevice,
}

impl Kernel {
    fn of(bench: &Bench, loop_words: &[&str], options: &str) -> Option<Kernel> {
        let (image, point) = (bench.join("kernel.img"), bench.join("kernel"));
        fs::copy(bench.image(), &image).unwrap();
        let _ = fs::create_dir(&point);
        let image = image.display().to_string();
        let device = LoopDevice::over(&[loop_words, &[&image]].concat())?;
        let words = ["-t", "ext4", "-o", options, device.path()];
        output(program("mount").args(words).arg(&point)).ok()?;
        Some(Kernel { point, _device: device })
    }

    fn end(self) {
        take_away(&self.point);
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        take_away(&self.point);
    }
}

/// The lines of the script in a folder.
fn lines(folder: &str, words: &[&str]) -> Vec<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/mount/as_ext4.py");
    let mut run = program("timeout");
    run.args(["-k", "5", "120", "python3", script, folder]).args(words);
    let told = run.output().unwrap();
    let errors = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success(), "{folder}: {errors}");
    String::from_utf8(told.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Whether the kernel gives up an inode when a server asks: from Linux 6.18 on.
fn kernel_gives_up_inodes() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse().ok());
    (numbers.next(), numbers.next()) >= (Some(6_u32), Some(18_u32))
}

/// The blocks that are reserved are for those that ext4 gives them to, by options of the mount and
/// by the superblock.
#[test]
fn reserved_blocks_are_for_whom_ext4_has_them() {
    if !has_oracle() || !oracle::require("tune2fs") {
        return;
    }
    for (tuned, options) in [
        (&[][..], ""),
        (&[][..], ",resuid=1002,resgid=1007"),
        // One number for both: Linux 6.18 takes the user's for the group's.
        (&["-u", "1007", "-g", "1007"][..], ""),
        (&["-u", "1002", "-g", "1002"][..], ",resuid=0,resgid=0"),
    ] {
        let bench = Bench::new("mount-reserve");
        output(program("tune2fs").args(["-r", "6000"]).args(tuned).arg(bench.image())).unwrap();
        let Some(kernel) = Kernel::of(&bench, &[], &format!("rw{options}")) else {
            return skip("no loop devices");
        };
        let expected = lines(&kernel.point.display().to_string(), &["reserve"]);
        kernel.end();
        assert!(expected.len() >= 22, "{expected:?}");
        for writes in ["write_back", "write_through"] {
            let options = format!("allow_other,{writes}{options}");
            let copy = bench.join("before.img");
            fs::copy(bench.image(), &copy).unwrap();
            let mounted = bench.mount(&options);
            let found = lines(&bench.point(), &["reserve"]);
            mounted.end();
            let differ: Vec<_> =
                expected.iter().zip(&found).filter(|(one, other)| one != other).collect();
            assert!(differ.is_empty(), "{tuned:?} {options}: ext4, and the mount: {differ:#?}");
            assert_eq!(expected.len(), found.len());
            fs::rename(&copy, bench.image()).unwrap();
        }
    }
}

fn has_oracle() -> bool {
    has_fuse() && oracle::require("python3") && oracle::require("chattr")
}

/// Handles that outlive the kernel's cache, times of append-only files, the rights that files are
/// run with, change times after chattr; and the volume is whole.
#[test]
fn handles_times_and_rights_are_those_of_ext4() {
    if !has_oracle() {
        return;
    }
    // An older kernel that gathers writes shows the time once it has forgotten the file.
    let words: &[&str] = if kernel_gives_up_inodes() { &["ctime"] } else { &[] };
    for (options, words) in [("allow_other", words), ("allow_other,write_through", &["ctime"])] {
        let bench = Bench::new("mount-as-ext4");
        let Some(kernel) = Kernel::of(&bench, &[], "rw") else {
            return skip("no loop devices");
        };
        let expected = lines(&kernel.point.display().to_string(), words);
        kernel.end();
        assert!(expected.len() > 260, "{expected:?}");
        let mounted = bench.mount(options);
        let found = lines(&bench.point(), words);
        mounted.end();
        let differ: Vec<_> =
            expected.iter().zip(&found).filter(|(one, other)| one != other).collect();
        assert!(differ.is_empty(), "{options}: ext4, and the mount: {differ:#?}");
        assert_eq!(expected.len(), found.len());
    }
}

/// What cannot be written gives nothing back, which is no error; where a journal was left out, it
/// is one.
#[test]
fn fstrim_of_what_is_only_read_is_that_of_a_write_protected_device() {
    if !has_oracle() {
        return;
    }
    let bench = Bench::new("mount-trim-ro");
    for options in ["ro", "ro,noload"] {
        let Some(kernel) = Kernel::of(&bench, &["-r"], options) else {
            return skip("no loop devices");
        };
        let expected = lines(&kernel.point.display().to_string(), &["read"]);
        kernel.end();
        let mounted = bench.mount(options);
        let found = lines(&bench.point(), &["read"]);
        done(["umount", &bench.point()]);
        drop(mounted);
        assert_eq!(found, expected, "{options}");
        assert_eq!(found.last().unwrap().ends_with("False"), options == "ro", "{found:?}");
    }
}

/// With `noload` the volume is read as it is on the image, as ext4 reads it.
#[test]
fn noload_shows_what_ext4_shows_without_its_journal() {
    if !has_oracle() {
        return;
    }
    let bench = Bench::new("mount-noload");
    let mounted = bench.mount("");
    let mut file = fs::File::create(bench.inside("promised")).unwrap();
    std::io::Write::write_all(&mut file, b"content").unwrap();
    file.sync_all().unwrap();
    drop(file);
    rustix::process::kill_process(mounted.server(), rustix::process::Signal::KILL).unwrap();
    while fs::metadata(bench.point()).is_ok() {
        std::thread::yield_now();
    }
    take_away(&bench.inside(""));
    drop(mounted);
    let before = fs::read(bench.image()).unwrap();
    let names = |folder: PathBuf| {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let Some(kernel) = Kernel::of(&bench, &["-r"], "ro,noload") else {
        return skip("no loop devices");
    };
    let expected = names(kernel.point.clone());
    kernel.end();
    let mounted = bench.mount("ro,norecovery");
    assert_eq!(names(bench.inside("")), expected);
    assert!(!bench.inside("promised").exists(), "it is in the journal alone");
    done(["umount", &bench.point()]);
    drop(mounted);
    assert!(fs::read(bench.image()).unwrap() == before, "not a byte was written");
    let mounted = crate::mount::fixture::Mounted::of(&bench);
    crate::mount::fixture::extant(["mount", "-o", "ro", &bench.image(), &bench.point()]);
    assert_eq!(fs::read(bench.inside("promised")).unwrap(), b"content");
    done(["umount", &bench.point()]);
    drop(mounted);
}
