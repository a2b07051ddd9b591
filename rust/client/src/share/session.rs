//! Task that sends the requests of one broker's share session.
//!
//! A broker binds a session to the connection that opened it. When the connection closes, the broker releases the
//! session's rows at once. Therefore sessions have connections of their own ([`ConnectionKind::Share`]), and an error of
//! the connection ends the session.
//!
//! [`ConnectionKind::Share`]: crate::cluster::ConnectionKind::Share

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::share_fetch::NodeEndpoint;
use samsarrow_wire::messages::{ShareFetchRequest, ShareFetchResponse, Uuid};
use tokio::time::{Instant, sleep_until};

use super::acks::{Acquired, RowState, SessionId, any};
use super::decode::{DecodedResponse, Fetched, ShareDecoder};
use super::options::AcquireMode;
use super::requests::{fetch_topics, forgotten_topics, millis, release_of, reported_leader};
use super::rounds::{FINAL_EPOCH, Step, next_epoch};
use super::shared::Shared;
use super::state::{Item, PartitionId, Sent};
use crate::blocking::blocking;
use crate::cluster::metadata::ReportedLeader;
use crate::error::{Error, Result};
use crate::retry::backoff::Backoff;
use crate::types::TopicPartition;

/// First version of both requests with renewals (KIP-1222) and record limits (KIP-1206).
pub(super) const RENEWALS: i16 = 2;
/// Number of consecutive responses with UNKNOWN_SERVER_ERROR after which polls raise the error.
const MAX_UNEXPLAINED: u32 = 10;
/// Size of a response whose records are decoded on a thread for blocking work.
const LARGE_RESPONSE: usize = 1 << 20;

