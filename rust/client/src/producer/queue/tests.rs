//! Tests of the ordering rules against possible broker responses.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use samsarrow_wire::error_code::ErrorCode;

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
        retries: 10,
        backoff: Duration::ZERO,
        backoff_max: Duration::ZERO,
        delivery_timeout: Duration::from_secs(100),
    }
}

struct Bench {
    queue: PartitionQueue,
    rules: Rules,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let queue = PartitionQueue { leader: Some(NODE), ..PartitionQueue::default() };
        Self { queue, rules: rules(), now: Instant::now() }
    }

    /// Creates a queue whose leader has already appended a batch of 10 records.
    fn established() -> Self {
        let mut bench = Self::new();
        bench.push(10);
        let batch = bench.take(FIRST);
        assert!(bench.answer(batch, None).unwrap().outcome.is_ok());
        bench
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

    fn answer(&mut self, batch: Batch, kind: Option<FailureKind>) -> Option<BatchResult> {
        let answer = match kind {
            None => Ok(OK),
            Some(kind) => {
                let error = Error::server(ErrorCode::from_i16(7), "test");
                Err(Failure::new(error, kind))
            }
        };
        self.queue.handle_result(batch, answer, &self.rules, self.now)
    }
}

#[test]
fn sequences_wrap_after_the_largest() {
    assert_eq!(advance(0, 5), 5);
    assert_eq!(advance(i32::MAX, 1), 0);
    assert_eq!(advance(i32::MAX - 2, 5), 2);
    assert_eq!(advance(i32::MAX, u32::MAX >> 1), i32::MAX - 1);
}

#[test]
fn numbers_count_records_and_at_most_five_are_in_flight() {
    let mut bench = Bench::established();
    for _ in 0..7 {
        bench.push(10);
    }
    let taken: Vec<_> = (0..MAX_IDEMPOTENT_IN_FLIGHT).map(|_| bench.take(FIRST)).collect();
    let sequences: Vec<_> = taken.iter().map(|batch| batch.numbered.unwrap().1).collect();
    assert_eq!(sequences, [10, 20, 30, 40, 50]);
    assert_eq!(bench.queue.readiness(bench.now, &bench.rules, true), Readiness::Blocked);
    let first = taken.into_iter().next().unwrap();
    assert!(bench.answer(first, None).unwrap().outcome.is_ok());
    assert_eq!(bench.take(FIRST).numbered.unwrap().1, 60);
}

#[test]
fn resends_go_in_order_alone_and_under_their_numbers() {
    let mut bench = Bench::established();
    for _ in 0..3 {
        bench.push(10);
    }
    let [a, b, c] = [bench.take(FIRST), bench.take(FIRST), bench.take(FIRST)];
    assert!(bench.answer(a, Some(FailureKind::Retriable)).is_none());
    // `a` waits while `b` and `c` are in flight.
    assert!(!bench.ready());
    assert!(bench.answer(b, Some(FailureKind::OutOfOrder)).is_none());
    assert!(bench.answer(c, Some(FailureKind::OutOfOrder)).is_none());
    for sequence in [10, 20, 30] {
        let batch = bench.take(FIRST);
        assert_eq!(batch.numbered, Some((FIRST, sequence)));
        assert!(!bench.ready(), "a resend travels alone");
        assert!(bench.answer(batch, None).unwrap().outcome.is_ok());
    }
    assert!(bench.queue.is_idle());
}

#[test]
fn a_gap_that_the_broker_finds_gives_the_successors_a_new_identity() {
    let mut bench = Bench::established();
    bench.push(10);
    bench.push(10);
    bench.push(10);
    let [a, b] = [bench.take(FIRST), bench.take(FIRST)];
    // `a` has failed, and may have been appended.
    assert!(bench.answer(a, Some(FailureKind::Unknown)).unwrap().outcome.is_err());
    assert!(bench.answer(b, Some(FailureKind::Retriable)).is_none());
    let b = bench.take(FIRST);
    assert_eq!(b.numbered, Some((FIRST, 20)), "b may have been appended: first under its old number");
    assert!(bench.answer(b, Some(FailureKind::OutOfOrder)).is_none());
    assert_eq!(bench.queue.invalid_identity.take(), Some(FIRST));
    assert!(bench.queue.needs_identity());
    let b = bench.take(SECOND);
    assert_eq!(b.numbered, Some((SECOND, 0)));
    assert!(bench.answer(b, None).unwrap().outcome.is_ok());
    assert_eq!(bench.take(SECOND).numbered, Some((SECOND, 10)));
}

