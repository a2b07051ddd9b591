//! The metrics table as a Markdown page.

use super::names::client_name;
use super::table::{CONVENTIONS, Kind, LabelKind, METRICS};

/// Returns the content of docs/metrics.md.
pub fn metrics_markdown() -> String {
    let mut page = format!(
        "# Metrics\n\n`client.metrics()` returns typed metrics, `client.metrics().java()` returns them by Java's names. \
         `samsarrow.metrics.prometheus(client)` is a collector for `prometheus_client`, \
         `samsarrow.metrics.opentelemetry(client, provider)` creates OpenTelemetry instruments, and \
         `samsarrow.metrics.exposition(client)` returns Prometheus' text format without any other package. Clients push \
         metrics to brokers that ask for them (KIP-714, `enable.metrics.push`). dashboards/samsarrow.json is a dashboard \
         for Grafana.\n\n\
         Metrics of the Java client have its group and name. The group `samsarrow-metrics` has metrics that Java lacks. \
         Rates, averages and extremes cover the last `metrics.num.samples` times `metrics.sample.window.ms`; an average \
         without samples is omitted. Prometheus computes rates and averages from totals: a dash marks metrics without \
         separate values there. Times are in milliseconds under Java's names, in seconds in Prometheus and \
         OpenTelemetry. In Prometheus all metrics have the label `client_id`, in OpenTelemetry the attribute \
         `messaging.client.id`. OpenTelemetry's names that begin with `messaging.` follow its semantic conventions \
         {CONVENTIONS}, whose messaging part is still in development.\n"
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
            let label = match spec.labels {
                LabelKind::None => "–",
                LabelKind::Topic => "topic",
                LabelKind::Partition => "partition",
                LabelKind::Node => "broker",
                LabelKind::Api => "kind of request",
            };
            let code = |name: Option<String>| name.map_or_else(|| "–".to_owned(), |name| format!("`{name}`"));
            page += &format!(
                "| `{}` `{}` | {kind} | {} | {label} | {} | {} | {} | {} |\n",
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
