//! Sending of Arrow batches: rows are assigned to partitions and encoded directly from the columns. Large data is
//! processed in chunks, so that memory stays within `buffer.memory`.

use std::sync::Arc;

use arrow_array::RecordBatch;
use samsarrow_arrow::encode::{Columns, EncodeError, RowReader};
use samsarrow_arrow::value_encoding::{ValueColumns, ValueFormat, ValueWriter};
use tokio::time::Instant;

use super::delivery::BatchDelivery;
use super::row_partitioning::{Parts, RowPlan, chunk_size};
use super::send_batch::SendBatch;
use super::shared::Shared;
use crate::error::{Error, Result};

/// Rows that a call has queued, and the error that stopped the call before its last row.
#[derive(Debug)]
pub struct SendBatchResult {
    /// Delivery of the rows that were queued.
    pub delivery: BatchDelivery,
    /// Reason why a row was not queued, if any.
    pub outcome: Result<()>,
}

impl SendBatchResult {
    /// Creates the result of a call that queued no rows.
    pub(crate) fn nothing(topic: Arc<str>, error: Error) -> Self {
        Self { delivery: BatchDelivery::new(topic, Vec::new()), outcome: Err(error) }
    }

    /// Returns the delivery of all rows.
    ///
    /// # Errors
    /// Returns the reason why a row was not queued.
    pub fn complete(self) -> Result<BatchDelivery> {
        self.outcome.map(|()| self.delivery)
    }

    fn new(topic: Arc<str>, rows: usize, parts: Parts, outcome: Result<()>) -> Self {
        let delivery = BatchDelivery::new(topic, parts.0);
        let outcome = outcome.and_then(|()| match delivery.len() {
            queued if queued == rows as u64 => Ok(()),
            queued => Err(Error::State(format!(
                "send_batch to topic {} has queued {queued} of {rows} rows: please report this as a bug",
                delivery.topic()
            ))),
        });
        Self { delivery, outcome }
    }
}

/// Sends all rows of `data` as the next rows of the call. The topic's partitions are already known.
pub(crate) async fn send(
    shared: &Arc<Shared>,
    call: &SendBatch,
    topic: Arc<str>,
    data: RecordBatch,
    columns: Columns,
) -> SendBatchResult {
    let total = data.num_rows();
    let mut parts = Parts::default();
    let rows = RowReader::new(&data, &columns).map_err(|error| rejected(call, &topic, call.queued(), error));
    // The reader holds the columns it needs.
    drop(data);
    let outcome = match rows {
        Ok(rows) => send_rows(shared, call, &topic, rows, &mut parts).await,
        Err(error) => Err(error),
    };
    SendBatchResult::new(topic, total, parts, outcome)
}

/// Sends rows and serializes their values in chunks, so that at most one chunk of serialized values exists at a time.
pub(crate) async fn send_serialized(
    shared: &Arc<Shared>,
    call: &SendBatch,
    topic: Arc<str>,
    data: RecordBatch,
    columns: Columns,
    written: (&ValueColumns, ValueFormat),
) -> SendBatchResult {
    let total = data.num_rows();
    let mut parts = Parts::default();
    let outcome = write_rows(shared, call, &topic, &data, &columns, written, &mut parts).await;
    SendBatchResult::new(topic, total, parts, outcome)
}

async fn write_rows(
    shared: &Arc<Shared>,
    call: &SendBatch,
    topic: &Arc<str>,
    data: &RecordBatch,
    columns: &Columns,
    (value, format): (&ValueColumns, ValueFormat),
    parts: &mut Parts,
) -> Result<()> {
    let first = call.queued();
    let mut writer = ValueWriter::new(data, value, format).map_err(|error| rejected(call, topic, first, error))?;
    // No row is sent if one of the other columns is invalid.
    RowReader::with_values(data, columns, None).map_err(|error| rejected(call, topic, first, error))?;
    loop {
        let written = writer.next(chunk_size(shared)).map_err(|error| rejected(call, topic, first, error))?;
        let Some((range, values)) = written else { return Ok(()) };
        let part = data.slice(range.start, range.len());
        let rows = RowReader::with_values(&part, columns, Some(values))
            .map_err(|error| rejected(call, topic, first + range.start as u64, error))?;
        drop(part);
        send_rows(shared, call, topic, rows, parts).await?;
    }
}

/// Sends `rows` as the next rows of the call.
async fn send_rows(
    shared: &Arc<Shared>,
    call: &SendBatch,
    topic: &Arc<str>,
    rows: RowReader,
    parts: &mut Parts,
) -> Result<()> {
    if let Some(partition) = rows.largest_partition() {
        // `RowPlan::check` reports the row whose partition is missing.
        let missing = |error: &Error| matches!(error, Error::Configuration(_));
        let known = shared.ensure_partition(topic, Some(partition), Instant::now() + shared.settings.max_block).await;
        let known = known.or_else(|error| if missing(&error) { Ok(()) } else { Err(error) });
        known.map_err(|error| stopped(call, topic, error))?;
    }
    let plan = RowPlan::new(shared, call, topic, rows).map_err(|error| stopped(call, topic, error))?;
    plan.check().map_err(|error| stopped(call, topic, error))?;
    let mut next = 0;
    while next < plan.rows.rows() {
        let (range, bytes) = plan.chunk(next);
        next = range.end;
        let deadline = Instant::now() + shared.settings.max_block;
        let sent = match shared.reserve(bytes, deadline).await {
            Ok(reserved) => plan.send_chunk(range, reserved, parts).await,
            Err(error) => Err(error),
        };
        sent.map_err(|error| error.context(stop_context(topic, call.queued())))?;
    }
    Ok(())
}

/// Adds the number of the row in the call to an error of a batch whose first row is row `first` of the call.
fn rejected(call: &SendBatch, topic: &str, first: u64, error: EncodeError) -> Error {
    let error = match error {
        EncodeError::Row { row, what } => EncodeError::Row { row: first as usize + row, what },
        error => error,
    };
    let format = match &error {
        EncodeError::WrongType { role: role @ ("key" | "value"), .. } => {
            format!(", for example to string, or pass a {role}_format such as \"long\"")
        }
        _ => String::new(),
    };
    stopped(call, topic, Error::configuration(format!("send_batch to topic {topic}: {error}{format}")))
}

/// Adds the number of queued rows to an error, unless no row was queued.
pub(crate) fn stopped(call: &SendBatch, topic: &str, error: Error) -> Error {
    match call.queued() {
        0 => error,
        queued => error.context(stop_context(topic, queued)),
    }
}

fn stop_context(topic: &str, row: u64) -> String {
    format!("send_batch to topic {topic} stopped at row {row}: the rows before it were queued")
}
