//! The rules that need more than one file to judge: a crate, or the whole repository.

use super::source::{Finding, Place, Source};
use super::{circles, documents, leaf, maps, places};

/// A rule about the house.
pub struct HouseRule {
    /// The word for it, also in exceptions.
    pub name: &'static str,
    /// Why it is kept.
    pub reason: &'static str,
    /// What breaks it.
    check: fn(&[Source]) -> Vec<Place>,
    /// Houses that break it: the path and the text of each file.
    pub bad: &'static [Sample],
    /// Houses that look like it and do not.
    pub good: &'static [Sample],
}

/// The files of a small house: path and text.
type Sample = &'static [(&'static str, &'static str)];

impl HouseRule {
    /// What this rule says about `sources`, exceptions left out.
    pub fn judge(&self, sources: &[Source]) -> Vec<Finding> {
        let is_excused = |place: &Place| {
            let source = sources.iter().find(|source| source.path == place.path);
            source.is_some_and(|source| {
                source.excuses_file(self.name) || source.excuses(self.name, place.line)
            })
        };
        let broken = (self.check)(sources).into_iter().filter(|place| !is_excused(place));
        let finding = |Place { path, line, sentence }| Finding {
            path,
            line,
            rule: self.name,
            sentence,
            reason: self.reason,
        };
        broken.map(finding).collect()
    }
}

/// A file with a line more than the leaf may have.
const TOO_LONG: &str = match std::str::from_utf8(&[b'\n'; leaf::LEAF_LINES_MAX + 1]) {
    Ok(lines) => lines,
    Err(_) => "",
};

