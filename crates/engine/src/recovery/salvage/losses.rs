//! What is said of a damaged volume: what was lost of it, and what was mended without a loss.
use extant_format::Ino;

/// Lines that are kept, at most.
const LINES_MAX: usize = 100_000;
/// As many are compared with each new one.
const COMPARED_MAX: usize = 64;

/// Something that was lost, or that may be wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loss {
    /// The files that it is about, if it is about some.
    pub inodes: Vec<Ino>,
    /// What became of them.
    pub words: String,
}

impl Loss {
    /// The line for it: files by what `path` calls them, or else by their numbers.
    pub fn line(&self, path: &dyn Fn(Ino) -> Option<String>) -> String {
        let name = |ino: &Ino| path(*ino).unwrap_or_else(|| format!("inode {}", ino.0));
        let names: Vec<String> = self.inodes.iter().map(name).collect();
        match names.is_empty() {
            true => self.words.clone(),
            false => format!("{}: {}", names.join(" and "), self.words),
        }
    }
}

/// What is said.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) mended: Vec<String>,
    pub(super) lost: Vec<Loss>,
}

impl Lines {
    /// Adds what was mended without a loss.
    pub(super) fn mended(&mut self, line: impl Into<String>) {
        let line = line.into();
        if self.mended.len() < LINES_MAX && is_new(&self.mended, &line) {
            self.mended.push(line);
        }
    }

    /// Adds what was lost, or may be wrong, and is of no single file.
    pub(super) fn lost(&mut self, words: impl Into<String>) {
        self.lost_of(Vec::new(), words);
    }

    /// The same, of these files.
    pub(super) fn lost_of(&mut self, inodes: Vec<Ino>, words: impl Into<String>) {
        let loss = Loss { inodes, words: words.into() };
        match self.lost.len() {
            LINES_MAX => {
                let words = "more is damaged than is listed".to_owned();
                self.lost.push(Loss { inodes: Vec::new(), words });
            }
            0..LINES_MAX if is_new(&self.lost, &loss) => self.lost.push(loss),
            _ => {}
        }
    }
}

/// Whether a line is not among the first ones.
fn is_new<T: PartialEq>(lines: &[T], line: &T) -> bool {
    lines.len() > COMPARED_MAX || !lines.contains(line)
}
