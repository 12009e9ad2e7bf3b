//! Owners, modes, labels, capabilities and flags that a file of rules gives, in place of those of
//! the sources: our own rules, and the tables that Android, SELinux and genext2fs have for it.
//!
//! ```text
//! own            a pattern and what it gives, a line each
//! contexts       SELinux's file_contexts
//! fs_config      Android's canned fs_config
//! device_table   genext2fs's and makedevs's table, which makes files too
//! grant          what a rule gives a file
//! capability     capabilities as text and as bytes
//! line           a line of such a file, its words and its number
//! ```
//! Files of rules are applied in the order given, each to the finished tree, so a later one counts.
//! A file with several names is judged by its first one. What a rule names that is not there, is a
//! notice; what cannot be read is an error that names the line.
mod capability;
mod contexts;
mod device_table;
mod fs_config;
mod grant;
mod line;
mod own;

use crate::error::Error;
use crate::notice::{NoticeKind, Notices};
use crate::tree::{Growing, NodeId, Tree};
use contexts::Contexts;
use device_table::{DeviceTable, Dialect};
use extant_archive::printable;
use extant_format::inode::FileType;
use fs_config::FsConfig;
use grant::Grant;
use own::OwnRules;
use std::path::Path;

/// Bytes of the longest file of rules.
pub const RULES_BYTES_MAX: u64 = 64 << 20;

/// Which language a file of rules is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// Our own.
    Own,
    /// SELinux's `file_contexts`.
    Contexts,
    /// Android's canned `fs_config`.
    FsConfig,
    /// The device table of genext2fs.
    DeviceTable,
    /// The device table of Buildroot's makedevs.
    Makedevs,
}

/// The rules of one file.
#[derive(Clone, Debug)]
pub struct Rules {
    name: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Own(OwnRules),
    Contexts(Contexts),
    FsConfig(FsConfig),
    DeviceTable(DeviceTable),
}

/// A file that rules are looked up for.
struct Subject<'a> {
    /// From the root of the image, with a slash in front; "/" for the root.
    path: &'a [u8],
    file_type: FileType,
}

impl Rules {
    /// Reads a file of rules. `mount_point` is where the image will be mounted, with a slash in
    /// front and none at the end: SELinux and Android name files by where they are then.
    ///
    /// # Errors
    /// The first line that is not understood, with its number and `name`.
    pub fn parse(
        name: &str,
        text: &[u8],
        language: Language,
        mount_point: &[u8],
    ) -> Result<Rules, Error> {
        let lines = line::lines(name, text);
        let kind = match language {
            Language::Own => Kind::Own(OwnRules::parse(lines)?),
            Language::Contexts => Kind::Contexts(Contexts::parse(lines, mount_point)?),
            Language::FsConfig => Kind::FsConfig(FsConfig::parse(lines, mount_point)?),
            Language::DeviceTable => {
                Kind::DeviceTable(DeviceTable::parse(lines, Dialect::Genext2fs)?)
            }
            Language::Makedevs => Kind::DeviceTable(DeviceTable::parse(lines, Dialect::Makedevs)?),
        };
        Ok(Rules { name: name.to_owned(), kind })
    }

    /// Makes the files that the rules name and no source has.
    pub(crate) fn make_files(&self, tree: &mut Growing) -> Result<(), Error> {
        match &self.kind {
            Kind::DeviceTable(table) => table.make_files(tree),
            Kind::Own(_) | Kind::Contexts(_) | Kind::FsConfig(_) => Ok(()),
        }
    }

    fn grant(&self, subject: &Subject<'_>, used: &mut Used) -> Grant {
        match &self.kind {
            Kind::Own(rules) => rules.grant(subject, used),
            Kind::Contexts(contexts) => contexts.grant(subject),
            Kind::FsConfig(table) => table.grant(subject, used),
            Kind::DeviceTable(table) => table.grant(subject, used),
        }
    }

    /// Gives every file what the rules say.
    pub(crate) fn apply(&self, tree: &mut Tree, notices: &mut Notices) -> Result<(), Error> {
        let mut used = Used::default();
        let mut unlisted = Vec::new();
        let mut pending = vec![(NodeId::ROOT, Vec::new())];
        let mut granted = vec![Seen::Not; tree.node_bound()];
        while let Some((node, path)) = pending.pop() {
            if granted[node.0 as usize] == Seen::Not {
                granted[node.0 as usize] = Seen::Granted;
                let shown = if path.is_empty() { &b"/"[..] } else { &path };
                let subject = Subject { path: shown, file_type: tree.file_type(node) };
                let grant = self.grant(&subject, &mut used);
                if grant == Grant::default() && matches!(self.kind, Kind::FsConfig(_)) {
                    unlisted.push(shown.to_vec());
                }
                if grant.capabilities.is_some() && subject.file_type != FileType::Regular {
                    notices.add(NoticeKind::Rules, || {
                        let path = printable(shown);
                        format!("{}: {path} is no regular file: no capabilities", self.name)
                    });
                }
                tree.grant(node, &grant)?;
            }
            // In their order when taken from the end.
            for child in tree.children(node).rev() {
                pending.push((child.node, [&path[..], b"/", child.name].concat()));
            }
        }
        self.note(unlisted, &used, notices);
        Ok(())
    }

    fn note(&self, unlisted: Vec<Vec<u8>>, used: &Used, notices: &mut Notices) {
        for path in unlisted {
            notices.add(NoticeKind::Rules, || {
                format!("{}: has no line for {}, which stays as it is", self.name, printable(&path))
            });
        }
        let lines: Box<dyn Iterator<Item = (usize, String)>> = match &self.kind {
            Kind::Own(rules) => Box::new(rules.patterns()),
            Kind::DeviceTable(table) => Box::new(table.paths()),
            // These tables are made for many images.
            Kind::Contexts(_) | Kind::FsConfig(_) => return,
        };
        for (number, what) in lines.filter(|(number, _)| !used.has(*number)) {
            notices.add(NoticeKind::Rules, || {
                format!("{}:{number}: {what} is nothing in the image", self.name)
            });
        }
    }
}

/// Whether a node was met before, under another name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Not,
    Granted,
}

/// The lines that gave something to a file.
#[derive(Default)]
struct Used(std::collections::BTreeSet<usize>);

impl Used {
    fn note(&mut self, line: usize) {
        self.0.insert(line);
    }
    fn has(&self, line: usize) -> bool {
        self.0.contains(&line)
    }
}

/// Reads a file of rules from the host.
///
/// # Errors
/// The host's; one that is too long.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    use std::io::Read;
    let failed = |error: std::io::Error| Error::io(path.display(), &error);
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut text = Vec::new();
    file.take(RULES_BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > RULES_BYTES_MAX {
        return Err(Error::new(format!("{}: is no file of rules: too long", path.display())));
    }
    Ok(text)
}
