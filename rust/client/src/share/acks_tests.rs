//! Tests of the bookkeeping of acquired records.

use std::time::Duration;

use samsarrow_wire::messages::share_fetch::AcknowledgementBatch;

use super::super::requests::encode;
use super::*;

const SESSION: SessionId = SessionId { node: 1, number: 1 };

fn acquired(first: i64, states: &[RowState]) -> Acquired {
    Acquired {
        first,
        last: first + states.len() as i64 - 1,
        session: SESSION,
        locked_until: Instant::now() + Duration::from_secs(30),
        states: states.to_vec(),
        lost: None,
        renewal_failed: false,
        commits: Vec::new(),
        has_new_decisions: false,
    }
}

/// Returns the type of each offset in encoded acknowledgements. Fails if they violate a rule of the broker.
fn decode(batches: &[AcknowledgementBatch]) -> BTreeMap<i64, i8> {
    let mut types = BTreeMap::new();
    let mut end = i64::MIN;
    for batch in batches {
        assert!(batch.first_offset <= batch.last_offset && batch.first_offset >= end, "{batches:?}");
        let count = usize::try_from(batch.last_offset - batch.first_offset + 1).unwrap();
        let one = batch.acknowledge_types.len() == 1;
        assert!(one || batch.acknowledge_types.len() == count, "{batch:?}");
        for (index, offset) in (batch.first_offset..=batch.last_offset).enumerate() {
            types.insert(offset, batch.acknowledge_types[if one { 0 } else { index }]);
        }
        end = batch.last_offset + 1;
    }
    types
}

#[test]
fn encoded_acknowledgements_have_the_chosen_types() {
    for seed in 0..2000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rows = PartitionRows::default();
        let (mut first, mut expected) = (random.i64(0..1000), BTreeMap::new());
        for _ in 0..random.usize(1..5) {
            let mut states = Vec::new();
            while states.len() < random.usize(1..60) {
                let state = *random
                    .choice(
                        [
                            RowState::Gap,
                            RowState::Accept,
                            RowState::Release,
                            RowState::Reject,
                            RowState::Renew,
                            RowState::Returned,
                            RowState::Queued,
                        ]
                        .iter(),
                    )
                    .unwrap();
                states.extend(std::iter::repeat_n(state, random.usize(1..25)));
            }
            for (offset, state) in (first..).zip(&states) {
                if state.is_pending() {
                    expected.insert(offset, *state as i8);
                }
            }
            let end = first + states.len() as i64;
            rows.insert(acquired(first, &states), Instant::now());
            first = end + random.i64(0..3);
        }
        let (taken, failed) = rows.take_pending(SESSION, Instant::now(), 1);
        assert!(failed.is_empty());
        assert_eq!(decode(&encode(&taken)), expected, "seed {seed}");
        let counted: usize = taken.iter().map(Taken::count).sum();
        assert_eq!(counted, expected.len());
        // Nothing is pending until the response.
        assert!(rows.take_pending(SESSION, Instant::now(), 1).0.is_empty());
        for taken in &taken {
            rows.applied(taken, Instant::now() + Duration::from_secs(60));
        }
        for (offset, kind) in expected {
            let state = rows.state(offset);
            match kind {
                4 => assert_eq!(state, Some(RowState::Renewed), "seed {seed}, offset {offset}"),
                _ => assert!(matches!(state, None | Some(RowState::Done)), "seed {seed}, offset {offset}: {state:?}"),
            }
        }
    }
}

#[test]
fn long_runs_become_ranges_and_short_ones_arrays() {
    let mut types = vec![Some(1); 10];
    types.extend([Some(2), Some(3), None, Some(1)]);
    let batches = encode(&[Taken { first: 5, types, commits: vec![1] }]);
    let found: Vec<_> = batches.iter().map(|b| (b.first_offset, b.last_offset, b.acknowledge_types.clone())).collect();
    assert_eq!(found, [(5, 14, vec![1]), (15, 16, vec![2, 3]), (18, 18, vec![1])]);
}

#[test]
fn acknowledgements_past_the_lock_are_not_sent() {
    let mut rows = PartitionRows::default();
    rows.insert(acquired(0, &[RowState::Accept; 3]), Instant::now());
    rows.insert(Acquired { locked_until: Instant::now(), ..acquired(3, &[RowState::Accept; 2]) }, Instant::now());
    let (sent, failed) = rows.take_pending(SESSION, Instant::now(), 1);
    assert_eq!(sent.iter().map(Taken::ranges).collect::<Vec<_>>(), [[(0, 2)]]);
    assert_eq!(failed.iter().map(|(taken, _)| taken.ranges()).collect::<Vec<_>>(), [[(3, 4)]]);
    assert_eq!(rows.state(3), None);
}

