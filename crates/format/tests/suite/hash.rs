//! The hashes of names against what debugfs says: a recorded table, and many random names asked
//! now.
use extant_format::hash::{Hasher, NameHash};
use extant_format::superblock::HashVersion;
use std::process::Command;

const SEEDS: [(&str, [u32; 4]); 3] = [
    ("", [0; 4]),
    ("01020304-0506-0708-090a-0b0c0d0e0f10", [0x0403_0201, 0x0807_0605, 0x0c0b_0a09, 0x100f_0e0d]),
    ("ffffffff-ffff-ffff-ffff-fffffffffffe", [u32::MAX, u32::MAX, u32::MAX, 0xfeff_ffff]),
];

fn hasher(version: u8, seed: usize) -> Hasher {
    let function =
        [HashVersion::Legacy, HashVersion::HalfMd4, HashVersion::Tea][usize::from(version % 3)];
    Hasher { version: function, unsigned: version >= 3, seed: SEEDS[seed].1 }
}

/// Two blocks of half MD4, full.
const YS: &[u8] = &[b'y'; 64];
/// The longest name.
const ZS: &[u8] = &[b'z'; 255];
/// Bytes that are negative as signed characters: 0xa0 to 0xff.
const HIGH: &[u8] = b"\
    \xa0\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab\xac\xad\xae\xaf\
    \xb0\xb1\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9\xba\xbb\xbc\xbd\xbe\xbf\
    \xc0\xc1\xc2\xc3\xc4\xc5\xc6\xc7\xc8\xc9\xca\xcb\xcc\xcd\xce\xcf\
    \xd0\xd1\xd2\xd3\xd4\xd5\xd6\xd7\xd8\xd9\xda\xdb\xdc\xdd\xde\xdf\
    \xe0\xe1\xe2\xe3\xe4\xe5\xe6\xe7\xe8\xe9\xea\xeb\xec\xed\xee\xef\
    \xf0\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff";

