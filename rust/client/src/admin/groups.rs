//! Operations on groups of all types: list, describe, delete and look up the coordinator.

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::consumer_group_describe::{self as modern, ConsumerGroupDescribeResponse};
use samsarrow_wire::messages::consumer_protocol::ConsumerProtocolAssignment;
use samsarrow_wire::messages::describe_groups::{self as classic, DescribeGroupsResponse};
use samsarrow_wire::messages::{
    ApiKey, ConsumerGroupDescribeRequest, DeleteGroupsRequest, DeleteGroupsResponse, DescribeGroupsRequest,
    ListGroupsRequest, ListGroupsResponse,
};
use tokio::time::Instant;

use super::authorized_operations::operations;
use super::batch::{BatchedRequest, Route, group_request};
use super::engine::RequestBatch;
use super::response_errors::check;
use super::{AclOperation, Admin, PerGroup};
use crate::cluster::find_coordinator::{CoordinatorType, Node, find_coordinator};
use crate::collections::HashMap;
use crate::error::{Error, Result};
use crate::retry::Retry;
use crate::types::TopicPartition;

/// Listed group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupListing {
    /// Group id.
    pub group: String,
    /// Protocol type: `consumer` for consumer groups, empty for a group that has only committed offsets.
    pub protocol_type: String,
    /// State, such as `Stable` or `Empty`; brokers before 2.6 do not report it.
    pub state: Option<String>,
    /// Group type, such as `classic`, `consumer` or `share`; brokers before 3.8 do not report it.
    pub kind: Option<String>,
}

/// Filter of listed groups. An empty list matches all groups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupFilter {
    /// States, such as `Stable` or `Empty`. Case is ignored (KIP-518).
    pub states: Vec<String>,
    /// Group types: `classic`, `consumer`, `share`, `streams`. Case is ignored (KIP-848).
    pub kinds: Vec<String>,
    /// Protocol types: `consumer` for consumer groups, empty for groups that have only committed offsets. The client
    /// applies this filter, not the brokers.
    pub protocol_types: Vec<String>,
}

/// Description of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDescription {
    /// Group type: `classic`, or `consumer` for the protocol of KIP-848.
    pub kind: &'static str,
    /// State, such as `Stable` or `Empty`.
    pub state: String,
    /// Protocol type: `consumer` for consumer groups, empty for a group that has only committed offsets.
    pub protocol_type: String,
    /// Name of the assignor; empty if the group has no members.
    pub assignor: String,
    /// Members, sorted by member id.
    pub members: Vec<MemberDescription>,
    /// Authorized operations on the group, if requested.
    pub operations: Option<Vec<AclOperation>>,
}

/// Description of a group member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberDescription {
    /// Member id.
    pub member_id: String,
    /// Instance id of a static member.
    pub instance_id: Option<String>,
    /// Client id.
    pub client_id: String,
    /// Host address of the client.
    pub host: String,
    /// Assigned partitions.
    pub assignment: Vec<TopicPartition>,
    /// Target assignment; `None` for groups of the classic protocol.
    pub target: Option<Vec<TopicPartition>>,
}

