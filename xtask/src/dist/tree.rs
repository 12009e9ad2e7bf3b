//! Files before they are in a package: what they hold, and nothing of the machine.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::command::{self, program};
use crate::scratch::Scratch;

/// A file, or a symlink.
#[derive(Clone, Debug)]
pub enum Entry {
    /// Mode and content.
    File(u32, Vec<u8>),
    /// The target.
    Link(String),
}

/// Files by their paths, which begin with no slash.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Each of them.
    pub entries: BTreeMap<String, Entry>,
}

impl Tree {
    /// Adds a file.
    pub fn file(&mut self, path: &str, mode: u32, bytes: Vec<u8>) {
        self.entries.insert(path.to_owned(), Entry::File(mode, bytes));
    }

    /// Adds a symlink.
    pub fn link(&mut self, path: &str, target: &str) {
        self.entries.insert(path.to_owned(), Entry::Link(target.to_owned()));
    }

    /// How much that is, in KiB.
    pub fn kib(&self) -> u64 {
        let bytes = self.entries.values().map(|entry| match entry {
            Entry::File(_, bytes) => bytes.len() as u64,
            Entry::Link(_) => 0,
        });
        bytes.map(|bytes| bytes.div_ceil(1024)).sum()
    }

    /// Makes all of it below `root`; folders have the mode 0755.
    ///
    /// # Errors
    /// The host's.
    pub fn write(&self, root: &Path) -> Result<(), String> {
        for (path, entry) in &self.entries {
            let path = root.join(path);
            let said = |error: std::io::Error| format!("{}: {error}", path.display());
            let above: Vec<&Path> = path.ancestors().skip(1).collect();
            for folder in above.iter().rev().filter(|folder| folder.starts_with(root)) {
                if !folder.is_dir() {
                    std::fs::create_dir(folder).map_err(said)?;
                }
                let mode = std::fs::Permissions::from_mode(0o755);
                std::fs::set_permissions(folder, mode).map_err(said)?;
            }
            match entry {
                Entry::File(mode, bytes) => {
                    std::fs::write(&path, bytes).map_err(said)?;
                    let mode = std::fs::Permissions::from_mode(*mode);
                    std::fs::set_permissions(&path, mode).map_err(said)?;
                }
                Entry::Link(target) => {
                    std::os::unix::fs::symlink(target, &path).map_err(said)?;
                }
            }
        }
        Ok(())
    }
}

/// `bytes` as gzip packs them, without name and time.
///
/// # Errors
/// gzip does not run.
pub fn packed(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let scratch = Scratch::new("extant-gzip");
    let path = scratch.join("bytes");
    std::fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(command::output(program("gzip").arg("-9nc").arg(&path))?.stdout)
}

/// What the command says of itself: pages of the manual, and words for three shells.
///
/// # Errors
/// It does not run.
pub fn of_command(command: &Path) -> Result<Tree, String> {
    let mut tree = Tree::default();
    let scratch = Scratch::new("extant-pages");
    let pages = scratch.join("man1");
    command::output(program("env").arg(command).arg("man").arg(format!("{}/", pages.display())))?;
    for entry in std::fs::read_dir(&pages).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let bytes = super::read(&entry.path())?;
        tree.file(&format!("usr/share/man/man1/{name}.gz"), 0o644, packed(&bytes)?);
    }
    let shells = [
        ("bash", "usr/share/bash-completion/completions/extant"),
        ("zsh", "usr/share/zsh/vendor-completions/_extant"),
        ("fish", "usr/share/fish/vendor_completions.d/extant.fish"),
    ];
    for (shell, path) in shells {
        let output = command::output(program("env").arg(command).args(["completions", shell]))?;
        tree.file(path, 0o644, output.stdout);
    }
    Ok(tree)
}
