//! One file as the rules see it: its path, its lines and, where it is Rust, its words without
//! comments and strings.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A word of Rust code (an identifier, a mark, a bracket) and its line, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// As it is written; a literal is only `""`, since no rule may look into it.
    pub text: String,
    /// Its line, from 1.
    pub line: usize,
}

/// A function with its body: its name and the lines from `fn` to its last bracket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its lines.
    pub lines: RangeInclusive<usize>,
}

/// Where something is wrong, before it is said which rule it breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, from the root of the repository.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub sentence: String,
}

/// A place where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, from the root of the repository.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The rule's name.
    pub rule: &'static str,
    /// What is wrong.
    pub sentence: String,
    /// Why the rule is kept.
    pub reason: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { path, line, rule, sentence, reason } = self;
        write!(f, "{path}:{line}: {sentence} ({rule}: {reason})")
    }
}

/// A file of the repository.
#[derive(Clone, Debug)]
pub struct Source {
    /// From the root of the repository.
    pub path: String,
    /// Its whole text.
    pub text: String,
    /// The words of Rust code; none for other files.
    pub words: Vec<Word>,
    /// The functions of Rust code.
    pub functions: Vec<Function>,
    /// The lines of each `#[cfg(test)]` module.
    pub tests: Vec<RangeInclusive<usize>>,
    /// The lines of each raw string.
    pub raw_strings: Vec<RangeInclusive<usize>>,
    /// Rust that no compiler would read.
    pub is_broken: bool,
}

impl Source {
    /// The file `path` with the content `text`.
    pub fn new(path: &str, text: &str) -> Source {
        let mut source = Source {
            path: path.into(),
            text: text.into(),
            words: Vec::new(),
            functions: Vec::new(),
            tests: Vec::new(),
            raw_strings: Vec::new(),
            is_broken: false,
        };
        if source.is_rust() {
            match TokenStream::from_str(text) {
                Ok(stream) => source.read(stream),
                Err(_) => source.is_broken = true,
            }
        }
        source
    }

    /// Whether this is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the whole file belongs to the tests.
    pub fn is_test(&self) -> bool {
        self.path.contains("/tests/")
            || self.path.ends_with("/tests.rs")
            || self.path.ends_with("_tests.rs")
    }

    /// Whether `line` belongs to the tests.
    pub fn is_test_line(&self, line: usize) -> bool {
        self.is_test() || self.tests.iter().any(|lines| lines.contains(&line))
    }

    /// Whether a raw string has text on `line`.
    pub fn is_raw_string(&self, line: usize) -> bool {
        self.raw_strings.iter().any(|lines| lines.contains(&line))
    }

    /// Whether the file is under one of `folders`.
    pub fn is_under(&self, folders: &[&str]) -> bool {
        folders.iter().any(|folder| self.path.starts_with(folder))
    }

    /// The lines on which the words of `phrase`, separated by spaces, follow each other.
    pub fn phrase(&self, phrase: &str) -> Vec<usize> {
        let phrase: Vec<&str> = phrase.split(' ').collect();
        let windows = self.words.windows(phrase.len());
        let same =
            |window: &&[Word]| window.iter().zip(&phrase).all(|(word, text)| word.text == *text);
        windows.filter(same).map(|window| window[0].line).collect()
    }

    /// Whether there is an exception from `rule` on `line`, or in the comments and attributes
    /// above it.
    pub fn excuses(&self, rule: &str, line: usize) -> bool {
        let lines: Vec<&str> = self.text.lines().collect();
        let above = lines.get(..line.saturating_sub(1)).unwrap_or_default().iter().rev();
        let beside = above.take_while(|text| {
            text.trim_start().starts_with("//") || text.trim_start().starts_with("#[")
        });
        beside.chain(lines.get(line.saturating_sub(1))).any(|text| is_exception(text, rule))
    }

    /// Whether there is an exception from `rule` for the whole file among its first lines.
    pub fn excuses_file(&self, rule: &str) -> bool {
        self.text
            .lines()
            .take_while(|text| text.is_empty() || text.starts_with("//"))
            .any(|line| is_exception(line, rule))
    }

    fn read(&mut self, stream: TokenStream) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        for (at, tree) in trees.iter().enumerate() {
            let line = tree.span().start().line;
            if is_word(tree, "fn") {
                self.functions.extend(function(&trees[at..]));
            }
            if let Some(lines) = test_module(&trees[at..]) {
                self.tests.push(lines);
            }
            match tree {
                TokenTree::Group(group) => {
                    let (open, close) = brackets(group.delimiter());
                    self.push(open, line);
                    self.read(group.stream());
                    self.push(close, group.span_close().end().line);
                }
                TokenTree::Literal(literal) => {
                    if literal.to_string().trim_start_matches(['b', 'c']).starts_with('r') {
                        self.raw_strings.push(line..=literal.span().end().line);
                    }
                    self.push("\"\"", line);
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => self.push(&tree.to_string(), line),
            }
        }
    }

    fn push(&mut self, text: &str, line: usize) {
        if !text.is_empty() {
            self.words.push(Word { text: text.into(), line });
        }
    }
}

/// Whether `line` holds `// tidy: RULE because REASON`.
fn is_exception(line: &str, rule: &str) -> bool {
    let Some((_, rest)) = line.split_once("// tidy: ") else {
        return false;
    };
    rest.split_once(" because ")
        .is_some_and(|(name, reason)| name == rule && !reason.trim().is_empty())
}

fn is_word(tree: &TokenTree, text: &str) -> bool {
    matches!(tree, TokenTree::Ident(ident) if ident == text)
}

fn brackets(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    }
}

/// The function that begins with `trees`, unless it has no body.
fn function(trees: &[TokenTree]) -> Option<Function> {
    let TokenTree::Ident(name) = trees.get(1)? else {
        return None;
    };
    let body = trees.iter().find_map(|tree| match tree {
        TokenTree::Punct(mark) if mark.as_char() == ';' => Some(None),
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(Some(group)),
        _ => None,
    })??;
    let lines = trees[0].span().start().line..=body.span_close().end().line;
    Some(Function { name: name.to_string(), lines })
}

/// The lines of the module that begins with `trees`, if it is one of tests: `#[cfg(test)] mod NAME
/// { ... }`.
fn test_module(trees: &[TokenTree]) -> Option<RangeInclusive<usize>> {
    let [TokenTree::Punct(hash), TokenTree::Group(attribute), rest @ ..] = trees else {
        return None;
    };
    let words: String = attribute.stream().to_string().split_whitespace().collect();
    if hash.as_char() != '#' || words != "cfg(test)" {
        return None;
    }
    let module = rest.iter().take(4).position(|tree| is_word(tree, "mod"))?;
    let TokenTree::Group(body) = rest.get(module + 2)? else {
        return None;
    };
    Some(hash.span().start().line..=body.span_close().end().line)
}
