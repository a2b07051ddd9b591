//! Configs and quotas set at run time, and changes of topic configs and partition counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::sync::{lock, write};

use super::State;
use super::groups::share::check_config;
use super::topic::Topic;
use super::topic_creation::{Rejection, config};
use crate::options::BrokerOptions;

pub(crate) const TOPIC: i8 = 2;
pub(crate) const BROKER: i8 = 4;
pub(crate) const BROKER_LOGGER: i8 = 8;
pub(crate) const CLIENT_METRICS: i8 = 16;
pub(crate) const GROUP: i8 = 32;

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;

const CLEANUP_POLICY: &str = "cleanup.policy";

/// Type and name of a resource: a topic, broker, broker logger, group or client metrics subscription.
pub(crate) type Resource = (i8, String);
/// A quota entity: pairs of entity type and name, sorted.
pub(crate) type QuotaEntity = Vec<(String, Option<String>)>;
/// Quota values by entity and key.
pub(crate) type Quotas = BTreeMap<QuotaEntity, BTreeMap<String, f64>>;
/// Change of a config: name, operation and value.
pub(crate) type Change = (String, i8, Option<String>);

/// Returns the config source that DescribeConfigs reports for configs set on a resource of type `kind`.
pub(crate) fn source(kind: i8) -> i8 {
    match kind {
        TOPIC => 1,
        BROKER => 2,
        BROKER_LOGGER => 6,
        CLIENT_METRICS => 7,
        _ => 8,
    }
}

