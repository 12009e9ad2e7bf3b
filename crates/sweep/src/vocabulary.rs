//! What the command line has to say about words, before a job is made of them.

/// What a word of a kind stands for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Sense {
    /// A drive of the laboratory, built in or a file.
    Drive,
    /// A scenario, built in or a file.
    Scenario,
    /// A preset with columns.
    Policies,
    /// A name that is built in, or a file.
    NameOrFile,
    /// A file or folder whose content is what the job is about.
    Input,
    /// A device: it is measured, not read, and its content does not count.
    Device,
    /// Anything else. A file that it names counts by its content.
    Word,
}

/// What an option takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Takes {
    /// There is no such option.
    Unknown,
    /// Nothing: it is there or not.
    Nothing,
    /// A value.
    Value,
}

/// The command line, asked about words.
pub trait Vocabulary {
    /// What the option of this name (without hyphens) of a command takes.
    fn takes(&self, command: &[&str], option: &str) -> Takes;
    /// Whether the words after `extant` are a command line.
    ///
    /// # Errors
    /// What is wrong, in one line.
    fn check_words(&self, words: &[String]) -> Result<(), String>;
    /// Whether a word means something.
    ///
    /// # Errors
    /// What is wrong, in one line.
    fn check_name(&self, sense: Sense, word: &str) -> Result<(), String>;
}
