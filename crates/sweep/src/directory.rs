//! The directory of a sweep: what was planned, what is done, what failed.
//!
//! ```text
//! plans/DIGEST.jsonl      the jobs that runs were given, by the digest of their lines
//! results/HH/ID.json      what a job gave; HH are the first two digits of its id
//! failed/ID.json          why a job has no result
//! out/HH/ID.SUFFIX        files that jobs wrote
//! lock, locks/..          held by runs; the host lets go of them when those end in whatever way
//! ```
//!
//! *Invariants*: a file with its final name is whole ([`crate::whole`]); a job with a result has
//! not failed, whatever a file below `failed` says; nothing but [`crate::whole::sweep_out`] removes
//! what another process wrote, and that only what nobody finishes any more. *Locking*: locks of
//! files, which only save work: two runs that do not see each other's write the same results under
//! the same names.
use crate::error::{Error, Result};
use crate::inputs::hexadecimal;
use crate::job::{Job, LINE_BYTES_MAX};
use crate::whole;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// The directory of a sweep.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
}

/// Why a job has no result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// `extant-sweep-failure/1`
    pub schema: String,
    /// The job.
    pub id: String,
    /// What people call it.
    pub label: String,
    /// In one line.
    pub reason: String,
    /// The exit code, if the command ended by itself.
    pub exit: Option<i64>,
    /// How often it was tried in the run that gave it up.
    pub tries: u32,
    /// The last lines that it wrote to standard error.
    pub said: Vec<String>,
}

/// The form of a failure.
pub const FAILURE_SCHEMA: &str = "extant-sweep-failure/1";
/// The form of a result.
pub const RESULT_SCHEMA: &str = "extant-sweep-result/1";

/// A lock of a run; let go of when this is dropped, or the process ends.
#[derive(Debug)]
pub struct Held {
    _files: Vec<File>,
    /// Whether the file system of the directory has locks.
    pub is_held: bool,
}

/// Which part of the jobs a run does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// All.
    Whole,
    /// Those whose number leaves `index` when it is divided by `of`; both from 0.
    Shard {
        /// Which.
        index: u64,
        /// Of how many; never 0.
        of: u64,
    },
    /// The job of this line, from 0.
    Job(u64),
}

impl Part {
    /// Whether the job of a line, from 0, is in it.
    pub fn has(self, line: u64) -> bool {
        match self {
            Part::Whole => true,
            Part::Shard { index, of } => line % of == index,
            Part::Job(number) => line == number,
        }
    }
}

impl Directory {
    /// The directory of that path, which is there.
    ///
    /// # Errors
    /// It is not, or is that of no sweep.
    pub fn open(path: &Path) -> Result<Directory> {
        let directory = Directory { path: plain(path)? };
        match (path.is_dir(), directory.plans_folder().is_dir()) {
            (true, true) => Ok(directory),
            (true, false) => Err(Error::new(format!("{}: holds no sweep", path.display()))
                .hint("extant sweep run JOBS DIR makes one")),
            _ => Err(Error::new(format!("{}: there is no such directory", path.display()))),
        }
    }

