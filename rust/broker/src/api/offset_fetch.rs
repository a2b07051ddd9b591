//! OffsetFetch, v0–v10.

use std::collections::BTreeMap;
use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::offset_fetch::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse, OffsetFetchResponseGroup,
    OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use samsarrow_wire::messages::{OffsetFetchRequest, Uuid};
use samsarrow_wire::sync::lock;

use super::{Call, Handler, Outcome};
use crate::state::groups::offsets::Committed;

const FIRST_WITH_GROUPS: i16 = 8;
const FIRST_WITH_IDS: i16 = 10;

fn partition(index: i32, committed: Option<Committed>, missing: ErrorCode) -> OffsetFetchResponsePartitions {
    let code = if committed.is_some() { ErrorCode::NONE } else { missing };
    let committed = committed.unwrap_or(Committed { offset: -1, leader_epoch: -1, metadata: String::new() });
    OffsetFetchResponsePartitions {
        partition_index: index,
        committed_offset: committed.offset,
        committed_leader_epoch: committed.leader_epoch,
        metadata: Some(committed.metadata),
        error_code: code.code(),
        ..OffsetFetchResponsePartitions::default()
    }
}

fn topic(
    call: &Call<'_>,
    group: &str,
    stable: bool,
    requested: &OffsetFetchRequestTopics,
) -> OffsetFetchResponseTopics {
    let by_id = call.version >= FIRST_WITH_IDS;
    let topic = if by_id { call.state.topic_by_id(&requested.topic_id) } else { call.state.topic(&requested.name) };
    let missing = match &topic {
        None if by_id => ErrorCode::UNKNOWN_TOPIC_ID,
        // Version 0 reads from ZooKeeper, for which Kafka reported a missing offset as an unknown partition.
        _ if call.version == 0 => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        _ => ErrorCode::NONE,
    };
    let groups = lock(&call.state.groups);
    let is_unstable =
        |index: i32| stable && topic.as_ref().is_some_and(|topic| groups.is_unstable(group, &topic.name, index));
    let committed = |index: &i32| {
        let topic = topic.as_ref()?;
        if call.version == 0 {
            let key = (group.to_owned(), topic.name.clone(), *index);
            let offset = lock(&call.state.zookeeper).get(&key).copied()?;
            return Some(Committed { offset, leader_epoch: -1, metadata: String::new() });
        }
        groups.committed(group, &topic.name, topic.id.0, *index)
    };
    let response_of = |index: &i32| match is_unstable(*index) {
        true => partition(*index, None, ErrorCode::UNSTABLE_OFFSET_COMMIT),
        false => partition(*index, committed(index), missing),
    };
    OffsetFetchResponseTopics {
        name: requested.name.clone(),
        topic_id: requested.topic_id,
        partitions: requested.partition_indexes.iter().map(response_of).collect(),
        ..OffsetFetchResponseTopics::default()
    }
}

/// Returns all committed offsets of the group.
fn all_offsets(call: &Call<'_>, group: &str, stable: bool) -> Vec<OffsetFetchResponseTopics> {
    let mut topics: BTreeMap<Arc<str>, Vec<OffsetFetchResponsePartitions>> = BTreeMap::new();
    let groups = lock(&call.state.groups);
    for (topic, index, committed) in groups.all(group) {
        let response = match stable && groups.is_unstable(group, &topic, index) {
            true => partition(index, None, ErrorCode::UNSTABLE_OFFSET_COMMIT),
            false => partition(index, Some(committed), ErrorCode::NONE),
        };
        topics.entry(topic).or_default().push(response);
    }
    drop(groups);
    let named = |(name, partitions): (Arc<str>, _)| OffsetFetchResponseTopics {
        topic_id: call.state.topic(&name).map_or(Uuid::ZERO, |topic| topic.id),
        name: name.to_string(),
        partitions,
        ..OffsetFetchResponseTopics::default()
    };
    topics.into_iter().map(named).collect()
}

