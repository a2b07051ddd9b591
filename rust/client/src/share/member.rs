//! Membership of a share group. The coordinator assigns partitions, which several members share; nothing is revoked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::share_group_heartbeat::{
    Assignment, ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse,
};
use tokio::time::{Instant, sleep_until, timeout};

use super::shared::Shared;
use super::state::PartitionId;
use crate::error::{Error, Result};
use crate::types::{TopicPartition, join_limited};

const JOIN: i32 = 0;
const LEAVE: i32 = -1;
/// Heartbeat interval until the coordinator sends another interval.
const INITIAL_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of the first heartbeats without a partition. It doubles up to the coordinator's interval. Coordinators
/// assign partitions at most once a second, so a member learns its first assignment long before a regular heartbeat.
const FIRST_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum interval of heartbeats without a partition during `ASSIGNMENT_TIME`.
const MAX_FIRST_INTERVAL: Duration = Duration::from_millis(200);
/// Time within which the coordinator usually sends the first assignment.
const ASSIGNMENT_TIME: Duration = Duration::from_secs(2);
/// Maximum delay before a failed heartbeat is retried.
const MAX_RETRY_DELAY: Duration = Duration::from_millis(500);
/// Interval of checks for the names and leaders of assigned partitions.
const LOOKUP_INTERVAL: Duration = Duration::from_millis(100);

/// Outcome of a membership.
enum End {
    /// The coordinator has removed the member, which joins again.
    Fenced(Error),
    /// The application did not poll for `max.poll.interval.ms`, or has no subscription any more.
    Idle,
    /// An error that the next poll raises. The member joins again with the poll after that.
    Failed(Error),
    Closing,
}