impl Admin {
    /// Lists the groups of all brokers that match `filter`, sorted by group id.
    ///
    /// # Errors
    /// Fails if a broker cannot be reached within `timeout`, because its groups would be missing from the list, and
    /// with `UnsupportedVersion` if a broker is too old for the filter.
    pub async fn list_groups(&self, filter: &GroupFilter, timeout: Duration) -> Result<Vec<GroupListing>> {
        self.cluster.check_endpoint(ApiKey::ListGroups)?;
        let deadline = Instant::now() + timeout;
        let brokers = self.brokers(timeout).await?;
        let read = |batch: &RequestBatch<'_, i32>, response: ListGroupsResponse| {
            let broker = batch.items.first().copied().unwrap_or_default();
            let result =
                check(response.error_code, None, &format!("ListGroups of broker {broker}"), ApiKey::ListGroups);
            Ok(vec![(broker, result.map(|()| response.groups))])
        };
        let request = BatchedRequest {
            describe: |broker| format!("broker {broker}"),
            ..BatchedRequest::new(Route::Broker(|broker| *broker), deadline.saturating_duration_since(Instant::now()))
        };
        let build = |_: &RequestBatch<'_, i32>| {
            let (states_filter, types_filter) = (filter.states.clone(), filter.kinds.clone());
            Ok(ListGroupsRequest { states_filter, types_filter, ..Default::default() })
        };
        let matches = |kind: &String| filter.protocol_types.is_empty() || filter.protocol_types.contains(kind);
        let non_empty = |text: String| Some(text).filter(|text| !text.is_empty());
        let mut groups: BTreeMap<String, GroupListing> = BTreeMap::new();
        for (broker, listed) in self.send_batched(&request, &brokers, build, read).await? {
            // A broker that has left the cluster has no groups, so its error is ignored.
            let gone = || !self.cluster.metadata().brokers.contains_key(&broker);
            let listed = match listed {
                Err(_) if gone() => continue,
                listed => listed?,
            };
            groups.extend(listed.into_iter().filter(|group| matches(&group.protocol_type)).map(|group| {
                let listing = GroupListing {
                    group: group.group_id.clone(),
                    protocol_type: group.protocol_type,
                    state: non_empty(group.group_state),
                    kind: non_empty(group.group_type).map(|kind| kind.to_lowercase()),
                };
                (group.group_id, listing)
            }));
        }
        Ok(groups.into_values().collect())
    }

    /// Describes groups of the classic and the new protocol, and returns a result for each group. With `operations`,
    /// the descriptions contain the authorized operations.
    ///
    /// # Errors
    /// Fails with an error that concerns the whole request. Errors of individual groups are returned in the list.
    pub async fn describe_groups(
        &self,
        groups: &[String],
        operations: bool,
        timeout: Duration,
    ) -> Result<PerGroup<GroupDescription>> {
        let deadline = Instant::now() + timeout;
        let build = |batch: &RequestBatch<'_, String>| {
            Ok(ConsumerGroupDescribeRequest {
                group_ids: batch.items.to_vec(),
                include_authorized_operations: operations,
                ..Default::default()
            })
        };
        let result = self.send_batched(&group_request(timeout), groups, build, read_modern).await;
        let mut done: HashMap<String, Result<GroupDescription>> = match result {
            Ok(described) => described.into_iter().filter(|(_, result)| !is_classic(result)).collect(),
            // The broker supports only the classic protocol.
            Err(Error::UnsupportedVersion(_)) => HashMap::default(),
            Err(error) => return Err(error),
        };
        let rest: Vec<String> = groups.iter().filter(|group| !done.contains_key(*group)).cloned().collect();
        if !rest.is_empty() {
            let build = |batch: &RequestBatch<'_, String>| {
                Ok(DescribeGroupsRequest {
                    groups: batch.items.to_vec(),
                    include_authorized_operations: operations,
                    ..Default::default()
                })
            };
            let remaining = deadline.saturating_duration_since(Instant::now());
            done.extend(self.send_batched(&group_request(remaining), &rest, build, read_classic).await?);
        }
        Ok(groups.iter().filter_map(|group| done.remove_entry(group)).collect())
    }

    /// Deletes groups without members, together with their committed offsets. Returns a result for each group.
    ///
    /// # Errors
    /// Fails with an error that concerns the whole request. Errors of individual groups are returned in the list.
    pub async fn delete_groups(&self, groups: &[String], timeout: Duration) -> Result<PerGroup<()>> {
        let build = |batch: &RequestBatch<'_, String>| {
            Ok(DeleteGroupsRequest { groups_names: batch.items.to_vec(), ..Default::default() })
        };
        let read = |_: &RequestBatch<'_, String>, response: DeleteGroupsResponse| {
            let results = response.results.into_iter().map(|result| {
                let context = format!("DeleteGroups of group {}", result.group_id);
                let message = result.error_message.as_deref();
                let outcome = check(result.error_code, message, &context, ApiKey::DeleteGroups);
                (result.group_id, outcome)
            });
            Ok(results.collect())
        };
        self.send_batched(&group_request(timeout), groups, build, read).await
    }

    /// Returns the coordinator of a group.
    ///
    /// # Errors
    /// Fails with the error that a broker returns for the group, or with a timeout that contains the last error.
    pub async fn find_coordinator(&self, group: &str, timeout: Duration) -> Result<Node> {
        self.cluster.check_endpoint(ApiKey::FindCoordinator)?;
        let options = self.cluster.options();
        let mut retry = Retry::new(options, timeout);
        loop {
            let limit = retry.left().min(options.request_timeout);
            match find_coordinator(&self.cluster, CoordinatorType::Group, group, limit).await {
                Ok(node) => return Ok(node),
                Err(error) => retry.again(error, || format!("the coordinator of group {group}")).await?,
            }
        }
    }
}

