//! DescribeShareGroupOffsets, v0–v1: stored start offsets of share groups. Like Kafka, returns no offsets for an unknown
//! group.

use std::collections::BTreeMap;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::describe_share_group_offsets::{
    DescribeShareGroupOffsetsRequestGroup, DescribeShareGroupOffsetsResponse, DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition, DescribeShareGroupOffsetsResponseTopic,
};
use samsarrow_wire::messages::{DescribeShareGroupOffsetsRequest, Uuid};

use super::{Call, Handler, Outcome};
use crate::state::groups::share::TopicPartition;

/// Start offset of a partition that has none, and lag of such a partition.
const NO_OFFSET: i64 = -1;

/// Returns the requested partitions by topic id, or all stored partitions of the group.
fn partitions(
    call: &Call<'_>,
    group: &DescribeShareGroupOffsetsRequestGroup,
) -> Vec<Result<TopicPartition, (String, i32)>> {
    let Some(topics) = &group.topics else {
        return call.state.share_partitions(&group.group_id).into_iter().map(Ok).collect();
    };
    let mut all = Vec::new();
    for topic in topics {
        let found = call.state.topic(&topic.topic_name);
        for partition in &topic.partitions {
            let key = found.as_ref().map(|topic| (topic.id.0, *partition));
            all.push(key.ok_or_else(|| (topic.topic_name.clone(), *partition)));
        }
    }
    all
}

fn describe(call: &Call<'_>, group: &str, key: TopicPartition) -> DescribeShareGroupOffsetsResponsePartition {
    let partition_index = key.1;
    match call.state.share_offset(group, key) {
        Some(offset) => DescribeShareGroupOffsetsResponsePartition {
            partition_index,
            start_offset: offset.start,
            leader_epoch: offset.leader_epoch,
            lag: offset.lag,
            ..DescribeShareGroupOffsetsResponsePartition::default()
        },
        None => DescribeShareGroupOffsetsResponsePartition {
            partition_index,
            start_offset: NO_OFFSET,
            lag: NO_OFFSET,
            ..DescribeShareGroupOffsetsResponsePartition::default()
        },
    }
}

fn described(
    call: &Call<'_>,
    requested: &DescribeShareGroupOffsetsRequestGroup,
) -> DescribeShareGroupOffsetsResponseGroup {
    let mut group = DescribeShareGroupOffsetsResponseGroup {
        group_id: requested.group_id.clone(),
        ..DescribeShareGroupOffsetsResponseGroup::default()
    };
    if let Err(code) = call.check_group(&requested.group_id) {
        group.error_code = code.code();
        return group;
    }
    let mut topics: BTreeMap<(String, [u8; 16]), Vec<DescribeShareGroupOffsetsResponsePartition>> = BTreeMap::new();
    for key in partitions(call, requested) {
        match key {
            Ok(key) => {
                let Some(topic) = call.state.topic_by_id(&Uuid(key.0)) else { continue };
                let described = describe(call, &requested.group_id, key);
                topics.entry((topic.name.to_string(), key.0)).or_default().push(described);
            }
            Err((name, partition_index)) => {
                topics.entry((name, [0; 16])).or_default().push(DescribeShareGroupOffsetsResponsePartition {
                    partition_index,
                    error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code(),
                    ..DescribeShareGroupOffsetsResponsePartition::default()
                });
            }
        }
    }
    let topic = |((topic_name, id), partitions)| DescribeShareGroupOffsetsResponseTopic {
        topic_name,
        topic_id: Uuid(id),
        partitions,
        ..DescribeShareGroupOffsetsResponseTopic::default()
    };
    group.topics = topics.into_iter().map(topic).collect();
    group
}

impl Handler for DescribeShareGroupOffsetsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        if call.state.share_version() == 0 {
            return call.reply::<Self>(&self.error_response(call.version, ErrorCode::UNSUPPORTED_VERSION));
        }
        let groups = self.groups.iter().map(|group| described(call, group)).collect();
        call.reply::<Self>(&DescribeShareGroupOffsetsResponse { groups, ..Default::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> DescribeShareGroupOffsetsResponse {
        let groups = self.groups.iter().map(|requested| DescribeShareGroupOffsetsResponseGroup {
            group_id: requested.group_id.clone(),
            error_code: code.code(),
            ..DescribeShareGroupOffsetsResponseGroup::default()
        });
        DescribeShareGroupOffsetsResponse { groups: groups.collect(), ..Default::default() }
    }
}
