//! Tar archives made for a measurement: plain ustar, names below a hundred bytes, nothing else.

use std::io::{Error, Write};

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member<'a> {
    /// A directory.
    Directory,
    /// A file with these bytes.
    File(&'a [u8]),
}

const RECORD: usize = 512;

/// Appends one entry; `name` is at most 100 bytes.
///
/// # Errors
/// The output's.
pub fn append(output: &mut impl Write, name: &str, member: Member<'_>) -> Result<(), Error> {
    let (kind, mode, bytes) = match member {
        Member::Directory => (b'5', 0o755, &[][..]),
        Member::File(bytes) => (b'0', 0o644, bytes),
    };
    let mut header = [0u8; RECORD];
    let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
    put(0, &name.as_bytes()[..name.len().min(100)]);
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000");
    put(116, b"0000000");
    put(124, format!("{:011o}", bytes.len()).as_bytes());
    put(136, format!("{:011o}", 1_600_000_000).as_bytes());
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    output.write_all(&header)?;
    output.write_all(bytes)?;
    output.write_all(&[0; RECORD][..(RECORD - bytes.len() % RECORD) % RECORD])
}

/// Appends the end of the archive.
///
/// # Errors
/// The output's.
pub fn finish(output: &mut impl Write) -> Result<(), Error> {
    output.write_all(&[0; 2 * RECORD])?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command;
    use crate::oracle::require;
    use crate::scratch::Scratch;

    #[test]
    fn tar_reads_what_was_written() {
        if !require("tar") {
            return;
        }
        let mut bytes = Vec::new();
        append(&mut bytes, "folder/", Member::Directory).expect("a vector takes all");
        append(&mut bytes, "folder/file", Member::File(&[b'x'; 600])).expect("a vector takes all");
        finish(&mut bytes).expect("a vector takes all");
        let folder = Scratch::new("archive");
        std::fs::write(folder.join("test.tar"), &bytes).expect("written");
        let listed =
            command::output(command::program("tar").arg("-tvf").arg(folder.join("test.tar")))
                .expect("tar reads");
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(
            listed.contains("drwxr-xr-x")
                && listed.contains(" 600 ")
                && listed.contains("folder/file"),
            "{listed}"
        );
    }
}
