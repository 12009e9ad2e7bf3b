//! Extended headers: records `LENGTH KEY=VALUE` that override what a header says, for one file or
//! for all that follow.
use super::header::Header;
use super::pieces::{PIECES_MAX, Piece};
use crate::entry::NfsAccessList;
use crate::error::{Corruption, MapFault};
use crate::text::printable;
use extant_format::acl::{ACCESS, DEFAULT};
use extant_format::attribute::Attribute;
use extant_format::inode::{Device, Time};
use extant_tree::flags::{self, TextFlags};
use extant_tree::{Described, Facts, access};

/// The longest extended header. A value of an attribute has at most 64 KiB, so that this is
/// generous.
pub(super) const BYTES_MAX: u64 = 16 << 20;
/// The most attributes of one file; no image has room for nearly as many. Each is compared with all
/// before it.
const ATTRIBUTES_MAX: usize = 8192;
/// Names and values of the attributes of one file, in bytes: global headers add to each other.
const ATTRIBUTE_BYTES_MAX: usize = BYTES_MAX as usize;
/// Users and groups without a number that are named; of others there is no word.
const NAMELESS_MAX: usize = 1000;

/// What extended headers say. `None` where they say nothing.
#[derive(Clone, Default)]
pub(super) struct Extended {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) modify_time: Option<Time>,
    pub(super) access_time: Option<Time>,
    pub(super) change_time: Option<Time>,
    pub(super) major: Option<u32>,
    pub(super) minor: Option<u32>,
    pub(super) attributes: Vec<Attribute>,
    pub(super) sparse: Sparse,
    /// Users and groups whose entries of access lists have no number, and were left out.
    pub(super) nameless: Vec<String>,
    pub(super) nfs4_access_list: NfsAccessList,
    /// What chattr would set.
    pub(super) flags: Option<TextFlags>,
}

/// What extended headers say of holes: GNU's three forms.
#[derive(Clone, Default)]
pub(super) struct Sparse {
    /// The form with the map in front of the data.
    pub(super) major: Option<u64>,
    pub(super) minor: Option<u64>,
    pub(super) name: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) pieces: Option<Vec<Piece>>,
    /// An offset whose length is still to come (form 0.0).
    offset: Option<u64>,
}

impl Extended {
    /// What these records and a header say of a file.
    pub(super) fn described(&self, header: &Header<'_>) -> Result<Described, Corruption> {
        let whole = |seconds: i64| Time { seconds, nanoseconds: 0 };
        let [access_time, change_time] = header.other_times().map(|time| time.map(whole));
        let facts = Facts {
            permissions: header.mode()?,
            uid: self.uid.map_or_else(|| header.uid(), Ok)?,
            gid: self.gid.map_or_else(|| header.gid(), Ok)?,
            modify_time: self.modify_time.map_or_else(|| header.modify_time().map(whole), Ok)?,
            access_time: self.access_time.or(access_time),
            change_time: self.change_time.or(change_time),
            flags: self.flags.as_ref().map(|read| read.flags),
            ..Facts::default()
        };
        Ok(Described { facts, attributes: self.attributes.clone() })
    }

    /// The words for flags that none here knows.
    pub(super) fn unknown_flags(&self) -> Option<String> {
        let unknown = self.flags.as_ref().map(|read| read.unknown.join(","));
        unknown.filter(|words| !words.is_empty()).map(|words| printable(words.as_bytes()))
    }

    /// The numbers of a device by these records and a header.
    pub(super) fn device(&self, header: &Header<'_>) -> Result<Device, Corruption> {
        let (major, minor) = header.device()?;
        Ok(Device { major: self.major.unwrap_or(major), minor: self.minor.unwrap_or(minor) })
    }

