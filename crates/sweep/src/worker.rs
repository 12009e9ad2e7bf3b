//! A worker: a process that reads jobs, a line each, runs them one after another, and writes their
//! results into the directory.
//!
//! It says its version first, and one line after each job. Whoever starts workers, this program or
//! another engine, needs no more than these lines:
//!
//! ```text
//! <- {"schema":"extant-sweep-worker/1","version":"0.1.0"}
//! -> {"schema":"extant-sweep-job/1","id":"4f..","kind":"lab run",..}
//! <- {"id":"4f..","state":"done"}        the result is written
//! <- {"id":"4f..","state":"there"}       it was there
//! <- {"id":"4f..","state":"failed","reason":"..","exit":2,"said":["..."]}
//! <- {"id":"4f..","state":"broken","reason":".."}    the directory cannot be written
//! ```
//!
//! Commands run in this process, so that a job of a millisecond costs no process. What they print
//! is caught: standard output is a file in memory, from the beginning to the end of the worker.
//!
//! ```text
//! session   what goes on from one job to the next: standard output, caught
//! files     what a job writes besides its result
//! report    what a result holds
//! ```
//!
//! *Invariants*: a result is written after the inputs were found unchanged since before the command
//! began; of a job that fails nothing is left but what it wrote under partial names, which go.
//! *Locking*: none; one thread.
mod files;
mod report;
mod session;

use crate::VERSION;
use crate::assemble;
use crate::directory::{Directory, next_line};
use crate::error::{Error, Result};
use crate::inputs::{Input, Stamp};
use crate::job::Job;
use crate::kinds::Rows;
use crate::memory::{self, Ceiling};
use crate::whole;
use extant_block::Clock;
use files::Files;
use report::Report;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use session::{Session, bounded};
use std::fs::File;
use std::io::{BufRead, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The form of the first line.
pub const HELLO_SCHEMA: &str = "extant-sweep-worker/1";

/// A worker that holds more after a job is not used for another: what one left would count for the
/// next.
const HELD_BYTES_MAX: u64 = 96 << 20;

/// Of what a job says on standard error, the last lines are kept.
const SAID_LINES_MAX: usize = 20;
/// And of each line so many letters.
const SAID_LETTERS_MAX: usize = 400;

/// The commands of this program.
pub trait Commands {
    /// Runs a command line, the words after `extant`, and gives its exit code. It prints as it
    /// always does.
    fn run(&self, words: &[String]) -> u8;
}

/// What a worker says first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// [`HELLO_SCHEMA`]
    pub schema: String,
    /// Of the worker.
    pub version: String,
}

/// What a worker says after a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The job; empty for a line that is none.
    pub id: String,
    /// What became of it.
    #[serde(flatten)]
    pub state: State,
    /// Whether the worker takes no more jobs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retires: bool,
}

/// What became of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum State {
    /// Its result is written.
    Done,
    /// Its result was there.
    There,
    /// It has no result.
    Failed {
        /// In one line.
        reason: String,
        /// The exit code, if the command ended by itself.
        exit: Option<i64>,
        /// The last lines on standard error.
        said: Vec<String>,
        /// Whether another try would end the same.
        is_final: bool,
    },
    /// The directory cannot be written: no job will have a result.
    Broken {
        /// In one line.
        reason: String,
        /// What can be done.
        hint: Option<String>,
    },
}

/// A worker.
pub struct Worker<'a> {
    /// Where results go.
    pub directory: Directory,
    /// What jobs run.
    pub commands: &'a dyn Commands,
    /// For how old changes of files are.
    pub clock: &'a dyn Clock,
    /// `SOURCE_DATE_EPOCH` of this process.
    pub epoch: Option<String>,
}

/// Why a job has no result, on the way to its answer.
enum End {
    /// The job's own fault; another try may help.
    Failed(String, Option<i64>),
    /// The same, and no other try will help.
    Final(String, Option<i64>),
    /// The directory's.
    Broken(Error),
}

