//! Operations on share groups (KIP-932): describe groups; list, alter and delete their offsets.

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_wire::messages::alter_share_group_offsets::{
    AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic,
};
use samsarrow_wire::messages::delete_share_group_offsets::DeleteShareGroupOffsetsRequestTopic;
use samsarrow_wire::messages::describe_share_group_offsets::{
    DescribeShareGroupOffsetsRequestGroup, DescribeShareGroupOffsetsRequestTopic,
};
use samsarrow_wire::messages::{
    AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, ApiKey, DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse, DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse,
    ShareGroupDescribeRequest, ShareGroupDescribeResponse, share_group_describe as share,
};

use super::batch::group_request;
use super::engine::RequestBatch;
use super::response_errors::check_item;
use super::{Admin, PerGroup, PerPartition};
use crate::cluster::ConnectionKind;
use crate::error::Result;
use crate::offsets::by_topic;
use crate::types::TopicPartition;

/// Description of a share group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareGroupDescription {
    /// State, such as `Stable` or `Empty`.
    pub state: String,
    /// Group epoch, which increases with each change of members or subscriptions.
    pub epoch: i32,
    /// Group epoch for which the current assignment was computed.
    pub assignment_epoch: i32,
    /// Name of the assignor.
    pub assignor: String,
    /// Members, sorted by member id.
    pub members: Vec<ShareMember>,
}

/// Member of a share group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareMember {
    /// Member id.
    pub member_id: String,
    /// Rack of the client.
    pub rack: Option<String>,
    /// Member epoch.
    pub epoch: i32,
    /// Client id.
    pub client_id: String,
    /// Host address of the client.
    pub host: String,
    /// Subscribed topics.
    pub topics: Vec<String>,
    /// Assigned partitions.
    pub assignment: Vec<TopicPartition>,
}

/// Progress of a share group in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareOffset {
    /// Share-partition start offset: the first offset that has not been fully processed.
    pub start: i64,
    /// Leader epoch of the record at the start offset.
    pub leader_epoch: Option<i32>,
    /// Number of records that have not been fully processed; brokers before 4.2 do not report it.
    pub lag: Option<i64>,
}

/// Result for each partition of a share group; `None` if the group has no state there.
pub type ShareOffsets = Vec<(TopicPartition, Result<Option<ShareOffset>>)>;

fn partitions(topics: impl Iterator<Item = (String, Vec<i32>)>) -> Vec<TopicPartition> {
    let mut all: Vec<TopicPartition> = topics
        .flat_map(|(topic, partitions)| partitions.into_iter().map(move |p| TopicPartition::new(&*topic, p)))
        .collect();
    all.sort();
    all
}

