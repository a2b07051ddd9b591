//! Administration of groups.

use std::time::Duration;

use crate::common::groups::*;
use crate::common::*;
use samsarrow_broker::{Broker, GroupOptions};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::describe_groups::DescribedGroup;
use samsarrow_wire::messages::offset_delete::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use samsarrow_wire::messages::{
    ConsumerProtocolSubscription, DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest, OffsetDeleteRequest,
};

const NONE: ErrorCode = ErrorCode::NONE;

async fn describe(client: &mut Client, version: i16, group: &str) -> DescribedGroup {
    let groups = vec![group.to_owned()];
    let request = DescribeGroupsRequest { groups, include_authorized_operations: version >= 3, ..Default::default() };
    client.call(version, &request).await.groups.remove(0)
}

#[tokio::test]
async fn describe_groups_in_every_version() {
    let broker = broker_with(1, short_sessions()).await;
    let mut admin = Client::connect(&broker, 0).await;
    let mut member = Member::named(&broker, "i").await;
    for version in 0..=6 {
        let absent = describe(&mut admin, version, GROUP).await;
        let code = if version >= 6 { ErrorCode::GROUP_ID_NOT_FOUND } else { NONE };
        assert_eq!((absent.error_code, absent.group_state.as_str()), (code.code(), "Dead"), "v{version}");
    }
    member.join().await;
    let joining = describe(&mut admin, 5, GROUP).await;
    assert_eq!((joining.group_state.as_str(), joining.protocol_data.as_str()), ("CompletingRebalance", ""));
    assert!(joining.members[0].member_metadata.is_empty());
    let id = member.id.clone();
    member.sync(&[(&id, "all")]).await;
    for version in 0..=6 {
        let group = describe(&mut admin, version, GROUP).await;
        assert_eq!((group.error_code, group.group_state.as_str()), (0, "Stable"), "v{version}");
        assert_eq!((group.protocol_type.as_str(), group.protocol_data.as_str()), ("consumer", "range"));
        assert_eq!(group.authorized_operations, if version >= 3 { 3400 } else { i32::MIN });
        let description = &group.members[0];
        assert_eq!(
            (&description.member_id, description.client_id.as_str(), description.client_host.as_str()),
            (&id, "test", "/127.0.0.1")
        );
        assert_eq!(description.group_instance_id.as_deref(), (version >= 4).then_some("i"));
        assert_eq!(description.member_assignment, "all");
        assert!(description.member_metadata.starts_with(b"range of"));
    }
    broker.shutdown().await;
}

/// Returns the names, types and states of the groups on all nodes.
async fn list(broker: &Broker, version: i16, states: &[&str], types: &[&str]) -> Vec<(String, String, String)> {
    let mut listed = Vec::new();
    for node in 0..2 {
        let request = ListGroupsRequest {
            states_filter: states.iter().map(|&state| state.to_owned()).collect(),
            types_filter: types.iter().map(|&description| description.to_owned()).collect(),
            ..Default::default()
        };
        let response = Client::connect(broker, node).await.call(version, &request).await;
        assert_eq!(response.error_code, 0);
        listed.extend(response.groups.into_iter().map(|group| (group.group_id, group.group_type, group.group_state)));
    }
    listed.sort();
    listed
}

#[tokio::test]
async fn list_groups_by_coordinator() {
    let broker = broker_with(2, short_sessions()).await;
    let mut member = Member::new(&broker).await;
    member.join_as_leader("").await;
    for group in ["a", "b"] {
        let node = broker.coordinator(group).unwrap().try_into().unwrap();
        let mut client = Client::connect(&broker, node).await;
        let code = client.call(8, &commit_request(group)).await.topics[0].partitions[0].error_code;
        assert_eq!(code, 0);
    }
    for version in 0..=5 {
        let names: Vec<_> = list(&broker, version, &[], &[]).await.into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["a", "b", GROUP], "v{version}");
    }
    let description = (GROUP.to_owned(), "classic".to_owned(), "Stable".to_owned());
    assert_eq!(list(&broker, 5, &["stable", "Dead"], &["Classic"]).await, [description]);
    assert_eq!(list(&broker, 4, &["Empty"], &[]).await.len(), 2);
    assert!(list(&broker, 5, &[], &["consumer"]).await.is_empty());
    broker.shutdown().await;
}

