//! Tests of the choice of requests.

use std::collections::BTreeMap;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::Uuid;

use super::super::acks::Acquired;
use super::super::options::AcknowledgementMode;
use super::*;
use crate::error::Error;

const TOPIC: Uuid = Uuid([7; 16]);
const IDLE: Duration = Duration::from_secs(300);

const OPTIONS: ShareOptions = ShareOptions {
    acknowledgement_mode: AcknowledgementMode::Explicit,
    acquire_mode: AcquireMode::BatchOptimized,
    auto_renew: false,
};

/// Returns the state of a consumer that reads these partitions from each node, with a waiting poll.
fn state(targets: &[(i32, &[i32])]) -> State {
    let mut state = State::new();
    for (node, partitions) in targets {
        let partition = |number: &i32| ((TOPIC, *number), TopicPartition::new("t", *number));
        state.targets.insert(*node, partitions.iter().map(partition).collect::<BTreeMap<_, _>>());
        state.add_session(*node);
    }
    state.polls = 1;
    state.waiting = 1;
    state
}

fn step(state: &mut State, node: i32) -> Step {
    state.next_step(node, &OPTIONS, IDLE, Instant::now())
}

fn open(state: &mut State, node: i32, epoch: i32) {
    if let Some(session) = state.sessions.get_mut(&node) {
        session.epoch = epoch;
        session.fetching = false;
    }
}

/// Adds rows of a partition, all in one state.
fn add_rows(state: &mut State, node: i32, partition: i32, row: RowState) {
    let session = state.sessions[&node].id;
    let acquired = Acquired {
        first: 0,
        last: 2,
        session,
        locked_until: Instant::now() + Duration::from_secs(30),
        states: vec![row; 3],
        lost: None,
        renewal_failed: false,
        commits: Vec::new(),
        has_new_decisions: false,
    };
    state.add_rows(&TopicPartition::new("t", partition), TOPIC, [acquired]);
}

/// Answers the acknowledgements of one partition.
fn answer(state: &mut State, sent: &Sent, outcome: Result<(), Error>) {
    let rows = state.rows.get_mut(&sent.tp).unwrap();
    for taken in &sent.taken {
        rows.applied(taken, Instant::now());
    }
    rows.complete(&sent.taken);
    state.record(&sent.tp, &sent.taken, outcome);
    state.finish_commits();
}

fn pending(state: &mut State, node: i32) -> Sent {
    let session = state.sessions[&node].id;
    state.take_pending(session, Instant::now(), |_| true).remove(0)
}

#[test]
fn rows_that_another_leader_delivers_again_have_an_outcome() {
    // The leader moved while the application processed the rows, and a fetch of the new leader was in flight.
    for decided in [RowState::Returned, RowState::Accept] {
        let mut state = state(&[(1, &[0]), (2, &[])]);
        add_rows(&mut state, 1, 0, decided);
        add_rows(&mut state, 2, 0, RowState::Queued);
        state.replace(RowState::Returned, RowState::Accept);
        let ticket = state.begin_commit();
        assert!(!state.is_complete(&ticket));
        let sent = pending(&mut state, 2);
        assert_eq!(sent.taken[0].ranges(), [(0, 2)]);
        answer(&mut state, &sent, Ok(()));
        assert!(state.is_complete(&ticket));
        assert!(matches!(state.take_outcomes(&ticket).values().collect::<Vec<_>>()[..], [Ok(())]));
    }
}

#[test]
fn a_session_that_gets_rows_of_a_waiting_commit_sends_their_acknowledgements() {
    let mut state = state(&[(1, &[0]), (2, &[0])]);
    assert!(matches!(step(&mut state, 2), Step::Fetch { .. }));
    add_rows(&mut state, 1, 0, RowState::Accept);
    let ticket = state.begin_commit();
    state.waiting = 0;
    // The session of the new leader has flushed what it had, and its fetch returns the rows.
    open(&mut state, 2, 1);
    state.sessions.get_mut(&2).unwrap().flush = false;
    add_rows(&mut state, 2, 0, RowState::Queued);
    let Step::Acknowledge { acknowledgements, .. } = step(&mut state, 2) else { panic!() };
    answer(&mut state, &acknowledgements[0], Ok(()));
    assert!(state.is_complete(&ticket));
}

