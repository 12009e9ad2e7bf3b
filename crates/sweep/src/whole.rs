//! Files that are written whole or not at all, also beside other processes and machines.
//!
//! *Invariants*: a file has its final name only after all of its bytes are on the device; who is
//! killed before leaves a file whose name begins with a point and says host and process.
//! *Locking*: none; a rename takes the place of a file that another process wrote meanwhile.
use crate::error::{Error, Result};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// No host has a longer name.
const HOST_LENGTH_MAX: usize = 64;

/// The name of this host, as a part of a file's name.
pub fn host() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();
    HOST.get_or_init(|| {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let plain = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '_';
        let name: String = name.chars().filter(plain).take(HOST_LENGTH_MAX).collect();
        if name.is_empty() { "host".into() } else { name }
    })
}

/// The path beside `path` that a file has until it is whole. It ends as `path` does, and no other
/// call gives it, in whatever process.
pub fn partial(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
    path.with_file_name(format!(".{}-{}-{number}.{name}", host(), std::process::id()))
}

/// Writes a file whole: its bytes are on the device before it has its name.
///
/// # Errors
/// What the host says of the file. Nothing is left of one that could not be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let partial = partial(path);
    let written = File::create(&partial).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_data()
    });
    let renamed = written.and_then(|()| std::fs::rename(&partial, path));
    renamed.map_err(|error| {
        let _ = std::fs::remove_file(&partial);
        Error::io(path, &error)
    })
}

/// Gives a file that was written under its partial name the final one.
///
/// # Errors
/// What the host says of it.
pub fn keep(partial: &Path, path: &Path) -> Result<()> {
    let kept = File::open(partial).and_then(|file| file.sync_all());
    kept.and_then(|()| std::fs::rename(partial, path)).map_err(|error| Error::io(path, &error))
}

/// Removes what processes of this host that are gone have left in a folder. What cannot be removed
/// stays: it is in nobody's way.
pub fn sweep_out(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(left_by) else { continue };
        if !is_running(process) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Whether a process of this host goes on. One that ended and that nobody has waited for does not.
fn is_running(process: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{process}/stat"));
    // The name of the program may have anything in it: its state is after the last parenthesis.
    state.is_ok_and(|text| !text.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
}

/// The process of this host that began the file of this name.
fn left_by(name: &str) -> Option<u32> {
    // What a command writes until it is whole has one more point, and this name after it.
    let rest = name.strip_prefix('.')?.trim_start_matches('.').strip_prefix(host())?;
    let (process, rest) = rest.strip_prefix('-')?.split_once('-')?;
    let (number, _) = rest.split_once('.')?;
    number.parse::<u64>().ok()?;
    process.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use extant_testkit::scratch::Scratch;

    #[test]
    fn only_what_is_whole_has_its_name_and_leftovers_go() {
        let folder = Scratch::new("whole");
        let path = folder.join("a.json");
        write(&path, b"one").expect("it is written");
        write(&path, b"two").expect("it is replaced");
        assert_eq!(std::fs::read(&path).expect("it is there"), b"two");
        let beside = folder.join("none").join("a.json");
        assert!(write(&beside, b"x").expect_err("no folder").message.contains("none/a.json"));
        // Of a process that is gone, of this one, and of another host.
        let gone = format!(".{}-4194999-0.a.json", host());
        let own = partial(&path);
        let other = ".elsewhere_9-4194999-0.a.json";
        let built = format!("..{}-4194999-0.a.img.extant-0123456789ab.partial", host());
        for name in [folder.join(&gone), folder.join(&built), own.clone(), folder.join(other)] {
            std::fs::write(name, b"half").expect("a file");
        }
        sweep_out(folder.path());
        assert!(!folder.join(&gone).exists() && !folder.join(&built).exists());
        assert!(own.exists() && folder.join(other).exists() && path.exists());
    }
}
