//! `xtask api`: the public items of the crate `extant`, as a list that is committed, so that what a
//! program sees changes only where somebody meant it (docs/VERSIONS.md).
//!
//! Read from the sources: what `lib.rs` exports, with all public functions, fields, variants and
//! traits of it, wherever in its crate they are. Types that are exported from other crates of the
//! house are read there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use quote::ToTokens;
use syn::{Fields, ImplItem, Item, Type, UseTree, Visibility};

use crate::repository;

/// The list.
const LIST: &str = "docs/api/extant.txt";
/// The crate, and where the others are.
const CRATE: &str = "extant";

/// `api [--write]`: says what differs from the list, or writes it.
///
/// # Errors
/// The list is another; a source cannot be read.
pub fn run(words: &[String]) -> Result<(), String> {
    let path = repository().join(LIST);
    let said = |error: std::io::Error| format!("{LIST}: {error}");
    let lines = lines()?;
    match words {
        [word] if word == "--write" => {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            std::fs::write(&path, text).map_err(said)
        }
        [] => {
            let listed = std::fs::read_to_string(&path).map_err(said)?;
            let changes = changes(&listed.lines().map(str::to_owned).collect(), &lines);
            match changes.is_empty() {
                true => Ok(()),
                false => Err(format!(
                    "the interface of {CRATE} is not as {LIST} has it: what goes or changes breaks \
                     programs (docs/VERSIONS.md); run xtask api --write\n{}",
                    changes.join("\n")
                )),
            }
        }
        _ => Err(format!("no option {}", words.join(" "))),
    }
}

/// What is gone and what is new.
fn changes(before: &BTreeSet<String>, after: &BTreeSet<String>) -> Vec<String> {
    let gone = before.difference(after).map(|line| format!("- {line}"));
    let new = after.difference(before).map(|line| format!("+ {line}"));
    gone.chain(new).collect()
}

/// A line for each public item.
fn lines() -> Result<BTreeSet<String>, String> {
    let mut crates: BTreeMap<String, Vec<Item>> = BTreeMap::new();
    let mut lines = BTreeSet::new();
    let mut next: Vec<(String, String, String)> = Vec::new();
    let own = items_of(CRATE)?;
    let head = own.iter().filter_map(|item| match item {
        Item::Use(one) if is_public(&one.vis) => Some(&one.tree),
        _ => None,
    });
    head.for_each(|tree| exported(tree, &mut Vec::new(), &mut next));
    crates.insert(CRATE.to_owned(), own);
    for (from, name, shown) in next {
        if !crates.contains_key(&from) {
            crates.insert(from.clone(), items_of(&from)?);
        }
        let items = &crates[&from];
        // The crate's face may give the name to another's.
        let (from, name) = renamed(items, &name).unwrap_or((from, name));
        if !crates.contains_key(&from) {
            crates.insert(from.clone(), items_of(&from)?);
        }
        let mut described = BTreeSet::new();
        describe(&crates[&from], &name, &shown, &mut described);
        if described.is_empty() {
            // Numbers, and the codes of the check, which docs/CHECK.md lists.
            described.insert(format!("{shown} (made by a macro of {from})"));
        }
        lines.append(&mut described);
    }
    Ok(lines)
}

/// All items of a crate, those in its modules too, without tests.
fn items_of(name: &str) -> Result<Vec<Item>, String> {
    let folder = name.strip_prefix("extant_").unwrap_or(name);
    let mut items = Vec::new();
    collect(&repository().join("crates").join(folder).join("src"), &mut items)?;
    Ok(items)
}

