//! Decoding of the reader's keys and values, once their writer schemas are known.

use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use samsarrow_client::error::{Error, Result as ClientResult};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Next, Reader};
use crate::column_layout::ColumnLayout;
use crate::dead_letters::{self, Sending};
use crate::failure::{Failure, Result};
use crate::value_decoding::{Decoded, LookupResult};

/// Rows to decode, and the lookup of their writer schemas in the registry.
#[derive(Debug)]
pub(super) struct Undecoded {
    batch: RecordBatch,
    /// True once the lookup was started or turned out to be unnecessary.
    lookup_started: bool,
    lookup: Option<JoinHandle<ClientResult<Vec<LookupResult>>>>,
}

impl From<RecordBatch> for Undecoded {
    fn from(batch: RecordBatch) -> Self {
        Undecoded { batch, lookup_started: false, lookup: None }
    }
}

impl Drop for Undecoded {
    fn drop(&mut self) {
        if let Some(lookup) = &self.lookup {
            lookup.abort();
        }
    }
}

/// Rows that are returned once the bad rows next to them are in the dead letter topic.
#[derive(Debug)]
pub(super) struct Held {
    /// `None` if all rows were bad.
    layout: Option<ColumnLayout>,
    sending: Sending,
}

impl Reader {
    /// Decodes and hands out the pending rows. Waits at most `wait` for a slow registry.
    pub(super) async fn decode(&mut self, wait: Duration) -> Result<Next> {
        let done = match self.held {
            Some(_) => self.hand_out(wait).await,
            None => self.decode_pending(wait).await,
        };
        if let Err(failure) = &done {
            // Stores the error for later calls: the undecoded rows are dropped, and no call may return the rows after
            // them.
            self.bad = Some(failure.clone());
            self.undecoded = None;
        }
        done
    }

    async fn decode_pending(&mut self, wait: Duration) -> Result<Next> {
        let Some(mut rows) = self.undecoded.take() else { return Ok(Next::Nothing) };
        if !rows.lookup_started {
            rows.lookup_started = true;
            if let Some(registry) = self.shared.registry()? {
                rows.lookup = self.decoders.lookup(&rows.batch, registry)?.map(tokio::spawn);
            }
        }
        if let Some(lookup) = &mut rows.lookup {
            let begun = Instant::now();
            let result = timeout(wait, lookup).await;
            self.counters.wait += begun.elapsed();
            // Waiting for the registry counts as progress, because the registry client has its own timeouts.
            self.progress = Instant::now();
            let Ok(answers) = result else {
                self.undecoded = Some(rows);
                return Ok(Next::Nothing);
            };
            rows.lookup = None;
            let closed = |_| Err(Error::closed("the schema registry's client"));
            self.decoders.add_writers(answers.unwrap_or_else(closed)?);
        }
        let begun = Instant::now();
        let Decoded { mut columns, rows: count, error, bad } = self.decoders.decode(&rows.batch, &self.range.tp)?;
        match error {
            Some(error) if count == 0 => return Err(error),
            error => self.bad = error,
        }
        let mut batch = rows.batch.slice(0, count);
        let sending = (!bad.is_empty()).then(|| Sending::start(&self.shared, &batch, &bad)).transpose()?;
        if sending.is_some() {
            (batch, columns) = dead_letters::without(&batch, columns, &bad)?;
        }
        if self.bad.is_none() && count < rows.batch.num_rows() {
            rows.batch = rows.batch.slice(count, rows.batch.num_rows() - count);
            self.undecoded = Some(rows);
        }
        let layout = ColumnLayout::new(&batch, &self.range.columns, &columns, self.range.vectors, &self.range.tp);
        let layout = layout.map_err(|failure| self.with_offsets(failure, &batch))?;
        let Some(sending) = sending else { return Ok(self.finish_batch(layout, begun)) };
        self.counters.decode += begun.elapsed();
        self.held = Some(Held { layout: (layout.rows() > 0).then_some(layout), sending });
        self.hand_out(wait).await
    }

    /// Waits at most `wait` for the acknowledgement of the bad rows, and hands out the other rows.
    async fn hand_out(&mut self, wait: Duration) -> Result<Next> {
        let Some(mut held) = self.held.take() else { return Ok(Next::Nothing) };
        let begun = Instant::now();
        let sent = timeout(wait, held.sending.wait()).await;
        self.counters.wait += begun.elapsed();
        // Waiting for the dead letter topic counts as progress, because the producer has its own timeouts.
        self.progress = Instant::now();
        let Ok(sent) = sent else {
            self.held = Some(held);
            return Ok(Next::Nothing);
        };
        sent?;
        Ok(held.layout.map_or(Next::Nothing, |layout| self.finish_batch(layout, Instant::now())))
    }

    /// Adds the first and last offset of the batch to the error of an invalid key or value.
    fn with_offsets(&self, failure: Failure, batch: &RecordBatch) -> Failure {
        let offsets = batch.column_by_name("offset").and_then(|column| column.as_primitive_opt::<Int64Type>());
        match offsets.map(|offsets| offsets.values()).map(|offsets| (offsets.first(), offsets.last())) {
            Some((Some(first), Some(last))) if failure.kind == "bad_value" => {
                let text = format!("{}. It is in {}, in offsets {first} to {last}.", failure.text, self.range.tp);
                Failure { text, ..failure }
            }
            _ => failure,
        }
    }
}