    /// Takes over the records of one header.
    pub(super) fn apply(&mut self, mut records: &[u8]) -> Result<(), Corruption> {
        while let Some(first) = records.first() {
            // Some writers fill the block with NULs and count them.
            if *first == 0 {
                break;
            }
            let (record, rest) = split_record(records).ok_or(Corruption::ExtendedHeaderRecords)?;
            let taken = self.record(record.key, record.value);
            taken.ok_or_else(|| Corruption::ExtendedHeaderValue(record.key.to_vec()))?;
            if self.attributes.len() > ATTRIBUTES_MAX {
                return Err(Corruption::TooManyAttributes(ATTRIBUTES_MAX));
            }
            if self.sparse.pieces.as_ref().is_some_and(|pieces| pieces.len() > PIECES_MAX) {
                return Err(Corruption::Map(MapFault::TooManyPieces));
            }
            records = rest;
        }
        let bytes = self.attributes.iter().map(|it| it.name.len() + it.value.len());
        match bytes.sum::<usize>() > ATTRIBUTE_BYTES_MAX {
            true => Err(Corruption::AttributesTooLarge(ATTRIBUTE_BYTES_MAX)),
            false => Ok(()),
        }
    }

    /// Takes over one record; `None` for a value that its key cannot have.
    fn record(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let optional = |value: &[u8]| (!value.is_empty()).then(|| value.to_vec());
        match key {
            b"path" => self.path = optional(value),
            b"linkpath" => self.link = optional(value),
            b"size" => self.size = number(value)?,
            b"uid" => self.uid = small(value)?,
            b"gid" => self.gid = small(value)?,
            b"mtime" => self.modify_time = time(value)?,
            b"atime" => self.access_time = time(value)?,
            b"ctime" => self.change_time = time(value)?,
            b"SCHILY.devmajor" => self.major = small(value)?,
            b"SCHILY.devminor" => self.minor = small(value)?,
            b"SCHILY.acl.access" => self.access_list(ACCESS, value)?,
            b"SCHILY.acl.default" => self.access_list(DEFAULT, value)?,
            b"SCHILY.acl.ace" => {
                self.nfs4_access_list = match value.is_empty() {
                    true => NfsAccessList::Absent,
                    false => NfsAccessList::Present,
                }
            }
            b"SCHILY.fflags" => {
                self.flags = (!value.is_empty()).then(|| flags::from_text(value));
            }
            b"RHT.security.selinux" => {
                self.attribute(b"security.selinux".to_vec(), [value, b"\0"].concat());
            }
            _ => return self.prefixed(key, value),
        }
        Some(())
    }

    /// Takes over a record of a family of keys; unknown keys say nothing to us.
    fn prefixed(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
            let name = percent_decoded(name, |code| matches!(code, b'%' | b'='));
            self.attribute(name, value.to_vec());
        } else if let Some(name) = key.strip_prefix(b"LIBARCHIVE.xattr.") {
            let value = base64_decoded(value)?;
            self.attribute(percent_decoded(name, |_| true), value);
        } else if let Some(key) = key.strip_prefix(b"GNU.sparse.") {
            self.sparse.record(key, value)?;
        }
        Some(())
    }

    fn attribute(&mut self, name: Vec<u8>, value: Vec<u8>) {
        self.attributes.retain(|attribute| attribute.name != name);
        self.attributes.push(Attribute { name, value });
    }

    /// A list as bytes is better than one as text: it never names users.
    fn access_list(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        if value.is_empty() || self.attributes.iter().any(|attribute| attribute.name == name) {
            return Some(());
        }
        let read = access::from_text(value)?;
        self.nameless.extend(read.nameless);
        self.nameless.truncate(NAMELESS_MAX);
        if let Some(list) = read.list {
            self.attribute(name.to_vec(), list.to_attribute());
        }
        Some(())
    }
}

impl Sparse {
    fn record(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match key {
            b"major" => self.major = number(value)?,
            b"minor" => self.minor = number(value)?,
            b"name" => self.name = Some(value.to_vec()),
            b"size" | b"realsize" => self.size = number(value)?,
            b"numblocks" => {
                self.pieces.get_or_insert_default();
            }
            b"offset" => self.offset = number(value)?,
            b"numbytes" => {
                let piece = (self.offset.take()?, number(value)??);
                self.pieces.get_or_insert_default().push(piece);
            }
            b"map" => self.pieces = Some(map(value)?),
            _ => {}
        }
        Some(())
    }
}

