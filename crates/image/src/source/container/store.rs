//! Where the files of a container image are: a folder, or the members of an archive.
//!
//! A folder is not left, whatever links are in it. Documents are read whole and bounded; blobs are
//! checked against their descriptors, documents at once, layers while they are read.
use super::blob::Blob;
use super::digest::{Digest, Hasher};
use super::document::{DOCUMENT_BYTES_MAX, Descriptor};
use crate::error::{ContainerFault, Error, ErrorKind};
use crate::source::members::Members;
use extant_archive::printable;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;

/// The files of a container image.
pub(super) enum Store {
    Folder { folder: OwnedFd, name: String },
    Members(Members),
}

impl Store {
    /// What messages call it.
    pub(super) fn name(&self) -> &str {
        match self {
            Store::Folder { name, .. } => name,
            Store::Members(members) => members.name(),
        }
    }

    /// A failure of this store: `what` begins with what it is about.
    pub(super) fn failure(&self, what: impl std::fmt::Display) -> Error {
        Error::new(format!("{}: {what}", self.name()))
            .of(ErrorKind::Container(ContainerFault::Damaged))
    }

    /// The file at a path without `..`; `None` if there is none.
    ///
    /// # Errors
    /// What is no file, leads out of the folder, or cannot be opened.
    pub(super) fn open(&self, path: &str) -> Result<Option<Blob>, Error> {
        match self {
            Store::Folder { folder, .. } => self.open_in(folder, path),
            Store::Members(members) => {
                let Some(body) = members.find(path.as_bytes()) else { return Ok(None) };
                let file = members.file().try_clone();
                let file = file.map_err(|error| Error::io(members.name(), &error))?;
                Ok(Some(Blob::member(file, body)))
            }
        }
    }

    fn open_in(&self, folder: &OwnedFd, path: &str) -> Result<Option<Blob>, Error> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let shown = || format!("{}/{}", self.name(), printable(path.as_bytes()));
        let opened = match openat2(folder, path, flags, Mode::empty(), inside) {
            // A kernel or a sandbox without that call: then no link is followed at all.
            Err(Errno::NOSYS | Errno::PERM) => open_without_links(folder, path, flags),
            opened => opened,
        };
        let file = match opened {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::XDEV | Errno::LOOP) => {
                let message = format!("{}: is a link that leads out of the folder", shown());
                return Err(
                    Error::new(message).of(ErrorKind::Container(ContainerFault::LeavesFolder))
                );
            }
            Err(error) => return Err(Error::io(shown(), &error.into())),
        };
        let metadata = file.metadata().map_err(|error| Error::io(shown(), &error))?;
        match metadata.is_file() {
            true => Ok(Some(Blob::file(file, metadata.len()))),
            false => Err(Error::new(format!("{}: is no regular file", shown()))),
        }
    }

    /// The digest of a descriptor.
    ///
    /// # Errors
    /// It is none, or of another kind than sha256 and sha512.
    pub(super) fn digest(&self, text: &str, what: &str) -> Result<Digest, Error> {
        Digest::parse(text).ok_or_else(|| {
            let shown = printable(text.as_bytes());
            self.failure(format!("{what}: {shown} is no digest of sha256 or sha512"))
        })
    }

    /// The blob of a descriptor, of the size that this says; `what` is what messages call it.
    ///
    /// # Errors
    /// It is missing, or has another size.
    pub(super) fn blob(&self, of: &Descriptor, what: &str) -> Result<(Blob, Digest), Error> {
        let digest = self.digest(&of.digest, what)?;
        let blob = self.open(&digest.path())?.ok_or_else(|| {
            let error = self.failure(format!("{what} ({digest}): is missing"));
            error.of(ErrorKind::Container(ContainerFault::Missing))
        })?;
        if blob.size() != of.size {
            let (size, said) = (blob.size(), of.size);
            return Err(self.failure(format!("{what} ({digest}): has {size} bytes, not {said}")));
        }
        Ok((blob, digest))
    }

    /// The document of a descriptor, whose digest was compared.
    ///
    /// # Errors
    /// As [`Store::blob`]; another digest; more than [`DOCUMENT_BYTES_MAX`].
    pub(super) fn document(&self, of: &Descriptor, what: &str) -> Result<Vec<u8>, Error> {
        let (blob, digest) = self.blob(of, what)?;
        let bytes = self.read(&blob, &format!("{what} ({digest})"))?;
        self.compare(&bytes, &digest, what)?;
        Ok(bytes)
    }

    /// Refuses bytes of another digest.
    ///
    /// # Errors
    /// They have one.
    pub(super) fn compare(&self, bytes: &[u8], digest: &Digest, what: &str) -> Result<(), Error> {
        let mut hasher: Hasher = digest.hasher();
        hasher.update(bytes);
        let has = hasher.finish();
        match has == *digest {
            true => Ok(()),
            false => Err(self.failure(format!("{what} ({digest}): has the digest {has}"))),
        }
    }

    /// The bytes of a document.
    ///
    /// # Errors
    /// More than [`DOCUMENT_BYTES_MAX`]; the host's.
    pub(super) fn read(&self, blob: &Blob, what: &str) -> Result<Vec<u8>, Error> {
        if blob.size() > DOCUMENT_BYTES_MAX {
            let size = blob.size();
            return Err(self.failure(format!(
                "{what}: has {size} bytes; at most {DOCUMENT_BYTES_MAX} of a document are read"
            )));
        }
        let mut bytes = Vec::new();
        let read = blob.reader().read_to_end(&mut bytes);
        read.map_err(|error| Error::io(format!("{}: {what}", self.name()), &error))?;
        Ok(bytes)
    }

    /// The JSON of a document.
    ///
    /// # Errors
    /// It is none, or lacks a field.
    pub(super) fn parse<T: for<'a> serde::Deserialize<'a>>(
        &self,
        bytes: &[u8],
        what: &str,
    ) -> Result<T, Error> {
        serde_json::from_slice(bytes).map_err(|error| {
            let why = printable(error.to_string().as_bytes());
            self.failure(format!("{what}: is not as it should be: {why}"))
        })
    }
}

/// Opens a file below a folder step by step, without following a link.
fn open_without_links(folder: &OwnedFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut at = openat(folder, c".", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut steps = path.split('/').peekable();
    while let Some(step) = steps.next() {
        let kind = match steps.peek() {
            Some(_) => OFlags::DIRECTORY | OFlags::CLOEXEC,
            None => flags,
        };
        at = openat(&at, step, kind | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_link_leads_out_of_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        std::fs::create_dir(path.join("in")).unwrap();
        std::fs::write(path.join("in/file"), "x").unwrap();
        for (link, target) in [("near", "in/file"), ("far", "/etc/passwd"), ("up", "../../etc")] {
            std::os::unix::fs::symlink(target, path.join(link)).unwrap();
        }
        let open = || rustix::fs::open(path, OFlags::DIRECTORY, Mode::empty()).unwrap();
        let store = Store::Folder { folder: open(), name: "x".into() };
        assert!(store.open("near").unwrap().is_some() && store.open("none").unwrap().is_none());
        for out in ["far", "up", "../x", "in"] {
            assert!(store.open(out).is_err(), "{out}");
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        assert!(open_without_links(&open(), "in/file", flags).is_ok());
        for link in ["near", "far"] {
            assert_eq!(open_without_links(&open(), link, flags).unwrap_err(), Errno::LOOP);
        }
    }
}
