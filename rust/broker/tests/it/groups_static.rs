//! Static members (KIP-345).

use std::time::Duration;

use crate::common::groups::*;
use samsarrow_broker::Broker;
use samsarrow_wire::error_code::ErrorCode;

const NONE: ErrorCode = ErrorCode::NONE;

/// Creates two static members that have joined. Member `one` is the leader.
async fn pair(broker: &Broker) -> (Member, Member) {
    let mut one = Member::named(broker, "one").await;
    let mut two = Member::named(broker, "two").await;
    one.join_as_leader("all").await;
    assert!(one.id.starts_with("one-"), "{}", one.id);
    two.enter().await;
    wait_until_state(broker, "PreparingRebalance").await;
    let response = one.join().await;
    assert_eq!(response.members[1].group_instance_id.as_deref(), Some("two"));
    two.joined().await;
    let (first, second) = (one.id.clone(), two.id.clone());
    assert_eq!(one.sync(&[(&first, "left"), (&second, "right")]).await.1, "left");
    assert_eq!(two.sync(&[]).await.1, "right");
    (one, two)
}

#[tokio::test]
async fn returning_follower_keeps_assignment() {
    let broker = broker_with(1, short_sessions()).await;
    let (mut one, mut two) = pair(&broker).await;
    let mut back = Member::named(&broker, "two").await;
    let response = back.join().await;
    assert_ne!(back.id, two.id);
    assert_eq!((response.generation_id, &response.leader, response.skip_assignment), (2, &one.id, false));
    assert!(response.members.is_empty());
    assert_eq!(back.sync(&[]).await, (NONE, "right".to_owned()));
    assert_eq!(one.heartbeat().await, NONE, "nobody else notices");
    // All requests of the replaced member id are fenced.
    assert_eq!(two.heartbeat().await, ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(two.sync(&[]).await.0, ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(two.commit(1).await, ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(two.join().await.error_code, ErrorCode::FENCED_INSTANCE_ID.code());
    assert_eq!(two.leave().await.members[0].error_code, ErrorCode::FENCED_INSTANCE_ID.code());
    assert_eq!(back.commit(1).await, NONE);
    broker.shutdown().await;
}

#[tokio::test]
async fn returning_leader_skips_assignment() {
    let broker = broker_with(1, short_sessions()).await;
    let (one, mut two) = pair(&broker).await;
    // Before version 9 the response contains the old member id of the leader, so that the client considers itself a
    // follower and does not assign.
    let mut back = Member { version: 8, ..Member::named(&broker, "one").await };
    let response = back.join().await;
    assert_eq!((&response.leader, response.members.len()), (&one.id, 0));
    assert_eq!(back.sync(&[]).await, (NONE, "left".to_owned()));
    let mut again = Member::named(&broker, "one").await;
    let response = again.join().await;
    assert_eq!((&response.leader, response.members.len(), response.skip_assignment), (&again.id, 2, true));
    assert_eq!(again.sync(&[]).await, (NONE, "left".to_owned()));
    assert_eq!(two.heartbeat().await, NONE);
    // A leader that rejoins with its current member id assigns again.
    again.send_join().await;
    wait_until_state(&broker, "PreparingRebalance").await;
    assert_eq!(two.heartbeat().await, ErrorCode::REBALANCE_IN_PROGRESS);
    broker.shutdown().await;
}

#[tokio::test]
async fn returning_member_with_other_protocols_rebalances() {
    let broker = broker_with(1, short_sessions()).await;
    let mut one = Member { protocols: vec!["a", "b"], ..Member::named(&broker, "one").await };
    one.join_as_leader("").await;
    let mut back = Member { protocols: vec!["b"], ..Member::named(&broker, "one").await };
    let response = back.join().await;
    assert_eq!((response.generation_id, response.protocol_name.as_deref()), (2, Some("b")));
    broker.shutdown().await;
}

#[tokio::test]
async fn return_during_assignment_rebalances() {
    let broker = broker_with(1, short_sessions()).await;
    let mut one = Member::named(&broker, "one").await;
    one.join_as_leader("").await;
    let mut two = Member::named(&broker, "two").await;
    two.enter().await;
    wait_until_state(&broker, "PreparingRebalance").await;
    one.join().await;
    two.joined().await;
    two.send_sync(&[]).await;
    let mut back = Member::named(&broker, "two").await;
    back.enter().await;
    assert_eq!(two.synced().await.error_code, ErrorCode::FENCED_INSTANCE_ID.code());
    wait_until_state(&broker, "PreparingRebalance").await;
    assert_eq!(one.join().await.generation_id, 3);
    assert_eq!(back.joined().await.generation_id, 3);
    broker.shutdown().await;
}

#[tokio::test]
async fn late_static_member_stays_until_sync_timeout() {
    let broker = broker_with(1, short_sessions()).await;
    let rebalance = Duration::from_secs(1);
    let mut late = Member { rebalance, ..Member::named(&broker, "late").await };
    late.join_as_leader("all").await;
    let mut other = Member { rebalance, ..Member::new(&broker).await };
    // The rebalance completes although the static member has not joined, and the member stays in the group.
    let response = other.join().await;
    assert_eq!((response.members.len(), &response.leader), (2, &other.id));
    let id = other.id.clone();
    assert_eq!(other.sync(&[(&id, "mine")]).await.0, NONE);
    // The static member does not send SyncGroup either, so it is removed.
    wait_until_state(&broker, "PreparingRebalance").await;
    assert_eq!(other.join().await.members.len(), 1);
    assert_eq!(late.heartbeat().await, ErrorCode::UNKNOWN_MEMBER_ID);
    broker.shutdown().await;
}

#[tokio::test]
async fn expired_static_member_is_removed() {
    let broker = broker_with(1, short_sessions()).await;
    let mut away = Member { session: Duration::from_secs(2), ..Member::named(&broker, "away").await };
    away.join_as_leader("all").await;
    let mut other = Member::new(&broker).await;
    assert_eq!(other.join().await.members.len(), 1);
    broker.shutdown().await;
}

#[tokio::test]
async fn leave_by_instance_id_removes_member() {
    let broker = broker_with(1, short_sessions()).await;
    let (mut one, mut two) = pair(&broker).await;
    let mut admin = Member::named(&broker, "two").await;
    assert_eq!(admin.leave().await.members[0].error_code, 0);
    assert_eq!(two.heartbeat().await, ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(one.heartbeat().await, ErrorCode::REBALANCE_IN_PROGRESS);
    broker.shutdown().await;
}
