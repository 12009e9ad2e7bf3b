//! Trees by rule: totals, order, names.
use super::*;

fn source_rule() -> SourceRule {
    SourceRule { files: 10_100, directories: 600, empty: 0, bytes: 10_100 * 13_200, blocks: None }
}

#[test]
fn a_source_tree_has_exactly_what_was_asked_for() {
    let tree = TreeSpec::Source(source_rule()).build(1, 1).unwrap();
    let totals = Totals { files: 10_100, directories: 600, bytes: 133_320_000 };
    assert_eq!(tree.totals(), totals);
    let blocks = BlockTotal { blocks: 45_000, block_size: 4096 };
    let rule = SourceRule { blocks: Some(blocks), empty: 49, ..source_rule() };
    let tree = TreeSpec::Source(rule).build(1, 1).unwrap();
    assert_eq!(tree.blocks(4096), 45_000);
    let empty = (0..10_100).filter(|file| tree.bytes(*file) == 0);
    assert_eq!(empty.count(), 49);
}

#[test]
fn names_are_unique_and_parents_come_first() {
    let flat = FlatRule {
        files: 1003,
        directories: 10,
        bytes: (1, 9),
        directory_name: "d%d".to_owned(),
        file_name: "f%d".to_owned(),
        order: FlatOrder::RoundRobin,
    };
    for spec in [TreeSpec::Source(source_rule()), TreeSpec::Flat(flat)] {
        let tree = spec.build(7, 1).unwrap();
        let mut seen = std::collections::BTreeSet::from(["/".to_owned()]);
        for entry in tree.entries() {
            let (parent, path) = match entry {
                Entry::Directory(number) => {
                    let path = tree.directory_path("/", number);
                    (path.rsplit_once('/').unwrap().0.to_owned(), path)
                }
                Entry::File(number) => {
                    let parent = tree.directory_path("/", tree.directory_of(number));
                    let parent = parent.trim_end_matches('/').to_owned();
                    (parent.clone(), format!("{parent}/{}", tree.file_name(number)))
                }
            };
            assert!(parent.is_empty() || seen.contains(&parent), "{parent} before {path}");
            assert!(seen.insert(path.clone()), "{path} twice");
        }
        let totals = tree.totals();
        assert_eq!(seen.len() as u64, totals.files + totals.directories + 1);
        assert_eq!(totals, spec.totals(1).with_bytes(totals.bytes));
    }
}

impl Totals {
    fn with_bytes(self, bytes: u64) -> Totals {
        Totals { bytes, ..self }
    }
}

#[test]
fn a_seed_decides_the_tree_and_a_scale_shrinks_it() {
    let spec = TreeSpec::Source(source_rule());
    let listing = |seed, scale| {
        let tree = spec.build(seed, scale).unwrap();
        let files: Vec<_> =
            (0..tree.files.len()).map(|file| (tree.file_name(file), tree.bytes(file))).collect();
        files
    };
    assert_eq!(listing(1, 10), listing(1, 10));
    assert_ne!(listing(1, 10), listing(2, 10));
    assert_eq!(listing(1, 10).len(), 1010);
}

#[test]
fn impossible_trees_are_refused() {
    let many = SourceRule { files: ENTRIES_MAX + 1, ..source_rule() };
    assert!(TreeSpec::Source(many).build(1, 1).is_err());
    let few =
        SourceRule { blocks: Some(BlockTotal { blocks: 3, block_size: 4096 }), ..source_rule() };
    let error = TreeSpec::Source(few).build(1, 1).unwrap_err();
    assert!(error.ends_with("cannot be made to take 3"), "{error}");
}
