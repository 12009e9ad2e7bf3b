//! A file or a block special file as a device: pread and pwrite.
use crate::clock::Clock;
use crate::device::{BlockDevice, DeviceInfo, Request};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// What may be done with a device that is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads only.
    ReadOnly,
    /// Reads and writes.
    ReadWrite,
}

/// A file as a device, seen from byte `origin` on.
pub struct FileDevice {
    _file: File,
}

impl FileDevice {
    /// Opens an existing file or block special file. `origin` is the byte that counts as 0 (a partition's start).
    pub fn open(_clock: Arc<dyn Clock>, _path: &Path, _access: Access, _origin: u64) -> std::io::Result<FileDevice> {
        todo!()
    }
    /// An open file that is to be `bytes` long (it may be shorter now: holes read as zeros).
    pub fn from_file(_clock: Arc<dyn Clock>, _file: File, _name: String, _bytes: u64, _origin: u64) -> std::io::Result<FileDevice> {
        todo!()
    }
}

impl BlockDevice for FileDevice {
    fn info(&self) -> DeviceInfo {
        todo!()
    }
    fn clock(&self) -> &Arc<dyn Clock> {
        todo!()
    }
    fn submit(&self, _request: Request) {
        todo!()
    }
}
