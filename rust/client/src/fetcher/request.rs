//! Planning of Fetch requests: selects the partitions of one broker's next request.

use std::sync::Arc;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{FetchRequest, Request, Uuid};
use tokio::time::Instant;

use super::cursor::Cursor;
use super::partition_request::{FetchPartitionRequest, TOPIC_IDS_VERSION};
use super::session::Session;
use super::shared_state::Shared;
use super::state::State;
use crate::cluster::metadata::Metadata;
use crate::collections::{HashMap, HashSet};
use crate::config::{ConsumerOptions, IsolationLevel};
use crate::error::{Error, Result};

/// Partitions of the next request to a broker.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) partitions: Vec<FetchPartitionRequest>,
    /// Maximum size of the response. This much memory is reserved until the response arrives.
    pub(super) max_bytes: i32,
}

impl Round {
    /// Returns the index of each partition in `partitions`, by topic and partition number.
    pub(super) fn index(&self) -> HashMap<Arc<str>, HashMap<i32, usize>> {
        let mut index: HashMap<Arc<str>, HashMap<i32, usize>> = HashMap::default();
        for (position, partition) in self.partitions.iter().enumerate() {
            match index.get_mut(&*partition.tp.topic) {
                Some(partitions) => drop(partitions.insert(partition.tp.partition, position)),
                None => {
                    drop(index.insert(
                        Arc::clone(&partition.tp.topic),
                        HashMap::from_iter([(partition.tp.partition, position)]),
                    ))
                }
            }
        }
        index
    }
}

/// Reason for sending no request, which determines how long to wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Idle {
    /// Wait until a cursor, the capacity or the metadata changes.
    Wait,
    /// Wait until this time, or until a cursor, the capacity or the metadata changes.
    Until(Instant),
}

/// Returns the partitions to fetch from `node`, if there is memory for the response. `rotation` moves the start of the
/// list by one in each round, so that every partition gets its turn when `fetch.max.bytes` limits the response. A round
/// reserves at most the broker's share of the memory, so that waiting for a broker without records does not take
/// capacity from the other brokers.
pub(super) fn plan(
    shared: &Shared,
    metadata: &Metadata,
    node: i32,
    options: &ConsumerOptions,
    rotation: usize,
) -> std::result::Result<Round, Idle> {
    let now = Instant::now();
    let mut state = shared.lock();
    let partition_bytes = options.max_partition_fetch_bytes as usize;
    // Pending records must be decoded before memory is reserved for a new request.
    let no_capacity = |state: &State| state.decode_slots.any_pending() || !state.has_capacity(partition_bytes);
    // This check precedes the scan of all partitions, because it runs after each poll.
    if no_capacity(&state) {
        state.wait_for_capacity(partition_bytes);
        return Err(Idle::Wait);
    }
    state.compare_topic_ids(metadata, options.auto_offset_reset);
    let mut nodes = HashSet::default();
    let mut retry_at: Option<Instant> = None;
    let mut partitions = Vec::new();
    let mut blocked_on_decode = false;
    let mut topic: Option<(Arc<str>, Uuid)> = None;
    for (tp, cursor) in &state.cursors {
        // Partitions without a leader are handled by `leader_lookup`.
        let Some((from, leader)) = cursor.read_from(tp, metadata, now) else { continue };
        nodes.insert(from);
        if from != node {
            // The lease of a preferred replica may expire while no request is sent to the replica, so the leader's
            // fetch task checks again when the lease ends.
            let lease_end = cursor.replica.filter(|_| leader.node == node && cursor.fetch_offset.is_some());
            retry_at = retry_at.into_iter().chain(lease_end.map(|(_, until)| until)).min();
            continue;
        }
        match cursor.fetchable_offset(node, now) {
            Some(offset) => {
                // Partitions of the same topic are adjacent, so its id is looked up only once.
                let topic_id = match &topic {
                    Some((name, id)) if *name == tp.topic => *id,
                    _ => {
                        let id = metadata.topic(&tp.topic).map_or(Uuid::ZERO, |topic| topic.topic_id);
                        topic = Some((Arc::clone(&tp.topic), id));
                        id
                    }
                };
                // Skips the partition if its position belongs to a recreated topic that this snapshot does not contain
                // yet.
                if cursor.is_of_another_topic(topic_id) {
                    continue;
                }
                partitions.push(FetchPartitionRequest {
                    tp: tp.clone(),
                    topic_id,
                    version: cursor.version,
                    offset,
                    last_epoch: epoch_to_compare(cursor, leader.epoch),
                    leader_epoch: leader.epoch,
                    from_replica: from != leader.node,
                });
            }
            None => {
                blocked_on_decode |= cursor.undecoded.0 > 0 && cursor.undecoded.1 != node;
                let later = cursor.retry_at.filter(|time| *time > now && cursor.fetch_offset.is_some());
                retry_at = retry_at.into_iter().chain(later).min();
            }
        }
    }
    state.blocked_on_decode |= blocked_on_decode;
    state.fetching_brokers = nodes.len();
    if partitions.is_empty() {
        state.wait_for_capacity(0);
        return Err(retry_at.map_or(Idle::Wait, Idle::Until));
    }
    if no_capacity(&state) {
        state.wait_for_capacity(partition_bytes);
        return Err(Idle::Wait);
    }
    let first = rotation % partitions.len();
    partitions.rotate_left(first);
    let all = partition_bytes.saturating_mul(partitions.len());
    let max_bytes = all.min(options.fetch_max_bytes as usize).min(state.broker_share()).min(state.available().max(1));
    state.reserved += max_bytes;
    Ok(Round { partitions, max_bytes: i32::try_from(max_bytes).unwrap_or(i32::MAX) })
}

