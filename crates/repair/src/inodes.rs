//! Mends inodes: their fields, their attributes, their maps.
use crate::draft::{Draft, Result};
use crate::map;
use extant_format::checksum::crc32c;
use extant_format::inode::{BASE_SIZE, FileType, Inode, MAP_SIZE, flags};
use extant_format::superblock::Feature;
use extant_format::{BlockNo, Ino, attribute};
use extant_inspect::{Code, Problem};
use std::collections::{BTreeMap, BTreeSet};

/// Bits of a mode that are no file type.
const PERMISSIONS: u16 = 0o7777;
/// What attributes in an inode begin with.
const ATTRIBUTES_MAGIC: [u8; 4] = 0xea02_0000_u32.to_le_bytes();
/// No value of an attribute has more bytes.
const VALUE_BYTES_MAX: u64 = 1 << 24;
/// Extra fields of a new inode, in bytes.
const EXTRA_SIZE: u16 = 32;

/// Whether a problem is mended by writing the map of the inode anew.
pub(crate) fn is_of_map(code: Code) -> bool {
    use Code as C;
    matches!(
        code,
        C::MapBlockOutside
            | C::IndirectOutside
            | C::MapBlockOnMetadata
            | C::BlockOutside
            | C::ManyIllegalBlocks
            | C::ClusterAlignment
            | C::ClusterPointers
            | C::ExtentRoot
            | C::ExtentNode
            | C::ExtentStart
            | C::ExtentEmpty
            | C::ExtentOrder
            | C::ExtentLength
            | C::ExtentPastFile
            | C::ExtentBounds
            | C::ExtentDepth
            | C::ExtentChecksum
            | C::DirectoryTooBig
            | C::DirectoryUnwritten
            | C::BadMetadata
    )
}

/// Whether a problem is that an inode says another length than its map.
pub(crate) fn is_of_length(code: Code) -> bool {
    matches!(code, Code::FileSize | Code::DirectorySize | Code::SectorCount)
}

/// What an inode has in a field that it cannot have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Odd {
    DeletionTime,
    ExtraSize,
    Kind,
    Size,
    Map,
    Flags,
    AttributeBlock,
    Unused,
}

/// The field that a problem speaks against.
fn odd(code: Code) -> Option<Odd> {
    use Code as C;
    Some(match code {
        C::UsedButDeleted => Odd::DeletionTime,
        C::ExtraSize => Odd::ExtraSize,
        C::NoFileType | C::SpecialFileMapped | C::SpecialFileSize | C::SymlinkInvalid => Odd::Kind,
        C::FileTooLarge | C::FileSize | C::DirectorySize | C::DirectorySizeHigh => Odd::Size,
        C::ExtentRoot
        | C::MapBlockOutside
        | C::IndirectOutside
        | C::BlockOutside
        | C::ManyIllegalBlocks
        | C::SectorCount => Odd::Map,
        C::MagicFlag
        | C::CasefoldFlag
        | C::IndexFlag
        | C::EncryptedWithoutFeature
        | C::InlineWithoutFeature
        | C::InlineWithExtents => Odd::Flags,
        C::AttributeBlockOutside => Odd::AttributeBlock,
        C::FieldNotZero => Odd::Unused,
        _ => return None,
    })
}

/// As many odd fields as no damage of one of them leads to.
const ODD_FIELDS: usize = 4;
/// The same, where a checksum says that the bytes are not those that were written.
const ODD_FIELDS_BESIDE_CHECKSUM: usize = 3;

/// Files whose inodes are none that anybody wrote: nothing fits. What would be made of one is no
/// part of what was lost, but a file with the rights and owner that chance gave it.
pub(crate) fn garbage(draft: &Draft, problems: &[&Problem]) -> BTreeSet<Ino> {
    let mut found: BTreeMap<Ino, (BTreeSet<Odd>, bool)> = BTreeMap::new();
    for problem in problems {
        let Some(ino) = problem.ino.filter(|ino| ino.0 >= draft.superblock.first_inode) else {
            continue;
        };
        let (fields, is_of_other_bytes) = found.entry(ino).or_default();
        fields.extend(odd(problem.code));
        *is_of_other_bytes |=
            matches!(problem.code, Code::InodeChecksum | Code::InodeChecksumUnread);
    }
    let is_garbage = |(fields, is_of_other_bytes): &(BTreeSet<Odd>, bool)| {
        fields.len() >= if *is_of_other_bytes { ODD_FIELDS_BESIDE_CHECKSUM } else { ODD_FIELDS }
    };
    found.into_iter().filter(|(_, of)| is_garbage(of)).map(|(ino, _)| ino).collect()
}

