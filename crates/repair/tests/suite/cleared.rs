//! Damage that came back until the repair was given up, or was left: each is mended, e2fsck is
//! silent, and every file holds what it held.
use crate::corpus::{image, judged, mended};
use crate::kept::{BLOCK, Volume, expected};
use extant_repair::Scope;
use extant_testkit::command::{output, program};
use std::path::Path;

/// The block on the volume that a block of a file is in.
fn block_of(image: &Path, file: &str, number: u32) -> usize {
    let mut debugfs = program("debugfs");
    let run = output(debugfs.args(["-R", &format!("bmap {file} {number}")]).arg(image));
    let text = String::from_utf8_lossy(&run.expect("it says").stdout).into_owned();
    text.trim().parse().expect("a block")
}

/// The names in a folder, but for its first two.
fn names_in(image: &Path, folder: &str) -> Vec<String> {
    let mut debugfs = program("debugfs");
    let run = output(debugfs.args(["-R", &format!("ls -p {folder}")]).arg(image));
    let text = String::from_utf8_lossy(&run.expect("it lists").stdout).into_owned();
    let names = text.lines().filter_map(|line| line.split('/').nth(5));
    names.filter(|name| !name.is_empty() && !name.starts_with('.')).map(str::to_owned).collect()
}

/// Mends all, finds it clean for both judges, and all files as they were.
fn is_mended(volume: &Volume, damaged: &[u8], code: &str) -> Vec<u8> {
    assert!(judged(&volume.written(damaged)).is_some(), "nothing is wrong");
    let repaired = mended(damaged, Scope::All).expect("it is mended");
    assert!(repaired.found.counts.contains_key(code), "found {:?}", repaired.found.counts);
    assert!(repaired.is_clean(), "left {:?}", repaired.left.counts);
    let after = image(&repaired);
    assert_eq!(judged(&volume.written(&after)), None);
    volume.has_all(&after);
    after
}

/// The inode of a quota file is gone: it gets another one, with what was counted.
#[test]
fn a_quota_file_that_is_gone_is_made_anew() {
    let Some(volume) = Volume::new("cleared-quota", "-t ext4 -O quota", "16M") else { return };
    let after = is_mended(&volume, &volume.edited("clri <3>"), "quota-file");
    let path = volume.written(&after);
    let mut quota = program("debugfs");
    let said = output(quota.args(["-R", "list_quota user"]).arg(&path)).expect("it lists");
    // The root, what is in it, and lost+found: one owner.
    assert!(String::from_utf8_lossy(&said.stdout).lines().count() > 1);
}

/// A quota file says that nothing was written to its blocks: that it reads as zeros is seen, and
/// what is put into them is seen after that.
#[test]
fn a_quota_file_that_was_not_written_is_made_anew() {
    let words = "-t ext4 -O quota,^metadata_csum";
    let Some(volume) = Volume::new("cleared-unwritten", words, "16M") else { return };
    // The length of the first extent, with the mark of those that were not written.
    let length = volume.inode_at("<3>") + 40 + 12 + 4;
    let mut damaged = volume.bytes.clone();
    damaged[length + 1] |= 0x80;
    is_mended(&volume, &damaged, "quota-file");
}

/// A cluster of a file is at two places: it becomes one again, and no byte is lost.
#[test]
fn a_cluster_at_two_places_is_put_together() {
    const CLUSTER: usize = 16;
    let words = "-t ext4 -O bigalloc,^metadata_csum,^has_journal,^resize_inode -C 16384";
    let Some(volume) = Volume::new("cleared-split", words, "16M") else { return };
    let first = block_of(&volume.written(&volume.bytes), "/lost+found", 0);
    assert_eq!(first % CLUSTER, 0, "the folder begins a cluster");
    let mut damaged = volume.bytes.clone();
    let other = damaged.len() / BLOCK - CLUSTER;
    let rest = (first + 1) * BLOCK..(first + CLUSTER) * BLOCK;
    damaged.copy_within(rest.clone(), (other + 1) * BLOCK);
    damaged[rest].fill(0);
    let map = volume.inode_at("/lost+found") + 40;
    let mut put = |at: usize, value: usize| {
        damaged[map + at..map + at + 4].copy_from_slice(&(value as u32).to_le_bytes());
    };
    put(0, 0x0002_f30a);
    for (at, value) in [0, 1, first, 1, CLUSTER - 1, other + 1].into_iter().enumerate() {
        put(12 + 4 * at, value);
    }
    let after = is_mended(&volume, &damaged, "cluster-split");
    assert_eq!(block_of(&volume.written(&after), "/lost+found", 1), first + 1);
}

