//! SELinux's `file_contexts`: a regular expression for a whole path, a type perhaps, and a label.
//!
//! The last line that matches counts, but one without special characters goes before all others, as
//! selabel_file(5) has it. `<<none>>` leaves the file without a label of ours.
use super::Subject;
use super::grant::Grant;
use super::line::Line;
use crate::error::Error;
use extant_format::inode::FileType;
use regex::bytes::{Regex, RegexBuilder};
use rustc_hash::FxHashMap;

/// What an expression may take in memory once it is compiled, in bytes: patterns are hostile.
const EXPRESSION_BYTES_MAX: usize = 1 << 20;
/// Characters that mean something in an expression.
const SPECIAL: &[u8] = b".^$?*+|[({";

#[derive(Clone, Debug)]
struct Spec {
    /// The fixed characters that the expression begins with.
    stem: Vec<u8>,
    /// `None` where the stem is all.
    expression: Option<Regex>,
    file_type: Option<FileType>,
    label: Option<Vec<u8>>,
}

/// The lines of a file, first those with special characters.
#[derive(Clone, Debug)]
pub(super) struct Contexts {
    mount_point: Vec<u8>,
    specs: Vec<Spec>,
    /// Specs by the first directory of their stem; those whose stem does not reach that far under
    /// the empty name. Numbers rise.
    by_root: FxHashMap<Vec<u8>, Vec<usize>>,
}

impl Contexts {
    pub(super) fn parse<'a>(
        lines: impl Iterator<Item = Line<'a>>,
        mount_point: &[u8],
    ) -> Result<Contexts, Error> {
        let mut specs: Vec<Spec> = lines.map(|line| spec(&line)).collect::<Result<_, _>>()?;
        specs.sort_by_key(|spec| spec.expression.is_none());
        let mut by_root: FxHashMap<Vec<u8>, Vec<usize>> = FxHashMap::default();
        for (number, spec) in specs.iter().enumerate() {
            by_root.entry(root_of(&spec.stem).to_vec()).or_default().push(number);
        }
        Ok(Contexts { mount_point: mount_point.to_vec(), specs, by_root })
    }

    pub(super) fn grant(&self, subject: &Subject<'_>) -> Grant {
        let path = match (&self.mount_point[..], subject.path) {
            (b"", path) => path.to_vec(),
            (mount_point, b"/") => mount_point.to_vec(),
            (mount_point, path) => [mount_point, path].concat(),
        };
        let own = self.by_root.get(first_name(&path));
        let any = self.by_root.get(&b""[..]);
        let matching = |numbers: Option<&Vec<usize>>| {
            let mut numbers = numbers?.iter().rev();
            numbers.find(|number| self.specs[**number].matches(&path, subject.file_type)).copied()
        };
        let last = matching(own).max(matching(any));
        let label = last.and_then(|number| self.specs[number].label.clone());
        Grant { label, ..Grant::default() }
    }
}

impl Spec {
    fn matches(&self, path: &[u8], file_type: FileType) -> bool {
        self.file_type.is_none_or(|wanted| wanted == file_type)
            && path.starts_with(&self.stem)
            && match &self.expression {
                Some(expression) => expression.is_match(path),
                None => path == self.stem,
            }
    }
}

/// The first directory of a stem, if the stem reaches beyond it.
fn root_of(stem: &[u8]) -> &[u8] {
    let name = first_name(stem);
    match stem.get(1 + name.len()) {
        Some(b'/') => name,
        _ => b"",
    }
}

/// The first name of a path that begins with a slash.
fn first_name(path: &[u8]) -> &[u8] {
    let rest = path.strip_prefix(b"/").unwrap_or(path);
    rest.split(|byte| *byte == b'/').next().unwrap_or_default()
}

