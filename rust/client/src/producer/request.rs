//! Produce requests, and the results of batches in the responses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use samsarrow_wire::batch::EncodeError;
use samsarrow_wire::batch::legacy::convert;
use samsarrow_wire::compression::{Codec, Compressor};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::produce::{
    BatchIndexAndErrorMessage, NodeEndpoint, PartitionProduceData, PartitionProduceResponse, ProduceRequest,
    TopicProduceData,
};
use samsarrow_wire::messages::{ApiKey, Request, Uuid};
use samsarrow_wire::sync::lock;

pub(crate) use samsarrow_wire::messages::produce::ProduceResponse;

use super::batch::{Batch, Payload};
use super::delivery_state::Appended;
use super::drain::Outgoing;
use super::queue::{Failure, FailureKind};
use super::shared::Settings;
use crate::api_versions::required_release;
use crate::cluster::metadata::Leader;
use crate::collections::HashMap;
use crate::config::message_format::newest_magic;
use crate::error::{Error, Result};

/// First version of Produce that identifies topics by ID.
const TOPIC_ID_VERSION: i16 = 13;
/// First version of Produce with record batches, and therefore with headers (KIP-82).
const FIRST_WITH_HEADERS: i16 = 3;
/// First version of Produce in which brokers accept zstd.
const ZSTD_VERSION: i16 = 7;

/// Encoded batch of one partition.
#[derive(Debug, Clone)]
pub(crate) struct PartitionPayload {
    topic: Arc<str>,
    topic_id: Uuid,
    partition: i32,
    records: Bytes,
}

/// Returns the newest version that can identify all topics of these batches, because a topic without an ID must not
/// delay other topics.
pub(crate) fn newest_version(batches: &[Outgoing]) -> i16 {
    let nameless = batches.iter().any(|outgoing| outgoing.topic_id.is_zero());
    if nameless { TOPIC_ID_VERSION - 1 } else { ProduceRequest::MAX_VERSION }
}

/// Returns the encoded batches of a request, sorted by topic and partition. Sets an error on batches that are not
/// encoded.
pub(crate) fn partition_payloads(batches: &mut [Outgoing]) -> Vec<PartitionPayload> {
    let mut partition_payloads: Vec<PartitionPayload> = Vec::with_capacity(batches.len());
    for outgoing in batches.iter_mut().filter(|outgoing| outgoing.skip_error.is_none()) {
        let (topic, partition) = (&outgoing.batch.state.topic, outgoing.batch.state.partition);
        match &outgoing.batch.payload {
            Payload::Encoded(records) => partition_payloads.push(PartitionPayload {
                topic: Arc::clone(topic),
                topic_id: outgoing.topic_id,
                partition,
                records: records.clone(),
            }),
            Payload::Draft(_) => {
                let text = format!("a batch for {topic}-{partition} was not encoded: please report this as a bug");
                outgoing.skip_error = Some(Error::configuration(text));
            }
        }
    }
    partition_payloads.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
    partition_payloads
}

/// Errors of batches that were left out of a request, by topic and partition.
#[derive(Debug, Clone, Default)]
pub(crate) struct SkippedBatches(Arc<Mutex<Errors>>);

type Errors = HashMap<(Arc<str>, i32), Error>;

impl SkippedBatches {
    /// Sets the error of each batch that was left out.
    pub(crate) fn apply_to(&self, batches: &mut [Outgoing]) {
        let mut errors = lock(&self.0);
        for outgoing in batches {
            let state = &outgoing.batch.state;
            if let Some(error) = errors.remove(&(Arc::clone(&state.topic), state.partition)) {
                outgoing.skip_error = Some(error);
            }
        }
    }

    fn add(&self, topic: Arc<str>, partition: i32, error: Error) {
        lock(&self.0).insert((topic, partition), error);
    }
}

