//! crc32c and crc16, and what each structure seeds them with. The raw crc32c of ext4: no inversion
//! at either end.

/// Continues a raw crc32c. The usual start value is `!0`.
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

/// Continues a crc16 (polynomial 0x8005 reflected), as uninit_bg uses it. Start value `!0`.
pub fn crc16(seed: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(seed, |crc, &byte| (0..8).fold(crc ^ u16::from(byte), |crc, _| shift16(crc)))
}

/// One bit of a crc16. Descriptors are 64 bytes: a table would not pay.
fn shift16(crc: u16) -> u16 {
    if crc & 1 == 1 { crc >> 1 ^ 0xa001 } else { crc >> 1 }
}

/// The seed of everything that belongs to one inode: number and generation over the volume's seed.
pub fn inode_seed(volume_seed: u32, ino: crate::Ino, generation: u32) -> u32 {
    crc32c(crc32c(volume_seed, &ino.0.to_le_bytes()), &generation.to_le_bytes())
}

/// Checksum of a block bitmap (its first blocks_per_group / 8 bytes) or inode bitmap
/// (inodes_per_group / 8 bytes).
pub fn bitmap(volume_seed: u32, bytes: &[u8]) -> u32 {
    crc32c(volume_seed, bytes)
}
