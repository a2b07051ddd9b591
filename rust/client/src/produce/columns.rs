//! Arrow columns into batches: rows are assigned to partitions, then each partition's rows are encoded straight from
//! the columns. Large data goes chunk by chunk, so that memory stays within `buffer.memory`.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use samsarrow_arrow::encode::{Columns, EncodeError, RowReader};
use samsarrow_arrow::values::{ValueColumns, ValueFormat, ValueWriter};

use super::delivery::BatchDelivery;
use super::plan::{Parts, Plan, chunk_size};
use super::send_batch::SendBatch;
use super::shared::Shared;
use crate::error::{Error, Result};

/// Sends all rows; the topic's partitions are known already.
pub(crate) async fn send(
    shared: &Arc<Shared>,
    call: &SendBatch,
    topic: Arc<str>,
    data: RecordBatch,
    columns: Columns,
) -> Result<BatchDelivery> {
    let rows = RowReader::new(&data, &columns).map_err(|error| refused(&topic, &error))?;
    let total = data.num_rows();
    // The reader holds the columns that it needs.
    drop(data);
    let mut parts = Parts::default();
    send_rows(shared, call, &topic, rows, (0, total), &mut parts).await?;
    Ok(BatchDelivery::new(topic, parts.0))
}

/// The same with values that are written as they are sent: never more of them than a chunk are there.
pub(crate) async fn send_written(
    shared: &Arc<Shared>,
    call: &SendBatch,
    topic: Arc<str>,
    data: RecordBatch,
    columns: Columns,
    value: &ValueColumns,
    format: ValueFormat,
) -> Result<BatchDelivery> {
    let mut writer = ValueWriter::new(&data, value, format).map_err(|error| refused(&topic, &error))?;
    // So that nothing of it is sent if one of the other columns is wrong.
    RowReader::with_values(&data, &columns, None).map_err(|error| refused(&topic, &error))?;
    let total = data.num_rows();
    let mut parts = Parts::default();
    let mut next = 0;
    loop {
        let written =
            writer.next(chunk_size(shared)).map_err(|error| stopped(&topic, next, total, refused(&topic, &error)));
        let Some((range, values)) = written? else { break };
        next = range.end;
        let part = data.slice(range.start, range.len());
        let rows = RowReader::with_values(&part, &columns, Some(values)).map_err(|error| refused(&topic, &error))?;
        drop(part);
        send_rows(shared, call, &topic, rows, (range.start, total), &mut parts).await?;
    }
    Ok(BatchDelivery::new(topic, parts.0))
}

/// Sends the rows of `rows`, which are those from `first` on of `total`.
async fn send_rows(
    shared: &Arc<Shared>,
    call: &SendBatch,
    topic: &Arc<str>,
    rows: RowReader,
    (first, total): (usize, usize),
    parts: &mut Parts,
) -> Result<()> {
    if let Some(partition) = rows.largest_partition() {
        // The plan names the row whose partition is missing.
        let missing = |error: &Error| matches!(error, Error::Configuration(_));
        let known = shared.know(topic, Some(partition), Instant::now() + shared.settings.max_block).await;
        known.or_else(|error| if missing(&error) { Ok(()) } else { Err(error) })?;
    }
    let plan = Plan::new(shared, call, topic, rows, first)?;
    plan.check().map_err(|error| stopped(topic, first, total, error))?;
    let mut next = 0;
    while next < plan.rows.rows() {
        let (range, bytes) = plan.chunk(next);
        next = range.end;
        let deadline = Instant::now() + shared.settings.max_block;
        let sent = match shared.reserve(bytes, deadline).await {
            Ok(reserved) => plan.send_chunk(range.clone(), reserved, parts).await,
            Err(error) => Err(error),
        };
        if let Err(error) = sent {
            return Err(error.context(stopped_at(topic, first + range.start, total)));
        }
    }
    Ok(())
}

fn refused(topic: &str, error: &EncodeError) -> Error {
    Error::configuration(format!("send_batch to topic {topic}: {error}"))
}

/// What a failure leaves behind; before the first row there is nothing to report.
fn stopped(topic: &str, row: usize, total: usize, error: Error) -> Error {
    if row == 0 { error } else { error.context(stopped_at(topic, row, total)) }
}

fn stopped_at(topic: &str, row: usize, total: usize) -> String {
    format!("send_batch to topic {topic} stopped at row {row} of {total}: the rows before it were queued")
}
