//! Calls with what programs get wrong, by the functions that C calls.
use extant_capi::build::*;
use extant_capi::change::*;
use extant_capi::check::*;
use extant_capi::error::*;
use extant_capi::failure::*;
use extant_capi::file::*;
use extant_capi::mend::*;
use extant_capi::structs::*;
use extant_capi::trim::*;
use extant_capi::volume::*;
use extant_capi::walk::*;
use extant_testkit::scratch::Scratch;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

const EIO: c_int = 5;
const E2BIG: c_int = 7;
const EBUSY: c_int = 16;
const ENOENT: c_int = 2;
const EINVAL: c_int = 22;
const EROFS: c_int = 30;
const ERANGE: c_int = 34;

/// Zeros with their size: what the header tells a program to begin with.
pub(crate) fn zeros<T: extant_capi::sized::Versioned>() -> T {
    let mut value: T = extant_capi::sized::zeroed();
    // SAFETY: the first field of every such struct.
    unsafe { (&raw mut value).cast::<usize>().write(size_of::<T>()) };
    value
}

/// A disk of the program.
struct Disk {
    bytes: Mutex<Vec<u8>>,
    /// What its functions return.
    answer: AtomicI32,
    released: AtomicUsize,
}

impl Disk {
    fn new(bytes: Vec<u8>) -> Disk {
        let (answer, released) = (AtomicI32::new(0), AtomicUsize::new(0));
        Disk { bytes: Mutex::new(bytes), answer, released }
    }

    fn device(&self) -> Device {
        let mut device: Device = zeros();
        device.context = (&raw const *self).cast_mut().cast();
        device.size = Some(size);
        device.read_at = Some(read_at);
        device.write_at = Some(write_at);
        device.flush = Some(flush);
        device.release = Some(release);
        device
    }
}

unsafe fn disk<'c>(context: *mut c_void) -> &'c Disk {
    // SAFETY: the disk that `device` was asked of, which outlives it.
    unsafe { &*context.cast::<Disk>() }
}

unsafe extern "C" fn size(context: *mut c_void) -> u64 {
    // SAFETY: as in `disk`.
    unsafe { disk(context) }.bytes.lock().unwrap().len() as u64
}

unsafe extern "C" fn read_at(
    context: *mut c_void,
    offset: u64,
    bytes: *mut c_void,
    length: usize,
) -> c_int {
    // SAFETY: as in `disk`.
    let disk = unsafe { disk(context) };
    let held = disk.bytes.lock().unwrap();
    let from = &held[offset as usize..offset as usize + length];
    // SAFETY: so many bytes of the library.
    unsafe { bytes.cast::<u8>().copy_from_nonoverlapping(from.as_ptr(), length) };
    disk.answer.load(Ordering::SeqCst)
}

unsafe extern "C" fn write_at(
    context: *mut c_void,
    offset: u64,
    bytes: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: as in `disk`.
    let disk = unsafe { disk(context) };
    // SAFETY: so many bytes of the library.
    let given = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) };
    disk.bytes.lock().unwrap()[offset as usize..offset as usize + length].copy_from_slice(given);
    disk.answer.load(Ordering::SeqCst)
}

unsafe extern "C" fn flush(context: *mut c_void) -> c_int {
    // SAFETY: as in `disk`.
    unsafe { disk(context) }.answer.load(Ordering::SeqCst)
}

unsafe extern "C" fn release(context: *mut c_void) {
    // SAFETY: as in `disk`.
    unsafe { disk(context) }.released.fetch_add(1, Ordering::SeqCst);
}

/// An image with a few files and room.
fn sample() -> Vec<u8> {
    let memory = extant::Memory::new();
    let builder = extant::Builder::new().block_size(1024).free(4 << 20).label("sample");
    let builder = builder.files(|files| {
        files.add("/etc/hostname", extant::NewFile::file("extant\n"))?;
        files.add("/etc/name", extant::NewFile::symlink("hostname"))?;
        files.add("/large", extant::NewFile::file(vec![7; 300_000]))
    });
    builder.unwrap().build_memory(&memory).unwrap();
    memory.to_vec()
}

pub(crate) fn sample_file(folder: &Scratch) -> CString {
    let path = folder.join("disk.img");
    std::fs::write(&path, sample()).unwrap();
    string(&path)
}

