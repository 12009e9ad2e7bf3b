//! Files read and written through memory, by a Python program that lives as long as the tree:
//! memory that a file is behind needs unsafe code in Rust.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::command::program;
use crate::listing::base64;

/// Takes `read|write PATH OFFSET LENGTH BYTE` a line, the path in base64, and answers each with a
/// line: the error's name, or `ok` and the bytes read in hexadecimal. A map ends with its file.
const PROGRAM: &str = r#"
import base64, errno, mmap, os, sys, zlib
for line in sys.stdin:
    what, path, offset, length, byte = line.split()
    path, offset, length = base64.b64decode(path), int(offset), int(length)
    try:
        flags = os.O_RDWR if what == 'write' else os.O_RDONLY
        f = os.open(path, flags | os.O_NONBLOCK)
        try:
            size = os.fstat(f).st_size
            end = min(size, offset + length)
            if offset >= end:
                answer = 'nothing'
            else:
                access = mmap.ACCESS_WRITE if what == 'write' else mmap.ACCESS_READ
                with mmap.mmap(f, size, access=access) as m:
                    if what == 'write':
                        m[offset:end] = bytes([int(byte)]) * (end - offset)
                    answer = 'ok %d %08x' % (end - offset, zlib.crc32(m[offset:end]))
        finally:
            os.close(f)
    except OSError as e:
        answer = errno.errorcode.get(e.errno, str(e.errno))
    print(answer, flush=True)
"#;

/// What is done through memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The bytes are read.
    Read,
    /// Each byte becomes this one, through a shared map.
    Fill(u8),
}

/// The program that maps files.
pub struct Mapper {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Mapper {
    /// Starts it.
    ///
    /// # Errors
    /// Python cannot be started.
    pub fn start() -> Result<Mapper, String> {
        let mut python = program("python3");
        python.args(["-c", PROGRAM]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().map_err(|error| format!("python3: {error}"))?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().ok_or("python3: no output")?);
        Ok(Mapper { child, input, output })
    }

    /// Maps the whole file, and reads or fills this part of it as far as the file reaches; what
    /// came of it, as text.
    ///
    /// # Errors
    /// The program ended: by SIGBUS, where a page could not be read or written.
    pub fn act(
        &mut self,
        path: &OsStr,
        what: Use,
        offset: u64,
        length: u64,
    ) -> Result<String, String> {
        let (word, byte) = match what {
            Use::Read => ("read", 0),
            Use::Fill(byte) => ("write", byte),
        };
        let path = base64(path.as_bytes());
        let line = format!("{word} {path} {offset} {length} {byte}\n");
        let input = self.input.as_mut().ok_or("python3: no input")?;
        input.write_all(line.as_bytes()).map_err(|error| format!("python3: {error}"))?;
        let mut answer = String::new();
        match self.output.read_line(&mut answer) {
            Ok(1..) => Ok(answer.trim_end().to_owned()),
            Ok(0) => Err(format!("python3 ended: {:?}", self.child.wait())),
            Err(error) => Err(format!("python3: {error}")),
        }
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        // It ends with its input.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
