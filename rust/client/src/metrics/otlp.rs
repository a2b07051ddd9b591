//! OpenTelemetry's `MetricsData`, of as much as is pushed (KIP-714): numbers of gauges and sums, with attributes.
//!
//! Protocol buffers are tags, varints and lengths: a writer is less than a dependency.

use std::collections::HashMap;

use super::sample::{Label, Sample, Value};
use super::table::{Id, Kind, LabelKind};
use crate::types::ClientKind;

/// Of fields that are messages, text or bytes.
const LENGTH: u64 = 2;
const VARINT: u64 = 0;
const FIXED64: u64 = 1;

/// `AggregationTemporality`.
const DELTA: u64 = 1;
const CUMULATIVE: u64 = 2;

/// Bytes of a message.
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

    /// `KeyValue` with text.
    fn attribute(&mut self, field: u64, key: &str, value: &str) {
        self.message(field, |pair| {
            pair.bytes(1, key.as_bytes());
            pair.message(2, |any| any.bytes(1, value.as_bytes()));
        });
    }
}

/// What counters were at the last push, by metric and what it is of.
pub(crate) type LastValues = HashMap<(Id, String), f64>;

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Selection<'a> {
    pub(crate) client: ClientKind,
    /// Of the resource: what the client belongs to.
    pub(crate) attributes: &'a [(&'static str, String)],
    /// Prefixes of names.
    pub(crate) requested: &'a [String],
    /// What is left out, where all of it is too much.
    pub(crate) without: &'a [LabelKind],
    /// Counters as what they grew by.
    pub(crate) delta: bool,
    /// Nanoseconds since 1970, of the client's start or of the last push, and of now.
    pub(crate) since: u64,
    pub(crate) now: u64,
}

impl Selection<'_> {
    /// Whether a metric is asked for: nothing is by no prefix, everything by an empty one, for which Kafka says `*` too.
    fn asks_for(&self, name: &str) -> bool {
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

/// `MetricsData` of the samples that are asked for, how many there are, and what counters are now.
pub(crate) fn encode(samples: &[Sample], wanted: &Selection<'_>, last: &LastValues) -> (Vec<u8>, usize, LastValues) {
    let mut next = LastValues::new();
    let mut count = 0;
    let mut data = Proto::default();
    data.message(1, |resource_metrics| {
        resource_metrics.message(1, |resource| {
            for (key, value) in wanted.attributes {
                resource.attribute(1, key, value);
            }
        });
        resource_metrics.message(2, |scope| {
            scope.message(1, |name| name.bytes(1, b"samsarrow"));
            for family in samples.chunk_by(|a, b| a.id == b.id) {
                let Some(first) = family.first() else { continue };
                let spec = first.spec();
                let Some(name) = spec.telemetry_name(wanted.client) else { continue };
                if !wanted.asks_for(&name) || wanted.without.contains(&spec.labels) {
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
                                true => grown(sample, value, wanted.delta, last, &mut next),
                                false => value,
                            };
                            points.message(1, |point| write_point(point, sample, value, wanted, sum));
                        }
                        if sum {
                            points.number(2, if wanted.delta { DELTA } else { CUMULATIVE });
                            points.number(3, 1);
                        }
                    });
                });
            }
        });
    });
    (data.0, count, next)
}

/// A counter's value as it is to be reported.
fn grown(sample: &Sample, value: f64, delta: bool, last: &LastValues, next: &mut LastValues) -> f64 {
    if !delta {
        return value;
    }
    let key = (sample.id, label_text(&sample.label));
    let before = last.get(&key).copied().unwrap_or(0.0);
    next.insert(key, value);
    value - before
}

fn write_point(point: &mut Proto, sample: &Sample, value: f64, wanted: &Selection<'_>, sum: bool) {
    if sum {
        point.fixed(2, wanted.since);
    }
    point.fixed(3, wanted.now);
    point.fixed(4, value.to_bits());
    // As Java's client names its tags there. Brokers know the client's id.
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

    fn wanted(requested: &[String], delta: bool) -> Selection<'_> {
        Selection { client: ClientKind::Producer, attributes: &[], requested, without: &[], delta, since: 1, now: 2 }
    }

    fn count(value: f64) -> [Sample; 1] {
        [Sample { id: Id::RequestTotal, label: Label::None, value: Value::Number(value) }]
    }

    /// The last double of the bytes, which is the value of the last point.
    fn value(bytes: &[u8]) -> f64 {
        let at = bytes.windows(9).rposition(|window| window[0] == (4 << 3 | 1)).unwrap();
        f64::from_bits(u64::from_le_bytes(bytes[at + 1..at + 9].try_into().unwrap()))
    }

    #[test]
    fn counters_are_told_whole_or_as_what_they_grew_by() {
        let all = [String::new()];
        let (bytes, found, last) = encode(&count(5.0), &wanted(&all, true), &LastValues::new());
        assert_eq!((value(&bytes), found), (5.0, 1));
        let (bytes, _, last) = encode(&count(7.0), &wanted(&all, true), &last);
        assert_eq!((value(&bytes), last.len()), (2.0, 1));
        let (bytes, _, last) = encode(&count(7.0), &wanted(&all, false), &last);
        assert_eq!((value(&bytes), last.len()), (7.0, 0));
    }

    #[test]
    fn only_what_is_asked_for_is_told() {
        let found = |prefixes: &[&str]| {
            let prefixes: Vec<String> = prefixes.iter().map(|&prefix| prefix.to_owned()).collect();
            encode(&count(1.0), &wanted(&prefixes, false), &LastValues::new()).1
        };
        assert_eq!(found(&[]), 0);
        assert_eq!((found(&[""]), found(&["*"])), (1, 1));
        assert_eq!(found(&["org.apache.kafka.consumer."]), 0);
        assert_eq!(found(&["org.apache.kafka.consumer.", "org.apache.kafka.producer.req"]), 1);
        let own = [Sample { id: Id::QueuedRecords, label: Label::None, value: Value::Number(1.0) }];
        assert_eq!(
            encode(&own, &wanted(&[String::new()], false), &LastValues::new()).1,
            0,
            "Java's client has no such"
        );
    }
}
