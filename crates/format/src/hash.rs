//! The hashes of names in hashed directories: legacy, half MD4 and TEA, with signed and unsigned
//! characters.
//!
//! All three come from the first years of hashed directories (ext3, 2002). The quirk that outlived
//! them: names are taken as C characters, so bytes above 127 count as negative on x86 and as
//! positive on ARM and POWER; the superblock says which the volume was made with.
use crate::superblock::{HashVersion, Superblock};

/// How names of one directory are hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hasher {
    /// Which function.
    pub version: HashVersion,
    /// Whether bytes above 127 count as positive.
    pub unsigned: bool,
    /// The volume's seed; all zero means the standard start values.
    pub seed: [u32; 4],
}

/// Major and minor hash of a name. The lowest bit of `major` is 0 (it marks collisions in the
/// index); the value that marks the end of a directory is never given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Default, Hash)]
pub struct NameHash {
    /// What the index is sorted by.
    pub major: u32,
    /// Decides among equal ones.
    pub minor: u32,
}

/// The start values of MD4, which are used for a seed of zeros.
const STANDARD_SEED: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// The cookie with which readdir says "no more names", as a major hash; no name may have it.
const END_OF_DIRECTORY: u32 = 0x7fff_ffff << 1;

impl Hasher {
    /// The volume's default hasher.
    pub fn of(superblock: &Superblock) -> Hasher {
        Hasher {
            version: superblock.hash_version,
            unsigned: superblock.hash_unsigned,
            seed: superblock.hash_seed,
        }
    }

    /// Hashes a name.
    pub fn hash(&self, name: &[u8]) -> NameHash {
        let (major, minor) = match self.version {
            HashVersion::Legacy => (self.legacy(name), 0),
            HashVersion::HalfMd4 => self.half_md4(name),
            HashVersion::Tea => self.tea(name),
        };
        let major = major & !1;
        NameHash {
            major: if major == END_OF_DIRECTORY { END_OF_DIRECTORY.wrapping_sub(2) } else { major },
            minor,
        }
    }

    fn start(&self) -> [u32; 4] {
        if self.seed == [0; 4] { STANDARD_SEED } else { self.seed }
    }

    /// A byte of a name as a number, sign-extended where the volume has signed characters.
    fn character(&self, byte: u8) -> u32 {
        if self.unsigned { u32::from(byte) } else { i32::from(byte.cast_signed()).cast_unsigned() }
    }

    fn legacy(&self, name: &[u8]) -> u32 {
        let (mut last, mut before) = (0x12a3_fe2d_u32, 0x37ab_e8f9_u32);
        for &byte in name {
            let mut next = before.wrapping_add(last ^ self.character(byte).wrapping_mul(7_152_373));
            if next & 0x8000_0000 != 0 {
                next = next.wrapping_sub(0x7fff_ffff);
            }
            (last, before) = (next, last);
        }
        last << 1
    }

    fn half_md4(&self, name: &[u8]) -> (u32, u32) {
        let mut state = self.start();
        let mut rest = name;
        while !rest.is_empty() {
            half_md4_transform(&mut state, &self.words::<8>(rest));
            rest = rest.get(32..).unwrap_or_default();
        }
        (state[1], state[2])
    }

    fn tea(&self, name: &[u8]) -> (u32, u32) {
        let mut state = self.start();
        let mut rest = name;
        while !rest.is_empty() {
            tea_transform(&mut state, self.words::<4>(rest));
            rest = rest.get(16..).unwrap_or_default();
        }
        (state[0], state[1])
    }

    /// Packs what is left of a name into `N` words, first byte highest. Words that the name does
    /// not reach, and the high bytes of a word that it fills in part, hold the length left,
    /// repeated.
    fn words<const N: usize>(&self, rest: &[u8]) -> [u32; N] {
        // At most 255 bytes in a name of a directory; a longer slice is hashed as C would, by
        // truncation.
        let length = rest.len() as u32;
        let pad = length | length.wrapping_shl(8);
        let pad = pad | pad.wrapping_shl(16);
        let mut words = [pad; N];
        for (word, bytes) in words.iter_mut().zip(rest.chunks(4)) {
            *word = bytes
                .iter()
                .fold(pad, |word, &byte| (word << 8).wrapping_add(self.character(byte)));
        }
        words
    }
}

/// MD4 with half its message words: three rounds of eight steps instead of sixteen.
fn half_md4_transform(state: &mut [u32; 4], words: &[u32; 8]) {
    type Mix = fn(u32, u32, u32) -> u32;
    let choose: Mix = |x, y, z| z ^ (x & (y ^ z));
    let majority: Mix = |x, y, z| (x & y) | ((x ^ y) & z);
    let parity: Mix = |x, y, z| x ^ y ^ z;
    let [w0, w1, w2, w3, w4, w5, w6, w7] = *words;
    let rounds: [(Mix, u32, [u32; 4], [u32; 8]); 3] = [
        (choose, 0, [3, 7, 11, 19], [w0, w1, w2, w3, w4, w5, w6, w7]),
        (majority, 0x5a82_7999, [3, 5, 9, 13], [w1, w3, w5, w7, w0, w2, w4, w6]),
        (parity, 0x6ed9_eba1, [3, 9, 11, 15], [w3, w7, w2, w6, w1, w5, w0, w4]),
    ];
    let [mut a, mut b, mut c, mut d] = *state;
    for (mix, constant, shifts, order) in rounds {
        for (word, shift) in order.iter().zip(shifts.iter().cycle()) {
            let sum = a.wrapping_add(mix(b, c, d)).wrapping_add(*word).wrapping_add(constant);
            // The step changes the first register; then each takes its neighbour's part.
            (a, b, c, d) = (d, sum.rotate_left(*shift), b, c);
        }
    }
    for (slot, value) in state.iter_mut().zip([a, b, c, d]) {
        *slot = slot.wrapping_add(value);
    }
}

/// The Tiny Encryption Algorithm as a compression function: the words are the key, the state's
/// first half the text.
fn tea_transform(state: &mut [u32; 4], [key0, key1, key2, key3]: [u32; 4]) {
    const DELTA: u32 = 0x9e37_79b9;
    let half = |text: u32, sum: u32, left: u32, right: u32| {
        (text << 4).wrapping_add(left) ^ text.wrapping_add(sum) ^ (text >> 5).wrapping_add(right)
    };
    let [mut first, mut second, ..] = *state;
    let mut sum = 0_u32;
    for _ in 0..16 {
        sum = sum.wrapping_add(DELTA);
        first = first.wrapping_add(half(second, sum, key0, key1));
        second = second.wrapping_add(half(first, sum, key2, key3));
    }
    state[0] = state[0].wrapping_add(first);
    state[1] = state[1].wrapping_add(second);
}