fn collect(folder: &Path, items: &mut Vec<Item>) -> Result<(), String> {
    let said = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(said)? {
        paths.push(entry.map_err(said)?.path());
    }
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, items)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).map_err(said)?;
            let file = syn::parse_file(&text);
            items.extend(file.map_err(|error| format!("{}: {error}", path.display()))?.items);
        }
    }
    Ok(())
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// What a `pub use` exports: the crate that it is in, its name there and here.
fn exported(tree: &UseTree, path: &mut Vec<String>, found: &mut Vec<(String, String, String)>) {
    let from = |path: &[String]| match path.first() {
        Some(first) if first.starts_with("extant_") => first.clone(),
        _ => CRATE.to_owned(),
    };
    match tree {
        UseTree::Path(one) => {
            path.push(one.ident.to_string());
            exported(&one.tree, path, found);
            path.pop();
        }
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| exported(tree, path, found));
        }
        UseTree::Name(one) => {
            found.push((from(path), one.ident.to_string(), one.ident.to_string()));
        }
        UseTree::Rename(one) => {
            found.push((from(path), one.ident.to_string(), one.rename.to_string()));
        }
        _ => {}
    }
}

/// Where a name comes from that the items export under another, or from another crate.
fn renamed(items: &[Item], name: &str) -> Option<(String, String)> {
    let is_here = items.iter().any(|item| named(item).is_some_and(|one| one == name));
    if is_here {
        return None;
    }
    let mut found = Vec::new();
    for item in items {
        if let Item::Use(one) = item
            && is_public(&one.vis)
        {
            exported(&one.tree, &mut Vec::new(), &mut found);
        }
    }
    let row = found.into_iter().find(|(from, _, shown)| shown == name && from != CRATE)?;
    Some((row.0, row.1))
}

/// The name of an item that programs may have.
fn named(item: &Item) -> Option<String> {
    let (visibility, name) = match item {
        Item::Struct(one) => (&one.vis, &one.ident),
        Item::Enum(one) => (&one.vis, &one.ident),
        Item::Trait(one) => (&one.vis, &one.ident),
        Item::Type(one) => (&one.vis, &one.ident),
        Item::Const(one) => (&one.vis, &one.ident),
        Item::Fn(one) => (&one.vis, &one.sig.ident),
        _ => return None,
    };
    is_public(visibility).then(|| name.to_string())
}

/// The lines of an item, of what it holds, and of what is implemented for it.
fn describe(items: &[Item], name: &str, shown: &str, lines: &mut BTreeSet<String>) {
    let whole = |item: &&Item| named(item).is_some_and(|one| one == name);
    // Of several of one name (in modules of a crate) the first is meant.
    let Some(item) = items.iter().find(whole) else { return };
    let of = |text: String| format!("{shown}::{text}");
    match item {
        Item::Struct(one) => {
            lines.insert(format!("struct {shown}{}", words(&one.generics)));
            lines.extend(fields(&one.fields).into_iter().map(of));
        }
        Item::Enum(one) => {
            let open =
                one.attrs.iter().any(|attribute| attribute.path().is_ident("non_exhaustive"));
            let open = if open { " (more may come)" } else { "" };
            lines.insert(format!("enum {shown}{}{open}", words(&one.generics)));
            lines.extend(
                one.variants
                    .iter()
                    .map(|one| format!("{shown}::{}{}", one.ident, words(&one.fields))),
            );
        }
        Item::Trait(one) => {
            lines.insert(format!("trait {shown}: {}", words(&one.supertraits)));
            for item in &one.items {
                if let syn::TraitItem::Fn(one) = item {
                    let given = if one.default.is_some() { " (given)" } else { "" };
                    lines.insert(format!("{shown}::{}{given}", words(&one.sig)));
                }
            }
        }
        Item::Type(one) => {
            lines.insert(format!("type {shown}{} = {}", words(&one.generics), words(&one.ty)));
        }
        Item::Const(one) => {
            lines.insert(format!("const {shown}: {}", words(&one.ty)));
        }
        Item::Fn(one) => {
            lines.insert(words(&one.sig));
        }
        _ => {}
    }
    derived(item, shown, lines);
    implemented(items, name, shown, lines);
}