/// `offset,length,offset,length`.
fn map(value: &[u8]) -> Option<Vec<Piece>> {
    if value.is_empty() {
        return Some(Vec::new());
    }
    let numbers = value
        .split(|byte| *byte == b',')
        .map(|word| number(word)?)
        .collect::<Option<Vec<u64>>>()?;
    if numbers.len() % 2 != 0 {
        return None;
    }
    Some(numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

/// One record of an extended header.
struct Record<'a> {
    key: &'a [u8],
    value: &'a [u8],
}

/// The first record, and the rest.
fn split_record(records: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let blank = records.iter().take(20).position(|byte| *byte == b' ')?;
    let length = usize::try_from(number(&records[..blank])??).ok()?;
    let record = records.get(blank + 1..length)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    let record = Record { key: &record[..equals], value: &record[equals + 1..] };
    Some((record, &records[length..]))
}

/// A decimal number; the empty value takes back what was said before.
pub(super) fn number(value: &[u8]) -> Option<Option<u64>> {
    if value.is_empty() {
        return Some(None);
    }
    let digits = value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| digits)?;
    text.parse().ok().filter(|number| i64::try_from(*number).is_ok()).map(Some)
}

fn small(value: &[u8]) -> Option<Option<u32>> {
    match number(value)? {
        Some(number) => u32::try_from(number).ok().map(Some),
        None => Some(None),
    }
}

/// `-12.5`: seconds and any number of decimals, of which nine count; rounded down. Some writers
/// have an exponent, as Python does in a number that is small: `1e-05`.
fn time(value: &[u8]) -> Option<Option<Time>> {
    if value.is_empty() {
        return Some(None);
    }
    let (value, is_negative) =
        value.strip_prefix(b"-").map_or((value, false), |digits| (digits, true));
    let letter = value.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (value, exponent) = match letter {
        None => (value, 0),
        Some(at) => (&value[..at], exponent(&value[at + 1..])?),
    };
    let point = value.iter().position(|byte| *byte == b'.').unwrap_or(value.len());
    let fraction = value.get(point + 1..).unwrap_or_default();
    if point == 0 || !value[..point].iter().chain(fraction).all(u8::is_ascii_digit) {
        return None;
    }
    let digits = [&value[..point], fraction].concat();
    // Where the point is among the digits, zeros in front of them and after them.
    let point = i64::try_from(point).ok()?.checked_add(exponent)?;
    let digit = |place: i64| match usize::try_from(place).ok().and_then(|at| digits.get(at)) {
        Some(digit) => i64::from(digit - b'0'),
        None => 0,
    };
    let mut seconds = 0_i64;
    for place in 0..point.min(digits.len() as i64 + EXPONENT_MAX) {
        seconds = seconds.checked_mul(10)?.checked_add(digit(place))?;
    }
    let nanoseconds = (point..point.checked_add(9)?).fold(0, |sum, place| sum * 10 + digit(place));
    let nanoseconds = u32::try_from(nanoseconds).ok()?;
    Some(Some(match (is_negative, nanoseconds) {
        (false, _) => Time { seconds, nanoseconds },
        (true, 0) => Time { seconds: -seconds, nanoseconds: 0 },
        (true, _) => Time { seconds: -seconds - 1, nanoseconds: 1_000_000_000 - nanoseconds },
    }))
}

/// The largest exponent of a time, up and down: beyond, it is no time, or none but 0.
const EXPONENT_MAX: i64 = 400;

/// `-05`, `+9`.
fn exponent(value: &[u8]) -> Option<i64> {
    let (digits, sign) = match value {
        [b'-', digits @ ..] => (digits, -1),
        [b'+', digits @ ..] => (digits, 1),
        digits => (digits, 1),
    };
    let exponent = i64::try_from(number(digits)??).ok()?;
    (exponent <= EXPONENT_MAX).then_some(sign * exponent)
}

/// `%3D` becomes `=`, where the code is one that the writer escapes.
fn percent_decoded(name: &[u8], escaped: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .filter(|code| escaped(*code));
        decoded.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    decoded
}

