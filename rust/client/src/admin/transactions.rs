//! Operations on transactions: list, describe, abort and fence (KIP-664).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use samsarrow_wire::messages::describe_producers::TopicRequest;
use samsarrow_wire::messages::write_txn_markers::{WritableTxnMarker, WritableTxnMarkerTopic};
use samsarrow_wire::messages::{
    ApiKey, DescribeProducersRequest, DescribeProducersResponse, DescribeTransactionsRequest,
    DescribeTransactionsResponse, InitProducerIdRequest, InitProducerIdResponse, ListTransactionsRequest,
    ListTransactionsResponse, WriteTxnMarkersRequest, WriteTxnMarkersResponse,
};
use tokio::time::Instant;

use super::Admin;
use super::batch::{BatchedRequest, Route};
use super::engine::RequestBatch;
use super::response_errors::check_item;
use crate::clock;
use crate::cluster::find_coordinator::CoordinatorType;
use crate::error::{Error, Result};
use crate::offsets::by_topic;
use crate::types::TopicPartition;

/// Filter of listed transactional ids. Empty lists and `None` match all ids.
#[derive(Debug, Clone, Default)]
pub struct TransactionFilter {
    /// Transaction states.
    pub states: Vec<String>,
    /// Producer ids.
    pub producer_ids: Vec<i64>,
    /// Minimum duration of an open transaction; supported by Kafka 3.8 and later.
    pub longer_than: Option<Duration>,
    /// Regular expression for transactional ids, which brokers evaluate (RE2J); supported by Kafka 4.1 and later.
    pub pattern: Option<String>,
}

/// Listed transactional id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionListing {
    /// Transactional id.
    pub transactional_id: String,
    /// Producer id.
    pub producer_id: i64,
    /// Transaction state, such as `Empty` or `Ongoing`.
    pub state: String,
}

/// Description of a transactional id and its current transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionDescription {
    /// Broker id of the transaction coordinator.
    pub coordinator: i32,
    /// Transaction state, such as `Empty` or `Ongoing`.
    pub state: String,
    /// Producer id.
    pub producer_id: i64,
    /// Producer epoch.
    pub producer_epoch: i16,
    /// Transaction timeout, in milliseconds.
    pub timeout_ms: i32,
    /// Start time of the open transaction in milliseconds since 1970; `None` if none is open.
    pub start: Option<i64>,
    /// Partitions that are part of the transaction.
    pub partitions: Vec<TopicPartition>,
}

/// State of an idempotent producer in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducerState {
    /// Producer id.
    pub producer_id: i64,
    /// Producer epoch.
    pub producer_epoch: i32,
    /// Sequence number of the producer's last record, −1 if there is none.
    pub last_sequence: i32,
    /// Timestamp of the producer's last record in milliseconds since 1970, −1 if there is none.
    pub last_timestamp: i64,
    /// Epoch of the coordinator that completed the producer's last transaction.
    pub coordinator_epoch: Option<i32>,
    /// Start offset of the producer's open transaction; `None` if none is open.
    pub transaction_start: Option<i64>,
}

/// Open transaction in a partition that no coordinator will complete. Until it is aborted, the last stable offset does
/// not advance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HangingTransaction {
    /// Partition.
    pub partition: TopicPartition,
    /// State of the producer in the partition.
    pub producer: ProducerState,
    /// Transactional id, if a coordinator still has it.
    pub transactional_id: Option<String>,
}

fn transactional_id_request(timeout: Duration) -> BatchedRequest<String> {
    let route = Route::Coordinator(CoordinatorType::Transactions, |id: &String| id);
    BatchedRequest { describe: |id| format!("transactional id {id}"), ..BatchedRequest::new(route, timeout) }
}

