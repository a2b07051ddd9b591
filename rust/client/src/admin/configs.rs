//! Settings of topics, brokers, loggers, groups and client metrics: read, and changed one by one (KIP-339).

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
use super::batch::{Route, Work};
use super::engine::Asked;
use super::response_errors::{check, check_of};
use crate::error::{Error, Result};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;

/// From this version on an answer says where each value is from (KIP-226).
const SOURCES: i16 = 1;
/// From this version on there are types and documentation (KIP-569).
const DOCUMENTATION: i16 = 3;

/// Where a value is from, by the protocol's numbers.
const TOPIC_SOURCE: i8 = 1;
const STATIC_BROKER_SOURCE: i8 = 4;
const DEFAULT_SOURCE: i8 = 5;

/// What has settings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigResource {
    /// Of what kind, by the protocol's number.
    pub kind: i8,
    /// Its name; that of a broker is its id, or empty for the settings of all.
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
    /// The one broker that knows, or is to know, these settings.
    fn broker(&self) -> Result<Option<i32>> {
        if !matches!(self.kind, BROKER | BROKER_LOGGER) || (self.kind == BROKER && self.name.is_empty()) {
            return Ok(None);
        }
        let wrong = || Error::configuration(format!("the name of a broker is its id, not {:?}", self.name));
        self.name.parse().map(Some).map_err(|_| wrong())
    }
}

/// Where else a setting has a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSynonym {
    /// Its name there.
    pub name: String,
    /// Its value there.
    pub value: Option<String>,
    /// Where, by the protocol's number.
    pub source: i8,
}

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its name.
    pub name: String,
    /// Its value; `None` for none, and for what is secret.
    pub value: Option<String>,
    /// Where the value is from, by the protocol's number.
    pub source: i8,
    /// Whether it cannot be changed while the broker runs.
    pub read_only: bool,
    /// Whether it is secret.
    pub sensitive: bool,
    /// The type of its values, by the protocol's number; 0 where the broker does not report it.
    pub kind: i8,
    /// What it is for.
    pub documentation: Option<String>,
    /// Where values are looked for, the first is used.
    pub synonyms: Vec<ConfigSynonym>,
}

/// What to do to a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigChange {
    /// Which.
    pub name: String,
    /// 0 sets, 1 deletes, 2 appends to a list, 3 subtracts from it.
    pub operation: i8,
    /// The value, for all but 1.
    pub value: Option<String>,
}

/// What became of each resource.
pub type PerResource<T> = Vec<(ConfigResource, Result<T>)>;

/// Settings of one resource to look at; `None` are all.
type Keys = BTreeMap<ConfigResource, Option<Vec<String>>>;

