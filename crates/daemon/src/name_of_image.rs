//! Whether the name of an image still leads to the file that a server has open: if not, what was
//! written through the mount is not where a user will look for it.
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The name of an image, and the file that it led to when it was mounted.
pub struct NameOfImage {
    path: PathBuf,
    /// Device and inode number; `None` for what is no regular file.
    identity: Option<(u64, u64)>,
}

fn identity(path: &Path) -> std::io::Result<Option<(u64, u64)>> {
    let metadata = std::fs::metadata(path)?;
    Ok(metadata.is_file().then(|| (metadata.dev(), metadata.ino())))
}

impl NameOfImage {
    /// What a path leads to now.
    pub fn of(path: &Path) -> NameOfImage {
        NameOfImage { path: path.to_owned(), identity: identity(path).ok().flatten() }
    }

    /// What is to be said if it does not lead there any more.
    pub fn lost(&self, folder: &Path) -> Option<String> {
        let before = self.identity?;
        let (path, folder) = (self.path.display(), folder.display());
        match identity(&self.path) {
            Ok(Some(now)) if now == before => None,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(format!(
                "{path}: was deleted or moved while it was mounted on {folder}: what was written \
                 there is not under this name"
            )),
            // What cannot be looked at is not known to be lost.
            Err(_) => None,
            Ok(_) => Some(format!(
                "{path}: is another file than the one that was mounted on {folder}: what was \
                 written there is not in it"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_lost_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("x.img");
        std::fs::write(&image, "1").unwrap();
        let name = NameOfImage::of(&image);
        assert_eq!(name.lost(Path::new("/mnt")), None);
        std::fs::write(folder.path().join("y"), "2").unwrap();
        std::fs::rename(folder.path().join("y"), &image).unwrap();
        assert!(name.lost(Path::new("/mnt")).unwrap().contains("another file"));
        std::fs::remove_file(&image).unwrap();
        assert!(name.lost(Path::new("/mnt")).unwrap().contains("was deleted"));
    }
}
