//! Repair, undo and heal, by the functions that C calls, with what they refuse.
use crate::calls::{said, sample_file, string, zeros};
use extant_capi::check::*;
use extant_capi::failure::*;
use extant_capi::mend::*;
use extant_capi::structs::*;
use extant_capi::volume::*;
use extant_testkit::command::{self, program};
use extant_testkit::oracle::{e2fsck, require};
use extant_testkit::scratch::Scratch;
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};

const E2BIG: c_int = 7;
const EBUSY: c_int = 16;
const ENOENT: c_int = 2;
const EINVAL: c_int = 22;
const ERANGE: c_int = 34;

fn of(path: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(path.to_bytes()))
}

fn bytes(path: &CStr) -> Vec<u8> {
    std::fs::read(of(path)).unwrap()
}

/// A volume whose repair costs a name, and that has a wrong number of links too.
fn damaged(folder: &Scratch) -> CString {
    let path = sample_file(folder);
    for request in ["clri /large", "sif /etc/hostname links_count 3", "unlink /etc/hostname"] {
        let mut debugfs = program("debugfs");
        command::output(debugfs.args(["-w", "-R", request]).arg(of(&path))).unwrap();
    }
    path
}

fn repaired(path: &CStr, scope: u32, flags: u32) -> (c_int, *mut Mended) {
    let mut how: RepairOptions = zeros();
    (how.scope, how.flags) = (scope, flags);
    let mut mended = null_mut();
    // SAFETY: a string, a struct and a place.
    let errno = unsafe { extant_repair(path.as_ptr(), null(), &how, &mut mended) };
    assert_eq!(errno == 0, !mended.is_null());
    (errno, mended)
}

fn healed(path: &CStr, flags: u32) -> (c_int, *mut Mended) {
    let mut how: HealOptions = zeros();
    how.flags = flags;
    let mut mended = null_mut();
    // SAFETY: a string, a struct and a place.
    let errno = unsafe { extant_heal(path.as_ptr(), null(), &how, &mut mended) };
    assert_eq!(errno == 0, !mended.is_null());
    (errno, mended)
}

fn outcome(mended: *const Mended) -> Outcome {
    let mut outcome: Outcome = zeros();
    // SAFETY: a handle and a struct.
    assert_eq!(unsafe { extant_mended_outcome(mended, &mut outcome) }, 0);
    outcome
}

fn words(tell: impl FnOnce(*mut c_char, usize) -> c_int) -> String {
    let mut buffer = [1 as c_char; 300];
    assert_eq!(tell(buffer.as_mut_ptr(), buffer.len()), 0, "{}", said());
    // SAFETY: it ends with a NUL.
    unsafe { CStr::from_ptr(buffer.as_ptr()) }.to_str().unwrap().to_owned()
}

fn close(mended: *mut Mended) {
    // SAFETY: a handle that is open.
    assert_eq!(unsafe { extant_mended_close(mended) }, 0);
}

/// Where the bytes before are.
fn kept(mended: *const Mended) -> Vec<u8> {
    let (mut buffer, mut length) = ([0 as c_char; 500], 0);
    let size = buffer.len();
    // SAFETY: a handle, a buffer of that size, and a place.
    let errno = unsafe { extant_mended_undo(mended, buffer.as_mut_ptr(), size, &raw mut length) };
    assert_eq!(errno, 0);
    buffer[..length].iter().map(|byte| *byte as u8).collect()
}

