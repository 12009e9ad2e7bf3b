//! An archive becomes an image: `extant build` against copying the archive, and against programs
//! that do the same.

use std::path::Path;

use super::{Bench, Input, extant, fresh, is_here, maker, memory, quoted, words};
use crate::command::{self, is_root, program};
use crate::measure::{Contender, measure, race};
use crate::oracle;
use crate::sheet::Sheet;

/// The size of an image of an input, for programs that do not find it themselves.
#[derive(Clone, Copy, Debug)]
struct Room {
    mib: u64,
    inodes: u64,
}

/// A table for each input, and those of building in memory.
///
/// # Errors
/// `cp` fails, or the input cannot be unpacked for the programs that need a tree.
pub fn tables(bench: &Bench, sheet: &mut Sheet) -> Result<(), String> {
    bench.inputs()?.iter().try_for_each(|input| {
        table(bench, input, sheet)?;
        memory::tables(bench, input, sheet)
    })
}

fn table(bench: &Bench, input: &Input, sheet: &mut Sheet) -> Result<(), String> {
    let copy = bench.folder.join("copy.tar");
    let image = bench.folder.join("bench.img");
    let folder = bench.folder.join("mount");
    let archive = input.archive.to_string_lossy().into_owned();
    let program = extant()?;
    let mut contenders =
        vec![maker("cp + fsync", words(&["cp", &archive, &copy.to_string_lossy()]), &copy)];
    for kind in ["ext4", "ext3", "ext2"] {
        let words =
            words(&[&program, "build", "-q", "-t", kind, &archive, &image.to_string_lossy()]);
        contenders.push(maker(&format!("extant build -t {kind}"), words, &image));
    }
    if is_here("tar2ext4") {
        let words = words(&["tar2ext4", "-i", &archive, "-o", &image.to_string_lossy()]);
        contenders.push(maker("tar2ext4", words, &image));
    }
    let tree = input.tree()?;
    let entries = input.entries()?;
    // A third more than the bytes, and room for a journal.
    let room = Room { mib: (input.size() >> 20) * 4 / 3 + 256, inodes: entries + 1000 };
    contenders.extend(tree_peers(&tree, room, &image));
    if is_root() {
        for kind in ["ext4", "ext3"] {
            contenders.push(kernel(kind, &archive, room, &image, &folder));
        }
    }
    let title =
        format!("build: {}, {} MB, {entries} entries", input.name, input.size() / 1_000_000);
    let result = race(sheet, &title, &contenders, bench.rounds);
    drop(contenders);
    let allowed = 64 + entries * 600 / (1 << 20);
    sheet.say(&format!("\nAllowed memory: 64 MiB + 600 bytes an inode = {allowed} MiB"));
    fresh(&copy)?;
    fresh(&image)?;
    result
}

/// The programs that read a tree, not an archive.
fn tree_peers<'a>(tree: &Path, room: Room, image: &'a Path) -> Vec<Contender<'a>> {
    let mut peers = Vec::new();
    let (tree, output) = (tree.to_string_lossy(), image.to_string_lossy());
    let (size, inodes) = (format!("{}M", room.mib), room.inodes.to_string());
    if is_here("mke2fs") {
        for kind in ["ext4", "ext2"] {
            let words = words(&[
                "mke2fs", "-q", "-F", "-t", kind, "-N", &inodes, "-d", &tree, &output, &size,
            ]);
            peers.push(maker(&format!("mke2fs -t {kind} -d"), words, image));
        }
    }
    if is_here("genext2fs") {
        let blocks = (room.mib << 8).to_string();
        let words =
            words(&["genext2fs", "-B", "4096", "-b", &blocks, "-N", &inodes, "-d", &tree, &output]);
        peers.push(maker("genext2fs", words, image));
    }
    peers
}

/// The kernel: an empty image is made beforehand; mount, unpack, unmount and flush are measured.
fn kernel<'a>(
    kind: &'a str,
    archive: &str,
    room: Room,
    image: &'a Path,
    folder: &'a Path,
) -> Contender<'a> {
    let (at, img, tar) = (quoted(folder), quoted(image), quoted(Path::new(archive)));
    let script = format!(
        "mount -o loop {img} {at} && {{ tar -xpf {tar} -C {at}; done=$?; umount {at} && exit \
         $done; }}"
    );
    Contender {
        name: format!("kernel mount ({kind}) + tar -x"),
        prepare: Box::new(move || {
            fresh(image)?;
            std::fs::create_dir_all(folder)
                .map_err(|error| format!("{}: {error}", folder.display()))?;
            let mut mke2fs = program("mke2fs");
            mke2fs.args(["-q", "-F", "-t", kind, "-N", &room.inodes.to_string()]);
            command::output(mke2fs.arg(image).arg(format!("{}M", room.mib)))?;
            super::flush(image)
        }),
        run: Box::new(move || {
            let measured = measure(&words(&["sh", "-c", &script]), || super::flush(image));
            if measured.is_err() {
                let _ = oracle::unmount_all(folder);
            }
            measured
        }),
    }
}
