//! dumpe2fs: what a volume is like, in its words.
use super::{complain, getopt, say, say_version, version};
use extant_block::BlockDevice;
use extant_format::BlockNo;
use extant_format::superblock::Feature;
use extant_host::error::Error;
use extant_host::image::{self, ImageArguments};
use extant_inspect::{SuperblockPlace, Volume, journal_device};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the words ask for.
#[derive(Default)]
struct Request {
    header: bool,
    bad_blocks: bool,
    hexadecimal: bool,
    version: bool,
    superblock: Option<u64>,
    block_size: Option<u32>,
    device: Option<PathBuf>,
}

/// Exit code 0, or 1 as dumpe2fs has it.
pub fn run(name: &'static str, words: &[OsString]) -> u8 {
    let request = match read(words) {
        Ok(request) => request,
        Err(what) => {
            if !what.is_empty() {
                complain(&format!("{name}: {what}"));
            }
            let usage = "[-bfghixV] [-o superblock=<num>] [-o blocksize=<num>] device";
            complain(&format!("Usage: {name} {usage}"));
            return 1;
        }
    };
    let Some(device) = request.device.as_ref().filter(|_| !request.version) else {
        say_version("dumpe2fs");
        return 0;
    };
    complain(&version("dumpe2fs"));
    match show(device, &request) {
        Ok(()) => 0,
        Err(error) => {
            complain(&format!("{name}: {}", error.message));
            complain("Couldn't find valid filesystem superblock.");
            1
        }
    }
}

fn read(words: &[OsString]) -> Result<Request, String> {
    let read = getopt::read(words, "bfghixo:V").map_err(|error| error.0)?;
    let mut request = Request::default();
    for (letter, value) in read.options {
        match letter {
            'h' => request.header = true,
            'x' => request.hexadecimal = true,
            'b' => request.bad_blocks = true,
            'V' => request.version = true,
            'g' => {
                return Err(
                    "-g: the form for programs is not supported; extant info --json".to_owned()
                );
            }
            'i' => return Err("-i: files of e2image are not read; give the volume".to_owned()),
            'o' => {
                let text = getopt::text(&value);
                let (option, number) = text.split_once('=').unwrap_or((&text, ""));
                let wrong = || format!("Invalid {option} value: {text}");
                match option {
                    "superblock" => {
                        request.superblock = Some(number.parse().map_err(|_| wrong())?);
                    }
                    "blocksize" => {
                        let size = number.parse().ok().filter(|size| SIZES.contains(size));
                        request.block_size = Some(size.ok_or_else(wrong)?);
                    }
                    _ => return Err(format!("Bad extended option: {text}")),
                }
            }
            // -f: features that are not known are shown anyway.
            _ => {}
        }
    }
    let mut operands = read.operands.into_iter();
    request.device = operands.next().map(PathBuf::from);
    match operands.next() {
        Some(_) => Err("one device".to_owned()),
        None if request.device.is_none() && !request.version => Err(String::new()),
        None => Ok(request),
    }
}

fn show(path: &Path, request: &Request) -> Result<(), Error> {
    let device = image::device(path, &ImageArguments::default())?;
    let failed = |error: extant_inspect::Error| Error::new(format!("{}: {error}", path.display()));
    let place = place(&device, request);
    let is_primary = request.superblock.is_none();
    if let Some(info) = journal_device(&*device).map_err(failed)?.filter(|_| is_primary) {
        say(&header(&info.to_string()));
        return Ok(());
    }
    let volume = Volume::open(device, place).map_err(failed)?;
    if request.bad_blocks {
        // No volume that this program made has any; those of others are listed by their inode.
        return Ok(());
    }
    say(&header(&volume.info().to_string()));
    say("\n");
    if request.header {
        return Ok(());
    }
    say("\n");
    let is_wide = volume.superblock().has(Feature::SIXTY_FOUR_BIT);
    let width = if is_wide { 8 } else { 4 };
    for group in volume.groups() {
        let text = format!("{}", group.map_err(failed)?);
        match request.hexadecimal {
            true => say(&text.lines().map(|line| hexadecimal(line, width)).collect::<String>()),
            false => say(&text),
        }
    }
    Ok(())
}

/// The primary superblock, or the copy that -o names; without a block size the one with which the
/// copy is where it says that it is.
fn place(device: &Arc<dyn BlockDevice>, request: &Request) -> SuperblockPlace {
    let Some(block) = request.superblock.map(BlockNo) else {
        return SuperblockPlace::Primary;
    };
    let of_size = |block_size| SuperblockPlace::Copy { block, block_size };
    let opens = |block_size: &u32| Volume::open(Arc::clone(device), of_size(*block_size)).is_ok();
    let found = SIZES.into_iter().find(opens);
    of_size(request.block_size.or(found).unwrap_or(SIZES[0]))
}

/// Sizes of blocks.
pub(super) const SIZES: [u32; 7] = [1024, 2048, 4096, 8192, 16384, 32768, 65536];

