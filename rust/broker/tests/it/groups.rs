//! The classic rebalance protocol: joining, protocol selection, assignment and leaving.

use std::time::{Duration, Instant};

use crate::common::groups::*;
use crate::common::*;
use samsarrow_broker::GroupOptions;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest};

const NONE: ErrorCode = ErrorCode::NONE;

#[tokio::test]
async fn single_member_in_every_version() {
    let broker = broker_with(1, short_sessions()).await;
    for version in 0..=9 {
        let mut member = Member { version, ..Member::new(&broker).await };
        let response = member.join().await;
        assert_eq!((response.error_code, &response.leader), (0, &member.id), "v{version}");
        assert_eq!(response.generation_id, i32::from(version) * 2 + 1, "a group that empties counts too");
        assert_eq!(response.protocol_name.as_deref(), Some("range"));
        assert_eq!(response.protocol_type.as_deref(), (version >= 7).then_some("consumer"));
        assert_eq!(response.members.len(), 1);
        assert!(response.members[0].metadata.starts_with(b"range of "));
        assert_eq!(broker.group_state(GROUP), Some("CompletingRebalance"));
        let id = member.id.clone();
        assert_eq!(member.sync(&[(&id, "all")]).await, (NONE, "all".to_owned()));
        assert_eq!(broker.group_state(GROUP), Some("Stable"));
        assert_eq!(member.heartbeat().await, NONE);
        let response = member.leave().await;
        assert_eq!((response.error_code, response.members.len()), (0, usize::from(version >= 3)));
        assert_eq!(broker.group_state(GROUP), Some("Empty"));
        assert_eq!(member.heartbeat().await, ErrorCode::UNKNOWN_MEMBER_ID);
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn second_member_joins_and_leader_leaves() {
    let broker = broker_with(1, short_sessions()).await;
    let mut first = Member::new(&broker).await;
    let mut second = Member::new(&broker).await;
    first.join_as_leader("all").await;
    second.enter().await;
    wait_until_state(&broker, "PreparingRebalance").await;
    assert_eq!(first.heartbeat().await, ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(first.sync(&[]).await.0, ErrorCode::REBALANCE_IN_PROGRESS);
    let leading = first.join().await;
    let following = second.joined().await;
    assert_eq!((leading.generation_id, following.generation_id), (2, 2));
    assert_eq!((&leading.leader, &following.leader), (&first.id, &first.id));
    let ids: Vec<_> = leading.members.iter().map(|member| member.member_id.clone()).collect();
    assert_eq!(ids, [first.id.clone(), second.id.clone()]);
    assert!(following.members.is_empty());
    // The follower sends SyncGroup before the leader and waits.
    second.send_sync(&[]).await;
    let (one, two) = (first.id.clone(), second.id.clone());
    assert_eq!(first.sync(&[(&one, "left"), (&two, "right")]).await, (NONE, "left".to_owned()));
    assert_eq!(second.synced().await.assignment, "right");
    assert_eq!(second.sync(&[]).await, (NONE, "right".to_owned()), "a question repeated");
    // A follower that rejoins with unchanged protocols does not start a rebalance, but a leader does.
    assert_eq!(second.join().await.generation_id, 2);
    assert_eq!(broker.group_state(GROUP), Some("Stable"));
    first.leave().await;
    wait_until_state(&broker, "PreparingRebalance").await;
    let response = second.join().await;
    assert_eq!((response.generation_id, &response.leader), (3, &two));
    second.generation = 2;
    assert_eq!(second.heartbeat().await, ErrorCode::ILLEGAL_GENERATION);
    assert_eq!(second.sync(&[]).await.0, ErrorCode::ILLEGAL_GENERATION);
    broker.shutdown().await;
}

#[tokio::test]
async fn rejoining_leader_rebalances() {
    let broker = broker_with(1, short_sessions()).await;
    let mut member = Member::new(&broker).await;
    member.join_as_leader("one").await;
    assert_eq!(member.join().await.generation_id, 2);
    // A repeated request gets the same response, since the client may not have received the first one.
    let again = member.join().await;
    assert_eq!((again.generation_id, again.members.len()), (2, 1));
    assert_eq!(broker.group_state(GROUP), Some("CompletingRebalance"));
    broker.shutdown().await;
}

#[tokio::test]
async fn protocol_is_selected_by_vote() {
    let broker = broker_with(1, short_sessions()).await;
    let mut members = Vec::new();
    for protocols in [vec!["a", "b", "c"], vec!["b", "c", "a"], vec!["d", "b", "c"]] {
        members.push(Member { protocols, ..Member::new(&broker).await });
    }
    members[0].join_as_leader("").await;
    let mut stranger = Member { protocols: vec!["x"], ..Member::new(&broker).await };
    stranger.send_join().await;
    assert_eq!(stranger.joined().await.error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL.code());
    let other_type = JoinGroupRequest { protocol_type: "connect".to_owned(), ..members[1].join_request() };
    let response = stranger.client.call(9, &other_type).await;
    assert_eq!(response.error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL.code());
    for member in &mut members[1..] {
        member.enter().await;
    }
    let response = members[0].join().await;
    assert_eq!((response.protocol_name.as_deref(), response.members.len()), (Some("b"), 3));
    assert!(response.members.iter().all(|member| member.metadata.starts_with(b"b of")));
    for member in &mut members[1..] {
        assert_eq!(member.joined().await.protocol_name.as_deref(), Some("b"));
    }
    // SyncGroup fails with INCONSISTENT_GROUP_PROTOCOL if it names a protocol other than the selected protocol.
    let (code, _) = members[0].sync(&[]).await;
    assert_eq!(code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    broker.shutdown().await;
}

#[tokio::test]
async fn rejects_invalid_requests() {
    let broker = broker_with(2, GroupOptions::default()).await;
    let mut member = Member::new(&broker).await;
    for session in [Duration::from_millis(5999), Duration::from_secs(1801)] {
        member.session = session;
        member.send_join().await;
        assert_eq!(member.joined().await.error_code, ErrorCode::INVALID_SESSION_TIMEOUT.code());
    }
    member.session = Duration::from_secs(6);
    member.id = "made up".to_owned();
    for known in [false, true] {
        let code = member.client.call(9, &member.join_request()).await.error_code;
        assert_eq!(code, ErrorCode::UNKNOWN_MEMBER_ID.code(), "group known: {known}");
        assert_eq!(member.heartbeat().await, ErrorCode::UNKNOWN_MEMBER_ID);
        assert_eq!(member.sync(&[]).await.0, ErrorCode::UNKNOWN_MEMBER_ID);
        let left = member.leave().await;
        assert_eq!(left.members[0].error_code, ErrorCode::UNKNOWN_MEMBER_ID.code());
        if !known {
            Member::new(&broker).await.join_as_leader("").await;
        }
    }
    let nameless = JoinGroupRequest { group_id: String::new(), ..member.join_request() };
    assert_eq!(member.client.call(9, &nameless).await.error_code, ErrorCode::INVALID_GROUP_ID.code());
    let unnamed = SyncGroupRequest { protocol_name: None, ..member.sync_request(&[]) };
    let code = member.client.call(5, &unnamed).await.error_code;
    assert_eq!(code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL.code());
    let other = usize::from(broker.coordinator(GROUP) == Some(0));
    member.client = Client::connect(&broker, other).await;
    assert_eq!(member.heartbeat().await, ErrorCode::NOT_COORDINATOR);
    for version in 0..=9 {
        let code = member.client.call(version, &member.join_request()).await.error_code;
        assert_eq!(code, ErrorCode::NOT_COORDINATOR.code(), "v{version}");
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn sessions_expire_without_heartbeats() {
    let broker = broker_with(1, short_sessions()).await;
    let mut silent = Member { session: Duration::from_secs(2), ..Member::new(&broker).await };
    let mut alive = Member::new(&broker).await;
    silent.join_as_leader("all").await;
    let began = Instant::now();
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(silent.heartbeat().await, NONE, "heartbeats keep it");
    }
    assert!(began.elapsed() > silent.session);
    wait_until_state(&broker, "Empty").await;
    assert_eq!(silent.heartbeat().await, ErrorCode::UNKNOWN_MEMBER_ID);
    // A leader that sends no heartbeats delays a new member only until the session of the leader expires.
    silent.id = String::new();
    silent.join_as_leader("all").await;
    alive.enter().await;
    let response = alive.joined().await;
    assert_eq!((response.members.len(), &response.leader), (1, &alive.id));
    broker.shutdown().await;
}

#[tokio::test]
async fn pending_member_id_expires() {
    let broker = broker_with(1, short_sessions()).await;
    let mut first = Member { session: Duration::from_millis(100), ..Member::new(&broker).await };
    let mut second = Member::new(&broker).await;
    first.send_join().await;
    assert_eq!(first.joined().await.error_code, ErrorCode::MEMBER_ID_REQUIRED.code());
    second.join_as_leader("").await;
    // A rebalance waits for a client that has a member id but has not joined, until the member id expires.
    second.enter().await;
    assert_eq!(second.joined().await.generation_id, 2);
    first.send_join().await;
    assert_eq!(first.joined().await.error_code, ErrorCode::UNKNOWN_MEMBER_ID.code());
    broker.shutdown().await;
}

#[tokio::test]
async fn late_member_is_removed_after_rebalance_timeout() {
    let broker = broker_with(1, short_sessions()).await;
    let mut late = Member { rebalance: Duration::from_secs(1), ..Member::new(&broker).await };
    let mut prompt = Member { rebalance: Duration::from_millis(500), ..Member::new(&broker).await };
    late.join_as_leader("all").await;
    let began = Instant::now();
    prompt.enter().await;
    let response = prompt.joined().await;
    assert!(began.elapsed() >= Duration::from_millis(990), "the group waits for the most patient");
    assert_eq!((response.members.len(), &response.leader), (1, &prompt.id));
    assert_eq!(late.heartbeat().await, ErrorCode::UNKNOWN_MEMBER_ID);
    // A leader that does not send an assignment is removed.
    wait_until_state(&broker, "Empty").await;
    assert_eq!(prompt.heartbeat().await, ErrorCode::UNKNOWN_MEMBER_ID);
    broker.shutdown().await;
}

#[tokio::test]
async fn initial_rebalance_delay_gathers_members() {
    let groups = GroupOptions { initial_rebalance_delay: Duration::from_millis(500), ..short_sessions() };
    let broker = broker_with(1, groups).await;
    let began = Instant::now();
    let mut members = Vec::new();
    for _ in 0..3 {
        let mut member = Member::new(&broker).await;
        member.enter().await;
        members.push(member);
    }
    for member in &mut members {
        assert_eq!(member.joined().await.generation_id, 1);
    }
    let waited = began.elapsed();
    assert!(waited >= Duration::from_millis(990), "members that come put it off: {waited:?}");
    broker.shutdown().await;
}

#[tokio::test]
async fn waiting_member_blocks_no_other_client() {
    let broker = broker_with(1, short_sessions()).await;
    let mut first = Member::new(&broker).await;
    first.join_as_leader("all").await;
    let mut waiting = Member { session: Duration::from_secs(2), ..Member::new(&broker).await };
    waiting.enter().await;
    wait_until_state(&broker, "PreparingRebalance").await;
    let mut other = Client::connect(&broker, 0).await;
    assert_eq!(other.produce("t", 0, &batch(1)).await.error_code, 0);
    drop(waiting);
    // The broker cannot distinguish a lost connection from a slow one, so the member stays in the group until its
    // session expires.
    assert_eq!(first.join().await.members.len(), 2);
    let id = first.id.clone();
    assert_eq!(first.sync(&[(&id, "all")]).await.0, NONE);
    wait_until_state(&broker, "PreparingRebalance").await;
    assert_eq!(first.join().await.members.len(), 1);
    // Pending JoinGroup requests do not delay the shutdown of the broker.
    let mut waiting = Member::new(&broker).await;
    waiting.enter().await;
    wait_until_state(&broker, "PreparingRebalance").await;
    tokio::time::timeout(TIMEOUT, broker.shutdown()).await.unwrap();
    assert!(waiting.client.is_closed().await);
}

#[tokio::test]
async fn several_members_leave_in_one_request() {
    let broker = broker_with(1, short_sessions()).await;
    let mut member = Member::new(&broker).await;
    let mut named = Member::named(&broker, "i").await;
    member.join_as_leader("").await;
    named.enter().await;
    wait_until_state(&broker, "PreparingRebalance").await;
    member.join().await;
    named.joined().await;
    let members = vec![
        identity("", Some("nobody")),
        identity("", Some("i")),
        identity(&member.id, None),
        identity("nobody", None),
    ];
    let request = LeaveGroupRequest { group_id: GROUP.to_owned(), members, ..Default::default() };
    let response = member.client.call(5, &request).await;
    let unknown = ErrorCode::UNKNOWN_MEMBER_ID.code();
    let codes: Vec<_> = response.members.iter().map(|left| left.error_code).collect();
    assert_eq!(codes, [unknown, 0, 0, unknown]);
    assert_eq!(broker.group_state(GROUP), Some("Empty"));
    broker.shutdown().await;
}
