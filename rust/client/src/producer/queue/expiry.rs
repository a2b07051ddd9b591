//! Batches that end without a response: expired or aborted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::{PartitionQueue, Rules};
use crate::error::Error;
use crate::producer::batch::{Batch, Settled};

impl PartitionQueue {
    /// Fails expired batches. Batches in flight release their memory later, when the response arrives.
    pub(crate) fn expire(&mut self, now: Instant, rules: &Rules, settled: &mut Vec<Settled>) {
        while self.waiting.front().is_some_and(|batch| batch.deadline <= now) {
            let Some(batch) = self.waiting.pop_front() else { break };
            self.note_gap(&batch);
            let error = timed_out(&batch, batch.cause.as_ref(), rules);
            settled.push(batch.settle(Err(error)));
        }
        if self.waiting.is_empty()
            && self.open.as_ref().is_some_and(|batch| batch.deadline <= now)
            && let Some(batch) = self.open.take()
        {
            batch.state.close(batch.first + batch.count);
            let error = timed_out(&batch, None, rules);
            settled.push(batch.settle(Err(error)));
        }
        for sent in self.in_flight.iter_mut().filter(|sent| !sent.expired && sent.deadline <= now) {
            sent.expired = true;
            let what = format!(
                "delivery of {} records to {}-{} (in flight, no answer yet)",
                sent.count, sent.state.topic, sent.state.partition
            );
            settled.push(Settled {
                state: Arc::clone(&sent.state),
                first: sent.first,
                count: sent.count,
                reserved: 0,
                late: false,
                outcome: Err(Error::timeout(what, rules.delivery_timeout)),
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
    pub(crate) fn drop_unsent(&mut self, error: &Error, settled: &mut Vec<Settled>) {
        self.close_open();
        let (sent, unsent): (VecDeque<_>, VecDeque<_>) = self.waiting.drain(..).partition(|batch| batch.attempts > 0);
        self.waiting = sent;
        settled.extend(unsent.into_iter().map(|batch| batch.settle(Err(error.clone()))));
    }

    /// Fails all waiting batches. Batches in flight are completed by their response.
    pub(crate) fn drop_waiting(&mut self, error: &Error, settled: &mut Vec<Settled>) {
        self.close_open();
        settled.extend(self.waiting.drain(..).map(|batch| batch.settle(Err(error.clone()))));
    }

    /// Fails all batches, including those in flight.
    pub(crate) fn abandon(&mut self, error: &Error, settled: &mut Vec<Settled>) {
        self.drop_waiting(error, settled);
        for sent in self.in_flight.iter_mut().filter(|sent| !sent.expired) {
            sent.expired = true;
            let (state, first, count) = (Arc::clone(&sent.state), sent.first, sent.count);
            settled.push(Settled { state, first, count, reserved: 0, late: false, outcome: Err(error.clone()) });
        }
    }
}

pub(super) fn timed_out(batch: &Batch, cause: Option<&Error>, rules: &Rules) -> Error {
    let (count, topic, partition) = (batch.count, &batch.state.topic, batch.state.partition);
    let attempts = match batch.attempts {
        0 => "no leader could take them".to_owned(),
        attempts => format!("attempts: {attempts}"),
    };
    let what = format!("delivery of {count} records to {topic}-{partition} ({attempts})");
    Error::timeout_because(what, rules.delivery_timeout, cause.cloned())
}