pub(crate) fn string(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn opened(path: &CStr, access: u32) -> (c_int, *mut Volume) {
    let mut options: OpenOptions = zeros();
    options.access = access;
    let mut volume = null_mut();
    // SAFETY: a string, a struct and a place.
    let errno = unsafe { extant_open(path.as_ptr(), &options, &mut volume) };
    assert_eq!(errno == 0, !volume.is_null());
    (errno, volume)
}

/// The words of the last failure of this thread.
pub(crate) fn said() -> String {
    let mut buffer = [0 as c_char; 300];
    // SAFETY: a buffer of that size.
    unsafe { extant_error(buffer.as_mut_ptr(), buffer.len()) };
    // SAFETY: it ends with a NUL.
    unsafe { CStr::from_ptr(buffer.as_ptr()) }.to_str().unwrap().to_owned()
}

fn content(volume: *const Volume, path: &CStr) -> (c_int, Vec<u8>) {
    let (mut bytes, mut length) = (vec![0; 400_000], 0);
    let start: *mut c_void = bytes.as_mut_ptr().cast();
    // SAFETY: a handle or NULL, a string, a buffer of that size, a place.
    let errno = unsafe { extant_read(volume, path.as_ptr(), 0, start, bytes.len(), &mut length) };
    bytes.truncate(length);
    (errno, bytes)
}

#[test]
fn null_is_an_error_everywhere() {
    let path = c"/x".as_ptr();
    let (mut length, mut name) = (0, null());
    // SAFETY: NULL wherever there would be a handle.
    let answers = unsafe {
        [
            extant_sync(null()),
            extant_sync_path(null(), path),
            extant_statfs(null(), null_mut()),
            extant_identity(null(), null_mut(), 0, null_mut()),
            extant_lost(null(), 0, null_mut(), 0),
            extant_stat(null(), path, null_mut()),
            extant_lstat(null(), path, null_mut()),
            extant_read(null(), path, 0, null_mut(), 0, &mut length),
            extant_readlink(null(), path, null_mut(), 0, &mut length),
            extant_list_attributes(null(), path, null_mut(), 0, &mut length),
            extant_get_attribute(null(), path, path, null_mut(), 0, &mut length),
            extant_write(null(), path, null(), 0),
            extant_mkdir(null(), path),
            extant_mkdir_all(null(), path),
            extant_symlink(null(), path, path),
            extant_mknod(null(), path, 0o010644, 0, 0),
            extant_link(null(), path, path),
            extant_rename(null(), path, path),
            extant_unlink(null(), path),
            extant_rmdir(null(), path),
            extant_remove_all(null(), path),
            extant_chmod(null(), path, 0),
            extant_chown(null(), path, 0, 0),
            extant_set_modify_time(null(), path, Time::default()),
            extant_set_attribute(null(), path, path, null(), 0),
            extant_remove_attribute(null(), path, path),
            extant_commit(null_mut()),
            extant_file_open(null(), path, &mut null_mut()),
            extant_file_create(null(), path, &mut null_mut()),
            extant_file_stat(null(), null_mut()),
            extant_file_read(null(), 0, null_mut(), 0, &mut length),
            extant_file_write(null(), 0, null(), 0),
            extant_file_truncate(null(), 0),
            extant_file_sync(null()),
            extant_list(null(), path, &mut null_mut()),
            extant_walk_tree(null(), path, &mut null_mut()),
            extant_walk_next(null(), &mut name, null_mut()),
            extant_builder_source(null(), path),
            extant_builder_exclude(null(), path),
            extant_builder_add(null(), path, null()),
            extant_builder_warning(null(), 0, null_mut(), 0),
            extant_build(null(), path, null(), null_mut()),
            extant_report_problem(null(), 0, null_mut(), null_mut(), 0),
            extant_volume_error(null(), null_mut(), 0),
            extant_file_error(null(), null_mut(), 0),
            extant_walk_error(null(), null_mut(), 0),
            extant_builder_error(null(), null_mut(), 0),
            extant_open(null(), null(), &mut null_mut()),
            extant_open_device(null(), null(), &mut null_mut()),
            extant_check(null(), null(), &mut null_mut()),
            extant_check_device(null(), null(), &mut null_mut()),
            extant_build_device(null(), null(), null(), null_mut()),
            extant_builder_open(null_mut()),
            extant_repair(null(), null(), null(), &mut null_mut()),
            extant_undo(null(), null(), null_mut()),
            extant_heal(null(), null(), null(), &mut null_mut()),
            extant_resize(null(), null(), null(), null_mut()),
            extant_tune(null(), null(), null(), 0, 0, null_mut()),
            extant_trim(null(), null(), 0, null_mut()),
            extant_normalize(null(), null(), path, null_mut()),
            extant_repack(null(), null(), path, null(), 0, null_mut()),
            extant_mended_outcome(null(), null_mut()),
            extant_mended_change(null(), 0, null_mut(), null_mut(), 0),
            extant_mended_loss(null(), 0, null_mut(), 0),
            extant_mended_reason(null(), null_mut(), 0),
            extant_mended_left(null(), &mut null_mut()),
            extant_mended_undo(null(), null_mut(), 0, null_mut()),
        ]
    };
    assert_eq!(answers, [EINVAL; 67]);
    // What ends nothing is no error, and what counts nothing says none.
    // SAFETY: NULL.
    unsafe {
        assert_eq!(extant_close(null_mut()), 0);
        assert_eq!(extant_file_close(null_mut()), 0);
        assert_eq!(extant_walk_close(null_mut()), 0);
        assert_eq!(extant_builder_close(null_mut()), 0);
        assert_eq!(extant_report_close(null_mut()), 0);
        assert_eq!(extant_mended_close(null_mut()), 0);
        assert_eq!((extant_lost_count(null()), extant_report_count(null())), (0, 0));
        assert_eq!(extant_report_exit_code(null()), -1);
    }
    assert_eq!(extant_error_kind(), EXTANT_KIND_INVALID);
}

#[test]
fn null_beside_a_handle_is_an_error_that_the_handle_keeps() {
    let folder = Scratch::new("capi-null");
    let (_, volume) = opened(&sample_file(&folder), EXTANT_WRITE);
    let path = c"/etc/hostname".as_ptr();
    let mut buffer = [1 as c_char; 16];
    // SAFETY: a handle, and NULL beside it.
    unsafe {
        for errno in [
            extant_stat(volume, null(), &mut zeros()),
            extant_stat(volume, path, null_mut()),
            extant_read(volume, path, 0, null_mut(), 10, &mut 0),
            extant_read(volume, path, 0, buffer.as_mut_ptr().cast(), 10, null_mut()),
            extant_write(volume, path, null(), 10),
            extant_symlink(volume, null(), path),
            extant_rename(volume, path, null()),
            extant_link(volume, null(), path),
            extant_set_attribute(volume, path, null(), null(), 0),
            extant_set_attribute(volume, path, path, null(), 5),
            extant_file_open(volume, path, null_mut()),
            extant_statfs(volume, null_mut()),
            extant_write(volume, path, path.cast(), usize::MAX),
            extant_set_modify_time(volume, path, Time { nanoseconds: 1 << 30, ..Time::default() }),
            extant_mknod(volume, path, 0o644, 0, 0),
        ] {
            assert_eq!(errno, EINVAL, "{}", said());
        }
        assert_eq!(content(volume, c"/etc/hostname").1, b"extant\n", "nothing happened");
        assert_eq!(extant_stat(volume, null(), &mut zeros()), EINVAL);
        // The handle has it still after another handle has failed in this thread.
        assert_eq!(extant_sync(null()), EINVAL);
        assert_eq!(extant_volume_error(volume, buffer.as_mut_ptr(), buffer.len()), EINVAL);
        assert_eq!(CStr::from_ptr(buffer.as_ptr()), c"path is NULL");
        assert_eq!(said(), "handle is NULL");
        // Words are cut, and end.
        assert_eq!(extant_volume_error(volume, buffer.as_mut_ptr(), 5), EINVAL);
        assert_eq!(CStr::from_ptr(buffer.as_ptr()), c"path");
        assert_eq!(extant_volume_error(volume, null_mut(), 5), EINVAL);
        assert_eq!(extant_close(volume), 0);
    }
}

#[test]
fn words_are_utf_8_and_paths_are_bytes() {
    let folder = Scratch::new("capi-words");
    let path = sample_file(&folder);
    let bad = c"\xff\xfe";
    let mut volume = null_mut();
    for field in 0..2 {
        let mut options: OpenOptions = zeros();
        let target = if field == 0 { &mut options.partition } else { &mut options.policies };
        *target = bad.as_ptr();
        // SAFETY: strings, a struct, a place.
        assert_eq!(unsafe { extant_open(path.as_ptr(), &options, &mut volume) }, EINVAL);
        assert!(said().ends_with("is no UTF-8"), "{}", said());
    }
    let name = c"/\xff\xfe";
    let mut builder = null_mut();
    let mut how: BuildOptions = zeros();
    (how.label, how.free_bytes) = (bad.as_ptr(), 1 << 20);
    let image = string(&folder.join("new.img"));
    // SAFETY: handles, strings and structs.
    unsafe {
        assert_eq!(extant_builder_open(&mut builder), 0);
        assert_eq!(extant_builder_exclude(builder, bad.as_ptr()), EINVAL);
        assert_eq!(extant_build(builder, image.as_ptr(), &how, null_mut()), EINVAL);
        assert_eq!(extant_builder_close(builder), 0);
        let (_, volume) = opened(&path, EXTANT_WRITE);
        assert_eq!(extant_write(volume, name.as_ptr(), b"x".as_ptr().cast(), 1), 0);
        let (mut walk, mut found) = (null_mut(), null());
        assert_eq!(extant_list(volume, c"/".as_ptr(), &mut walk), 0);
        let mut names = Vec::new();
        loop {
            assert_eq!(extant_walk_next(walk, &mut found, null_mut()), 0);
            if found.is_null() {
                break;
            }
            names.push(CStr::from_ptr(found).to_owned());
        }
        assert_eq!(names.last().map(CString::as_c_str), Some(name));
        assert_eq!(extant_walk_close(walk), 0);
        assert_eq!(extant_unlink(volume, c"/\xff\xff".as_ptr()), ENOENT);
        assert!(!said().is_empty());
        assert_eq!(extant_close(volume), 0);
    }
}

/// A struct as a program of another version has it.
#[repr(C)]
struct Newer<T> {
    known: T,
    unknown: [u64; 3],
}

#[test]
fn structs_of_older_and_newer_programs_are_understood() {
    let folder = Scratch::new("capi-sizes");
    let path = sample_file(&folder);
    let open = |options: *const OpenOptions| {
        let mut volume = null_mut();
        // SAFETY: a string, a struct of the size that it says, a place.
        let errno = unsafe { extant_open(path.as_ptr(), options, &mut volume) };
        // SAFETY: the handle, or NULL.
        assert_eq!(unsafe { extant_close(volume) }, 0);
        errno
    };
    let mut older: OpenOptions = zeros();
    // What the older program has after its struct is not looked at.
    (older.access, older.policies) = (EXTANT_WRITE, std::ptr::dangling());
    older.struct_size = offset_of!(OpenOptions, partition);
    assert_eq!(open(&older), 0);
    for size in [0, 1, 7] {
        older.struct_size = size;
        assert_eq!(open(&older), EINVAL);
        assert!(said().contains("struct_size"), "{}", said());
    }
    let mut newer = Newer { known: zeros::<OpenOptions>(), unknown: [0; 3] };
    newer.known.struct_size = size_of_val(&newer);
    assert_eq!(open((&raw const newer).cast()), 0);
    newer.unknown[2] = 1 << 63;
    assert_eq!(open((&raw const newer).cast()), E2BIG);
    assert!(said().contains("extant_open_options"), "{}", said());
    newer.unknown[2] = 0;
    newer.known.flags = 1 << 31;
    assert_eq!(open((&raw const newer).cast()), EINVAL);
    newer.known.flags = 0;
    newer.known.access = 3;
    assert_eq!(open((&raw const newer).cast()), EINVAL);
}

#[test]
fn structs_that_are_filled_in_are_filled_as_far_as_they_go() {
    let folder = Scratch::new("capi-fills");
    let (_, volume) = opened(&sample_file(&folder), EXTANT_READ);
    let path = c"/large".as_ptr();
    let mut older: Stat = zeros();
    older.struct_size = offset_of!(Stat, sectors);
    (older.sectors, older.generation) = (77, 78);
    // SAFETY: a handle, a string, structs of the size that they say.
    unsafe {
        assert_eq!(extant_stat(volume, path, &mut older), 0);
        assert_eq!((older.size, older.sectors, older.generation), (300_000, 77, 78));
        assert_eq!(older.struct_size, offset_of!(Stat, sectors));
        let mut newer = Newer { known: zeros::<Stat>(), unknown: [9; 3] };
        newer.known.struct_size = size_of_val(&newer) - 8;
        assert_eq!(extant_stat(volume, path, (&raw mut newer).cast()), 0);
        assert_eq!((newer.known.size, newer.known.mode), (300_000, 0o100_644));
        assert_eq!(newer.known.struct_size, size_of_val(&newer) - 8);
        assert_eq!(newer.unknown, [0, 0, 9]);
        older.struct_size = 0;
        assert_eq!(extant_stat(volume, path, &mut older), EINVAL);
        assert_eq!(extant_close(volume), 0);
    }
}

#[test]
fn buffers_that_are_too_small_are_told_so() {
    let folder = Scratch::new("capi-buffers");
    let (_, volume) = opened(&sample_file(&folder), EXTANT_READ);
    let path = c"/etc/name".as_ptr();
    let (mut buffer, mut length) = ([1_i8; 16], 0);
    let start: *mut c_char = buffer.as_mut_ptr().cast();
    // SAFETY: a handle, a string, a buffer with at least so many bytes, a place.
    unsafe {
        assert_eq!(extant_readlink(volume, path, null_mut(), 0, &mut length), 0);
        assert_eq!(length, 8);
        length = 0;
        assert_eq!(extant_readlink(volume, path, start, 7, &mut length), ERANGE);
        assert_eq!((length, buffer[0]), (8, 1));
        assert_eq!(extant_readlink(volume, path, start, 8, null_mut()), 0);
        assert_eq!(&buffer.map(|byte| byte as u8)[..9], b"hostname\x01");
        assert_eq!(extant_readlink(volume, path, null_mut(), 8, &mut length), EINVAL);
        assert_eq!(extant_get_attribute(volume, path, path, null_mut(), 0, &mut length), 61);
        assert_eq!(extant_error_kind(), EXTANT_KIND_NOT_FOUND);
        assert_eq!(extant_close(volume), 0);
    }
}

#[test]
fn an_image_that_goes_away_while_it_is_open_is_still_there() {
    let folder = Scratch::new("capi-gone");
    let path = sample_file(&folder);
    let (_, volume) = opened(&path, EXTANT_READ);
    std::fs::remove_file(folder.join("disk.img")).unwrap();
    assert_eq!(content(volume, c"/large").1, vec![7; 300_000]);
    // SAFETY: a handle.
    assert_eq!(unsafe { extant_close(volume) }, 0);
    assert_eq!(opened(&path, EXTANT_READ).0, ENOENT);
    assert!(said().contains("disk.img"), "{}", said());

    let path = sample_file(&folder);
    let (_, volume) = opened(&path, EXTANT_READ);
    let file = std::fs::File::options().write(true).open(folder.join("disk.img")).unwrap();
    file.set_len(0).unwrap();
    let (errno, _) = content(volume, c"/large");
    assert_ne!(errno, 0, "its bytes are gone");
    // SAFETY: a handle.
    assert_eq!(unsafe { extant_close(volume) }, 0);
}

/// The handle of a volume, for threads.
struct Shared<T>(*mut T);
impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        *self
    }
}
impl<T> Copy for Shared<T> {}
// SAFETY: the header says that volumes and files may be used from several threads.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

