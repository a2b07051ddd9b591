//! Tests of ListOffsets, OffsetCommit, OffsetFetch and topic administration against the embedded broker and its faults.

use std::time::{Duration, Instant};

use bytes::Bytes;
use samsarrow_broker::{Broker, BrokerOptions, Fault};
use samsarrow_client::admin::{Admin, NewTopic};
use samsarrow_client::cluster::Cluster;
use samsarrow_client::cluster::coordinator::Coordinator;
use samsarrow_client::config::{ClientKind, IsolationLevel, OptionValue, Options};
use samsarrow_client::group::MemberIdentity;
use samsarrow_client::offsets::{ListTarget, commit, fetch_committed, list_offsets, list_offsets_each};
use samsarrow_client::producer::{Producer, ProducerRecord};
use samsarrow_client::types::{OffsetAndMetadata, TopicPartition};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;

const SOON: Duration = Duration::from_secs(10);

async fn broker(brokers: usize, topics: &[(&str, i32)]) -> Broker {
    let topics = topics.iter().map(|(name, partitions)| ((*name).to_owned(), *partitions)).collect();
    Broker::start(BrokerOptions { brokers, topics, auto_create_topics: false, ..Default::default() }).await.unwrap()
}

fn options(kind: ClientKind, broker: &Broker, more: &[(&str, &str)]) -> Options {
    let servers = broker.bootstrap_servers();
    let fast = [("reconnect.backoff.max.ms", "100"), ("retry.backoff.ms", "10"), ("retry.backoff.max.ms", "50")];
    let all = fast.into_iter().chain(more.iter().copied()).chain([("bootstrap.servers", servers.as_str())]);
    Options::parse(kind, all.map(|(k, v)| (k.to_owned(), OptionValue::Str(v.to_owned())))).unwrap()
}

fn group(broker: &Broker, more: &[(&str, &str)]) -> (Cluster, Coordinator) {
    let cluster = Cluster::new(&options(ClientKind::Consumer, broker, more)).unwrap();
    (cluster.clone(), Coordinator::new(cluster, "g"))
}

fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

fn at(offset: i64, metadata: &str) -> OffsetAndMetadata {
    OffsetAndMetadata { offset, metadata: metadata.into(), leader_epoch: None }
}

