//! By which paths inodes are reached.
use super::{NameId, ObjectId, Survey};
use extant_format::Ino;
use std::collections::BTreeMap;

/// Longer paths are not made.
const PATH_BYTES_MAX: usize = 4096;

impl Survey {
    /// A path from the root, which begins with a slash, to each of these inodes that names lead to,
    /// by the first name of each directory on the way. None that is longer than 4,096 bytes.
    pub fn paths(&self, inodes: impl IntoIterator<Item = Ino>) -> BTreeMap<Ino, Vec<u8>> {
        let mut first: Vec<Option<NameId>> = vec![None; self.object_count() as usize];
        for name in (0..self.name_count()).map(NameId) {
            if let Ok(object) = self.object(self.leads_to(name)) {
                let known = &mut first[object.0 as usize];
                *known = known.or(Some(name));
            }
        }
        let path = |ino: Ino| Some((ino, self.path(&first, self.object(ino).ok()?)?));
        inodes.into_iter().filter_map(path).collect()
    }

    fn path(&self, first: &[Option<NameId>], object: ObjectId) -> Option<Vec<u8>> {
        let (mut names, mut bytes, mut here) = (Vec::new(), 0, object);
        while self.ino(here) != Ino::ROOT {
            let name = (*first.get(here.0 as usize)?)?;
            // Each name has a byte and a slash: what goes in circles ends, too.
            bytes += 1 + self.name(name).len();
            if bytes > PATH_BYTES_MAX {
                return None;
            }
            names.push(name);
            here = self.directory_of(name);
        }
        if names.is_empty() {
            return Some(b"/".to_vec());
        }
        let steps = names.iter().rev().flat_map(|name| [&b"/"[..], self.name(*name)]);
        Some(steps.flatten().copied().collect())
    }
}
