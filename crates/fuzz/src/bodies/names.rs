//! Blocks of directories: names, their index, and names in inodes.
use super::{padded, split};
use extant_format::directory::stored::{EntryShape, IndexTail, StoredIndex, StoredRootInfo};
use extant_format::directory::{Form, IndexPlace, Style, legal};
use extant_format::inode::FileType;
use extant_format::superblock::HashVersion;
use extant_format::{FileBlock, Ino};
use std::hint::black_box;

const SIZES: [u32; 4] = [1024, 2048, 4096, 65_536];

fn style(choice: u8) -> Style {
    Style {
        block_size: SIZES[usize::from(choice % 4)],
        typed: choice & 4 != 0,
        checksummed: choice & 8 != 0,
    }
}

fn names() -> impl Iterator<Item = Vec<u8>> {
    (0..9_usize).map(|number| vec![b'a' + number as u8; 1 + number * 9])
}

/// Leaves of every style: the choice of the style, and the block.
pub fn leaves() -> Vec<Vec<u8>> {
    let leaf = |choice: u8| {
        let style = style(choice);
        let mut block = vec![0; style.block_size as usize];
        style.initialize_first(&mut block, Ino(12), Ino(2));
        for (ino, name) in (20..).zip(names()) {
            let _ = style.insert(&mut block, &name, Ino(ino), FileType::Regular);
        }
        style.seal(&mut block, FileBlock(0), Form::Linear, 3);
        [vec![choice], block].concat()
    };
    (0..16).map(leaf).collect()
}

/// A block of names, read and changed.
pub fn directory(input: &[u8]) {
    let ([choice], rest) = split(input);
    let style = style(choice);
    let block = padded(rest, style.block_size as usize);
    for form in [Form::Linear, Form::Indexed] {
        black_box(style.verify(&block, FileBlock(1), form, 3).is_ok());
    }
    let legal_names = style.entries(&block).map_while(Result::ok).count();
    let mut all = Vec::new();
    for entry in style.all_entries(&block).map_while(Result::ok) {
        assert!(entry.name.len() <= 255 && entry.offset < block.len(), "{entry:?}");
        black_box((legal::is_legal(entry.name), legal::escaped(entry.name)));
        all.push(entry.name.to_vec());
    }
    assert!(legal_names <= all.len(), "{legal_names} of {} names", all.len());
    // No name that is made has no bytes.
    all.retain(|name| !name.is_empty());
    for shape in [0, 8] {
        let shape = EntryShape { block_size: block.len(), hash_bytes: shape };
        let mut seen = 0;
        shape.walk(&block, 0, &mut |_| seen += 1);
        assert!(seen <= block.len() / 12, "{seen} entries");
        black_box(shape.is_node(&block, IndexTail::None));
    }
    let mut changed = block.clone();
    for name in all.iter().take(20) {
        black_box((style.find(&changed, name).is_ok(), style.seek(&changed, name).is_ok()));
        let _ = style.replace(&mut changed, name, Ino(5), FileType::Symlink);
        if let Ok(true) = style.remove(&mut changed, name) {
            let again = style.insert(&mut changed, name.as_slice(), Ino(6), FileType::Regular);
            black_box(again.is_ok());
        }
    }
    for length in [1, 100, 255] {
        if let Ok(has_room) = style.has_room(&changed, length) {
            let made = style.insert(&mut changed, &vec![b'n'; length], Ino(9), FileType::Fifo);
            assert_eq!(made.ok(), Some(has_room), "room for {length} bytes");
        }
    }
    style.seal(&mut changed, FileBlock(1), Form::Linear, 3);
    let _ = style.verify(&changed, FileBlock(1), Form::Linear, 3);
}

/// Roots and nodes of an index of every style.
pub fn index_blocks() -> Vec<Vec<u8>> {
    let entries = [(0, FileBlock(1)), (0x4000_0000, FileBlock(2)), (0x9000_0000, FileBlock(3))];
    let mut all = Vec::new();
    for choice in (0..16).step_by(5) {
        let style = style(choice);
        let mut root = vec![0; style.block_size as usize];
        let mut node = root.clone();
        style.initialize_root(&mut root, Ino(12), Ino(2), HashVersion::HalfMd4, FileBlock(1));
        style.set_index(&mut root, IndexPlace::Root, &entries);
        style.initialize_node(&mut node);
        style.set_index(&mut node, IndexPlace::Node, &entries);
        for (block, number) in [(&mut root, 0), (&mut node, 1)] {
            style.seal(block, FileBlock(number), Form::Indexed, 3);
            all.push([vec![choice], block.clone()].concat());
        }
    }
    all
}

/// A block of an index.
pub fn index(input: &[u8]) {
    let ([choice], rest) = split(input);
    let style = style(choice);
    let block = padded(rest, style.block_size as usize);
    black_box(StoredRootInfo::read(&block).is_root());
    for tail in [IndexTail::None, IndexTail::Checksum] {
        for place in [IndexPlace::Root, IndexPlace::Node] {
            let stored = StoredIndex::new(&block, place, tail);
            let entries = stored.entries().count();
            assert!(entries <= stored.capacity().max(stored.limit()), "{entries} entries");
            black_box(stored.checksums(3));
        }
    }
    for number in 0..2 {
        black_box(style.verify(&block, FileBlock(number), Form::Indexed, 3).is_ok());
    }
    let root = style.root(&block).map(|(_, view)| (IndexPlace::Root, view));
    let node = style.node(&block).map(|view| (IndexPlace::Node, view));
    for (place, view) in [root, node].into_iter().flatten() {
        let count = view.len();
        for hash in [0, 1, 0x4000_0000, u32::MAX] {
            assert!(view.find(hash) < count, "{hash:#x} of {count}");
        }
        (0..count).for_each(|at| {
            black_box(view.get(at));
        });
        let mut changed = block.clone();
        if count < style.index_capacity(place) {
            style.insert_index(&mut changed, place, count, 77, FileBlock(9));
        }
    }
}

/// Directories as their inode has them: the parent, entries that fill 56 bytes, and more.
pub fn inline_directories() -> Vec<Vec<u8>> {
    let entry = |ino: u32, length: u16, name: &[u8]| -> Vec<u8> {
        let head = [&ino.to_le_bytes()[..], &length.to_le_bytes(), &[name.len() as u8, 1]].concat();
        padded(&[head, name.to_vec()].concat(), length.into())
    };
    let parent = 2_u32.to_le_bytes().to_vec();
    let first = [parent, entry(12, 20, b"a name"), entry(13, 36, b"another")].concat();
    let second = entry(14, 40, b"in the second part");
    vec![[vec![6], first.clone()].concat(), [vec![4], first, second].concat()]
}

/// A directory in an inode.
pub fn inline_directory(input: &[u8]) {
    let ([choice], data) = split(input);
    let style = style(choice);
    if let Ok(block) = style.block_of_inline(Ino(12), data) {
        let names = style.all_entries(&block).filter(Result::is_ok).count();
        // A parent of number 0 is an unused entry.
        assert!(names >= 1, "{names} names");
        assert!(style.all_entries(&block).all(|entry| entry.is_ok()), "a block of broken records");
    }
    let mut part = data.get(4..).unwrap_or_default().to_vec();
    for name in [&b"a name"[..], b"another", b"in the second part"] {
        let _ = style.remove_inline(&mut part, name);
    }
}
