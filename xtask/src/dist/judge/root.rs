//! Roots that packages are installed in: empty ones, and those that a release begins with.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::command::{self, find, program};
use crate::dist::text;
use crate::repository;
use crate::scratch::Scratch;

/// A root of its own, which goes when it is dropped.
pub struct Root {
    scratch: Scratch,
}

impl Root {
    /// One that holds nothing but what is put there.
    ///
    /// # Errors
    /// The host's.
    pub fn empty(name: &str) -> Result<Root, String> {
        let root = Root { scratch: Scratch::new(&format!("extant-root-{name}")) };
        for folder in ["tmp", "etc", "proc", "dev"] {
            let path = root.path(folder);
            std::fs::create_dir_all(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
        root.file("etc/passwd", b"root:x:0:0::/:/bin/false\n")?;
        Ok(root)
    }

    /// What every machine with a release of Debian has, and e2fsprogs. It is fetched once.
    ///
    /// # Errors
    /// There is no mmdebstrap, or the release is not to be had.
    pub fn of(suite: &str) -> Result<Root, String> {
        let archive = fetched(suite)?;
        let root = Root { scratch: Scratch::new(&format!("extant-root-{suite}")) };
        let mut tar = program("tar");
        tar.args(["--numeric-owner", "-xf"]).arg(&archive).arg("-C").arg(root.scratch.path());
        command::output(&mut tar)?;
        Ok(root)
    }

    /// Where a path of the root is on the host; it begins with no slash.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    /// Writes a file that may be executed.
    fn file(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let path = self.path(name);
        std::fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode)
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Copies a file of the host to `tmp`, and returns its path in the root.
    ///
    /// # Errors
    /// The host's.
    pub fn take(&self, path: &Path) -> Result<String, String> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        std::fs::copy(path, self.path("tmp").join(&name))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(format!("/tmp/{name}"))
    }

    /// Unpacks a package, as no package manager is here.
    ///
    /// # Errors
    /// What dpkg-deb says.
    pub fn package(&self, deb: &Path) -> Result<(), String> {
        command::output(program("dpkg-deb").arg("-x").arg(deb).arg(self.scratch.path()))?;
        Ok(())
    }

    /// Unpacks an archive at the root.
    ///
    /// # Errors
    /// What tar says.
    pub fn archive(&self, archive: &Path) -> Result<(), String> {
        let mut tar = program("tar");
        command::output(tar.arg("-xzf").arg(archive).arg("-C").arg(self.scratch.path()))?;
        Ok(())
    }

    /// The libraries that a binary loads, from this machine, as its package's `Depends` would have
    /// them installed.
    ///
    /// # Errors
    /// The host's.
    pub fn libraries_of(&self, binary: &Path) -> Result<(), String> {
        let listed = text(program("ldd").arg(binary))?;
        for path in listed.split_whitespace().filter(|word| word.starts_with('/')) {
            let target = self.path(path.trim_start_matches('/'));
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

    /// What a command prints that runs in the root.
    ///
    /// # Errors
    /// It does not end with 0; both its outputs are in the words.
    pub fn run(&self, words: &[&str]) -> Result<String, String> {
        // Attributes of files are asked for through /proc, which every Linux has; this one goes
        // with the process.
        let script = "mount -t proc proc \"$0/proc\" && exec chroot \"$0\" \"$@\"";
        let mut unshare = program("unshare");
        unshare.args(["--mount", "sh", "-c", script]).arg(self.scratch.path()).args(words);
        unshare.env("TMPDIR", "/tmp").env("DEBIAN_FRONTEND", "noninteractive");
        unshare.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        text(&mut unshare)
    }

    /// The command builds, lists and checks an image, and e2fsck has nothing to say of it.
    ///
    /// # Errors
    /// It does not, or says something else.
    pub fn judge(&self, command: &str) -> Result<(), String> {
        self.run(&[command, "--version"])?;
        self.run(&[command, "build", "--force", "--free", "4M", "/etc", "/tmp/disk.img"])?;
        let listed = self.run(&[command, "ls", "/tmp/disk.img:/"])?;
        if !listed.contains("passwd") {
            return Err(format!("{command}: lists {listed:?}"));
        }
        self.run(&[command, "check", "/tmp/disk.img"])?;
        extant_testkit::oracle::e2fsck(&self.path("tmp/disk.img"))
    }
}

/// The archive of a release's root, made by mmdebstrap and kept in `target`.
fn fetched(suite: &str) -> Result<PathBuf, String> {
    let folder = repository().join("target/dist-roots");
    let path = folder.join(format!("{suite}.tar"));
    if path.exists() {
        return Ok(path);
    }
    if find("mmdebstrap").is_none() {
        return Err("no mmdebstrap".to_owned());
    }
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    // Not under its own name until it is whole.
    let part = folder.join(format!("part-{suite}.tar"));
    let mut mmdebstrap = program("mmdebstrap");
    mmdebstrap.args(["--quiet", "--variant=essential", "--include=e2fsprogs", suite]).arg(&part);
    command::output(&mut mmdebstrap)?;
    std::fs::rename(&part, &path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}