#[test]
fn threads_share_a_handle_and_have_their_own_failures() {
    let folder = Scratch::new("capi-threads");
    let path = sample_file(&folder);
    let (_, volume) = opened(&path, EXTANT_WRITE);
    let shared = Shared(volume);
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            scope.spawn(move || {
                let shared = { shared };
                let mine = CString::new(format!("/of-{thread}")).unwrap();
                let none = CString::new(format!("/none-{thread}")).unwrap();
                for round in 0..20_u8 {
                    let bytes = [thread ^ round; 5000];
                    // SAFETY: a handle, a string, bytes.
                    let errno = unsafe {
                        extant_write(shared.0, mine.as_ptr(), bytes.as_ptr().cast(), bytes.len())
                    };
                    assert_eq!(errno, 0, "{}", said());
                    assert_eq!(content(shared.0, c"/large").1.len(), 300_000);
                    assert_eq!(content(shared.0, &mine).1, bytes);
                    assert_eq!(content(shared.0, &none).0, ENOENT);
                    assert!(said().starts_with(none.to_str().unwrap()), "{}", said());
                }
            });
        }
    });
    // SAFETY: a handle, and no thread has it any more.
    assert_eq!(unsafe { extant_close(volume) }, 0);
    assert!(extant::check(path.to_str().unwrap()).unwrap().is_clean());
}