impl Admin {
    /// Describes share groups. Returns a result for each group.
    ///
    /// # Errors
    /// Fails with an error that concerns the whole request. Errors of individual groups are returned in the list.
    pub async fn describe_share_groups(
        &self,
        groups: &[String],
        timeout: Duration,
    ) -> Result<PerGroup<ShareGroupDescription>> {
        let key = ApiKey::ShareGroupDescribe;
        let build = |batch: &RequestBatch<'_, String>| {
            Ok(ShareGroupDescribeRequest { group_ids: batch.items.to_vec(), ..Default::default() })
        };
        let member = |m: share::Member| ShareMember {
            member_id: m.member_id,
            rack: m.rack_id,
            epoch: m.member_epoch,
            client_id: m.client_id,
            host: m.client_host,
            topics: m.subscribed_topic_names,
            assignment: partitions(m.assignment.topic_partitions.into_iter().map(|t| (t.topic_name, t.partitions))),
        };
        let read = |_: &RequestBatch<'_, String>, response: ShareGroupDescribeResponse| {
            let read_group = |group: share::DescribedGroup| {
                let context = format!("group {}", group.group_id);
                let result = check_item(key, context, group.error_code, group.error_message.as_deref());
                let description = result.map(|()| {
                    let mut members: Vec<ShareMember> = group.members.into_iter().map(member).collect();
                    members.sort_by(|a, b| a.member_id.cmp(&b.member_id));
                    ShareGroupDescription {
                        state: group.group_state,
                        epoch: group.group_epoch,
                        assignment_epoch: group.assignment_epoch,
                        assignor: group.assignor_name,
                        members,
                    }
                });
                (group.group_id, description)
            };
            Ok(response.groups.into_iter().map(read_group).collect())
        };
        self.send_batched(&group_request(timeout), groups, build, read).await
    }

    /// Lists the offsets of share groups, either in the given partitions or in all partitions that have state. Returns
    /// a result for each group and for each partition.
    ///
    /// # Errors
    /// Fails with an error that concerns the whole request. Errors of individual groups are returned in the list.
    pub async fn list_share_offsets(
        &self,
        partitions: &BTreeMap<String, Option<Vec<TopicPartition>>>,
        timeout: Duration,
    ) -> Result<PerGroup<ShareOffsets>> {
        let key = ApiKey::DescribeShareGroupOffsets;
        let groups: Vec<String> = partitions.keys().cloned().collect();
        let build = |batch: &RequestBatch<'_, String>| {
            let group = |group: &String| {
                let selected = partitions.get(group).and_then(Option::as_ref);
                let topics = selected.map(|selected| {
                    let topics = by_topic(selected.iter().map(|tp| (tp.clone(), ()))).into_iter();
                    let topic = |(name, partitions): (std::sync::Arc<str>, Vec<(i32, ())>)| {
                        DescribeShareGroupOffsetsRequestTopic {
                            topic_name: name.to_string(),
                            partitions: partitions.into_iter().map(|(p, ())| p).collect(),
                            ..Default::default()
                        }
                    };
                    topics.map(topic).collect()
                });
                DescribeShareGroupOffsetsRequestGroup { group_id: group.clone(), topics, ..Default::default() }
            };
            let groups = batch.items.iter().map(group).collect();
            Ok(DescribeShareGroupOffsetsRequest { groups, ..Default::default() })
        };
        let read = |_: &RequestBatch<'_, String>, response: DescribeShareGroupOffsetsResponse| {
            let mut results = Vec::new();
            for group in response.groups {
                let context = format!("group {}", group.group_id);
                let outcome = check_item(key, &context, group.error_code, group.error_message.as_deref());
                let mut offsets = ShareOffsets::new();
                for topic in group.topics {
                    for p in topic.partitions {
                        let tp = TopicPartition::new(&*topic.topic_name, p.partition_index);
                        let result =
                            check_item(key, format!("{tp} for {context}"), p.error_code, p.error_message.as_deref());
                        let offset = ShareOffset {
                            start: p.start_offset,
                            leader_epoch: Some(p.leader_epoch).filter(|epoch| *epoch >= 0),
                            lag: Some(p.lag).filter(|lag| *lag >= 0),
                        };
                        offsets.push((tp, result.map(|()| Some(offset).filter(|offset| offset.start >= 0))));
                    }
                }
                offsets.sort_by(|(a, _), (b, _)| a.cmp(b));
                results.push((group.group_id, outcome.map(|()| offsets)));
            }
            Ok(results)
        };
        let (request, cluster) = (group_request(timeout), self.cluster.with_connections(ConnectionKind::Coordinator));
        let sending = self.send_batched_on(&cluster, &request, &groups, build, read);
        self.with_share_state("the offsets of share groups", timeout, sending).await
    }

    /// Sets the start offsets of a share group that has no members. Returns a result for each partition.
    ///
    /// # Errors
    /// Fails with an error of the whole group, or with a timeout that contains the last error.
    pub async fn alter_share_offsets(
        &self,
        group: &str,
        offsets: &BTreeMap<TopicPartition, i64>,
        timeout: Duration,
    ) -> Result<PerPartition> {
        let key = ApiKey::AlterShareGroupOffsets;
        let build = |_: &RequestBatch<'_, String>| {
            let partition = |(partition_index, start_offset)| AlterShareGroupOffsetsRequestPartition {
                partition_index,
                start_offset,
                ..Default::default()
            };
            let topics = by_topic(offsets.iter().map(|(tp, offset)| (tp.clone(), *offset))).into_iter().map(
                |(name, partitions)| AlterShareGroupOffsetsRequestTopic {
                    topic_name: name.to_string(),
                    partitions: partitions.into_iter().map(partition).collect(),
                    ..Default::default()
                },
            );
            Ok(AlterShareGroupOffsetsRequest {
                group_id: group.to_owned(),
                topics: topics.collect(),
                ..Default::default()
            })
        };
        let read = |_: &RequestBatch<'_, String>, response: AlterShareGroupOffsetsResponse| {
            let context = format!("group {group}");
            let result = check_item(key, &context, response.error_code, response.error_message.as_deref());
            let mut done = PerPartition::new();
            for topic in response.responses {
                for p in topic.partitions {
                    let tp = TopicPartition::new(&*topic.topic_name, p.partition_index);
                    let result =
                        check_item(key, format!("{tp} for {context}"), p.error_code, p.error_message.as_deref());
                    done.push((tp, result));
                }
            }
            Ok(vec![(group.to_owned(), result.map(|()| done))])
        };
        let (request, cluster, groups) =
            (group_request(timeout), self.cluster.with_connections(ConnectionKind::Coordinator), [group.to_owned()]);
        let sending = self.send_batched_on(&cluster, &request, &groups, build, read);
        let done = self.with_share_state(&format!("the offsets of share group {group}"), timeout, sending).await?;
        done.into_iter().next().map_or_else(|| Ok(Vec::new()), |(_, done)| done)
    }

    /// Deletes all offsets of a share group in the given topics. The group must have no members. Returns a result for
    /// each topic.
    ///
    /// # Errors
    /// Fails with an error of the whole group, or with a timeout that contains the last error.
    pub async fn delete_share_offsets(
        &self,
        group: &str,
        topics: &[String],
        timeout: Duration,
    ) -> Result<Vec<(String, Result<()>)>> {
        let key = ApiKey::DeleteShareGroupOffsets;
        let build = |_: &RequestBatch<'_, String>| {
            let topic =
                |name: &String| DeleteShareGroupOffsetsRequestTopic { topic_name: name.clone(), ..Default::default() };
            let topics = topics.iter().map(topic).collect();
            Ok(DeleteShareGroupOffsetsRequest { group_id: group.to_owned(), topics, ..Default::default() })
        };
        let read = |_: &RequestBatch<'_, String>, response: DeleteShareGroupOffsetsResponse| {
            let context = format!("group {group}");
            let result = check_item(key, &context, response.error_code, response.error_message.as_deref());
            let read_topic =
                |t: samsarrow_wire::messages::delete_share_group_offsets::DeleteShareGroupOffsetsResponseTopic| {
                    let context = format!("topic {} for {context}", t.topic_name);
                    (t.topic_name, check_item(key, context, t.error_code, t.error_message.as_deref()))
                };
            Ok(vec![(group.to_owned(), result.map(|()| response.responses.into_iter().map(read_topic).collect()))])
        };
        let (request, cluster, groups) =
            (group_request(timeout), self.cluster.with_connections(ConnectionKind::Coordinator), [group.to_owned()]);
        let sending = self.send_batched_on(&cluster, &request, &groups, build, read);
        let done = self.with_share_state(&format!("the offsets of share group {group}"), timeout, sending).await?;
        done.into_iter().next().map_or_else(|| Ok(Vec::new()), |(_, done)| done)
    }
}
