//! Which format a trace has, by its first bytes.
use super::requests::RequestFormat;
use super::{blkparse, iolog, objects};

/// So many bytes are enough to recognise a trace.
pub const START_BYTES: usize = 4096;
/// Records that are looked at.
const RECORDS: usize = 16;

/// A format that was recognised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recognised {
    /// Lines of the DiskSim validation set, with measured times.
    Measured,
    /// DiskSim's ASCII.
    DiskSim,
    /// The kernel's binary stream.
    Blktrace,
    /// One that is read request by request.
    Requests(RequestFormat),
}

/// The format of a trace that begins with these bytes, of which [`START_BYTES`] are enough; `None`
/// when they fit none.
pub fn recognise(start: &[u8]) -> Option<Recognised> {
    let magic = start.first_chunk::<4>().map(|magic| u32::from_le_bytes(*magic));
    if magic.is_some_and(|magic| magic == 0x6561_7407 || magic.swap_bytes() == 0x6561_7407) {
        return Some(Recognised::Blktrace);
    }
    let lines = start.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut lines = lines.filter(|line| !line.is_empty());
    let first = lines.next()?;
    if iolog::version(first).is_some() {
        return Some(Recognised::Requests(RequestFormat::FioIolog));
    }
    let is_text = start.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n'));
    if !is_text {
        return is_objects(start).then_some(Recognised::Requests(RequestFormat::OracleGeneral));
    }
    let is_words = |line: &[u8]| line[0].is_ascii_alphabetic() && line.contains(&b',');
    // The second line, where the first has the names of columns.
    let line = if is_words(first) { lines.next()? } else { first };
    by_columns(line).or_else(|| by_words(line))
}

fn by_columns(line: &[u8]) -> Option<Recognised> {
    let columns: Vec<&[u8]> = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
    let is_number = |text: &&[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let format = match &columns[..] {
        [time, _, disk, _, rest @ ..] if rest.len() == 3 => {
            let numbers = [time, disk].into_iter().chain(rest);
            numbers.into_iter().all(&is_number).then_some(RequestFormat::Msr)?
        }
        [device, b"R" | b"W", rest @ ..] if rest.len() == 3 => {
            let numbers = [device].into_iter().chain(rest);
            numbers.into_iter().all(&is_number).then_some(RequestFormat::Alibaba)?
        }
        [_, _, _, b"0" | b"1", _] if columns.iter().all(is_number) => RequestFormat::Tencent,
        _ => return None,
    };
    Some(Recognised::Requests(format))
}

fn by_words(line: &[u8]) -> Option<Recognised> {
    let words: Vec<&[u8]> =
        line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    let is_number = |text: &[u8]| text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    match &words[..] {
        [device, _, _, _, _, _, ..] if blkparse::is_device(device) => {
            Some(Recognised::Requests(RequestFormat::Blkparse))
        }
        [b"R" | b"W" | b"r" | b"w", _, _, _, _, _] => Some(Recognised::Measured),
        [time, device, block, size, _]
            if [time, device, block, size].iter().all(|it| is_number(it)) =>
        {
            Some(Recognised::DiskSim)
        }
        _ => None,
    }
}

/// Whether the first records may be oracleGeneral: times that do not go back, and sizes that an
/// object can have.
fn is_objects(start: &[u8]) -> bool {
    let records = start.chunks_exact(objects::BYTES).take(RECORDS).map(objects::time_and_size);
    let records: Vec<(u32, u32)> = records.collect();
    !records.is_empty()
        && records.is_sorted_by_key(|(time, _)| *time)
        && records.iter().all(|(_, bytes)| *bytes < 1 << 30)
}
