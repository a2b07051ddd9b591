//! What others call a metric: Java, brokers, Prometheus, OpenTelemetry.

use super::table::{Group, Kind, MetricSpec, Unit};
use crate::types::ClientKind::{self, Admin, Consumer, Producer};

/// How names of a client's begin.
pub fn client_name(kind: ClientKind) -> &'static str {
    match kind {
        Producer => "producer",
        Consumer => "consumer",
        Admin => "admin",
    }
}

impl MetricSpec {
    /// Java's group.
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

    /// The name by which brokers ask for it (KIP-714); what Java's client does not have is not pushed.
    pub fn telemetry_name(&self, client: ClientKind) -> Option<String> {
        let group = self.group_name(client);
        let group = group.strip_suffix("-metrics").unwrap_or(&group);
        let pushed = !matches!(self.group, Group::Own) && self.kind != Kind::Summary;
        pushed.then(|| format!("org.apache.kafka.{}.{}", group.replace('-', "."), self.name.replace('-', ".")))
    }

    /// Prometheus' name.
    pub fn prometheus_name(&self, client: ClientKind) -> Option<String> {
        (!self.prometheus.is_empty()).then(|| format!("samsarrow_{}_{}", client_name(client), self.prometheus))
    }

    /// OpenTelemetry's name: that of the conventions, or one in their style.
    pub fn opentelemetry_name(&self, client: ClientKind) -> Option<String> {
        if !self.convention.is_empty() {
            return Some(self.convention.to_owned());
        }
        let bare = ["_total", "_seconds", "_bytes"].iter().fold(self.prometheus, |name, unit| {
            name.strip_suffix(unit).filter(|_| self.kind != Kind::Gauge || *unit != "_bytes").unwrap_or(name)
        });
        (!bare.is_empty()).then(|| format!("samsarrow.{}.{bare}", client_name(client)))
    }

    /// What a value is multiplied with for Prometheus and OpenTelemetry, which count in base units.
    pub fn scale(&self) -> f64 {
        if self.unit == Unit::Millis { 1e-3 } else { 1.0 }
    }

    /// OpenTelemetry's unit (UCUM).
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

    /// Java's unit.
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