/// With or without padding.
fn base64_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    let mut bytes = Vec::with_capacity(end / 4 * 3 + 3);
    let (mut bits, mut count) = (0_u32, 0);
    for letter in &text[..end] {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_bounded_number_of_attributes() {
        let mut records = Vec::new();
        for number in 0..=ATTRIBUTES_MAX {
            let record = format!("SCHILY.xattr.user.{number:05}=x\n");
            records.extend_from_slice(format!("{} {record}", record.len() + 3).as_bytes());
        }
        let refusal = Extended::default().apply(&records).unwrap_err();
        assert_eq!(refusal, Corruption::TooManyAttributes(ATTRIBUTES_MAX));
    }

    #[test]
    fn global_headers_that_add_up_are_bounded() {
        let mut extended = Extended::default();
        let mut refusal = None;
        for number in 0..40 {
            let record = format!("SCHILY.xattr.user.{number:02}={}\n", "x".repeat(1_000_000));
            let record = format!("{} {record}", record.len() + 8);
            refusal = extended.apply(record.as_bytes()).err();
            if refusal.is_some() {
                assert!(number > 10, "{number}");
                break;
            }
        }
        assert_eq!(refusal, Some(Corruption::AttributesTooLarge(ATTRIBUTE_BYTES_MAX)));
    }

    #[test]
    fn times_are_rounded_down() {
        let of = |text: &str| {
            time(text.as_bytes()).flatten().map(|time| (time.seconds, time.nanoseconds))
        };
        assert_eq!(of("12"), Some((12, 0)));
        assert_eq!(of("1.5"), Some((1, 500_000_000)));
        assert_eq!(of("-1.25"), Some((-2, 750_000_000)));
        assert_eq!(of("3.0000000019"), Some((3, 1)));
        assert_eq!(of("1e-05"), Some((0, 10_000)));
        assert_eq!(of("-1e-05"), Some((-1, 999_990_000)));
        assert_eq!(of("1.7e+09"), Some((1_700_000_000, 0)));
        assert_eq!(of("1.23456789012E9"), Some((1_234_567_890, 120_000_000)));
        assert_eq!(of("0e400"), Some((0, 0)));
        assert_eq!(of("1e-400"), Some((0, 0)));
        assert_eq!(of("0012.50"), Some((12, 500_000_000)));
        for wrong in [
            "x",
            "1.x",
            "--1",
            "99999999999999999999",
            "1e",
            "1e+",
            "e5",
            ".5",
            "1e-5.5",
            "1e--5",
            "1e19",
            "1e400",
            "1e99999999999999999999",
            "nan",
            "inf",
        ] {
            assert_eq!(time(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn records_that_do_not_fit_are_refused() {
        for wrong in [
            "8 path=a\n",
            "99 path=abc\n",
            "x path=a\n",
            "3 \n",
            "0 path=a\n",
            "10 pathabcd\n",
            "12 uid=-100\n",
        ] {
            assert!(Extended::default().apply(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let mut extended = Extended::default();
        extended.apply(b"10 path=a\n12 uid=70000\n").unwrap_err();
        extended.apply(b"10 path=a\n13 uid=70000\n").unwrap();
        assert_eq!((extended.path.as_deref(), extended.uid), (Some(&b"a"[..]), Some(70000)));
    }

    #[test]
    fn both_spellings_of_an_attribute() {
        let mut extended = Extended::default();
        extended.record(b"LIBARCHIVE.xattr.user.a%20b", b"AAEC/w").unwrap();
        extended.record(b"SCHILY.xattr.user.c%3Dd%20", b"x\ny").unwrap();
        let names: Vec<_> =
            extended.attributes.iter().map(|attribute| attribute.name.as_slice()).collect();
        assert_eq!(names, [&b"user.a b"[..], b"user.c=d%20"]);
        assert_eq!(extended.attributes[0].value, [0, 1, 2, 255]);
        assert_eq!(extended.record(b"LIBARCHIVE.xattr.user.a", b"**"), None);
    }
}
