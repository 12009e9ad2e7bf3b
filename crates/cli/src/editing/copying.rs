//! What cp and put have in common: options, and a copy of several sources.
use super::Job;
use super::operands::Destination;
use extant_edit::copy::{
    self, Copied, Copy, Dereference, Existing, Keep, Sink, Source, Sparse, Troubles,
};
use extant_edit::mode::Mode;
use extant_edit::owner::Owner;
use extant_edit::tree::Reach;
use extant_engine::Filesystem;
use extant_host::progress::{ProgressLine, Unit};
use extant_image::Progress;
use std::cell::Cell;
use std::path::PathBuf;

/// How copies are made: cp(1)'s options.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct CopyArguments {
    /// Copy directories, and keep all: owner, mode, times, links, attributes (-dr with all kept)
    #[arg(short = 'a', long)]
    pub archive: bool,
    /// Copy directories with their content
    #[arg(short = 'r', long, visible_short_alias = 'R')]
    pub recursive: bool,
    /// Keep owner, mode, access lists and times
    #[arg(short = 'p')]
    pub preserve: bool,
    /// Keep symbolic links, and which names are of one file
    #[arg(short = 'd')]
    pub links: bool,
    /// Copy what symbolic links of the source lead to
    #[arg(short = 'L', long, overrides_with_all = ["no_dereference", "named"])]
    pub dereference: bool,
    /// Copy symbolic links of the source as they are
    #[arg(short = 'P', long, overrides_with_all = ["dereference", "named"])]
    pub no_dereference: bool,
    /// Follow those that are named, and no others
    #[arg(short = 'H', overrides_with_all = ["dereference", "no_dereference"])]
    pub named: bool,
    /// Remove a file that cannot be written, and make a new one
    #[arg(short = 'f', long)]
    pub force: bool,
    /// Leave files alone that are there
    #[arg(short = 'n', long)]
    pub no_clobber: bool,
    /// The last word is the copy, not a directory for it
    #[arg(short = 'T', long)]
    pub no_target_directory: bool,
    /// Which holes a copy has: those of the source (auto), all zeros (always), or none (never)
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = sparse)]
    pub sparse: SparseWord,
    /// To whom all copies belong; names are those of the image. Without -p and -a: 0:0
    #[arg(long, value_name = "OWNER:GROUP")]
    pub owner: Option<String>,
    /// The permissions of all files that are copied: 644, u=rw,go=r
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub mode: Option<Mode>,
}

/// The word of --sparse.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SparseWord {
    /// auto
    #[default]
    Auto,
    /// always
    Always,
    /// never
    Never,
}

fn sparse(word: &str) -> Result<SparseWord, String> {
    match word {
        "auto" => Ok(SparseWord::Auto),
        "always" => Ok(SparseWord::Always),
        "never" => Ok(SparseWord::Never),
        _ => Err("there are auto, always and never".to_owned()),
    }
}

/// Permissions of the command line.
///
/// # Errors
/// What is wrong with them.
pub fn mode(word: &str) -> Result<Mode, String> {
    Mode::parse(word)
}

impl CopyArguments {
    /// The options, with an owner that was looked up.
    pub fn options(&self, owner: Owner) -> copy::Options {
        let all = self.archive;
        let reach = if all || self.recursive { Reach::Tree } else { Reach::One };
        let dereference = match () {
            () if self.dereference => Dereference::Always,
            () if self.named => Dereference::Named,
            () if all || self.links || self.no_dereference || reach == Reach::Tree => {
                Dereference::Never
            }
            () => Dereference::Always,
        };
        let some = all || self.preserve;
        let keep = Keep {
            mode: some,
            owner: some,
            times: some,
            links: all || self.links,
            attributes: all,
        };
        let existing = match () {
            () if self.no_clobber => Existing::Keep,
            () if self.force => Existing::Force,
            () => Existing::Overwrite,
        };
        let sparse = match self.sparse {
            SparseWord::Auto => Sparse::Auto,
            SparseWord::Always => Sparse::Always,
            SparseWord::Never => Sparse::Never,
        };
        let mode = self.mode.clone();
        copy::Options { reach, dereference, keep, existing, sparse, owner, mode }
    }

    /// The owner that was asked for, by the names of an image.
    ///
    /// # Errors
    /// A name that the image does not know.
    pub fn owner(&self, filesystem: &Filesystem) -> extant_edit::Result<Owner> {
        match &self.owner {
            Some(text) => Owner::parse(filesystem, text),
            None => Ok(Owner::default()),
        }
    }
}

/// Copies sources of one tree.
///
/// # Errors
/// As [`Copy::copy`].
pub fn copy(
    (source, sink): (&dyn Source, &dyn Sink),
    sources: &[PathBuf],
    destination: &Destination<'_>,
    (options, troubles): (&copy::Options, Troubles<'_>),
    job: &mut Job<'_>,
) -> extant_edit::Result<()> {
    let line = job.console.progress("cp", Unit::Bytes, 0);
    let told = Cell::new(0);
    let listener = |copied: &Copied| advance(&line, &told, copied.bytes);
    let mut copy = Copy::new(source, sink, options, (&listener, troubles));
    for from in sources {
        copy.copy(from, &destination.of(from))?;
    }
    let copied = copy.copied();
    job.done.objects += copied.objects;
    job.done.bytes += copied.bytes;
    job.done.kept += copied.kept;
    Ok(())
}

fn advance(line: &ProgressLine, told: &Cell<u64>, bytes: u64) {
    line.advance(bytes.saturating_sub(told.get()));
    told.set(bytes);
}
