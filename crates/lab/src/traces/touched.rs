//! What programs read of a volume, in the order in which they did: the paths of files.
//!
//! ```text
//! a file trace of our mount    requests, by the inodes of the volume that it was recorded on
//! blktrace                     requests of blocks, by what is in them
//! strace                       calls that name a path
//! a list                       a path a line
//! ```
//! What was read only in small part comes after all else: its bytes are between others otherwise.
use super::{Input, wrong};
use crate::refused::Refused;
use crate::session::{Call, HEAD, ROOT_NODE, object_at, read as read_file_trace};
use extant_block::Operation;
use extant_engine::survey::{ObjectId, Survey};
use extant_format::Ino;
use extant_format::inode::FileType;
use extant_sim::trace::{self, Recognised, TraceFormat, recognise};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

/// No trace is longer: it is read whole.
const TRACE_BYTES_MAX: u64 = 1 << 30;
/// Files of fewer bytes are never too much to be read in passing.
const SMALL_BYTES: u64 = 1 << 20;

/// Symlinks that one path leads through at most, as in Linux.
const LINKS_MAX: u32 = 40;

/// What a look-up says of a name that is not there: ENOENT.
const NOT_FOUND: i32 = 2;

/// The calls of strace that read what a path names, and those that only look at it.
const READING: [&str; 4] = ["open", "openat", "openat2", "execve"];
const LOOKING: [&str; 14] = [
    "stat",
    "lstat",
    "newfstatat",
    "fstatat64",
    "statx",
    "access",
    "faccessat",
    "faccessat2",
    "readlink",
    "readlinkat",
    "chdir",
    "getxattr",
    "lgetxattr",
    "statfs",
];

/// What was read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Touched {
    /// Paths from the root of the volume, each once, in the order in which they were first read.
    pub paths: Vec<Vec<u8>>,
    /// How the trace is written: `files`, `blktrace`, `strace` or `list`.
    pub format: &'static str,
}

/// Reads a trace. Inodes and blocks that it names are those of the volume of `survey`.
///
/// # Errors
/// It is longer than 1 GiB, or wrong.
pub fn touched(path: &Path, input: Input, survey: &Survey) -> Result<Touched, Refused> {
    let mut bytes = Vec::new();
    let read = input.bytes.take(TRACE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| Refused::host(path.display(), &error))?;
    if bytes.len() as u64 > TRACE_BYTES_MAX {
        let shown = path.display();
        return Err(Refused::content(format!("{shown}: is longer than {TRACE_BYTES_MAX} bytes")));
    }
    let mut order = Order::new(survey);
    let format = if bytes.starts_with(HEAD.as_bytes()) {
        let text = String::from_utf8_lossy(&bytes);
        let records = read_file_trace(&text)
            .map_err(|error| Refused::content(format!("{}: {error}", path.display())))?;
        order.file_trace(records.iter().map(|record| (record.node, record.error, &record.call)));
        "files"
    } else if recognise(&bytes) == Some(Recognised::Blktrace) {
        let records =
            trace::read(TraceFormat::Blktrace, &bytes).map_err(|error| wrong(path, error))?;
        let reads = records.iter().filter(|record| record.operation == Operation::Read);
        order.blocks(reads.map(|record| (record.offset, record.bytes)));
        "blktrace"
    } else {
        let lines = || bytes.split(|byte| *byte == b'\n');
        match lines().any(|line| Traced::of(line).is_some()) {
            true => {
                lines().filter_map(Traced::of).for_each(|traced| order.traced(traced));
                "strace"
            }
            false => {
                lines()
                    .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
                    .filter(|line| !line.is_empty())
                    .for_each(|line| order.add_through(line.to_vec()));
                "list"
            }
        }
    };
    Ok(Touched { paths: order.finish(), format })
}

/// Paths in the order in which they are first read.
struct Order<'a> {
    survey: &'a Survey,
    paths: Vec<Vec<u8>>,
    known: BTreeSet<Vec<u8>>,
    /// Bytes that were read of a path, where the trace says it.
    read: BTreeMap<Vec<u8>, u64>,
}

