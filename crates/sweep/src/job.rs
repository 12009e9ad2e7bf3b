//! A job: one line of JSON.
//!
//! *Invariant*: `id` is the digest of all that decides the result: version, kind, words,
//! parameters, the digests of the inputs, what is written. Limits and stamps are not among them.
use crate::VERSION;
use crate::error::{Error, Result};
use crate::inputs::{Input, hexadecimal};
use crate::kinds::{self, Kind};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The form of a line.
pub const SCHEMA: &str = "extant-sweep-job/1";

/// No line of a job is longer, in bytes.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// A job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// [`SCHEMA`].
    pub schema: String,
    /// The digest of all that decides its result: 64 hexadecimal digits.
    pub id: String,
    /// Our version that planned it, and has to run it.
    pub version: String,
    /// A row of [`kinds::KINDS`], by name.
    pub kind: String,
    /// The words of the command line, without the program's name, and without what the run adds.
    pub words: Vec<String>,
    /// The values of the matrix that it was made of.
    pub parameters: BTreeMap<String, Value>,
    /// What it reads.
    #[serde(default)]
    pub inputs: Vec<Input>,
    /// What it writes besides its result.
    #[serde(default)]
    pub outputs: Vec<Output>,
    /// What `SOURCE_DATE_EPOCH` was when it was planned: images have it in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<String>,
    /// What it may use.
    #[serde(default)]
    pub limits: Limits,
}

/// A file that a job writes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// A row of the kind's `writes`, by its option.
    pub option: String,
    /// Where it goes; by the id below `out` of the directory if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// What a job may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Memory in bytes; that of the run if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Time in seconds; likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

/// What the id is a digest of.
#[derive(Serialize)]
struct Identity<'a> {
    schema: &'a str,
    version: &'a str,
    kind: &'a str,
    words: &'a [String],
    parameters: &'a BTreeMap<String, Value>,
    inputs: Vec<(&'a str, &'a str)>,
    outputs: &'a [Output],
    epoch: &'a Option<String>,
}

impl Job {
    /// What [`Job::id`] has to be.
    pub fn identity(&self) -> String {
        let inputs = self.inputs.iter();
        let identity = Identity {
            schema: &self.schema,
            version: &self.version,
            kind: &self.kind,
            words: &self.words,
            parameters: &self.parameters,
            inputs: inputs.map(|input| (input.path.as_str(), input.sha256.as_str())).collect(),
            outputs: &self.outputs,
            epoch: &self.epoch,
        };
        // Strings, numbers and lists can always be written.
        let text = serde_json::to_vec(&identity).unwrap_or_default();
        hexadecimal(&Sha256::digest(&text))
    }

    /// The job as a line, without its end.
    ///
    /// # Errors
    /// It would be longer than [`LINE_BYTES_MAX`].
    pub fn line(&self) -> Result<String> {
        let line = serde_json::to_string(self)
            .map_err(|error| Error::new(format!("job {}: {error}", self.id)))?;
        match line.len() > LINE_BYTES_MAX {
            true => Err(Error::new(format!(
                "job {}: has {} bytes, the limit is {LINE_BYTES_MAX}",
                self.id,
                line.len()
            ))),
            false => Ok(line),
        }
    }

    /// The job of a line.
    ///
    /// # Errors
    /// It is none, is of another version, or was changed after it was planned.
    pub fn parse(line: &str) -> Result<Job> {
        /// What every version has.
        #[derive(Deserialize)]
        struct Head {
            schema: String,
            version: String,
        }
        let head: Head = serde_json::from_str(line)
            .map_err(|_| Error::new("is no job: a job is a line of `extant sweep plan`"))?;
        if head.version != VERSION || head.schema != SCHEMA {
            return Err(Error::new(format!(
                "is a job of extant {} ({}), and this is {VERSION} ({SCHEMA})",
                head.version, head.schema
            ))
            .hint("plan it again with this version, or run it with the other one"));
        }
        let job: Job = serde_json::from_str(line).map_err(|error| Error::new(error.to_string()))?;
        if job.id != job.identity() {
            return Err(Error::new("was changed after it was planned: its id is another job's")
                .hint("change the matrix, and plan it again"));
        }
        let kind = job.kind()?;
        let is_known =
            |output: &Output| kind.writes.iter().any(|write| write.option == output.option);
        if let Some(output) = job.outputs.iter().find(|output| !is_known(output)) {
            return Err(Error::new(format!("{} writes no {}", job.kind, output.option)));
        }
        Ok(job)
    }