#[test]
fn a_dry_run_says_what_is_lost_and_writes_nothing() {
    if !require("debugfs") {
        return;
    }
    let folder = Scratch::new("capi-dry");
    let path = damaged(&folder);
    let before = bytes(&path);
    let (_, mended) = repaired(&path, EXTANT_SCOPE_ALL, EXTANT_DRY_RUN);
    let found = outcome(mended);
    assert_eq!((found.state, found.exit_code, found.blocks), (EXTANT_REPAIRED, 1, 0));
    assert!(found.changes > 1 && found.rounds > 1 && found.omitted == 0);
    let (mut losses, mut problem) = (Vec::new(), zeros::<Problem>());
    for index in 0..found.changes as usize {
        // SAFETY: a handle, a struct, buffers of their sizes; the code is the handle's.
        unsafe {
            let line =
                words(|at, size| extant_mended_change(mended, index, &mut problem, at, size));
            let code = CStr::from_ptr(problem.code).to_str().unwrap();
            assert!(!line.is_empty() && !code.is_empty() && problem.severity <= EXTANT_FATAL);
            let loss = words(|at, size| extant_mended_loss(mended, index, at, size));
            losses.push((code.to_owned(), loss));
        }
    }
    let lost: Vec<_> = losses.iter().filter(|(_, loss)| !loss.is_empty()).collect();
    assert_eq!(lost, [&("entry-unused".to_owned(), "the name".to_owned())], "{losses:?}");
    assert!(losses.iter().any(|(code, _)| code == "link-count"), "{losses:?}");
    // SAFETY: a handle.
    unsafe {
        let past = found.changes as usize;
        assert_eq!(extant_mended_change(mended, past, null_mut(), null_mut(), 0), EINVAL);
        assert_eq!(extant_mended_loss(mended, past, null_mut(), 0), EINVAL);
        assert_eq!(words(|at, size| extant_mended_reason(mended, at, size)), "");
    }
    assert_eq!(kept(mended), b"");
    close(mended);
    let (_, preened) = repaired(&path, EXTANT_SCOPE_PREEN, 0);
    assert_eq!((outcome(preened).exit_code, outcome(preened).blocks), (4, 0));
    close(preened);
    assert!(bytes(&path) == before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_is_mended_is_clean_for_e2fsck_and_can_be_undone() {
    if !require("debugfs") || !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("capi-mended");
    let path = damaged(&folder);
    let before = bytes(&path);
    let (_, mended) = repaired(&path, EXTANT_SCOPE_SAFE, EXTANT_NO_UNDO);
    assert_eq!((outcome(mended).exit_code, kept(mended)), (4, Vec::new()));
    let mut left = null_mut();
    // SAFETY: handles and a place.
    unsafe {
        assert_eq!(extant_mended_left(mended, &mut left), 0);
        close(mended);
        assert_eq!(extant_report_exit_code(left), 4);
        let line = words(|at, size| extant_report_problem(left, 0, null_mut(), at, size));
        assert!(!line.is_empty());
        assert_eq!(extant_report_close(left), 0);
    }
    std::fs::write(of(&path), &before).unwrap();
    let (_, mended) = repaired(&path, EXTANT_SCOPE_ALL, 0);
    let found = outcome(mended);
    assert!((found.exit_code, found.state) == (1, EXTANT_REPAIRED) && found.blocks > 0);
    e2fsck(of(&path)).unwrap();
    let place = kept(mended);
    assert!(place.ends_with(b"/.disk.img.extant-undo"), "{}", place.escape_ascii());
    let (mut short, mut length) = ([7 as c_char; 3], 0);
    // SAFETY: a handle, a buffer of that size, a place.
    let errno = unsafe { extant_mended_undo(mended, short.as_mut_ptr(), 3, &raw mut length) };
    assert_eq!((errno, length, short), (ERANGE, place.len(), [7; 3]));
    close(mended);
    let mut blocks = 0;
    // SAFETY: a string and a place.
    unsafe {
        assert_eq!(extant_undo(path.as_ptr(), null(), &mut blocks), 0);
        assert_eq!(blocks, found.blocks);
        assert!(bytes(&path) == before);
        assert_eq!(extant_undo(path.as_ptr(), null(), &mut blocks), EINVAL);
    }
    assert!(said().contains("no repair to undo"), "{}", said());
}

#[test]
fn a_clean_volume_is_not_written_and_one_in_doubt_is_healed() {
    if !require("debugfs") || !require("e2fsck") {
        return;
    }
    let folder = Scratch::new("capi-healed");
    let path = sample_file(&folder);
    let before = bytes(&path);
    let (_, mended) = healed(&path, EXTANT_KEEP_UNDO);
    let found = outcome(mended);
    assert_eq!((found.state, found.exit_code, found.blocks), (EXTANT_CLEAN, 0, 0));
    let mut report = null_mut();
    // SAFETY: a handle and a place.
    assert_eq!(unsafe { extant_mended_left(mended, &mut report) }, EINVAL, "it was not checked");
    assert!(report.is_null() && kept(mended).is_empty());
    close(mended);
    let (_, mended) = healed(&path, EXTANT_CHECK_ALWAYS);
    assert_eq!((outcome(mended).state, outcome(mended).blocks), (EXTANT_REPAIRED, 0));
    // SAFETY: a handle and a buffer.
    let reason = words(|at, size| unsafe { extant_mended_reason(mended, at, size) });
    assert_eq!(reason, "a check was asked for");
    close(mended);
    assert!(bytes(&path) == before);
    let commands = folder.join("commands");
    std::fs::write(&commands, "jo\njw -b 3000 /dev/zero\njc\n").unwrap();
    let mut debugfs = program("debugfs");
    command::output(debugfs.arg("-w").arg("-f").arg(&commands).arg(of(&path))).unwrap();
    let waiting = bytes(&path);
    assert!(waiting != before);
    let (_, mended) = healed(&path, EXTANT_KEEP_UNDO);
    let found = outcome(mended);
    assert!((found.state, found.exit_code) == (EXTANT_RECOVERED, 0) && found.blocks > 0);
    assert!(!kept(mended).is_empty());
    close(mended);
    e2fsck(of(&path)).unwrap();
    // SAFETY: a string.
    assert_eq!(unsafe { extant_undo(path.as_ptr(), null(), null_mut()) }, 0);
    assert!(bytes(&path) == waiting);
}

#[test]
fn what_cannot_be_mended_is_refused() {
    let folder = Scratch::new("capi-refused");
    let path = sample_file(&folder);
    let before = bytes(&path);
    let mut options: OpenOptions = zeros();
    options.access = EXTANT_WRITE;
    let mut volume = null_mut();
    // SAFETY: strings, structs, places, handles.
    unsafe {
        assert_eq!(extant_open(path.as_ptr(), &options, &mut volume), 0);
        for errno in [repaired(&path, 0, 0).0, healed(&path, EXTANT_CHECK_ALWAYS).0] {
            assert_eq!((errno, last_kind()), (EBUSY, EXTANT_KIND_IN_USE));
        }
        assert_eq!(extant_undo(path.as_ptr(), null(), null_mut()), EBUSY);
        assert_eq!(extant_close(volume), 0);
        for (scope, flags) in [(3, 0), (0, 4)] {
            assert_eq!(repaired(&path, scope, flags).0, EINVAL);
            assert!(said().contains("unknown"), "{}", said());
        }
        assert_eq!(healed(&path, 4).0, EINVAL);
        let mut mended = null_mut();
        let mut how: HealOptions = zeros();
        how.reserved = 1;
        assert_eq!(extant_heal(path.as_ptr(), null(), &how, &mut mended), E2BIG);
        let none = string(&folder.join("none.img"));
        assert_eq!((repaired(&none, 0, 0).0, healed(&none, 0).0), (ENOENT, ENOENT));
        let zeros = string(&folder.join("zeros.img"));
        std::fs::write(of(&zeros), vec![0; 1 << 20]).unwrap();
        for errno in [repaired(&zeros, EXTANT_SCOPE_ALL, 0).0, healed(&zeros, 0).0] {
            assert_eq!((errno, last_kind()), (EINVAL, EXTANT_KIND_NOT_A_VOLUME));
        }
        assert!(bytes(&zeros) == vec![0; 1 << 20]);
    }
    // What a volume that was open may have written is its own affair: nothing is beside it.
    assert_eq!(bytes(&path).len(), before.len());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

fn last_kind() -> u32 {
    extant_capi::error::extant_error_kind()
}
