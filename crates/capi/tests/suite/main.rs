//! libextant as programs have it: compiled by others, and called with what they may get wrong.
//!
//! ```text
//! programs   the examples in C and Go, linked to the library, judged by their output
//! header     what include/extant.h says is what the library has
//! mending    repair, undo and heal, with what they refuse
//! calls      NULL, words, sizes of structs, threads, devices, images that go away
//! ```
mod calls;
mod header;
mod mending;
mod programs;

use extant_testkit::scratch::Scratch;
use std::path::{Path, PathBuf};

/// The folder of this crate.
fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The library that cargo has built for these tests: `so` or `a`.
fn library(kind: &str) -> PathBuf {
    let suite = std::env::current_exe().expect("this program");
    let folder = suite.parent().expect("a folder");
    let path = folder.join(format!("libextant_capi.{kind}"));
    assert!(path.is_file(), "{}", path.display());
    path
}

/// The library as it is installed: `lib/libextant.so.0`, the name that the linker looks for,
/// `lib/pkgconfig/extant.pc` and `include/extant.h`.
fn installed() -> Scratch {
    let folder = Scratch::new("extant-capi");
    let lib = folder.join("lib");
    std::fs::create_dir_all(lib.join("pkgconfig")).expect("folders");
    std::fs::create_dir_all(folder.join("include")).expect("a folder");
    let link = |from: &Path, to: &str| {
        std::os::unix::fs::symlink(from, lib.join(to)).expect("a symlink");
    };
    link(&library("so"), "libextant.so.0");
    link(Path::new("libextant.so.0"), "libextant.so");
    let words = std::fs::read_to_string(here().join("extant.pc.in")).expect("extant.pc.in");
    let words = words
        .replace("@PREFIX@", &folder.join("").display().to_string())
        .replace("@LIBDIR@", &lib.display().to_string())
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
        .replace("@PRIVATE@", "-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc");
    std::fs::write(lib.join("pkgconfig/extant.pc"), words).expect("extant.pc");
    let header = here().join("include/extant.h");
    std::fs::copy(header, folder.join("include/extant.h")).expect("extant.h");
    folder
}
