//! A matrix becomes jobs.
//!
//! What a matrix names is looked at before the first job is written: options are asked of the
//! command line, names are looked up, each value once, and files are read for their digests, each
//! file once. So a plan that is printed has jobs that can begin.
use crate::VERSION;
use crate::assemble::{self, COLUMN, word};
use crate::error::{Error, Result};
use crate::inputs::Input;
use crate::job::{Job, Output, SCHEMA};
use crate::kinds::{self, Kind, Works};
use crate::matrix::{Block, Column, Matrix, Parameters};
use crate::references;
use crate::vocabulary::{Sense, Takes, Vocabulary};
use extant_block::Clock;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The most combinations of a matrix, if nothing else is said.
pub const LIMIT: u64 = 1_000_000;
/// A file of the laboratory that refers to others, which refer to others, is followed this far.
const REFERENCES_DEPTH_MAX: usize = 8;

/// What a plan is made with.
pub struct Planner<'a> {
    /// Asked about words.
    pub vocabulary: &'a dyn Vocabulary,
    /// For how old a file's last change is.
    pub clock: &'a dyn Clock,
    /// The most combinations.
    pub limit: u64,
    /// `SOURCE_DATE_EPOCH` of the environment.
    pub epoch: Option<String>,
    /// Is told of each file before it is read.
    pub tell: &'a dyn Fn(&str),
}

/// What became of a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Planned {
    /// Jobs that were handed over.
    pub jobs: u64,
    /// Combinations that filters left out.
    pub left_out: u64,
    /// Combinations that are a job that was there already.
    pub repeated: u64,
}

