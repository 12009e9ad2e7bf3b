//! What belongs to one process: threads and locks are not in a child that was forked from it.
use pyo3::PyResult;
use pyo3::exceptions::PyRuntimeError;

/// The process that something was opened in.
#[derive(Clone, Copy, Debug)]
pub struct Home(u32);

impl Home {
    /// This process.
    pub fn here() -> Home {
        Home(std::process::id())
    }

    /// Whether this process is it.
    pub fn is_here(self) -> bool {
        self.0 == std::process::id()
    }

    /// # Errors
    /// It is not this process.
    pub fn check(self) -> PyResult<()> {
        match self.is_here() {
            true => Ok(()),
            false => Err(PyRuntimeError::new_err(format!(
                "opened in process {}, of which this one ({}) was forked: open the image here anew",
                self.0,
                std::process::id()
            ))),
        }
    }
}
