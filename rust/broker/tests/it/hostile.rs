//! Malformed and malicious requests, which affect only their own connection.

use crate::common::*;
use bytes::Bytes;
use samsarrow_broker::{Broker, BrokerOptions};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::frame;
use samsarrow_wire::messages::add_partitions_to_txn::AddPartitionsToTxnTopic;
use samsarrow_wire::messages::{AddPartitionsToTxnRequest, ApiVersionsRequest, EndTxnRequest, MetadataRequest};
use tokio::io::AsyncWriteExt;

async fn still_works(broker: &Broker) {
    let mut client = Client::connect(broker, 0).await;
    let response = client.produce("t", 0, &batch(1)).await;
    assert_eq!(response.error_code, 0);
}

async fn closes_after(broker: &Broker, bytes: &[u8]) {
    let mut client = Client::connect(broker, 0).await;
    client.stream.write_all(bytes).await.unwrap();
    assert!(client.is_closed().await, "{bytes:?}");
    still_works(broker).await;
}

#[tokio::test]
async fn invalid_frames_close_the_connection() {
    let broker = broker(1, &[("t", 1)]).await;
    closes_after(&broker, &[0xff; 16]).await;
    closes_after(&broker, b"GET / HTTP/1.1\r\n\r\n").await;
    closes_after(&broker, &[0, 0, 0, 0]).await;
    closes_after(&broker, &[0, 0, 0, 1, 9]).await;
    // The pairs are an unknown API, an unsupported API, two unsupported versions, and a negative API key.
    for (api, version) in [(1000_i16, 0_i16), (50, 0), (3, 99), (1, 3), (-1, -1)] {
        let mut request = vec![0, 0, 0, 10];
        request.extend(api.to_be_bytes());
        request.extend(version.to_be_bytes());
        request.extend([0, 0, 0, 1, 0xff, 0xff]);
        closes_after(&broker, &request).await;
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn oversized_frame_is_not_read() {
    let options =
        BrokerOptions { topics: vec![("t".to_owned(), 1)], request_max_bytes: 1000, ..BrokerOptions::default() };
    let broker = Broker::start(options).await.unwrap();
    closes_after(&broker, &1001_u32.to_be_bytes()).await;
    closes_after(&broker, &i32::MAX.to_be_bytes()).await;
    broker.shutdown().await;
}

#[tokio::test]
async fn truncated_and_mutated_requests() {
    let broker = broker(1, &[("t", 1)]).await;
    let end =
        EndTxnRequest { transactional_id: "x".to_owned(), producer_id: 1000, committed: true, ..Default::default() };
    let added = AddPartitionsToTxnTopic { name: "t".to_owned(), partitions: vec![0], ..Default::default() };
    let add = AddPartitionsToTxnRequest { v3_and_below_topics: vec![added], ..Default::default() };
    let requests: [Bytes; 5] = [
        frame::encode_request(&end, 3, 1, Some("c")).unwrap(),
        frame::encode_request(&add, 3, 1, Some("c")).unwrap(),
        frame::encode_request(&produce_request("t", 0, &batch(2), 1), 9, 1, Some("c")).unwrap(),
        frame::encode_request(&fetch_request("t", &[(0, 0)]), 12, 1, Some("c")).unwrap(),
        frame::encode_request(&MetadataRequest { topics: None, ..Default::default() }, 9, 1, Some("c")).unwrap(),
    ];
    let mut client = Client::connect(&broker, 0).await;
    for request in requests {
        for end in 4..request.len() {
            let mut cut = request[..end].to_vec();
            cut[..4].copy_from_slice(&u32::try_from(end - 4).unwrap().to_be_bytes());
            client.stream.write_all(&cut).await.unwrap();
            assert!(client.is_closed().await, "a request cut at {end}");
            client = Client::connect(&broker, 0).await;
        }
        for at in 4..request.len() {
            for bit in 0..8 {
                let mut changed = request.to_vec();
                changed[at] ^= 1 << bit;
                // The broker either responds to the mutated request or closes the connection. For acks=0 and long
                // polls, only the response to the second request shows that the broker has handled the first one.
                changed.extend(frame::encode_request(&ApiVersionsRequest::default(), 0, 2, None).unwrap());
                client.stream.write_all(&changed).await.unwrap();
                client.stream.shutdown().await.unwrap();
                while client.frame().await.is_some() {}
                client = Client::connect(&broker, 0).await;
            }
        }
    }
    still_works(&broker).await;
    broker.shutdown().await;
}

#[tokio::test]
async fn unknown_api_versions_version_is_answered_in_v0() {
    let broker = broker(1, &[("t", 1)]).await;
    let mut client = Client::connect(&broker, 0).await;
    // ApiVersions request of version 99 with a flexible header.
    client.stream.write_all(&[0, 0, 0, 11, 0, 18, 0, 99, 0, 0, 0, 7, 0xff, 0xff, 0]).await.unwrap();
    let frame = client.frame().await.unwrap();
    let (correlation_id, response) = frame::decode_response::<ApiVersionsRequest>(0, frame).unwrap();
    assert_eq!(correlation_id, 7);
    assert_eq!(response.error_code, ErrorCode::UNSUPPORTED_VERSION.code());
    let ranges: Vec<_> = response.api_keys.iter().map(|api| (api.api_key, api.min_version, api.max_version)).collect();
    assert_eq!(ranges, [(18, 0, 5)], "as Kafka since 2.4, no other API is named");
    assert_eq!(client.produce("t", 0, &batch(1)).await.error_code, 0, "the connection goes on");
    broker.shutdown().await;
}

#[tokio::test]
async fn disconnect_during_long_poll_leaks_no_task() {
    let broker = broker(1, &[("t", 1)]).await;
    for _ in 0..50 {
        let mut client = Client::connect(&broker, 0).await;
        let request = samsarrow_wire::messages::FetchRequest { max_wait_ms: i32::MAX, ..fetch_request("t", &[(0, 0)]) };
        client.send(12, &request).await;
    }
    still_works(&broker).await;
    tokio::time::timeout(TIMEOUT, broker.shutdown()).await.expect("no task is left behind");
}
