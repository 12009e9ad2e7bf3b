//! The modules of one crate: which file each is in, and in which file a path ends.
//!
//! A module is found by where its file is, not by the `mod` that declares it, since a macro may
//! declare it. A path is followed through imports and re-exports to the file that defines the item.
//! What this does not see: methods (their receivers have types, which only a compiler knows), items
//! that a macro makes (their path ends at the module that was named), and names that a macro pastes
//! together.

use std::collections::{BTreeMap, BTreeSet};

use super::scan::{self, Import, Scope};
use super::source::Source;

/// The names of a module from the root of its crate; none for the root.
pub type Path = Vec<String>;

/// How many imports a name is followed through: more than any crate has, and an end for those that
/// import each other.
const HOPS_MAX: usize = 24;

/// A crate.
pub struct Crate<'a> {
    /// Its folder with its `src`, as in `crates/engine/src/`.
    pub root: String,
    /// The modules that have a file of their own, without those of tests.
    pub files: BTreeMap<Path, &'a Source>,
    scopes: BTreeMap<Path, Scope>,
}

/// Where a path ends.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Module(Path),
    /// An item, by the module that defines it and its name.
    Item(Path, String),
}

/// The crates whose sources are in `sources`: each library with a `lib.rs`.
pub fn crates(sources: &[Source]) -> Vec<Crate<'_>> {
    let roots = sources.iter().filter_map(|source| source.path.strip_suffix("lib.rs"));
    let roots = roots.filter(|root| root.ends_with("/src/"));
    roots.map(|root| Crate::new(root, sources)).collect()
}

impl<'a> Crate<'a> {
    fn new(root: &str, sources: &'a [Source]) -> Crate<'a> {
        let mut read = Crate { root: root.into(), files: BTreeMap::new(), scopes: BTreeMap::new() };
        let mut tests = BTreeSet::new();
        for source in sources {
            let Some(path) = source.path.strip_prefix(root).and_then(module_path) else {
                continue;
            };
            if source.is_test() {
                continue;
            }
            for scope in scan::scopes(source) {
                let module = joined(&path, &scope.below);
                tests.extend(
                    scope.tests.iter().map(|name| joined(&module, std::slice::from_ref(name))),
                );
                read.scopes.insert(module, scope);
            }
            read.files.insert(path, source);
        }
        let is_kept = |path: &Path| !tests.iter().any(|test| path.starts_with(test));
        read.files.retain(|path, _| is_kept(path));
        read.scopes.retain(|path, _| is_kept(path));
        read
    }

    /// What the file of `module` names in other files of this crate: their modules, and the names.
    pub fn uses(&self, module: &Path) -> BTreeMap<Path, BTreeSet<String>> {
        let mut uses: BTreeMap<Path, BTreeSet<String>> = BTreeMap::new();
        let mut add = |end: Option<End>| {
            if let Some(End::Item(path, name)) = end {
                let file = self.file_of(&path);
                if file != *module {
                    uses.entry(file).or_default().insert(name);
                }
            }
        };
        for (path, scope) in &self.scopes {
            if self.file_of(path) != *module {
                continue;
            }
            for mention in &scope.mentions {
                add(self.follow(path, mention, HOPS_MAX));
            }
            for import in &scope.imports {
                let end = self.follow(path, &import.path, HOPS_MAX);
                match (&import.name, end) {
                    (None, Some(End::Module(all))) => {
                        self.used_names(module, &all).for_each(&mut add);
                    }
                    (_, end) => add(end),
                }
            }
        }
        uses
    }

    /// Where the names of `all` end that occur in the file of `module`, which imports `all::*`.
    fn used_names<'b>(
        &'b self,
        module: &'b Path,
        all: &'b Path,
    ) -> impl Iterator<Item = Option<End>> + 'b {
        let words: BTreeSet<&str> = self.files.get(module).map_or_else(BTreeSet::new, |source| {
            source.words.iter().map(|word| word.text.as_str()).collect()
        });
        let scope = self.scopes.get(all);
        let names = scope.into_iter().flat_map(|scope| {
            let imported = scope.imports.iter().filter_map(|import| import.name.as_ref());
            scope.items.iter().chain(imported)
        });
        names
            .filter(move |name| words.contains(name.as_str()))
            .map(|name| self.walk(all, std::slice::from_ref(name), HOPS_MAX))
    }

    /// The module whose file holds `path`: its own, or that of the module that it is written in.
    fn file_of(&self, path: &Path) -> Path {
        let ends = (0..=path.len()).rev().map(|length| path[..length].to_vec());
        ends.into_iter().find(|path| self.files.contains_key(path)).unwrap_or_default()
    }

    /// Where `path` ends as it is written in `module`; none outside of this crate.
    fn follow(&self, module: &Path, path: &[String], hops: usize) -> Option<End> {
        let hops = hops.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.walk_known(&Vec::new(), rest, hops),
            "self" => self.walk_known(module, rest, hops),
            "super" => {
                let mut above = module.clone();
                above.pop();
                match rest.first() {
                    Some(name) if name == "super" => self.follow(&above, rest, hops),
                    _ => self.walk_known(&above, rest, hops),
                }
            }
            _ => self.walk(module, path, hops),
        }
    }

    /// As `walk`; a name that is not found belongs to the last module that is.
    fn walk_known(&self, module: &Path, path: &[String], hops: usize) -> Option<End> {
        self.walk(module, path, hops).or_else(|| {
            let known =
                |length: &usize| self.scopes.contains_key(&joined(module, &path[..*length]));
            let length = (0..path.len()).rev().find(known)?;
            Some(End::Item(joined(module, &path[..length]), path[length].clone()))
        })
    }

    /// Where `path` ends, which begins with a name of `module`; none if the name is not there.
    fn walk(&self, module: &Path, path: &[String], hops: usize) -> Option<End> {
        let hops = hops.checked_sub(1)?;
        let Some((name, rest)) = path.split_first() else {
            return Some(End::Module(module.clone()));
        };
        let scope = self.scopes.get(module)?;
        let child = joined(module, std::slice::from_ref(name));
        let is_module = self.scopes.contains_key(&child);
        if is_module && !rest.is_empty() {
            return self.walk_known(&child, rest, hops);
        }
        if scope.items.contains(name) {
            return Some(End::Item(module.clone(), name.clone()));
        }
        let mut named = scope.imports.iter().filter(|import| import.name.as_ref() == Some(name));
        if let Some(end) = named.find_map(|import| self.through(module, import, rest, hops)) {
            return Some(end);
        }
        if is_module {
            return Some(End::Module(child));
        }
        let mut all = scope.imports.iter().filter(|import| import.name.is_none());
        all.find_map(|import| self.through(module, import, path, hops))
    }

    /// Where `path` ends below what `import` brings into `module`.
    fn through(&self, module: &Path, import: &Import, path: &[String], hops: usize) -> Option<End> {
        // `use name;` in the module that has the child `name` brings nothing new.
        if import.path.len() == 1 && import.path.first() == import.name.as_ref() {
            return None;
        }
        match self.follow(module, &import.path, hops)? {
            End::Module(found) if import.name.is_some() => self.walk_known(&found, path, hops),
            End::Module(found) => self.walk(&found, path, hops),
            item @ End::Item(..) => import.name.is_some().then_some(item),
        }
    }
}

