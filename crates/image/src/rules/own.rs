//! Our own rules: a pattern, and what the files that match it get.
//!
//! ```text
//! /usr/bin/su           mode=4755 owner=0:0
//! /usr/bin/ping         capability=cap_net_raw+ep
//! /srv/**     type=d    mode=2775 group=33
//! *.key                 mode=0400
//! /etc/hostname         label=system_u:object_r:etc_t:s0 flags=i
//! ```
//! Patterns are those of `--exclude`: without a slash they match a name anywhere. A pattern with
//! spaces stands in double quotes. Of several lines each gives what later ones do not.
use super::capability::Capabilities;
use super::grant::Grant;
use super::line::Line;
use super::{Subject, Used};
use crate::error::Error;
use extant_archive::printable;
use extant_format::inode::{FileType, flags};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The letters of chattr that a new file may have.
const FLAGS: [(u8, u32); 12] = [
    (b'i', flags::IMMUTABLE),
    (b'a', flags::APPEND),
    (b'd', flags::NODUMP),
    (b'A', flags::NOATIME),
    (b'S', flags::SYNC),
    (b'D', flags::DIRECTORY_SYNC),
    (b'T', flags::TOP_DIRECTORY),
    (b'j', flags::JOURNALED_DATA),
    (b's', flags::SECURE_DELETION),
    (b'u', flags::UNDELETE),
    (b'c', flags::COMPRESS),
    (b'C', flags::NO_COPY_ON_WRITE),
];

#[derive(Clone, Debug)]
struct Rule {
    line: usize,
    pattern: String,
    file_type: Option<FileType>,
    grant: Grant,
}

/// The rules of a file, in their order.
#[derive(Clone, Debug)]
pub(super) struct OwnRules {
    patterns: GlobSet,
    rules: Vec<Rule>,
}

impl OwnRules {
    pub(super) fn parse<'a>(lines: impl Iterator<Item = Line<'a>>) -> Result<OwnRules, Error> {
        let mut patterns = GlobSetBuilder::new();
        let mut rules = Vec::new();
        let mut last = None;
        for line in lines {
            let (pattern, words) = pattern(&line)?;
            let anchored = pattern.trim_start_matches('/').trim_end_matches('/');
            let whole = match pattern.contains('/') {
                true => anchored.to_owned(),
                false => format!("**/{anchored}"),
            };
            let mut glob = GlobBuilder::new(&whole);
            let glob = glob.literal_separator(true).backslash_escape(true).build();
            patterns.add(glob.map_err(|error| line.wrong(&error.to_string()))?);
            let mut rule =
                Rule { line: line.number, pattern, file_type: None, grant: Grant::default() };
            for word in words.split(|byte| matches!(byte, b' ' | b'\t')) {
                if !word.is_empty() {
                    read_word(&line, word, &mut rule)?;
                }
            }
            if rule.grant == Grant::default() {
                return Err(line.wrong("gives nothing"));
            }
            rules.push(rule);
            last = Some(line);
        }
        let patterns = patterns.build();
        let patterns = patterns.map_err(|error| match last {
            Some(line) => line.wrong(&error.to_string()),
            None => Error::new(error.to_string()),
        })?;
        Ok(OwnRules { patterns, rules })
    }

    pub(super) fn grant(&self, subject: &Subject<'_>, used: &mut Used) -> Grant {
        let path = subject.path.strip_prefix(b"/").unwrap_or(subject.path);
        let mut grant = Grant::default();
        // In the order of the lines.
        for number in self.patterns.matches(Path::new(OsStr::from_bytes(path))) {
            let rule = &self.rules[number];
            if rule.file_type.is_none_or(|file_type| file_type == subject.file_type) {
                used.note(rule.line);
                grant = grant.with(&rule.grant);
            }
        }
        grant
    }

    /// The patterns, with the numbers of their lines.
    pub(super) fn patterns(&self) -> impl Iterator<Item = (usize, String)> + '_ {
        self.rules.iter().map(|rule| (rule.line, rule.pattern.clone()))
    }
}

/// The pattern of a line, and the rest.
fn pattern<'a>(line: &Line<'a>) -> Result<(String, &'a [u8]), Error> {
    let text = line.text.trim_ascii_start();
    let (pattern, rest) = match text.strip_prefix(b"\"") {
        Some(quoted) => {
            let end = quoted.iter().position(|byte| *byte == b'"');
            let end = end.ok_or_else(|| line.wrong("a quotation mark is not closed"))?;
            (&quoted[..end], &quoted[end + 1..])
        }
        None => {
            let end = text.iter().position(|byte| matches!(byte, b' ' | b'\t'));
            text.split_at(end.unwrap_or(text.len()))
        }
    };
    let pattern = std::str::from_utf8(pattern);
    let pattern = pattern.map_err(|_| line.wrong("a pattern is not UTF-8"))?;
    Ok((pattern.to_owned(), rest))
}

fn read_word(line: &Line<'_>, word: &[u8], rule: &mut Rule) -> Result<(), Error> {
    let at = word.iter().position(|byte| *byte == b'=');
    let at = at.ok_or_else(|| line.wrong(&format!("{} has no \"=\"", printable(word))))?;
    let (key, value) = (&word[..at], &word[at + 1..]);
    let text = || std::str::from_utf8(value).map_err(|_| line.wrong("a value is not UTF-8"));
    match key {
        b"mode" => rule.grant.permissions = Some(line.mode(value)?),
        b"owner" => match value.iter().position(|byte| *byte == b':') {
            Some(colon) => {
                rule.grant.uid = Some(line.number(&value[..colon], "the user")?);
                rule.grant.gid = Some(line.number(&value[colon + 1..], "the group")?);
            }
            None => rule.grant.uid = Some(line.number(value, "the user")?),
        },
        b"group" => rule.grant.gid = Some(line.number(value, "the group")?),
        b"label" => rule.grant.label = Some(value.to_vec()),
        b"capability" => {
            let capabilities = Capabilities::parse(text()?);
            rule.grant.capabilities = Some(capabilities.map_err(|why| line.wrong(&why))?);
        }
        b"flags" => rule.grant.flags = Some(read_flags(line, value)?),
        b"type" => rule.file_type = Some(read_type(line, value)?),
        _ => {
            let why = format!(
                "{} is none of mode, owner, group, label, capability, flags and type",
                printable(key)
            );
            return Err(line.wrong(&why));
        }
    }
    Ok(())
}

fn read_flags(line: &Line<'_>, letters: &[u8]) -> Result<u32, Error> {
    letters.iter().try_fold(0, |set, letter| {
        let known = FLAGS.iter().find(|(known, _)| known == letter);
        let known = known.ok_or_else(|| line.wrong("a flag is none of those that files may have"));
        Ok(set | known?.1)
    })
}

fn read_type(line: &Line<'_>, letter: &[u8]) -> Result<FileType, Error> {
    let file_type = match letter {
        b"-" => None,
        [letter] => FileType::from_letter(*letter),
        _ => None,
    };
    file_type.ok_or_else(|| line.wrong("a type is one of f, d, l, b, c, p and s"))
}
