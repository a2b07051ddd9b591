//! Groups: listed, described, deleted, with both protocols.

use std::collections::{BTreeMap, HashMap};
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
use super::batch::{Route, Work, of_groups};
use super::engine::Asked;
use super::response_errors::check;
use super::{AclOperation, Admin, PerGroup};
use crate::error::{Error, Result};
use crate::types::TopicPartition;

/// A group that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupListing {
    /// Its name.
    pub group: String,
    /// `consumer` for groups of consumers, empty for one that has only offsets.
    pub protocol_type: String,
    /// `Stable`, `Empty` and so on; brokers before 2.6 do not report it.
    pub state: Option<String>,
    /// `classic`, `consumer`, `share`; brokers before 3.8 do not report it.
    pub kind: Option<String>,
}

/// Which groups to list; an empty list lets all pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupFilter {
    /// `Stable`, `Empty` and so on, in any case (KIP-518).
    pub states: Vec<String>,
    /// `classic`, `consumer`, `share`, `streams`, in any case (KIP-848).
    pub kinds: Vec<String>,
    /// `consumer` for groups of consumers, empty for one that has only offsets. Brokers do not know this filter.
    pub protocol_types: Vec<String>,
}

/// What a coordinator knows of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDescription {
    /// `classic`, or `consumer` for one whose coordinator assigns (KIP-848).
    pub kind: &'static str,
    /// `Stable`, `Empty` and so on.
    pub state: String,
    /// `consumer` for groups of consumers, empty for one that has only offsets.
    pub protocol_type: String,
    /// Who assigns, by name; empty without members.
    pub assignor: String,
    /// In the order of their ids.
    pub members: Vec<MemberDescription>,
    /// What may be done with it, where that was asked for.
    pub operations: Option<Vec<AclOperation>>,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberDescription {
    /// Its id.
    pub member_id: String,
    /// What makes it a static member.
    pub instance_id: Option<String>,
    /// What the client calls itself.
    pub client_id: String,
    /// Where it is.
    pub host: String,
    /// What it has.
    pub assignment: Vec<TopicPartition>,
    /// What it is going to have, in groups whose coordinator assigns.
    pub target: Option<Vec<TopicPartition>>,
}

impl Admin {
    /// The groups of all brokers that `filter` lets pass, in the order of their names.
    ///
    /// # Errors
    /// When a broker cannot be asked within `timeout`: without it the list would lack its groups. When one is too old for
    /// the filter.
    pub async fn list_groups(&self, filter: &GroupFilter, timeout: Duration) -> Result<Vec<GroupListing>> {
        self.cluster.check_endpoint(ApiKey::ListGroups)?;
        let deadline = Instant::now() + timeout;
        let brokers = self.brokers(timeout).await?;
        let read = |asked: &Asked<'_, i32>, answer: ListGroupsResponse| {
            let broker = asked.items.first().copied().unwrap_or_default();
            let said = check(answer.error_code, None, &format!("ListGroups of broker {broker}"), ApiKey::ListGroups);
            Ok(vec![(broker, said.map(|()| answer.groups))])
        };
        let work = Work {
            what: |broker| format!("broker {broker}"),
            ..Work::new(Route::Broker(|broker| *broker), deadline.saturating_duration_since(Instant::now()))
        };
        let build = |_: &Asked<'_, i32>| {
            let (states_filter, types_filter) = (filter.states.clone(), filter.kinds.clone());
            Ok(ListGroupsRequest { states_filter, types_filter, ..Default::default() })
        };
        let passes = |kind: &String| filter.protocol_types.is_empty() || filter.protocol_types.contains(kind);
        let told = |text: String| Some(text).filter(|text| !text.is_empty());
        let mut groups: BTreeMap<String, GroupListing> = BTreeMap::new();
        for (broker, listed) in self.settle(&work, &brokers, build, read).await? {
            // One that left the cluster has no groups any more.
            let gone = || !self.cluster.metadata().brokers.contains_key(&broker);
            let listed = match listed {
                Err(_) if gone() => continue,
                listed => listed?,
            };
            groups.extend(listed.into_iter().filter(|group| passes(&group.protocol_type)).map(|group| {
                let listing = GroupListing {
                    group: group.group_id.clone(),
                    protocol_type: group.protocol_type,
                    state: told(group.group_state),
                    kind: told(group.group_type).map(|kind| kind.to_lowercase()),
                };
                (group.group_id, listing)
            }));
        }
        Ok(groups.into_values().collect())
    }

    /// State and members of groups, whichever protocol they have, with `operations` what may be done with them; each
    /// group has its own outcome.
    ///
    /// # Errors
    /// What is not about one group.
    pub async fn describe_groups(
        &self,
        groups: &[String],
        operations: bool,
        timeout: Duration,
    ) -> Result<PerGroup<GroupDescription>> {
        let deadline = Instant::now() + timeout;
        let build = |asked: &Asked<'_, String>| {
            Ok(ConsumerGroupDescribeRequest {
                group_ids: asked.items.to_vec(),
                include_authorized_operations: operations,
                ..Default::default()
            })
        };
        let asked = self.settle(&of_groups(timeout), groups, build, read_modern).await;
        let mut done: HashMap<String, Result<GroupDescription>> = match asked {
            Ok(found) => found.into_iter().filter(|(_, said)| !is_classic(said)).collect(),
            // A broker that knows only classic groups.
            Err(Error::UnsupportedVersion(_)) => HashMap::new(),
            Err(error) => return Err(error),
        };
        let rest: Vec<String> = groups.iter().filter(|group| !done.contains_key(*group)).cloned().collect();
        if !rest.is_empty() {
            let build = |asked: &Asked<'_, String>| {
                Ok(DescribeGroupsRequest {
                    groups: asked.items.to_vec(),
                    include_authorized_operations: operations,
                    ..Default::default()
                })
            };
            let left = deadline.saturating_duration_since(Instant::now());
            done.extend(self.settle(&of_groups(left), &rest, build, read_classic).await?);
        }
        Ok(groups.iter().filter_map(|group| done.remove_entry(group)).collect())
    }

    /// Deletes groups without members, and their offsets; each group has its own outcome.
    ///
    /// # Errors
    /// What is not about one group.
    pub async fn delete_groups(&self, groups: &[String], timeout: Duration) -> Result<PerGroup<()>> {
        let build = |asked: &Asked<'_, String>| {
            Ok(DeleteGroupsRequest { groups_names: asked.items.to_vec(), ..Default::default() })
        };
        let read = |_: &Asked<'_, String>, response: DeleteGroupsResponse| {
            let said = response.results.into_iter().map(|result| {
                let asked = format!("DeleteGroups of group {}", result.group_id);
                let said = check(result.error_code, None, &asked, ApiKey::DeleteGroups);
                (result.group_id, said)
            });
            Ok(said.collect())
        };
        self.settle(&of_groups(timeout), groups, build, read).await
    }
}

