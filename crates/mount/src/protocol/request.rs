//! Requests: messages of the kernel, taken apart.
//!
//! Nothing here trusts the bytes: lengths are checked, and names have no NUL in them.
use super::numbers::operation;
use super::wire;
use std::fmt;
use zerocopy::FromBytes;

/// One request.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Its number, which the answer repeats.
    pub unique: u64,
    /// The node that it is about.
    pub node: u64,
    /// User of the process that asks: of its file system calls.
    pub uid: u32,
    /// Group of the process that asks.
    pub gid: u32,
    /// The process that asks; 0 for the kernel, and for processes that cannot be seen from here.
    pub pid: u32,
    /// What is asked.
    pub operation: Operation<'a>,
}

/// What is asked of a node. Names are single parts of paths.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Operation<'a> {
    Init {
        init: wire::Init,
        flags: u64,
    },
    Destroy,
    Lookup {
        name: &'a [u8],
    },
    Forget {
        lookups: u64,
    },
    BatchForget {
        forgets: Forgets<'a>,
    },
    GetAttributes {
        handle: Option<u64>,
    },
    SetAttributes(wire::SetAttributes),
    ReadLink,
    SymbolicLink {
        name: &'a [u8],
        target: &'a [u8],
    },
    MakeNode {
        arguments: wire::MakeNode,
        name: &'a [u8],
    },
    MakeDirectory {
        arguments: wire::MakeDirectory,
        name: &'a [u8],
    },
    Unlink {
        name: &'a [u8],
    },
    RemoveDirectory {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        to: u64,
        to_name: &'a [u8],
        flags: u32,
    },
    Link {
        node: u64,
        name: &'a [u8],
    },
    Open(wire::Open),
    Create {
        arguments: wire::Create,
        name: &'a [u8],
    },
    TemporaryFile {
        arguments: wire::Create,
    },
    Read(wire::Read),
    Write {
        arguments: wire::Write,
        data: &'a [u8],
    },
    Flush {
        handle: u64,
    },
    Release {
        handle: u64,
    },
    Sync {
        handle: u64,
        data_only: DataOnly,
    },
    Allocate(wire::Allocate),
    Seek(wire::Seek),
    /// The flag tells whether the answer has 64 bits.
    CopyRange(wire::CopyRange, CopyAnswer),
    Ioctl {
        arguments: wire::Ioctl,
        input: &'a [u8],
    },
    OpenDirectory(wire::Open),
    ReadDirectory(wire::Read),
    ReadDirectoryPlus(wire::Read),
    ReleaseDirectory {
        handle: u64,
    },
    SyncDirectory {
        handle: u64,
    },
    StatFs,
    SyncFileSystem,
    SetXattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
    },
    GetXattr {
        name: &'a [u8],
        size: u32,
    },
    ListXattr {
        size: u32,
    },
    RemoveXattr {
        name: &'a [u8],
    },
    Access {
        mask: u32,
    },
    Interrupt {
        unique: u64,
    },
    /// An operation with this number, which this version does not know.
    Unknown(u32),
}

/// How much a sync makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataOnly {
    /// Data, and what is needed to read it (fdatasync).
    Yes,
    /// All of the inode (fsync).
    No,
}

/// The form of the answer to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyAnswer {
    /// A [`wire::WriteReply`].
    Short,
    /// A [`wire::CopyRangeReply`].
    Long,
}

/// The nodes of a batch, with the look-ups to be forgotten of each.
#[derive(Clone, Copy)]
pub struct Forgets<'a>(&'a [u8]);

impl Iterator for Forgets<'_> {
    type Item = wire::ForgetOne;
    fn next(&mut self) -> Option<wire::ForgetOne> {
        let (one, rest) = wire::ForgetOne::read_from_prefix(self.0).ok()?;
        self.0 = rest;
        Some(one)
    }
}

impl fmt::Debug for Forgets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// A message that is not a request. If it has a header, it can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The number to answer to, if there was a header.
    pub unique: Option<u64>,
}

/// What is left of a message.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn value<T: FromBytes>(&mut self) -> Option<T> {
        let (value, rest) = T::read_from_prefix(self.0).ok()?;
        self.0 = rest;
        Some(value)
    }

    /// A text up to its NUL, which is not part of it.
    fn text(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let (text, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        Some(text)
    }

    fn bytes(&mut self, count: u32) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count as usize)?;
        self.0 = rest;
        Some(bytes)
    }
}

