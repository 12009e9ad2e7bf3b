//! A first superblock that says other things than its copy: e2fsck checks such a volume though it
//! says that it is clean, and writes the copies anew.
use crate::names::{extant, run, theirs};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;

/// What debugfs changes in the first superblock, and whether a check is forced by it.
const CHANGES: [(&str, bool); 9] = [
    ("feature ^dir_index", true),
    ("feature ^ext_attr", true),
    ("feature large_dir", true),
    ("feature project", true),
    ("ssv uuid 11111111-2222-3333-4444-555555555555", true),
    ("feature ^large_file", false),
    ("feature ^dir_nlink", false),
    ("ssv volume_name abc", false),
    ("ssv hash_seed 11111111-2222-3333-4444-555555555555", false),
];

#[test]
fn what_differs_from_its_copy_is_checked() {
    if !require("e2fsck") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("names-copies");
    let (base, image) = (folder.join("base.img"), folder.join("image"));
    let mut mke2fs = theirs("mke2fs");
    mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "1024", "-O", "^has_journal,^metadata_csum"]);
    let (code, said) = run(mke2fs.arg(&base).arg("24M"));
    assert_eq!(code, Some(0), "{said}");
    for (change, is_forced) in CHANGES {
        for options in [["-p", "-a"], ["-y", "-y"], ["-n", "-n"]] {
            let mut seen = Vec::new();
            for program in ["theirs", "ours"] {
                std::fs::copy(&base, &image).unwrap();
                run(theirs("debugfs").args(["-w", "-R", change]).arg(&image));
                let e2fsck = || match program {
                    "ours" => extant("e2fsck"),
                    _ => theirs("e2fsck"),
                };
                // Twice: afterwards the copy says the same.
                for option in options {
                    let (code, said) = run(e2fsck().arg(option).arg(&image));
                    seen.push((code, said.contains("different from backup, check forced")));
                }
                assert_eq!(run(theirs("e2fsck").arg("-fn").arg(&image)).0, Some(0));
            }
            assert_eq!(seen[..2], seen[2..], "{change} {options:?}: theirs and ours");
            let writes = options[0] != "-n";
            assert_eq!(seen[2..], [(Some(0), is_forced && writes), (Some(0), false)], "{change}");
        }
    }
}
