//! The consumer: what a user calls, over the fetching tasks and the group's coordinator.

use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::config::{ConsumerOptions, Options};
use crate::error::{Error, Result};
use crate::fetch::{Fetcher, decode_options};
use crate::group::coordinator::Coordinator;
use crate::offsets::{self, ListTarget};
use crate::types::{OffsetAndMetadata, OffsetAndTimestamp, TopicPartition};

/// Where to seek.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeekTarget {
    /// To the first offset that is there.
    Beginning,
    /// To the end.
    End,
    /// To the group's committed offset, or where `auto.offset.reset` says.
    Committed,
    /// To the first record at or after so many milliseconds since 1970, or the end.
    Timestamp(i64),
}

/// Reads records of assigned partitions as Arrow batches. Methods take `&self` and may be called from any thread.
#[derive(Debug)]
pub struct Consumer {
    options: ConsumerOptions,
    cluster: Cluster,
    coordinator: Option<Coordinator>,
    fetcher: Fetcher,
    schema: SchemaRef,
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.fetcher.stop();
    }
}

impl Consumer {
    /// Made without I/O, within a tokio runtime or not.
    pub fn new(options: &Options) -> Result<Consumer> {
        let cluster = Cluster::new(options)?;
        let coordinator = options.consumer.group_id.as_deref().map(|group| Coordinator::new(cluster.clone(), group));
        let fetcher = Fetcher::new(&cluster, coordinator.clone(), options);
        let schema = decode_options(&options.consumer).schema();
        Ok(Consumer { options: options.consumer.clone(), cluster, coordinator, fetcher, schema })
    }

    /// The schema of every batch.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// How long a call without a timeout of its own keeps trying.
    pub fn default_timeout(&self) -> Duration {
        self.cluster.options().default_api_timeout
    }

    /// Reads these partitions from now on; those that were assigned before keep their positions. Must be called within a
    /// tokio runtime.
    pub fn assign(&self, partitions: &[TopicPartition]) -> Result<()> {
        self.check_open()?;
        self.fetcher.shared.assign(partitions);
        if !partitions.is_empty() {
            self.fetcher.start();
        }
        Ok(())
    }

    /// What is assigned.
    pub fn assignment(&self) -> Vec<TopicPartition> {
        self.fetcher.shared.assignment()
    }

    /// The next rows: at most `max.poll.records`, none when nothing came within `timeout`. Positions move past what is
    /// returned, and only then; a call that is given up loses nothing.
    ///
    /// # Errors
    /// What keeps an assigned partition from being read, once for each time that it is met.
    pub async fn poll(&self, timeout: Duration) -> Result<RecordBatch> {
        self.check_open()?;
        if self.fetcher.shared.nothing_assigned() {
            return Err(Error::configuration(
                "nothing is assigned to this consumer, so nothing can come: call assign first",
            ));
        }
        let deadline = Instant::now() + timeout;
        let polled = self.fetcher.shared.poll(self.options.max_poll_records, deadline).await;
        polled.unwrap_or_else(|| Ok(RecordBatch::new_empty(self.schema.clone())))
    }

    /// Commits offsets to the group: the ones given, or the positions of all assigned partitions.
    ///
    /// # Errors
    /// Without `group.id`; what the coordinator says of a partition; a timeout with its cause.
    pub async fn commit(
        &self,
        offsets: Option<Vec<(TopicPartition, OffsetAndMetadata)>>,
        timeout: Duration,
    ) -> Result<()> {
        let coordinator = self.group()?;
        let offsets = offsets.unwrap_or_else(|| {
            let known = self.fetcher.shared.positions().into_iter();
            let what = |offset, leader_epoch| OffsetAndMetadata { offset, leader_epoch, ..Default::default() };
            known.map(|(tp, position, epoch)| (tp, what(position, epoch))).collect()
        });
        if let Some((tp, bad)) = offsets.iter().find(|(_, o)| o.offset < 0) {
            return Err(Error::configuration(format!(
                "cannot commit offset {} of {tp}: offsets start at 0",
                bad.offset
            )));
        }
        offsets::commit(&self.cluster, coordinator, &offsets, timeout).await
    }

    /// What the group has committed; `None` where nothing.
    pub async fn committed(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Option<OffsetAndMetadata>)>> {
        offsets::fetch_committed(&self.cluster, self.group()?, partitions, timeout).await
    }

    fn group(&self) -> Result<&Coordinator> {
        self.check_open()?;
        let missing = || Error::configuration("committed offsets belong to a group: set option group.id");
        self.coordinator.as_ref().ok_or_else(missing)
    }

    /// The next offset that `poll` will give of an assigned partition.
    pub async fn position(&self, tp: &TopicPartition, timeout: Duration) -> Result<i64> {
        self.check_open()?;
        let found = self.fetcher.shared.position(tp, Instant::now() + timeout).await;
        found.unwrap_or_else(|| Err(Error::timeout(format!("the position of {tp}"), timeout)))
    }

    /// The first offset of each partition that is still there.
    pub async fn beginning_offsets(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, i64)>> {
        self.ends(partitions, ListTarget::Earliest, timeout).await
    }

    /// The end of each partition: the high watermark, or the last stable offset for `read_committed`.
    pub async fn end_offsets(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, i64)>> {
        self.ends(partitions, ListTarget::Latest, timeout).await
    }

