//! Device errors, with the name of the device.
use crate::device::Operation;
use std::error::Error;
use std::fmt;
use std::io;

/// A failed request: on which device, what it should have done and where, and why it failed.
///
/// Devices return it inside an `io::Error` of the same kind, so that `kind()` still tells
/// `StorageFull` and the like apart; [`raw_os_error`] finds the host's number.
#[derive(Debug)]
pub struct DeviceError {
    /// The device's name.
    pub device: String,
    /// What was requested.
    pub operation: Operation,
    /// First byte of the request on the device.
    pub offset: u64,
    /// The cause.
    pub source: io::Error,
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeviceError { device, operation, offset, source } = self;
        match operation {
            Operation::Read => write!(f, "{device}: read at byte {offset}: {source}"),
            Operation::Write => write!(f, "{device}: write at byte {offset}: {source}"),
            Operation::Flush => write!(f, "{device}: flush: {source}"),
        }
    }
}

impl Error for DeviceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

impl From<DeviceError> for io::Error {
    fn from(error: DeviceError) -> io::Error {
        io::Error::new(error.source.kind(), error)
    }
}

/// The host's error number, even if the error carries a [`DeviceError`].
pub fn raw_os_error(error: &io::Error) -> Option<i32> {
    let inner = || error.get_ref()?.downcast_ref::<DeviceError>()?.source.raw_os_error();
    error.raw_os_error().or_else(inner)
}