    /// The same, made if it is not there. A folder with other things in it is not taken.
    ///
    /// # Errors
    /// It cannot be made or written, or holds something else.
    pub fn make(path: &Path) -> Result<Directory> {
        let directory = Directory { path: plain(path)? };
        let path = directory.path();
        let plans = directory.plans_folder();
        if !plans.is_dir()
            && let Some(name) = foreign_in(path)
        {
            let reason =
                format!("{}: holds {}, which no sweep has", path.display(), name.display());
            return Err(Error::new(reason).hint("name a new directory, or an empty one"));
        }
        for folder in [plans, path.join("results"), path.join("failed"), path.join("locks")] {
            std::fs::create_dir_all(&folder).map_err(|error| Error::io(&folder, &error))?;
        }
        Ok(directory)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn plans_folder(&self) -> PathBuf {
        self.path.join("plans")
    }

    /// Where the result of a job is.
    pub fn result(&self, id: &str) -> PathBuf {
        self.path.join("results").join(bucket(id)).join(format!("{id}.json"))
    }

    /// Where the failure of a job is.
    pub fn failure(&self, id: &str) -> PathBuf {
        self.path.join("failed").join(format!("{id}.json"))
    }

    /// Where a file of a job is, from the directory.
    pub fn output(id: &str, option: &str, suffix: &str) -> PathBuf {
        Path::new("out").join(bucket(id)).join(format!("{id}.{option}.{suffix}"))
    }

    /// Takes the locks of a run.
    ///
    /// # Errors
    /// Another run is at work on the same jobs, or the directory cannot be written.
    pub fn hold(&self, part: Part) -> Result<Held> {
        let whole = self.path.join("lock");
        match part {
            Part::Whole => self.take(&[(whole, Share::Alone)]),
            Part::Job(_) => self.take(&[(whole, Share::WithOthers)]),
            Part::Shard { index, of } => {
                let own = self.path.join("locks").join(format!("{}-{of}", index + 1));
                self.take(&[(whole, Share::WithOthers), (own, Share::Alone)])
            }
        }
    }

    fn take(&self, locks: &[(PathBuf, Share)]) -> Result<Held> {
        let mut held = Held { _files: Vec::new(), is_held: true };
        for (path, share) in locks {
            let opened =
                File::options().read(true).write(true).create(true).truncate(false).open(path);
            let mut file = opened.map_err(|error| Error::io(path, &error))?;
            let locked = match share {
                Share::Alone => file.try_lock(),
                Share::WithOthers => file.try_lock_shared(),
            };
            match locked {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(self.taken(&mut file)),
                // A store without locks: two runs do the same work, and no harm.
                Err(TryLockError::Error(_)) => held.is_held = false,
            }
            if *share == Share::Alone && held.is_held {
                let who = format!("process {} on {}\n", std::process::id(), whole::host());
                let said = file.set_len(0).and_then(|()| file.write_all(who.as_bytes()));
                said.map_err(|error| Error::io(path, &error))?;
            }
            held._files.push(file);
        }
        Ok(held)
    }

    fn taken(&self, file: &mut File) -> Error {
        let mut who = String::new();
        // Who it is is a courtesy.
        let _ = file.take(200).read_to_string(&mut who);
        let who = who.trim();
        let who =
            if who.is_empty() { "runs of its parts".into() } else { format!("a run ({who})") };
        Error::new(format!("{}: {who} is at work in it", self.path.display()))
            .hint("wait for it; --shard I/N divides the work among runs")
    }

    /// Whether a run is at work.
    pub fn is_at_work(&self) -> bool {
        let file = File::open(self.path.join("lock"));
        file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// Removes what runs of this host that were killed left half written.
    pub fn sweep_out(&self) {
        whole::sweep_out(&self.plans_folder());
        whole::sweep_out(&self.path.join("failed"));
        for folder in ["results", "out"] {
            let Ok(buckets) = std::fs::read_dir(self.path.join(folder)) else { continue };
            buckets.flatten().for_each(|bucket| whole::sweep_out(&bucket.path()));
        }
    }

    /// Keeps the lines of a plan, each of which is looked at.
    ///
    /// # Errors
    /// A line is no job of this version, with its number; a job is there twice; or the directory
    /// cannot be written. `name` is what errors call the plan.
    pub fn keep_plan(&self, name: &str, lines: &mut dyn BufRead) -> Result<Plan> {
        let partial = whole::partial(&self.plans_folder().join("plan.jsonl"));
        let kept = self.copy_plan(name, lines, &partial);
        if kept.is_err() {
            let _ = std::fs::remove_file(&partial);
        }
        kept
    }

    fn copy_plan(&self, name: &str, lines: &mut dyn BufRead, partial: &Path) -> Result<Plan> {
        let failed = |error: std::io::Error| Error::io(partial, &error);
        let mut out = BufWriter::new(File::create(partial).map_err(failed)?);
        let mut digest = Sha256::new();
        let mut index = Index::default();
        let mut offset = 0;
        while let Some(line) = next_line(name, index.all + 1, lines)? {
            index.all += 1;
            let at = |error: Error| Error {
                message: format!("{name}:{}: {}", index.all, error.message),
                ..error
            };
            let job = Job::parse(&line).map_err(at)?;
            if !index.seen.insert(job.id.clone()) {
                return Err(at(Error::new("the same job is in a line before")));
            }
            let targets = job.outputs.iter().filter_map(|output| output.target.as_deref());
            let folders = targets.filter_map(|target| Path::new(target).parent());
            index.targets.extend(folders.map(Path::to_owned));
            digest.update(line.as_bytes());
            digest.update(b"\n");
            writeln!(out, "{line}").map_err(failed)?;
            index.offsets.push(offset);
            offset += line.len() as u64 + 1;
        }
        out.flush().map_err(failed)?;
        if index.all == 0 {
            return Err(Error::new(format!("{name}: has no job")));
        }
        let digest = hexadecimal(&digest.finalize());
        let path = self.plans_folder().join(format!("{digest}.jsonl"));
        whole::keep(partial, &path)?;
        // As in the directory itself: `sweep_out`.
        for folder in &index.targets {
            whole::sweep_out(match folder.as_os_str().is_empty() {
                true => Path::new("."),
                false => folder,
            });
        }
        Ok(Plan { path, offsets: index.offsets })
    }

    /// The plans that are kept, by name.
    ///
    /// # Errors
    /// What the host says.
    pub fn plans(&self) -> Result<Vec<PathBuf>> {
        let folder = self.plans_folder();
        let entries = std::fs::read_dir(&folder).map_err(|error| Error::io(&folder, &error))?;
        let paths = entries.flatten().map(|entry| entry.path());
        let is_plan = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            // By the digest of its lines; other files are none of ours.
            name.strip_suffix(".jsonl").is_some_and(is_digest)
        };
        let mut plans: Vec<PathBuf> = paths.filter(is_plan).collect();
        plans.sort_unstable();
        Ok(plans)
    }

    /// Hands over every job that was planned, of whatever version, each once, plan by plan.
    ///
    /// # Errors
    /// A plan cannot be read, or what `take` says.
    pub fn jobs(&self, take: &mut dyn FnMut(Named) -> Result<()>) -> Result<()> {
        let mut seen = BTreeSet::new();
        for path in self.plans()? {
            let name = path.display().to_string();
            let file = File::open(&path).map_err(|error| Error::io(&path, &error))?;
            let mut lines = BufReader::new(file);
            let mut number = 0;
            while let Some(line) = next_line(&name, number + 1, &mut lines)? {
                number += 1;
                let named: Option<Named> = serde_json::from_str(&line).ok();
                // Its id becomes the name of a file.
                let named = named.filter(|named| is_digest(&named.id));
                let named =
                    named.ok_or_else(|| Error::new(format!("{name}:{number}: is no job")))?;
                if seen.insert(named.id.clone()) {
                    take(named)?;
                }
            }
        }
        Ok(())
    }

    /// What a job gave; `None` if nothing is there. A file that is not its result, whatever became
    /// of it, is an error that names it.
    ///
    /// # Errors
    /// It cannot be read, or is no result of this job.
    pub fn read_result(&self, id: &str) -> Result<Option<JobResult>> {
        let path = self.result(id);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(&path, &error)),
        };
        let result: Option<JobResult> = serde_json::from_slice(&text).ok();
        let is_its = |result: &JobResult| result.schema == RESULT_SCHEMA && result.id == id;
        result.filter(is_its).map(Some).ok_or_else(|| {
            Error::new(format!("{}: is no result of this job", path.display()))
                .hint("extant sweep run makes it again")
        })
    }

    /// Why a job failed; `None` if it did not.
    pub fn read_failure(&self, id: &str) -> Option<Failure> {
        serde_json::from_slice(&std::fs::read(self.failure(id)).ok()?).ok()
    }

    /// Keeps why a job failed.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn write_failure(&self, failure: &Failure) -> Result<()> {
        let text = serde_json::to_vec(failure)
            .map_err(|error| Error::new(format!("{}: {error}", failure.label)))?;
        whole::write(&self.failure(&failure.id), &text)
    }

    /// A job that has a result has not failed.
    pub fn forget_failure(&self, id: &str) {
        // What cannot be removed is not believed either: the result is looked at first.
        let _ = std::fs::remove_file(self.failure(id));
    }
}

