//! Sending of records whose key or value cannot be decoded to a dead letter topic.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::ArrowError;
use arrow_select::filter::{filter, filter_record_batch};
use samsarrow_spark::WriteOptions;
use samsarrow_values::dead_letters;
use tokio::task::JoinHandle;

use crate::clients::Shared;
use crate::failure::{Failure, Result};
use crate::producers::{Producers, TaskProducer};
use crate::row_block::TopicRows;
use crate::value_decoding::{BadRows, DecodedColumn};

/// Sends bad rows in the background, so that a slow broker does not block the caller. Dropping it cancels the rest.
#[derive(Debug)]
pub(crate) struct Sending(JoinHandle<Result<()>>);

impl Sending {
    /// Starts to send bad rows of the batch. Must be called within the runtime.
    ///
    /// # Errors
    /// Fails if the batch does not have the columns that the reader requested.
    pub(crate) fn start(shared: &Arc<Shared>, batch: &RecordBatch, bad: &[BadRows]) -> Result<Sending> {
        let rows = |bad: &BadRows| Ok((Arc::clone(&bad.topic), dead_letters(batch, &bad.errors)?));
        let rows: Result<Vec<TopicRows>, String> = bad.iter().map(rows).collect();
        let (shared, rows) = (Arc::clone(shared), rows.map_err(Failure::state)?);
        Ok(Sending(tokio::spawn(async move { send(&shared, rows).await })))
    }

    /// Waits until the brokers have acknowledged the rows.
    ///
    /// # Errors
    /// Fails if a topic does not exist or if a row was not delivered.
    pub(crate) async fn wait(&mut self) -> Result<()> {
        (&mut self.0).await.unwrap_or_else(|error| Err(Failure::panic(error.to_string())))
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Producer that is closed when it is dropped, unless it is returned to the pool.
struct Leased<'a>(&'a Producers, Option<TaskProducer>);

impl Drop for Leased<'_> {
    fn drop(&mut self) {
        self.1.take().into_iter().for_each(TaskProducer::close);
    }
}

async fn send(shared: &Shared, rows: Vec<TopicRows>) -> Result<()> {
    let options = WriteOptions::for_dead_letters(shared.options()?.dead_letter_options());
    let mut lease = Leased(&shared.producers, Some(shared.producers.take(&options)?));
    if let Some(producer) = &lease.1 {
        let deliveries = producer.send(&shared.producers, &options, rows).await?;
        producer.flush().await?;
        for delivery in deliveries {
            delivery.wait().await?;
        }
    }
    lease.1.take().into_iter().for_each(|producer| lease.0.put(producer));
    Ok(())
}

/// Returns the batch and its decoded columns without the bad rows.
///
/// # Errors
/// Fails if the rows cannot be filtered.
pub(crate) fn without<'a>(
    batch: &RecordBatch,
    columns: Vec<DecodedColumn<'a>>,
    bad: &[BadRows],
) -> Result<(RecordBatch, Vec<DecodedColumn<'a>>)> {
    let is_bad = |row: usize| bad.iter().any(|bad| bad.errors.contains_key(&row));
    let kept: BooleanArray = (0..batch.num_rows()).map(|row| Some(!is_bad(row))).collect();
    let failed = |error: ArrowError| Failure::state(error.to_string());
    let filtered = |column: DecodedColumn<'a>| {
        let errors = column.errors.map(|errors| filter(&errors, &kept)).transpose().map_err(failed)?;
        let errors = errors.map(|errors| errors.as_string::<i32>().clone());
        let array = filter(&column.array, &kept).map_err(failed)?;
        Ok(DecodedColumn { part: column.part, array, kind: column.kind, errors })
    };
    let columns = columns.into_iter().map(filtered).collect::<Result<_>>()?;
    Ok((filter_record_batch(batch, &kept).map_err(failed)?, columns))
}
