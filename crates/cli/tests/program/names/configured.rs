//! mke2fs.conf: the same file read by both, and every byte of the volumes compared.
use crate::names::option_strings::compare;
use crate::names::{HASH_SEED, UUID, extant, run, theirs};
use extant_testkit::oracle::require;
use extant_testkit::scratch::Scratch;

/// A configuration of two types with these relations among the defaults and in ext4.
fn configuration(defaults: &str, of_type: &str) -> String {
    format!(
        "[defaults]
    base_features = sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr
    blocksize = 4096
    inode_size = 256
    inode_ratio = 16384
{defaults}
[fs_types]
    ext4 = {{
        features = has_journal,extent,flex_bg,uninit_bg,dir_nlink,extra_isize
{of_type}
    }}
    small = {{
        inode_ratio = 4096
    }}
"
    )
}

#[test]
fn each_relation_is_read_as_mke2fs_reads_it() {
    if !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("configured");
    let switches = ["1", "0", "true", "No", "off", "nil", "f", "maybe", "y"];
    let periodic = switches.map(|word| (format!("enable_periodic_fsck = {word}"), String::new()));
    let lazy = switches.map(|word| (format!("lazy_itable_init = {word}"), String::new()));
    let rows = [
        ("", "enable_periodic_fsck = yes"),
        ("enable_periodic_fsck = 1", "enable_periodic_fsck = 0"),
        ("", "packed_meta_blocks = 1"),
        ("", "options = stride=8,stripe_width=16"),
        ("options = stride=4", "lazy_journal_init = 0"),
        ("", "num_backup_sb = 1\nfeatures = sparse_super2,^resize_inode"),
        ("", "journal_location = 10000"),
        ("discard = 0", "errors = remount-ro"),
        ("reserved_ratio = 1.5", "hash_alg = tea"),
        ("", "flex_bg_size = 4"),
        ("", "default_features = ^dir_index"),
        ("", "auto_64-bit_support = 1"),
        ("warn_y2038_dates = 0", "inode_size = 128"),
    ];
    let rows = rows.map(|(defaults, of_type)| (defaults.to_owned(), of_type.to_owned()));
    let mut wrong = Vec::new();
    for (defaults, of_type) in periodic.into_iter().chain(lazy).chain(rows) {
        let file = folder.join("mke2fs.conf");
        std::fs::write(&file, configuration(&defaults, &of_type)).unwrap();
        let images = ["theirs.img", "ours.img"].map(|name| folder.join(name));
        let _ = images.each_ref().map(std::fs::remove_file);
        for (image, program) in images.iter().zip([theirs as fn(&str) -> _, extant]) {
            let words = ["-q", "-F", "-t", "ext4", "-U", UUID, "-E", HASH_SEED];
            let mut command = program("mke2fs");
            command.args(words).arg(image).arg("80M").env("MKE2FS_CONFIG", &file);
            let (code, said) = run(&mut command);
            assert_eq!(code, Some(0), "{defaults} {of_type}: {said}");
        }
        let places = compare(&images[0], &images[1]);
        if !places.is_empty() {
            wrong.push(format!("{defaults} | {of_type}: {}", places.join(", ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The number of mounts follows from the UUID.
#[test]
fn volumes_of_a_machine_are_not_all_checked_at_one_start() {
    if !require("mke2fs") {
        return;
    }
    let folder = Scratch::new("configured-mounts");
    let file = folder.join("mke2fs.conf");
    std::fs::write(&file, configuration("enable_periodic_fsck = 1", "")).unwrap();
    for uuid in [
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "00000000-0000-0000-0000-000000000013",
        "ff000000-0000-0000-0000-0000000000fe",
    ] {
        let images = ["theirs.img", "ours.img"].map(|name| folder.join(name));
        for (image, program) in images.iter().zip([theirs as fn(&str) -> _, extant]) {
            let words = ["-q", "-F", "-t", "ext4", "-U", uuid, "-E", HASH_SEED];
            let mut command = program("mke2fs");
            command.args(words).arg(image).arg("16M").env("MKE2FS_CONFIG", &file);
            assert_eq!(run(&mut command).0, Some(0));
        }
        assert_eq!(compare(&images[0], &images[1]), Vec::<String>::new(), "{uuid}");
    }
}

#[test]
fn what_a_configuration_asks_for_and_is_not_done_is_refused() {
    let folder = Scratch::new("configured-refused");
    let (file, image) = (folder.join("mke2fs.conf"), folder.join("x.img"));
    for name in ["make_hugefiles", "force_undo"] {
        std::fs::write(&file, configuration("", &format!("{name} = true"))).unwrap();
        let mut command = extant("mke2fs");
        command.args(["-t", "ext4"]).arg(&image).arg("16M").env("MKE2FS_CONFIG", &file);
        let (code, said) = run(&mut command);
        assert!(code == Some(1) && said.contains(name), "{code:?} {said}");
        assert!(!image.exists());
    }
}
