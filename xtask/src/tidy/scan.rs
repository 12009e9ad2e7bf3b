//! What the words of a Rust file declare, import and name, module by module, without its tests.

use super::source::{Source, Word};

/// A name that a `use` brings into a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The name in this module; none for `*`.
    pub name: Option<String>,
    /// The path as it is written.
    pub path: Vec<String>,
}

/// A module as its file declares it. A file declares one, and one more for each `mod NAME { ... }`.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Its names below the module of the file: empty for that module itself.
    pub below: Vec<String>,
    /// The items that it defines, without modules.
    pub items: Vec<String>,
    /// What it imports, also inside functions.
    pub imports: Vec<Import>,
    /// The paths of two names and more in its code.
    pub mentions: Vec<Vec<String>>,
    /// The modules that it declares for tests only.
    pub tests: Vec<String>,
}

/// The words that begin an item, before its name.
const ITEMS: &[&str] = &["fn", "struct", "enum", "trait", "type", "const", "static", "union"];

/// The scopes of `source`, the module of the file first.
pub fn scopes(source: &Source) -> Vec<Scope> {
    let words = source.words.as_slice();
    let mut scan = Scan { words, at: 0, open: vec![Scope::default()], closed: Vec::new() };
    scan.block(Level::Module);
    let mut scopes = scan.open;
    scopes.append(&mut scan.closed);
    scopes
}

/// Whether what is declared here belongs to the module, or to a function, a type or a macro in it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Module,
    Inside,
}

struct Scan<'a> {
    words: &'a [Word],
    at: usize,
    /// The scopes around the current word; the first one is the file's.
    open: Vec<Scope>,
    closed: Vec<Scope>,
}

