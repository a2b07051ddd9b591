//! ConsumerGroupDescribe, v0–v1 (KIP-848). Classic groups are reported as not found.

use std::collections::BTreeMap;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::consumer_group_describe::{
    Assignment, ConsumerGroupDescribeResponse, DescribedGroup, Member as DescribedMember, TopicPartitions,
};
use samsarrow_wire::messages::{ConsumerGroupDescribeRequest, Uuid};
use samsarrow_wire::sync::lock;

use super::{Call, GROUP_OPERATIONS, Handler, Outcome};
use crate::state::groups::Members;
use crate::state::groups::consumer::{Consumers, Member, Partitions};

/// Member type of the consumer protocol.
const CONSUMER: i8 = 1;

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

fn describe(call: &Call<'_>, id: &str, consumers: &Consumers) -> DescribedGroup {
    let member = |member: &Member| DescribedMember {
        member_id: member.id.clone(),
        instance_id: member.instance_id.clone(),
        rack_id: member.rack_id.clone(),
        member_epoch: member.epoch,
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        subscribed_topic_names: member.topics.iter().cloned().collect(),
        subscribed_topic_regex: member.pattern().map(str::to_owned),
        assignment: named(call, &member.assigned),
        target_assignment: named(call, &consumers.target(&member.id)),
        member_type: CONSUMER,
        ..DescribedMember::default()
    };
    DescribedGroup {
        group_id: id.to_owned(),
        group_state: consumers.state().to_owned(),
        group_epoch: consumers.epoch(),
        assignment_epoch: consumers.target_epoch(),
        assignor_name: consumers.assignor().to_owned(),
        members: consumers.members().iter().map(member).collect(),
        ..DescribedGroup::default()
    }
}

impl Handler for ConsumerGroupDescribeRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let describe_one = |id: &String| {
            if let Err(code) = call.check_group(id) {
                return failed(id, code, None);
            }
            let groups = lock(&call.state.groups);
            let Some(consumers) = groups.members(id).and_then(Members::consumers) else {
                let message = format!("Group {id} is not a consumer group.");
                return failed(id, ErrorCode::GROUP_ID_NOT_FOUND, Some(message));
            };
            let mut group = describe(call, id, consumers);
            if self.include_authorized_operations {
                group.authorized_operations = GROUP_OPERATIONS;
            }
            group
        };
        let groups = self.group_ids.iter().map(describe_one).collect();
        call.reply::<Self>(&ConsumerGroupDescribeResponse { groups, ..ConsumerGroupDescribeResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> ConsumerGroupDescribeResponse {
        let groups = self.group_ids.iter().map(|id| failed(id, code, None)).collect();
        ConsumerGroupDescribeResponse { groups, ..ConsumerGroupDescribeResponse::default() }
    }
}
