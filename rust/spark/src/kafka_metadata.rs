//! Requests of the driver for metadata and offsets, and its commits to a group.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use samsarrow_client::admin::{Admin, CommitSettings, FetchSettings, TopicListing};
use samsarrow_client::config::ClientKind;
use samsarrow_client::consumer::Consumer;
use samsarrow_client::error::{Error as ClientError, Result as ClientResult};
use samsarrow_client::types::{OffsetAndMetadata, TopicPartition};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::Uuid;

use crate::bounds::{Bound, EARLIEST, LATEST, OffsetSpec};
use crate::error::{Error, Result};
use crate::offsets::Offsets;
use crate::options::{ReadOptions, TopicSelection};

/// Clients of a driver for metadata, offsets and group commits. They connect when they are first used.
#[derive(Debug)]
pub struct KafkaMetadata {
    consumer: Consumer,
    admin: Admin,
}

/// Partitions to read at a point in time, and the ids of their topics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourcePartitions {
    pub partitions: Vec<TopicPartition>,
    /// Ids of the topics by name. Empty if the cluster does not support topic ids.
    pub topic_ids: BTreeMap<String, Uuid>,
}

impl KafkaMetadata {
    /// Creates the clients without connecting.
    ///
    /// # Errors
    /// Fails if an option of the client is invalid.
    pub fn new(options: &ReadOptions) -> Result<KafkaMetadata> {
        let consumer = Consumer::new(&options.client(ClientKind::Consumer, &[])?)?;
        Ok(Self::with_clients(consumer, Admin::new(&options.client(ClientKind::Admin, &[])?)?))
    }

    /// Wraps existing clients. The consumer must not be in a group.
    pub fn with_clients(consumer: Consumer, admin: Admin) -> KafkaMetadata {
        KafkaMetadata { consumer, admin }
    }

    /// Closes all connections.
    pub async fn close(&self) {
        self.consumer.close(Duration::ZERO).await;
        self.admin.close().await;
    }

