//! Whether the crates that are published can be: what their manifests say, and that cargo packs
//! them. Nothing is compiled: that is what the tests of the tree do.

use serde_json::Value;

use crate::command::{self, program};
use crate::{licenses, repository};

/// The packages of the workspace that are published.
fn published() -> Result<Vec<Value>, String> {
    let metadata = licenses::metadata()?;
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    let is_published = |one: &Value| one["source"].is_null() && one["publish"].is_null();
    Ok(packages.into_iter().filter(is_published).collect())
}

/// What a manifest lacks.
fn missing(package: &Value) -> Vec<String> {
    let words = ["description", "license", "readme", "rust_version"];
    let words = words.into_iter().filter(|key| package[key].as_str().is_none_or(str::is_empty));
    let lists = ["keywords", "categories"];
    let lists = lists.into_iter().filter(|key| package[key].as_array().is_none_or(Vec::is_empty));
    words.chain(lists).map(|key| format!("{}: no {key}", package["name"])).collect()
}

/// `published`: judges the manifests, and packs the crates in `target/package`.
///
/// # Errors
/// A manifest lacks something; cargo cannot pack a crate, as where a dependency has no version.
pub fn run(_words: &[String]) -> Result<(), String> {
    let packages = published()?;
    let missing: Vec<String> = packages.iter().flat_map(missing).collect();
    if !missing.is_empty() {
        return Err(missing.join("\n"));
    }
    let mut cargo = program("cargo");
    cargo.current_dir(repository());
    // Without a network, and whatever of the tree is committed.
    cargo.args(["package", "--no-verify", "--allow-dirty", "--offline", "--quiet"]);
    for package in &packages {
        cargo.args(["--package", package["name"].as_str().unwrap_or_default()]);
    }
    command::output(&mut cargo)?;
    println!("published: {} crates can be packed", packages.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_can_be_packed() {
        run(&[]).unwrap_or_else(|error| panic!("{error}"));
        let names = published().expect("packages");
        let names: Vec<&str> = names.iter().filter_map(|one| one["name"].as_str()).collect();
        assert!(names.contains(&"extant") && names.contains(&"extant-cli"), "{names:?}");
        assert!(!names.contains(&"extant-testkit") && !names.contains(&"xtask"), "{names:?}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let package = serde_json::json!({
            "name": "a", "description": "b", "license": "MIT", "readme": null,
            "rust_version": "1.95", "keywords": [], "categories": ["filesystem"],
        });
        assert_eq!(missing(&package), ["\"a\": no readme", "\"a\": no keywords"]);
    }
}
