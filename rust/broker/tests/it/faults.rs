//! Injected faults, moved leaders and stopped nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::*;
use samsarrow_broker::Fault;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::frame;
use samsarrow_wire::messages::{ApiKey, FetchRequest, MetadataRequest, ProduceRequest};
use tokio::net::TcpStream;

#[tokio::test]
async fn error_is_injected_a_number_of_times() {
    let broker = broker(1, &[("t", 1)]).await;
    let mut client = Client::connect(&broker, 0).await;
    broker.fail_next(ApiKey::Produce, Fault::Error(ErrorCode::NOT_ENOUGH_REPLICAS), 2);
    for _ in 0..2 {
        let response = client.produce("t", 0, &batch(1)).await;
        assert_eq!((response.error_code, response.base_offset), (ErrorCode::NOT_ENOUGH_REPLICAS.code(), -1));
    }
    assert_eq!(client.produce("t", 0, &batch(1)).await.base_offset, 0);
    broker.shutdown().await;
}

#[tokio::test]
async fn connection_is_dropped_before_and_after() {
    let broker = broker(1, &[("t", 1)]).await;
    for (fault, end) in [(Fault::DropBefore, 0), (Fault::DropAfter, 1)] {
        let mut client = Client::connect(&broker, 0).await;
        broker.fail_next(ApiKey::Produce, fault, 1);
        client.send(9, &produce_request("t", 0, &batch(1), -1)).await;
        assert!(client.is_closed().await);
        assert_eq!(broker.end_offset("t", 0), Some(end));
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn garbage_has_correlation_id_and_undecodable_body() {
    let broker = broker(1, &[("t", 1)]).await;
    let mut client = Client::connect(&broker, 0).await;
    broker.fail_next(ApiKey::Produce, Fault::Garbage, 1);
    client.send(9, &produce_request("t", 0, &batch(1), -1)).await;
    let garbage = client.frame().await.unwrap();
    assert_eq!(frame::correlation_id(&garbage), Some(1));
    assert!(frame::decode_response::<ProduceRequest>(9, garbage).is_err());
    assert_eq!(client.produce("t", 0, &batch(1)).await.base_offset, 1, "the connection goes on");
    broker.shutdown().await;
}

#[tokio::test]
async fn hook_sees_requests_and_chooses_fault() {
    let broker = broker(1, &[("t", 1)]).await;
    let mut client = Client::connect(&broker, 0).await;
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = seen.clone();
    broker.on_request(ApiKey::Metadata, move |request| {
        assert_eq!((request.api_key, request.node, request.client_id.as_deref()), (ApiKey::Metadata, 0, Some("test")));
        counter.fetch_add(1, Ordering::Relaxed);
        (request.api_version == 4).then_some(Fault::Delay(Duration::from_millis(300)))
    });
    let began = Instant::now();
    client.call(4, &MetadataRequest::default()).await;
    assert!(began.elapsed() >= Duration::from_millis(300));
    client.call(5, &MetadataRequest::default()).await;
    client.produce("t", 0, &batch(1)).await;
    assert_eq!(seen.load(Ordering::Relaxed), 2);
    broker.clear_faults();
    client.call(4, &MetadataRequest::default()).await;
    assert_eq!(seen.load(Ordering::Relaxed), 2);
    broker.shutdown().await;
}

#[tokio::test]
async fn moved_leader() {
    let broker = broker(2, &[("t", 1)]).await;
    let mut old = Client::connect(&broker, 0).await;
    let mut new = Client::connect(&broker, 1).await;
    old.produce("t", 0, &batch(2)).await;
    // A long poll at the previous leader completes immediately.
    old.send(12, &FetchRequest { max_wait_ms: 15_000, ..fetch_request("t", &[(0, 2)]) }).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let began = Instant::now();
    broker.move_leader("t", 0, 1).unwrap();
    let response = old.receive::<FetchRequest>(12).await;
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(response.responses[0].partitions[0].error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER.code());
    let mut response = old.call(10, &produce_request("t", 0, &batch(1), 1)).await;
    let partition = response.responses.remove(0).partition_responses.remove(0);
    assert_eq!(partition.error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER.code());
    assert_eq!((partition.current_leader.leader_id, partition.current_leader.leader_epoch), (1, 1));
    assert_eq!(response.node_endpoints[0].node_id, 1);
    assert_eq!(new.produce("t", 0, &batch(1)).await.base_offset, 2, "the data moved along");
    let records = new.fetch("t", 0, 0).await.records.unwrap();
    assert_eq!(headers(&records), [(0, 0, 1), (2, 1, 2)]);
    assert!(broker.move_leader("t", 3, 0).is_err());
    assert!(broker.move_leader("t", 0, 2).is_err());
    broker.shutdown().await;
}

#[tokio::test]
async fn stopped_node_hands_over_and_returns() {
    let broker = broker(2, &[("t", 2)]).await;
    let mut first = Client::connect(&broker, 0).await;
    let mut second = Client::connect(&broker, 1).await;
    first.produce("t", 0, &batch(3)).await;
    broker.stop_node(0).await.unwrap();
    broker.stop_node(0).await.unwrap();
    assert!(first.is_closed().await);
    assert!(TcpStream::connect(address(&broker, 0)).await.is_err(), "connections are refused");
    assert_eq!(broker.leader("t", 0), Some(1));
    assert!(broker.move_leader("t", 0, 0).is_err(), "a stopped node cannot lead");
    assert_eq!(second.fetch("t", 0, 0).await.high_watermark, 3);
    let response = second.call(9, &MetadataRequest { topics: None, ..Default::default() }).await;
    assert_eq!(response.brokers.len(), 1);
    assert_eq!(response.controller_id, 1);
    let partition = &response.topics[0].partitions[0];
    assert_eq!((partition.leader_id, partition.leader_epoch), (1, 1));
    assert_eq!((&partition.isr_nodes[..], &partition.offline_replicas[..]), (&[1][..], &[0][..]));
    broker.start_node(0).await.unwrap();
    let mut first = Client::connect(&broker, 0).await;
    assert_eq!(first.produce("t", 0, &batch(1)).await.error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER.code());
    broker.move_leader("t", 0, 0).unwrap();
    assert_eq!(first.produce("t", 0, &batch(1)).await.base_offset, 3);
    broker.shutdown().await;
}

#[tokio::test]
async fn single_stopped_node_leaves_no_leader() {
    let broker = broker(1, &[("t", 1)]).await;
    let mut client = Client::connect(&broker, 0).await;
    client.produce("t", 0, &batch(3)).await;
    for _ in 0..3 {
        broker.stop_node(0).await.unwrap();
        assert_eq!(broker.leader("t", 0), None);
        broker.start_node(0).await.unwrap();
        assert_eq!(broker.leader("t", 0), Some(0));
    }
    let mut client = Client::connect(&broker, 0).await;
    assert_eq!(client.fetch("t", 0, 0).await.high_watermark, 3, "the data are kept");
    broker.shutdown().await;
    assert!(TcpStream::connect(address(&broker, 0)).await.is_err());
}

#[tokio::test]
async fn delayed_request_is_handled_after_disconnect() {
    let broker = broker(1, &[("t", 1)]).await;
    broker.fail_next(ApiKey::Produce, Fault::Delay(Duration::from_millis(100)), 1);
    let mut client = Client::connect(&broker, 0).await;
    client.send(9, &produce_request("t", 0, &batch(1), -1)).await;
    drop(client);
    let began = Instant::now();
    while broker.end_offset("t", 0) != Some(1) && began.elapsed() < TIMEOUT {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(broker.end_offset("t", 0), Some(1));
    broker.shutdown().await;
}

#[tokio::test]
async fn idempotent_retries_are_appended_once() {
    let broker = broker(2, &[("t", 1)]).await;
    let mut random = fastrand::Rng::with_seed(3);
    broker.on_request(ApiKey::Produce, move |_| match random.u8(..) {
        0..40 => Some(Fault::DropBefore),
        40..80 => Some(Fault::DropAfter),
        80..100 => Some(Fault::Error(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND)),
        _ => None,
    });
    let mut leader = 0;
    let mut client = Client::connect(&broker, 0).await;
    for sequence in 0..200 {
        if sequence % 20 == 19 {
            leader = 1 - leader;
            broker.move_leader("t", 0, leader).unwrap();
            client = Client::connect(&broker, leader.try_into().unwrap()).await;
        }
        let stamp = ProducerFields { producer_id: 1, epoch: 0, sequence };
        let request = produce_request("t", 0, &batch_of(&[i64::from(sequence)], 5, stamp), -1);
        loop {
            client.send(9, &request).await;
            let Some(frame) = client.frame().await else {
                client = Client::connect(&broker, leader.try_into().unwrap()).await;
                continue;
            };
            let (_, response) = frame::decode_response::<ProduceRequest>(9, frame).unwrap();
            let response = &response.responses[0].partition_responses[0];
            if response.error_code == 0 {
                assert_eq!(response.base_offset, i64::from(sequence));
                break;
            }
        }
    }
    assert_eq!(broker.end_offset("t", 0), Some(200));
    broker.shutdown().await;
}