#[test]
fn a_lost_session_keeps_returned_rows_for_their_acknowledgement() {
    let mut rows = PartitionRows::default();
    rows.insert(acquired(0, &[RowState::Queued, RowState::Returned, RowState::Accept]), Instant::now());
    let error = Error::State("lost".into());
    rows.lose(SESSION, &error);
    assert_eq!(rows.first_without([1, 2], RowState::is_out), None);
    assert_eq!(rows.first_without([0], RowState::is_out), Some(0));
    let other = SessionId { node: 1, number: 2 };
    let (sent, failed) = rows.take_pending(other, Instant::now(), 1);
    assert!(sent.is_empty());
    assert_eq!((failed[0].0.ranges(), failed[0].1.is_some()), (vec![(2, 2)], true));
    assert!(rows.is_complete(1));
    assert_eq!(rows.state(1), Some(RowState::Returned));
}

#[test]
fn decisions_about_records_acquired_again_apply_to_the_new_locks() {
    let other = SessionId { node: 2, number: 1 };
    let mut rows = PartitionRows::default();
    let states = [RowState::Queued, RowState::Returned, RowState::Renewed, RowState::Accept, RowState::Returned];
    rows.insert(acquired(0, &states), Instant::now());
    rows.set([(3, RowState::Accept)]);
    assert!(rows.begin_commit(1));
    rows.insert(Acquired { session: other, ..acquired(0, &[RowState::Queued; 4]) }, Instant::now());
    let states: Vec<_> = (0..5).map(|offset| rows.state(offset)).collect();
    assert_eq!(
        states,
        [RowState::Queued, RowState::Returned, RowState::Renewed, RowState::Accept, RowState::Returned].map(Some)
    );
    assert_eq!(rows.ranges().map(|range| (range.first, range.last)).collect::<Vec<_>>(), [(0, 3), (4, 4)]);
    assert!(rows.take_pending(SESSION, Instant::now(), 2).0.is_empty());
    let (taken, _) = rows.take_pending(other, Instant::now(), 2);
    assert_eq!((taken[0].ranges(), taken[0].commits.clone()), (vec![(3, 3)], vec![1]));
    // Undecodable records and acknowledgements in flight stay as they are.
    rows.insert(acquired(2, &[RowState::Reject, RowState::Queued]), Instant::now());
    assert_eq!((rows.state(2), rows.state(3)), (Some(RowState::Reject), Some(RowState::Queued)));
}

#[test]
fn renewal_moves_only_the_locks_of_renewed_rows() {
    let mut rows = PartitionRows::default();
    rows.insert(acquired(0, &[RowState::Returned; 6]), Instant::now());
    rows.set([(2, RowState::Renew), (3, RowState::Renew)]);
    let (taken, _) = rows.take_pending(SESSION, Instant::now(), 1);
    let until = Instant::now() + Duration::from_secs(90);
    rows.applied(&taken[0], until);
    let renewed: Vec<_> = (0..6).filter(|offset| rows.range(*offset).unwrap().locked_until == until).collect();
    assert_eq!(renewed, [2, 3]);
    assert_eq!(rows.state(2), Some(RowState::Renewed));
    assert_eq!(rows.state(1), Some(RowState::Returned));
    assert_eq!(rows.first_with(RowState::Renewed), Some(2));
}

#[test]
fn a_rejected_renewal_keeps_the_row_out() {
    let mut rows = PartitionRows::default();
    rows.insert(acquired(7, &[RowState::Renew, RowState::Accept]), Instant::now());
    let (taken, _) = rows.take_pending(SESSION, Instant::now(), 1);
    rows.rejected(&taken[0]);
    assert_eq!((rows.state(7), rows.state(8)), (Some(RowState::Renewed), Some(RowState::Done)));
}

#[test]
fn renewed_rows_whose_lock_has_ended_are_returned_again() {
    let states = [RowState::Renewed, RowState::Renewing, RowState::Returned, RowState::Accept];
    let other = SessionId { node: 2, number: 1 };
    for (session, locked_until) in [(SESSION, Instant::now() + Duration::from_secs(30)), (other, Instant::now())] {
        let mut rows = PartitionRows::default();
        rows.insert(Acquired { locked_until, ..acquired(0, &states) }, Instant::now());
        rows.insert(Acquired { session, ..acquired(0, &[RowState::Queued; 4]) }, Instant::now());
        let states: Vec<_> = (0..4).filter_map(|offset| rows.state(offset)).collect();
        assert_eq!(states, [RowState::Queued, RowState::Queued, RowState::Returned, RowState::Accept]);
    }
}

#[test]
fn each_commit_with_decisions_about_a_range_reports_it() {
    let mut rows = PartitionRows::default();
    rows.insert(acquired(0, &[RowState::Returned; 6]), Instant::now());
    rows.set_range(0, 1, RowState::Accept);
    assert!(rows.begin_commit(1));
    rows.set_range(2, 3, RowState::Accept);
    assert!(rows.begin_commit(2));
    rows.set([(4, RowState::Accept)]);
    let (taken, _) = rows.take_pending(SESSION, Instant::now(), 3);
    assert_eq!((taken[0].ranges(), taken[0].commits.clone()), (vec![(0, 4)], vec![1, 2, 3]));
    assert!(!rows.is_complete(1));
    rows.complete(&taken);
    assert!(rows.is_complete(3));
}