#[tokio::test]
async fn delete_groups_requires_empty_group() {
    let broker = broker_with(2, short_sessions()).await;
    let mut member = Member::new(&broker).await;
    member.join_as_leader("").await;
    assert_eq!(member.commit(7).await, NONE);
    let node = broker.coordinator(GROUP).unwrap();
    for (queried, left, expected) in [
        (1 - node, false, ErrorCode::NOT_COORDINATOR),
        (node, false, ErrorCode::NON_EMPTY_GROUP),
        (node, true, NONE),
        (node, true, ErrorCode::GROUP_ID_NOT_FOUND),
    ] {
        if left {
            member.leave().await;
        }
        let mut admin = Client::connect(&broker, queried.try_into().unwrap()).await;
        let request = DeleteGroupsRequest { groups_names: vec![GROUP.to_owned()], ..Default::default() };
        for version in if expected == NONE { 0..=0 } else { 0..=2 } {
            assert_eq!(admin.call(version, &request).await.results[0].error_code, expected.code(), "v{version}");
        }
    }
    assert_eq!(broker.committed_offset(GROUP, "t", 0), None);
    assert_eq!(broker.group_state(GROUP), None);
    broker.shutdown().await;
}

fn subscription(topic: &str) -> bytes::Bytes {
    ConsumerProtocolSubscription { topics: vec![topic.to_owned()], ..Default::default() }.to_bytes().unwrap()
}

/// Deletes an offset. Returns the error codes of the group and of the partition.
async fn delete_offset(client: &mut Client, topic: &str, partition_index: i32) -> (i16, Option<i16>) {
    let partitions = vec![OffsetDeleteRequestPartition { partition_index, ..Default::default() }];
    let topic = OffsetDeleteRequestTopic { name: topic.to_owned(), partitions, ..Default::default() };
    let request = OffsetDeleteRequest { group_id: GROUP.to_owned(), topics: vec![topic], ..Default::default() };
    let response = client.call(0, &request).await;
    (response.error_code, response.topics.first().map(|topic| topic.partitions[0].error_code))
}

#[tokio::test]
async fn offset_delete_rejects_subscribed_topics() {
    let broker = broker_with(1, short_sessions()).await;
    broker.create_topic("other", 1).unwrap();
    let mut admin = Client::connect(&broker, 0).await;
    assert_eq!(delete_offset(&mut admin, "t", 0).await, (ErrorCode::GROUP_ID_NOT_FOUND.code(), None));
    let mut member = Member::new(&broker).await;
    member.metadata = Some(subscription("t"));
    member.join_as_leader("").await;
    assert_eq!(member.commit(1).await, NONE);
    let subscribed = Some(ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC.code());
    assert_eq!(delete_offset(&mut admin, "t", 0).await, (0, subscribed));
    assert_eq!(delete_offset(&mut admin, "other", 0).await, (0, Some(0)));
    let unknown = Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code());
    assert_eq!(delete_offset(&mut admin, "other", 1).await, (0, unknown));
    member.metadata = Some(subscription("other"));
    member.join_as_leader("").await;
    assert_eq!(delete_offset(&mut admin, "t", 0).await, (0, Some(0)));
    assert_eq!(broker.committed_offset(GROUP, "t", 0), None);
    // If the metadata cannot be parsed, the member may be subscribed to any topic.
    member.metadata = None;
    member.join_as_leader("").await;
    assert_eq!(delete_offset(&mut admin, "other", 0).await, (0, subscribed));
    member.leave().await;
    assert_eq!(delete_offset(&mut admin, "other", 0).await, (0, Some(0)));
    broker.shutdown().await;
}

#[tokio::test]
async fn offsets_of_unsubscribed_topics_expire() {
    let groups = GroupOptions { offsets_retention: Duration::from_millis(200), ..short_sessions() };
    let broker = broker_with(1, groups).await;
    broker.create_topic("other", 1).unwrap();
    let mut member = Member::new(&broker).await;
    member.metadata = Some(subscription("t"));
    member.join_as_leader("").await;
    assert_eq!(member.commit(1).await, NONE);
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(broker.committed_offset(GROUP, "t", 0), Some(1));
    member.metadata = Some(subscription("other"));
    member.join_as_leader("").await;
    let began = std::time::Instant::now();
    while broker.committed_offset(GROUP, "t", 0).is_some() {
        assert!(began.elapsed() < TIMEOUT);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    broker.shutdown().await;
}
