//! What is put on the volumes: by the kernel where it mounts them, else by mke2fs and debugfs.
use crate::features::table::Row;
use extant_testkit::command::{find, program, run};
use extant_testkit::oracle::{Access, mount_loop};
use extant_testkit::scratch::Scratch;
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

/// Files of the directory that gets an index.
const MANY: usize = 260;

/// Fills a volume that was just made, and says how.
pub fn fill(row: &Row, folder: &Scratch, image: &Path) -> &'static str {
    // Kernels up to 6.18 fail for good in writing to what keeps data in inodes.
    if !row.words.contains("inline_data")
        && extant_testkit::command::is_root()
        && let Ok(mounted) = mount_loop(image, Access::ReadWrite, "")
    {
        // A small volume may become full: that too is a state that must be clean.
        let _ = populate(mounted.path(), row.block_bytes());
        let _ = change(mounted.path());
        mounted.unmount().expect("it is not in use");
        return "filled";
    }
    let source = folder.join("source");
    if fs::create_dir(&source).is_ok() {
        let _ = populate(&source, row.block_bytes());
    }
    let _ = fs::remove_file(image);
    if row.make(image, Some(&source)).is_err() {
        let _ = fs::remove_file(image);
        row.make(image, None).expect("it was made before");
    }
    let large = folder.join("large");
    fs::write(&large, vec![b'l'; 9000]).expect("a file");
    let value = large.to_str().expect("a path in ASCII");
    let script = format!(
        "mkdir more\nea_set -f {value} hard user.large\nea_set hard user.small value\nfallocate \
         hard 3 9\npunch hard 5 6\n"
    );
    let commands = folder.join("commands");
    fs::write(&commands, script).expect("a file");
    let mut debugfs = program("debugfs");
    let _ = debugfs.arg("-w").arg("-f").arg(&commands).arg(image).output();
    // It counts the blocks of large values, and quotas, which debugfs forgets; and it builds
    // indexes.
    let _ = program("e2fsck").arg("-fyD").arg(image).output();
    "filled by mke2fs"
}

/// Files of many sizes and kinds.
fn populate(root: &Path, block: usize) -> io::Result<()> {
    let at = |name: &str| root.join(name);
    fs::create_dir(at("many"))?;
    for number in 0..MANY {
        fs::write(
            at(&format!("many/a-long-name-of-one-file-among-many-{number:05}")),
            vec![b'm'; number % 90],
        )?;
    }
    fs::create_dir_all(at("tree/of/some/depth"))?;
    for size in [0, 1, 59, 60, 61, 150, block - 1, block, block + 1, 14 * block] {
        fs::write(at(&format!("tree/size-{size}")), vec![b's'; size])?;
    }
    for length in [1, 59, 60, 61, 150, block.min(4096) - 2] {
        symlink("t".repeat(length), at(&format!("tree/link-{length}")))?;
    }
    fs::hard_link(at("tree/size-1"), at("hard"))?;
    run("mknod", &[at("null").as_os_str(), "c".as_ref(), "1".as_ref(), "3".as_ref()])
        .map_err(io::Error::other)?;
    let sparse = fs::File::create(at("sparse"))?;
    for number in 0..120 {
        sparse.write_all_at(b"fragment", number * 2 * block as u64)?;
    }
    sparse.write_all_at(b"far", 3 << 30)?;
    attributes(root, &[("small", 20), ("shared", 300), ("again", 300)]);
    for (number, owner) in ["5:6", "1000:1000", "70000:70001"].iter().enumerate() {
        let path = at(&format!("owned-{number}"));
        fs::write(&path, vec![b'o'; 5000 * (number + 1)])?;
        run("chown", &[owner.as_ref(), path.as_os_str()]).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Attributes in inodes, in a block that two share and, where that can be, in inodes of their own.
/// What a volume has no room for is left out.
fn attributes(root: &Path, values: &[(&str, usize)]) {
    if find("setfattr").is_none() {
        return;
    }
    for (name, length) in values {
        let path = root.join(name);
        let _ = fs::write(&path, b"content");
        let value = "v".repeat(*length);
        let words = ["-n", "user.value", "-v", &value];
        let _ = program("setfattr").args(words).arg(path).output();
    }
}

/// What happens to files in use: they are removed, cut, punched and moved.
fn change(root: &Path) -> io::Result<()> {
    attributes(
        root,
        &[("middle", 700), ("same", 700), ("large", 9000), ("equal", 9000), ("largest", 60_000)],
    );
    for number in (0..MANY).step_by(3) {
        fs::remove_file(root.join(format!("many/a-long-name-of-one-file-among-many-{number:05}")))?;
    }
    let path = root.join("hard");
    fs::write(&path, vec![b'h'; 200_000])?;
    let words = path.to_str().expect("a path in ASCII");
    for options in [
        "-n -o 300000 -l 90000",
        "-p -o 20000 -l 50000",
        "-p -o 90000 -l 100",
        "-z -o 100000 -l 9000",
    ] {
        let _ = program("fallocate").args(options.split(' ')).arg(words).output();
    }
    fs::rename(root.join("tree/of/some"), root.join("moved"))
}
