//! Extended attributes, and inodes with content in them.
use super::base::{self, Kind};
use super::{padded, split};
use extant_format::attribute::{
    self, Attribute, StoredBlock, Wanted, list_in_tail, place_all, walk,
};
use extant_format::inode::{Inode, flags};
use extant_format::superblock::{Feature, Superblock};
use extant_format::{BlockNo, Ino, acl, orphan_file};
use std::hint::black_box;

/// Bytes of an inode after its fixed fields.
const TAIL_BYTES: usize = 96;

fn superblock() -> Superblock {
    base::of(&Kind::Plain).superblock.clone()
}

fn some() -> Vec<Attribute> {
    let list = [1_u16, 7, 5].map(|word| u32::from(word).to_le_bytes()).concat();
    let access = [&2_u32.to_le_bytes()[..], &list].concat();
    [
        (&b"user.small"[..], b"value".to_vec()),
        (b"security.selinux", b"system_u:object_r:etc_t:s0\0".to_vec()),
        (b"user.large", vec![7; 600]),
        (b"trusted.overlay.opaque", b"y".to_vec()),
        (acl::ACCESS, access),
    ]
    .map(|(name, value)| Attribute { name: name.to_vec(), value })
    .to_vec()
}

/// A tail and a block of attributes; the first byte says which.
pub fn lists() -> Vec<Vec<u8>> {
    let superblock = superblock();
    let wanted = some();
    let mut all = Vec::new();
    for count in 1..=wanted.len() {
        let wanted = Wanted { attributes: &wanted[..count], ..Wanted::default() };
        let Ok(placed) = place_all(&wanted, TAIL_BYTES, &superblock) else { continue };
        all.push([vec![0], placed.tail].concat());
        all.extend(placed.block.map(|mut block| {
            attribute::seal_block(&mut block, BlockNo(77), &superblock);
            [vec![1], block].concat()
        }));
    }
    all
}

/// A list in an inode or in a block. What is read is placed again, and read as it was.
pub fn attributes(input: &[u8]) {
    let superblock = superblock();
    let ([choice], bytes) = split(input);
    if let Some(list) = list_in_tail(bytes) {
        black_box(
            walk(list, 0, &mut |entry| {
                black_box(entry);
            })
            .is_ok(),
        );
    }
    black_box(
        walk(bytes, 32, &mut |entry| {
            black_box(entry);
        })
        .is_ok(),
    );
    black_box(StoredBlock::new(bytes).computed_checksum(BlockNo(77), &superblock));
    if let Ok(Some(rest)) = attribute::inline_rest(bytes) {
        assert!(rest.start <= rest.end && rest.end <= bytes.len(), "{rest:?} of {}", bytes.len());
    }
    if let Ok(without) = attribute::without_inline_rest(bytes) {
        assert_eq!(without.len(), bytes.len());
    }
    black_box(orphan_file::orphans(bytes, BlockNo(77), 3, &superblock));
    let read = match choice & 1 {
        0 => attribute::parse_tail(bytes),
        _ => attribute::parse_block(bytes, BlockNo(77), &superblock),
    };
    let Ok(list) = read else { return };
    for distant in &list.distant {
        black_box(distant.attribute(b"value").is_ok());
    }
    for attribute in &list.attributes {
        black_box(attribute::check_name(&attribute.name).is_ok());
        black_box(acl::AccessList::from_attribute(&attribute.value));
        black_box((acl::to_disk(&attribute.value), acl::from_disk(&attribute.value)));
    }
    if list.distant.is_empty()
        && let Ok(placed) = attribute::place(&list.attributes, TAIL_BYTES, &superblock)
    {
        let mut again = attribute::parse_tail(&placed.tail).expect("it was written").attributes;
        if let Some(mut block) = placed.block {
            attribute::seal_block(&mut block, BlockNo(77), &superblock);
            let block = attribute::parse_block(&block, BlockNo(77), &superblock);
            again.extend(block.expect("it was written").attributes);
        }
        let mut first = list.attributes;
        first.sort();
        again.sort();
        assert_eq!(first, again);
    }
}

fn with_inline_data() -> Superblock {
    let mut superblock = superblock();
    superblock.features.set(Feature::INLINE_DATA);
    superblock
}

/// Inodes of files whose content is in them.
pub fn inodes() -> Vec<Vec<u8>> {
    let superblock = with_inline_data();
    let inode = |rest: &[u8], size: u64| {
        let mut inode = Inode::new(0o100_644, &superblock);
        inode.flags = flags::INLINE_DATA;
        inode.size = size;
        inode.block.fill(b'c');
        let attributes = some();
        let wanted =
            Wanted { attributes: &attributes[..1], inline_rest: Some(rest), ..Wanted::default() };
        if let Ok(placed) = place_all(&wanted, TAIL_BYTES, &superblock) {
            inode.tail = placed.tail;
        }
        let mut bytes = vec![0; 256];
        inode.encode(&mut bytes, Ino(12), &superblock);
        bytes
    };
    vec![inode(b"", 60), inode(b"and the rest", 72)]
}

/// An inode, and the content in it.
pub fn inline_data(input: &[u8]) {
    let superblock = with_inline_data();
    let bytes = padded(input, 256);
    let inode = Inode::decode(&bytes, &superblock);
    black_box((inode.device(), inode.file_type(), inode.is_fast_symlink(&superblock)));
    if let Ok(parsed) = Inode::parse(&bytes, Ino(12), &superblock) {
        assert_eq!(parsed, inode);
        if let Ok(data) = parsed.inline_data() {
            assert!((60..256).contains(&data.len()), "{} bytes", data.len());
        }
        let mut again = vec![0; 256];
        parsed.encode(&mut again, Ino(12), &superblock);
        black_box(Inode::parse(&again, Ino(12), &superblock).is_ok());
    }
}
