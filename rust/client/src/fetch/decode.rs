//! From the bytes of an answer to chunks in the queue.

use samsarrow_arrow::decode::{DecodeOptions, Decoder, Window};
use samsarrow_wire::batch::AbortedTransactions;

use super::queue::{Chunk, Item, Segment};
use super::request::Part;
use super::state::Shared;
use crate::config::ConsumerOptions;
use crate::error::Error;

/// Records of a chunk: beyond this, decoded columns leave the cache before they are used.
const CHUNK_BYTES: usize = 1 << 20;

/// A decoder for chunks.
pub(super) fn decoder(options: &ConsumerOptions) -> Decoder {
    Decoder::new(decode_options(options))
}

/// The same options as the user sees them.
pub(crate) fn decode_options(options: &ConsumerOptions) -> DecodeOptions {
    DecodeOptions {
        layout: options.layout,
        include_headers: options.include_headers,
        include_leader_epoch: options.include_leader_epoch,
        include_control: false,
        check_crcs: options.check_crcs,
        max_decompressed_bytes: options.max_decompressed_bytes,
        max_bytes: CHUNK_BYTES,
    }
}

/// Decodes all parts of an answer into the queue, small partitions together, large ones in several chunks.
pub(super) fn decode(decoder: &mut Decoder, parts: Vec<Part>, max_rows: usize, shared: &Shared) {
    let mut segments = Vec::new();
    for part in parts {
        let Part { asked, records, aborted } = part;
        let mut aborted = aborted.map(AbortedTransactions::new);
        let mut data = records;
        let mut from = asked.offset;
        loop {
            let room = max_rows.saturating_sub(decoder.rows());
            let window = Window {
                from_offset: from,
                until_offset: None,
                max_rows: Some(room.max(1)),
                aborted: aborted.as_mut(),
            };
            let fresh = decoder.rows() == 0;
            let (appended, failure) = match decoder.append(&asked.tp.topic, asked.tp.partition, data.clone(), window) {
                Ok(appended) => (appended, None),
                Err(error) => (error.appended, Some(Error::corrupt(error.to_string()))),
            };
            // An error that appended nothing tells no offset either.
            let next_offset = appended.next_offset.max(from);
            segments.push(Segment { tp: asked.tp.clone(), version: asked.version, rows: appended.rows, next_offset });
            from = next_offset;
            let stuck = appended.full && fresh && appended.rows == 0 && appended.consumed == 0;
            let failure = failure.or_else(|| {
                stuck.then(|| {
                    Error::corrupt(format!("a record batch of {} at offset {from} is too large to decode", asked.tp))
                })
            });
            let more = (appended.full || appended.row_limit) && failure.is_none();
            if more || failure.is_some() || decoder.bytes() >= CHUNK_BYTES {
                flush(decoder, &mut segments, shared);
            }
            if let Some(error) = failure {
                fail(shared, &asked.tp, asked.version, error);
                break;
            }
            if !more {
                break;
            }
            data = data.slice(appended.consumed.min(data.len())..);
        }
    }
    flush(decoder, &mut segments, shared);
}

fn flush(decoder: &mut Decoder, segments: &mut Vec<Segment>, shared: &Shared) {
    if segments.is_empty() {
        return;
    }
    let bytes = decoder.bytes();
    match decoder.finish() {
        Ok(batch) => {
            let chunk = Chunk { batch, segments: std::mem::take(segments), bytes };
            let mut state = shared.lock();
            state.queued += bytes;
            state.queue.push_back(Item::Chunk(chunk));
        }
        Err(error) => {
            segments.clear();
            shared
                .lock()
                .queue
                .push_back(Item::Error(Error::corrupt(format!("Arrow refuses the decoded columns: {error}"))));
        }
    }
    shared.ring_ready();
}

/// The partition stops until the error was raised.
fn fail(shared: &Shared, tp: &crate::types::TopicPartition, version: u64, error: Error) {
    {
        let mut state = shared.lock();
        let Some(cursor) = state.at_version(tp, version) else { return };
        cursor.failed = true;
        state.queue.push_back(Item::PartitionError(tp.clone(), version, error));
    }
    shared.ring_ready();
}
