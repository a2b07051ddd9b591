//! Tests of the ordering rules against possible broker responses.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use samsarrow_wire::error_code::ErrorCode;
use tokio::time::Instant;

use super::super::batch::{Batch, BatchResult, Payload, ProducerIdAndEpoch, advance};
use super::super::delivery_state::{Appended, BatchState};
use super::{Failure, FailureKind, MAX_IDEMPOTENT_IN_FLIGHT, PartitionQueue, Readiness, Rules};
use crate::error::Error;

const NODE: i32 = 1;
const FIRST: ProducerIdAndEpoch = ProducerIdAndEpoch { producer_id: 7, epoch: 0 };
const SECOND: ProducerIdAndEpoch = ProducerIdAndEpoch { producer_id: 8, epoch: 0 };
const OK: Appended = Appended { base_offset: 40, log_append_time: -1 };

fn rules() -> Rules {
    Rules {
        idempotent: true,
        transactional: false,
        linger: Duration::from_millis(5),
        adaptive_linger: false,
        retries: 10,
        backoff: Duration::ZERO,
        backoff_max: Duration::ZERO,
        delivery_timeout: Duration::from_secs(100),
        client_id: "".into(),
    }
}

struct TestQueue {
    queue: PartitionQueue,
    rules: Rules,
    now: Instant,
}

impl TestQueue {
    fn new() -> Self {
        let queue = PartitionQueue { leader: Some(NODE), ..PartitionQueue::default() };
        Self { queue, rules: rules(), now: Instant::now() }
    }

    /// Creates a queue whose leader has already appended a batch of 10 records.
    fn established() -> Self {
        let mut test = Self::new();
        test.push(10);
        let batch = test.take(FIRST);
        assert!(test.respond(batch, None).unwrap().outcome.is_ok());
        test
    }

    fn push(&mut self, count: u32) {
        let batch = Batch {
            order: self.queue.next_order(),
            state: Arc::new(BatchState::new("t".into(), 0, 0)),
            first: 0,
            count,
            created: self.now,
            deadline: self.now + self.rules.delivery_timeout,
            payload: Payload::Encoded(Bytes::new()),
            numbered: None,
            attempts: 0,
            maybe_appended: false,
            reserved: 10,
            cause: None,
        };
        self.queue.add_records(count);
        self.queue.push(batch);
    }

    fn ready(&self) -> bool {
        self.queue.readiness(self.now, &self.rules, false) == Readiness::Ready
    }

    fn take(&mut self, identity: ProducerIdAndEpoch) -> Batch {
        assert!(self.ready(), "{:?}", self.queue.readiness(self.now, &self.rules, false));
        self.queue.take(NODE, &self.rules, Some(identity)).unwrap()
    }

    fn respond(&mut self, batch: Batch, kind: Option<FailureKind>) -> Option<BatchResult> {
        let outcome = match kind {
            None => Ok(OK),
            Some(kind) => {
                let error = Error::server(ErrorCode::from_i16(7), "test");
                Err(Failure::new(error, kind))
            }
        };
        self.queue.handle_result(batch, outcome, &self.rules, self.now)
    }
}

#[test]
fn sequences_wrap_after_i32_max() {
    assert_eq!(advance(0, 5), 5);
    assert_eq!(advance(i32::MAX, 1), 0);
    assert_eq!(advance(i32::MAX - 2, 5), 2);
    assert_eq!(advance(i32::MAX, u32::MAX >> 1), i32::MAX - 1);
}

#[test]
fn sequences_count_records_with_max_five_in_flight() {
    let mut test = TestQueue::established();
    for _ in 0..7 {
        test.push(10);
    }
    let taken: Vec<_> = (0..MAX_IDEMPOTENT_IN_FLIGHT).map(|_| test.take(FIRST)).collect();
    let sequences: Vec<_> = taken.iter().map(|batch| batch.numbered.unwrap().1).collect();
    assert_eq!(sequences, [10, 20, 30, 40, 50]);
    assert_eq!(test.queue.readiness(test.now, &test.rules, true), Readiness::Blocked);
    let first = taken.into_iter().next().unwrap();
    assert!(test.respond(first, None).unwrap().outcome.is_ok());
    assert_eq!(test.take(FIRST).numbered.unwrap().1, 60);
}