impl Admin {
    /// Lists the transactional ids of all brokers that match `filter`, sorted.
    ///
    /// # Errors
    /// Fails if a broker cannot be reached within `timeout`, because its transactional ids would be missing from the
    /// list.
    pub async fn list_transactions(
        &self,
        filter: &TransactionFilter,
        timeout: Duration,
    ) -> Result<Vec<TransactionListing>> {
        let key = ApiKey::ListTransactions;
        let deadline = Instant::now() + timeout;
        let brokers = self.brokers(timeout).await?;
        let build = |_: &RequestBatch<'_, i32>| {
            let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
            Ok(ListTransactionsRequest {
                state_filters: filter.states.clone(),
                producer_id_filters: filter.producer_ids.clone(),
                duration_filter: filter.longer_than.map_or(-1, millis),
                transactional_id_pattern: filter.pattern.clone(),
                ..Default::default()
            })
        };
        let read = |batch: &RequestBatch<'_, i32>, response: ListTransactionsResponse| {
            let broker = batch.items.first().copied().unwrap_or_default();
            let mut result = check_item(key, format!("broker {broker}"), response.error_code, None);
            if result.is_ok() && !response.unknown_state_filters.is_empty() {
                let unknown = response.unknown_state_filters.join(", ");
                result = Err(Error::configuration(format!("unknown transaction states: {unknown}")));
            }
            Ok(vec![(broker, result.map(|()| response.transaction_states))])
        };
        let remaining = deadline.saturating_duration_since(Instant::now());
        let request = BatchedRequest {
            describe: |id| format!("broker {id}"),
            ..BatchedRequest::new(Route::Broker(|id| *id), remaining)
        };
        let mut listings = Vec::new();
        for (_, listed) in self.send_batched(&request, &brokers, build, read).await? {
            listings.extend(listed?.into_iter().map(|state| TransactionListing {
                transactional_id: state.transactional_id,
                producer_id: state.producer_id,
                state: state.transaction_state,
            }));
        }
        listings.sort_by(|a, b| a.transactional_id.cmp(&b.transactional_id));
        listings.dedup_by(|a, b| a.transactional_id == b.transactional_id);
        Ok(listings)
    }

    /// Describes transactional ids. Returns a result for each id.
    ///
    /// # Errors
    /// Fails with an error that concerns the whole request, or with a timeout if no broker responds. Errors of
    /// individual ids are returned in the list.
    pub async fn describe_transactions(
        &self,
        ids: &[String],
        timeout: Duration,
    ) -> Result<Vec<(String, Result<TransactionDescription>)>> {
        let key = ApiKey::DescribeTransactions;
        let build = |batch: &RequestBatch<'_, String>| {
            Ok(DescribeTransactionsRequest { transactional_ids: batch.items.to_vec(), ..Default::default() })
        };
        let read = |batch: &RequestBatch<'_, String>, response: DescribeTransactionsResponse| {
            let read_state = |state: samsarrow_wire::messages::describe_transactions::TransactionState| {
                let context = format!("transactional id {}", state.transactional_id);
                let topics = state.topics.into_iter();
                let mut partitions: Vec<TopicPartition> = topics
                    .flat_map(|t| t.partitions.into_iter().map(move |p| TopicPartition::new(&*t.topic, p)))
                    .collect();
                partitions.sort();
                let description = check_item(key, context, state.error_code, None).map(|()| TransactionDescription {
                    coordinator: batch.node.unwrap_or(-1),
                    state: state.transaction_state,
                    producer_id: state.producer_id,
                    producer_epoch: state.producer_epoch,
                    timeout_ms: state.transaction_timeout_ms,
                    start: Some(state.transaction_start_time_ms).filter(|time| *time >= 0),
                    partitions,
                });
                (state.transactional_id, description)
            };
            Ok(response.transaction_states.into_iter().map(read_state).collect())
        };
        self.send_batched(&transactional_id_request(timeout), ids, build, read).await
    }

    /// Describes the idempotent producers of partitions, as the partition leaders know them.
    ///
    /// # Errors
    /// Fails with an error that concerns the whole request, or with a timeout if no leader responds. Errors of
    /// individual partitions are returned in the list.
    pub async fn describe_producers(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Result<Vec<ProducerState>>)>> {
        let key = ApiKey::DescribeProducers;
        let build = |batch: &RequestBatch<'_, TopicPartition>| {
            let topics =
                by_topic(batch.items.iter().map(|tp| (tp.clone(), ()))).into_iter().map(|(name, partitions)| {
                    let partition_indexes = partitions.into_iter().map(|(partition, ())| partition).collect();
                    TopicRequest { name: name.to_string(), partition_indexes, ..Default::default() }
                });
            Ok(DescribeProducersRequest { topics: topics.collect(), ..Default::default() })
        };
        let read = |_: &RequestBatch<'_, TopicPartition>, response: DescribeProducersResponse| {
            let mut results = Vec::new();
            for topic in response.topics {
                for p in topic.partitions {
                    let tp = TopicPartition::new(&*topic.name, p.partition_index);
                    let producer = |state: samsarrow_wire::messages::describe_producers::ProducerState| ProducerState {
                        producer_id: state.producer_id,
                        producer_epoch: state.producer_epoch,
                        last_sequence: state.last_sequence,
                        last_timestamp: state.last_timestamp,
                        coordinator_epoch: Some(state.coordinator_epoch).filter(|epoch| *epoch >= 0),
                        transaction_start: Some(state.current_txn_start_offset).filter(|offset| *offset >= 0),
                    };
                    let result = check_item(key, &tp, p.error_code, p.error_message.as_deref());
                    results.push((tp, result.map(|()| p.active_producers.into_iter().map(producer).collect())));
                }
            }
            Ok(results)
        };
        self.send_batched(&BatchedRequest::new(Route::Leader(|tp| tp), timeout), partitions, build, read).await
    }

    /// Aborts an open transaction in one partition, without contacting its coordinator.
    ///
    /// # Errors
    /// Fails with the error that the partition leader returns, or with a timeout that contains the last error.
    pub async fn abort_transaction(
        &self,
        partition: &TopicPartition,
        (producer_id, producer_epoch): (i64, i16),
        coordinator_epoch: Option<i32>,
        timeout: Duration,
    ) -> Result<()> {
        let key = ApiKey::WriteTxnMarkers;
        let build = |_: &RequestBatch<'_, TopicPartition>| {
            let topic = WritableTxnMarkerTopic {
                name: partition.topic.to_string(),
                partition_indexes: vec![partition.partition],
                ..Default::default()
            };
            let marker = WritableTxnMarker {
                producer_id,
                producer_epoch,
                transaction_result: false,
                topics: vec![topic],
                coordinator_epoch: coordinator_epoch.unwrap_or(-1),
                ..Default::default()
            };
            Ok(WriteTxnMarkersRequest { markers: vec![marker], ..Default::default() })
        };
        let read = |_: &RequestBatch<'_, TopicPartition>, response: WriteTxnMarkersResponse| {
            let mut results = Vec::new();
            for topic in response.markers.into_iter().flat_map(|marker| marker.topics) {
                for p in topic.partitions {
                    let tp = TopicPartition::new(&*topic.name, p.partition_index);
                    let outcome = check_item(key, &tp, p.error_code, None);
                    results.push((tp, outcome));
                }
            }
            Ok(results)
        };
        let request = BatchedRequest::new(Route::Leader(|tp| tp), timeout);
        let results = self.send_batched(&request, std::slice::from_ref(partition), build, read).await?;
        results.into_iter().try_for_each(|(_, result)| result)
    }

    /// Fences the producers of transactional ids, which aborts their open transactions. Returns the producer id and the
    /// new producer epoch for each transactional id.
    ///
    /// # Errors
    /// Fails with an error that concerns the whole request, or with a timeout if no broker responds. Errors of
    /// individual ids are returned in the list.
    pub async fn fence_producers(
        &self,
        ids: &[String],
        timeout: Duration,
    ) -> Result<Vec<(String, Result<(i64, i16)>)>> {
        let key = ApiKey::InitProducerId;
        let build = |batch: &RequestBatch<'_, String>| {
            Ok(InitProducerIdRequest {
                transactional_id: batch.items.first().cloned(),
                // The value is the same as in Java's client. It has no effect, because no transaction is started with
                // it.
                transaction_timeout_ms: 1,
                ..Default::default()
            })
        };
        let read = |batch: &RequestBatch<'_, String>, response: InitProducerIdResponse| {
            let id = batch.items.first().cloned().unwrap_or_default();
            let result = check_item(key, format!("transactional id {id}"), response.error_code, None);
            Ok(vec![(id, result.map(|()| (response.producer_id, response.producer_epoch)))])
        };
        let request = BatchedRequest { max_items: |_| 1, ..transactional_id_request(timeout) };
        self.send_batched(&request, ids, build, read).await
    }

    /// Finds transactions that are open in one of `partitions` (or in any partition if it is `None`) and have written
    /// no record for longer than `longer_than`, although no coordinator knows them as open in this partition.
    ///
    /// # Errors
    /// Fails if any of the requests fails, because a hanging transaction could be missed.
    pub async fn find_hanging(
        &self,
        partitions: Option<&[TopicPartition]>,
        longer_than: Duration,
        timeout: Duration,
    ) -> Result<Vec<HangingTransaction>> {
        let deadline = Instant::now() + timeout;
        let remaining = || deadline.saturating_duration_since(Instant::now());
        let partitions = match partitions {
            Some(partitions) => partitions.to_vec(),
            None => {
                let listed = self.list_topics(None, timeout).await?.into_iter();
                let all = listed.flat_map(|topic| {
                    let count = i32::try_from(topic.partitions).unwrap_or(i32::MAX);
                    let name: std::sync::Arc<str> = topic.name.into();
                    (0..count).map(move |p| TopicPartition::new(std::sync::Arc::clone(&name), p))
                });
                all.collect()
            }
        };
        let now = clock::unix_time().as_millis();
        let since = i64::try_from(now.saturating_sub(longer_than.as_millis())).unwrap_or(i64::MAX);
        let mut open: Vec<(TopicPartition, ProducerState)> = Vec::new();
        for (tp, producers) in self.describe_producers(&partitions, remaining()).await? {
            let stale = |p: &ProducerState| p.transaction_start.is_some() && p.last_timestamp < since;
            open.extend(producers?.into_iter().filter(stale).map(|producer| (tp.clone(), producer)));
        }
        if open.is_empty() {
            return Ok(Vec::new());
        }
        let producer_ids: BTreeSet<i64> = open.iter().map(|(_, producer)| producer.producer_id).collect();
        let filter = TransactionFilter { producer_ids: producer_ids.into_iter().collect(), ..Default::default() };
        let listed = self.list_transactions(&filter, remaining()).await?;
        let names: BTreeMap<i64, String> = listed.into_iter().map(|t| (t.producer_id, t.transactional_id)).collect();
        let ids: Vec<String> = names.values().cloned().collect();
        let mut known: BTreeMap<String, Vec<TopicPartition>> = BTreeMap::new();
        for (id, description) in self.describe_transactions(&ids, remaining()).await? {
            known.insert(id, description?.partitions);
        }
        let hanging = open.into_iter().filter_map(|(partition, producer)| {
            let transactional_id = names.get(&producer.producer_id).cloned();
            let coordinated = transactional_id.as_ref().and_then(|id| known.get(id));
            let coordinator_has_it = coordinated.is_some_and(|partitions| partitions.contains(&partition));
            (!coordinator_has_it).then_some(HangingTransaction { partition, producer, transactional_id })
        });
        Ok(hanging.collect())
    }
}
