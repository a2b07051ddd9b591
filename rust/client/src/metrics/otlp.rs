//! Encoder of OpenTelemetry `MetricsData` for KIP-714. It supports number data points of gauges and sums, with
//! attributes.
//!
//! The encoder uses no library, because only a small subset of Protocol Buffers is required.

use super::sample::{Label, Sample, Value};
use super::table::{Id, Kind, LabelKind};
use crate::collections::HashMap;
use crate::types::ClientKind;

/// Wire type of nested messages, strings and bytes.
const LENGTH: u64 = 2;
const VARINT: u64 = 0;
const FIXED64: u64 = 1;

/// Values of `AggregationTemporality`.
const DELTA: u64 = 1;
const CUMULATIVE: u64 = 2;

/// Encoded message.
#[derive(Debug, Default)]
struct Proto(Vec<u8>);

impl Proto {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(&mut self, field: u64, kind: u64) {
        self.varint(field << 3 | kind);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.tag(field, LENGTH);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, write: impl FnOnce(&mut Proto)) {
        let mut inner = Proto::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.tag(field, VARINT);
        self.varint(value);
    }

    fn fixed(&mut self, field: u64, value: u64) {
        self.tag(field, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes a `KeyValue` message with a string value.
    fn attribute(&mut self, field: u64, key: &str, value: &str) {
        self.message(field, |pair| {
            pair.bytes(1, key.as_bytes());
            pair.message(2, |any| any.bytes(1, value.as_bytes()));
        });
    }
}

/// Values of counters at the last push, by metric and label.
pub(crate) type LastValues = HashMap<(Id, String), f64>;

/// Selection of metrics to encode, and the parameters of their encoding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Selection<'a> {
    pub(crate) client: ClientKind,
    /// Resource attributes.
    pub(crate) attributes: &'a [(&'static str, String)],
    /// Requested name prefixes.
    pub(crate) requested: &'a [String],
    /// Labels whose metrics are omitted, because the payload would otherwise be too large.
    pub(crate) without: &'a [LabelKind],
    /// True if counters are reported as the increment since the last push.
    pub(crate) delta: bool,
    /// Start of the reported period in nanoseconds since 1970: the last push for increments, otherwise the start of the
    /// client.
    pub(crate) since: u64,
    pub(crate) now: u64,
}

impl Selection<'_> {
    /// Returns true if the broker requests a metric. An empty list of prefixes requests no metric; an empty prefix or
    /// `*` requests all metrics.
    fn is_requested(&self, name: &str) -> bool {
        self.requested.iter().any(|prefix| prefix == "*" || name.starts_with(prefix.as_str()))
    }
}

fn label_text(label: &Label) -> String {
    match label {
        Label::None => String::new(),
        Label::Topic(topic) => topic.to_string(),
        Label::Partition(tp) => tp.to_string(),
        Label::Node(node) => node.to_string(),
        Label::Api(api) => (*api).to_owned(),
    }
}

/// Encodes the requested samples. Returns the encoded bytes, the number of samples, and the values of the counters for
/// the next push.
pub(crate) fn encode(samples: &[Sample], selection: &Selection<'_>, last: &LastValues) -> (Vec<u8>, usize, LastValues) {
    let mut next = LastValues::default();
    let mut count = 0;
    let mut data = Proto::default();
    data.message(1, |resource_metrics| {
        resource_metrics.message(1, |resource| {
            for (key, value) in selection.attributes {
                resource.attribute(1, key, value);
            }
        });
        resource_metrics.message(2, |scope| {
            scope.message(1, |name| name.bytes(1, b"samsarrow"));
            for family in samples.chunk_by(|a, b| a.id == b.id) {
                let Some(first) = family.first() else { continue };
                let spec = first.spec();
                let Some(name) = spec.telemetry_name(selection.client) else { continue };
                if !selection.is_requested(&name) || selection.without.contains(&spec.labels) {
                    continue;
                }
                count += family.len();
                scope.message(2, |metric| {
                    metric.bytes(1, name.as_bytes());
                    let sum = spec.kind == Kind::Counter;
                    metric.message(if sum { 7 } else { 5 }, |points| {
                        for sample in family {
                            let Value::Number(value) = sample.value else { continue };
                            let value = match sum {
                                true => counter_value(sample, value, selection.delta, last, &mut next),
                                false => value,
                            };
                            points.message(1, |point| write_point(point, sample, value, selection, sum));
                        }
                        if sum {
                            points.number(2, if selection.delta { DELTA } else { CUMULATIVE });
                            points.number(3, 1);
                        }
                    });
                });
            }
        });
    });
    (data.0, count, next)
}

