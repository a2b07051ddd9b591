//! The table as a page of Markdown.

use super::naming::client_name;
use super::table::{CONVENTIONS, Kind, LabelKind, METRICS};

/// The page docs/metrics.md.
pub fn metrics_markdown() -> String {
    let mut page = format!(
        "# Metrics\n\n`client.metrics()` gives them typed, `client.metrics().java()` by Java's names. \
         `samsarrow.metrics.prometheus(client)` is a collector for `prometheus_client`, \
         `samsarrow.metrics.opentelemetry(client, provider)` makes instruments of OpenTelemetry, \
         `samsarrow.metrics.exposition(client)` is Prometheus' text without any other package. Brokers that ask for metrics \
         get them (KIP-714, `enable.metrics.push`). dashboards/samsarrow.json is a dashboard for Grafana.\n\n\
         Names are the Java client's where it has the same: its group and name. Those of group `samsarrow-metrics` are ours. \
         Rates, means and extremes are of the last `metrics.num.samples` times `metrics.sample.window.ms`; a mean of nothing \
         is left out. Prometheus computes rates and means from totals: a dash says that it gets no values of its own. \
         Java's names count times in milliseconds, Prometheus' and OpenTelemetry's in seconds. In Prometheus all have the \
         label `client_id`, in OpenTelemetry the attribute `messaging.client.id`. OpenTelemetry's names that begin with \
         `messaging.` are of its semantic conventions {CONVENTIONS}, which for messaging are still in development.\n"
    );
    for client in
        [crate::types::ClientKind::Producer, crate::types::ClientKind::Consumer, crate::types::ClientKind::Admin]
    {
        page += &format!(
            "\n## {}\n\n| Java | kind | unit | of each | Prometheus | OpenTelemetry | KIP-714 | meaning |\n\
             |---|---|---|---|---|---|---|---|\n",
            match client_name(client) {
                "producer" => "Producer",
                "consumer" => "Consumer",
                _ => "Admin",
            }
        );
        for spec in METRICS.iter().filter(|spec| spec.clients.contains(&client)) {
            let kind = match spec.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Summary => "summary",
            };
            let of = match spec.labels {
                LabelKind::None => "–",
                LabelKind::Topic => "topic",
                LabelKind::Partition => "partition",
                LabelKind::Node => "broker",
                LabelKind::Api => "kind of request",
            };
            let code = |name: Option<String>| name.map_or_else(|| "–".to_owned(), |name| format!("`{name}`"));
            page += &format!(
                "| `{}` `{}` | {kind} | {} | {of} | {} | {} | {} | {} |\n",
                spec.group_name(client),
                spec.name,
                spec.unit_name(),
                code(spec.prometheus_name(client)),
                code(spec.opentelemetry_name(client)),
                code(spec.telemetry_name(client)),
                spec.doc,
            );
        }
    }
    page
}
