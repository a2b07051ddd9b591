//! AddPartitionsToTxn, v0–v5. Since v4 a request can contain several transactions; only brokers send such requests.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::AddPartitionsToTxnRequest;
use samsarrow_wire::messages::add_partitions_to_txn::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResponse, AddPartitionsToTxnResult, AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult, AddPartitionsToTxnTransaction,
};

use super::{Call, Handler, Outcome, fenced_for};
use crate::state::transactions::Now;
use crate::state::transactions::transaction::{Identity, TopicPartition};

/// First request version that can contain several transactions.
const FIRST_OF_BROKERS: i16 = 4;
/// First request version whose clients understand PRODUCER_FENCED.
const FIRST_WITH_FENCED: i16 = 2;

/// Builds one result per partition.
fn topic_results(
    topics: &[AddPartitionsToTxnTopic],
    mut code: impl FnMut(&str, i32) -> ErrorCode,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let mut results = Vec::with_capacity(topics.len());
    for topic in topics {
        let partition_result = |partition: &i32| AddPartitionsToTxnPartitionResult {
            partition_index: *partition,
            partition_error_code: code(&topic.name, *partition).code(),
            ..AddPartitionsToTxnPartitionResult::default()
        };
        results.push(AddPartitionsToTxnTopicResult {
            name: topic.name.clone(),
            results_by_partition: topic.partitions.iter().map(partition_result).collect(),
            ..AddPartitionsToTxnTopicResult::default()
        });
    }
    results
}

fn exists(call: &Call<'_>, topic: &str, partition: i32) -> bool {
    call.state.topic(topic).is_some_and(|topic| topic.partition(partition).is_some())
}

fn partitions_of(topics: &[AddPartitionsToTxnTopic]) -> impl Iterator<Item = TopicPartition> {
    topics.iter().flat_map(|topic| topic.partitions.iter().map(|partition| (topic.name.clone(), *partition)))
}

fn add_or_verify(call: &Call<'_>, requested: &AddPartitionsToTxnTransaction) -> Vec<AddPartitionsToTxnTopicResult> {
    let (id, topics) = (requested.transactional_id.as_str(), requested.topics.as_slice());
    if partitions_of(topics).any(|(topic, partition)| !exists(call, &topic, partition)) {
        // If any partition is unknown, none is added, as in Kafka.
        return topic_results(topics, |topic, partition| match exists(call, topic, partition) {
            true => ErrorCode::OPERATION_NOT_ATTEMPTED,
            false => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        });
    }
    if let Err(code) = call.state.check_transaction_coordinator(call.node, id) {
        return topic_results(topics, |_, _| code);
    }
    let producer = Identity { id: requested.producer_id, epoch: requested.producer_epoch };
    let mut transactions = call.state.transactions();
    if requested.verify_only {
        return topic_results(topics, |topic, partition| {
            let verified = transactions.verify(id, producer, &(topic.to_owned(), partition));
            verified.err().unwrap_or(ErrorCode::NONE)
        });
    }
    let added = transactions.add(Now::read(), id, producer, partitions_of(topics));
    drop(transactions);
    call.state.transaction_began();
    let code = fenced_for(call.version >= FIRST_WITH_FENCED, added.err().unwrap_or(ErrorCode::NONE));
    topic_results(topics, |_, _| code)
}

/// Returns the transactions of a request. Before v4 a request has a single transaction, in separate fields.
fn transactions(request: &AddPartitionsToTxnRequest, version: i16) -> Vec<AddPartitionsToTxnTransaction> {
    if version >= FIRST_OF_BROKERS {
        return request.transactions.clone();
    }
    vec![AddPartitionsToTxnTransaction {
        transactional_id: request.v3_and_below_transactional_id.clone(),
        producer_id: request.v3_and_below_producer_id,
        producer_epoch: request.v3_and_below_producer_epoch,
        topics: request.v3_and_below_topics.clone(),
        ..AddPartitionsToTxnTransaction::default()
    }]
}

fn response(
    request: &AddPartitionsToTxnRequest,
    version: i16,
    code: impl Fn(&AddPartitionsToTxnTransaction) -> Vec<AddPartitionsToTxnTopicResult>,
) -> AddPartitionsToTxnResponse {
    let all = transactions(request, version);
    let mut results = all.into_iter().map(|requested| AddPartitionsToTxnResult {
        topic_results: code(&requested),
        transactional_id: requested.transactional_id,
        ..AddPartitionsToTxnResult::default()
    });
    if version >= FIRST_OF_BROKERS {
        let results_by_transaction = results.collect();
        return AddPartitionsToTxnResponse { results_by_transaction, ..AddPartitionsToTxnResponse::default() };
    }
    let results_by_topic_v3_and_below = results.next().map(|result| result.topic_results).unwrap_or_default();
    AddPartitionsToTxnResponse { results_by_topic_v3_and_below, ..AddPartitionsToTxnResponse::default() }
}

impl Handler for AddPartitionsToTxnRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        call.reply::<Self>(&response(&self, call.version, |requested| add_or_verify(call, requested)))
    }

    fn error_response(&self, version: i16, code: ErrorCode) -> AddPartitionsToTxnResponse {
        let response = response(self, version, |requested| topic_results(&requested.topics, |_, _| code));
        let error_code = if version >= FIRST_OF_BROKERS { code.code() } else { 0 };
        AddPartitionsToTxnResponse { error_code, ..response }
    }
}
