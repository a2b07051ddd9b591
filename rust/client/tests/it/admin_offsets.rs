//! Operations of Admin on the offsets of groups, against the embedded broker and its faults.

use std::time::Duration;

use samsarrow_broker::{Broker, BrokerOptions, Fault};
use samsarrow_client::admin::{Admin, CommitSettings, FetchSettings};
use samsarrow_client::config::{ClientKind, OptionValue, Options};
use samsarrow_client::types::{OffsetAndMetadata, TopicPartition};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;

const SOON: Duration = Duration::from_secs(10);

async fn start(brokers: usize) -> (Broker, Admin) {
    let topics = vec![("t".to_owned(), 2)];
    let options = BrokerOptions { brokers, topics, auto_create_topics: false, ..Default::default() };
    let broker = Broker::start(options).await.unwrap();
    let servers = broker.bootstrap_servers();
    let fast = [("reconnect.backoff.max.ms", "100"), ("retry.backoff.ms", "10"), ("retry.backoff.max.ms", "50")];
    let all = fast.into_iter().chain([("bootstrap.servers", servers.as_str())]);
    let pairs = all.map(|(name, value)| (name.to_owned(), OptionValue::Str(value.to_owned())));
    let admin = Admin::new(&Options::parse(ClientKind::Admin, pairs).unwrap()).unwrap();
    (broker, admin)
}

fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

fn at(offset: i64) -> OffsetAndMetadata {
    OffsetAndMetadata { offset, ..Default::default() }
}