#[test]
fn a_second_handle_reads_beside_a_reader_and_is_refused_beside_a_writer() {
    let folder = Scratch::new("capi-second");
    let path = sample_file(&folder);
    let (one, two) = (opened(&path, EXTANT_READ).1, opened(&path, EXTANT_READ).1);
    let both = [Shared(one), Shared(two)];
    std::thread::scope(|scope| {
        for handle in both {
            scope.spawn(move || {
                let handle = { handle };
                assert_eq!(content(handle.0, c"/large").1.len(), 300_000);
            });
        }
    });
    assert_eq!(opened(&path, EXTANT_WRITE).0, EBUSY);
    assert_eq!(extant_error_kind(), EXTANT_KIND_IN_USE);
    // SAFETY: handles, each closed once.
    unsafe {
        assert_eq!(extant_mkdir(one, c"/new".as_ptr()), EROFS);
        assert_eq!((extant_close(one), extant_close(two)), (0, 0));
    }
    let (_, writer) = opened(&path, EXTANT_WRITE);
    assert_eq!(opened(&path, EXTANT_READ).0, EBUSY);
    assert_eq!(opened(&path, EXTANT_CHANGE).0, EBUSY);
    // A file keeps the image in use, and is not written after its volume was closed.
    let mut file = null_mut();
    // SAFETY: handles, strings and places.
    unsafe {
        assert_eq!(extant_file_open(writer, c"/large".as_ptr(), &mut file), 0);
        assert_eq!(extant_file_write(file, 0, b"new".as_ptr().cast(), 3), 0);
        assert_eq!(extant_close(writer), 0);
        assert_ne!(extant_file_write(file, 0, b"lost".as_ptr().cast(), 4), 0);
        let mut words = [0 as c_char; 100];
        assert_ne!(extant_file_error(file, words.as_mut_ptr(), words.len()), 0);
        assert_ne!(words[0], 0);
        assert_eq!(opened(&path, EXTANT_WRITE).0, EBUSY);
        assert_eq!(extant_file_close(file), 0);
    }
    let (errno, volume) = opened(&path, EXTANT_WRITE);
    assert_eq!((errno, &content(volume, c"/large").1[..4]), (0, &b"new\x07"[..]));
    // SAFETY: a handle.
    assert_eq!(unsafe { extant_close(volume) }, 0);
}