impl<'a> Request<'a> {
    /// Takes one message apart: all of `message`, without its extensions.
    ///
    /// # Errors
    /// `Malformed` if it is shorter than its header or its operation need.
    pub fn parse(message: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let mut rest = Rest(message);
        let header: wire::RequestHeader = rest.value().ok_or(Malformed { unique: None })?;
        let malformed = Malformed { unique: Some(header.unique) };
        let extensions = usize::from(header.extension_words) * 8;
        if header.length as usize != message.len() || extensions > rest.0.len() {
            return Err(malformed);
        }
        rest.0 = &rest.0[..rest.0.len() - extensions];
        let operation = operation(header.operation, &mut rest).ok_or(malformed)?;
        let wire::RequestHeader { unique, node, uid, gid, pid, .. } = header;
        Ok(Request { unique, node, uid, gid, pid, operation })
    }
}

/// The operation with a number, and its arguments; `None` if there are too few bytes.
fn operation<'a>(number: u32, rest: &mut Rest<'a>) -> Option<Operation<'a>> {
    Some(match number {
        operation::INIT => {
            let init: wire::Init = rest.value()?;
            let more = rest.value::<wire::InitMore>().unwrap_or_default();
            let flags = u64::from(init.flags) | u64::from(more.flags) << 32;
            Operation::Init { init, flags }
        }
        operation::DESTROY => Operation::Destroy,
        operation::FORGET => Operation::Forget { lookups: rest.value::<wire::Forget>()?.lookups },
        operation::BATCH_FORGET => {
            let batch: wire::BatchForget = rest.value()?;
            let bytes = batch.count.checked_mul(size_of::<wire::ForgetOne>() as u32)?;
            Operation::BatchForget { forgets: Forgets(rest.bytes(bytes)?) }
        }
        operation::INTERRUPT => {
            Operation::Interrupt { unique: rest.value::<wire::Interrupt>()?.unique }
        }
        operation::STAT_FS => Operation::StatFs,
        operation::SYNC_FILE_SYSTEM => Operation::SyncFileSystem,
        operation::LOOKUP..=operation::LINK
        | operation::RENAME_WITH_FLAGS
        | operation::SET_XATTR..=operation::REMOVE_XATTR
        | operation::ACCESS => of_node(number, rest)?,
        _ => of_open(number, rest)?,
    })
}

/// Operations on names and attributes.
fn of_node<'a>(number: u32, rest: &mut Rest<'a>) -> Option<Operation<'a>> {
    Some(match number {
        operation::LOOKUP => Operation::Lookup { name: rest.text()? },
        operation::GET_ATTRIBUTES => {
            let get: wire::GetAttributes = rest.value()?;
            let has_handle = get.flags & super::numbers::of::GET_ATTRIBUTES_HANDLE != 0;
            Operation::GetAttributes { handle: has_handle.then_some(get.handle) }
        }
        operation::SET_ATTRIBUTES => Operation::SetAttributes(rest.value()?),
        operation::READ_LINK => Operation::ReadLink,
        operation::SYMBOLIC_LINK => {
            Operation::SymbolicLink { name: rest.text()?, target: rest.text()? }
        }
        operation::MAKE_NODE => {
            Operation::MakeNode { arguments: rest.value()?, name: rest.text()? }
        }
        operation::MAKE_DIRECTORY => {
            Operation::MakeDirectory { arguments: rest.value()?, name: rest.text()? }
        }
        operation::UNLINK => Operation::Unlink { name: rest.text()? },
        operation::REMOVE_DIRECTORY => Operation::RemoveDirectory { name: rest.text()? },
        operation::RENAME => {
            let to = rest.value::<wire::Rename>()?.to;
            Operation::Rename { name: rest.text()?, to, to_name: rest.text()?, flags: 0 }
        }
        operation::RENAME_WITH_FLAGS => {
            let wire::RenameWithFlags { to, flags, .. } = rest.value()?;
            Operation::Rename { name: rest.text()?, to, to_name: rest.text()?, flags }
        }
        operation::LINK => {
            Operation::Link { node: rest.value::<wire::Link>()?.node, name: rest.text()? }
        }
        operation::SET_XATTR => {
            let wire::SetAttribute { size, flags } = rest.value()?;
            Operation::SetXattr { name: rest.text()?, value: rest.bytes(size)?, flags }
        }
        operation::GET_XATTR => {
            let size = rest.value::<wire::GetAttribute>()?.size;
            Operation::GetXattr { name: rest.text()?, size }
        }
        operation::LIST_XATTR => {
            Operation::ListXattr { size: rest.value::<wire::GetAttribute>()?.size }
        }
        operation::REMOVE_XATTR => Operation::RemoveXattr { name: rest.text()? },
        operation::ACCESS => Operation::Access { mask: rest.value::<wire::Access>()?.mask },
        other => Operation::Unknown(other),
    })
}

