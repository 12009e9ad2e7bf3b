//! Each file of a release, installed where nothing else is, and run.
//!
//! ```text
//! root      roots to install in: empty ones, and those of releases of Debian
//! releases  the packages by dpkg in each release
//! pythons   the wheel by pip in each Python
//! ```

mod pythons;
mod releases;
mod root;

use std::path::{Path, PathBuf};

use super::binaries::Binaries;
use super::{Release, pack, text, twice, wheel};
use crate::command::{self, is_root, program};
use crate::scratch::Scratch;
use root::Root;

/// How far it is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// In roots that are assembled of this machine's libraries: takes no network.
    Here,
    /// Also in each release of Debian that is to be had, and in each Python that is here.
    Everywhere,
}

/// What e2fsprogs installs: a package of ours never has a file of these names.
const OTHERS: &[&str] =
    &["mke2fs", "mkfs.ext", "e2fsck", "fsck.ext", "dumpe2fs", "e2label", "resize2fs"];

/// Judges what is in `out`, which was packed of these binaries.
///
/// # Errors
/// What does not run, or is different when it is made again; at the gate, also when this is not the
/// superuser, who alone makes roots. Elsewhere that is said.
pub fn run(release: &Release, binaries: &Binaries, out: &Path, reach: Reach) -> Result<(), String> {
    let scratch = Scratch::new("extant-dist-again");
    let made = pack(release, binaries, &scratch.join("dist"))?;
    let differences = twice::differences(&made, out)?;
    if !differences.is_empty() {
        return Err(format!("other bytes when it is made again: {}", differences.join(", ")));
    }
    println!("dist: {} files, the same bytes when they are made again", made.len());
    const OTHER: &str = "only root makes roots to install in: NOTHING IS INSTALLED";
    match (is_root(), command::is_gate()) {
        (true, _) => {}
        (false, true) => return Err(OTHER.to_owned()),
        (false, false) => {
            println!("dist: {OTHER}");
            return Ok(());
        }
    }
    let deb = |name: &str| {
        let machine = release.debian_machine();
        out.join(format!("{name}_{}_{machine}.deb", release.version))
    };
    let (command, libraries) = (deb("extant"), [deb("libextant0"), deb("libextant-dev")]);
    names(&[&command, &libraries[0], &libraries[1]])?;
    debian_command(&command)?;
    let fixed = static_command(release, out)?;
    let program = scratch.join("tour");
    library(release, &libraries[0], &libraries[1], &program)?;
    if reach == Reach::Here {
        return Ok(());
    }
    let [shared, development] = &libraries;
    let files = releases::Files {
        command: &command,
        libraries: [shared, development],
        fixed: &fixed,
        program: &program,
    };
    releases::judge(release, &files)?;
    match wheel::only_wheel(out) {
        Ok(wheel) => pythons::judge(&wheel),
        Err(why) => {
            println!("dist: {why}: THE WHEEL IS NOT TESTED");
            Ok(())
        }
    }
}

/// No file of another package is among ours.
fn names(packages: &[&Path]) -> Result<(), String> {
    for package in packages {
        let listed = text(program("dpkg-deb").arg("-c").arg(package))?;
        let paths = listed.lines().filter_map(|line| line.split_whitespace().nth(5));
        let mut names = paths.filter_map(|path| path.rsplit('/').find(|part| !part.is_empty()));
        if let Some(name) = names.find(|name| OTHERS.iter().any(|other| name.starts_with(other))) {
            return Err(format!("{}: has {name}", package.display()));
        }
    }
    Ok(())
}

fn debian_command(deb: &Path) -> Result<(), String> {
    let root = Root::empty("command")?;
    root.package(deb)?;
    root.libraries_of(&root.path("usr/bin/extant"))?;
    root.judge("/usr/bin/extant")?;
    let page = root.path("usr/share/man/man1/extant-build.1.gz");
    let page = text(program("gzip").arg("-dc").arg(page))?;
    let link = root.path("usr/sbin/mount.fuse.extant").exists();
    if !page.contains("extant") || !link {
        return Err("the package lacks a page of the manual, or mount(8)'s name".to_owned());
    }
    println!("dist: {} installs and runs", deb.display());
    Ok(())
}

/// The static command runs where nothing is, and says what it lacks. Returns its archive.
fn static_command(release: &Release, out: &Path) -> Result<PathBuf, String> {
    let root = Root::empty("static")?;
    let name = format!("extant-{}-static-{}-linux", release.version, release.machine);
    let archive = out.join(format!("{name}.tar.gz"));
    root.archive(&archive)?;
    let binary = root.path(&name).join("extant");
    let loads = text(program("readelf").arg("-d").arg(&binary))?;
    if loads.contains("(NEEDED)") {
        return Err(format!("{}: loads a library: {loads}", binary.display()));
    }
    root.judge(&format!("/{name}/extant"))?;
    let mut pretended = program(&binary.display().to_string());
    let pretended =
        command::output(pretended.arg("--version").env("LD_PRELOAD", "libfakeroot.so"))?;
    let said = String::from_utf8_lossy(&pretended.stderr).into_owned();
    if !said.contains("linked statically") {
        return Err(format!("{}: under fakeroot it says {said:?}", binary.display()));
    }
    println!("dist: {} runs without any library", archive.display());
    Ok(archive)
}

/// A program is compiled with what pkg-config says of the packages, shared and static, and runs.
/// The shared one is copied to `kept`.
fn library(
    release: &Release,
    shared: &Path,
    development: &Path,
    kept: &Path,
) -> Result<(), String> {
    let root = Root::empty("library")?;
    root.package(shared)?;
    root.package(development)?;
    let folder = root.path(&release.library_folder());
    let source = root.path("usr/share/doc/libextant-dev/examples/tour.c");
    for (name, words) in [("shared", &[][..]), ("static", &["--static"])] {
        let mut config = program("pkg-config");
        config.env("PKG_CONFIG_LIBDIR", folder.join("pkgconfig"));
        config.env("PKG_CONFIG_SYSROOT_DIR", root.path(""));
        let flags = text(config.args(words).args(["--cflags", "--libs", "extant"]))?;
        let archive = folder.join("libextant.a").display().to_string();
        let flags = match name {
            "static" => flags.replace("-lextant", &archive),
            _ => flags,
        };
        let target = root.path(name);
        let mut cc = program("cc");
        cc.args(["-std=c99", "-D_DEFAULT_SOURCE", "-o"]).arg(&target).arg(&source);
        command::output(cc.args(flags.split_whitespace()))?;
        let mut ldd = program("env");
        ldd.env("LD_LIBRARY_PATH", &folder);
        let listed = text(ldd.arg("ldd").arg(&target))?;
        if listed.contains("libextant.so.0") != (name == "shared") {
            return Err(format!("{name}: {listed}"));
        }
        root.libraries_of(&target)?;
        root.libraries_of(&folder.join("libextant.so.0"))?;
        let said = root.run(&[&format!("/{name}"), "/tmp/disk.img"])?;
        if !said.ends_with("problems: 0") {
            return Err(format!("{name}: {said}"));
        }
        if name == "shared" {
            std::fs::copy(&target, kept).map_err(|error| format!("{}: {error}", kept.display()))?;
        }
    }
    println!("dist: {} and its development package link and run", shared.display());
    Ok(())
}
