//! Exactly-once writes of micro-batches. Each task writes its rows in one transaction, which also commits the number of
//! the micro-batch.
//!
//! Spark repeats a failed micro-batch with the same number. A task first initializes its transactional id, which ends
//! the open transaction of an earlier attempt, and then looks for the commit marker of this micro-batch. If the marker
//! exists, the rows are already in the topic, so the task skips them. Before any task starts, the driver does the same
//! for those tasks of an earlier attempt that the new attempt does not have.

use samsarrow_client::group::{MemberIdentity, Offsets};
use samsarrow_client::producer::{GroupMember, Producer};
use tokio::task::JoinSet;

use crate::commit_markers::{CommitMarker, CommitMarkers, RowSummary, markers_match, task_count_metadata};
use crate::error::{Error, Result};
use crate::write_options::WriteOptions;

/// Maximum number of transactional ids that are fenced concurrently. Fencing each id needs its own connections.
const MAX_CONCURRENT_FENCES: usize = 16;

/// Identity of a micro-batch, which is the same for every attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MicroBatch {
    /// Id of the query, which Spark stores in the checkpoint.
    pub query: String,
    /// Number of the micro-batch.
    pub number: i64,
}

impl MicroBatch {
    /// Parses the query id and the micro-batch number from Spark's local properties.
    ///
    /// # Errors
    /// Fails if a property is missing or invalid, because an exactly-once write is not possible without it.
    pub fn parse(query: Option<&str>, number: Option<&str>) -> Result<MicroBatch> {
        let number = number.and_then(|number| number.parse().ok()).filter(|number| (0..i64::MAX).contains(number));
        match (query.filter(|query| !query.is_empty()), number) {
            (Some(query), Some(number)) => Ok(MicroBatch { query: query.to_owned(), number }),
            _ => Err(Error::configuration(
                "exactlyOnce needs a streaming query, or foreachBatch in one: Spark does not provide the query's id \
                 and the number of the micro-batch here. Nothing was written",
            )),
        }
    }

    pub(crate) fn next(&self) -> i64 {
        self.number + 1
    }

    /// Prepares a micro-batch before its tasks start. Rejects a micro-batch that cannot be written exactly once, and
    /// stores the number of tasks. Returns false if the number could not be stored because no topic is known yet. In
    /// this case, [`end`](Self::end) stores it.
    ///
    /// # Errors
    /// [`Error::ReplayMismatch`] if the micro-batch is rejected, before anything is written. Also fails if a broker
    /// request fails.
    pub(crate) async fn begin(&self, markers: &CommitMarkers, options: &WriteOptions, tasks: u64) -> Result<bool> {
        let group = options.group(&self.query);
        let marker = markers.fetch(options, vec![group.clone()]).await?.pop();
        if let Some(marker) = &marker {
            if marker.next > self.next() {
                return Err(self.rollback_error("it has begun", marker.next));
            }
            if let Some(before) = marker.tasks().filter(|before| *before != tasks) {
                self.check_task_count(markers, options, marker, before, tasks).await?;
            }
        }
        let topic = options.topic.as_deref().map(Into::into).or(marker.map(|marker| marker.topic));
        let Some(topic) = topic else { return Ok(false) };
        markers
            .commit(options, &group, CommitMarker { next: self.next(), metadata: task_count_metadata(tasks), topic })
            .await
    }

    /// Stores the number of tasks after all tasks have ended, if [`begin`](Self::begin) could not store it.
    ///
    /// # Errors
    /// Fails if a broker request fails.
    pub(crate) async fn end(&self, markers: &CommitMarkers, options: &WriteOptions, tasks: u64) -> Result<()> {
        let task_markers = markers.fetch(options, self.task_groups(options, 0..tasks)).await?;
        let written = task_markers.into_iter().filter(|marker| marker.next == self.next());
        if let Some(topic) = written.map(|marker| marker.topic).min() {
            let marker = CommitMarker { next: self.next(), metadata: task_count_metadata(tasks), topic };
            markers.commit(options, &options.group(&self.query), marker).await?;
        }
        Ok(())
    }

    /// Checks that no task of an earlier attempt, which had a different number of tasks, has written this micro-batch.
    async fn check_task_count(
        &self,
        markers: &CommitMarkers,
        options: &WriteOptions,
        marker: &CommitMarker,
        before: u64,
        tasks: u64,
    ) -> Result<()> {
        // If the marker belongs to this micro-batch, any task may have written rows. If it belongs to the previous
        // micro-batch (the Python sink stores its marker at the end), only those tasks matter that the new attempt does
        // not have.
        let first = if marker.next == self.next() { 0 } else { tasks };
        let groups = self.task_groups(options, first..before);
        // These tasks may still run in an executor that Spark no longer uses, and may be about to commit.
        fence(options, &groups).await?;
        let task_markers = markers.fetch(options, groups).await?;
        if task_markers.iter().any(|marker| marker.next == self.next()) {
            self.report_task_count(options, before, tasks, "would be")?;
        }
        Ok(())
    }

