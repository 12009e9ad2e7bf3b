//! Where the bytes of an image are: a file of the host, memory, or a device of the caller.
//!
//! *Locking*: who uses a [`Memory`] is under one short lock, held for a comparison.
use crate::error::{Error, ErrorKind, Result};
use extant_block::capability::Capabilities;
use extant_block::device::segments_bytes;
use extant_block::{
    Access, BlockDevice, Clock, DeviceError, DeviceInfo, MemoryDevice, Operation, RealClock,
    Request, ShortLock,
};
use extant_image::assemble::{InMemory, Medium};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What messages call a device of the caller.
const DEVICE: &str = "device";
/// What messages call an open file.
const FILE: &str = "file";

/// The bytes of an image, before it is opened. A path, a [`File`], a [`Memory`] and the bytes of a
/// `Vec` become one by [`From`], so that functions take any of them as they are.
pub struct Image {
    pub(crate) bytes: Bytes,
}

/// The kinds of bytes.
pub(crate) enum Bytes {
    Path(PathBuf),
    File(File),
    Memory(Memory),
    Device(Arc<dyn Device>),
}

impl Image {
    /// A device of the caller.
    pub fn device(device: Arc<dyn Device>) -> Image {
        Image { bytes: Bytes::Device(device) }
    }

    /// What messages call it.
    pub(crate) fn name(&self) -> String {
        match &self.bytes {
            Bytes::Path(path) => path.display().to_string(),
            Bytes::File(_) => FILE.to_owned(),
            Bytes::Memory(_) => "memory".to_owned(),
            Bytes::Device(_) => DEVICE.to_owned(),
        }
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({})", self.name())
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Image {
    fn from(path: &P) -> Image {
        Image { bytes: Bytes::Path(path.as_ref().to_owned()) }
    }
}
impl From<PathBuf> for Image {
    fn from(path: PathBuf) -> Image {
        Image { bytes: Bytes::Path(path) }
    }
}
impl From<String> for Image {
    fn from(path: String) -> Image {
        PathBuf::from(path).into()
    }
}
/// Read where it is open for reading, written where it is open for both. It is claimed as a path
/// is.
impl From<File> for Image {
    fn from(file: File) -> Image {
        Image { bytes: Bytes::File(file) }
    }
}
impl From<Memory> for Image {
    fn from(memory: Memory) -> Image {
        Image { bytes: Bytes::Memory(memory) }
    }
}
/// A copy of them, which is gone when the volume is closed: [`Memory`] keeps what is written.
impl From<Vec<u8>> for Image {
    fn from(bytes: Vec<u8>) -> Image {
        Memory::from(bytes).into()
    }
}

/// A device of the caller: what a volume is read from, and written to if that is asked for. Calls
/// come from several threads, at the same time.
pub trait Device: Send + Sync + 'static {
    /// Its length in bytes, which stays as it is while a volume is open.
    fn len(&self) -> u64;

    /// Fills `bytes` with those from `offset` on. Never asked for any past the end.
    ///
    /// # Errors
    /// Why it cannot; a part of them is of no use.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Stores all of `bytes` from `offset` on: later reads see them. Never asked for any past the
    /// end, nor by a volume that is only read.
    ///
    /// # Errors
    /// Why it cannot, as by default: after that the volume is not written any more, and
    /// [`Volume::close`](crate::Volume::close) says so.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let _ = (offset, bytes);
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    /// Makes durable what was stored before: a journal is worth what this is. By default there is
    /// nothing to do.
    ///
    /// # Errors
    /// Why it cannot, as for a write.
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Memory with an image. Zeros take none of it; clones are the same memory.
///
/// One volume may be open on it for writing, or several for reading.
#[derive(Clone, Default)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    image: InMemory,
    users: ShortLock<Users>,
}

/// Who uses a memory.
#[derive(Clone, Copy, Default)]
struct Users {
    readers: usize,
    has_writer: bool,
}

/// Keeps a memory from others for as long as it lives.
pub(crate) struct Hold {
    shared: Arc<Shared>,
    access: Access,
}

impl Memory {
    /// Memory of no bytes, for an image that is built into it.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// All bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let device = self.shared.image.device();
        let mut bytes = vec![0; usize::try_from(device.info().bytes).unwrap_or(0)];
        // It is exactly that long.
        let read = device.read(0, &mut bytes);
        debug_assert!(read.is_ok(), "{read:?}");
        bytes
    }

    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        self.shared.image.device().info().bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What an image is built into.
    pub(crate) fn medium(&self) -> &dyn Medium {
        &self.shared.image
    }

