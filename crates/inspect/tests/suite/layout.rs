//! How files are placed, on volumes whose layout is known: made by mke2fs from a folder, then
//! changed by debugfs.

use extant_block::file::Access;
use extant_block::{FileDevice, RealClock};
use extant_format::indirect::blocks_needed;
use extant_inspect::{LayoutReport, SuperblockPlace, Volume, survey};
use extant_testkit::command::{output, program};
use extant_testkit::oracle::{dumpe2fs, e2fsck, require};
use extant_testkit::scratch::Scratch;
use std::path::Path;
use std::sync::Arc;

/// Bytes of the files; by directory.
const TREE: &[(&str, &[u64])] =
    &[("", &[5_000, 0, 1]), ("one", &[1_024, 12_288, 13_000, 40]), ("two", &[300_000, 70_000])];

fn report(image: &Path) -> LayoutReport {
    let device =
        FileDevice::open(RealClock::new(), image, Access::ReadOnly, 0).expect("the image opens");
    survey(&Volume::open(Arc::new(device), SuperblockPlace::Primary).expect("a superblock"))
        .expect("a readable image")
}

fn mke2fs(folder: &Scratch, words: &str, tree: &[(&str, &[u64])]) -> std::path::PathBuf {
    let (image, source) = (folder.join("made.img"), folder.join("source"));
    let _ = std::fs::remove_file(&image);
    let _ = std::fs::remove_dir_all(&source);
    for (directory, sizes) in tree {
        let directory = source.join(directory);
        std::fs::create_dir_all(&directory).unwrap();
        for (number, size) in sizes.iter().enumerate() {
            std::fs::write(directory.join(format!("file-{number}")), vec![0x61; *size as usize])
                .unwrap();
        }
    }
    let mut command = program("mke2fs");
    command.args(["-q", "-F", "-b", "1024"]).args(words.split(' ')).arg("-d").arg(source);
    output(command.arg(&image).arg("20M")).expect("mke2fs makes it");
    image
}

#[test]
fn what_is_there_is_counted() {
    if !require("mke2fs") || !require("dumpe2fs") {
        return;
    }
    let folder = Scratch::new("layout");
    let sizes: Vec<u64> = TREE.iter().flat_map(|(_, sizes)| sizes.iter().copied()).collect();
    let blocks: Vec<u64> = sizes.iter().map(|size| size.div_ceil(1024)).collect();
    for (words, extents) in [
        ("-t ext2", false),
        ("-t ext3 -I 128", false),
        ("-t ext4", true),
        ("-t ext4 -O ^dir_index", true),
    ] {
        let image = mke2fs(&folder, words, TREE);
        let report = report(&image);
        assert_eq!(
            (report.files, report.directories, report.others),
            (sizes.len() as u64, 4, 0),
            "{words}"
        );
        assert_eq!(report.data_blocks, blocks.iter().sum::<u64>(), "{words}");
        let maps =
            blocks.iter().map(|blocks| blocks_needed(std::iter::once(0..*blocks as u32), 10));
        assert_eq!(report.map_blocks, if extents { 0 } else { maps.sum::<u64>() }, "{words}");
        assert_eq!(report.mapped_files, 8, "one file is empty: {words}");
        assert_eq!((report.fragments, report.fragmented_files), (8, 0), "{words}: {report}");
        if extents {
            assert_eq!(report.layout_score, Some(1.0), "{words}");
        } else {
            // Indirect blocks part the blocks of two large files.
            assert!(
                report.layout_score.is_some_and(|score| score > 0.97 && score < 1.0),
                "{words}: {report}"
            );
        }
        assert_eq!(report.faults, 0, "{words}");
        // Three files and three directories in the root, lost+found among them.
        assert_eq!(report.locality.names, sizes.len() as u64 + 3, "{words}");
        assert_eq!(
            report.locality.same_group, report.locality.names,
            "one group holds all inodes: {words}"
        );
        assert_eq!(report.locality.names_with_blocks, report.locality.names - 1, "{words}");
        assert_eq!(report.by_size.iter().map(|class| class.files).sum::<u64>(), 8, "{words}");
        assert_eq!(
            report.by_size.first().map(|class| (class.blocks_max, class.files)),
            Some((1, 3)),
            "{words}"
        );
        let dump = dumpe2fs(&image).unwrap();
        let free: Vec<(u64, u64)> =
            dump.groups.iter().flat_map(|group| group.free_block_runs.clone()).collect();
        assert_eq!(Some(report.free.blocks), dump.number("Free blocks"), "{words}");
        assert!(report.free.runs as usize <= free.len() && report.free.runs > 0, "{words}");
        assert!(
            report.free.longest_run
                >= free.iter().map(|(first, last)| last - first + 1).max().unwrap(),
            "{words}"
        );
        assert_eq!(
            report.scan.inodes,
            if words.contains("ext2") { 14 } else { 15 },
            "{words}: with the reserved ones in use"
        );
    }
}

#[test]
fn a_file_in_pieces_scores_low() {
    if !require("mke2fs") || !require("debugfs") {
        return;
    }
    let folder = Scratch::new("layout");
    let image = mke2fs(&folder, "-t ext2", &[("", &[4096])]);
    let perfect = report(&image);
    assert_eq!((perfect.layout_score, perfect.fragments), (Some(1.0), 1));
    let blocks = extant_testkit::oracle::debugfs(&image, "blocks /file-0").unwrap();
    let blocks: Vec<&str> = blocks.split_whitespace().collect();
    for request in [
        format!("sif /file-0 block[1] {}", blocks[2]),
        format!("sif /file-0 block[2] {}", blocks[1]),
    ] {
        output(program("debugfs").args(["-w", "-R", &request]).arg(&image))
            .expect("debugfs changes it");
    }
    assert_eq!(e2fsck(&image), Ok(()), "the volume is still sound");
    let bent = report(&image);
    assert_eq!((bent.layout_score, bent.fragments, bent.fragmented_files), (Some(0.0), 4, 1));
    let worst = &bent.most_fragmented[0];
    assert_eq!((worst.inode, worst.fragments, worst.blocks), (12, 4, 4));
    assert_eq!(bent.by_size.iter().map(|class| class.fragments).sum::<u64>(), 4);
    let text = bent.to_string();
    assert!(text.contains("Layout score:             0.0000"), "{text}");
    assert!(text.contains("inode 12:") && text.contains("4 fragments, 4 blocks"), "{text}");
}

#[test]
fn a_gap_for_the_own_map_block_is_no_fragment() {
    if !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("layout");
    let report = report(&mke2fs(&folder, "-t ext2", &[("", &[400 * 1024])]));
    assert_eq!((report.fragments, report.map_blocks), (1, 3));
    // 399 successors; after the single, and after the double and its first child, one each is not
    // adjacent.
    assert_eq!(report.layout_score, Some(397.0 / 399.0));
}
