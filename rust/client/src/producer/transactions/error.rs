//! What fails a transaction: until it is aborted, or for good.

use samsarrow_wire::error_code::InTransaction;

use crate::error::Error;
use crate::producer::batch::Identity;
use crate::producer::shared::Shared;
use crate::producer::transactions::Transactions;
use crate::producer::transactions::state::Protocol;

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
pub(super) fn fail_for_good(shared: &Shared, mut error: Error) -> Error {
    let dropped = {
        let mut accumulator = shared.lock();
        if let Some(transaction) = &mut accumulator.transaction {
            error = transaction.explain(error);
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
