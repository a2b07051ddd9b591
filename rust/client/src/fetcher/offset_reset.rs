//! Lookup of start offsets: the group's committed offset, or the offset that `auto.offset.reset` selects.

use std::sync::Arc;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use tokio::task::JoinSet;

use super::cursor::Start;
use super::offset_lookups::{MovedPosition, PendingLookup, Position, Unanswered};
use super::shared_state::Shared;
use crate::clock;
use crate::cluster::Cluster;
use crate::cluster::coordinator::Coordinator;
use crate::collections::{HashMap, HashSet};
use crate::config::{IsolationLevel, OffsetReset};
use crate::error::{Error, Result};
use crate::metrics::Event;
use crate::offsets::{ListTarget, UnknownTopic, fetch_committed_each, list_offsets_with};
use crate::retry::Retry;
use crate::types::{TopicPartition, join_limited};

/// Looks up the start offsets of partitions.
#[derive(Debug)]
pub(super) struct OffsetResetter {
    pub(super) shared: Arc<Shared>,
    pub(super) cluster: Cluster,
    pub(super) coordinator: Option<Coordinator>,
    pub(super) reset: OffsetReset,
    pub(super) isolation: IsolationLevel,
    pub(super) timeout: Duration,
}

type Fetched = Result<HashMap<TopicPartition, Result<Position>>>;

impl OffsetResetter {
    /// Looks up the start offset of every partition that has none, until the consumer is closed. Partitions that become
    /// ready at the same time share a task. Each task has its own deadline and backoff, so that other partitions do not
    /// delay it.
    pub(super) async fn run(self: Arc<Self>) {
        let mut task_changes = self.shared.task_changes();
        let mut lookups = JoinSet::new();
        let mut pending: HashSet<(TopicPartition, u64)> = HashSet::default();
        loop {
            task_changes.borrow_and_update();
            if self.shared.lock().closed {
                return;
            }
            for (from, mut open) in self.shared.without_position() {
                open.retain(|(tp, version, _)| pending.insert((tp.clone(), *version)));
                if open.is_empty() {
                    continue;
                }
                let this = Arc::clone(&self);
                lookups.spawn(async move {
                    if let Some(from) = from {
                        tokio::time::sleep_until(from).await;
                    }
                    this.look_up(open.clone()).await;
                    open
                });
            }
            tokio::select! {
                _ = task_changes.changed() => {}
                Some(done) = lookups.join_next() => match done {
                    Ok(done) => {
                        for (tp, version, _) in done {
                            pending.remove(&(tp, version));
                        }
                    }
                    Err(failed) => match failed.try_into_panic() {
                        Ok(panic) => std::panic::resume_unwind(panic),
                        Err(_) => return,
                    },
                },
            }
        }
    }

