//! Android's canned `fs_config`: a path, a user, a group, a mode, and perhaps capabilities and a
//! label, for every file of a partition.
//!
//! ```text
//! system/bin/run-as 0 2000 0750 capabilities=0xc0 selabel=u:object_r:runas_exec:s0
//! ```
//! Paths are those on the running system, without a slash in front. A line that begins with a space
//! is that of the root.
use super::capability::Capabilities;
use super::grant::Grant;
use super::line::Line;
use super::{Subject, Used};
use crate::error::Error;
use rustc_hash::FxHashMap;

/// The lines, by path from the root of the image.
#[derive(Clone, Debug)]
pub(super) struct FsConfig {
    /// The number of the line, and what it gives. A path starts without a slash; the root is empty.
    grants: FxHashMap<Vec<u8>, (usize, Grant)>,
    /// Where the image is mounted, without a slash in front.
    mount_point: Vec<u8>,
}

impl FsConfig {
    pub(super) fn parse<'a>(
        lines: impl Iterator<Item = Line<'a>>,
        mount_point: &[u8],
    ) -> Result<FsConfig, Error> {
        let mut grants = FxHashMap::default();
        for line in lines {
            let (path, grant) = entry(&line)?;
            // The first of several lines counts.
            grants.entry(path).or_insert((line.number, grant));
        }
        let mount_point = mount_point.strip_prefix(b"/").unwrap_or(mount_point).to_vec();
        Ok(FsConfig { grants, mount_point })
    }

    pub(super) fn grant(&self, subject: &Subject<'_>, used: &mut Used) -> Grant {
        let path = subject.path.strip_prefix(b"/").unwrap_or(subject.path);
        let path = match (&self.mount_point[..], path) {
            (b"", path) => path.to_vec(),
            (mount_point, b"") => mount_point.to_vec(),
            (mount_point, path) => [mount_point, b"/", path].concat(),
        };
        let root = || self.grants.get(&b""[..]).filter(|_| subject.path == b"/");
        match self.grants.get(&path).or_else(root) {
            Some((line, grant)) => {
                used.note(*line);
                grant.clone()
            }
            None => Grant::default(),
        }
    }
}

fn entry(line: &Line<'_>) -> Result<(Vec<u8>, Grant), Error> {
    let mut words = line.words();
    let path = match line.text.first() {
        Some(b' ' | b'\t') => &b""[..],
        _ => words.next().unwrap_or_default(),
    };
    let mut next = |what: &str| words.next().ok_or_else(|| line.wrong(&format!("has no {what}")));
    let mut grant = Grant {
        uid: Some(line.number(next("user")?, "the user")?),
        gid: Some(line.number(next("group")?, "the group")?),
        permissions: Some(line.mode(next("mode")?)?),
        ..Grant::default()
    };
    for word in words {
        if let Some(mask) = word.strip_prefix(b"capabilities=") {
            grant.capabilities = Some(Capabilities::of_mask(mask_of(line, mask)?));
        } else if let Some(label) = word.strip_prefix(b"selabel=") {
            grant.label = Some(label.to_vec());
        } else {
            return Err(line.wrong("has a word that is neither capabilities= nor selabel="));
        }
    }
    let path = path.strip_prefix(b"/").unwrap_or(path);
    Ok((path.to_vec(), grant))
}

fn mask_of(line: &Line<'_>, word: &[u8]) -> Result<u64, Error> {
    let text = std::str::from_utf8(word).ok();
    let mask = text.and_then(|text| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    });
    mask.ok_or_else(|| line.wrong("the capabilities are not a number"))
}
