//! The crates that are in a binary, with their licences: words for people, and SPDX for programs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use super::tree::Tree;
use super::{Release, read, text};
use crate::command::program;
use crate::{licenses, repository};

/// How a binary is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// With the C library of the machine that it runs on.
    Shared,
    /// With one in it.
    Static,
}

/// A crate in a binary.
#[derive(Debug, PartialEq, Eq)]
pub struct Part {
    name: String,
    version: String,
    /// An SPDX expression.
    license: String,
    /// Its folder.
    folder: String,
    is_ours: bool,
}

/// Adds `copyright`, `licences.txt` and `extant.spdx.json` to a folder.
///
/// # Errors
/// The metadata cannot be read.
pub fn add(
    files: &mut Tree,
    folder: &str,
    release: &Release,
    krate: &str,
    kind: Kind,
) -> Result<(), String> {
    let parts = linked(&licenses::metadata()?, krate)?;
    files.file(&format!("{folder}/copyright"), 0o644, copyright()?.into_bytes());
    let words = texts(&parts)?;
    files.file(&format!("{folder}/licences.txt"), 0o644, words.into_bytes());
    let list = spdx(release, krate, &parts, kind)?;
    let mut list = serde_json::to_vec_pretty(&list).map_err(|error| error.to_string())?;
    list.push(b'\n');
    files.file(&format!("{folder}/{krate}.spdx.json"), 0o644, list);
    Ok(())
}

