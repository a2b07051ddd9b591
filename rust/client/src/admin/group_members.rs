//! Operations on one group: deletion of its offsets and removal of its members.

use std::time::Duration;

use samsarrow_wire::messages::leave_group::MemberIdentity;
use samsarrow_wire::messages::offset_delete::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use samsarrow_wire::messages::{
    ApiKey, LeaveGroupRequest, LeaveGroupResponse, OffsetDeleteRequest, OffsetDeleteResponse,
};
use tokio::time::Instant;

use super::batch::group_request;
use super::engine::RequestBatch;
use super::response_errors::check_item;
use super::{Admin, PerPartition};
use crate::collections::HashMap;
use crate::error::{Error, Result};
use crate::offsets::by_topic;
use crate::types::TopicPartition;

/// First version of LeaveGroup that supports several members and instance ids (KIP-345).
const MANY_MEMBERS: i16 = 3;

/// Member to remove, named by its member id or, if the member id is empty, by its instance id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RemovedMember {
    /// Member id; empty for a static member.
    pub member_id: String,
    /// Instance id of a static member.
    pub instance_id: Option<String>,
}

impl Admin {
    /// Deletes the offsets that a group has committed for some partitions. Returns a result for each partition, in the
    /// order of `partitions`.
    ///
    /// # Errors
    /// Fails with an error of the whole group, or with a timeout that contains the last error.
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
        let build = |_: &RequestBatch<'_, String>| {
            let partition =
                |(partition_index, ())| OffsetDeleteRequestPartition { partition_index, ..Default::default() };
            let topic = |(name, partitions): (std::sync::Arc<str>, Vec<(i32, ())>)| OffsetDeleteRequestTopic {
                name: name.to_string(),
                partitions: partitions.into_iter().map(partition).collect(),
                ..Default::default()
            };
            let topics = by_topic(partitions.iter().map(|tp| (tp.clone(), ()))).into_iter().map(topic).collect();
            Ok(OffsetDeleteRequest { group_id: group.to_owned(), topics, ..Default::default() })
        };
        let read = |_: &RequestBatch<'_, String>, response: OffsetDeleteResponse| {
            let result = check_item(key, format!("group {group}"), response.error_code, None);
            let mut outcomes: HashMap<TopicPartition, Result<()>> = HashMap::default();
            for topic in response.topics {
                for partition in topic.partitions {
                    let tp = TopicPartition::new(&*topic.name, partition.partition_index);
                    let outcome = check_item(key, format!("{tp} for group {group}"), partition.error_code, None);
                    outcomes.insert(tp, outcome);
                }
            }
            let outcome = |tp: &TopicPartition| {
                let missing = || format!("the response to OffsetDelete for group {group} leaves out {tp}");
                let outcome = outcomes.remove(tp);
                (tp.clone(), outcome.unwrap_or_else(|| Err(Error::protocol("the coordinator", missing()))))
            };
            Ok(vec![(group.to_owned(), result.map(|()| partitions.iter().map(outcome).collect()))])
        };
        let done = self.send_batched(&group_request(timeout), &[group.to_owned()], build, read).await?;
        done.into_iter().next().map_or_else(|| Ok(Vec::new()), |(_, done)| done)
    }

    /// Removes some or all members from a group. Returns a result for each member.
    ///
    /// # Errors
    /// Fails with an error of the whole group, or with a timeout that contains the last error.
    pub async fn remove_members(
        &self,
        group: &str,
        members: Option<&[RemovedMember]>,
        reason: &str,
        timeout: Duration,
    ) -> Result<Vec<(RemovedMember, Result<()>)>> {
        let key = ApiKey::LeaveGroup;
        let deadline = Instant::now() + timeout;
        let members = match members {
            Some(members) => members.to_vec(),
            None => {
                let described = self.describe_groups(&[group.to_owned()], false, timeout).await?;
                let groups = described.into_iter().map(|(_, described)| described).collect::<Result<Vec<_>>>()?;
                let members =
                    groups.into_iter().flat_map(|group| group.members).map(|member| match member.instance_id {
                        Some(id) => RemovedMember { member_id: String::new(), instance_id: Some(id) },
                        None => RemovedMember { member_id: member.member_id, instance_id: None },
                    });
                members.collect()
            }
        };
        if members.is_empty() {
            return Ok(Vec::new());
        }
        let build = |batch: &RequestBatch<'_, String>| {
            let mut request = LeaveGroupRequest { group_id: group.to_owned(), ..Default::default() };
            match members.as_slice() {
                [member] if batch.version < MANY_MEMBERS && member.instance_id.is_none() => {
                    request.member_id.clone_from(&member.member_id);
                }
                members => {
                    let member = |member: &RemovedMember| MemberIdentity {
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
        let read = |batch: &RequestBatch<'_, String>, response: LeaveGroupResponse| {
            let result = check_item(key, format!("group {group}"), response.error_code, None);
            let codes: HashMap<RemovedMember, i16> = response
                .members
                .into_iter()
                .map(|m| (RemovedMember { member_id: m.member_id, instance_id: m.group_instance_id }, m.error_code))
                .collect();
            let outcome = |member: &RemovedMember| {
                let name = member.instance_id.as_deref().unwrap_or(&member.member_id);
                let context = format!("member {name} of group {group}");
                // For a static member, the response may contain a member id although none was sent, so the instance ids
                // are compared.
                let by_instance =
                    || codes.iter().find(|(m, _)| m.instance_id.is_some() && m.instance_id == member.instance_id);
                let code = codes.get(member).or_else(|| by_instance().map(|(_, code)| code)).copied();
                let result = match code {
                    Some(code) => check_item(key, context, code, None),
                    None if batch.version < MANY_MEMBERS => Ok(()),
                    None => Err(Error::protocol("the coordinator", format!("the response leaves out {context}"))),
                };
                (member.clone(), result)
            };
            Ok(vec![(group.to_owned(), result.map(|()| members.iter().map(outcome).collect()))])
        };
        let remaining = deadline.saturating_duration_since(Instant::now());
        let done = self.send_batched(&group_request(remaining), &[group.to_owned()], build, read).await?;
        done.into_iter().next().map_or_else(|| Ok(Vec::new()), |(_, done)| done)
    }
}
