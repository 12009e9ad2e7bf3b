//! Programs in C and Go, built as their authors would, and what they print.
use crate::{here, installed, library};
use extant_testkit::command::{self, program};
use extant_testkit::oracle::{e2fsck, require};
use extant_testkit::scratch::Scratch;
use extant_testkit::skips::{Known, skip_known};
use extant_testkit::variables::word;
use std::path::{Path, PathBuf};

const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

const TOUR: &str = "\
built: with room, journal: yes
040755    0 /
040755    0 /etc
100644    0 /etc/host
120777    0 /etc/name
040700    0 /lost+found
040755    0 /srv
040755    0 /srv/app
100644 1000 /srv/app/data
data: data
name: hostname
note: kept
blocks of 4096 bytes
gone: /etc/hostname: no such file or directory
problems: 0
";

/// An example, linked to the library in `installed` and asked to find it there.
fn compiled(name: &str, installed: &Scratch) -> PathBuf {
    let (lib, target) = (installed.join("lib"), installed.join(name));
    let mut cc = program("cc");
    cc.args(["-std=c99", "-D_DEFAULT_SOURCE", "-g", "-pthread"])
        .args(STRICT)
        .arg("-o")
        .arg(&target);
    cc.arg(here().join("examples").join(format!("{name}.c")));
    cc.arg("-I").arg(installed.join("include")).arg("-L").arg(&lib).arg("-lextant");
    cc.arg(format!("-Wl,-rpath,{}", lib.display()));
    command::output(&mut cc).unwrap_or_else(|error| panic!("{error}"));
    target
}

fn printed(run: &mut std::process::Command) -> (String, Vec<u8>) {
    let output = command::output(run).unwrap_or_else(|error| panic!("{error}"));
    (String::from_utf8(output.stdout).expect("text"), output.stderr)
}