/// Hash version (3 and above: unsigned), index into [`SEEDS`], name, major, minor: recorded from
/// debugfs 1.47.0.
#[rustfmt::skip]
const RECORDED: &[(u8, usize, &[u8], u32, u32)] = &[
    (0, 1, b"a", 0xe74b53e2, 0x00000000),
    (1, 0, b"a", 0xd5fa7d7a, 0xacb48187),
    (2, 1, b"a", 0xf53528f0, 0xea54fb01),
    (3, 2, b"a", 0xe74b53e2, 0x00000000),
    (4, 0, b"a", 0xd5fa7d7a, 0xacb48187),
    (5, 0, b"a", 0x6d0ea4c0, 0xc18922df),
    (0, 2, b"ab", 0xda0d8cd0, 0x00000000),
    (1, 0, b"ab", 0xee5ef564, 0x4bcbe18e),
    (2, 1, b"ab", 0x9c529152, 0x04cff116),
    (3, 2, b"ab", 0xda0d8cd0, 0x00000000),
    (4, 0, b"ab", 0xee5ef564, 0x4bcbe18e),
    (5, 2, b"ab", 0x8b3a5f10, 0xc2387498),
    (0, 0, b"abc", 0x75afd992, 0x00000000),
    (1, 0, b"abc", 0xd196a868, 0xc420eb28),
    (2, 0, b"abc", 0xb1435ec4, 0x3f7eaa0e),
    (3, 1, b"abc", 0x75afd992, 0x00000000),
    (4, 1, b"abc", 0xf54f014a, 0xd928c19d),
    (5, 0, b"abc", 0xb1435ec4, 0x3f7eaa0e),
    (0, 0, b"abcd", 0xfafa23ca, 0x00000000),
    (1, 0, b"abcd", 0xad7557a8, 0xb1da437c),
    (2, 2, b"abcd", 0x07673dd6, 0xe8494b39),
    (3, 1, b"abcd", 0xfafa23ca, 0x00000000),
    (4, 0, b"abcd", 0xad7557a8, 0xb1da437c),
    (5, 2, b"abcd", 0x07673dd6, 0xe8494b39),
    (0, 0, b"abcde", 0x2297902c, 0x00000000),
    (1, 0, b"abcde", 0x5821840e, 0x1ce8a82c),
    (2, 2, b"abcde", 0xf5222e70, 0x375aa954),
    (3, 2, b"abcde", 0x2297902c, 0x00000000),
    (4, 2, b"abcde", 0xe28a97e8, 0x16596e8f),
    (5, 0, b"abcde", 0x6937ed68, 0xb66bd0f1),
    (0, 2, b"lost+found", 0x5e2aba24, 0x00000000),
    (1, 2, b"lost+found", 0x022493ea, 0x6f2dfef8),
    (2, 1, b"lost+found", 0x3e95424c, 0xc33595ee),
    (3, 0, b"lost+found", 0x5e2aba24, 0x00000000),
    (4, 0, b"lost+found", 0x591de422, 0x6ffc56e0),
    (5, 0, b"lost+found", 0x2dbf9e80, 0xbfebee4f),
    (0, 2, b"Makefile", 0x04aaef06, 0x00000000),
    (1, 0, b"Makefile", 0x2f6e3df4, 0x616b475f),
    (2, 1, b"Makefile", 0x0c86463e, 0xfcebcc1d),
    (3, 1, b"Makefile", 0x04aaef06, 0x00000000),
    (4, 0, b"Makefile", 0x2f6e3df4, 0x616b475f),
    (5, 2, b"Makefile", 0x188296c8, 0xd42d081d),
    (0, 0, b"0123456789abcdef", 0x415c16fe, 0x00000000),
    (1, 2, b"0123456789abcdef", 0x955ef002, 0xaecd1b30),
    (2, 1, b"0123456789abcdef", 0xf592f110, 0x677e35fc),
    (3, 2, b"0123456789abcdef", 0x415c16fe, 0x00000000),
    (4, 2, b"0123456789abcdef", 0x955ef002, 0xaecd1b30),
    (5, 0, b"0123456789abcdef", 0x5a0788b2, 0xefa4e711),
    (0, 0, b"0123456789abcdef0", 0x4d583fb0, 0x00000000),
    (1, 2, b"0123456789abcdef0", 0xed05b834, 0xfb4f790a),
    (2, 2, b"0123456789abcdef0", 0xee9d414a, 0x9a795fb5),
    (3, 2, b"0123456789abcdef0", 0x4d583fb0, 0x00000000),
    (4, 0, b"0123456789abcdef0", 0x0e50885a, 0xfa9bdfab),
    (5, 1, b"0123456789abcdef0", 0xb9817ca2, 0xb25ba07e),
    (0, 0, b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0xa365191c, 0x00000000),
    (1, 2, b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0x23e692c4, 0xb0bbda94),
    (2, 2, b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0xfb8bc9c0, 0x14a6e236),
    (3, 0, b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0xa365191c, 0x00000000),
    (4, 2, b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0x23e692c4, 0xb0bbda94),
    (5, 0, b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0x85384aa4, 0x3bd016f2),
    (0, 2, b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0xccf8e87c, 0x00000000),
    (1, 0, b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0xae38ae70, 0x439dc1ad),
    (2, 1, b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0x35799b42, 0x445b0365),
    (3, 2, b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0xccf8e87c, 0x00000000),
    (4, 2, b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0xefdc1630, 0x28f52b37),
    (5, 1, b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0x35799b42, 0x445b0365),
    (0, 1, b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0x4e0d46ea, 0x00000000),
    (1, 1, b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0x30011dd6, 0x553a1a34),
    (2, 2, b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0xcc9eb9b4, 0xa9c00ee5),
    (3, 1, b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0x4e0d46ea, 0x00000000),
    (4, 1, b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0x30011dd6, 0x553a1a34),
    (5, 1, b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0xb62e6baa, 0x0d9214ce),
    (0, 0, YS, 0x0b1c9dbc, 0x00000000),
    (1, 0, YS, 0x1cf01a32, 0x7e7a750a),
    (2, 2, YS, 0x891e43aa, 0x0e3ac6ae),
    (3, 0, YS, 0x0b1c9dbc, 0x00000000),
    (4, 0, YS, 0x1cf01a32, 0x7e7a750a),
    (5, 2, YS, 0x891e43aa, 0x0e3ac6ae),
    (0, 1, ZS, 0xf94f0890, 0x00000000),
    (1, 2, ZS, 0xbe41f51a, 0xa91f7bea),
    (2, 1, ZS, 0x962cd75a, 0x91558712),
    (3, 1, ZS, 0xf94f0890, 0x00000000),
    (4, 2, ZS, 0xbe41f51a, 0xa91f7bea),
    (5, 1, ZS, 0x962cd75a, 0x91558712),
    (0, 1, b"h\xc3\xa4llo", 0x1a11861a, 0x00000000),
    (1, 2, b"h\xc3\xa4llo", 0x7f08d0ea, 0x20a1a3b3),
    (2, 0, b"h\xc3\xa4llo", 0x52c968c6, 0xdd3f1c35),
    (3, 0, b"h\xc3\xa4llo", 0x61e97e1a, 0x00000000),
    (4, 2, b"h\xc3\xa4llo", 0xd8fb946c, 0x000cc246),
    (5, 1, b"h\xc3\xa4llo", 0x16c9abda, 0xbde3a86e),
    (0, 0, b"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e.txt", 0x03b47ca0, 0x00000000),
    (1, 1, b"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e.txt", 0xc7ff287a, 0x972f2882),
    (2, 0, b"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e.txt", 0x1bece7f6, 0xae2472eb),
    (3, 1, b"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e.txt", 0x3890acac, 0x00000000),
    (4, 1, b"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e.txt", 0x18812ac6, 0xfeeaf215),
    (5, 0, b"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e.txt", 0x83025350, 0xd1bd4487),
    (0, 2, b"\xff\xfe\x80\x7f", 0xd3103d28, 0x00000000),
    (1, 0, b"\xff\xfe\x80\x7f", 0x9ed4d582, 0x2e0495d0),
    (2, 2, b"\xff\xfe\x80\x7f", 0x991f322a, 0x07cfbd18),
    (3, 2, b"\xff\xfe\x80\x7f", 0x25a88fe6, 0x00000000),
    (4, 1, b"\xff\xfe\x80\x7f", 0x0a0410b6, 0xf79990eb),
    (5, 1, b"\xff\xfe\x80\x7f", 0x3ad33836, 0x00702f5a),
    (0, 2, HIGH, 0xb5d9e98e, 0x00000000),
    (1, 1, HIGH, 0x704baf0a, 0x042f616a),
    (2, 2, HIGH, 0x554f5658, 0x62f9cd0d),
    (3, 1, HIGH, 0x3c228d56, 0x00000000),
    (4, 2, HIGH, 0xf8ab4fa6, 0x736a7353),
    (5, 1, HIGH, 0x9ddb0a44, 0x6ae65191),
    (0, 0, b"file_number_123", 0x53215cc0, 0x00000000),
    (1, 0, b"file_number_123", 0x71092da2, 0x864316e7),
    (2, 1, b"file_number_123", 0x55b5f204, 0x454f98bc),
    (3, 1, b"file_number_123", 0x53215cc0, 0x00000000),
    (4, 2, b"file_number_123", 0x2f2940a8, 0x2fa54cb9),
    (5, 2, b"file_number_123", 0xa94458e6, 0x05338c5d),
    (0, 0, b"with space", 0x40ed2afc, 0x00000000),
    (1, 0, b"with space", 0x5bfc805c, 0x41cf2c9b),
    (2, 2, b"with space", 0x3255809a, 0x82a6127f),
    (3, 2, b"with space", 0x40ed2afc, 0x00000000),
    (4, 1, b"with space", 0x488f6368, 0xcaff8031),
    (5, 2, b"with space", 0x3255809a, 0x82a6127f),
];

