//! Each file of a release, installed where nothing else is, and run.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::binaries::Binaries;
use super::{Release, pack, read, text};
use crate::command::{self, program};
use crate::scratch::Scratch;

/// What e2fsprogs installs: a package of ours never has a file of these names.
const OTHERS: &[&str] = &["mke2fs", "mkfs.ext", "e2fsck", "fsck.ext", "dumpe2fs", "e2label"];

/// Judges what is in `out`.
///
/// # Errors
/// What does not run, or is different when it is made again.
pub fn run(release: &Release, binaries: &Binaries, out: &Path) -> Result<(), String> {
    let again = Scratch::new("extant-dist-again");
    let made = pack(release, binaries, &again.join("dist"))?;
    for path in &made {
        let name = path.file_name().unwrap_or_default();
        if read(path)? != read(&out.join(name))? {
            return Err(format!("{}: other bytes when it is made again", name.display()));
        }
    }
    println!("dist: {} files, the same bytes when they are made again", made.len());
    let deb = |name: &str| {
        let machine = release.debian_machine();
        out.join(format!("{name}_{}_{machine}.deb", release.version))
    };
    names(&[deb("extant"), deb("libextant0"), deb("libextant-dev")])?;
    debian_command(&deb("extant"))?;
    static_command(release, out)?;
    library(release, &deb("libextant0"), &deb("libextant-dev"))
}

/// No file of another package is among ours.
fn names(packages: &[PathBuf]) -> Result<(), String> {
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

/// A root that holds nothing but what is put there.
struct Root {
    scratch: Scratch,
}

impl Root {
    fn new(name: &str) -> Result<Root, String> {
        let root = Root { scratch: Scratch::new(&format!("extant-root-{name}")) };
        for folder in ["tmp", "etc", "proc", "dev"] {
            root.folder(folder)?;
        }
        root.file("etc/passwd", b"root:x:0:0::/:/bin/false\n")?;
        Ok(root)
    }

    fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.scratch.join(name);
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let path = self.scratch.join(name);
        std::fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode)
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    fn package(&self, deb: &Path) -> Result<(), String> {
        command::output(program("dpkg-deb").arg("-x").arg(deb).arg(self.scratch.path()))?;
        Ok(())
    }

    /// The libraries that a binary loads, from this machine, as its package's `Depends` would have
    /// them installed.
    fn libraries_of(&self, binary: &Path) -> Result<(), String> {
        let listed = text(program("ldd").arg(binary))?;
        for path in listed.split_whitespace().filter(|word| word.starts_with('/')) {
            let target = self.scratch.join(path.trim_start_matches('/'));
            // What the root has itself is what is judged.
            if target.exists() || path.starts_with(&*self.scratch.path().to_string_lossy()) {
                continue;
            }
            if let Some(folder) = target.parent() {
                std::fs::create_dir_all(folder)
                    .map_err(|error| format!("{}: {error}", folder.display()))?;
            }
            command::output(program("cp").arg("-L").arg(path).arg(&target))?;
        }
        Ok(())
    }

    fn run(&self, words: &[&str]) -> Result<String, String> {
        // Attributes of files are asked for through /proc, which every Linux has; this one goes
        // with the process.
        let script = "mount -t proc proc \"$0/proc\" && exec chroot \"$0\" \"$@\"";
        let mut unshare = program("unshare");
        unshare.args(["--mount", "sh", "-c", script]).arg(self.scratch.path()).args(words);
        text(unshare.env("TMPDIR", "/tmp"))
    }

    /// The command builds, lists and checks an image, and e2fsck has nothing to say of it.
    fn judge(&self, command: &str) -> Result<(), String> {
        self.run(&[command, "--version"])?;
        self.run(&[command, "build", "--free", "4M", "/etc", "/tmp/disk.img"])?;
        let listed = self.run(&[command, "ls", "/tmp/disk.img:/"])?;
        if !listed.contains("passwd") {
            return Err(format!("{command}: lists {listed:?}"));
        }
        self.run(&[command, "check", "/tmp/disk.img"])?;
        extant_testkit::oracle::e2fsck(&self.scratch.join("tmp/disk.img"))
    }
}

fn debian_command(deb: &Path) -> Result<(), String> {
    let root = Root::new("command")?;
    root.package(deb)?;
    root.libraries_of(&root.scratch.join("usr/bin/extant"))?;
    root.judge("/usr/bin/extant")?;
    let page = root.scratch.join("usr/share/man/man1/extant-build.1.gz");
    let page = text(program("gzip").arg("-dc").arg(page))?;
    let link = root.scratch.join("usr/sbin/mount.fuse.extant").exists();
    if !page.contains("extant") || !link {
        return Err("the package lacks a page of the manual, or mount(8)'s name".to_owned());
    }
    println!("dist: {} installs and runs", deb.display());
    Ok(())
}

fn static_command(release: &Release, out: &Path) -> Result<(), String> {
    let root = Root::new("static")?;
    let name = format!("extant-{}-static-{}-linux", release.version, release.machine);
    let archive = out.join(format!("{name}.tar.gz"));
    let mut tar = program("tar");
    command::output(tar.arg("-xzf").arg(&archive).arg("-C").arg(root.scratch.path()))?;
    let binary = root.scratch.join(&name).join("extant");
    let loads = text(program("readelf").arg("-d").arg(&binary))?;
    if loads.contains("(NEEDED)") {
        return Err(format!("{}: loads a library: {loads}", binary.display()));
    }
    root.judge(&format!("/{name}/extant"))?;
    println!("dist: {} runs without any library", archive.display());
    Ok(())
}

/// A program is compiled with what pkg-config says of the packages, shared and static, and runs.
fn library(release: &Release, shared: &Path, development: &Path) -> Result<(), String> {
    let root = Root::new("library")?;
    root.package(shared)?;
    root.package(development)?;
    let folder = root.scratch.join(&release.library_folder());
    let source = root.scratch.join("usr/share/doc/libextant-dev/examples/tour.c");
    for (name, words) in [("shared", &[][..]), ("static", &["--static"])] {
        let mut config = program("pkg-config");
        config.env("PKG_CONFIG_LIBDIR", folder.join("pkgconfig"));
        config.env("PKG_CONFIG_SYSROOT_DIR", root.scratch.path());
        let flags = text(config.args(words).args(["--cflags", "--libs", "extant"]))?;
        let archive = folder.join("libextant.a").display().to_string();
        let flags = match name {
            "static" => flags.replace("-lextant", &archive),
            _ => flags,
        };
        let target = root.scratch.join(name);
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
    }
    println!("dist: {} and its development package link and run", shared.display());
    Ok(())
}
