//! Produce, v0–v13. Records of versions 0 to 2 have message formats v0 and v1, and are stored without conversion.

use std::sync::{Arc, MutexGuard};

use bytes::Bytes;
use samsarrow_wire::batch::patch::{set_base_offset, set_log_append_time};
use samsarrow_wire::batch::{BatchHeader, EncodeError};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ProduceRequest;
use samsarrow_wire::messages::produce::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionProduceData, PartitionProduceResponse, ProduceResponse, TopicProduceData,
    TopicProduceResponse,
};

use tokio::time::Instant;

use super::{Call, Handler, Outcome, transaction_error};
use crate::clock::now_ms;
use crate::log::legacy;
use crate::log::producers::Verdict;
use crate::log::validate::{self, Rejection, ValidatedRecords};
use crate::state::quotas::ByteRate;
use crate::state::topic::{Partition, PartitionState, Topic};
use crate::state::transactions::transaction::Identity;
use crate::state::transactions::{Now, Transactions};

const NO_TIMESTAMP: i64 = -1;
/// First version that adds partitions to the transaction implicitly (KIP-890).
const FIRST_THAT_ADDS: i16 = 12;
/// First request version whose clients understand TRANSACTION_ABORTABLE.
const FIRST_WITH_ABORTABLE: i16 = 11;

/// Offsets and timestamp of an appended batch, for the response.
struct Appended {
    base_offset: i64,
    append_time: i64,
    log_start: i64,
}

/// Adds the partition of a batch to its transaction, or verifies that the client has added it (KIP-890). While the
/// returned guard is held, the transaction cannot end. Returns `None` if the partition already contains records of this
/// transaction, since no verification is needed then.
fn in_transaction<'a>(
    call: &Call<'a>,
    transactional_id: Option<&str>,
    topic: &Topic,
    (index, partition): (i32, &Partition),
    header: &BatchHeader,
) -> Result<Option<MutexGuard<'a, Transactions>>, Rejection> {
    let code_only = |code| Rejection { code, message: String::new() };
    let transactional_id =
        transactional_id.ok_or_else(|| code_only(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED))?;
    let (id, epoch) = (header.producer_id, header.producer_epoch);
    let mut state = partition.state();
    state.check_leader(call.node, -1).map_err(code_only)?;
    if state.producers.has_open(id, epoch) {
        return Ok(None);
    }
    state.producers.record_attempt(header);
    drop(state);
    let mut transactions = call.state.transactions();
    let topic_partition = (topic.name.to_string(), index);
    let producer = Identity { id, epoch };
    let verified = if call.version >= FIRST_THAT_ADDS {
        transactions.add(Now::read(), transactional_id, producer, [topic_partition])
    } else {
        transactions.verify(transactional_id, producer, &topic_partition)
    };
    match verified {
        Ok(()) => {
            call.state.transaction_began();
            Ok(Some(transactions))
        }
        // NOT_ENOUGH_REPLICAS makes older clients retry without a metadata refresh.
        Err(ErrorCode::CONCURRENT_TRANSACTIONS) if call.version < FIRST_THAT_ADDS => Err(Rejection {
            code: ErrorCode::NOT_ENOUGH_REPLICAS,
            message: "the transaction before this one is not complete yet".to_owned(),
        }),
        Err(code) => Err(code_only(transaction_error(code, call.version >= FIRST_WITH_ABORTABLE))),
    }
}

fn append(
    call: &Call<'_>,
    transactional_id: Option<&str>,
    topic: &Topic,
    (index, partition): (i32, &Partition),
    records: &Bytes,
) -> Result<Appended, Rejection> {
    let cap = topic.config.max_message_bytes.unwrap_or(call.state.options.message_max_bytes);
    // Verifying the checksum takes long, so it is done before the partition is locked.
    let checked = validate::validate_records(records, call.version, cap);
    let code_only = |code| Rejection { code, message: String::new() };
    let transactions = match &checked {
        Ok(ValidatedRecords::Batch(header)) if header.is_transactional() => {
            Some(in_transaction(call, transactional_id, topic, (index, partition), header)?)
        }
        _ => None,
    };
    let mut state = partition.state();
    state.check_leader(call.node, -1).map_err(code_only)?;
    let header = match checked? {
        ValidatedRecords::Batch(header) => header,
        ValidatedRecords::Messages(entries) => {
            let appended = append_messages(topic, &mut state, &entries);
            drop(state);
            partition.wake();
            return appended;
        }
    };
    let idempotent = header.producer_id >= 0;
    let begins_at_zero = call.version >= FIRST_THAT_ADDS;
    if idempotent
        && let Verdict::Duplicate { base_offset, append_time } =
            state.producers.check(&header, begins_at_zero).map_err(code_only)?
    {
        return Ok(Appended { base_offset, append_time, log_start: state.log.start_offset() });
    }
    let append_time = if topic.config.log_append_time { now_ms() } else { NO_TIMESTAMP };
    let max_timestamp = if topic.config.log_append_time { append_time } else { header.max_timestamp };
    let epoch = state.leader_epoch;
    let offsets = header.record_count.into();
    let base_offset = state.log.append(records, offsets, max_timestamp, |copy, base_offset| {
        let mut written = set_base_offset(copy, base_offset, epoch);
        if append_time != NO_TIMESTAMP {
            written = written.and_then(|()| set_log_append_time(copy, append_time));
        }
        if let Err(error) = written {
            tracing::error!(%error, "could not set the offset of a validated batch");
        }
    });
    if idempotent {
        state.producers.appended(&header, base_offset, append_time, Instant::now());
    }
    let log_start = state.log.start_offset();
    drop(state);
    drop(transactions);
    partition.wake();
    Ok(Appended { base_offset, append_time, log_start })
}

