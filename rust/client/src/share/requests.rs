//! Fields of requests, and of responses that both APIs have.

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_wire::messages::Uuid;
use samsarrow_wire::messages::share_acknowledge::{AcknowledgePartition, AcknowledgeTopic};
use samsarrow_wire::messages::share_fetch::{FetchPartition, FetchTopic, ForgottenTopic, LeaderIdAndEpoch};

use super::acks::encode;
use super::state::{PartitionId, Sent};
use crate::cluster::metadata::{Leader, ReportedLeader};
use crate::types::TopicPartition;

pub(super) fn millis(time: i32) -> Option<Duration> {
    u64::try_from(time).ok().filter(|time| *time > 0).map(Duration::from_millis)
}

/// Returns the leader that a response names because it has changed. Other responses have an epoch of 0.
pub(super) fn reported_leader(
    tp: &TopicPartition,
    topic_id: Uuid,
    current: &LeaderIdAndEpoch,
) -> Option<ReportedLeader> {
    let leader = Leader { node: current.leader_id, epoch: current.leader_epoch };
    (leader.node >= 0 && leader.epoch > 0).then(|| ReportedLeader { tp: tp.clone(), topic_id, leader })
}

pub(super) fn fetch_topics(added: &[PartitionId], acknowledgements: &[Sent]) -> Vec<FetchTopic> {
    let mut topics: BTreeMap<Uuid, BTreeMap<i32, FetchPartition>> = BTreeMap::new();
    let entry = |index| FetchPartition { partition_index: index, ..Default::default() };
    for (topic_id, index) in added {
        topics.entry(*topic_id).or_default().insert(*index, entry(*index));
    }
    for sent in acknowledgements {
        let partition = topics.entry(sent.topic_id).or_default().entry(sent.tp.partition);
        partition.or_insert_with(|| entry(sent.tp.partition)).acknowledgement_batches = encode(&sent.taken);
    }
    let topic = |(topic_id, partitions): (Uuid, BTreeMap<i32, FetchPartition>)| FetchTopic {
        topic_id,
        partitions: partitions.into_values().collect(),
        ..Default::default()
    };
    topics.into_iter().map(topic).collect()
}

pub(super) fn forgotten_topics(forgotten: &[PartitionId]) -> Vec<ForgottenTopic> {
    let mut topics: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
    for (topic_id, index) in forgotten {
        topics.entry(*topic_id).or_default().push(*index);
    }
    let topic = |(topic_id, partitions)| ForgottenTopic { topic_id, partitions, ..Default::default() };
    topics.into_iter().map(topic).collect()
}

pub(super) fn acknowledge_topics(acknowledgements: &[Sent]) -> Vec<AcknowledgeTopic> {
    let mut topics: BTreeMap<Uuid, Vec<AcknowledgePartition>> = BTreeMap::new();
    for sent in acknowledgements {
        topics.entry(sent.topic_id).or_default().push(AcknowledgePartition {
            partition_index: sent.tp.partition,
            acknowledgement_batches: encode(&sent.taken),
            ..Default::default()
        });
    }
    let topic = |(topic_id, partitions)| AcknowledgeTopic { topic_id, partitions, ..Default::default() };
    topics.into_iter().map(topic).collect()
}