    /// Returns the partitions to read. If `all_must_exist` is false, topics and partitions that are named in the
    /// options but do not exist are left out.
    ///
    /// # Errors
    /// Fails if `all_must_exist` is true and a named topic or partition does not exist, or if a dead letter topic is
    /// among the topics.
    pub async fn partitions(&self, options: &ReadOptions, all_must_exist: bool) -> Result<SourcePartitions> {
        let missing = |option: &str, names: Vec<String>| {
            if names.is_empty() || !all_must_exist {
                return Ok(());
            }
            let text = format!("option {option} names topics or partitions that do not exist: {}", names.join(", "));
            Err(ClientError::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, text))
        };
        let all_partitions =
            |topic: &str, count: i32| (0..count).map(|p| TopicPartition::new(topic, p)).collect::<Vec<_>>();
        match &options.selection {
            TopicSelection::Pattern(pattern) => {
                let mut listed = self.topics(options, None).await?;
                listed.retain(|topic| !topic.internal && pattern.is_match(&topic.name));
                options.check_dead_letter_topics(listed.iter().map(|topic| topic.name.as_str()))?;
                let counts = counts(&listed);
                let partitions = counts.iter().flat_map(|(topic, count)| all_partitions(topic, *count)).collect();
                Ok(SourcePartitions { partitions, topic_ids: ids(&listed) })
            }
            TopicSelection::Topics(topics) => {
                let listed = self.topics(options, Some(topics)).await?;
                let counts = counts(&listed);
                missing("subscribe", topics.iter().filter(|t| !counts.contains_key(t.as_str())).cloned().collect())?;
                // A missing topic has no partitions. If `all_must_exist` is true, a missing topic was reported as an
                // error above.
                let count = |topic: &String| counts.get(topic.as_str()).copied().unwrap_or_default();
                let partitions = topics.iter().flat_map(|topic| all_partitions(topic, count(topic))).collect();
                Ok(SourcePartitions { partitions, topic_ids: ids(&listed) })
            }
            TopicSelection::Assigned(assigned) => {
                let names: Vec<String> = assigned.keys().cloned().collect();
                let listed = self.topics(options, Some(&names)).await?;
                let counts = counts(&listed);
                let all = assigned.iter().flat_map(|(t, ps)| ps.iter().map(|p| TopicPartition::new(t.as_str(), *p)));
                let count = |tp: &TopicPartition| counts.get(&*tp.topic).copied().unwrap_or_default();
                let (partitions, absent): (Vec<_>, Vec<_>) = all.partition(|tp| tp.partition < count(tp));
                missing("assign", absent.iter().map(ToString::to_string).collect())?;
                Ok(SourcePartitions { partitions, topic_ids: ids(&listed) })
            }
        }
    }

    /// Returns the partitions to read and the ends of the `known` partitions, which are requested concurrently. The
    /// ends are empty if their request failed, or if a known partition was deleted, because the client could retry the
    /// request for a long time.
    ///
    /// # Errors
    /// Fails if [`partitions`](Self::partitions) fails.
    pub async fn partitions_and_ends(
        &self,
        options: &ReadOptions,
        known: &Offsets,
    ) -> Result<(SourcePartitions, Offsets)> {
        let requested: Vec<TopicPartition> = known.keys().cloned().collect();
        let timeout = self.consumer.default_timeout();
        let mut ends = pin!(async {
            let result = if requested.is_empty() {
                Ok(Vec::new())
            } else {
                self.consumer.end_offsets(&requested, timeout).await
            };
            result.unwrap_or_else(|error| {
                tracing::debug!(
                    "end offsets could not be fetched together with the topics and are requested again: {error}"
                );
                Vec::new()
            })
        });
        let mut partitions = pin!(self.partitions(options, options.fail_on_data_loss));
        let (partitions, early) = tokio::select! {
            result = &mut partitions => (result?, None),
            early = &mut ends => (partitions.await?, Some(early)),
        };
        let existing: BTreeSet<&TopicPartition> = partitions.partitions.iter().collect();
        let early = match early {
            Some(early) => early,
            None if known.keys().all(|tp| existing.contains(tp)) => ends.await,
            None => Vec::new(),
        };
        Ok((partitions, early.into_iter().collect()))
    }

    async fn topics(&self, options: &ReadOptions, names: Option<&[String]>) -> Result<Vec<TopicListing>> {
        retry(options, || self.admin.list_topics(names, self.admin.default_timeout())).await
    }

    /// Returns the offset of `bound` in each partition.
    ///
    /// # Errors
    /// Fails if the offsets in the option do not cover exactly these partitions, or if a partition has no record at or
    /// after the starting timestamp.
    pub async fn resolve(
        &self,
        options: &ReadOptions,
        bound: &Bound,
        partitions: &[TopicPartition],
    ) -> Result<Offsets> {
        let resolved = self.resolve_spec(options, bound, partitions).await?;
        match partitions.iter().find(|tp| !resolved.contains_key(tp)) {
            None => Ok(resolved),
            Some(tp) => Err(Error::Client(ClientError::server(
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                format!("the brokers returned no offset of {tp} for option {}: read again", bound.option),
            ))),
        }
    }

    async fn resolve_spec(
        &self,
        options: &ReadOptions,
        bound: &Bound,
        partitions: &[TopicPartition],
    ) -> Result<Offsets> {
        match &bound.spec {
            OffsetSpec::Group => self.committed(options, partitions).await,
            OffsetSpec::Earliest => self.earliest(options, partitions).await,
            OffsetSpec::Latest => self.ends(options, partitions).await,
            OffsetSpec::Time(time) => {
                let times = partitions.iter().map(|tp| (tp.clone(), *time)).collect();
                self.at_times(options, bound, &times).await
            }
            OffsetSpec::Times(offsets) => {
                check_covers(bound, offsets, partitions)?;
                let mut times = offsets.clone();
                times.retain(|_, time| *time >= 0);
                let mut result = self.at_times(options, bound, &times).await?;
                result.extend(self.resolve_symbols(options, offsets).await?);
                Ok(result)
            }
            OffsetSpec::Offsets(offsets) => {
                check_covers(bound, offsets, partitions)?;
                let mut result = offsets.clone();
                result.extend(self.resolve_symbols(options, offsets).await?);
                Ok(result)
            }
        }
    }

    /// Returns the offsets of those partitions for which `symbolic` contains [`EARLIEST`] or [`LATEST`].
    async fn resolve_symbols(&self, options: &ReadOptions, symbolic: &Offsets) -> Result<Offsets> {
        let at = |symbol| {
            let matching = symbolic.iter().filter(move |(_, number)| **number == symbol);
            matching.map(|(tp, _)| tp.clone()).collect::<Vec<_>>()
        };
        let mut result = self.earliest(options, &at(EARLIEST)).await?;
        result.extend(self.ends(options, &at(LATEST)).await?);
        Ok(result)
    }

    async fn at_times(&self, options: &ReadOptions, bound: &Bound, times: &Offsets) -> Result<Offsets> {
        if times.is_empty() {
            return Ok(Offsets::new());
        }
        let requested: &Vec<_> = &times.iter().map(|(tp, time)| (tp.clone(), *time)).collect();
        let timeout = self.consumer.default_timeout();
        let offsets = retry(options, || self.consumer.offsets_for_times(requested, timeout)).await?;
        let mut result: Offsets = offsets.into_iter().filter_map(|(tp, at)| Some((tp, at?.offset))).collect();
        let missing: Vec<TopicPartition> = times.keys().filter(|tp| !result.contains_key(tp)).cloned().collect();
        // If a partition has no record at or after the timestamp, a batch read that ends there ends at the partition's
        // end. A read may start there only if an option allows it explicitly.
        if !missing.is_empty() && bound.option.starts_with("starting") && !options.start_at_end_without_match {
            let describe = |tp: &TopicPartition| format!("{tp} ({} ms)", times.get(tp).copied().unwrap_or_default());
            let partitions = missing.iter().map(describe).collect::<Vec<_>>().join(", ");
            return Err(Error::configuration(format!(
                "option {}: there is no record at or after the time in {partitions}; \
                 startingOffsetsByTimestampStrategy=latest starts at the end there",
                bound.option
            )));
        }
        result.extend(self.ends(options, &missing).await?);
        Ok(result)
    }

    /// Returns the first available offset of each partition.
    pub async fn earliest(&self, options: &ReadOptions, partitions: &[TopicPartition]) -> Result<Offsets> {
        if partitions.is_empty() {
            return Ok(Offsets::new());
        }
        let timeout = self.consumer.default_timeout();
        let offsets = retry(options, || self.consumer.beginning_offsets(partitions, timeout)).await?;
        Ok(offsets.into_iter().collect())
    }

    async fn ends(&self, options: &ReadOptions, partitions: &[TopicPartition]) -> Result<Offsets> {
        self.latest(options, partitions, &Offsets::new(), Offsets::new()).await
    }

    /// Returns the end of each partition. A broker that has just become leader may return an end before the offset in
    /// `known`, up to which records were already read (KIP-207). In this case the request is repeated. `ahead` contains
    /// ends that were requested earlier; they are used for the partitions in `known`.
    pub async fn latest(
        &self,
        options: &ReadOptions,
        partitions: &[TopicPartition],
        known: &Offsets,
        ahead: Offsets,
    ) -> Result<Offsets> {
        let mut ends = ahead;
        ends.retain(|tp, _| known.contains_key(tp));
        let mut missing: Vec<TopicPartition> = partitions.iter().filter(|tp| !ends.contains_key(tp)).cloned().collect();
        for remaining in (0..=options.retries).rev() {
            if !missing.is_empty() {
                let (missing, timeout) = (&missing, self.consumer.default_timeout());
                ends.extend(retry(options, || self.consumer.end_offsets(missing, timeout)).await?);
            }
            missing = partitions.iter().filter(|tp| ends.get(tp) < known.get(tp)).cloned().collect();
            if missing.is_empty() || remaining == 0 {
                break;
            }
            tokio::time::sleep(options.retry_interval).await;
        }
        Ok(ends)
    }

    /// Returns the committed offsets of the group. A partition without a committed offset starts at its first record.
    async fn committed(&self, options: &ReadOptions, partitions: &[TopicPartition]) -> Result<Offsets> {
        let requested = &[(options.group().unwrap_or_default().to_owned(), Some(partitions.to_vec()))];
        let settings = &FetchSettings::default();
        let timeout = self.admin.default_timeout();
        let groups = retry(options, || async move {
            let groups = self.admin.fetch_offsets(requested, settings, timeout).await?;
            groups.into_iter().map(|(_, offsets)| offsets).collect::<ClientResult<Vec<_>>>()
        });
        let committed = groups.await?.into_iter().flatten();
        let mut result: Offsets = committed.filter_map(|(tp, at)| Some((tp, at?.offset))).collect();
        let uncommitted: Vec<TopicPartition> =
            partitions.iter().filter(|tp| !result.contains_key(tp)).cloned().collect();
        result.extend(self.earliest(options, &uncommitted).await?);
        Ok(result)
    }

    /// Commits offsets to the group without joining the group.
    ///
    /// # Errors
    /// Fails if the commit of at least one partition fails.
    pub async fn commit(&self, options: &ReadOptions, offsets: &Offsets, timeout: Duration) -> Result<()> {
        let at = |offset| OffsetAndMetadata { offset, ..Default::default() };
        let sent: Vec<_> = offsets.iter().map(|(tp, offset)| (tp.clone(), at(*offset))).collect();
        let group = options.group().unwrap_or_default();
        let results = self.admin.commit_offsets(group, &sent, &CommitSettings::default(), timeout).await?;
        let mut failed = results.into_iter().filter_map(|(tp, result)| Some((tp, result.err()?)));
        let Some((tp, error)) = failed.next() else { return Ok(()) };
        let count = failed.count() + 1;
        Err(error.context(format!("{count} of {} offsets, the first of {tp}", offsets.len())).into())
    }
}

