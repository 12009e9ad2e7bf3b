//! The words of e2fsck's command line.
use crate::dumpe2fs::SIZES;
use crate::getopt;
use extant_repair::Optimize;
use std::ffi::OsString;
use std::path::PathBuf;

/// What may be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Mode {
    /// e2fsck would ask.
    #[default]
    Ask,
    /// -n.
    Read,
    /// -p or -a.
    Preen,
    /// -y.
    Yes,
}

/// What the words ask for.
pub(super) struct Request {
    pub(super) mode: Mode,
    pub(super) force: bool,
    pub(super) verbose: bool,
    pub(super) version: bool,
    pub(super) journal_only: bool,
    pub(super) superblock: Option<u64>,
    pub(super) block_size: Option<u32>,
    /// -N: what the volume is called in what is printed.
    pub(super) label: Option<String>,
    /// -C: the descriptor that is told how far the check is; 0 for a line on the terminal, negative
    /// for one that waits for a signal.
    pub(super) completion: Option<i32>,
    /// -E discard: free blocks are given back where the volume is clean.
    pub(super) discard: bool,
    /// What is made smaller or faster by -y, unless -E optimize_extents and its kin say less.
    pub(super) optimize: Optimize,
    /// -c: bad blocks are to be searched for, which is not done.
    pub(super) bad_blocks: bool,
    /// -z: where what was there is kept, for e2undo.
    pub(super) undo: Option<PathBuf>,
    /// -j: the journal of a volume that has it on another device.
    pub(super) journal: Option<PathBuf>,
    pub(super) device: Option<PathBuf>,
}

impl Request {
    fn of_no_words() -> Request {
        Request {
            mode: Mode::default(),
            force: false,
            verbose: false,
            version: false,
            journal_only: false,
            superblock: None,
            block_size: None,
            label: None,
            completion: None,
            discard: false,
            optimize: Optimize::DirectoriesAndTrees,
            bad_blocks: false,
            undo: None,
            journal: None,
            device: None,
        }
    }
}

/// Reads the words of a command line.
pub(super) fn read(words: &[OsString]) -> Result<Request, String> {
    let read =
        getopt::read(words, "panyrcC:B:dE:fvtFVM:b:I:j:P:l:L:N:SsDkz:").map_err(|error| error.0)?;
    let mut request = Request::of_no_words();
    for (letter, value) in read.options {
        let text = getopt::text(&value);
        match letter {
            'n' | 'p' | 'a' | 'y' => {
                let mode = match letter {
                    'n' => Mode::Read,
                    'y' => Mode::Yes,
                    _ => Mode::Preen,
                };
                if request.mode != Mode::Ask && request.mode != mode {
                    return Err(
                        "Only one of the options -p/-a, -n or -y may be specified.".to_owned()
                    );
                }
                request.mode = mode;
            }
            'f' => request.force = true,
            'v' => request.verbose = true,
            'V' => request.version = true,
            'b' => {
                let number = text.parse().map_err(|_| format!("Invalid superblock: {text}"))?;
                request.superblock = Some(number);
            }
            'B' => {
                let size = text.parse().ok().filter(|size| SIZES.contains(size));
                request.block_size = Some(size.ok_or_else(|| format!("Bad block size: {text}"))?);
            }
            'E' => extended(&text, &mut request)?,
            'C' => {
                let wrong = |_| format!("Invalid completion information file descriptor: {text}");
                request.completion = Some(text.parse().map_err(wrong)?);
            }
            // As they print it: a name of one word.
            'N' => request.label = Some(text.replace(|letter: char| letter.is_whitespace(), "_")),
            'j' => request.journal = Some(PathBuf::from(value)),
            'z' => request.undo = Some(PathBuf::from(value)),
            'c' => request.bad_blocks = true,
            // -t: times; -D: directories are left as they are, which is right; -k: of the list of
            // bad blocks nothing is lost; -r, -d, -F: nothing here.
            't' | 'D' | 'r' | 'd' | 'F' | 'k' => {}
            _ => return Err(format!("-{letter}: {}", refused(letter))),
        }
    }
    if request.undo.is_some() && request.journal.is_some() {
        return Err("-z: what a journal on another device changes there has no place in it".into());
    }
    let mut operands = read.operands.into_iter();
    request.device = operands.next().map(PathBuf::from);
    match operands.next() {
        Some(_) => Err("one device at a time".to_owned()),
        None if request.device.is_none() && !request.version => {
            Err("a device is needed".to_owned())
        }
        None => Ok(request),
    }
}

/// Why an option of e2fsck is not taken.
fn refused(letter: char) -> &'static str {
    match letter {
        'l' | 'L' => "lists of bad blocks are not read",
        _ => "not supported",
    }
}

fn extended(list: &str, request: &mut Request) -> Result<(), String> {
    for word in list.split(',') {
        match word.split_once('=').map_or(word, |(name, _)| name) {
            "journal_only" => request.journal_only = true,
            "discard" => request.discard = true,
            "nodiscard" => request.discard = false,
            "no_optimize_extents" => {
                request.optimize = request.optimize.min(Optimize::Directories);
            }
            "fixes_only" => request.optimize = Optimize::Nothing,
            "optimize_extents" => {}
            "ea_ver" | "readahead_kb" | "inode_count_fullmap" | "no_inode_count_fullmap" => {}
            name @ ("fragcheck"
            | "bmap2extent"
            | "unshare_blocks"
            | "check_encoding"
            | "clear_all_uninit_bits") => {
                return Err(format!("-E {name}: not supported"));
            }
            name => return Err(format!("Unknown extended option: {name}")),
        }
    }
    Ok(())
}
