//! What is done to one group: offsets of partitions are deleted, members put out.

use std::collections::HashMap;
use std::time::Duration;

use samsarrow_wire::messages::leave_group::MemberIdentity;
use samsarrow_wire::messages::offset_delete::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use samsarrow_wire::messages::{
    ApiKey, LeaveGroupRequest, LeaveGroupResponse, OffsetDeleteRequest, OffsetDeleteResponse,
};
use tokio::time::Instant;

use super::batch::of_groups;
use super::engine::Asked;
use super::response_errors::check_of;
use super::{Admin, PerPartition};
use crate::error::{Error, Result};
use crate::offsets::by_topic;
use crate::types::TopicPartition;

/// From this version on several members leave at a time, and by their instance ids (KIP-345).
const MANY_MEMBERS: i16 = 3;

/// A member to put out: by its id, or by its instance id with an empty id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leaving {
    /// Its id, empty for a static member.
    pub member_id: String,
    /// What makes it a static member.
    pub instance_id: Option<String>,
}

impl Admin {
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
        let key = ApiKey::OffsetDelete;
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let build = |_: &Asked<'_, String>| {
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
        let read = |_: &Asked<'_, String>, response: OffsetDeleteResponse| {
            let said = check_of(key, format!("group {group}"), response.error_code, None);
            let mut outcomes: HashMap<TopicPartition, Result<()>> = HashMap::new();
            for topic in response.topics {
                for partition in topic.partitions {
                    let tp = TopicPartition::new(&*topic.name, partition.partition_index);
                    let outcome = check_of(key, format!("{tp} for group {group}"), partition.error_code, None);
                    outcomes.insert(tp, outcome);
                }
            }
            let outcome = |tp: &TopicPartition| {
                let silent = || format!("the answer to OffsetDelete for group {group} leaves out {tp}");
                let said = outcomes.remove(tp);
                (tp.clone(), said.unwrap_or_else(|| Err(Error::protocol("the coordinator", silent()))))
            };
            Ok(vec![(group.to_owned(), said.map(|()| partitions.iter().map(outcome).collect()))])
        };
        let done = self.settle(&of_groups(timeout), &[group.to_owned()], build, read).await?;
        done.into_iter().next().map_or_else(|| Ok(Vec::new()), |(_, done)| done)
    }

    /// Puts members out of a group, or all of them. Each has its own outcome.
    ///
    /// # Errors
    /// What the coordinator says of the group as a whole; a timeout with its cause.
    pub async fn remove_members(
        &self,
        group: &str,
        members: Option<&[Leaving]>,
        reason: &str,
        timeout: Duration,
    ) -> Result<Vec<(Leaving, Result<()>)>> {
        let key = ApiKey::LeaveGroup;
        let deadline = Instant::now() + timeout;
        let members = match members {
            Some(members) => members.to_vec(),
            None => {
                let described = self.describe_groups(&[group.to_owned()], false, timeout).await?;
                let found = described.into_iter().map(|(_, described)| described).collect::<Result<Vec<_>>>()?;
                let leaving =
                    found.into_iter().flat_map(|group| group.members).map(|member| match member.instance_id {
                        Some(id) => Leaving { member_id: String::new(), instance_id: Some(id) },
                        None => Leaving { member_id: member.member_id, instance_id: None },
                    });
                leaving.collect()
            }
        };
        if members.is_empty() {
            return Ok(Vec::new());
        }
        let build = |asked: &Asked<'_, String>| {
            let mut request = LeaveGroupRequest { group_id: group.to_owned(), ..Default::default() };
            match members.as_slice() {
                [one] if asked.version < MANY_MEMBERS && one.instance_id.is_none() => {
                    request.member_id.clone_from(&one.member_id);
                }
                members => {
                    let member = |member: &Leaving| MemberIdentity {
                        member_id: member.member_id.clone(),
                        group_instance_id: member.instance_id.clone(),
                        reason: Some(reason.to_owned()),
                        ..Default::default()
                    };
                    request.members = members.iter().map(member).collect();
                }
            }
            Ok(request)
        };
        let read = |asked: &Asked<'_, String>, response: LeaveGroupResponse| {
            let said = check_of(key, format!("group {group}"), response.error_code, None);
            let told: HashMap<Leaving, i16> = response
                .members
                .into_iter()
                .map(|m| (Leaving { member_id: m.member_id, instance_id: m.group_instance_id }, m.error_code))
                .collect();
            let outcome = |member: &Leaving| {
                let name = member.instance_id.as_deref().unwrap_or(&member.member_id);
                let what = format!("member {name} of group {group}");
                // An answer may name a static member's id, which was not asked for.
                let by_instance =
                    || told.iter().find(|(m, _)| m.instance_id.is_some() && m.instance_id == member.instance_id);
                let code = told.get(member).or_else(|| by_instance().map(|(_, code)| code)).copied();
                let said = match code {
                    Some(code) => check_of(key, what, code, None),
                    None if asked.version < MANY_MEMBERS => Ok(()),
                    None => Err(Error::protocol("the coordinator", format!("the answer leaves out {what}"))),
                };
                (member.clone(), said)
            };
            Ok(vec![(group.to_owned(), said.map(|()| members.iter().map(outcome).collect()))])
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let done = self.settle(&of_groups(left), &[group.to_owned()], build, read).await?;
        done.into_iter().next().map_or_else(|| Ok(Vec::new()), |(_, done)| done)
    }
}
