use super::*;

const AFTER: Duration = Duration::from_secs(60);

fn header(id: i64, epoch: i16, sequence: i32, count: i32, transactional: bool) -> BatchHeader {
    BatchHeader {
        base_offset: 0,
        batch_length: 100,
        partition_leader_epoch: 0,
        magic: 2,
        crc: 0,
        attributes: if transactional { 0x10 } else { 0 },
        last_offset_delta: count - 1,
        base_timestamp: 5,
        max_timestamp: 9,
        producer_id: id,
        producer_epoch: epoch,
        base_sequence: sequence,
        record_count: count,
    }
}

/// A partition whose batches are checked and, if they are valid, appended with the next offsets.
struct Partition {
    producers: Producers,
    at: i64,
}

impl Partition {
    fn new() -> Self {
        Partition { producers: Producers::default(), at: 0 }
    }

    fn send(&mut self, header: &BatchHeader, begins_at_zero: bool) -> Result<i64, ErrorCode> {
        match self.producers.check(header, begins_at_zero)? {
            Verdict::Duplicate { base_offset, .. } => Ok(base_offset),
            Verdict::Append => {
                let base_offset = self.at;
                self.producers.appended(header, base_offset, -1, Instant::now());
                self.at += i64::from(header.record_count);
                Ok(base_offset)
            }
        }
    }

    fn plain(&mut self, epoch: i16, sequence: i32, count: i32) -> Result<i64, ErrorCode> {
        self.send(&header(1, epoch, sequence, count, false), false)
    }

    fn end(&mut self, id: i64, epoch: i16, committed: bool) -> i64 {
        let marker = EndMarker { producer_id: id, producer_epoch: epoch, committed, coordinator_epoch: 0 };
        self.producers.check_end(&marker, false).unwrap();
        self.producers.ended(&marker, self.at, 1, Instant::now());
        self.at += 1;
        self.at - 1
    }
}

