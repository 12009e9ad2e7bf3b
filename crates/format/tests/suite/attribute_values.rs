//! Values of attributes in inodes of their own: what such an inode keeps, and lists of them.
use extant_format::attribute::{
    Attribute, ValueInode, ValueRef, Wanted, hash_of_entry, parse_block, place_all, seal_block,
    take_from_block, take_from_tail, values_in_block, values_in_tail,
};
use extant_format::inode::{Inode, ValueFacts};
use extant_format::superblock::Superblock;
use extant_format::{BlockNo, Ino};

fn superblock(inode_size: u16) -> Superblock {
    let mut superblock = Superblock::empty();
    superblock.block_size_log2 = 10;
    superblock.inode_size = inode_size;
    superblock
}

#[test]
fn an_inode_keeps_hash_and_count_in_place_of_its_times() {
    for superblock in [superblock(128), superblock(256)] {
        for (hash, references) in [(0, 0), (1, 1), (u32::MAX, 1 << 32 | 7), (1 << 31, 3)] {
            let mut inode = Inode::new(0o100_600, &superblock);
            inode.version = 9;
            let facts = ValueFacts { hash, references };
            facts.store(&mut inode);
            let mut bytes = vec![0; superblock.inode_size.into()];
            inode.encode(&mut bytes, Ino(20), &superblock);
            let parsed = Inode::parse(&bytes, Ino(20), &superblock).expect("is parsed");
            assert_eq!(ValueFacts::of(&parsed), facts, "{superblock:?}");
        }
    }
}

#[test]
fn values_are_taken_from_lists_and_the_rest_stays() {
    let superblock = superblock(256);
    let attribute = |number: usize| Attribute {
        name: format!("user.{number:03}").into_bytes(),
        value: vec![b'v'; 20],
    };
    let attributes: Vec<Attribute> = (0..12).map(attribute).collect();
    let value = |at: usize| {
        let hash = hash_of_entry(&attributes[at].name, 9).expect("a name");
        ValueInode { at, ino: Ino(100 + at as u32), bytes: 5000, hash }
    };
    let in_inodes: Vec<ValueInode> = (0..12).step_by(2).map(value).collect();
    let wanted = Wanted { attributes: &attributes, in_inodes: &in_inodes, ..Wanted::default() };
    let placed = place_all(&wanted, 96, &superblock).expect("fits");
    let block = placed.block.expect("a block");
    let tail = values_in_tail(&placed.tail).expect("is read");
    let of_block = values_in_block(&block).expect("is read");
    let mut all: Vec<ValueRef> = tail.iter().chain(&of_block).copied().collect();
    all.sort_by_key(|value| value.ino);
    let expected = in_inodes.iter().map(|value| ValueRef { ino: value.ino, bytes: 5000 });
    assert_eq!(all, expected.collect::<Vec<_>>());
    assert!(!tail.is_empty() && of_block.len() > 1);

    let (taken, after) = take_from_tail(&placed.tail, 1).expect("is taken");
    assert_eq!(taken, tail[..1]);
    assert_eq!((values_in_tail(&after).expect("is read"), after.len()), (tail[1..].to_vec(), 96));
    let (taken, mut after) = take_from_block(&block, 1).expect("is taken");
    assert_eq!(
        (taken, values_in_block(&after).expect("is read").len()),
        (of_block[..1].to_vec(), of_block.len() - 1)
    );
    seal_block(&mut after, BlockNo(7), &superblock);
    let left = parse_block(&after, BlockNo(7), &superblock).expect("is a list");
    let before = parse_block(&block, BlockNo(7), &superblock).expect("is a list");
    assert_eq!(left.attributes.len(), before.attributes.len() - 1);
    let (taken, after) = take_from_block(&block, 100).expect("is taken");
    assert_eq!((taken, values_in_block(&after).expect("is read")), (of_block, Vec::new()));
}
