//! Tests of linger, batch sizes and the spreading of records.

use super::*;
use crate::config::Partitioner;
use crate::producer::drain::DrainResult;
use crate::producer::metrics::Counters;
use crate::producer::queue::PartitionQueue;

const NODE: i32 = 1;
const LINGER: Duration = Duration::from_millis(5);

/// Returns an accumulator with a topic of two partitions that have the same leader.
fn accumulator(adaptive_linger: bool) -> Accumulator {
    let rules = Rules {
        idempotent: false,
        transactional: false,
        linger: LINGER,
        adaptive_linger,
        retries: 10,
        backoff: Duration::ZERO,
        backoff_max: Duration::ZERO,
        delivery_timeout: Duration::from_secs(100),
        client_id: "".into(),
    };
    let partitioning =
        Partitioning { by: Partitioner::Murmur2, ignore_keys: false, adaptive: true, availability_timeout: None };
    let limits =
        Limits { batch_size: 1_000_000, max_request_size: 1 << 20, max_in_flight: 5, partitioning, rack: None };
    let mut accumulator = Accumulator::new(rules, limits);
    let name: Arc<str> = "t".into();
    let mut topic = Topic::new(Arc::clone(&name), Counters::default().windows);
    topic.partitions.resize_with(2, PartitionQueue::default);
    topic.partitions.iter_mut().for_each(|queue| queue.leader = Some(NODE));
    (topic.count, topic.available) = (2, vec![0, 1]);
    accumulator.index.insert(name, 0);
    accumulator.topics.push(topic);
    accumulator
}

fn append_to(accumulator: &mut Accumulator, partition: Option<i32>, value: &[u8]) -> (Delivery, Wake) {
    let record = RecordRef { topic: "t", partition, timestamp: Some(0), key: None, value: Some(value), headers: &[] };
    accumulator.append(record, 0, value.len()).unwrap()
}

fn append(accumulator: &mut Accumulator) -> Wake {
    append_to(accumulator, Some(0), b"value").1
}

/// Returns the number of records in each request.
fn drain(accumulator: &mut Accumulator, now: Instant) -> (Vec<u32>, DrainResult) {
    let drained = accumulator.drain(now, false);
    let records = |request: &crate::producer::drain::ReadyBatches| {
        request.batches.iter().map(|outgoing| outgoing.batch.count).sum()
    };
    (drained.requests.iter().map(records).collect(), drained)
}

/// Completes all batches of the requests.
fn respond(accumulator: &mut Accumulator, drained: DrainResult, now: Instant) {
    for request in drained.requests {
        accumulator.request_completed(request.node, Duration::ZERO);
        for outgoing in request.batches {
            let (queue, rules) = accumulator.queue_of(outgoing.slot).unwrap();
            let appended = crate::producer::delivery_state::Appended { base_offset: 0, log_append_time: -1 };
            assert!(queue.handle_result(outgoing.batch, Ok(appended), rules, now).is_some());
        }
    }
}

#[test]
fn records_linger_only_behind_a_request() {
    let mut accumulator = accumulator(true);
    assert!(append(&mut accumulator), "the sender is woken for the first record");
    let now = Instant::now();
    let (records, first) = drain(&mut accumulator, now);
    assert_eq!(records, [1]);
    assert!(append(&mut accumulator), "the sender needs a timer for the end of linger");
    let (records, waiting) = drain(&mut accumulator, now);
    assert!(records.is_empty());
    assert!(waiting.wake_at.is_some_and(|at| at <= Instant::now() + LINGER));
    assert!(!append(&mut accumulator));
    respond(&mut accumulator, first, now);
    assert_eq!(drain(&mut accumulator, now).0, [2]);
}

#[test]
fn records_behind_a_slow_request_wait_for_linger() {
    let mut accumulator = accumulator(true);
    append(&mut accumulator);
    let now = Instant::now();
    drain(&mut accumulator, now);
    append(&mut accumulator);
    assert!(drain(&mut accumulator, now).0.is_empty());
    assert_eq!(drain(&mut accumulator, Instant::now() + LINGER).0, [1]);
}