#[test]
fn rows_of_a_topic_that_was_created_again_have_an_outcome() {
    let mut state = state(&[(1, &[0])]);
    let tp = TopicPartition::new("t", 0);
    add_rows(&mut state, 1, 0, RowState::Returned);
    state.add_rows(&tp, Uuid([8; 16]), []);
    let ticket = state.begin_commit();
    assert!(state.is_complete(&ticket));
    let error = state.take_outcomes(&ticket).remove(&tp).unwrap().unwrap_err();
    assert_eq!(error.name(), "UnknownTopicIdError");
}

#[test]
fn later_commits_leave_outcomes_to_the_call_that_waits_for_them() {
    for is_cancelled in [false, true] {
        let mut state = state(&[(1, &[0])]);
        let tp = TopicPartition::new("t", 0);
        add_rows(&mut state, 1, 0, RowState::Accept);
        let awaited = state.await_commit();
        let sent = pending(&mut state, 1);
        answer(&mut state, &sent, Err(Error::State("the lock has ended".into())));
        if is_cancelled {
            state.end_commit(&awaited);
        }
        let later = state.begin_commit();
        let (own, others) = (is_cancelled, !is_cancelled);
        assert_eq!(state.take_outcomes(&later).contains_key(&tp), own);
        assert_eq!(state.take_outcomes(&awaited).contains_key(&tp), others);
    }
}

#[test]
fn each_commit_reports_the_outcomes_of_its_own_acknowledgements() {
    let mut state = state(&[(1, &[0]), (2, &[])]);
    let tp = TopicPartition::new("t", 0);
    add_rows(&mut state, 1, 0, RowState::Accept);
    let first = state.begin_commit();
    let earlier = pending(&mut state, 1);
    add_rows(&mut state, 2, 0, RowState::Accept);
    let second = state.begin_commit();
    let later = pending(&mut state, 2);
    let error = Error::State("the lock has ended".into());
    answer(&mut state, &later, Err(error));
    assert!(!state.is_complete(&first) && !state.is_complete(&second));
    answer(&mut state, &earlier, Ok(()));
    assert!(state.is_complete(&first) && state.is_complete(&second));
    assert!(state.take_outcomes(&first)[&tp].is_ok());
    assert!(state.take_outcomes(&second)[&tp].is_err());
    assert!(state.take_outcomes(&second).is_empty());
}

#[test]
fn a_commit_ends_if_only_gaps_are_lost() {
    let mut state = state(&[(1, &[0])]);
    add_rows(&mut state, 1, 0, RowState::Gap);
    let ticket = state.begin_commit();
    assert!(!state.is_complete(&ticket));
    state.lose_session(1, &Error::State("the connection closed".into()));
    assert!(state.is_complete(&ticket));
}

#[test]
fn the_request_that_opens_a_session_has_no_acknowledgements() {
    let mut state = state(&[(1, &[0, 1])]);
    add_rows(&mut state, 1, 0, RowState::Accept);
    let Step::Fetch { epoch: 0, added, forgotten, acknowledgements, .. } = step(&mut state, 1) else { panic!() };
    assert_eq!((added, forgotten), (vec![(TOPIC, 0), (TOPIC, 1)], vec![]));
    assert!(acknowledgements.is_empty());
    open(&mut state, 1, 1);
    let Step::Fetch { epoch: 1, added, acknowledgements, .. } = step(&mut state, 1) else { panic!() };
    assert!(added.is_empty());
    assert_eq!(acknowledgements[0].taken[0].ranges(), [(0, 2)]);
}

#[test]
fn records_are_fetched_once_for_a_poll_that_does_not_wait() {
    let mut state = state(&[(1, &[0])]);
    state.waiting = 0;
    assert!(matches!(step(&mut state, 1), Step::Fetch { .. }));
    open(&mut state, 1, 1);
    assert!(matches!(step(&mut state, 1), Step::Wait(None)));
    state.polls += 1;
    assert!(matches!(step(&mut state, 1), Step::Fetch { .. }));
    open(&mut state, 1, 2);
    // No records are fetched while the queue has some.
    state.polls += 1;
    state.queue.push_back(super::super::state::Item::Error(Error::Wakeup));
    assert!(matches!(step(&mut state, 1), Step::Wait(None)));
    // Acknowledgements do not wait for the queue.
    add_rows(&mut state, 1, 0, RowState::Accept);
    assert!(matches!(step(&mut state, 1), Step::Acknowledge { epoch: 2, is_renewal: false, .. }));
}

