//! The device tables of genext2fs and of Buildroot's makedevs: files that are given owner and mode,
//! and devices, fifos, sockets and directories that are made.
//!
//! ```text
//! # name      type mode uid gid major minor start inc count
//! /dev        d    755  0   0   -     -     -     -   -
//! /dev/null   c    666  0   0   1     3     0     0   -
//! /dev/ttyS   c    660  0   5   4     64    0     1   4
//! /var/www    r    644  33  33  -     -     -     -   -
//! /bin/ping   f    755  0   0   -     -     -     -   -
//! |xattr cap_net_raw+ep
//! ```
//! `f` is a file that is there already, `d` a directory, `c`, `b`, `p` and `s` are made, `r` is all
//! that is below a directory (mode -1 leaves the modes). `|xattr` gives capabilities to the file of
//! the line before.
//!
//! The two programs read the last numbers differently. With start 3, increment 2 and count 7 and
//! minor 10, genext2fs makes x3 to x6, the first with the minor 13 (minor + number * increment -
//! start); makedevs makes seven, x3 to x9, the first with the minor 10. The first is what genext2fs
//! 1.5 was seen to do, the second is what Buildroot's manual says.
use super::capability::Capabilities;
use super::grant::Grant;
use super::line::Line;
use super::{Subject, Used};
use crate::error::Error;
use crate::tree::{Growing, NodeContent};
use extant_archive::{clean_path, printable};
use extant_format::inode::{Device, FileType};
use extant_tree::Facts;
use rustc_hash::FxHashMap;

/// Devices of one line; more is an attack.
const COUNT_MAX: u32 = 65_536;

/// A file that has to be there in the end.
#[derive(Clone, Debug)]
struct Made {
    line: usize,
    path: Vec<u8>,
    file_type: FileType,
    device: Device,
    permissions: u16,
}

/// Whose table it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dialect {
    Genext2fs,
    Makedevs,
}

/// The lines of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceTable {
    made: Vec<Made>,
    /// By path, without a slash in front.
    grants: FxHashMap<Vec<u8>, (usize, Grant)>,
    /// Directories whose contents get something.
    below: Vec<(usize, Vec<u8>, Grant)>,
}