#[test]
fn changes_reach_the_image_by_their_commit_alone() {
    let folder = Scratch::new("capi-changes");
    let path = sample_file(&folder);
    let before = std::fs::read(folder.join("disk.img")).unwrap();
    let changed = || {
        let (_, volume) = opened(&path, EXTANT_CHANGE);
        // SAFETY: a handle and strings.
        unsafe {
            assert_eq!(extant_remove_all(volume, c"/etc".as_ptr()), 0);
            assert_eq!(extant_mkdir_all(volume, c"/a/b".as_ptr()), 0);
        }
        volume
    };
    // SAFETY: handles, each ended once.
    unsafe {
        assert_eq!(extant_close(changed()), 0);
        assert!(std::fs::read(folder.join("disk.img")).unwrap() == before);
        assert_eq!(extant_commit(changed()), 0);
        let (_, volume) = opened(&path, EXTANT_READ);
        assert_eq!(extant_stat(volume, c"/etc".as_ptr(), &mut zeros()), ENOENT);
        assert_eq!(extant_stat(volume, c"/a/b".as_ptr(), &mut zeros()), 0);
        assert_eq!(extant_commit(volume), EINVAL, "it was only read");
        let (errno, volume) = opened(&path, EXTANT_WRITE);
        assert_eq!((errno, extant_close(volume)), (0, 0), "what was no change is closed");
    }
    assert!(extant::check(path.to_str().unwrap()).unwrap().is_clean());
}

