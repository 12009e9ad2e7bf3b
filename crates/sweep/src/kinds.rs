//! The table of what can be a job: a row for each kind.
//!
//! A row says which command it is, what its operands are, which options name drives or files, what
//! it writes, and which exit codes mean that there is a result. What an option is called and takes
//! is not here: the command line itself is asked ([`crate::vocabulary::Vocabulary`]).
use crate::vocabulary::Sense;

/// A kind of job.
#[derive(Debug)]
pub struct Kind {
    /// As a matrix names it.
    pub name: &'static str,
    /// The words of the command.
    pub command: &'static [&'static str],
    /// What follows the options, in this order: the key of a matrix, and what it stands for.
    pub operands: &'static [(&'static str, Sense)],
    /// Options whose words have a sense.
    pub senses: &'static [(&'static str, Sense)],
    /// Files that it can write.
    pub writes: &'static [Write],
    /// Where the rows of a table come from.
    pub rows: Rows,
    /// Options that a job does not have, besides those of the run.
    pub refused: &'static [&'static str],
    /// Exit codes with which the command has printed a result.
    pub results: &'static [u8],
    /// What the command does to its operand.
    pub works: Works,
}

/// What a command does to its operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Works {
    /// It reads it.
    Reads,
    /// It changes its only operand: a job gives it a copy, which is the file that it writes.
    OnCopy {
        /// Words that the command gets with the copy.
        copied: &'static [&'static str],
        /// Words with which it only reads, where no file was asked for.
        unasked: &'static [&'static str],
    },
}

/// A file that a kind can write.
#[derive(Debug)]
pub struct Write {
    /// The option, without hyphens, that names it; the name by which `outputs` asks for it.
    pub option: &'static str,
    /// The word before its path; none for one that is the last operand, or the copy of the only
    /// one.
    pub word: Option<&'static str>,
    /// The ending of its name.
    pub suffix: &'static str,
    /// Whether it is written unasked.
    pub when: When,
}

/// When a file is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// By every job of the kind.
    Always,
    /// If `outputs` names it.
    Asked,
}

/// Where the rows of a table come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rows {
    /// The command writes observations with `--jsonl`: a row each.
    Observations,
    /// The document of `--json` is one row.
    Document,
}

/// What the run itself gives or keeps away, for every kind.
pub const OF_THE_RUN: &[&str] =
    &["json", "jsonl", "csv", "parquet", "html", "quiet", "wait", "help", "force"];

/// Values that give another result each time, by the key that may have them.
pub const OTHER_EACH_TIME: &[(&str, &str)] = &[("U", "random"), ("U", "time")];

const DRIVE: (&str, Sense) = ("drive", Sense::Drive);
const PRESET: (&str, Sense) = ("preset", Sense::Policies);
const IMAGE: (&str, Sense) = ("image", Sense::Input);
/// Nothing was wrong, it was mended, something is left.
const RESULTS_OF_FSCK: &[u8] = &[0, 1, 4];