impl Scan<'_> {
    fn word(&self, ahead: usize) -> &str {
        self.words.get(self.at + ahead).map_or("", |word| word.text.as_str())
    }

    /// The word before the current one.
    fn before(&self) -> &str {
        self.at.checked_sub(1).map_or("", |at| self.words[at].text.as_str())
    }

    fn scope(&mut self) -> &mut Scope {
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    fn follows(&self, phrase: &[&str]) -> bool {
        phrase.iter().enumerate().all(|(ahead, word)| self.word(ahead) == *word)
    }

    /// Reads up to the bracket that closes this block, or to the end of the file.
    fn block(&mut self, level: Level) {
        while self.at < self.words.len() {
            match self.word(0) {
                "{" | "(" | "[" => {
                    self.at += 1;
                    self.block(Level::Inside);
                }
                "}" | ")" | "]" => {
                    self.at += 1;
                    return;
                }
                "#" if self.follows(&["#", "[", "cfg", "(", "test", ")", "]"]) => self.test_item(),
                "mod" if is_name(self.word(1)) && self.word(2) == "{" => self.inline_module(),
                "use" if self.word(1) != "<" => self.import(),
                "macro_rules" if level == Level::Module && self.word(1) == "!" => {
                    let name = self.word(2).to_owned();
                    self.scope().items.push(name);
                    self.at += 3;
                }
                word if level == Level::Module
                    && ITEMS.contains(&word)
                    && is_name(self.word(1))
                    && !ITEMS.contains(&self.word(1)) =>
                {
                    let name = self.word(1).to_owned();
                    self.scope().items.push(name);
                    self.at += 2;
                }
                word if is_name(word) => self.path(),
                _ => self.at += 1,
            }
        }
    }

    fn inline_module(&mut self) {
        let mut below = self.scope().below.clone();
        below.push(self.word(1).to_owned());
        self.open.push(Scope { below, ..Scope::default() });
        self.at += 3;
        self.block(Level::Module);
        self.closed.extend(self.open.pop());
    }

    /// Passes over `#[cfg(test)]` and the item below it.
    fn test_item(&mut self) {
        self.at += 7;
        while self.follows(&["#", "["]) {
            self.at += 1;
            self.pass_group();
        }
        let mut is_import = false;
        while self.at < self.words.len() {
            match self.word(0) {
                "mod" => {
                    let name = self.word(1).to_owned();
                    self.scope().tests.push(name);
                    self.at += 1;
                }
                "use" => {
                    is_import = true;
                    self.at += 1;
                }
                ";" => {
                    self.at += 1;
                    return;
                }
                "}" | ")" | "]" => return,
                "{" if !is_import => return self.pass_group(),
                "{" | "(" | "[" => self.pass_group(),
                _ => self.at += 1,
            }
        }
    }

    /// Passes over a group in brackets, whose opening bracket is the current word.
    fn pass_group(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.words.len() {
            match self.word(0) {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    fn import(&mut self) {
        self.at += 1;
        let mut found = Vec::new();
        self.tree(&[], &mut found);
        self.scope().imports.append(&mut found);
    }

    /// One branch of a `use`, below `stem`.
    fn tree(&mut self, stem: &[String], found: &mut Vec<Import>) {
        let mut path = stem.to_vec();
        while self.at < self.words.len() {
            match self.word(0) {
                ":" => self.at += 1,
                "*" => {
                    self.at += 1;
                    return found.push(Import { name: None, path });
                }
                "{" => {
                    self.at += 1;
                    while !matches!(self.word(0), "}" | "") {
                        self.tree(&path, found);
                        if self.word(0) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "as" => {
                    let name = Some(self.word(1).to_owned());
                    self.at += 2;
                    return found.push(Import { name, path });
                }
                "self" if !path.is_empty() => self.at += 1,
                word if is_name(word) => {
                    path.push(word.to_owned());
                    self.at += 1;
                }
                _ => break,
            }
        }
        let name = path.last().cloned();
        found.push(Import { name, path });
    }

    /// A name, and those that `::` joins to it.
    fn path(&mut self) {
        let is_visibility = self.before() == "in";
        let continues = self.before() == ":" && self.at >= 2 && self.words[self.at - 2].text == ":";
        let mut path = vec![self.word(0).to_owned()];
        self.at += 1;
        while self.word(0) == ":" && self.word(1) == ":" && is_name(self.word(2)) {
            path.push(self.word(2).to_owned());
            self.at += 3;
        }
        if path.len() > 1 && !is_visibility && !continues {
            self.scope().mentions.push(path);
        }
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_alphabetic() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let scopes = scopes(&Source::new("crates/engine/src/file.rs", text));
        let imports = scopes.iter().flat_map(|scope| scope.imports.iter());
        let imports = imports.map(|import| {
            format!("{} = {}", import.name.as_deref().unwrap_or("*"), import.path.join("::"))
        });
        let mentions = scopes.iter().flat_map(|scope| scope.mentions.iter());
        imports.chain(mentions.map(|path| path.join("::"))).collect()
    }

    #[test]
    fn a_tree_of_imports_is_a_list_of_paths() {
        assert_eq!(
            paths("use crate::{a::{self, B as C}, d::*};\n"),
            ["a = crate::a", "C = crate::a::B", "* = crate::d"]
        );
        assert_eq!(paths("fn f() { use super::g; g() }\n"), ["g = super::g"]);
    }

    #[test]
    fn paths_are_found_wherever_code_names_them() {
        assert_eq!(
            paths("fn f(a: &crate::a::A) { say!(\"{}\", super::b::<u8>()); a::c() }\n"),
            ["crate::a::A", "super::b", "a::c"]
        );
        assert_eq!(paths("pub(in crate::a) fn f() -> impl Fn() + use<> { g }\n"), [] as [&str; 0]);
    }

    #[test]
    fn tests_are_not_read() {
        let text = "#[cfg(test)]\nuse crate::{a, b};\n#[cfg(test)]\nmod tests { use crate::c; }\n\
                    #[cfg(test)]\n#[path = \"a_tests.rs\"]\nmod others;\nfn f() { d::e() }\n";
        assert_eq!(paths(text), ["d::e"]);
        let scopes = scopes(&Source::new("crates/engine/src/file.rs", text));
        assert_eq!(scopes[0].tests, ["tests", "others"]);
    }

    #[test]
    fn items_are_those_of_the_module_itself() {
        let text = "pub struct A { b: u8 }\nimpl A { pub const fn c() {} }\nconst fn d() {}\n\
                    mod e { pub fn g() {} }\nmacro_rules! h { () => { fn i() {} } }\n";
        let scopes = scopes(&Source::new("crates/engine/src/file.rs", text));
        assert_eq!(scopes[0].items, ["A", "d", "h"]);
        assert_eq!(
            (scopes[1].below.as_slice(), scopes[1].items.as_slice()),
            (["e".to_owned()].as_slice(), ["g".to_owned()].as_slice())
        );
    }
}
