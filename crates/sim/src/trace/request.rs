//! A request of a trace of another system, and what a line of one holds.
use extant_block::Operation;

/// A request of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// When it arrived, in nanoseconds from the first one on.
    pub arrival_ns: u64,
    /// What for.
    pub operation: Operation,
    /// First byte.
    pub offset: u64,
    /// How many bytes; 0 for a flush.
    pub bytes: u64,
    /// How long it took where it was traced, in nanoseconds; `None` where that is not known.
    pub measured_ns: Option<u64>,
}

/// What a line or a record holds.
pub(super) enum Held<'a> {
    /// A request, with its volume and its time in the trace's clock.
    Request(&'a [u8], Request),
    /// Something that moves no data: it is counted.
    Other,
    /// Nothing: a head, an empty line.
    Nothing,
    /// The end of the requests: what comes is a summary.
    End,
}
