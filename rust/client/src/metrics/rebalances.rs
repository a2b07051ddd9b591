//! Metrics of rebalances.

use tokio::time::Instant;

use super::meter::Meter;
use super::sample::{Label, MeterIds, Sink};
use super::table::Id;

/// Metrics of a member's rebalances, updated under the lock of the membership.
#[derive(Debug, Default)]
pub(crate) struct Rebalances {
    since: Option<Instant>,
    /// Duration of completed rebalances in milliseconds.
    done: Meter,
    failed: Meter,
}

impl Rebalances {
    /// Records that the member starts to wait for an assignment.
    pub(crate) fn begin(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// Records that the member has an assignment.
    pub(crate) fn end(&mut self) {
        let now = Instant::now();
        // In groups of the KIP-848 protocol, members change epochs without waiting, so there is no start time.
        let since = self.since.take().unwrap_or(now);
        self.done.add(now, now.saturating_duration_since(since).as_secs_f64() * 1e3);
    }

    /// Records that the membership has ended involuntarily.
    pub(crate) fn fail(&mut self) {
        self.since = None;
        self.failed.add(Instant::now(), 1.0);
    }

    pub(crate) fn collect(&self, sink: &mut Sink) {
        let none = &Label::None;
        let ids = MeterIds {
            sum: Some(Id::RebalanceLatencyTotal),
            count: Some(Id::RebalanceTotal),
            mean: Some(Id::RebalanceLatencyAvg),
            max: Some(Id::RebalanceLatencyMax),
            ..MeterIds::default()
        };
        sink.meter(&self.done, none, ids);
        sink.unlabeled(Id::RebalanceRate, self.done.recent(sink.now).count_rate() * 3600.0);
        sink.age(Id::LastRebalanceSecondsAgo, self.done.last);
        sink.meter(&self.failed, none, MeterIds { count: Some(Id::FailedRebalanceTotal), ..MeterIds::default() });
        sink.unlabeled(Id::FailedRebalanceRate, self.failed.recent(sink.now).count_rate() * 3600.0);
    }
}