/// Traits that are derived for a type.
fn derived(item: &Item, shown: &str, lines: &mut BTreeSet<String>) {
    let attributes = match item {
        Item::Struct(one) => &one.attrs,
        Item::Enum(one) => &one.attrs,
        _ => return,
    };
    for attribute in attributes.iter().filter(|one| one.path().is_ident("derive")) {
        let list = attribute.meta.require_list().map(|list| list.tokens.to_string());
        let names = list.unwrap_or_default();
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        lines.extend(names.map(|name| format!("{shown}: {name}")));
    }
}

/// Functions and traits of a type.
fn implemented(items: &[Item], name: &str, shown: &str, lines: &mut BTreeSet<String>) {
    for item in items {
        let Item::Impl(one) = item else { continue };
        let is_of = |ty: &Type| match ty {
            Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == name),
            _ => false,
        };
        if !is_of(&one.self_ty) {
            continue;
        }
        match &one.trait_ {
            Some((path, _)) => {
                let generics = words(&one.generics);
                lines.insert(format!("{shown}: {}{generics}", words(path)));
            }
            None => {
                for item in &one.items {
                    match item {
                        ImplItem::Fn(one) if is_public(&one.vis) => {
                            lines.insert(format!("{shown}::{}", words(&one.sig)));
                        }
                        ImplItem::Const(one) if is_public(&one.vis) => {
                            lines.insert(format!("{shown}::{}: {}", one.ident, words(&one.ty)));
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}

/// Public fields.
fn fields(fields: &Fields) -> Vec<String> {
    let public = fields.iter().enumerate().filter(|(_, field)| is_public(&field.vis));
    let line = |(at, field): (usize, &syn::Field)| {
        let name = field.ident.as_ref().map_or_else(|| at.to_string(), ToString::to_string);
        format!("{name}: {}", words(&field.ty))
    };
    public.map(line).collect()
}

/// Tokens as they are typed, near enough: the same for the same tokens.
fn words(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for (loose, tight) in [
        (" :: ", "::"),
        (" < ", "<"),
        (" > ", ">"),
        (" >", ">"),
        ("< ", "<"),
        (" ,", ","),
        (" ;", ";"),
        ("& ", "&"),
        ("( ", "("),
        (" )", ")"),
        (" (", "("),
        (" :", ":"),
        ("[ ", "["),
        (" ]", "]"),
        (",)", ")"),
        ("->", " -> "),
        ("  ", " "),
        ("' ", "'"),
        ("? Sized", "?Sized"),
        ("(mut ", "("),
        (", mut ", ", "),
    ] {
        text = text.replace(loose, tight);
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_is_as_listed() {
        run(&[]).unwrap_or_else(|error| panic!("{error}"));
    }

    #[test]
    fn what_goes_and_what_comes_is_said() {
        let lines = |words: &str| words.split(' ').map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(changes(&lines("a b c"), &lines("b c d")), ["- a", "+ d"]);
        assert!(changes(&lines("a"), &lines("a")).is_empty());
    }

    #[test]
    fn all_that_a_program_sees_is_a_line() {
        let text = "
            #[derive(Clone, Debug)] pub struct A { pub x: u8, y: u8 }
            impl A { pub fn f(&self) -> Option<u8> { None } fn g() {} }
            impl Drop for A { fn drop(&mut self) {} }
            #[non_exhaustive] pub enum B { One(u8), Two }
            pub trait C: Send { fn must(&self); fn may(&self) {} }
            struct Hidden;
        ";
        let items = syn::parse_file(text).expect("items").items;
        let mut lines = BTreeSet::new();
        for name in ["A", "B", "C", "Hidden"] {
            describe(&items, name, name, &mut lines);
        }
        let expected = [
            "A: Clone",
            "A: Debug",
            "A: Drop",
            "A::fn f(&self) -> Option<u8>",
            "A::x: u8",
            "B::One(u8)",
            "B::Two",
            "C::fn may(&self) (given)",
            "C::fn must(&self)",
            "enum B (more may come)",
            "struct A",
            "trait C: Send",
        ];
        assert_eq!(lines.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    }
}