    /// The bytes as they are now, by this clock.
    pub(crate) fn device(&self, clock: &Arc<dyn Clock>) -> Result<Arc<dyn BlockDevice>> {
        Ok(self.medium().device(clock, "memory", 0, self.len())?)
    }

    pub(crate) fn hold(&self, access: Access) -> Result<Hold> {
        let writes = access == Access::ReadWrite;
        let mut users = self.shared.users.lock();
        if users.has_writer || (writes && users.readers > 0) {
            return Err(Error::new(ErrorKind::InUse, "memory: is open elsewhere"));
        }
        match writes {
            true => users.has_writer = true,
            false => users.readers += 1,
        }
        Ok(Hold { shared: Arc::clone(&self.shared), access })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut users = self.shared.users.lock();
        match self.access {
            Access::ReadWrite => users.has_writer = false,
            Access::ReadOnly => users.readers = users.readers.saturating_sub(1),
        }
    }
}

impl From<Vec<u8>> for Memory {
    fn from(bytes: Vec<u8>) -> Memory {
        Memory::from(&bytes[..])
    }
}
impl From<&[u8]> for Memory {
    fn from(bytes: &[u8]) -> Memory {
        let device = MemoryDevice::from_bytes(RealClock::new(), bytes);
        let image = InMemory::from(device);
        Memory { shared: Arc::new(Shared { image, users: ShortLock::default() }) }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes)", self.len())
    }
}

/// A device of the caller as one of the engine: each request is done at once, by the thread that
/// makes it.
pub(crate) struct Adapter {
    device: Arc<dyn Device>,
    clock: Arc<dyn Clock>,
    bytes: u64,
    access: Access,
}

impl Adapter {
    pub(crate) fn new(device: Arc<dyn Device>, clock: Arc<dyn Clock>, access: Access) -> Adapter {
        let bytes = device.len();
        Adapter { device, clock, bytes, access }
    }

    fn perform(&self, request: &mut Request) -> io::Result<()> {
        let mut at = request.offset;
        let end = at.checked_add(segments_bytes(&request.segments));
        let is_within = end.is_some_and(|end| end <= self.bytes);
        match request.operation {
            // tidy: writers because it is what a device does
            Operation::Flush => return self.device.flush(),
            Operation::Read if !is_within => return Err(io::ErrorKind::UnexpectedEof.into()),
            Operation::Write if self.access == Access::ReadOnly => {
                return Err(io::ErrorKind::ReadOnlyFilesystem.into());
            }
            Operation::Write if !is_within => return Err(io::ErrorKind::InvalidInput.into()),
            Operation::Read | Operation::Write => {}
        }
        for segment in &mut request.segments {
            let bytes = segment.bytes() as u64;
            match request.operation {
                Operation::Write => {
                    if let Some(content) = segment.content() {
                        // tidy: writers because it is what a device does
                        self.device.write_at(at, content)?;
                    }
                }
                _ if segment.is_shared() => return Err(io::ErrorKind::InvalidInput.into()),
                _ => {
                    if let Some(target) = segment.target() {
                        self.device.read_at(at, target)?;
                    }
                }
            }
            at = at.saturating_add(bytes);
        }
        Ok(())
    }
}

impl BlockDevice for Adapter {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            name: DEVICE.to_owned(),
            bytes: self.bytes,
            sector_bytes: 512,
            read_only: self.access == Access::ReadOnly,
        }
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
    fn submit(&self, mut request: Request) {
        let result = self.perform(&mut request).map_err(|source| {
            let (operation, offset) = (request.operation, request.offset);
            DeviceError { device: DEVICE.to_owned(), operation, offset, source }.into()
        });
        request.complete(result);
    }
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::NONE
    }
}
