use std::cell::Cell;

use super::*;

const A: &str = "a";
const TIMEOUT_MS: i32 = 60_000;

/// A coordinator with a manual clock. It assigns producer ids from 100 on.
struct Coordinator {
    transactions: Transactions,
    now: Now,
    next_id: Cell<i64>,
}

type Answer = Result<(i64, i16), ErrorCode>;

fn identity((id, epoch): (i64, i16)) -> Identity {
    Identity { id, epoch }
}

fn topic_partition(partition: i32) -> TopicPartition {
    ("t".to_owned(), partition)
}

impl Coordinator {
    fn new(options: &TransactionOptions) -> Self {
        let now = Now { at: Instant::now(), ms: 1_700_000_000_000 };
        Coordinator { transactions: Transactions::new(options), now, next_id: Cell::new(100) }
    }

    fn of_version(version: i16) -> Self {
        Self::new(&TransactionOptions { version, ..TransactionOptions::default() })
    }

    fn init(&mut self, was: Option<(i64, i16)>) -> Answer {
        self.init_with(TIMEOUT_MS, was)
    }

    fn init_with(&mut self, timeout_ms: i32, was: Option<(i64, i16)>) -> Answer {
        let next_id = &self.next_id;
        let init = Init { transactional_id: A, timeout_ms, was: was.map(identity) };
        let started = self.transactions.init(self.now, &init, &|| next_id.replace(next_id.get() + 1));
        started.map(|producer| (producer.id, producer.epoch))
    }

    fn add(&mut self, producer: (i64, i16), partition: i32) -> Result<(), ErrorCode> {
        self.transactions.add(self.now, A, identity(producer), [topic_partition(partition)])
    }

    fn verify(&mut self, producer: (i64, i16), partition: i32) -> Result<(), ErrorCode> {
        self.transactions.verify(A, identity(producer), &topic_partition(partition))
    }

    fn end(&mut self, producer: (i64, i16), committed: bool, bumps: bool) -> Answer {
        let next_id = &self.next_id;
        let new_id = || next_id.replace(next_id.get() + 1);
        let ended = self.transactions.end(self.now, A, identity(producer), committed, bumps, &new_id);
        ended.map(|producer| (producer.id, producer.epoch))
    }

    /// Completes all ended transactions. Returns the producer, the outcome and the number of partitions of each.
    fn complete(&mut self) -> Vec<((i64, i16), bool, usize)> {
        let endings = self.transactions.endings(self.now);
        for ending in &endings {
            self.transactions.markers_written(self.now, &ending.transactional_id, &ending.partitions);
        }
        let summary =
            |ending: &Ending| ((ending.producer.id, ending.producer.epoch), ending.committed, ending.partitions.len());
        endings.iter().map(summary).collect()
    }

    fn phase(&self) -> &'static str {
        self.transactions.get(A).map_or("none", |transaction| transaction.phase.name())
    }

    fn pass(&mut self, time: Duration) {
        self.now.at += time;
        self.transactions.tick(self.now);
    }

    /// Advances a producer to the last epoch of its id.
    fn exhaust(&mut self) -> (i64, i16) {
        let (id, _) = self.init(None).unwrap();
        self.transactions.by_id.get_mut(A).unwrap().producer.epoch = i16::MAX - 1;
        (id, i16::MAX - 1)
    }
}

