//! Share groups (KIP-932): sessions, acquisition, acknowledgement, locks and administration.

use std::time::Duration;

use crate::common::shares::*;
use crate::common::*;
use samsarrow_broker::{Broker, BrokerOptions, Fault, Release, ShareOptions};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::incremental_alter_configs::{AlterConfigsResource, AlterableConfig};
use samsarrow_wire::messages::{ApiKey, IncrementalAlterConfigsRequest, ShareAcknowledgeRequest, ShareFetchRequest};

const NONE: i16 = 0;
const ACCEPT: i8 = 1;
const RELEASE: i8 = 2;
const REJECT: i8 = 3;
const RENEW: i8 = 4;

/// Starts a broker with topic `t`, whose share group starts at the first record.
async fn broker_with(options: ShareOptions) -> Broker {
    let topics = vec![("t".to_owned(), 1)];
    let broker = Broker::start(BrokerOptions { shares: options, topics, ..BrokerOptions::default() }).await.unwrap();
    configure(&broker, "share.auto.offset.reset", "earliest").await;
    // The group has share state of the topic once a member has subscribed to it.
    let mut first = Member::new(&broker, "first").await;
    assert_eq!(first.heartbeat(Some(&["t"])).await.error_code, NONE);
    first.epoch = -1;
    assert_eq!(first.heartbeat(None).await.error_code, NONE);
    broker
}

async fn configure(broker: &Broker, name: &str, value: &str) {
    let configs = vec![AlterableConfig { name: name.to_owned(), value: Some(value.to_owned()), ..Default::default() }];
    let resource =
        AlterConfigsResource { resource_type: 32, resource_name: GROUP.to_owned(), configs, ..Default::default() };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let response = Client::connect(broker, 0).await.call(1, &request).await;
    assert_eq!(response.responses[0].error_code, NONE);
}

/// Produces batches with these numbers of records.
async fn produce(broker: &Broker, batches: &[usize]) {
    let mut client = Client::connect(broker, 0).await;
    for records in batches {
        assert_eq!(client.produce("t", 0, &batch(*records)).await.error_code, NONE);
    }
}

fn code(response: &samsarrow_wire::messages::ShareAcknowledgeResponse) -> ErrorCode {
    assert_eq!(response.error_code, NONE);
    ErrorCode::from_i16(response.responses[0].partitions[0].error_code)
}

#[tokio::test]
async fn member_joins_acquires_and_acknowledges() {
    let broker = broker_with(ShareOptions::default()).await;
    produce(&broker, &[10]).await;
    let mut member = Member::new(&broker, "a").await;
    let joined = member.heartbeat(Some(&["t"])).await;
    assert_eq!(joined.error_code, NONE);
    assert_eq!(joined.assignment.clone().unwrap().topic_partitions[0].partitions, [0]);
    assert!(member.heartbeat(None).await.assignment.is_none(), "an assignment is sent once");
    let full = member.heartbeat(Some(&["t"])).await;
    assert_eq!(full.assignment, joined.assignment, "a member may have lost the response, and then sends all fields");
    assert_eq!(broker.group_state(GROUP), Some("Stable"));
    assert_eq!(member.acquire().await, [(0, 9, 1)]);
    let partition = member.fetch(&[(0, 4, vec![ACCEPT]), (5, 9, vec![ACCEPT, RELEASE, REJECT, 0, RELEASE])]).await;
    assert_eq!(partition.acknowledge_error_code, NONE);
    let again: Vec<_> = partition.acquired_records.iter().map(|r| (r.first_offset, r.delivery_count)).collect();
    assert_eq!(again, [(6, 2), (9, 2)]);
    assert_eq!(headers(&partition.records.unwrap()), [(0, 0, 9)], "the batch is whole");
    assert_eq!(code(&member.acknowledge(&[(6, 6, vec![ACCEPT]), (9, 9, vec![ACCEPT])]).await), ErrorCode::NONE);
    assert_eq!(member.acquire().await, []);
}

