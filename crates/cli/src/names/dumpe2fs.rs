//! dumpe2fs: what a volume is like, in its words.
use super::{TOOLS_VERSION, complain, getopt, say};
use crate::error::Error;
use crate::image;
use extant_block::BlockDevice;
use extant_format::BlockNo;
use extant_inspect::{SuperblockPlace, Volume};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the words ask for.
#[derive(Default)]
struct Request {
    header: bool,
    bad_blocks: bool,
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
    complain(&format!("dumpe2fs {TOOLS_VERSION} (extant {})", env!("CARGO_PKG_VERSION")));
    let (Some(device), false) = (&request.device, request.version) else {
        return 0;
    };
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
            'x' => return Err("-x: numbers in hexadecimal are not supported".to_owned()),
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
    let device = image::device(path, 0)?;
    let failed = |error: extant_inspect::Error| Error::new(format!("{}: {error}", path.display()));
    let place = place(&device, request);
    let volume = Volume::open(device, place).map_err(failed)?;
    if request.bad_blocks {
        // No volume that this program made has any; those of others are listed by their inode.
        return Ok(());
    }
    say(&format!("{}", volume.info()));
    if request.header {
        return Ok(());
    }
    say("\n\n");
    for group in volume.groups() {
        let text = format!("{}", group.map_err(failed)?);
        say(&text);
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