impl Admin {
    /// Settings of resources, all or some of them.
    ///
    /// # Errors
    /// What is not about one resource; a timeout with its cause where no broker answered.
    pub async fn describe_configs(
        &self,
        wanted: &Keys,
        synonyms: bool,
        documentation: bool,
        timeout: Duration,
    ) -> Result<PerResource<Vec<ConfigEntry>>> {
        let key = ApiKey::DescribeConfigs;
        let build = |asked: &Asked<'_, ConfigResource>| {
            let resource = |resource: &ConfigResource| DescribeConfigsResource {
                resource_type: resource.kind,
                resource_name: resource.name.clone(),
                configuration_keys: wanted.get(resource).cloned().flatten(),
                ..Default::default()
            };
            Ok(DescribeConfigsRequest {
                resources: asked.items.iter().map(resource).collect(),
                include_synonyms: synonyms && asked.version >= SOURCES,
                include_documentation: documentation && asked.version >= DOCUMENTATION,
                ..Default::default()
            })
        };
        let read = |asked: &Asked<'_, ConfigResource>, response: DescribeConfigsResponse| {
            let one = |said: DescribeConfigsResult| {
                let resource = ConfigResource { kind: said.resource_type, name: said.resource_name };
                let outcome = check_of(key, &resource, said.error_code, said.error_message.as_deref());
                let kind = resource.kind;
                let entries = outcome.map(|()| {
                    let mut entries: Vec<_> =
                        said.configs.into_iter().map(|config| entry(asked.version, kind, config)).collect();
                    entries.sort_by(|a: &ConfigEntry, b| a.name.cmp(&b.name));
                    entries
                });
                (resource, entries)
            };
            Ok(response.results.into_iter().map(one).collect())
        };
        self.about(wanted, timeout, build, read).await
    }

    /// Changes settings of resources, or only checks that they could be; each resource has one outcome for all of its
    /// changes.
    ///
    /// # Errors
    /// What is not about one resource; a timeout with its cause where no broker answered.
    pub async fn alter_configs(
        &self,
        changes: &BTreeMap<ConfigResource, Vec<ConfigChange>>,
        validate_only: bool,
        timeout: Duration,
    ) -> Result<PerResource<()>> {
        let key = ApiKey::IncrementalAlterConfigs;
        let build = |asked: &Asked<'_, ConfigResource>| {
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
            let resources = asked.items.iter().map(resource).collect();
            Ok(IncrementalAlterConfigsRequest { resources, validate_only, ..Default::default() })
        };
        let read = |_: &Asked<'_, ConfigResource>, response: IncrementalAlterConfigsResponse| {
            let one = |said: AlterConfigsResourceResponse| {
                let resource = ConfigResource { kind: said.resource_type, name: said.resource_name };
                let outcome = check_of(key, &resource, said.error_code, said.error_message.as_deref());
                (resource, outcome)
            };
            Ok(response.responses.into_iter().map(one).collect())
        };
        self.about(changes, timeout, build, read).await
    }

    /// Asks any broker about resources, and the brokers themselves about what only they know.
    async fn about<V, R, T>(
        &self,
        resources: &BTreeMap<ConfigResource, V>,
        timeout: Duration,
        build: impl Fn(&Asked<'_, ConfigResource>) -> Result<R> + Sync,
        read: impl Fn(&Asked<'_, ConfigResource>, R::Response) -> Result<PerResource<T>> + Sync,
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
        let (any, broker) = (Work::new(Route::Any, timeout), Work::new(Route::Broker(id), timeout));
        let any = self.settle(&any, &anywhere, &build, &read);
        let (any, brokers) = tokio::join!(any, self.settle(&broker, &of_brokers, &build, &read));
        let mut done = any?;
        done.extend(brokers?);
        Ok(done)
    }

    /// What has settings, of some kinds or of all.
    ///
    /// # Errors
    /// What brokers say; a timeout with its cause.
    pub async fn list_config_resources(&self, kinds: &[i8], timeout: Duration) -> Result<Vec<ConfigResource>> {
        let key = ApiKey::ListConfigResources;
        let build = |asked: &Asked<'_, ()>| {
            // The first version lists those of client metrics, and no others.
            let of_metrics = kinds == [CLIENT_METRICS];
            if asked.version == 0 && !of_metrics {
                return Err(Error::UnsupportedVersion(format!(
                    "to list other resources than client metrics needs Kafka 4.1 or later, and this broker is older \
                     ({} v0)",
                    key.name()
                )));
            }
            let resource_types = if asked.version == 0 { Vec::new() } else { kinds.to_vec() };
            Ok(ListConfigResourcesRequest { resource_types, ..Default::default() })
        };
        let read = |response: ListConfigResourcesResponse| {
            check(response.error_code, None, key.name(), key)?;
            let one = |found: samsarrow_wire::messages::list_config_resources::ConfigResource| ConfigResource {
                kind: found.resource_type,
                name: found.resource_name,
            };
            let mut found: Vec<ConfigResource> = response.config_resources.into_iter().map(one).collect();
            found.sort();
            Ok(found)
        };
        self.ask(Route::Any, timeout, build, read).await
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