/// The map for growth has a pointer more, to a block that it has already.
#[test]
fn another_pointer_in_the_map_for_growth_is_seen() {
    let Some(volume) = Volume::new("cleared-growth", "-t ext4", "16M") else { return };
    let inode = volume.inode_at("<7>");
    let field = |at: usize| u32::from_le_bytes(*volume.bytes[at..].first_chunk().unwrap());
    let root = field(inode + 40 + 13 * 4) as usize * BLOCK;
    let mut damaged = volume.bytes.clone();
    let slots = (0..BLOCK / 4).map(|slot| root + 4 * slot);
    let free = slots.rev().find(|at| field(*at) == 0).expect("a slot is free");
    let taken = (0..BLOCK / 4).map(|slot| field(root + 4 * slot)).find(|it| *it != 0).unwrap();
    damaged[free..free + 4].copy_from_slice(&taken.to_le_bytes());
    is_mended(&volume, &damaged, "resize-inode");
    is_mended(&volume, &damaged, "sector-count");
}

/// The tree of a quota leads back to its root, from the second of four steps.
#[test]
fn a_quota_tree_that_leads_to_its_root_is_cut() {
    let words = "-t ext4 -O quota,^metadata_csum";
    let Some(mut volume) = Volume::new("cleared-tree", words, "16M") else { return };
    // mke2fs counts before it copies the tree.
    let path = volume.written(&volume.bytes);
    let _ = program("e2fsck").arg("-fy").arg(&path).output();
    volume.bytes = std::fs::read(path).expect("it is there");
    let at = block_of(&volume.written(&volume.bytes), "<3>", 2) * BLOCK;
    let mut damaged = volume.bytes.clone();
    damaged[at] = 1;
    let repaired = mended(&damaged, Scope::Safe).expect("it is mended");
    assert!(repaired.found.counts.contains_key("quota-usage"), "{:?}", repaired.found.counts);
    assert!(repaired.is_clean(), "left {:?}", repaired.left.counts);
    assert_eq!(judged(&volume.written(&image(&repaired))), None);
}

/// A bitmap that is said to be in the cluster of a file, not in its first block: the check sees it.
#[test]
fn a_bitmap_within_a_cluster_of_a_file_is_seen() {
    let words = "-t ext4 -O bigalloc -C 16384";
    let Some(volume) = Volume::new("cleared-cluster", words, "16M") else { return };
    let first = block_of(&volume.written(&volume.bytes), "/lost+found", 0);
    assert_eq!(first % 16, 0, "the folder begins a cluster");
    let damaged = volume.edited(&format!("set_bg 0 block_bitmap {}", first + 6));
    is_mended(&volume, &damaged, "blocks-of-metadata");
}

/// The list of bad blocks is read as pointers, also where files have extents alone.
#[test]
fn a_list_of_bad_blocks_has_pointers_where_files_have_clusters() {
    let words = "-t ext4 -O bigalloc -C 16384";
    let Some(volume) = Volume::new("cleared-bad", words, "16M") else { return };
    let damaged = volume.edited("sif <1> block[3] 131072");
    is_mended(&volume, &damaged, "block-outside");
}

/// The map of what is kept for growth leads anywhere: all of it is written anew.
#[test]
fn a_map_for_growth_of_garbage_is_written_anew() {
    let Some(volume) = Volume::new("cleared-growth", "-t ext4", "16M") else { return };
    let mut damaged = volume.bytes.clone();
    // Its one pointer, to a block of pointers to blocks of pointers.
    let at = volume.inode_at("<7>") + 40 + 13 * 4;
    let root = u32::from_le_bytes(*damaged[at..].first_chunk().expect("a pointer")) as usize;
    for (number, byte) in damaged[root * BLOCK..][..BLOCK].iter_mut().enumerate() {
        *byte = (number * 7 % 251) as u8;
    }
    is_mended(&volume, &damaged, "many-illegal-blocks");
}

