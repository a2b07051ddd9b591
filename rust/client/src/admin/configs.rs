//! Configs of topics, brokers, loggers, groups and client metrics: described, and altered incrementally (KIP-339).

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use samsarrow_wire::messages::describe_configs::{
    DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResult,
};
use samsarrow_wire::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterConfigsResourceResponse, AlterableConfig,
};
use samsarrow_wire::messages::{
    ApiKey, DescribeConfigsRequest, DescribeConfigsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse, ListConfigResourcesRequest, ListConfigResourcesResponse,
};

use super::Admin;
use super::batch::{BatchedRequest, Route};
use super::engine::RequestBatch;
use super::response_errors::{check, check_item};
use crate::error::{Error, Result};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;

/// First version of DescribeConfigs with `config_source` (KIP-226).
const SOURCES: i16 = 1;
/// First version of DescribeConfigs with types and documentation (KIP-569).
const DOCUMENTATION: i16 = 3;

/// Values of `config_source`.
const TOPIC_SOURCE: i8 = 1;
const STATIC_BROKER_SOURCE: i8 = 4;
const DEFAULT_SOURCE: i8 = 5;

/// Resource with configs: a topic, a broker or all brokers, the loggers of a broker, a group, or client metrics.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigResource {
    /// Resource type, with the protocol's code.
    pub kind: i8,
    /// Resource name: the broker id for a broker, and empty for the defaults of all brokers.
    pub name: String,
}

impl fmt::Display for ConfigResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            TOPIC => "topic",
            BROKER if self.name.is_empty() => return f.write_str("all brokers"),
            BROKER => "broker",
            BROKER_LOGGER => "the loggers of broker",
            CLIENT_METRICS => "client metrics",
            GROUP => "group",
            other => return write!(f, "resource {} of type {other}", self.name),
        };
        write!(f, "{kind} {}", self.name)
    }
}

impl ConfigResource {
    /// Returns the broker that must receive requests for this resource; `None` if any broker can serve them.
    fn broker(&self) -> Result<Option<i32>> {
        if !matches!(self.kind, BROKER | BROKER_LOGGER) || (self.kind == BROKER && self.name.is_empty()) {
            return Ok(None);
        }
        let invalid = || Error::configuration(format!("the name of a broker is its id, not {:?}", self.name));
        self.name.parse().map(Some).map_err(|_| invalid())
    }
}

/// Synonym of a config: a source from which the config can get its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSynonym {
    /// Name of the config in this source.
    pub name: String,
    /// Value in this source.
    pub value: Option<String>,
    /// Source type, with the protocol's code.
    pub source: i8,
}

/// Config entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Config name.
    pub name: String,
    /// Value; `None` if the config has no value or is sensitive.
    pub value: Option<String>,
    /// Source of the value, as the numeric code used in DescribeConfigs responses.
    pub source: i8,
    /// True if the config cannot be changed at runtime.
    pub read_only: bool,
    /// True if the value of the config is secret.
    pub sensitive: bool,
    /// Data type of the value, with the protocol's code; 0 if the broker does not report it.
    pub kind: i8,
    /// Documentation.
    pub documentation: Option<String>,
    /// Possible sources of the value, in order of precedence.
    pub synonyms: Vec<ConfigSynonym>,
}

/// Change of a config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigChange {
    /// Config name.
    pub name: String,
    /// Operation: 0 set, 1 delete, 2 append to a list, 3 subtract from a list.
    pub operation: i8,
    /// Value of the operation. Only a delete has none.
    pub value: Option<String>,
}

/// Result per resource.
pub type PerResource<T> = Vec<(ConfigResource, Result<T>)>;

/// Names of the configs to describe for each resource; `None` for all configs.
type Keys = BTreeMap<ConfigResource, Option<Vec<String>>>;