/// Returns the epoch of the last record if a new leader was elected after it, because only an election can truncate the
/// log. Otherwise returns -1, because a broker that does not know the epoch would report the offset as out of range.
/// For example, a topic that was downgraded from message format v2 has no epochs.
fn epoch_to_compare(cursor: &Cursor, leader: i32) -> i32 {
    if cursor.last_epoch < leader && cursor.validated_epoch != leader { cursor.last_epoch } else { -1 }
}

/// Returns the newest version that can name all topics of the round, like Java's client. Versions with topic ids are
/// excluded if an id is unknown, because a broker may support these versions without reporting ids. Brokers report ids
/// only from inter-broker protocol 2.8 on.
pub(super) fn newest_version(round: &Round) -> i16 {
    let without_id = round.partitions.iter().any(|partition| partition.topic_id.is_zero());
    if without_id { TOPIC_IDS_VERSION - 1 } else { FetchRequest::MAX_VERSION }
}

/// Builds the request of a round in version `version`.
pub(super) fn build(round: &Round, version: i16, session: &Session, options: &ConsumerOptions) -> Result<FetchRequest> {
    if version >= TOPIC_IDS_VERSION
        && let Some(without_id) = round.partitions.iter().find(|partition| partition.topic_id.is_zero())
    {
        let text = format!(
            "Fetch of topic {}: the metadata does not give its id, which version {version} needs",
            without_id.tp.topic
        );
        return Err(Error::server(ErrorCode::UNKNOWN_TOPIC_ID, text));
    }
    let mut request = FetchRequest {
        max_wait_ms: i32::try_from(options.fetch_max_wait.as_millis()).unwrap_or(i32::MAX),
        min_bytes: options.fetch_min_bytes,
        max_bytes: round.max_bytes,
        isolation_level: i8::from(options.isolation_level == IsolationLevel::ReadCommitted),
        rack_id: options.client_rack.clone(),
        ..Default::default()
    };
    session.fill(&mut request, version, &round.partitions, options.max_partition_fetch_bytes);
    Ok(request)
}

/// Returns the response timeout, which includes the time that the broker waits for records.
pub(super) fn response_timeout(options: &ConsumerOptions, request_timeout: Duration) -> Duration {
    request_timeout.max(options.fetch_max_wait + Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use samsarrow_wire::messages::MetadataResponse;
    use samsarrow_wire::messages::metadata::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };

    use super::*;
    use crate::config::{ClientKind, OptionValue, Options};

    #[test]
    fn plan_waits_for_the_end_of_a_replica_lease() {
        let (shared, tp, _) = Shared::at_start(64 << 20);
        let broker = |node_id| MetadataResponseBroker { node_id, ..Default::default() };
        let partition = MetadataResponsePartition { leader_id: 1, ..Default::default() };
        let topic = MetadataResponseTopic { name: Some("t".into()), partitions: vec![partition], ..Default::default() };
        let response =
            MetadataResponse { brokers: vec![broker(1), broker(2)], topics: vec![topic], ..Default::default() };
        let metadata = Metadata::default().updated(response, crate::cluster::metadata::RequestedTopics::All);
        let servers = ("bootstrap.servers".to_owned(), OptionValue::Str("h:1".to_owned()));
        let options = Options::parse(ClientKind::Consumer, [servers]).unwrap().consumer;
        let planned = |node| plan(&shared, &metadata, node, &options, 0).map(|round| round.partitions.len());
        let until = Instant::now() + Duration::from_secs(60);
        shared.lock().cursors.get_mut(&tp).unwrap().replica = Some((2, until));
        assert_eq!((planned(1), planned(2)), (Err(Idle::Until(until)), Ok(1)));
        assert_eq!(planned(3), Err(Idle::Wait));
    }

    #[test]
    fn compares_epochs_only_after_an_election() {
        let to_compare = |last, validated_epoch, leader| {
            let mut cursor = Cursor::new(1);
            (cursor.last_epoch, cursor.validated_epoch) = (last, validated_epoch);
            epoch_to_compare(&cursor, leader)
        };
        assert_eq!(
            [(3, -1, 4), (3, 4, 5)].map(|(last, validated_epoch, leader)| to_compare(last, validated_epoch, leader)),
            [3; 2]
        );
        let never = [(4, -1, 4), (5, -1, 4), (-1, -1, 4), (3, -1, -1), (3, 4, 4)];
        assert_eq!(never.map(|(last, validated_epoch, leader)| to_compare(last, validated_epoch, leader)), [-1; 5]);
    }
}
