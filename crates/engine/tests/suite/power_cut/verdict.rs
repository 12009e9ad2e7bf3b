//! What a volume may show after a cut.
use crate::power_cut::life::Life;
use extant_block::{BlockDevice, MemoryDevice};
use extant_engine::{Filesystem, Metadata, Options};
use extant_format::inode::FileType;
use extant_testkit::content::{self, RECORD};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The rules, for one cut of one life.
pub struct Verdict<'a> {
    life: &'a Life,
    moment: usize,
    /// Sizes before e2fsck mended the volume, by inode. Where it finds blocks after the end of a
    /// file, it makes the file end with the last of them, and what was not written yet is zeros.
    sizes_before: Option<BTreeMap<u32, u64>>,
}

impl<'a> Verdict<'a> {
    pub fn new(life: &'a Life, moment: usize) -> Verdict<'a> {
        Verdict { life, moment, sizes_before: None }
    }

    /// The same for what e2fsck made of this medium.
    pub fn mended(
        life: &'a Life,
        moment: usize,
        medium: &MemoryDevice,
        options: &Options,
    ) -> Verdict<'a> {
        let mut sizes = BTreeMap::new();
        walk(medium, options, &mut |_, _, metadata| {
            sizes.insert(metadata.ino.0, metadata.size);
        });
        Verdict { sizes_before: Some(sizes), ..Verdict::new(life, moment) }
    }

    /// Everything that the volume shows and may not.
    pub fn read(&self, medium: &MemoryDevice, options: &Options) -> Vec<String> {
        let mut faults = Vec::new();
        walk(medium, options, &mut |volume, path, metadata| {
            self.judge(volume, path, metadata, &mut faults);
        });
        faults
    }

    fn judge(
        &self,
        volume: &Filesystem,
        path: &str,
        metadata: &Metadata,
        faults: &mut Vec<String>,
    ) {
        match metadata.file_type {
            FileType::Regular => {
                if let Ok(bytes) = volume.read(path)
                    && let Err(fault) = self.judge_content(&bytes, metadata.ino.0)
                {
                    faults.push(format!("{path}: {fault}"));
                }
            }
            FileType::Symlink => {
                if let Ok(target) = volume.read_link(path)
                    && !self.life.targets.contains(&target)
                {
                    faults.push(format!("{path} leads to {:?}", String::from_utf8_lossy(&target)));
                }
            }
            _ => {}
        }
        for attribute in volume.attributes(path).unwrap_or_default() {
            if !self.life.values.contains(&attribute.value) {
                faults.push(format!("{path} has a value that was never set"));
            }
        }
    }

    /// Every record was written to this file at this place; zeros are only where the file once had
    /// zeros.
    fn judge_content(&self, bytes: &[u8], ino: u32) -> Result<(), String> {
        let mut owner = None;
        let mut zeros: Vec<u64> = Vec::new();
        for (at, piece) in (0..).step_by(RECORD).zip(bytes.chunks(RECORD)) {
            let Some(record) =
                content::parse(piece).map_err(|fault| format!("byte {at}: {fault}"))?
            else {
                zeros.push(at);
                continue;
            };
            let first = *owner.get_or_insert(record.owner);
            if record.owner != first || record.offset != at {
                return Err(format!("byte {at} of the file of {first} is {record:?}"));
            }
            let history = self.life.histories.get(&record.owner);
            let written = history.and_then(|history| history.writes.get(&record.write));
            if !written.is_some_and(|range| range.contains(&at)) {
                return Err(format!("byte {at}: {record:?} was never written"));
            }
        }
        // Of a file that had no name before it was mended nothing is known.
        let size = self
            .sizes_before
            .as_ref()
            .map_or(u64::MAX, |sizes| sizes.get(&ino).copied().unwrap_or(0));
        zeros.retain(|at| *at < size);
        self.judge_zeros(owner, &zeros)
    }

    fn judge_zeros(&self, owner: Option<u32>, zeros: &[u64]) -> Result<(), String> {
        let allowed = |owner: &u32, at: u64| {
            let history = self.life.histories.get(owner);
            history.is_some_and(|history| history.zeros.iter().any(|range| range.contains(&at)))
        };
        for at in zeros {
            // A file of nothing but zeros does not say whose it is: one that may be so is enough.
            let right = match owner {
                Some(owner) => allowed(&owner, *at),
                None => self.life.histories.keys().any(|owner| allowed(owner, *at)),
            };
            if !right {
                return Err(format!("byte {at} of the file of {owner:?} is zero, and never was"));
            }
        }
        Ok(())
    }

    /// What was synced, and not touched since, is there.
    pub fn kept(&self, medium: &MemoryDevice, options: &Options) -> Vec<String> {
        let volume = match open(medium, options) {
            Ok(volume) => volume,
            Err(error) => return vec![format!("after e2fsck: {error}")],
        };
        let holds =
            self.life.kept.iter().filter(|kept| (kept.from..=kept.until).contains(&self.moment));
        let faults = holds.filter_map(|kept| match volume.read(&kept.path) {
            Err(error) => Some(format!("was synced: {error}")),
            Ok(bytes) if kept.contents.contains(&bytes) => None,
            Ok(bytes) => Some(format!(
                "{}: {} bytes that it never had (once {:?})",
                kept.path,
                bytes.len(),
                kept.contents.iter().map(Vec::len).collect::<Vec<_>>()
            )),
        });
        faults.collect()
    }
}

fn open(medium: &MemoryDevice, options: &Options) -> Result<Filesystem, String> {
    let device = Arc::new(medium.snapshot()) as Arc<dyn BlockDevice>;
    Filesystem::open(device, options).map_err(|error| error.to_string())
}

/// Gives everything that a volume shows, each inode once. What cannot be read shows nothing.
fn walk(
    medium: &MemoryDevice,
    options: &Options,
    each: &mut dyn FnMut(&Filesystem, &str, &Metadata),
) {
    let Ok(volume) = open(medium, options) else { return };
    let mut seen = BTreeSet::new();
    let mut directories = vec![String::new()];
    while let Some(directory) = directories.pop() {
        let Ok(entries) = volume.read_dir(format!("{directory}/")) else {
            continue;
        };
        for entry in entries {
            let path = format!("{directory}/{}", String::from_utf8_lossy(&entry.name));
            let Ok(metadata) = volume.symlink_metadata(&path) else {
                continue;
            };
            if !seen.insert(metadata.ino.0) {
                continue;
            }
            if metadata.file_type == FileType::Directory {
                directories.push(path.clone());
            }
            each(&volume, &path, &metadata);
        }
    }
}
