//! Offsets of partitions, and the lag of groups.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use samsarrow_wire::messages::ApiKey;
use tokio::time::Instant;

use super::{Admin, FetchSettings, PerGroup};
use crate::collections::HashMap;
use crate::config::IsolationLevel;
use crate::error::{Error, Result};
use crate::offsets::{ListTarget, Listed, list_offsets_each};
use crate::types::{OffsetAndMetadata, TopicPartition};

/// Lag of a group in a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionLag {
    /// The partition.
    pub partition: TopicPartition,
    /// Offset that the group has committed.
    pub committed: OffsetAndMetadata,
    /// End offset of the partition, or the error of the lookup.
    pub end: Result<i64>,
}

impl Admin {
    /// Looks up offsets of partitions at their leaders. Returns a result for each partition, which is `None` if no
    /// record matches the target.
    ///
    /// # Errors
    /// Fails with `UNSUPPORTED_ENDPOINT_TYPE` if the client bootstraps from controllers.
    pub async fn list_offsets(
        &self,
        targets: &[(TopicPartition, ListTarget)],
        isolation: IsolationLevel,
        timeout: Duration,
    ) -> Result<Vec<Listed>> {
        self.cluster.check_endpoint(ApiKey::ListOffsets)?;
        Ok(list_offsets_each(&self.cluster, targets, isolation, timeout).await)
    }

    /// Returns the lag of groups in all partitions for which they have committed offsets.
    ///
    /// The number of requests does not depend on the number of groups: one OffsetFetch per coordinator, if it supports
    /// several groups per request, and one ListOffsets per leader.
    ///
    /// # Errors
    /// Fails with an error that concerns the whole request. Errors of individual groups are returned in the list.
    pub async fn group_lag(
        &self,
        groups: &[String],
        isolation: IsolationLevel,
        timeout: Duration,
    ) -> Result<PerGroup<Vec<PartitionLag>>> {
        let deadline = Instant::now() + timeout;
        let requests: Vec<(String, Option<Vec<TopicPartition>>)> =
            groups.iter().map(|group| (group.clone(), None)).collect();
        let fetched = self.fetch_offsets(&requests, &FetchSettings::default(), timeout).await?;
        let mut partitions: BTreeSet<TopicPartition> = BTreeSet::new();
        for (_, offsets) in &fetched {
            partitions.extend(offsets.iter().flatten().map(|(tp, _)| tp.clone()));
        }
        let targets: Vec<_> = partitions.into_iter().map(|tp| (tp, ListTarget::Latest)).collect();
        let remaining = deadline.saturating_duration_since(Instant::now());
        let ends: HashMap<TopicPartition, Result<i64>> = if targets.is_empty() {
            HashMap::default()
        } else {
            let listed = list_offsets_each(&self.cluster, &targets, isolation, remaining).await;
            let end = |(tp, result): Listed| {
                let none =
                    || Error::protocol("a broker", format!("the response to ListOffsets has no end offset of {tp}"));
                let end = result.and_then(|listed| listed.map(|offset| offset.offset).ok_or_else(none));
                (tp, end)
            };
            listed.into_iter().map(end).collect()
        };
        let lag = |(partition, committed): (TopicPartition, Option<OffsetAndMetadata>)| {
            let timed_out = || Err(Error::timeout(format!("ListOffsets of {partition}"), timeout));
            let end = ends.get(&partition).cloned().unwrap_or_else(timed_out);
            Some(PartitionLag { committed: committed?, end, partition })
        };
        let with_lag = |(group, fetched): (String, Result<super::Fetched>)| {
            let lags = fetched.map(|offsets| {
                let by_partition: BTreeMap<_, _> = offsets.into_iter().collect();
                by_partition.into_iter().filter_map(lag).collect()
            });
            (group, lags)
        };
        Ok(fetched.into_iter().map(with_lag).collect())
    }
}
