//! Aborting of batches when the producer closes or its transaction fails.

use super::accumulator::Accumulator;
use super::batch::BatchResult;
use crate::error::Error;

impl Accumulator {
    /// Fails batches that were never sent. Batches that were sent are still retried, because they may be in the log.
    pub(crate) fn abort_unsent(&mut self, error: &Error) -> Vec<BatchResult> {
        let mut results = Vec::new();
        for queue in self.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
            queue.abort_unsent(error, &mut results);
        }
        results
    }

    /// Fails all batches.
    pub(crate) fn abort_batches(&mut self, error: &Error) -> Vec<BatchResult> {
        let mut results = Vec::new();
        for topic in &mut self.topics {
            for queue in &mut topic.partitions {
                queue.abort_batches(error, &mut results);
            }
        }
        results
    }

    /// Fails the transaction and wraps `error` as an error of the transaction. Also fails batches: all batches after a
    /// fatal error, otherwise batches that were never sent.
    pub(crate) fn transaction_failed(&mut self, error: &mut Error) -> Vec<BatchResult> {
        let Some(transaction) = &mut self.transaction else { return Vec::new() };
        *error = transaction.explain(error.clone());
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
            Some(fatal @ Error::Transaction { fatal: true, .. }) => self.abort_batches(&fatal),
            Some(abortable) => self.abort_unsent(&abortable),
            None => Vec::new(),
        }
    }
}