/// Runs the session with one broker until the consumer is closed.
pub(super) async fn run(shared: Arc<Shared>, node: i32) {
    let backoff = shared.cluster.backoff();
    let mut task = SessionTask { decoder: Some(shared.new_decoder()), backoff, unexplained: 0, shared, node };
    let mut changes = task.shared.tasks.subscribe();
    loop {
        changes.borrow_and_update();
        let (step, has_unsent) = task.shared.with(|state| {
            let max_idle = task.shared.options.group.max_poll_interval;
            let step = state.next_step(node, &task.shared.share, max_idle, Instant::now());
            (step, std::mem::take(&mut state.has_unsent))
        });
        if has_unsent {
            // A commit may be complete, and the step may take long.
            task.shared.notify_polls();
        }
        match step {
            Step::End => break,
            Step::Wait(until) => {
                let due = async {
                    match until {
                        Some(until) => sleep_until(until).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    changed = changes.changed() => if changed.is_err() { break },
                    () = due => {}
                }
                // A time that has passed no longer holds requests back.
                task.shared.with(|state| {
                    if let Some(session) = state.sessions.get_mut(&node) {
                        session.not_before.take_if(|not_before| *not_before <= Instant::now());
                    }
                });
            }
            Step::Fetch { epoch, added, forgotten, acknowledgements, max_wait } => {
                task.fetch(epoch, added, forgotten, acknowledgements, max_wait).await;
            }
            Step::Acknowledge { epoch, is_renewal, is_automatic, acknowledgements } => {
                task.acknowledge(epoch, is_renewal, is_automatic, acknowledgements).await;
            }
            Step::CloseEarlier => task.close_earlier().await,
        }
        task.shared.notify_polls();
    }
    task.shared.with(|state| {
        if let Some(session) = state.sessions.get_mut(&node) {
            session.ended = true;
        }
    });
    task.shared.notify_polls();
}

pub(super) struct SessionTask {
    pub(super) shared: Arc<Shared>,
    pub(super) node: i32,
    /// The decoder; absent only while it decodes on another thread.
    decoder: Option<ShareDecoder>,
    backoff: Backoff,
    /// Number of consecutive responses with an error that has no reason.
    unexplained: u32,
}

impl SessionTask {
    pub(super) fn context(&self, api: &str) -> String {
        format!("{api} of group {} at broker {}", self.shared.coordinator.group(), self.node)
    }

    pub(super) fn id(&self) -> Option<SessionId> {
        self.shared.with(|state| state.sessions.get(&self.node).map(|session| session.id))
    }

    async fn fetch(
        &mut self,
        epoch: i32,
        added: Vec<PartitionId>,
        forgotten: Vec<PartitionId>,
        acknowledgements: Vec<Sent>,
        max_wait: Option<Duration>,
    ) {
        let Some(id) = self.id() else { return };
        let shared = Arc::clone(&self.shared);
        let (options, share) = (&shared.options, &shared.share);
        let max_records = i32::try_from(options.max_poll_records).unwrap_or(i32::MAX);
        let brokers = shared.with(|state| state.targets.len().max(1));
        // The memory limit applies to one round over all brokers.
        let share_of_memory = i32::try_from(options.queued_max_bytes / brokers).unwrap_or(i32::MAX).max(1);
        let max_wait = options.fetch_max_wait.min(max_wait.unwrap_or(Duration::MAX));
        let build = |version| {
            if share.acquire_mode == AcquireMode::RecordLimit && version < RENEWALS {
                return Err(Error::UnsupportedVersion(
                    "share.acquire.mode=record_limit needs Kafka 4.2 (KIP-1206): leave it out".to_owned(),
                ));
            }
            Ok(ShareFetchRequest {
                group_id: Some(shared.coordinator.group().to_owned()),
                member_id: Some(shared.member_id.clone()),
                share_session_epoch: epoch,
                max_wait_ms: i32::try_from(max_wait.as_millis()).unwrap_or(i32::MAX),
                min_bytes: options.fetch_min_bytes,
                max_bytes: options.fetch_max_bytes.min(share_of_memory),
                max_records,
                batch_size: max_records,
                share_acquire_mode: i8::from(share.acquire_mode == AcquireMode::RecordLimit),
                topics: fetch_topics(&added, &acknowledgements),
                forgotten_topics_data: forgotten_topics(&forgotten),
                ..Default::default()
            })
        };
        let limit = options.fetch_max_wait + shared.cluster.options().request_timeout;
        let result = shared.cluster.send_with(self.node, limit, build).await;
        shared.with(|state| {
            if let Some(session) = state.sessions.get_mut(&self.node) {
                session.fetching = false;
            }
        });
        let response = match result {
            Ok((_, response)) => response,
            Err(error) => return self.failed(error, acknowledgements),
        };
        if let Err(code) = ErrorCode::from_i16(response.error_code).ok() {
            let message = response.error_message.clone();
            return self.failed(Error::explained(code, self.context("ShareFetch"), message), acknowledgements);
        }
        self.succeeded(id, epoch);
        self.fetched(id, response, acknowledgements).await;
    }

    /// Applies a ShareFetch response without a top-level error.
    async fn fetched(&mut self, id: SessionId, response: ShareFetchResponse, acknowledgements: Vec<Sent>) {
        let lock_timeout = millis(response.acquisition_lock_timeout_ms);
        let shared = Arc::clone(&self.shared);
        if let Some(lock_timeout) = lock_timeout {
            shared.with(|state| state.lock_timeout = Some(lock_timeout));
        }
        let mut outcomes: BTreeMap<PartitionId, (i16, Option<String>)> = BTreeMap::new();
        let (mut fetched, mut errors, mut leaders, mut refresh) = (Vec::new(), Vec::new(), Vec::new(), false);
        let mut unnamed = Vec::new();
        let mut bytes = 0;
        let listed = shared.with(|state| {
            let session = state.sessions.get(&self.node).filter(|session| session.id == id);
            session.map(|session| session.listed.clone())
        });
        // The coordinator may have removed the member since. The session is then closed, which releases its rows.
        let is_lost = listed.is_none();
        let listed = listed.unwrap_or_default();
        for topic in response.responses {
            for partition in topic.partitions {
                let index = partition.partition_index;
                outcomes.insert(
                    (topic.topic_id, index),
                    (partition.acknowledge_error_code, partition.acknowledge_error_message),
                );
                let Some(tp) = listed.get(&(topic.topic_id, index)).cloned() else {
                    if !is_lost {
                        refresh = true;
                        unnamed.extend(release_of(topic.topic_id, index, partition.acquired_records));
                    }
                    continue;
                };
                leaders.extend(reported_leader(&tp, topic.topic_id, &partition.current_leader));
                if let Err(code) = ErrorCode::from_i16(partition.error_code).ok() {
                    let error = Error::explained(code, format!("ShareFetch from {tp}"), partition.error_message);
                    refresh |= error.refresh_metadata() || error.retriable();
                    if !error.retriable() {
                        errors.push(error);
                    }
                } else if !partition.acquired_records.is_empty() {
                    let records = partition.records.unwrap_or_default();
                    bytes += records.len();
                    fetched.push((topic.topic_id, Fetched { tp, records, acquired: partition.acquired_records }));
                }
            }
        }
        self.update_leaders(&leaders, &response.node_endpoints, refresh);
        if refresh || !errors.is_empty() {
            self.back_off();
        }
        let renewed_until = Instant::now() + lock_timeout.unwrap_or_default();
        for sent in acknowledgements {
            let key = (sent.topic_id, sent.tp.partition);
            let again = fetched.iter().find(|(topic_id, one)| (*topic_id, one.tp.partition) == key);
            let again = again.map_or(&[][..], |(_, one)| one.acquired.as_slice());
            self.outcome(id, sent, outcomes.get(&key), renewed_until, again).await;
        }
        for sent in unnamed {
            self.release_unnamed(id, &sent).await;
        }
        let topic_ids: BTreeMap<TopicPartition, Uuid> =
            fetched.iter().map(|(topic_id, fetched)| (fetched.tp.clone(), *topic_id)).collect();
        let received_at = Instant::now();
        let acquired = fetched.iter().map(|(_, one)| (one.tp.clone(), one.acquired.clone())).collect();
        let sizes: Vec<_> = fetched.iter().map(|(_, one)| (one.tp.clone(), one.records.len())).collect();
        let decoded = self.decode(fetched.into_iter().map(|(_, fetched)| fetched).collect(), bytes).await;
        let locked_until = received_at + lock_timeout.unwrap_or(Duration::from_secs(30));
        shared.with(|state| {
            state.queue.extend(errors.into_iter().map(Item::Error));
            let decoded = decoded.unwrap_or_else(|error| DecodedResponse::released(acquired, &error));
            let meters = &mut state.meters.read;
            let records: usize = decoded.chunks.iter().map(|chunk| chunk.batch.num_rows()).sum();
            meters.response_received(received_at, bytes, records as u64);
            for (tp, size) in sizes {
                meters.topic_bytes_received(received_at, &tp.topic, size);
            }
            // The coordinator may have removed the member while the records were fetched or decoded. The session is
            // then closed by the next request, which releases these rows.
            if state.sessions.get(&self.node).is_none_or(|session| session.id != id) {
                return;
            }
            let mut invalid = Vec::new();
            let is_undecoded = |state| matches!(state, RowState::Release | RowState::Reject);
            let has_undecoded =
                decoded.partitions.iter().flat_map(|one| &one.ranges).any(|range| any(&range.states, is_undecoded));
            for partition in decoded.partitions {
                let topic_id = topic_ids.get(&partition.tp).copied().unwrap_or_default();
                let acquired = partition.ranges.into_iter().map(|range| Acquired {
                    first: range.first,
                    last: range.last(),
                    session: id,
                    locked_until,
                    states: range.states,
                    lost: None,
                    renewal_failed: false,
                    commits: Vec::new(),
                    has_new_decisions: false,
                });
                state.add_rows(&partition.tp, topic_id, acquired);
                invalid.extend(partition.errors);
            }
            // Rows before an invalid batch are returned before its error.
            state.queue.extend(decoded.chunks.into_iter().map(Item::Chunk));
            state.queue.extend(invalid.into_iter().map(Item::Error));
            // No poll waits for these records, so they return to the group at once.
            if has_undecoded && let Some(session) = state.sessions.get_mut(&self.node) {
                session.flush = true;
            }
            if state.subscription.is_empty() {
                state.release_queue();
            }
        });
    }

    async fn decode(&mut self, fetched: Vec<Fetched>, bytes: usize) -> Result<DecodedResponse> {
        let mut decoder = match self.decoder.take() {
            Some(decoder) => decoder,
            None => self.shared.new_decoder(),
        };
        let (decoder, decoded) = if bytes < LARGE_RESPONSE {
            let decoded = decoder.decode(fetched);
            (decoder, decoded)
        } else {
            // A commit may be complete, and must not wait for the decoder.
            self.shared.notify_polls();
            blocking(move || {
                let decoded = decoder.decode(fetched);
                (decoder, decoded)
            })
            .await?
        };
        // After an error, the decoder may hold rows of the failed response.
        self.decoder = Some(if decoded.is_broken { self.shared.new_decoder() } else { decoder });
        Ok(decoded)
    }

    /// Advances the session after a successful response.
    pub(super) fn succeeded(&mut self, id: SessionId, epoch: i32) {
        self.backoff.reset();
        self.unexplained = 0;
        self.shared.with(|state| {
            let Some(session) = state.sessions.get_mut(&self.node).filter(|session| session.id == id) else { return };
            session.epoch = if epoch == FINAL_EPOCH { 0 } else { next_epoch(epoch) };
            if epoch == FINAL_EPOCH {
                session.listed.clear();
            }
        });
    }

    /// Ends the session after a failed request. The broker releases its rows, so their acknowledgements fail.
    pub(super) fn failed(&mut self, error: Error, acknowledgements: Vec<Sent>) {
        let shared = &self.shared;
        tracing::debug!(
            client_id = shared.cluster.client_id(),
            group_id = shared.coordinator.group(),
            "the share session with broker {} has ended: {error}",
            self.node
        );
        shared.with(|state| state.lose_session(self.node, &error));
        for sent in &acknowledgements {
            shared.settle(sent, Some(error.clone()), Instant::now());
            shared.complete(sent);
        }
        // Kafka 4.3 fails in this way if a topic of the session was deleted, until the metadata lacks the topic.
        let is_unexplained = matches!(&error, Error::Server { code: ErrorCode::UNKNOWN_SERVER_ERROR, .. });
        self.unexplained = if is_unexplained { self.unexplained + 1 } else { 0 };
        if error.retriable() || (1..=MAX_UNEXPLAINED).contains(&self.unexplained) {
            shared.cluster.request_refresh();
        } else {
            shared.fail(super::member::unsupported(error));
        }
        self.back_off();
    }

    /// Sends no request for a while.
    fn back_off(&mut self) {
        let delay = self.backoff.next_delay();
        self.shared.with(|state| {
            if let Some(session) = state.sessions.get_mut(&self.node) {
                session.not_before = Some(Instant::now() + delay);
            }
        });
    }

    pub(super) fn update_leaders(&self, leaders: &[ReportedLeader], endpoints: &[NodeEndpoint], refresh: bool) {
        let addresses: Vec<_> =
            endpoints.iter().map(|node| (node.node_id, format!("{}:{}", node.host, node.port))).collect();
        if !leaders.is_empty() {
            self.shared.cluster.update_leaders(leaders, &addresses);
        }
        if refresh {
            self.shared.cluster.request_refresh();
        }
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