#[test]
fn until_a_leader_has_taken_a_batch_the_oldest_travels_alone() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        bench.push(10);
    }
    let a = bench.take(FIRST);
    // A broker without state of the producer ID would accept `b`, and never `a` after it.
    assert_eq!(bench.queue.readiness(bench.now, &bench.rules, true), Readiness::Blocked);
    assert!(bench.answer(a, Some(FailureKind::Retriable)).is_none());
    let a = bench.take(FIRST);
    assert_eq!(a.numbered, Some((FIRST, 0)));
    assert!(!bench.ready());
    assert!(bench.answer(a, None).unwrap().outcome.is_ok());
    let b = bench.take(FIRST);
    assert!(bench.ready());
    assert!(bench.answer(b, None).unwrap().outcome.is_ok());
    // The next leader may have no state of the producer ID either.
    bench.push(10);
    bench.queue.leader = Some(NODE + 1);
    let c = bench.queue.take(NODE + 1, &bench.rules, Some(FIRST)).unwrap();
    assert_eq!(c.numbered, Some((FIRST, 20)));
    bench.push(10);
    assert!(!bench.ready());
}

#[test]
fn answers_for_a_void_identity_fail_nothing() {
    let mut bench = Bench::established();
    for _ in 0..3 {
        bench.push(10);
    }
    let [a, b, c] = [bench.take(FIRST), bench.take(FIRST), bench.take(FIRST)];
    assert!(bench.answer(a, Some(FailureKind::Unknown)).unwrap().outcome.is_err());
    // The response to `b` reports the gap, and `b` itself fails: `c` is not the cause.
    bench.rules.retries = 0;
    assert!(bench.answer(b, Some(FailureKind::OutOfOrder)).unwrap().outcome.is_err());
    bench.rules.retries = 10;
    assert!(bench.answer(c, Some(FailureKind::OutOfOrder)).is_none());
    assert_eq!(bench.take(SECOND).numbered, Some((SECOND, 0)));
}

#[test]
fn a_lost_answer_leaves_no_gap() {
    let mut bench = Bench::new();
    bench.push(10);
    bench.push(10);
    let a = bench.take(FIRST);
    assert!(bench.answer(a, Some(FailureKind::Unknown)).unwrap().outcome.is_err());
    let b = bench.take(FIRST);
    assert_eq!(b.numbered, Some((FIRST, 10)));
    // The broker had appended `a`.
    assert!(bench.answer(b, None).unwrap().outcome.is_ok());
    bench.push(10);
    let c = bench.take(FIRST);
    // Out of order without a known gap: the leader has lost records, and certainly did not append this one.
    assert!(bench.answer(c, Some(FailureKind::OutOfOrder)).is_none());
    assert_eq!(bench.queue.invalid_identity.take(), Some(FIRST));
    assert_eq!(bench.take(SECOND).numbered, Some((SECOND, 0)));
}

#[test]
fn a_refused_last_batch_gives_its_numbers_back() {
    let mut bench = Bench::new();
    bench.push(10);
    let a = bench.take(FIRST);
    assert!(bench.answer(a, Some(FailureKind::Rejected)).unwrap().outcome.is_err());
    bench.push(10);
    assert_eq!(bench.take(FIRST).numbered, Some((FIRST, 0)));
}

#[test]
fn a_forgotten_identity_is_replaced_and_the_batch_resent() {
    let mut bench = Bench::new();
    bench.push(10);
    let a = bench.take(FIRST);
    assert!(bench.answer(a, Some(FailureKind::UnknownProducerId)).is_none());
    assert_eq!(bench.queue.invalid_identity.take(), Some(FIRST));
    assert_eq!(bench.take(SECOND).numbered, Some((SECOND, 0)));
}

#[test]
fn time_runs_out_for_waiting_and_for_flying_batches_once() {
    let mut bench = Bench::new();
    bench.push(10);
    bench.push(10);
    let a = bench.take(FIRST);
    let late = bench.now + bench.rules.delivery_timeout;
    assert_eq!(bench.queue.next_deadline(), Some(late));
    let mut results = Vec::new();
    bench.queue.expire(late, &bench.rules, &mut results);
    assert_eq!(results.len(), 2);
    assert!(results.iter().all(|results| results.outcome.is_err()));
    // A batch in flight keeps its memory until the response; a waiting one releases it immediately.
    assert_eq!(results.iter().map(|results| results.reserved).sum::<usize>(), 10);
    assert_eq!(bench.queue.next_deadline(), None);
    bench.now = late;
    let late_answer = bench.answer(a, Some(FailureKind::Retriable)).unwrap();
    assert_eq!((late_answer.reserved, late_answer.late), (10, true));
    assert!(bench.queue.is_idle());
}

