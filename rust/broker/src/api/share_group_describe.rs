//! ShareGroupDescribe, v1 (KIP-932). Groups of other types are reported as not found.

use std::collections::BTreeMap;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::share_group_describe::{
    Assignment, DescribedGroup, Member, ShareGroupDescribeResponse, TopicPartitions,
};
use samsarrow_wire::messages::{ShareGroupDescribeRequest, Uuid};
use samsarrow_wire::sync::lock;

use super::{Call, GROUP_OPERATIONS, Handler, Outcome};
use crate::state::groups::Members;
use crate::state::groups::consumer::Partitions;
use crate::state::groups::share::{ShareMember, ShareMembers};

fn failed(id: &str, code: ErrorCode, message: Option<String>) -> DescribedGroup {
    DescribedGroup {
        group_id: id.to_owned(),
        error_code: code.code(),
        error_message: message,
        ..DescribedGroup::default()
    }
}

/// Groups partitions by topic. Partitions of deleted topics are left out.
fn named(call: &Call<'_>, partitions: &Partitions) -> Assignment {
    let mut topics: BTreeMap<[u8; 16], Vec<i32>> = BTreeMap::new();
    for (id, partition) in partitions {
        topics.entry(*id).or_default().push(*partition);
    }
    let topic = |(id, partitions): ([u8; 16], Vec<i32>)| {
        let topic_name = call.state.topic_by_id(&Uuid(id))?.name.to_string();
        Some(TopicPartitions { topic_id: Uuid(id), topic_name, partitions, ..TopicPartitions::default() })
    };
    Assignment { topic_partitions: topics.into_iter().filter_map(topic).collect(), ..Assignment::default() }
}

fn describe(call: &Call<'_>, id: &str, members: &ShareMembers) -> DescribedGroup {
    let member = |member: &ShareMember| Member {
        member_id: member.id.clone(),
        rack_id: member.rack_id.clone(),
        member_epoch: member.epoch,
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        subscribed_topic_names: member.topics.iter().cloned().collect(),
        assignment: named(call, &member.assigned),
        ..Member::default()
    };
    DescribedGroup {
        group_id: id.to_owned(),
        group_state: members.state().to_owned(),
        group_epoch: members.epoch(),
        assignment_epoch: members.epoch(),
        assignor_name: ShareMembers::ASSIGNOR.to_owned(),
        members: members.members().iter().map(member).collect(),
        ..DescribedGroup::default()
    }
}

impl Handler for ShareGroupDescribeRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let describe_one = |id: &String| {
            if call.state.share_version() == 0 {
                return failed(id, ErrorCode::UNSUPPORTED_VERSION, None);
            }
            if let Err(code) = call.check_group(id) {
                return failed(id, code, None);
            }
            let groups = lock(&call.state.groups);
            let Some(members) = groups.members(id).and_then(Members::shares) else {
                let message = format!("Group {id} is not a share group.");
                return failed(id, ErrorCode::GROUP_ID_NOT_FOUND, Some(message));
            };
            let mut group = describe(call, id, members);
            if self.include_authorized_operations {
                group.authorized_operations = GROUP_OPERATIONS;
            }
            group
        };
        let groups = self.group_ids.iter().map(describe_one).collect();
        call.reply::<Self>(&ShareGroupDescribeResponse { groups, ..ShareGroupDescribeResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> ShareGroupDescribeResponse {
        let groups = self.group_ids.iter().map(|id| failed(id, code, None)).collect();
        ShareGroupDescribeResponse { groups, ..ShareGroupDescribeResponse::default() }
    }
}
