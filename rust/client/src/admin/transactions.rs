//! Transactions: listed, described, ended by force (KIP-664).

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use samsarrow_wire::messages::describe_producers::TopicRequest;
use samsarrow_wire::messages::write_txn_markers::{WritableTxnMarker, WritableTxnMarkerTopic};
use samsarrow_wire::messages::{
    ApiKey, DescribeProducersRequest, DescribeProducersResponse, DescribeTransactionsRequest,
    DescribeTransactionsResponse, InitProducerIdRequest, InitProducerIdResponse, ListTransactionsRequest,
    ListTransactionsResponse, WriteTxnMarkersRequest, WriteTxnMarkersResponse,
};
use tokio::time::Instant;

use super::Admin;
use super::batch::{Route, Work};
use super::coordinators::CoordinatorType;
use super::engine::Asked;
use super::response_errors::check_of;
use crate::error::{Error, Result};
use crate::offsets::by_topic;
use crate::types::TopicPartition;

/// Which transactional ids to list; what is empty or `None` lets all pass.
#[derive(Debug, Clone, Default)]
pub struct TransactionFilter {
    /// By the state.
    pub states: Vec<String>,
    /// By the producer.
    pub producer_ids: Vec<i64>,
    /// Open for longer than this; Kafka 3.8 and later.
    pub longer_than: Option<Duration>,
    /// By a regular expression that brokers apply (RE2J); Kafka 4.1 and later.
    pub pattern: Option<String>,
}

/// A transactional id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionListing {
    /// Its name.
    pub transactional_id: String,
    /// Its producer.
    pub producer_id: i64,
    /// `Empty`, `Ongoing` and so on.
    pub state: String,
}

/// A transactional id and its transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionDescription {
    /// The broker that coordinates it.
    pub coordinator: i32,
    /// `Empty`, `Ongoing` and so on.
    pub state: String,
    /// Its producer.
    pub producer_id: i64,
    /// The producer's epoch.
    pub producer_epoch: i16,
    /// How long a transaction may be open, in milliseconds.
    pub timeout_ms: i32,
    /// When it began, in milliseconds since 1970, if one is open.
    pub start: Option<i64>,
    /// The partitions that are in it.
    pub partitions: Vec<TopicPartition>,
}

/// What a partition knows of one who writes to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducerState {
    /// Its id.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i32,
    /// The sequence of its last record, −1 for none.
    pub last_sequence: i32,
    /// The time of its last record, in milliseconds since 1970, −1 for none.
    pub last_timestamp: i64,
    /// The epoch of the coordinator that ended its last transaction.
    pub coordinator_epoch: Option<i32>,
    /// Where its open transaction begins.
    pub transaction_start: Option<i64>,
}

/// A transaction that keeps a partition from being read, and that no coordinator will end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HangingTransaction {
    /// Where.
    pub partition: TopicPartition,
    /// Whose, as far as the partition knows.
    pub producer: ProducerState,
    /// The transactional id, if a coordinator still knows it.
    pub transactional_id: Option<String>,
}

fn of_ids(timeout: Duration) -> Work<String> {
    let route = Route::Coordinator(CoordinatorType::Transactions, |id: &String| id);
    Work { what: |id| format!("transactional id {id}"), ..Work::new(route, timeout) }
}