impl<'a> Order<'a> {
    fn new(survey: &'a Survey) -> Order<'a> {
        Order { survey, paths: Vec::new(), known: BTreeSet::new(), read: BTreeMap::new() }
    }

    fn add(&mut self, path: Vec<u8>) {
        if self.known.insert(path.clone()) {
            self.paths.push(path);
        }
    }

    /// Adds a path, and where it leads if it is a symlink.
    fn add_through(&mut self, path: Vec<u8>) {
        let mut next = Some(path);
        for _ in 0..=LINKS_MAX {
            let Some(path) = next.take() else { return };
            let found = object_at(self.survey, &path);
            if let Some((object, clean)) = &found
                && self.survey.file_type(*object) == Some(FileType::Symlink)
                && let Ok(target) = self.survey.target(*object)
            {
                let folder = clean.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                next = Some(match target.starts_with(b"/") {
                    true => target,
                    false => [&clean[..folder], b"/", &target].concat(),
                });
            }
            self.add(path);
        }
    }

    /// All paths; those of large files of which less than half was read are last.
    fn finish(self) -> Vec<Vec<u8>> {
        let Order { survey, paths, read, .. } = self;
        let is_part = |path: &Vec<u8>| {
            let Some(bytes) = read.get(path) else { return false };
            let size = object_at(survey, path).map_or(0, |(object, _)| survey.size(object));
            size > SMALL_BYTES && *bytes < size / 2
        };
        let (parts, mut whole): (Vec<_>, Vec<_>) = paths.into_iter().partition(is_part);
        whole.extend(parts);
        whole
    }

    /// The requests of a mount: a node is the root, what a lookup found, or an inode of the volume.
    fn file_trace<'r>(&mut self, records: impl Iterator<Item = (u64, i32, &'r Call)> + Clone) {
        let mut found: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let nodes = records.clone().filter_map(|(node, _, _)| u32::try_from(node).ok());
        let kept = self.survey.paths(nodes.collect::<BTreeSet<u32>>().into_iter().map(Ino));
        let path_of = |found: &BTreeMap<u64, Vec<u8>>, node: u64| match node {
            ROOT_NODE => Some(Vec::new()),
            _ => found.get(&node).cloned().or_else(|| {
                let ino = Ino(u32::try_from(node).ok()?);
                kept.get(&ino).cloned()
            }),
        };
        let answered = |error: i32, call: &Call| {
            error == 0 || error == NOT_FOUND && matches!(call, Call::Lookup { .. })
        };
        for (node, error, call) in records {
            if !answered(error, call) {
                continue;
            }
            match call {
                Call::Lookup { name, found: child } => {
                    let Some(mut path) = path_of(&found, node) else { continue };
                    // Whether or not it has the name, the folder is read.
                    if !path.is_empty() {
                        self.add(path.clone());
                    }
                    let Some(child) = child else { continue };
                    path.push(b'/');
                    path.extend_from_slice(&name.0);
                    found.insert(*child, path);
                }
                Call::Read { bytes, .. } => {
                    if let Some(path) = path_of(&found, node) {
                        *self.read.entry(path.clone()).or_default() += bytes;
                        self.add(path);
                    }
                }
                Call::List { .. } | Call::ReadLink => {
                    if let Some(path) = path_of(&found, node) {
                        self.add(path);
                    }
                }
                _ => {}
            }
        }
    }

    /// Reads of the volume's bytes, by the files that have them.
    fn blocks(&mut self, reads: impl Iterator<Item = (u64, u64)>) {
        let survey = self.survey;
        let mut runs: Vec<(u64, u64, ObjectId)> = Vec::new();
        for object in (0..survey.object_count()).map(ObjectId) {
            let data = survey.data(object).map_while(Result::ok);
            runs.extend(data.map(|it| (it.volume_offset, it.volume_offset + it.length, object)));
        }
        runs.sort_unstable();
        let inodes = runs.iter().map(|(_, _, object)| survey.ino(*object));
        let paths = survey.paths(inodes.collect::<BTreeSet<Ino>>());
        for (start, bytes) in reads {
            let end = start.saturating_add(bytes);
            let first = runs.partition_point(|(_, run_end, _)| *run_end <= start);
            for (from, to, object) in runs[first..].iter().take_while(|(from, ..)| *from < end) {
                let Some(path) = paths.get(&survey.ino(*object)) else { continue };
                let read = end.min(*to) - start.max(*from);
                *self.read.entry(path.clone()).or_default() += read;
                self.add(path.clone());
            }
        }
    }

    fn traced(&mut self, traced: Traced) {
        let Traced { path, reads } = traced;
        if reads == Reads::Content {
            return self.add_through(path);
        }
        // Of what is only looked at, its directory is read.
        let is_file = object_at(self.survey, &path)
            .is_some_and(|(object, _)| self.survey.file_type(object) == Some(FileType::Regular));
        match (is_file, path.iter().rposition(|byte| *byte == b'/')) {
            (true, Some(at)) => self.add(path[..at].to_vec()),
            (true, None) => {}
            (false, _) => self.add(path),
        }
    }
}