#[test]
fn rows_of_an_earlier_topic_are_reported_and_no_commit_waits_for_them() {
    let mut rows = PartitionRows::default();
    rows.insert(acquired(0, &[RowState::Queued, RowState::Returned, RowState::Reject, RowState::Gap]), Instant::now());
    assert!(rows.begin_commit(1));
    let dropped = rows.use_topic(Uuid([1; 16]), 2);
    assert_eq!(
        dropped.iter().map(|taken| (taken.ranges(), taken.commits.clone())).collect::<Vec<_>>(),
        [(vec![(1, 3)], vec![1])]
    );
    assert!(rows.is_complete(1));
}

#[test]
fn a_commit_waits_for_the_acknowledgements_of_each_session() {
    let other = SessionId { node: 2, number: 1 };
    let mut rows = PartitionRows::default();
    rows.insert(acquired(0, &[RowState::Accept]), Instant::now());
    rows.insert(Acquired { session: other, ..acquired(1, &[RowState::Accept]) }, Instant::now());
    assert!(rows.begin_commit(1));
    let (first, _) = rows.take_pending(SESSION, Instant::now(), 2);
    rows.complete(&first);
    assert!(!rows.is_complete(1), "the acknowledgement of the other session was not sent");
    // Later acknowledgements belong to the next commit.
    rows.insert(acquired(5, &[RowState::Accept]), Instant::now());
    let (later, _) = rows.take_pending(SESSION, Instant::now(), 2);
    let (second, _) = rows.take_pending(other, Instant::now(), 2);
    assert!(!rows.is_complete(1));
    rows.complete(&second);
    assert!(rows.is_complete(1) && !rows.is_complete(2));
    rows.complete(&later);
    assert!(rows.is_complete(2));
}

#[test]
fn a_single_state_is_found_in_any_block() {
    for length in [0, 1, 255, 256, 257, 600] {
        let mut states = vec![RowState::Done; length];
        assert!(!any(&states, |state| state != RowState::Done));
        for index in 0..length {
            states[index] = RowState::Accept;
            assert!(any(&states, RowState::is_pending), "{index} of {length}");
            states[index] = RowState::Done;
        }
    }
}

#[test]
fn only_ranges_of_locked_rows_in_the_queue_are_all_queued() {
    let mut rows = PartitionRows::default();
    rows.insert(acquired(0, &[RowState::Queued; 3]), Instant::now());
    rows.insert(acquired(3, &[RowState::Queued, RowState::Gap]), Instant::now());
    let now = Instant::now();
    assert!(rows.all_queued(1, 3, now));
    assert!(!rows.all_queued(1, 4, now), "a gap is no row");
    assert!(!rows.all_queued(3, 5, now), "offset 5 is not acquired");
    assert!(!rows.all_queued(0, 2, now + Duration::from_secs(3600)), "the locks have ended");
    rows.lose(SESSION, &Error::closed("the session"));
    assert!(!rows.all_queued(0, 2, now));
}

#[test]
fn responses_change_only_acknowledgements_in_flight() {
    let mut rows = PartitionRows::default();
    rows.insert(acquired(0, &[RowState::Accept; 4]), Instant::now());
    rows.insert(acquired(4, &[RowState::Accept; 4]), Instant::now());
    let (taken, _) = rows.take_pending(SESSION, Instant::now(), 1);
    rows.insert(acquired(3, &[RowState::Queued; 3]), Instant::now());
    for taken in &taken {
        rows.applied(taken, Instant::now());
    }
    let states: Vec<_> = (0..8).map(|offset| rows.state(offset)).collect();
    let queued = Some(RowState::Queued);
    assert_eq!(states, [None, None, None, queued, queued, queued, None, None]);
}

#[test]
fn ranges_of_offsets_are_handled_as_their_offsets() {
    for seed in 0..500 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut rows = PartitionRows::default();
        let mut first = random.i64(0..4);
        for _ in 0..random.usize(0..4) {
            let states = [RowState::Returned, RowState::Renewed, RowState::Done];
            let of_range: Vec<_> = (0..random.usize(1..6)).filter_map(|_| random.choice(states)).collect();
            rows.insert(acquired(first, &of_range), Instant::now());
            first += of_range.len() as i64 + random.i64(0..2);
        }
        let begin = random.i64(0..12);
        let end = begin + random.i64(0..12);
        let expected = rows.first_without(begin..=end, RowState::is_out);
        assert_eq!(rows.first_without_in(begin, end, RowState::is_out), expected, "seed {seed}");
        let mut by_offset = PartitionRows::default();
        for range in rows.ranges().cloned().collect::<Vec<_>>() {
            by_offset.insert(range, Instant::now());
        }
        by_offset.set((begin..=end).map(|offset| (offset, RowState::Accept)));
        rows.set_range(begin, end, RowState::Accept);
        let states = |rows: &PartitionRows| (0..30).map(|offset| rows.state(offset)).collect::<Vec<_>>();
        assert_eq!(states(&rows), states(&by_offset), "seed {seed}");
    }
}
