//! What fails a transaction: until it is aborted, or for good.

use samsarrow_wire::error_code::{ErrorCode, InTransaction};

use super::Transactions;
use super::state::Protocol;
use crate::error::Error;
use crate::produce::accumulator::Accumulator;
use crate::produce::batch::{Identity, Settled};
use crate::produce::sink::Shared;

/// A leader knows a newer epoch. If the coordinator does too, the producer was fenced.
pub(super) async fn tell_whether_fenced(
    shared: &Shared,
    transactions: &Transactions,
    identity: Option<Identity>,
    protocol: Protocol,
    cause: Error,
) -> Error {
    match transactions.end(identity, protocol, false).await {
        Ok(renewed) => {
            let mut accumulator = shared.lock();
            if let Some(identity) = renewed {
                accumulator.take_over(identity);
            }
            // Aborted already; the phase stays, so that nothing goes on before the program has aborted as well.
            if let Some(transaction) = &mut accumulator.transaction {
                transaction.started = false;
            }
            Error::Transaction { fatal: false, cause: Box::new(cause) }
        }
        Err(error) => fail_for_good(shared, error),
    }
}

/// No call will succeed any more; what waits fails.
pub(super) fn fail_for_good(shared: &Shared, error: Error) -> Error {
    let dropped = {
        let mut accumulator = shared.lock();
        if let Some(transaction) = &mut accumulator.transaction {
            transaction.fail_for_good(error.clone());
        }
        accumulator.abandon(&Error::Transaction { fatal: true, cause: Box::new(error.clone()) })
    };
    shared.settle(dropped);
    Error::Transaction { fatal: true, cause: Box::new(error) }
}

impl Shared {
    /// Something of the transaction failed for good; gives the error that calls get from now on. What the coordinator
    /// refused is fatal unless it says that an abort helps.
    pub(crate) fn fail_transaction(&self, mut error: Error, by_coordinator: bool) -> Error {
        let fatal = match &error {
            Error::Server { code, .. } => by_coordinator && code.in_transaction() != InTransaction::Abort,
            Error::Aborted(_) => false,
            _ => by_coordinator,
        };
        if fatal {
            return fail_for_good(self, error);
        }
        let dropped = self.lock().transaction_failed(&mut error);
        self.settle(dropped);
        error
    }
}

impl Accumulator {
    /// An error of the transaction, which it says from now on: what was not sent yet is not going to be.
    pub(crate) fn transaction_failed(&mut self, error: &mut Error) -> Vec<Settled> {
        let Some(transaction) = &mut self.transaction else { return Vec::new() };
        let changed = transaction.fail(error);
        if !matches!(error, Error::Transaction { .. } | Error::Aborted(_))
            && let Some(Error::Transaction { fatal, .. }) = transaction.error()
        {
            *error = Error::Transaction { fatal, cause: Box::new(error.clone()) };
        }
        if !changed {
            return Vec::new();
        }
        match transaction.error() {
            Some(fatal @ Error::Transaction { fatal: true, .. }) => self.abandon(&fatal),
            Some(abortable) => self.drop_unsent(&abortable),
            None => Vec::new(),
        }
    }
}

/// What a coordinator calls an old epoch is fenced, in old versions too.
pub(super) fn fenced_or(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::INVALID_PRODUCER_EPOCH => ErrorCode::PRODUCER_FENCED,
        code => code,
    }
}
