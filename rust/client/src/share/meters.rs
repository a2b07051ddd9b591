//! Metrics of a share consumer: those of all consumers, and the acknowledgements.

use tokio::time::Instant;

use super::shared::Shared;
use crate::metrics::{Id, Label, Meter, MeterIds, ReadMeters, Sink, Source, Windows};

/// Metrics of records and acknowledgements.
#[derive(Debug, Default)]
pub(super) struct ShareMeters {
    pub(super) read: ReadMeters,
    acknowledged: Meter,
    failed: Meter,
}

impl ShareMeters {
    pub(super) fn new(windows: Windows) -> Self {
        let meter = || Meter::new(windows);
        Self { read: ReadMeters::new(windows, false), acknowledged: meter(), failed: meter() }
    }

    /// Records the outcome of acknowledgements.
    pub(super) fn acknowledged(&mut self, records: usize, has_failed: bool) {
        let now = Instant::now();
        self.acknowledged.add(now, records as f64);
        if has_failed {
            self.failed.add(now, records as f64);
        }
    }

    /// Returns the number of records whose acknowledgement failed.
    #[cfg(test)]
    pub(super) fn failed(&self) -> f64 {
        self.failed.sum
    }

    fn collect(&self, sink: &mut Sink) {
        self.read.collect(sink);
        let ids = MeterIds {
            sum: Some(Id::AcknowledgementsSendTotal),
            rate: Some(Id::AcknowledgementsSendRate),
            ..MeterIds::default()
        };
        sink.meter(&self.acknowledged, &Label::None, ids);
        let ids = MeterIds {
            sum: Some(Id::AcknowledgementsErrorTotal),
            rate: Some(Id::AcknowledgementsErrorRate),
            ..MeterIds::default()
        };
        sink.meter(&self.failed, &Label::None, ids);
    }
}

impl Source for Shared {
    fn collect(&self, sink: &mut Sink) {
        self.with(|state| {
            state.meters.collect(sink);
            sink.unlabeled(Id::AssignedPartitions, state.assignment().len() as f64);
        });
    }
}
