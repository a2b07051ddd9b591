//! Metrics in the Prometheus text format (version 0.0.4).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Metrics;
use super::sample::{Label, Sample, Value};
use super::table::{Id, Kind};
use crate::types::ClientKind;

/// Quantiles of summaries.
const QUANTILES: [&str; 3] = ["0.5", "0.95", "0.99"];

/// Returns the metrics of several clients as one page. The page describes each metric only once.
pub fn exposition(clients: &[&Metrics]) -> String {
    let mut page = String::new();
    for kind in [ClientKind::Producer, ClientKind::Consumer, ClientKind::Admin] {
        let of_type: Vec<_> = clients.iter().filter(|metrics| metrics.client() == kind).collect();
        let sampled: Vec<_> = of_type.iter().map(|metrics| (quoted(metrics.client_id()), metrics.samples())).collect();
        let mut families: BTreeMap<Id, Vec<(&str, &Sample)>> = BTreeMap::new();
        for (client, samples) in &sampled {
            for sample in samples {
                families.entry(sample.id).or_default().push((client, sample));
            }
        }
        for (id, samples) in families {
            let spec = id.spec();
            let Some(name) = spec.prometheus_name(kind) else { continue };
            let text = match spec.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Summary => "summary",
            };
            // Writing to a `String` never fails.
            let _ = writeln!(page, "# HELP {name} {}\n# TYPE {name} {text}", spec.doc.replace('\\', "\\\\"));
            for (client, sample) in samples {
                write_sample(&mut page, &name, client, sample, spec.scale());
            }
        }
    }
    page
}

fn write_sample(page: &mut String, name: &str, client: &str, sample: &Sample, scale: f64) {
    let mut labels = format!("client_id={client}");
    let _ = match &sample.label {
        Label::None => Ok(()),
        Label::Topic(topic) => write!(labels, ",topic={}", quoted(topic)),
        Label::Partition(tp) => write!(labels, ",topic={},partition=\"{}\"", quoted(&tp.topic), tp.partition),
        Label::Node(node) => write!(labels, ",node=\"{node}\""),
        Label::Api(api) => write!(labels, ",api=\"{api}\""),
    };
    match sample.value {
        Value::Number(value) => {
            let _ = writeln!(page, "{name}{{{labels}}} {}", value * scale);
        }
        Value::Summary(latency) => {
            for (quantile, time) in QUANTILES.iter().zip([latency.p50, latency.p95, latency.p99]) {
                // An empty summary has no quantiles.
                let value = if latency.count == 0 { f64::NAN } else { time.as_secs_f64() };
                let _ = writeln!(page, "{name}{{{labels},quantile=\"{quantile}\"}} {value}");
            }
            let _ = writeln!(page, "{name}_sum{{{labels}}} {}", latency.sum.as_secs_f64());
            let _ = writeln!(page, "{name}_count{{{labels}}} {}", latency.count);
        }
    }
}

/// Escapes and quotes a label value.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        assert_eq!(quoted("a\"b\\c\nd"), "\"a\\\"b\\\\c\\nd\"");
    }
}