fn group(call: &Call<'_>, stable: bool, requested: &OffsetFetchRequestGroup) -> OffsetFetchResponseGroup {
    if call.version >= 1 && !call.state.is_coordinator(call.node, &requested.group_id) {
        return failed(requested, ErrorCode::NOT_COORDINATOR);
    }
    let member_id = requested.member_id.as_deref();
    if let Err(code) = lock(&call.state.groups).check_fetch(&requested.group_id, member_id, requested.member_epoch) {
        return failed(requested, code);
    }
    let topics = match &requested.topics {
        Some(topics) => {
            topics.iter().map(|requested_topic| topic(call, &requested.group_id, stable, requested_topic)).collect()
        }
        None => all_offsets(call, &requested.group_id, stable),
    };
    OffsetFetchResponseGroup { group_id: requested.group_id.clone(), topics, ..OffsetFetchResponseGroup::default() }
}

fn failed(requested: &OffsetFetchRequestGroup, code: ErrorCode) -> OffsetFetchResponseGroup {
    OffsetFetchResponseGroup {
        group_id: requested.group_id.clone(),
        error_code: code.code(),
        ..OffsetFetchResponseGroup::default()
    }
}

/// Returns the requested groups. Before v8 a request has a single group, in separate fields.
fn groups(request: &OffsetFetchRequest, version: i16) -> Vec<OffsetFetchRequestGroup> {
    if version >= FIRST_WITH_GROUPS {
        return request.groups.clone();
    }
    let topics = request.topics.as_ref().map(|topics| {
        let topic =
            |topic: &samsarrow_wire::messages::offset_fetch::OffsetFetchRequestTopic| OffsetFetchRequestTopics {
                name: topic.name.clone(),
                partition_indexes: topic.partition_indexes.clone(),
                ..OffsetFetchRequestTopics::default()
            };
        topics.iter().map(topic).collect()
    });
    let group = OffsetFetchRequestGroup { group_id: request.group_id.clone(), topics, ..Default::default() };
    vec![group]
}

fn response(
    version: i16,
    groups: Vec<OffsetFetchResponseGroup>,
    requested: &OffsetFetchRequest,
) -> OffsetFetchResponse {
    if version >= FIRST_WITH_GROUPS {
        return OffsetFetchResponse { groups, ..OffsetFetchResponse::default() };
    }
    let only = groups.into_iter().next().unwrap_or_default();
    let old = |partition: OffsetFetchResponsePartitions| OffsetFetchResponsePartition {
        partition_index: partition.partition_index,
        committed_offset: partition.committed_offset,
        committed_leader_epoch: partition.committed_leader_epoch,
        metadata: partition.metadata,
        error_code: partition.error_code,
        ..OffsetFetchResponsePartition::default()
    };
    let mut topics: Vec<_> = only
        .topics
        .into_iter()
        .map(|topic| OffsetFetchResponseTopic {
            name: topic.name,
            partitions: topic.partitions.into_iter().map(old).collect(),
            ..OffsetFetchResponseTopic::default()
        })
        .collect();
    // Versions 0 and 1 have no error field for the group, so each partition reports the error.
    if version < 2 && only.error_code != 0 {
        let partition = |index: &i32| OffsetFetchResponsePartition {
            partition_index: *index,
            committed_offset: -1,
            metadata: Some(String::new()),
            error_code: only.error_code,
            ..OffsetFetchResponsePartition::default()
        };
        topics = requested
            .topics
            .iter()
            .flatten()
            .map(|topic| OffsetFetchResponseTopic {
                name: topic.name.clone(),
                partitions: topic.partition_indexes.iter().map(partition).collect(),
                ..OffsetFetchResponseTopic::default()
            })
            .collect();
    }
    let error_code = if version >= 2 { only.error_code } else { 0 };
    OffsetFetchResponse { topics, error_code, ..OffsetFetchResponse::default() }
}

impl Handler for OffsetFetchRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let requested = groups(&self, call.version);
        let responses = requested.iter().map(|requested| group(call, self.require_stable, requested)).collect();
        call.reply::<Self>(&response(call.version, responses, &self))
    }

    fn error_response(&self, version: i16, code: ErrorCode) -> OffsetFetchResponse {
        let failed_groups = groups(self, version).iter().map(|requested| failed(requested, code)).collect();
        response(version, failed_groups, self)
    }
}