#[test]
fn the_wait_after_a_failure_ends_with_the_batch_that_failed() {
    let mut bench = Bench::established();
    bench.rules.backoff = Duration::from_secs(1000);
    bench.rules.backoff_max = Duration::from_secs(1000);
    bench.push(3);
    let batch = bench.take(FIRST);
    assert!(bench.answer(batch, Some(FailureKind::Retriable)).is_none());
    assert!(!bench.ready());
    let mut results = Vec::new();
    bench.now += bench.rules.delivery_timeout;
    bench.queue.expire(bench.now, &bench.rules, &mut results);
    assert_eq!(results.len(), 1);
    bench.push(1);
    assert!(bench.ready(), "a batch that never failed waits");
}

#[test]
fn retries_are_counted() {
    let mut bench = Bench::new();
    bench.rules.retries = 1;
    bench.push(1);
    let a = bench.take(FIRST);
    assert!(bench.answer(a, Some(FailureKind::Retriable)).is_none());
    let a = bench.take(FIRST);
    assert!(bench.answer(a, Some(FailureKind::Retriable)).unwrap().outcome.is_err());
}

#[test]
fn a_partition_that_moved_waits_for_the_answers_of_its_old_leader() {
    let mut bench = Bench::new();
    bench.push(1);
    bench.push(1);
    let a = bench.take(FIRST);
    bench.queue.leader = Some(NODE + 1);
    assert_eq!(bench.queue.readiness(bench.now, &bench.rules, true), Readiness::Blocked);
    assert!(bench.answer(a, None).is_some());
    assert!(bench.ready());
}

#[test]
fn a_batch_lingers_unless_forced() {
    let mut bench = Bench::new();
    bench.push(1);
    let batch = bench.take(FIRST);
    let open = Batch {
        numbered: None,
        attempts: 0,
        order: bench.queue.next_order(),
        state: Arc::clone(&batch.state),
        payload: Payload::Encoded(Bytes::new()),
        cause: None,
        ..batch
    };
    assert!(bench.queue.handle_result(batch, Ok(OK), &bench.rules, bench.now).is_some());
    bench.queue.open = Some(open);
    let due = bench.now + bench.rules.linger;
    assert_eq!(bench.queue.readiness(bench.now, &bench.rules, false), Readiness::Lingering(due));
    assert_eq!(bench.queue.readiness(bench.now, &bench.rules, true), Readiness::Ready);
    assert_eq!(bench.queue.readiness(due, &bench.rules, false), Readiness::Ready);
}

/// Creates the queue of a transactional producer.
fn transactional() -> Bench {
    let mut bench = Bench::established();
    bench.rules.transactional = true;
    bench
}

#[test]
fn in_a_transaction_nothing_is_numbered_anew() {
    for kind in [FailureKind::OutOfOrder, FailureKind::UnknownProducerId] {
        let mut bench = transactional();
        bench.push(10);
        let a = bench.take(FIRST);
        assert!(bench.answer(a, Some(kind)).unwrap().outcome.is_err());
        assert_eq!(bench.queue.invalid_identity, None);
        assert!(!bench.queue.needs_identity());
    }
}

#[test]
fn in_a_transaction_what_came_out_of_order_waits_for_its_elders() {
    let mut bench = transactional();
    bench.push(10);
    bench.push(10);
    let [a, b] = [bench.take(FIRST), bench.take(FIRST)];
    assert!(bench.answer(a, Some(FailureKind::Retriable)).is_none());
    assert!(bench.answer(b, Some(FailureKind::OutOfOrder)).is_none());
    for sequence in [10, 20] {
        let batch = bench.take(FIRST);
        assert_eq!(batch.numbered, Some((FIRST, sequence)));
        assert!(bench.answer(batch, None).unwrap().outcome.is_ok());
    }
}

#[test]
fn an_abort_drops_what_was_never_sent_and_keeps_asking_for_the_rest() {
    let mut bench = transactional();
    for _ in 0..3 {
        bench.push(10);
    }
    let a = bench.take(FIRST);
    assert!(bench.answer(a, Some(FailureKind::Retriable)).is_none());
    let mut results = Vec::new();
    bench.queue.abort_unsent(&Error::closed("test"), &mut results);
    assert_eq!(results.len(), 2);
    let a = bench.take(FIRST);
    assert_eq!(a.numbered, Some((FIRST, 10)), "it may be in the log: its marker must come after it");
    assert!(bench.answer(a, None).unwrap().outcome.is_ok());
    assert!(bench.queue.is_idle());
}

#[test]
fn the_next_epoch_starts_at_sequence_0() {
    let mut bench = transactional();
    bench.queue.reset_sequences();
    bench.push(10);
    let next = ProducerIdAndEpoch { epoch: 1, ..FIRST };
    assert_eq!(bench.take(next).numbered, Some((next, 0)));
}