#[tokio::test]
async fn members_share_a_partition() {
    let broker = broker_with(ShareOptions::default()).await;
    let mut members = Vec::new();
    for id in ["a", "b", "c"] {
        let mut member = Member::new(&broker, id).await;
        let joined = member.heartbeat(Some(&["t"])).await;
        assert_eq!(joined.assignment.clone().unwrap().topic_partitions[0].partitions, [0]);
        members.push(member);
    }
    produce(&broker, &[4, 4, 4]).await;
    for (member, first) in members.iter_mut().zip([0, 4, 8]) {
        member.max_records = 3;
        assert_eq!(member.acquire().await, [(first, first + 3, 1)], "the soft limit ends with the batch");
    }
    assert_eq!(members[0].acquire().await, []);
}

#[tokio::test]
async fn waiting_fetch_is_woken() {
    let broker = broker_with(ShareOptions::default()).await;
    let mut waiting = Member::new(&broker, "a").await;
    waiting.max_wait_ms = 60_000;
    let (acquired, ()) = tokio::join!(waiting.acquire(), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        produce(&broker, &[2]).await;
    });
    assert_eq!(acquired, [(0, 1, 1)]);
    let mut other = Member::new(&broker, "b").await;
    other.max_wait_ms = 60_000;
    let (acquired, released) = tokio::join!(other.acquire(), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        code(&waiting.acknowledge(&[(0, 0, vec![RELEASE])]).await)
    });
    assert_eq!((acquired, released), (vec![(0, 0, 2)], ErrorCode::NONE));
}

#[tokio::test]
async fn session_ends_with_its_connection() {
    let broker = broker_with(ShareOptions::default()).await;
    produce(&broker, &[3]).await;
    let mut gone = Member::new(&broker, "a").await;
    assert_eq!(gone.acquire().await, [(0, 2, 1)]);
    let session_epoch = gone.session_epoch;
    drop(gone);
    let mut other = Member { max_wait_ms: 5000, ..Member::new(&broker, "b").await };
    assert_eq!(other.acquire().await, [(0, 2, 2)], "the rows are available at once");
    let mut back = Member { session_epoch, ..Member::new(&broker, "a").await };
    assert_eq!(back.acknowledge(&[(0, 2, vec![ACCEPT])]).await.error_code, ErrorCode::SHARE_SESSION_NOT_FOUND.code());
    assert_eq!(other.close().await, NONE);
    assert_eq!(other.close().await, ErrorCode::SHARE_SESSION_NOT_FOUND.code());
    let mut third = Member::new(&broker, "c").await;
    assert_eq!(third.acquire().await, [(0, 2, 3)]);
}

#[tokio::test]
async fn second_request_of_a_session_makes_the_waiting_one_invalid() {
    let broker = broker_with(ShareOptions::default()).await;
    produce(&broker, &[1]).await;
    let mut member = Member::new(&broker, "a").await;
    assert_eq!(member.acquire().await, [(0, 0, 1)]);
    member.max_wait_ms = 60_000;
    let mut second = Member { session_epoch: 2, ..Member::new(&broker, "a").await };
    let request = member.fetch_request(&[]);
    let (fetched, ()) = tokio::join!(member.send(&request), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(code(&second.acknowledge(&[(0, 0, vec![ACCEPT])]).await), ErrorCode::NONE);
        produce(&broker, &[1]).await;
    });
    assert_eq!(fetched.error_code, ErrorCode::INVALID_SHARE_SESSION_EPOCH.code());
    let mut other = Member::new(&broker, "b").await;
    assert_eq!(other.acquire().await, [], "the row is held until its lock ends");
    broker.expire_locks(GROUP).unwrap();
    assert_eq!(other.acquire().await, [(1, 1, 2)]);
}