    /// Its row in the table of kinds.
    ///
    /// # Errors
    /// There is none.
    pub fn kind(&self) -> Result<&'static Kind> {
        let kind = kinds::find(&self.kind)
            .ok_or_else(|| Error::new(format!("{}: is no kind of job", self.kind)))?;
        match self
            .words
            .iter()
            .map(String::as_str)
            .take(kind.command.len())
            .eq(kind.command.iter().copied())
        {
            true => Ok(kind),
            false => Err(Error::new(format!("its words are not those of {}", self.kind))),
        }
    }

    /// What people call it: its kind and parameters, and the beginning of its id.
    pub fn label(&self) -> String {
        let mut label = self.kind.clone();
        for (key, value) in &self.parameters {
            label += &match value {
                Value::String(word) => format!(" {key}={word}"),
                value => format!(" {key}={value}"),
            };
        }
        format!("{label} ({})", self.id.get(..12).unwrap_or(&self.id))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A job that reads nothing.
    pub(crate) fn sample() -> Job {
        let mut job = Job {
            schema: SCHEMA.into(),
            id: String::new(),
            version: VERSION.into(),
            kind: "lab run".into(),
            words: ["lab", "run", "--seed=7", "read-cold"].map(str::to_owned).into(),
            parameters: BTreeMap::from([("seed".into(), Value::from(7))]),
            inputs: Vec::new(),
            outputs: Vec::new(),
            epoch: None,
            limits: Limits::default(),
        };
        job.id = job.identity();
        job
    }

    #[test]
    fn a_line_gives_the_job_again_and_limits_do_not_name_it() {
        let job = sample();
        assert_eq!(Job::parse(&job.line().unwrap()).unwrap(), job);
        let limits = Limits { memory_bytes: Some(1), seconds: Some(2) };
        assert_eq!(Job { limits, ..job.clone() }.identity(), job.id);
        let input = Input { path: "a".into(), sha256: "b".into(), stamp: "c".into() };
        let reading = Job { inputs: vec![input.clone()], ..job.clone() };
        assert_ne!(reading.identity(), job.id);
        let stamped = Input { stamp: String::new(), ..input };
        assert_eq!(Job { inputs: vec![stamped], ..job.clone() }.identity(), reading.identity());
        assert_eq!(job.label(), format!("lab run seed=7 ({})", &job.id[..12]));
    }

    #[test]
    fn what_is_no_job_of_ours_is_refused() {
        let job = sample();
        let refused = |job: &Job| Job::parse(&job.line().unwrap()).unwrap_err().message;
        let other = Job { version: "9.9.9".into(), ..job.clone() };
        assert!(refused(&other).contains("is a job of extant 9.9.9"));
        let edited = Job { words: vec!["lab".into(), "run".into()], ..job.clone() };
        assert!(refused(&edited).contains("was changed after it was planned"));
        let mut foreign = Job { words: vec!["mount".into()], ..job.clone() };
        foreign.id = foreign.identity();
        assert_eq!(refused(&foreign), "its words are not those of lab run");
        let output = Output { option: "secret".into(), target: None };
        let mut writing = Job { outputs: vec![output], ..job };
        writing.id = writing.identity();
        assert_eq!(refused(&writing), "lab run writes no secret");
        assert!(Job::parse("{}").unwrap_err().message.starts_with("is no job"));
        assert!(Job::parse("").is_err() && Job::parse("[").is_err());
    }
}