    /// Looks up start offsets, and raises the errors that brokers return. While no broker responds, waits without an
    /// error, like Java's client.
    async fn look_up(&self, mut open: Vec<PendingLookup>) {
        let options = self.cluster.options();
        let (mut topic_retry, mut broker_retry) = (Retry::new(options, self.timeout), Retry::endless(options));
        let mut limit = self.timeout;
        let (mut topic_wait_logged, mut broker_wait_logged) = (false, false);
        loop {
            let mut names: Vec<&str> = open.iter().map(|(tp, ..)| &*tp.topic).collect();
            names.dedup();
            let topics = self.cluster.topics_to_read(&names, limit.min(options.request_timeout)).await;
            let of = |tp: &TopicPartition| topics.get(&*tp.topic).and_then(|topic| topic.as_ref().err());
            let (known, missing): (Vec<_>, Vec<_>) = open.into_iter().partition(|(tp, ..)| of(tp).is_none());
            let mut unanswered = self.look_up_offsets(&known, limit).await;
            let (mut failed, mut retriable) = (Vec::new(), Vec::new());
            for one in missing {
                match of(&one.0).cloned() {
                    Some(error) if !error.retriable() => failed.push((one.0, one.1, Err(error))),
                    Some(error) if error.unanswered() => unanswered.push((one, error)),
                    Some(error) => retriable.push((one, error)),
                    None => {}
                }
            }
            self.record_starts(failed);
            self.shared.record_unanswered(&unanswered);
            let Some((_, failure)) = retriable.first().or(unanswered.first()).cloned() else { return };
            if !retriable.is_empty() && !std::mem::replace(&mut topic_wait_logged, true) {
                let partitions = join_limited(retriable.iter().map(|((tp, ..), _)| tp));
                let client_id = self.cluster.client_id();
                tracing::warn!(
                    client_id,
                    "partitions {partitions} are not read, as their topic does not exist: {failure}"
                );
            }
            let what = || format!("metadata of {}", join_limited(retriable.iter().map(|((tp, ..), _)| tp)));
            if retriable.is_empty() {
                if !std::mem::replace(&mut broker_wait_logged, true) {
                    let partitions = join_limited(unanswered.iter().map(|((tp, ..), _)| tp));
                    let why = match is_unstable(&failure) {
                        true => "are not read until an open transaction that commits their offsets has ended",
                        false => "are not read until a broker responds",
                    };
                    let client_id = self.cluster.client_id();
                    tracing::warn!(client_id, group_id = self.group_id(), "partitions {partitions} {why}: {failure}");
                }
                // The time limit may have been too short for a response, so it is raised.
                limit = limit.max(options.request_timeout.min(limit * 2));
                if broker_retry.wait(failure, what).await.is_err() {
                    return;
                }
                topic_retry.restart();
            } else if let Err(timed_out) = topic_retry.wait(failure, what).await {
                // An error that a broker returned is more specific than a timeout.
                let why = |error| if matches!(error, Error::Server { .. }) { error } else { timed_out.clone() };
                self.record_starts(retriable.drain(..).map(|((tp, version, _), error)| (tp, version, Err(why(error)))));
                topic_retry.restart();
            }
            let remaining: HashSet<_> = self.shared.without_position().into_values().flatten().collect();
            open = unanswered
                .into_iter()
                .chain(retriable)
                .map(|(one, _)| one)
                .filter(|one| remaining.contains(one))
                .collect();
            if open.is_empty() {
                return;
            }
        }
    }

    fn group_id(&self) -> Option<&str> {
        self.coordinator.as_ref().map(Coordinator::group)
    }

    /// Records and logs start offsets: committed offsets, or offsets that `auto.offset.reset` selected.
    fn record_found(&self, found: Vec<(TopicPartition, u64, Result<Position>)>, committed: bool) {
        let start =
            |(tp, _, place): &(TopicPartition, u64, Result<Position>)| Some((tp.clone(), place.as_ref().ok()?.0));
        let starts: Vec<_> = found.iter().filter_map(start).collect();
        let moved = self.record_starts(found);
        let (client_id, group_id) = (self.cluster.client_id(), self.group_id());
        for (tp, offset) in starts {
            if committed {
                tracing::debug!(client_id, group_id, "partition {tp}: position set to {offset} (committed)");
            } else if !moved.contains(&tp) {
                tracing::info!(
                    client_id,
                    group_id,
                    "partition {tp}: position reset to {offset} ({})",
                    self.reset.name()
                );
            }
        }
    }

    /// Records start offsets. Offsets that were out of range are reported together with the new offset. Returns the
    /// partitions of these offsets.
    fn record_starts(
        &self,
        found: impl IntoIterator<Item = (TopicPartition, u64, Result<Position>)>,
    ) -> Vec<TopicPartition> {
        let mut partitions = Vec::new();
        for moved in self.shared.record_starts(found) {
            let reason = moved.reason(self.reset.name());
            let (client_id, group_id) = (self.cluster.client_id(), self.group_id());
            tracing::warn!(client_id, group_id, "partition {}: {reason}", moved.tp);
            let MovedPosition { tp: partition, from: offset, .. } = moved;
            partitions.push(partition.clone());
            self.cluster.metrics().emit(|| Event::OffsetReset { partition, offset, reason });
        }
        partitions
    }

