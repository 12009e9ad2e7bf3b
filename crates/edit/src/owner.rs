//! Owners as chown(1) reads them: `0:0`, `www-data:`, `:adm`. Names are those of the image itself:
//! of its `/etc/passwd` and `/etc/group`.
use crate::error::{Error, Result};
use extant_engine::Filesystem;
use std::path::Path;

/// The longest list that is read, in bytes.
const LIST_BYTES_MAX: u64 = 16 << 20;

/// An owner and a group; `None` stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Owner {
    /// Number of the owner.
    pub uid: Option<u32>,
    /// Number of the group.
    pub gid: Option<u32>,
}

/// Which list a name is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum List {
    /// `/etc/passwd`.
    Users,
    /// `/etc/group`.
    Groups,
}

impl List {
    fn path(self) -> &'static Path {
        Path::new(match self {
            List::Users => "/etc/passwd",
            List::Groups => "/etc/group",
        })
    }
}

impl Owner {
    /// Reads `OWNER`, `OWNER:GROUP`, `OWNER:` (and its own group) and `:GROUP`.
    ///
    /// # Errors
    /// A name that the image does not know; those of the engine.
    pub fn parse(filesystem: &Filesystem, text: &str) -> Result<Owner> {
        let Some((user, group)) = text.split_once(':') else {
            return Ok(Owner { uid: Some(number(filesystem, text, List::Users)?), gid: None });
        };
        let uid = match user {
            "" => None,
            user => Some(number(filesystem, user, List::Users)?),
        };
        let gid = match group {
            "" if uid.is_some() => Some(own_group(filesystem, user)?),
            "" => None,
            group => Some(number(filesystem, group, List::Groups)?),
        };
        Ok(Owner { uid, gid })
    }

    /// Reads the name or number of a group.
    ///
    /// # Errors
    /// As [`Owner::parse`].
    pub fn parse_group(filesystem: &Filesystem, text: &str) -> Result<Owner> {
        Ok(Owner { uid: None, gid: Some(number(filesystem, text, List::Groups)?) })
    }
}

/// The number of a user or group: as a name of the image first, then as digits.
///
/// # Errors
/// Neither; those of the engine.
pub fn number(filesystem: &Filesystem, text: &str, list: List) -> Result<u32> {
    if let Some(line) = line_of(filesystem, text, list)? {
        let field = line.split(':').nth(2).and_then(|field| field.parse().ok());
        return field.ok_or_else(|| {
            Error::inside(list.path(), format!("the line of {text:?} has no number"))
        });
    }
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| digits && *number != u32::MAX);
    number.ok_or_else(|| {
        let said = format!("is not in {} of the image", list.path().display());
        Error::usage(text, said).hint("numbers are taken as they are: chown 1000:1000")
    })
}

fn own_group(filesystem: &Filesystem, user: &str) -> Result<u32> {
    let line = line_of(filesystem, user, List::Users)?;
    let field = line.and_then(|line| line.split(':').nth(3)?.parse().ok());
    field.ok_or_else(|| {
        let said = format!("{user}: is not in /etc/passwd of the image, so its group is not known");
        Error::usage(format!("{user}:"), said)
    })
}

/// The line of a name in a list of the image; `None` also where there is no list.
fn line_of(filesystem: &Filesystem, name: &str, list: List) -> Result<Option<String>> {
    let found = crate::tree::found(filesystem, list.path(), crate::tree::Links::Follow)?;
    let Some(metadata) = found else { return Ok(None) };
    if metadata.size > LIST_BYTES_MAX {
        return Err(Error::inside(list.path(), "is too long for a list of names"));
    }
    let bytes = filesystem.read(list.path())?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines();
    let is_its = |line: &&str| line.split(':').next() == Some(name) && !name.is_empty();
    Ok(lines.find(is_its).map(str::to_owned))
}
