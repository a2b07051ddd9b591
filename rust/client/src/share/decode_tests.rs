//! Tests of decoding acquired records.

use std::collections::BTreeMap;

use arrow_array::BinaryArray;
use samsarrow_arrow::layout::Layout;
use samsarrow_arrow::{Columns, EncodeOptions, encode_batches};
use samsarrow_wire::compression::Codec;

use super::*;

fn decoder(layout: Layout, max_bytes: usize) -> ShareDecoder {
    let options = DecodeOptions { layout, max_bytes, ..Default::default() };
    let schema = schema_of(&options);
    ShareDecoder::new(Decoder::new(options), schema)
}

/// Returns a batch with `count` records from offset `base`. Each value is its offset.
fn batch(base: i64, count: i64, codec: Codec) -> Vec<u8> {
    let values = (base..base + count).map(|offset| offset.to_string().into_bytes());
    let values: Arc<dyn Array> = Arc::new(BinaryArray::from_iter_values(values));
    let table = RecordBatch::try_from_iter([("value", values)]).unwrap();
    let columns = Columns { value: Some("value".into()), ..Default::default() };
    encode_batches(&table, &columns, &EncodeOptions { base_offset: base, codec, ..Default::default() })
        .unwrap()
        .to_vec()
}

fn range(first_offset: i64, last_offset: i64, delivery_count: i16) -> AcquiredRecords {
    AcquiredRecords { first_offset, last_offset, delivery_count, ..Default::default() }
}

fn fetched(partition: i32, records: Vec<u8>, acquired: Vec<AcquiredRecords>) -> Fetched {
    Fetched { tp: TopicPartition::new("t", partition), records: records.into(), acquired }
}

/// Returns offset, value and delivery count of each row.
fn rows(response: &DecodedResponse) -> Vec<(i64, i64, i16)> {
    let mut rows = Vec::new();
    for chunk in &response.chunks {
        assert_eq!(chunk.segments.iter().map(|segment| segment.rows).sum::<usize>(), chunk.batch.num_rows());
        let offsets = chunk.offsets().unwrap();
        let counts = chunk.batch["delivery_count"].as_any().downcast_ref::<Int16Array>().unwrap().clone();
        let values = arrow_array::cast::AsArray::as_binary::<i32>(&chunk.batch["value"]).clone();
        for row in 0..chunk.batch.num_rows() {
            let value = std::str::from_utf8(values.value(row)).unwrap().parse().unwrap();
            rows.push((offsets.value(row), value, counts.value(row)));
        }
    }
    rows
}

fn states(response: &DecodedResponse, partition: usize) -> BTreeMap<i64, RowState> {
    let ranges = &response.partitions[partition].ranges;
    ranges.iter().flat_map(|range| (range.first..).zip(range.states.iter().copied())).collect()
}

#[test]
fn rows_are_the_acquired_records() {
    for seed in 0..600 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut data, mut existing, mut next) = (Vec::new(), Vec::new(), random.i64(0..50));
        for _ in 0..random.usize(1..5) {
            let count = random.i64(1..40);
            let codec = *random.choice([Codec::None, Codec::Lz4, Codec::Zstd].iter()).unwrap();
            data.extend(batch(next, count, codec));
            existing.extend(next..next + count);
            // Gaps between batches stand for compacted batches.
            next += count + if random.bool() { 0 } else { random.i64(0..9) };
        }
        let (first, last) = (existing[0], *existing.last().unwrap());
        let (mut acquired, mut at) = (Vec::new(), first);
        while at <= last {
            let end = (at + random.i64(0..20)).min(last);
            if random.u8(0..3) > 0 {
                acquired.push(range(at, end, random.i16(1..6)));
            }
            at = end + 1;
        }
        let expected: Vec<_> = existing
            .iter()
            .filter_map(|offset| {
                let range = acquired.iter().find(|r| (r.first_offset..=r.last_offset).contains(offset))?;
                Some((*offset, *offset, range.delivery_count))
            })
            .collect();
        let max_bytes = if random.bool() { CHUNK_BYTES } else { random.usize(60..600) };
        let response = decoder(Layout::Binary, max_bytes).decode(vec![fetched(0, data, acquired)]);
        assert_eq!(rows(&response), expected, "seed {seed}");
        for (offset, state) in states(&response, 0) {
            let exists = existing.contains(&offset);
            assert_eq!(state, if exists { RowState::Queued } else { RowState::Gap }, "seed {seed}, offset {offset}");
        }
        assert!(response.partitions[0].errors.is_empty());
    }
}

