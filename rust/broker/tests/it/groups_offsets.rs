//! Commits of members, retention of committed offsets, and moves of the coordinator.

use std::time::{Duration, Instant};

use crate::common::groups::*;
use crate::common::*;
use samsarrow_broker::{Broker, GroupOptions};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::frame;
use samsarrow_wire::messages::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use samsarrow_wire::messages::{JoinGroupRequest, OffsetCommitRequest};

const NONE: ErrorCode = ErrorCode::NONE;

#[tokio::test]
async fn commit_requires_membership() {
    let broker = broker_with(1, short_sessions()).await;
    let mut outsider = Member::new(&broker).await;
    assert_eq!(outsider.commit(1).await, NONE, "no group yet");
    let mut member = Member::new(&broker).await;
    member.join().await;
    assert_eq!(member.commit(2).await, ErrorCode::REBALANCE_IN_PROGRESS, "nothing is assigned yet");
    let id = member.id.clone();
    member.sync(&[(&id, "")]).await;
    assert_eq!(member.commit(2).await, NONE);
    assert_eq!(outsider.commit(3).await, ErrorCode::UNKNOWN_MEMBER_ID);
    outsider.id = "made up".to_owned();
    assert_eq!(outsider.commit(3).await, ErrorCode::UNKNOWN_MEMBER_ID);
    outsider.generation = 1;
    assert_eq!(outsider.commit(3).await, ErrorCode::UNKNOWN_MEMBER_ID);
    member.generation = 7;
    assert_eq!(member.commit(3).await, ErrorCode::ILLEGAL_GENERATION);
    member.generation = 1;
    // During a rebalance, members of the previous generation may still commit.
    let mut second = Member::new(&broker).await;
    second.enter().await;
    wait_until_state(&broker, "PreparingRebalance").await;
    assert_eq!(member.commit(4).await, NONE);
    assert_eq!(broker.committed_offset(GROUP, "t", 0), Some(4));
    member.leave().await;
    second.joined().await;
    second.leave().await;
    outsider = Member::new(&broker).await;
    assert_eq!(outsider.commit(5).await, NONE, "the group is empty again");
    assert_eq!(member.commit(6).await, ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(broker.committed_offset(GROUP, "t", 0), Some(5));
    broker.shutdown().await;
}

#[tokio::test]
async fn commits_keep_a_session_alive() {
    let broker = broker_with(1, short_sessions()).await;
    let mut member = Member { session: Duration::from_secs(2), ..Member::new(&broker).await };
    member.join_as_leader("").await;
    for offset in 0..5 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(member.commit(offset).await, NONE);
    }
    wait_until_state(&broker, "Empty").await;
    broker.shutdown().await;
}

async fn until_forgotten(broker: &Broker) {
    let began = Instant::now();
    while broker.committed_offset(GROUP, "t", 0).is_some() {
        assert!(began.elapsed() < TIMEOUT);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn offsets_of_empty_group_expire() {
    let retention = Duration::from_millis(400);
    let broker = broker_with(1, GroupOptions { offsets_retention: retention, ..short_sessions() }).await;
    let mut member = Member::new(&broker).await;
    member.join_as_leader("").await;
    assert_eq!(member.commit(1).await, NONE);
    tokio::time::sleep(2 * retention).await;
    assert_eq!(broker.committed_offset(GROUP, "t", 0), Some(1), "it has a member");
    let began = Instant::now();
    member.leave().await;
    until_forgotten(&broker).await;
    assert!(began.elapsed() >= retention);
    assert_eq!(broker.group_state(GROUP), None, "nothing is left of it");
    // If a group has no members but only commits, the retention starts with the last commit.
    let mut alone = Member::new(&broker).await;
    assert_eq!(alone.commit(1).await, NONE);
    tokio::time::sleep(retention / 2).await;
    let began = Instant::now();
    assert_eq!(alone.commit(2).await, NONE);
    until_forgotten(&broker).await;
    assert!(began.elapsed() >= retention);
    broker.shutdown().await;
}

#[tokio::test]
async fn commit_sets_its_own_retention() {
    let broker =
        broker_with(1, GroupOptions { offsets_retention: Duration::from_millis(500), ..short_sessions() }).await;
    let mut client = Client::connect(&broker, 0).await;
    for retention_time_ms in [0, i64::MAX] {
        let partitions = vec![OffsetCommitRequestPartition::default()];
        let topic = OffsetCommitRequestTopic { name: "t".to_owned(), partitions, ..Default::default() };
        let request = OffsetCommitRequest {
            group_id: GROUP.to_owned(),
            retention_time_ms,
            topics: vec![topic],
            ..Default::default()
        };
        client.call(3, &request).await;
        if retention_time_ms == 0 {
            until_forgotten(&broker).await;
        }
    }
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(broker.committed_offset(GROUP, "t", 0), Some(0));
    broker.shutdown().await;
}

#[tokio::test]
async fn moved_coordinator_keeps_generation_and_offsets() {
    let broker = broker_with(2, short_sessions()).await;
    let mut member = Member::new(&broker).await;
    member.join_as_leader("all").await;
    assert_eq!(member.commit(1).await, NONE);
    let old = broker.coordinator(GROUP).unwrap();
    broker.move_coordinator(GROUP, 1 - old).unwrap();
    assert_eq!(broker.coordinator(GROUP), Some(1 - old));
    assert_eq!(member.heartbeat().await, ErrorCode::NOT_COORDINATOR);
    assert_eq!(member.commit(2).await, ErrorCode::NOT_COORDINATOR);
    member.client = Client::connect(&broker, (1 - old).try_into().unwrap()).await;
    assert_eq!(member.heartbeat().await, NONE, "the generation goes on");
    assert_eq!(member.commit(2).await, NONE);
    // The unfinished rebalance is dropped, and the member that waits for it gets NOT_COORDINATOR.
    let mut second = Member::new(&broker).await;
    second.enter().await;
    wait_until_state(&broker, "PreparingRebalance").await;
    broker.stop_node(1 - old).await.unwrap();
    if let Some(frame) = second.client.frame().await {
        // The member receives the response only if it arrives before the connection is closed.
        let (_, response) = frame::decode_response::<JoinGroupRequest>(9, frame).unwrap();
        assert_eq!(response.error_code, ErrorCode::NOT_COORDINATOR.code());
    }
    assert_eq!(broker.group_state(GROUP), Some("Stable"));
    second.client = Client::connect(&broker, old.try_into().unwrap()).await;
    second.send_join().await;
    assert_eq!(second.joined().await.error_code, ErrorCode::UNKNOWN_MEMBER_ID.code());
    second.id = String::new();
    second.enter().await;
    wait_until_state(&broker, "PreparingRebalance").await;
    broker.start_node(1 - old).await.unwrap();
    let response = second.client.receive::<JoinGroupRequest>(9).await;
    assert_eq!(response.error_code, ErrorCode::NOT_COORDINATOR.code());
    assert!(broker.move_coordinator(GROUP, 2).is_err());
    broker.stop_node(old).await.unwrap();
    assert!(broker.move_coordinator(GROUP, old).is_err());
    broker.shutdown().await;
}
