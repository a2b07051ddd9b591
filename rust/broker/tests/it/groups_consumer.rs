//! Consumer groups with server-side assignment (KIP-848).

use std::time::Duration;

use crate::common::groups::*;
use crate::common::*;
use samsarrow_broker::{Broker, GroupOptions};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::consumer_group_describe::DescribedGroup;
use samsarrow_wire::messages::consumer_group_heartbeat::{ConsumerGroupHeartbeatResponse, TopicPartitions};
use samsarrow_wire::messages::offset_fetch::OffsetFetchRequestGroup;
use samsarrow_wire::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, DescribeGroupsRequest, ListGroupsRequest,
    MetadataRequest, OffsetFetchRequest, Uuid,
};

const NONE: ErrorCode = ErrorCode::NONE;

/// Client side of a KIP-848 member.
struct Consumer {
    client: Client,
    version: i16,
    id: String,
    instance: Option<String>,
    epoch: i32,
    topics: Vec<&'static str>,
    pattern: Option<&'static str>,
    assignor: Option<&'static str>,
    rebalance_timeout_ms: i32,
    owned: Vec<TopicPartitions>,
}

impl Consumer {
    async fn new(broker: &Broker, id: &str) -> Consumer {
        let node = broker.coordinator(GROUP).unwrap().try_into().unwrap();
        Consumer {
            client: Client::connect(broker, node).await,
            version: 1,
            id: id.to_owned(),
            instance: None,
            epoch: 0,
            topics: vec!["t"],
            pattern: None,
            assignor: None,
            rebalance_timeout_ms: 10_000,
            owned: Vec::new(),
        }
    }

    async fn named(broker: &Broker, id: &str, instance: &str) -> Consumer {
        Consumer { instance: Some(instance.to_owned()), ..Consumer::new(broker, id).await }
    }

    fn full(&self) -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest {
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            subscribed_topic_names: Some(self.topics.iter().map(|&topic| topic.to_owned()).collect()),
            subscribed_topic_regex: self.pattern.map(str::to_owned),
            server_assignor: self.assignor.map(str::to_owned),
            topic_partitions: Some(self.owned.clone()),
            ..self.brief()
        }
    }

    /// Returns a heartbeat request that contains only the required fields.
    fn brief(&self) -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest {
            group_id: GROUP.to_owned(),
            member_id: self.id.clone(),
            member_epoch: self.epoch,
            instance_id: self.instance.clone(),
            ..Default::default()
        }
    }

    async fn send(&mut self, request: &ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse {
        let response = self.client.call(self.version, request).await;
        if response.error_code == 0 {
            self.id = response.member_id.clone().unwrap();
            self.epoch = response.member_epoch;
        }
        response
    }

    /// Joins the group and returns the assigned partitions of topic `t`.
    async fn join(&mut self) -> Vec<i32> {
        let response = self.send(&self.full()).await;
        assert_eq!(response.error_code, 0, "{:?}", response.error_message);
        self.take(response).expect("who joins is told what it has")
    }

    fn take(&mut self, response: ConsumerGroupHeartbeatResponse) -> Option<Vec<i32>> {
        self.owned = response.assignment?.topic_partitions;
        Some(self.owned.iter().flat_map(|topic| topic.partitions.clone()).collect())
    }

    /// Sends a heartbeat without changes. Returns the assigned partitions if the response contains an assignment.
    async fn heartbeat(&mut self) -> Option<Vec<i32>> {
        let response = self.send(&self.brief()).await;
        assert_eq!(response.error_code, 0, "{:?}", response.error_message);
        self.take(response)
    }

    /// Sends a heartbeat with the owned partitions, which confirms a revocation.
    async fn acknowledge(&mut self) -> Option<Vec<i32>> {
        let request = ConsumerGroupHeartbeatRequest { topic_partitions: Some(self.owned.clone()), ..self.brief() };
        let response = self.send(&request).await;
        assert_eq!(response.error_code, 0, "{:?}", response.error_message);
        self.take(response)
    }

    async fn code(&mut self, request: &ConsumerGroupHeartbeatRequest) -> ErrorCode {
        let response = self.client.call(self.version, request).await;
        assert_eq!(response.error_code == 0, response.error_message.is_none());
        ErrorCode::from_i16(response.error_code)
    }

    async fn leave(&mut self, epoch: i32) -> ErrorCode {
        let request = ConsumerGroupHeartbeatRequest { member_epoch: epoch, ..self.brief() };
        self.code(&request).await
    }

    async fn commit(&mut self, version: i16) -> ErrorCode {
        let mut request = commit_request(GROUP);
        request.generation_id_or_member_epoch = self.epoch;
        request.member_id.clone_from(&self.id);
        let response = self.client.call(version, &request).await;
        ErrorCode::from_i16(response.topics[0].partitions[0].error_code)
    }
}

