//! What a member counts of its group.

use std::time::Instant;

use super::meter::Meter;
use super::sample::{Label, Names, Sink};
use super::table::Id;

/// Rebalances, under the lock of the membership.
#[derive(Debug, Default)]
pub(crate) struct Rebalances {
    since: Option<Instant>,
    /// Milliseconds.
    done: Meter,
    failed: Meter,
}

impl Rebalances {
    /// The member waits for its part from now on, unless it does already.
    pub(crate) fn begin(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// The member has its part.
    pub(crate) fn end(&mut self) {
        let now = Instant::now();
        // Members of KIP-848's groups go from epoch to epoch without waiting.
        let since = self.since.take().unwrap_or(now);
        self.done.add(now, now.saturating_duration_since(since).as_secs_f64() * 1e3);
    }

    /// The membership ended though nobody wanted that.
    pub(crate) fn fail(&mut self) {
        self.since = None;
        self.failed.add(Instant::now(), 1.0);
    }

    pub(crate) fn collect(&self, sink: &mut Sink) {
        let none = &Label::None;
        let names = Names {
            sum: Some(Id::RebalanceLatencyTotal),
            count: Some(Id::RebalanceTotal),
            mean: Some(Id::RebalanceLatencyAvg),
            max: Some(Id::RebalanceLatencyMax),
            ..Names::default()
        };
        sink.meter(&self.done, none, names);
        sink.one(Id::RebalanceRate, self.done.recent(sink.now).count_rate() * 3600.0);
        sink.age(Id::LastRebalanceSecondsAgo, self.done.last);
        sink.meter(&self.failed, none, Names { count: Some(Id::FailedRebalanceTotal), ..Names::default() });
        sink.one(Id::FailedRebalanceRate, self.failed.recent(sink.now).count_rate() * 3600.0);
    }
}
