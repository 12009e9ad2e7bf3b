//! Which objects of a tree are meant: the tests of find(1).
use crate::error::{Error, Result};
use crate::mode::Mode;
use crate::owner::{self, List};
use crate::tree::{self, Links};
use crate::walk::{self, Below, Event, ImageTree, Manner, Visited};
use extant_engine::Filesystem;
use extant_format::inode::{FileType, Time};
use globset::{GlobBuilder, GlobMatcher};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Expressions may be nested this deep.
const DEPTH_MAX: usize = 100;

/// What is looked for.
pub struct Query {
    expression: Expression,
    /// Objects above this depth are left out; the path itself has 0.
    pub depth_min: usize,
    /// Nothing below this depth is looked at.
    pub depth_max: usize,
    /// What ends each path in the output.
    pub ends: Ends,
}

/// What ends a path in the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// A line end.
    Line,
    /// A zero byte (`-print0`).
    Zero,
}

enum Expression {
    All(Vec<Expression>),
    Any(Vec<Expression>),
    Not(Box<Expression>),
    Test(Test),
}

/// A number, and how it is compared.
#[derive(Clone, Copy)]
enum Number {
    Less(u64),
    Exactly(u64),
    More(u64),
}

enum Test {
    Name(GlobMatcher),
    Path(GlobMatcher),
    Type(Vec<FileType>),
    /// The size in units of this many bytes, rounded up.
    Size(Number, u64),
    Permissions(Match, u16),
    Uid(Number),
    Gid(Number),
    Links(Number),
    Ino(Number),
    /// Modified after this.
    Newer(Time),
    Empty,
    /// Has an attribute of this name, or any.
    Attribute(Option<Vec<u8>>),
}

/// How permissions are compared.
#[derive(Clone, Copy)]
enum Match {
    Exactly,
    /// All of these bits.
    All,
    /// Any of them.
    Any,
}

/// Words that are being read.
struct Words<'a> {
    filesystem: &'a Filesystem,
    rest: &'a [Vec<u8>],
    query: Query,
    depth: usize,
}

fn shown(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

impl Query {
    /// Reads the tests: `-name`, `-iname`, `-path`, `-type`, `-size`, `-perm`, `-uid`, `-gid`,
    /// `-user`, `-group`, `-links`, `-inum`, `-newer`, `-newermt`, `-empty`, `-xattr`; `-a`, `-o`,
    /// `!` and parentheses; `-mindepth`, `-maxdepth`, `-print`, `-print0`.
    ///
    /// # Errors
    /// A word that is none of these, or what one of them lacks.
    pub fn parse(filesystem: &Filesystem, words: &[Vec<u8>]) -> Result<Query> {
        let expression = Expression::All(Vec::new());
        let query = Query { expression, depth_min: 0, depth_max: usize::MAX, ends: Ends::Line };
        let mut words = Words { filesystem, rest: words, query, depth: 0 };
        let expression = words.any()?;
        if let Some(word) = words.rest.first() {
            return Err(Error::usage(shown(word), "is not expected here"));
        }
        Ok(Query { expression, ..words.query })
    }

    /// Whether an object is one of those that are looked for.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn matches(&self, filesystem: &Filesystem, visited: &Visited<'_>) -> Result<bool> {
        Ok(visited.depth >= self.depth_min && self.expression.holds(filesystem, visited)?)
    }
}