/// Runs the membership until the consumer closes.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut changes = shared.membership.subscribe();
    let mut seen_poll = 0;
    loop {
        // The member joins with a poll, and again only after another poll.
        loop {
            changes.borrow_and_update();
            let (is_closing, is_subscribed, polls) = shared.with(|state| {
                state.joins_with_poll = true;
                (state.closing, !state.subscription.is_empty(), state.polls)
            });
            if is_closing {
                return;
            }
            if is_subscribed && polls > seen_poll {
                break;
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
        let mut member = Member {
            shared: Arc::clone(&shared),
            epoch: JOIN,
            interval: INITIAL_INTERVAL,
            sent_version: None,
            assignment: Assignment::default(),
        };
        let end = member.live(&mut changes).await;
        seen_poll = shared.with(|state| state.polls);
        match end {
            End::Closing => {
                // The sessions are closed first, because leaving the group releases no rows.
                return;
            }
            End::Fenced(error) => {
                tracing::debug!(
                    client_id = shared.cluster.client_id(),
                    group_id = shared.coordinator.group(),
                    "joining the share group again: {error}"
                );
                seen_poll = seen_poll.saturating_sub(1);
                shared.with(|state| state.lose_all_sessions(&error));
                if member.epoch == JOIN {
                    // The coordinator has rejected a join, so another one would probably fail, too.
                    sleep_until(Instant::now() + MAX_RETRY_DELAY).await;
                }
            }
            End::Idle => {
                leave(&shared, "no poll for max.poll.interval.ms, or no subscription").await;
                shared.with(|state| state.targets.clear());
            }
            End::Failed(error) => {
                shared.with(|state| state.targets.clear());
                shared.fail(error);
            }
        }
        shared.notify_tasks();
    }
}

struct Member {
    shared: Arc<Shared>,
    epoch: i32,
    interval: Duration,
    /// Version of the subscription that the coordinator has; `None` before the first successful heartbeat.
    sent_version: Option<u64>,
    assignment: Assignment,
}

impl Member {
    async fn live(&mut self, changes: &mut tokio::sync::watch::Receiver<u64>) -> End {
        let shared = Arc::clone(&self.shared);
        let max_idle = shared.options.group.max_poll_interval;
        let mut metadata = shared.cluster.watch();
        let mut fast = FIRST_INTERVAL;
        let mut fast_since = Instant::now();
        loop {
            let version = shared.with(|state| state.subscription_version);
            if self.sent_version != Some(version) {
                (fast, fast_since) = (FIRST_INTERVAL, Instant::now());
            }
            if let Err(end) = self.heartbeat().await {
                return end;
            }
            let mut is_resolved = self.resolve();
            let delay =
                if shared.with(|state| state.targets.is_empty()) { fast.min(self.interval) } else { self.interval };
            fast = fast.saturating_mul(2);
            if fast_since.elapsed() < ASSIGNMENT_TIME {
                fast = fast.min(MAX_FIRST_INTERVAL);
            }
            let next = Instant::now() + delay;
            loop {
                changes.borrow_and_update();
                metadata.borrow_and_update();
                let (is_closing, is_empty, version, idle_at) = shared.with(|state| {
                    let idle_at = if state.waiting > 0 { Instant::now() } else { state.last_poll } + max_idle;
                    (state.closing, state.subscription.is_empty(), state.subscription_version, idle_at)
                });
                if is_closing {
                    return End::Closing;
                }
                if is_empty || idle_at <= Instant::now() {
                    return End::Idle;
                }
                if self.sent_version != Some(version) {
                    break;
                }
                if !is_resolved {
                    shared.cluster.request_refresh();
                }
                let check = if is_resolved { idle_at } else { Instant::now() + LOOKUP_INTERVAL };
                tokio::select! {
                    () = sleep_until(next.min(check)) => {}
                    _ = changes.changed() => continue,
                    _ = metadata.changed() => {}
                }
                is_resolved = self.resolve();
                if Instant::now() >= next {
                    break;
                }
            }
        }
    }

    /// Distributes the assigned partitions to the brokers that lead them. Returns false if some names or leaders are
    /// not known yet. The coordinator sends an assignment once, so it is kept until they are.
    fn resolve(&self) -> bool {
        let metadata = self.shared.cluster.metadata();
        let mut targets: BTreeMap<i32, BTreeMap<PartitionId, TopicPartition>> = BTreeMap::new();
        let mut is_resolved = true;
        for topic in &self.assignment.topic_partitions {
            let Some(name) = metadata.topic_name(&topic.topic_id).map(Arc::<str>::from) else {
                is_resolved = false;
                continue;
            };
            for partition in &topic.partitions {
                match metadata.leader(&name, *partition) {
                    Some(leader) => {
                        let tp = TopicPartition::new(Arc::clone(&name), *partition);
                        targets.entry(leader.node).or_default().insert((topic.topic_id, *partition), tp);
                    }
                    None => is_resolved = false,
                }
            }
        }
        let changed = self.shared.with(|state| {
            let changed = state.targets != targets;
            if changed {
                state.targets = targets;
            }
            changed
        });
        if changed {
            tracing::debug!(
                client_id = self.shared.cluster.client_id(),
                group_id = self.shared.coordinator.group(),
                "assigned: {}",
                join_limited(self.shared.with(|state| state.assignment()))
            );
            self.shared.start_sessions();
            self.shared.notify_tasks();
        }
        is_resolved
    }

    /// Sends a heartbeat and retries it until the coordinator responds.
    async fn heartbeat(&mut self) -> std::result::Result<(), End> {
        let shared = Arc::clone(&self.shared);
        let mut backoff = shared.cluster.backoff();
        let mut changes = shared.membership.subscribe();
        let mut is_logged = false;
        loop {
            let (version, topics) = shared.with(|state| (state.subscription_version, state.subscription.clone()));
            // The application may unsubscribe while heartbeats are repeated. The coordinator rejects a join without
            // topics.
            if topics.is_empty() {
                return Err(End::Idle);
            }
            // The response may have been lost with a connection, so a heartbeat after an error has all fields.
            let is_full = self.sent_version != Some(version);
            let error = match self.send(is_full.then_some(topics)).await {
                Ok(response) => match ErrorCode::from_i16(response.error_code).ok() {
                    Ok(()) => {
                        self.sent_version = Some(version);
                        self.apply(response);
                        return Ok(());
                    }
                    Err(code) => {
                        let text = response.error_message.filter(|text| !text.is_empty());
                        let context = format!("ShareGroupHeartbeat in group {}", shared.coordinator.group());
                        let error = Error::explained(code, context, text);
                        match code {
                            // A joining member creates a missing group, so the id belongs to a group of another type.
                            ErrorCode::GROUP_ID_NOT_FOUND if self.epoch == JOIN => return Err(End::Failed(error)),
                            ErrorCode::UNKNOWN_MEMBER_ID
                            | ErrorCode::FENCED_MEMBER_EPOCH
                            | ErrorCode::GROUP_ID_NOT_FOUND => return Err(End::Fenced(error)),
                            ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                                shared.coordinator.forget();
                                shared.cluster.request_refresh();
                            }
                            code if code.retriable() => {}
                            _ => return Err(End::Failed(unsupported(error))),
                        }
                        error
                    }
                },
                Err(error) if error.retriable() => error,
                Err(error) => return Err(End::Failed(unsupported(error))),
            };
            self.sent_version = None;
            let (client_id, group_id) = (shared.cluster.client_id(), shared.coordinator.group());
            if self.epoch == JOIN && !std::mem::replace(&mut is_logged, true) {
                tracing::warn!(client_id, group_id, "cannot join the share group, and keeps trying: {error}");
            } else {
                tracing::debug!(client_id, group_id, "a heartbeat failed and is repeated: {error}");
            }
            let retry_at = Instant::now() + backoff.next_delay().min(MAX_RETRY_DELAY);
            while Instant::now() < retry_at {
                changes.borrow_and_update();
                let (is_closing, is_empty) = shared.with(|state| (state.closing, state.subscription.is_empty()));
                if is_closing {
                    return Err(End::Closing);
                }
                if is_empty {
                    break;
                }
                tokio::select! {
                    () = sleep_until(retry_at) => {}
                    _ = changes.changed() => {}
                }
            }
        }
    }

    async fn send(&self, topics: Option<BTreeSet<String>>) -> Result<ShareGroupHeartbeatResponse> {
        let shared = &self.shared;
        let is_full = topics.is_some();
        let rack = Some(shared.options.client_rack.clone()).filter(|rack| is_full && !rack.is_empty());
        let request = ShareGroupHeartbeatRequest {
            group_id: shared.coordinator.group().to_owned(),
            member_id: shared.member_id.clone(),
            member_epoch: self.epoch,
            rack_id: rack,
            subscribed_topic_names: topics.map(|topics| topics.into_iter().collect()),
            ..Default::default()
        };
        let limit = shared.cluster.options().request_timeout;
        shared.coordinator.ask(limit, |_| Ok(request)).await.map(|(_, response)| response)
    }

    fn apply(&mut self, response: ShareGroupHeartbeatResponse) {
        if self.epoch == JOIN {
            tracing::info!(
                client_id = self.shared.cluster.client_id(),
                group_id = self.shared.coordinator.group(),
                member_id = self.shared.member_id,
                "joined the share group. A new group reads from share.auto.offset.reset on, an option of the group \
                 that is latest by default"
            );
        }
        self.epoch = response.member_epoch;
        if let Some(interval) = u64::try_from(response.heartbeat_interval_ms).ok().filter(|interval| *interval > 0) {
            self.interval = Duration::from_millis(interval);
        }
        if let Some(assignment) = response.assignment {
            self.assignment = assignment;
        }
    }
}

/// Leaves the group.
pub(super) async fn leave(shared: &Shared, reason: &str) {
    let request = ShareGroupHeartbeatRequest {
        group_id: shared.coordinator.group().to_owned(),
        member_id: shared.member_id.clone(),
        member_epoch: LEAVE,
        ..Default::default()
    };
    let limit = shared.cluster.options().request_timeout;
    let (client_id, group_id) = (shared.cluster.client_id(), shared.coordinator.group());
    match timeout(limit, shared.coordinator.ask(limit, |_| Ok(request))).await {
        Ok(Ok(_)) => tracing::info!(client_id, group_id, "left the share group: {reason}"),
        Ok(Err(error)) => tracing::debug!(client_id, group_id, "cannot leave the share group: {error}"),
        Err(_) => {}
    }
}

/// Names the requirement if the error is that brokers have no share groups.
pub(super) fn unsupported(error: Error) -> Error {
    let text = match error {
        Error::UnsupportedVersion(text) => text,
        Error::Server { code: ErrorCode::UNSUPPORTED_VERSION, .. } => error.to_string(),
        other => return other,
    };
    Error::UnsupportedVersion(format!(
        "{text}: share groups need Kafka 4.2 and the feature share.version, which `samsarrow cluster features` shows"
    ))
}
