//! The rules about manifests: which crate may know which, and what every crate must say.

use std::collections::BTreeSet;

use toml::Table;

use super::source::Source;

/// What a crate may depend on inside the project: when it is linked, and what its tests may know
/// besides that, itself and `testkit`.
struct Arrow {
    name: &'static str,
    links: &'static [&'static str],
    tests: &'static [&'static str],
}

/// The arrows as architecture draws them. `inspect` never meets the engine that it judges, not even
/// in its tests; `testkit` knows none of the crates that it helps to judge; no crate links `xtask`.
/// `extant`, which programs link, has neither the laboratory nor the mount nor the command behind
/// it; nor has `mount` the laboratory or its machines, which only tests of what is below put around
/// devices.
const ARROWS: &[Arrow] = &[
    Arrow { name: "extant-format", links: &[], tests: &[] },
    Arrow { name: "extant-tree", links: &["extant-format"], tests: &[] },
    Arrow { name: "extant-block", links: &[], tests: &[] },
    Arrow {
        name: "extant-journal",
        links: &["extant-format", "extant-block"],
        tests: &["extant-sim"],
    },
    Arrow { name: "extant-policy", links: &["extant-format", "extant-block"], tests: &[] },
    Arrow {
        name: "extant-store",
        links: &["extant-format", "extant-block", "extant-journal", "extant-policy"],
        tests: &["extant-engine"],
    },
    Arrow {
        name: "extant-engine",
        links: &[
            "extant-format",
            "extant-tree",
            "extant-block",
            "extant-journal",
            "extant-policy",
            "extant-store",
        ],
        tests: &["extant-inspect", "extant-sim"],
    },
    Arrow {
        name: "extant-inspect",
        links: &["extant-format", "extant-block"],
        tests: &["extant-sim"],
    },
    Arrow {
        name: "extant-repair",
        links: &[
            "extant-format",
            "extant-block",
            "extant-journal",
            "extant-engine",
            "extant-inspect",
        ],
        tests: &[],
    },
    Arrow { name: "extant-archive", links: &["extant-format", "extant-tree"], tests: &[] },
    Arrow {
        name: "extant-disk",
        links: &["extant-tree", "extant-block", "extant-archive"],
        tests: &[],
    },
    Arrow {
        name: "extant-image",
        links: &["extant-format", "extant-tree", "extant-block", "extant-engine", "extant-archive"],
        tests: &["extant-inspect", "extant-sim"],
    },
    Arrow {
        name: "extant-edit",
        links: &["extant-format", "extant-tree", "extant-block", "extant-journal", "extant-engine"],
        tests: &["extant-image", "extant-repair", "extant-sim"],
    },
    Arrow {
        name: "extant",
        links: &[
            "extant-format",
            "extant-tree",
            "extant-block",
            "extant-journal",
            "extant-engine",
            "extant-inspect",
            "extant-repair",
            "extant-archive",
            "extant-image",
            "extant-disk",
            "extant-edit",
        ],
        tests: &[],
    },
    Arrow { name: "extant-capi", links: &["extant"], tests: &["extant-engine"] },
    // The calls that a mount answers and a command makes.
    Arrow { name: "extant-control", links: &[], tests: &[] },
    Arrow {
        name: "extant-mount",
        links: &["extant-format", "extant-block", "extant-engine", "extant-control"],
        tests: &["extant-sim"],
    },
    Arrow { name: "extant-sim", links: &["extant-block"], tests: &[] },
    Arrow { name: "extant-chart", links: &[], tests: &[] },
    // Which commands there are it is told; so any engine of jobs can link it.
    Arrow { name: "extant-sweep", links: &["extant-block"], tests: &[] },
    Arrow {
        name: "extant-lab",
        links: &[
            "extant-format",
            "extant-block",
            "extant-engine",
            "extant-inspect",
            "extant-archive",
            "extant-sim",
            "extant-chart",
        ],
        tests: &[],
    },
    Arrow {
        name: "extant-host",
        links: &[
            "extant-format",
            "extant-tree",
            "extant-block",
            "extant-journal",
            "extant-engine",
            "extant-control",
            "extant-archive",
            "extant-image",
            "extant-disk",
            "extant-edit",
            "extant-inspect",
            "extant-repair",
            "extant-chart",
        ],
        tests: &[],
    },
    Arrow {
        name: "extant-daemon",
        links: &[
            "extant-format",
            "extant-block",
            "extant-journal",
            "extant-engine",
            "extant-archive",
            "extant-image",
            "extant-disk",
            "extant-edit",
            "extant-mount",
            "extant-sim",
            "extant-chart",
            "extant-lab",
            "extant-host",
        ],
        tests: &[],
    },
    Arrow {
        name: "extant-names",
        links: &[
            "extant-format",
            "extant-block",
            "extant-journal",
            "extant-engine",
            "extant-inspect",
            "extant-repair",
            "extant-archive",
            "extant-image",
            "extant-disk",
            "extant-edit",
            "extant-host",
        ],
        tests: &[],
    },
    Arrow {
        name: "extant-cli",
        links: &[
            "extant-format",
            "extant-tree",
            "extant-block",
            "extant-journal",
            "extant-engine",
            "extant-inspect",
            "extant-repair",
            "extant-archive",
            "extant-image",
            "extant-disk",
            "extant-edit",
            "extant-sim",
            "extant-chart",
            "extant-lab",
            "extant-sweep",
            "extant-host",
            "extant-daemon",
            "extant-names",
        ],
        tests: &["extant"],
    },
    Arrow {
        name: "extant-python",
        // The whole command is in it; testkit is for one set of features, never in what ships.
        links: &[
            "extant",
            "extant-engine",
            "extant-cli",
            "extant-lab",
            "extant-sim",
            "extant-host",
            "extant-testkit",
        ],
        tests: &[],
    },
    Arrow {
        name: "extant-crash",
        links: &[
            "extant-format",
            "extant-block",
            "extant-engine",
            "extant-inspect",
            "extant-repair",
            "extant-journal",
            "extant-sim",
            "extant-testkit",
        ],
        tests: &[],
    },
    Arrow {
        name: "extant-fuzz",
        links: &[
            "extant-format",
            "extant-tree",
            "extant-block",
            "extant-journal",
            "extant-engine",
            "extant-inspect",
            "extant-repair",
            "extant-archive",
            "extant-image",
            "extant-edit",
            "extant-mount",
            "extant-sim",
            "extant-lab",
            "extant-testkit",
        ],
        tests: &[],
    },
    Arrow { name: "extant-testkit", links: &[], tests: &[] },
    Arrow {
        name: "xtask",
        links: &["extant-format", "extant-inspect", "extant-repair", "extant-testkit"],
        tests: &[],
    },
];

