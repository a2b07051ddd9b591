//! Topic creation: validation and replica placement.

use std::collections::BTreeMap;
use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::sync::write;

use super::topic::{Topic, TopicConfig};
use super::{State, topic_settings};

/// Maximum number of partitions of all topics, which prevents one request from exhausting memory.
pub(crate) const MAX_PARTITIONS: usize = 100_000;
const MAX_NAME_LEN: usize = 249;
const DEFAULT_REPLICATION: usize = 3;

/// Parameters of a topic to create.
#[derive(Debug, Default)]
pub(crate) struct NewTopic<'a> {
    pub(crate) name: &'a str,
    /// Number of partitions; -1 for the broker's default.
    pub(crate) partitions: i32,
    /// Number of replicas of each partition; -1 for the broker's default.
    pub(crate) replication_factor: i16,
    /// Node ids of the replicas of each partition, in order of partition index. Empty if the broker places the
    /// replicas.
    pub(crate) assignment: Vec<Vec<i32>>,
    pub(crate) configs: Vec<(&'a str, Option<&'a str>)>,
    pub(crate) validate_only: bool,
}

/// Error code and message for a rejected request.
pub(crate) type Rejection = (ErrorCode, String);

/// Checks a topic name by Kafka's rules.
pub(crate) fn check_topic_name(name: &str) -> Result<(), Rejection> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() || name == "." || name == ".." || name.len() > MAX_NAME_LEN || !name.bytes().all(is_legal) {
        let message = format!(
            "topic name '{name}' is not legal: 1 to {MAX_NAME_LEN} ASCII letters, digits, '.', '_' and '-', not '.' or '..'"
        );
        return Err((ErrorCode::INVALID_TOPIC_EXCEPTION, message));
    }
    Ok(())
}

pub(crate) fn config(configs: &[(&str, Option<&str>)]) -> Result<TopicConfig, Rejection> {
    let mut config = TopicConfig { given: BTreeMap::new(), ..TopicConfig::default() };
    for (name, value) in configs {
        let value = topic_settings::check(name, *value)?;
        match *name {
            "message.timestamp.type" => config.log_append_time = value == "LogAppendTime",
            "max.message.bytes" => config.max_message_bytes = value.parse().ok(),
            _ => (),
        }
        config.given.insert((*name).to_owned(), value.to_owned());
    }
    Ok(config)
}

impl State {
    /// Creates a topic. With `validate_only`, only validates the parameters.
    pub(crate) fn create_topic(&self, new: &NewTopic<'_>) -> Result<Arc<Topic>, Rejection> {
        check_topic_name(new.name)?;
        let config = config(&new.configs)?;
        let replicas = if new.assignment.is_empty() { self.place_replicas(new)? } else { self.check_assignment(new)? };
        let mut topics = write(&self.topics);
        if topics.by_name(new.name).is_some() {
            return Err((ErrorCode::TOPIC_ALREADY_EXISTS, format!("topic '{}' already exists", new.name)));
        }
        if topics.partitions() + replicas.len() > MAX_PARTITIONS {
            let message = format!("the broker holds at most {MAX_PARTITIONS} partitions");
            return Err((ErrorCode::INVALID_PARTITIONS, message));
        }
        let topic = Arc::new(Topic::new(new.name, config, replicas, |node| self.is_up(node)));
        if !new.validate_only {
            topics.insert(topic.clone());
        }
        Ok(topic)
    }

    /// Selects the replicas of a new topic. Partition `p` is led by node `p` modulo the number of nodes.
    fn place_replicas(&self, new: &NewTopic<'_>) -> Result<Vec<Vec<i32>>, Rejection> {
        let nodes = self.node_count();
        let partitions = if new.partitions == -1 { self.options.default_partitions } else { new.partitions };
        let partitions = match usize::try_from(partitions) {
            Ok(partitions) if (1..=MAX_PARTITIONS).contains(&partitions) => partitions,
            _ => {
                let message = format!("number of partitions {partitions}: must be 1 to {MAX_PARTITIONS}");
                return Err((ErrorCode::INVALID_PARTITIONS, message));
            }
        };
        let replication = match new.replication_factor {
            -1 => nodes.min(DEFAULT_REPLICATION),
            factor => match usize::try_from(factor) {
                Ok(factor) if (1..=nodes).contains(&factor) => factor,
                _ => {
                    let message = format!("replication factor {factor}: must be 1 to {nodes}, the number of brokers");
                    return Err((ErrorCode::INVALID_REPLICATION_FACTOR, message));
                }
            },
        };
        Ok(self.spread_replicas(partitions, replication))
    }

    /// Returns the replicas of each partition on consecutive nodes, the leader first.
    pub(crate) fn spread_replicas(&self, partitions: usize, replication: usize) -> Vec<Vec<i32>> {
        let node = |index: usize| i32::try_from(index % self.node_count().max(1)).unwrap_or_default();
        (0..partitions).map(|partition| (partition..partition + replication).map(node).collect()).collect()
    }

    fn check_assignment(&self, new: &NewTopic<'_>) -> Result<Vec<Vec<i32>>, Rejection> {
        if new.partitions != -1 || new.replication_factor != -1 {
            let message = "numbers of partitions and replicas must be -1 where replicas are assigned by hand";
            return Err((ErrorCode::INVALID_REQUEST, message.to_owned()));
        }
        self.check_replicas(&new.assignment)
    }

    /// Validates a manual replica assignment.
    pub(crate) fn check_replicas(&self, assignment: &[Vec<i32>]) -> Result<Vec<Vec<i32>>, Rejection> {
        for replicas in assignment {
            let known = replicas.iter().all(|node| self.node(*node).is_some());
            let twice = replicas
                .iter()
                .enumerate()
                .any(|(index, node)| replicas.iter().skip(index + 1).any(|other| other == node));
            if replicas.is_empty() || !known || twice {
                let message = format!("replicas {replicas:?}: each must be a known broker, and be named once");
                return Err((ErrorCode::INVALID_REPLICA_ASSIGNMENT, message));
            }
        }
        Ok(assignment.to_vec())
    }
}