/// The chain of entries in an inode is broken: what is behind the break is found again.
#[test]
fn a_chain_of_entries_in_an_inode_is_joined() {
    let words = "-t ext4 -I 256 -O inline_data,^metadata_csum";
    let Some(volume) = Volume::new("cleared-inline", words, "16M") else { return };
    // The length of the first entry of /d, after the number of its parent.
    let mut damaged = volume.bytes.clone();
    damaged[volume.inode_at("/d") + 40 + 4 + 4] = 3;
    is_mended(&volume, &damaged, "directory-chain");
}

/// Names in an inode that cannot be, or are there twice, get others where they are.
#[test]
fn names_in_an_inode_that_cannot_be_get_others() {
    let words = "-t ext4 -I 512 -O inline_data,^metadata_csum";
    let Some(volume) = Volume::new("cleared-names", words, "16M") else { return };
    let linked = volume.edited("ln /one /d/thref");
    for (name, wrong, now, of) in [
        ("three", b"thr/e", "d/thr.e", "d/three"),
        ("three", b"\0hree", "d/.hree", "d/three"),
        // The first of the two keeps it.
        ("thref", b"three", "d/thr~0", "one"),
    ] {
        let start = volume.inode_at("/d") + 40;
        let inode = &linked[start..start + 512 - 40];
        let at = inode.windows(name.len()).position(|bytes| bytes == name.as_bytes());
        let at = start + at.expect("it is inline");
        let mut damaged = linked.clone();
        damaged[at..at + wrong.len()].copy_from_slice(wrong);
        let repaired = mended(&damaged, Scope::All).expect("it is mended");
        assert!(repaired.is_clean(), "{now}: left {:?}", repaired.left.counts);
        let after = image(&repaired);
        assert_eq!(judged(&volume.written(&after)), None, "{now}");
        assert!(volume.read(&after, now) == expected(of), "{now}");
    }
}

/// Fast commits in a journal that has no room for them: e2fsck takes it for damaged.
#[test]
fn a_journal_with_no_room_beside_fast_commits_is_damaged() {
    let words = "-t ext4 -J size=1";
    let Some(volume) = Volume::new("cleared-journal", words, "16M") else { return };
    let journal = block_of(&volume.written(&volume.bytes), "<8>", 0) * BLOCK;
    let mut damaged = volume.bytes.clone();
    damaged[journal + 0x2b] |= 0x20;
    is_mended(&volume, &damaged, "journal-superblock");
}

/// A loop of directories that nothing leads to, and no `lost+found`: the one that is made comes
/// after the name that the loop has for its own top.
#[test]
fn a_loop_of_directories_is_cut_at_its_top() {
    let Some(volume) = Volume::new("cleared-loop", "-t ext4", "16M") else { return };
    let path = volume.written(&volume.bytes);
    // What lost+found had goes to another folder: the one that is made lies behind the loop.
    for command in ["link /d /d/e/f/up", "unlink /d", "rmdir /lost+found", "mkdir /h"] {
        output(program("debugfs").args(["-w", "-R", command]).arg(&path)).expect("debugfs does it");
    }
    let damaged = std::fs::read(&path).expect("it is there");
    assert!(judged(&volume.written(&damaged)).is_some(), "nothing is wrong");
    let repaired = mended(&damaged, Scope::All).expect("it is mended");
    assert!(repaired.is_clean(), "left {:?}", repaired.left.counts);
    let after = image(&repaired);
    assert_eq!(judged(&volume.written(&after)), None);
    let path = volume.written(&after);
    let all = names_in(&path, "/lost+found");
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(names_in(&path, &format!("/lost+found/{}/e/f", all[0])), ["four"]);
}

/// A number of inodes per group that no group can have, on a volume without copies: the number of
/// all says which it was, and no file is lost by a superblock that is sealed as it is.
#[test]
fn inodes_per_group_follow_from_all_where_nothing_else_says_them() {
    let Some(volume) = Volume::new("cleared-inodes", "-t ext4 -N 256", "4M") else { return };
    let mut damaged = volume.bytes.clone();
    damaged[1024 + 40..][..4].copy_from_slice(&47_u32.to_le_bytes());
    is_mended(&volume, &damaged, "inode-count");
}