impl Words<'_> {
    fn next(&mut self, of: &[u8]) -> Result<Vec<u8>> {
        let (first, rest) =
            self.rest.split_first().ok_or_else(|| Error::usage(shown(of), "a word is missing"))?;
        self.rest = rest;
        Ok(first.clone())
    }

    fn take(&mut self, words: &[&[u8]]) -> bool {
        let is_there = self.rest.first().is_some_and(|word| words.contains(&word.as_slice()));
        if is_there {
            self.rest = &self.rest[1..];
        }
        is_there
    }

    fn any(&mut self) -> Result<Expression> {
        let mut parts = vec![self.all()?];
        while self.take(&[b"-o", b"-or"]) {
            parts.push(self.all()?);
        }
        Ok(Expression::Any(parts))
    }

    fn all(&mut self) -> Result<Expression> {
        let mut parts = Vec::new();
        loop {
            let ends = [&b"-o"[..], b"-or", b")"];
            match self.rest.first() {
                Some(word) if !ends.contains(&word.as_slice()) => parts.push(self.one()?),
                _ => return Ok(Expression::All(parts)),
            }
            self.take(&[b"-a", b"-and"]);
        }
    }

    fn one(&mut self) -> Result<Expression> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Error::usage("find", "is nested too deep"));
        }
        let one = if self.take(&[b"!", b"-not"]) {
            Expression::Not(Box::new(self.one()?))
        } else if self.take(&[b"("]) {
            let inner = self.any()?;
            if !self.take(&[b")"]) {
                return Err(Error::usage("(", "has no end"));
            }
            inner
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(one)
    }

    /// A test, or an option, which always holds.
    fn test(&mut self) -> Result<Expression> {
        let word = self.next(b"find")?;
        let always = || Expression::All(Vec::new());
        let depth = |text: Vec<u8>| {
            let depth = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
            depth.ok_or_else(|| Error::usage(shown(&text), "is no depth"))
        };
        match word.as_slice() {
            b"-mindepth" => self.query.depth_min = depth(self.next(&word)?)?,
            b"-maxdepth" => self.query.depth_max = depth(self.next(&word)?)?,
            b"-print" => self.query.ends = Ends::Line,
            b"-print0" => self.query.ends = Ends::Zero,
            b"-empty" => return Ok(Expression::Test(Test::Empty)),
            _ => {
                let value = match self.rest.first() {
                    Some(value) => value.clone(),
                    None => return Err(unknown(&word, "a word is missing")),
                };
                let test = self.valued(&word, &value)?;
                self.rest = &self.rest[1..];
                return Ok(Expression::Test(test));
            }
        }
        Ok(always())
    }

    fn valued(&self, word: &[u8], value: &[u8]) -> Result<Test> {
        let text = || {
            let text = std::str::from_utf8(value);
            text.map_err(|_| Error::usage(shown(value), "is not UTF-8"))
        };
        let name = |list| Ok::<_, Error>(owner::number(self.filesystem, text()?, list)?.into());
        Ok(match word {
            b"-name" => Test::Name(pattern(text()?, Case::Counts)?),
            b"-iname" => Test::Name(pattern(text()?, Case::Ignored)?),
            b"-path" | b"-wholename" => Test::Path(pattern(text()?, Case::Counts)?),
            b"-ipath" => Test::Path(pattern(text()?, Case::Ignored)?),
            b"-type" => Test::Type(types(text()?)?),
            b"-size" => size(text()?)?,
            b"-perm" => permissions(text()?)?,
            b"-uid" => Test::Uid(number(text()?)?),
            b"-gid" => Test::Gid(number(text()?)?),
            b"-user" => Test::Uid(Number::Exactly(name(List::Users)?)),
            b"-group" => Test::Gid(Number::Exactly(name(List::Groups)?)),
            b"-links" => Test::Links(number(text()?)?),
            b"-inum" => Test::Ino(number(text()?)?),
            b"-newer" => {
                let path = Path::new(OsStr::from_bytes(value));
                Test::Newer(self.filesystem.metadata(path)?.modify_time)
            }
            b"-newermt" => {
                let time = crate::time::parse(text()?);
                Test::Newer(time.map_err(|why| Error::usage("-newermt", why))?)
            }
            b"-xattr" => Test::Attribute(Some(value.to_vec()).filter(|name| name != b"*")),
            _ => return Err(unknown(word, "is no test")),
        })
    }
}

fn unknown(word: &[u8], said: &str) -> Error {
    Error::usage(shown(word), said).hint("extant find --help lists the tests")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Counts,
    Ignored,
}

/// A pattern of one name, whose case counts.
///
/// # Errors
/// It is none.
pub(crate) fn component(text: &str) -> Result<GlobMatcher> {
    pattern(text, Case::Counts)
}

/// A pattern in which `*` stands for slashes too, as in find(1); braces are themselves.
fn pattern(text: &str, case: Case) -> Result<GlobMatcher> {
    let mut glob = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                glob.push('\\');
                glob.extend(letters.next());
            }
            '{' => glob.push_str("[{]"),
            '}' => glob.push_str("[}]"),
            '*' => {
                while letters.next_if_eq(&'*').is_some() {}
                glob.push('*');
            }
            _ => glob.push(letter),
        }
    }
    let mut builder = GlobBuilder::new(&glob);
    builder.literal_separator(false).backslash_escape(true);
    builder.case_insensitive(case == Case::Ignored);
    let built = builder.build();
    let built = built.map_err(|error| Error::usage(text, format!("is no pattern: {error}")))?;
    Ok(built.compile_matcher())
}

fn types(text: &str) -> Result<Vec<FileType>> {
    let of = |word: &str| {
        let letter = word.bytes().next().filter(|letter| word.len() == 1 && *letter != b'-');
        let file_type = letter.and_then(FileType::from_letter);
        file_type.ok_or_else(|| Error::usage(word, "is no type: f, d, l, p, s, b or c"))
    };
    text.split(',').map(of).collect()
}

