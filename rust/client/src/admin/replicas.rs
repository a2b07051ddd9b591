//! Replicas: who leads, where they are, on which disks.

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
use super::batch::{Route, Work};
use super::engine::Asked;
use super::response_errors::{check, check_of};
use crate::error::Result;
use crate::offsets::by_topic;
use crate::types::TopicPartition;

/// Replicas that are being moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reassignment {
    /// All, old and new.
    pub replicas: Vec<i32>,
    /// Those that are coming.
    pub adding: Vec<i32>,
    /// Those that are going.
    pub removing: Vec<i32>,
}

/// A disk of a broker.
#[derive(Debug, Clone, PartialEq)]
pub struct LogDir {
    /// Where it is mounted.
    pub path: String,
    /// What is on it, or why that is not known.
    pub replicas: Result<Vec<ReplicaInfo>>,
    /// How large it is, in bytes; brokers before 3.3 do not report it.
    pub total_bytes: Option<i64>,
    /// How much is free, in bytes; brokers before 3.3 do not report it.
    pub usable_bytes: Option<i64>,
    /// Whether it takes no new replicas (KIP-1066).
    pub cordoned: bool,
}

/// A replica on a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaInfo {
    /// Of which partition.
    pub partition: TopicPartition,
    /// Its size, in bytes.
    pub size: i64,
    /// How far it is behind.
    pub offset_lag: i64,
    /// Whether it is being copied here from another disk.
    pub future: bool,
}

/// A replica: of a partition, on a broker.
pub type Replica = (TopicPartition, i32);

fn topics(partitions: &[TopicPartition]) -> impl Iterator<Item = (String, Vec<i32>)> {
    let topics = by_topic(partitions.iter().map(|tp| (tp.clone(), ())));
    topics.into_iter().map(|(name, its)| (name.to_string(), its.into_iter().map(|(p, ())| p).collect()))
}

impl Admin {
    /// Elects leaders: 0 the preferred replicas, 1 any that are alive. Gives for each partition whether its leader changed;
    /// without a list, of those only whose leader had to change.
    ///
    /// # Errors
    /// What is not about one partition; a timeout with its cause where no controller answered.
    pub async fn elect_leaders(
        &self,
        election: i8,
        partitions: Option<&[TopicPartition]>,
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Result<bool>)>> {
        let key = ApiKey::ElectLeaders;
        let request = |some: Option<&[TopicPartition]>, timeout_ms| {
            let topic = |(topic, partitions)| TopicPartitions { topic, partitions, ..Default::default() };
            let topic_partitions = some.map(|some| topics(some).map(topic).collect());
            Ok(ElectLeadersRequest { election_type: election, topic_partitions, timeout_ms, ..Default::default() })
        };
        let outcomes = |response: ElectLeadersResponse| {
            check(response.error_code, None, key.name(), key)?;
            let mut said = Vec::new();
            for topic in response.replica_election_results {
                for p in topic.partition_result {
                    let tp = TopicPartition::new(&*topic.topic, p.partition_id);
                    let outcome = match p.error_code == ErrorCode::ELECTION_NOT_NEEDED.code() {
                        true => Ok(false),
                        false => check_of(key, &tp, p.error_code, p.error_message.as_deref()).map(|()| true),
                    };
                    said.push((tp, outcome));
                }
            }
            Ok(said)
        };
        match partitions {
            Some(partitions) => {
                let build = |asked: &Asked<'_, TopicPartition>| request(Some(asked.items), asked.timeout_ms);
                let read = |_: &Asked<'_, TopicPartition>, response| outcomes(response);
                self.settle(&Work::new(Route::Controller, timeout), partitions, build, read).await
            }
            None => {
                let build = |asked: &Asked<'_, ()>| request(None, asked.timeout_ms);
                let mut said = self.ask(Route::Controller, timeout, build, outcomes).await?;
                said.retain(|(_, outcome)| *outcome != Ok(false));
                Ok(said)
            }
        }
    }

