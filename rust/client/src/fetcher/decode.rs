//! Decoding of fetched records into chunks in the queue.

use std::collections::VecDeque;

use bytes::Buf;
use samsarrow_arrow::decode::{DecodeError, DecodeOptions, Decoder, Window};
use samsarrow_arrow::memory_of;
use samsarrow_wire::sync::lock;

use super::chunk_sink::ChunkSink;
use super::partition_records::PartitionRecords;
use super::queue::{CHUNK_BYTES, Chunk, Failed, Item, Segment};
use super::shared_state::Shared;
use crate::config::ConsumerOptions;
use crate::error::Error;
use crate::types::TopicPartition;

/// Returns a decoder that shares the topic dictionary and memory pool with the consumer's other decoders.
pub(super) fn new_decoder(options: &ConsumerOptions, shared: &Shared) -> Decoder {
    Decoder::sharing(decode_options(options), shared.topics.clone(), shared.pool.clone())
}

pub(crate) fn decode_options(options: &ConsumerOptions) -> DecodeOptions {
    DecodeOptions {
        layout: options.layout,
        projection: options.projection,
        include_headers: options.include_headers,
        include_leader_epoch: options.include_leader_epoch,
        include_control: false,
        check_crcs: options.check_crcs,
        max_decompressed_bytes: options.max_decompressed_bytes,
        max_decompressed_ratio: options.max_decompressed_ratio,
        max_bytes: CHUNK_BYTES,
    }
}

/// Decodes records into chunks of the queue until none remain, or until `may_continue` returns false after a chunk. A
/// chunk holds several small partitions or a part of a large partition. Each batch is decompressed only once, however
/// few rows a poll takes, because rows are sliced when they are returned.
pub(super) fn decode(
    decoder: &mut Decoder,
    pending: &mut VecDeque<PartitionRecords>,
    sink: &ChunkSink,
    may_continue: impl Fn() -> bool,
) {
    let mut segments = Vec::new();
    while let Some(part) = pending.front_mut() {
        let (tp, version) = (part.tp.clone(), part.version);
        let was_empty = decoder.rows() == 0;
        let (appended, failure) = {
            let aborted = part.aborted.clone();
            let mut aborted = aborted.as_deref().map(lock);
            let aborted = aborted.as_deref_mut();
            let window = Window { from_offset: part.from, until_offset: None, max_rows: None, aborted };
            match decoder.append(&tp.topic, tp.partition, part.records.clone(), window) {
                Ok(appended) => (appended, None),
                Err(error) => (error.appended, Some(decode_error(&error))),
            }
        };
        // If an error occurs before the first row, `appended.next_offset` is not set, so the segment keeps the offset
        // of the first record to decode.
        let next_offset = appended.next_offset.max(part.from);
        segments.push(Segment {
            tp: tp.clone(),
            version,
            rows: appended.rows,
            next_offset,
            epochs: part.epochs.clone(),
        });
        let too_large = appended.full && was_empty && appended.rows == 0 && appended.consumed == 0;
        let failure = failure.or_else(|| {
            too_large.then(|| {
                Error::corrupt(format!("a record batch of {tp} at offset {next_offset} is too large to decode"))
            })
        });
        let done = !appended.full || failure.is_some();
        if done {
            pending.pop_front();
        } else {
            part.from = next_offset;
            part.records.advance(appended.consumed.min(part.records.len()));
        }
        if appended.full || failure.is_some() || decoder.bytes() >= CHUNK_BYTES {
            flush(decoder, &mut segments, sink);
            if let Some(error) = failure {
                fail_partition(sink, &tp, version, error);
            }
            if !may_continue() {
                return;
            }
        }
    }
    flush(decoder, &mut segments, sink);
}

/// Converts a decoding error, and names the option that raises the exceeded limit.
pub(crate) fn decode_error(error: &DecodeError) -> Error {
    let hint = error.option().map_or(String::new(), |option| format!(" ({option} is the option that allows more)"));
    Error::corrupt(format!("{error}{hint}"))
}

fn flush(decoder: &mut Decoder, segments: &mut Vec<Segment>, sink: &ChunkSink) {
    if segments.is_empty() {
        return;
    }
    let segments = std::mem::take(segments);
    sink.push(match decoder.finish() {
        Ok(batch) => {
            let bytes = memory_of(&batch);
            Item::Chunk(Chunk { batch, segments, bytes })
        }
        Err(error) => Item::Error(Error::corrupt(format!("Arrow rejects the decoded columns: {error}"))),
    });
}