#[tokio::test]
async fn acknowledgements_of_a_partition_are_all_or_nothing() {
    let broker = broker_with(ShareOptions::default()).await;
    produce(&broker, &[20]).await;
    let mut member = Member { mode: 1, max_records: 10, ..Member::new(&broker, "a").await };
    assert_eq!(member.acquire().await, [(0, 9, 1)], "the strict limit splits a batch");
    assert_eq!(code(&member.acknowledge(&[(3, 3, vec![ACCEPT])]).await), ErrorCode::NONE);
    let acks = [(0, 2, vec![ACCEPT]), (3, 5, vec![ACCEPT])];
    assert_eq!(code(&member.acknowledge(&acks).await), ErrorCode::INVALID_RECORD_STATE);
    for (invalid, expected) in [
        ((4, 2, vec![ACCEPT]), ErrorCode::INVALID_REQUEST),
        ((4, 6, vec![ACCEPT, ACCEPT]), ErrorCode::INVALID_REQUEST),
        ((4, 6, vec![]), ErrorCode::INVALID_REQUEST),
        ((4, 6, vec![5]), ErrorCode::INVALID_REQUEST),
        ((4, 6, vec![RENEW]), ErrorCode::INVALID_REQUEST),
        ((30, 31, vec![ACCEPT]), ErrorCode::INVALID_REQUEST),
        ((4, i64::MAX, vec![ACCEPT]), ErrorCode::INVALID_REQUEST),
        ((i64::MIN, i64::MAX, vec![ACCEPT]), ErrorCode::INVALID_REQUEST),
    ] {
        assert_eq!(code(&member.acknowledge(std::slice::from_ref(&invalid)).await), expected, "{invalid:?}");
    }
    let overlapping = [(4, 6, vec![ACCEPT]), (6, 9, vec![ACCEPT])];
    assert_eq!(code(&member.acknowledge(&overlapping).await), ErrorCode::INVALID_RECORD_STATE);
    let acks = [(0, 2, vec![ACCEPT]), (4, 9, vec![ACCEPT])];
    assert_eq!(code(&member.acknowledge(&acks).await), ErrorCode::NONE, "nothing was applied before");
    let unsorted = [(12, 12, vec![ACCEPT]), (11, 11, vec![ACCEPT])];
    assert_eq!(code(&member.acknowledge(&unsorted).await), ErrorCode::INVALID_REQUEST);
}

#[tokio::test]
async fn lock_ends_and_is_renewed() {
    let lock = Duration::from_millis(300);
    let broker = broker_with(ShareOptions { lock, ..ShareOptions::default() }).await;
    produce(&broker, &[2]).await;
    let mut member = Member::new(&broker, "a").await;
    let response = member.send(&member.fetch_request(&[])).await;
    assert_eq!(response.acquisition_lock_timeout_ms, 300);
    let mut other = Member { max_wait_ms: 5000, ..Member::new(&broker, "b").await };
    let renewing = async {
        for _ in 0..4 {
            tokio::time::sleep(lock / 2).await;
            let renew =
                ShareAcknowledgeRequest { is_renew_ack: true, ..member.acknowledge_request(&[(0, 0, vec![RENEW])]) };
            let response = member.client.call(2, &renew).await;
            member.session_epoch += 1;
            assert_eq!((code(&response), response.acquisition_lock_timeout_ms), (ErrorCode::NONE, 300));
        }
        assert_eq!(code(&member.acknowledge(&[(0, 0, vec![ACCEPT])]).await), ErrorCode::NONE);
    };
    let (acquired, ()) = tokio::join!(other.acquire(), renewing);
    assert_eq!(acquired, [(1, 1, 2)], "only the row that was not renewed");
    let request = ShareFetchRequest { is_renew_ack: true, ..member.fetch_request(&[]) };
    assert_eq!(member.send(&request).await.error_code, ErrorCode::INVALID_REQUEST.code());
    configure(&broker, "share.renew.acknowledge.enable", "false").await;
    let renew = ShareAcknowledgeRequest { is_renew_ack: true, ..other.acknowledge_request(&[(1, 1, vec![RENEW])]) };
    assert_eq!(code(&other.client.call(2, &renew).await), ErrorCode::INVALID_RECORD_STATE);
}

#[tokio::test]
async fn late_acknowledgement_does_not_apply_to_the_next_delivery() {
    let broker = broker_with(ShareOptions::default()).await;
    produce(&broker, &[3]).await;
    let mut member = Member::new(&broker, "a").await;
    assert_eq!(member.acquire().await, [(0, 2, 1)]);
    broker.expire_locks(GROUP).unwrap();
    let partition = member.fetch(&[(0, 2, vec![ACCEPT])]).await;
    assert_eq!(partition.acknowledge_error_code, ErrorCode::INVALID_RECORD_STATE.code());
    let again: Vec<_> = partition.acquired_records.iter().map(|r| (r.first_offset, r.delivery_count)).collect();
    assert_eq!(again, [(0, 2)]);
    assert_eq!(code(&member.acknowledge(&[(0, 2, vec![ACCEPT])]).await), ErrorCode::NONE);
}