async fn describe(broker: &Broker) -> DescribedGroup {
    let node = broker.coordinator(GROUP).unwrap().try_into().unwrap();
    let request = ConsumerGroupDescribeRequest {
        group_ids: vec![GROUP.to_owned()],
        include_authorized_operations: true,
        ..Default::default()
    };
    Client::connect(broker, node).await.call(1, &request).await.groups.remove(0)
}

#[tokio::test]
async fn single_member_joins_and_leaves() {
    let broker = broker_with(1, GroupOptions::default()).await;
    let mut first = Consumer { version: 0, ..Consumer::new(&broker, "").await };
    let response = first.send(&first.full()).await;
    assert_eq!((response.member_epoch, response.heartbeat_interval_ms), (1, 500));
    assert_eq!(first.id.len(), 36, "version 0 lets the broker make an id: {}", first.id);
    assert_eq!(first.take(response), Some(vec![0, 1]));
    assert_eq!(broker.group_state(GROUP), Some("Stable"));
    assert_eq!(first.heartbeat().await, None, "no news");
    assert_eq!(first.join().await, [0, 1], "who says everything is told everything");
    // A new topic does not change the group before a member subscribes to it, which bumps the epoch.
    broker.create_topic("u", 1).unwrap();
    assert_eq!(first.heartbeat().await, None);
    first.topics = vec!["t", "u"];
    let response = first.send(&first.full()).await;
    assert_eq!((response.member_epoch, response.assignment.unwrap().topic_partitions.len()), (2, 2));
    assert_eq!(first.leave(-1).await, NONE);
    assert_eq!(broker.group_state(GROUP), Some("Empty"));
    assert_eq!(first.code(&first.brief()).await, ErrorCode::UNKNOWN_MEMBER_ID);
    broker.shutdown().await;
}

#[tokio::test]
async fn partition_is_revoked_before_reassignment() {
    let broker = broker_with(1, GroupOptions::default()).await;
    let mut one = Consumer::new(&broker, "one").await;
    let mut two = Consumer::new(&broker, "two").await;
    assert_eq!(one.join().await, [0, 1]);
    assert!(two.join().await.is_empty(), "both are taken");
    assert_eq!((two.epoch, broker.group_state(GROUP)), (2, Some("Reconciling")));
    let held = one.owned.clone();
    assert_eq!(one.heartbeat().await, Some(vec![0]));
    assert_eq!(one.epoch, 1, "it stays at its epoch until it has given up");
    assert_eq!(two.heartbeat().await, None);
    // The member does not confirm the revocation: it reports that it still owns both partitions.
    let revoked = std::mem::replace(&mut one.owned, held);
    assert_eq!(one.acknowledge().await, None);
    assert_eq!(two.heartbeat().await, None);
    one.owned = revoked;
    assert_eq!(one.acknowledge().await, None);
    assert_eq!(one.epoch, 2);
    assert_eq!(two.heartbeat().await, Some(vec![1]));
    assert_eq!(broker.group_state(GROUP), Some("Stable"));
    let group = describe(&broker).await;
    assert_eq!((group.group_epoch, group.assignment_epoch, group.assignor_name.as_str()), (2, 2, "uniform"));
    assert_eq!((group.members.len(), group.authorized_operations), (2, 3400));
    let description = &group.members[1];
    assert_eq!((description.member_id.as_str(), description.member_epoch, description.member_type), ("two", 2, 1));
    assert_eq!(
        (description.client_id.as_str(), &description.subscribed_topic_names[..]),
        ("test", &["t".to_owned()][..])
    );
    assert_eq!(description.assignment, description.target_assignment);
    assert_eq!(description.assignment.topic_partitions[0].topic_name, "t");
    assert_eq!(description.assignment.topic_partitions[0].partitions, [1]);
    // The remaining member gets the partitions of the member that left.
    assert_eq!(one.leave(-1).await, NONE);
    assert_eq!(two.heartbeat().await, Some(vec![0, 1]));
    broker.shutdown().await;
}

