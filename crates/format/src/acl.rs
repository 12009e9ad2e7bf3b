//! POSIX access lists: the form that getxattr gives (version 2, 8 bytes an entry) and the form on disk (version 1, 4 or 8).

/// From the getxattr form to the disk form; `None` when it is not a well-formed list.
pub fn to_disk(_value: &[u8]) -> Option<Vec<u8>> {
    todo!()
}
/// From the disk form to the getxattr form; `None` when it is not a well-formed list.
pub fn from_disk(_value: &[u8]) -> Option<Vec<u8>> {
    todo!()
}
