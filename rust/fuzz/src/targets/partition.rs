//! Bytes of a partition, decoded in several ways that must have equal results.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use bytes::Bytes;
use samsarrow_arrow::{AbortedTransaction, AbortedTransactions, DecodeOptions, Decoder, Layout, Projection, Window};
use samsarrow_wire::batch::{Batch, RawRecord, RecordVisitor, batches, walk};

use super::{MAX_DECOMPRESSED, broken};

/// Flags: 1 verifies checksums, 2 includes control records, 4 skips aborted transactions, 8 also decodes in small
/// steps, 16 omits headers, 32 omits leader epochs, 64 selects views for the small steps.
pub(super) fn decode(input: &[u8]) {
    let Some((&flags, data)) = input.split_first() else { return };
    let data = Bytes::copy_from_slice(data);
    let options = |layout| DecodeOptions {
        layout,
        include_headers: flags & 16 == 0,
        include_leader_epoch: flags & 32 == 0,
        include_control: flags & 2 != 0,
        check_crcs: flags & 1 != 0,
        max_decompressed_bytes: MAX_DECOMPRESSED,
        max_decompressed_ratio: 0,
        ..DecodeOptions::default()
    };
    let aborted = || {
        let list = (0..4).map(|id| AbortedTransaction { producer_id: id, first_offset: 3 * id });
        (flags & 4 != 0).then(|| AbortedTransactions::new(list))
    };
    let all = |layout| at_once(options(layout), &data, aborted().as_mut());
    let (binary, view) = (all(Layout::Binary), all(Layout::View));
    assert_same(&binary, &view);
    counted(options(Layout::Binary), &data, aborted().as_mut(), &binary);
    if flags & 8 != 0 {
        let layout = if flags & 64 == 0 { Layout::Binary } else { Layout::View };
        let step = DecodeOptions { max_bytes: 1 + usize::from(flags >> 4) * 20, ..options(layout) };
        let (rows, failed) = in_steps(step, &data, aborted().as_mut());
        let (at_once, error) = &binary;
        // If offsets decrease, continuing from an offset skips records, so only progress is checked. Steps may return
        // some records of a batch before a malformed record.
        let same = if error.is_some() { failed && rows >= at_once.num_rows() } else { rows == at_once.num_rows() };
        if !same && ascending(&options(Layout::Binary), &data) {
            broken(&format!("{rows} rows in steps (failed: {failed}), at once {} ({error:?})", at_once.num_rows()));
        }
    }
}

/// Counts records using batch headers only. The result must be the number of rows in `decoded`, or at least this number
/// if a batch is malformed.
fn counted(
    options: DecodeOptions,
    data: &Bytes,
    aborted: Option<&mut AbortedTransactions>,
    decoded: &(RecordBatch, Option<String>),
) {
    let headers = batches(data.clone()).map_while(Result::ok).map(|batch| batch.header);
    let promised: usize = headers.map(|header| usize::try_from(header.record_count).unwrap_or_default()).sum();
    // The record counts of compressed batches may be arbitrary, and each row needs memory.
    if promised > data.len() / 4 {
        return;
    }
    let (rows, error) = at_once(DecodeOptions { projection: Projection::NONE, ..options }, data, aborted);
    let (counted_rows, decoded_rows) = (rows.num_rows(), decoded.0.num_rows());
    let same = if decoded.1.is_some() {
        counted_rows >= decoded_rows
    } else {
        counted_rows == decoded_rows && error.is_none()
    };
    if !same {
        broken(&format!("{counted_rows} rows are counted ({error:?}), {decoded_rows} are there ({:?})", decoded.1));
    }
}

/// Returns true if offsets ascend and are within the ranges of the batch headers.
fn ascending(options: &DecodeOptions, data: &Bytes) -> bool {
    let mut next = i64::MIN;
    for batch in batches(data.clone()).map_while(Result::ok) {
        let (rows, error) = at_once(options.clone(), batch.bytes(), None);
        if error.is_some() && !records_ascend(&batch) {
            return false;
        }
        let Some(offsets) = rows.column_by_name("offset").map(|column| column.as_primitive::<Int64Type>()) else {
            return false;
        };
        // A wrapper's header only contains the last offset.
        let first = if batch.header.is_wrapper() { i64::MIN } else { batch.header.base_offset };
        for offset in offsets.values() {
            if *offset < next.max(first) || *offset > batch.header.last_offset() {
                return false;
            }
            next = offset + 1;
        }
        if batch.header.base_offset < next && rows.num_rows() == 0 {
            return false;
        }
        next = batch.header.next_offset();
    }
    true
}