/// Returns the default topic configs. `max.message.bytes` has the broker's own limit, the other configs have Kafka's
/// defaults.
pub(crate) fn topic_defaults(options: &BrokerOptions) -> [(&'static str, String); 5] {
    [
        ("max.message.bytes", options.message_max_bytes.to_string()),
        (CLEANUP_POLICY, "delete".to_owned()),
        ("compression.type", "producer".to_owned()),
        ("message.timestamp.type", "CreateTime".to_owned()),
        ("retention.ms", "604800000".to_owned()),
    ]
}

/// Returns true if a config supports APPEND and SUBTRACT. The broker does not know the types of broker configs, so it
/// accepts both operations for all broker configs.
fn is_list(kind: i8, name: &str) -> bool {
    kind == BROKER || kind == TOPIC && name == CLEANUP_POLICY
}

/// Returns the configs of a resource after the changes. APPEND and SUBTRACT start from the default if the config is not
/// set, as in Kafka.
fn apply_changes(
    kind: i8,
    mut given: BTreeMap<String, String>,
    default: impl Fn(&str) -> Option<String>,
    changes: impl Iterator<Item = Change>,
) -> Result<BTreeMap<String, String>, Rejection> {
    for (name, operation, value) in changes {
        if operation == DELETE {
            given.remove(&name);
            continue;
        }
        let null = || (ErrorCode::INVALID_CONFIG, format!("Null value not supported for: {name}"));
        let value = value.ok_or_else(null)?;
        if operation == SET {
            given.insert(name, value);
            continue;
        }
        let word = if operation == APPEND { "APPEND" } else { "SUBTRACT" };
        if !is_list(kind, &name) {
            let text = format!("Can't {word} to key {name} because its type is not LIST");
            return Err((ErrorCode::INVALID_CONFIG, text));
        }
        let old = given.get(&name).cloned().or_else(|| default(&name)).unwrap_or_default();
        let mut parts: Vec<&str> = old.split(',').filter(|part| !part.is_empty()).collect();
        for part in value.split(',').filter(|part| !part.is_empty()) {
            match operation {
                APPEND if !parts.contains(&part) => parts.push(part),
                APPEND => {}
                _ => parts.retain(|existing| *existing != part),
            }
        }
        let joined = parts.join(",");
        given.insert(name, joined);
    }
    Ok(given)
}

impl State {
    /// Checks that this node may describe and alter the configs of a resource. Configs of a broker are available only
    /// on that broker.
    pub(crate) fn check_resource(&self, node: i32, (kind, name): &Resource) -> Result<(), ErrorCode> {
        match *kind {
            TOPIC => self.topic(name).map(|_| ()).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            BROKER if name.is_empty() => Ok(()),
            BROKER | BROKER_LOGGER if *name == node.to_string() => Ok(()),
            CLIENT_METRICS | GROUP if !name.is_empty() => Ok(()),
            _ => Err(ErrorCode::INVALID_REQUEST),
        }
    }

    /// Returns the configs set on a resource.
    pub(crate) fn explicit_configs(&self, resource: &Resource) -> BTreeMap<String, String> {
        match resource.0 {
            TOPIC => self.topic(&resource.1).map(|topic| topic.config.given.clone()).unwrap_or_default(),
            _ => lock(&self.configs).get(resource).cloned().unwrap_or_default(),
        }
    }

    /// Returns the names of all resources of a type that have configs.
    pub(crate) fn configured(&self, kind: i8) -> Vec<String> {
        lock(&self.configs).keys().filter(|(of, _)| *of == kind).map(|(_, name)| name.clone()).collect()
    }

    /// Applies changes to the configs of a resource. With `validate_only`, only validates them.
    pub(crate) fn alter_configs(
        &self,
        resource: &Resource,
        changes: impl Iterator<Item = Change>,
        validate_only: bool,
    ) -> Result<(), Rejection> {
        let default = |name: &str| {
            let defaults = topic_defaults(&self.options).into_iter();
            defaults.filter(|_| resource.0 == TOPIC).find(|(of, _)| *of == name).map(|(_, value)| value)
        };
        let given = apply_changes(resource.0, self.explicit_configs(resource), default, changes)?;
        if resource.0 == GROUP {
            given.iter().try_for_each(|(name, value)| check_config(name, value))?;
        }
        if resource.0 != TOPIC {
            if !validate_only {
                let mut configs = lock(&self.configs);
                configs.remove(resource);
                if !given.is_empty() {
                    configs.insert(resource.clone(), given);
                }
            }
            return Ok(());
        }
        let rows: Vec<(&str, Option<&str>)> =
            given.iter().map(|(name, value)| (name.as_str(), Some(value.as_str()))).collect();
        let config = config(&rows)?;
        if !validate_only {
            self.replace(&resource.1, |topic| topic.with(config, Vec::new(), |_| false));
        }
        Ok(())
    }

    /// Adds partitions to a topic until it has `count` partitions. `assignment` lists the replicas of the new
    /// partitions. If it is missing, the broker places the replicas.
    pub(crate) fn create_partitions(
        &self,
        name: &str,
        count: i32,
        assignment: Option<Vec<Vec<i32>>>,
        validate_only: bool,
    ) -> Result<(), Rejection> {
        let unknown = || (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("topic '{name}' does not exist"));
        let topic = self.topic(name).ok_or_else(unknown)?;
        let current = topic.len();
        let target = usize::try_from(count)
            .ok()
            .filter(|target| *target > current && *target <= super::topic_creation::MAX_PARTITIONS);
        let Some(target) = target else {
            let text = format!("the topic has {current} partitions, and {count} would not be an increase");
            return Err((ErrorCode::INVALID_PARTITIONS, text));
        };
        let more = match assignment {
            Some(given) if given.len() == target - current => self.check_replicas(&given)?,
            Some(given) => {
                let text = format!("{} new partitions, and replicas of {}", target - current, given.len());
                return Err((ErrorCode::INVALID_REPLICA_ASSIGNMENT, text));
            }
            None => {
                let factor = usize::try_from(topic.replication_factor).unwrap_or(1);
                self.spread_replicas(target, factor).into_iter().skip(current).collect()
            }
        };
        if !validate_only {
            self.replace(name, |topic| topic.with(topic.config.clone(), more, |node| self.is_up(node)));
        }
        Ok(())
    }

    fn replace(&self, name: &str, next: impl FnOnce(&Topic) -> Topic) {
        let mut topics = write(&self.topics);
        if let Some(next) = topics.by_name(name).map(|topic| Arc::new(next(topic))) {
            topics.insert(next);
        }
    }
}