impl DeviceTable {
    pub(super) fn parse<'a>(
        lines: impl Iterator<Item = Line<'a>>,
        dialect: Dialect,
    ) -> Result<DeviceTable, Error> {
        let mut table = DeviceTable::default();
        let mut last: Option<Vec<u8>> = None;
        for line in lines {
            last = match line.text.trim_ascii_start().strip_prefix(b"|xattr") {
                Some(text) => {
                    table.give_capabilities(&line, last.as_deref(), text)?;
                    last
                }
                None => table.read_entry(&line, dialect)?,
            };
        }
        Ok(table)
    }

    fn give_capabilities(
        &mut self,
        line: &Line<'_>,
        path: Option<&[u8]>,
        text: &[u8],
    ) -> Result<(), Error> {
        let text = std::str::from_utf8(text.trim_ascii()).unwrap_or("not UTF-8");
        let capabilities = Capabilities::parse(text).map_err(|why| line.wrong(&why))?;
        let grant = path.and_then(|path| self.grants.get_mut(path));
        let (_, grant) = grant.ok_or_else(|| line.wrong("follows no line of one file"))?;
        grant.capabilities = Some(capabilities);
        Ok(())
    }

    /// Reads a line; gives the path of its file, if it is about one.
    fn read_entry(&mut self, line: &Line<'_>, dialect: Dialect) -> Result<Option<Vec<u8>>, Error> {
        let words: Vec<&[u8]> = line.words().collect();
        let ([name, kind, mode, uid, gid], rest) = words
            .split_first_chunk::<5>()
            .ok_or_else(|| line.wrong("has fewer than five words"))?;
        let path = clean_path(name).map_err(|error| line.wrong(&error.to_string()))?;
        let mode = match *mode {
            b"-1" if *kind == b"r" => None,
            _ => Some(line.mode(mode)?),
        };
        let grant = Grant {
            uid: Some(line.number(uid, "the user")?),
            gid: Some(line.number(gid, "the group")?),
            permissions: mode,
            ..Grant::default()
        };
        let file_type = match *kind {
            b"f" => None,
            b"r" => {
                self.below.push((line.number, path, grant));
                return Ok(None);
            }
            b"d" => Some(FileType::Directory),
            b"c" => Some(FileType::CharacterDevice),
            b"b" => Some(FileType::BlockDevice),
            b"p" => Some(FileType::Fifo),
            b"s" => Some(FileType::Socket),
            _ => return Err(line.wrong("the type is none of f, d, c, b, p, s and r")),
        };
        let numbers = Numbers::read(line, rest)?;
        if numbers.count == 0 {
            self.add(line.number, path.clone(), file_type, numbers.single(), &grant);
            return Ok(Some(path));
        }
        for (number, device) in numbers.devices(dialect) {
            let path = [&path[..], number.to_string().as_bytes()].concat();
            self.add(line.number, path, file_type, device, &grant);
        }
        Ok(None)
    }

    fn add(
        &mut self,
        line: usize,
        path: Vec<u8>,
        file_type: Option<FileType>,
        device: Device,
        grant: &Grant,
    ) {
        if let Some(file_type) = file_type {
            let permissions = grant.permissions.unwrap_or(0);
            self.made.push(Made { line, path: path.clone(), file_type, device, permissions });
        }
        self.grants.insert(path, (line, grant.clone()));
    }

    /// Makes what is not there. What is there with another type is replaced, but a directory.
    pub(super) fn make_files(&self, tree: &mut Growing) -> Result<(), Error> {
        for made in &self.made {
            let present = tree.look_up(&made.path).map(|node| tree.file_type(node));
            match present {
                Some(FileType::Directory) if made.file_type == FileType::Directory => continue,
                Some(FileType::Directory) => {
                    return Err(Error::new(format!(
                        "line {} of the device table: {} is a directory",
                        made.line,
                        printable(&made.path)
                    )));
                }
                _ => {}
            }
            let facts = Facts {
                file_type: made.file_type,
                permissions: made.permissions,
                device: made.device,
                ..Facts::default()
            };
            let (directory, name) = tree.walk(&made.path)?;
            tree.insert(directory, name, &facts.into(), NodeContent::None)?;
        }
        Ok(())
    }

    pub(super) fn grant(&self, subject: &Subject<'_>, used: &mut Used) -> Grant {
        let path = subject.path.strip_prefix(b"/").unwrap_or(subject.path);
        let mut grant = Grant::default();
        for (line, folder, below) in &self.below {
            let rest = path.strip_prefix(&folder[..]);
            if rest.is_some_and(|rest| {
                folder.is_empty() || rest.is_empty() || rest.first() == Some(&b'/')
            }) {
                used.note(*line);
                grant = grant.with(below);
            }
        }
        if let Some((line, own)) = self.grants.get(path) {
            used.note(*line);
            grant = grant.with(own);
        }
        grant
    }

    /// What the lines name, with their numbers.
    pub(super) fn paths(&self) -> impl Iterator<Item = (usize, String)> + '_ {
        let one = self.grants.iter().map(|(path, (line, _))| (*line, shown(path)));
        let below = self.below.iter().map(|(line, path, _)| (*line, shown(path)));
        let mut all: Vec<_> = one.chain(below).collect();
        all.sort();
        all.into_iter()
    }
}

fn shown(path: &[u8]) -> String {
    format!("/{}", printable(path))
}

/// The numbers at the end of a line.
struct Numbers {
    major: u32,
    minor: u32,
    start: u32,
    increment: u32,
    count: u32,
}

impl Numbers {
    fn read(line: &Line<'_>, words: &[&[u8]]) -> Result<Numbers, Error> {
        let number = |at: usize, what: &str| match words.get(at) {
            None | Some(&b"-") => Ok(0),
            Some(word) => line.number(word, what),
        };
        let numbers = Numbers {
            major: number(0, "the major number")?,
            minor: number(1, "the minor number")?,
            start: number(2, "the start")?,
            increment: number(3, "the increment")?,
            count: number(4, "the count")?,
        };
        if numbers.count > COUNT_MAX {
            return Err(line.wrong(&format!("makes more than {COUNT_MAX} files")));
        }
        Ok(numbers)
    }

    /// The one device of a line without a count.
    fn single(&self) -> Device {
        Device { major: self.major, minor: self.minor }
    }

    /// The devices of a line with a count, each with the number that its name ends with.
    fn devices(&self, dialect: Dialect) -> impl Iterator<Item = (u64, Device)> + '_ {
        let start = u64::from(self.start);
        let end = match dialect {
            Dialect::Genext2fs => u64::from(self.count),
            Dialect::Makedevs => start + u64::from(self.count),
        };
        (start..end).map(move |number| {
            let increment = u64::from(self.increment);
            let beyond = match dialect {
                Dialect::Genext2fs => number.wrapping_mul(increment).wrapping_sub(start),
                Dialect::Makedevs => (number - start) * increment,
            };
            let minor = u64::from(self.minor).wrapping_add(beyond) as u32;
            (number, Device { major: self.major, minor })
        })
    }
}
