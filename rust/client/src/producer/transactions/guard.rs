//! Access to the transaction state of a transactional producer.

use crate::error::{Error, Result};
use crate::producer::accumulator::Accumulator;
use crate::producer::transactions::state::Transaction;

pub(super) fn not_transactional(call: &str) -> Error {
    Error::State(format!("{call}: this producer has no transactions: give it the option transactional.id"))
}

/// Returns the transaction state, or an error for a producer without `transactional.id`.
pub(super) fn transaction_of<'a>(accumulator: &'a mut Accumulator, call: &str) -> Result<&'a mut Transaction> {
    accumulator.transaction.as_mut().ok_or_else(|| not_transactional(call))
}
