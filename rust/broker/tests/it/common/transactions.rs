//! A transactional producer that sends raw requests.

use bytes::Bytes;
use samsarrow_broker::Broker;
use samsarrow_wire::batch::batches;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::add_partitions_to_txn::AddPartitionsToTxnTopic;
use samsarrow_wire::messages::fetch::PartitionData;
use samsarrow_wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use samsarrow_wire::messages::txn_offset_commit::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic};
use samsarrow_wire::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest, ListOffsetsRequest,
    TxnOffsetCommitRequest,
};

use super::{Client, ProducerFields, batch_of, fetch_request, produce_request, resealed};

pub(crate) const TOPIC: &str = "t";

pub(crate) struct Writer {
    pub(crate) client: Client,
    pub(crate) id: String,
    pub(crate) producer: (i64, i16),
}

fn code(code: i16) -> ErrorCode {
    ErrorCode::from_i16(code)
}

/// Builds a transactional batch of `count` records with increasing timestamps.
pub(crate) fn in_transaction(producer: (i64, i16), sequence: i32, count: i64) -> Bytes {
    let stamp = ProducerFields { producer_id: producer.0, epoch: producer.1, sequence };
    let times: Vec<i64> = (0..count).map(|i| 1_700_000_000_000 + i).collect();
    resealed(&batch_of(&times, 5, stamp), |batch| batch[1] |= 0x10)
}

impl Writer {
    /// Sends InitProducerId, and repeats the request while the coordinator responds with CONCURRENT_TRANSACTIONS.
    pub(crate) async fn start(broker: &Broker, node: usize, id: &str, timeout_ms: i32) -> Writer {
        let mut client = Client::connect(broker, node).await;
        loop {
            let request = InitProducerIdRequest {
                transactional_id: Some(id.to_owned()),
                transaction_timeout_ms: timeout_ms,
                ..Default::default()
            };
            let response = client.call(5, &request).await;
            if code(response.error_code) == ErrorCode::CONCURRENT_TRANSACTIONS {
                continue;
            }
            assert_eq!(response.error_code, 0);
            let producer = (response.producer_id, response.producer_epoch);
            return Writer { client, id: id.to_owned(), producer };
        }
    }

    pub(crate) async fn add(&mut self, partitions: &[i32]) -> Vec<ErrorCode> {
        let topic =
            AddPartitionsToTxnTopic { name: TOPIC.to_owned(), partitions: partitions.to_vec(), ..Default::default() };
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: self.id.clone(),
            v3_and_below_producer_id: self.producer.0,
            v3_and_below_producer_epoch: self.producer.1,
            v3_and_below_topics: vec![topic],
            ..Default::default()
        };
        let response = self.client.call(3, &request).await;
        let topics = response.results_by_topic_v3_and_below;
        topics.iter().flat_map(|t| &t.results_by_partition).map(|p| code(p.partition_error_code)).collect()
    }

    /// Produces `count` records in one batch and returns its base offset.
    pub(crate) async fn send(
        &mut self,
        version: i16,
        partition: i32,
        sequence: i32,
        count: i64,
    ) -> Result<i64, ErrorCode> {
        let mut request = produce_request(TOPIC, partition, &in_transaction(self.producer, sequence, count), -1);
        request.transactional_id = Some(self.id.clone());
        let mut response = self.client.call(version, &request).await;
        let result = response.responses.remove(0).partition_responses.remove(0);
        code(result.error_code).ok().map(|()| result.base_offset)
    }

    /// Ends the transaction. The producer then uses the id and epoch of the response.
    pub(crate) async fn end(&mut self, version: i16, committed: bool) -> Result<(), ErrorCode> {
        let request = EndTxnRequest {
            transactional_id: self.id.clone(),
            producer_id: self.producer.0,
            producer_epoch: self.producer.1,
            committed,
            ..Default::default()
        };
        let response = self.client.call(version, &request).await;
        if version >= 5 && response.error_code == 0 {
            self.producer = (response.producer_id, response.producer_epoch);
        }
        code(response.error_code).ok()
    }

    pub(crate) async fn add_group(&mut self, group: &str) -> Result<(), ErrorCode> {
        let request = AddOffsetsToTxnRequest {
            transactional_id: self.id.clone(),
            producer_id: self.producer.0,
            producer_epoch: self.producer.1,
            group_id: group.to_owned(),
            ..Default::default()
        };
        code(self.client.call(3, &request).await.error_code).ok()
    }

    pub(crate) async fn commit_offset(
        &mut self,
        version: i16,
        (group, generation, member): (&str, i32, &str),
        partition: i32,
        offset: i64,
    ) -> Result<(), ErrorCode> {
        let partition_request = TxnOffsetCommitRequestPartition {
            partition_index: partition,
            committed_offset: offset,
            committed_metadata: Some("m".to_owned()),
            ..Default::default()
        };
        let topic = TxnOffsetCommitRequestTopic {
            name: TOPIC.to_owned(),
            partitions: vec![partition_request],
            ..Default::default()
        };
        let request = TxnOffsetCommitRequest {
            transactional_id: self.id.clone(),
            group_id: group.to_owned(),
            producer_id: self.producer.0,
            producer_epoch: self.producer.1,
            generation_id_or_member_epoch: generation,
            member_id: member.to_owned(),
            topics: vec![topic],
            ..Default::default()
        };
        code(self.client.call(version, &request).await.topics[0].partitions[0].error_code).ok()
    }
}

/// Fetches a partition with `read_committed` and a long poll of up to `wait_ms`.
pub(crate) async fn fetch_committed(client: &mut Client, partition: i32, offset: i64, wait_ms: i32) -> PartitionData {
    let mut request = fetch_request(TOPIC, &[(partition, offset)]);
    request.isolation_level = 1;
    request.max_wait_ms = wait_ms;
    client.call(12, &request).await.responses.remove(0).partitions.remove(0)
}

/// Returns for each batch its base offset, and true if the batch is a control batch.
pub(crate) fn shape(data: &PartitionData) -> Vec<(i64, bool)> {
    let records = data.records.clone().unwrap_or_default();
    batches(records).map(|batch| batch.unwrap().header).map(|head| (head.base_offset, head.is_control())).collect()
}

/// Returns the producer id and the first offset of each aborted transaction.
pub(crate) fn aborted(data: &PartitionData) -> Vec<(i64, i64)> {
    data.aborted_transactions.iter().flatten().map(|result| (result.producer_id, result.first_offset)).collect()
}

/// Returns the end offset of a partition for `read_uncommitted` and for `read_committed`.
pub(crate) async fn end_offsets(client: &mut Client, partition: i32) -> (i64, i64) {
    let mut offsets = Vec::new();
    for isolation_level in [0, 1] {
        let partition_request =
            ListOffsetsPartition { partition_index: partition, timestamp: -1, ..Default::default() };
        let topic =
            ListOffsetsTopic { name: TOPIC.to_owned(), partitions: vec![partition_request], ..Default::default() };
        let request = ListOffsetsRequest { isolation_level, topics: vec![topic], ..Default::default() };
        offsets.push(client.call(8, &request).await.topics[0].partitions[0].offset);
    }
    (offsets[0], offsets[1])
}