    /// Moves replicas to other brokers, the preferred leader first; `None` gives up what is under way.
    ///
    /// # Errors
    /// What is not about one partition; a timeout with its cause where no controller answered.
    pub async fn alter_reassignments(
        &self,
        wanted: &BTreeMap<TopicPartition, Option<Vec<i32>>>,
        allow_replication_factor_change: bool,
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Result<()>)>> {
        let key = ApiKey::AlterPartitionReassignments;
        let partitions: Vec<TopicPartition> = wanted.keys().cloned().collect();
        let build = |asked: &Asked<'_, TopicPartition>| {
            let chosen = asked.items.iter().filter_map(|tp| Some((tp.clone(), wanted.get(tp)?.clone())));
            let partition =
                |(partition_index, replicas)| ReassignablePartition { partition_index, replicas, ..Default::default() };
            let topics = by_topic(chosen).into_iter().map(|(name, its)| ReassignableTopic {
                name: name.to_string(),
                partitions: its.into_iter().map(partition).collect(),
                ..Default::default()
            });
            Ok(AlterPartitionReassignmentsRequest {
                timeout_ms: asked.timeout_ms,
                allow_replication_factor_change,
                topics: topics.collect(),
                ..Default::default()
            })
        };
        let read = |_: &Asked<'_, TopicPartition>, response: AlterPartitionReassignmentsResponse| {
            check(response.error_code, response.error_message.as_deref(), key.name(), key)?;
            let mut said = Vec::new();
            for topic in response.responses {
                for p in topic.partitions {
                    let tp = TopicPartition::new(&*topic.name, p.partition_index);
                    let outcome = check_of(key, &tp, p.error_code, p.error_message.as_deref());
                    said.push((tp, outcome));
                }
            }
            Ok(said)
        };
        self.settle(&Work::new(Route::Controller, timeout), &partitions, build, read).await
    }

    /// The replicas that are being moved, of some partitions or of all.
    ///
    /// # Errors
    /// What the controller says; a timeout with its cause.
    pub async fn list_reassignments(
        &self,
        partitions: Option<&[TopicPartition]>,
        timeout: Duration,
    ) -> Result<BTreeMap<TopicPartition, Reassignment>> {
        let key = ApiKey::ListPartitionReassignments;
        let build = |asked: &Asked<'_, ()>| {
            let topic = |(name, partition_indexes)| ListPartitionReassignmentsTopics {
                name,
                partition_indexes,
                ..Default::default()
            };
            let topics = partitions.map(|some| topics(some).map(topic).collect());
            Ok(ListPartitionReassignmentsRequest { timeout_ms: asked.timeout_ms, topics, ..Default::default() })
        };
        let read = |response: ListPartitionReassignmentsResponse| {
            check(response.error_code, response.error_message.as_deref(), key.name(), key)?;
            let mut found = BTreeMap::new();
            for topic in response.topics {
                for p in topic.partitions {
                    let (replicas, adding, removing) = (p.replicas, p.adding_replicas, p.removing_replicas);
                    let tp = TopicPartition::new(&*topic.name, p.partition_index);
                    found.insert(tp, Reassignment { replicas, adding, removing });
                }
            }
            Ok(found)
        };
        self.ask(Route::Controller, timeout, build, read).await
    }

    /// What is on the disks of brokers, of these or of all; each broker has its own outcome.
    ///
    /// # Errors
    /// When the brokers are not known and cannot be asked for.
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
        let build = |_: &Asked<'_, i32>| Ok(DescribeLogDirsRequest::default());
        let read = |asked: &Asked<'_, i32>, response: DescribeLogDirsResponse| {
            let one = |broker: &i32| {
                let said = check_of(key, format!("broker {broker}"), response.error_code, None);
                (*broker, said.map(|()| response.results.iter().map(|dir| log_dir(*broker, dir)).collect()))
            };
            Ok(asked.items.iter().map(one).collect())
        };
        let work = Work { what: |id| format!("broker {id}"), ..Work::new(Route::Broker(|id| *id), timeout) };
        self.settle(&work, &brokers, build, read).await
    }

    /// Moves replicas to other disks of their brokers. For a replica that is not there yet it says where it will be.
    ///
    /// # Errors
    /// What is not about one replica; a timeout with its cause where no broker answered.
    pub async fn move_replicas(
        &self,
        wanted: &BTreeMap<Replica, String>,
        timeout: Duration,
    ) -> Result<Vec<(Replica, Result<()>)>> {
        let key = ApiKey::AlterReplicaLogDirs;
        let replicas: Vec<Replica> = wanted.keys().cloned().collect();
        let build = |asked: &Asked<'_, Replica>| {
            let mut dirs: BTreeMap<&String, Vec<TopicPartition>> = BTreeMap::new();
            for replica in asked.items {
                if let Some(dir) = wanted.get(replica) {
                    dirs.entry(dir).or_default().push(replica.0.clone());
                }
            }
            let topic = |(name, partitions)| AlterReplicaLogDirTopic { name, partitions, ..Default::default() };
            let dirs = dirs.into_iter().map(|(path, its)| AlterReplicaLogDir {
                path: path.clone(),
                topics: topics(&its).map(topic).collect(),
                ..Default::default()
            });
            Ok(AlterReplicaLogDirsRequest { dirs: dirs.collect(), ..Default::default() })
        };
        let read = |asked: &Asked<'_, Replica>, response: AlterReplicaLogDirsResponse| {
            let mut said = Vec::new();
            for topic in response.results {
                for p in topic.partitions {
                    let tp = TopicPartition::new(&*topic.topic_name, p.partition_index);
                    let replica = (tp, asked.node.unwrap_or(-1));
                    let outcome = check_of(key, shown(&replica), p.error_code, None);
                    said.push((replica, outcome));
                }
            }
            Ok(said)
        };
        let work = Work { route: Route::Broker(|(_, broker)| *broker), what: shown, most: |_| usize::MAX, timeout };
        self.settle(&work, &replicas, build, read).await
    }
}

fn shown((tp, broker): &Replica) -> String {
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
    let asked = format!("{} of broker {broker}", dir.log_dir);
    LogDir {
        path: dir.log_dir.clone(),
        replicas: check_of(ApiKey::DescribeLogDirs, asked, dir.error_code, None).map(|()| replicas),
        total_bytes: Some(dir.total_bytes).filter(|bytes| *bytes >= 0),
        usable_bytes: Some(dir.usable_bytes).filter(|bytes| *bytes >= 0),
        cordoned: dir.is_cordoned,
    }
}
