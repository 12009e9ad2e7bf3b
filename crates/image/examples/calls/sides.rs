//! The two that are compared: the engine in this process, and the kernel.
use extant_block::{BlockDevice, FileDevice, MemoryDevice, RealClock, file};
use extant_engine::preset::Policies;
use extant_engine::{Access, DataKeeping, File, Filesystem, Options};
use std::error::Error;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Memory of the engine, in bytes.
const CACHE_BYTES: usize = 2 << 30;

/// Calls by path. Paths have no slash in front.
pub trait Side: Sync {
    fn make_directory(&self, path: &str) -> Outcome<()>;
    /// Makes a file, which is open then.
    fn create(&self, path: &str) -> Outcome<Box<dyn Open>>;
    fn open(&self, path: &str) -> Outcome<Box<dyn Open>>;
    /// The size, in bytes.
    fn stat(&self, path: &str) -> Outcome<u64>;
    fn unlink(&self, path: &str) -> Outcome<()>;
    /// How many names there are.
    fn list(&self, path: &str) -> Outcome<u64>;
    /// Makes everything durable.
    fn sync(&self) -> Outcome<()>;
    /// Closes it.
    fn end(self) -> Outcome<()>
    where
        Self: Sized;
}

/// An open file.
pub trait Open {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Outcome<usize>;
    fn write(&self, offset: u64, bytes: &[u8]) -> Outcome<()>;
    fn sync(&self) -> Outcome<()>;
}

/// The engine.
pub struct Ours {
    filesystem: Filesystem,
}

impl Ours {
    pub fn open(image: &str, policies: &str) -> Outcome<Ours> {
        let clock = RealClock::new();
        let device = FileDevice::open(clock, image.as_ref(), file::Access::ReadWrite, 0)?;
        Ours::on(Arc::new(device), policies)
    }

    /// On a copy of the image in memory, which is lost in the end.
    pub fn in_memory(image: &str, policies: &str) -> Outcome<Ours> {
        const PIECE_BYTES: usize = 1 << 20;
        let image = std::fs::File::open(image)?;
        let size = image.metadata()?.len();
        let device = MemoryDevice::new(RealClock::new(), size);
        let mut piece = vec![0; PIECE_BYTES];
        for offset in (0..size).step_by(PIECE_BYTES) {
            let piece = &mut piece[..(size - offset).min(PIECE_BYTES as u64) as usize];
            image.read_exact_at(piece, offset)?;
            if piece.iter().any(|byte| *byte != 0) {
                // tidy: writers because the volume is not open yet
                device.write(offset, piece)?;
            }
        }
        Ours::on(Arc::new(device), policies)
    }

    fn on(device: Arc<dyn BlockDevice>, policies: &str) -> Outcome<Ours> {
        let policies: Policies = policies.parse().map_err(|error| format!("{error}"))?;
        let (access, data) = (Access::ReadWrite, DataKeeping::Bytes);
        let options = Options { access, policies, cache_bytes: CACHE_BYTES, data };
        Ok(Ours { filesystem: Filesystem::open(device, &options)? })
    }
}

impl Side for Ours {
    fn make_directory(&self, path: &str) -> Outcome<()> {
        Ok(self.filesystem.create_dir(path, 0o755)?)
    }
    fn create(&self, path: &str) -> Outcome<Box<dyn Open>> {
        Ok(Box::new(self.filesystem.create_file(path, 0o644)?))
    }
    fn open(&self, path: &str) -> Outcome<Box<dyn Open>> {
        Ok(Box::new(self.filesystem.open_file(path)?))
    }
    fn stat(&self, path: &str) -> Outcome<u64> {
        Ok(self.filesystem.metadata(path)?.size)
    }
    fn unlink(&self, path: &str) -> Outcome<()> {
        Ok(self.filesystem.remove_file(path)?)
    }
    fn list(&self, path: &str) -> Outcome<u64> {
        Ok(self.filesystem.read_dir(path)?.len() as u64)
    }
    fn sync(&self) -> Outcome<()> {
        Ok(self.filesystem.sync()?)
    }
    fn end(self) -> Outcome<()> {
        Ok(self.filesystem.close()?)
    }
}

impl Open for File {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Outcome<usize> {
        Ok(self.read_at(offset, bytes)?)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> Outcome<()> {
        Ok(self.write_all_at(offset, bytes)?)
    }
    fn sync(&self) -> Outcome<()> {
        Ok(File::sync(self)?)
    }
}

/// What the kernel has mounted.
pub struct Host {
    folder: String,
}

impl Host {
    pub fn new(folder: &str) -> Host {
        Host { folder: folder.to_owned() + "/" }
    }

    fn at(&self, path: &str) -> PathBuf {
        let mut at = String::with_capacity(self.folder.len() + path.len());
        at.push_str(&self.folder);
        at.push_str(path);
        at.into()
    }
}

impl Side for Host {
    fn make_directory(&self, path: &str) -> Outcome<()> {
        Ok(std::fs::create_dir(self.at(path))?)
    }
    fn create(&self, path: &str) -> Outcome<Box<dyn Open>> {
        let mut options = std::fs::File::options();
        let file =
            options.create(true).truncate(true).read(true).write(true).open(self.at(path))?;
        Ok(Box::new(file))
    }
    fn open(&self, path: &str) -> Outcome<Box<dyn Open>> {
        Ok(Box::new(std::fs::File::options().read(true).write(true).open(self.at(path))?))
    }
    fn stat(&self, path: &str) -> Outcome<u64> {
        Ok(std::fs::metadata(self.at(path))?.len())
    }
    fn unlink(&self, path: &str) -> Outcome<()> {
        Ok(std::fs::remove_file(self.at(path))?)
    }
    fn list(&self, path: &str) -> Outcome<u64> {
        let mut names = 0;
        for entry in std::fs::read_dir(self.at(path))? {
            names += u64::from(!entry?.file_name().is_empty());
        }
        Ok(names)
    }
    fn sync(&self) -> Outcome<()> {
        Ok(rustix::fs::syncfs(std::fs::File::open(&self.folder)?)?)
    }
    fn end(self) -> Outcome<()> {
        Ok(())
    }
}

impl Open for std::fs::File {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Outcome<usize> {
        Ok(self.read_at(bytes, offset)?)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> Outcome<()> {
        Ok(self.write_all_at(bytes, offset)?)
    }
    fn sync(&self) -> Outcome<()> {
        Ok(self.sync_all()?)
    }
}