#[test]
fn failures_of_a_device_are_told_and_it_is_released_once() {
    let disk = Disk::new(sample());
    let mut device = disk.device();
    let mut volume = null_mut();
    let mut options: OpenOptions = zeros();
    options.access = EXTANT_WRITE;
    // SAFETY: structs, strings and places; the disk outlives the volumes.
    unsafe {
        disk.answer.store(EIO, Ordering::SeqCst);
        assert_eq!(extant_open_device(&device, null(), &mut volume), EIO);
        assert_eq!(disk.released.swap(0, Ordering::SeqCst), 1, "after a failure too");
        disk.answer.store(-1, Ordering::SeqCst);
        assert_eq!(extant_open_device(&device, null(), &mut volume), EIO);
        assert!(said().contains("negative"), "{}", said());
        disk.answer.store(0, Ordering::SeqCst);
        options.access = 9;
        assert_eq!(extant_open_device(&device, &options, &mut volume), EINVAL);
        assert_eq!(disk.released.swap(0, Ordering::SeqCst), 2);
        options.access = EXTANT_WRITE;
        assert_eq!(extant_open_device(&device, &options, &mut volume), 0);
        assert_eq!(disk.released.load(Ordering::SeqCst), 0);
        assert_eq!(extant_write(volume, c"/new".as_ptr(), b"x".as_ptr().cast(), 1), 0);
        disk.answer.store(28, Ordering::SeqCst);
        assert_eq!(extant_close(volume), 28, "no error of a write is lost");
        assert_eq!(disk.released.swap(0, Ordering::SeqCst), 1);
        disk.answer.store(0, Ordering::SeqCst);
        assert_eq!(extant_build_device(null(), &device, null(), null_mut()), EINVAL);
        assert_eq!(extant_open_device(&device, null(), null_mut()), EINVAL);
        assert_eq!(disk.released.swap(0, Ordering::SeqCst), 2, "without a place too");
        device.write_at = None;
        let other = Disk::new(sample());
        device.context = (&raw const other).cast_mut().cast();
        assert_eq!(extant_open_device(&device, &options, &mut volume), EROFS);
        device.read_at = None;
        assert_eq!(extant_open_device(&device, null(), &mut volume), EINVAL);
    }
}

