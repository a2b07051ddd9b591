//! Where reading starts: the group's committed offset, or what `auto.offset.reset` says.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::cursor::Start;
use super::queue::Item;
use super::state::Shared;
use crate::cluster::Cluster;
use crate::config::{IsolationLevel, OffsetReset};
use crate::error::{Error, Result};
use crate::group::coordinator::Coordinator;
use crate::offsets::{ListTarget, fetch_committed, list_offsets};
use crate::types::TopicPartition;

/// What finding a start needs.
#[derive(Debug)]
pub(super) struct Positioner {
    pub(super) shared: Arc<Shared>,
    pub(super) cluster: Cluster,
    pub(super) coordinator: Option<Coordinator>,
    pub(super) reset: OffsetReset,
    pub(super) isolation: IsolationLevel,
    pub(super) timeout: Duration,
}

impl Positioner {
    /// Finds the start of every partition that has none, whenever there is one; ends when the consumer is closed.
    pub(super) async fn run(self) {
        let mut work = self.shared.work();
        loop {
            work.borrow_and_update();
            if self.shared.lock().closed {
                return;
            }
            let open = self.shared.unplaced();
            if open.is_empty() {
                if work.changed().await.is_err() {
                    return;
                }
                continue;
            }
            if let Err(error) = self.place(&open).await {
                // It concerns them all: no broker, no coordinator, no permission. Raised once, then tried again.
                self.shared.push(Item::Error(error));
                tokio::time::sleep(self.cluster.options().retry_backoff_max).await;
            }
        }
    }

    async fn place(&self, open: &[(TopicPartition, u64, Start)]) -> Result<()> {
        let committed = self.committed(open).await?;
        let mut unset = Vec::new();
        for (tp, version, _) in open {
            match committed.get(tp) {
                Some((offset, epoch)) => self.shared.place(tp, *version, *offset, *epoch),
                None => unset.push((tp.clone(), *version)),
            }
        }
        let target = match self.reset {
            OffsetReset::Earliest => ListTarget::Earliest,
            OffsetReset::Latest => ListTarget::Latest,
            OffsetReset::ByDuration(age) => ListTarget::Timestamp(milliseconds_ago(age)),
            OffsetReset::None => {
                for (tp, version) in unset {
                    let group = self.coordinator.as_ref().map_or("", Coordinator::group);
                    let error = Error::OffsetOutOfRange(format!(
                        "{tp} has no position: group {group:?} committed none, and auto.offset.reset is none; seek, or commit first"
                    ));
                    self.shared.unplaceable(&tp, version, error);
                }
                return Ok(());
            }
        };
        let wanted: Vec<_> = unset.iter().map(|(tp, _)| (tp.clone(), target)).collect();
        match self.list(&wanted).await {
            Ok(found) => {
                for ((tp, version), (offset, epoch)) in unset.iter().zip(found) {
                    self.shared.place(tp, *version, offset, epoch);
                }
                Ok(())
            }
            // One partition that is not there must not hold up the others: each for itself.
            Err(Error::Server { .. }) => self.place_each(&unset, target).await,
            Err(error) => Err(error),
        }
    }

    /// Offsets in the order of `wanted`; the end where no record is as young as asked for.
    async fn list(&self, wanted: &[(TopicPartition, ListTarget)]) -> Result<Vec<Placed>> {
        let mut found = list_offsets(&self.cluster, wanted, self.isolation, self.timeout).await?;
        let too_old: Vec<_> = found.iter().filter(|(_, found)| found.is_none()).map(|(tp, _)| tp.clone()).collect();
        if !too_old.is_empty() {
            let ends: Vec<_> = too_old.into_iter().map(|tp| (tp, ListTarget::Latest)).collect();
            let mut ends = list_offsets(&self.cluster, &ends, self.isolation, self.timeout).await?.into_iter();
            for (_, missing) in found.iter_mut().filter(|(_, found)| found.is_none()) {
                *missing = ends.next().and_then(|(_, end)| end);
            }
        }
        Ok(found.into_iter().map(|(_, f)| f.map_or((0, None), |f| (f.offset, f.leader_epoch))).collect())
    }

    async fn place_each(&self, unset: &[(TopicPartition, u64)], target: ListTarget) -> Result<()> {
        for (tp, version) in unset {
            match self.list(&[(tp.clone(), target)]).await {
                Ok(found) => {
                    let (offset, epoch) = found.first().copied().unwrap_or_default();
                    self.shared.place(tp, *version, offset, epoch);
                }
                Err(error @ Error::Server { .. }) => self.shared.unplaceable(tp, *version, error),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Committed offsets of those that want to start there.
    async fn committed(&self, open: &[(TopicPartition, u64, Start)]) -> Result<HashMap<TopicPartition, Placed>> {
        let Some(coordinator) = &self.coordinator else { return Ok(HashMap::new()) };
        let wanted: Vec<_> = open.iter().filter(|o| o.2 == Start::Committed).map(|(tp, ..)| tp.clone()).collect();
        let stable = self.isolation == IsolationLevel::ReadCommitted;
        let fetched = fetch_committed(&self.cluster, coordinator, &wanted, stable, self.timeout).await?;
        Ok(fetched
            .into_iter()
            .filter_map(|(tp, found)| Some((tp, found?)))
            .map(|(tp, found)| (tp, (found.offset, found.leader_epoch)))
            .collect())
    }
}

/// An offset, and the leader epoch of the record before it.
type Placed = (i64, Option<i32>);

/// Since 1970.
fn milliseconds_ago(age: Duration) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.saturating_sub(age).as_millis()).unwrap_or(i64::MAX)
}
