//! Parts that ShareFetch and ShareAcknowledge have in common: checks of the member, acknowledgements, and leaders.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::Uuid;
use samsarrow_wire::messages::share_fetch::{AcknowledgementBatch, LeaderIdAndEpoch, NodeEndpoint};
use samsarrow_wire::sync::lock;
use tokio::time::Instant;

use super::Call;
use crate::state::groups::Members;
use crate::state::groups::share::{Acknowledgement, SessionKey, ShareSettings, TopicPartition, check_fields};
use crate::state::topic::Partition;
use crate::state::topic_creation::Rejection;

/// Maximum length of a member id in characters.
const MAX_MEMBER_ID: usize = 36;

/// Acknowledgements by partition.
pub(super) type Acknowledgements = BTreeMap<TopicPartition, Vec<Acknowledgement>>;

/// Member of a share group that sent a request.
pub(super) struct ShareCaller {
    pub(super) group: String,
    pub(super) member: Arc<str>,
    pub(super) settings: ShareSettings,
    pub(super) key: SessionKey,
}

impl ShareCaller {
    /// Checks the ids of a request. Like Kafka, it does not check the membership.
    pub(super) fn new(call: &Call<'_>, group: Option<&str>, member: Option<&str>) -> Result<Self, Rejection> {
        if call.state.share_version() == 0 {
            return Err((ErrorCode::UNSUPPORTED_VERSION, "Share groups are not enabled.".to_owned()));
        }
        let group = group.unwrap_or_default();
        let member = member.unwrap_or_default();
        if group.is_empty() {
            return Err((ErrorCode::INVALID_REQUEST, "The group id is empty.".to_owned()));
        }
        if member.is_empty() || member.chars().count() > MAX_MEMBER_ID {
            let text = format!("The member id must have 1 to {MAX_MEMBER_ID} characters.");
            return Err((ErrorCode::INVALID_REQUEST, text));
        }
        Ok(ShareCaller {
            group: group.to_owned(),
            member: member.into(),
            settings: call.state.share_settings(group),
            key: (group.to_owned(), member.to_owned(), call.node),
        })
    }

    /// Returns the partition if this node leads it.
    pub(super) fn find(&self, call: &Call<'_>, (topic, index): TopicPartition) -> Result<Arc<Partition>, ErrorCode> {
        let topic = call.state.topic_by_id(&Uuid(topic)).ok_or(ErrorCode::UNKNOWN_TOPIC_ID)?;
        let partition = topic.partition(index).cloned().ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
        if partition.is_deleted() {
            return Err(ErrorCode::UNKNOWN_TOPIC_ID);
        }
        partition.state().check_leader(call.node, -1)?;
        Ok(partition)
    }

    /// Returns the partitions whose acknowledgements are rejected, with the reasons.
    pub(super) fn rejections(
        &self,
        call: &Call<'_>,
        acks: &Acknowledgements,
        may_renew: bool,
    ) -> BTreeMap<TopicPartition, Rejection> {
        let check = |key: TopicPartition, acks: &[Acknowledgement]| {
            check_fields(acks, may_renew)?;
            let partition = self.find(call, key).map_err(|code| (code, code.description().to_owned()))?;
            let caller = (self.group.as_str(), &self.member);
            call.state.check_acknowledgements(caller, key, &partition, acks, &self.settings)
        };
        acks.iter().filter_map(|(key, acks)| Some((*key, check(*key, acks).err()?))).collect()
    }

    /// Applies the acknowledgements of each partition.
    pub(super) fn acknowledge(
        &self,
        call: &Call<'_>,
        acks: &Acknowledgements,
        may_renew: bool,
    ) -> BTreeMap<TopicPartition, Result<(), Rejection>> {
        let apply = |key: TopicPartition, acks: &[Acknowledgement]| {
            check_fields(acks, may_renew)?;
            let partition = self.find(call, key).map_err(|code| (code, code.description().to_owned()))?;
            let caller = (self.group.as_str(), &self.member);
            call.state.acknowledge_records(caller, key, &partition, acks, &self.settings)
        };
        acks.iter().map(|(key, acks)| (*key, apply(*key, acks))).collect()
    }

    pub(super) fn lock_timeout_ms(&self) -> i32 {
        i32::try_from(self.settings.lock.as_millis()).unwrap_or(i32::MAX)
    }
}

/// Converts the acknowledgements of one partition.
pub(super) fn acknowledgements(batches: &[AcknowledgementBatch]) -> Vec<Acknowledgement> {
    let convert = |batch: &AcknowledgementBatch| Acknowledgement {
        first: batch.first_offset,
        last: batch.last_offset,
        types: batch.acknowledge_types.clone(),
    };
    batches.iter().map(convert).collect()
}

/// Returns the error code and message of an outcome.
pub(super) fn code_and_message(outcome: Result<(), Rejection>) -> (i16, Option<String>) {
    outcome.err().map_or((ErrorCode::NONE.code(), None), |(code, message)| (code.code(), Some(message)))
}

/// Current leaders of partitions that were requested from another node.
#[derive(Default)]
pub(super) struct Leaders(BTreeSet<i32>);

impl Leaders {
    /// Returns the current leader of a partition for a response with this error code.
    pub(super) fn current(&mut self, call: &Call<'_>, (topic, index): TopicPartition, code: i16) -> LeaderIdAndEpoch {
        let partition = call.state.topic_by_id(&Uuid(topic)).and_then(|topic| topic.partition(index).cloned());
        match partition {
            Some(partition) if code == ErrorCode::NOT_LEADER_OR_FOLLOWER.code() => {
                let state = partition.state();
                self.0.insert(state.leader);
                LeaderIdAndEpoch {
                    leader_id: state.leader,
                    leader_epoch: state.leader_epoch,
                    ..LeaderIdAndEpoch::default()
                }
            }
            _ => LeaderIdAndEpoch::default(),
        }
    }

    /// Returns the addresses of the leaders.
    pub(super) fn endpoints(&self, call: &Call<'_>) -> Vec<NodeEndpoint> {
        let nodes = call.state.live_nodes().filter(|(id, _)| self.0.contains(id));
        let endpoint = |(id, node): (i32, &crate::state::Node)| NodeEndpoint {
            node_id: id,
            host: node.host.clone(),
            port: node.port.into(),
            ..NodeEndpoint::default()
        };
        nodes.map(endpoint).collect()
    }
}

/// Checks that the start offsets of a group may be changed: it is a share group without members. With `create`, a group
/// that does not exist is created, as Kafka does when start offsets are set.
pub(super) fn check_offsets(call: &Call<'_>, group: &str, create: bool) -> Result<(), Rejection> {
    if call.state.share_version() == 0 {
        return Err((ErrorCode::UNSUPPORTED_VERSION, "Share groups are not enabled.".to_owned()));
    }
    call.check_group(group).map_err(|code| (code, code.description().to_owned()))?;
    let mut groups = lock(&call.state.groups);
    if create {
        groups.create_share_group(group, Instant::now());
    }
    match groups.members(group).and_then(Members::shares) {
        None => Err((ErrorCode::GROUP_ID_NOT_FOUND, format!("Group {group} is not a share group."))),
        Some(shares) if !shares.is_empty() => Err((ErrorCode::NON_EMPTY_GROUP, "The group is not empty.".to_owned())),
        Some(_) => Ok(()),
    }
}
