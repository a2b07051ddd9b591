//! Transactions with raw requests: isolation levels, EndTxn, timeouts and fencing.

use std::time::Duration;

use crate::common::transactions::{TOPIC, Writer, aborted, end_offsets, fetch_committed, in_transaction, shape};
use crate::common::{Client, TIMEOUT, broker};
use bytes::Bytes;
use samsarrow_broker::{Broker, BrokerOptions, Fault, TransactionOptions};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::create_topics::CreatableTopic;
use samsarrow_wire::messages::offset_fetch::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use samsarrow_wire::messages::{ApiKey, ApiVersionsRequest, CreateTopicsRequest, MetadataRequest, OffsetFetchRequest};
use tokio::time::{sleep, timeout};

const MINUTE: i32 = 60_000;
/// Last Produce version that requires AddPartitionsToTxn (`OLD`), and first version that adds partitions implicitly
/// (`NEW`).
const OLD: i16 = 11;
const NEW: i16 = 12;

async fn started(brokers: usize, transactions: TransactionOptions) -> Broker {
    let topics = vec![(TOPIC.to_owned(), 2)];
    Broker::start(BrokerOptions { brokers, topics, transactions, ..BrokerOptions::default() }).await.unwrap()
}

/// Returns the committed offset and the error code of partition 0 for a group.
async fn committed(client: &mut Client, group: &str, require_stable: bool) -> (i64, ErrorCode) {
    let topic = OffsetFetchRequestTopics { name: TOPIC.to_owned(), partition_indexes: vec![0], ..Default::default() };
    let group_request =
        OffsetFetchRequestGroup { group_id: group.to_owned(), topics: Some(vec![topic]), ..Default::default() };
    let request = OffsetFetchRequest { groups: vec![group_request], require_stable, ..Default::default() };
    let response = client.call(8, &request).await;
    let partition = &response.groups[0].topics[0].partitions[0];
    (partition.committed_offset, ErrorCode::from_i16(partition.error_code))
}

#[tokio::test]
async fn read_committed_follows_transaction_ends() {
    let broker = broker(1, &[(TOPIC, 2)]).await;
    let mut reader = Client::connect(&broker, 0).await;
    let mut a = Writer::start(&broker, 0, "a", MINUTE).await;
    let mut b = Writer::start(&broker, 0, "b", MINUTE).await;
    assert_eq!(a.send(OLD, 0, 0, 1).await, Err(ErrorCode::TRANSACTION_ABORTABLE));
    assert_eq!(a.send(OLD - 1, 0, 0, 1).await, Err(ErrorCode::INVALID_TXN_STATE));
    assert_eq!(a.add(&[0, 1]).await, [ErrorCode::NONE; 2]);
    assert_eq!(a.send(OLD, 0, 0, 2).await, Ok(0));
    assert_eq!(b.send(NEW, 0, 0, 3).await, Ok(2));
    assert_eq!(a.send(OLD, 0, 2, 1).await, Ok(5));
    assert_eq!(end_offsets(&mut reader, 0).await, (6, 0));
    let data = fetch_committed(&mut reader, 0, 0, 0).await;
    assert_eq!((data.high_watermark, data.last_stable_offset, shape(&data).len()), (6, 0, 0));
    // `read_uncommitted` also returns the records of open transactions.
    assert_eq!(shape(&reader.fetch(TOPIC, 0, 0).await), [(0, false), (2, false), (5, false)]);
    assert_eq!(a.end(4, true).await, Ok(()));
    // The transaction of the other producer is still open.
    assert_eq!(end_offsets(&mut reader, 0).await, (7, 2));
    let data = fetch_committed(&mut reader, 0, 0, 0).await;
    assert_eq!((shape(&data), aborted(&data)), (vec![(0, false)], vec![]));
    assert_eq!(b.end(5, false).await, Ok(()));
    assert_eq!(end_offsets(&mut reader, 0).await, (8, 8));
    let data = fetch_committed(&mut reader, 0, 0, 0).await;
    assert_eq!(shape(&data), [(0, false), (2, false), (5, false), (6, true), (7, true)]);
    assert_eq!(aborted(&data), [(b.producer.0, 2)]);
    let plain = reader.fetch(TOPIC, 0, 0).await;
    assert_eq!((plain.aborted_transactions, plain.last_stable_offset), (None, 8));
    // Partition 1 was added to the transaction but has no records, so it contains only the marker.
    assert_eq!(shape(&fetch_committed(&mut reader, 1, 0, 0).await), [(0, true)]);
    // EndTxn has bumped the epoch, so the next transaction starts at sequence 0.
    assert_eq!(b.producer.1, 1);
    assert_eq!(b.send(NEW, 0, 3, 1).await, Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    assert_eq!(b.send(NEW, 0, 0, 1).await, Ok(8));
    broker.shutdown().await;
}

#[tokio::test]
async fn read_committed_long_poll_wakes_at_transaction_end() {
    let broker = broker(1, &[(TOPIC, 2)]).await;
    let mut a = Writer::start(&broker, 0, "a", MINUTE).await;
    a.send(NEW, 0, 0, 2).await.unwrap();
    let mut reader = Client::connect(&broker, 0).await;
    let waiting = tokio::spawn(async move { fetch_committed(&mut reader, 0, 0, 30_000).await });
    sleep(Duration::from_millis(50)).await;
    a.send(NEW, 0, 2, 2).await.unwrap();
    sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished());
    a.end(5, true).await.unwrap();
    let data = timeout(TIMEOUT, waiting).await.unwrap().unwrap();
    assert_eq!(shape(&data), [(0, false), (2, false), (4, true)]);
    broker.shutdown().await;
}

