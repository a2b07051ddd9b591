//! State shared by polls, the membership and the sessions of a share consumer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::Uuid;
use tokio::time::Instant;

use super::acks::{Acquired, PartitionRows, RowState, SessionId, Taken};
use super::decode::Chunk;
use super::meters::ShareMeters;
use crate::collections::HashMap;
use crate::error::Error;
use crate::types::{TopicPartition, join_limited};

/// Id and number of a partition, as requests identify it.
pub(super) type PartitionId = (Uuid, i32);
/// Result of the acknowledgements of each partition.
pub type Outcomes = BTreeMap<TopicPartition, std::result::Result<(), Error>>;

/// Rows or an error that a poll returns.
#[derive(Debug)]
pub(super) enum Item {
    Chunk(Chunk),
    Error(Error),
}

/// The session with one broker.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    /// Epoch of the next request; 0 if the session is closed.
    pub(super) epoch: i32,
    /// Partitions that the broker has in the session.
    pub(super) listed: BTreeMap<PartitionId, TopicPartition>,
    /// Number of the last poll for which records were requested.
    pub(super) fetched_for: u64,
    /// Number of the last poll for which acknowledgements were sent.
    pub(super) acknowledged_for: u64,
    /// True if acknowledgements must be sent without waiting for a poll.
    pub(super) flush: bool,
    pub(super) fetching: bool,
    /// True if the broker may still have an earlier session of this member. It must be closed, because its rows stay
    /// locked otherwise: neither a new session nor the end of the membership releases them.
    pub(super) has_earlier: bool,
    /// Time before which no request is sent, after a failure.
    pub(super) not_before: Option<Instant>,
    /// True once the task has closed the session and ended.
    pub(super) ended: bool,
}

/// Acknowledgements of one partition in a request.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) tp: TopicPartition,
    pub(super) topic_id: Uuid,
    pub(super) taken: Vec<Taken>,
}

/// A commit that waits for outcomes.
#[derive(Debug)]
pub(super) struct Ticket {
    /// Number of the commit. It reports the outcomes of all acknowledgements up to this number.
    number: u64,
    /// Partitions with acknowledgements that were not complete at the time of the call.
    waits_for: BTreeSet<TopicPartition>,
}

/// A commit in the background.
#[derive(Debug)]
pub(super) struct PendingCommit {
    pub(super) number: u64,
    pub(super) ticket: Ticket,
    pub(super) ranges: Vec<(TopicPartition, Vec<(i64, i64)>)>,
}