    /// Looks up offsets of partitions of existing topics. Returns the lookups to repeat, with their errors: those
    /// without a response from any broker, and those whose committed offset depends on an open transaction.
    async fn look_up_offsets(&self, open: &[PendingLookup], limit: Duration) -> Vec<Unanswered> {
        let mut unanswered = Vec::new();
        let mut without_commit = HashMap::default();
        let mut found = Vec::new();
        for (one, committed) in open.iter().zip(self.committed(open, limit).await) {
            match committed {
                Ok(None) => drop(without_commit.insert(&one.0, one)),
                // Like Java's client, waits without an error while an open transaction may commit an offset.
                Err(error) if error.unanswered() || is_unstable(&error) => unanswered.push((one.clone(), error)),
                Ok(Some(place)) => found.push((one.0.clone(), one.1, Ok(place))),
                Err(error) => found.push((one.0.clone(), one.1, Err(error))),
            }
        }
        self.record_found(found, true);
        let target = match self.reset {
            OffsetReset::Earliest => ListTarget::Earliest,
            OffsetReset::Latest => ListTarget::Latest,
            OffsetReset::ByDuration(age) => ListTarget::Timestamp(milliseconds_ago(age)),
            OffsetReset::None => {
                let group = self.coordinator.as_ref().map_or("", Coordinator::group);
                let error = |tp: &TopicPartition, start: Start| {
                    Error::OffsetOutOfRange(match start {
                        Start::Committed => format!(
                            "{tp} has no position: group {group:?} committed none, and auto.offset.reset is none; seek, or commit first"
                        ),
                        Start::Reset => format!(
                            "{tp} has no position: its topic was deleted and created again, and auto.offset.reset is none; \
                             seek to an offset of the new topic"
                        ),
                    })
                };
                let failed = without_commit.into_values();
                let failed = failed.map(|(tp, version, start)| (tp.clone(), *version, Err(error(tp, *start))));
                self.record_starts(failed);
                return unanswered;
            }
        };
        // If no record is recent enough for `by_duration`, the partition starts at the end.
        for target in [target, ListTarget::Latest] {
            let wanted: Vec<_> = without_commit.keys().map(|tp| ((*tp).clone(), target)).collect();
            if wanted.is_empty() {
                return unanswered;
            }
            list_offsets_with(&self.cluster, &wanted, self.isolation, UnknownTopic::Retry, limit, |listed| {
                let mut found = Vec::with_capacity(listed.len());
                for (tp, outcome) in listed {
                    let outcome = outcome.map(|found| found.map(|found| (found.offset, found.leader_epoch)));
                    if let Some(place) = outcome.transpose()
                        && let Some(one) = without_commit.remove(&tp)
                    {
                        match place {
                            Err(error) if error.unanswered() => unanswered.push((one.clone(), error)),
                            place => found.push((tp, one.1, place)),
                        }
                    }
                }
                self.record_found(found, false);
            })
            .await;
        }
        let without_position =
            |tp: &TopicPartition| Error::protocol(format!("the leader of {tp}"), "ListOffsets returned no offset");
        self.record_starts(
            without_commit.into_values().map(|(tp, version, _)| (tp.clone(), *version, Err(without_position(tp)))),
        );
        unanswered
    }