#[test]
fn resends_keep_order_and_sequences() {
    let mut test = TestQueue::established();
    for _ in 0..3 {
        test.push(10);
    }
    let [a, b, c] = [test.take(FIRST), test.take(FIRST), test.take(FIRST)];
    assert!(test.respond(a, Some(FailureKind::Retriable)).is_none());
    // `a` waits while `b` and `c` are in flight.
    assert!(!test.ready());
    assert!(test.respond(b, Some(FailureKind::OutOfOrder)).is_none());
    assert!(test.respond(c, Some(FailureKind::OutOfOrder)).is_none());
    for sequence in [10, 20, 30] {
        let batch = test.take(FIRST);
        assert_eq!(batch.numbered, Some((FIRST, sequence)));
        assert!(!test.ready(), "a resend travels alone");
        assert!(test.respond(batch, None).unwrap().outcome.is_ok());
    }
    assert!(test.queue.is_idle());
}

#[test]
fn gap_requires_new_producer_id() {
    let mut test = TestQueue::established();
    test.push(10);
    test.push(10);
    test.push(10);
    let [a, b] = [test.take(FIRST), test.take(FIRST)];
    // `a` has failed, and may have been appended.
    assert!(test.respond(a, Some(FailureKind::Unknown)).unwrap().outcome.is_err());
    assert!(test.respond(b, Some(FailureKind::Retriable)).is_none());
    let b = test.take(FIRST);
    assert_eq!(b.numbered, Some((FIRST, 20)), "b may have been appended: first under its old number");
    assert!(test.respond(b, Some(FailureKind::OutOfOrder)).is_none());
    assert_eq!(test.queue.invalid_identity.take(), Some(FIRST));
    assert!(test.queue.needs_identity());
    let b = test.take(SECOND);
    assert_eq!(b.numbered, Some((SECOND, 0)));
    assert!(test.respond(b, None).unwrap().outcome.is_ok());
    assert_eq!(test.take(SECOND).numbered, Some((SECOND, 10)));
}

#[test]
fn one_batch_in_flight_until_leader_has_appended() {
    let mut test = TestQueue::new();
    for _ in 0..3 {
        test.push(10);
    }
    let a = test.take(FIRST);
    // A broker without state of the producer ID would accept `b`, and could then never accept `a`.
    assert_eq!(test.queue.readiness(test.now, &test.rules, true), Readiness::Blocked);
    assert!(test.respond(a, Some(FailureKind::Retriable)).is_none());
    let a = test.take(FIRST);
    assert_eq!(a.numbered, Some((FIRST, 0)));
    assert!(!test.ready());
    assert!(test.respond(a, None).unwrap().outcome.is_ok());
    let b = test.take(FIRST);
    assert!(test.ready());
    assert!(test.respond(b, None).unwrap().outcome.is_ok());
    // The next leader may have no state of the producer ID either.
    test.push(10);
    test.queue.leader = Some(NODE + 1);
    let c = test.queue.take(NODE + 1, &test.rules, Some(FIRST)).unwrap();
    assert_eq!(c.numbered, Some((FIRST, 20)));
    test.push(10);
    assert!(!test.ready());
}

#[test]
fn out_of_order_for_invalid_producer_id_is_retried() {
    let mut test = TestQueue::established();
    for _ in 0..3 {
        test.push(10);
    }
    let [a, b, c] = [test.take(FIRST), test.take(FIRST), test.take(FIRST)];
    assert!(test.respond(a, Some(FailureKind::Unknown)).unwrap().outcome.is_err());
    // The response to `b` reports the gap and fails `b`. The same error for `c` has the same cause, so `c` is retried.
    test.rules.retries = 0;
    assert!(test.respond(b, Some(FailureKind::OutOfOrder)).unwrap().outcome.is_err());
    test.rules.retries = 10;
    assert!(test.respond(c, Some(FailureKind::OutOfOrder)).is_none());
    assert_eq!(test.take(SECOND).numbered, Some((SECOND, 0)));
}

#[test]
fn lost_response_leaves_no_gap() {
    let mut test = TestQueue::new();
    test.push(10);
    test.push(10);
    let a = test.take(FIRST);
    assert!(test.respond(a, Some(FailureKind::Unknown)).unwrap().outcome.is_err());
    let b = test.take(FIRST);
    assert_eq!(b.numbered, Some((FIRST, 10)));
    // The broker had appended `a`.
    assert!(test.respond(b, None).unwrap().outcome.is_ok());
    test.push(10);
    let c = test.take(FIRST);
    // An out-of-order error without a known gap means that the leader has lost records and did not append `c`.
    assert!(test.respond(c, Some(FailureKind::OutOfOrder)).is_none());
    assert_eq!(test.queue.invalid_identity.take(), Some(FIRST));
    assert_eq!(test.take(SECOND).numbered, Some((SECOND, 0)));
}

#[test]
fn rejected_last_batch_releases_its_sequence() {
    let mut test = TestQueue::new();
    test.push(10);
    let a = test.take(FIRST);
    assert!(test.respond(a, Some(FailureKind::Rejected)).unwrap().outcome.is_err());
    test.push(10);
    assert_eq!(test.take(FIRST).numbered, Some((FIRST, 0)));
}

