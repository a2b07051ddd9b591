//! Operations on replicas: leader election, reassignment and log directories.

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::alter_partition_reassignments::{ReassignablePartition, ReassignableTopic};
use samsarrow_wire::messages::alter_replica_log_dirs::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use samsarrow_wire::messages::describe_log_dirs::DescribeLogDirsResult;
use samsarrow_wire::messages::elect_leaders::TopicPartitions;
use samsarrow_wire::messages::list_partition_reassignments::ListPartitionReassignmentsTopics;
use samsarrow_wire::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse, ApiKey, DescribeLogDirsRequest, DescribeLogDirsResponse, ElectLeadersRequest,
    ElectLeadersResponse, ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};

use super::Admin;
use super::batch::{BatchedRequest, Route};
use super::engine::RequestBatch;
use super::response_errors::{check, check_item};
use crate::error::Result;
use crate::offsets::by_topic;
use crate::types::TopicPartition;

/// Ongoing reassignment of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reassignment {
    /// Broker ids of all replicas, including those being added or removed.
    pub replicas: Vec<i32>,
    /// Broker ids of the replicas being added.
    pub adding: Vec<i32>,
    /// Broker ids of the replicas being removed.
    pub removing: Vec<i32>,
}

/// Log directory of a broker.
#[derive(Debug, Clone, PartialEq)]
pub struct LogDir {
    /// Path.
    pub path: String,
    /// Replicas in the directory, or the error that the broker reports for the directory.
    pub replicas: Result<Vec<ReplicaInfo>>,
    /// Total size of the volume in bytes; brokers before 3.3 do not report it.
    pub total_bytes: Option<i64>,
    /// Usable size of the volume in bytes; brokers before 3.3 do not report it.
    pub usable_bytes: Option<i64>,
    /// True if the directory accepts no new replicas (KIP-1066).
    pub cordoned: bool,
}

/// Replica in a log directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaInfo {
    /// Partition.
    pub partition: TopicPartition,
    /// Size, in bytes.
    pub size: i64,
    /// Number of offsets by which the replica is behind the leader's log. For a future replica, it is compared with the
    /// current replica instead.
    pub offset_lag: i64,
    /// True for a future replica, which is being moved here from another directory.
    pub future: bool,
}

/// Replica of a partition, as the partition and the broker id.
pub type Replica = (TopicPartition, i32);

fn topics(partitions: &[TopicPartition]) -> impl Iterator<Item = (String, Vec<i32>)> {
    let topics = by_topic(partitions.iter().map(|tp| (tp.clone(), ())));
    topics.into_iter().map(|(name, partitions)| (name.to_string(), partitions.into_iter().map(|(p, ())| p).collect()))
}

impl Admin {
    /// Elects partition leaders. The election type is 0 for preferred and 1 for unclean elections.
    ///
    /// Returns for each partition whether its leader has changed. If `partitions` is `None`, returns only the
    /// partitions that required an election.
    ///
    /// # Errors
    /// Fails with an error that concerns the whole request, or with a timeout if no controller responds. Errors of
    /// individual partitions are returned in the list.
    pub async fn elect_leaders(
        &self,
        election: i8,
        partitions: Option<&[TopicPartition]>,
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Result<bool>)>> {
        let key = ApiKey::ElectLeaders;
        let request = |partitions: Option<&[TopicPartition]>, timeout_ms| {
            let topic = |(topic, partitions)| TopicPartitions { topic, partitions, ..Default::default() };
            let topic_partitions = partitions.map(|partitions| topics(partitions).map(topic).collect());
            Ok(ElectLeadersRequest { election_type: election, topic_partitions, timeout_ms, ..Default::default() })
        };
        let outcomes = |response: ElectLeadersResponse| {
            check(response.error_code, None, key.name(), key)?;
            let mut results = Vec::new();
            for topic in response.replica_election_results {
                for p in topic.partition_result {
                    let tp = TopicPartition::new(&*topic.topic, p.partition_id);
                    let outcome = match p.error_code == ErrorCode::ELECTION_NOT_NEEDED.code() {
                        true => Ok(false),
                        false => check_item(key, &tp, p.error_code, p.error_message.as_deref()).map(|()| true),
                    };
                    results.push((tp, outcome));
                }
            }
            Ok(results)
        };
        match partitions {
            Some(partitions) => {
                let build = |batch: &RequestBatch<'_, TopicPartition>| request(Some(batch.items), batch.timeout_ms);
                let read = |_: &RequestBatch<'_, TopicPartition>, response| outcomes(response);
                self.send_batched(&BatchedRequest::new(Route::Controller, timeout), partitions, build, read).await
            }
            None => {
                let build = |batch: &RequestBatch<'_, ()>| request(None, batch.timeout_ms);
                let mut results = self.send_single(Route::Controller, timeout, build, outcomes).await?;
                results.retain(|(_, outcome)| *outcome != Ok(false));
                Ok(results)
            }
        }
    }

