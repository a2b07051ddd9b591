//! Offsets that leaders know, and how far groups are behind them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use samsarrow_wire::messages::ApiKey;
use tokio::time::Instant;

use super::{Admin, FetchSettings, PerGroup};
use crate::config::IsolationLevel;
use crate::error::{Error, Result};
use crate::offsets::{ListTarget, Listed, list_offsets_each};
use crate::types::{OffsetAndMetadata, TopicPartition};

/// How far a group is behind in a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionLag {
    /// Which.
    pub partition: TopicPartition,
    /// What the group has committed.
    pub committed: OffsetAndMetadata,
    /// The end of the partition, or why it is not known.
    pub end: Result<i64>,
}

impl Admin {
    /// Offsets of partitions as their leaders know them; each has its own outcome, `None` where there is no such record.
    ///
    /// # Errors
    /// The client starts from controllers, which lead no partitions.
    pub async fn list_offsets(
        &self,
        wanted: &[(TopicPartition, ListTarget)],
        isolation: IsolationLevel,
        timeout: Duration,
    ) -> Result<Vec<Listed>> {
        self.cluster.check_endpoint(ApiKey::ListOffsets)?;
        Ok(list_offsets_each(&self.cluster, wanted, isolation, timeout).await)
    }

    /// How far groups are behind the ends of the partitions that they have committed for: one OffsetFetch for each
    /// coordinator, one ListOffsets for each leader, however many groups there are.
    ///
    /// # Errors
    /// What is not about one group.
    pub async fn group_lag(
        &self,
        groups: &[String],
        isolation: IsolationLevel,
        timeout: Duration,
    ) -> Result<PerGroup<Vec<PartitionLag>>> {
        let deadline = Instant::now() + timeout;
        let wanted: Vec<(String, Option<Vec<TopicPartition>>)> =
            groups.iter().map(|group| (group.clone(), None)).collect();
        let fetched = self.fetch_offsets(&wanted, &FetchSettings::default(), timeout).await?;
        let mut partitions: BTreeSet<TopicPartition> = BTreeSet::new();
        for (_, found) in &fetched {
            partitions.extend(found.iter().flatten().map(|(tp, _)| tp.clone()));
        }
        let asked: Vec<_> = partitions.into_iter().map(|tp| (tp, ListTarget::Latest)).collect();
        let left = deadline.saturating_duration_since(Instant::now());
        let ends: HashMap<TopicPartition, Result<i64>> = if asked.is_empty() {
            HashMap::new()
        } else {
            let listed = list_offsets_each(&self.cluster, &asked, isolation, left).await;
            let end = |(tp, found): Listed| {
                let none = || Error::protocol("a broker", format!("it gives no end of {tp}"));
                let end = found.and_then(|found| found.map(|at| at.offset).ok_or_else(none));
                (tp, end)
            };
            listed.into_iter().map(end).collect()
        };
        let lag = |(partition, committed): (TopicPartition, Option<OffsetAndMetadata>)| {
            let lost = || Err(Error::timeout(format!("ListOffsets of {partition}"), timeout));
            let end = ends.get(&partition).cloned().unwrap_or_else(lost);
            Some(PartitionLag { committed: committed?, end, partition })
        };
        let of_group = |(group, found): (String, Result<super::Fetched>)| {
            let found = found.map(|found| {
                let by_partition: BTreeMap<_, _> = found.into_iter().collect();
                by_partition.into_iter().filter_map(lag).collect()
            });
            (group, found)
        };
        Ok(fetched.into_iter().map(of_group).collect())
    }
}