#[test]
fn a_corrupt_batch_is_rejected_and_the_next_one_decoded() {
    let mut corrupt = batch(3, 3, Codec::None);
    *corrupt.last_mut().unwrap() ^= 1;
    let data = [batch(0, 3, Codec::None), corrupt, batch(6, 3, Codec::None)].concat();
    let response = decoder(Layout::Binary, CHUNK_BYTES).decode(vec![fetched(0, data, vec![range(1, 8, 1)])]);
    assert_eq!(rows(&response).iter().map(|row| row.0).collect::<Vec<_>>(), [1, 2, 6, 7, 8]);
    let rejected: Vec<_> =
        states(&response, 0).into_iter().filter(|(_, state)| *state == RowState::Reject).map(|(at, _)| at).collect();
    assert_eq!(rejected, [3, 4, 5]);
    let text = response.partitions[0].errors[0].to_string();
    assert!(text.contains("topic t, partition 0, offset 3"), "{text}");
}

#[test]
fn records_that_cannot_be_decompressed_are_released() {
    let mut options = DecodeOptions { max_decompressed_bytes: 10, ..Default::default() };
    options.max_bytes = CHUNK_BYTES;
    let mut decoder = ShareDecoder::new(Decoder::new(options), schema_of(&DecodeOptions::default()));
    let data = [batch(0, 50, Codec::Zstd), batch(50, 1, Codec::None)].concat();
    let response = decoder.decode(vec![fetched(0, data, vec![range(0, 50, 1)])]);
    assert_eq!(rows(&response), [(50, 50, 1)]);
    let released = states(&response, 0).into_values().filter(|state| *state == RowState::Release).count();
    assert_eq!(released, 50);
}

#[test]
fn offsets_after_the_received_records_are_released() {
    let mut data = batch(0, 2, Codec::None);
    data.extend(&batch(2, 2, Codec::None)[..20]);
    let response = decoder(Layout::Binary, CHUNK_BYTES).decode(vec![fetched(0, data, vec![range(0, 3, 1)])]);
    assert_eq!(rows(&response), [(0, 0, 1), (1, 1, 1)]);
    let states: Vec<_> = states(&response, 0).into_values().collect();
    assert_eq!(states, [RowState::Queued, RowState::Queued, RowState::Release, RowState::Release]);
}

#[test]
fn invalid_ranges_are_an_error_and_the_others_are_released() {
    for (invalid, valid) in [
        (vec![range(0, i64::MAX, 1)], 0),
        (vec![range(5, 4, 1)], 0),
        (vec![range(-1, 4, 1)], 0),
        (vec![range(0, 4, 1), range(4, 5, 1)], 5),
        (vec![range(0, 1 << 23, 1)], 0),
        (vec![range(0, 1, 1), range(2, 1 << 22, 1)], 2),
    ] {
        let parts = vec![
            fetched(0, batch(0, 3, Codec::None), invalid),
            fetched(1, batch(0, 3, Codec::None), vec![range(0, 2, 1)]),
        ];
        let response = decoder(Layout::Binary, CHUNK_BYTES).decode(parts);
        assert_eq!(response.partitions[0].errors[0].name(), "CorruptRecordError");
        assert_eq!(states(&response, 0).into_values().collect::<Vec<_>>(), vec![RowState::Release; valid]);
        assert_eq!(rows(&response).len(), 3, "other partitions are not affected");
        assert!(response.partitions[1].errors.is_empty());
    }
}

#[test]
fn columns_that_cannot_be_built_return_to_the_group() {
    let mut decoder = decoder(Layout::Binary, CHUNK_BYTES);
    decoder.schema = Arc::new(Schema::empty());
    let parts = vec![
        fetched(0, batch(0, 3, Codec::None), vec![range(0, 1, 1)]),
        fetched(1, batch(5, 3, Codec::None), vec![range(5, 7, 1)]),
    ];
    let response = decoder.decode(parts);
    assert!(response.is_broken && response.chunks.is_empty());
    for partition in [0, 1] {
        assert!(states(&response, partition).into_values().all(|state| state == RowState::Release));
    }
    assert_eq!(response.partitions.iter().map(|partition| partition.errors.len()).sum::<usize>(), 1);
}

#[test]
fn a_response_that_is_not_decoded_returns_to_the_group() {
    let acquired = vec![(TopicPartition::new("t", 0), vec![range(7, 9, 1), range(2, 3, 2)])];
    let response = DecodedResponse::released(acquired, &Error::corrupt("panic".to_owned()));
    let offsets: Vec<_> = states(&response, 0).into_iter().collect();
    assert_eq!(offsets, [2, 3, 7, 8, 9].map(|offset| (offset, RowState::Release)));
    assert_eq!(response.partitions[0].errors.len(), 1);
}

#[test]
fn partitions_share_a_chunk() {
    let parts = vec![
        fetched(0, batch(0, 3, Codec::Lz4), vec![range(0, 1, 2)]),
        fetched(1, batch(7, 2, Codec::None), vec![range(7, 8, 1)]),
    ];
    let response = decoder(Layout::View, CHUNK_BYTES).decode(parts);
    assert_eq!(response.chunks.len(), 1);
    let segments: Vec<_> = response.chunks[0].segments.iter().map(|s| (s.tp.partition, s.rows)).collect();
    assert_eq!(segments, [(0, 2), (1, 2)]);
}
