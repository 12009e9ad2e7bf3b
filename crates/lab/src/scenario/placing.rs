//! Files onto an empty volume at once: what is there before anything is measured.
//!
//! Blocks and maps are given by the policies of the file system, file after file, as if each had
//! been written in one go; there are no pages, and the drive has no part in it. So 400 GB take
//! seconds of the host.
use super::process::{Outcome, Stop, Worker};
use super::step::PlacedFiles;
use extant_engine::Filesystem;
use extant_engine::import::{NewEntry, NewNode};
use extant_format::Ino;
use extant_format::inode::{FileType, Time};
use std::sync::Arc;

/// The first second of 2001, as file systems are made.
const TIME: Time = Time { seconds: 978_307_200, nanoseconds: 0 };
/// What mkfs puts at the top.
pub(super) const LOST_AND_FOUND: &str = "lost+found";
/// Blocks between two looks at memory are those of a file; files between two looks, when they are
/// small.
const LOOK_FILES: usize = 64;

impl Worker {
    /// Lays files at the top of a file system that holds none.
    pub(super) fn place(&mut self, files: &[PlacedFiles]) -> Outcome {
        let world = Arc::clone(&self.world);
        let mut planned: Vec<(String, u64)> = Vec::new();
        for files in files {
            let count = world.scaled(files.count);
            planned.extend(
                (0..count)
                    .map(|number| (files.names.replace("%d", &number.to_string()), files.bytes)),
            );
        }
        let mount = &world.mounts[self.mount()?];
        mount.at_once(|filesystem| lay(filesystem, &planned)).map_err(Stop::Failed)?;
        self.work.files += planned.len() as u64;
        self.work.bytes_written += planned.iter().map(|(_, bytes)| bytes).sum::<u64>();
        Ok(())
    }
}

fn lay(filesystem: &Filesystem, planned: &[(String, u64)]) -> Result<(), String> {
    let first = first_free(filesystem)?;
    let failed = |error: extant_engine::Error| error.to_string();
    let mut import = filesystem.import();
    let ino =
        |number: usize| u32::try_from(number).map(|number| Ino(first.0.saturating_add(number)));
    let mut names = vec![NewEntry {
        name: LOST_AND_FOUND.as_bytes(),
        ino: Ino(first.0 - 1),
        file_type: FileType::Directory,
    }];
    for (number, (name, _)) in planned.iter().enumerate() {
        names.push(NewEntry {
            name: name.as_bytes(),
            ino: ino(number).map_err(|error| error.to_string())?,
            file_type: FileType::Regular,
        });
    }
    import.root(&node(0o755, 3), &mut names.into_iter()).map_err(failed)?;
    for (number, (name, bytes)) in planned.iter().enumerate() {
        if number % LOOK_FILES == 0 {
            import.balance().map_err(failed)?;
        }
        let whole = 0..*bytes;
        let data = &mut std::iter::once(whole).filter(|data| !data.is_empty());
        let made = import.file(&node(0o644, 1), *bytes, data, &mut |_| {});
        let made = made.map_err(|error| format!("{name}: {error}"))?;
        if Ok(made) != ino(number) {
            return Err(format!("{name}: inode {} was not free", made.0));
        }
    }
    Ok(())
}

/// The inode behind lost+found, when there is nothing else.
pub(super) fn first_free(filesystem: &Filesystem) -> Result<Ino, String> {
    let entries = filesystem.read_dir("/").map_err(|error| error.to_string())?;
    let mut lost = None;
    for entry in entries {
        match entry.name.as_slice() {
            b"." | b".." => {}
            name if name == LOST_AND_FOUND.as_bytes() => lost = Some(entry.ino),
            _ => return Err("the file system is not empty".to_owned()),
        }
    }
    let lost = lost.ok_or("the file system has no lost+found")?;
    Ok(Ino(lost.0 + 1))
}

/// A file or directory of the tree: of no owner, of one time.
pub(super) fn node(permissions: u16, links: u32) -> NewNode<'static> {
    NewNode {
        permissions,
        uid: 0,
        gid: 0,
        flags: 0,
        links,
        access_time: TIME,
        change_time: TIME,
        modify_time: TIME,
        create_time: TIME,
        attributes: &[],
        attribute_list: 0,
    }
}
