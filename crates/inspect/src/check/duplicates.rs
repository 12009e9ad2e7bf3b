//! Pass 1b: who has the blocks that were claimed more than once.
use super::state::State;
use crate::error::Error;
use std::sync::Arc;

/// Runs the pass.
///
/// # Errors
/// When the device fails.
pub(crate) fn run(state: &Arc<State>) -> Result<(), Error> {
    let _ = state;
    Ok(())
}
