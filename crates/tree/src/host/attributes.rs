//! Extended attributes of the host's files.
use super::{Links, path_of};
use extant_format::attribute::Attribute;
use rustix::fd::BorrowedFd;
use rustix::fs::{getxattr, lgetxattr, listxattr, llistxattr};
use rustix::io::Errno;

/// The longest list of names of attributes, and the longest value, that Linux gives.
const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;

/// The attributes of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attributes {
    /// Those that have a value.
    pub readable: Vec<Attribute>,
    /// Names that the host lists and has no value for, and why.
    pub unreadable: Vec<(Vec<u8>, Errno)>,
}

/// The attributes of a name in a folder; none on a file system that has none.
///
/// # Errors
/// The host's, about the list of names.
pub fn attributes(folder: BorrowedFd<'_>, name: &[u8], links: Links) -> Result<Attributes, Errno> {
    // There is no such call that takes a folder and a name.
    attributes_at(&[path_of(folder).as_bytes(), b"/", name].concat(), links)
}

/// The attributes of a path.
///
/// # Errors
/// As [`attributes`].
pub fn attributes_at(path: &[u8], links: Links) -> Result<Attributes, Errno> {
    let mut found = Attributes::default();
    for name in attribute_names(path, links)? {
        let value = grown(|buffer| match links {
            Links::Follow => getxattr(path, name.as_slice(), buffer),
            Links::Stay => lgetxattr(path, name.as_slice(), buffer),
        });
        match value {
            Ok(value) => found.readable.push(Attribute { name, value }),
            Err(error) => found.unreadable.push((name, error)),
        }
    }
    if !found.unreadable.is_empty() {
        // One that was taken away meanwhile is none.
        let names = attribute_names(path, links)?;
        found.unreadable.retain(|(name, _)| names.contains(name));
    }
    Ok(found)
}

fn attribute_names(path: &[u8], links: Links) -> Result<Vec<Vec<u8>>, Errno> {
    let list = grown(|buffer| match links {
        Links::Follow => listxattr(path, buffer),
        Links::Stay => llistxattr(path, buffer),
    });
    let list = match list {
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
        list => list?,
    };
    let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}

/// What a call puts into a buffer: a small one first, since most lists are empty and most values
/// short.
fn grown(call: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut small = [0; 256];
    match call(&mut small) {
        Ok(length) => Ok(small.get(..length).unwrap_or_default().to_vec()),
        Err(Errno::RANGE) => {
            let mut large = vec![0; ATTRIBUTE_BYTES_MAX];
            let length = call(&mut large)?;
            large.truncate(length);
            Ok(large)
        }
        Err(error) => Err(error),
    }
}
