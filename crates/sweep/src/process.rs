//! One worker process, seen from the run: what it is given, what it answers, how it ends.
//!
//! *Invariants*: a process is killed and waited for when this is dropped; it has one job at most.
//! *Locking*: none; the run has one thread.
use crate::VERSION;
use crate::error::{Error, Result, reason};
use crate::job::LINE_BYTES_MAX;
use crate::memory;
use crate::worker::{Answer, HELLO_SCHEMA, Hello};
use rustix::fs::{MemfdFlags, OFlags, fcntl_getfl, fcntl_setfl, memfd_create};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

/// Of what a process said, so much is looked at after its end.
const TAIL_BYTES: u64 = 16 << 10;

/// What a worker said.
#[derive(Debug)]
pub enum Said {
    /// It is ready.
    Hello,
    /// What became of its job.
    Answer(Answer),
    /// It has ended: how, and its last lines on standard error.
    Ended(ExitStatus, Vec<String>),
}

/// A worker process.
#[derive(Debug)]
pub struct Process {
    child: Child,
    jobs: Option<ChildStdin>,
    answers: ChildStdout,
    /// What has come of the next line.
    line: Vec<u8>,
    log: File,
    is_ready: bool,
    program: String,
}

impl Process {
    /// Starts a worker; `program` is what errors call it.
    ///
    /// # Errors
    /// The host gives no process, or there is no such program.
    pub fn start(mut command: Command, program: &str) -> Result<Process> {
        let failed = |error: std::io::Error| {
            Error::new(format!("{program}: cannot be run as a worker: {}", reason(&error)))
        };
        let log =
            memfd_create("worker", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        // Emptied between jobs: the next line goes to the beginning then.
        let appending =
            fcntl_getfl(&log).and_then(|flags| fcntl_setfl(&log, flags | OFlags::APPEND));
        appending.map_err(|error| failed(error.into()))?;
        let log = File::from(log);
        let theirs = log.try_clone().map_err(failed)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::from(theirs));
        let mut child = command.spawn().map_err(failed)?;
        let (jobs, answers) = (child.stdin.take(), child.stdout.take());
        let answers = answers.ok_or_else(|| failed(std::io::Error::other("it has no output")))?;
        let program = program.to_owned();
        Ok(Process { child, jobs, answers, line: Vec::new(), log, is_ready: false, program })
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.child.id()
    }

    /// What to wait for.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.answers.as_fd()
    }

    /// Whether it has said that it is ready.
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// The most that it has held in its job, in bytes.
    pub fn peak_bytes(&self) -> u64 {
        memory::peak_bytes(&self.child.id().to_string()).unwrap_or(0)
    }

    /// Gives it a job. A worker that has ended meanwhile says so when it is read.
    pub fn give(&mut self, line: &str) {
        // Of jobs before nothing is told any more.
        let _ = self.log.set_len(0);
        if let Some(jobs) = &mut self.jobs {
            let _ = jobs.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// Reads what has come, once [`Process::descriptor`] has something; empty if no line is whole.
    ///
    /// # Errors
    /// It is no worker, or one of another version.
    pub fn read(&mut self) -> Result<Vec<Said>> {
        let mut piece = [0; 1 << 14];
        let length = match self.answers.read(&mut piece) {
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(Vec::new()),
            Err(_) => 0,
        };
        if length == 0 {
            let status = self.child.wait().map_err(|error| self.error(&reason(&error)))?;
            return Ok(vec![Said::Ended(status, self.last_lines())]);
        }
        self.line.extend_from_slice(piece.get(..length).unwrap_or_default());
        let mut said = Vec::new();
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            said.push(self.parsed(String::from_utf8_lossy(&line).trim())?);
        }
        match self.line.len() > LINE_BYTES_MAX {
            true => Err(self.error("says a line without an end: it is no worker")),
            false => Ok(said),
        }
    }

    fn parsed(&mut self, line: &str) -> Result<Said> {
        let cut: String = line.chars().take(80).collect();
        if self.is_ready {
            let answer = serde_json::from_str(line);
            return answer
                .map(Said::Answer)
                .map_err(|_| self.error(&format!("answered {cut:?}, which no worker does")));
        }
        let hello: Option<Hello> = serde_json::from_str(line).ok();
        let hello = hello.ok_or_else(|| {
            self.error(&format!("said {cut:?}: it is no extant that has `sweep worker`"))
        })?;
        if hello.version != VERSION || hello.schema != HELLO_SCHEMA {
            let words = format!("is extant {}, and the jobs are of {VERSION}", hello.version);
            return Err(self.error(&words));
        }
        self.is_ready = true;
        Ok(Said::Hello)
    }

    /// An error about the program that it is.
    pub fn error(&self, words: &str) -> Error {
        Error::new(format!("worker {}: {words}", self.program))
    }

    /// The last lines that it said on standard error.
    pub fn last_lines(&mut self) -> Vec<String> {
        let length = self.log.metadata().map_or(0, |found| found.len());
        let mut bytes = Vec::new();
        let from = length.saturating_sub(TAIL_BYTES);
        // What cannot be read is not told.
        let _ = self.log.seek(SeekFrom::Start(from)).and_then(|_| self.log.read_to_end(&mut bytes));
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().to_vec()
    }

    /// Ends it at once, whatever it does.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends it after the job that it has, and waits for that.
    pub fn dismiss(mut self) {
        drop(self.jobs.take());
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