/// Builds the request in the version negotiated with the broker, without the batches that cannot be written in that
/// version.
pub(crate) fn build(
    version: i16,
    partition_payloads: Vec<PartitionPayload>,
    settings: &Settings,
    skipped: &SkippedBatches,
) -> Result<ProduceRequest> {
    let magic = settings.magic.min(newest_magic(version));
    if settings.codec == Codec::Zstd && version < ZSTD_VERSION {
        return Err(Error::configuration(format!(
            "compression.type=zstd needs Produce version {ZSTD_VERSION} (Kafka 2.1), this broker or api.version.produce allows \
             {version}: choose another codec"
        )));
    }
    let mut topic_data: Vec<TopicProduceData> = Vec::new();
    let mut last: Option<Arc<str>> = None;
    for PartitionPayload { topic, topic_id, partition, records } in partition_payloads {
        let records = if magic < 2 { to_messages(magic, records, settings, &topic, partition) } else { Ok(records) };
        let records = match records {
            Ok(records) => records,
            Err(error) => {
                skipped.add(topic, partition, error);
                continue;
            }
        };
        if last.as_ref() != Some(&topic) {
            topic_data.push(topic_data_of(version, &topic, topic_id)?);
            last = Some(topic);
        }
        if let Some(data) = topic_data.last_mut() {
            data.partition_data.push(PartitionProduceData {
                index: partition,
                records: Some(records),
                ..Default::default()
            });
        }
    }
    if topic_data.is_empty() {
        // Each batch has its own error, which takes precedence.
        return Err(Error::configuration("no batch of the request can be written in the broker's message format"));
    }
    let timeout_ms = i32::try_from(settings.request_timeout.as_millis()).unwrap_or(i32::MAX);
    let transactional_id = settings.transactional_id.as_deref().map(str::to_owned);
    Ok(ProduceRequest { transactional_id, acks: settings.acks, timeout_ms, topic_data, ..Default::default() })
}

/// Converts a batch to message format v0 or v1. The original batch is kept for further attempts.
fn to_messages(magic: i8, batch: Bytes, settings: &Settings, topic: &str, partition: i32) -> Result<Bytes> {
    let mut compressor =
        Compressor::new(settings.codec, settings.level).map_err(|error| Error::configuration(error.to_string()))?;
    convert(batch, magic, &mut compressor).map(Bytes::from).map_err(|error| {
        let text = format!("cannot write records for {topic}-{partition} in message format v{magic}: {error}");
        match (error, required_release(ApiKey::Produce, FIRST_WITH_HEADERS)) {
            // The options allow headers, otherwise the record would have been rejected earlier.
            (EncodeError::Headers { .. }, Some(needed)) => {
                Error::UnsupportedVersion(format!("{text} (a record with headers {needed})"))
            }
            _ => Error::configuration(text),
        }
    })
}

fn topic_data_of(version: i16, topic: &str, topic_id: Uuid) -> Result<TopicProduceData> {
    if version < TOPIC_ID_VERSION {
        return Ok(TopicProduceData { name: topic.to_owned(), ..Default::default() });
    }
    // A zero ID matches no topic, so the request fails until fresh metadata contains the ID.
    match topic_id.is_zero() {
        false => Ok(TopicProduceData { topic_id, ..Default::default() }),
        true => Err(Error::server(
            ErrorCode::UNKNOWN_TOPIC_ID,
            format!("Produce to topic {topic}: the metadata does not give its id, which version {version} needs"),
        )),
    }
}

/// Topic names by the topic IDs of a request.
pub(crate) type TopicNames = HashMap<Uuid, Arc<str>>;

/// Returns the topic names of these batches by topic ID.
pub(crate) fn topic_names(batches: &[Outgoing]) -> TopicNames {
    batches.iter().map(|outgoing| (outgoing.topic_id, Arc::clone(&outgoing.batch.state.topic))).collect()
}

/// Results in a produce response, indexed by topic and partition of a batch.
#[derive(Debug)]
pub(crate) struct ResponseIndex<'a> {
    throttle_ms: i32,
    partitions: HashMap<(&'a str, i32), &'a PartitionProduceResponse>,
    nodes: &'a [NodeEndpoint],
}

impl<'a> ResponseIndex<'a> {
    pub(crate) fn new(response: &'a ProduceResponse, names: &'a TopicNames) -> Self {
        let mut partitions = HashMap::default();
        for topic in &response.responses {
            let name = if topic.topic_id == Uuid::ZERO {
                topic.name.as_str()
            } else {
                names.get(&topic.topic_id).map_or(topic.name.as_str(), |name| &**name)
            };
            for partition in &topic.partition_responses {
                partitions.insert((name, partition.index), partition);
            }
        }
        Self { throttle_ms: response.throttle_time_ms, partitions, nodes: &response.node_endpoints }
    }

