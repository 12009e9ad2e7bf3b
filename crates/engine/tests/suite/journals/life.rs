//! What is done on a volume: a little of everything that changes metadata, by a seed.
use extant_engine::{ErrorKind, File, Filesystem, Rename, Result, SetAttribute, Size};
use extant_testkit::numbers::Numbers;

/// Directories, and the files in each that are chosen from.
const FOLDERS: u64 = 4;
const FILES: u64 = 10;
/// Files that are kept open without a name, at most.
const NAMELESS: usize = 3;

/// One process on the volume.
pub struct Life {
    numbers: Numbers,
    nameless: Vec<File>,
}

impl Life {
    /// The life of this seed.
    pub fn new(seed: u64) -> Life {
        Life { numbers: Numbers::new(seed), nameless: Vec::new() }
    }

    /// Makes the directories.
    pub fn begin(&mut self, volume: &Filesystem) -> Result<()> {
        (0..FOLDERS).try_for_each(|number| volume.create_dir(format!("/d{number}"), 0o755))
    }

    /// Does one thing, and sometimes a sync. Names that are not there and a full volume are part of
    /// it.
    pub fn step(&mut self, volume: &Filesystem) -> Result<()> {
        let result = self.change(volume).and_then(|()| match self.numbers.below(6) {
            0 => volume.open_file(self.path())?.sync(),
            1 if self.numbers.below(6) == 0 => volume.sync(),
            _ => Ok(()),
        });
        match result {
            Err(error) if matches!(error.kind, ErrorKind::Device(_) | ErrorKind::Corrupt(_)) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    fn folder(&mut self) -> String {
        format!("/d{}", self.numbers.below(FOLDERS))
    }

    fn path(&mut self) -> String {
        let folder = self.folder();
        format!("{folder}/f{}", self.numbers.below(FILES))
    }

    fn change(&mut self, volume: &Filesystem) -> Result<()> {
        let path = self.path();
        match self.numbers.below(16) {
            0..=2 => self.write(volume, 40_000),
            3 => self.write(volume, 400_000),
            4 | 5 => volume.open_file(path)?.set_len(self.numbers.below(200_000)),
            6 | 7 => volume.remove_file(path),
            8 | 9 => volume.rename(self.path(), path, Rename::Replace),
            10 => volume.hard_link(self.path(), path),
            11 => volume.symlink("x".repeat(1 + self.numbers.below(200) as usize), path),
            12 => self.attribute(volume),
            13 => self.allocate(volume),
            14 => self.wide(volume),
            _ => self.remove_open(volume),
        }
    }

    fn write(&mut self, volume: &Filesystem, most: u64) -> Result<()> {
        let path = self.path();
        let file = match volume.open_file(&path) {
            Ok(file) => file,
            Err(_) => volume.create_file(&path, 0o644)?,
        };
        let length = self.numbers.below(most) as usize;
        let offset = self.numbers.below(3) * self.numbers.below(50_000);
        file.write_all_at(offset, &self.numbers.bytes(length))
    }

    fn attribute(&mut self, volume: &Filesystem) -> Result<()> {
        // The kernel gives symlinks no attributes of users.
        let name = format!("trusted.a{}", self.numbers.below(3));
        if self.numbers.below(4) == 0 {
            return volume.remove_attribute(self.path(), name.as_bytes());
        }
        let length = self.numbers.below(600) as usize;
        let value = self.numbers.bytes(length);
        volume.set_attribute(self.path(), name.as_bytes(), &value, SetAttribute::Any)
    }

    fn allocate(&mut self, volume: &Filesystem) -> Result<()> {
        let file = volume.open_file(self.path())?;
        let (offset, length) = (self.numbers.below(90_000), 1 + self.numbers.below(90_000));
        match self.numbers.below(3) {
            0 => file.allocate(offset, length, Size::Grow),
            1 => file.allocate(offset, length, Size::Keep),
            _ => file.punch_hole(offset, length),
        }
    }

    /// A directory of long names comes, or goes with all its blocks.
    fn wide(&mut self, volume: &Filesystem) -> Result<()> {
        let folder = format!("/wide{}", self.numbers.below(2));
        let path = |number: u64| format!("{folder}/{number:0>120}");
        const NAMES: u64 = 30;
        if volume.create_dir(&folder, 0o755).is_ok() {
            return (0..NAMES).try_for_each(|number| volume.write(path(number), b"x"));
        }
        for number in 0..NAMES {
            let _ = volume.remove_file(path(number));
        }
        volume.remove_dir(&folder)
    }

    fn remove_open(&mut self, volume: &Filesystem) -> Result<()> {
        let path = self.path();
        let file = volume.open_file(&path)?;
        volume.remove_file(&path)?;
        let bytes = self.numbers.bytes(5000);
        file.write_all_at(self.numbers.below(50_000), &bytes)?;
        if self.nameless.len() == NAMELESS {
            self.nameless.remove(0);
        }
        self.nameless.push(file);
        Ok(())
    }
}
