//! Task of a micro-batch that is written exactly once. The task writes its rows and its commit marker in a single
//! transaction. If an earlier attempt has committed the rows, the task skips them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use samsarrow_arrow::digest;
use samsarrow_client::error::Error;
use samsarrow_client::producer::Producer;
use samsarrow_spark::WriteOptions;
use samsarrow_spark::commit_markers::{CommitMarker, CommitMarkers, RowSummary};
use samsarrow_spark::exactly_once::TaskId;
use samsarrow_wire::sync::lock;
use tokio::sync::OnceCell;

use crate::failure::Result;
use crate::row_block::TopicRows;

/// State of an exactly-once task.
#[derive(Debug)]
pub(crate) struct ExactlyOnceTask {
    task: TaskId,
    rows: Mutex<Rows>,
    /// Commit marker of an earlier attempt. It is read after that attempt has been fenced.
    marker: OnceCell<Option<CommitMarker>>,
    /// Set once the transaction has been opened.
    open: OnceCell<()>,
}

/// Summary of the rows that were added so far, and the topics of these rows.
#[derive(Debug, Default)]
struct Rows {
    summary: RowSummary,
    topics: BTreeSet<Arc<str>>,
}

impl ExactlyOnceTask {
    pub(crate) fn new(task: TaskId) -> ExactlyOnceTask {
        ExactlyOnceTask { task, rows: Mutex::default(), marker: OnceCell::new(), open: OnceCell::new() }
    }

    /// Returns the transactional id of the task.
    pub(crate) fn transactional_id(&self, options: &WriteOptions) -> String {
        self.task.transactional_id(options)
    }

    /// Adds rows to the summary. Must be called before the rows are sent.
    ///
    /// # Errors
    /// Fails if the rows cannot be hashed.
    pub(crate) fn count(&self, parts: &[TopicRows]) -> Result<()> {
        let mut rows = lock(&self.rows);
        for (topic, batch) in parts {
            let digest = digest(batch, Some(topic)).map_err(|error| Error::configuration(error.to_string()))?;
            rows.summary.add(RowSummary { rows: batch.num_rows() as u64, bytes: value_bytes(batch), digest });
            rows.topics.insert(Arc::clone(topic));
        }
        Ok(())
    }

    /// Opens the transaction. Returns false if the rows are already in the topic and must not be sent.
    ///
    /// # Errors
    /// Fails if later micro-batches are already written, or if the transactional id cannot be initialized.
    pub(crate) async fn begin(
        &self,
        producer: &Producer,
        markers: &CommitMarkers,
        options: &WriteOptions,
    ) -> Result<bool> {
        if self.find_marker(producer, markers, options).await?.is_some() {
            return Ok(false);
        }
        self.open.get_or_try_init(async || producer.begin_transaction().await).await?;
        Ok(true)
    }

    /// Commits the rows and the marker. Must be called after all rows are stored. If the rows were skipped, checks them
    /// against the marker of the earlier attempt instead.
    ///
    /// # Errors
    /// Fails if an earlier attempt had other rows, or if the transaction cannot be committed.
    pub(crate) async fn end(&self, producer: &Producer, markers: &CommitMarkers, options: &WriteOptions) -> Result<()> {
        let marker = self.find_marker(producer, markers, options).await?;
        let (summary, topic) = {
            let rows = lock(&self.rows);
            (rows.summary, rows.topics.first().cloned())
        };
        if let Some(marker) = marker {
            return Ok(self.task.check_skipped_rows(options, marker, &summary)?);
        }
        // A task without rows writes no marker.
        let Some(topic) = topic else { return Ok(()) };
        let (marker, group) = self.task.marker(options, &summary, &topic);
        producer.send_offsets_to_transaction(marker, group, None).await?;
        Ok(producer.commit_transaction(None).await?)
    }

    /// Fences earlier attempts and then reads the marker. In the other order, an earlier attempt could still commit its
    /// marker after the read.
    async fn find_marker(
        &self,
        producer: &Producer,
        markers: &CommitMarkers,
        options: &WriteOptions,
    ) -> Result<Option<&CommitMarker>> {
        let fetch = async || {
            producer.init_transactions(None).await?;
            self.task.find_marker(markers, options).await
        };
        Ok(self.marker.get_or_try_init(fetch).await?.as_ref())
    }
}

fn value_bytes(batch: &RecordBatch) -> u64 {
    let values = batch.column_by_name("value").and_then(|column| column.as_binary_opt::<i32>());
    values.map_or(0, |values| values.value_data().len() as u64)
}