#[test]
fn a_report_has_each_problem_with_its_name() {
    let mut bytes = sample();
    // The number of free blocks in the superblock.
    bytes[1024 + 12] ^= 1;
    let disk = Disk::new(bytes);
    let (mut report, mut problem) = (null_mut(), zeros::<Problem>());
    let mut words = [0 as c_char; 200];
    // SAFETY: structs, places, handles.
    unsafe {
        assert_eq!(extant_check_device(&disk.device(), null(), &mut report), 0);
        let count = extant_report_count(report);
        assert!(count > 0 && extant_report_exit_code(report) > 0);
        for index in 0..count {
            let (start, size) = (words.as_mut_ptr(), words.len());
            assert_eq!(extant_report_problem(report, index, &mut problem, start, size), 0);
            assert!(!CStr::from_ptr(problem.code).is_empty() && words[0] != 0);
            assert!(problem.severity <= EXTANT_FATAL);
        }
        assert_eq!(extant_report_problem(report, count, null_mut(), null_mut(), 0), EINVAL);
        assert_eq!(extant_report_close(report), 0);
    }
}

#[test]
fn a_builder_takes_sources_and_files_in_their_order() {
    let folder = Scratch::new("capi-builder");
    std::fs::create_dir(folder.join("tree")).unwrap();
    std::fs::write(folder.join("tree/one"), "of the folder").unwrap();
    std::fs::write(folder.join("tree/two"), "of the folder").unwrap();
    std::fs::write(folder.join("tree/left-out.o"), "x").unwrap();
    let (tree, image) = (string(&folder.join("tree")), string(&folder.join("new.img")));
    let mut builder = null_mut();
    let mut built: Built = zeros();
    let mut how: BuildOptions = zeros();
    (how.profile, how.flags, how.uid, how.gid) = (EXTANT_EXT2, EXTANT_OWNER | EXTANT_UUID, 3, 4);
    (how.uuid, how.block_size) = ([5; 16], 1024);
    let file = |content: &'static str| {
        let mut file: NewFile = zeros();
        (file.mode, file.content_bytes) = (0o100_600, content.len());
        file.content = content.as_ptr().cast();
        file
    };
    let mut link: NewFile = zeros();
    (link.mode, link.target) = (0o100_644, c"/one".as_ptr());
    // SAFETY: handles, strings, structs and places.
    unsafe {
        assert_eq!(extant_builder_open(&mut builder), 0);
        assert_eq!(extant_builder_add(builder, c"/one".as_ptr(), &file("before")), 0);
        assert_eq!(extant_builder_source(builder, tree.as_ptr()), 0);
        assert_eq!(extant_builder_exclude(builder, c"*.o".as_ptr()), 0);
        assert_eq!(extant_builder_add(builder, c"/two".as_ptr(), &file("after")), 0);
        assert_eq!(extant_builder_add(builder, c"/three".as_ptr(), &link), 0);
        assert_eq!(extant_build(builder, image.as_ptr(), &how, &mut built), 0, "{}", said());
        assert_eq!((built.block_size, built.has_journal, built.uuid), (1024, 0, [5; 16]));
        assert_eq!(extant_build(builder, image.as_ptr(), &how, null_mut()), EINVAL);
        assert_eq!(extant_builder_add(builder, c"/one".as_ptr(), &file("x")), EINVAL);
        assert_eq!(extant_builder_close(builder), 0);
        let (_, volume) = opened(&image, EXTANT_READ);
        assert_eq!(content(volume, c"/one").1, b"of the folder");
        assert_eq!(content(volume, c"/two").1, b"after");
        assert_eq!(content(volume, c"/left-out.o").0, ENOENT);
        let mut stat: Stat = zeros();
        assert_eq!(extant_stat(volume, c"/three".as_ptr(), &mut stat), 0);
        assert_eq!((stat.links, stat.uid, stat.gid), (2, 3, 4));
        assert_eq!(extant_close(volume), 0);
        // An image that is there is refused, and left.
        assert_eq!(extant_builder_open(&mut builder), 0);
        assert_eq!(extant_build(builder, image.as_ptr(), null(), null_mut()), 17);
        assert_eq!(extant_builder_close(builder), 0);
    }
}

