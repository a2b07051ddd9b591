//! DescribeTransactions, v0.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DescribeTransactionsRequest;
use samsarrow_wire::messages::describe_transactions::{DescribeTransactionsResponse, TopicData, TransactionState};

use super::{Call, Handler, Outcome};
use crate::state::transactions::transaction::Transaction;

const NO_TIME: i64 = -1;

fn describe(id: &str, transaction: &Transaction) -> TransactionState {
    let mut topics: Vec<TopicData> = Vec::new();
    for (topic, partition) in &transaction.partitions {
        match topics.last_mut().filter(|last| last.topic == *topic) {
            Some(last) => last.partitions.push(*partition),
            None => topics.push(TopicData { topic: topic.clone(), partitions: vec![*partition], ..Default::default() }),
        }
    }
    TransactionState {
        transactional_id: id.to_owned(),
        transaction_state: transaction.phase.name().to_owned(),
        transaction_timeout_ms: i32::try_from(transaction.timeout.as_millis()).unwrap_or(i32::MAX),
        transaction_start_time_ms: transaction.begun.map_or(NO_TIME, |begun| begun.ms),
        producer_id: transaction.producer.id,
        producer_epoch: transaction.producer.epoch,
        topics,
        ..TransactionState::default()
    }
}

fn failed(id: &str, code: ErrorCode) -> TransactionState {
    TransactionState { transactional_id: id.to_owned(), error_code: code.code(), ..TransactionState::default() }
}

impl Handler for DescribeTransactionsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let describe_one = |id: &String| {
            if id.is_empty() {
                return failed(id, ErrorCode::INVALID_REQUEST);
            }
            if let Err(code) = call.state.check_transaction_coordinator(call.node, id) {
                return failed(id, code);
            }
            match call.state.transactions().get(id) {
                Some(transaction) => describe(id, transaction),
                None => failed(id, ErrorCode::TRANSACTIONAL_ID_NOT_FOUND),
            }
        };
        let transaction_states = self.transactional_ids.iter().map(describe_one).collect();
        call.reply::<Self>(&DescribeTransactionsResponse { transaction_states, ..Default::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> DescribeTransactionsResponse {
        let transaction_states = self.transactional_ids.iter().map(|id| failed(id, code)).collect();
        DescribeTransactionsResponse { transaction_states, ..DescribeTransactionsResponse::default() }
    }
}
