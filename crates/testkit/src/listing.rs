//! The listing that `extant ls -lR --json` prints, read and written: one JSON object a line, one
//! line an entry.
//!
//! | field | value |
//! | --- | --- |
//! | `path` | from the root of the image, `/` for the root, `/a/b` below; absent if the bytes are not UTF-8 |
//! | `path_bytes` | then this: the same bytes in base64 |
//! | `type` | `file`, `directory`, `symlink`, `character-device`, `block-device`, `fifo`, `socket` |
//! | `ino`, `links`, `uid`, `gid`, `size` | numbers; size in bytes |
//! | `mode` | the twelve bits of permission as a number (a type in higher bits is ignored) |
//! | `mtime`, `atime`, `ctime`, `crtime` | `[seconds, nanoseconds]`; `crtime` absent where the inode has no room |
//! | `device` | `[major, minor]`, of devices |
//! | `target` or `target_bytes` | where a symbolic link leads, as for `path` |
//! | `xattrs` | an object: name to value in base64; a name that is not UTF-8 is `base64:` and its base64 |
//! | `sha256` | of the bytes of a file, as 64 hexadecimal digits; optional |
//!
//! Attributes have the names and the values that `lgetxattr` returns: ACLs are
//! `system.posix_acl_access` and `system.posix_acl_default` in the form that the kernel hands out.
//! Other fields may be there and are not read.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::walk::{Entry, Kind, Time, name_links};

/// The entries of a whole listing.
///
/// # Errors
/// The number of the line that is no record, and why not.
pub fn parse(text: &str) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let at = |error: String| format!("line {}: {error}", number + 1);
        let value: Value = serde_json::from_str(line).map_err(|error| at(error.to_string()))?;
        entries.push(entry(&value).map_err(at)?);
    }
    entries.sort_by(|left, right| {
        left.path.as_os_str().as_bytes().cmp(right.path.as_os_str().as_bytes())
    });
    name_links(&mut entries);
    Ok(entries)
}

/// The line for one entry, without its end.
pub fn record(entry: &Entry) -> String {
    let mut record = Map::new();
    let path = [b"/", entry.path.as_os_str().as_bytes()].concat();
    put_bytes(&mut record, "path", &path);
    record.insert("type".into(), kind_name(entry.kind).into());
    record.insert("ino".into(), entry.ino.into());
    record.insert("mode".into(), entry.mode.into());
    record.insert("links".into(), entry.links.into());
    record.insert("uid".into(), entry.uid.into());
    record.insert("gid".into(), entry.gid.into());
    record.insert("size".into(), entry.size.into());
    let times =
        [("mtime", Some(entry.mtime)), ("atime", Some(entry.atime)), ("ctime", Some(entry.ctime))];
    for (name, time) in times.into_iter().chain([("crtime", entry.crtime)]) {
        if let Some((seconds, nanoseconds)) = time {
            record.insert(name.into(), json!([seconds, nanoseconds]));
        }
    }
    if matches!(entry.kind, Kind::CharacterDevice | Kind::BlockDevice) {
        record.insert("device".into(), json!([entry.device.0, entry.device.1]));
    }
    if let Some(target) = &entry.target {
        put_bytes(&mut record, "target", target);
    }
    let attributes =
        entry.attributes.iter().map(|(name, value)| (attribute_key(name), base64(value).into()));
    record.insert("xattrs".into(), Value::Object(attributes.collect()));
    if let Some(sum) = &entry.sha256 {
        record.insert(
            "sha256".into(),
            sum.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
        );
    }
    Value::Object(record).to_string()
}

fn kind_name(kind: Kind) -> &'static str {
    Kind::NAMES.iter().find(|(known, _)| *known == kind).map_or("", |(_, name)| name)
}

fn put_bytes(record: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => record.insert(name.into(), text.into()),
        Err(_) => record.insert(format!("{name}_bytes"), base64(bytes).into()),
    };
}

fn attribute_key(name: &[u8]) -> String {
    std::str::from_utf8(name).map_or_else(|_| format!("base64:{}", base64(name)), str::to_owned)
}

fn entry(record: &Value) -> Result<Entry, String> {
    let path = bytes(record, "path")?.ok_or("no path")?;
    let path = path.strip_prefix(b"/").ok_or("the path does not begin with /")?;
    let kind = record["type"].as_str().ok_or("no type")?;
    let (kind, _) = Kind::NAMES
        .iter()
        .find(|(_, name)| *name == kind)
        .ok_or_else(|| format!("no type {kind}"))?;
    Ok(Entry {
        path: PathBuf::from(OsStr::from_bytes(path)),
        kind: *kind,
        ino: number(record, "ino")?,
        mode: number::<u32>(record, "mode")? & 0o7777,
        links: number(record, "links")?,
        uid: number(record, "uid")?,
        gid: number(record, "gid")?,
        size: number(record, "size")?,
        atime: time(record, "atime")?.ok_or("no atime")?,
        mtime: time(record, "mtime")?.ok_or("no mtime")?,
        ctime: time(record, "ctime")?.ok_or("no ctime")?,
        crtime: time(record, "crtime")?,
        device: device(record)?,
        target: bytes(record, "target")?,
        attributes: attributes(record)?,
        first_name: None,
        data: None,
        digest: None,
        sha256: sha256(record)?,
    })
}