/// Stops fetching the partition until `poll` has raised the error.
fn fail_partition(sink: &ChunkSink, tp: &TopicPartition, version: u64, error: Error) {
    match sink.shared().lock().at_version(tp, version) {
        Some(cursor) => cursor.failed = true,
        None => return,
    }
    sink.push(Item::Failed(Failed { partitions: vec![(tp.clone(), version)], error }));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::queue::Epochs;
    use super::*;
    use arrow_array::{BinaryArray, RecordBatch};
    use samsarrow_arrow::decode::DecodeOptions;
    use samsarrow_arrow::{Columns, EncodeOptions, encode_batches};
    use samsarrow_wire::compression::Codec;

    /// Returns a batch of three records with offsets from `base`.
    fn batch(base: i64) -> Vec<u8> {
        let values: Arc<dyn arrow_array::Array> = Arc::new(BinaryArray::from_iter_values([b"a", b"b", b"c"]));
        let table = RecordBatch::try_from_iter([("value", values)]).unwrap();
        let columns = Columns { value: Some("value".into()), ..Default::default() };
        let options = EncodeOptions { base_offset: base, ..Default::default() };
        encode_batches(&table, &columns, &options).unwrap().to_vec()
    }

    #[test]
    fn the_option_that_would_allow_more_is_named() {
        let values: Arc<dyn arrow_array::Array> = Arc::new(BinaryArray::from_iter_values([[0; 1000]]));
        let table = RecordBatch::try_from_iter([("value", values)]).unwrap();
        let options = EncodeOptions { codec: Codec::Gzip, ..Default::default() };
        let data = encode_batches(&table, &Columns::default(), &options).unwrap();
        let mut decoder = Decoder::new(DecodeOptions { max_decompressed_bytes: 100, ..Default::default() });
        let error = decoder.append(&Arc::from("t"), 0, data.into(), Window::from(0)).unwrap_err();
        let text = decode_error(&error).to_string();
        assert!(text.ends_with("(max.decompressed.bytes is the option that allows more)"), "{text}");
    }

    #[tokio::test]
    async fn what_is_queued_counts_as_the_memory_that_it_takes() {
        let (shared, tp, version) = Shared::at_start(64 << 20);
        let epochs = Epochs::new(-1, &[]);
        let records = PartitionRecords {
            tp,
            version,
            from: 0,
            epochs,
            records: batch(0).into(),
            compressed: false,
            aborted: None,
        };
        decode(&mut Decoder::new(DecodeOptions::default()), &mut [records].into(), &ChunkSink::at_end(&shared), || {
            true
        });
        let queued = shared.lock().queued;
        let rows = shared.poll(100, tokio::time::Instant::now()).await.unwrap().unwrap();
        // The size includes offsets, timestamps and other columns, not only the three bytes of values.
        assert!(queued >= 3 * 30 && queued == memory_of(&rows), "{queued}");
        assert_eq!(shared.lock().queued, 0);
    }

    #[tokio::test]
    async fn a_corrupt_batch_raises_in_its_place_and_can_be_passed() {
        let (shared, tp, version) = Shared::at_start(64 << 20);
        let sink = ChunkSink::at_end(&shared);
        let mut decoder = Decoder::new(DecodeOptions { max_bytes: CHUNK_BYTES, ..Default::default() });
        let mut corrupt = batch(3);
        *corrupt.last_mut().unwrap() ^= 1;
        let data = [batch(0), corrupt, batch(6)].concat();
        let records = |from, records: Vec<u8>, version| PartitionRecords {
            tp: TopicPartition::new("t", 0),
            version,
            from,
            epochs: Epochs::new(-1, &[]),
            compressed: false,
            records: records.into(),
            aborted: None,
        };
        decode(&mut decoder, &mut [records(0, data, version)].into(), &sink, || true);
        let now = tokio::time::Instant::now();
        assert_eq!(shared.poll(100, now).await.unwrap().unwrap().num_rows(), 3);
        let error = shared.poll(100, now).await.unwrap().unwrap_err();
        let text = error.to_string();
        assert!(error.name() == "CorruptRecordError" && text.contains("topic t, partition 0, offset 3"), "{text}");
        // The error is raised once. After that, the batch is fetched again unless the application seeks past it.
        assert!(shared.poll(100, now).await.is_none());
        assert_eq!(shared.positions(), [(tp.clone(), 3, None)]);
        shared.seek(&[(tp.clone(), Some(6), None)]).unwrap();
        let version = shared.lock().cursors[&tp].version;
        decode(&mut decoder, &mut [records(6, batch(6), version)].into(), &sink, || true);
        assert_eq!(shared.poll(100, now).await.unwrap().unwrap().num_rows(), 3);
        assert_eq!(shared.positions(), [(tp, 9, None)]);
    }
}