fn number(text: &str) -> Result<Number> {
    let (kind, digits): (fn(u64) -> Number, &str) = match text.as_bytes().first() {
        Some(b'+') => (Number::More, &text[1..]),
        Some(b'-') => (Number::Less, &text[1..]),
        _ => (Number::Exactly, text),
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = digits.parse().ok().filter(|_| is_number);
    parsed.map(kind).ok_or_else(|| Error::usage(text, "is no number: 5, +5 or -5"))
}

fn size(text: &str) -> Result<Test> {
    let units = [('c', 1), ('w', 2), ('b', 512), ('k', 1 << 10), ('M', 1 << 20), ('G', 1 << 30)];
    let unit = units.iter().find(|(letter, _)| text.ends_with(*letter));
    let digits = if unit.is_some() { &text[..text.len() - 1] } else { text };
    Ok(Test::Size(number(digits)?, unit.map_or(512, |(_, bytes)| *bytes)))
}

fn permissions(text: &str) -> Result<Test> {
    let (how, mode) = match text.as_bytes().first() {
        Some(b'-') => (Match::All, &text[1..]),
        Some(b'/') => (Match::Any, &text[1..]),
        _ => (Match::Exactly, text),
    };
    let mode = Mode::parse(mode).map_err(|why| Error::usage("-perm", why))?;
    Ok(Test::Permissions(how, mode.applied(0, FileType::Regular)))
}

impl Number {
    fn holds(self, value: u64) -> bool {
        match self {
            Number::Less(number) => value < number,
            Number::Exactly(number) => value == number,
            Number::More(number) => value > number,
        }
    }
}

impl Expression {
    fn holds(&self, filesystem: &Filesystem, visited: &Visited<'_>) -> Result<bool> {
        match self {
            Expression::All(parts) => {
                for part in parts {
                    if !part.holds(filesystem, visited)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Expression::Any(parts) => {
                for part in parts {
                    if part.holds(filesystem, visited)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Expression::Not(part) => Ok(!part.holds(filesystem, visited)?),
            Expression::Test(test) => test.holds(filesystem, visited),
        }
    }
}

impl Test {
    fn holds(&self, filesystem: &Filesystem, visited: &Visited<'_>) -> Result<bool> {
        let facts = visited.facts;
        let inodes = filesystem.inodes();
        let inode = || inodes.by_number(visited.number());
        let at = |error: extant_engine::Error| error.at(visited.spot.path);
        Ok(match self {
            Test::Name(pattern) => {
                let name = tree::split(visited.spot.path).1;
                let name = if name.is_empty() { b"/" } else { name };
                pattern.is_match(OsStr::from_bytes(name))
            }
            Test::Path(pattern) => pattern.is_match(visited.spot.path),
            Test::Type(types) => types.contains(&facts.file_type),
            Test::Size(number, unit) => number.holds(facts.size.div_ceil(*unit)),
            Test::Permissions(how, bits) => {
                let mode = facts.permissions;
                match how {
                    Match::Exactly => mode == *bits,
                    Match::All => mode & bits == *bits,
                    Match::Any => mode & bits != 0 || *bits == 0,
                }
            }
            Test::Uid(number) => number.holds(facts.uid.into()),
            Test::Gid(number) => number.holds(facts.gid.into()),
            Test::Links(number) => number.holds(facts.links),
            Test::Ino(number) => number.holds(facts.identity.1),
            Test::Newer(time) => facts.modify_time > *time,
            Test::Empty => match facts.file_type {
                FileType::Regular => facts.size == 0,
                FileType::Directory => {
                    let names = inode().and_then(|inode| inodes.names(&inode));
                    names.map_err(at)?.is_empty()
                }
                _ => false,
            },
            Test::Attribute(wanted) => {
                let attributes = inode().and_then(|inode| inodes.attributes(&inode)).map_err(at)?;
                match wanted {
                    Some(name) => attributes.iter().any(|attribute| attribute.name == *name),
                    None => !attributes.is_empty(),
                }
            }
        })
    }
}

/// Calls `found` for each object at a path and below it that is looked for, names sorted, and
/// `troubles` for all that cannot be read or is not walked: damage, names that no file may have.
///
/// # Errors
/// Those of the engine about the path itself; those of `found` and `troubles`.
pub fn find(
    filesystem: &Filesystem,
    path: &Path,
    query: &Query,
    found: &mut dyn FnMut(&Visited<'_>) -> Result<()>,
    troubles: &mut dyn FnMut(Error) -> Result<()>,
) -> Result<()> {
    let manner = Manner::plain(Links::Stay);
    walk::walk(&ImageTree::new(filesystem), path, manner, &mut |event| {
        let visited = match event {
            Event::Found(visited) => visited,
            Event::Left(_) => return Ok(Below::Skip),
            Event::Trouble(error) => {
                troubles(error)?;
                return Ok(Below::Skip);
            }
        };
        if query.matches(filesystem, &visited)? {
            found(&visited)?;
        }
        Ok(match visited.depth < query.depth_max {
            true => Below::Enter,
            false => Below::Skip,
        })
    })
}