/// Mends one problem of an inode. Gives whether it did.
///
/// # Errors
/// The device's.
pub(crate) fn mend(draft: &mut Draft, ino: Ino, problem: &Problem) -> Result<bool> {
    if draft.cleared.contains(&ino) {
        return Ok(true);
    }
    let Some(mut bytes) = draft.inode_bytes(ino)? else { return Ok(false) };
    if problem.code == Code::InodeChecksum {
        draft.write_inode_bytes(ino, &mut bytes)?;
        return Ok(true);
    }
    if problem.code == Code::ExtraSize {
        set_extra_size(&mut bytes, draft.superblock.inode_size);
        draft.write_inode_bytes(ino, &mut bytes)?;
        return Ok(true);
    }
    let mut inode = Inode::decode(&bytes, &draft.superblock);
    match change(draft, ino, &mut inode, problem)? {
        Changed::Yes => {
            draft.write_inode(ino, &inode)?;
            Ok(true)
        }
        Changed::Cleared => {
            draft.clear_inode(ino)?;
            Ok(true)
        }
        Changed::No => Ok(false),
    }
}

/// Sets what an inode is; who may do what with it stays.
pub(crate) fn set_type(inode: &mut Inode, kind: FileType) {
    inode.mode = inode.mode & PERMISSIONS | kind.mode_bits();
}

/// Whether an inode is one of a kind that has content.
pub(crate) fn is_filed(inode: &Inode) -> bool {
    matches!(inode.file_type(), Some(FileType::Regular | FileType::Directory | FileType::Symlink))
}

/// Whether an inode is a symlink whose target is in it, whatever its flags say.
pub(crate) fn is_target(inode: &Inode) -> bool {
    inode.file_type() == Some(FileType::Symlink)
        && inode.size < MAP_SIZE as u64
        && inode.block.iter().position(|byte| *byte == 0) == usize::try_from(inode.size).ok()
}

/// Moves the first bytes of a file, which are in its inode, to a block: the attribute in which the
/// others are is lost.
fn outlined(draft: &mut Draft, ino: Ino, inode: &mut Inode) -> Result<Changed> {
    inode.flags &= !flags::INLINE_DATA;
    if is_target(inode) {
        return Ok(Changed::Yes);
    }
    if inode.file_type() != Some(FileType::Regular) {
        return Ok(Changed::Cleared);
    }
    let kept = std::mem::replace(&mut inode.block, [0; MAP_SIZE]);
    inode.size = inode.size.min(MAP_SIZE as u64);
    if draft.superblock.has(Feature::EXTENTS) {
        inode.flags |= flags::EXTENTS;
    }
    let mut found = map::FileMap::default();
    if inode.size > 0 && kept.iter().any(|byte| *byte != 0) {
        let Some(block) = draft.allocate(BlockNo(0)) else { return Ok(Changed::No) };
        let mut bytes = vec![0; draft.block_size()];
        let length = usize::try_from(inode.size).unwrap_or(0);
        for (to, from) in bytes.iter_mut().zip(kept.iter().take(length)) {
            *to = *from;
        }
        draft.write(block, &bytes)?;
        let state = extant_format::extent::ExtentState::Written;
        found.runs.push(map::MapRun { file_block: 0, start: block.0, length: 1, state });
    }
    map::write(draft, ino, inode, &found)?;
    Ok(Changed::Yes)
}

/// What became of an inode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changed {
    No,
    Yes,
    /// It has to be freed.
    Cleared,
}

