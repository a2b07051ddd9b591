//! Fields of requests, and of responses that both APIs have.

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_wire::messages::Uuid;
use samsarrow_wire::messages::share_acknowledge::{AcknowledgePartition, AcknowledgeTopic};
use samsarrow_wire::messages::share_fetch::{
    AcknowledgementBatch, AcquiredRecords, FetchPartition, FetchTopic, ForgottenTopic, LeaderIdAndEpoch,
};

use super::acks::{RowState, Taken};
use super::decode::valid_ranges;
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

/// Returns the release of all records that a broker acquired in a partition whose topic has no known name. The id
/// stands for the name.
pub(super) fn release_of(topic_id: Uuid, partition: i32, mut acquired: Vec<AcquiredRecords>) -> Option<Sent> {
    let tp = TopicPartition::new(format!("{topic_id:?}"), partition);
    let (ranges, _) = valid_ranges(&tp, &mut acquired);
    let release = |range: AcquiredRecords| Taken {
        first: range.first_offset,
        types: (range.first_offset..=range.last_offset).map(|_| Some(RowState::Release as i8)).collect(),
        commits: Vec::new(),
    };
    let taken: Vec<Taken> = ranges.into_iter().map(release).collect();
    (!taken.is_empty()).then_some(Sent { tp, topic_id, taken })
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

/// Minimum length of a run of one type that becomes a batch with a single type, as in Java's client.
const MIN_RUN: usize = 10;

/// Returns the acknowledgements in the format of requests: sorted, disjoint batches with one type, or with one type for
/// each offset.
pub(super) fn encode(taken: &[Taken]) -> Vec<AcknowledgementBatch> {
    let mut batches = Vec::new();
    for range in taken {
        let mut mixed: Option<AcknowledgementBatch> = None;
        let mut offset = range.first;
        for run in range.types.chunk_by(|a, b| a == b) {
            let last = offset + run.len() as i64 - 1;
            match run.first().copied().flatten() {
                None => batches.extend(mixed.take()),
                Some(kind) if run.len() >= MIN_RUN => {
                    batches.extend(mixed.take());
                    batches.push(batch(offset, last, vec![kind]));
                }
                Some(kind) => {
                    let mixed = mixed.get_or_insert_with(|| batch(offset, last, Vec::new()));
                    mixed.last_offset = last;
                    mixed.acknowledge_types.extend(std::iter::repeat_n(kind, run.len()));
                }
            }
            offset = last + 1;
        }
        batches.extend(mixed);
    }
    batches
}

fn batch(first_offset: i64, last_offset: i64, acknowledge_types: Vec<i8>) -> AcknowledgementBatch {
    AcknowledgementBatch { first_offset, last_offset, acknowledge_types, ..Default::default() }
}
