//! Splits a batch in two after the broker has rejected it as too large.

use std::ops::ControlFlow;

use bytes::Bytes;
use samsarrow_wire::batch::{self, BatchBuilder, BatchOptions, RawRecord, RecordVisitor};
use samsarrow_wire::compression::{Codec, Decompressor};

use super::batch::{Batch, Payload};
use crate::error::{Error, Result};

/// Maximum uncompressed size of the client's own batches.
const MAX_UNCOMPRESSED: usize = 1 << 30;

/// Splits an encoded batch of at least two records into two halves, in order.
pub(crate) fn halve(batch: Batch) -> std::result::Result<Vec<Batch>, Box<(Batch, Error)>> {
    let Payload::Encoded(bytes) = &batch.payload else {
        return Err(Box::new((batch, Error::configuration("only a batch that was sent can be split"))));
    };
    let (first, second) = match rebuild(bytes.clone(), batch.count / 2) {
        Ok(halves) => halves,
        Err(error) => return Err(Box::new((batch, error))),
    };
    let cut = batch.count / 2;
    let numbered = batch.numbered;
    let tail = Batch {
        order: batch.order + u64::from(cut),
        state: std::sync::Arc::clone(&batch.state),
        first: batch.first + cut,
        count: batch.count - cut,
        payload: Payload::Draft(Box::new(second)),
        numbered: numbered.map(|(identity, sequence)| (identity, super::batch::advance(sequence, cut))),
        cause: batch.cause.clone(),
        reserved: batch.reserved - batch.reserved / 2,
        ..batch
    };
    let head = Batch {
        count: cut,
        payload: Payload::Draft(Box::new(first)),
        reserved: batch.reserved / 2,
        state: std::sync::Arc::clone(&tail.state),
        cause: batch.cause,
        ..tail
    };
    // `..tail` has copied the order of the tail.
    let head = Batch { order: batch.order, first: batch.first, numbered, ..head };
    Ok(vec![head, tail])
}

fn rebuild(bytes: Bytes, cut: u32) -> Result<(BatchBuilder, BatchBuilder)> {
    let broken = |what: String| Error::configuration(format!("cannot split a batch that is too large: {what}"));
    let batch = match batch::batches(bytes).next() {
        Some(Ok(batch)) => batch,
        Some(Err(error)) => return Err(broken(error.to_string())),
        None => return Err(broken("it is incomplete".to_owned())),
    };
    let codec = Codec::from_attributes(batch.header.attributes).map_err(|error| broken(error.to_string()))?;
    let mut records = batch.payload();
    if codec != Codec::None {
        let mut plain = Vec::new();
        Decompressor::new()
            .decompress(codec, &records, &mut plain, MAX_UNCOMPRESSED)
            .map_err(|error| broken(error.to_string()))?;
        records = Bytes::from(plain);
    }
    let options = BatchOptions { max_bytes: usize::MAX, ..BatchOptions::default() };
    let mut halver = Halver {
        base_timestamp: batch.header.base_timestamp,
        remaining: cut,
        first: BatchBuilder::new(options),
        second: BatchBuilder::new(options),
        failure: None,
    };
    batch::walk(&records, batch.header.record_count, &mut halver).map_err(|error| broken(error.to_string()))?;
    match halver.failure {
        Some(failure) => Err(broken(failure)),
        None => Ok((halver.first, halver.second)),
    }
}

struct Halver {
    base_timestamp: i64,
    remaining: u32,
    first: BatchBuilder,
    second: BatchBuilder,
    failure: Option<String>,
}

impl RecordVisitor for Halver {
    fn record(&mut self, data: &[u8], record: &RawRecord) -> ControlFlow<()> {
        let builder = if self.remaining > 0 { &mut self.first } else { &mut self.second };
        self.remaining = self.remaining.saturating_sub(1);
        let timestamp = self.base_timestamp.wrapping_add(record.timestamp_delta);
        match builder.append(timestamp, record.key(data), record.value(data), record.headers(data)) {
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => {
                self.failure = Some(error.to_string());
                ControlFlow::Break(())
            }
        }
    }
}