/// Returns true for the errors that a coordinator returns if the group does not use the protocol of KIP-848.
fn is_classic(result: &Result<GroupDescription>) -> bool {
    let code = result.as_ref().err().and_then(Error::code);
    [ErrorCode::GROUP_ID_NOT_FOUND, ErrorCode::UNSUPPORTED_VERSION].iter().any(|expected| code == Some(expected.code()))
}

fn check_group(key: ApiKey, group: &str, code: i16, message: Option<&str>) -> Result<()> {
    check(code, message, &format!("{} of group {group}", key.name()), key)
}

fn read_modern(
    _: &RequestBatch<'_, String>,
    response: ConsumerGroupDescribeResponse,
) -> Result<PerGroup<GroupDescription>> {
    let api = ApiKey::ConsumerGroupDescribe;
    let assignment = |assignment: modern::Assignment| {
        let topics = assignment.topic_partitions.into_iter().map(|topic| (topic.topic_name, topic.partitions));
        partitions(topics)
    };
    let member = |member: modern::Member| MemberDescription {
        member_id: member.member_id,
        instance_id: member.instance_id,
        client_id: member.client_id,
        host: member.client_host,
        assignment: assignment(member.assignment),
        target: Some(assignment(member.target_assignment)),
    };
    let groups = response.groups.into_iter().map(|group| {
        let description =
            check_group(api, &group.group_id, group.error_code, group.error_message.as_deref()).map(|()| {
                GroupDescription {
                    kind: "consumer",
                    state: group.group_state,
                    protocol_type: "consumer".into(),
                    assignor: group.assignor_name,
                    members: sorted(group.members.into_iter().map(member)),
                    operations: operations(group.authorized_operations),
                }
            });
        (group.group_id, description)
    });
    Ok(groups.collect())
}

fn read_classic(_: &RequestBatch<'_, String>, response: DescribeGroupsResponse) -> Result<PerGroup<GroupDescription>> {
    let api = ApiKey::DescribeGroups;
    let groups = response.groups.into_iter().map(|group| {
        // Versions before 6 report a group that does not exist with the state `Dead`.
        let code = if group.error_code == 0 && group.group_state == "Dead" {
            ErrorCode::GROUP_ID_NOT_FOUND.code()
        } else {
            group.error_code
        };
        // The assignment of other protocol types has another format and is not decoded.
        let consumers = group.protocol_type == "consumer";
        let member = |member: classic::DescribedGroupMember| MemberDescription {
            member_id: member.member_id,
            instance_id: member.group_instance_id,
            client_id: member.client_id,
            host: member.client_host,
            assignment: match ConsumerProtocolAssignment::from_bytes(member.member_assignment) {
                Ok(assignment) if consumers => {
                    partitions(assignment.assigned_partitions.into_iter().map(|topic| (topic.topic, topic.partitions)))
                }
                _ => Vec::new(),
            },
            target: None,
        };
        let description =
            check_group(api, &group.group_id, code, group.error_message.as_deref()).map(|()| GroupDescription {
                kind: "classic",
                state: group.group_state,
                protocol_type: group.protocol_type,
                assignor: group.protocol_data,
                members: sorted(group.members.into_iter().map(member)),
                operations: operations(group.authorized_operations),
            });
        (group.group_id, description)
    });
    Ok(groups.collect())
}

fn partitions(topics: impl Iterator<Item = (String, Vec<i32>)>) -> Vec<TopicPartition> {
    let mut all: Vec<TopicPartition> = topics
        .flat_map(|(topic, partitions)| partitions.into_iter().map(move |p| TopicPartition::new(topic.as_str(), p)))
        .collect();
    all.sort();
    all
}

fn sorted(members: impl Iterator<Item = MemberDescription>) -> Vec<MemberDescription> {
    let mut members: Vec<_> = members.collect();
    members.sort_by(|a, b| a.member_id.cmp(&b.member_id));
    members
}
