//! Debian packages, by dpkg-deb. None has a file of e2fsprogs: `extant names` makes such links,
//! where somebody asks for them.

use std::path::{Path, PathBuf};

use super::binaries::Binaries;
use super::tree::{Entry, Tree};
use super::{Release, parts, read};
use crate::command::{self, program};
use crate::repository;
use crate::scratch::Scratch;

/// What is said of a package.
pub struct Control<'c> {
    /// Its name.
    pub name: &'c str,
    /// Its section.
    pub section: &'c str,
    /// What it needs.
    pub depends: String,
    /// A line, and more after it that begin with a blank.
    pub about: &'c str,
    /// More fields; and files beside them, whose names have no colon.
    pub extra: &'c [(&'c str, String)],
}

/// The command, its manual, and the names by which mount(8) calls it.
///
/// # Errors
/// Something is missing, or dpkg-deb fails.
pub fn command(
    release: &Release,
    binaries: &Binaries,
    pages: &Tree,
    out: &Path,
) -> Result<PathBuf, String> {
    let mut files = pages.clone();
    files.file("usr/bin/extant", 0o755, read(&binaries.command)?);
    for name in ["mount.fuse.extant", "umount.fuse.extant"] {
        files.link(&format!("usr/sbin/{name}"), "../bin/extant");
    }
    documents(&mut files, release, "extant", "extant-cli")?;
    let control = Control {
        name: "extant",
        section: "admin",
        depends: needs(&binaries.command)?,
        about: "ext2, ext3 and ext4 images without root and without a mount\n Builds images from \
            folders, archives and container images, changes, checks, exports\n and mounts them, \
            and answers what a layout costs on a model of a drive.",
        extra: &[("Recommends:", "fuse3".to_owned())],
    };
    package(release, &control, &files, out)
}

/// libextant as programs load it.
///
/// # Errors
/// As for [`command`].
pub fn library(release: &Release, binaries: &Binaries, out: &Path) -> Result<PathBuf, String> {
    let mut files = Tree::default();
    let folder = release.library_folder();
    // The number of the interface, then the version.
    let name = format!("libextant.so.0.{}", release.version);
    files.file(&format!("{folder}/{name}"), 0o644, read(&binaries.shared)?);
    files.link(&format!("{folder}/libextant.so.0"), &name);
    documents(&mut files, release, "libextant0", "extant-capi")?;
    let control = Control {
        name: "libextant0",
        section: "libs",
        depends: needs(&binaries.shared)?,
        about: "ext2, ext3 and ext4 images for programs\n Opened, read, built, changed and \
            checked, without root and without a mount.",
        extra: &[
            ("shlibs", format!("libextant 0 libextant0 (>= {})\n", release.version)),
            ("triggers", "activate-noawait ldconfig\n".to_owned()),
        ],
    };
    package(release, &control, &files, out)
}

/// What a program is compiled with.
///
/// # Errors
/// As for [`command`].
pub fn development(release: &Release, binaries: &Binaries, out: &Path) -> Result<PathBuf, String> {
    let mut files = Tree::default();
    let (folder, source) = (release.library_folder(), repository().join("crates/capi"));
    files.link(&format!("{folder}/libextant.so"), "libextant.so.0");
    files.file(&format!("{folder}/libextant.a"), 0o644, read(&binaries.archive)?);
    files.file("usr/include/extant.h", 0o644, read(&source.join("include/extant.h"))?);
    let words = String::from_utf8_lossy(&read(&source.join("extant.pc.in"))?).into_owned();
    let words = words
        .replace("@PREFIX@", "/usr")
        .replace("@LIBDIR@", &format!("${{prefix}}/{}", folder.replacen("usr/", "", 1)))
        .replace("@VERSION@", &release.version)
        .replace("@PRIVATE@", PRIVATE);
    files.file(&format!("{folder}/pkgconfig/extant.pc"), 0o644, words.into_bytes());
    for name in ["tour.c", "memory.c", "mend.c"] {
        let bytes = read(&source.join("examples").join(name))?;
        files.file(&format!("usr/share/doc/libextant-dev/examples/{name}"), 0o644, bytes);
    }
    documents(&mut files, release, "libextant-dev", "extant-capi")?;
    let control = Control {
        name: "libextant-dev",
        section: "libdevel",
        depends: format!("libextant0 (= {})", release.version),
        about: "ext2, ext3 and ext4 images for programs (development)\n The header, the static \
            library and what pkg-config reads.",
        extra: &[],
    };
    package(release, &control, &files, out)
}

