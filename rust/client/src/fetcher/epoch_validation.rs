//! Truncation detection for brokers whose Fetch API does not validate epochs: the client sends one OffsetForLeaderEpoch
//! request after each leader election (KIP-320).

use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use samsarrow_wire::messages::{
    FetchRequest, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, fetch::EpochEndOffset as Diverging,
};
use tokio::time::Instant;

use super::cursor::Start;
use super::partition::truncated;
use super::partition_request::FetchPartitionRequest;
use super::request::Round;
use super::source::Source;
use super::state::State;
use crate::collections::HashMap;
use crate::config::OffsetReset;
use crate::error::{Error, Result};
use crate::offsets::by_topic;
use crate::types::TopicPartition;

/// First version of Fetch that validates epochs (KIP-595).
const EPOCH_VALIDATING_FETCH: i16 = 12;
/// First version of OffsetForLeaderEpoch that clients can use; earlier versions require the ClusterAction permission
/// (KIP-320).
const FIRST_CLIENT_VERSION: i16 = 3;

impl Source {
    /// Returns true if the broker's Fetch API does not detect truncation but the broker supports OffsetForLeaderEpoch.
    pub(super) async fn needs_validation(&self, node: i32) -> Result<bool> {
        let time = self.cluster.options().request_timeout;
        if self.cluster.version::<FetchRequest>(node, time).await? >= EPOCH_VALIDATING_FETCH {
            return Ok(false);
        }
        match self.cluster.version::<OffsetForLeaderEpochRequest>(node, time).await {
            Ok(version) => Ok(version >= FIRST_CLIENT_VERSION),
            Err(Error::UnsupportedVersion(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Validates the positions of `round` whose preceding record was written before the current leader was elected.
    pub(super) async fn validate(&self, node: i32, round: &Round) -> Result<()> {
        let open = round.partitions.iter().filter(|request| request.last_epoch >= 0);
        let (from_replica, of_leader): (Vec<_>, Vec<_>) = open.partition(|request| request.from_replica);
        // Only the leader can validate an offset. The leader's next Fetch response redirects the consumer to the
        // replica again.
        for request in from_replica {
            if let Some(cursor) = self.shared.lock().at_version(&request.tp, request.version) {
                cursor.replica = None;
            }
        }
        if !of_leader.is_empty() {
            let time = self.cluster.options().request_timeout;
            let response = self.cluster.send(node, build_request(&of_leader), time).await?;
            self.apply_responses(node, &of_leader, response);
        }
        self.shared.notify_tasks();
        self.shared.notify_poll();
        Ok(())
    }

    fn apply_responses(&self, node: i32, requests: &[&FetchPartitionRequest], response: OffsetForLeaderEpochResponse) {
        let mut responses = HashMap::default();
        for topic in response.topics {
            let name: Arc<str> = topic.topic.into();
            let topic_partition =
                |partition: &EpochEndOffset| TopicPartition::new(Arc::clone(&name), partition.partition);
            responses.extend(topic.partitions.into_iter().map(|partition| (topic_partition(&partition), partition)));
        }
        let mut state = self.shared.lock();
        let mut failed = Vec::new();
        for &request in requests {
            let outcome = match responses.get(&request.tp) {
                Some(response) => ErrorCode::from_i16(response.error_code)
                    .ok()
                    .map_err(|code| Error::server(code, format!("OffsetForLeaderEpoch of {}", request.tp)))
                    .map(|()| response),
                None => {
                    let reason = format!("the response to OffsetForLeaderEpoch leaves out {}", request.tp);
                    Err(Error::protocol(format!("broker {node}"), reason))
                }
            };
            match outcome {
                Ok(response) => self.apply_response(&mut state, request, response),
                Err(error) => failed.push((request, error)),
            }
        }
        let refresh = failed.iter().any(|(_, error)| error.refresh_metadata());
        state.partitions_failed(failed, self.cluster.options().default_api_timeout);
        drop(state);
        if refresh {
            self.cluster.request_refresh();
        }
    }

    /// Applies the leader's response for the position of one partition.
    fn apply_response(&self, state: &mut State, request: &FetchPartitionRequest, response: &EpochEndOffset) {
        let Some(cursor) = state.at_version(&request.tp, request.version) else { return };
        cursor.validated_epoch = request.leader_epoch;
        let (epoch, end_offset) = (response.leader_epoch, response.end_offset);
        if epoch >= 0 && end_offset >= 0 {
            if end_offset < request.offset {
                truncated(self, state, request, &Diverging { epoch, end_offset, ..Default::default() });
            }
            return;
        }
        // The leader's log has no records of this epoch or of an earlier one.
        if self.options.auto_offset_reset == OffsetReset::None {
            let error = Error::OffsetOutOfRange(format!(
                "{}: the log was truncated: offset {} was read in leader epoch {}, which its leader no longer \
                 knows, and auto.offset.reset is none; seek to an offset in the log",
                request.tp, request.offset, request.last_epoch
            ));
            return state.raise(&request.tp, request.version, error);
        }
        tracing::warn!(
            client_id = self.cluster.client_id(),
            epoch = request.last_epoch,
            "partition {}: the log was truncated at an unknown offset: the position {} is reset",
            request.tp,
            request.offset
        );
        cursor.record_correction(self.cluster.backoff(), Instant::now());
        cursor.fetch_offset = None;
        cursor.start = Start::Reset;
    }
}

fn build_request(requests: &[&FetchPartitionRequest]) -> OffsetForLeaderEpochRequest {
    let partition = |(partition, request): (i32, &FetchPartitionRequest)| OffsetForLeaderPartition {
        partition,
        current_leader_epoch: request.leader_epoch,
        leader_epoch: request.last_epoch,
        ..Default::default()
    };
    let topics = by_topic(requests.iter().map(|request| (request.tp.clone(), *request))).into_iter();
    let topic = |(name, partitions): (Arc<str>, Vec<_>)| OffsetForLeaderTopic {
        topic: name.to_string(),
        partitions: partitions.into_iter().map(partition).collect(),
        ..Default::default()
    };
    OffsetForLeaderEpochRequest { replica_id: -1, topics: topics.map(topic).collect(), ..Default::default() }
}
