//! Operations of Admin on groups, against the embedded broker and its faults.

use std::time::Duration;

use samsarrow_broker::{Broker, BrokerOptions, Fault};
use samsarrow_client::admin::{Admin, CommitSettings, FetchSettings, GroupFilter};
use samsarrow_client::config::{ClientKind, OptionValue, Options};
use samsarrow_client::types::{OffsetAndMetadata, TopicPartition};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;

const SOON: Duration = Duration::from_secs(10);

/// Starts three nodes, with the groups `g0` to `g5`. Each group has committed one offset.
async fn start(more: &[(&str, &str)]) -> (Broker, Admin, Vec<String>) {
    let topics = vec![("t".to_owned(), 2)];
    let options = BrokerOptions { brokers: 3, topics, auto_create_topics: false, ..Default::default() };
    let broker = Broker::start(options).await.unwrap();
    let servers = broker.bootstrap_servers();
    let fast = [("reconnect.backoff.max.ms", "100"), ("retry.backoff.ms", "10"), ("retry.backoff.max.ms", "50")];
    let all = fast.into_iter().chain(more.iter().copied()).chain([("bootstrap.servers", servers.as_str())]);
    let pairs = all.map(|(name, value)| (name.to_owned(), OptionValue::Str(value.to_owned())));
    let admin = Admin::new(&Options::parse(ClientKind::Admin, pairs).unwrap()).unwrap();
    let groups: Vec<String> = (0..6).map(|i| format!("g{i}")).collect();
    for group in &groups {
        commit(&admin, group).await;
    }
    (broker, admin, groups)
}

async fn commit(admin: &Admin, group: &str) {
    let at = OffsetAndMetadata { offset: 3, ..Default::default() };
    admin.commit_offsets(group, &[(tp(0), at)], &CommitSettings::default(), SOON).await.unwrap();
}

fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

#[tokio::test]
async fn list_groups_includes_all_brokers() {
    let (broker, admin, groups) = start(&[]).await;
    for fault in [
        Fault::Error(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS),
        Fault::Error(ErrorCode::COORDINATOR_NOT_AVAILABLE),
        Fault::DropBefore,
        Fault::DropAfter,
    ] {
        broker.fail_next(ApiKey::ListGroups, fault.clone(), 4);
        let listed: Vec<String> =
            admin.list_groups(&GroupFilter::default(), SOON).await.unwrap().into_iter().map(|g| g.group).collect();
        assert_eq!(listed, groups, "{fault:?}");
        broker.clear_faults();
    }
    let one = admin.list_groups(&GroupFilter::default(), SOON).await.unwrap().remove(0);
    assert_eq!((one.protocol_type.as_str(), one.state.as_deref()), ("", Some("Empty")));
    // If a broker does not respond, the call fails, because a list without the groups of this broker would be
    // misleading.
    broker.fail_next(ApiKey::ListGroups, Fault::Error(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS), 1000);
    let text = admin.list_groups(&GroupFilter::default(), Duration::from_secs(1)).await.unwrap_err().to_string();
    assert!(text.contains("ListGroups of broker") && text.contains("COORDINATOR_LOAD_IN_PROGRESS"), "{text}");
    broker.shutdown().await;
}

#[tokio::test]
async fn describe_groups_has_a_result_per_group() {
    let (broker, admin, mut groups) = start(&[]).await;
    groups.push("nobody".into());
    for fault in [None, Some(Fault::Error(ErrorCode::NOT_COORDINATOR)), Some(Fault::DropBefore)] {
        if let Some(fault) = fault {
            broker.fail_next(ApiKey::DescribeGroups, fault, 2);
        }
        let described = admin.describe_groups(&groups, false, SOON).await.unwrap();
        assert_eq!(described.iter().map(|(group, _)| group.clone()).collect::<Vec<_>>(), groups);
        for (group, found) in described {
            match found {
                Ok(found) => {
                    assert_eq!((found.kind, found.state.as_str(), found.members.len()), ("classic", "Empty", 0))
                }
                Err(error) => {
                    assert_eq!(group, "nobody");
                    assert_eq!(error.code(), Some(ErrorCode::GROUP_ID_NOT_FOUND.code()));
                }
            }
        }
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn unknown_group_is_an_error_in_every_version() {
    for version in 0..=6 {
        let (broker, admin, _) = start(&[("api.version.describe_groups", &version.to_string())]).await;
        let found = admin.describe_groups(&["g1".into(), "nobody".into()], false, SOON).await.unwrap();
        assert!(found[0].1.is_ok(), "v{version}: {found:?}");
        let code = found[1].1.as_ref().unwrap_err().code();
        assert_eq!(code, Some(ErrorCode::GROUP_ID_NOT_FOUND.code()), "v{version}");
        broker.shutdown().await;
    }
}

#[tokio::test]
async fn delete_groups_and_delete_offsets() {
    let (broker, admin, groups) = start(&[]).await;
    broker.fail_next(ApiKey::DeleteGroups, Fault::Error(ErrorCode::NOT_COORDINATOR), 2);
    let requested = ["g0".to_owned(), "nobody".to_owned(), "g1".to_owned()];
    let done = admin.delete_groups(&requested, SOON).await.unwrap();
    let codes: Vec<_> = done.iter().map(|(_, done)| done.as_ref().err().and_then(|error| error.code())).collect();
    assert_eq!(codes, [None, Some(ErrorCode::GROUP_ID_NOT_FOUND.code()), None]);
    assert_eq!(admin.list_groups(&GroupFilter::default(), SOON).await.unwrap().len(), groups.len() - 2);

    broker.fail_next(ApiKey::OffsetDelete, Fault::Error(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS), 1);
    let done = admin.delete_offsets("g2", &[tp(1), tp(0)], SOON).await.unwrap();
    assert_eq!(done, [(tp(1), Ok(())), (tp(0), Ok(()))]);
    let found = admin.fetch_offsets(&[("g2".into(), None)], &FetchSettings::default(), SOON).await.unwrap();
    assert_eq!(found, [("g2".to_owned(), Ok(vec![]))]);
    let error = admin.delete_offsets("nobody", &[tp(0)], SOON).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::GROUP_ID_NOT_FOUND.code()));
    broker.shutdown().await;
}
