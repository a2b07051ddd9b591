//! Options shared by all clients.

use std::collections::BTreeMap;

use samsarrow_wire::releases::Release;

use super::values::Values;
use super::{ClientKind, CommonOptions, Recovery};
use crate::error::{Error, Result};
use crate::metrics::{MetricsOptions, Windows};

impl Values {
    pub(super) fn common(&self, kind: ClientKind, api_versions: BTreeMap<&'static str, i16>) -> Result<CommonOptions> {
        let at_controllers = self.non_empty("bootstrap.controllers").is_some();
        let option = if at_controllers { "bootstrap.controllers" } else { "bootstrap.servers" };
        let list = self.text(option);
        let servers: Vec<String> =
            list.split(',').map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned).collect();
        if servers.is_empty() {
            return Err(Error::configuration("option bootstrap.servers must be given, for example localhost:9092"));
        }
        for server in &servers {
            let port =
                server.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
            if !matches!(port, Some(Ok(1..))) {
                let text = format!("option {option}: {server:?} is not host:port, for example localhost:9092");
                return Err(Error::configuration(text));
            }
        }
        let idle = self.millis("connections.max.idle.ms");
        Ok(CommonOptions {
            bootstrap_servers: servers,
            at_controllers,
            expand_bootstrap_servers: self.text("client.dns.lookup") == "resolve_canonical_bootstrap_servers_only",
            client_id: self.text("client.id").to_owned(),
            request_timeout: self.millis("request.timeout.ms"),
            default_api_timeout: self.millis("default.api.timeout.ms"),
            connection_setup_timeout: self.millis("socket.connection.setup.timeout.ms"),
            connection_setup_timeout_max: self.millis("socket.connection.setup.timeout.max.ms"),
            connections_max_idle: (!idle.is_zero()).then_some(idle),
            reconnect_backoff: self.millis("reconnect.backoff.ms"),
            reconnect_backoff_max: self.millis("reconnect.backoff.max.ms"),
            retry_backoff: self.millis("retry.backoff.ms"),
            retry_backoff_max: self.millis("retry.backoff.max.ms"),
            metadata_max_age: self.millis("metadata.max.age.ms"),
            metadata_max_idle: self.millis("metadata.max.idle.ms"),
            metadata_recovery: match self.text("metadata.recovery.strategy") {
                "none" => Recovery::None,
                _ => Recovery::Rebootstrap,
            },
            metadata_recovery_trigger: self.millis("metadata.recovery.rebootstrap.trigger.ms"),
            receive_buffer: Some(self.number::<u32>("receive.buffer.bytes")).filter(|size| *size > 0),
            send_buffer: Some(self.number::<u32>("send.buffer.bytes")).filter(|size| *size > 0),
            max_response_bytes: self.number("receive.message.max.bytes"),
            allow_auto_create_topics: match kind {
                ClientKind::Producer => true,
                ClientKind::Consumer => self.flag("allow.auto.create.topics"),
                ClientKind::Admin => false,
            },
            assumed_release: self.assumed_release()?,
            fallback_release: self.fallback_release()?,
            metrics: MetricsOptions {
                client: kind,
                client_id: self.text("client.id").to_owned(),
                windows: Windows {
                    count: self.number("metrics.num.samples"),
                    span: self.millis("metrics.sample.window.ms"),
                },
                by_row: self.text("metrics.recording.level") != "INFO",
                push: match self.text("enable.metrics.push") {
                    "" => kind != ClientKind::Admin,
                    value => value == "true",
                },
                attributes: self.push_attributes(kind),
                observer: None,
            },
            security: self.security()?,
            api_versions,
            newest_api_versions: BTreeMap::new(),
        })
    }

    /// Returns the attributes that are sent to brokers together with metrics (KIP-714). They have the names that Java's
    /// client uses.
    fn push_attributes(&self, kind: ClientKind) -> Vec<(&'static str, String)> {
        let names: &[(&str, &str)] = match kind {
            ClientKind::Producer => &[("transactional_id", "transactional.id")],
            ClientKind::Consumer => {
                &[("client_rack", "client.rack"), ("group_id", "group.id"), ("group_instance_id", "group.instance.id")]
            }
            ClientKind::Admin => &[],
        };
        let attributes = names.iter().map(|(name, option)| (*name, self.text(option).to_owned()));
        attributes.filter(|(_, text)| !text.is_empty()).collect()
    }

    fn fallback_release(&self) -> Result<Option<Release>> {
        let Some(release) = self.non_empty("broker.version.fallback") else { return Ok(None) };
        let unknown = || {
            let known = Release::ALL.iter().map(Release::to_string).collect::<Vec<_>>().join(", ");
            Error::configuration(format!(
                "option broker.version.fallback={release} is not one of the Kafka versions {known}"
            ))
        };
        Release::named(&release).map(Some).ok_or_else(unknown)
    }

    fn assumed_release(&self) -> Result<Option<Release>> {
        if self.flag("api.version.request") {
            return Ok(None);
        }
        let fallback = self.fallback_release()?;
        fallback.map(Some).ok_or_else(|| {
            Error::configuration(
                "api.version.request=false needs broker.version.fallback: the version of Kafka that the brokers have, for \
                 example 0.9.0",
            )
        })
    }
}
