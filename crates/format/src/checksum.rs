//! crc32c and crc16, and what each structure seeds them with. The raw crc32c of ext4: no inversion
//! at either end.

/// Continues a raw crc32c. The usual start value is `!0`.
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

/// What makes up for a difference between two raw crc32c: for each place of `length` bytes, from
/// the last to the first, the bits that are to be changed in it and the three bytes behind it, as a
/// little-endian number. There is exactly one such change for each place; that of a single byte is
/// less than 256, and one that reaches behind the last byte cannot be made.
pub fn changes(difference: u32, length: usize) -> impl Iterator<Item = (usize, u32)> {
    // What a byte of zero makes of a state, and which state it made the one with this first byte.
    let after_zero = |byte: u8| crc32c(u32::from(byte), &[0]);
    let mut made_by = [0_u8; 256];
    for byte in 0..=u8::MAX {
        let [.., first] = after_zero(byte).to_le_bytes();
        if let Some(place) = made_by.get_mut(usize::from(first)) {
            *place = byte;
        }
    }
    (0..length).rev().scan(difference, move |state, at| {
        let [.., first] = state.to_le_bytes();
        let byte = made_by.get(usize::from(first)).copied().unwrap_or_default();
        *state = (*state ^ after_zero(byte)) << 8 | u32::from(byte);
        Some((at, *state))
    })
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

#[cfg(test)]
mod tests {
    use super::{changes, crc32c};

    fn flip(bytes: &mut [u8], at: usize, change: u8) {
        *bytes.get_mut(at).expect("a byte") ^= change;
    }

    #[test]
    fn a_change_is_found_at_its_place() {
        let bytes: Vec<u8> = (0..300_u32).map(|at| (at * 7 % 253) as u8).collect();
        let sum = crc32c(0x1234, &bytes);
        for (at, change) in [(0, 1), (17, 0x80), (150, 0xa5), (298, 7), (299, 0xff)] {
            let mut changed = bytes.clone();
            flip(&mut changed, at, change);
            let found: Vec<_> = changes(sum ^ crc32c(0x1234, &changed), bytes.len())
                .filter(|(_, change)| *change < 0x100)
                .collect();
            assert_eq!(found, [(at, u32::from(change))]);
        }
        // Four bytes of a word, and what any other place would need.
        let mut changed = bytes.clone();
        let flip_word = |bytes: &mut [u8], at: usize, change: u32| {
            (at..).zip(change.to_le_bytes()).for_each(|(at, change)| flip(bytes, at, change));
        };
        flip_word(&mut changed, 40, 0xdead_beef);
        let difference = sum ^ crc32c(0x1234, &changed);
        for (at, change) in changes(difference, bytes.len()).filter(|(at, _)| at + 4 <= 300) {
            let mut right = changed.clone();
            flip_word(&mut right, at, change);
            assert_eq!(crc32c(0x1234, &right), sum, "byte {at}");
            assert_eq!(right == bytes, at == 40, "byte {at}");
        }
    }
}