/// Every kind.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "lab run",
        command: &["lab", "run"],
        operands: &[("scenario", Sense::Scenario)],
        senses: &[DRIVE, PRESET, IMAGE],
        writes: &[
            Write { option: "save", word: Some("--save"), suffix: "img", when: When::Asked },
            Write { option: "trace", word: Some("--trace"), suffix: "trace", when: When::Asked },
        ],
        rows: Rows::Observations,
        refused: &["real", "overwrite"],
        results: &[0],
        works: Works::Reads,
    },
    Kind {
        name: "lab posts",
        command: &["lab", "posts"],
        operands: &[("number", Sense::Word)],
        senses: &[],
        writes: &[],
        rows: Rows::Observations,
        refused: &["table", "before", "without-fitted", "detail"],
        // 1: a row misses what it has to be, which is a result.
        results: &[0, 1],
        works: Works::Reads,
    },
    Kind {
        name: "lab session",
        command: &["lab", "session"],
        operands: &[("trace", Sense::Input)],
        senses: &[DRIVE, PRESET, IMAGE],
        writes: &[],
        rows: Rows::Observations,
        refused: &[],
        results: &[0],
        works: Works::Reads,
    },
    Kind {
        name: "lab age",
        command: &["lab", "age"],
        operands: &[("what", Sense::NameOrFile)],
        senses: &[DRIVE, PRESET],
        writes: &[],
        rows: Rows::Observations,
        refused: &[],
        results: &[0],
        works: Works::Reads,
    },
    Kind {
        name: "lab replay",
        command: &["lab", "replay"],
        operands: &[],
        senses: &[DRIVE, ("trace", Sense::Input), ("facts", Sense::Input)],
        writes: &[Write {
            option: "times",
            word: Some("--times"),
            suffix: "times",
            when: When::Asked,
        }],
        // Its observations are a row for each request: the summary is the result.
        rows: Rows::Document,
        refused: &[],
        results: &[0],
        works: Works::Reads,
    },
    Kind {
        name: "lab fit",
        command: &["lab", "fit"],
        operands: &[("device", Sense::Device)],
        senses: &[],
        writes: &[],
        rows: Rows::Document,
        refused: &["write"],
        results: &[0],
        works: Works::Reads,
    },
    Kind {
        name: "build",
        command: &["build"],
        operands: &[("source", Sense::Input)],
        senses: &[],
        writes: &[
            Write { option: "image", word: None, suffix: "img", when: When::Always },
            Write { option: "bmap", word: Some("--bmap"), suffix: "bmap", when: When::Asked },
        ],
        rows: Rows::Document,
        // The time of a read is in no digest, and changes when a source is read for one.
        refused: &["verity", "F", "keep-atime"],
        results: &[0],
        works: Works::Reads,
    },
    Kind {
        name: "check",
        command: &["check"],
        operands: &[IMAGE],
        senses: &[("journal", Sense::Input)],
        writes: &[],
        rows: Rows::Document,
        refused: &["list", "explain"],
        // 4: problems, which are a result.
        results: &[0, 4],
        works: Works::Reads,
    },
    Kind {
        name: "repair",
        command: &["repair"],
        operands: &[IMAGE],
        senses: &[],
        writes: &[Write { option: "image", word: None, suffix: "img", when: When::Asked }],
        rows: Rows::Document,
        // A journal on another device would be replayed there.
        refused: &["dry-run", "n", "no-undo", "log", "journal"],
        results: RESULTS_OF_FSCK,
        works: Works::OnCopy { copied: &["--no-undo"], unasked: &["--dry-run"] },
    },
    Kind {
        name: "heal",
        command: &["heal"],
        operands: &[IMAGE],
        senses: &[],
        writes: &[Write { option: "image", word: None, suffix: "img", when: When::Always }],
        rows: Rows::Document,
        refused: &["undo", "log", "journal"],
        results: RESULTS_OF_FSCK,
        works: Works::OnCopy { copied: &[], unasked: &[] },
    },
    Kind {
        name: "layout",
        command: &["layout"],
        operands: &[IMAGE],
        senses: &[("journal", Sense::Input)],
        writes: &[],
        rows: Rows::Document,
        refused: &[],
        results: &[0],
        works: Works::Reads,
    },
    Kind {
        name: "tar",
        command: &["tar"],
        operands: &[IMAGE, ("path", Sense::Word)],
        senses: &[("journal", Sense::Input)],
        writes: &[Write {
            option: "output",
            word: Some("--output"),
            suffix: "tar",
            when: When::Always,
        }],
        rows: Rows::Document,
        refused: &["o", "F"],
        results: &[0],
        works: Works::Reads,
    },
    Kind {
        name: "diff",
        command: &["diff"],
        operands: &[("a", Sense::Input), ("b", Sense::Input)],
        senses: &[("journal", Sense::Input)],
        writes: &[],
        rows: Rows::Document,
        refused: &[],
        // 1: differences, which are a result.
        results: &[0, 1],
        works: Works::Reads,
    },
];

/// The kind of that name.
pub fn find(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

impl Kind {
    /// What the word of a key stands for; `None` for a key that is neither operand nor option with
    /// a sense.
    pub fn sense(&self, key: &str) -> Option<Sense> {
        self.operands.iter().chain(self.senses).find(|(name, _)| *name == key).map(|row| row.1)
    }
    /// Whether a job of this kind may not have the option, since the run gives it or its result
    /// would be elsewhere.
    pub fn refuses(&self, option: &str) -> bool {
        OF_THE_RUN.contains(&option)
            || self.refused.contains(&option)
            || self.writes.iter().any(|write| write.option == option)
    }
}