impl Admin {
    /// Describes some or all configs of resources. Returns a result for each resource.
    ///
    /// # Errors
    /// Fails with an error that concerns the whole request, or with a timeout if no broker responds. Errors of
    /// individual resources are returned in the list.
    pub async fn describe_configs(
        &self,
        keys: &Keys,
        synonyms: bool,
        documentation: bool,
        timeout: Duration,
    ) -> Result<PerResource<Vec<ConfigEntry>>> {
        let key = ApiKey::DescribeConfigs;
        let build = |batch: &RequestBatch<'_, ConfigResource>| {
            let resource = |resource: &ConfigResource| DescribeConfigsResource {
                resource_type: resource.kind,
                resource_name: resource.name.clone(),
                configuration_keys: keys.get(resource).cloned().flatten(),
                ..Default::default()
            };
            Ok(DescribeConfigsRequest {
                resources: batch.items.iter().map(resource).collect(),
                include_synonyms: synonyms && batch.version >= SOURCES,
                include_documentation: documentation && batch.version >= DOCUMENTATION,
                ..Default::default()
            })
        };
        let read = |batch: &RequestBatch<'_, ConfigResource>, response: DescribeConfigsResponse| {
            let read_resource = |result: DescribeConfigsResult| {
                let resource = ConfigResource { kind: result.resource_type, name: result.resource_name };
                let outcome = check_item(key, &resource, result.error_code, result.error_message.as_deref());
                let kind = resource.kind;
                let entries = outcome.map(|()| {
                    let mut entries: Vec<_> =
                        result.configs.into_iter().map(|config| entry(batch.version, kind, config)).collect();
                    entries.sort_by(|a: &ConfigEntry, b| a.name.cmp(&b.name));
                    entries
                });
                (resource, entries)
            };
            Ok(response.results.into_iter().map(read_resource).collect())
        };
        self.send_by_resource(keys, timeout, build, read).await
    }

    /// Alters configs of resources, or only validates the changes. Returns a result for each resource.
    ///
    /// # Errors
    /// Fails with an error that concerns the whole request, or with a timeout if no broker responds. Errors of
    /// individual resources are returned in the list.
    pub async fn alter_configs(
        &self,
        changes: &BTreeMap<ConfigResource, Vec<ConfigChange>>,
        validate_only: bool,
        timeout: Duration,
    ) -> Result<PerResource<()>> {
        let key = ApiKey::IncrementalAlterConfigs;
        let build = |batch: &RequestBatch<'_, ConfigResource>| {
            let change = |change: &ConfigChange| AlterableConfig {
                name: change.name.clone(),
                config_operation: change.operation,
                value: change.value.clone(),
                ..Default::default()
            };
            let resource = |resource: &ConfigResource| AlterConfigsResource {
                resource_type: resource.kind,
                resource_name: resource.name.clone(),
                configs: changes.get(resource).into_iter().flatten().map(change).collect(),
                ..Default::default()
            };
            let resources = batch.items.iter().map(resource).collect();
            Ok(IncrementalAlterConfigsRequest { resources, validate_only, ..Default::default() })
        };
        let read = |_: &RequestBatch<'_, ConfigResource>, response: IncrementalAlterConfigsResponse| {
            let read_resource = |result: AlterConfigsResourceResponse| {
                let resource = ConfigResource { kind: result.resource_type, name: result.resource_name };
                let outcome = check_item(key, &resource, result.error_code, result.error_message.as_deref());
                (resource, outcome)
            };
            Ok(response.responses.into_iter().map(read_resource).collect())
        };
        self.send_by_resource(changes, timeout, build, read).await
    }

    /// Sends requests about resources of a broker to that broker, and requests about other resources to any broker.
    async fn send_by_resource<V, R, T>(
        &self,
        resources: &BTreeMap<ConfigResource, V>,
        timeout: Duration,
        build: impl Fn(&RequestBatch<'_, ConfigResource>) -> Result<R> + Sync,
        read: impl Fn(&RequestBatch<'_, ConfigResource>, R::Response) -> Result<PerResource<T>> + Sync,
    ) -> Result<PerResource<T>>
    where
        R: samsarrow_wire::messages::Request,
        R::Response: Send + 'static,
        T: Send,
    {
        let (mut anywhere, mut of_brokers) = (Vec::new(), Vec::new());
        for resource in resources.keys() {
            match resource.broker()? {
                Some(_) => of_brokers.push(resource.clone()),
                None => anywhere.push(resource.clone()),
            }
        }
        let id = |resource: &ConfigResource| resource.broker().ok().flatten().unwrap_or(-1);
        let (any, broker) = (BatchedRequest::new(Route::Any, timeout), BatchedRequest::new(Route::Broker(id), timeout));
        let any = self.send_batched(&any, &anywhere, &build, &read);
        let (any, brokers) = tokio::join!(any, self.send_batched(&broker, &of_brokers, &build, &read));
        let mut done = any?;
        done.extend(brokers?);
        Ok(done)
    }

    /// Lists the resources of some types that have configs, or of all types if `kinds` is empty.
    ///
    /// # Errors
    /// Fails with the error that a broker returns, or with a timeout that contains the last error.
    pub async fn list_config_resources(&self, kinds: &[i8], timeout: Duration) -> Result<Vec<ConfigResource>> {
        let key = ApiKey::ListConfigResources;
        let build = |batch: &RequestBatch<'_, ()>| {
            // Version 0 lists only client metrics.
            let of_metrics = kinds == [CLIENT_METRICS];
            if batch.version == 0 && !of_metrics {
                return Err(Error::UnsupportedVersion(format!(
                    "to list other resources than client metrics needs Kafka 4.1 or later, and this broker is older \
                     ({} v0)",
                    key.name()
                )));
            }
            let resource_types = if batch.version == 0 { Vec::new() } else { kinds.to_vec() };
            Ok(ListConfigResourcesRequest { resource_types, ..Default::default() })
        };
        let read = |response: ListConfigResourcesResponse| {
            check(response.error_code, None, key.name(), key)?;
            let read_result = |resource: samsarrow_wire::messages::list_config_resources::ConfigResource| {
                ConfigResource { kind: resource.resource_type, name: resource.resource_name }
            };
            let mut resources: Vec<ConfigResource> = response.config_resources.into_iter().map(read_result).collect();
            resources.sort();
            Ok(resources)
        };
        self.send_single(Route::Any, timeout, build, read).await
    }
}

fn entry(version: i16, kind: i8, config: DescribeConfigsResourceResult) -> ConfigEntry {
    let source = match (version, config.is_default, kind) {
        (SOURCES.., ..) => config.config_source,
        (_, true, _) => DEFAULT_SOURCE,
        (_, false, TOPIC) => TOPIC_SOURCE,
        (_, false, _) => STATIC_BROKER_SOURCE,
    };
    let synonyms =
        config.synonyms.into_iter().map(|s| ConfigSynonym { name: s.name, value: s.value, source: s.source });
    ConfigEntry {
        name: config.name,
        value: config.value,
        source,
        read_only: config.read_only,
        sensitive: config.is_sensitive,
        kind: config.config_type,
        documentation: config.documentation,
        synonyms: synonyms.collect(),
    }
}