#[test]
fn init_bumps_the_epoch() {
    let mut w = Coordinator::of_version(2);
    assert_eq!(w.init(None), Ok((100, 0)));
    assert_eq!(w.init(None), Ok((100, 1)));
    // KIP-360: a producer bumps its epoch after an error, repeats the request, and sends a request with an outdated
    // epoch.
    assert_eq!(w.init(Some((100, 0))), Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(w.init(Some((100, 1))), Ok((100, 2)));
    assert_eq!(w.init(Some((100, 1))), Ok((100, 2)));
    assert_eq!(w.init(Some((100, 2))), Ok((100, 3)));
    assert_eq!(w.init(Some((100, 1))), Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(w.init(Some((7, 3))), Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(w.init(None), Ok((100, 4)));
    // InitProducerId of a new instance invalidates the previous epoch.
    assert_eq!(w.init(Some((100, 3))), Err(ErrorCode::PRODUCER_FENCED));
}

#[test]
fn init_of_unknown_producer_assigns_new_id() {
    let mut w = Coordinator::of_version(2);
    assert_eq!(w.init(Some((7, 3))), Ok((100, 0)));
}

#[test]
fn init_assigns_new_id_when_epochs_are_exhausted() {
    let mut w = Coordinator::of_version(2);
    let last = w.exhaust();
    assert_eq!(w.init(Some(last)), Ok((101, 0)));
    // The producer repeats the request because the response was lost.
    assert_eq!(w.init(Some(last)), Ok((101, 0)));
    let mut w = Coordinator::of_version(2);
    w.exhaust();
    assert_eq!(w.init(None), Ok((101, 0)));
    let mut w = Coordinator::of_version(2);
    w.exhaust();
    assert_eq!(w.init(Some((100, 3))), Err(ErrorCode::PRODUCER_FENCED));
}

#[test]
fn init_limits_timeout() {
    let mut w = Coordinator::of_version(2);
    for timeout in [0, -1, 900_001, i32::MAX] {
        assert_eq!(w.init_with(timeout, None), Err(ErrorCode::INVALID_TRANSACTION_TIMEOUT));
    }
    assert_eq!(w.init_with(900_000, None), Ok((100, 0)));
    let init = Init { transactional_id: "", timeout_ms: 1, was: None };
    assert_eq!(w.transactions.init(w.now, &init, &|| 1), Err(ErrorCode::INVALID_REQUEST));
}

#[test]
fn end_without_bump_keeps_epoch() {
    let mut w = Coordinator::of_version(2);
    let p = w.init(None).unwrap();
    assert_eq!(w.end(p, true, false), Err(ErrorCode::INVALID_TXN_STATE));
    assert_eq!(w.verify(p, 0), Err(ErrorCode::TRANSACTION_ABORTABLE));
    for committed in [true, false] {
        assert_eq!(w.add(p, 0), Ok(()));
        assert_eq!(w.add(p, 1), Ok(()));
        assert_eq!(w.phase(), "Ongoing");
        assert_eq!((w.verify(p, 1), w.verify(p, 2)), (Ok(()), Err(ErrorCode::TRANSACTION_ABORTABLE)));
        assert_eq!(w.end(p, committed, false), Ok(p));
        // The transaction is not complete before all partitions have their markers.
        assert_eq!(w.end(p, committed, false), Err(ErrorCode::CONCURRENT_TRANSACTIONS));
        assert_eq!(w.end(p, !committed, false), Err(ErrorCode::INVALID_TXN_STATE));
        assert_eq!(w.add(p, 0), Err(ErrorCode::CONCURRENT_TRANSACTIONS));
        assert_eq!(w.verify(p, 0), Err(ErrorCode::CONCURRENT_TRANSACTIONS));
        assert_eq!(w.init(None), Err(ErrorCode::CONCURRENT_TRANSACTIONS));
        assert_eq!(w.complete(), [(p, committed, 2)]);
        assert_eq!(w.phase(), if committed { "CompleteCommit" } else { "CompleteAbort" });
        // The producer repeats the request because the response was lost.
        assert_eq!(w.end(p, committed, false), Ok(p));
        assert_eq!(w.end(p, !committed, false), Err(ErrorCode::INVALID_TXN_STATE));
        assert_eq!(w.verify(p, 0), Err(ErrorCode::TRANSACTION_ABORTABLE));
    }
    assert_eq!(w.complete(), []);
}

#[test]
fn rejects_other_producers() {
    let mut w = Coordinator::of_version(2);
    let p = w.init(None).unwrap();
    let p = w.init(Some(p)).unwrap();
    w.add(p, 0).unwrap();
    for bumps in [true, false] {
        assert_eq!(w.end((p.0, 0), true, bumps), Err(ErrorCode::PRODUCER_FENCED));
        assert_eq!(w.end((p.0, 2), true, bumps), Err(ErrorCode::PRODUCER_FENCED));
        assert_eq!(w.end((9, 1), true, bumps), Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING));
    }
    assert_eq!((w.add((p.0, 0), 0), w.add((9, 1), 0)).0, Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!((w.add((p.0, 0), 0), w.add((9, 1), 0)).1, Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING));
    let unknown = w.transactions.add(w.now, "b", identity(p), [topic_partition(0)]);
    assert_eq!(unknown, Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING));
    assert_eq!(w.transactions.add(w.now, "", identity(p), [topic_partition(0)]), Err(ErrorCode::INVALID_REQUEST));
}

#[test]
fn end_with_bump_advances_epoch() {
    let mut w = Coordinator::of_version(2);
    let p0 = w.init(None).unwrap();
    w.add(p0, 0).unwrap();
    let p1 = w.end(p0, true, true).unwrap();
    assert_eq!(p1, (100, 1));
    assert_eq!(w.end(p0, true, true), Err(ErrorCode::CONCURRENT_TRANSACTIONS));
    assert_eq!(w.end(p0, false, true), Err(ErrorCode::INVALID_TXN_STATE));
    assert_eq!(w.end(p1, true, true), Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(w.add(p1, 0), Err(ErrorCode::CONCURRENT_TRANSACTIONS));
    assert_eq!(w.complete(), [(p1, true, 1)]);
    // The producer repeats the request because the response was lost.
    assert_eq!(w.end(p0, true, true), Ok(p1));
    assert_eq!(w.end(p0, false, true), Err(ErrorCode::INVALID_TXN_STATE));
    assert_eq!(w.add(p0, 0), Err(ErrorCode::PRODUCER_FENCED));
    // If no partition was added, a commit is rejected, but an abort bumps the epoch.
    assert_eq!(w.end(p1, true, true), Err(ErrorCode::INVALID_TXN_STATE));
    let p2 = w.end(p1, false, true).unwrap();
    assert_eq!((p2, w.complete()), ((100, 2), vec![(p2, false, 0)]));
    assert_eq!(w.end(p1, false, true), Ok(p2));
    // The same rules apply before the producer's first transaction.
    let p3 = w.init(Some(p2)).unwrap();
    assert_eq!(w.end(p3, true, true), Err(ErrorCode::INVALID_TXN_STATE));
    assert_eq!(w.end(p3, false, true), Ok((100, 4)));
}

#[test]
fn new_id_takes_effect_after_markers_are_written() {
    let mut w = Coordinator::of_version(2);
    let last = w.exhaust();
    w.add(last, 0).unwrap();
    let next = w.end(last, true, true).unwrap();
    assert_eq!(next, (101, 0));
    assert_eq!(w.add(next, 0), Err(ErrorCode::CONCURRENT_TRANSACTIONS));
    assert_eq!(w.end(last, true, true), Err(ErrorCode::CONCURRENT_TRANSACTIONS));
    assert_eq!(w.complete(), [((100, i16::MAX), true, 1)]);
    assert_eq!(w.end(last, true, true), Ok(next));
    assert_eq!(w.add(next, 0), Ok(()));
}

#[test]
fn init_aborts_open_transaction() {
    for (version, learns) in [(2, true), (1, false), (0, false)] {
        let mut w = Coordinator::of_version(version);
        let p = w.init(None).unwrap();
        w.add(p, 0).unwrap();
        assert_eq!(w.init(None), Err(ErrorCode::CONCURRENT_TRANSACTIONS));
        assert_eq!(w.complete(), [((100, 1), false, 1)]);
        assert_eq!(w.add(p, 0), Err(ErrorCode::PRODUCER_FENCED));
        assert_eq!(w.end(p, false, false), Err(ErrorCode::PRODUCER_FENCED));
        // With epoch bumps, the first producer cannot distinguish the abort from its own EndTxn, so a repeated EndTxn
        // returns the new epoch.
        let ended = w.end(p, false, true);
        assert_eq!(ended, if learns { Ok((100, 1)) } else { Err(ErrorCode::PRODUCER_FENCED) });
        assert_eq!(w.init(Some(p)), if learns { Ok((100, 1)) } else { Err(ErrorCode::PRODUCER_FENCED) });
        assert_eq!(w.init(None), Ok((100, 2)));
        assert_eq!(w.init(Some(p)), Err(ErrorCode::PRODUCER_FENCED));
    }
}

#[test]
fn tick_aborts_timed_out_transaction() {
    let mut w = Coordinator::of_version(2);
    let p = w.init(None).unwrap();
    w.add(p, 0).unwrap();
    let end = w.now.at + Duration::from_secs(60);
    assert_eq!(w.transactions.next_deadline(), Some(end));
    w.pass(Duration::from_millis(59_999));
    assert_eq!(w.phase(), "Ongoing");
    // Adding partitions does not extend the timeout.
    w.add(p, 1).unwrap();
    w.pass(Duration::from_millis(1));
    assert_eq!(w.phase(), "PrepareAbort");
    assert_eq!(w.complete(), [((100, 1), false, 2)]);
    assert_eq!(w.end(p, true, true), Err(ErrorCode::INVALID_TXN_STATE));
    assert_eq!(w.end(p, true, false), Err(ErrorCode::PRODUCER_FENCED));
}

#[test]
fn fenced_producer_stays_fenced() {
    let mut w = Coordinator::of_version(2);
    let fence = |w: &mut Coordinator| w.transactions.fence(w.now, A, &|| 500);
    assert_eq!(fence(&mut w), Err(ErrorCode::TRANSACTIONAL_ID_NOT_FOUND));
    let p = w.init(None).unwrap();
    assert_eq!(fence(&mut w), Ok(()));
    assert_eq!(w.add(p, 0), Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(w.init(Some(p)), Err(ErrorCode::PRODUCER_FENCED));
    let p = w.init(None).unwrap();
    w.add(p, 0).unwrap();
    assert_eq!(fence(&mut w), Ok(()));
    assert_eq!(fence(&mut w), Err(ErrorCode::CONCURRENT_TRANSACTIONS));
    assert_eq!(w.complete(), [((100, 3), false, 1)]);
    for (committed, bumps) in [(true, true), (true, false), (false, true), (false, false)] {
        assert_eq!(w.end(p, committed, bumps), Err(ErrorCode::PRODUCER_FENCED));
    }
    assert_eq!(w.init(Some(p)), Err(ErrorCode::PRODUCER_FENCED));
}

#[test]
fn markers_wait_for_delay_and_leaders() {
    let delay = Duration::from_secs(1);
    let mut w = Coordinator::new(&TransactionOptions { marker_delay: delay, ..TransactionOptions::default() });
    let p = w.init(None).unwrap();
    w.add(p, 0).unwrap();
    w.add(p, 1).unwrap();
    w.end(p, true, false).unwrap();
    assert_eq!(w.transactions.next_deadline(), Some(w.now.at + delay));
    assert_eq!(w.complete(), []);
    w.pass(delay);
    let endings = w.transactions.endings(w.now);
    assert_eq!((endings.len(), endings[0].partitions.len()), (1, 2));
    // A partition without a leader gets its marker after it has a leader again.
    w.transactions.markers_written(w.now, A, &[topic_partition(1)]);
    assert_eq!((w.phase(), w.transactions.next_deadline()), ("PrepareCommit", None));
    assert_eq!(w.complete(), [(p, true, 1)]);
    assert_eq!(w.phase(), "CompleteCommit");
}

#[test]
fn reload_bumps_coordinator_epoch() {
    let mut w = Coordinator::of_version(2);
    let p = w.init(None).unwrap();
    w.add(p, 0).unwrap();
    w.transactions.reload(A);
    w.transactions.reload("b");
    w.end(p, true, false).unwrap();
    assert_eq!(w.transactions.endings(w.now)[0].coordinator_epoch, 1);
}

#[test]
fn tick_expires_unused_ids() {
    let week = Duration::from_secs(7 * 24 * 60 * 60);
    let mut w = Coordinator::of_version(2);
    let p = w.init(None).unwrap();
    w.add(p, 0).unwrap();
    w.pass(week / 2);
    w.complete();
    assert_eq!(w.transactions.next_deadline(), Some(w.now.at + week));
    w.pass(week);
    assert_eq!(w.phase(), "none");
    assert_eq!(w.add(p, 0), Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING));
    assert_eq!(w.transactions.next_deadline(), None);
}