    /// Returns the committed offset of each partition; `None` for partitions that have none or must be reset.
    async fn committed(&self, open: &[PendingLookup], limit: Duration) -> Vec<Result<Option<Position>>> {
        let wanted: Vec<_> = open.iter().filter(|o| o.2 == Start::Committed).map(|(tp, ..)| tp.clone()).collect();
        let mut found = self.fetch(&wanted, limit).await;
        // The error of one topic must not affect the others, so the offsets of each topic are fetched separately.
        if found.as_ref().is_err_and(|error| matches!(error, Error::Server { code, .. } if is_of_a_topic(*code))) {
            let mut by_topic: HashMap<_, Vec<TopicPartition>> = HashMap::default();
            wanted.into_iter().for_each(|tp| by_topic.entry(Arc::clone(&tp.topic)).or_default().push(tp));
            let mut each = HashMap::default();
            for partitions in by_topic.into_values() {
                match self.fetch(&partitions, limit).await {
                    Ok(found) => each.extend(found),
                    Err(error) => each.extend(partitions.into_iter().map(|tp| (tp, Err(error.clone())))),
                }
            }
            found = Ok(each);
        }
        let of = |(tp, _, start): &PendingLookup| match (&found, start) {
            (_, Start::Reset) => Ok(None),
            (Ok(found), Start::Committed) => found.get(tp).cloned().transpose(),
            (Err(error), Start::Committed) => Err(error.clone()),
        };
        open.iter().map(of).collect()
    }

    async fn fetch(&self, wanted: &[TopicPartition], limit: Duration) -> Fetched {
        let Some(coordinator) = self.coordinator.as_ref().filter(|_| !wanted.is_empty()) else {
            return Ok(HashMap::default());
        };
        let stable = self.isolation == IsolationLevel::ReadCommitted;
        let fetched = fetch_committed_each(&self.cluster, coordinator, wanted, stable, limit).await?;
        let fetched = fetched.into_iter().filter_map(|(tp, found)| Some((tp, found.transpose()?)));
        Ok(fetched.map(|(tp, found)| (tp, found.map(|at| (at.offset, at.leader_epoch)))).collect())
    }
}

/// Returns true for error codes of OffsetFetch that concern a topic, not the whole group.
fn is_of_a_topic(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::TOPIC_AUTHORIZATION_FAILED
            | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode::UNKNOWN_TOPIC_ID
            | ErrorCode::INVALID_TOPIC_EXCEPTION
    )
}

/// Returns true if a committed offset depends on an open transaction (KIP-447).
fn is_unstable(error: &Error) -> bool {
    error.code() == Some(ErrorCode::UNSTABLE_OFFSET_COMMIT.code())
}

/// Returns the time that was `age` ago, in milliseconds since 1970.
fn milliseconds_ago(age: Duration) -> i64 {
    let now = clock::unix_time();
    i64::try_from(now.saturating_sub(age).as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn failed_lookup_is_retried_after_its_error_was_raised() {
        let (shared, tp, _) = Shared::at_start(64 << 20);
        shared.seek(&[(tp.clone(), None, None)]).unwrap();
        let version = shared.lock().cursors[&tp].version;
        let rejected = Error::server(ErrorCode::TOPIC_AUTHORIZATION_FAILED, "topic t");
        shared.record_starts([(tp.clone(), version, Err(rejected.clone()))]);
        let mut task_changes = shared.task_changes();
        assert!(shared.without_position().is_empty());
        let now = tokio::time::Instant::now();
        assert_eq!(shared.position(&tp, now).await, Some(Err(rejected)));
        assert!(task_changes.has_changed().unwrap(), "no lookup started");
        assert_eq!(shared.without_position().len(), 1);
        task_changes.mark_unchanged();
        assert_eq!(shared.position(&tp, now).await, None);
        assert!(!task_changes.has_changed().unwrap(), "no error was raised");
    }

    #[tokio::test]
    async fn position_of_a_revoked_partition_fails() {
        let (shared, tp, _) = Shared::at_start(64 << 20);
        shared.seek(&[(tp.clone(), None, None)]).unwrap();
        let timed_out = tokio::time::Instant::now() + Duration::from_secs(60);
        let waiting = shared.position(&tp, timed_out);
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            found = &mut waiting => panic!("{found:?}"),
            () = std::future::ready(()) => shared.assign(&[]),
        }
        let found = tokio::time::timeout(Duration::from_secs(20), waiting).await;
        let text = found.unwrap().unwrap().unwrap_err().to_string();
        assert!(text.contains("not assigned"), "{text}");
    }
}