/// Returns the value of a counter, or its increment since the last push if `delta` is set.
fn counter_value(sample: &Sample, value: f64, delta: bool, last: &LastValues, next: &mut LastValues) -> f64 {
    if !delta {
        return value;
    }
    let key = (sample.id, label_text(&sample.label));
    let before = last.get(&key).copied().unwrap_or(0.0);
    next.insert(key, value);
    value - before
}

fn write_point(point: &mut Proto, sample: &Sample, value: f64, selection: &Selection<'_>, sum: bool) {
    if sum {
        point.fixed(2, selection.since);
    }
    point.fixed(3, selection.now);
    point.fixed(4, value.to_bits());
    // The attribute names are those of Java's client. The client id is left out, because brokers know it.
    match &sample.label {
        Label::None | Label::Api(_) => {}
        Label::Topic(topic) => point.attribute(7, "topic", topic),
        Label::Partition(tp) => {
            point.attribute(7, "topic", &tp.topic);
            point.attribute(7, "partition", &tp.partition.to_string());
        }
        Label::Node(node) => point.attribute(7, "node_id", &format!("node-{node}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(requested: &[String], delta: bool) -> Selection<'_> {
        Selection { client: ClientKind::Producer, attributes: &[], requested, without: &[], delta, since: 1, now: 2 }
    }

    fn count(value: f64) -> [Sample; 1] {
        [Sample { id: Id::RequestTotal, label: Label::None, value: Value::Number(value) }]
    }

    /// Returns the last double in the bytes, which is the value of the last data point.
    fn value(bytes: &[u8]) -> f64 {
        let position = bytes.windows(9).rposition(|window| window[0] == (4 << 3 | 1)).unwrap();
        f64::from_bits(u64::from_le_bytes(bytes[position + 1..position + 9].try_into().unwrap()))
    }

    #[test]
    fn counters_are_cumulative_or_delta() {
        let all = [String::new()];
        let (bytes, samples, last) = encode(&count(5.0), &selection(&all, true), &LastValues::default());
        assert_eq!((value(&bytes), samples), (5.0, 1));
        let (bytes, _, last) = encode(&count(7.0), &selection(&all, true), &last);
        assert_eq!((value(&bytes), last.len()), (2.0, 1));
        let (bytes, _, last) = encode(&count(7.0), &selection(&all, false), &last);
        assert_eq!((value(&bytes), last.len()), (7.0, 0));
    }

    #[test]
    fn only_requested_metrics_are_encoded() {
        let matches = |prefixes: &[&str]| {
            let prefixes: Vec<String> = prefixes.iter().map(|&prefix| prefix.to_owned()).collect();
            encode(&count(1.0), &selection(&prefixes, false), &LastValues::default()).1
        };
        assert_eq!(matches(&[]), 0);
        assert_eq!((matches(&[""]), matches(&["*"])), (1, 1));
        assert_eq!(matches(&["org.apache.kafka.consumer."]), 0);
        assert_eq!(matches(&["org.apache.kafka.consumer.", "org.apache.kafka.producer.req"]), 1);
        let own = [Sample { id: Id::QueuedRecords, label: Label::None, value: Value::Number(1.0) }];
        assert_eq!(
            encode(&own, &selection(&[String::new()], false), &LastValues::default()).1,
            0,
            "the Java client lacks it"
        );
    }
}