    async fn ends(
        &self,
        partitions: &[TopicPartition],
        target: ListTarget,
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, i64)>> {
        let wanted: Vec<_> = partitions.iter().map(|tp| (tp.clone(), target)).collect();
        let found = self.list(&wanted, timeout).await?;
        Ok(found.into_iter().map(|(tp, found)| (tp, found.map_or(0, |found| found.offset))).collect())
    }

    /// The first record at or after a time, per partition; `None` where there is none.
    pub async fn offsets_for_times(
        &self,
        times: &[(TopicPartition, i64)],
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Option<OffsetAndTimestamp>)>> {
        if let Some((tp, time)) = times.iter().find(|(_, time)| *time < 0) {
            return Err(Error::configuration(format!(
                "a time of {time} ms for {tp}: times are milliseconds since 1970"
            )));
        }
        let wanted: Vec<_> = times.iter().map(|(tp, time)| (tp.clone(), ListTarget::Timestamp(*time))).collect();
        self.list(&wanted, timeout).await
    }

    async fn list(
        &self,
        wanted: &[(TopicPartition, ListTarget)],
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Option<OffsetAndTimestamp>)>> {
        self.check_open()?;
        offsets::list_offsets(&self.cluster, wanted, self.options.isolation_level, timeout).await
    }

    /// How many offsets lie between the position and the end, of every assigned partition.
    pub async fn lag(&self, timeout: Duration) -> Result<Vec<(TopicPartition, i64)>> {
        let deadline = Instant::now() + timeout;
        let assigned = self.assignment();
        let mut lags = Vec::with_capacity(assigned.len());
        for (tp, end) in self.end_offsets(&assigned, timeout).await? {
            let position = self.position(&tp, deadline.saturating_duration_since(Instant::now())).await?;
            lags.push((tp, (end - position).max(0)));
        }
        Ok(lags)
    }

    /// The partitions of a topic, in order.
    pub async fn partitions_for(&self, topic: &str, timeout: Duration) -> Result<Vec<TopicPartition>> {
        self.check_open()?;
        let metadata = self.cluster.topics(&[topic], timeout).await?;
        let partitions = metadata.topic(topic).map(|topic| topic.partitions.as_slice()).unwrap_or_default();
        Ok(partitions.iter().map(|p| TopicPartition::new(topic, p.partition)).collect())
    }

    /// Goes on at `offset`; what was prefetched is dropped.
    pub fn seek(&self, tp: &TopicPartition, offset: i64) -> Result<()> {
        self.check_open()?;
        if offset < 0 {
            return Err(Error::configuration(format!("cannot seek {tp} to offset {offset}: offsets start at 0")));
        }
        self.fetcher.shared.seek(tp, Some(offset))
    }

    /// Goes on elsewhere in these partitions, or in all assigned ones if none is given.
    pub async fn seek_to(&self, partitions: &[TopicPartition], target: SeekTarget, timeout: Duration) -> Result<()> {
        let partitions = if partitions.is_empty() { self.assignment() } else { partitions.to_vec() };
        let deadline = Instant::now() + timeout;
        let found: Vec<(TopicPartition, Option<i64>)> = match target {
            SeekTarget::Committed => {
                let found = self.committed(&partitions, timeout).await?;
                found.into_iter().map(|(tp, found)| (tp, found.map(|found| found.offset))).collect()
            }
            SeekTarget::Beginning => some(self.beginning_offsets(&partitions, timeout).await?),
            SeekTarget::End => some(self.end_offsets(&partitions, timeout).await?),
            SeekTarget::Timestamp(time) => {
                let times: Vec<_> = partitions.iter().map(|tp| (tp.clone(), time)).collect();
                let found = self.offsets_for_times(&times, timeout).await?;
                let ends = self.end_offsets(&partitions, deadline.saturating_duration_since(Instant::now())).await?;
                let at =
                    |(tp, found): (_, Option<OffsetAndTimestamp>), end| (tp, Some(found.map_or(end, |f| f.offset)));
                found.into_iter().zip(ends).map(|(found, (_, end))| at(found, end)).collect()
            }
        };
        found.iter().try_for_each(|(tp, offset)| self.fetcher.shared.seek(tp, *offset))
    }

    /// Gives no more rows of these partitions until `resume`; positions stay.
    pub fn pause(&self, partitions: &[TopicPartition]) -> Result<()> {
        partitions.iter().try_for_each(|tp| self.fetcher.shared.set_paused(tp, true))
    }

    /// Undoes `pause`.
    pub fn resume(&self, partitions: &[TopicPartition]) -> Result<()> {
        partitions.iter().try_for_each(|tp| self.fetcher.shared.set_paused(tp, false))
    }

    /// What is paused.
    pub fn paused(&self) -> Vec<TopicPartition> {
        self.fetcher.shared.paused()
    }

    fn check_open(&self) -> Result<()> {
        if self.fetcher.shared.is_closed() { Err(Error::closed("the consumer")) } else { Ok(()) }
    }

    /// Ends the tasks and connections. Calls that wait, and later ones, get [`Error::Closed`].
    pub async fn close(&self, timeout: Duration) {
        self.fetcher.stop();
        let _ = tokio::time::timeout(timeout, self.cluster.close()).await;
    }
}

fn some(found: Vec<(TopicPartition, i64)>) -> Vec<(TopicPartition, Option<i64>)> {
    found.into_iter().map(|(tp, offset)| (tp, Some(offset))).collect()
}
