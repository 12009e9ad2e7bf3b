//! The package for Python: built by maturin, then made anew without a trace of the machine, with
//! its licences, and with the name that says which C library it needs.

use std::path::{Path, PathBuf};

use super::binaries::Binaries;
use super::tree::Tree;
use super::{Release, debian, parts, text};
use crate::command::{self, program};
use crate::python;
use crate::scratch::Scratch;
use crate::shipped::Checkout;

/// Makes the wheel of what maturin built.
const SCRIPT: &str = include_str!("wheel.py");

/// The libraries that every Linux with the C library has, as the platform tag promises.
const LIBRARIES: &[&str] = &[
    "libc.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
];

/// Builds it with the profile that ships; no wheel is left from before where that fails.
///
/// # Errors
/// maturin is not to be had, or what it says.
pub fn build(checkout: &Checkout) -> Result<(), Failure> {
    let target = Binaries::found(checkout).wheel;
    let _ = std::fs::remove_file(&target);
    let tools = python::tools().map_err(Failure::Lacking)?;
    println!("dist: maturin build");
    let scratch = Scratch::new("extant-wheel");
    let mut maturin = program(&tools.join("bin/maturin").display().to_string());
    maturin.args(["build", "-q", "--release", "--locked", "--compatibility", "linux"]);
    maturin.args(["--interpreter"]).arg(tools.join("bin/python"));
    maturin.arg("--manifest-path").arg(checkout.root.join("python/Cargo.toml"));
    maturin.arg("--out").arg(scratch.path());
    checkout.prepare(&mut maturin);
    command::output(&mut maturin).map_err(Failure::Broken)?;
    let made = only_wheel(scratch.path()).map_err(Failure::Broken)?;
    std::fs::copy(&made, &target)
        .map_err(|error| Failure::Broken(format!("{}: {error}", target.display())))?;
    Ok(())
}

/// Why there is no wheel.
#[derive(Debug)]
pub enum Failure {
    /// The machine has no Python, or does not reach the index of its packages.
    Lacking(String),
    /// It does not build.
    Broken(String),
}

impl Failure {
    /// What is said of it.
    pub fn words(self) -> String {
        match self {
            Failure::Lacking(words) => format!("no wheel: {words}{}", python::UNREACHED),
            Failure::Broken(words) => words,
        }
    }
}

/// The wheel in a folder.
///
/// # Errors
/// There is none, or more than one.
pub fn only_wheel(folder: &Path) -> Result<PathBuf, String> {
    let entries =
        std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let wheels: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "whl")).collect();
    match wheels.as_slice() {
        [wheel] => Ok(wheel.clone()),
        _ => Err(format!("{}: {} wheels", folder.display(), wheels.len())),
    }
}

/// Makes the wheel that is handed out, in `out`.
///
/// # Errors
/// It needs more than its name can say, or Python does not run.
pub fn package(release: &Release, binaries: &Binaries, out: &Path) -> Result<PathBuf, String> {
    let scratch = Scratch::new("extant-wheel");
    let tag = platform(release, &library(&binaries.wheel, &scratch.join("inside"))?)?;
    let mut files = Tree::default();
    parts::add(&mut files, "documents", release, "extant-python", parts::Kind::Shared)?;
    files.write(scratch.path())?;
    let mut python = program("python3");
    python.args(["-I", "-c", SCRIPT]).arg(&binaries.wheel).arg(scratch.join("documents"));
    python.arg(format!("cp310-abi3-{tag}")).arg(&release.epoch).arg(out);
    Ok(PathBuf::from(text(&mut python)?))
}

/// The library in a wheel, unpacked into `folder`.
fn library(wheel: &Path, folder: &Path) -> Result<PathBuf, String> {
    let mut python = program("python3");
    python.args(["-I", "-m", "zipfile", "-e"]).arg(wheel).arg(folder);
    command::output(&mut python)?;
    let library = folder.join("extantfs/_native.abi3.so");
    if library.is_file() {
        return Ok(library);
    }
    Err(format!("{}: has no _native.abi3.so", wheel.display()))
}

/// The tag of the oldest platform that has all that a library asks for: by its newest symbol of the
/// C library, and by the other libraries that it loads.
fn platform(release: &Release, library: &Path) -> Result<String, String> {
    let loads = text(program("readelf").arg("-d").arg(library))?;
    if let Some(other) = foreign(&loads) {
        return Err(format!("{}: loads {other}, which is not everywhere", library.display()));
    }
    let symbols = text(program("objdump").arg("-T").arg(library))?;
    let (major, minor) = debian::newest_glibc(&symbols).ok_or("no symbol of the C library")?;
    Ok(format!("manylinux_{major}_{minor}_{}", release.machine))
}

