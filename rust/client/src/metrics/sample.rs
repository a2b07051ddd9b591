//! What a client's metrics are at one moment.

use std::sync::Arc;
use std::time::Instant;

use super::histogram::Latency;
use super::meter::{Meter, Recent};
use super::table::{Id, MetricSpec};
use crate::types::TopicPartition;

/// What a value is of, beside the client.
#[derive(Debug, Clone, PartialEq)]
pub enum Label {
    /// The client.
    None,
    /// A topic.
    Topic(Arc<str>),
    /// A partition.
    Partition(TopicPartition),
    /// A broker by its id; bootstrap servers have -1, -2, …
    Node(i32),
    /// A kind of request.
    Api(&'static str),
}

/// One value, in Java's unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// Of a counter or gauge.
    Number(f64),
    /// Of a time.
    Summary(Latency),
}

/// One value of one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Of which metric.
    pub id: Id,
    /// Of what.
    pub label: Label,
    /// How much.
    pub value: Value,
}

impl Sample {
    /// The row of the table.
    pub fn spec(&self) -> &'static MetricSpec {
        self.id.spec()
    }
}

/// Takes samples.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) now: Instant,
    pub(crate) samples: Vec<Sample>,
}

/// Metrics of a meter: of how often, and of how much.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Names {
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

    pub(crate) fn one(&mut self, id: Id, value: f64) {
        self.number(id, Label::None, value);
    }

    pub(crate) fn latency(&mut self, id: Id, label: Label, value: Latency) {
        self.samples.push(Sample { id, label, value: Value::Summary(value) });
    }

    /// How long ago something was, if it ever was.
    pub(crate) fn age(&mut self, id: Id, since: Option<Instant>) {
        if let Some(since) = since {
            self.one(id, self.now.saturating_duration_since(since).as_secs_f64());
        }
    }

    /// Everything that is asked for of a meter; means and extremes of nothing are left out.
    pub(crate) fn meter(&mut self, meter: &Meter, label: &Label, names: Names) {
        let recent = meter.recent(self.now);
        self.measured(meter.sum, meter.count, recent, label, names);
    }

    pub(crate) fn measured(&mut self, sum: f64, count: u64, recent: Recent, label: &Label, names: Names) {
        let found = [
            (names.sum, Some(sum)),
            (names.rate, Some(recent.rate())),
            (names.count, Some(count as f64)),
            (names.count_rate, Some(recent.count_rate())),
            (names.mean, recent.mean()),
            (names.max, recent.max()),
        ];
        for (id, value) in found {
            if let (Some(id), Some(value)) = (id, value) {
                self.number(id, label.clone(), value);
            }
        }
    }
}