/// How a coordinator says that a group is none of its own kind.
fn is_classic(said: &Result<GroupDescription>) -> bool {
    let code = said.as_ref().err().and_then(Error::code);
    [ErrorCode::GROUP_ID_NOT_FOUND, ErrorCode::UNSUPPORTED_VERSION].iter().any(|none| code == Some(none.code()))
}

fn failed(key: ApiKey, group: &str, code: i16, message: Option<&str>) -> Result<()> {
    check(code, message, &format!("{} of group {group}", key.name()), key)
}

fn read_modern(_: &Asked<'_, String>, response: ConsumerGroupDescribeResponse) -> Result<PerGroup<GroupDescription>> {
    let api = ApiKey::ConsumerGroupDescribe;
    let assignment = |given: modern::Assignment| {
        let topics = given.topic_partitions.into_iter().map(|topic| (topic.topic_name, topic.partitions));
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
    let said = response.groups.into_iter().map(|group| {
        let said =
            failed(api, &group.group_id, group.error_code, group.error_message.as_deref()).map(|()| GroupDescription {
                kind: "consumer",
                state: group.group_state,
                protocol_type: "consumer".into(),
                assignor: group.assignor_name,
                members: in_order(group.members.into_iter().map(member)),
                operations: operations(group.authorized_operations),
            });
        (group.group_id, said)
    });
    Ok(said.collect())
}

fn read_classic(_: &Asked<'_, String>, response: DescribeGroupsResponse) -> Result<PerGroup<GroupDescription>> {
    let api = ApiKey::DescribeGroups;
    let said = response.groups.into_iter().map(|group| {
        // How versions before 6 say that there is no such group.
        let code = if group.error_code == 0 && group.group_state == "Dead" {
            ErrorCode::GROUP_ID_NOT_FOUND.code()
        } else {
            group.error_code
        };
        // What other members than consumers carry means nothing to us.
        let consumers = group.protocol_type == "consumer";
        let member = |member: classic::DescribedGroupMember| MemberDescription {
            member_id: member.member_id,
            instance_id: member.group_instance_id,
            client_id: member.client_id,
            host: member.client_host,
            assignment: match ConsumerProtocolAssignment::from_bytes(member.member_assignment) {
                Ok(given) if consumers => {
                    partitions(given.assigned_partitions.into_iter().map(|topic| (topic.topic, topic.partitions)))
                }
                _ => Vec::new(),
            },
            target: None,
        };
        let said = failed(api, &group.group_id, code, group.error_message.as_deref()).map(|()| GroupDescription {
            kind: "classic",
            state: group.group_state,
            protocol_type: group.protocol_type,
            assignor: group.protocol_data,
            members: in_order(group.members.into_iter().map(member)),
            operations: operations(group.authorized_operations),
        });
        (group.group_id, said)
    });
    Ok(said.collect())
}

fn partitions(topics: impl Iterator<Item = (String, Vec<i32>)>) -> Vec<TopicPartition> {
    let mut all: Vec<TopicPartition> =
        topics.flat_map(|(topic, its)| its.into_iter().map(move |p| TopicPartition::new(topic.as_str(), p))).collect();
    all.sort();
    all
}

fn in_order(members: impl Iterator<Item = MemberDescription>) -> Vec<MemberDescription> {
    let mut members: Vec<_> = members.collect();
    members.sort_by(|a, b| a.member_id.cmp(&b.member_id));
    members
}