    /// Returns the throttle time of the response, which the connection has limited.
    pub(crate) fn throttle(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.throttle_ms).unwrap_or(0))
    }

    /// Returns the addresses of the leaders in the response (KIP-951).
    pub(crate) fn leader_addresses(&self) -> Vec<(i32, String)> {
        self.nodes.iter().map(|node| (node.node_id, format!("{}:{}", node.host, node.port))).collect()
    }

    fn find(&self, batch: &Batch) -> Option<&'a PartitionProduceResponse> {
        self.partitions.get(&(&*batch.state.topic, batch.state.partition)).copied()
    }

    pub(crate) fn is_too_large(&self, outgoing: &Outgoing) -> bool {
        self.find(&outgoing.batch)
            .map(|response| ErrorCode::from_i16(response.error_code))
            .is_some_and(|code| matches!(code, ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE))
    }

    /// Returns the current leader of the batch's partition, if the response contains it because the broker is not the
    /// leader.
    pub(crate) fn current_leader(&self, outgoing: &Outgoing) -> Option<Leader> {
        let leader = &self.find(&outgoing.batch)?.current_leader;
        (leader.leader_id >= 0).then_some(Leader { node: leader.leader_id, epoch: leader.leader_epoch })
    }

    pub(crate) fn result(&self, outgoing: &Outgoing) -> std::result::Result<Appended, Failure> {
        self.batch_result(&outgoing.batch)
    }

    pub(crate) fn batch_result(&self, batch: &Batch) -> std::result::Result<Appended, Failure> {
        let (topic, partition) = (&batch.state.topic, batch.state.partition);
        let Some(response) = self.find(batch) else {
            let error = Error::corrupt(format!("the broker's Produce response leaves out {topic}-{partition}"));
            return Err(Failure::new(error, FailureKind::Retriable));
        };
        let code = ErrorCode::from_i16(response.error_code);
        let numbered = batch.numbered.is_some();
        let kind = match code {
            ErrorCode::NONE => {
                return Ok(Appended {
                    base_offset: response.base_offset,
                    log_append_time: response.log_append_time_ms,
                });
            }
            // An earlier attempt has appended the batch, but the broker no longer knows its offset.
            ErrorCode::DUPLICATE_SEQUENCE_NUMBER if numbered => {
                return Ok(Appended { base_offset: -1, log_append_time: -1 });
            }
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER if numbered => FailureKind::OutOfOrder,
            ErrorCode::UNKNOWN_PRODUCER_ID | ErrorCode::INVALID_PRODUCER_EPOCH if numbered => {
                FailureKind::UnknownProducerId
            }
            ErrorCode::UNKNOWN_SERVER_ERROR => FailureKind::Unknown,
            code if code.retriable() => FailureKind::Retriable,
            _ => FailureKind::Rejected,
        };
        let error = Error::server(code, describe(response, batch));
        if kind != FailureKind::Rejected || response.record_errors.is_empty() {
            return Err(Failure::new(error, kind));
        }
        let records: BTreeMap<u32, Error> =
            response.record_errors.iter().filter_map(|record| rejected(record, response, batch)).collect();
        let text = format!(
            "Produce to {topic}-{partition}: the record was rejected together with its batch of {}, because of {} of the \
             others ({error}): send it again",
            batch.count,
            records.len()
        );
        Err(Failure { error: Error::RejectedWithOthers(text), kind, records })
    }
}

/// Returns the index and the error of a record that caused the broker to reject its batch.
fn rejected(
    record: &BatchIndexAndErrorMessage,
    response: &PartitionProduceResponse,
    batch: &Batch,
) -> Option<(u32, Error)> {
    // An index outside the batch is ignored, so all records then get the common error.
    let index = u32::try_from(record.batch_index).ok().filter(|index| *index < batch.count)?;
    let (topic, partition) = (&batch.state.topic, batch.state.partition);
    let reason = record.batch_index_error_message.as_deref().or(response.error_message.as_deref());
    let text = format!("Produce to {topic}-{partition}: {}", reason.unwrap_or("the broker rejects this record"));
    Some((index, Error::server(ErrorCode::from_i16(response.error_code), text)))
}

fn describe(response: &PartitionProduceResponse, batch: &Batch) -> String {
    let (topic, partition) = (&batch.state.topic, batch.state.partition);
    let mut text = format!("Produce of {} records ({} bytes) to {topic}-{partition}", batch.count, batch.size());
    if let Some(message) = &response.error_message {
        text.push_str(&format!(": {message}"));
    }
    if let Some(first) = response.record_errors.first() {
        let reason = first.batch_index_error_message.as_deref().unwrap_or("no reason given");
        text.push_str(&format!(" (record {} of the batch: {reason})", first.batch_index));
    }
    match ErrorCode::from_i16(response.error_code) {
        ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT => text.push_str(
            ": idempotence and transactions need a topic with message.format.version 0.11.0 or later: raise it, or set \
             enable.idempotence to false",
        ),
        ErrorCode::MESSAGE_TOO_LARGE => {
            text.push_str(": raise max.message.bytes of the topic, or send smaller records");
        }
        _ => {}
    }
    text
}