/// A completed commit in the background.
#[derive(Debug)]
pub struct Completed {
    /// Number that `commit_async` has returned.
    pub number: u64,
    /// Acknowledged offsets, as ranges including both ends.
    pub ranges: Vec<(TopicPartition, Vec<(i64, i64)>)>,
    pub outcomes: Outcomes,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) subscription: BTreeSet<String>,
    /// Number of changes of the subscription.
    pub(super) subscription_version: u64,
    /// Acquired rows. Partitions without rows stay, so that their counts of acknowledgements continue.
    pub(super) rows: HashMap<TopicPartition, PartitionRows>,
    pub(super) sessions: BTreeMap<i32, Session>,
    /// Partitions to read from each broker.
    pub(super) targets: BTreeMap<i32, BTreeMap<PartitionId, TopicPartition>>,
    pub(super) queue: VecDeque<Item>,
    /// Error of the membership, which the next poll raises.
    pub(super) failure: Option<Error>,
    /// True if the next poll must notify the membership, which joins with it.
    pub(super) joins_with_poll: bool,
    /// Number of polls so far.
    pub(super) polls: u64,
    /// Number of waiting polls.
    pub(super) waiting: usize,
    pub(super) last_poll: Instant,
    /// Duration of acquisition locks, once a broker has reported it.
    pub(super) lock_timeout: Option<Duration>,
    /// Results of acknowledgements that no commit has reported yet, by the number of the commit that reports them.
    outcomes: BTreeMap<u64, Outcomes>,
    /// Number of the commit that reports acknowledgements from now on.
    next_ticket: u64,
    /// Numbers of the commits that a call waits for, and whose outcomes it has not taken.
    awaited: BTreeSet<u64>,
    pub(super) commits: VecDeque<PendingCommit>,
    pub(super) completed: VecDeque<Completed>,
    pub(super) next_commit: u64,
    pub(super) closing: bool,
    pub(super) closed: bool,
    pub(super) next_session: u64,
    /// Broker that was fetched from last, with `share.acquire.mode=record_limit`.
    pub(super) last_fetched: Option<i32>,
    pub(super) meters: ShareMeters,
    /// True if acknowledgements have completed without a request, and waiting calls were not notified.
    pub(super) has_unsent: bool,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            subscription: BTreeSet::new(),
            subscription_version: 0,
            rows: HashMap::default(),
            sessions: BTreeMap::new(),
            targets: BTreeMap::new(),
            queue: VecDeque::new(),
            failure: None,
            joins_with_poll: false,
            polls: 0,
            waiting: 0,
            last_poll: Instant::now(),
            lock_timeout: None,
            outcomes: BTreeMap::new(),
            next_ticket: 1,
            awaited: BTreeSet::new(),
            commits: VecDeque::new(),
            completed: VecDeque::new(),
            next_commit: 0,
            closing: false,
            closed: false,
            next_session: 0,
            last_fetched: None,
            meters: ShareMeters::default(),
            has_unsent: false,
        }
    }

    /// Returns the assigned partitions.
    pub(super) fn assignment(&self) -> BTreeSet<TopicPartition> {
        self.targets.values().flat_map(|targets| targets.values().cloned()).collect()
    }

    /// Adds the session of a broker. Returns true if the broker had none with a running task.
    pub(super) fn add_session(&mut self, node: i32) -> bool {
        if self.sessions.get(&node).is_some_and(|session| !session.ended) {
            return false;
        }
        self.next_session += 1;
        let id = SessionId { node, number: self.next_session };
        let session = Session {
            id,
            epoch: 0,
            listed: BTreeMap::new(),
            fetched_for: 0,
            acknowledged_for: 0,
            flush: false,
            fetching: false,
            has_earlier: false,
            not_before: None,
            ended: false,
        };
        self.sessions.insert(node, session);
        true
    }

    /// Ends the session of a broker, whose locks are lost with it. The next fetch opens a new one.
    pub(super) fn lose_session(&mut self, node: i32, error: &Error) {
        let number = self.next_session + 1;
        let Some(session) = self.sessions.get_mut(&node) else { return };
        let lost = session.id;
        self.next_session = number;
        match error {
            // With the connection, the broker has closed this session and any earlier one.
            Error::Connection { .. } => session.has_earlier = false,
            Error::Server { code, .. } if *code == ErrorCode::SHARE_SESSION_NOT_FOUND => {}
            // The broker still has the session, and also acquires the rows of a fetch in flight, whose response arrives
            // too late. After a response that cannot be parsed, the connection stays open.
            Error::Server { .. } | Error::Protocol { .. } => {
                session.has_earlier |= session.epoch > 0 || session.fetching;
            }
            // A timeout closes the connection.
            _ => {}
        }
        session.id = SessionId { node, number };
        session.epoch = 0;
        session.listed.clear();
        for rows in self.rows.values_mut() {
            rows.lose(lost, error);
        }
        self.finish_commits();
    }

    /// Ends all sessions, after the coordinator has removed the member.
    pub(super) fn lose_all_sessions(&mut self, error: &Error) {
        let nodes: Vec<i32> = self.sessions.keys().copied().collect();
        for node in nodes {
            self.lose_session(node, error);
        }
    }

    /// Takes the acknowledgements that wait to be sent in a session, of the partitions for which `include` returns true.
    /// Reports those that can no longer be sent.
    pub(super) fn take_pending(
        &mut self,
        session: SessionId,
        now: Instant,
        include: impl Fn(&PartitionId) -> bool,
    ) -> Vec<Sent> {
        let (mut sent, mut failed) = (Vec::new(), Vec::new());
        for (tp, rows) in &mut self.rows {
            if !include(&(rows.topic_id, tp.partition)) {
                continue;
            }
            let (taken, too_late) = rows.take_pending(session, now, self.next_ticket);
            if !taken.is_empty() {
                sent.push(Sent { tp: tp.clone(), topic_id: rows.topic_id, taken });
            }
            failed.extend(too_late.into_iter().map(|(taken, lost)| (tp.clone(), taken, lost)));
        }
        sent.sort_by(|a, b| a.tp.cmp(&b.tp));
        self.record_unsent(failed);
        self.finish_commits();
        sent
    }

    /// Adds acquired records of one partition. Reports rows of an earlier topic with this name, which are lost.
    pub(super) fn add_rows(
        &mut self,
        tp: &TopicPartition,
        topic_id: Uuid,
        acquired: impl IntoIterator<Item = Acquired>,
    ) {
        let rows = self.rows.entry(tp.clone()).or_default();
        let earlier_topic = rows.use_topic(topic_id, self.next_ticket);
        let now = Instant::now();
        for range in acquired {
            let session = range.session;
            rows.insert(range, now);
            // The session may be younger than the commit that waits for decisions about these rows.
            if rows.has_commit(session)
                && let Some(session) = self.sessions.get_mut(&session.node)
            {
                session.flush = true;
            }
        }
        if earlier_topic.is_empty() {
            return;
        }
        let text = format!("acknowledgement of {tp}: the topic was deleted and created again");
        let deleted = Error::server(ErrorCode::UNKNOWN_TOPIC_ID, text);
        let lost = earlier_topic.into_iter().map(|taken| (tp.clone(), taken, Some(deleted.clone())));
        self.record_unsent(lost.collect());
        self.finish_commits();
    }

    /// Records that rows were lost before a poll returned them, so that they cannot be accepted.
    pub(super) fn lose_held(&mut self, tp: &TopicPartition, offsets: &[i64]) {
        let commits = vec![self.next_ticket];
        let lost =
            |first: &i64| Taken { first: *first, types: vec![Some(RowState::Accept as i8)], commits: commits.clone() };
        let failed = offsets.iter().map(|offset| (tp.clone(), lost(offset), None)).collect();
        self.record_unsent(failed);
    }

    /// Records acknowledgements that cannot be sent: their locks have ended, or the error says why they were lost.
    fn record_unsent(&mut self, failed: Vec<(TopicPartition, Taken, Option<Error>)>) {
        self.has_unsent |= !failed.is_empty();
        let mut logged: Option<TopicPartition> = None;
        for (tp, taken, lost) in failed {
            let error = lost.unwrap_or_else(|| {
                let text =
                    format!("offsets {} of {tp}: their acquisition lock has ended", join_ranges(&taken.ranges()));
                Error::server(ErrorCode::INVALID_RECORD_STATE, text)
            });
            // A released record is delivered again in any case.
            let is_finished = |kind: &i8| *kind == RowState::Accept as i8 || *kind == RowState::Reject as i8;
            if logged.as_ref() != Some(&tp) && taken.types.iter().flatten().any(is_finished) {
                tracing::warn!("records of {tp} are not acknowledged, and may be delivered again: {error}");
                logged = Some(tp.clone());
            }
            self.record(&tp, &[taken], Err(error));
        }
    }

    /// Returns true if any row of the session waits to be acknowledged with a type for which `is` returns true.
    pub(super) fn has_pending(&self, session: SessionId, is: impl Fn(RowState) -> bool + Copy) -> bool {
        self.rows.values().any(|rows| rows.ranges().any(|range| range.session == session && range.any(is)))
    }

    /// Returns true if acknowledgements of lost sessions wait to be reported.
    pub(super) fn has_lost(&self) -> bool {
        let pending =
            |rows: &PartitionRows| rows.ranges().any(|range| range.lost.is_some() && range.any(RowState::is_pending));
        self.rows.values().any(pending)
    }

    /// Records the result of acknowledgements of one partition.
    pub(super) fn record(&mut self, tp: &TopicPartition, taken: &[Taken], outcome: std::result::Result<(), Error>) {
        let count: usize = taken.iter().map(Taken::count).sum();
        self.meters.acknowledged(count, outcome.is_err());
        if let Err(error) = &outcome {
            tracing::debug!("acknowledgements of {count} records of {tp} failed: {error}");
        }
        for commit in taken.iter().flat_map(|taken| &taken.commits) {
            let known = self.outcomes.entry(*commit).or_default().entry(tp.clone()).or_insert(Ok(()));
            if known.is_ok() {
                known.clone_from(&outcome);
            }
        }
    }

    /// Completes commits whose acknowledgements have all been answered, in the order of the calls.
    pub(super) fn finish_commits(&mut self) {
        while self.commits.front().is_some_and(|commit| self.is_complete(&commit.ticket)) {
            let Some(PendingCommit { number, ranges, ticket }) = self.commits.pop_front() else { return };
            let outcomes = self.take_outcomes(&ticket);
            self.completed.push_back(Completed { number, ranges, outcomes });
        }
    }

    /// Begins a commit of all acknowledgements that wait to be sent or are in flight, and flushes their sessions.
    pub(super) fn begin_commit(&mut self) -> Ticket {
        let number = self.next_ticket;
        self.next_ticket += 1;
        let open = self.rows.iter_mut().filter_map(|(tp, rows)| rows.begin_commit(number).then(|| tp.clone()));
        let waits_for = open.collect();
        self.flush();
        Ticket { number, waits_for }
    }

    /// Makes all sessions send their acknowledgements without waiting for a poll.
    fn flush(&mut self) {
        for session in self.sessions.values_mut() {
            session.flush = true;
        }
    }

    pub(super) fn is_complete(&self, ticket: &Ticket) -> bool {
        let is_complete = |tp| self.rows.get(tp).is_none_or(|rows| rows.is_complete(ticket.number));
        ticket.waits_for.iter().all(is_complete)
    }

    /// Like [`begin_commit`](Self::begin_commit), for a call that takes the outcomes itself. Until
    /// [`end_commit`](Self::end_commit), no later commit takes them.
    pub(super) fn await_commit(&mut self) -> Ticket {
        let ticket = self.begin_commit();
        self.awaited.insert(ticket.number);
        ticket
    }

    /// Ends a commit that a call waited for. Outcomes that it has not taken belong to the next commit.
    pub(super) fn end_commit(&mut self, ticket: &Ticket) {
        self.awaited.remove(&ticket.number);
    }

    /// Takes the results of all acknowledgements up to a commit, without those of earlier commits that a call waits for.
    pub(super) fn take_outcomes(&mut self, ticket: &Ticket) -> Outcomes {
        let first = self.awaited.range(..ticket.number).next_back().map_or(0, |awaited| awaited + 1);
        let mut found = self.outcomes.split_off(&first);
        self.outcomes.append(&mut found.split_off(&(ticket.number + 1)));
        let mut outcomes = Outcomes::new();
        for (tp, outcome) in found.into_values().flatten() {
            let known = outcomes.entry(tp).or_insert(Ok(()));
            if known.is_ok() {
                *known = outcome;
            }
        }
        outcomes
    }

    /// Returns the offsets that wait to be acknowledged and belong to no earlier commit in the background, by partition.
    pub(super) fn pending_ranges(&self) -> Vec<(TopicPartition, Vec<(i64, i64)>)> {
        let mut all = Vec::new();
        for (tp, rows) in &self.rows {
            let mut ranges: Vec<(i64, i64)> = Vec::new();
            for range in rows.ranges() {
                let is_new = |offset: i64| {
                    let mut earlier =
                        self.commits.iter().flat_map(|commit| &commit.ranges).filter(|(other, _)| other == tp);
                    !earlier.any(|(_, ranges)| ranges.iter().any(|(first, last)| (*first..=*last).contains(&offset)))
                };
                let types = (range.first..)
                    .zip(&range.states)
                    .map(|(offset, state)| (state.is_pending() && is_new(offset)).then_some(*state as i8))
                    .collect();
                for (first, last) in (Taken { first: range.first, types, commits: Vec::new() }).ranges() {
                    match ranges.last_mut() {
                        Some((_, end)) if *end + 1 == first => *end = last,
                        _ => ranges.push((first, last)),
                    }
                }
            }
            if !ranges.is_empty() {
                all.push((tp.clone(), ranges));
            }
        }
        all.sort();
        all
    }

    /// Releases the rows that wait for a poll.
    pub(super) fn release_queue(&mut self) {
        self.replace(RowState::Queued, RowState::Release);
        self.queue.retain(|item| matches!(item, Item::Error(_)));
        self.flush();
    }

    /// Replaces a state of all rows.
    pub(super) fn replace(&mut self, from: RowState, to: RowState) {
        for rows in self.rows.values_mut() {
            rows.replace(from, to);
        }
    }
}

/// Formats ranges of offsets for an error text.
pub(super) fn join_ranges(ranges: &[(i64, i64)]) -> String {
    join_limited(
        ranges.iter().map(|(first, last)| if first == last { first.to_string() } else { format!("{first} to {last}") }),
    )
}