fn spec(line: &Line<'_>) -> Result<Spec, Error> {
    let words: Vec<&[u8]> = line.words().collect();
    let (expression, kind, label) = match words[..] {
        [expression, label] => (expression, None, label),
        [expression, kind, label] => (expression, Some(kind), label),
        _ => return Err(line.wrong("is not an expression, a type perhaps, and a label")),
    };
    let wrong = || line.wrong("the type is none of --, -d, -l, -c, -b, -p and -s");
    let file_type = match kind {
        None => None,
        Some([b'-', letter]) if *letter != b'f' => {
            Some(FileType::from_letter(*letter).ok_or_else(wrong)?)
        }
        Some(_) => return Err(wrong()),
    };
    let text = std::str::from_utf8(expression);
    let text = text.map_err(|_| line.wrong("the expression is not UTF-8"))?;
    let (stem, is_fixed) = stem(expression);
    let expression = match is_fixed {
        Fixed::Whole => None,
        Fixed::Start => {
            let mut builder = RegexBuilder::new(&format!("^(?:{text})$"));
            builder.unicode(false).size_limit(EXPRESSION_BYTES_MAX);
            let built = builder.build();
            Some(built.map_err(|_| line.wrong("the expression is not one that is understood"))?)
        }
    };
    let label = (label != b"<<none>>").then(|| label.to_vec());
    Ok(Spec { stem, expression, file_type, label })
}

/// How much of an expression is fixed characters.
enum Fixed {
    Whole,
    Start,
}

/// The fixed characters that an expression begins with.
fn stem(expression: &[u8]) -> (Vec<u8>, Fixed) {
    let mut stem = Vec::new();
    let mut at = 0;
    while let Some(byte) = expression.get(at) {
        match byte {
            b'\\' => {
                // A letter or digit after it would be a class.
                match expression.get(at + 1).filter(|next| !next.is_ascii_alphanumeric()) {
                    Some(next) => stem.push(*next),
                    None => return (stem, Fixed::Start),
                }
                at += 2;
            }
            b'?' | b'*' | b'{' => {
                // The character before it may be missing.
                stem.pop();
                return (stem, Fixed::Start);
            }
            b'|' => return (Vec::new(), Fixed::Start),
            _ if SPECIAL.contains(byte) => return (alternative(expression, stem), Fixed::Start),
            _ => {
                stem.push(*byte);
                at += 1;
            }
        }
    }
    (stem, Fixed::Whole)
}

/// A stem counts only if no alternative follows outside of parentheses; whether it does is not
/// looked into further than that there is a bar at all.
fn alternative(expression: &[u8], stem: Vec<u8>) -> Vec<u8> {
    let mut depth = 0_usize;
    let mut escaped = false;
    for byte in expression {
        match (escaped, byte) {
            (true, _) => escaped = false,
            (false, b'\\') => escaped = true,
            (false, b'(') => depth += 1,
            (false, b')') => depth = depth.saturating_sub(1),
            (false, b'|') if depth == 0 => return Vec::new(),
            _ => {}
        }
    }
    stem
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::line::lines;

    fn label(table: &str, path: &str, file_type: FileType) -> Option<String> {
        let contexts = Contexts::parse(lines("t", table.as_bytes()), b"").unwrap();
        let subject = Subject { path: path.as_bytes(), file_type };
        contexts.grant(&subject).label.map(|label| String::from_utf8(label).unwrap())
    }

    #[test]
    fn the_last_line_counts_and_fixed_paths_before_all() {
        let table = "/.*  any\n/etc/motd  motd\n/etc(/.*)?  etc\n/etc/.* -d  etc_d\n\
            /tmp/.* <<none>>\n\
            /usr/(lib|lib64)/.*\\.so  -- so\n/a|/b  ab\n/colou?r  colour\n";
        let cases = [
            ("/etc", FileType::Directory, Some("etc")),
            ("/etc/motd", FileType::Regular, Some("motd")),
            ("/etc/x", FileType::Regular, Some("etc")),
            ("/etc/x", FileType::Directory, Some("etc_d")),
            ("/tmp/x", FileType::Regular, None),
            ("/usr/lib64/libc.so", FileType::Regular, Some("so")),
            ("/usr/lib64/libc.so", FileType::Symlink, Some("any")),
            ("/usr/lib64/libcXso", FileType::Regular, Some("any")),
            ("/b", FileType::Regular, Some("ab")),
            ("/color", FileType::Regular, Some("colour")),
        ];
        for (path, file_type, expected) in cases {
            assert_eq!(label(table, path, file_type).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn what_is_not_understood_names_its_line() {
        for (table, part) in [("\n/x", "t:2"), ("/( a", "t:1"), ("/x -q a", "t:1")] {
            let error = Contexts::parse(lines("t", table.as_bytes()), b"").unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
        let bomb = format!("/{}x a", "(a{1000}){1000}".repeat(3));
        assert!(Contexts::parse(lines("t", bomb.as_bytes()), b"").is_err());
    }
}