    /// Reports a repetition with another number of tasks. Rows `are` in the topic twice, `would be` or `may be`.
    pub(crate) fn report_task_count(&self, options: &WriteOptions, before: u64, tasks: u64, are: &str) -> Result<()> {
        let MicroBatch { query, number } = self;
        self.report_mismatch(
            options,
            &format!(
                "micro-batch {number} of query {query} was written by {before} tasks, and its repetition has {tasks}: rows \
                 {are} in the topic twice. Restart with the same minPartitions and number of shuffle partitions"
            ),
        )
    }

    pub(crate) fn task_groups(&self, options: &WriteOptions, tasks: std::ops::Range<u64>) -> Vec<String> {
        tasks.map(|task| options.task_group(&self.query, task)).collect()
    }

    pub(crate) fn rollback_error(&self, subject: &str, next: i64) -> Error {
        let MicroBatch { query, number } = self;
        Error::ReplayMismatch(format!(
            "query {query} is at micro-batch {number}, but {subject} micro-batch {} already: the checkpoint was restored from \
             an older copy, or two queries share it. Nothing was written. Restore a checkpoint that is as new as the topic, \
             or accept that rows are written twice by giving another transactionalIdPrefix",
            next - 1
        ))
    }

    /// Returns an error if a repeated micro-batch differs from the written micro-batch, unless the option
    /// `allowReplayMismatch` contains the number of this micro-batch.
    fn report_mismatch(&self, options: &WriteOptions, text: &str) -> Result<()> {
        let number = self.number;
        if options.allow_replay_mismatch.and_then(|allowed| i64::try_from(allowed).ok()) != Some(number) {
            return Err(Error::ReplayMismatch(format!(
                "{text}. The option allowReplayMismatch={number} continues anyway: records in the topic stay, and tasks \
                 that have written skip their rows"
            )));
        }
        tracing::warn!("{text} (allowReplayMismatch={number}: continuing)");
        Ok(())
    }
}

/// Identity of a task within a query and a micro-batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskId {
    pub batch: MicroBatch,
    /// Index of the task within the micro-batch.
    pub task: u64,
}

impl TaskId {
    /// Returns the transactional id of the task, which is also the group of its commit marker.
    pub fn transactional_id(&self, options: &WriteOptions) -> String {
        options.task_group(&self.batch.query, self.task)
    }

    /// Returns the commit marker of an earlier attempt that has written this micro-batch, if any. Must be called after
    /// that attempt was fenced.
    ///
    /// # Errors
    /// [`Error::ReplayMismatch`] if later micro-batches are already written. Also fails if a broker request fails.
    pub async fn find_marker(&self, markers: &CommitMarkers, options: &WriteOptions) -> Result<Option<CommitMarker>> {
        let marker = markers.fetch(options, vec![self.transactional_id(options)]).await?.pop();
        if let Some(newer) = marker.as_ref().filter(|marker| marker.next > self.batch.next()) {
            return Err(self.batch.rollback_error(&format!("its task {} has written", self.task), newer.next));
        }
        Ok(marker.filter(|marker| marker.next == self.batch.next()))
    }

    /// Checks that the skipped rows are the same as the rows in the topic.
    ///
    /// # Errors
    /// [`Error::ReplayMismatch`] if the rows differ.
    pub fn check_skipped_rows(
        &self,
        options: &WriteOptions,
        marker: &CommitMarker,
        summary: &RowSummary,
    ) -> Result<()> {
        let TaskId { batch: MicroBatch { query, number }, task } = self;
        let replayed = summary.metadata();
        if !markers_match(&marker.metadata, &replayed) {
            self.batch.report_mismatch(
                options,
                &format!(
                    "micro-batch {number} of query {query} was written by task {task} with {}, and its repetition brings \
                     {replayed}: exactlyOnce needs the same rows in the same tasks each time (no shuffle that depends on \
                     chance, the same minPartitions and number of shuffle partitions)",
                    marker.metadata
                ),
            )?;
        }
        let rows = summary.rows;
        tracing::info!(
            "micro-batch {number} is in the topic already (task {task} of query {query}): {rows} rows skipped"
        );
        Ok(())
    }

    /// Returns the commit marker that the transaction commits together with the rows: offsets, and the group to which
    /// they are committed. The group has no members.
    pub fn marker(&self, options: &WriteOptions, summary: &RowSummary, topic: &str) -> (Offsets, GroupMember) {
        let marker = CommitMarker { next: self.batch.next(), metadata: summary.metadata(), topic: topic.into() };
        let member = MemberIdentity { member_id: String::new(), generation: -1, instance_id: None };
        (vec![marker.offset()], GroupMember { group: self.transactional_id(options), member, ..GroupMember::default() })
    }
}

/// Fences the producers with these transactional ids and ends their open transactions.
async fn fence(options: &WriteOptions, transactional_ids: &[String]) -> Result<()> {
    for chunk in transactional_ids.chunks(MAX_CONCURRENT_FENCES) {
        let mut fencing = JoinSet::new();
        for id in chunk {
            let producer_options = options.transactional(id)?;
            fencing.spawn(async move {
                let producer = Producer::new(&producer_options)?;
                let result = producer.init_transactions(None).await;
                // The producer has sent nothing, so nothing is lost if closing it fails.
                let _ = producer.close(std::time::Duration::ZERO).await;
                result
            });
        }
        for result in fencing.join_all().await {
            result?;
        }
    }
    Ok(())
}