fn change(draft: &mut Draft, ino: Ino, inode: &mut Inode, problem: &Problem) -> Result<Changed> {
    match problem.code {
        Code::InodeChecksumUnread if ino == Ino::BAD_BLOCKS => {}
        Code::NoFileType | Code::InodeChecksumUnread => return typed(draft, ino, inode),
        // No program uses these, and nothing names them.
        Code::ReservedMode if matches!(ino, Ino::UNDELETE | Ino::EXCLUDE | Ino::REPLICA) => {
            return Ok(Changed::Cleared);
        }
        Code::ReservedMode => {
            inode.mode = reserved_mode(ino, inode.mode);
            if inode.sectors == 0 && ino.0 == draft.superblock.journal_inode {
                crate::journal::restore(draft, inode);
            }
        }
        Code::InlineWithExtents if !is_filed(inode) => {
            inode.flags &= !(flags::INLINE_DATA | flags::EXTENTS);
        }
        // Blocks that are counted are those of a map of pointers.
        Code::InlineWithExtents if !map::has_root(inode) && inode.sectors > 0 => {
            inode.flags &= !(flags::INLINE_DATA | flags::EXTENTS);
        }
        Code::InlineWithoutFeature | Code::InlineWithExtents => {
            inode.flags &= match map::has_root(inode) {
                true => !flags::INLINE_DATA,
                false => !flags::EXTENTS,
            };
            if inode.flags & flags::INLINE_DATA != 0 && !draft.superblock.has(Feature::INLINE_DATA)
            {
                draft.superblock.features.set(Feature::INLINE_DATA);
                draft.write_superblock()?;
            }
        }
        Code::FileSize if is_whole_value(draft, inode)? => return cut(draft, ino, inode),
        // The last block that an extent can have is none that a file may.
        Code::FileSize if problem.expected.unwrap_or(0) > file_bytes_max(draft) => {
            return rebuilt(draft, ino, inode);
        }
        Code::FileSize if is_within(draft, inode)? => return rebuilt(draft, ino, inode),
        Code::FileTooLarge if map::is_mapped(inode, &draft.superblock) => {
            let found = map::read(draft, inode)?;
            let end = found.runs.last().map_or(0, |run| run.file_block.saturating_add(run.length));
            inode.size = end.saturating_mul(draft.block_size() as u64);
        }
        Code::BadBlocksInode if inode.flags & flags::INLINE_DATA != 0 => {
            inode.flags &= !flags::INLINE_DATA;
        }
        Code::ReservedInUse
        | Code::EncryptionContext
        | Code::BadBlocksInode
        | Code::SpecialFileMapped => return Ok(Changed::Cleared),
        Code::SymlinkInvalid => return one_block(draft, ino, inode),
        // It lost the flag by another problem.
        Code::InlineMissing if inode.flags & flags::INLINE_DATA == 0 => {}
        Code::InlineMissing => return outlined(draft, ino, inode),
        Code::DirectoryWithoutBlocks => return emptied(draft, ino, inode),
        Code::ExtentRoot if is_target(inode) => inode.flags &= !flags::EXTENTS,
        code if is_of_map(code) => return rebuilt(draft, ino, inode),
        Code::AttributeBlockChecksum | Code::AttributeReferences => {
            return attribute_header(draft, problem);
        }
        Code::TranslatorOutside => inode.set_translator(BlockNo(0)),
        code if is_of_attributes(code) => return Ok(without_attributes(inode, problem)),
        _ => return Ok(set_field(inode, problem, draft.now)),
    }
    Ok(Changed::Yes)
}

/// Whether the extents of a file, as far as they can be read and are set in order, are within its
/// size.
fn is_within(draft: &Draft, inode: &Inode) -> Result<bool> {
    if !inode.has_extents() || !map::is_mapped(inode, &draft.superblock) {
        return Ok(false);
    }
    let runs = map::read(draft, inode)?.runs;
    let end = runs.last().map_or(0, |run| run.file_block.saturating_add(run.length));
    Ok((1..=inode.size.div_ceil(draft.block_size() as u64)).contains(&end))
}

/// The size of the largest file that extents map.
fn file_bytes_max(draft: &Draft) -> u64 {
    u64::from(u32::MAX).saturating_mul(draft.block_size() as u64)
}

