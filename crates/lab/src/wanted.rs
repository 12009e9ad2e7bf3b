//! Whether long work is still wanted by who asked for it.
//!
//! *Invariants*: none; *Locking*: none. Work asks before each piece, from whatever thread, and ends
//! with an error once the answer is no: what it has measured until then is no result.
use std::fmt;
use std::sync::Arc;

/// Asked before each piece of work; by default it is always wanted.
#[derive(Clone, Default)]
pub struct Wanted(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Wanted {
    /// While this says so. It is called often, for each call of a run, and has to be quick.
    pub fn by(says: impl Fn() -> bool + Send + Sync + 'static) -> Wanted {
        Wanted(Some(Arc::new(says)))
    }

    /// Whether to go on.
    pub fn is_wanted(&self) -> bool {
        self.0.as_ref().is_none_or(|says| says())
    }
}

impl fmt::Debug for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Wanted(asked)" } else { "Wanted" })
    }
}

/// What work that ended early says.
pub(crate) const UNWANTED: &str = "ended before it was done: it was not wanted any more";