    /// Assigns the replicas of partitions to brokers. The first broker is the preferred leader; `None` cancels an
    /// ongoing reassignment.
    ///
    /// # Errors
    /// Fails with an error that concerns the whole request, or with a timeout if no controller responds. Errors of
    /// individual partitions are returned in the list.
    pub async fn alter_reassignments(
        &self,
        reassignments: &BTreeMap<TopicPartition, Option<Vec<i32>>>,
        allow_replication_factor_change: bool,
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Result<()>)>> {
        let key = ApiKey::AlterPartitionReassignments;
        let partitions: Vec<TopicPartition> = reassignments.keys().cloned().collect();
        let build = |batch: &RequestBatch<'_, TopicPartition>| {
            let replicas = batch.items.iter().filter_map(|tp| Some((tp.clone(), reassignments.get(tp)?.clone())));
            let partition =
                |(partition_index, replicas)| ReassignablePartition { partition_index, replicas, ..Default::default() };
            let topics = by_topic(replicas).into_iter().map(|(name, partitions)| ReassignableTopic {
                name: name.to_string(),
                partitions: partitions.into_iter().map(partition).collect(),
                ..Default::default()
            });
            Ok(AlterPartitionReassignmentsRequest {
                timeout_ms: batch.timeout_ms,
                allow_replication_factor_change,
                topics: topics.collect(),
                ..Default::default()
            })
        };
        let read = |_: &RequestBatch<'_, TopicPartition>, response: AlterPartitionReassignmentsResponse| {
            check(response.error_code, response.error_message.as_deref(), key.name(), key)?;
            let mut results = Vec::new();
            for topic in response.responses {
                for p in topic.partitions {
                    let tp = TopicPartition::new(&*topic.name, p.partition_index);
                    let outcome = check_item(key, &tp, p.error_code, p.error_message.as_deref());
                    results.push((tp, outcome));
                }
            }
            Ok(results)
        };
        self.send_batched(&BatchedRequest::new(Route::Controller, timeout), &partitions, build, read).await
    }

    /// Lists the ongoing reassignments of some or all partitions.
    ///
    /// # Errors
    /// Fails with the error that the controller returns, or with a timeout that contains the last error.
    pub async fn list_reassignments(
        &self,
        partitions: Option<&[TopicPartition]>,
        timeout: Duration,
    ) -> Result<BTreeMap<TopicPartition, Reassignment>> {
        let key = ApiKey::ListPartitionReassignments;
        let build = |batch: &RequestBatch<'_, ()>| {
            let topic = |(name, partition_indexes)| ListPartitionReassignmentsTopics {
                name,
                partition_indexes,
                ..Default::default()
            };
            let topics = partitions.map(|partitions| topics(partitions).map(topic).collect());
            Ok(ListPartitionReassignmentsRequest { timeout_ms: batch.timeout_ms, topics, ..Default::default() })
        };
        let read = |response: ListPartitionReassignmentsResponse| {
            check(response.error_code, response.error_message.as_deref(), key.name(), key)?;
            let mut reassignments = BTreeMap::new();
            for topic in response.topics {
                for p in topic.partitions {
                    let (replicas, adding, removing) = (p.replicas, p.adding_replicas, p.removing_replicas);
                    let tp = TopicPartition::new(&*topic.name, p.partition_index);
                    reassignments.insert(tp, Reassignment { replicas, adding, removing });
                }
            }
            Ok(reassignments)
        };
        self.send_single(Route::Controller, timeout, build, read).await
    }

    /// Describes the log directories of some or all brokers. Returns a result for each broker.
    ///
    /// # Errors
    /// Fails if the log directories of all brokers are requested and the list of brokers cannot be fetched.
    pub async fn log_dirs(
        &self,
        brokers: Option<&[i32]>,
        timeout: Duration,
    ) -> Result<Vec<(i32, Result<Vec<LogDir>>)>> {
        let key = ApiKey::DescribeLogDirs;
        let brokers = match brokers {
            Some(brokers) => brokers.to_vec(),
            None => self.brokers(timeout).await?,
        };
        let build = |_: &RequestBatch<'_, i32>| Ok(DescribeLogDirsRequest::default());
        let read = |batch: &RequestBatch<'_, i32>, response: DescribeLogDirsResponse| {
            let read_broker = |broker: &i32| {
                let result = check_item(key, format!("broker {broker}"), response.error_code, None);
                (*broker, result.map(|()| response.results.iter().map(|dir| log_dir(*broker, dir)).collect()))
            };
            Ok(batch.items.iter().map(read_broker).collect())
        };
        let request = BatchedRequest {
            describe: |id| format!("broker {id}"),
            ..BatchedRequest::new(Route::Broker(|id| *id), timeout)
        };
        self.send_batched(&request, &brokers, build, read).await
    }

    /// Moves replicas to other log directories on the same broker. If a replica does not exist yet, the broker will
    /// create it in this directory.
    ///
    /// # Errors
    /// Fails with an error that concerns the whole request, or with a timeout if no broker responds. Errors of
    /// individual replicas are returned in the list.
    pub async fn move_replicas(
        &self,
        directories: &BTreeMap<Replica, String>,
        timeout: Duration,
    ) -> Result<Vec<(Replica, Result<()>)>> {
        let key = ApiKey::AlterReplicaLogDirs;
        let replicas: Vec<Replica> = directories.keys().cloned().collect();
        let build = |batch: &RequestBatch<'_, Replica>| {
            let mut dirs: BTreeMap<&String, Vec<TopicPartition>> = BTreeMap::new();
            for replica in batch.items {
                if let Some(dir) = directories.get(replica) {
                    dirs.entry(dir).or_default().push(replica.0.clone());
                }
            }
            let topic = |(name, partitions)| AlterReplicaLogDirTopic { name, partitions, ..Default::default() };
            let dirs = dirs.into_iter().map(|(path, partitions)| AlterReplicaLogDir {
                path: path.clone(),
                topics: topics(&partitions).map(topic).collect(),
                ..Default::default()
            });
            Ok(AlterReplicaLogDirsRequest { dirs: dirs.collect(), ..Default::default() })
        };
        let read = |batch: &RequestBatch<'_, Replica>, response: AlterReplicaLogDirsResponse| {
            let mut results = Vec::new();
            for topic in response.results {
                for p in topic.partitions {
                    let tp = TopicPartition::new(&*topic.topic_name, p.partition_index);
                    let replica = (tp, batch.node.unwrap_or(-1));
                    let outcome = check_item(key, describe(&replica), p.error_code, None);
                    results.push((replica, outcome));
                }
            }
            Ok(results)
        };
        let request = BatchedRequest {
            route: Route::Broker(|(_, broker)| *broker),
            describe,
            max_items: |_| usize::MAX,
            timeout,
        };
        self.send_batched(&request, &replicas, build, read).await
    }
}

fn describe((tp, broker): &Replica) -> String {
    format!("{tp} on broker {broker}")
}

fn log_dir(broker: i32, dir: &DescribeLogDirsResult) -> LogDir {
    let replicas = dir.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|p| ReplicaInfo {
            partition: TopicPartition::new(&*topic.name, p.partition_index),
            size: p.partition_size,
            offset_lag: p.offset_lag,
            future: p.is_future_key,
        })
    });
    let mut replicas: Vec<ReplicaInfo> = replicas.collect();
    replicas.sort_by(|a, b| (&a.partition, a.future).cmp(&(&b.partition, b.future)));
    let context = format!("{} of broker {broker}", dir.log_dir);
    LogDir {
        path: dir.log_dir.clone(),
        replicas: check_item(ApiKey::DescribeLogDirs, context, dir.error_code, None).map(|()| replicas),
        total_bytes: Some(dir.total_bytes).filter(|bytes| *bytes >= 0),
        usable_bytes: Some(dir.usable_bytes).filter(|bytes| *bytes >= 0),
        cordoned: dir.is_cordoned,
    }
}
