//! Superblocks, descriptors and inode tables of damaged and odd images: reading them never panics.
//! The images are beside the project, not in it; without them the test says so.
use std::path::{Path, PathBuf};
use std::process::Command;

use extant_format::group::GroupDescriptor;
use extant_format::inode::Inode;
use extant_format::superblock::{SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock, SuperblockError};
use extant_format::{GroupNo, Ino, bitmap};

const CORPUS: &str = "../../../shared/corpus";
/// Inodes that are looked at in each group.
const INODES: u32 = 64;

fn images() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(CORPUS);
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut images: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    images.retain(|path| path.extension().is_some_and(|extension| extension == "gz"));
    images.sort();
    images
}

fn unpack(path: &Path) -> Vec<u8> {
    Command::new("gzip").arg("-dc").arg(path).output().expect("gzip runs").stdout
}

/// `length` bytes from `start`, where the image has them.
fn slice(image: &[u8], start: u64, length: usize) -> Option<&[u8]> {
    let start = usize::try_from(start).ok()?;
    image.get(start..start.checked_add(length)?)
}

/// Reads all descriptors and some inodes; how many of each were sound.
fn walk(image: &[u8], superblock: &Superblock) -> (usize, usize) {
    let size = u64::from(superblock.block_size());
    let (mut sound_groups, mut sound_inodes) = (0, 0);
    for group in (0..superblock.group_count().min(10_000)).map(GroupNo) {
        let (block, offset) = superblock.descriptor_place(group);
        let Some(bytes) =
            slice(image, block.0 * size + offset as u64, superblock.descriptor_size.into())
        else {
            break;
        };
        let Ok(descriptor) = GroupDescriptor::parse(bytes, group, superblock) else {
            continue;
        };
        sound_groups += 1;
        if let Some(bytes) = slice(image, descriptor.block_bitmap.0 * size, size as usize) {
            bitmap::clear_runs(bytes, superblock.group_length(group)).count();
            descriptor.block_bitmap_matches(bytes, superblock);
        }
        let first = group.0 * superblock.inodes_per_group + 1;
        for ino in (first..first + superblock.inodes_per_group.min(INODES)).map(Ino) {
            let (block, offset) =
                superblock.inode_place(ino, &descriptor).expect("an inode of the volume");
            let place = block.0 * size + offset as u64;
            let Some(bytes) = slice(image, place, superblock.inode_size.into()) else {
                break;
            };
            Inode::decode(bytes, superblock).device();
            sound_inodes += usize::from(Inode::parse(bytes, ino, superblock).is_ok());
        }
    }
    (sound_groups, sound_inodes)
}

#[test]
fn odd_images_are_read_without_panic() {
    let images = images();
    if images.is_empty() {
        println!("SKIPPED: no images in {CORPUS}");
        return;
    }
    let (mut usable, mut inodes) = (0, 0);
    for path in &images {
        let image = unpack(path);
        let name = path.file_name().expect("a name").to_string_lossy();
        let Some(bytes) = slice(&image, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE) else {
            continue;
        };
        let bytes: [u8; SUPERBLOCK_SIZE] = bytes.try_into().expect("as long as asked");
        match Superblock::parse_any(&bytes) {
            Ok(superblock) => {
                let sound = walk(&image, &superblock);
                usable += 1;
                inodes += sound.1;
            }
            Err(error) => println!("{name}: {error}"),
        }
        if let Err(error @ SuperblockError::Unsupported(_)) = Superblock::parse(&bytes) {
            println!("{name}: {error}");
        }
    }
    println!("{usable} of {} superblocks are sound, with {inodes} sound inodes", images.len());
    assert!(
        usable * 10 > images.len() * 8,
        "most of the images have a sound superblock: {usable} of {}",
        images.len()
    );
    assert!(inodes > 1000, "{inodes} sound inodes");
}