impl Worker<'_> {
    /// Reads jobs until there are no more, or the worker has to go, and answers each.
    ///
    /// # Errors
    /// Nobody reads the answers, or standard output cannot be caught.
    pub fn serve(&self, jobs: &mut dyn BufRead) -> Result<()> {
        let failed = |error: std::io::Error| Error::io(Path::new("worker"), &error);
        let mut session = Session::begin().map_err(failed)?;
        let hello = Hello { schema: HELLO_SCHEMA.into(), version: VERSION.into() };
        let say = |session: &mut Session, line: serde_json::Result<String>| {
            let line = line.map_err(|error| Error::new(format!("worker: {error}")))?;
            writeln!(session.answers, "{line}").map_err(failed)
        };
        say(&mut session, serde_json::to_string(&hello))?;
        let mut number = 0;
        while let Some(line) = next_line("worker: standard input", number + 1, jobs)? {
            number += 1;
            let answer = self.answer(&line, &mut session);
            say(&mut session, serde_json::to_string(&answer))?;
            if answer.retires {
                break;
            }
        }
        Ok(())
    }

    fn answer(&self, line: &str, session: &mut Session) -> Answer {
        let job = match Job::parse(line) {
            Ok(job) => job,
            Err(error) => {
                let reason = format!("the line {}", error.message);
                let state = State::Failed { reason, exit: None, said: Vec::new(), is_final: true };
                // Whoever waits for it finds its answer, whatever version it is of.
                let id = serde_json::from_str(line).ok().and_then(|value: serde_json::Value| {
                    value.get("id")?.as_str().map(str::to_owned)
                });
                return Answer { id: id.unwrap_or_default(), state, retires: false };
            }
        };
        let mut state = match self.run(&job, session) {
            Ok(state) => state,
            Err(End::Broken(error)) => State::Broken { reason: error.message, hint: error.hint },
            Err(End::Failed(reason, exit)) => {
                State::Failed { reason, exit, said: Vec::new(), is_final: false }
            }
            Err(End::Final(reason, exit)) => {
                State::Failed { reason, exit, said: Vec::new(), is_final: true }
            }
        };
        if let State::Failed { said, .. } = &mut state {
            *said = last_lines(&session.said);
        }
        let held = memory::held_bytes("self").unwrap_or(0);
        let retires = held > HELD_BYTES_MAX || session.has_panicked;
        Answer { id: job.id, state, retires }
    }

    fn run(&self, job: &Job, session: &mut Session) -> std::result::Result<State, End> {
        session.said.clear();
        if self.is_there(job) {
            self.directory.forget_failure(&job.id);
            return Ok(State::There);
        }
        if job.epoch != self.epoch {
            let shown = |epoch: &Option<String>| epoch.clone().unwrap_or_else(|| "not set".into());
            let reason = format!(
                "SOURCE_DATE_EPOCH was {} when it was planned, and is {}",
                shown(&job.epoch),
                shown(&self.epoch)
            );
            return Err(End::Final(reason, None));
        }
        let kind = job.kind().map_err(|error| End::Final(error.message, None))?;
        let stamps = self.inputs_as_planned(job, session)?;
        let mut files = Files::of(&self.directory, job).map_err(End::Broken)?;
        files.copy(kind, job)?;
        let observations = (kind.rows == Rows::Observations)
            .then(|| memfd_create("observations", MemfdFlags::CLOEXEC).map(File::from))
            .transpose()
            .map_err(|error| End::Failed(format!("no file in memory: {error}"), None))?;
        let path = observations.as_ref().map(|file| format!("/proc/self/fd/{}", file.as_raw_fd()));
        let words = assemble::whole(kind, &job.words, path.as_deref(), &files.named());
        let exit = self.in_limits(job, &words, session)?;
        let printed = session.printed().map_err(|error| End::Failed(error, exit))?;
        session.said = files.as_read(kind, job, &session.said);
        self.inputs_unchanged(job, &stamps)?;
        let is_result =
            exit.is_some_and(|exit| kind.results.iter().any(|code| i64::from(*code) == exit));
        let document = files.renamed(printed.trim());
        let is_document = serde_json::from_str::<serde_json::Value>(&document)
            .is_ok_and(|value| value.is_object());
        if !is_result || !is_document {
            return Err(no_result(exit, &session.said, &files.as_read(kind, job, printed.trim())));
        }
        let rows = observations.map_or(Ok(Vec::new()), rows);
        let rows = rows.map_err(|reason| End::Failed(reason, exit))?;
        let kept = files.keep()?;
        let said = last_lines(&files.renamed(&session.said));
        let rows: Vec<String> = rows.iter().map(|row| files.renamed(row)).collect();
        let result = Report { job, exit, said, kept: &kept, rows: &rows, document: &document };
        self.write(job, &result.text().map_err(|error| End::Failed(error.message, exit))?)
            .map_err(End::Broken)?;
        Ok(State::Done)
    }

    /// Runs the command where memory is limited.
    fn in_limits(
        &self,
        job: &Job,
        words: &[String],
        session: &mut Session,
    ) -> std::result::Result<Option<i64>, End> {
        memory::forget_peak();
        let ceiling = Ceiling::set(job.limits.memory_bytes);
        let ended = session.around(|| self.commands.run(words));
        drop(ceiling);
        let peak = memory::peak_bytes("self").unwrap_or(0);
        if let Some(limit) = job.limits.memory_bytes.filter(|limit| peak > *limit) {
            return Err(End::Failed(passed_memory(limit, peak), None));
        }
        match ended {
            Some(code) => Ok(Some(i64::from(code))),
            None => Err(End::Failed("the command panicked".into(), None)),
        }
    }

    /// Whether the result is there, with the files that it names. One that is not whole, or has
    /// lost a file, goes: nobody may take it for a result while it is made again.
    fn is_there(&self, job: &Job) -> bool {
        let is_good = match self.directory.read_result(&job.id) {
            Ok(None) => return false,
            Ok(Some(result)) => self.has_outputs(job, &result.outputs),
            Err(_) => false,
        };
        if !is_good {
            // What cannot be removed is replaced by the next one.
            let _ = std::fs::remove_file(self.directory.result(&job.id));
        }
        is_good
    }

    fn has_outputs(&self, job: &Job, outputs: &[serde_json::Value]) -> bool {
        let changed = |found: &std::fs::Metadata| (found.ctime(), found.ctime_nsec());
        let written = std::fs::metadata(self.directory.result(&job.id));
        let written = written.ok().map(|found| changed(&found));
        let is_kept = |output: &serde_json::Value| {
            let path = output["path"].as_str().unwrap_or_default();
            let path = match output["is_target"] == true {
                true => PathBuf::from(path),
                false => self.directory.path().join(path),
            };
            // Its bytes are read only where it changed after the result was written.
            std::fs::metadata(&path).is_ok_and(|found| {
                output["bytes"] == found.len()
                    && (written.is_some_and(|written| changed(&found) <= written)
                        || crate::inputs::digest(&path)
                            .is_ok_and(|digest| output["sha256"] == digest))
            })
        };
        outputs.len() == job.outputs.len() && outputs.iter().all(is_kept)
    }

    /// The stamps of what the job reads, all of which has the content that it had when it was
    /// planned.
    fn inputs_as_planned(
        &self,
        job: &Job,
        session: &mut Session,
    ) -> std::result::Result<Vec<String>, End> {
        let mut stamps = Vec::new();
        for input in &job.inputs {
            let path = Path::new(&input.path);
            let failed = |error: Error| End::Final(error.message, None);
            let stamp = Stamp::of(path).map_err(failed)?.words;
            // The same stamp, of the plan or of what was read before, is the same content.
            let known = session.read.get(&input.path).filter(|known| known.stamp == stamp);
            let sha256 = match known {
                _ if stamp == input.stamp => input.sha256.clone(),
                Some(known) => known.sha256.clone(),
                None => {
                    let now = Input::of(path, self.clock.wall()).map_err(failed)?;
                    let sha256 = now.sha256.clone();
                    session.read.insert(input.path.clone(), now);
                    sha256
                }
            };
            if sha256 != input.sha256 {
                let reason = format!("{}: has changed since the plan was made", input.path);
                return Err(End::Final(reason, None));
            }
            stamps.push(stamp);
        }
        Ok(stamps)
    }

    fn inputs_unchanged(&self, job: &Job, stamps: &[String]) -> std::result::Result<(), End> {
        for (input, before) in job.inputs.iter().zip(stamps) {
            let now = Stamp::of(Path::new(&input.path));
            if !now.is_ok_and(|now| now.words == *before) {
                let reason = format!("{}: changed while the job read it", input.path);
                return Err(End::Failed(reason, None));
            }
        }
        Ok(())
    }

    fn write(&self, job: &Job, text: &str) -> Result<()> {
        let path = self.directory.result(&job.id);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, &error))?;
        }
        whole::write(&path, text.as_bytes())?;
        self.directory.forget_failure(&job.id);
        Ok(())
    }
}