/// Regression test: the batch behind a rejected one kept its sequence, which the broker rejected, and was sent again only
/// after `retry.backoff.ms`.
#[test]
fn batches_behind_rejected_one_take_its_sequences() {
    let mut test = TestQueue::established();
    (0..3).for_each(|_| test.push(10));
    let (a, b) = (test.take(FIRST), test.take(FIRST));
    // Both were certainly not appended, so `b` is sent again behind `a`.
    assert!(test.respond(a, Some(FailureKind::UnknownProducerId)).is_none());
    assert!(test.respond(b, Some(FailureKind::OutOfOrder)).is_none());
    let a = test.take(SECOND);
    assert_eq!(a.numbered, Some((SECOND, 0)));
    assert!(test.respond(a, Some(FailureKind::Rejected)).unwrap().outcome.is_err());
    for sequence in [0, 10] {
        let batch = test.take(SECOND);
        assert_eq!(batch.numbered, Some((SECOND, sequence)));
        assert!(test.respond(batch, None).unwrap().outcome.is_ok());
    }
}

#[test]
fn batch_that_may_be_appended_keeps_its_sequence_behind_rejected_one() {
    let mut test = TestQueue::established();
    (0..2).for_each(|_| test.push(10));
    let (a, b) = (test.take(FIRST), test.take(FIRST));
    assert!(test.respond(b, Some(FailureKind::Retriable)).is_none());
    assert!(test.respond(a, Some(FailureKind::Rejected)).unwrap().outcome.is_err());
    assert_eq!(test.take(FIRST).numbered, Some((FIRST, 20)));
}

#[test]
fn batch_behind_gap_is_sent_again_without_backoff() {
    let mut test = TestQueue::established();
    test.rules.backoff = Duration::from_secs(1000);
    test.rules.backoff_max = Duration::from_secs(1000);
    (0..3).for_each(|_| test.push(10));
    let [a, b, c] = [test.take(FIRST), test.take(FIRST), test.take(FIRST)];
    assert!(test.respond(a, Some(FailureKind::Rejected)).unwrap().outcome.is_err());
    assert!(test.respond(b, Some(FailureKind::OutOfOrder)).is_none());
    assert!(test.respond(c, Some(FailureKind::OutOfOrder)).is_none());
    let b = test.take(SECOND);
    assert_eq!(b.numbered, Some((SECOND, 0)));
    // Without a known gap, the leader has lost records, which it may do again.
    assert!(test.respond(b, Some(FailureKind::OutOfOrder)).is_none());
    assert!(!test.ready());
}

#[test]
fn unknown_producer_id_is_replaced() {
    let mut test = TestQueue::new();
    test.push(10);
    let a = test.take(FIRST);
    assert!(test.respond(a, Some(FailureKind::UnknownProducerId)).is_none());
    assert_eq!(test.queue.invalid_identity.take(), Some(FIRST));
    assert_eq!(test.take(SECOND).numbered, Some((SECOND, 0)));
}

#[test]
fn batches_expire_once_waiting_or_in_flight() {
    let mut test = TestQueue::new();
    test.push(10);
    test.push(10);
    let a = test.take(FIRST);
    let late = test.now + test.rules.delivery_timeout;
    assert_eq!(test.queue.next_deadline(), Some(late));
    let mut results = Vec::new();
    test.queue.expire(late, &test.rules, &mut results);
    assert_eq!(results.len(), 2);
    assert!(results.iter().all(|result| result.outcome.is_err()));
    // A batch in flight keeps its memory until the response. A waiting batch releases its memory immediately.
    assert_eq!(results.iter().map(|result| result.reserved).sum::<usize>(), 10);
    assert_eq!(test.queue.next_deadline(), None);
    test.now = late;
    let late_result = test.respond(a, Some(FailureKind::Retriable)).unwrap();
    assert_eq!((late_result.reserved, late_result.late), (10, true));
    assert!(test.queue.is_idle());
}

#[test]
fn backoff_ends_with_failed_batch() {
    let mut test = TestQueue::established();
    test.rules.backoff = Duration::from_secs(1000);
    test.rules.backoff_max = Duration::from_secs(1000);
    test.push(3);
    let batch = test.take(FIRST);
    assert!(test.respond(batch, Some(FailureKind::Retriable)).is_none());
    assert!(!test.ready());
    let mut results = Vec::new();
    test.now += test.rules.delivery_timeout;
    test.queue.expire(test.now, &test.rules, &mut results);
    assert_eq!(results.len(), 1);
    test.push(1);
    assert!(test.ready(), "a batch that never failed waits");
}