fn counts(listed: &[TopicListing]) -> BTreeMap<&str, i32> {
    listed.iter().map(|topic| (topic.name.as_str(), i32::try_from(topic.partitions).unwrap_or(i32::MAX))).collect()
}

fn ids(listed: &[TopicListing]) -> BTreeMap<String, Uuid> {
    let known = listed.iter().filter(|topic| topic.topic_id != Uuid::default());
    known.map(|topic| (topic.name.clone(), topic.topic_id)).collect()
}

/// Repeats a request that fails with a retriable error, as often as the options allow.
async fn retry<T, F>(options: &ReadOptions, request: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = ClientResult<T>>,
{
    for remaining in (0..options.retries).rev() {
        match request().await {
            Err(error) if error.retriable() => {
                tracing::warn!("broker request failed, {} retries left: {error}", remaining + 1);
                tokio::time::sleep(options.retry_interval).await;
            }
            result => return Ok(result?),
        }
    }
    Ok(request().await?)
}

fn check_covers(bound: &Bound, offsets: &Offsets, partitions: &[TopicPartition]) -> Result<()> {
    let mut read = partitions.to_vec();
    read.sort();
    if offsets.keys().eq(read.iter()) {
        return Ok(());
    }
    let names = |tps: &mut dyn Iterator<Item = &TopicPartition>| {
        let names: Vec<String> = tps.map(ToString::to_string).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let hint = if bound.option.contains("Timestamp") { "a time" } else { "an offset" };
    Err(Error::configuration(format!(
        "option {} must give {hint} for every partition that is read ({}): given for {}, read are {}",
        bound.option,
        bound.symbols,
        names(&mut offsets.keys()),
        names(&mut read.iter())
    )))
}