/// Operations on open files and directories, and those that open them.
fn of_open<'a>(number: u32, rest: &mut Rest<'a>) -> Option<Operation<'a>> {
    Some(match number {
        operation::OPEN => Operation::Open(rest.value()?),
        operation::CREATE => Operation::Create { arguments: rest.value()?, name: rest.text()? },
        operation::TEMPORARY_FILE => Operation::TemporaryFile { arguments: rest.value()? },
        operation::READ => Operation::Read(rest.value()?),
        operation::WRITE => {
            let arguments: wire::Write = rest.value()?;
            Operation::Write { arguments, data: rest.bytes(arguments.size)? }
        }
        operation::FLUSH => Operation::Flush { handle: rest.value::<wire::Flush>()?.handle },
        operation::RELEASE => Operation::Release { handle: rest.value::<wire::Release>()?.handle },
        operation::SYNC => {
            let wire::Sync { handle, flags, .. } = rest.value()?;
            let data_only = match flags & super::numbers::of::SYNC_DATA {
                0 => DataOnly::No,
                _ => DataOnly::Yes,
            };
            Operation::Sync { handle, data_only }
        }
        operation::ALLOCATE => Operation::Allocate(rest.value()?),
        operation::SEEK => Operation::Seek(rest.value()?),
        operation::COPY_RANGE => Operation::CopyRange(rest.value()?, CopyAnswer::Short),
        operation::COPY_RANGE_64 => Operation::CopyRange(rest.value()?, CopyAnswer::Long),
        operation::IOCTL => {
            let arguments: wire::Ioctl = rest.value()?;
            Operation::Ioctl { arguments, input: rest.bytes(arguments.in_size)? }
        }
        operation::OPEN_DIRECTORY => Operation::OpenDirectory(rest.value()?),
        operation::READ_DIRECTORY => Operation::ReadDirectory(rest.value()?),
        operation::READ_DIRECTORY_PLUS => Operation::ReadDirectoryPlus(rest.value()?),
        operation::RELEASE_DIRECTORY => {
            Operation::ReleaseDirectory { handle: rest.value::<wire::Release>()?.handle }
        }
        operation::SYNC_DIRECTORY => {
            Operation::SyncDirectory { handle: rest.value::<wire::Sync>()?.handle }
        }
        other => Operation::Unknown(other),
    })
}

#[cfg(test)]
mod tests {
    use super::super::numbers::operation as number;
    use super::super::wire;
    use super::{Malformed, Operation, Request};
    use zerocopy::IntoBytes;

    fn message(operation: u32, parts: &[&[u8]]) -> Vec<u8> {
        let body: usize = parts.iter().map(|part| part.len()).sum();
        let header = wire::RequestHeader {
            length: (size_of::<wire::RequestHeader>() + body) as u32,
            operation,
            unique: 7,
            node: 12,
            ..Default::default()
        };
        let mut message = header.as_bytes().to_vec();
        parts.iter().for_each(|part| message.extend_from_slice(part));
        message
    }

    #[test]
    fn names_end_at_their_nul() {
        let to = wire::RenameWithFlags { to: 5, flags: 1, unused: 0 };
        let message = message(number::RENAME_WITH_FLAGS, &[to.as_bytes(), b"old\0", b"new\0"]);
        let request = Request::parse(&message).unwrap();
        let Operation::Rename { name, to, to_name, flags } = request.operation else {
            panic!("{request:?}")
        };
        assert_eq!((name, to, to_name, flags), (&b"old"[..], 5, &b"new"[..], 1));
        assert_eq!((request.unique, request.node), (7, 12));
    }

    /// Each operation with each number of bytes cut off its end, and with a length that is wrong.
    #[test]
    fn what_is_cut_short_is_malformed_and_never_panics() {
        let body = [0u8; 128];
        for operation in 0..64 {
            for length in 0..body.len() {
                let message = message(operation, &[&body[..length]]);
                let _ = Request::parse(&message);
                for cut in 0..message.len().min(48) {
                    assert!(Request::parse(&message[..cut]).is_err());
                }
            }
        }
        let write = wire::Write { size: 10, ..Default::default() };
        let short = message(number::WRITE, &[write.as_bytes(), b"123456789"]);
        assert_eq!(Request::parse(&short).unwrap_err(), Malformed { unique: Some(7) });
        let batch = wire::BatchForget { count: u32::MAX, unused: 0 };
        assert!(Request::parse(&message(number::BATCH_FORGET, &[batch.as_bytes()])).is_err());
        assert!(Request::parse(&message(number::LOOKUP, &[b"no end"])).is_err());
    }

    #[test]
    fn extensions_are_no_part_of_the_arguments() {
        let mut bytes = message(number::LOOKUP, &[b"a\0", &[1; 8]]);
        bytes[36..38].copy_from_slice(&1u16.to_ne_bytes());
        assert!(matches!(
            Request::parse(&bytes).unwrap().operation,
            Operation::Lookup { name: b"a" }
        ));
        bytes[36..38].copy_from_slice(&9u16.to_ne_bytes());
        assert!(Request::parse(&bytes).is_err());
    }
}