/// Returns true if the offsets in a malformed batch ascend up to the invalid record. Returns false for compressed
/// batches and old formats, which are not parsed.
fn records_ascend(batch: &Batch) -> bool {
    struct Last(Option<i32>);
    impl RecordVisitor for Last {
        fn record(&mut self, _: &[u8], record: &RawRecord) -> std::ops::ControlFlow<()> {
            if self.0.is_some_and(|last| record.offset_delta <= last) {
                return std::ops::ControlFlow::Break(());
            }
            self.0 = Some(record.offset_delta);
            std::ops::ControlFlow::Continue(())
        }
    }
    // If the visitor returns `Break`, `walk` does not fail.
    batch.header.codec_id() == 0
        && batch.header.magic == 2
        && walk(&batch.payload(), batch.header.record_count, &mut Last(None)).is_err()
}

/// Decodes all data in one call. Returns the rows before the first invalid batch, and the error of this batch.
pub(super) fn at_once(
    options: DecodeOptions,
    data: &Bytes,
    aborted: Option<&mut AbortedTransactions>,
) -> (RecordBatch, Option<String>) {
    let mut decoder = Decoder::new(options);
    let window = Window { from_offset: i64::MIN, until_offset: None, max_rows: None, aborted };
    let result = decoder.append(&Arc::from("t"), 0, data.clone(), window);
    let error = match result {
        Ok(appended) => {
            assert!(!appended.full && !appended.row_limit && !appended.reached_until);
            assert!(appended.consumed <= data.len());
            assert!(appended.truncated_tail || appended.consumed == data.len());
            assert_eq!(appended.rows, decoder.rows());
            None
        }
        Err(error) => Some(error.to_string()),
    };
    let rows = decoder.rows();
    let Ok(batch) = decoder.finish() else { broken("Arrow rejects the columns") };
    assert_eq!(batch.num_rows(), rows);
    for column in batch.columns() {
        if let Err(error) = column.to_data().validate_full() {
            broken(&format!("an invalid column: {error}"));
        }
    }
    (batch, error)
}

/// Decodes a few rows at a time, as a fetcher does, and checks that each step makes progress. Returns the number of
/// rows, and true if an error occurred.
fn in_steps(options: DecodeOptions, data: &Bytes, mut aborted: Option<&mut AbortedTransactions>) -> (usize, bool) {
    let mut decoder = Decoder::new(options);
    let topic = Arc::from("t");
    let (mut rest, mut from, mut rows) = (data.clone(), i64::MIN, 0);
    loop {
        let window =
            Window { from_offset: from, until_offset: None, max_rows: Some(3), aborted: aborted.as_deref_mut() };
        let (appended, failed) = match decoder.append(&topic, 0, rest.clone(), window) {
            Ok(appended) => (appended, false),
            Err(error) => (error.appended, true),
        };
        rows += appended.rows;
        let _ = decoder.finish();
        if failed || !(appended.full || appended.row_limit) {
            return (rows, failed);
        }
        assert!(appended.consumed > 0 || appended.next_offset > from, "a step without progress: {appended:?}");
        from = appended.next_offset;
        rest = rest.slice(appended.consumed..);
    }
}

/// Checks that both layouts result in the same values and errors.
fn assert_same((binary, one): &(RecordBatch, Option<String>), (view, other): &(RecordBatch, Option<String>)) {
    assert_eq!(one, other, "errors of both layouts");
    assert_eq!(binary.num_rows(), view.num_rows());
    for (a, b) in binary.columns().iter().zip(view.columns()) {
        match (a.as_binary_opt::<i32>(), b.as_binary_view_opt()) {
            (Some(a), Some(b)) => assert!(a.iter().eq(b.iter()), "values of both layouts"),
            _ => assert_eq!(a, b),
        }
    }
}