/// What a static libextant needs of the system, as `rustc --print native-static-libs` says.
const PRIVATE: &str = "-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc";

/// Licences, the list of parts, and what changed.
fn documents(files: &mut Tree, release: &Release, name: &str, krate: &str) -> Result<(), String> {
    let folder = format!("usr/share/doc/{name}");
    parts::add(files, &folder, release, krate, parts::Kind::Shared)?;
    let changes = read(&repository().join("CHANGELOG.md"))?;
    files.file(&format!("{folder}/changelog.gz"), 0o644, super::tree::packed(&changes)?);
    Ok(())
}

/// The C library that a binary needs at least, by the newest symbol that it asks for.
fn needs(binary: &Path) -> Result<String, String> {
    let output = command::output(program("objdump").arg("-T").arg(binary))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let newest = newest_glibc(&text).ok_or("no symbol of the C library")?;
    Ok(format!("libc6 (>= {}.{}), libgcc-s1", newest.0, newest.1))
}

/// The newest `GLIBC_2.34` in what objdump prints.
pub fn newest_glibc(text: &str) -> Option<(u32, u32)> {
    let versions = text.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let (major, minor) = rest.get(..end.unwrap_or(rest.len()))?.split_once('.')?;
        let minor = minor.split('.').next()?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    versions.max()
}

/// Makes a package.
///
/// # Errors
/// What dpkg-deb says.
pub fn package(
    release: &Release,
    control: &Control<'_>,
    files: &Tree,
    out: &Path,
) -> Result<PathBuf, String> {
    let scratch = Scratch::new("extant-package");
    let root = scratch.join("root");
    files.write(&root)?;
    let mut all = Tree::default();
    let (is_field, is_file) = (|name: &str| name.ends_with(':'), |name: &str| !name.ends_with(':'));
    let fields = control.extra.iter().filter(|row| is_field(row.0));
    let fields: String = fields.map(|(name, value)| format!("{name} {value}\n")).collect();
    let words = format!(
        "Package: {}\nVersion: {}\nArchitecture: {}\nMaintainer: the authors of extant \
         <extant@localhost>\nInstalled-Size: {}\nDepends: {}\n{fields}Section: {}\nPriority: \
         optional\nDescription: {}\n",
        control.name,
        release.version,
        release.debian_machine(),
        files.kib(),
        control.depends,
        control.section,
        control.about
    );
    all.file("DEBIAN/control", 0o644, words.into_bytes());
    for (name, value) in control.extra.iter().filter(|row| is_file(row.0)) {
        all.file(&format!("DEBIAN/{name}"), 0o644, value.clone().into_bytes());
    }
    all.file("DEBIAN/md5sums", 0o644, digests(files, &root)?);
    all.write(&root)?;
    let name = format!("{}_{}_{}.deb", control.name, release.version, release.debian_machine());
    let path = out.join(name);
    let mut dpkg = program("dpkg-deb");
    dpkg.env("SOURCE_DATE_EPOCH", &release.epoch);
    dpkg.args(["--root-owner-group", "-Zxz", "-z6", "--build"]).arg(&root).arg(&path);
    command::output(&mut dpkg)?;
    Ok(path)
}

fn digests(files: &Tree, root: &Path) -> Result<Vec<u8>, String> {
    let plain = files.entries.iter().filter(|(_, entry)| matches!(entry, Entry::File(..)));
    let mut md5sum = program("md5sum");
    md5sum.current_dir(root).args(plain.map(|(path, _)| path));
    Ok(command::output(&mut md5sum)?.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_symbol_is_found() {
        let text = "x GLIBC_2.4 a\ny (GLIBC_2.34) b\nz GLIBC_2.9.1 c\nGLIBC_PRIVATE d";
        assert_eq!(newest_glibc(text), Some((2, 34)));
        assert_eq!(newest_glibc("none"), None);
    }
}