/// Every rule about the house.
pub const HOUSE_RULES: &[HouseRule] = &[
    HouseRule {
        name: "circles",
        reason: "modules that need each other cannot be read or moved alone; a layer is missing \
            below them",
        check: circles::circles,
        bad: &[
            &[
                ("crates/x/src/lib.rs", "mod a;\nmod b;\n"),
                ("crates/x/src/a.rs", "use crate::b::B;\npub struct A;\n"),
                ("crates/x/src/b.rs", "pub struct B(crate::a::A);\n"),
            ],
            // Over a re-export, and with a parent that is above only one of the others.
            &[
                ("crates/x/src/lib.rs", "mod a;\nmod b;\npub use b::B;\n"),
                ("crates/x/src/a/mod.rs", "mod c;\npub struct A(crate::B);\n"),
                ("crates/x/src/a/c.rs", "pub fn f(a: super::A) {}\n"),
                ("crates/x/src/b.rs", "use crate::a;\npub struct B;\nfn g() { a::c::f() }\n"),
            ],
            // Among cousins.
            &[
                ("crates/x/src/lib.rs", "mod a;\nmod b;\n"),
                ("crates/x/src/a.rs", "mod c;\n"),
                ("crates/x/src/a/c.rs", "use crate::b::d::D;\npub struct C;\n"),
                ("crates/x/src/b.rs", "pub mod d;\n"),
                ("crates/x/src/b/d.rs", "pub struct D;\nfn f(_: &crate::a::c::C) {}\n"),
            ],
        ],
        good: &[
            // A parent and its children.
            &[
                ("crates/x/src/lib.rs", "mod a;\npub struct X;\n"),
                ("crates/x/src/a/mod.rs", "mod b;\nmod c;\npub use b::B;\npub struct A(c::C);\n"),
                (
                    "crates/x/src/a/b.rs",
                    "use super::A;\nuse crate::X;\npub struct B(A, super::c::C);\n",
                ),
                ("crates/x/src/a/c.rs", "pub struct C(Box<super::A>);\n"),
            ],
            // The face of a folder hands on what two others of it use.
            &[
                ("crates/x/src/lib.rs", "mod a;\nmod b;\n"),
                ("crates/x/src/a/mod.rs", "mod c;\nmod d;\npub use c::C;\npub use d::D;\n"),
                ("crates/x/src/a/c.rs", "pub struct C;\n"),
                ("crates/x/src/a/d.rs", "pub struct D(crate::b::B);\n"),
                ("crates/x/src/b.rs", "pub struct B(crate::a::C);\n"),
            ],
            // Only tests close it.
            &[
                ("crates/x/src/lib.rs", "mod a;\nmod b;\n"),
                (
                    "crates/x/src/a.rs",
                    "pub struct A;\n#[cfg(test)]\nmod tests { use crate::b::B; }\n",
                ),
                ("crates/x/src/b.rs", "pub struct B(crate::a::A);\n"),
            ],
        ],
    },
    HouseRule {
        name: "leaf",
        reason: "eleven crates build on block: what a laboratory or tests alone need is in sim",
        check: leaf::grown,
        bad: &[&[("crates/block/src/lib.rs", TOO_LONG)]],
        good: &[&[("crates/block/src/tests.rs", TOO_LONG), ("crates/sim/src/lib.rs", TOO_LONG)]],
    },
    HouseRule {
        name: "map",
        reason: "a reader finds every module on the map in lib.rs, or on that of its folder",
        check: maps::unnamed,
        bad: &[
            // A drawing that is no map.
            &[
                ("crates/x/src/lib.rs", "//! ```text\n//! a   the first\n//! ```\n"),
                ("crates/x/src/a/mod.rs", "//! ```text\n//! in -> out\n//! ```\n"),
                ("crates/x/src/a/b.rs", "//! B.\n"),
            ],
            &[("crates/x/src/lib.rs", "//! X.\nmod a;\n"), ("crates/x/src/a.rs", "//! A.\n")],
            &[
                ("crates/x/src/lib.rs", "//! ```text\n//! a   the first\n//! ```\n//! b too\n"),
                ("crates/x/src/a.rs", "//! A.\n"),
                ("crates/x/src/b.rs", "//! B.\n"),
            ],
            &[
                ("crates/x/src/lib.rs", "//! ```text\n//! a, c   the first\n//! ```\n"),
                ("crates/x/src/a/mod.rs", "//! ```text\n//! b   the second\n//! ```\n"),
                ("crates/x/src/a/b.rs", "//! B.\n"),
                ("crates/x/src/a/c.rs", "//! C.\n"),
            ],
        ],
        good: &[
            &[
                ("crates/x/src/lib.rs", "//! ```text\n//! a/{b, c}   the first\n//! ```\n"),
                ("crates/x/src/a.rs", "//! A.\n"),
                ("crates/x/src/a/b.rs", "//! B.\n"),
                ("crates/x/src/a/c.rs", "//! C.\n"),
                ("crates/x/src/a/tests.rs", "//! Tests.\n"),
                ("crates/x/src/main.rs", "//! X.\n"),
            ],
            &[
                ("crates/x/src/lib.rs", "//! ```text\n//! a   the first\n//! ```\n"),
                ("crates/x/src/a/mod.rs", "//! ```text\n//! b   the second\n//! ```\n"),
                ("crates/x/src/a/b.rs", "//! B.\n"),
            ],
            &[
                ("crates/x/src/lib.rs", "//! ```text\n//! a   the first\n//! ```\n"),
                ("crates/x/src/a/mod.rs", "//! A.\n// tidy: map because the table has them\n"),
                ("crates/x/src/a/b.rs", "//! B.\n"),
            ],
        ],
    },
    HouseRule {
        name: "paths",
        reason: "a document that names a file which has moved leads its reader nowhere",
        check: documents::missing,
        bad: &[
            &[("DESIGN.md", "The cache (`engine/src/cache.rs`) is one.\n")],
            &[("docs/TOUR.md", "1. `crates/x/src/gone/` is next.\n"), ("crates/x/src/lib.rs", "")],
            &[("DESIGN.md", "See `gone.rs`.\n")],
        ],
        good: &[&[
            ("crates/x/src/a/b.rs", ""),
            ("crates/x/tests/c.rs", ""),
            ("DESIGN.md", "`b.rs` in `a/`, `x/src/a`, `tests/c`; `a + b / c`, `/etc/passwd`.\n"),
            ("CHANGELOG.md", "`gone.rs` is gone.\n"),
        ]],
    },
    HouseRule {
        name: "places",
        reason: "an exception for a file that is gone hides the next one of its name",
        check: places::outdated,
        bad: &[&[("xtask/src/tidy/places.rs", "//! Places.\n")]],
        good: &[&[("crates/x/src/lib.rs", "//! X.\n")]],
    },
];