/// The path of a directory as the words of a job can have it: text, and no option.
fn plain(path: &Path) -> Result<PathBuf> {
    match path.to_str() {
        Some(text) if text.starts_with('-') => Ok(Path::new(".").join(path)),
        Some(_) => Ok(path.to_owned()),
        None => {
            Err(Error::new(format!("{}: is no text, which a directory has to be", path.display())))
        }
    }
}

/// A SHA-256 in hexadecimal digits.
fn is_digest(word: &str) -> bool {
    word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A name in a folder that no directory of a sweep has.
fn foreign_in(path: &Path) -> Option<OsString> {
    const OURS: [&str; 6] = ["plans", "results", "failed", "out", "lock", "locks"];
    let mut names = std::fs::read_dir(path).ok()?.flatten().map(|entry| entry.file_name());
    names.find(|name| !OURS.iter().any(|ours| name == ours))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    Alone,
    WithOthers,
}

#[derive(Default)]
struct Index {
    all: u64,
    seen: BTreeSet<String>,
    offsets: Vec<u64>,
    /// The folders of targets.
    targets: BTreeSet<PathBuf>,
}

/// What a job gave, as far as others read it.
#[derive(Debug, Deserialize)]
pub struct JobResult {
    schema: String,
    id: String,
    /// How the command ended.
    #[serde(default)]
    pub exit: Value,
    /// The files that it wrote.
    #[serde(default)]
    pub outputs: Vec<Value>,
    /// Its observations; none where the document is all.
    #[serde(default)]
    pub rows: Vec<Members>,
    /// What the command printed, as text: most readers need the rows only.
    pub document: Box<RawValue>,
}

/// The members of an object as they stand: most are read once, in order, and never looked up.
#[derive(Debug, Default)]
pub struct Members(pub Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Members, D::Error> {
        struct Collecting;
        impl<'de> Visitor<'de> for Collecting {
            type Value = Members;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(Collecting)
    }
}

/// What a job of any version has.
#[derive(Clone, Debug, Deserialize)]
pub struct Named {
    /// Its id.
    pub id: String,
    /// Its version.
    pub version: String,
    /// Its kind.
    pub kind: String,
    /// The values of the matrix.
    #[serde(default)]
    pub parameters: BTreeMap<String, Value>,
}

/// A plan that is kept, each of its lines whole and known to be a job.
#[derive(Debug)]
pub struct Plan {
    path: PathBuf,
    /// Where each line begins, in bytes.
    offsets: Vec<u64>,
}

impl Plan {
    /// How many jobs it has.
    pub fn count(&self) -> u64 {
        self.offsets.len() as u64
    }

    /// The job of a line, from 0.
    ///
    /// # Errors
    /// The file cannot be read any more, or has changed.
    pub fn job(&self, line: u64) -> Result<Job> {
        use std::os::unix::fs::FileExt;
        let failed = |error: std::io::Error| Error::io(&self.path, &error);
        let file = File::open(&self.path).map_err(failed)?;
        let at = usize::try_from(line).unwrap_or(usize::MAX);
        let begin = self.offsets.get(at).copied().unwrap_or(u64::MAX);
        let end = match self.offsets.get(at.saturating_add(1)) {
            Some(end) => *end,
            None => file.metadata().map_err(failed)?.len(),
        };
        let length =
            usize::try_from(end.saturating_sub(begin)).unwrap_or(0).min(LINE_BYTES_MAX + 1);
        let mut text = vec![0; length];
        file.read_exact_at(&mut text, begin).map_err(failed)?;
        let text = String::from_utf8_lossy(&text);
        Job::parse(text.trim_end()).map_err(|error| {
            let message = format!("{}:{}: {}", self.path.display(), line + 1, error.message);
            Error { message, ..error }
        })
    }
}

/// The next line that is not empty, without its end; `None` after the last.
///
/// # Errors
/// It is too long, is no text, or cannot be read. `name` and `number` say where.
pub fn next_line(name: &str, number: u64, lines: &mut dyn BufRead) -> Result<Option<String>> {
    loop {
        let mut line = Vec::new();
        let most = LINE_BYTES_MAX as u64 + 2;
        let read = (&mut *lines).take(most).read_until(b'\n', &mut line);
        let length =
            read.map_err(|error| Error::new(format!("{name}: {}", crate::error::reason(&error))))?;
        if length == 0 {
            return Ok(None);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        if line.len() > LINE_BYTES_MAX {
            let reason = format!("{name}:{number}: has more than {LINE_BYTES_MAX} bytes");
            return Err(Error::new(reason));
        }
        let text = String::from_utf8(line)
            .map_err(|_| Error::new(format!("{name}:{number}: is no text")))?;
        if !text.trim().is_empty() {
            return Ok(Some(text));
        }
    }
}

/// The first two digits: a folder has a thousand files where there are some hundred thousand jobs.
fn bucket(id: &str) -> &str {
    id.get(..2).unwrap_or("00")
}