/// What a call does with a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reads {
    Content,
    Facts,
}

/// A call that strace saw, which found what its path names.
#[derive(PartialEq, Eq, Debug)]
struct Traced {
    path: Vec<u8>,
    reads: Reads,
}

impl Traced {
    /// That of a line; `None` for others, for calls that failed, and for paths that are not whole.
    fn of(line: &[u8]) -> Option<Traced> {
        let open = line.iter().position(|byte| *byte == b'(')?;
        let name = line[..open].rsplit(|byte| !is_of_name(*byte)).next()?;
        let name = std::str::from_utf8(name).ok()?;
        let reads = match name {
            _ if READING.contains(&name) => Reads::Content,
            _ if LOOKING.contains(&name) => Reads::Facts,
            _ => return None,
        };
        let after = &line[open + 1..];
        let quote = after.iter().position(|byte| *byte == b'"')?;
        let folder = folder_of(&after[..quote]);
        let (path, rest) = unquoted(&after[quote + 1..])?;
        let failed = rest.windows(4).any(|word| word == b"= -1");
        if failed || !rest.windows(3).any(|word| word == b" = ") {
            return None;
        }
        let path = match (path.first(), folder) {
            (Some(b'/'), _) => path,
            (_, Some(folder)) => [folder, b"/", &path].concat(),
            // The working directory is not known: that of the root is as good as any.
            (_, None) => path,
        };
        Some(Traced { path, reads })
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The folder that `strace -y` writes behind a descriptor: `3</usr/lib>, `.
fn folder_of(before: &[u8]) -> Option<&[u8]> {
    let start = before.iter().position(|byte| *byte == b'<')? + 1;
    let end = before.iter().rposition(|byte| *byte == b'>')?;
    before.get(start..end).filter(|folder| folder.starts_with(b"/"))
}

/// A string as strace writes it, up to its quote, and what follows; `None` where it is cut short.
fn unquoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (mut bytes, mut at) = (Vec::new(), 0);
    loop {
        let byte = *text.get(at)?;
        at += 1;
        match byte {
            b'"' => break,
            b'\\' => {
                let escape = *text.get(at)?;
                at += 1;
                bytes.push(match escape {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'v' => 0x0b,
                    b'f' => 0x0c,
                    b'x' => {
                        let digits = std::str::from_utf8(text.get(at..at + 2)?).ok()?;
                        at += 2;
                        u8::from_str_radix(digits, 16).ok()?
                    }
                    b'0'..=b'7' => {
                        let start = at - 1;
                        while at < start + 3
                            && text.get(at).is_some_and(|it| (b'0'..=b'7').contains(it))
                        {
                            at += 1;
                        }
                        let digits = std::str::from_utf8(&text[start..at]).ok()?;
                        u8::from_str_radix(digits, 8).ok()?
                    }
                    other => other,
                });
            }
            other => bytes.push(other),
        }
    }
    let rest = &text[at..];
    (!rest.starts_with(b"...")).then_some((bytes, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_strace_give_paths() {
        let of = |line: &str| Traced::of(line.as_bytes());
        let content = |path: &str| Some(Traced { path: path.into(), reads: Reads::Content });
        let facts = |path: &str| Some(Traced { path: path.into(), reads: Reads::Facts });
        let open = "openat(AT_FDCWD, \"/etc/ld.so.cache\", O_RDONLY|O_CLOEXEC) = 3";
        assert_eq!(of(open), content("/etc/ld.so.cache"));
        assert_eq!(of(&format!("[pid  7] 12:00:01.5 {open}")), content("/etc/ld.so.cache"));
        assert_eq!(
            of("1234  execve(\"/bin/sh\", [\"sh\"], 0x7f /* 9 vars */) = 0"),
            content("/bin/sh")
        );
        assert_eq!(
            of("newfstatat(3</usr/lib>, \"a\\\"b\\303\\244\", {..}, 0) = 0"),
            facts("/usr/lib/a\"bä")
        );
        assert_eq!(of("readlink(\"/\\x65xe\", \"x\", 9) = 1"), facts("/exe"));
        for line in [
            "openat(AT_FDCWD, \"/none\", O_RDONLY) = -1 ENOENT (No such file or directory)",
            "read(3, \"/etc\", 4) = 4",
            "openat(AT_FDCWD, \"/cut\"..., O_RDONLY) = 3",
            "openat(AT_FDCWD, \"/no end",
            "openat(AT_FDCWD, \"/unfinished\", O_RDONLY <unfinished ...>",
            "/usr/bin/env",
            "reopen(\"/x\") = 3",
            "(\"/x\") = 3",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
