//! Groups: listed, described, deleted, with both protocols; single offsets deleted.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::consumer_group_describe::{self as modern, ConsumerGroupDescribeResponse};
use samsarrow_wire::messages::consumer_protocol::ConsumerProtocolAssignment;
use samsarrow_wire::messages::describe_groups::{self as classic, DescribeGroupsResponse};
use samsarrow_wire::messages::offset_delete::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use samsarrow_wire::messages::{
    ConsumerGroupDescribeRequest, DeleteGroupsRequest, DeleteGroupsResponse, DescribeGroupsRequest, ListGroupsRequest,
    OffsetDeleteRequest, OffsetDeleteResponse,
};
use tokio::time::Instant;

use super::coordinators::{Said, left_out, passing};
use super::{Admin, PerGroup, PerPartition};
use crate::error::{Error, Result};
use crate::group::coordinator::{Coordinator, Verdict};
use crate::offsets::by_topic;
use crate::retry::Retry;
use crate::types::TopicPartition;

/// A group that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupListing {
    /// Its name.
    pub group: String,
    /// `consumer` for groups of consumers, empty for one that has only offsets.
    pub protocol_type: String,
    /// `Stable`, `Empty` and so on; brokers before 2.6 do not tell.
    pub state: Option<String>,
    /// `classic`, `consumer`, `share`; brokers before 3.8 do not tell.
    pub kind: Option<String>,
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
    /// All groups of all brokers, in the order of their names.
    ///
    /// # Errors
    /// When a broker cannot be asked within `timeout`: without it the list would lack its groups.
    pub async fn list_groups(&self, timeout: Duration) -> Result<Vec<GroupListing>> {
        let mut retry = Retry::new(self.cluster.options(), timeout);
        let mut asked: HashSet<i32> = HashSet::new();
        let mut groups: BTreeMap<String, GroupListing> = BTreeMap::new();
        loop {
            let limit = retry.left().min(self.cluster.options().request_timeout);
            let mut failure = self.cluster.refresh(limit).await.err();
            let brokers: Vec<i32> = self.cluster.metadata().brokers.keys().copied().collect();
            for node in brokers.iter().filter(|node| !asked.contains(node)).collect::<Vec<_>>() {
                match self.list_groups_of(*node, limit).await {
                    Ok(found) => {
                        asked.insert(*node);
                        groups.extend(found.into_iter().map(|group| (group.group.clone(), group)));
                    }
                    Err(error) if error.retriable() => failure = Some(error),
                    Err(error) => return Err(error),
                }
            }
            let failure = match failure {
                Some(failure) => failure,
                None if !brokers.is_empty() => return Ok(groups.into_values().collect()),
                None => Error::server(ErrorCode::BROKER_NOT_AVAILABLE, "Metadata"),
            };
            retry.again(failure, || "list of groups".to_owned()).await?;
        }
    }

    async fn list_groups_of(&self, node: i32, limit: Duration) -> Result<Vec<GroupListing>> {
        let answer = self.cluster.send(node, ListGroupsRequest::default(), limit).await?;
        let context = || format!("ListGroups of broker {node}");
        ErrorCode::from_i16(answer.error_code).ok().map_err(|code| Error::server(code, context()))?;
        let told = |text: String| Some(text).filter(|text| !text.is_empty());
        let groups = answer.groups.into_iter().map(|group| GroupListing {
            group: group.group_id,
            protocol_type: group.protocol_type,
            state: told(group.group_state),
            kind: told(group.group_type).map(|kind| kind.to_lowercase()),
        });
        Ok(groups.collect())
    }

    /// State and members of groups, whichever protocol they have; each group has its own outcome.
    ///
    /// # Errors
    /// What is not about one group.
    pub async fn describe_groups(&self, groups: &[String], timeout: Duration) -> Result<PerGroup<GroupDescription>> {
        let deadline = Instant::now() + timeout;
        let build =
            |_, some: &[String]| Ok(ConsumerGroupDescribeRequest { group_ids: some.to_vec(), ..Default::default() });
        let asked = self.at_coordinators(&self.cluster, groups, 0, timeout, build, read_modern).await;
        let mut done: HashMap<String, Result<GroupDescription>> = match asked {
            Ok(found) => found.into_iter().filter(|(_, said)| !is_classic(said)).collect(),
            // A broker that knows only classic groups.
            Err(Error::UnsupportedVersion(_)) => HashMap::new(),
            Err(error) => return Err(error),
        };
        let rest: Vec<String> = groups.iter().filter(|group| !done.contains_key(*group)).cloned().collect();
        if !rest.is_empty() {
            let build = |_, some: &[String]| Ok(DescribeGroupsRequest { groups: some.to_vec(), ..Default::default() });
            let left = deadline.saturating_duration_since(Instant::now());
            done.extend(self.at_coordinators(&self.cluster, &rest, 0, left, build, read_classic).await?);
        }
        Ok(groups.iter().filter_map(|group| done.remove_entry(group)).collect())
    }

    /// Deletes groups without members, and their offsets; each group has its own outcome.
    ///
    /// # Errors
    /// What is not about one group.
    pub async fn delete_groups(&self, groups: &[String], timeout: Duration) -> Result<PerGroup<()>> {
        let build = |_, some: &[String]| Ok(DeleteGroupsRequest { groups_names: some.to_vec(), ..Default::default() });
        let read = |_, response: DeleteGroupsResponse, some: &[String]| {
            let said = response.results.into_iter().map(|result| {
                let context = format!("DeleteGroups of group {}", result.group_id);
                let said = ErrorCode::from_i16(result.error_code).ok().map_err(|code| (code, context));
                (result.group_id, said)
            });
            complete("DeleteGroups", said.collect(), some)
        };
        self.at_coordinators(&self.cluster, groups, 0, timeout, build, read).await
    }

    /// Deletes a group's offsets of single partitions. Each has its own outcome, in the order of `partitions`.
    ///
    /// # Errors
    /// What the coordinator says of the group as a whole; a timeout with its cause.
    pub async fn delete_offsets(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<PerPartition> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let build = |_| {
            let partition =
                |(partition_index, ())| OffsetDeleteRequestPartition { partition_index, ..Default::default() };
            let topic = |(name, its): (std::sync::Arc<str>, Vec<(i32, ())>)| OffsetDeleteRequestTopic {
                name: name.to_string(),
                partitions: its.into_iter().map(partition).collect(),
                ..Default::default()
            };
            let topics = by_topic(partitions.iter().map(|tp| (tp.clone(), ()))).into_iter().map(topic).collect();
            Ok(OffsetDeleteRequest { group_id: group.to_owned(), topics, ..Default::default() })
        };
        let judge = |_, response: OffsetDeleteResponse| {
            if let Err(code) = ErrorCode::from_i16(response.error_code).ok() {
                return Verdict::of(code, &format!("OffsetDelete for group {group}"));
            }
            let mut outcomes: HashMap<TopicPartition, Result<()>> = HashMap::new();
            for topic in response.topics {
                for partition in topic.partitions {
                    let tp = TopicPartition::new(&*topic.name, partition.partition_index);
                    let context = format!("OffsetDelete of {tp} for group {group}");
                    let code = ErrorCode::from_i16(partition.error_code);
                    outcomes.insert(tp, code.ok().map_err(|code| Error::server(code, context)));
                }
            }
            let outcome = |tp: &TopicPartition| {
                let silent = || format!("the answer to OffsetDelete for group {group} leaves out {tp}");
                let said = outcomes.remove(tp);
                (tp.clone(), said.unwrap_or_else(|| Err(Error::protocol("the coordinator", silent()))))
            };
            Ok(Verdict::Done(partitions.iter().map(outcome).collect()))
        };
        Coordinator::new(self.cluster.clone(), group).call(timeout, build, judge).await
    }
}