#[tokio::test]
async fn heartbeat_checks_epochs() {
    let broker = broker_with(1, GroupOptions::default()).await;
    let mut one = Consumer::new(&broker, "one").await;
    one.join().await;
    one.topics = vec![];
    // The test ignores this response, as if it had been lost.
    let again = one.full();
    one.send(&again).await;
    assert_eq!(one.epoch, 1, "it has to give up first");
    one.owned.clear();
    one.acknowledge().await;
    assert_eq!(one.epoch, 2);
    for (epoch, owned, expected) in [
        (3, Some(vec![]), ErrorCode::FENCED_MEMBER_EPOCH),
        (1, None, ErrorCode::FENCED_MEMBER_EPOCH),
        (1, again.topic_partitions.clone(), ErrorCode::FENCED_MEMBER_EPOCH),
        (1, Some(vec![]), NONE),
        (0, Some(vec![]), ErrorCode::FENCED_MEMBER_EPOCH),
    ] {
        let full = one.full();
        let request = ConsumerGroupHeartbeatRequest { member_epoch: epoch, topic_partitions: owned.clone(), ..full };
        assert_eq!(one.code(&request).await, expected, "epoch {epoch}, {owned:?}");
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn rejects_invalid_requests() {
    let broker = broker_with(2, GroupOptions::default()).await;
    let mut one = Consumer::new(&broker, "one").await;
    let full = one.full();
    let no_topics = ConsumerGroupHeartbeatRequest { subscribed_topic_names: None, ..full.clone() };
    let wrong = [
        ConsumerGroupHeartbeatRequest { member_id: String::new(), ..full.clone() },
        ConsumerGroupHeartbeatRequest { instance_id: Some(String::new()), ..full.clone() },
        ConsumerGroupHeartbeatRequest { rack_id: Some(String::new()), ..full.clone() },
        ConsumerGroupHeartbeatRequest { member_epoch: -3, ..full.clone() },
        ConsumerGroupHeartbeatRequest { member_epoch: -2, ..full.clone() },
        ConsumerGroupHeartbeatRequest { rebalance_timeout_ms: -1, ..full.clone() },
        ConsumerGroupHeartbeatRequest { topic_partitions: None, ..full.clone() },
        ConsumerGroupHeartbeatRequest { topic_partitions: Some(vec![TopicPartitions::default()]), ..full.clone() },
        no_topics.clone(),
    ];
    for request in wrong {
        assert_eq!(one.code(&request).await, ErrorCode::INVALID_REQUEST, "{request:?}");
    }
    let assignor = ConsumerGroupHeartbeatRequest { server_assignor: Some("best".to_owned()), ..full.clone() };
    assert_eq!(one.code(&assignor).await, ErrorCode::UNSUPPORTED_ASSIGNOR);
    for pattern in ["(", ")|(", "a{99999}{99999}"] {
        let pattern =
            ConsumerGroupHeartbeatRequest { subscribed_topic_regex: Some(pattern.to_owned()), ..no_topics.clone() };
        assert_eq!(one.code(&pattern).await, ErrorCode::INVALID_REGULAR_EXPRESSION);
    }
    for epoch in [1, -1] {
        let request =
            ConsumerGroupHeartbeatRequest { group_id: "nowhere".to_owned(), member_epoch: epoch, ..full.clone() };
        broker.move_coordinator("nowhere", broker.coordinator(GROUP).unwrap()).unwrap();
        assert_eq!(one.code(&request).await, ErrorCode::GROUP_ID_NOT_FOUND, "epoch {epoch}");
    }
    let other = usize::from(broker.coordinator(GROUP) == Some(0));
    let response = Client::connect(&broker, other).await.call(1, &full).await;
    assert_eq!(response.error_code, ErrorCode::NOT_COORDINATOR.code());
    one.join().await;
    one.id = "two".to_owned();
    assert_eq!(one.code(&one.brief()).await, ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(one.leave(-1).await, ErrorCode::UNKNOWN_MEMBER_ID);
    broker.shutdown().await;
}

#[tokio::test]
async fn static_member_returns_to_its_assignment() {
    let options = GroupOptions { consumer_session_timeout: Duration::from_secs(2), ..GroupOptions::default() };
    let broker = broker_with(1, options).await;
    let mut one = Consumer::named(&broker, "one", "i").await;
    let mut two = Consumer::new(&broker, "two").await;
    one.join().await;
    two.join().await;
    one.heartbeat().await;
    one.acknowledge().await;
    assert_eq!(two.heartbeat().await, Some(vec![1]));
    let mut intruder = Consumer::named(&broker, "thief", "i").await;
    assert_eq!(intruder.code(&intruder.full()).await, ErrorCode::UNRELEASED_INSTANCE_ID);
    assert_eq!(intruder.leave(-2).await, ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(one.leave(-2).await, NONE);
    assert_eq!(two.heartbeat().await, None, "nobody inherits yet");
    let mut back = Consumer::named(&broker, "back", "i").await;
    assert_eq!(back.join().await, [0]);
    assert_eq!((back.epoch, two.heartbeat().await), (2, None), "the group has not moved");
    assert_eq!(broker.group_state(GROUP), Some("Stable"));
    assert_eq!(one.code(&one.brief()).await, ErrorCode::FENCED_INSTANCE_ID);
    // A static member that does not join again is removed when its session expires.
    assert_eq!(back.leave(-2).await, NONE);
    let began = std::time::Instant::now();
    while two.heartbeat().await != Some(vec![0, 1]) {
        assert!(began.elapsed() < TIMEOUT);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(began.elapsed() > Duration::from_millis(500));
    broker.shutdown().await;
}

#[tokio::test]
async fn silent_member_is_fenced() {
    let session = Duration::from_secs(2);
    let options = GroupOptions { consumer_session_timeout: session, ..GroupOptions::default() };
    let broker = broker_with(1, options).await;
    let mut silent = Consumer::new(&broker, "silent").await;
    silent.join().await;
    let began = std::time::Instant::now();
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        silent.heartbeat().await;
    }
    assert!(began.elapsed() > session);
    wait_until_state(&broker, "Empty").await;
    broker.shutdown().await;
}

#[tokio::test]
async fn member_is_fenced_after_revocation_timeout() {
    let broker = broker_with(1, GroupOptions::default()).await;
    let mut stubborn = Consumer { rebalance_timeout_ms: 1000, ..Consumer::new(&broker, "stubborn").await };
    let mut heir = Consumer::new(&broker, "heir").await;
    stubborn.join().await;
    heir.join().await;
    let began = std::time::Instant::now();
    // The member receives an assignment without one of its partitions, but does not confirm the revocation.
    assert_eq!(stubborn.heartbeat().await, Some(vec![0]));
    while heir.heartbeat().await != Some(vec![0, 1]) {
        assert!(began.elapsed() < TIMEOUT);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(began.elapsed() >= Duration::from_millis(900));
    assert_eq!(stubborn.code(&stubborn.brief()).await, ErrorCode::UNKNOWN_MEMBER_ID);
    broker.shutdown().await;
}

#[tokio::test]
async fn pattern_matches_whole_names_and_new_topics() {
    let broker = broker_with(1, GroupOptions::default()).await;
    let mut one = Consumer { topics: vec![], pattern: Some("x-[0-9]+|y"), ..Consumer::new(&broker, "one").await };
    assert!(one.join().await.is_empty());
    for (topic, partitions) in [("x-1", 1), ("x-22", 2), ("ax-1", 5), ("y", 3), ("yy", 5)] {
        broker.create_topic(topic, partitions).unwrap();
    }
    assert_eq!(one.heartbeat().await.map(|partitions| partitions.len()), Some(6));
    assert_eq!(describe(&broker).await.members[0].subscribed_topic_regex.as_deref(), Some("x-[0-9]+|y"));
    // A null pattern leaves the current pattern unchanged, and an empty pattern removes it.
    one.pattern = Some("");
    let response = one.send(&one.full()).await;
    assert!(response.assignment.unwrap().topic_partitions.is_empty());
    broker.shutdown().await;
}

#[tokio::test]
async fn range_assigns_consecutive_partitions() {
    let broker = broker_with(1, GroupOptions::default()).await;
    broker.create_topic("u", 3).unwrap();
    let mut members = Vec::new();
    for (id, topics) in [("a", vec!["t", "u"]), ("b", vec!["u", "t"]), ("c", vec!["t"])] {
        let mut member = Consumer { topics, assignor: Some("range"), ..Consumer::new(&broker, id).await };
        member.join().await;
        members.push(member);
    }
    let group = describe(&broker).await;
    assert_eq!(group.assignor_name, "range");
    let targets: Vec<Vec<(String, Vec<i32>)>> = group
        .members
        .into_iter()
        .map(|member| {
            let mut topics: Vec<_> = member
                .target_assignment
                .topic_partitions
                .into_iter()
                .map(|topic| (topic.topic_name, topic.partitions))
                .collect();
            topics.sort();
            topics
        })
        .collect();
    let of = |topic: &str, partitions: &[i32]| (topic.to_owned(), partitions.to_vec());
    assert_eq!(targets, [vec![of("t", &[0]), of("u", &[0, 1])], vec![of("t", &[1]), of("u", &[2])], vec![]]);
    broker.shutdown().await;
}

async fn fetch_code(client: &mut Client, version: i16, member: Option<&str>, epoch: i32) -> ErrorCode {
    let group = OffsetFetchRequestGroup {
        group_id: GROUP.to_owned(),
        member_id: member.map(str::to_owned),
        member_epoch: epoch,
        topics: None,
        ..Default::default()
    };
    let response = client.call(version, &OffsetFetchRequest { groups: vec![group], ..Default::default() }).await;
    ErrorCode::from_i16(response.groups[0].error_code)
}

#[tokio::test]
async fn commit_and_fetch_check_member_epoch() {
    let broker = broker_with(1, GroupOptions::default()).await;
    let mut one = Consumer::new(&broker, "one").await;
    one.join().await;
    assert_eq!(one.commit(9).await, NONE);
    assert_eq!(one.commit(8).await, ErrorCode::UNSUPPORTED_VERSION);
    assert_eq!(broker.committed_offset(GROUP, "t", 0), Some(0));
    assert_eq!(fetch_code(&mut one.client, 9, Some("one"), 1).await, NONE);
    assert_eq!(fetch_code(&mut one.client, 9, None, -1).await, NONE);
    assert_eq!(fetch_code(&mut one.client, 8, None, -1).await, NONE);
    assert_eq!(fetch_code(&mut one.client, 9, Some("one"), 2).await, ErrorCode::STALE_MEMBER_EPOCH);
    assert_eq!(fetch_code(&mut one.client, 9, Some("two"), 1).await, ErrorCode::UNKNOWN_MEMBER_ID);
    one.epoch = 2;
    assert_eq!(one.commit(9).await, ErrorCode::STALE_MEMBER_EPOCH);
    let mut outsider = Member::new(&broker).await;
    assert_eq!(outsider.commit(5).await, ErrorCode::UNKNOWN_MEMBER_ID);
    one.leave(-1).await;
    assert_eq!(outsider.commit(5).await, NONE);
    broker.shutdown().await;
}

#[tokio::test]
async fn moved_coordinator_keeps_members() {
    let broker = broker_with(2, GroupOptions::default()).await;
    let mut one = Consumer::new(&broker, "one").await;
    one.join().await;
    let to = 1 - broker.coordinator(GROUP).unwrap();
    broker.move_coordinator(GROUP, to).unwrap();
    assert_eq!(one.code_without_message().await, ErrorCode::NOT_COORDINATOR);
    one.client = Client::connect(&broker, to.try_into().unwrap()).await;
    assert_eq!((one.heartbeat().await, one.epoch), (None, 1));
    broker.shutdown().await;
}

impl Consumer {
    async fn code_without_message(&mut self) -> ErrorCode {
        let request = self.brief();
        ErrorCode::from_i16(self.client.call(self.version, &request).await.error_code)
    }
}

#[tokio::test]
async fn protocol_changes_only_in_empty_group() {
    let broker = broker_with(1, short_sessions()).await;
    let mut classic = Member::new(&broker).await;
    let mut modern = Consumer::new(&broker, "m").await;
    classic.join_as_leader("").await;
    assert_eq!(classic.commit(5).await, NONE);
    assert_eq!(modern.code(&modern.full()).await, ErrorCode::GROUP_ID_NOT_FOUND);
    assert_eq!(describe(&broker).await.error_code, ErrorCode::GROUP_ID_NOT_FOUND.code());
    classic.leave().await;
    assert_eq!(modern.join().await, [0, 1]);
    assert_eq!(broker.committed_offset(GROUP, "t", 0), Some(5), "offsets stay");
    classic.id = String::new();
    classic.send_join().await;
    assert_eq!(classic.joined().await.error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL.code());
    assert_eq!(classic.heartbeat().await, ErrorCode::UNKNOWN_MEMBER_ID);
    let request = DescribeGroupsRequest { groups: vec![GROUP.to_owned()], ..Default::default() };
    assert_eq!(classic.client.call(5, &request).await.groups[0].group_state, "Dead");
    let listed = classic.client.call(5, &ListGroupsRequest::default()).await.groups.remove(0);
    assert_eq!((listed.group_type.as_str(), listed.group_state.as_str()), ("consumer", "Stable"));
    assert_eq!(listed.protocol_type, "consumer");
    modern.leave(-1).await;
    classic.join_as_leader("").await;
    assert_eq!(broker.committed_offset(GROUP, "t", 0), Some(5));
    broker.shutdown().await;
}

#[tokio::test]
async fn new_topics_bump_the_group_epoch() {
    let broker = broker_with(1, GroupOptions::default()).await;
    let mut one = Consumer { topics: vec!["t", "u"], ..Consumer::new(&broker, "one").await };
    assert_eq!(one.join().await, [0, 1]);
    broker.create_topic("u", 1).unwrap();
    assert_eq!(one.heartbeat().await.map(|partitions| partitions.len()), Some(3));
    let response = one.client.call(12, &MetadataRequest { topics: None, ..Default::default() }).await;
    let ids: Vec<Uuid> = response.topics.iter().map(|topic| topic.topic_id).collect();
    assert!(one.owned.iter().all(|topic| ids.contains(&topic.topic_id)));
    broker.shutdown().await;
}
