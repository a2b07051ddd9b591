//! OffsetCommit and OffsetFetch messages in all versions.

use std::sync::Arc;

use samsarrow_wire::messages::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use samsarrow_wire::messages::offset_fetch::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics, OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use samsarrow_wire::messages::{OffsetFetchRequest, OffsetFetchResponse, Uuid};

use super::by_topic;
use crate::error::Result;
use crate::types::{OffsetAndMetadata, TopicPartition};

/// First version of OffsetFetch with `require_stable` (KIP-447).
pub(crate) const FETCH_STABLE: i16 = 7;
/// First version of OffsetFetch with several groups (KIP-709).
pub(crate) const FETCH_GROUPS: i16 = 8;

/// Returns the topics of a commit. `id_of` returns topic ids, for versions that require them.
pub(crate) fn commit_topics<'a>(
    offsets: impl IntoIterator<Item = &'a (TopicPartition, OffsetAndMetadata)>,
    timestamp: Option<i64>,
    id_of: impl Fn(&str) -> Result<Uuid>,
) -> Result<Vec<OffsetCommitRequestTopic>> {
    let topics = by_topic(offsets.into_iter().cloned()).into_iter().map(|(topic, partitions)| {
        let partitions = partitions.into_iter().map(|(partition_index, offset)| OffsetCommitRequestPartition {
            partition_index,
            committed_offset: offset.offset,
            committed_leader_epoch: offset.leader_epoch.unwrap_or(-1),
            commit_timestamp: timestamp.unwrap_or(-1),
            committed_metadata: Some(offset.metadata),
            ..Default::default()
        });
        Ok(OffsetCommitRequestTopic {
            topic_id: id_of(&topic)?,
            name: topic.to_string(),
            partitions: partitions.collect(),
            ..Default::default()
        })
    });
    topics.collect()
}

/// Returns an OffsetFetch request for the given partitions of each group, or for all partitions if `None` is given.
/// Topics for which `id_of` returns no id are omitted.
pub(crate) fn fetch_request<'a>(
    version: i16,
    groups: impl IntoIterator<Item = (&'a str, Option<&'a [TopicPartition]>)>,
    id_of: impl Fn(&str) -> Result<Option<Uuid>>,
) -> Result<OffsetFetchRequest> {
    let mut request = OffsetFetchRequest::default();
    for (group, partitions) in groups {
        let topics = partitions.map(|tps| {
            let topics = by_topic(tps.iter().map(|tp| (tp.clone(), ()))).into_iter();
            topics.map(|(name, partitions)| {
                (name, partitions.into_iter().map(|(partition, ())| partition).collect::<Vec<i32>>())
            })
        });
        if version < FETCH_GROUPS {
            let topic = |(name, partition_indexes): (Arc<str>, _)| OffsetFetchRequestTopic {
                name: name.to_string(),
                partition_indexes,
                ..Default::default()
            };
            group.clone_into(&mut request.group_id);
            request.topics = topics.map(|topics| topics.map(topic).collect());
            continue;
        }
        let topic = |(name, partition_indexes): (Arc<str>, _)| {
            let topic_id = id_of(&name).transpose()?;
            let name = name.to_string();
            Some(topic_id.map(|topic_id| OffsetFetchRequestTopics {
                name,
                topic_id,
                partition_indexes,
                ..Default::default()
            }))
        };
        let topics = topics.map(|topics| topics.filter_map(topic).collect::<Result<_>>()).transpose()?;
        request.groups.push(OffsetFetchRequestGroup { group_id: group.to_owned(), topics, ..Default::default() });
    }
    Ok(request)
}

/// Converts a response to the form of version 8 and later. Earlier versions contain no group id, so `group` is used.
pub(crate) fn by_group(version: i16, group: &str, response: OffsetFetchResponse) -> Vec<OffsetFetchResponseGroup> {
    if version >= FETCH_GROUPS {
        return response.groups;
    }
    let topics = response.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter().map(|partition| OffsetFetchResponsePartitions {
            partition_index: partition.partition_index,
            committed_offset: partition.committed_offset,
            committed_leader_epoch: partition.committed_leader_epoch,
            metadata: partition.metadata,
            error_code: partition.error_code,
            ..Default::default()
        });
        OffsetFetchResponseTopics { name: topic.name, partitions: partitions.collect(), ..Default::default() }
    });
    vec![OffsetFetchResponseGroup {
        group_id: group.to_owned(),
        topics: topics.collect(),
        error_code: response.error_code,
        ..Default::default()
    }]
}

/// Returns the committed offset of a partition, if any.
pub(crate) fn committed(partition: OffsetFetchResponsePartitions) -> Option<OffsetAndMetadata> {
    let OffsetFetchResponsePartitions { committed_offset: offset, committed_leader_epoch, metadata, .. } = partition;
    let leader_epoch = Some(committed_leader_epoch).filter(|epoch| *epoch >= 0);
    (offset >= 0).then(|| OffsetAndMetadata { offset, metadata: metadata.unwrap_or_default(), leader_epoch })
}