#[test]
fn retries_are_limited() {
    let mut test = TestQueue::new();
    test.rules.retries = 1;
    test.push(1);
    let a = test.take(FIRST);
    assert!(test.respond(a, Some(FailureKind::Retriable)).is_none());
    let a = test.take(FIRST);
    assert!(test.respond(a, Some(FailureKind::Retriable)).unwrap().outcome.is_err());
}

#[test]
fn new_leader_waits_for_responses_of_old_leader() {
    let mut test = TestQueue::new();
    test.push(1);
    test.push(1);
    let a = test.take(FIRST);
    test.queue.leader = Some(NODE + 1);
    assert_eq!(test.queue.readiness(test.now, &test.rules, true), Readiness::Blocked);
    assert!(test.respond(a, None).is_some());
    assert!(test.ready());
}

/// Regression test: batches for the recreated topic were sent while older ones were in flight. The new log took their
/// sequences, rejected the older ones, and both were sent again in another epoch, so some were appended twice.
#[test]
fn recreated_topic_waits_for_responses_of_the_old_topic() {
    let mut test = TestQueue::established();
    (0..3).for_each(|_| test.push(1));
    let (a, b) = (test.take(FIRST), test.take(FIRST));
    test.queue.recreated();
    test.queue.leader = Some(NODE);
    assert_eq!(test.queue.readiness(test.now, &test.rules, true), Readiness::Blocked);
    assert!(test.respond(a, Some(FailureKind::Retriable)).is_none());
    assert!(test.respond(b, Some(FailureKind::Retriable)).is_none());
    let first = test.take(FIRST);
    assert_eq!((first.order, first.numbered), (10, Some((FIRST, 10))));
    assert!(!test.ready());
}

#[test]
fn batch_lingers_unless_forced() {
    let mut test = TestQueue::new();
    test.push(1);
    let batch = test.take(FIRST);
    let open = Batch {
        numbered: None,
        attempts: 0,
        order: test.queue.next_order(),
        state: Arc::clone(&batch.state),
        payload: Payload::Encoded(Bytes::new()),
        cause: None,
        ..batch
    };
    assert!(test.queue.handle_result(batch, Ok(OK), &test.rules, test.now).is_some());
    test.queue.open = Some(open);
    let due = test.now + test.rules.linger;
    assert_eq!(test.queue.readiness(test.now, &test.rules, false), Readiness::Lingering(due));
    assert_eq!(test.queue.readiness(test.now, &test.rules, true), Readiness::Ready);
    assert_eq!(test.queue.readiness(due, &test.rules, false), Readiness::Ready);
}

/// Creates the queue of a transactional producer.
fn transactional() -> TestQueue {
    let mut test = TestQueue::established();
    test.rules.transactional = true;
    test
}

#[test]
fn transaction_keeps_sequences_on_failure() {
    for kind in [FailureKind::OutOfOrder, FailureKind::UnknownProducerId] {
        let mut test = transactional();
        test.push(10);
        let a = test.take(FIRST);
        assert!(test.respond(a, Some(kind)).unwrap().outcome.is_err());
        assert_eq!(test.queue.invalid_identity, None);
        assert!(!test.queue.needs_identity());
    }
}

#[test]
fn transaction_requeues_out_of_order_batches() {
    let mut test = transactional();
    test.push(10);
    test.push(10);
    let [a, b] = [test.take(FIRST), test.take(FIRST)];
    assert!(test.respond(a, Some(FailureKind::Retriable)).is_none());
    assert!(test.respond(b, Some(FailureKind::OutOfOrder)).is_none());
    for sequence in [10, 20] {
        let batch = test.take(FIRST);
        assert_eq!(batch.numbered, Some((FIRST, sequence)));
        assert!(test.respond(batch, None).unwrap().outcome.is_ok());
    }
}

#[test]
fn abort_drops_unsent_batches_and_retries_sent_ones() {
    let mut test = transactional();
    for _ in 0..3 {
        test.push(10);
    }
    let a = test.take(FIRST);
    assert!(test.respond(a, Some(FailureKind::Retriable)).is_none());
    let mut results = Vec::new();
    test.queue.abort_unsent(&Error::closed("test"), &mut results);
    assert_eq!(results.len(), 2);
    let a = test.take(FIRST);
    assert_eq!(a.numbered, Some((FIRST, 10)), "it may be in the log: its marker must come after it");
    assert!(test.respond(a, None).unwrap().outcome.is_ok());
    assert!(test.queue.is_idle());
}

#[test]
fn next_epoch_starts_at_sequence_0() {
    let mut test = transactional();
    test.queue.reset_sequences();
    test.push(10);
    let next = ProducerIdAndEpoch { epoch: 1, ..FIRST };
    assert_eq!(test.take(next).numbered, Some((next, 0)));
}