/// Appends messages of format v0 or v1; each wrapper or uncompressed message is one log entry.
fn append_messages(
    topic: &Topic,
    state: &mut PartitionState,
    entries: &[legacy::Entry],
) -> Result<Appended, Rejection> {
    let base_offset = state.log.next_offset();
    let append_time = if topic.config.log_append_time { now_ms() } else { NO_TIMESTAMP };
    for entry in entries {
        let broken = |error: EncodeError| Rejection { code: ErrorCode::INVALID_RECORD, message: error.to_string() };
        let mut bytes = entry.with_offsets(state.log.next_offset()).map_err(broken)?;
        let mut max_timestamp = entry.max_timestamp;
        if append_time != NO_TIMESTAMP {
            set_log_append_time(&mut bytes, append_time).map_err(broken)?;
            max_timestamp = append_time;
        }
        state.log.append(&bytes, entry.count(), max_timestamp, |_, _| ());
    }
    Ok(Appended { base_offset, append_time, log_start: state.log.start_offset() })
}

fn failed(index: i32, code: ErrorCode, message: Option<String>) -> PartitionProduceResponse {
    PartitionProduceResponse {
        index,
        error_code: code.code(),
        base_offset: -1,
        error_message: message,
        ..PartitionProduceResponse::default()
    }
}

fn partition_response(
    call: &Call<'_>,
    transactional_id: Option<&str>,
    topic: Option<&Arc<Topic>>,
    data: &PartitionProduceData,
) -> PartitionProduceResponse {
    let target = topic.and_then(|topic| Some((topic, topic.partition(data.index)?)));
    let Some((topic, partition)) = target else {
        let by_id = call.version >= 13 && topic.is_none();
        let code = if by_id { ErrorCode::UNKNOWN_TOPIC_ID } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
        return failed(data.index, code, None);
    };
    let records = data.records.as_ref().unwrap_or(&Bytes::new()).clone();
    match append(call, transactional_id, topic, (data.index, partition), &records) {
        Ok(appended) => PartitionProduceResponse {
            index: data.index,
            base_offset: appended.base_offset,
            log_append_time_ms: appended.append_time,
            log_start_offset: appended.log_start,
            ..PartitionProduceResponse::default()
        },
        Err(refusal) => {
            let message = (!refusal.message.is_empty()).then_some(refusal.message);
            let mut response = failed(data.index, refusal.code, message);
            if refusal.code == ErrorCode::NOT_LEADER_OR_FOLLOWER && call.version >= 10 {
                let state = partition.state();
                response.current_leader = LeaderIdAndEpoch {
                    leader_id: state.leader,
                    leader_epoch: state.leader_epoch,
                    ..LeaderIdAndEpoch::default()
                };
            }
            response
        }
    }
}

fn topic_response(topic: &TopicProduceData, partitions: Vec<PartitionProduceResponse>) -> TopicProduceResponse {
    TopicProduceResponse {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partition_responses: partitions,
        ..TopicProduceResponse::default()
    }
}

/// Returns the endpoints of the current leaders that the response contains (KIP-951).
fn endpoints(call: &Call<'_>, responses: &[TopicProduceResponse]) -> Vec<NodeEndpoint> {
    let partitions = || responses.iter().flat_map(|topic| &topic.partition_responses);
    let named = |id: i32| partitions().any(|partition| partition.current_leader.leader_id == id);
    let endpoint = |(id, node): (i32, &crate::state::Node)| NodeEndpoint {
        node_id: id,
        host: node.host.clone(),
        port: node.port.into(),
        ..NodeEndpoint::default()
    };
    call.state.live_nodes().filter(|(id, _)| named(*id)).map(endpoint).collect()
}

impl Handler for ProduceRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        if !matches!(self.acks, -1..=1) {
            return call.reply::<Self>(&self.error_response(call.version, ErrorCode::INVALID_REQUIRED_ACKS));
        }
        let records =
            self.topic_data.iter().flat_map(|topic| &topic.partition_data).filter_map(|data| data.records.as_ref());
        call.record_transfer(ByteRate::Produced, records.map(Bytes::len).sum());
        let mut responses = Vec::with_capacity(self.topic_data.len());
        for data in &self.topic_data {
            let state = call.state;
            let topic = if call.version >= 13 { state.topic_by_id(&data.topic_id) } else { state.topic(&data.name) };
            let transactional_id = self.transactional_id.as_deref();
            let partition_response = |data| partition_response(call, transactional_id, topic.as_ref(), data);
            responses.push(topic_response(data, data.partition_data.iter().map(partition_response).collect()));
        }
        if self.acks == 0 {
            // With acks=0 no response can report an error, so the connection is closed instead, as in Kafka.
            let failed =
                responses.iter().flat_map(|topic| &topic.partition_responses).find(|response| response.error_code != 0);
            return match failed {
                Some(failed) => Outcome::Close(format!("Produce with acks=0 failed with code {}", failed.error_code)),
                None => Outcome::Silent,
            };
        }
        let node_endpoints = if call.version >= 10 { endpoints(call, &responses) } else { Vec::new() };
        call.reply::<Self>(&ProduceResponse { responses, node_endpoints, ..ProduceResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> ProduceResponse {
        let partition_response = |data: &PartitionProduceData| failed(data.index, code, None);
        let topic = |topic: &TopicProduceData| {
            topic_response(topic, topic.partition_data.iter().map(partition_response).collect())
        };
        ProduceResponse { responses: self.topic_data.iter().map(topic).collect(), ..ProduceResponse::default() }
    }

    fn expects_response(&self) -> bool {
        self.acks != 0
    }
}