/// Lets a symlink have no block but the one with its target; frees one whose target is none.
fn one_block(draft: &mut Draft, ino: Ino, inode: &mut Inode) -> Result<Changed> {
    if !map::is_mapped(inode, &draft.superblock) {
        return Ok(Changed::Cleared);
    }
    let mut found = map::read(draft, inode)?;
    let Some(first) = found.runs.first_mut().filter(|run| run.file_block == 0) else {
        return Ok(Changed::Cleared);
    };
    first.length = 1;
    let bytes = draft.read(BlockNo(first.start))?.unwrap_or_default();
    let end = bytes.iter().position(|byte| *byte == 0).and_then(|end| u64::try_from(end).ok());
    if inode.size == 0 || end != Some(inode.size) {
        return Ok(Changed::Cleared);
    }
    found.runs.truncate(1);
    map::write(draft, ino, inode, &found)?;
    Ok(Changed::Yes)
}

/// Sets a field of an inode to what it should be.
fn set_field(inode: &mut Inode, problem: &Problem, now: u32) -> Changed {
    let expected = problem.expected;
    match problem.code {
        Code::DeletedWithoutTime => inode.deletion_time = now.max(1),
        Code::UsedButDeleted => inode.deletion_time = 0,
        Code::LostOrphan | Code::OrphanDeleted => {
            inode.deletion_time = if inode.links == 0 { now.max(1) } else { 0 };
        }
        Code::IndexFlag => inode.flags &= !flags::INDEX,
        Code::EncryptionMissing | Code::EncryptedWithoutFeature => inode.flags &= !flags::ENCRYPTED,
        Code::MagicFlag => inode.flags &= !flags::IMAGIC,
        Code::CasefoldFlag => inode.flags &= !flags::CASEFOLDED,
        Code::SymlinkFastExtents => inode.flags &= !flags::EXTENTS,
        Code::SpecialFileImmutable => inode.flags &= !(flags::IMMUTABLE | flags::APPEND),
        Code::SpecialFileSize => inode.size = 0,
        Code::DirectorySizeHigh => inode.size &= u64::from(u32::MAX),
        Code::FileTooLarge | Code::FileSize | Code::DirectorySize | Code::InlineSize => {
            inode.size = expected.unwrap_or(inode.size);
        }
        Code::SectorCount => inode.sectors = expected.unwrap_or(inode.sectors),
        // Decoding leaves out what has no meaning.
        Code::FieldNotZero => {}
        Code::LinkCount => inode.links = u16::try_from(expected.unwrap_or(1)).unwrap_or(1),
        Code::ValueReferences => {
            let count = expected.unwrap_or(0);
            inode.change_time.seconds = i64::from((count >> 32) as u32);
            inode.version = count & u64::from(u32::MAX);
        }
        _ => return Changed::No,
    }
    Changed::Yes
}

/// Gives a directory without blocks one with the first two entries; whose it is, and its
/// attributes, stay.
fn emptied(draft: &mut Draft, ino: Ino, inode: &mut Inode) -> Result<Changed> {
    if !crate::directories::create(draft, ino, Ino::ROOT, inode.mode & PERMISSIONS)? {
        return Ok(Changed::No);
    }
    let Some(made) = draft.inode(ino)? else { return Ok(Changed::No) };
    (inode.block, inode.size, inode.sectors) = (made.block, made.size, made.sectors);
    inode.flags &= !(flags::INDEX | flags::EXTENTS | flags::INLINE_DATA);
    inode.flags |= made.flags;
    Ok(Changed::Yes)
}

/// Where extra fields end, by where attributes begin; else what new inodes have.
fn set_extra_size(bytes: &mut [u8], inode_size: u16) {
    let room = inode_size.saturating_sub(BASE_SIZE as u16);
    let after = bytes.get(BASE_SIZE..).unwrap_or_default();
    let (words, _) = after.as_chunks::<4>();
    let magic = words.iter().skip(1).position(|word| *word == ATTRIBUTES_MAGIC);
    let found = magic.and_then(|at| u16::try_from(at.saturating_add(1) * 4).ok());
    let size = found.unwrap_or(EXTRA_SIZE).min(room);
    if let Some(place) = bytes.get_mut(BASE_SIZE..BASE_SIZE.saturating_add(2)) {
        place.copy_from_slice(&size.to_le_bytes());
    }
}