#[tokio::test]
async fn offsets_are_pending_until_transaction_ends() {
    let broker = broker(1, &[(TOPIC, 2)]).await;
    let mut reader = Client::connect(&broker, 0).await;
    let mut a = Writer::start(&broker, 0, "a", MINUTE).await;
    let no_member = ("g", -1, "");
    assert_eq!(a.commit_offset(4, no_member, 0, 5).await, Err(ErrorCode::TRANSACTION_ABORTABLE));
    assert_eq!(a.commit_offset(3, no_member, 0, 5).await, Err(ErrorCode::INVALID_TXN_STATE));
    assert_eq!(a.commit_offset(5, no_member, 9, 5).await, Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    assert_eq!(a.add_group("g").await, Ok(()));
    assert_eq!(a.commit_offset(4, ("g", 3, "m"), 0, 5).await, Err(ErrorCode::ILLEGAL_GENERATION));
    assert_eq!(a.commit_offset(4, no_member, 0, 5).await, Ok(()));
    assert_eq!(committed(&mut reader, "g", false).await, (-1, ErrorCode::NONE));
    assert_eq!(committed(&mut reader, "g", true).await, (-1, ErrorCode::UNSTABLE_OFFSET_COMMIT));
    assert_eq!(a.end(4, true).await, Ok(()));
    assert_eq!(committed(&mut reader, "g", true).await, (5, ErrorCode::NONE));
    // From version 5 on, the group is added to the transaction implicitly. An abort drops the pending offset.
    assert_eq!(a.commit_offset(5, no_member, 0, 9).await, Ok(()));
    assert_eq!(committed(&mut reader, "g", true).await, (-1, ErrorCode::UNSTABLE_OFFSET_COMMIT));
    assert_eq!(committed(&mut reader, "g", false).await, (5, ErrorCode::NONE));
    assert_eq!(a.end(5, false).await, Ok(()));
    assert_eq!(committed(&mut reader, "g", true).await, (5, ErrorCode::NONE));
    broker.shutdown().await;
}

#[tokio::test]
async fn timed_out_transaction_is_aborted() {
    let broker = broker(1, &[(TOPIC, 2)]).await;
    let mut a = Writer::start(&broker, 0, "a", 100).await;
    a.send(NEW, 0, 0, 2).await.unwrap();
    let mut reader = Client::connect(&broker, 0).await;
    let data = fetch_committed(&mut reader, 0, 0, 10_000).await;
    assert_eq!((shape(&data), aborted(&data)), (vec![(0, false), (2, true)], vec![(a.producer.0, 0)]));
    assert_eq!(broker.transaction_state("a"), Some("CompleteAbort"));
    assert_eq!(a.send(NEW, 0, 2, 1).await, Err(ErrorCode::INVALID_PRODUCER_EPOCH));
    assert_eq!(a.end(4, true).await, Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(a.end(5, true).await, Err(ErrorCode::INVALID_TXN_STATE));
    broker.shutdown().await;
}

#[tokio::test]
async fn second_producer_and_broker_fence_the_first() {
    let broker = broker(1, &[(TOPIC, 2)]).await;
    let mut a = Writer::start(&broker, 0, "a", MINUTE).await;
    a.send(NEW, 0, 0, 2).await.unwrap();
    let mut b = Writer::start(&broker, 0, "a", MINUTE).await;
    assert_eq!((b.producer.0, b.producer.1 > a.producer.1), (a.producer.0, true));
    assert_eq!(a.send(NEW, 0, 2, 1).await, Err(ErrorCode::INVALID_PRODUCER_EPOCH));
    assert_eq!(a.end(5, true).await, Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(b.send(NEW, 0, 0, 1).await, Ok(3));
    broker.fence("a").unwrap();
    assert_eq!(broker.last_stable_offset(TOPIC, 0), Some(5));
    assert_eq!(b.send(NEW, 0, 1, 1).await, Err(ErrorCode::INVALID_PRODUCER_EPOCH));
    assert_eq!(b.end(5, false).await, Err(ErrorCode::PRODUCER_FENCED));
    assert!(broker.fence("b").unwrap_err().to_string().contains("'b' is not known"));
    broker.shutdown().await;
}

#[tokio::test]
async fn marker_is_written_once_partition_has_a_leader() {
    let broker = broker(2, &[]).await;
    let alone =
        CreatableTopic { name: TOPIC.to_owned(), num_partitions: 2, replication_factor: 1, ..Default::default() };
    let mut client = Client::connect(&broker, 0).await;
    client.call(5, &CreateTopicsRequest { topics: vec![alone], ..Default::default() }).await;
    let led: Vec<i32> = (0..2).map(|partition| broker.leader(TOPIC, partition).unwrap()).collect();
    let mut node = [0; 2];
    for (partition, leader) in (0..).zip(&led) {
        node[partition] = usize::try_from(*leader).unwrap();
    }
    broker.move_transaction_coordinator("a", led[0]).unwrap();
    let mut a = Writer::start(&broker, node[0], "a", MINUTE).await;
    assert_eq!(a.add(&[0, 1]).await, [ErrorCode::NONE; 2]);
    a.send(OLD, 0, 0, 1).await.unwrap();
    broker.stop_node(led[1]).await.unwrap();
    assert_eq!(broker.leader(TOPIC, 1), None);
    assert_eq!(a.end(4, true).await, Ok(()));
    assert_eq!(broker.transaction_state("a"), Some("PrepareCommit"));
    assert_eq!(a.end(4, true).await, Err(ErrorCode::CONCURRENT_TRANSACTIONS));
    assert_eq!(a.add(&[0]).await, [ErrorCode::CONCURRENT_TRANSACTIONS]);
    assert_eq!(a.send(OLD, 0, 1, 1).await, Err(ErrorCode::NOT_ENOUGH_REPLICAS));
    assert_eq!(a.send(NEW, 0, 1, 1).await, Err(ErrorCode::CONCURRENT_TRANSACTIONS));
    broker.start_node(led[1]).await.unwrap();
    assert_eq!(broker.transaction_state("a"), Some("CompleteCommit"));
    assert_eq!(broker.end_offset(TOPIC, 1), Some(1));
    broker.shutdown().await;
}

#[tokio::test]
async fn only_the_coordinator_responds() {
    let broker = started(2, TransactionOptions::default()).await;
    broker.move_transaction_coordinator("a", 0).unwrap();
    let mut a = Writer::start(&broker, 0, "a", MINUTE).await;
    assert_eq!(a.add(&[0]).await, [ErrorCode::NONE]);
    broker.move_transaction_coordinator("a", 1).unwrap();
    assert_eq!(a.add(&[0]).await, [ErrorCode::NOT_COORDINATOR]);
    assert_eq!(a.end(4, true).await, Err(ErrorCode::NOT_COORDINATOR));
    a.client = Client::connect(&broker, 1).await;
    assert_eq!(a.end(4, true).await, Ok(()));
    assert_eq!(
        (broker.transaction_coordinator("a"), broker.move_transaction_coordinator("a", 7).is_err()),
        (Some(1), true)
    );
    broker.shutdown().await;
}

#[tokio::test]
async fn marker_delay_postpones_the_end() {
    let delay = Duration::from_secs(2);
    let broker = started(1, TransactionOptions { marker_delay: delay, ..Default::default() }).await;
    let mut a = Writer::start(&broker, 0, "a", MINUTE).await;
    a.send(NEW, 0, 0, 1).await.unwrap();
    a.end(5, true).await.unwrap();
    assert_eq!(a.send(NEW, 1, 0, 1).await, Err(ErrorCode::CONCURRENT_TRANSACTIONS));
    assert_eq!(broker.last_stable_offset(TOPIC, 0), Some(0));
    let mut reader = Client::connect(&broker, 0).await;
    assert_eq!(shape(&fetch_committed(&mut reader, 0, 0, 10_000).await), [(0, false), (1, true)]);
    assert_eq!(a.send(NEW, 1, 0, 1).await, Ok(0));
    broker.shutdown().await;
}

#[tokio::test]
async fn loaded_and_truncated_logs_rebuild_transactions() {
    let broker = broker(1, &[(TOPIC, 2)]).await;
    let mut reader = Client::connect(&broker, 0).await;
    let mut a = Writer::start(&broker, 0, "a", MINUTE).await;
    a.send(NEW, 0, 0, 2).await.unwrap();
    a.end(5, false).await.unwrap();
    a.send(NEW, 0, 0, 1).await.unwrap();
    let whole = reader.fetch(TOPIC, 0, 0).await.records.unwrap();
    broker.load(TOPIC, 1, &whole).unwrap();
    assert_eq!(broker.last_stable_offset(TOPIC, 1), Some(3));
    let data = fetch_committed(&mut reader, 1, 0, 0).await;
    assert_eq!((shape(&data), aborted(&data)), (vec![(0, false), (2, true)], vec![(a.producer.0, 0)]));
    // If the truncation removes the marker of a transaction, the transaction is open again.
    broker.truncate(TOPIC, 0, 2).unwrap();
    assert_eq!((broker.end_offset(TOPIC, 0), broker.last_stable_offset(TOPIC, 0)), (Some(2), Some(0)));
    // The truncation has removed the later transaction completely, so the producer's next sequence is 0 again.
    assert_eq!(a.send(NEW, 0, 0, 1).await, Ok(2));
    broker.shutdown().await;
}

#[tokio::test]
async fn transaction_version_is_advertised() {
    for version in 0..=2 {
        let broker = started(1, TransactionOptions { version, ..Default::default() }).await;
        let mut client = Client::connect(&broker, 0).await;
        let request = ApiVersionsRequest {
            client_software_name: "t".to_owned(),
            client_software_version: "1".to_owned(),
            ..Default::default()
        };
        for api_version in [3, 4] {
            let response = client.call(api_version, &request).await;
            let features: Vec<_> =
                response.finalized_features.iter().map(|f| (f.name.as_str(), f.max_version_level)).collect();
            let mut expected = vec![("share.version", 1)];
            if version > 0 {
                expected.push(("transaction.version", version));
            }
            assert_eq!(features, expected);
            assert_eq!(response.supported_features.len(), if api_version == 4 { 2 } else { 0 });
        }
        broker.shutdown().await;
    }
    let transactions = TransactionOptions { version: 3, ..Default::default() };
    let rejected = Broker::start(BrokerOptions { transactions, ..Default::default() }).await;
    assert!(rejected.unwrap_err().to_string().contains("transaction.version 3"));
}

#[tokio::test]
async fn faults_in_transactions() {
    let broker = broker(1, &[(TOPIC, 2)]).await;
    let mut a = Writer::start(&broker, 0, "a", MINUTE).await;
    broker.fail_next(ApiKey::Produce, Fault::Answer(ErrorCode::DUPLICATE_SEQUENCE_NUMBER), 1);
    assert_eq!(a.send(NEW, 0, 0, 2).await, Err(ErrorCode::DUPLICATE_SEQUENCE_NUMBER));
    assert_eq!(broker.end_offset(TOPIC, 0), Some(2));
    assert_eq!(a.send(NEW, 0, 0, 2).await, Ok(0));
    for api in [ApiKey::AddPartitionsToTxn, ApiKey::EndTxn, ApiKey::TxnOffsetCommit, ApiKey::AddOffsetsToTxn] {
        broker.fail_next(api, Fault::Error(ErrorCode::COORDINATOR_NOT_AVAILABLE), 1);
    }
    assert_eq!(a.add(&[0, 1]).await, [ErrorCode::COORDINATOR_NOT_AVAILABLE; 2]);
    assert_eq!(a.end(5, true).await, Err(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    assert_eq!(a.commit_offset(5, ("g", -1, ""), 0, 1).await, Err(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    assert_eq!(a.add_group("g").await, Err(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    // The response to EndTxn is lost, and the producer repeats the request.
    broker.fail_next(ApiKey::EndTxn, Fault::DropAfter, 1);
    let mut again = Writer { client: Client::connect(&broker, 0).await, id: a.id.clone(), producer: a.producer };
    let lost = tokio::spawn(async move { a.end(5, true).await });
    assert!(lost.await.is_err());
    assert_eq!(again.end(5, true).await, Ok(()));
    assert_eq!(again.producer.1, 1);
    broker.shutdown().await;
}

#[tokio::test]
async fn stale_metadata_returns_old_leaders() {
    let broker = started(2, TransactionOptions::default()).await;
    let mut client = Client::connect(&broker, 0).await;
    let before = broker.leader(TOPIC, 0).unwrap();
    let request = MetadataRequest { topics: None, ..Default::default() };
    broker.stale_metadata(Some(2), &[]);
    broker.move_leader(TOPIC, 0, 1 - before).unwrap();
    broker.create_topic("new", 1).unwrap();
    for (topics, leader) in [(1, before), (1, before), (2, 1 - before)] {
        let response = client.call(12, &request).await;
        let features = response.topics.iter().find(|topic| topic.name.as_deref() == Some(TOPIC)).unwrap();
        assert_eq!((response.topics.len(), features.partitions[0].leader_id), (topics, leader));
    }
    broker.stale_metadata(None, &[TOPIC.to_owned()]);
    for _ in 0..3 {
        assert_eq!(client.call(12, &request).await.topics.len(), 1);
    }
    broker.clear_faults();
    assert_eq!(client.call(12, &request).await.topics.len(), 2);
    broker.shutdown().await;
}

#[tokio::test]
async fn transactional_batch_without_id_is_rejected() {
    let broker = broker(1, &[(TOPIC, 2)]).await;
    let mut client = Client::connect(&broker, 0).await;
    let batch: Bytes = in_transaction((1, 0), 0, 1);
    let response = client.produce(TOPIC, 0, &batch).await;
    assert_eq!(response.error_code, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED.code());
    broker.shutdown().await;
}
