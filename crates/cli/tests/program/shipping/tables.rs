//! Partition tables, as sgdisk, sfdisk and the kernel read them.
use crate::shipping::fixture::{build, number, source, text, told};
use extant_testkit::oracle::{e2fsck, require};
use extant_testkit::scratch::Scratch;
use serde_json::Value;
use std::fs;

/// What sfdisk says of a disk.
fn table(folder: &Scratch, image: &str) -> Value {
    serde_json::from_str(&told(folder, "sfdisk", &["--json", image])).unwrap()
}

/// The bytes of a partition, as a file.
fn cut_out(folder: &Scratch, image: &str, part: &Value, name: &str) {
    let bytes = fs::read(folder.join(image)).unwrap();
    let start = number(part, "/start") * 512;
    let end = start + number(part, "/size") * 512;
    fs::write(folder.join(name), &bytes[start as usize..end as usize]).unwrap();
}

#[test]
fn a_gpt_is_sound_and_its_partitions_hold_volume_and_tree() {
    if !require("sgdisk") || !require("sfdisk") || !require("veritysetup") {
        return;
    }
    let folder = Scratch::new("tables");
    source(&folder);
    let words = "--partition gpt,type=root-x86-64,name=rööt --verity source disk.img";
    let report = build(&folder, words);
    let said = told(&folder, "sgdisk", &["--verify", "disk.img"]);
    assert!(said.contains("No problems found"), "{said}");
    let table = table(&folder, "disk.img");
    let parts = table.pointer("/partitiontable/partitions").unwrap().as_array().unwrap();
    assert_eq!(parts.len(), 2, "{table}");
    assert_eq!(text(&parts[0], "/type"), "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709");
    assert_eq!(text(&parts[1], "/type"), "2C7357ED-EBD2-46D9-AEC1-23D437EC2BF5");
    assert_eq!(text(&parts[0], "/name"), "rööt");
    assert_eq!(text(&parts[1], "/name"), "rööt-verity");
    // systemd finds both by the root hash.
    let root = text(&report, "/disk/verity/root_hash");
    let guid = |part: &Value| text(part, "/uuid").replace('-', "").to_lowercase();
    assert_eq!(guid(&parts[0]) + &guid(&parts[1]), root);
    assert_eq!(number(&parts[0], "/start") * 512, number(&report, "/disk/volume_offset"));
    cut_out(&folder, "disk.img", &parts[0], "volume");
    cut_out(&folder, "disk.img", &parts[1], "tree");
    e2fsck(&folder.join("volume")).unwrap();
    told(&folder, "veritysetup", &["verify", "volume", "tree", root]);
    // The volume alone is what a build without the table gives.
    build(&folder, "source plain.img");
    let plain = fs::read(folder.join("plain.img")).unwrap();
    assert!(fs::read(folder.join("volume")).unwrap().starts_with(&plain));
}

#[test]
fn an_mbr_has_one_partition() {
    if !require("sfdisk") {
        return;
    }
    let folder = Scratch::new("tables");
    source(&folder);
    build(&folder, "-t ext2 -b 1024 --partition mbr,type=0c,active source disk.img");
    let table = table(&folder, "disk.img");
    let parts = table.pointer("/partitiontable/partitions").unwrap().as_array().unwrap();
    assert_eq!(parts.len(), 1, "{table}");
    assert_eq!(text(&parts[0], "/type"), "c");
    assert_eq!(parts[0].pointer("/bootable"), Some(&Value::Bool(true)));
    cut_out(&folder, "disk.img", &parts[0], "volume");
    e2fsck(&folder.join("volume")).unwrap();
}