fn clean(image: &Path) {
    if require("e2fsck") {
        e2fsck(image).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn the_tour_does_what_it_says() {
    if !require("cc") {
        return;
    }
    let installed = installed();
    let image = installed.join("disk.img");
    let (said, _) = printed(
        program("sh")
            .arg("-c")
            .arg("exec \"$0\" \"$1\"")
            .arg(compiled("tour", &installed))
            .arg(&image),
    );
    assert_eq!(said, TOUR);
    clean(&image);
}

const MENDED: &str = "\
would mend: costs the name
mended to exit code 4, in one change
left: error
undone: all of it
healed: checked, as a check was asked for
";

#[test]
fn a_program_mends_an_image_and_takes_it_back() {
    if !require("cc") || !require("debugfs") {
        return;
    }
    let installed = installed();
    let image = installed.join("disk.img");
    printed(std::process::Command::new(compiled("tour", &installed)).arg(&image));
    for request in ["clri /srv/app/data", "sif /etc/host links_count 3"] {
        let mut debugfs = program("debugfs");
        command::output(debugfs.args(["-w", "-R", request]).arg(&image)).expect("debugfs");
    }
    let before = std::fs::read(&image).expect("the image");
    let mend = compiled("mend", &installed);
    let (said, _) = printed(std::process::Command::new(&mend).arg(&image));
    assert_eq!(said, MENDED);
    assert!(std::fs::read(&image).expect("the image") == before, "it was undone");
    let (said, _) = printed(std::process::Command::new(&mend).arg(&image).arg("all"));
    assert_eq!(said, "mended to exit code 1, in one change\n");
    clean(&image);
}

const TRIMMED: &str = "\
would clean something: yes
emptied: yes
cleaned again: 0 blocks
normal: 4096 bytes a block, as it was: yes
packed: 4096 bytes a block
out of order: File exists
";

#[test]
fn a_program_trims_an_image_and_lays_it_out_anew() {
    if !require("cc") || !require("debugfs") {
        return;
    }
    let installed = installed();
    let image = installed.join("disk.img");
    printed(std::process::Command::new(compiled("tour", &installed)).arg(&image));
    // What was deleted is still there.
    let mut debugfs = program("debugfs");
    command::output(debugfs.args(["-w", "-R", "rm /etc/host"]).arg(&image)).expect("debugfs");
    let (said, _) = printed(
        std::process::Command::new(compiled("trim", &installed)).current_dir(installed.path()),
    );
    assert_eq!(said, TRIMMED);
    for name in ["disk.img", "normal.img", "packed.img"] {
        clean(&installed.join(name));
    }
}

#[test]
fn an_image_may_be_behind_functions_of_the_program() {
    if !require("cc") {
        return;
    }
    let installed = installed();
    let mut memory = std::process::Command::new(compiled("memory", &installed));
    let (said, bytes) = printed(&mut memory);
    assert_eq!(said, "hi there\nexit code 0, flushed: yes, released: 3\n");
    let image = installed.join("memory.img");
    std::fs::write(&image, bytes).expect("a file");
    clean(&image);
}

#[test]
fn a_static_program_needs_no_library() {
    if !require("cc") {
        return;
    }
    let installed = installed();
    let target = installed.join("static");
    let mut cc = program("cc");
    cc.args(["-std=c99", "-D_DEFAULT_SOURCE", "-o"]).arg(&target);
    cc.arg(here().join("examples/tour.c")).arg("-I").arg(installed.join("include"));
    cc.arg(library("a")).args(["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"]);
    command::output(&mut cc).unwrap_or_else(|error| panic!("{error}"));
    let (said, _) = printed(std::process::Command::new(&target).arg(installed.join("disk.img")));
    assert_eq!(said, TOUR);
}

/// The header is one of C++ and of the oldest C that has its types, too.
#[test]
fn the_header_is_taken_by_every_compiler() {
    if !require("cc") {
        return;
    }
    let installed = installed();
    let include = installed.join("include");
    for words in [&["cc", "-std=c99", "-xc"][..], &["cc", "-std=c23", "-xc"], &["g++", "-xc++"]] {
        let (compiler, words) = words.split_first().expect("words");
        if *words == ["-std=c23", "-xc"] && !takes_c23() {
            continue;
        }
        if !require(compiler) {
            continue;
        }
        let mut cc = program(compiler);
        cc.args(words).args(STRICT).arg("-fsyntax-only").arg("-I").arg(&include);
        cc.arg(include.join("extant.h"));
        // A header is no program: what is warned of is that alone.
        cc.arg("-Wno-pragma-once-outside-header");
        command::output(&mut cc).unwrap_or_else(|error| panic!("{error}"));
    }
}

fn takes_c23() -> bool {
    let mut cc = program("cc");
    cc.args(["-std=c23", "-xc", "-fsyntax-only", "/dev/null"]);
    command::output(&mut cc).is_ok()
}

/// Whether what `make test-all` does is asked for.
fn is_whole() -> bool {
    let is_whole = word("EXTANT_BINDINGS") == "all";
    if !is_whole {
        skip_known(Known::Rounds, "EXTANT_BINDINGS is not all");
    }
    is_whole
}

#[test]
fn valgrind_finds_nothing() {
    if !is_whole() || !require("cc") || !require("valgrind") {
        return;
    }
    let installed = installed();
    // The last one is given the image that the first has made.
    let examples = [("tour", TOUR), ("memory", "hi there\n"), ("mend", "mended to exit code 0\n")];
    for (name, expected) in examples {
        let mut valgrind = program("valgrind");
        valgrind.args(["--quiet", "--error-exitcode=9", "--leak-check=full"]);
        valgrind.args(["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]);
        valgrind.arg(format!("--log-file={}", installed.join("said").display()));
        valgrind.arg(compiled(name, &installed)).arg(installed.join("disk.img"));
        let output = command::output(&mut valgrind);
        let said = std::fs::read_to_string(installed.join("said")).unwrap_or_default();
        let output = output.unwrap_or_else(|error| panic!("{error}\n{said}"));
        assert!(String::from_utf8_lossy(&output.stdout).starts_with(expected), "{name}");
        assert_eq!(said, "", "{name}");
    }
}

#[test]
fn a_program_in_go_reads_and_writes() {
    if !is_whole() || !require("cc") || !require("go") || !require("pkg-config") {
        return;
    }
    let installed = installed();
    let image = installed.join("disk.img");
    printed(std::process::Command::new(compiled("tour", &installed)).arg(&image));
    let target = installed.join("from-go");
    let mut go = program("go");
    go.current_dir(here().join("examples/go")).arg("build").arg("-o").arg(&target);
    go.env("CGO_ENABLED", "1").env("GOFLAGS", "-mod=mod").env("GOTOOLCHAIN", "local");
    go.env("GOCACHE", installed.join("cache")).env("GO111MODULE", "on");
    go.env("PKG_CONFIG_PATH", installed.join("lib/pkgconfig"));
    go.env("LD_LIBRARY_PATH", installed.join("lib"));
    command::output(&mut go).unwrap_or_else(|error| panic!("{error}"));
    let mut run = std::process::Command::new(&target);
    let (said, _) = printed(run.arg(&image).env("LD_LIBRARY_PATH", installed.join("lib")));
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.contains(&"100644 /from-go") && lines.contains(&"120777 /etc/name"), "{said}");
    assert_eq!(
        lines.last(),
        Some(
            &"/no/such/folder: no such file or directory: no such file or \
        directory"
        ),
        "{said}"
    );
    clean(&image);
}