/// The crates that read words of the command line.
const COMMANDS: &[&str] = &["extant-cli", "extant-host", "extant-names"];

/// What only commands need: the rest of the house neither parses words nor archives nor mounts.
const COMMAND_ONLY: &[&str] = &["clap", "clap_complete", "clap_mangen", "fuser", "tar"];

/// The manifest of a crate, if `source` is one.
fn manifest(source: &Source) -> Option<Result<Table, String>> {
    // The targets of libFuzzer are a workspace of their own, and its macro needs what is forbidden.
    let is_manifest = source.path.ends_with("/Cargo.toml") && source.path != "fuzz/Cargo.toml";
    is_manifest.then(|| {
        source.text.parse::<Table>().map_err(|error| format!("cannot be read: {}", error.message()))
    })
}

fn crate_name(manifest: &Table) -> &str {
    manifest
        .get("package")
        .and_then(|package| package.get("name"))
        .and_then(toml::Value::as_str)
        .unwrap_or("")
}

/// The keys of every table called `name`, for all platforms.
fn dependencies(manifest: &Table, name: &str) -> BTreeSet<String> {
    let platforms = manifest.get("target").and_then(toml::Value::as_table);
    let tables = platforms.into_iter().flat_map(Table::values).filter_map(toml::Value::as_table);
    std::iter::once(manifest)
        .chain(tables)
        .filter_map(|table| table.get(name)?.as_table())
        .flat_map(|table| table.iter().map(package_name))
        .collect()
}

/// A dependency by its true name: `other = { package = "name" }` is `name`.
fn package_name((key, value): (&String, &toml::Value)) -> String {
    value.get("package").and_then(toml::Value::as_str).unwrap_or(key).to_owned()
}

fn is_ours(name: &str) -> bool {
    name.starts_with("extant") || name == "xtask"
}

