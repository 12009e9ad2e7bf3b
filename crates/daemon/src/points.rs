//! Mounts of ours in the host's table of mounts, and who uses one.
use extant_block::in_use::{Mount, mounts};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// The types under which our mounts are in the table: of a file, and of a block device.
const KINDS: [&str; 2] = ["fuse.extant", "fuseblk.extant"];

/// Whether a mount is one of ours.
pub fn is_ours(mount: &Mount) -> bool {
    KINDS.contains(&mount.kind.as_str())
}

/// The mount at a folder: the last one that was made there. The folder is as [`resolved`] gives it.
pub fn at(folder: &Path) -> Option<Mount> {
    mounts().into_iter().rfind(|mount| mount.folder == folder)
}

/// The mounts of ours that show this image.
pub fn of_image(image: &Path) -> Vec<Mount> {
    mounts().into_iter().filter(|mount| is_ours(mount) && mount.source == image).collect()
}

/// A path without symbolic links, dots and double slashes, as the table of mounts has it. The last
/// name is not looked at: of a mount whose server is gone, no call succeeds.
///
/// # Errors
/// Those of the host.
pub fn resolved(folder: &Path) -> io::Result<PathBuf> {
    match folder.canonicalize() {
        Ok(path) => Ok(path),
        Err(error) => match (folder.parent(), folder.file_name()) {
            (Some(parent), Some(name)) => {
                let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
                let path = parent.canonicalize()?.join(name);
                if at(&path).is_some() { Ok(path) } else { Err(error) }
            }
            _ => Err(error),
        },
    }
}

/// The user to whom a mount belongs, as its options in the table say.
pub fn owner(mount: &Mount) -> Option<u32> {
    mount.options.split(',').find_map(|word| word.strip_prefix("user_id=")?.parse().ok())
}

/// Users of a mount that are named, at most.
const HOLDERS_SHOWN: usize = 5;

/// What keeps a folder from being unmounted, as far as this user may see it: `bash (1234) works in
/// it`, a few of them in one line; empty if nothing is found.
///
/// Only links of `/proc` are read, which asks nothing of the mount itself.
pub fn holders(folder: &Path) -> String {
    let mut found: Vec<String> = Vec::new();
    let below: Vec<Mount> = mounts().into_iter().filter(|mount| is_below(mount, folder)).collect();
    found.extend(below.iter().map(|mount| format!("{} is mounted in it", mount.folder.display())));
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let number = process.file_name();
        if !number.as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        if let Some(how) = hold(&process.path(), folder) {
            let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            found.push(format!("{} ({}) {how}", name.trim_end(), number.display()));
        }
        if found.len() > HOLDERS_SHOWN {
            found.truncate(HOLDERS_SHOWN);
            found.push("and others".to_owned());
            break;
        }
    }
    found.join(", ")
}

fn is_below(mount: &Mount, folder: &Path) -> bool {
    mount.folder != folder && mount.folder.starts_with(folder)
}

/// How a process uses files below a folder.
fn hold(process: &Path, folder: &Path) -> Option<String> {
    let leads_in = |link: PathBuf| std::fs::read_link(link).is_ok_and(|to| to.starts_with(folder));
    if leads_in(process.join("cwd")) {
        return Some("works in it".to_owned());
    }
    if leads_in(process.join("root")) {
        return Some("has its root in it".to_owned());
    }
    if leads_in(process.join("exe")) {
        return Some("runs from it".to_owned());
    }
    let open = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let names = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let name: Option<OsString> = names
        .filter_map(|to| to.strip_prefix(folder).map(Path::to_path_buf).ok())
        .map(PathBuf::into_os_string)
        .next();
    name.map(|name| match name.is_empty() {
        true => "has its root open".to_owned(),
        false => format!("has {} open", name.display()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_use_names_its_user() {
        let folder = tempfile::tempdir().unwrap();
        let path = resolved(folder.path()).unwrap();
        assert_eq!(holders(&path), "");
        let _file = std::fs::File::create(path.join("x")).unwrap();
        let said = holders(&path);
        assert!(said.contains(&format!("({}) has x open", std::process::id())), "{said}");
    }

    #[test]
    fn the_root_is_not_ours() {
        let root = at(Path::new("/")).unwrap();
        assert!(!is_ours(&root));
        assert!(resolved(Path::new("/proc/./self/..")).unwrap() == Path::new("/proc"));
        assert!(resolved(Path::new("/none/such")).is_err());
    }
}