#[test]
fn the_form_of_a_path_says_what_it_has_to_be() {
    const ENOTDIR: c_int = 20;
    let folder = Scratch::new("capi-forms");
    let image = sample_file(&folder);
    let (errno, volume) = opened(&image, EXTANT_CHANGE);
    assert_eq!(errno, 0, "{}", said());
    let mut stat: Stat = zeros();
    // SAFETY: a handle, strings, a struct.
    unsafe {
        let mut stat = |path: &CStr| extant_stat(volume, path.as_ptr(), &mut stat);
        for path in [c"/large/", c"/large/."] {
            assert_eq!(stat(path), ENOTDIR, "{path:?}");
        }
        assert_eq!((stat(c"/etc/."), stat(c"."), stat(c"/etc/")), (0, 0, 0));
        assert_eq!(stat(c""), ENOENT);
        let unlink = |path: &CStr| extant_unlink(volume, path.as_ptr());
        assert_eq!(extant_symlink(volume, c"etc".as_ptr(), c"/link".as_ptr()), 0);
        assert_eq!(
            (unlink(c"/large/"), unlink(c"/link//"), unlink(c"")),
            (ENOTDIR, ENOTDIR, ENOENT)
        );
        assert_eq!(unlink(c"/etc/"), 21);
        assert_eq!((unlink(c"/large"), unlink(c"/link")), (0, 0));
        assert_eq!(stat(c"/etc/hostname"), 0);
        assert_eq!(extant_close(volume), 0);
    }
}

#[test]
fn numbers_that_mean_nothing_are_refused_by_the_call_that_has_them() {
    let folder = Scratch::new("capi-numbers");
    let image = sample_file(&folder);
    let (_, volume) = opened(&image, EXTANT_CHANGE);
    let (mut builder, mut file) = (null_mut(), zeros::<NewFile>());
    let mut how: BuildOptions = zeros();
    // SAFETY: handles, strings, structs.
    unsafe {
        let node = |mode, major, minor| extant_mknod(volume, c"/n".as_ptr(), mode, major, minor);
        assert_eq!(node(0o100_644, 0, 0), EINVAL);
        assert_eq!((node(0o020_644, 4096, 0), node(0o060_644, 0, 1 << 20)), (EINVAL, EINVAL));
        assert_eq!(node(0o020_644, 4095, (1 << 20) - 1), 0, "{}", said());
        let time = |reserved| Time { seconds: 1, nanoseconds: 0, reserved };
        assert_eq!(extant_set_modify_time(volume, c"/n".as_ptr(), time(1)), E2BIG);
        assert_eq!(extant_set_modify_time(volume, c"/n".as_ptr(), time(0)), 0);
        assert_eq!(extant_close(volume), 0);
        assert_eq!(extant_builder_open(&mut builder), 0);
        let add = |path: &CStr, file| extant_builder_add(builder, path.as_ptr(), file);
        file.mode = 0o040_755;
        assert_eq!(add(c"/a/../b", &file), EINVAL);
        file.reserved = 1;
        assert_eq!(add(c"/a", &file), E2BIG);
        (file.reserved, file.mode, file.device_major) = (0, 0o020_644, 4096);
        assert_eq!(add(c"/a", &file), EINVAL);
        file.device_major = 1;
        assert_eq!(add(c"/a", &file), 0);
        how.reserved = 1;
        let path = string(&folder.join("new.img"));
        assert_eq!(extant_build(builder, path.as_ptr(), &how, null_mut()), E2BIG);
        assert_eq!(extant_build(builder, path.as_ptr(), null(), null_mut()), 0, "{}", said());
        assert_eq!(extant_builder_close(builder), 0);
    }
}