#[test]
fn recorded_names_hash_as_recorded() {
    for &(version, seed, name, major, minor) in RECORDED {
        let found = hasher(version, seed).hash(name);
        assert_eq!(
            found,
            NameHash { major, minor },
            "version {version}, seed {seed}, {}",
            name.escape_ascii()
        );
    }
}

/// A small generator (Steele, Lea and Flood's SplitMix): the names are the same in every run.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Bytes that debugfs takes in quotes: no quote, no backslash, no control character.
fn random_name(state: &mut u64) -> Vec<u8> {
    let length = match next(state) % 4 {
        0 => next(state) % 255,
        1 => next(state) % 40,
        _ => next(state) % 12,
    };
    let byte = |state: &mut u64| match next(state) % 3 {
        0 => 0x80 + (next(state) % 0x80) as u8,
        _ => b'a' + (next(state) % 26) as u8,
    };
    (0..=length).map(|_| byte(state)).collect()
}

#[test]
fn debugfs_agrees_on_random_names() {
    if !extant_testkit::oracle::require("debugfs") {
        return;
    }
    let folder = std::env::temp_dir().join(format!("extant-hash-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut state = 0x5eed;
    let mut script = Vec::new();
    let mut expected = Vec::new();
    for _ in 0..1000 {
        let version = (next(&mut state) % 6) as u8;
        let seed = (next(&mut state) % 3) as usize;
        let name = random_name(&mut state);
        let NameHash { major, minor } = hasher(version, seed).hash(&name);
        let seed_words = if seed == 0 { String::new() } else { format!("-s {} ", SEEDS[seed].0) };
        script.extend_from_slice(format!("dx_hash -h {version} {seed_words}\"").as_bytes());
        script.extend_from_slice(&name);
        script.extend_from_slice(b"\"\n");
        expected.push((name, format!("{major:#x} (minor {minor:#x})")));
    }
    let commands = folder.join("commands");
    std::fs::write(&commands, script).unwrap();
    let output = Command::new("debugfs").arg("-f").arg(&commands).output().unwrap();
    let answers: Vec<&[u8]> = output
        .stdout
        .split(|&byte| byte == b'\n')
        .filter(|line| line.starts_with(b"Hash of "))
        .collect();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(answers.len(), expected.len());
    for (answer, (name, hashes)) in answers.iter().zip(&expected) {
        let line = [b"Hash of ", name.as_slice(), b" is ", hashes.as_bytes()].concat();
        assert_eq!(answer.escape_ascii().to_string(), line.escape_ascii().to_string());
    }
}
