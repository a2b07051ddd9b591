//! Abortable and fatal failures of a transaction.

use samsarrow_wire::error_code::InTransaction;

use crate::error::Error;
use crate::producer::batch::ProducerIdAndEpoch;
use crate::producer::shared::Shared;
use crate::producer::transactions::Transactions;
use crate::producer::transactions::state::Protocol;

/// Aborts the transaction after a leader has reported a newer epoch. If the coordinator rejects the abort, the producer
/// was fenced, which is fatal; otherwise the error is abortable.
pub(super) async fn resolve_old_epoch(
    shared: &Shared,
    transactions: &Transactions,
    identity: Option<ProducerIdAndEpoch>,
    protocol: Protocol,
    cause: Error,
) -> Error {
    match transactions.end(identity, protocol, false).await {
        Ok(renewed) => {
            let mut accumulator = shared.lock();
            if let Some(identity) = renewed {
                accumulator.set_producer_id(identity);
            }
            // The coordinator has aborted the transaction. The phase does not change, because the application must also
            // call `abort_transaction` before it continues.
            if let Some(transaction) = &mut accumulator.transaction {
                transaction.started = false;
            }
            Error::Transaction { fatal: false, cause: Box::new(cause) }
        }
        Err(error) => fail_fatal(shared, error),
    }
}

/// Fails the producer permanently, and fails all pending records.
pub(super) fn fail_fatal(shared: &Shared, mut error: Error) -> Error {
    let dropped = {
        let mut accumulator = shared.lock();
        if let Some(transaction) = &mut accumulator.transaction {
            error = transaction.explain(error);
            transaction.fail_fatal(error.clone());
        }
        accumulator.abort_batches(&Error::Transaction { fatal: true, cause: Box::new(error.clone()) })
    };
    shared.complete(dropped);
    tracing::info!(
        client_id = shared.cluster.client_id(),
        transactional_id = shared.settings.transactional_id.as_deref(),
        "the transactional producer failed and must be closed: {error}"
    );
    Error::Transaction { fatal: true, cause: Box::new(error) }
}

impl Shared {
    /// Fails the transaction after a permanent error and returns the error of further calls. An error from the
    /// coordinator is fatal unless its code is defined as abortable.
    pub(crate) fn fail_transaction(&self, mut error: Error, by_coordinator: bool) -> Error {
        let fatal = match &error {
            Error::Server { code, .. } => by_coordinator && code.in_transaction() != InTransaction::Abort,
            Error::Aborted(_) => false,
            _ => by_coordinator,
        };
        if fatal {
            return fail_fatal(self, error);
        }
        let dropped = self.lock().transaction_failed(&mut error);
        tracing::debug!(
            client_id = self.cluster.client_id(),
            transactional_id = self.settings.transactional_id.as_deref(),
            "the transaction must be aborted: {error}"
        );
        self.complete(dropped);
        error
    }
}
