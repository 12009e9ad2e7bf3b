//! The saved state of fakeroot (`fakeroot -s FILE`): what a build pretended that its files are, by
//! the numbers of their inodes on the host.
//!
//! ```text
//! dev=fe00,ino=9978514,mode=104755,uid=5,gid=6,nlink=1,rdev=0
//! ```
//! As in fakeroot, what it does not name belongs to root.
use crate::error::Error;
use rustc_hash::FxHashMap;
use rustix::fs::Stat;

/// The bits of a mode that are the type, and those of a regular file.
const TYPE: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;

/// What one file is pretended to be.
#[derive(Clone, Copy, Debug)]
struct Pretence {
    mode: u32,
    uid: u32,
    gid: u32,
    device: u64,
}

/// A saved state.
#[derive(Clone, Debug, Default)]
pub struct Pretended {
    files: FxHashMap<(u64, u64), Pretence>,
}

impl Pretended {
    /// Reads a saved state; `name` is that of the file in messages.
    ///
    /// # Errors
    /// The first line that is not of this form, with its number.
    pub fn parse(name: &str, text: &[u8]) -> Result<Pretended, Error> {
        let mut files = FxHashMap::default();
        let lines = text.split(|byte| *byte == b'\n').enumerate();
        for (index, line) in lines.filter(|(_, line)| !line.trim_ascii().is_empty()) {
            let entry = std::str::from_utf8(line).ok().and_then(entry);
            let (identity, pretence) = entry.ok_or_else(|| {
                Error::new(format!(
                    "{name}:{}: is no line of fakeroot's saved state: {}",
                    index + 1,
                    extant_archive::printable(&line[..line.len().min(80)])
                ))
            })?;
            files.insert(identity, pretence);
        }
        Ok(Pretended { files })
    }

    /// Makes a file of the host what it is pretended to be.
    pub(super) fn apply(&self, stat: &mut Stat) {
        match self.files.get(&(stat.st_dev, stat.st_ino)) {
            Some(pretence) => {
                // Devices and fifos are plain files on the host; nothing else changes its type.
                let is_kept = stat.st_mode & TYPE == pretence.mode & TYPE;
                stat.st_mode = match is_kept || stat.st_mode & TYPE == REGULAR {
                    true => pretence.mode,
                    false => stat.st_mode & TYPE | pretence.mode & !TYPE,
                };
                (stat.st_uid, stat.st_gid) = (pretence.uid, pretence.gid);
                stat.st_rdev = pretence.device;
            }
            None => (stat.st_uid, stat.st_gid) = (0, 0),
        }
    }
}

/// Device and inode, and what is pretended.
fn entry(line: &str) -> Option<((u64, u64), Pretence)> {
    let mut fields = line.trim().split(',').map(|field| field.split_once('='));
    let mut field = |name: &str, radix: u32| {
        let (key, value) = fields.next()??;
        u64::from_str_radix(value, radix).ok().filter(|_| key == name)
    };
    let identity = (field("dev", 16)?, field("ino", 10)?);
    let mode = u32::try_from(field("mode", 8)?).ok()?;
    // The type has to be one that there is.
    extant_format::inode::FileType::from_mode(u16::try_from(mode).ok()?)?;
    let uid = u32::try_from(field("uid", 10)?).ok()?;
    let gid = u32::try_from(field("gid", 10)?).ok()?;
    field("nlink", 10)?;
    let device = field("rdev", 10)?;
    Some((identity, Pretence { mode, uid, gid, device }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_or_named() {
        let good = b"dev=fe00,ino=12,mode=104755,uid=5,gid=6,nlink=1,rdev=0\n\n";
        assert_eq!(Pretended::parse("s", good).unwrap().files.len(), 1);
        let bad: [&[u8]; 4] = [
            b"dev=fe00,ino=12,mode=104755,uid=5,gid=6,nlink=1",
            b"ino=12,dev=fe00,mode=104755,uid=5,gid=6,nlink=1,rdev=0",
            b"dev=fe00,ino=12,mode=755,uid=5,gid=6,nlink=1,rdev=0",
            b"\xff",
        ];
        for line in bad {
            let error = Pretended::parse("s", line).unwrap_err().to_string();
            assert!(error.starts_with("s:1: "), "{error}");
        }
    }
}