/// What is said of a job that held too much.
pub fn passed_memory(limit_bytes: u64, held_bytes: u64) -> String {
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    format!(
        "passed its memory limit of {:.0} MiB (it held {:.0} MiB)",
        mebibytes(limit_bytes),
        mebibytes(held_bytes)
    )
}

/// A command that ended without a result. Wrong usage is wrong the next time too.
fn no_result(exit: Option<i64>, said: &str, printed: &str) -> End {
    let document: serde_json::Value = serde_json::from_str(printed).unwrap_or_default();
    // What takes several images has the error of each in its document.
    let own = document["images"][0]["error"].as_str().unwrap_or_default();
    let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or(own);
    let error: Option<serde_json::Value> = serde_json::from_str(first).ok();
    let line = error.as_ref().and_then(|error| error["error"].as_str()).unwrap_or(first);
    let code = exit.map_or_else(|| "no code".into(), |code| code.to_string());
    let reason = match (line.is_empty(), document.is_object()) {
        (false, _) => line.to_owned(),
        (true, true) => format!("the command ended with {code}"),
        (true, false) => format!("the command ended with {code} and printed no result"),
    };
    if exit == Some(2) { End::Final(reason, exit) } else { End::Failed(reason, exit) }
}

fn last_lines(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.len().saturating_sub(SAID_LINES_MAX);
    let cut = |line: &&str| line.chars().take(SAID_LETTERS_MAX).collect();
    lines.get(first..).unwrap_or_default().iter().map(cut).collect()
}

