//! `extant layout`, and `--metacluster` of build and mkfs, as a person would use them.
use crate::commands::command::extant_dated;
use extant_testkit::oracle::{self, e2fsck, mount_loop};
use extant_testkit::scratch::Scratch;
use serde_json::Value;
use std::path::Path;

fn good(words: &[&str]) -> String {
    let output = extant_dated(words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(words: &[&str]) -> Value {
    serde_json::from_str(&good(words)).unwrap()
}

/// Twelve files of 1.5 MiB and some small ones.
fn tree(folder: &Scratch) -> String {
    let source = folder.join("source");
    std::fs::create_dir_all(source.join("deep")).unwrap();
    for number in 0..12u8 {
        std::fs::write(source.join(format!("large {number}")), vec![number + 1; 1_500_000])
            .unwrap();
        std::fs::write(source.join(format!("deep/small {number}")), vec![number; 700]).unwrap();
    }
    source.display().to_string()
}

fn built(folder: &Scratch, source: &str, name: &str, words: &[&str]) -> String {
    let image = folder.join(name).display().to_string();
    let all = [&["build", "-q", "-t", "ext2", "-b", "1024"], words, &[source, &image]].concat();
    good(&all);
    image
}

#[test]
fn a_built_image_has_its_map_blocks_where_metacluster_says() {
    let folder = Scratch::new("layout");
    let source = tree(&folder);
    let beside = built(&folder, &source, "beside.img", &[]);
    for (word, column) in [
        ("--metacluster", 24..40),
        ("--metacluster=end,2%", 60..64),
        ("--metacluster=begin,64", 0..8),
    ] {
        let image = built(&folder, &source, "clustered.img", &[word]);
        if oracle::require("e2fsck") {
            assert_eq!(e2fsck(Path::new(&image)), Ok(()), "{word}");
        }
        let report = json(&["layout", "--json", "--map", &image]);
        assert_eq!(report["schema"], "extant-layout/1");
        let maps = &report["layout"]["maps"];
        assert_eq!(maps["blocks"], report["layout"]["map_blocks"], "{word}");
        assert_eq!(maps["blocks"], 12 * 7, "single, double and five below, each");
        assert!(maps["clustered"].as_f64().unwrap() > 0.9, "{word}: {maps}");
        let map = &report["map"];
        let per_group = map["cells_per_group"].as_u64().unwrap();
        let cells = map["cells"].as_array().unwrap();
        let mut outside = 0;
        for (at, cell) in (0u64..).zip(cells) {
            let count = |name: &str| cell[name].as_u64().unwrap();
            let sum: u64 =
                ["free", "data", "map", "directory", "metadata"].into_iter().map(count).sum();
            assert_eq!(sum, count("blocks"), "{cell}");
            // The last group is cut after what it holds.
            let is_whole = at / per_group < cells.len() as u64 / per_group;
            if is_whole && !column.contains(&(at % per_group)) {
                outside += count("map");
            }
        }
        // The end of the last file, for which clusters are the last room, may have its map
        // elsewhere.
        assert!(outside <= 4, "{word}: {outside} map blocks are not in clusters");
        let mapped: u64 = cells.iter().map(|cell| cell["map"].as_u64().unwrap()).sum();
        assert_eq!(mapped, 84, "{word}");
        if oracle::can_mount() {
            let mounted = mount_loop(Path::new(&image), oracle::Access::ReadOnly, "").unwrap();
            for number in 0..12u8 {
                let read = std::fs::read(mounted.path().join(format!("large {number}"))).unwrap();
                assert!(read == vec![number + 1; 1_500_000], "{word}: file {number}");
            }
            mounted.unmount().unwrap();
        }
        // Room is not wasted: what the clusters leave free is little, and the image hardly longer.
        let blocks = |image: &str| {
            json(&["info", "-h", "--json", image])["volume"]["blocks"].as_u64().unwrap()
        };
        assert!(
            blocks(&image) <= blocks(&beside) + 64,
            "{word}: {} and {}",
            blocks(&image),
            blocks(&beside)
        );
        let again = built(&folder, &source, "again.img", &[word]);
        assert!(
            std::fs::read(&image).unwrap() == std::fs::read(&again).unwrap(),
            "{word}: the same bytes"
        );
        for image in [&image, &again] {
            std::fs::remove_file(image).unwrap();
        }
    }
}

#[test]
fn the_journal_of_a_new_volume_has_its_maps_in_the_cluster() {
    let folder = Scratch::new("layout");
    let image = folder.join("new.img").display().to_string();
    good(&[
        "mkfs",
        "-q",
        "-t",
        "ext3",
        "--metacluster=end,64",
        "-J",
        "size=4",
        "-b",
        "1024",
        &image,
        "64M",
    ]);
    if !oracle::require("e2fsck") || !oracle::require("debugfs") {
        return;
    }
    assert_eq!(e2fsck(Path::new(&image)), Ok(()));
    let told = oracle::debugfs(Path::new(&image), "stat <8>").unwrap();
    let map =
        told.split(['(', ')', ',', ' ', '\n']).skip_while(|word| *word != "IND").nth(1).unwrap();
    let map: u64 = map.trim_matches(':').parse().unwrap();
    assert!((map - 1) % 8192 >= 8192 - 64, "{map}: {told}");
}

#[test]
fn the_report_is_for_people_too() {
    let folder = Scratch::new("layout");
    let source = tree(&folder);
    let image = built(&folder, &source, "one.img", &["--metacluster"]);
    let text = good(&["layout", "--map", "--files", "3", &image]);
    for row in [
        "Files:",
        "Layout score:",
        "Map blocks in runs:",
        "Seeks to read them all:",
        "In clusters:",
        "Free:",
    ] {
        assert!(text.lines().any(|line| line.starts_with(row)), "{row}\n{text}");
    }
    let values: Vec<usize> = text
        .lines()
        .take_while(|line| !line.is_empty())
        .map(|line| line.len() - line[line.find(':').unwrap() + 1..].trim_start().len())
        .collect();
    assert!(values.iter().all(|column| (26..36).contains(column)), "{values:?}\n{text}");
    assert!(text.contains(" % of those in"), "{text}");
    let rows: Vec<&str> =
        text.lines().skip_while(|line| !line.contains("each character")).collect();
    assert!(rows.len() >= 3 && rows[1].trim_start().starts_with("0  ="), "{rows:?}");
    assert!(rows[1..].iter().any(|row| row.contains("m") && row.contains('#')), "{rows:?}");
    let named = good(&["layout", "--files", "0", &image]);
    assert!(!named.contains("  inode "), "{named}");
    for wrong in [&["layout", "--files", "x", &image][..], &["layout", "--width", "0", &image]] {
        assert_eq!(extant_dated(wrong).status.code(), Some(2), "{wrong:?}");
    }
    let words = ["build", "--metacluster=top", &source, &image];
    let refused = extant_dated(&words);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("begin, middle or end"));
    assert_eq!(extant_dated(&["layout", "/dev/null"]).status.code(), Some(1));
}