#[tokio::test]
async fn commits_are_readable_in_all_versions_of_one_storage() {
    let broker = broker(2, &[("t", 3), ("u", 1)]).await;
    let mut next = 0;
    for committed_in in 0..=10 {
        let version = committed_in.to_string();
        let (cluster, coordinator) = group(&broker, &[("api.version.offset_commit", &version)]);
        next += 1;
        let other = TopicPartition::new("u", 0);
        let offsets = [(tp(2), at(next, "text")), (other.clone(), at(next + 100, ""))];
        commit(&cluster, &coordinator, &MemberIdentity::default(), &offsets, SOON).await.unwrap();
        for fetched_in in 0..=10 {
            let version = fetched_in.to_string();
            let (cluster, coordinator) = group(&broker, &[("api.version.offset_fetch", &version)]);
            // The results must be in this order. One of the partitions has no committed offset.
            let requested = [other.clone(), tp(0), tp(2)];
            let found = fetch_committed(&cluster, &coordinator, &requested, false, SOON).await.unwrap();
            let offsets: Vec<_> = found.iter().map(|(_, found)| found.as_ref().map(|f| f.offset)).collect();
            // Version 0 reads from ZooKeeper, to which only the first round has committed. That commit stored no
            // metadata.
            let (expected, metadata) = match (committed_in, fetched_in) {
                (_, 0) => (Some(1), Some("")),
                (0, _) => (None, None),
                _ => (Some(next), Some("text")),
            };
            let both = [expected.map(|offset| offset + 100), None, expected];
            assert_eq!(offsets, both, "commit v{committed_in}, fetch v{fetched_in}");
            assert_eq!(found[2].1.as_ref().map(|found| found.metadata.as_str()), metadata);
            assert_eq!(found.iter().map(|(tp, _)| tp.clone()).collect::<Vec<_>>(), requested);
        }
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn leader_epochs_are_kept_and_minus_one_is_none() {
    let broker = broker(1, &[("t", 2)]).await;
    let (cluster, coordinator) = group(&broker, &[]);
    let with_epoch = OffsetAndMetadata { leader_epoch: Some(3), ..at(5, "") };
    let offsets = [(tp(0), with_epoch.clone()), (tp(1), at(6, ""))];
    commit(&cluster, &coordinator, &MemberIdentity::default(), &offsets, SOON).await.unwrap();
    let found = fetch_committed(&cluster, &coordinator, &[tp(0), tp(1)], false, SOON).await.unwrap();
    assert_eq!(found, [(tp(0), Some(with_epoch)), (tp(1), Some(at(6, "")))]);
    broker.shutdown().await;
}

#[tokio::test]
async fn retriable_coordinator_errors_are_retried() {
    let broker = broker(3, &[("t", 1)]).await;
    let faults = [
        Fault::Error(ErrorCode::NOT_COORDINATOR),
        Fault::Error(ErrorCode::COORDINATOR_NOT_AVAILABLE),
        Fault::Error(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS),
        Fault::DropBefore,
        Fault::DropAfter,
    ];
    let mut offset = 0;
    for fault in faults {
        for api in [ApiKey::FindCoordinator, ApiKey::OffsetCommit, ApiKey::OffsetFetch] {
            offset += 1;
            let (cluster, coordinator) = group(&broker, &[]);
            broker.fail_next(api, fault.clone(), 2);
            commit(&cluster, &coordinator, &MemberIdentity::default(), &[(tp(0), at(offset, ""))], SOON).await.unwrap();
            let found = fetch_committed(&cluster, &coordinator, &[tp(0)], false, SOON).await.unwrap();
            assert_eq!(found[0].1.as_ref().unwrap().offset, offset, "{fault:?} of {api:?}");
            broker.clear_faults();
        }
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn coordinator_that_times_out_is_looked_up_again() {
    let broker = broker(1, &[("t", 1)]).await;
    let (cluster, coordinator) = group(&broker, &[]);
    broker.fail_next(ApiKey::OffsetCommit, Fault::Error(ErrorCode::REQUEST_TIMED_OUT), 2);
    commit(&cluster, &coordinator, &MemberIdentity::default(), &[(tp(0), at(1, ""))], SOON).await.unwrap();
    assert_eq!(broker.requests().get(&ApiKey::FindCoordinator), Some(&3));
    broker.shutdown().await;
}

#[tokio::test]
async fn stopped_coordinator_is_replaced() {
    let broker = broker(3, &[("t", 1)]).await;
    let (cluster, coordinator) = group(&broker, &[]);
    for offset in 1..=3 {
        commit(&cluster, &coordinator, &MemberIdentity::default(), &[(tp(0), at(offset, ""))], SOON).await.unwrap();
        let node = broker.coordinator("g").unwrap();
        broker.stop_node(node).await.unwrap();
        let found = fetch_committed(&cluster, &coordinator, &[tp(0)], false, SOON).await.unwrap();
        assert_eq!(found[0].1.as_ref().unwrap().offset, offset);
        broker.start_node(node).await.unwrap();
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn non_retriable_errors_are_raised_immediately() {
    let broker = broker(1, &[("t", 2)]).await;
    let (cluster, coordinator) = group(&broker, &[]);
    let start = Instant::now();
    let long = "x".repeat(5000);
    let offsets = [(tp(0), at(1, "")), (tp(1), at(1, &long))];
    let outcomes = commit(&cluster, &coordinator, &MemberIdentity::default(), &offsets, SOON).await.unwrap();
    assert_eq!(outcomes[0], (tp(0), Ok(())));
    let error = outcomes[1].1.as_ref().unwrap_err();
    assert_eq!(error.name(), "OffsetMetadataTooLargeError");
    assert!(error.to_string().contains("t-1"), "{error}");

    for (api, code) in [
        (ApiKey::OffsetCommit, ErrorCode::GROUP_AUTHORIZATION_FAILED),
        (ApiKey::OffsetCommit, ErrorCode::ILLEGAL_GENERATION),
        (ApiKey::FindCoordinator, ErrorCode::GROUP_AUTHORIZATION_FAILED),
    ] {
        let (cluster, coordinator) = group(&broker, &[]);
        broker.fail_next(api, Fault::Error(code), 1);
        let error =
            commit(&cluster, &coordinator, &MemberIdentity::default(), &[(tp(0), at(1, ""))], SOON).await.unwrap_err();
        assert_eq!(error.code(), Some(code.code()), "{error}");
        assert!(error.to_string().contains("group g"), "{error}");
    }
    broker.fail_next(ApiKey::OffsetFetch, Fault::Error(ErrorCode::TOPIC_AUTHORIZATION_FAILED), 1);
    let error = fetch_committed(&cluster, &coordinator, &[tp(0)], false, SOON).await.unwrap_err();
    assert_eq!(error.name(), "TopicAuthorizationFailedError");

    // Partition 7 does not exist in the topic.
    let offsets = [(tp(0), at(2, "")), (tp(7), at(1, ""))];
    let outcomes = commit(&cluster, &coordinator, &MemberIdentity::default(), &offsets, SOON).await.unwrap();
    assert_eq!(outcomes[0], (tp(0), Ok(())));
    let error = outcomes[1].1.as_ref().unwrap_err();
    assert_eq!(error.name(), "UnknownTopicOrPartitionError");
    assert!(error.to_string().contains("t-7") && error.to_string().contains("2 partitions"), "{error}");
    assert!(start.elapsed() < SOON / 2, "{:?}", start.elapsed());
    broker.shutdown().await;
}

#[tokio::test]
async fn missing_coordinator_is_a_timeout_with_its_cause() {
    let broker = broker(1, &[("t", 1)]).await;
    let (cluster, coordinator) = group(&broker, &[]);
    let loading = Fault::Error(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    broker.on_request(ApiKey::OffsetCommit, move |_| Some(loading.clone()));
    let start = Instant::now();
    let offsets = [(tp(0), at(1, ""))];
    let error =
        commit(&cluster, &coordinator, &MemberIdentity::default(), &offsets, Duration::from_secs(1)).await.unwrap_err();
    assert!(start.elapsed() < SOON / 2);
    assert_eq!(error.name(), "KafkaTimeoutError");
    assert!(error.to_string().contains("COORDINATOR_LOAD_IN_PROGRESS"), "{error}");
    broker.shutdown().await;
}

#[tokio::test]
async fn recreated_topic_is_committed_to_once_its_id_is_known() {
    let broker = broker(1, &[("t", 1)]).await;
    let (cluster, coordinator) = group(&broker, &[]);
    commit(&cluster, &coordinator, &MemberIdentity::default(), &[(tp(0), at(5, ""))], SOON).await.unwrap();
    let admin = Admin::new(&options(ClientKind::Admin, &broker, &[])).unwrap();
    admin.delete_topics(&["t".into()], SOON).await.unwrap().remove(0).1.unwrap();
    broker.create_topic("t", 1).unwrap();
    // The offset belongs to the topic that is known at the time of the call, which is the deleted topic.
    let old = commit(&cluster, &coordinator, &MemberIdentity::default(), &[(tp(0), at(6, ""))], SOON).await.unwrap();
    let error = old.into_iter().next().unwrap().1.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::UNKNOWN_TOPIC_ID.code()));
    let new = commit(&cluster, &coordinator, &MemberIdentity::default(), &[(tp(0), at(7, ""))], SOON).await.unwrap();
    assert!(new.into_iter().all(|(_, outcome)| outcome.is_ok()));
    assert_eq!(broker.committed_offset("g", "t", 0), Some(7));
    broker.shutdown().await;
}

#[tokio::test]
async fn offsets_of_a_topic_that_leaves_the_metadata_do_not_reach_its_successor() {
    let broker = broker(1, &[("t", 1)]).await;
    let (cluster, coordinator) = group(&broker, &[("allow.auto.create.topics", "false")]);
    let who = MemberIdentity::default();
    commit(&cluster, &coordinator, &who, &[(tp(0), at(5, ""))], SOON).await.unwrap();
    let admin = Admin::new(&options(ClientKind::Admin, &broker, &[])).unwrap();
    admin.delete_topics(&["t".into()], SOON).await.unwrap().remove(0).1.unwrap();
    broker.create_topic("t", 1).unwrap();
    // After the first response, the client knows no id of the topic.
    broker.stale_metadata(None, &["t".to_owned()]);
    let old = commit(&cluster, &coordinator, &who, &[(tp(0), at(6, ""))], SOON).await.unwrap();
    let error = old.into_iter().next().unwrap().1.unwrap_err();
    assert_eq!(error.name(), "UnknownTopicOrPartitionError", "{error}");
    assert_ne!(broker.committed_offset("g", "t", 0), Some(6), "an offset of the old topic");
    broker.shutdown().await;
}

#[tokio::test]
async fn deleted_topic_delays_no_other_commit_and_backs_off() {
    // By default, requests use topic ids, and topic names if the client does not know the id of every topic. In the
    // second case, OffsetCommit v9 always uses names.
    for more in [
        &[("allow.auto.create.topics", "false")][..],
        &[("allow.auto.create.topics", "false"), ("api.version.offset_commit", "9")],
    ] {
        let topics = [("t", 1), ("y", 1)].map(|(name, count)| (name.to_owned(), count)).to_vec();
        let broker = Broker::start(BrokerOptions { topics, auto_create_topics: false, ..Default::default() });
        let broker = broker.await.unwrap();
        let (cluster, coordinator) = group(&broker, more);
        let deleted = TopicPartition::new("y", 0);
        let offsets = |offset| [(deleted.clone(), at(offset, "")), (tp(0), at(offset, ""))];
        let who = MemberIdentity::default();
        commit(&cluster, &coordinator, &who, &offsets(1), SOON).await.unwrap();
        let admin = Admin::new(&options(ClientKind::Admin, &broker, &[])).unwrap();
        admin.delete_topics(&["y".into()], SOON).await.unwrap().remove(0).1.unwrap();
        // The first client knew the topic, the second never did.
        for (offset, (cluster, coordinator)) in [(2, (cluster, coordinator)), (3, group(&broker, more))] {
            let before = broker.requests();
            let outcomes = commit(&cluster, &coordinator, &who, &offsets(offset), 6 * SOON).await.unwrap();
            let error = outcomes[0].1.as_ref().unwrap_err();
            assert_eq!(error.name(), "UnknownTopicOrPartitionError");
            assert!(error.to_string().contains("y-0"), "{error}");
            assert_eq!(outcomes[1], (tp(0), Ok(())));
            assert_eq!(broker.committed_offset("g", "t", 0), Some(offset));
            let requested = |api| broker.requests().get(&api).unwrap_or(&0) - before.get(&api).unwrap_or(&0);
            // The calls take about two seconds, with delays of 50 ms.
            assert!(
                requested(ApiKey::Metadata) < 100 && requested(ApiKey::OffsetCommit) < 100,
                "{:?}",
                broker.requests()
            );
            let both = [deleted.clone(), tp(0)];
            let found = fetch_committed(&cluster, &coordinator, &both, false, SOON).await.unwrap();
            assert_eq!((&found[0].1, &found[1].1), (&None, &Some(at(offset, ""))));
        }
        broker.shutdown().await;
    }
}

async fn fill(broker: &Broker, partitions: i32) {
    let producer = Producer::new(&options(ClientKind::Producer, broker, &[])).unwrap();
    for partition in 0..partitions {
        for i in 0..10 {
            let value = Bytes::from(format!("{i}"));
            let record = ProducerRecord { timestamp: Some(1000 * (i + 1)), ..ProducerRecord::new("t", value) };
            producer.send(record.with_partition(partition)).await.unwrap();
        }
    }
    producer.flush(Some(SOON)).await.unwrap();
    producer.close(SOON).await.unwrap();
}

#[tokio::test]
async fn list_offsets_keeps_the_requested_order() {
    let broker = broker(3, &[("t", 6)]).await;
    fill(&broker, 5).await;
    for version in [0, 1, 4, 6, 10] {
        let chosen = version.to_string();
        let (cluster, _) = group(&broker, &[("api.version.list_offsets", &chosen)]);
        let targets = [
            (tp(4), ListTarget::Latest),
            (tp(0), ListTarget::Earliest),
            (tp(5), ListTarget::Latest),
            (tp(2), ListTarget::Latest),
        ];
        let found = list_offsets(&cluster, &targets, IsolationLevel::ReadUncommitted, SOON).await.unwrap();
        let offsets: Vec<_> = found.iter().map(|(_, found)| found.unwrap().offset).collect();
        assert_eq!(offsets, [10, 0, 0, 10], "v{version}");
        if version > 0 {
            let times = [1, 3000, 3001, 99_999].map(ListTarget::Timestamp);
            for (target, expected) in times.into_iter().zip([Some((0, 1000)), Some((2, 3000)), Some((3, 4000)), None]) {
                let found =
                    list_offsets(&cluster, &[(tp(1), target)], IsolationLevel::ReadCommitted, SOON).await.unwrap();
                assert_eq!(found[0].1.map(|f| (f.offset, f.timestamp)), expected, "{target:?} v{version}");
            }
        }
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn listing_survives_moved_leaders_and_stopped_brokers() {
    let broker = broker(3, &[("t", 3)]).await;
    fill(&broker, 3).await;
    let (cluster, _) = group(&broker, &[]);
    let targets: Vec<_> = (0..3).map(|p| (tp(p), ListTarget::Latest)).collect();
    let ends = || async {
        let found = list_offsets(&cluster, &targets, IsolationLevel::ReadUncommitted, SOON).await.unwrap();
        found.iter().map(|(_, found)| found.unwrap().offset).collect::<Vec<_>>()
    };
    assert_eq!(ends().await, [10, 10, 10]);
    broker.move_leader("t", 0, broker.leader("t", 1).unwrap()).unwrap();
    assert_eq!(ends().await, [10, 10, 10]);
    broker.fail_next(ApiKey::ListOffsets, Fault::Error(ErrorCode::NOT_LEADER_OR_FOLLOWER), 2);
    assert_eq!(ends().await, [10, 10, 10]);
    broker.fail_next(ApiKey::ListOffsets, Fault::DropBefore, 2);
    assert_eq!(ends().await, [10, 10, 10]);
    let down = broker.leader("t", 2).unwrap();
    broker.stop_node(down).await.unwrap();
    let (listed, ()) = tokio::join!(ends(), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        broker.start_node(down).await.unwrap();
    });
    assert_eq!(listed, [10, 10, 10]);

    let start = Instant::now();
    let outside = [(tp(3), ListTarget::Latest)];
    let error = list_offsets(&cluster, &outside, IsolationLevel::ReadUncommitted, SOON).await.unwrap_err();
    assert_eq!(error.name(), "UnknownTopicOrPartitionError");
    assert!(error.to_string().contains("t-3"), "{error}");
    assert!(start.elapsed() < SOON / 2);

    // Each partition has its own result, and errors name the failed partition.
    broker.fail(ApiKey::ListOffsets, broker.leader("t", 0), &Fault::Error(ErrorCode::LEADER_NOT_AVAILABLE), None);
    let absent = TopicPartition::new("absent", 0);
    let targets = [tp(0), tp(2), tp(3), absent.clone()].map(|tp| (tp, ListTarget::Latest));
    broker.move_leader("t", 2, (broker.leader("t", 0).unwrap() + 1) % 3).unwrap();
    let soon = Duration::from_secs(4);
    let each = list_offsets_each(&cluster, &targets, IsolationLevel::ReadUncommitted, soon).await;
    let of = |at: usize| (each[at].0.clone(), each[at].1.as_ref().map(|found| found.unwrap().offset));
    assert_eq!(of(1), (tp(2), Ok(10)));
    let failed = [0, 2, 3].map(|at| (of(at).0, of(at).1.unwrap_err().name()));
    let unknown = || "UnknownTopicOrPartitionError".to_owned();
    assert_eq!(failed, [(tp(0), "KafkaTimeoutError".to_owned()), (tp(3), unknown()), (absent, unknown())]);
    let error = list_offsets(&cluster, &targets[..2], IsolationLevel::ReadUncommitted, soon).await.unwrap_err();
    assert!(error.to_string().contains("t-0") && error.to_string().contains("LEADER_NOT_AVAILABLE"), "{error}");
    broker.shutdown().await;
}

#[tokio::test]
async fn create_list_and_delete_topics_have_a_result_per_topic() {
    let broker = broker(2, &[("there", 1)]).await;
    let admin = Admin::new(&options(ClientKind::Admin, &broker, &[])).unwrap();
    let new = |name: &str, num_partitions| NewTopic {
        name: name.into(),
        num_partitions,
        replication_factor: -1,
        assignment: Vec::new(),
        configs: vec![("retention.ms".into(), "1000".into())],
    };
    broker.fail_next(ApiKey::CreateTopics, Fault::Error(ErrorCode::NOT_CONTROLLER), 2);
    broker.fail_next(ApiKey::Metadata, Fault::DropBefore, 1);
    let created = admin.create_topics(&[new("a", 3), new("there", 1), new("bad name!", 1)], false, SOON).await.unwrap();
    let outcomes: Vec<_> = created.iter().map(|(name, outcome)| (name.as_str(), outcome.as_ref().err())).collect();
    assert_eq!(outcomes[0], ("a", None));
    assert_eq!(outcomes[1].1.unwrap().name(), "TopicAlreadyExistsError");
    assert!(outcomes[1].1.unwrap().to_string().contains("there"));
    assert_eq!(outcomes[2].1.unwrap().name(), "InvalidTopicError");

    let listed = admin.list_topics(None, SOON).await.unwrap();
    let listed: Vec<_> = listed.iter().map(|topic| (topic.name.as_str(), topic.partitions)).collect();
    assert_eq!(listed, [("a", 3), ("there", 1)]);

    for version in ["1", "5", "6"] {
        let more = [("api.version.delete_topics", version)];
        let admin = Admin::new(&options(ClientKind::Admin, &broker, &more)).unwrap();
        broker.fail_next(ApiKey::DeleteTopics, Fault::DropBefore, 1);
        let deleted = admin.delete_topics(&["a".into(), "nope".into()], SOON).await.unwrap();
        assert_eq!(deleted[0].1, Ok(()), "v{version}");
        assert_eq!(deleted[1].1.as_ref().unwrap_err().name(), "UnknownTopicOrPartitionError");
        broker.create_topic("a", 3).unwrap();
    }
    admin.close().await;
    assert_eq!(admin.list_topics(None, SOON).await.unwrap_err().name(), "ClosedError");
    broker.shutdown().await;
}
