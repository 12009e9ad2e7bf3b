//! Lines and records of an input of any length.
use super::TraceError;
use std::io::{BufRead, Read};

/// No line of a trace is longer.
const LINE_BYTES_MAX: usize = 4096;

/// Lines or records, with their numbers.
pub(super) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Lines<R> {
        Lines { input, buffer: Vec::new(), number: 0 }
    }

    /// The number of the last line or record, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The next line without its end, and its number.
    pub(super) fn next_line(&mut self) -> Result<Option<(u64, &[u8])>, TraceError> {
        self.buffer.clear();
        let mut limited = self.input.by_ref().take(LINE_BYTES_MAX as u64 + 1);
        let read = limited.read_until(b'\n', &mut self.buffer).map_err(TraceError::Input)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.buffer.len() > LINE_BYTES_MAX {
            let reason = format!("is longer than {LINE_BYTES_MAX} bytes");
            return Err(TraceError::Line { line: self.number as usize, reason });
        }
        let line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        Ok(Some((self.number, line.strip_suffix(b"\r").unwrap_or(line))))
    }

    /// The next record of so many bytes, and its number.
    pub(super) fn next_record(&mut self, bytes: usize) -> Result<Option<(u64, &[u8])>, TraceError> {
        self.buffer.clear();
        let mut limited = self.input.by_ref().take(bytes as u64);
        let read = limited.read_to_end(&mut self.buffer).map_err(TraceError::Input)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if read < bytes {
            let reason = format!("{read} bytes are left of its {bytes}");
            let record = self.number as usize;
            return Err(TraceError::Record { record, byte: (record - 1) * bytes, reason });
        }
        Ok(Some((self.number, &self.buffer)))
    }
}
