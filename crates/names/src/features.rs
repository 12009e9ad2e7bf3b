//! What is done with each feature of the format: the table of `docs/FEATURES.md`.
use extant_format::superblock::Feature;
use std::fmt::Write;

/// Every feature that mke2fs 1.47 makes, or that a volume comes to have, by the name that -O takes.
pub const FEATURES: [&str; 38] = [
    "64bit",
    "bigalloc",
    "casefold",
    "dir_index",
    "dir_nlink",
    "dir_prealloc",
    "ea_inode",
    "encrypt",
    "ext_attr",
    "extent",
    "extra_isize",
    "fast_commit",
    "filetype",
    "flex_bg",
    "has_journal",
    "huge_file",
    "imagic_inodes",
    "inline_data",
    "journal_dev",
    "large_dir",
    "large_file",
    "meta_bg",
    "metadata_csum",
    "metadata_csum_seed",
    "mmp",
    "needs_recovery",
    "orphan_file",
    "orphan_present",
    "project",
    "quota",
    "read-only",
    "resize_inode",
    "shared_blocks",
    "sparse_super",
    "sparse_super2",
    "stable_inodes",
    "uninit_bg",
    "verity",
];

/// Why a feature is not made.
pub fn reason(feature: Feature) -> &'static str {
    match feature {
        Feature::NEEDS_RECOVERY | Feature::ORPHAN_PRESENT => "it marks a volume in use",
        Feature::SHARED_BLOCKS => "mke2fs sets it on volumes that e2fsdroid fills only",
        Feature::READ_ONLY => "tune2fs sets it on a volume that is finished",
        Feature::IMAGIC_INODES => "of the AFS server; nothing reads it",
        _ => "",
    }
}

/// The rows, as the document has them.
pub fn table() -> String {
    let mut text = "| feature | made | read | written | checked | not made because |\n".to_owned();
    text.push_str("| --- | :---: | :---: | :---: | :---: | --- |\n");
    for name in FEATURES {
        let Some(feature) = Feature::from_name(name) else { continue };
        let mark = |holds| if holds { "yes" } else { "no" };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| `{name}` | {} | {} | {} | {} | {} |",
            mark(feature.is_made()),
            mark(feature.is_read()),
            mark(feature.is_written()),
            mark(feature.is_judged()),
            if feature.is_made() { "" } else { reason(feature) }
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_made_has_a_reason() {
        for name in FEATURES {
            let feature = Feature::from_name(name).unwrap();
            assert_eq!(feature.is_made(), reason(feature).is_empty(), "{name}");
        }
    }
}
