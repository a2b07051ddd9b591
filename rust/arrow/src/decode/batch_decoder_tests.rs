//! Tests of how often batches are decompressed.

use super::*;
use crate::layout::binary::BinaryColumn;
use crate::layout::view::ViewColumn;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use samsarrow_wire::batch::encode::{Append, BatchBuilder, BatchOptions};
use samsarrow_wire::compression::Compressor;

/// Returns two batches of 10,000 records each; offsets start at 0.
fn batches_of_ten_thousand() -> Bytes {
    let mut data = Vec::new();
    let mut zstd = Compressor::new(Codec::Zstd, None).unwrap();
    for base_offset in [0, 10_000] {
        let mut builder =
            BatchBuilder::new(BatchOptions { base_offset, max_bytes: 1 << 20, ..BatchOptions::default() });
        for number in 0..10_000 {
            let value = format!("value {}", base_offset + number);
            let added = builder.append(7, None, Some(value.as_bytes()), std::iter::empty());
            assert!(matches!(added, Ok(Append::Added(_))));
        }
        data.extend(builder.finish(&mut zstd).unwrap());
    }
    data.into()
}

/// Decodes all data, and finishes an Arrow batch each time the decoder stops. Returns the number of rows in each Arrow
/// batch and the number of decompressions.
fn read<C: ValueColumn>(max_rows: Option<usize>, max_bytes: usize) -> (Vec<usize>, usize) {
    let options = DecodeOptions { layout: C::LAYOUT, max_bytes, ..DecodeOptions::default() };
    let schema = options.schema();
    let mut decoder = BatchDecoder::<C>::new(options, Topics::default(), Pool::default());
    let (mut data, mut from_offset, mut rows) = (batches_of_ten_thousand(), 0, Vec::new());
    loop {
        let window = Window { max_rows, ..Window::from(from_offset) };
        let appended = decoder.append(None, &data, window).unwrap();
        let batch = decoder.finish(&schema).unwrap();
        let offsets = batch["offset"].as_primitive::<Int64Type>();
        assert!(offsets.values().iter().copied().eq(from_offset..appended.next_offset));
        rows.push(batch.num_rows());
        if !appended.row_limit && !appended.full {
            return (rows, decoder.decompressor.decompressions);
        }
        data = data.slice(appended.consumed..);
        from_offset = appended.next_offset;
    }
}

fn decompresses_once<C: ValueColumn>() {
    assert_eq!(read::<C>(None, usize::MAX), (vec![20_000], 2));
    // The number of decompressions is the same with at most 100 rows per call.
    assert_eq!(read::<C>(Some(100), usize::MAX), (vec![100; 200], 2));
    let (rows, decompressions) = read::<C>(Some(1_500), usize::MAX);
    assert_eq!((rows.iter().sum::<usize>(), decompressions), (20_000, 2));
    // The second batch does not fit after the first. With the larger limit, the decoder detects this after
    // decompression; with the smaller limit, it detects this from the header.
    for max_bytes in [200_000, 1000] {
        assert_eq!(read::<C>(None, max_bytes), (vec![10_000; 2], 2), "{max_bytes}");
    }
}

#[test]
fn partial_reads_decompress_a_batch_once() {
    decompresses_once::<BinaryColumn>();
    decompresses_once::<ViewColumn>();
}

#[test]
fn full_columns_do_not_decompress_the_next_batch() {
    let data = batches_of_ten_thousand();
    let options = DecodeOptions { max_bytes: 1000, ..DecodeOptions::default() };
    let mut decoder = BatchDecoder::<BinaryColumn>::new(options, Topics::default(), Pool::default());
    let appended = decoder.append(None, &data, Window::from(0)).unwrap();
    assert!(appended.full && appended.rows == 10_000);
    assert_eq!((decoder.decompressor.decompressions, decoder.decompressor.kept.is_some()), (1, false));
}

#[test]
fn header_only_rows_are_not_decompressed() {
    let options = DecodeOptions { projection: crate::Projection::NONE, ..DecodeOptions::default() };
    let mut decoder = BatchDecoder::<BinaryColumn>::new(options, Topics::default(), Pool::default());
    let window = Window { until_offset: Some(15_000), ..Window::from(5_000) };
    let appended = decoder.append(None, &batches_of_ten_thousand(), window).unwrap();
    assert_eq!((appended.rows, appended.next_offset, decoder.decompressor.decompressions), (10_000, 15_000, 0));
}