/// The mode that an inode of the system must have.
fn reserved_mode(ino: Ino, mode: u16) -> u16 {
    match ino {
        Ino::RESIZE | Ino::JOURNAL => FileType::Regular.mode_bits() | 0o600,
        _ if mode & PERMISSIONS == mode => 0,
        _ => FileType::Regular.mode_bits() | mode & PERMISSIONS,
    }
}

/// Whether the type of an inode with a wrong checksum is one, so that its checksum is mended alone.
///
/// # Errors
/// The device's.
pub(crate) fn has_its_type(draft: &Draft, problem: &Problem) -> Result<bool> {
    let inode = match problem.ino.filter(|ino| *ino != Ino::BAD_BLOCKS) {
        Some(ino) => draft.inode(ino)?,
        None => None,
    };
    Ok(inode.is_some_and(|inode| is_typed(&inode)))
}

fn is_typed(inode: &Inode) -> bool {
    inode.file_type().is_some() && inode.mode & PERMISSIONS != inode.mode
}

/// Gives an inode the type that its content shows; frees it where that shows none.
fn typed(draft: &Draft, ino: Ino, inode: &mut Inode) -> Result<Changed> {
    if is_typed(inode) {
        return Ok(Changed::Yes);
    }
    if inode.flags & flags::INLINE_DATA != 0 && draft.superblock.has(Feature::INLINE_DATA) {
        let kind = match is_inline_directory(draft, inode) {
            true => FileType::Directory,
            false => FileType::Regular,
        };
        set_type(inode, kind);
        return Ok(Changed::Yes);
    }
    let mut link = inode.clone();
    link.mode = inode.mode & PERMISSIONS | FileType::Symlink.mode_bits();
    if inode.sectors == 0 && inode.size > 0 && is_target(&link) && !inode.has_extents() {
        inode.mode = link.mode;
        return Ok(Changed::Yes);
    }
    if !map::is_mapped(inode, &draft.superblock) || inode.sectors == 0 {
        return Ok(Changed::Cleared);
    }
    let is_directory = is_directory(draft, ino, inode)?;
    if !is_directory && map::read(draft, inode)?.runs.is_empty() {
        return Ok(Changed::Cleared);
    }
    let kind = if is_directory { FileType::Directory } else { FileType::Regular };
    set_type(inode, kind);
    Ok(Changed::Yes)
}

/// Whether what an inode maps begins as a directory does: with the entry of itself.
pub(crate) fn is_directory(draft: &Draft, ino: Ino, inode: &Inode) -> Result<bool> {
    if inode.flags & flags::INLINE_DATA != 0 {
        return Ok(draft.superblock.has(Feature::INLINE_DATA) && is_inline_directory(draft, inode));
    }
    let found = map::read(draft, inode)?;
    let Some(first) = found.runs.first().filter(|run| run.file_block == 0) else {
        return Ok(false);
    };
    let bytes = draft.read(BlockNo(first.start))?.unwrap_or_default();
    Ok(bytes.get(..4) == Some(&ino.0.to_le_bytes()[..])
        && bytes.get(6..7) == Some(&[1][..])
        && bytes.get(8..9) == Some(&b"."[..]))
}

/// Whether data in an inode is that of a directory: the number of another one, then entries to the
/// end, of inodes that are there.
fn is_inline_directory(draft: &Draft, inode: &Inode) -> bool {
    let Some((parent, mut rest)) = inode.block.split_first_chunk() else { return false };
    let is_used = |number: &[u8; 4]| draft.usage.is_used(Ino(u32::from_le_bytes(*number)));
    let parent_type = draft.usage.file_type(Ino(u32::from_le_bytes(*parent)));
    let mut names = 0;
    while let Some((number, [low, high, length, _kind, ..])) = rest.split_first_chunk::<4>() {
        let record = usize::from(u16::from_le_bytes([*low, *high]));
        let name_end = usize::from(*length) + ENTRY_HEAD;
        if record % 4 != 0 || record < name_end || record > rest.len() {
            return false;
        }
        if *number != [0; 4] {
            if *length == 0 || !is_used(number) {
                return false;
            }
            names += 1;
        }
        rest = rest.get(record..).unwrap_or_default();
    }
    // An empty file has zeros, too.
    rest.is_empty() && parent_type == Some(FileType::Directory) && names > 0
}