#[test]
fn stream_of_records_lingers() {
    let mut accumulator = accumulator(true);
    for _ in 0..STREAM_RECORDS {
        append(&mut accumulator);
    }
    let (records, sent) = drain(&mut accumulator, Instant::now());
    assert_eq!(records, [STREAM_RECORDS as u32]);
    respond(&mut accumulator, sent, Instant::now());
    append(&mut accumulator);
    let now = Instant::now();
    let completed = accumulator.nodes[&NODE].last_completed.unwrap();
    if now < completed + LINGER {
        assert!(drain(&mut accumulator, now.min(completed + LINGER / 2)).0.is_empty());
    }
    let (records, sent) = drain(&mut accumulator, Instant::now() + LINGER);
    assert_eq!(records, [1]);
    respond(&mut accumulator, sent, Instant::now());
    // The last request had few records.
    assert!(append(&mut accumulator));
    assert_eq!(drain(&mut accumulator, Instant::now()).0, [1]);
}

#[test]
fn stream_ends_after_a_pause() {
    let mut accumulator = accumulator(true);
    for _ in 0..STREAM_RECORDS {
        append(&mut accumulator);
    }
    let (_, sent) = drain(&mut accumulator, Instant::now());
    respond(&mut accumulator, sent, Instant::now());
    std::thread::sleep(LINGER);
    assert!(append(&mut accumulator), "a record after a pause is sent at once");
    assert_eq!(drain(&mut accumulator, Instant::now()).0, [1]);
}

#[test]
fn every_record_lingers_if_the_option_is_set() {
    let mut accumulator = accumulator(false);
    append(&mut accumulator);
    let created = Instant::now();
    let (records, drained) = drain(&mut accumulator, created - Duration::from_millis(1));
    assert!(records.is_empty());
    assert!(drained.wake_at.is_some_and(|at| at <= created + LINGER));
    assert_eq!(drain(&mut accumulator, created + LINGER).0, [1]);
}

#[test]
fn batches_stay_below_the_size_that_a_broker_has_accepted() {
    let mut accumulator = accumulator(false);
    let value = [b'x'; 100];
    while accumulator.topics[0].partitions[0].waiting() < 2 {
        append_to(&mut accumulator, Some(0), &value);
    }
    let (records, drained) = drain(&mut accumulator, Instant::now());
    assert!(records[0] > 9000, "{records:?}");
    let outgoing = drained.requests.into_iter().next().unwrap().batches.remove(0);
    accumulator.limit_batch_size(outgoing.slot, &[]);
    assert_eq!(accumulator.topics[0].accepted_batch_size, usize::MAX);
    let size = outgoing.batch.size();
    accumulator.limit_batch_size(outgoing.slot, std::slice::from_ref(&outgoing.batch));
    assert_eq!(accumulator.topics[0].accepted_batch_size, size);
    accumulator.topics[0].accepted_batch_size = 1000;
    for _ in 0..100 {
        append_to(&mut accumulator, Some(1), &value);
    }
    let waiting = accumulator.topics[0].partitions[1].waiting();
    assert!((10..=15).contains(&waiting), "{waiting} batches of at most 1,000 bytes");
}

#[test]
fn records_without_a_key_spread_although_batches_are_large() {
    let mut accumulator = accumulator(false);
    let value = [b'x'; 1024];
    let mut runs = Vec::new();
    for _ in 0..2000 {
        let partition = append_to(&mut accumulator, None, &value).0.partition();
        match runs.last_mut() {
            Some((last, count)) if *last == partition => *count += 1,
            _ => runs.push((partition, 1)),
        }
    }
    // A partition may be chosen several times in a row, so only the number of runs is certain to be large.
    assert!(runs.len() > 20, "{runs:?}");
}

/// As `BuiltInPartitioner` of Java's client 4.4: partitions of the own rack, unless none is available.
#[test]
fn choices_prefer_the_own_rack() {
    let mut accumulator = accumulator(false);
    let chosen = |accumulator: &Accumulator| {
        let choices = accumulator.choices(0);
        let mut sticky = super::super::partitioner::Sticky::default();
        let partitioning = accumulator.limits.partitioning;
        (0..100).map(|_| sticky.switch(&partitioning, &choices, 1)).collect::<std::collections::BTreeSet<i32>>()
    };
    assert_eq!(chosen(&accumulator), [0, 1].into());
    accumulator.topics[0].in_rack = vec![1];
    assert_eq!(chosen(&accumulator), [1].into());
    accumulator.limits.partitioning.availability_timeout = Some(Duration::from_millis(1));
    let stalled = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
    accumulator.topics[0].partitions[1].leader = Some(NODE + 1);
    accumulator.nodes.entry(NODE + 1).or_default().stalled_since = Some(stalled);
    assert_eq!(chosen(&accumulator), [0].into());
    accumulator.nodes.entry(NODE).or_default().stalled_since = Some(stalled);
    assert_eq!(chosen(&accumulator), [0, 1].into());
}
