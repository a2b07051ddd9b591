//! The transactions of a producer that has them.

use crate::error::{Error, Result};
use crate::producer::accumulator::Accumulator;
use crate::producer::transactions::state::Transaction;

pub(super) fn not_transactional(call: &str) -> Error {
    Error::State(format!("{call}: this producer has no transactions: give it the option transactional.id"))
}

/// The state of a producer that has transactions.
pub(super) fn of<'a>(accumulator: &'a mut Accumulator, call: &str) -> Result<&'a mut Transaction> {
    accumulator.transaction.as_mut().ok_or_else(|| not_transactional(call))
}
