//! MeterIds of metrics in Java, KIP-714, Prometheus and OpenTelemetry.

use super::table::{Group, Kind, MetricSpec, Unit};
use crate::types::ClientKind::{self, Admin, Consumer, Producer};

/// Returns the prefix of names of this client type.
pub fn client_name(kind: ClientKind) -> &'static str {
    match kind {
        Producer => "producer",
        Consumer => "consumer",
        Admin => "admin",
    }
}

impl MetricSpec {
    /// Returns the name of the Java group.
    pub fn group_name(&self, client: ClientKind) -> String {
        let prefix = match client {
            Admin => "admin-client",
            other => client_name(other),
        };
        match self.group {
            Group::Client => format!("{prefix}-metrics"),
            Group::Node => format!("{prefix}-node-metrics"),
            Group::Topic => "producer-topic-metrics".to_owned(),
            Group::Fetch => "consumer-fetch-manager-metrics".to_owned(),
            Group::Coordinator => "consumer-coordinator-metrics".to_owned(),
            Group::App => "app-info".to_owned(),
            Group::Own => "samsarrow-metrics".to_owned(),
        }
    }

    /// Returns the KIP-714 name; metrics that the Java client lacks are not pushed.
    pub fn telemetry_name(&self, client: ClientKind) -> Option<String> {
        let group = self.group_name(client);
        let group = group.strip_suffix("-metrics").unwrap_or(&group);
        let pushed = !matches!(self.group, Group::Own) && self.kind != Kind::Summary;
        pushed.then(|| format!("org.apache.kafka.{}.{}", group.replace('-', "."), self.name.replace('-', ".")))
    }

    /// Returns the Prometheus name.
    pub fn prometheus_name(&self, client: ClientKind) -> Option<String> {
        (!self.prometheus.is_empty()).then(|| format!("samsarrow_{}_{}", client_name(client), self.prometheus))
    }

    /// Returns the OpenTelemetry name: from the semantic conventions, or in their style.
    pub fn opentelemetry_name(&self, client: ClientKind) -> Option<String> {
        if !self.convention.is_empty() {
            return Some(self.convention.to_owned());
        }
        let bare = ["_total", "_seconds", "_bytes"].iter().fold(self.prometheus, |name, unit| {
            name.strip_suffix(unit).filter(|_| self.kind != Kind::Gauge || *unit != "_bytes").unwrap_or(name)
        });
        (!bare.is_empty()).then(|| format!("samsarrow.{}.{bare}", client_name(client)))
    }

    /// Returns the factor to the base unit, which Prometheus and OpenTelemetry use.
    pub fn scale(&self) -> f64 {
        if self.unit == Unit::Millis { 1e-3 } else { 1.0 }
    }

    /// Returns the OpenTelemetry unit (UCUM).
    pub fn base_unit(&self) -> &'static str {
        match self.unit {
            Unit::Count if !self.convention.is_empty() => "{message}",
            Unit::Count => "1",
            Unit::PerSecond => "1/s",
            Unit::PerHour => "1/h",
            Unit::Bytes => "By",
            Unit::BytesPerSecond => "By/s",
            Unit::Millis | Unit::Seconds => "s",
            Unit::Ratio => "1",
        }
    }

    /// Returns the Java unit.
    pub fn unit_name(&self) -> &'static str {
        match self.unit {
            Unit::Count => "count",
            Unit::PerSecond => "per second",
            Unit::PerHour => "per hour",
            Unit::Bytes => "bytes",
            Unit::BytesPerSecond => "bytes per second",
            Unit::Millis => "ms",
            Unit::Seconds => "s",
            Unit::Ratio => "0 to 1",
        }
    }
}