#[test]
fn check_rejects_gaps_and_detects_duplicates() {
    let mut p = Partition::new();
    assert_eq!(p.plain(0, 0, 3), Ok(0));
    assert_eq!(p.plain(0, 4, 1), Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    for sequence in 3..8 {
        assert_eq!(p.plain(0, sequence, 1), Ok(sequence.into()));
    }
    // Retries of the last five batches are recognized as duplicates. Older batches are out of order.
    assert_eq!(p.plain(0, 3, 1), Ok(3));
    assert_eq!(p.plain(0, 7, 1), Ok(7));
    assert_eq!(p.plain(0, 0, 3), Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    // The batch has the same first sequence but another record count, so it is not a duplicate.
    assert_eq!(p.plain(0, 7, 2), Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
}

#[test]
fn sequences_wrap_to_zero() {
    let mut p = Partition::new();
    assert_eq!(p.plain(0, i32::MAX - 1, 4), Ok(0));
    assert_eq!(p.plain(0, i32::MAX, 1), Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    assert_eq!(p.plain(0, 2, 1), Ok(4));
    assert_eq!(p.plain(0, i32::MAX - 1, 4), Ok(0));
    let mut p = Partition::new();
    assert_eq!(p.plain(0, i32::MAX, 1), Ok(0));
    assert_eq!(p.plain(0, 0, 1), Ok(1));
}

#[test]
fn new_epoch_starts_at_sequence_zero() {
    let mut p = Partition::new();
    assert_eq!(p.plain(3, 17, 1), Ok(0));
    assert_eq!(p.plain(2, 18, 1), Err(ErrorCode::INVALID_PRODUCER_EPOCH));
    assert_eq!(p.plain(2, 17, 1), Err(ErrorCode::INVALID_PRODUCER_EPOCH));
    assert_eq!(p.plain(5, 18, 1), Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    assert_eq!(p.plain(5, 0, 1), Ok(1));
    assert_eq!(p.plain(3, 17, 1), Err(ErrorCode::INVALID_PRODUCER_EPOCH));
}

#[test]
fn unknown_producer_may_start_anywhere_unless_epochs_bump() {
    let mut p = Partition::new();
    assert_eq!(p.send(&header(1, 0, 7, 1, true), false), Ok(0));
    assert_eq!(p.send(&header(2, 0, 7, 1, true), true), Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    assert_eq!(p.send(&header(2, 0, 7, 1, false), true), Ok(1));
    // After a marker with a new epoch the producer is known, and its sequence must start at 0.
    p.end(1, 1, true);
    assert_eq!(p.send(&header(1, 1, 8, 1, true), false), Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    assert_eq!(p.send(&header(1, 1, 0, 1, true), false), Ok(3));
}

#[test]
fn later_batch_does_not_overtake_a_rejected_one() {
    let mut p = Partition::new();
    let (first, second) = (header(1, 0, 5, 1, true), header(1, 0, 6, 1, true));
    p.producers.record_attempt(&first);
    p.producers.record_attempt(&second);
    assert_eq!(p.send(&second, false), Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    assert_eq!(p.send(&first, false), Ok(0));
    assert_eq!(p.send(&second, false), Ok(1));
}

#[test]
fn open_transactions_hold_back_last_stable_offset() {
    let mut p = Partition::new();
    assert_eq!(p.producers.first_open(), None);
    p.send(&header(1, 0, 0, 2, true), false).unwrap();
    p.send(&header(2, 0, 0, 3, true), false).unwrap();
    assert!(p.producers.has_open(1, 0) && !p.producers.has_open(1, 1) && !p.producers.has_open(3, 0));
    assert_eq!(p.producers.first_open(), Some(0));
    assert_eq!(p.send(&header(1, 0, 2, 1, false), false), Err(ErrorCode::INVALID_TXN_STATE));
    assert_eq!(p.end(1, 0, false), 5);
    assert_eq!(p.producers.first_open(), Some(2));
    // Writes markers for a transaction without records, and for an unknown producer.
    p.end(1, 0, false);
    p.end(9, 4, false);
    assert_eq!(p.end(2, 1, true), 8);
    assert_eq!(p.producers.first_open(), None);
    let aborted = p.producers.aborted.between(0, 100);
    assert_eq!(
        aborted.iter().map(|transaction| (transaction.producer_id, transaction.first_offset)).collect::<Vec<_>>(),
        [(1, 0)]
    );
    // The sequence continues if the epoch is unchanged, and restarts at 0 in a new epoch.
    assert_eq!(p.send(&header(1, 0, 2, 1, true), false), Ok(9));
    assert_eq!(p.send(&header(2, 1, 0, 1, true), false), Ok(10));
}

#[test]
fn check_end_rejects_old_markers() {
    let mut p = Partition::new();
    p.send(&header(1, 4, 0, 1, true), false).unwrap();
    let marker = EndMarker { producer_id: 1, producer_epoch: 4, committed: true, coordinator_epoch: 7 };
    assert_eq!(p.producers.check_end(&marker, false), Ok(()));
    assert_eq!(p.producers.check_end(&marker, true), Err(ErrorCode::INVALID_PRODUCER_EPOCH));
    let older = EndMarker { producer_epoch: 3, ..marker };
    assert_eq!(p.producers.check_end(&older, false), Err(ErrorCode::INVALID_PRODUCER_EPOCH));
    p.producers.ended(&marker, 1, 1, Instant::now());
    assert_eq!(p.producers.check_end(&marker, true), Ok(()));
    let older = EndMarker { coordinator_epoch: 6, ..marker };
    assert_eq!(p.producers.check_end(&older, false), Err(ErrorCode::TRANSACTION_COORDINATOR_FENCED));
}

#[test]
fn expire_keeps_producers_with_open_transaction() {
    let mut p = Partition::new();
    p.plain(0, 0, 1).unwrap();
    p.send(&header(2, 0, 0, 1, true), false).unwrap();
    let later = Instant::now() + AFTER;
    p.producers.expire(later - AFTER / 2, AFTER);
    assert_eq!(p.producers.describe().len(), 2);
    p.producers.expire(later, AFTER);
    let remaining = p.producers.describe();
    assert_eq!((remaining[0].id, remaining[0].transaction, remaining.len()), (2, Some(1), 1));
    // An expired producer may continue at any sequence.
    assert_eq!(p.plain(0, 40, 1), Ok(2));
}