impl Admin {
    /// The transactional ids of all brokers, in their order.
    ///
    /// # Errors
    /// When a broker cannot be asked within `timeout`: without it the list would lack its ids.
    pub async fn list_transactions(
        &self,
        filter: &TransactionFilter,
        timeout: Duration,
    ) -> Result<Vec<TransactionListing>> {
        let key = ApiKey::ListTransactions;
        let deadline = Instant::now() + timeout;
        let brokers = self.brokers(timeout).await?;
        let build = |_: &Asked<'_, i32>| {
            let least = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
            Ok(ListTransactionsRequest {
                state_filters: filter.states.clone(),
                producer_id_filters: filter.producer_ids.clone(),
                duration_filter: filter.longer_than.map_or(-1, least),
                transactional_id_pattern: filter.pattern.clone(),
                ..Default::default()
            })
        };
        let read = |asked: &Asked<'_, i32>, response: ListTransactionsResponse| {
            let broker = asked.items.first().copied().unwrap_or_default();
            let mut said = check_of(key, format!("broker {broker}"), response.error_code, None);
            if said.is_ok() && !response.unknown_state_filters.is_empty() {
                let unknown = response.unknown_state_filters.join(", ");
                said = Err(Error::configuration(format!("no state of a transaction: {unknown}")));
            }
            Ok(vec![(broker, said.map(|()| response.transaction_states))])
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let work = Work { what: |id| format!("broker {id}"), ..Work::new(Route::Broker(|id| *id), left) };
        let mut found = Vec::new();
        for (_, listed) in self.settle(&work, &brokers, build, read).await? {
            found.extend(listed?.into_iter().map(|told| TransactionListing {
                transactional_id: told.transactional_id,
                producer_id: told.producer_id,
                state: told.transaction_state,
            }));
        }
        found.sort_by(|a, b| a.transactional_id.cmp(&b.transactional_id));
        found.dedup_by(|a, b| a.transactional_id == b.transactional_id);
        Ok(found)
    }

    /// Transactions by their transactional ids; each has its own outcome.
    ///
    /// # Errors
    /// What is not about one id; a timeout with its cause where no broker answered.
    pub async fn describe_transactions(
        &self,
        ids: &[String],
        timeout: Duration,
    ) -> Result<Vec<(String, Result<TransactionDescription>)>> {
        let key = ApiKey::DescribeTransactions;
        let build = |asked: &Asked<'_, String>| {
            Ok(DescribeTransactionsRequest { transactional_ids: asked.items.to_vec(), ..Default::default() })
        };
        let read = |asked: &Asked<'_, String>, response: DescribeTransactionsResponse| {
            let one = |told: samsarrow_wire::messages::describe_transactions::TransactionState| {
                let what = format!("transactional id {}", told.transactional_id);
                let topics = told.topics.into_iter();
                let mut partitions: Vec<TopicPartition> = topics
                    .flat_map(|t| t.partitions.into_iter().map(move |p| TopicPartition::new(&*t.topic, p)))
                    .collect();
                partitions.sort();
                let found = check_of(key, what, told.error_code, None).map(|()| TransactionDescription {
                    coordinator: asked.node.unwrap_or(-1),
                    state: told.transaction_state,
                    producer_id: told.producer_id,
                    producer_epoch: told.producer_epoch,
                    timeout_ms: told.transaction_timeout_ms,
                    start: Some(told.transaction_start_time_ms).filter(|time| *time >= 0),
                    partitions,
                });
                (told.transactional_id, found)
            };
            Ok(response.transaction_states.into_iter().map(one).collect())
        };
        self.settle(&of_ids(timeout), ids, build, read).await
    }

    /// Who writes to partitions with idempotence, as their leaders know it.
    ///
    /// # Errors
    /// What is not about one partition; a timeout with its cause where no leader answered.
    pub async fn describe_producers(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Result<Vec<ProducerState>>)>> {
        let key = ApiKey::DescribeProducers;
        let build = |asked: &Asked<'_, TopicPartition>| {
            let topics = by_topic(asked.items.iter().map(|tp| (tp.clone(), ()))).into_iter().map(|(name, its)| {
                let partition_indexes = its.into_iter().map(|(partition, ())| partition).collect();
                TopicRequest { name: name.to_string(), partition_indexes, ..Default::default() }
            });
            Ok(DescribeProducersRequest { topics: topics.collect(), ..Default::default() })
        };
        let read = |_: &Asked<'_, TopicPartition>, response: DescribeProducersResponse| {
            let mut said = Vec::new();
            for topic in response.topics {
                for p in topic.partitions {
                    let tp = TopicPartition::new(&*topic.name, p.partition_index);
                    let producer = |told: samsarrow_wire::messages::describe_producers::ProducerState| ProducerState {
                        producer_id: told.producer_id,
                        producer_epoch: told.producer_epoch,
                        last_sequence: told.last_sequence,
                        last_timestamp: told.last_timestamp,
                        coordinator_epoch: Some(told.coordinator_epoch).filter(|epoch| *epoch >= 0),
                        transaction_start: Some(told.current_txn_start_offset).filter(|offset| *offset >= 0),
                    };
                    let found = check_of(key, &tp, p.error_code, p.error_message.as_deref());
                    said.push((tp, found.map(|()| p.active_producers.into_iter().map(producer).collect())));
                }
            }
            Ok(said)
        };
        self.settle(&Work::new(Route::Leader(|tp| tp), timeout), partitions, build, read).await
    }

    /// Ends an open transaction in one partition, as aborted, whatever its coordinator thinks.
    ///
    /// # Errors
    /// What the leader says; a timeout with its cause.
    pub async fn abort_transaction(
        &self,
        partition: &TopicPartition,
        (producer_id, producer_epoch): (i64, i16),
        coordinator_epoch: Option<i32>,
        timeout: Duration,
    ) -> Result<()> {
        let key = ApiKey::WriteTxnMarkers;
        let build = |_: &Asked<'_, TopicPartition>| {
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
        let read = |_: &Asked<'_, TopicPartition>, response: WriteTxnMarkersResponse| {
            let mut said = Vec::new();
            for topic in response.markers.into_iter().flat_map(|marker| marker.topics) {
                for p in topic.partitions {
                    let tp = TopicPartition::new(&*topic.name, p.partition_index);
                    let outcome = check_of(key, &tp, p.error_code, None);
                    said.push((tp, outcome));
                }
            }
            Ok(said)
        };
        let work = Work::new(Route::Leader(|tp| tp), timeout);
        let said = self.settle(&work, std::slice::from_ref(partition), build, read).await?;
        said.into_iter().try_for_each(|(_, said)| said)
    }

    /// Fences the producers of transactional ids, whose open transactions are aborted. Gives their ids and new epochs.
    ///
    /// # Errors
    /// What is not about one id; a timeout with its cause where no broker answered.
    pub async fn fence_producers(
        &self,
        ids: &[String],
        timeout: Duration,
    ) -> Result<Vec<(String, Result<(i64, i16)>)>> {
        let key = ApiKey::InitProducerId;
        let build = |asked: &Asked<'_, String>| {
            Ok(InitProducerIdRequest {
                transactional_id: asked.items.first().cloned(),
                // Java's: nobody is going to use the transaction, so the time does not matter.
                transaction_timeout_ms: 1,
                ..Default::default()
            })
        };
        let read = |asked: &Asked<'_, String>, response: InitProducerIdResponse| {
            let id = asked.items.first().cloned().unwrap_or_default();
            let said = check_of(key, format!("transactional id {id}"), response.error_code, None);
            Ok(vec![(id, said.map(|()| (response.producer_id, response.producer_epoch)))])
        };
        let work = Work { most: |_| 1, ..of_ids(timeout) };
        self.settle(&work, ids, build, read).await
    }

    /// Transactions that are open in `partitions`, or anywhere, for longer than `longer_than`, and that no coordinator knows
    /// to be open there.
    ///
    /// # Errors
    /// Of the first thing that could not be asked for: without it a hanging transaction could be missed.
    pub async fn find_hanging(
        &self,
        partitions: Option<&[TopicPartition]>,
        longer_than: Duration,
        timeout: Duration,
    ) -> Result<Vec<HangingTransaction>> {
        let deadline = Instant::now() + timeout;
        let left = || deadline.saturating_duration_since(Instant::now());
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
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
        let since = i64::try_from(now.saturating_sub(longer_than.as_millis())).unwrap_or(i64::MAX);
        let mut open: Vec<(TopicPartition, ProducerState)> = Vec::new();
        for (tp, producers) in self.describe_producers(&partitions, left()).await? {
            let stale = |p: &ProducerState| p.transaction_start.is_some() && p.last_timestamp < since;
            open.extend(producers?.into_iter().filter(stale).map(|producer| (tp.clone(), producer)));
        }
        if open.is_empty() {
            return Ok(Vec::new());
        }
        let producer_ids: BTreeSet<i64> = open.iter().map(|(_, producer)| producer.producer_id).collect();
        let filter = TransactionFilter { producer_ids: producer_ids.into_iter().collect(), ..Default::default() };
        let listed = self.list_transactions(&filter, left()).await?;
        let names: BTreeMap<i64, String> = listed.into_iter().map(|t| (t.producer_id, t.transactional_id)).collect();
        let ids: Vec<String> = names.values().cloned().collect();
        let mut known: BTreeMap<String, Vec<TopicPartition>> = BTreeMap::new();
        for (id, told) in self.describe_transactions(&ids, left()).await? {
            known.insert(id, told?.partitions);
        }
        let hanging = open.into_iter().filter_map(|(partition, producer)| {
            let transactional_id = names.get(&producer.producer_id).cloned();
            let coordinated = transactional_id.as_ref().and_then(|id| known.get(id));
            let ends = coordinated.is_some_and(|its| its.contains(&partition));
            (!ends).then_some(HangingTransaction { partition, producer, transactional_id })
        });
        Ok(hanging.collect())
    }
}
