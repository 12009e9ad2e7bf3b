//! What a result holds: the same bytes wherever and whenever the job is run.
use super::files::Kept;
use crate::directory::RESULT_SCHEMA;
use crate::error::{Error, Result};
use crate::job::Job;
use serde::Serialize;

/// A result, before it is a text.
pub struct Report<'a> {
    /// The job.
    pub job: &'a Job,
    /// Its exit code.
    pub exit: Option<i64>,
    /// What it said on standard error.
    pub said: Vec<String>,
    /// The files that it wrote.
    pub kept: &'a [Kept],
    /// Its observations, a JSON object each.
    pub rows: &'a [String],
    /// What it printed: one JSON object.
    pub document: &'a str,
}

impl Report<'_> {
    /// The text of its file.
    ///
    /// # Errors
    /// An observation is no JSON.
    pub fn text(&self) -> Result<String> {
        #[derive(Serialize)]
        struct Read<'a> {
            path: &'a str,
            sha256: &'a str,
        }
        let job = self.job;
        let inputs = job.inputs.iter();
        let inputs: Vec<Read> =
            inputs.map(|input| Read { path: &input.path, sha256: &input.sha256 }).collect();
        let json = |value: serde_json::Result<String>| {
            value.map_err(|error| Error::new(format!("{}: {error}", job.label())))
        };
        let mut text = format!(
            "{{\"schema\":\"{RESULT_SCHEMA}\",\"id\":{},\"kind\":{},\"version\":{},\
             \"parameters\":{},\"words\":{},\"inputs\":{},\"exit\":{},\"said\":{},\"outputs\":{}",
            json(serde_json::to_string(&job.id))?,
            json(serde_json::to_string(&job.kind))?,
            json(serde_json::to_string(&job.version))?,
            json(serde_json::to_string(&job.parameters))?,
            json(serde_json::to_string(&job.words))?,
            json(serde_json::to_string(&inputs))?,
            json(serde_json::to_string(&self.exit))?,
            json(serde_json::to_string(&self.said))?,
            json(serde_json::to_string(&self.kept))?,
        );
        if !self.rows.is_empty() {
            text += &format!(",\"rows\":[{}]", self.rows.join(","));
        }
        // As the command printed it, so that the order of its members stays.
        text += &format!(",\"document\":{}}}\n", self.document);
        let whole = serde_json::from_str::<serde::de::IgnoredAny>(&text);
        whole.map_err(|error| Error::new(format!("{}: result: {error}", job.label())))?;
        Ok(text)
    }
}