/// The module of the file `path` below `src/`; none if it is the root of a program.
fn module_path(path: &str) -> Option<Path> {
    let path = path.strip_suffix(".rs")?;
    if path == "main" || path.starts_with("bin/") {
        return None;
    }
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if path == "lib" {
        return Some(Vec::new());
    }
    Some(path.split('/').map(str::to_owned).collect())
}

fn joined(path: &[String], below: &[String]) -> Path {
    path.iter().chain(below).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arrows of a crate, as `a -> b (Name)`.
    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(name, text)| Source::new(&format!("crates/x/src/{name}"), text))
            .collect();
        let mut arrows = Vec::new();
        for read in crates(&sources) {
            for module in read.files.keys() {
                for (to, names) in read.uses(module) {
                    let names: Vec<String> = names.into_iter().collect();
                    let (from, to) = (module.join("::"), to.join("::"));
                    arrows.push(format!("{from} -> {to} ({})", names.join(", ")));
                }
            }
        }
        arrows
    }

    #[test]
    fn a_path_ends_where_the_item_is_defined() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub use a::A;\n"),
            ("a/mod.rs", "mod deep;\npub use deep::A;\npub use deep::nothing_known;\n"),
            ("a/deep.rs", "pub struct A;\n"),
            ("b.rs", "use crate::A;\nfn f() { crate::a::A::new(); crate::a::made_by_macro() }\n"),
        ];
        assert_eq!(
            arrows(&files),
            [
                " -> a::deep (A)",
                "a -> a::deep (A, nothing_known)",
                "b -> a (made_by_macro)",
                "b -> a::deep (A)",
            ]
        );
    }

    #[test]
    fn an_imported_module_is_no_arrow_until_something_of_it_is_named() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "pub fn f() {}\n"),
            ("b.rs", "use crate::a;\nfn g() { a::f() }\n"),
            ("c.rs", "use crate::{a, b as other};\n"),
        ];
        assert_eq!(arrows(&files), ["b -> a (f)"]);
    }

    #[test]
    fn a_star_brings_the_names_that_are_used() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\n"),
            ("a/mod.rs", "mod c;\nuse crate::b::B;\npub struct A;\npub struct Other;\n"),
            ("a/c.rs", "use super::*;\nfn f(a: A, b: B) {}\n"),
            ("b.rs", "pub struct B;\n"),
        ];
        assert_eq!(arrows(&files), ["a -> b (B)", "a::c -> a (A)", "a::c -> b (B)"]);
    }

    #[test]
    fn tests_and_other_crates_draw_no_arrow() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod samples;\n"),
            ("a.rs", "use std::fs;\nfn f() { fs::read(); serde::b(); }\n"),
            ("b.rs", "#[cfg(test)]\nmod tests { use crate::a::f; }\npub use self::b::c;\n"),
            ("samples.rs", "use crate::a::f;\n"),
        ];
        assert_eq!(arrows(&files), [] as [&str; 0]);
    }
}
