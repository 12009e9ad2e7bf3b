//! What the tests call from the host, and the Debian package of each.

use crate::command::{find, is_gate, is_root, program};

/// A program that a test calls, and the package that holds it.
struct Tool {
    program: &'static str,
    package: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool {
        program: "mke2fs",
        package: "e2fsprogs",
    },
    Tool {
        program: "e2fsck",
        package: "e2fsprogs",
    },
    Tool {
        program: "dumpe2fs",
        package: "e2fsprogs",
    },
    Tool {
        program: "debugfs",
        package: "e2fsprogs",
    },
    Tool {
        program: "getfattr",
        package: "attr",
    },
    Tool {
        program: "getfacl",
        package: "acl",
    },
    Tool {
        program: "tar",
        package: "tar",
    },
    Tool {
        program: "xz",
        package: "xz-utils",
    },
    Tool {
        program: "zstd",
        package: "zstd",
    },
    Tool {
        program: "gzip",
        package: "gzip",
    },
    Tool {
        program: "mount",
        package: "mount",
    },
    Tool {
        program: "bsdtar",
        package: "libarchive-tools",
    },
    Tool {
        program: "python3",
        package: "python3",
    },
    Tool {
        program: "fakeroot",
        package: "fakeroot",
    },
    Tool {
        program: "fakeroot-pseudo",
        package: "pseudo",
    },
    Tool {
        program: "setpriv",
        package: "util-linux",
    },
    Tool {
        program: "sfdisk",
        package: "fdisk",
    },
    Tool {
        program: "script",
        package: "bsdutils",
    },
    Tool {
        program: "chromium",
        package: "chromium",
    },
];

/// Installs what is missing by apt when we are root; else names it.
///
/// # Errors
/// Something is still missing and this is the gate.
pub fn run(_words: &[String]) -> Result<(), String> {
    if !missing().is_empty() && is_root() && find("apt-get").is_some() {
        install(&missing());
    }
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!(
        "not installed: {} (tests that need them are skipped)",
        missing.join(" ")
    );
    if is_gate() {
        return Err(message);
    }
    eprintln!("xtask tools: {message}");
    Ok(())
}

/// The packages of the programs that are not here, each once.
fn missing() -> Vec<&'static str> {
    let mut packages: Vec<_> = TOOLS
        .iter()
        .filter(|tool| find(tool.program).is_none())
        .map(|tool| tool.package)
        .collect();
    packages.dedup();
    packages
}

/// Asks apt; what it could not do shows in the second look.
fn install(packages: &[&str]) {
    eprintln!("xtask tools: installing {}", packages.join(" "));
    let mut update = program("apt-get");
    let _ = update.args(["update", "-q"]).status();
    let mut install = program("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive");
    let _ = install
        .args(["install", "-qy", "--no-install-recommends"])
        .args(packages)
        .status();
}