/// How a coordinator says that a group is none of its own kind.
fn is_classic(said: &Result<GroupDescription>) -> bool {
    let code = said.as_ref().err().and_then(Error::code);
    [ErrorCode::GROUP_ID_NOT_FOUND, ErrorCode::UNSUPPORTED_VERSION].iter().any(|none| code == Some(none.code()))
}

/// Whether every group was answered.
fn complete<T>(api: &str, said: Vec<(String, Said<T>)>, asked: &[String]) -> Result<Vec<(String, Said<T>)>> {
    match asked.iter().find(|group| !said.iter().any(|(answered, _)| answered == *group)) {
        Some(group) => Err(left_out(api, group)),
        None => Ok(said),
    }
}

fn failed(api: &str, group: &str, code: i16, message: Option<String>) -> std::result::Result<(), (ErrorCode, String)> {
    ErrorCode::from_i16(code).ok().map_err(|code| match message.filter(|text| !text.is_empty()) {
        Some(text) if !passing(code) => (code, format!("{api} of group {group} ({text})")),
        _ => (code, format!("{api} of group {group}")),
    })
}

fn read_modern(
    _: i16,
    response: ConsumerGroupDescribeResponse,
    asked: &[String],
) -> Result<Vec<(String, Said<GroupDescription>)>> {
    let api = "ConsumerGroupDescribe";
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
        let said = failed(api, &group.group_id, group.error_code, group.error_message).map(|()| GroupDescription {
            kind: "consumer",
            state: group.group_state,
            protocol_type: "consumer".into(),
            assignor: group.assignor_name,
            members: in_order(group.members.into_iter().map(member)),
        });
        (group.group_id, said)
    });
    complete(api, said.collect(), asked)
}

fn read_classic(
    _: i16,
    response: DescribeGroupsResponse,
    asked: &[String],
) -> Result<Vec<(String, Said<GroupDescription>)>> {
    let api = "DescribeGroups";
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
        let said = failed(api, &group.group_id, code, group.error_message).map(|()| GroupDescription {
            kind: "classic",
            state: group.group_state,
            protocol_type: group.protocol_type,
            assignor: group.protocol_data,
            members: in_order(group.members.into_iter().map(member)),
        });
        (group.group_id, said)
    });
    complete(api, said.collect(), asked)
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