/// The packages that a crate links, itself too, by name and version: what only compilers, build
/// scripts and tests need is in no binary.
fn linked(metadata: &Value, krate: &str) -> Result<Vec<Part>, String> {
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let words = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> = array(&metadata["packages"])
        .into_iter()
        .map(|package| (words(&package["id"]), package))
        .collect();
    let nodes: BTreeMap<String, Value> = array(&metadata["resolve"]["nodes"])
        .into_iter()
        .map(|node| (words(&node["id"]), node))
        .collect();
    let root = packages.iter().find(|(_, package)| package["name"] == krate);
    let mut next = vec![root.ok_or_else(|| format!("no crate {krate}"))?.0.clone()];
    let mut found = BTreeSet::new();
    while let Some(id) = next.pop() {
        let Some(package) = packages.get(&id) else { continue };
        let is_macro = array(&package["targets"])
            .iter()
            .any(|target| array(&target["kind"]).iter().any(|kind| kind == "proc-macro"));
        if is_macro || !found.insert(id.clone()) {
            continue;
        }
        for dependency in nodes.get(&id).map(|node| array(&node["deps"])).unwrap_or_default() {
            let is_linked =
                array(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
            if is_linked {
                next.push(words(&dependency["pkg"]));
            }
        }
    }
    let part = |id: &String| {
        let package = packages.get(id)?;
        let manifest = words(&package["manifest_path"]);
        Some(Part {
            name: words(&package["name"]),
            version: words(&package["version"]),
            license: words(&package["license"]).replace('/', " OR "),
            folder: Path::new(&manifest).parent()?.display().to_string(),
            is_ours: package["source"].is_null(),
        })
    };
    let mut parts: Vec<Part> = found.iter().filter_map(part).collect();
    parts.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    Ok(parts)
}

/// Debian's form, for our own.
fn copyright() -> Result<String, String> {
    let mut words = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
        Upstream-Name: extant\nComment: licences.txt has the licences of all crates that are \
        linked to it.\n\nFiles: *\nCopyright: the authors of extant\nLicense: MIT or Apache-2.0\n"
        .to_owned();
    for (name, file) in [("MIT", "LICENSE-MIT"), ("Apache-2.0", "LICENSE-APACHE")] {
        let text = String::from_utf8_lossy(&read(&repository().join(file))?).into_owned();
        words += &format!("\nLicense: {name}\n");
        for line in text.trim_end().lines() {
            let line = if line.trim().is_empty() { "." } else { line.trim_end() };
            words += &format!(" {line}\n");
        }
    }
    Ok(words)
}

/// The texts of licences that come with the crates, each once.
fn texts(parts: &[Part]) -> Result<String, String> {
    let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut words = "What is linked to extant, and under which licence:\n\n".to_owned();
    for part in parts {
        let name = format!("{} {}", part.name, part.version);
        words += &format!("{name:<40} {}\n", part.license);
        if part.is_ours {
            continue;
        }
        for file in license_files(Path::new(&part.folder)) {
            let text = String::from_utf8_lossy(&read(Path::new(&file))?).replace("\r\n", "\n");
            users.entry(text.trim().to_owned()).or_default().push(name.clone());
        }
    }
    words += "Rust's standard library                  MIT OR Apache-2.0\n";
    let mut texts: Vec<(Vec<String>, String)> =
        users.into_iter().map(|(text, users)| (users, text)).collect();
    texts.sort();
    for (users, text) in texts {
        words += &format!("\n{}\n{}:\n\n{text}\n", "-".repeat(80), users.join(", "));
    }
    Ok(words)
}

fn license_files(folder: &Path) -> Vec<String> {
    let is_license = |name: &str| {
        let name = name.to_uppercase();
        ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE", "COPYRIGHT"]
            .iter()
            .any(|word| name.starts_with(word))
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter(|entry| {
        entry.file_name().to_str().is_some_and(is_license) && entry.path().is_file()
    });
    let mut files: Vec<String> = files.map(|entry| entry.path().display().to_string()).collect();
    files.sort();
    files
}

/// The list in SPDX 2.3.
fn spdx(release: &Release, krate: &str, parts: &[Part], kind: Kind) -> Result<Value, String> {
    let mut date = program("date");
    date.args(["-u", "+%Y-%m-%dT%H:%M:%SZ", "-d"]).arg(format!("@{}", release.epoch));
    let created = text(&mut date)?;
    let lock = String::from_utf8_lossy(&read(&repository().join("Cargo.lock"))?).into_owned();
    let id = |part: &Part| format!("SPDXRef-{}-{}", plain(&part.name), plain(&part.version));
    let mut packages: Vec<Value> = parts
        .iter()
        .map(|part| {
            let mut package = json!({
                "SPDXID": id(part),
                "name": part.name,
                "versionInfo": part.version,
                "downloadLocation": "NOASSERTION",
                "filesAnalyzed": false,
                "licenseConcluded": part.license,
                "licenseDeclared": part.license,
                "copyrightText": "NOASSERTION",
            });
            if !part.is_ours {
                package["externalRefs"] = json!([{
                    "referenceCategory": "PACKAGE-MANAGER",
                    "referenceType": "purl",
                    "referenceLocator": format!("pkg:cargo/{}@{}", part.name, part.version),
                }]);
            }
            if let Some(digest) = digest(&lock, part) {
                package["checksums"] = json!([{"algorithm": "SHA256", "checksumValue": digest}]);
            }
            package
        })
        .collect();
    packages.extend(foreign(kind)?);
    let root = parts.iter().find(|part| part.name == krate).map(id).unwrap_or_default();
    let mut relations = vec![json!(["SPDXRef-DOCUMENT", "DESCRIBES", root])];
    let inside = packages.iter().map(|package| &package["SPDXID"]).filter(|one| **one != root);
    relations.extend(inside.map(|one| json!([root, "CONTAINS", one])));
    let relations: Vec<Value> = relations
        .iter()
        .map(|row| {
            json!({
                "spdxElementId": row[0],
                "relationshipType": row[1],
                "relatedSpdxElement": row[2],
            })
        })
        .collect();
    let name = format!("{krate}-{}-{}", release.version, release.machine);
    Ok(json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "documentNamespace": format!("urn:extant:spdx:{name}:{}", release.epoch),
        "creationInfo": {"created": created, "creators": ["Tool: xtask dist"]},
        "packages": packages,
        "relationships": relations,
    }))
}