fn bytes(record: &Value, name: &str) -> Result<Option<Vec<u8>>, String> {
    if let Some(text) = record[name].as_str() {
        return Ok(Some(text.as_bytes().to_vec()));
    }
    let name = format!("{name}_bytes");
    record[&name]
        .as_str()
        .map(|text| from_base64(text).ok_or(format!("{name} is no base64")))
        .transpose()
}

fn number<T: TryFrom<u64>>(record: &Value, name: &str) -> Result<T, String> {
    let value = record[name].as_u64().and_then(|value| T::try_from(value).ok());
    value.ok_or_else(|| format!("{name} is no such number: {}", record[name]))
}

fn time(record: &Value, name: &str) -> Result<Option<Time>, String> {
    if record[name].is_null() {
        return Ok(None);
    }
    let pair = (
        record[name][0].as_i64(),
        record[name][1].as_u64().and_then(|value| u32::try_from(value).ok()),
    );
    match pair {
        (Some(seconds), Some(nanoseconds)) => Ok(Some((seconds, nanoseconds))),
        _ => Err(format!("{name} is no time: {}", record[name])),
    }
}

fn device(record: &Value) -> Result<(u32, u32), String> {
    if record["device"].is_null() {
        return Ok((0, 0));
    }
    let part =
        |at: usize| record["device"][at].as_u64().and_then(|value| u32::try_from(value).ok());
    part(0).zip(part(1)).ok_or_else(|| format!("no device: {}", record["device"]))
}

fn attributes(record: &Value) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, String> {
    let xattrs = record["xattrs"].as_object().ok_or("no xattrs")?;
    let pair = |(name, value): (&String, &Value)| {
        let key = match name.strip_prefix("base64:") {
            Some(text) => from_base64(text),
            None => Some(name.as_bytes().to_vec()),
        };
        let value = value.as_str().and_then(from_base64);
        key.zip(value).ok_or_else(|| format!("xattr {name} is no base64"))
    };
    xattrs.iter().map(pair).collect()
}

fn sha256(record: &Value) -> Result<Option<[u8; 32]>, String> {
    let Some(text) = record["sha256"].as_str() else {
        return Ok(None);
    };
    let byte = |at: usize| {
        text.get(2 * at..2 * at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok())
    };
    let sum: Option<Vec<u8>> = (0..32).map(byte).collect();
    match sum.map(<[u8; 32]>::try_from) {
        Some(Ok(sum)) if text.len() == 64 => Ok(Some(sum)),
        _ => Err(format!("sha256 is no sum: {text}")),
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 with padding.
pub fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// The bytes of padded base64, unless it is none.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::new();
    let (mut bits, mut held) = (0u32, 0);
    for digit in digits.bytes() {
        let value = DIGITS.iter().position(|known| *known == digit)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 255).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_has_the_known_values() {
        let known =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, coded) in known {
            assert_eq!(base64(plain.as_bytes()), coded);
            assert_eq!(from_base64(coded).as_deref(), Some(plain.as_bytes()));
        }
        assert_eq!(from_base64("Zg="), None);
        assert_eq!(from_base64("Z*=="), None);
        assert_eq!(from_base64("===="), None);
    }

    #[test]
    fn a_record_reads_back_with_bytes_that_are_no_text() {
        let mut attributes = BTreeMap::new();
        attributes.insert(b"user.plain".to_vec(), vec![0, 255]);
        attributes.insert(b"user.\xff".to_vec(), vec![]);
        let entry = Entry {
            path: PathBuf::from(OsStr::from_bytes(b"a/\xfe")),
            kind: Kind::Symlink,
            ino: 12,
            mode: 0o777,
            links: 1,
            uid: 70000,
            gid: u32::MAX,
            size: 3,
            atime: (-2_147_483_648, 0),
            mtime: (15_032_385_535, 999_999_999),
            ctime: (0, 1),
            crtime: None,
            device: (0, 0),
            target: Some(b"x\xff\n".to_vec()),
            attributes,
            first_name: Some(PathBuf::from(OsStr::from_bytes(b"a/\xfe"))),
            data: None,
            digest: None,
            sha256: Some([171; 32]),
        };
        let text = record(&entry);
        assert!(!text.contains('\n'));
        assert_eq!(parse(&text), Ok(vec![entry]));
        assert!(parse("{}").is_err_and(|error| error.starts_with("line 1: no path")));
        assert!(parse(&text.replace("\"symlink\"", "\"door\"")).is_err());
    }
}
