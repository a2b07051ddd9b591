//! Handling of produce responses: completes, requeues or splits each batch of a request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::delivery_state::Appended;
use super::drain::Outgoing;
use super::queue::{Failure, FailureKind};
use super::request::{self, ResponseIndex};
use super::shared::Shared;
use super::split_oversized;
use crate::cluster::metadata::ReportedLeader;
use crate::error::{Error, Result};
use crate::types::TopicPartition;

/// Applies the result of a request to each of its batches.
pub(super) fn complete_all(
    shared: &Shared,
    node: i32,
    throttle: Duration,
    batches: Vec<Outgoing>,
    mut outcome_of: impl FnMut(&Outgoing) -> std::result::Result<Appended, Failure>,
) {
    let now = Instant::now();
    let mut completed = Vec::with_capacity(batches.len());
    for mut outgoing in batches {
        let outcome = match outgoing.skip_error.take() {
            Some(error) => Err(Failure::new(error, FailureKind::Rejected)),
            None => outcome_of(&outgoing),
        };
        completed.push((outgoing, outcome));
    }
    let mut results = Vec::with_capacity(completed.len());
    {
        let mut accumulator = shared.lock();
        accumulator.request_completed(node, throttle);
        for (Outgoing { slot, batch, .. }, mut outcome) in completed {
            let late = accumulator.queue_of(slot).is_some_and(|(queue, _)| queue.is_expired(batch.order));
            let records = match &mut outcome {
                Ok(_) => {
                    if !late {
                        accumulator.count_delivered(slot, &batch, now);
                    }
                    BTreeMap::new()
                }
                Err(failure) => std::mem::take(&mut failure.records),
            };
            // Queues are never removed, so every slot that was sent has a queue.
            if let Some((queue, rules)) = accumulator.queue_of(slot) {
                let count = batch.count;
                let result = queue.handle_result(batch, outcome, rules, now);
                if result.is_none() {
                    accumulator.count_retried(slot, count, now);
                }
                results.extend(result.into_iter().flat_map(|result| result.split_by_error(&records)));
            }
            accumulator.replace_invalid_identity(slot);
        }
    }
    shared.wake.notify_one();
    shared.complete(results);
}

pub(super) fn fail_batches(shared: &Shared, node: i32, batches: Vec<Outgoing>, error: &Error, kind: FailureKind) {
    complete_all(shared, node, Duration::ZERO, batches, |_| Err(Failure::new(error.clone(), kind)));
}

/// Handles a request without a response, because the connection failed or the request timed out.
pub(super) fn fail_request(shared: &Shared, node: i32, batches: Vec<Outgoing>, error: Error) {
    // After an invalid response a resend is safe if the broker can detect duplicates.
    let garbled = matches!(error, Error::Protocol { .. } | Error::Corrupt { .. });
    let numbered = batches.iter().all(|outgoing| outgoing.batch.numbered.is_some());
    // A failed login or handshake concerns only this attempt, so accepted records are retried until
    // `delivery.timeout.ms`.
    let retriable = error.retriable() || error.of_handshake() || (garbled && numbered);
    let kind = if retriable { FailureKind::Retriable } else { FailureKind::Unknown };
    if retriable {
        // The leader may have moved to another broker.
        shared.cluster.request_refresh();
    }
    fail_batches(shared, node, batches, &error, kind);
}

pub(super) fn handle_response(
    shared: &Shared,
    node: i32,
    batches: Vec<Outgoing>,
    response: Result<request::ProduceResponse>,
) {
    let response = match response {
        Ok(response) => response,
        Err(error) => return fail_request(shared, node, batches, error),
    };
    let names = request::topic_names(&batches);
    let index = ResponseIndex::new(&response, &names);
    let (too_large, batches): (Vec<_>, Vec<_>) =
        batches.into_iter().partition(|outgoing| outgoing.batch.count > 1 && index.is_too_large(outgoing));
    let mut refresh = false;
    let mut leaders = Vec::new();
    let throttle = index.throttle();
    complete_all(shared, node, throttle, batches, |outgoing| {
        let outcome = index.result(outgoing);
        if let Err(failure) = &outcome {
            refresh |= failure.error.refresh_metadata();
            leaders.extend(index.current_leader(outgoing).map(|leader| {
                let state = &outgoing.batch.state;
                let tp = TopicPartition { topic: Arc::clone(&state.topic), partition: state.partition };
                ReportedLeader { tp, topic_id: outgoing.topic_id, leader }
            }));
        }
        outcome
    });
    for outgoing in too_large {
        split_batch(shared, outgoing, &index);
    }
    if !leaders.is_empty() {
        shared.cluster.update_leaders(&leaders, &index.leader_addresses());
    }
    if refresh {
        shared.cluster.request_refresh();
    }
}

/// Splits a batch that exceeds the broker's size limit; both halves take its position in the queue.
fn split_batch(shared: &Shared, outgoing: Outgoing, index: &ResponseIndex<'_>) {
    let Outgoing { slot, batch, .. } = outgoing;
    let order = batch.order;
    tracing::debug!(
        client_id = shared.cluster.client_id(),
        "partition {}-{}: a batch of {} records is split, as it is too large for the broker",
        batch.state.topic,
        batch.state.partition,
        batch.count
    );
    let halves = split_oversized::halve(batch);
    let results = {
        let mut accumulator = shared.lock();
        if let Ok(parts) = &halves {
            accumulator.limit_batch_size(slot, parts);
        }
        // Queues are never removed, so every slot that was sent has a queue.
        let Some((queue, rules)) = accumulator.queue_of(slot) else { return };
        match halves {
            Ok(parts) => queue.split(order, parts),
            Err(failed) => {
                let (batch, error) = *failed;
                let error = index.batch_result(&batch).err().map_or(error, |failure| failure.error);
                let failure = Failure::new(error, FailureKind::Rejected);
                queue.handle_result(batch, Err(failure), rules, Instant::now()).into_iter().collect()
            }
        }
    };
    shared.wake.notify_one();
    shared.complete(results);
}
