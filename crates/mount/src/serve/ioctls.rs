//! The ioctls that FUSE passes on: flags of chattr, generation, project, trim, growth.
use super::identities::is_master;
use super::server::{Answer, Answering, Failure, Server, Trimming, node_of};
use crate::protocol::{Errno, Request, wire};
use extant_engine::{Error, ErrorKind, FlagChange, Inode};
use extant_format::inode::{FileType, flags};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Numbers of ioctls, as Linux has them on machines of 64 bits. Those for programs of 32 bits only
/// tell: the kernel turns them into the others for such programs, and has checked nothing if one
/// comes as it is.
mod command {
    pub(super) const GET_FLAGS: u32 = 0x8008_6601;
    pub(super) const GET_FLAGS_32: u32 = 0x8004_6601;
    pub(super) const SET_FLAGS: u32 = 0x4008_6602;
    pub(super) const GET_VERSION: u32 = 0x8008_7601;
    pub(super) const GET_VERSION_32: u32 = 0x8004_7601;
    pub(super) const GET_MORE: u32 = 0x801c_581f;
    pub(super) const SET_MORE: u32 = 0x401c_5820;
    pub(super) const TRIM: u32 = 0xc018_5879;
    pub(super) const RESIZE: u32 = extant_control::RESIZE;
    pub(super) const ASK: u32 = extant_control::ASK;
}

/// The flags of FS_IOC_FSGETXATTR, and those of inodes that they stand for.
const MORE_FLAGS: [(u32, u32); 6] = [
    (0x08, flags::IMMUTABLE),
    (0x10, flags::APPEND),
    (0x20, flags::SYNC),
    (0x40, flags::NOATIME),
    (0x80, flags::NODUMP),
    (0x200, flags::PROJECT_INHERIT),
];

/// What FS_IOC_FSGETXATTR returns and FS_IOC_FSSETXATTR sets.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct More {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    copy_extent_size: u32,
    unused: [u8; 8],
}

/// What FITRIM is given, in bytes, and returns: the length is then what was given back.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Trim {
    start: u64,
    length: u64,
    minimum: u64,
}

/// Answers an ioctl: its result is 0, and these bytes go to the program.
fn answer(bytes: &[u8], to: &mut Answering<'_>) {
    to.reply().parts(&[wire::IoctlReply::default().as_bytes(), bytes]);
}

/// The number at the start of what a program gave.
fn given(input: &[u8]) -> Answer<u32> {
    let number = input.first_chunk::<4>().ok_or(Errno::INVALID)?;
    Ok(u32::from_ne_bytes(*number))
}

impl Server {
    pub(super) fn ioctl(
        &self,
        request: &Request<'_>,
        arguments: &wire::Ioctl,
        input: &[u8],
        to: &mut Answering<'_>,
    ) -> Answer<()> {
        let inode = self.inode(request.node)?;
        let room = arguments.out_size as usize;
        let number = |number: u32, to: &mut Answering<'_>| {
            // Programs of 64 bits ask for eight bytes and look at four.
            let bytes = u64::from(number).to_le_bytes();
            answer(bytes.get(..room).unwrap_or(&bytes), to);
        };
        match arguments.command {
            command::GET_FLAGS | command::GET_FLAGS_32 => {
                number(self.inodes().flags(&inode)?, to);
            }
            command::GET_VERSION | command::GET_VERSION_32 => number(inode.generation(), to),
            command::SET_FLAGS => {
                self.set_flags(request, &inode, given(input)?)?;
                answer(&[], to);
            }
            command::GET_MORE => {
                let has = self.inodes().flags(&inode)?;
                let flags = MORE_FLAGS.iter().filter(|(_, flag)| has & flag != 0);
                let flags = flags.fold(0, |all, (more, _)| all | more);
                let project = self.inodes().project(&inode)?;
                answer(More { flags, project, ..More::default() }.as_bytes(), to);
            }
            command::SET_MORE => {
                let (more, _) = More::read_from_prefix(input).map_err(|_| Errno::INVALID)?;
                self.set_more(request, &inode, &more)?;
                answer(&[], to);
            }
            command::TRIM => {
                let (wanted, _) = Trim::read_from_prefix(input).map_err(|_| Errno::FAULT)?;
                if !is_master(request.uid) {
                    return Err(Errno::NOT_PERMITTED.into());
                }
                if self.settings.trimming == Trimming::Refused {
                    return Err(Errno::READ_ONLY.into());
                }
                let Trim { start, length, minimum } = wanted;
                let length = match self.filesystem.trim(start, length, minimum) {
                    Err(Error { kind: ErrorKind::ReadOnly, .. })
                        if self.settings.trimming == Trimming::Nothing =>
                    {
                        0
                    }
                    trimmed => trimmed?,
                };
                answer(Trim { length, ..wanted }.as_bytes(), to);
            }
            command::RESIZE => {
                let blocks = input.first_chunk::<8>().ok_or(Errno::FAULT)?;
                self.grow(request, u64::from_ne_bytes(*blocks))?;
                answer(&[], to);
            }
            command::ASK => answer(self.ask_growth(request, input)?.as_bytes(), to),
            _ => return Err(Errno::NOT_TERMINAL.into()),
        }
        Ok(())
    }

    fn set_flags(&self, request: &Request<'_>, inode: &Inode, wanted: u32) -> Answer<()> {
        let before = self.inodes().flags(inode)?;
        let locks = (before ^ wanted) & (flags::IMMUTABLE | flags::APPEND) != 0;
        let owner = || Ok::<_, Failure>(self.inodes().metadata(inode)?.uid);
        let is_allowed = is_master(request.uid)
            || !locks && self.settings.identities.users.outside(owner()?) == request.uid;
        if !is_allowed {
            return Err(Errno::NOT_PERMITTED.into());
        }
        let change = FlagChange { set: wanted & !before, clear: before & !wanted };
        // As in ext4 the change time is a new one even if no flag is.
        self.inodes().change_flags(inode, change)?;
        self.note_change(inode)
    }

    /// The kernel does not know that an inode has changed.
    fn note_change(&self, inode: &Inode) -> Answer<()> {
        let metadata = self.inodes().metadata(inode)?;
        if metadata.file_type == FileType::Regular {
            self.unseen.note(inode.number().0, metadata.change_time);
        }
        self.notices.forget_attributes(node_of(inode.number()));
        Ok(())
    }

    fn set_more(&self, request: &Request<'_>, inode: &Inode, more: &More) -> Answer<()> {
        let known = MORE_FLAGS.iter().fold(0, |all, (flag, _)| all | flag);
        if more.flags & !known != 0 || more.extent_size != 0 {
            return Err(Errno::NOT_SUPPORTED.into());
        }
        if more.project != self.inodes().project(inode)? {
            if !is_master(request.uid) {
                return Err(Errno::NOT_PERMITTED.into());
            }
            self.inodes().set_project(inode, more.project)?;
            self.note_change(inode)?;
        }
        let before = self.inodes().flags(inode)?;
        let wanted = MORE_FLAGS.iter().fold(before, |all, (flag, stored)| {
            if more.flags & flag != 0 { all | stored } else { all & !stored }
        });
        self.set_flags(request, inode, wanted)
    }
}