#[test]
fn acknowledgements_of_unassigned_partitions_have_a_request_of_their_own() {
    let mut state = state(&[(1, &[0, 1])]);
    assert!(matches!(step(&mut state, 1), Step::Fetch { .. }));
    open(&mut state, 1, 1);
    add_rows(&mut state, 1, 1, RowState::Accept);
    state.targets.get_mut(&1).unwrap().remove(&(TOPIC, 1));
    state.polls += 1;
    let Step::Acknowledge { epoch: 1, acknowledgements, .. } = step(&mut state, 1) else { panic!() };
    assert_eq!(acknowledgements[0].tp.partition, 1);
    open(&mut state, 1, 2);
    let Step::Fetch { epoch: 2, forgotten, .. } = step(&mut state, 1) else { panic!() };
    assert_eq!(forgotten, [(TOPIC, 1)]);
}

#[test]
fn acknowledgements_are_sent_before_their_locks_end_if_locks_are_renewed() {
    let options = ShareOptions { auto_renew: true, ..OPTIONS };
    let mut state = state(&[(1, &[0])]);
    state.waiting = 0;
    state.lock_timeout = Some(Duration::from_secs(30));
    assert!(matches!(step(&mut state, 1), Step::Fetch { .. }));
    open(&mut state, 1, 1);
    add_rows(&mut state, 1, 0, RowState::Accept);
    let now = Instant::now();
    let Step::Wait(Some(due)) = state.next_step(1, &options, IDLE, now) else { panic!() };
    let Step::Acknowledge { is_renewal: false, is_automatic: false, acknowledgements, .. } =
        state.next_step(1, &options, IDLE, due)
    else {
        panic!()
    };
    assert_eq!(acknowledgements[0].taken[0].ranges(), [(0, 2)]);
}

#[test]
fn renewals_and_commits_do_not_wait_for_a_poll() {
    let mut state = state(&[(1, &[0])]);
    state.waiting = 0;
    assert!(matches!(step(&mut state, 1), Step::Fetch { .. }));
    open(&mut state, 1, 1);
    add_rows(&mut state, 1, 0, RowState::Renew);
    let Step::Acknowledge { is_renewal: true, is_automatic: false, acknowledgements, .. } = step(&mut state, 1) else {
        panic!()
    };
    state.rows.get_mut(&acknowledgements[0].tp).unwrap().complete(&acknowledgements[0].taken);
    open(&mut state, 1, 2);
    add_rows(&mut state, 1, 0, RowState::Reject);
    assert!(matches!(step(&mut state, 1), Step::Wait(None)));
    let ticket = state.begin_commit();
    let Step::Acknowledge { is_renewal: false, acknowledgements, .. } = step(&mut state, 1) else { panic!() };
    assert!(!state.is_complete(&ticket));
    let rows = state.rows.get_mut(&acknowledgements[0].tp).unwrap();
    rows.applied(&acknowledgements[0].taken[0], Instant::now());
    rows.complete(&acknowledgements[0].taken);
    assert!(state.is_complete(&ticket));
}

#[test]
fn closing_sends_the_last_acknowledgements_with_the_final_epoch() {
    let mut state = state(&[(1, &[0])]);
    assert!(matches!(step(&mut state, 1), Step::Fetch { .. }));
    open(&mut state, 1, 5);
    add_rows(&mut state, 1, 0, RowState::Renew);
    state.closing = true;
    let Step::Acknowledge { epoch, is_renewal: false, acknowledgements, .. } = step(&mut state, 1) else { panic!() };
    assert_eq!((epoch, acknowledgements[0].taken[0].types.clone()), (FINAL_EPOCH, vec![Some(2); 3]));
    open(&mut state, 1, 0);
    assert!(matches!(step(&mut state, 1), Step::End));
}

#[test]
fn lost_session_fails_acknowledgements_without_a_request() {
    let mut state = state(&[(1, &[0])]);
    assert!(matches!(step(&mut state, 1), Step::Fetch { .. }));
    open(&mut state, 1, 3);
    add_rows(&mut state, 1, 0, RowState::Returned);
    state.lose_session(1, &Error::State("the connection closed".into()));
    state.replace(RowState::Returned, RowState::Accept);
    let ticket = state.begin_commit();
    let Step::Fetch { epoch: 0, acknowledgements, .. } = step(&mut state, 1) else { panic!() };
    assert!(acknowledgements.is_empty());
    assert!(state.is_complete(&ticket));
    let outcomes = state.take_outcomes(&ticket);
    assert!(outcomes[&TopicPartition::new("t", 0)].is_err());
    assert_eq!(state.meters.failed(), 3.0);
}