/// The lines of observations.
fn rows(mut file: File) -> std::result::Result<Vec<String>, String> {
    let text = bounded(&mut file, 0).map_err(|reason| format!("observations: {reason}"))?;
    Ok(text.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Output;
    use extant_block::RealClock;
    use extant_testkit::scratch::Scratch;
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    type Command = dyn Fn(&[String], &mut File) -> u8;

    /// A command that prints into what is caught, which is no process's standard output here.
    struct Fake<'a> {
        printed: RefCell<File>,
        command: &'a Command,
    }

    impl Commands for Fake<'_> {
        fn run(&self, words: &[String]) -> u8 {
            (self.command)(words, &mut self.printed.borrow_mut())
        }
    }

    fn in_memory() -> File {
        memfd_create("test", MemfdFlags::CLOEXEC).expect("memory").into()
    }

    /// What becomes of a job whose command does this.
    fn answer(folder: &Path, job: &Job, command: &Command) -> Answer {
        let printed = in_memory();
        let fake = Fake { printed: RefCell::new(printed.try_clone().expect("again")), command };
        let mut session = Session {
            answers: in_memory(),
            printed,
            log: in_memory(),
            heard: None,
            said: String::new(),
            has_panicked: false,
            read: BTreeMap::new(),
        };
        let clock = RealClock::new();
        let directory = Directory::make(&folder.join("sweep")).expect("a directory");
        let worker = Worker { directory, commands: &fake, clock: &*clock, epoch: None };
        worker.answer(&job.line().expect("a line"), &mut session)
    }

    fn reason(answer: &Answer) -> &str {
        match &answer.state {
            State::Failed { reason, .. } | State::Broken { reason, .. } => reason,
            other => panic!("{other:?}"),
        }
    }

    fn prints(text: &'static str, code: u8) -> impl Fn(&[String], &mut File) -> u8 {
        move |_: &[String], out: &mut File| {
            out.write_all(text.as_bytes()).expect("it is caught");
            code
        }
    }

    /// A job that checks an image.
    fn check(image: &Path) -> Job {
        let input = Input::of(image, RealClock::new().wall()).expect("an image");
        let words = vec!["check".into(), image.display().to_string()];
        let mut job = crate::job::tests::sample();
        job = Job { kind: "check".into(), words, inputs: vec![input], ..job };
        job.id = job.identity();
        job
    }

    #[test]
    fn a_result_is_written_once_and_made_again_if_it_is_not_whole() {
        let folder = Scratch::new("worker");
        let image = folder.join("a.img");
        std::fs::write(&image, b"image").expect("a file");
        let job = check(&image);
        let printed = prints("{\"z\":1,\"a\":[2]}\n", 4);
        assert_eq!(answer(folder.path(), &job, &printed).state, State::Done);
        let path = folder.join("sweep/results").join(&job.id[..2]).join(format!("{}.json", job.id));
        let first = std::fs::read_to_string(&path).expect("a result");
        assert!(first.ends_with("\"document\":{\"z\":1,\"a\":[2]}}\n"), "{first}");
        assert!(first.contains("\"exit\":4,"), "{first}");
        let never = |_: &[String], _: &mut File| panic!("it is there");
        assert_eq!(answer(folder.path(), &job, &never).state, State::There);
        for torn in [&first[..first.len() / 2], "", "{}"] {
            std::fs::write(&path, torn).expect("a torn file");
            assert_eq!(answer(folder.path(), &job, &printed).state, State::Done);
            assert_eq!(std::fs::read_to_string(&path).expect("a result"), first);
        }
    }

    #[test]
    fn an_input_that_changes_before_or_under_a_job_gives_no_result() {
        let folder = Scratch::new("worker-changed");
        let image = folder.join("a.img");
        std::fs::write(&image, b"image").expect("a file");
        let job = check(&image);
        let path = image.clone();
        let changes = move |_: &[String], out: &mut File| {
            std::fs::write(&path, b"other").expect("a file");
            out.write_all(b"{}").expect("it is caught");
            0
        };
        let under = answer(folder.path(), &job, &changes);
        assert!(reason(&under).ends_with("a.img: changed while the job read it"), "{under:?}");
        let later = answer(folder.path(), &job, &prints("{}", 0));
        assert!(reason(&later).ends_with("a.img: has changed since the plan was made"));
        // The same content again is the same image, whatever its times are.
        std::fs::write(&image, b"image").expect("a file");
        assert_eq!(answer(folder.path(), &job, &prints("{}", 0)).state, State::Done);
        let gone = check(&image);
        std::fs::remove_file(&image).expect("a file");
        std::fs::remove_dir_all(folder.join("sweep/results")).expect("results");
        assert!(reason(&answer(folder.path(), &gone, &prints("{}", 0))).contains("No such file"));
    }

    #[test]
    fn a_command_that_fails_or_prints_no_document_is_named() {
        let folder = Scratch::new("worker-fails");
        let job = crate::job::tests::sample();
        for (text, code, said) in [
            ("{}", 1, "the command ended with 1"),
            ("", 0, "the command ended with 0 and printed no result"),
            ("{\"half\":", 0, "the command ended with 0 and printed no result"),
            ("[1]", 0, "the command ended with 0 and printed no result"),
        ] {
            let failed = answer(folder.path(), &job, &prints(text, code));
            assert_eq!(reason(&failed), said, "{text}");
        }
        let panics = |_: &[String], _: &mut File| -> u8 { panic!("on purpose") };
        let failed = answer(folder.path(), &job, &panics);
        assert!(failed.retires && reason(&failed) == "the command panicked");
        let epoch = Job { epoch: Some("7".into()), ..job.clone() };
        let epoch = Job { id: epoch.identity(), ..epoch };
        let failed = answer(folder.path(), &epoch, &prints("{}", 0));
        assert_eq!(reason(&failed), "SOURCE_DATE_EPOCH was 7 when it was planned, and is not set");
        assert_eq!(answer(folder.path(), &job, &prints("{}", 0)).state, State::Done);
    }

    #[test]
    fn files_get_their_names_with_the_result_and_the_document_has_those() {
        let folder = Scratch::new("worker-files");
        let image = folder.join("a.img");
        std::fs::write(&image, b"image").expect("a file");
        let target = folder.join("a b.tar");
        let mut job = check(&image);
        let output = Output { option: "output".into(), target: Some(target.display().to_string()) };
        job = Job { kind: "tar".into(), outputs: vec![output], ..job };
        job.words[0] = "tar".into();
        job.id = job.identity();
        let writes = |content: &'static str| {
            move |words: &[String], out: &mut File| {
                let named = |word: &String| word.strip_prefix("--output=").map(str::to_owned);
                let path = words.iter().find_map(named).expect("an output");
                std::fs::write(&path, content).expect("a file");
                let document = serde_json::json!({ "output": path });
                out.write_all(document.to_string().as_bytes()).expect("it is caught");
                0
            }
        };
        assert_eq!(answer(folder.path(), &job, &writes("tar")).state, State::Done);
        assert_eq!(std::fs::read(&target).expect("the target"), b"tar");
        let directory = Directory::open(&folder.join("sweep")).expect("a directory");
        let result = directory.read_result(&job.id).expect("whole").expect("there");
        let document: serde_json::Value = serde_json::from_str(result.document.get()).expect("it");
        assert_eq!(document["output"], target.display().to_string().as_str());
        assert_eq!(result.outputs[0]["bytes"], 3);
        // The same again is harmless, another content is not taken for it, and none of it stays.
        std::fs::remove_file(directory.result(&job.id)).expect("a result");
        assert_eq!(answer(folder.path(), &job, &writes("tar")).state, State::Done);
        std::fs::remove_file(directory.result(&job.id)).expect("a result");
        let other = answer(folder.path(), &job, &writes("other"));
        assert!(reason(&other).ends_with("is there already, with another content"));
        assert_eq!(std::fs::read(&target).expect("the target"), b"tar");
        let names = std::fs::read_dir(folder.path()).expect("a folder").flatten();
        let partial = names.filter(|entry| entry.file_name().to_string_lossy().starts_with('.'));
        assert_eq!(partial.count(), 0);
        let nothing = answer(folder.path(), &job, &prints("{}", 0));
        assert!(reason(&nothing).starts_with("--output: the command wrote no file"), "{nothing:?}");
        // A result whose file is gone is no result.
        assert_eq!(answer(folder.path(), &job, &writes("tar")).state, State::Done);
        std::fs::remove_file(&target).expect("the target");
        assert_eq!(answer(folder.path(), &job, &writes("tar")).state, State::Done);
        assert!(target.exists());
    }

    #[test]
    fn a_job_over_its_memory_gives_no_result() {
        let folder = Scratch::new("worker-memory");
        let mut job = crate::job::tests::sample();
        job.limits.memory_bytes = Some(1 << 20);
        let failed = answer(folder.path(), &job, &prints("{}", 0));
        assert!(reason(&failed).starts_with("passed its memory limit of 1 MiB"), "{failed:?}");
        assert!(!folder.join("sweep/results").join(&job.id[..2]).exists());
    }
}
