//! Messages of the kernel to a mount, as they may come from a process that only says it is one.
//!
//! An input is messages in a row: two bytes say how long the arguments are, one what is asked, one
//! of which node; the arguments follow. Lengths in headers are right, as the device sees to it; the
//! whole input is also read as one message, whose header is anything.
use super::base::{self, Kind};
use extant_block::{BlockDevice, RealClock};
use extant_engine::{Access, Filesystem};
use extant_mount::protocol::numbers::operation;
use extant_mount::protocol::wire::{self, RequestHeader};
use extant_mount::protocol::{Operation, Reply, Request, Sink};
use extant_mount::serve::{Serve, Server, Settings};
use std::hint::black_box;
use std::io::IoSlice;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Messages of one input that are answered.
const MESSAGES_MAX: usize = 60;

fn message(what: u32, node: u8, arguments: &[u8]) -> Vec<u8> {
    let head = [&(arguments.len() as u16).to_le_bytes()[..], &[what as u8, node]].concat();
    [head.as_slice(), arguments].concat()
}

/// Lives of one process, and each kind of message once.
pub fn messages() -> Vec<Vec<u8>> {
    let name = b"a name\0".as_slice();
    let create = wire::Create { flags: 2, mode: 0o100_644, umask: 0o22, open_flags: 0 };
    let write = wire::Write { handle: 1, size: 5, ..Default::default() };
    let read = wire::Read { handle: 1, size: 4096, ..Default::default() };
    let life = [
        message(operation::LOOKUP, 1, b"long\0"),
        message(operation::CREATE, 1, &[create.as_bytes(), name].concat()),
        message(operation::WRITE, 60, &[write.as_bytes(), b"bytes"].concat()),
        message(operation::READ, 60, read.as_bytes()),
        message(operation::OPEN_DIRECTORY, 1, &[0; 8]),
        message(operation::READ_DIRECTORY_PLUS, 1, read.as_bytes()),
        message(
            operation::SET_XATTR,
            1,
            &[&[5, 0, 0, 0, 0, 0, 0, 0][..], b"user.a\0value"].concat(),
        ),
        message(operation::GET_XATTR, 1, &[&[99, 0, 0, 0, 0, 0, 0, 0][..], b"user.a\0"].concat()),
        message(operation::RENAME_WITH_FLAGS, 1, &[&[1][..], &[0; 15], b"a name\0new\0"].concat()),
        message(operation::SYMBOLIC_LINK, 1, b"link\0target\0"),
        message(operation::UNLINK, 1, b"new\0"),
        message(operation::SYNC, 60, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    ]
    .concat();
    let each = (1..=53).map(|what| message(what, 12, &[1; 64])).collect::<Vec<_>>().concat();
    let named = (1..=53)
        .map(|what| message(what, 1, &[&[0; 16][..], b"long\0below\0"].concat()))
        .collect::<Vec<_>>()
        .concat();
    vec![life, each, named]
}

/// Takes answers, and looks whether they are whole.
struct Answers;

impl Sink for Answers {
    fn send(&self, parts: &[IoSlice<'_>]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        assert!((16..=(1 << 20) + 4096).contains(&length), "an answer of {length} bytes");
    }
}

/// Messages to a mount of a volume.
pub fn requests(input: &[u8]) {
    if let Ok(request) = Request::parse(input) {
        black_box(format!("{request:?}"));
    }
    let base = base::of(&Kind::Plain);
    let device = Arc::new(base.device.snapshot()) as Arc<dyn BlockDevice>;
    let volume = Filesystem::open(device, &base::options(Access::ReadWrite)).expect("it is sound");
    let server = Server::new(volume, Settings::default(), RealClock::new(), None);
    let (mut rest, mut space) = (input, Vec::new());
    for unique in 0..MESSAGES_MAX as u64 {
        let Some(([low, high, what, node], after)) = rest.split_first_chunk::<4>() else { break };
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (arguments, after) = after.split_at(length);
        rest = after;
        let header = RequestHeader {
            length: (size_of::<RequestHeader>() + length) as u32,
            operation: u32::from(*what) % 64,
            unique: unique + 1,
            node: u64::from(*node),
            pid: 77,
            ..RequestHeader::default()
        };
        let message = [header.as_bytes(), arguments].concat();
        if let Ok(request) = Request::parse(&message) {
            if matches!(request.operation, Operation::Init { .. }) {
                continue;
            }
            server.serve(&request, Reply::new(&Answers, request.unique), &mut space);
        }
    }
    let _ = server.close();
}