/// The first library in what readelf prints that a platform need not have.
fn foreign(loads: &str) -> Option<&str> {
    let needed = loads.lines().filter(|line| line.contains("(NEEDED)"));
    let mut names = needed.filter_map(|line| line.split(['[', ']']).nth(1));
    names.find(|name| !LIBRARIES.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What maturin makes, in the order and with the times that the words are.
    const FAKE: &str = "import sys, zipfile
about = 'extantfs-1.2.3.dist-info/'
files = [
    (about + 'METADATA', 'Metadata-Version: 2.4\\nName: extantfs\\n\\nWords.\\n'),
    (about + 'WHEEL', 'Wheel-Version: 1.0\\nTag: cp310-abi3-linux_x86_64\\n'),
    (about + 'RECORD', 'of the one before'), (about + 'sboms/x.json', '/home/someone'),
    ('extantfs/__init__.py', 'pass\\n'), ('extantfs/_native.abi3.so', 'a library'),
]
with zipfile.ZipFile(sys.argv[1], 'w') as archive:
    for name, text in files if sys.argv[2] == '1999' else reversed(files):
        archive.writestr(zipfile.ZipInfo(name, (int(sys.argv[2]), 1, 1, 0, 0, 0)), text)";

    /// Looks at a wheel as pip does, and prints its names.
    const LOOK: &str = "import base64, csv, hashlib, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive:
    record = archive.read('extantfs-1.2.3.dist-info/RECORD').decode().splitlines()
    rows = {name: digest for name, digest, size in csv.reader(record)}
    names = archive.namelist()
    assert sorted(rows) == sorted(names) and len(record) == len(rows), record
    assert names == sorted(names, key=lambda name: (name.startswith('extantfs-'), name)), names
    for info in archive.infolist():
        assert info.external_attr >> 16 == 0o100644 + 0o111 * info.filename.endswith('.so'), info
    for name, digest in rows.items():
        found = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest())
        assert not digest or digest == 'sha256=' + found.decode().rstrip('='), name
    print(archive.read('extantfs-1.2.3.dist-info/WHEEL').decode())
    print(archive.read('extantfs-1.2.3.dist-info/METADATA').decode())
    print(*archive.namelist())";

    #[test]
    fn a_wheel_says_nothing_of_where_and_when_it_was_made() {
        let scratch = Scratch::new("xtask-wheel");
        let documents = scratch.join("documents");
        std::fs::create_dir(&documents).expect("a folder");
        for name in ["licences.txt", "x.spdx.json"] {
            std::fs::write(documents.join(name), name).expect("a file");
        }
        let wheels = ["1999", "2001"].map(|year| {
            let (from, out) = (scratch.join(year), scratch.join(&format!("out-{year}")));
            std::fs::create_dir(&out).expect("a folder");
            let mut fake = program("python3");
            command::output(fake.args(["-c", FAKE]).arg(&from).arg(year)).expect("a wheel");
            let mut made = program("python3");
            made.args(["-I", "-c", SCRIPT]).arg(&from).arg(&documents);
            made.args(["cp310-abi3-manylinux_2_34_x86_64", "1700000000"]).arg(&out);
            PathBuf::from(text(&mut made).expect("a wheel"))
        });
        let name = "extantfs-1.2.3-cp310-abi3-manylinux_2_34_x86_64.whl";
        assert!(wheels[0].ends_with(name), "{wheels:?}");
        let bytes = wheels.each_ref().map(|path| std::fs::read(path).expect("the wheel"));
        assert!(bytes[0] == bytes[1]);
        let said = text(program("python3").args(["-c", LOOK]).arg(&wheels[0])).expect("a look");
        for words in ["Tag: cp310-abi3-manylinux_2_34_x86_64\n", "License-File: licences.txt\n"] {
            assert!(said.contains(words), "{said}");
        }
        assert!(
            said.contains("dist-info/sboms/x.spdx.json") && !said.contains("/x.json"),
            "{said}"
        );
    }

    #[test]
    fn a_library_that_is_not_everywhere_is_found() {
        let row = |name: &str| format!(" 0x01 (NEEDED)  Shared library: [{name}]\n");
        let usual = row("libc.so.6") + " 0x0e (SONAME) Library soname: [libodd.so]\n";
        assert_eq!(foreign(&usual), None);
        assert_eq!(foreign(&(usual + &row("libfuse3.so.3"))), Some("libfuse3.so.3"));
    }
}
