//! Completion of batches without a response, because they expired or were aborted.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::time::Instant;

use super::{PartitionQueue, Rules};
use crate::error::Error;
use crate::producer::batch::{Batch, BatchResult};

impl PartitionQueue {
    /// Fails expired batches. Batches in flight release their memory later, when the response arrives.
    pub(crate) fn expire(&mut self, now: Instant, rules: &Rules, results: &mut Vec<BatchResult>) {
        while self.waiting.front().is_some_and(|batch| batch.deadline <= now) {
            let Some(batch) = self.waiting.pop_front() else { break };
            self.record_gap(&batch);
            let error = timed_out(&batch, batch.cause.as_ref(), rules);
            results.push(batch.complete(Err(error)));
        }
        if self.waiting.is_empty()
            && self.open.as_ref().is_some_and(|batch| batch.deadline <= now)
            && let Some(batch) = self.open.take()
        {
            batch.state.close(batch.first + batch.count);
            let error = timed_out(&batch, None, rules);
            results.push(batch.complete(Err(error)));
        }
        for sent in self.in_flight.iter_mut().filter(|sent| !sent.expired && sent.deadline <= now) {
            sent.expired = true;
            let operation = format!(
                "delivery of {} records to {}-{} (in flight, no response yet)",
                sent.count, sent.state.topic, sent.state.partition
            );
            results.push(BatchResult {
                state: Arc::clone(&sent.state),
                first: sent.first,
                count: sent.count,
                reserved: 0,
                late: false,
                outcome: Err(Error::timeout(operation, rules.delivery_timeout)),
            });
        }
    }

    /// Returns the next time at which [`expire`](Self::expire) fails a batch.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let waiting = self.waiting.front().or(self.open.as_ref()).map(|batch| batch.deadline);
        let in_flight = self.in_flight.iter().filter(|sent| !sent.expired).map(|sent| sent.deadline).min();
        waiting.into_iter().chain(in_flight).min()
    }

    /// Fails batches that were never sent.
    pub(crate) fn abort_unsent(&mut self, error: &Error, results: &mut Vec<BatchResult>) {
        self.close_open();
        let (sent, unsent): (VecDeque<_>, VecDeque<_>) = self.waiting.drain(..).partition(|batch| batch.attempts > 0);
        self.waiting = sent;
        results.extend(unsent.into_iter().map(|batch| batch.complete(Err(error.clone()))));
    }

    /// Fails all waiting batches. Batches in flight are completed by their response.
    pub(crate) fn abort_waiting(&mut self, error: &Error, results: &mut Vec<BatchResult>) {
        self.close_open();
        results.extend(self.waiting.drain(..).map(|batch| batch.complete(Err(error.clone()))));
    }

    /// Fails all batches, including those in flight.
    pub(crate) fn abort_batches(&mut self, error: &Error, results: &mut Vec<BatchResult>) {
        self.abort_waiting(error, results);
        for sent in self.in_flight.iter_mut().filter(|sent| !sent.expired) {
            sent.expired = true;
            let (state, first, count) = (Arc::clone(&sent.state), sent.first, sent.count);
            results.push(BatchResult { state, first, count, reserved: 0, late: false, outcome: Err(error.clone()) });
        }
    }
}

pub(super) fn timed_out(batch: &Batch, cause: Option<&Error>, rules: &Rules) -> Error {
    let (count, topic, partition) = (batch.count, &batch.state.topic, batch.state.partition);
    let attempts = match batch.attempts {
        0 => "no leader could take them".to_owned(),
        attempts => format!("attempts: {attempts}"),
    };
    let operation = format!("delivery of {count} records to {topic}-{partition} ({attempts})");
    Error::timeout_because(operation, rules.delivery_timeout, cause.cloned())
}
