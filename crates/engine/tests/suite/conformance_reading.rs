//! Images that mke2fs made and the kernel filled are read as the kernel reads them: every
//! attribute, xattr, access list and byte, holes, and the order of readdir.
use crate::volume;

use extant_block::{Clock, FileDevice, RealClock};
use extant_engine::{Access, DataKeeping, Filesystem, Options};
use extant_testkit::compare::{self, Field};
use extant_testkit::fixtures::{self, Filler};
use extant_testkit::oracle::{self, mount_loop};
use extant_testkit::scratch::Scratch;
use extant_testkit::variables::number;
use extant_testkit::walk::{Entry, Kind};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use volume::reading;

/// One at a time: what one test has open when another starts a program keeps a mount busy.
static MOUNTING: Mutex<()> = Mutex::new(());

fn open(image: &Path) -> Filesystem {
    let clock: Arc<dyn Clock> = RealClock::new();
    let device = FileDevice::open(clock, image, extant_block::file::Access::ReadOnly, 0)
        .expect("the image opens");
    let options = Options {
        access: Access::ReadOnly,
        policies: "modern".parse().expect("policies"),
        cache_bytes: 24 << 20,
        data: DataKeeping::Bytes,
    };
    Filesystem::open(Arc::new(device), &options)
        .unwrap_or_else(|error| panic!("{}: {error}", image.display()))
}

/// Directories whose names come in another order than the kernel's.
fn orders(volume: &Filesystem, image: &Path, directories: &[&Path]) -> Result<Vec<String>, String> {
    let mounted = mount_loop(image, oracle::Access::ReadOnly, "")?;
    let mut wrong = Vec::new();
    for path in directories {
        let listed =
            std::fs::read_dir(mounted.path().join(path)).map_err(|error| error.to_string())?;
        let kernel: Result<Vec<_>, _> =
            listed.map(|entry| entry.map(|entry| entry.file_name().into_vec())).collect();
        let kernel = kernel.map_err(|error| error.to_string())?;
        let engine = reading::names(volume, path).map_err(|error| error.to_string())?;
        if kernel != engine {
            let first = kernel.iter().zip(&engine).position(|(kernel, engine)| kernel != engine);
            wrong.push(format!(
                "/{}: {} names, another order from {first:?} on",
                path.display(),
                kernel.len()
            ));
        }
    }
    mounted.unmount()?;
    Ok(wrong)
}

fn judge(fixture: &fixtures::Fixture, folder: &Scratch) -> Result<Vec<String>, String> {
    let mut made = fixture.make(folder.path())?;
    let volume = open(&made.image);
    let found = reading::entries(&volume).map_err(|error| error.to_string())?;
    let is_kernel = fixture.filler() == Some(Filler::Kernel);
    if is_kernel {
        made.options.fields.insert(Field::Holes);
    }
    let is_compared = |entry: &&Entry| is_kernel || !entry.path.as_os_str().is_empty();
    // mke2fs gives the root a lost+found and a time of its own.
    let left: Vec<Entry> = found.iter().filter(is_compared).cloned().collect();
    let right: Vec<Entry> = made.expected.iter().filter(is_compared).cloned().collect();
    let differences = compare::entries(&left, &right, &made.options);
    let mut wrong: Vec<String> = differences.iter().map(ToString::to_string).collect();
    if is_kernel {
        let directories: Vec<&Path> = found
            .iter()
            .filter(|entry| entry.kind == Kind::Directory)
            .map(|entry| entry.path.as_path())
            .collect();
        wrong.extend(orders(&volume, &made.image, &directories)?);
    }
    let _ = std::fs::remove_file(&made.image);
    Ok(wrong)
}

fn judge_all(mut wanted: impl FnMut(&fixtures::Fixture) -> bool) {
    let _alone = MOUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Scratch::new("conformance");
    let mut wrong = Vec::new();
    let every = usize::try_from(number("EXTANT_FIXTURES")).expect("a small number").max(1);
    for fixture in fixtures::all().step_by(every).filter(|fixture| wanted(fixture)) {
        if !fixture.is_possible() {
            return;
        }
        let found = judge(&fixture, &folder).unwrap_or_else(|error| vec![error]);
        wrong.extend(
            found.into_iter().take(10).map(|sentence| format!("{}: {sentence}", fixture.name)),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn ext2_and_ext3_are_read_as_the_kernel_reads_them() {
    judge_all(|fixture| fixture.kind != "ext4");
}

#[test]
fn ext4_is_read_as_the_kernel_reads_it() {
    judge_all(|fixture| fixture.kind == "ext4" && fixture.features.is_empty());
}

#[test]
fn every_feature_of_ext4_is_read_as_the_kernel_reads_it() {
    judge_all(|fixture| !fixture.features.is_empty());
}