/// What is in a binary beside crates.
fn foreign(kind: Kind) -> Result<Vec<Value>, String> {
    let rust = text(program("rustc").arg("--version"))?;
    let rust = rust.split(' ').nth(1).unwrap_or("unknown").to_owned();
    let mut foreign = vec![("rust-std", rust, "MIT OR Apache-2.0")];
    if kind == Kind::Static {
        let glibc = text(program("getconf").arg("GNU_LIBC_VERSION"))?;
        let glibc = glibc.split(' ').nth(1).unwrap_or("unknown").to_owned();
        foreign.push(("glibc", glibc, "LGPL-2.1-or-later"));
        let gcc = text(program("cc").arg("-dumpversion"))?;
        foreign.push(("libgcc", gcc, "GPL-3.0-or-later WITH GCC-exception-3.1"));
    }
    let package = |(name, version, license): (&str, String, &str)| {
        json!({
            "SPDXID": format!("SPDXRef-{name}-{}", plain(&version)),
            "name": name,
            "versionInfo": version,
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": false,
            "licenseConcluded": license,
            "licenseDeclared": license,
            "copyrightText": "NOASSERTION",
        })
    };
    Ok(foreign.into_iter().map(package).collect())
}

/// Letters that an identifier of SPDX may have.
fn plain(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '.';
    text.chars().map(|letter| if is_plain(letter) { letter } else { '-' }).collect()
}

/// What Cargo.lock says that the crate's archive has to have.
fn digest(lock: &str, part: &Part) -> Option<String> {
    let head = format!("name = \"{}\"\nversion = \"{}\"\n", part.name, part.version);
    let (_, rest) = lock.split_once(&head)?;
    let (own, _) = rest.split_once("\n\n").unwrap_or((rest, ""));
    let (_, digest) = own.split_once("checksum = \"")?;
    Some(digest.split('"').next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_found_and_nothing_else() {
        let package = |id: &str, kind: &str| {
            json!({
                "id": id, "name": id, "version": "1.0.0", "license": "MIT/Apache-2.0",
                "manifest_path": "/x/Cargo.toml", "source": null, "targets": [{"kind": [kind]}],
            })
        };
        let edge = |to: &str, kind: Value| json!({"pkg": to, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [
                package("root", "bin"), package("linked", "lib"), package("below", "lib"),
                package("tested", "lib"), package("built", "lib"), package("macros", "proc-macro"),
            ],
            "resolve": {"nodes": [
                {"id": "root", "deps": [
                    edge("linked", Value::Null), edge("tested", "dev".into()),
                    edge("built", "build".into()), edge("macros", Value::Null),
                ]},
                {"id": "linked", "deps": [edge("below", Value::Null)]},
            ]},
        });
        let parts = linked(&metadata, "root").expect("parts");
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["below", "linked", "root"]);
        assert_eq!(parts[0].license, "MIT OR Apache-2.0");
        assert!(linked(&metadata, "other").is_err());
    }

    #[test]
    fn the_command_has_all_its_crates_with_a_licence_and_a_digest() {
        let parts = linked(&licenses::metadata().expect("metadata"), "extant-cli").expect("parts");
        assert!(parts.len() > 60 && parts.iter().any(|part| part.name == "extant-engine"));
        assert!(!parts.iter().any(|part| part.name == "extant-testkit" || part.name == "syn"));
        let lock = read(&repository().join("Cargo.lock")).expect("the lock file");
        let lock = String::from_utf8_lossy(&lock).into_owned();
        for part in &parts {
            assert_eq!(licenses::judge(&part.license), Ok(()), "{part:?}");
            let has_digest = digest(&lock, part).is_some_and(|digest| digest.len() == 64);
            assert_ne!(has_digest, part.is_ours, "{part:?}");
            assert!(part.is_ours || texts(std::slice::from_ref(part)).is_ok(), "{part:?}");
        }
    }
}
