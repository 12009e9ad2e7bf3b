//! `extantfs._native`: the crate `extant` for Python. What users see is in `extantfs/*.py`.
//!
//! Paths come and go as bytes, and results of many fields as JSON; the Python side gives them their
//! shape. Whatever takes time lets other threads of Python run.
//!
//! ```text
//! image        an image that is open; file: an open file; transaction: what changes it
//! mending      an image that is mended, as it was before, and made ready for use
//! shared       what they share: the volume, and turns between reading and a transaction
//! lab          the laboratory
//! building     an image from sources and entries
//! device       a file object of Python as a device, and as what an archive goes to
//! task         long work: progress, signals, and its end
//! failure      errors as exceptions
//! process      what belongs to one process and not to its children
//! command      the command `extant`
//! ```
mod building;
mod command;
mod device;
mod failure;
mod file;
mod image;
mod lab;
mod mending;
mod process;
mod shared;
mod task;
mod transaction;

use pyo3::prelude::*;

/// The module.
#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<image::Image>()?;
    module.add_class::<file::File>()?;
    module.add_class::<building::Builder>()?;
    module.add_function(wrap_pyfunction!(image::check, module)?)?;
    module.add_function(wrap_pyfunction!(mending::repair, module)?)?;
    module.add_function(wrap_pyfunction!(mending::undo, module)?)?;
    module.add_function(wrap_pyfunction!(mending::heal, module)?)?;
    module.add_function(wrap_pyfunction!(mending::resize, module)?)?;
    module.add_function(wrap_pyfunction!(mending::trim, module)?)?;
    module.add_function(wrap_pyfunction!(mending::remake, module)?)?;
    module.add_function(wrap_pyfunction!(mending::tune, module)?)?;
    module.add_class::<lab::Found>()?;
    module.add_function(wrap_pyfunction!(lab::lab_run, module)?)?;
    module.add_function(wrap_pyfunction!(lab::lab_posts, module)?)?;
    module.add_function(wrap_pyfunction!(lab::lab_replay, module)?)?;
    module.add_function(wrap_pyfunction!(lab::lab_fit, module)?)?;
    module.add_function(wrap_pyfunction!(lab::lab_age, module)?)?;
    module.add_function(wrap_pyfunction!(command::main, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