#[tokio::test]
async fn delivery_limit_archives_records() {
    let broker = broker_with(ShareOptions::default()).await;
    produce(&broker, &[8]).await;
    let mut member = Member::new(&broker, "a").await;
    let mut deliveries = [0; 8];
    loop {
        let acquired = member.acquire().await;
        if acquired.is_empty() {
            break;
        }
        for (first, last, count) in &acquired {
            for offset in *first..=*last {
                let seen = &mut deliveries[usize::try_from(offset).unwrap()];
                *seen += 1;
                assert_eq!(*seen, *count);
            }
            assert!(*count < 5 || first == last, "the last attempt delivers a record alone");
        }
        broker.expire_locks(GROUP).unwrap();
    }
    assert_eq!(deliveries, [5; 8]);
    let error = broker.expire_locks("unknown").unwrap_err();
    assert_eq!(error.to_string(), "there is no share group 'unknown' that has acquired records");
}

#[tokio::test]
async fn record_locks_limit_a_partition() {
    let broker = broker_with(ShareOptions { record_locks: 10, ..ShareOptions::default() }).await;
    produce(&broker, &[4, 4, 4, 4]).await;
    let mut member = Member::new(&broker, "a").await;
    assert_eq!(member.acquire().await, [(0, 11, 1)], "the limit is soft");
    assert_eq!(member.acquire().await, []);
    assert_eq!(code(&member.acknowledge(&[(0, 3, vec![ACCEPT])]).await), ErrorCode::NONE);
    assert_eq!(member.acquire().await, [(12, 15, 1)]);
}

#[tokio::test]
async fn locks_do_not_survive_a_new_leader() {
    let broker = broker_with(ShareOptions::default()).await;
    produce(&broker, &[2]).await;
    let mut member = Member::new(&broker, "a").await;
    assert_eq!(member.acquire().await, [(0, 1, 1)]);
    assert_eq!(code(&member.acknowledge(&[(0, 0, vec![ACCEPT])]).await), ErrorCode::NONE);
    broker.move_leader("t", 0, 0).unwrap();
    assert_eq!(code(&member.acknowledge(&[(1, 1, vec![ACCEPT])]).await), ErrorCode::INVALID_RECORD_STATE);
    assert_eq!(member.acquire().await, [(1, 1, 1)], "an acquisition is not stored");
}

#[tokio::test]
async fn faults_apply_to_share_requests() {
    let broker = broker_with(ShareOptions::default()).await;
    let mut member = Member::new(&broker, "a").await;
    broker.fail_next(ApiKey::ShareFetch, Fault::Error(ErrorCode::SHARE_SESSION_LIMIT_REACHED), 1);
    let response = member.send(&member.fetch_request(&[])).await;
    assert_eq!(response.error_code, ErrorCode::SHARE_SESSION_LIMIT_REACHED.code());
    broker.fail_next(ApiKey::ShareGroupHeartbeat, Fault::Error(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS), 1);
    let response = member.heartbeat(Some(&["t"])).await;
    assert_eq!(response.error_code, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS.code());
    broker.fail_next(ApiKey::ShareAcknowledge, Fault::Error(ErrorCode::NOT_LEADER_OR_FOLLOWER), 1);
    assert_eq!(member.acknowledge(&[]).await.error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER.code());
}

#[tokio::test]
async fn sessions_are_limited() {
    let broker = broker_with(ShareOptions { max_sessions: 1, ..ShareOptions::default() }).await;
    let mut first = Member::new(&broker, "a").await;
    assert_eq!(first.acquire().await, []);
    let mut second = Member::new(&broker, "b").await;
    let response = second.send(&second.fetch_request(&[])).await;
    assert_eq!(response.error_code, ErrorCode::SHARE_SESSION_LIMIT_REACHED.code());
    assert_eq!(first.close().await, NONE);
    second.session_epoch = 0;
    assert_eq!(second.acquire().await, []);
}

#[tokio::test]
async fn kafka_4_1_has_share_groups_only_if_enabled() {
    let kafka = Some(Release::named("4.1").unwrap());
    let broker = Broker::start(BrokerOptions { kafka, ..BrokerOptions::default() }).await.unwrap();
    let request = ShareFetchRequest { group_id: Some(GROUP.to_owned()), ..Default::default() };
    let response = Client::connect(&broker, 0).await.call(1, &request).await;
    assert_eq!(response.error_code, ErrorCode::UNSUPPORTED_VERSION.code());
}
