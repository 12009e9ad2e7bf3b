//! What is wrong with a volume.
use crate::device;
use crate::failure::{Failure, Result};
use crate::handle::{self, Handle, handles, on};
use crate::pointer;
use crate::sized;
use crate::structs::{Device, OpenOptions, Problem};
use extant::{Image, Severity};
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int};
use std::ptr;

/// What a check has found.
pub struct Report {
    handle: Handle<Found>,
}
handles!(Report: Found);

/// A report, and the names of its codes for C.
pub struct Found {
    report: extant::Report,
    codes: Codes,
}

impl Found {
    /// Of a report.
    pub fn new(report: extant::Report) -> Found {
        let codes = Codes::of(&report.problems);
        Found { report, codes }
    }

    fn problem(&self, index: usize) -> Result<&extant::Problem> {
        let none = || Failure::invalid(format!("there is no problem {index}"));
        self.report.problems.get(index).ok_or_else(none)
    }
}

/// The names of codes for C, for as long as a handle has them.
pub struct Codes(BTreeMap<&'static str, CString>);

impl Codes {
    /// Those of these problems.
    pub fn of<'p>(problems: impl IntoIterator<Item = &'p extant::Problem>) -> Codes {
        let names = problems.into_iter().map(|problem| problem.rule().name);
        // Names of codes hold no NUL.
        Codes(names.map(|name| (name, CString::new(name).unwrap_or_default())).collect())
    }

    /// Tells one of the problems: what it is, where there is a place for it, and a line about it.
    pub unsafe fn tell(
        &self,
        one: &extant::Problem,
        problem: *mut Problem,
        (buffer, size): (*mut c_char, usize),
    ) -> Result<()> {
        // SAFETY: the promise of the caller about both places, as it is.
        unsafe {
            if !problem.is_null() {
                sized::room(problem)?.fill(&self.filled(one));
            }
            pointer::put_words(&one.to_string(), buffer, size);
        }
        Ok(())
    }

    fn filled(&self, one: &extant::Problem) -> Problem {
        let rule = one.rule();
        Problem {
            struct_size: size_of::<Problem>(),
            code: self.0.get(rule.name).map_or(ptr::null(), |code| code.as_ptr()),
            severity: match rule.severity {
                Severity::Advice => crate::structs::EXTANT_ADVICE,
                Severity::Error => crate::structs::EXTANT_ERROR,
                Severity::Stopping => crate::structs::EXTANT_STOPPING,
                Severity::Fatal => crate::structs::EXTANT_FATAL,
            },
            reserved: 0,
            ino: one.ino.map_or(0, |ino| u64::from(ino.0)),
            block: one.block.map_or(0, |block| block.0),
        }
    }
}

unsafe fn check(
    image: impl FnOnce() -> Result<Image>,
    options: *const OpenOptions,
    report: *mut *mut Report,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        handle::begin(report, || {
            let image = image()?;
            let options = sized::read(options)?.options()?;
            Ok(Found::new(options.check(image)?))
        })
    }
}

/// Checks a volume, as after a replay of its journal; nothing is written. That it is damaged, or no
/// volume, is in the report. `options` may be NULL; its access is not looked at. The handle ends
/// with extant_report_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_check(
    path: *const c_char,
    options: *const OpenOptions,
    report: *mut *mut Report,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { check(|| Ok(Image::from(pointer::path(path, "path")?)), options, report) }
}

/// The same behind functions of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_check_device(
    device: *const Device,
    options: *const OpenOptions,
    report: *mut *mut Report,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { check(|| Ok(Image::device(device::device(device)?)), options, report) }
}

/// How many problems extant_report_problem has; 0 for a volume without any, and for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_report_count(report: *const Report) -> usize {
    let mut count = 0;
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        on(report, |found| {
            count = found.report.problems.len();
            Ok(())
        });
    }
    count
}

/// e2fsck's exit code: 0 for a volume that is what it says (advice aside), 4 for one that is
/// damaged, 8 and 12 for one that cannot be judged to the end; -1 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_report_exit_code(report: *const Report) -> c_int {
    let mut code = -1;
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        on(report, |found| {
            code = c_int::from(found.report.exit_code());
            Ok(())
        });
    }
    code
}

/// One problem, in the order in which they were found: what it is, and a line about it, cut to
/// `size` bytes with the NUL. `problem` and `buffer` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_report_problem(
    report: *const Report,
    index: usize,
    problem: *mut Problem,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe { on(report, |found| found.codes.tell(found.problem(index)?, problem, (buffer, size))) }
}

/// Ends a report. NULL is no error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn extant_report_close(report: *mut Report) -> c_int {
    // SAFETY: the promise of the caller, as it is.
    unsafe {
        handle::end(report, |found| {
            drop(found);
            Ok(())
        })
    }
}