#[tokio::test]
async fn retriable_coordinator_errors_are_retried() {
    let (broker, admin) = start(3).await;
    let faults = [
        Fault::Error(ErrorCode::NOT_COORDINATOR),
        Fault::Error(ErrorCode::COORDINATOR_NOT_AVAILABLE),
        Fault::Error(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS),
        Fault::DropBefore,
        Fault::DropAfter,
    ];
    let groups: Vec<_> = ["a", "b", "c", "d"].map(|group| (group.to_owned(), None)).into();
    let mut offset = 0;
    for version in [Some(7), None] {
        for fault in &faults {
            for api in [ApiKey::FindCoordinator, ApiKey::OffsetCommit, ApiKey::OffsetFetch] {
                offset += 1;
                for (group, _) in &groups {
                    broker.fail_next(api, fault.clone(), 1);
                    let done =
                        admin.commit_offsets(group, &[(tp(0), at(offset))], &CommitSettings::default(), SOON).await;
                    assert_eq!(done.unwrap(), [(tp(0), Ok(()))]);
                }
                broker.fail_next(api, fault.clone(), 3);
                let settings = FetchSettings { version, require_stable: false };
                for (group, found) in admin.fetch_offsets(&groups, &settings, SOON).await.unwrap() {
                    assert_eq!(found, Ok(vec![(tp(0), Some(at(offset)))]), "{group}: {fault:?} of {api:?}");
                }
                broker.clear_faults();
            }
        }
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn stopped_coordinator_is_replaced() {
    let (broker, admin) = start(3).await;
    let groups: Vec<_> = (0..6).map(|i| (format!("g{i}"), Some(vec![tp(1), tp(0)]))).collect();
    for (group, _) in &groups {
        admin.commit_offsets(group, &[(tp(0), at(9))], &CommitSettings::default(), SOON).await.unwrap();
    }
    for node in 0..3 {
        broker.stop_node(node).await.unwrap();
        for (group, found) in admin.fetch_offsets(&groups, &FetchSettings::default(), SOON).await.unwrap() {
            assert_eq!(found, Ok(vec![(tp(1), None), (tp(0), Some(at(9)))]), "{group} without node {node}");
        }
        broker.start_node(node).await.unwrap();
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn final_errors_concern_the_group_or_the_request() {
    let (broker, admin) = start(1).await;
    let none = CommitSettings::default();
    for code in [ErrorCode::GROUP_AUTHORIZATION_FAILED, ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::INVALID_GROUP_ID] {
        broker.fail_next(ApiKey::OffsetCommit, Fault::Error(code), 1);
        let error = admin.commit_offsets("g", &[(tp(0), at(1)), (tp(1), at(1))], &none, SOON).await.unwrap_err();
        assert_eq!(error.code(), Some(code.code()));
        broker.fail_next(ApiKey::OffsetFetch, Fault::Error(code), 1);
        let requested = [("g".to_owned(), None), ("h".to_owned(), None)];
        let found = admin.fetch_offsets(&requested, &FetchSettings::default(), SOON).await.unwrap();
        assert!(found.iter().all(|(_, found)| found.as_ref().unwrap_err().code() == Some(code.code())), "{found:?}");
    }
    let code = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
    broker.fail_next(ApiKey::OffsetCommit, Fault::Error(code), 1);
    let done = admin.commit_offsets("g", &[(tp(0), at(1)), (tp(1), at(1))], &none, SOON).await.unwrap();
    assert!(done.iter().all(|(_, outcome)| outcome.as_ref().unwrap_err().code() == Some(code.code())), "{done:?}");
    // If the coordinator keeps loading, the call times out, and the error contains this cause.
    broker.fail_next(ApiKey::OffsetFetch, Fault::Error(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS), 1000);
    let requested = [("g".to_owned(), None)];
    let found = admin.fetch_offsets(&requested, &FetchSettings::default(), Duration::from_secs(1)).await.unwrap();
    let text = found[0].1.as_ref().unwrap_err().to_string();
    assert!(text.contains("group g took longer") && text.contains("COORDINATOR_LOAD_IN_PROGRESS"), "{text}");
    broker.shutdown().await;
}

#[tokio::test]
async fn invalid_response_is_an_error_that_names_the_api() {
    let (broker, admin) = start(1).await;
    broker.fail_next(ApiKey::OffsetCommit, Fault::Garbage, 1);
    let error = admin.commit_offsets("g", &[(tp(0), at(1))], &CommitSettings::default(), SOON).await.unwrap_err();
    assert!(error.to_string().contains("OffsetCommit"), "{error}");
    broker.fail_next(ApiKey::OffsetFetch, Fault::Garbage, 1);
    let requested = [("g".to_owned(), None)];
    let error = admin.fetch_offsets(&requested, &FetchSettings::default(), SOON).await.unwrap_err();
    assert!(error.to_string().contains("OffsetFetch"), "{error}");
    broker.shutdown().await;
}

#[tokio::test]
async fn offsets_in_zookeeper_need_no_coordinator() {
    let (broker, admin) = start(3).await;
    broker.fail_next(ApiKey::FindCoordinator, Fault::Error(ErrorCode::COORDINATOR_NOT_AVAILABLE), 1000);
    let commit = CommitSettings { version: Some(0), ..Default::default() };
    let fetch = FetchSettings { version: Some(0), ..Default::default() };
    for node in 0..3 {
        broker.stop_node(node).await.unwrap();
        let group = format!("g{node}");
        assert_eq!(admin.commit_offsets(&group, &[(tp(0), at(7))], &commit, SOON).await.unwrap(), [(tp(0), Ok(()))]);
        let requested = [(group.clone(), Some(vec![tp(0), tp(1)]))];
        let found = admin.fetch_offsets(&requested, &fetch, SOON).await.unwrap();
        assert_eq!(found, [(group, Ok(vec![(tp(0), Some(at(7))), (tp(1), None)]))]);
        broker.start_node(node).await.unwrap();
    }
    let code = ErrorCode::UNSUPPORTED_VERSION;
    broker.fail_next(ApiKey::OffsetCommit, Fault::Error(code), 1);
    let error = admin.commit_offsets("g", &[(tp(0), at(7))], &commit, SOON).await.unwrap_err();
    assert!(error.code() == Some(code.code()) && error.to_string().contains("this broker does not use"), "{error}");
    broker.shutdown().await;
}