#[test]
fn with_a_record_limit_brokers_take_turns() {
    let options = ShareOptions { acquire_mode: AcquireMode::RecordLimit, ..OPTIONS };
    let mut state = state(&[(1, &[0]), (2, &[1]), (3, &[2])]);
    let mut order = Vec::new();
    for _ in 0..7 {
        let fetches = |state: &mut State, node| {
            matches!(state.next_step(node, &options, IDLE, Instant::now()), Step::Fetch { .. })
        };
        let chosen: Vec<i32> = [1, 2, 3].into_iter().filter(|node| fetches(&mut state, *node)).collect();
        assert_eq!(chosen.len(), 1);
        open(&mut state, chosen[0], 1);
        order.extend(chosen);
    }
    assert_eq!(order, [1, 2, 3, 1, 2, 3, 1]);
}

#[test]
fn locks_are_renewed_at_two_thirds_of_their_time() {
    let options = ShareOptions { auto_renew: true, ..OPTIONS };
    let mut state = state(&[(1, &[0])]);
    assert!(matches!(step(&mut state, 1), Step::Fetch { .. }));
    open(&mut state, 1, 1);
    state.waiting = 0;
    state.lock_timeout = Some(Duration::from_secs(30));
    add_rows(&mut state, 1, 0, RowState::Returned);
    let now = Instant::now();
    let Step::Wait(Some(at)) = state.next_step(1, &options, IDLE, now) else { panic!() };
    assert!(at > now + Duration::from_secs(19) && at < now + Duration::from_secs(21));
    let due = now + Duration::from_secs(21);
    let Step::Acknowledge { is_renewal: true, is_automatic: true, acknowledgements, .. } =
        state.next_step(1, &options, IDLE, due)
    else {
        panic!()
    };
    assert_eq!(acknowledgements[0].taken[0].types, [Some(4); 3]);
    // An application that does not poll any more keeps no locks.
    let idle = state.last_poll + IDLE;
    assert!(matches!(state.next_step(1, &options, IDLE, idle), Step::Wait(None)));
}

#[test]
fn renewals_do_not_wait_for_fetches() {
    let options = ShareOptions { auto_renew: true, ..OPTIONS };
    for row in [RowState::Returned, RowState::Renewed] {
        let mut state = state(&[(1, &[0])]);
        assert!(matches!(step(&mut state, 1), Step::Fetch { max_wait: None, .. }));
        open(&mut state, 1, 1);
        state.lock_timeout = Some(Duration::from_secs(30));
        add_rows(&mut state, 1, 0, row);
        let now = Instant::now();
        // The broker responds before the renewal is due.
        let Step::Fetch { max_wait: Some(wait), .. } = state.next_step(1, &options, IDLE, now) else { panic!() };
        assert!(wait > Duration::from_secs(19) && wait < Duration::from_secs(21), "{wait:?}");
        open(&mut state, 1, 2);
        // A poll waits, so records could be fetched again.
        let due = now + wait;
        let Step::Acknowledge { is_renewal: true, is_automatic: true, acknowledgements, .. } =
            state.next_step(1, &options, IDLE, due)
        else {
            panic!()
        };
        assert_eq!(acknowledgements[0].taken[0].types, [Some(4); 3]);
    }
}

#[test]
fn epochs_never_return_to_zero() {
    assert_eq!((next_epoch(1), next_epoch(i32::MAX)), (2, 1));
}

#[test]
fn earlier_session_is_closed_unless_the_connection_is_lost() {
    let mut state = state(&[(1, &[0])]);
    let opened = |state: &mut State| matches!(step(state, 1), Step::Fetch { epoch: 0, .. });
    for error in [
        Error::server(ErrorCode::INVALID_SHARE_SESSION_EPOCH, "ShareFetch"),
        Error::protocol("broker", "a response that cannot be parsed"),
    ] {
        open(&mut state, 1, 1);
        state.lose_session(1, &error);
        assert!(matches!(step(&mut state, 1), Step::CloseEarlier), "{error}");
        state.polls += 1;
        assert!(opened(&mut state), "{error}");
    }
    open(&mut state, 1, 1);
    state.lose_session(1, &Error::server(ErrorCode::FENCED_MEMBER_EPOCH, "ShareGroupHeartbeat"));
    state.lose_session(1, &Error::connection("broker", "closed"));
    state.polls += 1;
    assert!(opened(&mut state), "the broker has closed the earlier session with the connection");
    open(&mut state, 1, 1);
    state.lose_session(1, &Error::server(ErrorCode::SHARE_SESSION_NOT_FOUND, "ShareFetch"));
    state.polls += 1;
    assert!(opened(&mut state), "the broker has no session");
}
