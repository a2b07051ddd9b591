//! Truncation checks for brokers whose Fetch does not compare epochs: one OffsetForLeaderEpoch request after each
//! election (KIP-320).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use samsarrow_wire::messages::{
    FetchRequest, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, fetch::EpochEndOffset as Diverging,
};

use super::cursor::Start;
use super::partition::truncated;
use super::partition_request::Asked;
use super::request::Round;
use super::source::Source;
use super::state::State;
use crate::config::OffsetReset;
use crate::error::{Error, Result};
use crate::offsets::by_topic;
use crate::types::TopicPartition;

/// From this version on, Fetch compares epochs (KIP-595).
const COMPARING: i16 = 12;
/// Before this version, OffsetForLeaderEpoch is for brokers: it needs a right that clients do not have (KIP-320).
const FOR_CLIENTS: i16 = 3;

impl Source {
    /// Returns true if Fetch would not detect a truncation and this broker supports OffsetForLeaderEpoch.
    pub(super) async fn must_compare(&self, node: i32) -> Result<bool> {
        let time = self.cluster.options().request_timeout;
        if self.cluster.version::<FetchRequest>(node, time).await? >= COMPARING {
            return Ok(false);
        }
        match self.cluster.version::<OffsetForLeaderEpochRequest>(node, time).await {
            Ok(version) => Ok(version >= FOR_CLIENTS),
            Err(Error::UnsupportedVersion(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Compares the positions of a round with the leader's log, where an election was held since their records were
    /// read.
    pub(super) async fn compare(&self, node: i32, round: &Round) -> Result<()> {
        let open = round.asked.iter().filter(|one| one.last_epoch >= 0);
        let (of_replica, of_leader): (Vec<_>, Vec<_>) = open.partition(|one| one.of_replica);
        // Only the leader knows, and will send us back to the replica.
        for one in of_replica {
            if let Some(cursor) = self.shared.lock().at_version(&one.tp, one.version) {
                cursor.replica = None;
            }
        }
        if !of_leader.is_empty() {
            let time = self.cluster.options().request_timeout;
            let response = self.cluster.send(node, request(&of_leader), time).await?;
            self.judge_all(node, &of_leader, response);
        }
        self.shared.ring_work();
        self.shared.ring_ready();
        Ok(())
    }

    fn judge_all(&self, node: i32, asked: &[&Asked], response: OffsetForLeaderEpochResponse) {
        let mut told = HashMap::new();
        for topic in response.topics {
            let name: Arc<str> = topic.topic.into();
            let of = |one: &EpochEndOffset| TopicPartition::new(Arc::clone(&name), one.partition);
            told.extend(topic.partitions.into_iter().map(|one| (of(&one), one)));
        }
        let mut state = self.shared.lock();
        let mut failed = Vec::new();
        for &one in asked {
            let outcome = match told.get(&one.tp) {
                Some(told) => ErrorCode::from_i16(told.error_code)
                    .ok()
                    .map_err(|code| Error::server(code, format!("OffsetForLeaderEpoch of {}", one.tp)))
                    .map(|()| told),
                None => {
                    let reason = format!("its answer to OffsetForLeaderEpoch leaves out {}", one.tp);
                    Err(Error::protocol(format!("broker {node}"), reason))
                }
            };
            match outcome {
                Ok(told) => self.judge(&mut state, one, told),
                Err(error) => failed.push((one, error)),
            }
        }
        let refresh = failed.iter().any(|(_, error)| error.refresh_metadata());
        state.partitions_failed(failed, self.cluster.options().default_api_timeout);
        drop(state);
        if refresh {
            self.cluster.request_refresh();
        }
    }

    /// Compares one position with what the leader says of its log.
    fn judge(&self, state: &mut State, asked: &Asked, told: &EpochEndOffset) {
        let Some(cursor) = state.at_version(&asked.tp, asked.version) else { return };
        cursor.compared = asked.leader_epoch;
        let (epoch, end_offset) = (told.leader_epoch, told.end_offset);
        if epoch >= 0 && end_offset >= 0 {
            if end_offset < asked.offset {
                truncated(self, state, asked, &Diverging { epoch, end_offset, ..Default::default() });
            }
            return;
        }
        // The log has nothing of this epoch nor of one before.
        if self.options.auto_offset_reset == OffsetReset::None {
            let error = Error::OffsetOutOfRange(format!(
                "{}: the log was truncated: offset {} was read in leader epoch {}, which its leader does not know any \
                 more, and auto.offset.reset is none; seek to an offset that is there",
                asked.tp, asked.offset, asked.last_epoch
            ));
            return state.raise(&asked.tp, asked.version, error);
        }
        tracing::warn!(tp = %asked.tp, offset = asked.offset, epoch = asked.last_epoch,
            "the log was truncated at an unknown offset: the offset is reset");
        cursor.corrected(self.cluster.backoff(), Instant::now());
        cursor.fetch_offset = None;
        cursor.start = Start::Reset;
    }
}

fn request(asked: &[&Asked]) -> OffsetForLeaderEpochRequest {
    let partition = |(partition, one): (i32, &Asked)| OffsetForLeaderPartition {
        partition,
        current_leader_epoch: one.leader_epoch,
        leader_epoch: one.last_epoch,
        ..Default::default()
    };
    let topics = by_topic(asked.iter().map(|one| (one.tp.clone(), *one))).into_iter();
    let topic = |(name, of): (Arc<str>, Vec<_>)| OffsetForLeaderTopic {
        topic: name.to_string(),
        partitions: of.into_iter().map(partition).collect(),
        ..Default::default()
    };
    OffsetForLeaderEpochRequest { replica_id: -1, topics: topics.map(topic).collect(), ..Default::default() }
}