/// Bytes of an entry before its name.
const ENTRY_HEAD: usize = 8;

/// Reads the map as far as it can be, and writes it anew.
fn rebuilt(draft: &mut Draft, ino: Ino, inode: &mut Inode) -> Result<Changed> {
    if ino == Ino::BAD_BLOCKS {
        // It is read as pointers, whatever its flags say and other files have.
        inode.flags &= !flags::EXTENTS;
    }
    let mut found = map::read(draft, inode)?;
    if inode.file_type() == Some(FileType::Directory) {
        for run in &mut found.runs {
            run.state = extant_format::extent::ExtentState::Written;
        }
    }
    if draft.usage.cluster_blocks() > 1 && ino != Ino::BAD_BLOCKS {
        inode.flags |= flags::EXTENTS;
    }
    map::write(draft, ino, inode, &found)?;
    Ok(Changed::Yes)
}

/// Whether an inode that is the value of an attribute has all of it by its size: the hash that it
/// keeps in place of the access time says so. Its map then leads to more than the value.
fn is_whole_value(draft: &Draft, inode: &Inode) -> Result<bool> {
    let is_value = inode.flags & flags::EA_INODE != 0;
    if !is_value || inode.size == 0 || inode.size > VALUE_BYTES_MAX {
        return Ok(false);
    }
    let block_size = draft.block_size() as u64;
    let mut value = vec![0; inode.size.next_multiple_of(block_size) as usize];
    for run in map::read(draft, inode)?.runs {
        for at in 0..run.length {
            let offset = (run.file_block + at).saturating_mul(block_size);
            let Some(into) = usize::try_from(offset)
                .ok()
                .and_then(|offset| value.get_mut(offset..offset + block_size as usize))
            else {
                break;
            };
            if let Some(bytes) = draft.read(BlockNo(run.start + at))? {
                into.copy_from_slice(&bytes);
            }
        }
    }
    value.truncate(inode.size as usize);
    let hash = crc32c(draft.superblock.checksum_seed, &value);
    Ok(hash == inode.access_time.seconds as u32)
}

/// Lets a map end with the size of the file.
fn cut(draft: &mut Draft, ino: Ino, inode: &mut Inode) -> Result<Changed> {
    let end = inode.size.div_ceil(draft.block_size() as u64);
    let mut found = map::read(draft, inode)?;
    found.runs.retain(|run| run.file_block < end);
    if let Some(last) = found.runs.last_mut() {
        last.length = last.length.min(end - last.file_block);
    }
    map::write(draft, ino, inode, &found)?;
    Ok(Changed::Yes)
}

/// Whether a problem is mended by taking attributes away.
pub(crate) fn is_of_attributes(code: Code) -> bool {
    use Code as C;
    matches!(
        code,
        C::AttributesOverlap
            | C::AttributeValueSize
            | C::AttributeHash
            | C::AttributePrefix
            | C::AttributeValueInode
            | C::AttributeBlockOutside
            | C::AttributeBlockMagic
            | C::AttributeBlockCount
            | C::AttributeReferencesLost
    )
}

/// Sets the count of a block of attributes, or its checksum.
fn attribute_header(draft: &Draft, problem: &Problem) -> Result<Changed> {
    let Some(block) = problem.block else { return Ok(Changed::No) };
    let Some(mut bytes) = draft.read(block)? else { return Ok(Changed::No) };
    let references = match problem.code {
        Code::AttributeReferences => problem.expected.and_then(|count| u32::try_from(count).ok()),
        _ => None,
    };
    let references = references.unwrap_or_else(|| attribute::reference_count(&bytes));
    attribute::set_reference_count(&mut bytes, references, block, &draft.superblock);
    draft.write(block, &bytes)?;
    Ok(Changed::Yes)
}

/// Removes the attributes that cannot be, with those that are kept with them.
fn without_attributes(inode: &mut Inode, problem: &Problem) -> Changed {
    match problem.block {
        Some(_) => inode.attribute_block = BlockNo(0),
        None => inode.tail.fill(0),
    }
    Changed::Yes
}