impl Planner<'_> {
    /// Hands over every job of a matrix, in order, each once.
    ///
    /// # Errors
    /// The matrix has too many combinations, or one that means nothing: with file and line, before
    /// the first job is handed over, but for files that cannot be read. And what `take` says.
    pub fn plan(
        &self,
        matrix: &Matrix,
        take: &mut dyn FnMut(&Job) -> Result<()>,
    ) -> Result<Planned> {
        self.check_count(matrix)?;
        for block in &matrix.blocks {
            self.check(matrix, block)?;
        }
        let mut planned = Planned::default();
        let mut seen = BTreeSet::new();
        let mut targets: BTreeMap<String, String> = BTreeMap::new();
        let mut inputs = Inputs { planner: self, known: BTreeMap::new(), words: BTreeMap::new() };
        for block in &matrix.blocks {
            for (kind, parameters) in block.combinations() {
                if !block.keeps(kind, &parameters) {
                    planned.left_out += 1;
                    continue;
                }
                let job = self.job(block, kind, parameters, &mut inputs);
                let job = job.map_err(|error| Error {
                    message: matrix.error(block.line, &error.message).message,
                    ..error
                })?;
                if !seen.insert(job.id.clone()) {
                    planned.repeated += 1;
                    continue;
                }
                for target in job.outputs.iter().filter_map(|output| output.target.as_ref()) {
                    if let Some(other) = targets.insert(target.clone(), job.label()) {
                        let reason = format!("{target}: is written by {other} and {}", job.label());
                        let error = matrix.error(block.line, reason);
                        return Err(error.hint("{KEY} in target stands for a value of the job"));
                    }
                }
                take(&job)?;
                planned.jobs += 1;
            }
        }
        Ok(planned)
    }

    fn check_count(&self, matrix: &Matrix) -> Result<()> {
        let mut sum: u128 = 0;
        for block in &matrix.blocks {
            sum = sum.saturating_add(block.count());
            if sum > u128::from(self.limit) {
                let reason = format!("{sum} combinations, the limit is {}", self.limit);
                let hint = "--limit NUMBER allows more; it counts before only and except do";
                return Err(matrix.error(block.line, reason).hint(hint));
            }
        }
        Ok(())
    }

    /// Looks at every key and every value of a block.
    fn check(&self, matrix: &Matrix, block: &Block) -> Result<()> {
        let columns = || block.axes.iter().flat_map(|axis| &axis.columns);
        for kind in &block.kinds {
            for column in columns() {
                self.check_column(matrix, kind, column)?;
            }
            let is_written = |option: &str| kind.writes.iter().any(|write| write.option == option);
            if let Some(option) = block.outputs.iter().find(|option| !is_written(option)) {
                let names: Vec<&str> = kind.writes.iter().map(|write| write.option).collect();
                let known = if names.is_empty() { "nothing".into() } else { names.join(", ") };
                let reason = format!("outputs: {option}: {} writes no such file", kind.name);
                let error = matrix.error(block.line, reason);
                return Err(error.hint(format!("it writes {known}")));
            }
            if block.target.as_ref().is_some_and(|target| target.is_empty()) {
                return Err(matrix.error(block.line, "target: names no file"));
            }
            if block.target.is_some() && assemble::writes(kind, &block.outputs).count() != 1 {
                let reason = format!("target: {} does not write one file", kind.name);
                return Err(matrix.error(block.line, reason));
            }
            if let (Works::OnCopy { .. }, None) = (kind.works, &self.epoch)
                && assemble::writes(kind, &block.outputs).count() > 0
            {
                let reason =
                    format!("{}: the image would have the time of the run in it", kind.name);
                let error = matrix.error(block.line, reason);
                return Err(error.hint("SOURCE_DATE_EPOCH=SECONDS gives it another, in each run"));
            }
            let first: Parameters =
                columns().map(|column| (column.key.clone(), column.values.get(0))).collect();
            self.check_words(matrix, block.line, kind, &first)?;
            for column in columns().filter(|column| needs_words(kind, &column.key)) {
                for value in column.values.samples().into_iter().skip(1) {
                    let mut varied = first.clone();
                    varied.insert(column.key.clone(), value);
                    self.check_words(matrix, column.line, kind, &varied)?;
                }
            }
        }
        Ok(())
    }

    fn check_words(
        &self,
        matrix: &Matrix,
        line: usize,
        kind: &'static Kind,
        parameters: &Parameters,
    ) -> Result<()> {
        let words = assemble::words(kind, parameters);
        let written: Vec<_> = assemble::writes(kind, &[])
            .map(|write| (write, format!("out.{}", write.suffix)))
            .collect();
        let whole = assemble::whole(kind, &words, None, &written);
        let checked = self.vocabulary.check_words(&whole);
        checked.map_err(|reason| matrix.error(line, reason))
    }

    fn check_column(&self, matrix: &Matrix, kind: &Kind, column: &Column) -> Result<()> {
        let key = column.key.as_str();
        let wrong = |reason: String| Err(matrix.error(column.line, reason));
        if let Some(name) = key.strip_prefix(COLUMN) {
            if kind.sense("preset") != Some(Sense::Policies) {
                return wrong(format!("{key}: {} has no policies", kind.name));
            }
            return column.values.samples().iter().try_for_each(|value| {
                let words = format!("{name}={}", word(value));
                let checked = self.vocabulary.check_name(Sense::Policies, &words);
                checked.map_err(|reason| matrix.error(column.line, reason))
            });
        }
        let is_operand = kind.operands.iter().any(|(name, _)| *name == key);
        let is_list = |value: &Value| value.is_array();
        if is_operand && kind.works != Works::Reads && column.values.samples().iter().any(is_list) {
            return wrong(format!("{key}: a job of {} has one", kind.name));
        }
        if !is_operand {
            if kind.refuses(key) {
                return wrong(format!("{key}: is not for jobs; the run gives what they write"));
            }
            let is_other = |value: &Value| kinds::OTHER_EACH_TIME.contains(&(key, &*word(value)));
            if let Some(value) = column.values.samples().iter().find(|value| is_other(value)) {
                let value = word(value);
                return wrong(format!("{key}: {value} gives another result each time"));
            }
            match self.vocabulary.takes(kind.command, key) {
                Takes::Unknown => {
                    return wrong(format!("{key}: extant {} has no such option", kind.name));
                }
                Takes::Nothing if !column.values.samples().iter().all(Value::is_boolean) => {
                    return wrong(format!("{key}: takes no value, only true or false"));
                }
                Takes::Value if column.values.samples().iter().any(Value::is_boolean) => {
                    return wrong(format!("{key}: takes a value, not true or false"));
                }
                Takes::Nothing | Takes::Value => {}
            }
        }
        let Some(sense) = kind.sense(key) else { return Ok(()) };
        if matches!(sense, Sense::Drive | Sense::Scenario | Sense::Policies) {
            for value in column.values.samples() {
                let checked = self.vocabulary.check_name(sense, &word(&value));
                checked.map_err(|reason| matrix.error(column.line, reason))?;
            }
        }
        Ok(())
    }

    fn job(
        &self,
        block: &Block,
        kind: &'static Kind,
        parameters: Parameters,
        inputs: &mut Inputs,
    ) -> Result<Job> {
        let outputs: Vec<Output> = assemble::writes(kind, &block.outputs)
            .map(|write| {
                let target = block.target.as_ref().map(|words| filled(words, &parameters));
                Ok(Output { option: write.option.to_owned(), target: target.transpose()? })
            })
            .collect::<Result<_>>()?;
        let mut job = Job {
            schema: SCHEMA.into(),
            id: String::new(),
            version: VERSION.into(),
            kind: kind.name.into(),
            words: assemble::words(kind, &parameters),
            inputs: inputs.of(kind, &parameters)?,
            parameters,
            outputs,
            epoch: self.epoch.clone(),
            limits: block.limits,
        };
        job.id = job.identity();
        Ok(job)
    }
}

