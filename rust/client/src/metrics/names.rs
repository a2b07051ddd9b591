//! Names of metrics in Java's client, KIP-714, Prometheus and OpenTelemetry.

use super::table::{Group, Kind, MetricSpec, Unit};
use crate::types::ClientKind::{self, Admin, Consumer, Producer};

/// Returns the name of this client type, which is part of metric names.
pub fn client_name(kind: ClientKind) -> &'static str {
    match kind {
        Producer => "producer",
        Consumer => "consumer",
        Admin => "admin",
    }
}

impl MetricSpec {
    /// Returns the name of the metric's group in Java's client.
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

    /// Returns the KIP-714 name; `None` for metrics that are not pushed, because Java's client lacks them or because
    /// they are summaries.
    pub fn telemetry_name(&self, client: ClientKind) -> Option<String> {
        let group = self.group_name(client);
        let group = group.strip_suffix("-metrics").unwrap_or(&group);
        let pushed = !matches!(self.group, Group::Own) && self.kind != Kind::Summary;
        pushed.then(|| format!("org.apache.kafka.{}.{}", group.replace('-', "."), self.name.replace('-', ".")))
    }

    /// Returns the Prometheus name; `None` if Prometheus computes the metric from others.
    pub fn prometheus_name(&self, client: ClientKind) -> Option<String> {
        (!self.prometheus.is_empty()).then(|| format!("samsarrow_{}_{}", client_name(client), self.prometheus))
    }

    /// Returns the OpenTelemetry name, which either comes from the semantic conventions or follows their style.
    pub fn opentelemetry_name(&self, client: ClientKind) -> Option<String> {
        if !self.convention.is_empty() {
            return Some(self.convention.to_owned());
        }
        let bare = ["_total", "_seconds", "_bytes"].iter().fold(self.prometheus, |name, unit| {
            name.strip_suffix(unit).filter(|_| self.kind != Kind::Gauge || *unit != "_bytes").unwrap_or(name)
        });
        (!bare.is_empty()).then(|| format!("samsarrow.{}.{bare}", client_name(client)))
    }

    /// Returns the factor for the conversion to the base unit, which Prometheus and OpenTelemetry use.
    pub fn scale(&self) -> f64 {
        if self.unit == Unit::Millis { 1e-3 } else { 1.0 }
    }

    /// Returns the unit for OpenTelemetry, in UCUM notation.
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

    /// Returns the unit of the metric in Java's client.
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