/// What tune2fs -l shows: the facts of the superblock, and not of the journal.
///
/// # Errors
/// The host's; it is no volume.
pub(super) fn superblock_lines(path: &Path) -> Result<String, Error> {
    let device = image::device(path, &ImageArguments::default())?;
    let failed = |error: extant_inspect::Error| Error::new(format!("{}: {error}", path.display()));
    if let Some(info) = journal_device(&*device).map_err(failed)? {
        return Ok(header(&info.to_string()));
    }
    let volume = Volume::open(device, SuperblockPlace::Primary).map_err(failed)?;
    let all = header(&volume.info().to_string());
    let of_journal = |line: &&str| line.starts_with("Journal features:");
    let lines = all.lines().take_while(|line| !of_journal(line));
    Ok(lines.map(|line| format!("{line}\n")).collect())
}

/// The facts of the volume in dumpe2fs's own shape: without what only this program says, dates as
/// ctime(3) has them (in UTC), names of owners.
fn header(text: &str) -> String {
    const OURS: [&str; 3] = ["Features not read:", "Features not written:", "Group count:"];
    let mut shown = String::with_capacity(text.len());
    for line in text.lines().filter(|line| !OURS.iter().any(|ours| line.starts_with(ours))) {
        let (label, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.trim();
        let line = match label {
            "First meta block group" if value == "0" => continue,
            "Filesystem flags" if value == "(none)" => continue,
            "Filesystem flags" => format!("{line} "),
            "Inode size" => format!("Inode size:\t          {value}"),
            "Reserved blocks uid" => format!("{line} (user {})", owner("/etc/passwd", value)),
            "Reserved blocks gid" => format!("{line} (group {})", owner("/etc/group", value)),
            _ => match dated(value) {
                Some(date) => line.replace(value, &date),
                None => line.to_owned(),
            },
        };
        shown.push_str(&line);
        shown.push('\n');
    }
    shown
}

/// The name of a number in a file such as /etc/passwd.
fn owner(file: &str, number: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let is_it = |line: &&str| line.split(':').nth(2) == Some(number);
    let name = text.lines().find(is_it).and_then(|line| line.split(':').next());
    name.unwrap_or("unknown").to_owned()
}

/// "2023-11-14 22:13:20 UTC" as "Tue Nov 14 22:13:20 2023".
pub(super) fn dated(value: &str) -> Option<String> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    let (date, time) = value.strip_suffix(" UTC")?.split_once(' ')?;
    let mut parts = date.split('-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let name = MONTHS.get(usize::try_from(month.checked_sub(1)?).ok()?)?;
    // Zeller's rule: January and February belong to the year before.
    let (shifted, of_year) = if month < 3 { (month + 12, year - 1) } else { (month, year) };
    let weekday =
        day + 13 * (shifted + 1) / 5 + of_year + of_year / 4 - of_year / 100 + of_year / 400;
    let weekday = DAYS.get(usize::try_from((weekday + 6) % 7).ok()?)?;
    Some(format!("{weekday} {name} {day:2} {time} {year}"))
}

/// A line of a group with its numbers of blocks and inodes in hexadecimal; counts and distances
/// stay as they are.
fn hexadecimal(line: &str, width: usize) -> String {
    let (head, list) = match line.split_once("(Blocks ") {
        Some((head, rest)) => {
            let (list, tail) = rest.split_once(')').unwrap_or((rest, ""));
            return format!("{head}(Blocks {}){tail}\n", numbers(list, width));
        }
        None if line.starts_with("  Free ") => line.split_once(": ").unwrap_or((line, "")),
        None => {
            let mut parts = line.split(" at ");
            let mut text = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                let end = part.find([' ', ',']).unwrap_or(part.len());
                let (number, rest) = part.split_at(end);
                text.push_str(&format!(" at {}{rest}", numbers(number, width)));
            }
            return text + "\n";
        }
    };
    format!("{head}: {}\n", numbers(list, width))
}

/// Every number of a list of ranges.
fn numbers(list: &str, width: usize) -> String {
    let mut text = String::new();
    let mut rest = list;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(from.len());
        let (number, after) = from.split_at(end);
        text.push_str(before);
        match number.parse::<u64>() {
            Ok(number) => text.push_str(&format!("0x{number:0width$x}")),
            Err(_) => text.push_str(number),
        }
        rest = after;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_numbers_look_as_in_dumpe2fs() {
        let date = |text: &str| dated(text).unwrap();
        assert_eq!(date("2023-11-14 22:13:20 UTC"), "Tue Nov 14 22:13:20 2023");
        assert_eq!(date("2020-01-01 00:00:00 UTC"), "Wed Jan  1 00:00:00 2020");
        assert_eq!(date("2024-02-29 01:02:03 UTC"), "Thu Feb 29 01:02:03 2024");
        assert_eq!(dated("n/a"), None);
        let line = "  Primary superblock at 1, Group descriptors at 2-3";
        let wanted = "  Primary superblock at 0x00000001, Group descriptors at \
                      0x00000002-0x00000003\n";
        assert_eq!(hexadecimal(line, 8), wanted);
    }
}