/// The files that a file of the laboratory refers to, and those that they refer to.
fn follow(path: &Path, paths: &mut BTreeSet<PathBuf>, depth: usize) {
    if depth >= REFERENCES_DEPTH_MAX {
        return;
    }
    for other in references::of(path) {
        if paths.insert(other.clone()) {
            follow(&other, paths, depth + 1);
        }
    }
}

/// Whether each value of a key is held against the command line: not those that are looked up as
/// names, nor files, of which there may be thousands and which are words of any form.
fn needs_words(kind: &Kind, key: &str) -> bool {
    !key.starts_with(COLUMN) && matches!(kind.sense(key), None | Some(Sense::Word))
}

/// A target with the values in their places. A path as a value stands there with its last name,
/// without the ending.
fn filled(words: &str, parameters: &Parameters) -> Result<String> {
    let mut text = String::new();
    let mut rest = words;
    while let Some((before, after)) = rest.split_once('{') {
        let closed = after.split_once('}');
        let (key, after) =
            closed.ok_or_else(|| Error::new(format!("target: {words}: a }} is missing")))?;
        let value = parameters.get(key).ok_or_else(|| {
            Error::new(format!("target: {words}: there is no {key} in this block"))
        })?;
        let value = word(value);
        let stem = Path::new(&value).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        text += before;
        text += &if value.contains('/') || Path::new(&value).exists() {
            stem.unwrap_or_default()
        } else {
            value
        };
        rest = after;
    }
    Ok(text + rest)
}

/// The digests of what was read, each path once, and the paths that each word leads to.
struct Inputs<'a> {
    planner: &'a Planner<'a>,
    known: BTreeMap<PathBuf, Input>,
    words: BTreeMap<(Sense, String), BTreeSet<PathBuf>>,
}

impl Inputs<'_> {
    /// What a job reads, by path.
    fn of(&mut self, kind: &Kind, parameters: &Parameters) -> Result<Vec<Input>> {
        let mut paths = BTreeSet::new();
        for (key, value) in parameters {
            let sense = kind.sense(key).unwrap_or(Sense::Word);
            let words: Vec<String> = match value {
                Value::Array(list) => list.iter().map(word).collect(),
                Value::String(word) => vec![word.clone()],
                _ => continue,
            };
            for word in words.into_iter().filter(|_| sense != Sense::Device) {
                paths.extend(self.behind(sense, word).iter().cloned());
            }
        }
        paths.into_iter().map(|path| self.read(path)).collect()
    }

    /// The files that a word leads to; an input is one itself, there or not, and what is
    /// not there is said when it is read.
    fn behind(&mut self, sense: Sense, word: String) -> &BTreeSet<PathBuf> {
        self.words.entry((sense, word)).or_insert_with_key(|(sense, word)| {
            let direct = match sense {
                Sense::Input => vec![PathBuf::from(word)],
                _ => named_files(word),
            };
            let mut paths: BTreeSet<PathBuf> = direct.iter().cloned().collect();
            direct.iter().for_each(|path| follow(path, &mut paths, 0));
            paths
        })
    }

    fn read(&mut self, path: PathBuf) -> Result<Input> {
        if let Some(input) = self.known.get(&path) {
            return Ok(input.clone());
        }
        (self.planner.tell)(&format!("reading {}", path.display()));
        let input = Input::of(&path, self.planner.clock.wall())?;
        self.known.insert(path, input.clone());
        Ok(input)
    }
}

/// The files that a word names: as a whole, or in one of its parts, as `sh:RULES` and
/// `src=FILE,dst=PATH` do. More than what the command opens does no harm, less would: its result
/// would be taken for that of another content. A folder counts only as the source of an injection.
fn named_files(word: &str) -> Vec<PathBuf> {
    let parts = word.split([',', '=', ':']).chain([word]);
    let sources = word.split(',').filter_map(|part| part.strip_prefix("src="));
    let folders = sources.map(PathBuf::from).filter(|path| path.is_dir());
    let files = parts.map(PathBuf::from).filter(|path| path.is_file());
    files.chain(folders).collect()
}
