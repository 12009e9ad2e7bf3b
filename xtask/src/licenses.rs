//! Whether we may use what we depend on: every package's licence against a list, without a network.

use std::process::Command;

use serde_json::Value;
use spdx::{Expression, LicenseReq};

use crate::{command, repository};

/// What may be linked into a program under MIT or Apache-2.0 without a further duty towards those
/// who receive it. `WITH` joins a licence and its exception.
pub const ALLOWED: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "Unlicense",
    "CC0-1.0",
    "BSL-1.0",
    "Unicode-3.0",
    // As BSD-4-Clause without its clause about advertising.
    "bzip2-1.0.6",
];

/// Judges one expression, such as `MIT OR GPL-2.0`.
///
/// # Errors
/// The sentence that says what is wrong with it.
pub fn judge(expression: &str) -> Result<(), String> {
    // Old manifests write `MIT/Apache-2.0` where they mean OR.
    let expression = expression.replace('/', " OR ");
    let parsed = Expression::parse(&expression)
        .map_err(|error| format!("no SPDX expression: {}", error.reason))?;
    if parsed.evaluate(is_allowed) {
        return Ok(());
    }
    Err(format!("{expression} is not on the list"))
}

fn is_allowed(requirement: &LicenseReq) -> bool {
    ALLOWED.contains(&requirement.to_string().as_str())
}

/// Every package that the workspace needs on this platform.
fn packages() -> Result<Vec<Value>, String> {
    let packages = metadata()?["packages"].as_array().cloned();
    packages.ok_or_else(|| "cargo metadata names no packages".into())
}

/// What the workspace needs on this platform, as `cargo metadata` prints it.
///
/// # Errors
/// It does not run.
pub fn metadata() -> Result<Value, String> {
    let cargo = || Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let host = command::output(Command::new("rustc").arg("-vV"))?;
    let host = String::from_utf8_lossy(&host.stdout).into_owned();
    let host = host
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .ok_or("rustc -vV names no host")?;
    // The platform is given because the packages of the others were never fetched here.
    let mut metadata = cargo();
    metadata.current_dir(repository());
    metadata.args(["metadata", "--offline", "--format-version", "1", "--filter-platform", host]);
    let printed = command::output(&mut metadata)?.stdout;
    serde_json::from_slice(&printed).map_err(|error| format!("cargo metadata: {error}"))
}

/// Prints every package whose licence is not on the list.
///
/// # Errors
/// There is such a package, or `cargo metadata` does not run.
pub fn run(_words: &[String]) -> Result<(), String> {
    let packages = packages()?;
    let offenders: Vec<String> = packages.iter().filter_map(offence).collect();
    if offenders.is_empty() {
        println!("licenses: {} packages, all on the list", packages.len());
        return Ok(());
    }
    Err(format!(
        "{} of {} packages:\n  {}",
        offenders.len(),
        packages.len(),
        offenders.join("\n  ")
    ))
}

/// The line about a package that we may not use.
fn offence(package: &Value) -> Option<String> {
    let name = format!("{} {}", package["name"].as_str()?, package["version"].as_str()?);
    match package["license"].as_str() {
        None => Some(format!("{name}: names no licence")),
        Some(expression) => judge(expression).err().map(|sentence| format!("{name}: {sentence}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_list_is_allowed() {
        for row in ALLOWED {
            assert_eq!(judge(row), Ok(()), "{row}");
        }
    }

    #[test]
    fn a_choice_needs_one_and_a_sum_needs_all() {
        assert_eq!(judge("MIT/Apache-2.0"), Ok(()));
        assert_eq!(judge("GPL-2.0-only OR MIT"), Ok(()));
        assert_eq!(judge("(MIT OR Apache-2.0) AND Unicode-3.0"), Ok(()));
        assert!(judge("MIT AND GPL-2.0-only").is_err());
        assert!(judge("GPL-3.0-or-later").is_err());
        assert!(judge("MIT WITH LLVM-exception").is_err());
        assert!(judge("no such words").is_err());
    }

    #[test]
    fn a_package_without_a_licence_is_named() {
        let package = serde_json::json!({"name": "thing", "version": "1.0.0", "license": null});
        assert_eq!(offence(&package), Some("thing 1.0.0: names no licence".into()));
    }
}
