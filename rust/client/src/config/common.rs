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
        if let Some(fault) = servers.iter().find_map(|server| fault_of_server(server)) {
            return Err(Error::configuration(format!("option {option}: {fault}")));
        }
        let idle = self.millis("connections.max.idle.ms");
        Ok(CommonOptions {
            bootstrap_servers: servers,
            at_controllers,
            expand_bootstrap_servers: self.text("client.dns.lookup") == "resolve_canonical_bootstrap_servers_only",
            client_id: self.text("client.id").to_owned(),
            request_timeout: self.millis("request.timeout.ms"),
            default_api_timeout: self.millis("default.api.timeout.ms"),
            bootstrap_resolve_timeout: self.millis("bootstrap.resolve.timeout.ms"),
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
            check_destination: self.flag("metadata.cluster.check.enable"),
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

/// Returns the reason why a text is not `host:port`, and what to write instead; `None` if it is.
fn fault_of_server(server: &str) -> Option<String> {
    if server.contains('@') {
        // The text is not shown, because it may contain a password.
        return Some("a server is host:port; set user and password as sasl.username and sasl.password".into());
    }
    if server.contains(';') || server.contains(char::is_whitespace) {
        return Some(format!("{server:?} is not host:port; separate several servers by commas"));
    }
    if let Some((scheme, rest)) = server.split_once("://") {
        let protocol =
            ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"].iter().find(|p| p.eq_ignore_ascii_case(scheme));
        let address = rest.trim_end_matches('/');
        return Some(match protocol {
            Some(protocol) => {
                format!("{server:?} is not host:port; write {address} and set security.protocol={protocol}")
            }
            None => format!("{server:?} is not host:port; write {address}, without {scheme}://"),
        });
    }
    match server.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() => match port.parse::<u16>() {
            Ok(1..) => None,
            _ => Some(format!("{server:?} is not host:port; the port is a number from 1 to 65535")),
        },
        _ => Some(format!("{server:?} is not host:port, for example localhost:9092")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_servers_say_what_to_write() {
        for server in ["h:1", "localhost:65535", "[::1]:9092", "10.0.0.1:9092"] {
            assert_eq!(fault_of_server(server), None, "{server}");
        }
        for (server, expected) in [
            ("SSL://h:9093", "write h:9093 and set security.protocol=SSL"),
            ("sasl_plaintext://h:9093/", "write h:9093 and set security.protocol=SASL_PLAINTEXT"),
            ("PLAINTEXT://h:9092", "write h:9092 and set security.protocol=PLAINTEXT"),
            ("http://h:9092", "write h:9092, without http://"),
            ("EXTERNAL://h:9092", "write h:9092, without EXTERNAL://"),
            ("h:1;i:2", "separate several servers by commas"),
            ("h:1 i:2", "separate several servers by commas"),
            ("h", "\"h\" is not host:port, for example localhost:9092"),
            (":9092", "for example localhost:9092"),
            ("h:", "the port is a number from 1 to 65535"),
            ("h:0", "the port is a number from 1 to 65535"),
            ("h:99999", "the port is a number from 1 to 65535"),
            ("h:9092/topic", "the port is a number from 1 to 65535"),
        ] {
            let fault = fault_of_server(server).unwrap();
            assert!(fault.contains(expected), "{fault}");
        }
        let secret = fault_of_server("alice:canary@h:9092").unwrap();
        assert!(secret.contains("sasl.password") && !secret.contains("canary"), "{secret}");
    }
}
