//! Samples, which are the values of metrics at the time of a snapshot.

use std::sync::Arc;

use tokio::time::Instant;

use super::histogram::Latency;
use super::meter::{Meter, Recent};
use super::table::{Id, MetricSpec};
use crate::types::TopicPartition;

/// Label of a sample, in addition to the client.
#[derive(Debug, Clone, PartialEq)]
pub enum Label {
    /// No label: the value concerns the whole client.
    None,
    /// Topic.
    Topic(Arc<str>),
    /// Partition.
    Partition(TopicPartition),
    /// Broker id. Bootstrap servers have the ids -1, -2, …
    Node(i32),
    /// API name.
    Api(&'static str),
}

/// Value of a metric, in the unit of Java's client.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// Value of a counter or gauge.
    Number(f64),
    /// Percentiles, maximum, count and sum of a latency metric.
    Summary(Latency),
}

/// Value of a metric for one label.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Metric.
    pub id: Id,
    /// Label.
    pub label: Label,
    /// Value.
    pub value: Value,
}

impl Sample {
    /// Returns the specification of the metric from the metrics table.
    pub fn spec(&self) -> &'static MetricSpec {
        self.id.spec()
    }
}

/// Collector of samples.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) now: Instant,
    pub(crate) samples: Vec<Sample>,
}

/// Ids of the metrics that are derived from a meter. Each is optional.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MeterIds {
    pub(crate) sum: Option<Id>,
    pub(crate) rate: Option<Id>,
    pub(crate) count: Option<Id>,
    pub(crate) count_rate: Option<Id>,
    pub(crate) mean: Option<Id>,
    pub(crate) max: Option<Id>,
}

impl Sink {
    pub(crate) fn new(now: Instant) -> Self {
        Self { now, samples: Vec::new() }
    }

    pub(crate) fn number(&mut self, id: Id, label: Label, value: f64) {
        self.samples.push(Sample { id, label, value: Value::Number(value) });
    }

    pub(crate) fn unlabeled(&mut self, id: Id, value: f64) {
        self.number(id, Label::None, value);
    }

    pub(crate) fn latency(&mut self, id: Id, label: Label, value: Latency) {
        self.samples.push(Sample { id, label, value: Value::Summary(value) });
    }

    /// Adds a sample with the seconds since `since`, if it is set.
    pub(crate) fn age(&mut self, id: Id, since: Option<Instant>) {
        if let Some(since) = since {
            self.unlabeled(id, self.now.saturating_duration_since(since).as_secs_f64());
        }
    }

    /// Adds samples for the metrics of a meter. Averages and extremes are omitted if there are no values.
    pub(crate) fn meter(&mut self, meter: &Meter, label: &Label, ids: MeterIds) {
        let recent = meter.recent(self.now);
        self.meter_values(meter.sum, meter.count, recent, label, ids);
    }

    pub(crate) fn meter_values(&mut self, sum: f64, count: u64, recent: Recent, label: &Label, ids: MeterIds) {
        let values = [
            (ids.sum, Some(sum)),
            (ids.rate, Some(recent.rate())),
            (ids.count, Some(count as f64)),
            (ids.count_rate, Some(recent.count_rate())),
            (ids.mean, recent.mean()),
            (ids.max, recent.max()),
        ];
        for (id, value) in values {
            if let (Some(id), Some(value)) = (id, value) {
                self.number(id, label.clone(), value);
            }
        }
    }
}
