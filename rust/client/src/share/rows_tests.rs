//! Tests of the rows that polls take.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::ArrayRef;
use samsarrow_wire::messages::Uuid;

use super::super::acks::SessionId;
use super::*;

const TOPIC: Uuid = Uuid([7; 16]);

fn tp() -> TopicPartition {
    TopicPartition::new("t", 0)
}

fn acquired(first: i64, last: i64, lock: Duration) -> Acquired {
    let states = (first..=last).map(|_| RowState::Queued).collect();
    let session = SessionId { node: 1, number: 1 };
    let locked_until = Instant::now() + lock;
    Acquired {
        first,
        last,
        session,
        locked_until,
        states,
        lost: None,
        renewal_failed: false,
        commits: Vec::new(),
        has_new_decisions: false,
    }
}

fn chunk(first: i64, last: i64) -> Chunk {
    let offsets: ArrayRef = Arc::new(Int64Array::from_iter_values(first..=last));
    let rows = offsets.len();
    let batch = RecordBatch::try_from_iter([("offset", offsets)]).unwrap();
    Chunk { batch, segments: vec![Segment { tp: tp(), rows }] }
}

fn offsets(batch: &RecordBatch) -> Vec<i64> {
    batch["offset"].as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec()
}

fn states(state: &State, range: std::ops::RangeInclusive<i64>) -> Vec<Option<RowState>> {
    range.map(|offset| state.rows[&tp()].state(offset)).collect()
}

#[test]
fn held_rows_are_not_accepted() {
    let mut state = State::new();
    state.add_rows(&tp(), TOPIC, [acquired(0, 3, Duration::from_secs(30))]);
    assert_eq!(offsets(&take_rows(&mut state, chunk(0, 1), RowState::Queued).unwrap()), [0, 1]);
    assert_eq!(offsets(&take_rows(&mut state, chunk(2, 3), RowState::Returned).unwrap()), [2, 3]);
    state.replace(RowState::Returned, RowState::Accept);
    let (queued, accepted) = (Some(RowState::Queued), Some(RowState::Accept));
    assert_eq!(states(&state, 0..=3), [queued, queued, accepted, accepted]);
}

#[test]
fn rows_with_lost_locks_are_left_out_and_later_rows_stay_queued() {
    let mut state = State::new();
    let (long, ended) = (Duration::from_secs(30), Duration::ZERO);
    state.add_rows(&tp(), TOPIC, [acquired(0, 1, long), acquired(2, 3, ended), acquired(4, 5, long)]);
    assert_eq!(offsets(&take_rows(&mut state, chunk(0, 5), RowState::Returned).unwrap()), [0, 1]);
    assert_eq!(states(&state, 1..=4), [RowState::Returned, RowState::Done, RowState::Done, RowState::Queued].map(Some));
    let Some(Item::Chunk(rest)) = state.queue.pop_front() else { panic!("the rows are lost") };
    assert_eq!(offsets(&take_rows(&mut state, rest, RowState::Returned).unwrap()), [4, 5]);
}

#[test]
fn a_row_that_was_delivered_twice_is_returned_once() {
    let mut state = State::new();
    state.add_rows(&tp(), TOPIC, [acquired(0, 1, Duration::from_secs(30))]);
    state.add_rows(&tp(), TOPIC, [acquired(0, 1, Duration::from_secs(30))]);
    assert_eq!(offsets(&take_rows(&mut state, chunk(0, 1), RowState::Returned).unwrap()), [0, 1]);
    assert!(take_rows(&mut state, chunk(0, 1), RowState::Returned).is_none());
    assert_eq!(states(&state, 0..=1), [Some(RowState::Returned); 2], "the application can still acknowledge them");
}