/// Arrows that are not drawn.
pub fn arrows(source: &Source) -> Vec<(usize, String)> {
    let manifest = match manifest(source) {
        None => return Vec::new(),
        Some(Err(sentence)) => return vec![(1, sentence)],
        Some(Ok(manifest)) => manifest,
    };
    let name = crate_name(&manifest);
    let Some(arrow) = ARROWS.iter().find(|arrow| arrow.name == name) else {
        return vec![(1, format!("crate {name} is not in the drawing"))];
    };
    let kinds: [(&str, &[&[&str]]); 3] = [
        ("dependencies", &[arrow.links]),
        ("build-dependencies", &[arrow.links]),
        ("dev-dependencies", &[arrow.links, arrow.tests, &["extant-testkit", arrow.name]]),
    ];
    let mut wrong = Vec::new();
    for (kind, allowed) in kinds {
        let allowed = allowed.concat();
        for dependency in dependencies(&manifest, kind) {
            if is_ours(&dependency) && !allowed.contains(&dependency.as_str()) {
                wrong.push((1, format!("{name} may not know {dependency} ({kind})")));
            }
        }
    }
    wrong
}

/// Crates for commands, outside of those that have commands.
pub fn command_only(source: &Source) -> Vec<(usize, String)> {
    let Some(Ok(manifest)) = manifest(source) else {
        return Vec::new();
    };
    if COMMANDS.contains(&crate_name(&manifest)) {
        return Vec::new();
    }
    let linked = dependencies(&manifest, "dependencies");
    let wrong = COMMAND_ONLY.iter().filter(|name| linked.contains(**name));
    wrong.map(|name| (1, format!("{name} is for commands"))).collect()
}

/// The only crates with `unsafe`. What C hands over is pointers, in a leaf that nothing links; and
/// an ioctl is given one, in a leaf of two calls.
const POINTERS: &[&str] = &["extant-capi", "extant-control"];

/// What its own lints must say, as it cannot inherit those that forbid it.
const LINTS_OF_POINTERS: &[(&str, &str, &str)] = &[
    ("rust", "unsafe_code", "allow"),
    ("rust", "unsafe_op_in_unsafe_fn", "deny"),
    ("rust", "missing_docs", "warn"),
    ("rust", "unused_must_use", "deny"),
    ("clippy", "disallowed_methods", "deny"),
    ("clippy", "disallowed_types", "deny"),
    ("clippy", "undocumented_unsafe_blocks", "deny"),
];

/// A crate without the lints of the workspace.
pub fn lints(source: &Source) -> Vec<(usize, String)> {
    let Some(Ok(manifest)) = manifest(source) else {
        return Vec::new();
    };
    if POINTERS.contains(&crate_name(&manifest)) {
        let says = |(tool, lint, level): &&(&str, &str, &str)| {
            let tools = manifest.get("lints").and_then(|lints| lints.get(tool));
            let said = tools.and_then(|lints| lints.get(lint)).and_then(toml::Value::as_str);
            said == Some(level)
        };
        let missing = LINTS_OF_POINTERS.iter().filter(|row| !says(row));
        return missing
            .map(|(tool, lint, level)| {
                (1, format!("[lints.{tool}] {lint} = \"{level}\" is missing"))
            })
            .collect();
    }
    let inherits = manifest
        .get("lints")
        .and_then(|lints| lints.get("workspace"))
        .and_then(toml::Value::as_bool);
    if inherits == Some(true) {
        return Vec::new();
    }
    vec![(1, "[lints] workspace = true is missing".into())]
}

#[cfg(test)]
mod tests {
    use super::{ARROWS, BTreeSet};

    /// What a crate links, however far away.
    fn behind(name: &'static str) -> BTreeSet<&'static str> {
        let mut found = BTreeSet::new();
        let mut next = vec![name];
        while let Some(name) = next.pop() {
            let arrow = ARROWS.iter().find(|arrow| arrow.name == name);
            let links = arrow.map_or(&[][..], |arrow| arrow.links);
            next.extend(links.iter().filter(|link| found.insert(**link)));
        }
        found
    }

    #[test]
    fn nothing_behind_a_mount_or_a_program_is_the_laboratorys() {
        for name in ["extant-mount", "extant"] {
            let behind = behind(name);
            assert!(behind.contains("extant-block"), "{name}: {behind:?}");
            for laboratory in ["extant-sim", "extant-lab", "extant-chart"] {
                assert!(!behind.contains(laboratory), "{name} links {laboratory}");
            }
        }
        assert!(behind("extant-lab").contains("extant-sim"));
    }
}
